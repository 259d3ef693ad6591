"""Undoes pytest's rewriting of `assert` in device code.

In the modules that pytest imports, it replaces each `assert` by code that builds a message:

    assert n < 3, "too large"     →     if not @py_assert1: … raise AssertionError(@pytest_ar._format_explanation(…))

The source text is compiled with pytest's changes, to check that it is the source of the code, and without.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType


def original(code: CodeType) -> CodeType:
    """Returns the code without pytest's changes, or the code itself if there is no source text."""
    rewrite = getattr(sys.modules.get("_pytest.assertion.rewrite"), "rewrite_asserts", None)
    if rewrite is None:
        return code
    return _originals(rewrite, code.co_filename, "".join(linecache.getlines(code.co_filename))).get(code, code)


def _parts(code: CodeType) -> Iterator[CodeType]:
    """The code and that of its nested functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


@lru_cache(maxsize=8)
def _originals(rewrite: Callable[..., object], file: str, text: str) -> dict[CodeType, CodeType]:
    """The original code of each function of a module, by the code that pytest compiled."""
    try:
        changed = ast.parse(text, file)
        rewrite(changed, text.encode(), file, None)
        theirs, plain = (compile(tree, file, "exec", dont_inherit=True) for tree in (changed, ast.parse(text, file)))
    except Exception:  # the interface is private to pytest; without it, only the messages suffer
        return {}
    originals = {_identity(part): part for part in _parts(plain)}
    return {part: originals[_identity(part)] for part in _parts(theirs) if _identity(part) in originals}


def _identity(code: CodeType) -> tuple[str, int, tuple[str, ...]]:
    return code.co_qualname, code.co_firstlineno, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
