"""What machine code and Python both look at: the words that a process fills in once, and the records of launches.

A word is an address (of an object, a type, a function of the driver), which machine code that comes from the cache cannot know.
Records are the same for both: `Record` gives LLVM's type, `pack` the bytes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sysconfig
from enum import IntEnum

import numpy as np

from cuda_device.codegen.cpu_records import Record


class Word(IntEnum):
    """The places in the table of words."""

    # Objects
    NONE = 0
    TRUE = 1
    FALSE = 2
    # Types
    INT = 3
    FLOAT = 4
    STR = 5
    TUPLE = 6
    BYTES = 7
    CELL = 8
    DICT = 9
    KERNEL = 10
    PREPARED = 11
    GPU_STREAM = 12
    OWN_ARRAY = 13
    # Names
    NATIVE = 14
    WORDS = 15
    GRID = 16
    BLOCK = 17
    STREAM = 18
    SHARED = 19
    CUDA_STREAM = 20
    DEVICE_INDEX = 21
    DEVICE_ID = 22
    DTYPE = 23
    DATA = 24
    PTR = 25
    SHAPE = 26
    STRIDES = 27
    # Functions of the driver
    LAUNCH_KERNEL = 28
    GET_CONTEXT = 29
    IS_CAPTURING = 30
    CONTEXT_OF_STREAM = 31
    # The rest
    RING = 32
    LAUNCH = 33
    START = 34
    TORCH_STREAM = 35
    CUDA_STREAM_OF_TORCH = 36
    SEVERAL_DEVICES = 37
    # For streams on the CPU
    CPU_STREAM = 38
    TARGET = 39
    RACES = 40
    DEFAULT_TARGET = 41
    NO_GPU = 42


TABLE = "known"
"""The name of the table."""

LAUNCH = Record(
    "%Launch",
    (
        ("stream", "i64"),
        ("context", "i64"),
        ("device", "i64"),
        ("grid.x", "i32"),
        ("grid.y", "i32"),
        ("grid.z", "i32"),
        ("block.x", "i32"),
        ("block.y", "i32"),
        ("block.z", "i32"),
        ("shared", "i32"),
        ("threads", "i32"),
    ),
)
"""Where and how large. `device` is the number that a foreign stream says it is on, or -1.

On the CPU `stream` is 0, and `context` is the address of the name of the target.
"""

RECORD_BYTES = 8 * len(LAUNCH.fields)
"""The room for the record of a launch, which takes less."""

START = Record(
    "%Start",
    (
        ("kernel", "i64"),
        ("context", "i64"),
        ("device", "i64"),
        ("status", "ptr"),
        ("names", "ptr"),
        ("count", "i64"),
        ("most.threads", "i64"),
        ("most.shared", "i64"),
        ("name", "i64"),
    ),
)
"""A compiled kernel that is loaded in a context. `status` leads to what tells of reports; `names` are the names that it read.

On the CPU `kernel` is the address of a Python function that runs it.
"""

NAME = Record("%Name", (("kind", "i64"), ("owner", "ptr"), ("name", "ptr"), ("value", "ptr")))
"""A name that the kernel read, and what it meant: null is a name that nobody had."""


class Owner(IntEnum):
    """What a name is looked up in."""

    NAMESPACE = 0
    CELL = 1
    OBJECT = 2


CALL = Record(
    "%Call",
    (
        ("function", "ptr"),
        ("code", "ptr"),
        ("defaults", "ptr"),
        ("positional", "i64"),
        ("parameters", "i64"),
        ("names", "ptr"),
        ("values", "ptr"),
        ("plans", "i64"),
        ("plan", "ptr"),
    ),
)
"""How a kernel is called: its parameters' names, the values of those that have some, and its launchers."""

PLAN = Record("%Plan", (("function", "ptr"), ("state", "ptr")))
"""A launcher of one signature, and the memory that it keeps between launches."""

PREPARED = Record("%Prepared", (("start", "ptr"), ("launch", "ptr"), ("parameters", "ptr")))

STREAM = Record("%Stream", (("handle", "i64"), ("context", "i64")))
"""The bytes of one of our streams."""

RECORDS = (LAUNCH, START, NAME, CALL, PLAN, PREPARED, STREAM)

OWN_ARRAY = ("data", "stream", "context", "element")
"""The words in front of the shape in the bytes of one of our arrays."""

MOST_PARAMETERS = 64
MOST_PLANS = 8

_CODES = {"i64": "q", "ptr": "Q", "i32": "i"}


def pack(record: Record, **values: int) -> bytes:
    """The bytes of a record."""
    format = "@" + "".join(_CODES[type] for _, type in record.fields)
    return struct.pack(format, *(values[name.replace(".", "_")] for name, _ in record.fields))


def buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Memory with these bytes that machine code may write."""
    return ctypes.create_string_buffer(data, max(len(data), 1))


class NumpyArray(ctypes.Structure):
    """An array of NumPy, as its C interface shows it to extension modules."""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("kind", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


NUMPY_WRITEABLE = 0x400


@functools.cache
def knows_numpy() -> bool:
    """Whether NumPy's arrays lie as machine code takes them to."""
    sample = np.zeros((4, 6), np.int16).T[1:]
    sample.flags.writeable = False
    seen = NumpyArray.from_address(id(sample))
    axes = ctypes.c_int64 * sample.ndim
    return (
        (seen.kind, seen.data, seen.ndim) == (id(np.ndarray), sample.ctypes.data, 2)
        and tuple(axes.from_address(seen.shape)) == sample.shape
        and tuple(axes.from_address(seen.strides)) == sample.strides
        and (seen.base, seen.dtype, seen.flags) == (id(sample.base), id(sample.dtype), sample.flags.num)
    )


def is_usable() -> bool:
    """Whether this Python's objects lie as machine code takes them to: a type at the second word, and a global lock."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    samples = (0, "text", b"", (), None, int, object())
    return all(ctypes.c_uint64.from_address(id(sample) + 8).value == id(type(sample)) for sample in samples)
