"""What machine code knows of memory: the records that it shares with Python, and where objects keep their fields.

The table of words holds addresses of objects, types and driver functions of this process, which cached machine code cannot
contain. `Record` describes a record to LLVM, and `pack` returns its bytes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable
from enum import IntEnum
from types import MemberDescriptorType
from typing import Any

import numpy as np

from cuda_device.codegen.cpu.records import Record

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

NAME = Record("%Name", (("kind", "i64"), ("owner", "ptr"), ("name", "ptr"), ("value", "ptr")))
"""A name that the compiler looked up, and its value; null if there was no such name."""


class Owner(IntEnum):
    """The kinds of objects in which names are looked up."""

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

STREAM_TYPE = Record("%StreamType", (("type", "ptr"), ("name", "ptr")))
"""A framework's type of streams, whose attribute `name` is the handle."""

MOST_STREAM_TYPES = 3

SEEN_STREAM = Record("%SeenStream", (("object", "ptr"), ("handle", "i64"), ("device", "i64")))
"""The last stream of a framework: a reference or null, and its handle and device, which are constant."""

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
"""The offsets of the fields of CuPy's arrays, and of the address and the device in `data`, an object of the type `pointer`.

`shape` and `strides` are C++ vectors, which begin with the addresses of the first number and of the end.
"""

_TORCH_FIELDS = "impl", "autograd", "keys", "kind", "ndim", "shape", "strides", "offset", "storage", "data"
TORCH = Record("%Torch", tuple((name, "i64") for name in _TORCH_FIELDS))
"""The offset of the implementation in a torch tensor, of its fields, and of the address of the data in its storage.

`autograd` is null if the tensor has no gradient and is no view. `kind` is the dtype and the device, `offset` counts elements.
`shape` and `strides` are the first numbers. The function that frees the data is behind its address.
"""

RECORDS = (LAUNCH, START, NAME, CALL, PREPARED, PLAN, STREAM, STREAM_TYPE, SEEN_STREAM, CUPY, TORCH)

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

TYPE, SIZE = 8, 16
"""The offsets of the type in an object, and of the length in a tuple or bytes object."""

ITEMS, OCTETS = tuple.__basicsize__, bytes.__basicsize__ - 1
"""The offsets of the items of a tuple, and of the bytes of a bytes object (whose basic size counts a final zero)."""


def is_usable() -> bool:
    """Whether the objects of this Python have the layout that machine code expects, and there is a global lock."""
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
    """The offsets in an object at which there is the address of another one."""
    return _places_of(owner, id(value))


def _places_of(owner: object, number: int, width: Any = ctypes.c_uint64) -> list[int]:
    """The offsets in an object at which there is a number."""
    return _offsets(id(owner), object.__sizeof__(owner), number, width)


def _offsets(address: int, nbytes: int, number: int, width: Any = ctypes.c_uint64) -> list[int]:
    """The offsets in memory at which there is a number."""
    return [at for at in range(0, nbytes, ctypes.sizeof(width)) if width.from_address(address + at).value == number]


# An address and a device number that no other field of an object has by chance. The address is never accessed.
_ADDRESS, _DEVICE = 0x5EED_0123_4500, 0x5EED_67
_SHAPES = (3,), (5, 7), (2, 3, 4)


@functools.cache
def cupy_layout(kind: Any) -> ctypes.Array[ctypes.c_char] | None:
    """The record `CUPY` for arrays of this type, determined from samples; None if they have another layout."""
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


MOST_TORCH_AXES = 5
"""Torch keeps the lengths and strides of more axes elsewhere."""
_TORCH_BYTES, _STORAGE_BYTES = 184, 40  # of the implementation of a tensor, and of a storage, which are larger
_NO_INDEX = 255
_TORCH_SAMPLES = (
    ((3,), (2,), 11),
    ((5, 7), (8, 1), 13),
    ((2, 3, 4), (50, 11, 6), 17),
    ((2, 3, 4, 5, 6), (400, 130, 30, 7, 9), 19),
)


