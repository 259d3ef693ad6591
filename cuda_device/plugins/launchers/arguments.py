"""Machine code that reads the arguments of a launch into the buffer for the driver, as the rows of a plan describe them.

    launch(scale, 2.0, x, y, 7, …)         # x, y: torch tensors of float32, one dimension, C order

    FLOAT    owner 0, offset  0: a float, stored as float32
    TORCH    owner 0, offset  8: a tensor whose fields are as in the example; its address and length
    STREAM   torch works on the stream of the launch, or on another one that is waited for
    TORCH    owner 0, offset 16: …
    INT      owner 0, offset 24: an int from -2**31 to 2**31 - 1, stored as int32

A row reads the object whose address is at `OFFSET` in its owner. Owner 0 is the array of arguments; rows of tuples and structs
make these the owners of their items. `signature` writes the rows. The functions are device Python for the host, as in
`object_reading`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from numpy import float32, float64, int8, int16, int32, int64

from cuda_device.device.memory import array_at, local_array
from cuda_device.library.copying import address
from cuda_device.plugins.launchers.c_functions import (
    PyBuffer_Release,
    PyObject_GetAttr,
    PyObject_GetBuffer,
    Py_DecRef,
    call_2,
    known,
    words,
)
from cuda_device.plugins.launchers.memory_layout import Launch, OwnArray, Plan, Word
from cuda_device.plugins.launchers.object_reading import (
    Offset,
    context_of,
    cupy_works_on,
    denies,
    int_of,
    made_on,
    same_constant,
    size_of,
    type_of,
    unsigned,
    works_on,
)
from cuda_device.runtime.gpu.driver import LEGACY_STREAM
from cuda_device.types.model import INT

MOST_OWNERS, MOST_SPANS = 32, 64

Row = IntEnum("Row", "KIND OWNER OFFSET TYPE PLACE SIZE LOW HIGH SPAN", start=0)
"""How to read an object: what it is, where its address is, its type, and the place and the size of a leaf in the buffer.

`LOW` and `HIGH` bound an int. A constant is `LOW`, an array is described by the record at `LOW` (`Array`).
"""


class Kind(IntEnum):
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
    """A tuple of `SIZE` items, which becomes the owner `PLACE`."""
    STRUCT = 15
    """A struct, which becomes the owner `PLACE`; `LOW` says whether it reaches the memory of other devices."""
    STREAM = 16
    """No object: the current stream of a framework, which the function `LOW` returns for the device `HIGH`."""
    CUPY_STREAM = 17


Array = IntEnum(
    "Array",
    "NDIM ORDER ALIGN ITEMSIZE UNIT STEP SPAN PLACE LENGTHS LENGTH_SIZE STRIDES DIVISOR STRIDE_ALIGN "
    "ELEMENT "
    "LEND WHERE WHAT GRADED NEGATED CONJUGATED "
    "IMPL AUTOGRAD KEYS KEYS_AT KIND KIND_AT NDIM_AT STORAGE DATA FREED OFFSET SHAPE_AT STRIDES_AT "
    "BUFFER BUFFER_TYPE DEVICE DEVICE_AT",
    start=0,
)
"""An array: its number of axes and `Order`, and the alignment and size of its elements.

Strides count `UNIT` bytes; an element has `STEP` of them. `SPAN` is the number of the array among the spans. Lengths of
`LENGTH_SIZE` bytes are stored from `LENGTHS` on (unless the size is 0), and strides from `STRIDES` on (unless that is -1), in bytes
or, if `DIVISOR` is not 0, in elements, which have that many units. `ELEMENT` is the type of the elements as an object.

