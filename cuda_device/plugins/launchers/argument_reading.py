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

from typing import Any

from numpy import float32, float64, int8, int16, int32, int64

from cuda_device.device.memory import array_at, local_array
from cuda_device.extend import driver, model
from cuda_device.library.copying import address
from cuda_device.plugins.launchers import c_api, object_reading
from cuda_device.plugins.launchers.memory_layout import (
    MOST_OWNERS,
    MOST_SPANS,
    Array,
    AxisOrder,
    Launch,
    OwnArray,
    Plan,
    Row,
    RowKind,
    Word,
)
from cuda_device.plugins.launchers.object_reading import Offset, int_of, known, size_of, type_of, words


def read_arguments(plan: Any, values: Any, launch: Any, buffer: Any) -> Any:
    """Reads all arguments. Returns whether they are those of the plan."""
    fields, owners, spans = words(plan), local_array(MOST_OWNERS, int64), local_array(2 * MOST_SPANS, int64)
    owners[0] = values
    words(launch)[Launch.FACTS] = 1
    row = fields[Plan.ROWS]
    for _ in range(fields[Plan.COUNT]):
        obj = words(owners[words(row)[Row.OWNER]] + words(row)[Row.OFFSET])[0]
        if obj == 0:
            return False
        if words(row)[Row.TYPE] != 0 and type_of(obj) != words(row)[Row.TYPE]:
            return False
        if words(row)[Row.KIND] <= RowKind.CUPY:
            array = words(row)[Row.LOW]
            right, data, shape, strides = find_array(words(row)[Row.KIND], obj, array, launch)
            if not right or not store_array(array, data, shape, strides, launch, buffer, int64(address(spans))):
                return False
        elif not read_value(row, obj, launch, buffer, int64(address(owners)), int64(address(spans))):
            return False
        row += 8 * len(Row)
    facts = fields[Plan.FACTS]
    if facts < 0:
        return True
    apart = are_apart(fields[Plan.WRITTEN], fields[Plan.SPANS], int64(address(spans)))
    return (apart and words(launch)[Launch.FACTS] != 0) == (facts == 1)


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
    fields = words(row)
    kind, target, size = fields[Row.KIND], buffer + fields[Row.TARGET], fields[Row.SIZE]
    if kind == RowKind.FLOAT:
        store_real(array_at(float64, obj + Offset.FLOAT)[0], target, size)
        return True
    if kind == RowKind.INT or kind == RowKind.INT_AS_FLOAT:
        number, right = int_of(obj)
        if kind == RowKind.INT:
            store_int(number, target, size)
        else:
            store_real(float64(number), target, size)
        return right and fields[Row.LOW] <= number and number <= fields[Row.HIGH]
    if kind == RowKind.EQUAL:
        return object_reading.same_constant(obj, fields[Row.LOW])
    return read_other(row, obj, launch, target, owners, spans)


def read_other(row: Any, obj: Any, launch: Any, target: Any, owners: Any, spans: Any) -> Any:
    """Reads a rarer kind of object."""
    fields = words(row)
    kind, size, low = fields[Row.KIND], fields[Row.SIZE], fields[Row.LOW]
    if kind == RowKind.SAME:
        if size != 0:
            words(target)[0] = 0  # a null pointer
        return obj == low
    if kind == RowKind.BOOL:
        array_at(int8, target)[0] = int8(obj == known()[Word.TRUE])
        return True
    if kind == RowKind.UINT64:
        words(target)[0], right = object_reading.unsigned(obj)
        return right
    if kind == RowKind.COMPLEX:
        parts = array_at(float64, obj + Offset.COMPLEX)
        store_real(parts[0], target, size)
        store_real(parts[1], target + size, size)
        return True
    if kind == RowKind.SCALAR:
        return read_scalar(obj, target, size)
    if kind == RowKind.ADDRESS:
        number, right = int_of(obj)
        span = words(spans + 16 * fields[Row.HIGH])
        words(target)[0] = span[0] = span[1] = number
        return right and number >= 0 and number & size - 1 == 0
    if kind == RowKind.STREAM:
        return object_reading.works_on(low, fields[Row.HIGH], launch)
    if kind == RowKind.CUPY_STREAM:
        return object_reading.cupy_works_on(low, fields[Row.HIGH], launch)
    if kind == RowKind.BYTES:
        return copy_bytes(obj, target, size, target - fields[Row.TARGET] + low)
    return enter_owner(row, obj, launch, owners)


