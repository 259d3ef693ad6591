"""What machine code knows of memory: the records that it shares with Python, and the layout of Python's objects.

The table of words holds addresses of objects, types and driver functions of this process, which cached machine code cannot
contain. `Record` describes a record to LLVM, and `pack` returns its bytes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sysconfig
from enum import IntEnum
from functools import partial
from types import MemberDescriptorType
from typing import Any

from cuda_device.cpu.records import Record

Word = IntEnum(
    "Word",
    "NONE FALSE TRUE CAPTURED "  # objects
    "INT FLOAT STR TUPLE BYTES KERNEL GPU_STREAM DEVICE_ARRAY "  # types
    "GRID BLOCK STREAM SHARED CUDA_STREAM DEVICE_INDEX DEVICE_ID PTR POP APPEND "  # names
    "LAUNCH_KERNEL GET_CONTEXT CAPTURE_STATE CAPTURE_INFO CONTEXT_OF_STREAM "  # functions of the driver
    "CREATE_EVENT DESTROY_EVENT RECORD_EVENT WAIT_EVENT "
    "COMPARE_BYTES "  # a function of C
    "LAUNCH RING STREAM_TYPES STREAM_OF_LAUNCH STREAM_OF_CUPY SEVERAL_DEVICES",
    start=0,
)
"""The indices in the table of words."""

TABLE = "known"
"""The name of the table in LLVM IR."""

MOST_PRODUCERS = 8
"""The number of other streams with which machine code can order a launch."""

LAUNCH = Record(
    "%Launch",
    (
        ("stream", "i64"),
        ("context", "i64"),
        ("device", "i64"),
        ("ordered", "i64"),
        ("capturing", "i64"),
        ("only_checked", "i64"),
        ("retained", "i64"),
        ("pending", "ptr"),
        ("values", "ptr"),
        ("count", "i64"),
        ("producers", "i64"),
        ("producer", f"[{MOST_PRODUCERS} x i64]"),
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
"""A launch: its stream and sizes.

`device` is the device number of a framework's stream, or -1. `producer` lists the other streams on which its arrays are
produced; an `ordered` launch is ordered with them. The queue `pending` keeps the arguments (`count` objects at `values`) of a
launch that is not ordered, or `retained`. `capturing` is set if the stream is being captured, `only_checked` if the launch is
not to be made.
"""

LAUNCH_BYTES = 8 * (len(LAUNCH.fields) + MOST_PRODUCERS)
"""An upper bound of the size of the record of a launch."""

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
        ("events", "ptr"),
    ),
)
"""A compiled kernel that is loaded in a context.

`status` points to the address of the word that is not 0 after a report, `names` to the names that the compiler looked up;
`events` is the list of the context's spare events.
"""

NAME = Record("%Name", (("kind", "i64"), ("owner", "ptr"), ("name", "ptr"), ("value", "ptr"), ("version", "i64")))
"""A name that the compiler looked up, and its value; null if there was no such name.

`version` is the version of a namespace in which machine code has found this value, at first 0, which no namespace has.
"""


class Owner(IntEnum):
    """The kinds of objects in which names are looked up.

    Two kinds of rows check contents: the bytes at the address `owner`, as many as the number `name`, equal those at the address
    `value`, or a call of `owner` returns `value`.
    """

    NAMESPACE = 0
    CELL = 1
    OBJECT = 2
    BYTES = 3
    CALL = 4


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
"""A kernel: the names and default values of its parameters, and its launchers."""

PREPARED = Record(
    "%Prepared",
    (("parameters", "i64"), ("positional", "i64"), ("names", "ptr"), ("values", "ptr"), ("keywords", "ptr")),
)
"""A prepared launch: the names of its kernel's parameters, and the arguments of a call of `launch`.

The latter are the kernel, the values of its parameters, and the values of `keywords`.
"""

PLAN = Record("%Plan", (("function", "ptr"), ("state", "ptr")))
"""A launcher and its memory, which it keeps between launches."""

STREAM = Record("%Stream", (("handle", "i64"), ("context", "i64"), ("ordered", "i64")))
"""The bytes of one of our streams."""

STREAM_TYPE = Record("%StreamType", (("type", "ptr"), ("name", "ptr"), ("open", "i64")))
"""A framework's type of streams, whose handle never changes while the stream is open.