The next words are those of DLPack's C exchange API: the function `LEND`, words of the DLTensor, and names that are 0 or have to
be False. Then come the offsets of a torch tensor's fields and their values, and those of CuPy (`framework_fields`).
"""


class Order(IntEnum):
    """The layout of an array."""

    C = 0
    F = 1
    STRIDED = 2


def read(plan: Any, values: Any, launch: Any, buffer: Any) -> Any:
    """Reads all arguments. Returns whether they are those of the plan."""
    of, owners, spans, axes = (
        words(plan),
        local_array(MOST_OWNERS, int64),
        local_array(2 * MOST_SPANS, int64),
        local_array(3, int64),
    )
    owners[0] = values
    words(launch)[Launch.FACTS] = 1
    row = of[Plan.ROWS]
    for _ in range(of[Plan.COUNT]):
        obj = words(owners[words(row)[Row.OWNER]] + words(row)[Row.OFFSET])[0]
        if obj == 0:
            return False
        if words(row)[Row.KIND] <= Kind.CUPY:
            array = words(row)[Row.LOW]
            if type_of(obj) != words(row)[Row.TYPE]:
                return False
            if not find_array(words(row)[Row.KIND], obj, array, int64(address(axes)), launch):
                return False
            if not store_array(array, int64(address(axes)), launch, buffer, int64(address(spans))):
                return False
        elif not read_value(row, obj, launch, buffer, int64(address(owners)), int64(address(spans))):
            return False
        row += 8 * len(Row)
    facts = of[Plan.FACTS]
    if facts < 0:
        return True
    hold = words(launch)[Launch.FACTS] != 0 and are_apart(of[Plan.WRITTEN], of[Plan.SPANS], int64(address(spans)))
    return hold == (facts == 1)


def are_apart(written: Any, count: Any, spans: Any) -> Any:
    """Whether no written array overlaps another one."""
    span = words(spans)
    for i in range(count):
        if written >> i & 1 != 0:
            for j in range(count):
                if i != j and span[2 * j] < span[2 * i + 1] and span[2 * i] < span[2 * j + 1]:
                    return False
    return True


# Numbers, constants, tuples and structs


def read_value(row: Any, obj: Any, launch: Any, buffer: Any, owners: Any, spans: Any) -> Any:
    """Reads an object that is no array."""
    of = words(row)
    kind, place, size = of[Row.KIND], buffer + of[Row.PLACE], of[Row.SIZE]
    if of[Row.TYPE] != 0 and type_of(obj) != of[Row.TYPE]:
        return False
    if kind == Kind.FLOAT:
        return store_real(array_at(float64, obj + Offset.FLOAT)[0], place, size)
    if kind == Kind.INT or kind == Kind.INT_AS_FLOAT or kind == Kind.ADDRESS:
        number, right = int_of(obj)
        if not right or number < of[Row.LOW] or number > of[Row.HIGH]:
            return False
        if kind == Kind.INT:
            return store_int(number, place, size)
        if kind == Kind.INT_AS_FLOAT:
            return store_real(float64(number), place, size)
        words(place)[0] = number
        words(spans)[2 * of[Row.SPAN]] = words(spans)[2 * of[Row.SPAN] + 1] = number
        return number & size - 1 == 0
    if kind == Kind.SAME or kind == Kind.EQUAL:
        if size != 0:
            words(place)[0] = 0  # a null pointer
        return obj == of[Row.LOW] or (kind == Kind.EQUAL and same_constant(obj, of[Row.LOW]))
    return read_other(row, obj, launch, place, owners)


def read_other(row: Any, obj: Any, launch: Any, place: Any, owners: Any) -> Any:
    """Reads a rarer kind of object."""
    of, known_launch = words(row), words(launch)
    kind, size = of[Row.KIND], of[Row.SIZE]
    if kind == Kind.BOOL:
        return store_int(int64(obj == known()[Word.TRUE]), place, 1)
    if kind == Kind.UINT64:
        words(place)[0], right = unsigned(obj)
        return right
    if kind == Kind.COMPLEX:
        parts = array_at(float64, obj + Offset.COMPLEX)
        return store_real(parts[0], place, size) and store_real(parts[1], place + size, size)
    if kind == Kind.SCALAR:
        return read_scalar(obj, place, size)
    if kind == Kind.STREAM:
        return works_on(of[Row.LOW], of[Row.HIGH], launch)
    if kind == Kind.CUPY_STREAM:
        return cupy_works_on(of[Row.LOW], of[Row.HIGH], launch)
    words(owners)[of[Row.PLACE]] = obj
    if kind == Kind.TUPLE:
        return size_of(obj) == size
    if of[Row.LOW] != 0:
        known_launch[Launch.RETAINED] = 1
        return known_launch[Launch.PENDING] != 0
    return True


def store_int(number: Any, place: Any, size: Any) -> Any:
    """Stores an int of 1, 2, 4 or 8 bytes; True."""
    if size == 4:
        array_at(int32, place)[0] = int32(number)
    elif size == 8:
        words(place)[0] = number
    elif size == 2:
        array_at(int16, place)[0] = int16(number)
    else:
        array_at(int8, place)[0] = int8(number)
    return True


def store_real(number: Any, place: Any, size: Any) -> Any:
    """Stores a float of 4 or 8 bytes; True."""
    if size == 4:
        array_at(float32, place)[0] = float32(number)
    else:
        array_at(float64, place)[0] = number
    return True


_BUFFER_WORDS, _BUFFER_LENGTH = 10, 2  # the size of a Py_buffer, and the word with its length


def read_scalar(obj: Any, place: Any, nbytes: Any) -> Any:
    """Copies the bytes of a NumPy scalar."""
    view = local_array(_BUFFER_WORDS, int64)
    if PyObject_GetBuffer(obj, int64(address(view)), 0) != 0:
        return False
    right = view[_BUFFER_LENGTH] == nbytes
    if right:
        source, target = array_at(int8, view[0]), array_at(int8, place)
        for i in range(nbytes):
            target[i] = source[i]
    PyBuffer_Release(int64(address(view)))
    return right


# Arrays: `axes` gets the address of the memory and those of the lengths and the strides, or 0 for strides in C order


def find_array(kind: Any, obj: Any, array: Any, axes: Any, launch: Any) -> Any:
    """Reads where an array is, and its axes."""
    if kind == Kind.OWN_ARRAY:
        return own_array(obj, array, axes, launch)
    if kind == Kind.CUPY:
        return cupy_array(obj, array, axes)
    return (kind == Kind.TORCH and torch_tensor(obj, array, axes)) or lent_tensor(obj, array, axes)


def own_array(obj: Any, array: Any, axes: Any, launch: Any) -> Any:
    """Reads an array of ours, which is in C order, and enters its stream among the producers."""
    of, to, described = words(launch), words(axes), words(obj + Offset.ARRAY_WORDS)[0]
    if described == 0 or type_of(described) != known()[Word.BYTES]:
        return False
    own = words(described + Offset.OCTETS)
    if size_of(described) != 8 * (words(array)[Array.NDIM] + OwnArray.SHAPE):
        return False
    if own[OwnArray.ELEMENT] != words(array)[Array.ELEMENT]:
        return False
    to[0], to[1], to[2] = own[OwnArray.DATA], described + (Offset.OCTETS + 8 * OwnArray.SHAPE), 0
    stream, context = own[OwnArray.STREAM], own[OwnArray.CONTEXT]
    if stream == of[Launch.STREAM]:
        if context == of[Launch.CONTEXT]:
            return True
        # A stream has one context; but the legacy streams of all contexts have the same handle.
        if of[Launch.CONTEXT] == 0 and stream != LEGACY_STREAM:
            of[Launch.CONTEXT] = context
            return True
    return context == context_of(launch) and made_on(stream, launch)


def torch_tensor(obj: Any, array: Any, axes: Any) -> Any:
    """Reads the fields of a torch tensor.

    Returns False for tensors that require a gradient or are views, and if they differ from what is expected: keys (which tell
    sparse, negated and other unusual tensors), kind, and the function that frees the memory.
    """
    of, to = words(array), words(axes)
    impl = words(obj + of[Array.IMPL])[0]
    if impl == 0 or words(impl + of[Array.AUTOGRAD])[0] != 0 or words(impl + of[Array.KEYS_AT])[0] != of[Array.KEYS]:
        return False
    kind = int64(array_at(int32, impl + of[Array.KIND_AT])[0])
    storage = words(impl + of[Array.STORAGE])[0]
    if kind != of[Array.KIND] or words(impl + of[Array.NDIM_AT])[0] != of[Array.NDIM] or storage == 0:
        return False
    data = words(storage + of[Array.DATA])
    if data[1] != of[Array.FREED]:
        return False
    to[0] = data[0] + words(impl + of[Array.OFFSET])[0] * of[Array.ITEMSIZE]
    to[1], to[2] = impl + of[Array.SHAPE_AT], impl + of[Array.STRIDES_AT]
    return True


_TENSOR_WORDS = 6  # the size of a DLTensor


def lent_tensor(obj: Any, array: Any, axes: Any) -> Any:
    """Reads an array by DLPack's C exchange API."""
    of, to, tensor = words(array), words(axes), local_array(_TENSOR_WORDS, int64)
    if of[Array.GRADED] != 0:
        graded = PyObject_GetAttr(obj, of[Array.GRADED])
        if graded == 0:
            return False
        Py_DecRef(graded)
        if graded != known()[Word.FALSE]:
            return False
    if call_2(of[Array.LEND], obj, int64(address(tensor))) != 0:
        return False
    if tensor[1] != of[Array.WHERE] or tensor[2] != of[Array.WHAT]:
        return False
    to[0], to[1], to[2] = tensor[0] + tensor[5], tensor[3], tensor[4]
    # Producers that are this new always give strides.
    if of[Array.NDIM] != 0 and (tensor[3] == 0 or tensor[4] == 0):
        return False
    if of[Array.NEGATED] != 0 and not denies(obj, of[Array.NEGATED]):
        return False
    return of[Array.CONJUGATED] == 0 or denies(obj, of[Array.CONJUGATED])


