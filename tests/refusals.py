"""Programs that cannot be compiled, one mistake each, and what a person is told: the message stands under the line that is wrong.

    === item_of_uint8: uint8[1]; int
        x[0] = x[1][0]
    #          ^^^^^^^ uint8 cannot be indexed in device code
    # help: index an array, a tuple or a vector

Such texts are on pages of golden texts. Behind the name are the types of the arguments, separated by semicolons, if they are not
`float32[1]; int`; `float32[1]` is an array of one axis. What is indented is the body of the kernel `k(x, n)`; statements of the
module may stand above it, with an empty line between. A text that defines `k` is a whole program. What is called `prelude` stands
above all programs of its page. `device`, `math` and `np` are there. To add a program, write it on a page and run
`pytest --update-golden`, which writes the message.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import golden_pages

from cuda_device.errors import CompileError

TYPES = "float32[1]; int"
PRELUDE = "prelude"
_HEADER = ["@device.kernel", "def k(x, n):"]
_NOTE = "#"  # begins each line of a message
_GUTTER = 9  # the width of the line's number before a line of source in a message


class Refused(NamedTuple):
    """A program that is refused. `lines` are those of its text, without the message, and `numbers` theirs in the source."""

    page: str
    head: str
    types: str
    source: str
    lines: list[str]
    numbers: list[int]


def programs(page: str) -> dict[str, Refused]:
    """The programs of a page by their names."""
    texts = golden_pages.read(page)
    prelude = texts.pop(PRELUDE, "").splitlines()
    return {
        head.partition(":")[0]: _program(page, head, texts[head], prelude)
        for head in texts
        if not re.search(r" \(\d\.\d+\)$", head)  # the text of one release of Python
    }


def _program(page: str, head: str, text: str, prelude: list[str]) -> Refused:
    lines = [line for line in text.splitlines() if not line.startswith(_NOTE)]
    header: list[str] = []
    body = len(lines)
    if not re.search(r"^(k =|(async )?def k\b)", "\n".join(lines), re.M):
        header = _HEADER
        body = _body(lines)
    source = [*prelude, *lines[:body], *header, *lines[body:]]
    first = len(prelude) + 1
    numbers = [first + number + len(header) * (number >= body) for number in range(len(lines))]
    types = head.partition(": ")[2] or TYPES
    return Refused(page, head, types, "".join(f"{line}\n" for line in source), lines, numbers)


def _body(lines: list[str]) -> int:
    """Where the body of the kernel begins: with what is indented behind the last empty line, or else with the first such line."""
    behind = len(lines) - lines[::-1].index("") if "" in lines else 0
    begins = behind if all(line.startswith("    ") for line in lines[behind:]) else 0
    return next(number for number, line in enumerate(lines) if number >= begins and line.startswith("    "))


def text_of(program: Refused, error: CompileError, whole: bool) -> str:
    """The program with the message of its error; `whole` with what the message says of `k` itself, too."""
    text = list(program.lines)
    at = program.numbers.index(error.location.line) + 1 if error.location.line in program.numbers else len(text)
    notes = _notes(str(error).splitlines(), whole or error.location.function != "k")
    if error.location.line not in program.numbers:  # in the prelude
        line = program.source.splitlines()[error.location.line - 1]
        notes.insert(0, _NOTE + (line[1:] if line.startswith(" ") else f" {line}"))
    text[at:at] = notes
    return "".join(f"{line}\n" for line in text)


def _notes(message: list[str], whole: bool) -> list[str]:
    """The lines of a message without its line of source: the reason behind the carets, the calls, what helps."""
    reason, place, _, *rest = message
    marks = rest.pop(0)[_GUTTER + 1 :] if set(rest[0].strip()) == {"^"} else ""
    if not whole and not any("called from" in line for line in rest):
        place, rest = "", rest[-1:]
    return [f"{_NOTE}{marks} {reason}", *(_NOTE + line[1:] for line in (place, *rest) if line)]