def enter_owner(row: Any, obj: Any, launch: Any, owners: Any) -> Any:
    """Makes a tuple or a struct the owner of what the next rows read."""
    fields = words(row)
    words(owners)[fields[Row.TARGET]] = obj
    if fields[Row.KIND] == RowKind.TUPLE:
        return size_of(obj) == fields[Row.SIZE]
    if fields[Row.LOW] != 0:
        words(launch)[Launch.RETAINED] = 1
    return fields[Row.LOW] == 0 or words(launch)[Launch.PENDING] != 0


def store_int(number: Any, target: Any, size: Any) -> None:
    """Stores an int of 1, 2, 4 or 8 bytes."""
    if size == 4:
        array_at(int32, target)[0] = int32(number)
    elif size == 8:
        words(target)[0] = number
    elif size == 2:
        array_at(int16, target)[0] = int16(number)
    else:
        array_at(int8, target)[0] = int8(number)


def store_real(number: Any, target: Any, size: Any) -> None:
    """Stores a float of 4 or 8 bytes."""
    if size == 4:
        array_at(float32, target)[0] = float32(number)
    else:
        array_at(float64, target)[0] = number


_BUFFER_WORDS, _BUFFER_LENGTH = 10, 2  # the size of a Py_buffer, and the word with its length


def read_scalar(obj: Any, target: Any, nbytes: Any) -> Any:
    """Copies the bytes of a NumPy scalar."""
    view = local_array(_BUFFER_WORDS, int64)
    if c_api.PyObject_GetBuffer(obj, int64(address(view)), 0) != 0:
        return False
    right = view[_BUFFER_LENGTH] == nbytes
    if right:
        source, destination = array_at(int8, view[0]), array_at(int8, target)
        for i in range(nbytes):
            destination[i] = source[i]
    c_api.PyBuffer_Release(int64(address(view)))
    return right


