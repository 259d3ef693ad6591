"""The records that machine code and Python share: data of the process, and records of launches.

The data of the process are addresses (of objects, types and driver functions), which cached machine code cannot contain. Both
sides use the same records: `Record` has LLVM's type, and `pack` returns the bytes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import sysconfig
from collections.abc import Iterable
from enum import IntEnum
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import numpy as np

from cuda_device.codegen.cpu.records import Record
from cuda_device.lazy_dataclasses import dataclass

Word = IntEnum(
    "Word",
    "NONE FALSE TRUE CAPTURED "  # objects
    "INT FLOAT STR TUPLE BYTES KERNEL GPU_STREAM "  # types
    "GRID BLOCK STREAM SHARED CUDA_STREAM DEVICE_INDEX DEVICE_ID PTR POP APPEND "  # names
    "LAUNCH_KERNEL GET_CONTEXT CAPTURE_STATE CONTEXT_OF_STREAM "  # functions of the driver
    "CREATE_EVENT DESTROY_EVENT RECORD_EVENT WAIT_EVENT "
    "LAUNCH RING STREAM_TYPES STREAM_OF_LAUNCH STREAM_OF_CUPY SEVERAL_DEVICES",
    start=0,
)
"""The places in the table of words."""

TABLE = "known"
"""The name of the table."""

MOST_PRODUCERS = 8
"""With so many other streams a launch by machine code can be put in order."""

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
"""Where and how large.

`device` is the number that a foreign stream says it is on, or -1. `producer` are the other streams on which its arrays are made:
the launch is put in order with them if it is `ordered`. If it is not, or is `retained`, `pending` is the queue that keeps its
arguments, `count` objects at `values`. `capturing` says that it goes into a graph, `only_checked` that it is not made.
"""

LAUNCH_BYTES = 8 * (len(LAUNCH.fields) + MOST_PRODUCERS)
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
        ("events", "ptr"),
    ),
)
"""A compiled kernel that is loaded in a context.

`status` leads to what tells of reports; `names` are the names that it read; `events` is the list of the context's spare events.
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

PREPARED = Record(
    "%Prepared",
    (("parameters", "i64"), ("positional", "i64"), ("names", "ptr"), ("values", "ptr"), ("keywords", "ptr")),
)
"""A prepared launch: its kernel's parameters, and a call of `launch`, whose first object is the kernel and whose last are those
of `keywords`."""

PLAN = Record("%Plan", (("function", "ptr"), ("state", "ptr")))
"""A launcher of one signature, and the memory that it keeps between launches."""

STREAM = Record("%Stream", (("handle", "i64"), ("context", "i64"), ("ordered", "i64")))
"""The bytes of one of our streams."""

STREAM_TYPE = Record("%StreamType", (("type", "ptr"), ("name", "ptr")))
"""A framework's type of streams, whose attribute `name` is the handle."""

MOST_STREAM_TYPES = 3

SEEN_STREAM = Record("%SeenStream", (("object", "ptr"), ("handle", "i64"), ("device", "i64")))
"""The framework's stream that was passed last, a reference or null, and its handle and device, which never change."""

CUPY = Record(
    "%Cupy",
    (
        ("dtype", "i64"),
        ("data", "i64"),
        ("shape", "i64"),
        ("strides", "i64"),
        ("pointer", "ptr"),
        ("address", "i64"),
        ("device", "i64"),
    ),
)
"""Where CuPy's arrays keep their fields, and where `data`, which is of type `pointer`, has the address and the device.

At `shape` and `strides` are the addresses of the first number and of the end, as in a C++ vector.
"""

RECORDS = (LAUNCH, START, NAME, CALL, PREPARED, PLAN, STREAM, STREAM_TYPE, SEEN_STREAM, CUPY)

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


class _GetterDefinition(ctypes.Structure):
    """PyGetSetDef: an attribute that a C function computes."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


_DEFINITION = 40  # where such a descriptor, and that of a slot, has the address of its definition
_OFFSET = 16  # where the definition of a slot has its place in an object
VERSION = 384
"""Where a type has its version: 32 bits that are others as soon as an attribute of it, or of its bases, is another."""


def version_of(kind: type[Any]) -> int:
    """The version of a type, or 0 if it has none."""
    kind.__hash__  # noqa: B018 (a type gets its version when somebody looks for an attribute of its objects)
    return ctypes.c_uint32.from_address(id(kind) + VERSION).value


@functools.cache
def knows_versions() -> bool:
    """Whether types have versions where machine code takes them to be."""
    base = type("Base", (), {"attribute": 1})
    kind = type("Derived", (base,), {})
    versions = [version_of(kind) for _ in range(2)]
    base.attribute = 2  # type: ignore[attr-defined]
    return 0 < versions[0] == versions[1] != version_of(kind) > 0


@dataclass(frozen=True, slots=True)
class Getter:
    """What computes an attribute of a type of this version: a C function, and its second argument."""

    function: int
    closure: int
    version: int


def getter_of(kind: type[Any], name: str) -> Getter | None:
    """What computes an attribute, or None if no C function does."""
    is_plain = _attribute_of(kind, "__getattribute__") is _attribute_of(object, "__getattribute__")
    found = _attribute_of(kind, name)
    version = version_of(kind) if knows_versions() else 0
    if not is_plain or type(found) is not GetSetDescriptorType or not version:
        return None
    definition = _GetterDefinition.from_address(_word(id(found) + _DEFINITION))
    return Getter(definition.get, definition.closure or 0, version) if definition.get else None


def _attribute_of(kind: type[Any], name: str) -> object:
    """What a class or its bases have under a name, as it stands there."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


