"""The C functions that the machine code of launches calls: Python's, and any function by its address.

    PyList_Append(lists, item)              a function of Python's C interface, with addresses as int64
    call_2(function, event, stream)         the function at an address
    known()[Word.TUPLE]                     the table of words

`entry` and the modules below it are device Python for the host (`cpu/host_code`). `text` is their LLVM IR.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from numpy import int32, int64, uint32

from cuda_device.cpu import host_code
from cuda_device.device.functions import extern
from cuda_device.device.memory import array_at
from cuda_device.plugins.launchers.memory_layout import Word
from cuda_device.types.model import INT64

TABLE = "launcher_words"
"""The function that returns the address of the table of words."""


def _stub(a, b, c, d, e, f, g, h, i, j, k, l): ...  # type: ignore[no-untyped-def]  # noqa: E741


def _function(symbol: str, result: Any, *types: Any) -> Any:
    """Declares the C function `symbol`."""
    code = _stub.__code__.replace(co_argcount=len(types), co_name=symbol, co_qualname=symbol)
    stub = FunctionType(code, {}, symbol)
    stub.__annotations__ = dict(zip(code.co_varnames, types, strict=False)) | {"return": result}
    return extern(symbol=symbol)(stub)


def _by_address(name: str, result: Any, *types: Any) -> Any:
    """Declares a function that calls the one at the address in its first argument with the others."""
    return _function(f"launcher_call_{name}", result, int64, *types)


table = _function(TABLE, int64)

# Functions of Python return the address of a new reference, which the caller releases, except those marked as borrowed.

PyBuffer_Release = _function("PyBuffer_Release", None, int64)
PyCell_Get = _function("PyCell_Get", int64, int64)
PyDict_GetItemWithError = _function("PyDict_GetItemWithError", int64, int64, int64)  # borrowed
PyErr_Clear = _function("PyErr_Clear", None)
PyErr_Occurred = _function("PyErr_Occurred", int64)  # borrowed
PyEval_RestoreThread = _function("PyEval_RestoreThread", None, int64)
PyEval_SaveThread = _function("PyEval_SaveThread", int64)
PyList_Append = _function("PyList_Append", int32, int64, int64)
PyLong_AsLongLongAndOverflow = _function("PyLong_AsLongLongAndOverflow", int64, int64, int64)
PyLong_AsUnsignedLongLong = _function("PyLong_AsUnsignedLongLong", int64, int64)
PyObject_CallOneArg = _function("PyObject_CallOneArg", int64, int64, int64)
PyObject_GetAttr = _function("PyObject_GetAttr", int64, int64, int64)
PyObject_GetBuffer = _function("PyObject_GetBuffer", int32, int64, int64, int32)
PyObject_RichCompareBool = _function("PyObject_RichCompareBool", int32, int64, int64, int32)
PyObject_Size = _function("PyObject_Size", int64, int64)
PyObject_Vectorcall = _function("PyObject_Vectorcall", int64, int64, int64, int64, int64)
PyObject_VectorcallMethod = _function("PyObject_VectorcallMethod", int64, int64, int64, int64, int64)
PyTuple_New = _function("PyTuple_New", int64, int64)
PyTuple_SetItem = _function("PyTuple_SetItem", int32, int64, int64, int64)  # takes the reference to the item
PyType_IsSubtype = _function("PyType_IsSubtype", int32, int64, int64)
Py_DecRef = _function("Py_DecRef", None, int64)
Py_IncRef = _function("Py_IncRef", None, int64)

# Numbers of 32 bits in registers are passed as int64: the functions ignore the higher bits.
call_1, call_2, call_3, call_6 = (_by_address(f"{n}", int32, *[int64] * n) for n in (1, 2, 3, 6))
call_launch = _by_address("launch", int32, int64, *[uint32] * 7, int64, int64, int64)
call_vector = _by_address("vector", int64, *[int64] * 4)


def words(address: Any) -> Any:
    """The words at an address."""
    return array_at(int64, int64(address))


def known() -> Any:
    """The table of words."""
    return words(table())


_TABLE_TEXT = f"""\
@{TABLE}.memory = internal global [{len(Word)} x i64] zeroinitializer
define i64 @{TABLE}() alwaysinline nounwind {{
  ret i64 ptrtoint (ptr @{TABLE}.memory to i64)
}}
"""
_BY_ADDRESS = re.compile(r"^declare (\w+) @(launcher_call_\w+)\(i64, (.*)\) .*\n", re.M)


def text(function: Any, name: str, rare: Sequence[Any]) -> str:
    """LLVM IR of a function of four words, which gets the name `name`, and of `table`.

    `rare` functions are kept out of their callers, whose usual path they would slow down.
    """
    written = host_code.text(function, (INT64,) * 4, name)
    names = "|".join(each.__name__ for each in rare)
    written = re.sub(rf"^(define internal .*@device\.(?:{names})(?:_\d+)?\(.*\) nounwind).*?( \{{)$", r"\1 noinline cold\2", written, flags=re.M)
    return _TABLE_TEXT + _BY_ADDRESS.sub(_definition, written.replace(f"declare i64 @{TABLE}() nobuiltin\n", ""))


def _definition(declared: re.Match[str]) -> str:
    """The definition of a function that calls another one by its address."""
    result, name, types = declared.groups()
    operands = [f"{type} %a{i}" for i, type in enumerate(types.split(", "))]
    return (
        f"define internal {result} @{name}({', '.join(('i64 %function', *operands))}) alwaysinline nounwind {{\n"
        f"  %pointer = inttoptr i64 %function to ptr\n"
        f"  %result = call {result} %pointer({', '.join(operands)})\n"
        f"  ret {result} %result\n}}\n"
    )


def python_functions() -> dict[str, int]:
    """The addresses of Python's functions."""
    names = (name for name in globals() if name.startswith("Py"))
    return {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names}
