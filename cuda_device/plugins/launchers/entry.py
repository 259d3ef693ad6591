"""The path of a launch in machine code: from the call of `launch` to the plan for its arguments, and to the driver.

    launch(f, x, y, grid=1, block=32)    →   try_launch     gets the record of f
                                             bind_arguments one object for each parameter
                                             read_launch    sizes and stream
                                             read_capture   whether the stream is being captured
                                             run_plan       for each plan of f: `read_arguments`, `fits` and `start`

Each function returns whether the launch was made. If not, it has had no effect, and Python makes the launch. The functions are
device Python for the host, as in `object_reading`.
"""

from __future__ import annotations

from typing import Any

from numpy import int32, int64, uint32

from cuda_device.device.memory import array_at, local_array
from cuda_device.library.copying import address
from cuda_device.plugins.launchers import argument_reading, c_api, memory_layout, object_reading
from cuda_device.plugins.launchers.memory_layout import (
    MOST_PARAMETERS,
    Call,
    Launch,
    Name,
    Owner,
    Plan,
    Prepared,
    Start,
    Word,
)
from cuda_device.plugins.launchers.object_reading import EQ, KEYWORDS, Offset, item, known, size_of, type_of, words
from cuda_device.runtime.gpu import launch_log, streams

_WITHOUT_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_COOPERATIVE, _CLUSTER_DIMENSION, _STREAM_SERIALIZATION = 2, 4, 6  # CU_LAUNCH_ATTRIBUTE_…
_CONFIG_WORDS, _ATTRIBUTE_WORDS = 7, 9  # of 64 bits, in a CUlaunchConfig and a CUlaunchAttribute
# The highest bit of the count in a vector call is a flag (PY_VECTORCALL_ARGUMENTS_OFFSET).
_COUNT = (1 << 63) - 1


def called(self: Any, args: Any, flags: Any, names: Any) -> Any:
    """The vector call of `launch`, and the built-in functions of `plans`, which `self` distinguishes.

    For `launch` itself it tries machine code, and then calls the Python function. For a bool it returns whether machine code has
    made the launch or, for True, whether it would make it. For a tuple it makes a prepared launch; the second item is the Python
    function for the same.
    """
    count, kind, only_checked = flags & _COUNT, type_of(self), int64(self == known()[Word.TRUE])
    if kind == known()[Word.TUPLE]:
        is_made = try_prepared(self, args, count, names, only_checked)
    else:
        is_made = try_launch(args, count, names, only_checked)
    if not is_made:
        c_api.PyErr_Clear()
    if kind == known()[Word.BOOL]:
        answer = known()[Word.TRUE] if is_made else known()[Word.FALSE]
        c_api.Py_IncRef(answer)
        return answer
    if is_made:
        none = known()[Word.NONE]
        c_api.Py_IncRef(none)
        return none
    if kind == known()[Word.TUPLE]:
        return c_api.PyObject_Vectorcall(item(self, 1), args, count, names)
    return c_api.call_vector(known()[Word.LAUNCH], self, args, flags, names)


def try_launch(args: Any, count: Any, names: Any, only_checked: Any) -> Any:
    """Makes the launch of a call of `launch`, or only checks it."""
    if count < 1:
        return False
    kernel = words(args)[0]
    if type_of(kernel) != known()[Word.KERNEL]:
        return False
    native = words(kernel + Offset.NATIVE)[0]
    if native == 0:
        return False
    c_api.Py_IncRef(native)
    record = record_of(native, 8 * len(Call))
    is_made = record != 0 and try_plans(record, args + 8, count - 1, names, only_checked)
    c_api.Py_DecRef(native)
    return is_made


def record_of(native: Any, nbytes: Any) -> Any:
    """The first item of the tuple `native` if that has `nbytes` bytes: the record of a kernel. Otherwise null.

    The tuple owns the objects to which the record refers.
    """
    if type_of(native) != known()[Word.TUPLE] or size_of(native) == 0:
        return int64(0)
    record = item(native, 0)
    if type_of(record) != known()[Word.BYTES] or size_of(record) != nbytes:
        return int64(0)
    return record + Offset.OCTETS


