"""Machine code that reads Python objects: numbers, and the keywords of `launch`.

The functions are device Python for the host: addresses are int64, and null is 0. They return False for anything unexpected, and
their other results are then invalid. They read the memory of an object only after comparing its type.
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint32

from cuda_device.device.memory import array_at, local_array
from cuda_device.extend import driver
from cuda_device.library.copying import address
from cuda_device.plugins.launchers import c_api, memory_layout
from cuda_device.plugins.launchers.memory_layout import MOST_PRODUCERS, Launch, SeenStream, Stream, StreamType, Word
from cuda_device.runtime.gpu import grid as limits

Offset: Any = type("Offset", (), memory_layout.offsets())
"""The offsets in objects of this Python, which are constants of the machine code."""

EQ = 2  # Py_EQ
_CUDA = 2  # DLPack's number for the memory of a CUDA GPU


def words(address: Any) -> Any:
    """The words at an address."""
    return array_at(int64, int64(address))


def known() -> Any:
    """The table of words."""
    return words(c_api.launcher_words())


def type_of(obj: Any) -> Any:
    """The type of an object, borrowed."""
    return words(obj + Offset.TYPE)[0]


def size_of(obj: Any) -> Any:
    """The length of a tuple, list or bytes object."""
    return words(obj + Offset.SIZE)[0]


def item(obj: Any, index: Any) -> Any:
    """An item of a tuple, borrowed; the caller has checked the length."""
    return words(obj + Offset.ITEMS)[index]


def clear_error() -> None:
    """Clears the exception, if one is set: asking takes a tenth of the time of clearing."""
    if c_api.PyErr_Occurred() != 0:
        c_api.PyErr_Clear()


# Numbers and attributes


def int_of(obj: Any) -> Any:
    """The value of an int, not a bool, of 64 bits, and whether it is one."""
    if type_of(obj) != known()[Word.INT]:
        return int64(0), False
    size = size_of(obj)
    if size == Offset.ONE_DIGIT or size == Offset.OTHER_DIGIT:
        return int64(array_at(uint32, obj + Offset.DIGIT)[0]), True
    return long_int(obj)


def long_int(obj: Any) -> Any:
    """The value of an int that is 0, negative, or has several digits, and whether it has 64 bits."""
    overflow = local_array(1, int64)
    overflow[0] = 0
    number = c_api.PyLong_AsLongLongAndOverflow(obj, int64(address(overflow)))
    return number, overflow[0] == 0


def unsigned(obj: Any) -> Any:
    """The value of an unsigned int of 64 bits, and whether it is one."""
    number = c_api.PyLong_AsUnsignedLongLong(obj)
    return number, number != -1 or c_api.PyErr_Occurred() == 0


def attribute(obj: Any, name: Any) -> Any:
    """The value of an attribute that is an unsigned int of 64 bits, and whether it is one."""
    value = c_api.PyObject_GetAttr(obj, name)
    if value == 0:
        return int64(0), False
    number, right = unsigned(value)
    c_api.Py_DecRef(value)
    return number, right


def call_method(obj: Any, name: Any) -> Any:
    """The result of a method without arguments: a new reference, or null."""
    arguments = local_array(1, int64)
    arguments[0] = obj
    return c_api.PyObject_VectorcallMethod(name, int64(address(arguments)), 1, 0)


def denies(obj: Any, name: Any) -> Any:
    """Whether a method returns False."""
    answer = call_method(obj, name)
    if answer == 0:
        return False
    c_api.Py_DecRef(answer)
    return answer == known()[Word.FALSE]


def is_false(obj: Any, name: Any) -> Any:
    """Whether an attribute is False."""
    value = c_api.PyObject_GetAttr(obj, name)
    if value != 0:
        c_api.Py_DecRef(value)  # its address only is compared
    return value == known()[Word.FALSE]


def same_constant(obj: Any, expected: Any) -> Any:
    """Whether a value is a constant: the same object, or an equal int, str or float. The caller excludes zeros and NaN."""
    if obj == expected:
        return True
    kind = type_of(obj)
    if kind != type_of(expected):
        return False
    if kind != known()[Word.INT] and kind != known()[Word.STR] and kind != known()[Word.FLOAT]:
        return False
    return c_api.PyObject_RichCompareBool(obj, expected, EQ) == 1


# The streams on which arrays are produced


def works_on(function: Any, device: Any, launch: Any) -> Any:
    """Enters the current stream of a framework with DLPack's C exchange API among the producers."""
    handle = local_array(1, int64)
    handle[0] = 0
    return c_api.call_3(function, _CUDA, device, int64(address(handle))) == 0 and made_on(handle[0], launch)