def cupy_array(obj: Any, array: Any, axes: Any) -> Any:
    """Reads the fields of a CuPy array."""
    of, to = words(array), words(axes)
    buffer = words(obj + of[Array.BUFFER])[0]
    if words(obj + of[Array.KIND_AT])[0] != of[Array.ELEMENT] or buffer == 0:
        return False
    if type_of(buffer) != of[Array.BUFFER_TYPE]:
        return False
    if int64(array_at(int32, buffer + of[Array.DEVICE_AT])[0]) != of[Array.DEVICE]:
        return False
    lengths, strides, nbytes = words(obj + of[Array.SHAPE_AT]), words(obj + of[Array.STRIDES_AT]), 8 * of[Array.NDIM]
    if lengths[1] - lengths[0] != nbytes or strides[1] - strides[0] != nbytes:
        return False
    to[0], to[1], to[2] = words(buffer + of[Array.DATA])[0], lengths[0], strides[0]
    return True


def store_array(array: Any, axes: Any, launch: Any, buffer: Any, spans: Any) -> Any:
    """Checks the layout, the alignment and the size of an array, stores its leaves, and notes its span."""
    of, to, place = words(array), words(axes), words(spans + 16 * words(array)[Array.SPAN])
    data, lengths, strides = to[0], words(to[1]), words(to[2])
    if data & of[Array.ALIGN] - 1 != 0:
        return False
    size, in_c, small = int64(1), True, True
    for i in range(of[Array.NDIM] - 1, -1, -1):
        length = lengths[i]
        if length <= 0:
            return False
        if to[2] != 0 and length != 1 and strides[i] != size * of[Array.STEP]:
            in_c = False
        size *= length
        if length > INT.high or size > INT.high:
            small = False
        if of[Array.LENGTH_SIZE] != 0:
            store_int(length, buffer + of[Array.LENGTHS] + i * of[Array.LENGTH_SIZE], of[Array.LENGTH_SIZE])
    if not small:
        words(launch)[Launch.FACTS] = 0
    words(buffer + of[Array.PLACE])[0] = data
    place[0], place[1] = data, data + size * of[Array.ITEMSIZE]
    if of[Array.STRIDES] >= 0 and not store_strides(array, axes, buffer):
        return False
    if of[Array.ORDER] == Order.C:
        return in_c
    if in_c or in_f_order(array, axes) != (of[Array.ORDER] == Order.F):
        return False
    return of[Array.ORDER] == Order.F or strided_span(array, axes, spans)


