"""What machine code knows of memory: the records that it shares with Python, and the layout of Python's objects.

The table of words holds addresses of objects, types and driver functions of this process, which cached machine code cannot
contain. A record is an array of words, which an `IntEnum` numbers; `pack` returns its bytes.
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

from cuda_device.extend import dataclass

Word = IntEnum(
    "Word",
    "NONE FALSE TRUE CAPTURED "  # objects
    "BOOL INT FLOAT STR TUPLE BYTES KERNEL GPU_STREAM DEVICE_ARRAY "  # types
    "GRID BLOCK STREAM SHARED CLUSTER DEPENDENT CUDA_STREAM DEVICE_INDEX DEVICE_ID PTR POP APPEND "  # names
    "LAUNCH_KERNEL LAUNCH_WITH_ATTRIBUTES GET_CONTEXT CAPTURE_STATE CAPTURE_INFO CONTEXT_OF_STREAM "  # functions of the driver
    "CREATE_EVENT DESTROY_EVENT RECORD_EVENT WAIT_EVENT "
    "COMPARE_BYTES "  # a function of C
    "LAUNCH RING STREAM_TYPES STREAM_OF_LAUNCH STREAM_OF_CUPY SEVERAL_DEVICES",
    start=0,
)
"""The indices in the table of words."""

MOST_PRODUCERS = 8
"""The number of other streams with which machine code can order a launch."""

# Records

Launch = IntEnum(
    "Launch",
    "STREAM CONTEXT DEVICE ORDERED CAPTURING ONLY_CHECKED RETAINED PENDING VALUES COUNT FACTS "
    "GRID_X GRID_Y GRID_Z BLOCK_X BLOCK_Y BLOCK_Z SHARED THREADS CLUSTER_X CLUSTER_Y CLUSTER_Z DEPENDENT "
    "PRODUCERS FIRST_PRODUCER",
    start=0,
)
"""A launch: its stream and sizes. `CLUSTER_X` is 0 if the launch does not give the size of a cluster.

`DEVICE` is the device number of a framework's stream, or -1. From `FIRST_PRODUCER` on there are `PRODUCERS` other streams on
which its arrays are produced; an `ORDERED` launch is ordered with them. The queue `PENDING` keeps the arguments (`COUNT` objects
at `VALUES`) of a launch that is not ordered, or `RETAINED`. `CAPTURING` is set if the stream is being captured, `ONLY_CHECKED`
if the launch is not to be made. `FACTS` says whether the facts hold on which a variant may rely.
"""

Start = IntEnum(
    "Start",
    "KERNEL CONTEXT DEVICE STATUS NAMES COUNT MOST_THREADS MOST_SHARED MOVED CLUSTER_X CLUSTER_Y CLUSTER_Z COOPERATIVE "
    "NAME EVENTS",
    start=0,
)
"""A compiled kernel that is loaded in a context.

A launch may ask for `MOST_SHARED` bytes of dynamic shared memory, beside the `MOVED` bytes for the kernel's shared arrays, and
consists of whole clusters. `STATUS` points to the address of the word that is not 0 after a report, `NAMES` to the names that
the compiler looked up; `EVENTS` is the list of the context's spare events.
"""

Name = IntEnum("Name", "KIND OWNER NAME VALUE VERSION", start=0)
"""A name that the compiler looked up, and its value; null if there was no such name.

`VERSION` is the version of a namespace in which machine code has found this value, at first 0, which no namespace has.
"""


class Owner(IntEnum):
    """The kinds of objects in which names are looked up.

    Two kinds of rows check contents: the bytes at the address `OWNER`, as many as the number `NAME`, equal those at the address
    `VALUE`, or a call of `OWNER` returns `VALUE`.
    """

    NAMESPACE = 0
    CELL = 1
    OBJECT = 2
    BYTES = 3
    CALL = 4


Call = IntEnum("Call", "FUNCTION CODE DEFAULTS POSITIONAL PARAMETERS NAMES VALUES PLANS FIRST_PLAN", start=0)
"""A kernel: the names and default values of its parameters, and the addresses of its `PLANS` plans."""

Prepared = IntEnum("Prepared", "PARAMETERS POSITIONAL NAMES VALUES KEYWORDS", start=0)
"""A prepared launch: the names of its kernel's parameters, and the arguments of a call of `launch`.

The latter are the kernel, the values of its parameters, and the values of `KEYWORDS`.
"""

Plan = IntEnum("Plan", "START ROWS COUNT FACTS WRITTEN SPANS OFFSETS PARAMETERS", start=0)
"""The launches that one variant of a kernel can make: `COUNT` rows at `ROWS`, which read the arguments (`argument_reading`).

