"""What machine code needs to know of a process: the words, and how calls of `launch` get there.

On a Python that lets a function's call be replaced (3.12 and up), a call of `launch` runs machine code, which goes on to the
function itself where it gives up. On others `launch` asks machine code first.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from cuda_device.codegen.cpu import machine_code
from cuda_device.device.functions import Kernel
from cuda_device.launchers import entry, launch_size, object_reading
from cuda_device.launchers.guard_writer import PYTHON, SHARED, declarations, symbol_of
from cuda_device.launchers.memory_layout import RECORDS, TABLE, Word, getter_of
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.runtime.gpu import driver, launch_log
from cuda_device.runtime.gpu.streams import GpuStream, captured

# The machine code that all launchers share, and what a process has to tell it.
#
# It is compiled once for a machine, and comes from the cache on disk after that.


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


# What machine code needs to know of a process: the words, and how calls of `launch` get there.


_CUDA_STREAM = "cuda_stream"
_OBJECTS = {
    Word.NONE: None,
    Word.TRUE: True,
    Word.FALSE: False,
    Word.INT: int,
    Word.FLOAT: float,
    Word.STR: str,
    Word.TUPLE: tuple,
    Word.BYTES: bytes,
    Word.KERNEL: Kernel,
    Word.GPU_STREAM: GpuStream,
    Word.GRID: "grid",
    Word.BLOCK: "block",
    Word.STREAM: "stream",
    Word.SHARED: "shared",
    Word.CUDA_STREAM: "__cuda_stream__",
    Word.DEVICE_INDEX: "device_index",
    Word.DEVICE_ID: "device_id",
    Word.DTYPE: "dtype",
    Word.DATA: "data",
    Word.PTR: "ptr",
    Word.SHAPE: "shape",
    Word.STRIDES: "strides",
    Word.CUDA_STREAM_OF_TORCH: _CUDA_STREAM,
    Word.POP: "pop",
    Word.APPEND: "append",
    Word.CAPTURED: captured,
}
"""Objects whose addresses machine code compares, or hands to Python. This table keeps them alive."""

_DRIVER = {
    Word.LAUNCH_KERNEL: "cuLaunchKernel",
    Word.GET_CONTEXT: "cuCtxGetCurrent",
    Word.CAPTURE_STATE: "cuStreamIsCapturing",
    Word.CONTEXT_OF_STREAM: "cuStreamGetCtx",
    Word.CREATE_EVENT: "cuEventCreate",
    Word.DESTROY_EVENT: "cuEventDestroy",
    Word.RECORD_EVENT: "cuEventRecord",
    Word.WAIT_EVENT: "cuStreamWaitEvent",
}
_FASTCALL_WITH_KEYWORDS = 0x0080 | 0x0002

_vector_call_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyVectorcall_Function", ctypes.pythonapi))


def set_words(support: Support) -> None:
    """Fills in the words that have nothing to do with a driver, but for those of `hook`."""
    for word, obj in _OBJECTS.items():
        support.words[word] = id(obj)


def set_driver(support: Support) -> None:
    """Fills in the words of the driver."""
    for word, name in _DRIVER.items():
        support.words[word] = driver.entry_point(name)
    support.words[Word.RING] = ctypes.addressof(launch_log.RING)
    support.words[Word.SEVERAL_DEVICES] = driver.device_count() > 1


def learn_torch(support: Support) -> None:
    """Tells machine code of torch's streams, if torch has been imported by now."""
    torch = sys.modules.get("torch")
    kind = getattr(getattr(torch, "cuda", None), "Stream", None)
    # A type that was compiled into an address must not die.
    if isinstance(kind, type) and not support.words[Word.TORCH_STREAM]:
        _kept.append(kind)
        getter = getter_of(kind, _CUDA_STREAM)
        support.words[Word.STREAM_FUNCTION] = getter.function if getter else 0
        support.words[Word.STREAM_CLOSURE] = getter.closure if getter else 0
        support.words[Word.STREAM_VERSION] = getter.version if getter else _NO_VERSION
        support.words[Word.TORCH_STREAM] = id(kind)


_kept: list[object] = []
_NO_VERSION = 0xFFFFFFFF  # that no type has


def clear_driver(support: Support) -> None:
    """Makes machine code give up at once: the driver is another one now."""
    for word in _DRIVER:
        support.words[word] = 0


def hook(support: Support, function: Callable[..., Any], word: Word, in_place: str) -> bool:
    """Lets calls of a Python function run the machine code `in_place` first. False where this Python cannot do that."""
    if not hasattr(ctypes.pythonapi, "PyFunction_SetVectorcall"):
        return False
    if not support.words[word]:
        support.words[word] = _vector_call_of(function)
        replace = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)(
            ("PyFunction_SetVectorcall", ctypes.pythonapi)
        )
        replace(function, support.address(in_place))
    return True


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_definitions: list[_MethodDefinition] = []


def method(support: Support, name: str) -> Callable[..., bool]:
    """A built-in function made of machine code. Python looks at its definition as long as the process lives."""
    definition = _MethodDefinition(name.encode(), support.address(name), _FASTCALL_WITH_KEYWORDS, None)
    _definitions.append(definition)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    made: Callable[..., bool] = make(ctypes.addressof(definition), None, None)
    return made