TYPE, SIZE = 8, 16
"""Where in an object its type is, and in a tuple or a bytes object how many items or bytes it has."""

ITEMS, OCTETS = tuple.__basicsize__, bytes.__basicsize__ - 1
"""Where a tuple has its items, and a bytes object its bytes, behind which there is room for one more."""


def is_usable() -> bool:
    """Whether this Python's objects lie as machine code takes them to, and there is a global lock."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    samples = (0, "text", b"some bytes", (1, "two", None), None, int, object())
    return all(_lies_right(sample) for sample in samples)


def _lies_right(sample: object) -> bool:
    here = id(sample)
    right = _word(here + TYPE) == id(type(sample))
    if right and isinstance(sample, (tuple, bytes)):
        right = _word(here + SIZE) == len(sample)
    if right and isinstance(sample, tuple):
        right = [_word(here + ITEMS + 8 * i) for i in range(len(sample))] == [id(item) for item in sample]
    if right and isinstance(sample, bytes):
        right = ctypes.string_at(here + OCTETS, len(sample)) == sample
    return right


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _places(owner: object, value: object) -> list[int]:
    """Where in an object another one's address is."""
    return _places_of(owner, id(value))


def _places_of(owner: object, number: int, width: Any = ctypes.c_uint64) -> list[int]:
    """Where in an object a number is."""
    step = ctypes.sizeof(width)
    places = range(0, object.__sizeof__(owner), step)
    return [at for at in places if width.from_address(id(owner) + at).value == number]


# An address and a device that no word of an object has by chance. Nothing accesses what is there.
_ADDRESS, _DEVICE = 0x5EED_0123_4500, 0x5EED_67
_SHAPES = (3,), (5, 7), (2, 3, 4)


@functools.cache
def cupy_layout(kind: type[Any]) -> ctypes.Array[ctypes.c_char] | None:
    """The record `CUPY` for arrays of this type, found in samples; None if they are laid out in another way."""
    cuda, dtype = sys.modules["cupy"].cuda, np.dtype(np.float32)
    try:
        data = cuda.MemoryPointer(cuda.UnownedMemory(_ADDRESS, 1 << 10, None, _DEVICE), 0)
        samples = [kind(shape, dtype, data) for shape in _SHAPES]
        vectors = set.intersection(*(_vectors(sample, 8 * sample.ndim) for sample in samples))
        found = {
            "dtype": _common(_places(sample, dtype) for sample in samples),
            "data": _common(_places(sample, data) for sample in samples),
            "shape": _common(_holding(sample, vectors, sample.shape) for sample in samples),
            "strides": _common(_holding(sample, vectors, sample.strides) for sample in samples),
            "address": _common([_places_of(data, _ADDRESS)]),
            "device": _common([_places_of(data, _DEVICE, ctypes.c_uint32)]),
        }
    except Exception:  # whatever another version of CuPy raises
        return None
    return buffer(pack(CUPY, pointer=id(type(data)), **found))


def _common(places: Iterable[Iterable[int]]) -> int:
    """The only place that a field has in all samples. Raises `ValueError` if there is none, or several."""
    (place,) = set.intersection(*map(set, places))
    return place


def _vectors(owner: object, nbytes: int) -> set[int]:
    """Where in an object an address is that is so far in front of the next word."""
    places = range(0, object.__sizeof__(owner) - 8, 8)
    return {at for at in places if _word(id(owner) + at + 8) - _word(id(owner) + at) == nbytes}


def _holding(owner: object, vectors: Iterable[int], numbers: tuple[int, ...]) -> list[int]:
    """Which vectors of an object have these numbers."""
    kind = ctypes.c_int64 * len(numbers)
    return [at for at in vectors if tuple(kind.from_address(_word(id(owner) + at))) == numbers]


@functools.cache
def function_words() -> dict[str, int]:
    """Where a function has its code and its defaults, or null."""

    def sample(parameter: int = 0) -> int:
        return parameter

    (code,), (defaults,) = _places(sample, sample.__code__), _places(sample, sample.__defaults__)
    sample.__defaults__ = None
    assert not _word(id(sample) + defaults)
    return {"code": code, "defaults": defaults}


def slot(kind: type[Any], name: str) -> int:
    """Where objects of a class keep what they have in `__slots__` under `name`; null where that is not set."""
    member = getattr(kind, name)
    assert type(member) is MemberDescriptorType
    return _word(_word(id(member) + _DEFINITION) + _OFFSET)