def cupy_works_on(function: Any, device: Any, launch: Any) -> Any:
    """Enters the current stream of CuPy among the producers; `function` returns it for the number of a device."""
    stream = c_api.PyObject_CallOneArg(function, device)
    if stream == 0:
        return False
    seen = known()[Word.STREAM_OF_CUPY]
    handle, right = words(seen)[SeenStream.HANDLE], True
    if stream != words(seen)[SeenStream.OBJECT]:
        handle, right = attribute(stream, known()[Word.PTR])
        if right:
            remember_stream(seen, stream, handle, -1, Offset.TYPE)
    c_api.Py_DecRef(stream)
    return right and made_on(handle, launch)


def remember_stream(seen: Any, obj: Any, handle: Any, device: Any, is_open: Any) -> None:
    """Stores a stream of a framework (see `SeenStream`). Holding a reference keeps the object's address unique."""
    record = words(seen)
    old = record[SeenStream.OBJECT]
    c_api.Py_IncRef(obj)
    record[SeenStream.OBJECT], record[SeenStream.HANDLE] = obj, handle
    record[SeenStream.DEVICE], record[SeenStream.OPEN] = device, obj + is_open
    if old != 0:
        c_api.Py_DecRef(old)  # last, because its destructor can run any code


def made_on(handle: Any, launch: Any) -> Any:
    """Enters the stream on which an array is produced (0 is the legacy one) among the producers, unless it is that of the launch.

    A captured launch is ordered only with streams of the same capture, which the legacy stream never is; whoever starts the graph
    orders it with others.
    """
    fields = words(launch)
    producer = driver.LEGACY_STREAM if handle == 0 else handle
    if producer == fields[Launch.STREAM]:
        return True
    return producer != driver.PER_THREAD_STREAM and made_elsewhere(producer, launch)


def made_elsewhere(producer: Any, launch: Any) -> Any:
    """Enters another stream among the producers, unless it is there."""
    fields, producers = words(launch), words(launch + 8 * Launch.FIRST_PRODUCER)
    count = fields[Launch.PRODUCERS]
    for i in range(count):
        if producers[i] == producer:
            return True
    if fields[Launch.CAPTURING] != 0:
        if producer == driver.LEGACY_STREAM or capture_state(producer) != 1:
            return True
        if capture_number(producer) != capture_number(fields[Launch.STREAM]):
            return True
    elif capture_state(producer) != 0:
        return False
    context = current_context()
    if context == 0 or context != context_of(launch) or count >= MOST_PRODUCERS:
        return False
    producers[count] = producer
    fields[Launch.PRODUCERS] = count + 1
    return True


# The stream and sizes of a launch


KEYWORDS = 6
"""The number of keywords of `launch`: grid, block, stream, shared."""


def keyword_of(name: Any) -> Any:
    """The number of a keyword of `launch`, or -1."""
    if name == known()[Word.GRID]:
        return int64(0)
    if name == known()[Word.BLOCK]:
        return int64(1)
    if name == known()[Word.STREAM]:
        return int64(2)
    if name == known()[Word.SHARED]:
        return int64(3)
    if name == known()[Word.CLUSTER]:
        return int64(4)
    return int64(5) if name == known()[Word.DEPENDENT] else int64(-1)


_INT_MAX = (1 << 31) - 1
_MOST_CLUSTER = (limits.MOST_IN_CLUSTER,) * 3


def read_launch(values: Any, launch: Any) -> Any:
    """Reads the stream and the sizes of a launch from the values of the keywords."""
    fields, value = words(launch), words(values)
    if not read_sizes(value[0], launch + 8 * Launch.GRID_X, limits.MOST_BLOCKS):
        return False
    if not read_sizes(value[1], launch + 8 * Launch.BLOCK_X, limits.MOST_THREADS):
        return False
    fields[Launch.THREADS] = fields[Launch.BLOCK_X] * fields[Launch.BLOCK_Y] * fields[Launch.BLOCK_Z]
    # Python checks whether the kernel counts its threads in 32 bits.
    if fields[Launch.THREADS] > limits.MOST_IN_BLOCK:
        return False
    if fields[Launch.GRID_X] * fields[Launch.BLOCK_X] >= limits.MOST_POSITIONS:
        return False
    fields[Launch.CLUSTER_X] = fields[Launch.DEPENDENT] = 0
    if (value[4] != 0 or value[5] != 0) and not read_attributes(values, launch):
        return False
    fields[Launch.SHARED], right = int_of(value[3]) if value[3] != 0 else (int64(0), True)
    return right and fields[Launch.SHARED] >= 0 and fields[Launch.SHARED] <= _INT_MAX and find_stream(value[2], launch)