`FACTS` says whether the variant relies on the facts of `runtime/launch/launcher` (1), or is for all other arrays (0), or (-1) for
all. `WRITTEN` has a bit for each of the `SPANS` arrays that the kernel writes. `OFFSETS` are those of the kernel's `PARAMETERS`
in the buffer.
"""

Stream = IntEnum("Stream", "HANDLE CONTEXT ORDERED", start=0)
"""The bytes of one of our streams."""

StreamType = IntEnum("StreamType", "TYPE NAME OPEN", start=0)
"""A framework's type of streams, whose handle never changes while the stream is open.

The attribute `NAME` is the handle; if `NAME` is null, `__cuda_stream__` returns it. `OPEN` is the offset of a word that becomes 0
when the stream is closed.
"""

MOST_STREAM_TYPES = 4

SeenStream = IntEnum("SeenStream", "OBJECT HANDLE DEVICE OPEN", start=0)
"""The last stream of a framework: a reference or null, its handle and device, and the address of the word at `OPEN`."""

OwnArray = IntEnum("OwnArray", "DATA STREAM CONTEXT ELEMENT SHAPE", start=0)
"""The words of `DeviceArray._words`."""

MOST_OWNERS, MOST_SPANS = 32, 64

Row = IntEnum("Row", "KIND OWNER OFFSET TYPE TARGET SIZE LOW HIGH", start=0)
"""How to read an object: what it is, where its address is, its type, and the offset and the size of a leaf in the buffer.

`LOW` and `HIGH` bound an int. A constant is `LOW`, an array is described by the record at `LOW` (`Array`).
"""


class RowKind(IntEnum):
    """What a row reads."""

    OWN_ARRAY = 0
    TORCH = 1
    LENT = 2
    """An array by DLPack's C exchange API."""
    CUPY = 3
    FLOAT = 4
    INT = 5
    BOOL = 6
    UINT64 = 7
    INT_AS_FLOAT = 8
    COMPLEX = 9
    SCALAR = 10
    """A NumPy scalar, of `SIZE` bytes."""
    ADDRESS = 11
    """An int that is an address, a multiple of `SIZE`; its span has the number `HIGH`."""
    SAME = 12
    """The object `LOW` itself."""
    EQUAL = 13
    """The object `LOW`, or an int, str or float that is equal to it."""
    TUPLE = 14
    """A tuple of `SIZE` items, which becomes the owner `TARGET`."""
    STRUCT = 15
    """A struct, which becomes the owner `TARGET`; `LOW` says whether it reaches the memory of other devices."""
    STREAM = 16
    """No object: the current stream of a framework, which the function `LOW` returns for the device `HIGH`."""
    CUPY_STREAM = 17
    BYTES = 18
    """A bytes object of `SIZE` bytes. They are valid if the words at `LOW` in the buffer, two addresses, are equal."""


Array = IntEnum(
    "Array",
    "NDIM ORDER ALIGN ITEMSIZE UNIT STEP SPAN TARGET LENGTHS LENGTH_SIZE STRIDES DIVISOR STRIDE_ALIGN "
    "ELEMENT "
    "LEND WHERE WHAT GRADED NEGATED CONJUGATED "
    "KEYS KIND FREED TORCH_IMPL TORCH_AUTOGRAD TORCH_KEYS TORCH_KIND TORCH_NDIM TORCH_SHAPE TORCH_STRIDES TORCH_OFFSET "
    "TORCH_STORAGE TORCH_DATA "
    "BUFFER_TYPE DEVICE CUPY_DTYPE CUPY_DATA CUPY_SHAPE CUPY_STRIDES CUPY_ADDRESS CUPY_DEVICE",
    start=0,
)
"""An array: its number of axes and `AxisOrder`, and the alignment and size of its elements.

Strides count `UNIT` bytes; an element has `STEP` of them. `SPAN` is the number of the array among the spans. The address is
stored at `TARGET`, lengths of `LENGTH_SIZE` bytes (none if that is 0) from `LENGTHS` on, and strides (none if it is -1) from
`STRIDES` on: in bytes or, if `DIVISOR` is not 0, in elements, which have that many units. `ELEMENT` is the type of the elements
as an object.

For DLPack's C exchange API there are the function `LEND`, two words of the DLTensor, and names of attributes (0 if there is none)
that have to be False. Then come what a torch tensor and a CuPy array have to hold, and where they do (`framework_fields`).
"""


class AxisOrder(IntEnum):
    """The layout of an array."""

    C = 0
    F = 1
    STRIDED = 2


