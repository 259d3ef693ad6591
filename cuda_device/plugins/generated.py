"""Functions for `compile` from code that a program generates: the source text of a module, or a code object.

device.compile("def f(x): return 2 * x", float32, output="llvm")
function_of("def f(x): return 2 * x")      the `@func`, whose lines appear in messages
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

from cuda_device import CompileError, Func, Kernel, func
from cuda_device.extend import Location, sha256


def function_of(source: CodeType | str, globals: Mapping[str, Any] | None = None) -> Kernel | Func:
    """The function of a code object, or the last function of a text."""
    if isinstance(source, str):
        return _last_function(source, globals or {})
    if source.co_freevars:
        raise TypeError(f"{source.co_name} captures {', '.join(source.co_freevars)}: pass them as globals")
    return func(FunctionType(source, dict(globals or {})))


def _last_function(text: str, globals: Mapping[str, Any]) -> Kernel | Func:
    """The last function that a module defines; it is a `@func` unless the text decorates it."""
    file = f"<generated {sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    try:
        code = compile(text, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = Location(file, error.lineno or 1)
        raise CompileError(
            f"the text is not valid Python: {error.msg}", where, "correct the code that generates it"
        ) from None
    except (RecursionError, MemoryError):  # CPython's parser raises either of them
        raise CompileError(
            "the text has an expression that is nested too deeply for Python's parser",
            help="use an array, or variables for the parts",
        ) from None
    names = dict(globals)
    exec(code, names)
    defined = [value for name, value in names.items() if value is not globals.get(name)]
    functions = [value for value in defined if isinstance(value, (Kernel, Func, FunctionType))]
    if not functions:
        raise TypeError("the text defines no function")
    last = functions[-1]
    return func(last) if isinstance(last, FunctionType) else last