def read_sizes(obj: Any, out: Any, most: Any) -> Any:
    """Reads the size of a grid, a block or a cluster, an int or a tuple of one to three, each of which is at most `most`."""
    size = words(out)
    size[1] = size[2] = 1
    if obj == 0:
        return False
    if type_of(obj) != known()[Word.TUPLE]:
        size[0], right = int_of(obj)
        return right and size[0] > 0 and size[0] <= most[0]
    return several_sizes(obj, out) and size[0] <= most[0] and size[1] <= most[1] and size[2] <= most[2]


def read_attributes(values: Any, launch: Any) -> Any:
    """Reads `cluster` and `dependent`, which may be None."""
    fields, cluster, dependent = words(launch), words(values)[4], words(values)[5]
    if cluster != 0 and cluster != known()[Word.NONE]:
        if not read_sizes(cluster, launch + 8 * Launch.CLUSTER_X, _MOST_CLUSTER):
            return False
        blocks = fields[Launch.CLUSTER_X] * fields[Launch.CLUSTER_Y] * fields[Launch.CLUSTER_Z]
        if blocks > limits.MOST_IN_CLUSTER:
            return False
    fields[Launch.DEPENDENT] = int64(dependent == known()[Word.TRUE])
    return dependent == 0 or dependent == known()[Word.NONE] or type_of(dependent) == known()[Word.BOOL]


def several_sizes(obj: Any, out: Any) -> Any:
    """Reads the sizes along one to three axes."""
    sizes, count = words(out), size_of(obj)
    if count < 1 or count > 3:
        return False
    for axis in range(count):
        sizes[axis], right = int_of(item(obj, axis))
        if not right or sizes[axis] < 1:
            return False
    return True


def find_stream(obj: Any, launch: Any) -> Any:
    """Reads the stream of a launch as `as_stream` does: None, one of ours, a handle, or an object with `__cuda_stream__`."""
    fields = words(launch)
    fields[Launch.DEVICE], fields[Launch.ORDERED], fields[Launch.PENDING], fields[Launch.PRODUCERS] = -1, 1, 0, 0
    if obj == 0 or obj == known()[Word.NONE]:
        return numbered_stream(driver.LEGACY_STREAM, launch)
    kind = type_of(obj)
    if kind == known()[Word.GPU_STREAM]:
        return own_stream(obj, launch)
    if kind == known()[Word.INT]:
        handle, right = unsigned(obj)
        return right and numbered_stream(handle, launch)
    return foreign_stream(obj, launch)


def own_stream(obj: Any, launch: Any) -> Any:
    """Reads one of our streams. The driver will launch in its context; that of the legacy stream has to be the current one."""
    fields, data, retained = words(launch), words(obj + Offset.STREAM_WORDS)[0], words(obj + Offset.RETAINED)[0]
    if data == 0 or retained == 0:
        return False
    if type_of(data) != known()[Word.BYTES] or size_of(data) != 8 * len(Stream):
        return False
    stream = words(data + Offset.OCTETS)
    fields[Launch.STREAM], fields[Launch.CONTEXT] = stream[Stream.HANDLE], stream[Stream.CONTEXT]
    fields[Launch.ORDERED], fields[Launch.PENDING] = stream[Stream.ORDERED], words(retained + Offset.PENDING)[0]
    if fields[Launch.PENDING] == 0 or fields[Launch.STREAM] == driver.PER_THREAD_STREAM:
        return False
    return fields[Launch.STREAM] != driver.LEGACY_STREAM or current_context() == fields[Launch.CONTEXT]


def numbered_stream(handle: Any, launch: Any) -> Any:
    """Sets the stream of a launch by its handle. `context_of` finds its context."""
    fields = words(launch)
    fields[Launch.STREAM] = driver.LEGACY_STREAM if handle == 0 else handle
    fields[Launch.CONTEXT] = 0
    return handle != driver.PER_THREAD_STREAM