def in_f_order(array: Any, axes: Any) -> Any:
    """Whether axes, from the first to the last, leave no gap (see `array_view.layout_of`)."""
    of, to, step = words(array), words(axes), words(array)[Array.STEP]
    for i in range(of[Array.NDIM]):
        length = words(to[1])[i]
        if length != 1 and words(to[2])[i] != step:
            return False
        step *= length
    return True


def store_strides(array: Any, axes: Any, buffer: Any) -> Any:
    """Stores the strides of an array in bytes or in elements. Returns False if one is not a number of elements."""
    of, to, step = words(array), words(axes), words(array)[Array.STEP]
    out = words(buffer + of[Array.STRIDES])
    for i in range(of[Array.NDIM] - 1, -1, -1):
        stride = words(to[2])[i] if to[2] != 0 else step
        if of[Array.DIVISOR] == 0:
            out[i] = stride * of[Array.UNIT]
        else:
            if stride % of[Array.DIVISOR] != 0:
                return False
            out[i] = stride // of[Array.DIVISOR]
        step *= words(to[1])[i]
    return True


def strided_span(array: Any, axes: Any, spans: Any) -> Any:
    """Notes the span of a strided array: the addresses of its first byte and of the byte after its last."""
    of, to, place = words(array), words(axes), words(spans + 16 * words(array)[Array.SPAN])
    low, high = to[0], to[0]
    for i in range(of[Array.NDIM]):
        stride = words(to[2])[i]
        if stride & of[Array.STRIDE_ALIGN] - 1 != 0:
            return False
        reach = (words(to[1])[i] - 1) * stride * of[Array.UNIT]
        low, high = low + min(reach, 0), high + max(reach, 0)
    place[0], place[1] = low, high + of[Array.ITEMSIZE]
    return True