@functools.cache
def torch_layout(kind: Any) -> ctypes.Array[ctypes.c_char] | None:
    """The record `TORCH` for tensors of this type, determined from samples on the CPU; None if they have another layout."""
    torch: Any = sys.modules.get(kind.__module__)
    try:
        base = torch.empty(10_000, dtype=torch.float32, device="cpu")
        samples = [base.as_strided(*sample).detach() for sample in _TORCH_SAMPLES]
        integers, absent = torch.empty(3, dtype=torch.int32, device="cpu"), torch.empty(3, device="meta")
        graded, borrowed = torch.empty(3, device="cpu", requires_grad=True), torch.from_numpy(np.zeros(3))
        if any(type(sample) is not kind for sample in samples):
            return None

        def common(numbers: Callable[[Any], tuple[int, ...]]) -> int:
            return _common(_sequences(sample._cdata, _TORCH_BYTES, numbers(sample)) for sample in samples)

        kinds = (
            set.intersection(*(_kinds(sample, 0) for sample in samples)) & _kinds(integers, 0) & _kinds(absent, None)
        )
        kinds = {at for at in kinds if len({_kind(each, at) for each in (*samples, integers, absent)}) == 3}
        zeros = set.intersection(*(set(_offsets(sample._cdata, _TORCH_BYTES, 0)) for sample in samples))
        storages = [tensor.untyped_storage() for tensor in (base, integers, borrowed)]
        found = {
            "impl": _common(_places_of(sample, sample._cdata) for sample in samples),
            "autograd": _common([zeros - set(_offsets(graded._cdata, _TORCH_BYTES, 0))]),
            "keys": common(lambda sample: (torch._C._dispatch_keys(sample).raw_repr(),)),
            "kind": _common([kinds]),
            "ndim": common(lambda sample: (sample.dim(),)),
            "shape": common(lambda sample: sample.shape),
            "strides": common(lambda sample: sample.stride()),
            "offset": common(lambda sample: (sample.storage_offset(),)),
            "storage": common(lambda sample: (sample.untyped_storage()._cdata,)),
            "data": _common(_offsets(each._cdata, _STORAGE_BYTES - 8, each.data_ptr()) for each in storages),
        }
        freed = [_word(each._cdata + found["data"] + 8) for each in storages]
        if not freed[0] == freed[1] != freed[2]:
            return None
    except Exception:  # whatever another version of torch raises
        return None
    return buffer(pack(TORCH, **found))


def torch_words(layout: ctypes.Array[ctypes.c_char], tensor: Any) -> tuple[int, int, int] | None:
    """The keys and the kind of a tensor, and the function that frees its data; None if the fields do not describe it."""
    numbers = struct.unpack_from(f"={len(_TORCH_FIELDS)}q", layout)
    at = dict(zip(_TORCH_FIELDS, numbers, strict=True))
    impl = _word(id(tensor) + at["impl"])
    storage, kind = _word(impl + at["storage"]), _kind(tensor, at["kind"])
    if _word(impl + at["autograd"]) or not storage:
        return None
    data = _word(storage + at["data"]) + _word(impl + at["offset"]) * tensor.element_size()
    if data != tensor.data_ptr() or kind >> 24 != (_NO_INDEX if tensor.device.index is None else tensor.device.index):
        return None
    return _word(impl + at["keys"]), kind, _word(storage + at["data"] + 8)


def _kind(tensor: Any, at: int) -> int:
    return ctypes.c_uint32.from_address(tensor._cdata + at).value


def _kinds(tensor: Any, device: int | None) -> set[int]:
    """The offsets at which there may be the dtype, the type of the device, and its number, of which the sample has none."""
    found = ((at, _kind(tensor, at)) for at in range(0, _TORCH_BYTES, 4))
    return {at for at, kind in found if kind >> 24 == _NO_INDEX and (kind >> 16 & 255 == device or device is None)}


def _sequences(address: int, nbytes: int, numbers: tuple[int, ...]) -> list[int]:
    """The offsets in memory at which there are consecutive numbers of 64 bits."""
    kind = ctypes.c_uint64 * len(numbers)
    last = nbytes - ctypes.sizeof(kind)
    return [at for at in range(0, last + 1, 8) if tuple(kind.from_address(address + at)) == tuple(numbers)]


def _common(places: Iterable[Iterable[int]]) -> int:
    """The only offset that all samples have in common. Raises `ValueError` if there is none, or several."""
    (place,) = set.intersection(*map(set, places))
    return place


def _vectors(owner: object, nbytes: int) -> set[int]:
    """The offsets in an object of words that are less than the next word by `nbytes`."""
    places = range(0, object.__sizeof__(owner) - 8, 8)
    return {at for at in places if _word(id(owner) + at + 8) - _word(id(owner) + at) == nbytes}


def _holding(owner: object, vectors: Iterable[int], numbers: tuple[int, ...]) -> list[int]:
    """The offsets of the vectors in an object that have these items."""
    kind = ctypes.c_int64 * len(numbers)
    return [at for at in vectors if tuple(kind.from_address(_word(id(owner) + at))) == numbers]


@functools.cache
def function_words() -> dict[str, int]:
    """The offsets of the code and the defaults of a function; the latter may be null."""

    def sample(parameter: int = 0) -> int:
        return parameter

    (code,), (defaults,) = _places(sample, sample.__code__), _places(sample, sample.__defaults__)
    sample.__defaults__ = None
    assert not _word(id(sample) + defaults)
    return {"code": code, "defaults": defaults}


def slot(kind: type[Any], name: str) -> int:
    """The offset of a slot of a class; in an object, it is null if the slot is not set."""
    member = getattr(kind, name)
    assert type(member) is MemberDescriptorType
    return _word(_word(id(member) + _DEFINITION) + _OFFSET)