def copy_bytes(obj: Any, target: Any, nbytes: Any, addresses: Any) -> Any:
    """Copies a bytes object of `nbytes` bytes, a multiple of 8. Returns False if it has another size, or is not valid."""
    source, destination = words(obj + Offset.OCTETS), words(target)
    if size_of(obj) != nbytes or words(addresses)[0] != words(addresses)[1]:
        return False
    for i in range(nbytes // 8):
        destination[i] = source[i]
    return True


# Arrays: whether one is as in the example, and the addresses of its memory, lengths and strides (0 for strides in C order)


def find_array(kind: Any, obj: Any, array: Any, launch: Any) -> Any:
    """Reads where an array and its axes are."""
    if kind == RowKind.OWN_ARRAY:
        return own_array(obj, array, launch)
    if kind == RowKind.CUPY:
        return cupy_array(obj, array)
    if kind == RowKind.TORCH:
        right, data, shape, strides = torch_tensor(obj, array)
        if right:
            return True, data, shape, strides
    return lent_tensor(obj, array)


def own_array(obj: Any, array: Any, launch: Any) -> Any:
    """Reads an array of ours, which is in C order, and enters its stream among the producers."""
    none, described = int64(0), words(obj + Offset.ARRAY_WORDS)[0]
    if described == 0 or type_of(described) != known()[Word.BYTES]:
        return False, none, none, none
    fields = words(described + Offset.OCTETS)
    if size_of(described) != 8 * (words(array)[Array.NDIM] + OwnArray.SHAPE):
        return False, none, none, none
    if fields[OwnArray.ELEMENT] != words(array)[Array.ELEMENT]:
        return False, none, none, none
    right = is_in_order(fields[OwnArray.STREAM], fields[OwnArray.CONTEXT], launch)
    return right, fields[OwnArray.DATA], described + (Offset.OCTETS + 8 * OwnArray.SHAPE), none


def is_in_order(stream: Any, context: Any, launch: Any) -> Any:
    """Enters the stream of an array of ours among the producers, if the launch is in the same context."""
    fields = words(launch)
    if stream == fields[Launch.STREAM]:
        if context == fields[Launch.CONTEXT]:
            return True
        # A stream has one context; but the legacy streams of all contexts have the same handle.
        if fields[Launch.CONTEXT] == 0 and stream != driver.LEGACY_STREAM:
            fields[Launch.CONTEXT] = context
            return True
    return context == object_reading.context_of(launch) and object_reading.made_on(stream, launch)


def torch_tensor(obj: Any, array: Any) -> Any:
    """Reads the fields of a torch tensor.

    It is not as expected if it requires a gradient or is a view, and if its keys (which tell sparse, negated and other unusual
    tensors), its kind, or the function that frees its memory differ.
    """
    fields, none = words(array), int64(0)
    impl = words(obj + fields[Array.TORCH_IMPL])[0]
    if (
        impl == 0
        or words(impl + fields[Array.TORCH_AUTOGRAD])[0] != 0
        or words(impl + fields[Array.TORCH_KEYS])[0] != fields[Array.KEYS]
    ):
        return False, none, none, none
    kind, storage = array_at(int32, impl + fields[Array.TORCH_KIND])[0], words(impl + fields[Array.TORCH_STORAGE])[0]
    if kind != int32(fields[Array.KIND]) or storage == 0:
        return False, none, none, none
    if words(impl + fields[Array.TORCH_NDIM])[0] != fields[Array.NDIM]:
        return False, none, none, none
    data = words(storage + fields[Array.TORCH_DATA])
    start = data[0] + words(impl + fields[Array.TORCH_OFFSET])[0] * fields[Array.ITEMSIZE]
    return data[1] == fields[Array.FREED], start, impl + fields[Array.TORCH_SHAPE], impl + fields[Array.TORCH_STRIDES]


_TENSOR_WORDS = 6  # the size of a DLTensor


def lent_tensor(obj: Any, array: Any) -> Any:
    """Reads an array by DLPack's C exchange API."""
    fields, tensor = words(array), local_array(_TENSOR_WORDS, int64)
    right = fields[Array.GRADED] == 0 or object_reading.is_false(obj, fields[Array.GRADED])
    right = right and c_api.call_2(fields[Array.LEND], obj, int64(address(tensor))) == 0
    right = right and tensor[1] == fields[Array.WHERE] and tensor[2] == fields[Array.WHAT]
    # Producers that are this new always give strides.
    right = right and (fields[Array.NDIM] == 0 or (tensor[3] != 0 and tensor[4] != 0))
    right = right and (fields[Array.NEGATED] == 0 or object_reading.denies(obj, fields[Array.NEGATED]))
    right = right and (fields[Array.CONJUGATED] == 0 or object_reading.denies(obj, fields[Array.CONJUGATED]))
    return right, tensor[0] + tensor[5], tensor[3], tensor[4]


def cupy_array(obj: Any, array: Any) -> Any:
    """Reads the fields of a CuPy array."""
    fields, none = words(array), int64(0)
    buffer = words(obj + fields[Array.CUPY_DATA])[0]
    if words(obj + fields[Array.CUPY_DTYPE])[0] != fields[Array.ELEMENT] or buffer == 0:
        return False, none, none, none
    if type_of(buffer) != fields[Array.BUFFER_TYPE]:
        return False, none, none, none
    lengths, strides, nbytes = (
        words(obj + fields[Array.CUPY_SHAPE]),
        words(obj + fields[Array.CUPY_STRIDES]),
        8 * fields[Array.NDIM],
    )
    right = lengths[1] - lengths[0] == nbytes and strides[1] - strides[0] == nbytes
    right = right and array_at(int32, buffer + fields[Array.CUPY_DEVICE])[0] == int32(fields[Array.DEVICE])
    return right, words(buffer + fields[Array.CUPY_ADDRESS])[0], lengths[0], strides[0]


def store_array(array: Any, data: Any, shape: Any, steps: Any, launch: Any, buffer: Any, spans: Any) -> Any:
    """Checks the layout, the alignment and the size of an array, stores its leaves, and notes its span."""
    fields, lengths, strides = words(array), words(shape), words(steps)
    span = words(spans + 16 * fields[Array.SPAN])
    size, in_c, small = int64(1), True, True
    for i in range(fields[Array.NDIM] - 1, -1, -1):
        length = lengths[i]
        if length <= 0:
            return False
        if steps != 0 and length != 1 and strides[i] != size * fields[Array.STEP]:
            in_c = False
        size *= length
        if length > model.INT.high or size > model.INT.high:
            small = False
        if fields[Array.LENGTH_SIZE] == 4:
            array_at(int32, buffer + fields[Array.LENGTHS])[i] = int32(length)
        elif fields[Array.LENGTH_SIZE] == 8:
            words(buffer + fields[Array.LENGTHS])[i] = length
    if not small:
        words(launch)[Launch.FACTS] = 0
    words(buffer + fields[Array.TARGET])[0] = span[0] = data
    span[1] = data + size * fields[Array.ITEMSIZE]
    if data & fields[Array.ALIGN] - 1 != 0:
        return False
    if in_c and fields[Array.ORDER] == AxisOrder.C:
        return fields[Array.STRIDES] < 0 or store_strides(array, shape, steps, buffer)
    order = fields[Array.ORDER]
    if in_c or order == AxisOrder.C or in_f_order(array, shape, steps) != (order == AxisOrder.F):
        return False
    if fields[Array.STRIDES] >= 0 and not store_strides(array, shape, steps, buffer):
        return False
    return order == AxisOrder.F or strided_span(array, data, shape, steps, spans)


def in_f_order(array: Any, shape: Any, steps: Any) -> Any:
    """Whether axes, from the first to the last, leave no gap (see `array_view.layout_of`)."""
    step = words(array)[Array.STEP]
    for i in range(words(array)[Array.NDIM]):
        length = words(shape)[i]
        if length != 1 and words(steps)[i] != step:
            return False
        step *= length
    return True


def store_strides(array: Any, shape: Any, steps: Any, buffer: Any) -> Any:
    """Stores the strides of an array in bytes or in elements. Returns False if one is not a number of elements."""
    fields, step = words(array), words(array)[Array.STEP]
    out = words(buffer + fields[Array.STRIDES])
    for i in range(fields[Array.NDIM] - 1, -1, -1):
        stride = words(steps)[i] if steps != 0 else step
        if fields[Array.DIVISOR] == 0:
            out[i] = stride * fields[Array.UNIT]
        else:
            if stride % fields[Array.DIVISOR] != 0:
                return False
            out[i] = stride // fields[Array.DIVISOR]
        step *= words(shape)[i]
    return True


def strided_span(array: Any, data: Any, shape: Any, steps: Any, spans: Any) -> Any:
    """Notes the span of a strided array: the addresses of its first byte and of the byte after its last."""
    fields, span = words(array), words(spans + 16 * words(array)[Array.SPAN])
    low, high = data, data
    for i in range(fields[Array.NDIM]):
        stride = words(steps)[i]
        if stride & fields[Array.STRIDE_ALIGN] - 1 != 0:
            return False
        reach = (words(shape)[i] - 1) * stride * fields[Array.UNIT]
        low, high = low + min(reach, 0), high + max(reach, 0)
    span[0], span[1] = low, high + fields[Array.ITEMSIZE]
    return True
