"""What pytest made of `assert`, undone: a program should say the same wherever it runs.

In the modules that it imports, pytest puts code in the place of each `assert` that builds a message of its own:

    assert n < 3, "too large"     →     if not @py_assert1: … raise AssertionError(@pytest_ar._format_explanation(…))

The source text is compiled once with pytest's changes, to see that it is the text that the code was made of, and once without.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

_MARK = "@pytest_ar"


def original(code: CodeType) -> CodeType:
    """The code without pytest's changes; the code itself if there are none, or if its source text cannot be had."""
    if not any(_MARK in part.co_names for part in _parts(code)):
        return code
    return _originals(code.co_filename, "".join(linecache.getlines(code.co_filename))).get(code, code)


def _parts(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


@lru_cache(maxsize=8)
def _originals(file: str, text: str) -> dict[CodeType, CodeType]:
    """Each function of a module as pytest has it, and as it was written."""
    rewrite = getattr(sys.modules.get("_pytest.assertion.rewrite"), "rewrite_asserts", None)
    if rewrite is None:
        return {}
    try:
        changed = ast.parse(text, file)
        rewrite(changed, text.encode(), file, None)
        theirs, plain = (compile(tree, file, "exec", dont_inherit=True) for tree in (changed, ast.parse(text, file)))
    except Exception:  # the inside of pytest is pytest's: without it the messages are poorer
        return {}
    found = {_place(part): part for part in _parts(plain)}
    return {part: found[_place(part)] for part in _parts(theirs) if _place(part) in found}


def _place(code: CodeType) -> tuple[str, int, tuple[str, ...]]:
    return code.co_qualname, code.co_firstlineno, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