def try_plans(record: Any, args: Any, count: Any, names: Any, only_checked: Any) -> Any:
    """Tries the plans of a kernel one after the other. The one that makes the launch becomes the first."""
    call = words(record)
    values, sizes = local_array(MOST_PARAMETERS, int64), local_array(KEYWORDS, int64)
    launch = local_array(len(Launch) + memory_layout.MOST_PRODUCERS, int64)
    launch_address = int64(address(launch))
    if not bind_arguments(record, args, count, names, int64(address(values)), int64(address(sizes))):
        return False
    if not object_reading.read_launch(int64(address(sizes)), launch_address):
        return False
    if not object_reading.read_capture(launch_address):
        return False
    launch[Launch.ONLY_CHECKED] = only_checked
    launch[Launch.VALUES] = args if count == call[Call.PARAMETERS] else int64(address(values))
    launch[Launch.COUNT] = call[Call.PARAMETERS]
    plans = words(call[Call.FIRST_PLAN])
    for i in range(call[Call.PLANS]):
        plan = plans[i]
        launch[Launch.PRODUCERS] = launch[Launch.RETAINED] = 0
        if run_plan(plan, launch_address):
            if plans[i] == plan:  # no other thread has changed the order during the launch
                plans[i], plans[0] = plans[0], plan
            return True
        object_reading.clear_error()
    return False