The attribute `name` is the handle; if `name` is null, `__cuda_stream__` returns it. `open` is the offset of a word that becomes 0
when the stream is closed.
"""

MOST_STREAM_TYPES = 4

SEEN_STREAM = Record("%SeenStream", (("object", "ptr"), ("handle", "i64"), ("device", "i64"), ("open", "ptr")))
"""The last stream of a framework: a reference or null, its handle and device, and the address of the word at `open`."""

RECORDS = (LAUNCH, START, NAME, CALL, PREPARED, PLAN, STREAM, STREAM_TYPE, SEEN_STREAM)

OWN_ARRAY = ("data", "stream", "context", "element")
"""The words before the shape in `DeviceArray._words`."""

MOST_PARAMETERS = 64
MOST_PLANS = 8

_CODES = {"i64": "q", "ptr": "Q", "i32": "i"}


def pack(record: Record, **values: int) -> bytes:
    """The bytes of a record."""
    format = "@" + "".join(_CODES[type] for _, type in record.fields)
    return struct.pack(format, *(values[name.replace(".", "_")] for name, _ in record.fields))


def buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Makes memory with these bytes, which machine code may write."""
    return ctypes.create_string_buffer(data, max(len(data), 1))


_DEFINITION = 40  # the offset of the address of the PyMemberDef in a descriptor
_OFFSET = 16  # the offset of `offset` in a PyMemberDef

TYPE, SIZE, LISTED = 8, 16, 24
"""The offsets of the type in an object, of the length in a tuple, list or bytes object, and of the address of a list's items."""

ITEMS, OCTETS = tuple.__basicsize__, bytes.__basicsize__ - 1
"""The offsets of the items of a tuple, and of the bytes of a bytes object (whose basic size counts a final zero)."""


VERSION = 24
"""The offset of the version of a dict, which Python 3.14 no longer has."""

DIGIT = int.__basicsize__
"""The offset of the only digit of an int from 1 to 2**30 - 1, whose word at `SIZE` is one of `ONE_DIGIT`."""


def is_usable() -> bool:
    """Whether the objects of this Python have the layout that machine code expects, and there is a global lock."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    samples = (0, 1, (1 << 30) - 1, "text", b"some bytes", (1, "two", None), [1, "two"], None, int, object())
    return all(_lies_right(sample) for sample in samples)


def _lies_right(sample: object) -> bool:
    here = id(sample)
    right = word_at(here + TYPE) == id(type(sample))
    if right and isinstance(sample, int) and sample:
        right = word_at(here + SIZE) in ONE_DIGIT and ctypes.c_uint32.from_address(here + DIGIT).value == sample
    if right and isinstance(sample, (tuple, list, bytes)):
        right = word_at(here + SIZE) == len(sample)
    if right and isinstance(sample, (tuple, list)):
        items = here + ITEMS if isinstance(sample, tuple) else word_at(here + LISTED)
        right = [word_at(items + 8 * i) for i in range(len(sample))] == [id(item) for item in sample]
    if right and isinstance(sample, bytes):
        right = ctypes.string_at(here + OCTETS, len(sample)) == sample
    return right


def word_at(address: int) -> int:
    """The word at an address."""
    return ctypes.c_uint64.from_address(address).value


ONE_DIGIT = tuple(word_at(id(number) + SIZE) for number in (1, 1 << 29))
"""Ints that always exist, such as 1, have a word of their own in Python 3.14."""


def offsets_of(owner: object, value: object) -> list[int]:
    """The offsets in an object at which there is the address of another one."""
    return offsets_of_number(owner, id(value))


def offsets_of_number(owner: object, number: int, width: Any = ctypes.c_uint64) -> list[int]:
    """The offsets in an object at which there is a number."""
    return offsets(id(owner), object.__sizeof__(owner), number, width)


def offsets(address: int, nbytes: int, number: int, width: Any = ctypes.c_uint64) -> list[int]:
    """The offsets in memory at which there is a number."""
    return [at for at in range(0, nbytes, ctypes.sizeof(width)) if width.from_address(address + at).value == number]


@functools.cache
def function_words() -> dict[str, int]:
    """The offsets of the code and the defaults of a function; the latter may be null."""

    def sample(parameter: int = 0) -> int:
        return parameter

    (code,), (defaults,) = offsets_of(sample, sample.__code__), offsets_of(sample, sample.__defaults__)
    sample.__defaults__ = None
    assert not word_at(id(sample) + defaults)
    return {"code": code, "defaults": defaults}


@functools.cache
def version_of_dicts() -> int | None:
    """The offset of the version of a dict, a number that grows with each change (PEP 509); None if there is no version."""
    sample: dict[str, int] = {}
    versions = [0]
    for change in (sample.clear, partial(sample.update, a=1), partial(sample.update, a=2), sample.clear):
        change()
        versions.append(word_at(id(sample) + VERSION))
    return VERSION if versions == sorted(set(versions)) else None


def slot(kind: type[Any], name: str) -> int:
    """The offset of a slot of a class; in an object, it is null if the slot is not set."""
    member = getattr(kind, name)
    assert type(member) is MemberDescriptorType
    return word_at(word_at(id(member) + _DEFINITION) + _OFFSET)
