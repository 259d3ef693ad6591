"""The C functions that the machine code of launches calls: Python's, and any function by its address.

    c_api.PyList_Append(events, number)      a function of Python's C interface; addresses are int64
    c_api.call_2(function, event, stream)    the function of two words at an address

The functions are declared when they are first named. Device Python for the host calls them, and `text` compiles it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from cuda_device.plugins.launchers.memory_layout import Word

PYTHON = {
    "PyBuffer_Release": "void i64",
    "PyCell_Get": "i64 i64",  # new
    "PyDict_GetItemWithError": "i64 i64 i64",
    "PyErr_Clear": "void",
    "PyErr_Occurred": "i64",
    "PyEval_RestoreThread": "void i64",
    "PyEval_SaveThread": "i64",
    "PyList_Append": "i32 i64 i64",
    "PyLong_AsLongLongAndOverflow": "i64 i64 i64",
    "PyLong_AsUnsignedLongLong": "i64 i64",
    "PyObject_CallOneArg": "i64 i64 i64",  # new
    "PyObject_GetAttr": "i64 i64 i64",  # new
    "PyObject_GetBuffer": "i32 i64 i64 i32",
    "PyObject_RichCompareBool": "i32 i64 i64 i32",
    "PyObject_Size": "i64 i64",
    "PyObject_Vectorcall": "i64 i64 i64 i64 i64",  # new
    "PyObject_VectorcallMethod": "i64 i64 i64 i64 i64",  # new
    "PyTuple_New": "i64 i64",  # new
    "PyTuple_SetItem": "i32 i64 i64 i64",  # takes the reference
    "PyType_IsSubtype": "i32 i64 i64",
    "Py_DecRef": "void i64",
    "Py_IncRef": "void i64",
}
"""Functions of Python's C interface: the types of the result and of the parameters. The caller releases new references."""

# Numbers of 32 bits in registers are passed as words: the functions ignore the higher bits.
_BY_ADDRESS = {
    "call_1": "i32 i64 i64",
    "call_2": "i32 i64 i64 i64",
    "call_3": "i32 i64 i64 i64 i64",
    "call_4": "i32 i64 i64 i64 i64 i64",
    "call_6": "i32 i64 i64 i64 i64 i64 i64 i64",
    "call_launch": "i32 i64 i64 i32 i32 i32 i32 i32 i32 i32 i64 i64 i64",
    "call_vector": "i64 i64 i64 i64 i64 i64",
}
"""Functions that call the one at the address in their first argument with the other arguments."""

TABLE = "launcher_words"
"""The function that returns the address of the table of words."""

_FUNCTIONS = {**PYTHON, **_BY_ADDRESS, TABLE: "i64"}


def _stub(a, b, c, d, e, f, g, h, i, j, k, l): ...  # type: ignore[no-untyped-def]  # noqa: E741


def __getattr__(name: str) -> Any:
    """Declares a function of the tables."""
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from numpy import int32, int64

    from cuda_device import extern

    hints = {"void": None, "i32": int32, "i64": int64}
    result, *types = (hints[word] for word in _FUNCTIONS[name].split())
    stub = FunctionType(_stub.__code__.replace(co_argcount=len(types)), {}, name)
    stub.__annotations__ = dict(zip(_stub.__code__.co_varnames, types, strict=False)) | {"return": result}
    globals()[name] = extern(symbol=name)(stub)
    return globals()[name]


def python_functions() -> dict[str, int]:
    """The addresses of Python's functions."""
    return {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in PYTHON}


_TABLE_TEXT = f"""\
@{TABLE}.memory = internal global [{len(Word)} x i64] zeroinitializer
define i64 @{TABLE}() alwaysinline nounwind {{
  ret i64 ptrtoint (ptr @{TABLE}.memory to i64)
}}
"""
_DECLARED = re.compile(rf"^declare (\w+) @({'|'.join(_BY_ADDRESS)})\(i64, (.*)\) .*\n", re.M)
_DEFINED = re.compile(r"^(define internal .*@device\.(\w+?)(?:_\d+)?\(.*\) nounwind)(.*) \{$", re.M)


def entry_text(function: Any, name: str, rare: Sequence[Any], hot: Sequence[Any]) -> str:
    """LLVM IR of a function of four words, which gets the name `name`, and of the table of words.

    Functions without loops and `hot` ones are inlined, except `rare` ones, which would slow down the usual path of their callers.
    """
    from cuda_device.cpu import host_code
    from cuda_device.extend import model

    cold, inlined = ({function.__name__ for function in functions} for functions in (rare, hot))

    def attributes(head: re.Match[str]) -> str:
        if head[2] in cold:
            return f"{head[1]} noinline cold {{"
        return f"{head[1]} {'noinline' if 'noinline' in head[3] and head[2] not in inlined else 'alwaysinline'} {{"

    written = host_code.function_text(function, (model.INT64,) * 4, name).replace(
        f"declare i64 @{TABLE}() nobuiltin\n", ""
    )
    return _TABLE_TEXT + _DECLARED.sub(_definition, _DEFINED.sub(attributes, written))


def _definition(declared: re.Match[str]) -> str:
    """The definition of a function that calls another one by its address."""
    result, name, types = declared.groups()
    operands = ", ".join(f"{type} %a{i}" for i, type in enumerate(types.split(", ")))
    return (
        f"define internal {result} @{name}(i64 %function, {operands}) alwaysinline nounwind {{\n"
        f"  %pointer = inttoptr i64 %function to ptr\n"
        f"  %result = call {result} %pointer({operands})\n"
        f"  ret {result} %result\n}}\n"
    )