def run_plan(plan: Any, launch: Any) -> Any:
    """Makes the launch if its arguments are those of a plan."""
    buffer, parameters = (
        local_array(memory_layout.MOST_BYTES // 8, int64),
        local_array(memory_layout.MOST_LEAVES, int64),
    )
    data, pointers = int64(address(buffer)), int64(address(parameters))
    if not argument_reading.read_arguments(plan, words(launch)[Launch.VALUES], launch, data):
        return False
    point(pointers, data, words(plan)[Plan.OFFSETS], words(plan)[Plan.PARAMETERS])
    return start(launch, words(plan)[Plan.START], pointers)


def point(pointers: Any, data: Any, offsets: Any, count: Any) -> None:
    """Stores the address of each parameter in a buffer."""
    targets, leaf_offsets = words(pointers), words(offsets)
    for i in range(count):
        targets[i] = data + leaf_offsets[i]


# Parameters by name


def position_of(names: Any, count: Any, name: Any) -> Any:
    """The position of a name among the parameters, or -1. Names are compared by identity first, and then as text."""
    parameters = words(names)
    for i in range(count):
        if parameters[i] != 0 and parameters[i] == name:
            return int64(i)
    for i in range(count):
        if parameters[i] != 0 and c_api.PyObject_RichCompareBool(parameters[i], name, EQ) == 1:
            return int64(i)
    return int64(-1)


def bind_arguments(record: Any, args: Any, count: Any, names: Any, values: Any, sizes: Any) -> Any:
    """Stores an object for each parameter in `values`, unless `args` has all, and the keywords of `launch` in `sizes`."""
    call, passed, targets, keywords = words(record), words(args), words(values), words(sizes)
    function, parameters = call[Call.FUNCTION], call[Call.PARAMETERS]
    if words(function + Offset.CODE)[0] != call[Call.CODE]:
        return False
    if words(function + Offset.DEFAULTS)[0] != call[Call.DEFAULTS] or count > call[Call.POSITIONAL]:
        return False
    if count < parameters:
        for i in range(parameters):
            targets[i] = passed[i] if i < count else words(call[Call.VALUES])[i]
    for k in range(KEYWORDS):
        keywords[k] = 0
    for i in range(size_of(names) if names != 0 else int64(0)):
        name, value = item(names, i), passed[count + i]
        keyword = object_reading.keyword_of(name)
        if keyword >= 0:
            keywords[keyword] = value
        else:
            position = position_of(call[Call.NAMES], parameters, name)
            if position < count:  # unknown, or given by position
                return False
            targets[position] = value
    if count < parameters:
        for i in range(parameters):
            if targets[i] == 0:
                return False
    return True


def try_prepared(native: Any, args: Any, count: Any, names: Any, only_checked: Any) -> Any:
    """Makes a prepared launch, some of whose arguments may be replaced, as a call of `launch`."""
    record = record_of(native, 8 * len(Prepared))
    if record == 0:
        return False
    prepared, passed = words(record), words(args)
    parameters, stored = prepared[Prepared.PARAMETERS], words(prepared[Prepared.VALUES])
    if count > prepared[Prepared.POSITIONAL]:
        return False
    keywords, objects = prepared[Prepared.KEYWORDS], local_array(1 + MOST_PARAMETERS + KEYWORDS, int64)
    for i in range(1 + parameters + size_of(keywords)):
        objects[i] = stored[i]
    for i in range(count):
        objects[1 + i] = passed[i]
    for i in range(size_of(names) if names != 0 else int64(0)):
        position = position_of(prepared[Prepared.NAMES], parameters, item(names, i))
        if position < count:  # unknown, or given by position
            return False
        objects[1 + position] = passed[count + i]
    return try_launch(int64(address(objects)), parameters + 1, keywords, only_checked)


# Names that the compiler looked up


def unchanged(names: Any, count: Any) -> Any:
    """Whether the names that the compiler looked up still have the same values, with the same contents."""
    row = names
    for _ in range(count):
        name = words(row)
        same = Offset.VERSION != 0 and name[Name.KIND] == Owner.NAMESPACE
        same = same and words(name[Name.OWNER] + Offset.VERSION)[0] == name[Name.VERSION]
        if not same and not has_value(row):
            return False
        row += 8 * len(Name)
    return True


def has_value(row: Any) -> Any:
    """Whether a name still has the same value, or an object the same content; notes the version of the namespace."""
    name = words(row)
    kind, owner, value = name[Name.KIND], name[Name.OWNER], name[Name.VALUE]
    if kind == Owner.BYTES:
        return c_api.call_3(known()[Word.COMPARE_BYTES], owner, value, name[Name.NAME]) == 0
    if kind == Owner.NAMESPACE:
        current = c_api.PyDict_GetItemWithError(owner, name[Name.NAME])
    else:
        current = looked_up(kind, owner, name[Name.NAME])
        if current != 0:
            c_api.Py_DecRef(current)  # the caller holds the object that it is compared with
    # Without a value, there is no such name, or the lookup raised an exception.
    if current != value or (value == 0 and c_api.PyErr_Occurred() != 0):
        return False
    if Offset.VERSION != 0 and kind == Owner.NAMESPACE:
        name[Name.VERSION] = words(owner + Offset.VERSION)[0]
    return True


def looked_up(kind: Any, owner: Any, name: Any) -> Any:
    """A new reference to the value in a cell, of an attribute or of a call; null if there is none."""
    if kind == Owner.CELL:
        return c_api.PyCell_Get(owner)
    if kind == Owner.OBJECT:
        return c_api.PyObject_GetAttr(owner, name)
    return c_api.PyObject_Vectorcall(owner, 0, 0, 0)


# The driver


def fits(launch: Any, start: Any) -> Any:
    """Whether a compiled kernel can be launched: its context, the sizes, its names, and no pending report of an error."""
    launched, compiled = words(launch), words(start)
    if object_reading.context_of(launch) != compiled[Start.CONTEXT]:
        return False
    if launched[Launch.DEVICE] >= 0 and launched[Launch.DEVICE] != compiled[Start.DEVICE]:
        return False
    if launched[Launch.THREADS] > compiled[Start.MOST_THREADS] or launched[Launch.SHARED] > compiled[Start.MOST_SHARED]:
        return False
    for axis in range(3):
        if launched[Launch.GRID_X + axis] % compiled[Start.CLUSTER_X + axis] != 0:
            return False
    if launched[Launch.CLUSTER_X] != 0 and not fits_clusters(launch, start):
        return False
    if array_at(int32, words(compiled[Start.STATUS])[0])[0] != 0:
        return False
    if compiled[Start.COOPERATIVE] != 0 and launched[Launch.CAPTURING] != 0:  # a refused launch might end the capture
        return False
    return unchanged(compiled[Start.NAMES], compiled[Start.COUNT])


def fits_clusters(launch: Any, start: Any) -> Any:
    """Whether a launch consists of whole clusters of the size that it gives, and the kernel is compiled for these or for any."""
    launched, compiled = words(launch), words(start)
    has_size = is_compiled_for_clusters(start)
    for axis in range(3):
        size = launched[Launch.CLUSTER_X + axis]
        if launched[Launch.GRID_X + axis] % size != 0 or (has_size and compiled[Start.CLUSTER_X + axis] != size):
            return False
    return True


def is_compiled_for_clusters(start: Any) -> Any:
    """Whether a kernel is compiled for clusters of several blocks, whose size the driver knows."""
    size = words(start + 8 * Start.CLUSTER_X)
    return size[0] * size[1] * size[2] != 1


def start(launch: Any, kernel: Any, parameters: Any) -> Any:
    """Calls the driver, without the interpreter's lock if it can take time, and adds the launch to the log.

    Returns False if the kernel cannot be launched (`fits`).

    An ordered launch waits for the present work of the streams on which its arrays are produced, and their later work waits for
    the launch. Memory that is freed in the order of such a stream is therefore freed after the launch. A launch that is not
    ordered, or that reaches the memory of other devices, keeps its arguments alive until it has ended. A captured launch keeps
    them forever.
    """
    if not fits(launch, kernel):
        return False
    fields = words(launch)
    if fields[Launch.ONLY_CHECKED] != 0:
        return True
    events = local_array(2, int64)
    event, waits = int64(address(events)), fields[Launch.PRODUCERS] != 0 or fields[Launch.RETAINED] != 0
    if waits and not take_event(launch, kernel, event):
        return False
    if fields[Launch.CAPTURING] != 0:  # a captured launch never waits for the GPU
        is_made = submit(launch, kernel, parameters, event, waits)
    else:
        thread = c_api.PyEval_SaveThread()
        is_made = submit(launch, kernel, parameters, event, waits)
        c_api.PyEval_RestoreThread(thread)
    if waits:
        give_event(launch, kernel, event, is_made)
    if is_made:
        if fields[Launch.CAPTURING] != 0:
            keep_forever(fields[Launch.VALUES], fields[Launch.COUNT])
        log_launch(launch, kernel)
    return is_made


def submit(launch: Any, kernel: Any, parameters: Any, event: Any, waits: Any) -> Any:
    """Launches the kernel in the order of the producers' streams."""
    fields = words(launch)
    if waits and not wait_for_producers(launch, event):
        return False
    has_clusters = fields[Launch.CLUSTER_X] != 0 and not is_compiled_for_clusters(kernel)
    if has_clusters or fields[Launch.DEPENDENT] != 0 or words(kernel)[Start.COOPERATIVE] != 0:
        is_made = submit_with_attributes(launch, kernel, parameters, has_clusters)
    else:
        is_made = submit_plain(launch, kernel, parameters)
    if not is_made:
        return False
    # An error after the launch affects the whole context, and the next call of the driver reports it.
    if waits:
        hold_producers_back(launch, event)
    return True


def submit_plain(launch: Any, kernel: Any, parameters: Any) -> Any:
    """Calls `cuLaunchKernel`, and returns whether it succeeds."""
    fields = words(launch)
    grid = int32(fields[Launch.GRID_X]), int32(fields[Launch.GRID_Y]), int32(fields[Launch.GRID_Z])
    block = int32(fields[Launch.BLOCK_X]), int32(fields[Launch.BLOCK_Y]), int32(fields[Launch.BLOCK_Z])
    function, stream = known()[Word.LAUNCH_KERNEL], fields[Launch.STREAM]
    handle, shared = words(kernel)[Start.KERNEL], int32(fields[Launch.SHARED] + words(kernel)[Start.MOVED])
    return c_api.call_launch(function, handle, *grid, *block, shared, stream, parameters, 0) == 0


def submit_with_attributes(launch: Any, kernel: Any, parameters: Any, has_clusters: Any) -> Any:
    """Calls `cuLaunchKernelEx`, and returns whether it succeeds.

    Its CUlaunchConfig has seven sizes of 32 bits, the stream, and the address and the number of attributes. Each of these has
    its number and, from its second word on, a value of 64 bytes.
    """
    fields, config, attributes = (
        words(launch),
        local_array(_CONFIG_WORDS, int64),
        local_array(3 * _ATTRIBUTE_WORDS, int64),
    )
    sizes, values = array_at(uint32, int64(address(config))), array_at(uint32, int64(address(attributes)))
    for i in range(6):
        sizes[i] = uint32(fields[Launch.GRID_X + i])
    sizes[6] = uint32(fields[Launch.SHARED] + words(kernel)[Start.MOVED])
    for i in range(3 * _ATTRIBUTE_WORDS):
        attributes[i] = 0
    count = int64(0)
    if has_clusters:
        attributes[0] = _CLUSTER_DIMENSION
        for axis in range(3):
            values[2 + axis] = uint32(fields[Launch.CLUSTER_X + axis])
        count += 1
    if words(kernel)[Start.COOPERATIVE] != 0:
        attributes[_ATTRIBUTE_WORDS * count], attributes[_ATTRIBUTE_WORDS * count + 1] = _COOPERATIVE, 1
        count += 1
    if fields[Launch.DEPENDENT] != 0:
        attributes[_ATTRIBUTE_WORDS * count], attributes[_ATTRIBUTE_WORDS * count + 1] = _STREAM_SERIALIZATION, 1
        count += 1
    config[4], config[5], config[6] = fields[Launch.STREAM], int64(address(attributes)), count
    function, handle = known()[Word.LAUNCH_WITH_ATTRIBUTES], words(kernel)[Start.KERNEL]
    return c_api.call_4(function, int64(address(config)), handle, parameters, 0) == 0


def log_launch(launch: Any, kernel: Any) -> None:
    """Adds a launch to the log of `launch_log`."""
    launched, compiled, ring = words(launch), words(kernel), known()[Word.RING]
    count = words(ring)[0]
    record = ring + 8 + launch_log.RECORD.size * (count % launch_log.MOST)
    row, sizes = words(record), array_at(uint32, record + 32)
    row[0], row[1], row[2], row[3] = compiled[Start.NAME], compiled[Start.CONTEXT], launched[Launch.STREAM], 0
    for i in range(6):
        sizes[i] = uint32(launched[Launch.GRID_X + i])
    words(ring)[0] = count + 1


# Events, and what is kept alive


def take_event(launch: Any, kernel: Any, event: Any) -> Any:
    """Decides how the launch waits, and gets an event and the Python int with its handle, or zeros if it needs none.

    The event is a spare one, or a new one (and null) for a capture. From here on, the launch has `PRODUCERS` only if it is
    ordered with them, and is `RETAINED` only if its arguments are kept until it has ended.
    """
    fields, out = words(launch), words(event)
    if fields[Launch.ORDERED] == 0:
        fields[Launch.PRODUCERS], fields[Launch.RETAINED] = 0, 1
    out[0] = out[1] = 0
    if fields[Launch.CAPTURING] != 0:
        fields[Launch.RETAINED] = 0
        return fields[Launch.PRODUCERS] == 0 or c_api.call_2(known()[Word.CREATE_EVENT], event, _WITHOUT_TIMING) == 0
    if fields[Launch.RETAINED] != 0 and c_api.PyObject_Size(fields[Launch.PENDING]) >= streams.MOST_RETAINED:
        return False  # Python releases the arguments of launches that have ended
    number = object_reading.call_method(words(kernel)[Start.EVENTS], known()[Word.POP])
    if number == 0:
        return False
    out[0], out[1] = c_api.PyLong_AsUnsignedLongLong(number), number
    return True


def give_event(launch: Any, kernel: Any, event: Any, is_made: Any) -> None:
    """Keeps an event of `take_event` with the arguments of a retained launch, returns it to the spare ones, or destroys it."""
    handle, number = words(event)[0], words(event)[1]
    if is_made and words(launch)[Launch.RETAINED] != 0:
        keep_until(launch, number)
    elif number != 0:
        c_api.PyList_Append(words(kernel)[Start.EVENTS], number)
        c_api.Py_DecRef(number)
    elif handle != 0:
        c_api.call_1(known()[Word.DESTROY_EVENT], handle)
    c_api.PyErr_Clear()


def keep_until(launch: Any, number: Any) -> None:
    """Puts an event and the arguments of a launch into the queue of `streams.Retained`, which owns them from then on."""
    pair, append = local_array(2, int64), local_array(2, int64)
    pair[0], pair[1] = number, tuple_of(words(launch)[Launch.VALUES], words(launch)[Launch.COUNT])
    if pair[1] == 0:
        return
    append[0], append[1] = words(launch)[Launch.PENDING], tuple_of(int64(address(pair)), 2)
    c_api.Py_DecRef(pair[1])
    c_api.Py_DecRef(number)
    if append[1] != 0:
        answer = c_api.PyObject_VectorcallMethod(known()[Word.APPEND], int64(address(append)), 2, 0)
        c_api.Py_DecRef(append[1])
        if answer != 0:
            c_api.Py_DecRef(answer)


def wait_for_producers(launch: Any, event: Any) -> Any:
    """Makes the stream of the launch wait for the present work of the producers' streams."""
    fields, mark, producers = words(launch), words(event)[0], words(launch + 8 * Launch.FIRST_PRODUCER)
    record, wait = known()[Word.RECORD_EVENT], known()[Word.WAIT_EVENT]
    for i in range(fields[Launch.PRODUCERS]):
        if c_api.call_2(record, mark, producers[i]) != 0 or c_api.call_3(wait, fields[Launch.STREAM], mark, 0) != 0:
            return False
    return True


def hold_producers_back(launch: Any, event: Any) -> None:
    """Records the end of the launch, if an event is needed, and makes the producers' streams wait for it."""
    fields, mark, producers = words(launch), words(event)[0], words(launch + 8 * Launch.FIRST_PRODUCER)
    if mark != 0 and c_api.call_2(known()[Word.RECORD_EVENT], mark, fields[Launch.STREAM]) == 0:
        for i in range(fields[Launch.PRODUCERS]):
            if c_api.call_3(known()[Word.WAIT_EVENT], producers[i], mark, 0) != 0:
                break


def keep_forever(values: Any, count: Any) -> None:
    """Keeps the arguments of a captured launch."""
    if not is_kept(values, count):
        kept = tuple_of(values, count)
        if kept != 0:
            c_api.PyList_Append(known()[Word.CAPTURED], kept)
            c_api.Py_DecRef(kept)
        c_api.PyErr_Clear()


def is_kept(values: Any, count: Any) -> Any:
    """Whether the launch that was captured last had the same arguments, which are never released."""
    captured = known()[Word.CAPTURED]
    launches = size_of(captured)
    if launches <= 0:
        return False
    last = words(words(captured + Offset.LISTED)[0])[launches - 1]
    if size_of(last) != count:
        return False
    same = True
    for i in range(count):
        same = same and item(last, i) == words(values)[i]
    return same


def tuple_of(values: Any, count: Any) -> Any:
    """A new tuple of the objects whose addresses are at `values`; null if there is no memory."""
    result = c_api.PyTuple_New(count)
    if result != 0:
        for i in range(count):
            c_api.Py_IncRef(words(values)[i])
            c_api.PyTuple_SetItem(result, i, words(values)[i])
    return result


RARE = (
    argument_reading.cupy_array,
    argument_reading.lent_tensor,
    argument_reading.read_other,
    argument_reading.store_strides,
    argument_reading.strided_span,
    fits_clusters,
    give_event,
    has_value,
    keep_forever,
    object_reading.foreign_stream,
    object_reading.long_int,
    object_reading.made_elsewhere,
    object_reading.read_attributes,
    object_reading.several_sizes,
    submit_with_attributes,
    take_event,
    try_prepared,
)
"""The functions that most launches do not call."""

HOT = (argument_reading.store_array,)
