"""HTML with which notebooks display kernels and compiled objects. Every text is escaped.

table(["saxpy", ""], [("registers", 16)])        a heading, and a row
folded("ptx", text(code))                        a line that opens
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; an empty heading is omitted."""
    head = "".join(f"<th style='text-align: left'>{escape(name)}</th>" for name in heading)
    body = (
        "".join(f"<td style='text-align: left'>{escape(str(cell))}</td>" for cell in row).join(("<tr>", "</tr>"))
        for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if any(heading) else ''}{''.join(body)}</table>"


def folded(title: str, body: str) -> str:
    """Returns a title that shows the body when it is clicked."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def text(code: str) -> str:
    """Returns preformatted text."""
    return f"<pre>{escape(code)}</pre>"
