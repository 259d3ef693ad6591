"""Partial golden texts, as LLVM's FileCheck has them: the lines that matter are named beside the program, the rest may change.

    @device.kernel
    def scale(x):
        '''
        PTX-LABEL: .entry scale(
        PTX:       ld.global.b32
        PTX-NEXT:  mul.rn.f32 {{.*}}, 0f40000000
        PTX-NOT:   f64
        PTX:       st.global
        '''

    check(text, scale, "PTX")

`PREFIX:` finds the next line that has the text, anywhere in it; `-NEXT` wants it in the line just after the last match;
`-NOT` wants it in no line between the matches around it (to the end, if no match follows); `-COUNT-n` is `PREFIX:` n
times; `-LABEL` is `PREFIX:`, but starts again from the first line. Blanks match any blanks; `{{…}}` is a regular
expression; `[[NAME:…]]` is one that is remembered, and `[[NAME]]` what it was.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

_PART = re.compile(r"\{\{(.*?)\}\}|\[\[(\w+):(.*?)\]\]|\[\[(\w+)\]\]|(\s+)|(.[^\s\[{]*)")


def check(text: str, program: Callable[..., object] | str, prefix: str) -> None:
    """Fails, with the text, unless it is as the checks with `prefix` in the docstring of `program` (or in a string) say."""
    checks = program if isinstance(program, str) else inspect.getdoc(program) or ""
    lines, names = text.splitlines(), {}
    after = 0  # the line behind the last match
    forbidden: list[str] = []
    found = 0
    for kind, wanted in _directives(checks, prefix):
        found += 1
        if kind == "NOT":
            forbidden.append(wanted)
            continue
        start = 0 if kind == "LABEL" else after
        stop = start + 1 if kind == "NEXT" else len(lines)
        at = next((i for i in range(start, stop) if _match(wanted, lines[i], names, keep=True)), None)
        assert at is not None, _failure(f"{prefix}-{kind}: {wanted} is not found", lines, start)
        _refuse(forbidden, lines, after, at, names, prefix)
        forbidden, after = [], at + 1
    _refuse(forbidden, lines, after, len(lines), names, prefix)
    assert found, f"there is no check with the prefix {prefix}"


def _directives(checks: str, prefix: str) -> list[tuple[str, str]]:
    found = []
    for line in checks.splitlines():
        match = re.fullmatch(rf"\s*#?\s*{prefix}(?:-(NEXT|NOT|LABEL|COUNT-(\d+)))?:\s*(.*?)\s*", line)
        if match:
            kind, count, wanted = match.groups()
            found += [("" if count else kind or "", wanted)] * int(count or 1)
        elif re.match(rf"\s*#?\s*{prefix}-", line):
            raise ValueError(f"not a check: {line.strip()}")
    return found


def _match(wanted: str, line: str, names: dict[str, str], keep: bool = False) -> bool:
    pattern = ""
    for expression, name, named, known, blanks, plain in _PART.findall(wanted):
        if known and known not in names:
            raise ValueError(f"{wanted}: nothing is called {known} yet")
        pattern += f"(?:{expression})" * bool(expression) + (f"(?P<{name}>{named})" if name else "")
        pattern += re.escape(names.get(known, "") + plain) + r"\s+" * bool(blanks)
    match = re.search(pattern, line)
    if match and keep:
        names.update(match.groupdict())
    return bool(match)


def _refuse(forbidden: list[str], lines: list[str], start: int, stop: int, names: dict[str, str], prefix: str) -> None:
    for wanted in forbidden:
        for i in range(start, stop):
            assert not _match(wanted, lines[i], names), _failure(f"{prefix}-NOT: {wanted} is there", lines, i)


def _failure(message: str, lines: list[str], at: int) -> str:
    shown = [f"{'>' if i == at else ' '} {line}" for i, line in enumerate(lines)]
    return "\n".join([message, *shown])