MOST_PARAMETERS = 64
MOST_BYTES, MOST_LEAVES = 4096, 512
"""The sizes of the memory for the arguments of a launch, and for the addresses of a kernel's parameters in it."""
MOST_PLANS = 8


def pack(record: type[IntEnum], **values: int) -> bytes:
    """The bytes of a record, whose words are 0 by default."""
    numbers = [values.pop(field.name.lower(), 0) for field in record]
    assert not values, values
    return struct.pack(f"={len(numbers)}Q", *(number & (1 << 64) - 1 for number in numbers))


def buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Makes memory with these bytes, which machine code may write."""
    return ctypes.create_string_buffer(data, max(len(data), 1))


@dataclass(frozen=True)
class OwnedRecord:
    """A record in memory, and the objects to which it refers."""

    record: ctypes.Array[ctypes.c_char]
    keep: tuple[object, ...]

    @property
    def address(self) -> int:
        """The address of the record."""
        return ctypes.addressof(self.record)


_DEFINITION = 40  # the offset of the address of the PyMemberDef in a descriptor
_OFFSET = 16  # the offset of `offset` in a PyMemberDef

TYPE, SIZE, LISTED = 8, 16, 24
"""The offsets of the type in an object, of the length in a tuple, list or bytes object, and of the address of a list's items."""

ITEMS, OCTETS = tuple.__basicsize__, bytes.__basicsize__ - 1
"""The offsets of the items of a tuple, and of the bytes of a bytes object (whose basic size counts a final zero)."""


VERSION = 24
"""The offset of the version of a dict, which Python 3.14 no longer has."""

FLOAT, COMPLEX = float.__basicsize__ - 8, complex.__basicsize__ - 16
"""The offsets of the double in a float, and of the two in a complex number."""

DIGIT = int.__basicsize__
"""The offset of the only digit of an int from 1 to 2**30 - 1, whose word at `SIZE` is one of `ONE_DIGIT`."""


def is_usable() -> bool:
    """Whether the objects of this Python have the layout that machine code expects, and there is a global lock."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    samples = (
        0,
        1,
        (1 << 30) - 1,
        2.5,
        1.5 - 2j,
        "text",
        b"some bytes",
        (1, "two", None),
        [1, "two"],
        None,
        int,
        object(),
    )
    return all(_lies_right(sample) for sample in samples)


def _lies_right(sample: object) -> bool:
    here = id(sample)
    right = word_at(here + TYPE) == id(type(sample))
    if right and isinstance(sample, int) and sample:
        right = word_at(here + SIZE) in ONE_DIGIT and ctypes.c_uint32.from_address(here + DIGIT).value == sample
    if right and isinstance(sample, (float, complex)):
        parts = (sample,) if isinstance(sample, float) else (sample.real, sample.imag)
        numbers = here + (FLOAT if isinstance(sample, float) else COMPLEX)
        right = [ctypes.c_double.from_address(numbers + 8 * i).value for i in range(len(parts))] == list(parts)
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
    return offsets_in(id(owner), object.__sizeof__(owner), number, width=width)


def offsets_in(address: int, nbytes: int, *numbers: int, width: Any = ctypes.c_uint64) -> list[int]:
    """The offsets in memory at which there are consecutive numbers."""
    kind, step = width * len(numbers), ctypes.sizeof(width)
    offsets = range(0, nbytes - ctypes.sizeof(kind) + step, step)
    return [offset for offset in offsets if tuple(kind.from_address(address + offset)) == numbers]


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


def offsets() -> dict[str, int]:
    """What machine code knows of objects: offsets in them, and `ONE_DIGIT`."""
    from cuda_device import DeviceArray, GpuStream, Kernel
    from cuda_device.runtime.gpu.streams import Retained

    return {
        **{
            name: globals()[name] for name in ["TYPE", "SIZE", "LISTED", "ITEMS", "OCTETS", "FLOAT", "COMPLEX", "DIGIT"]
        },
        "ONE_DIGIT": ONE_DIGIT[0],
        "OTHER_DIGIT": ONE_DIGIT[1],
        "VERSION": version_of_dicts() or 0,
        "CODE": function_words()["code"],
        "DEFAULTS": function_words()["defaults"],
        "NATIVE": slot(Kernel, "native"),
        "ARRAY_WORDS": slot(DeviceArray, "_words"),
        "STREAM_WORDS": slot(GpuStream, "_words"),
        "RETAINED": slot(GpuStream, "_retained"),
        "PENDING": slot(Retained, "pending"),
    }
