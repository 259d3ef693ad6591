"""The machine code that all launchers share, and what a process has to tell it.

It is compiled once for a machine, and comes from the cache on disk after that.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from cuda_device.codegen.cpu import machine_code
from cuda_device.launchers import entry, launch_size, object_reading
from cuda_device.launchers.c_functions import PYTHON, SHARED, declarations, symbol_of
from cuda_device.launchers.memory_layout import RECORDS, TABLE, Word
from cuda_device.lazy_dataclasses import dataclass

WAYS_IN = ("launch_in_place", "launch_method")
_TABLE = "table"


def text() -> str:
    """The module."""
    types = "".join(record.declaration() for record in RECORDS)
    table = f"@{symbol_of(TABLE)} = internal global [{8 * len(Word)} x i8] zeroinitializer, align 8\n"
    getter = f"define ptr @{symbol_of(_TABLE)}() {{\n  ret ptr @{symbol_of(TABLE)}\n}}\n"
    copy = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
    functions = "".join(make().text() for make in (*object_reading.ALL, *launch_size.ALL, *entry.ALL))
    return types + table + declarations() + copy + functions + getter


@dataclass(frozen=True)
class Support:
    """The shared code in this process: the addresses of its functions, by symbol, and the table of words."""

    addresses: dict[str, int]
    words: ctypes.Array[ctypes.c_uint64]

    def address(self, name: str) -> int:
        """Where one of our functions is."""
        return self.addresses[symbol_of(name)]


@functools.cache
def support() -> Support:
    """The shared code, compiled or from the cache. The words are zero as yet."""
    exports = [symbol_of(name) for name in (*SHARED, *WAYS_IN, _TABLE)]
    written = text()
    addresses = machine_code.shared(written, lambda: written, exports, python_functions(), level=1)
    table: Any = ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses[symbol_of(_TABLE)])()
    return Support(addresses, (ctypes.c_uint64 * len(Word)).from_address(table))


@functools.cache
def python_functions() -> dict[str, int]:
    """The addresses of Python's functions."""
    return {name: address_of(getattr(ctypes.pythonapi, name)) for name in PYTHON}


def address_of(function: Any) -> int:
    """The address of a C function that ctypes knows."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