def foreign_stream(obj: Any, launch: Any) -> Any:
    """Reads a stream of a framework, and its device: by an attribute for known types, and otherwise by the slower protocol.

    The handle of a stream of a known type is constant, so the last such stream is not read again while it is open.
    """
    fields, seen = words(launch), words(known()[Word.STREAM_OF_LAUNCH])
    if obj == seen[SeenStream.OBJECT] and words(seen[SeenStream.OPEN])[0] != 0:
        fields[Launch.DEVICE] = seen[SeenStream.DEVICE]
        return numbered_stream(seen[SeenStream.HANDLE], launch)
    if c_api.PyType_IsSubtype(type_of(obj), known()[Word.GPU_STREAM]) != 0:
        return False  # Python records the launches of such a stream
    row = words(stream_type(type_of(obj)))
    handle, right = int64(0), False
    if row[StreamType.NAME] != 0:
        handle, right = attribute(obj, row[StreamType.NAME])
    else:
        handle, right = handle_by_protocol(obj)
    if not right or not numbered_stream(handle, launch):
        return False
    if known()[Word.SEVERAL_DEVICES] != 0 and fields[Launch.STREAM] == driver.LEGACY_STREAM:
        fields[Launch.DEVICE] = device_of(obj)
    if row[StreamType.OPEN] != 0:
        remember_stream(known()[Word.STREAM_OF_LAUNCH], obj, handle, fields[Launch.DEVICE], row[StreamType.OPEN])
    return True


def stream_type(kind: Any) -> Any:
    """The record of a framework's type of streams; for other types, one of zeros, which is behind the others."""
    row = known()[Word.STREAM_TYPES]
    for _ in range(memory_layout.MOST_STREAM_TYPES):
        if words(row)[StreamType.TYPE] == kind:
            break
        row += 8 * len(StreamType)
    return row


def handle_by_protocol(obj: Any) -> Any:
    """The handle that `__cuda_stream__` returns behind its version, which is 0, and whether that is the result."""
    pair = call_method(obj, known()[Word.CUDA_STREAM])
    if pair == 0:
        return int64(0), False
    handle, right = int64(0), False
    if type_of(pair) == known()[Word.TUPLE] and size_of(pair) == 2:
        version, is_int = int_of(item(pair, 0))
        handle, right = int_of(item(pair, 1))
        right = right and is_int and version == 0
    c_api.Py_DecRef(pair)
    return handle, right


def device_of(obj: Any) -> Any:
    """The device number of a framework's stream: -1 if it has none, which means the current device."""
    for name in (Word.DEVICE_INDEX, Word.DEVICE_ID):
        device, right = attribute(obj, known()[name])
        if right:
            return device
        c_api.PyErr_Clear()
    return int64(-1)


# What the driver knows of streams


def context_of(launch: Any) -> Any:
    """The context of a launch; 0 if it has none. The driver is asked once, unless an array has told it (`own_array`)."""
    fields = words(launch)
    if fields[Launch.CONTEXT] != 0:
        return fields[Launch.CONTEXT]
    if fields[Launch.STREAM] == driver.LEGACY_STREAM:  # its context is the current one
        fields[Launch.CONTEXT] = current_context()
        return fields[Launch.CONTEXT]
    function = known()[Word.CONTEXT_OF_STREAM]
    if function == 0 or c_api.call_2(function, fields[Launch.STREAM], launch + 8 * Launch.CONTEXT) != 0:
        return int64(0)
    return fields[Launch.CONTEXT]


def current_context() -> Any:
    """The current context; 0 if there is none."""
    context, function = local_array(1, int64), known()[Word.GET_CONTEXT]
    context[0] = 0
    if function == 0 or c_api.call_1(function, int64(address(context))) != 0:
        return int64(0)
    return context[0]


def capture_state(stream: Any) -> Any:
    """Whether a stream is being captured: 0 or 1; 2 if the capture is invalid, or would become so."""
    state, function = local_array(1, int64), known()[Word.CAPTURE_STATE]
    state[0] = 0
    if function == 0 or c_api.call_2(function, stream, int64(address(state))) != 0:
        return int64(2)
    return state[0]


def capture_number(stream: Any) -> Any:
    """The driver's number of the capture that a stream takes part in; 0 if none."""
    state, number = local_array(1, int64), local_array(1, int64)
    number[0] = 0
    c_api.call_6(known()[Word.CAPTURE_INFO], stream, int64(address(state)), int64(address(number)), 0, 0, 0)
    return number[0]


def read_capture(launch: Any) -> Any:
    """Sets whether the stream of a launch is being captured, which the legacy stream cannot be."""
    fields = words(launch)
    fields[Launch.CAPTURING] = 0
    if fields[Launch.STREAM] != driver.LEGACY_STREAM:
        fields[Launch.CAPTURING] = capture_state(fields[Launch.STREAM])
    return fields[Launch.CAPTURING] <= 1
