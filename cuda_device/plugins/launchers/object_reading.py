"""Machine code that reads Python objects: arguments, and `grid`, `block`, `stream` and `shared`.

All launchers share these functions. They return false for anything unexpected, and their results are then invalid. They read the
memory of an object only after comparing its type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from cuda_device.plugins.launchers.guard_writer import GuardWriter, Operand, shared
from cuda_device.plugins.launchers.memory_layout import (
    DIGIT,
    LAUNCH,
    MOST_PRODUCERS,
    MOST_STREAM_TYPES,
    ONE_DIGIT,
    OWN_ARRAY,
    SEEN_STREAM,
    STREAM,
    STREAM_TYPE,
    TYPE,
    Word,
)
from cuda_device.runtime.arrays.device_array import DeviceArray
from cuda_device.runtime.gpu.driver import LEGACY_STREAM, PER_THREAD_STREAM
from cuda_device.runtime.gpu.grid import MOST_BLOCKS, MOST_IN_BLOCK, MOST_POSITIONS, MOST_THREADS
from cuda_device.runtime.gpu.streams import GpuStream, Retained

EQ = 2  # Py_EQ
_POINTER = 8
_SIMPLE = 0  # PyBUF_SIMPLE
_TENSOR_BYTES = 48  # the size of DLTensor
_BUFFER_BYTES, _BUFFER_LENGTH = 80, 16  # the size of Py_buffer, and the offset of its length


@shared("i1", "ptr %object", "ptr %name", "ptr %expected")
def same_attribute(code: GuardWriter) -> None:
    """Whether the attribute `name` of an object is a given object."""
    found = code.call("PyObject_GetAttr", "%object", "%name")
    code.require(code.compare("ne", "ptr", found, "null"))
    code.release(found)  # its address only is compared
    code.require(code.equal("ptr", found, "%expected"))


@shared("i1", "ptr %object", "ptr %name", exported=True)
def denies(code: GuardWriter) -> None:
    """Whether the method `name` of an object, called without arguments, returns False."""
    arguments = code.memory(8)
    code.store("ptr", "%object", arguments)
    found = code.call("PyObject_VectorcallMethod", "%name", arguments, 1, "null")
    code.require(code.compare("ne", "ptr", found, "null"))
    code.release(found)
    code.require(code.is_word(found, Word.FALSE))


@shared("i1", "ptr %object", "ptr %expected", exported=True)
def same_constant(code: GuardWriter) -> None:
    """Whether a value is a constant: the same object, or an equal int, str or float. The caller excludes zeros and NaN."""
    code.leave_when(code.equal("ptr", "%object", "%expected"), "true")
    kind = code.type_of("%object")
    code.require(code.equal("ptr", kind, code.type_of("%expected")))
    plain = code.either(code.is_word(kind, Word.INT), code.is_word(kind, Word.STR))
    code.require(code.either(plain, code.is_word(kind, Word.FLOAT)))
    code.require(code.equal("i32", code.call("PyObject_RichCompareBool", "%object", "%expected", EQ), 1))


@shared("i1", "ptr %object", "i64 %low", "i64 %high", "ptr %out", exported=True)
def int_of(code: GuardWriter) -> None:
    """Reads an int, not a bool, between two bounds."""
    code.require(code.has_type("%object", Word.INT))
    short = code.either(*(code.equal("i64", code.size_of("%object"), word) for word in ONE_DIGIT))
    with code.when(short):
        code.store("i64", code.value(f"zext i32 {code.load('i32', '%object', DIGIT)} to i64"), "%out")
    with code.when(code.opposite(short)):
        code.require(code.call("long_int", "%object", "%out"))
    number = code.load("i64", "%out")
    code.require(code.compare("sge", "i64", number, "%low"))
    code.require(code.compare("sle", "i64", number, "%high"))


@shared("i1", "ptr %object", "ptr %out", rare=True)
def long_int(code: GuardWriter) -> None:
    """Reads an int of 64 bits that is 0, negative, or has several digits."""
    overflow = code.memory(4)
    code.store("i64", code.call("PyLong_AsLongLongAndOverflow", "%object", overflow), "%out")
    code.require(code.equal("i32", code.load("i32", overflow), 0))


@shared("i1", "ptr %object", "ptr %out", "i64 %nbytes", exported=True)
def scalar(code: GuardWriter) -> None:
    """Copies the bytes of a NumPy scalar, whose type the caller has compared."""
    view = code.memory(_BUFFER_BYTES)
    code.require(code.equal("i32", code.call("PyObject_GetBuffer", "%object", view, _SIMPLE), 0))
    length = code.load("i64", view, _BUFFER_LENGTH)
    right = code.equal("i64", length, "%nbytes")
    with code.when(right):
        code.copy("%out", code.load("ptr", view), "%nbytes")
    code.call("PyBuffer_Release", view)
    code.require(right)


@shared("i1", "ptr %object", "ptr %out", exported=True)
def integer(code: GuardWriter) -> None:
    """Reads an unsigned int of 64 bits."""
    number = code.call("PyLong_AsUnsignedLongLong", "%object")
    with code.when(code.equal("i64", number, -1)):
        code.leave_when(code.compare("ne", "ptr", code.call("PyErr_Occurred"), "null"), "false")
    code.store("i64", number, "%out")


@shared("i1", "ptr %object", "i64 %count", "ptr %out")
def integers(code: GuardWriter) -> None:
    """Reads a tuple of `%count` ints of 64 bits."""
    code.require(code.has_type("%object", Word.TUPLE))
    code.require(code.equal("i64", code.size_of("%object"), "%count"))
    with code.repeat("%count") as i:
        item = code.item("%object", i)
        code.require(code.call("int_of", item, -(1 << 63), (1 << 63) - 1, code.at("%out", i, 8)))


@shared("i1", "ptr %object", "i64 %count", "ptr %out")
def octets(code: GuardWriter) -> None:
    """Copies a bytes object of `%count` bytes."""
    code.require(code.has_type("%object", Word.BYTES))
    code.require(code.equal("i64", code.size_of("%object"), "%count"))
    code.copy("%out", code.octets("%object"), "%count")


@shared("i1", "ptr %object", "ptr %name", "ptr %out")
def integer_attribute(code: GuardWriter) -> None:
    """Reads an attribute that is an unsigned int of 64 bits."""
    found = code.call("PyObject_GetAttr", "%object", "%name")
    code.require(code.compare("ne", "ptr", found, "null"))
    right = code.call("integer", found, "%out")
    code.release(found)
    code.require(right)


@shared("i1", "ptr %function", "i64 %device", "ptr %launch", exported=True)
def works_on(code: GuardWriter) -> None:
    """Enters the current stream of a framework with DLPack's C exchange API among the producers."""
    found = code.memory(8)
    code.store("i64", 0, found)
    device = code.value("trunc i64 %device to i32")
    status = code.call_pointer("i32", "%function", ("i32", 2), ("i32", device), ("ptr", found))
    code.require(code.equal("i32", status, 0))
    code.require(code.call("made_on", code.load("i64", found), "%launch"))


@shared("i1", "i64 %handle", "ptr %launch")
def made_on(code: GuardWriter) -> None:
    """Enters the stream on which an array is produced (0 is the legacy one) among the producers, unless it is that of the launch.

    A captured launch is ordered only with streams of the same capture, which the legacy stream never is; whoever starts the graph
    orders it with others.
    """
    legacy = code.equal("i64", "%handle", 0)
    producer = code.value(f"select i1 {legacy}, i64 {LEGACY_STREAM}, i64 %handle")
    code.leave_when(code.equal("i64", producer, code.get(LAUNCH, "%launch", "stream")), "true")
    code.require(code.compare("ne", "i64", producer, PER_THREAD_STREAM))
    count, known = code.get(LAUNCH, "%launch", "producers"), code.field(LAUNCH, "%launch", "producer")
    with code.repeat(count) as i:
        code.leave_when(code.equal("i64", code.load("i64", code.at(known, i, 8)), producer), "true")
    state = code.memory(8)
    capturing = code.compare("ne", "i64", code.get(LAUNCH, "%launch", "capturing"), 0)
    code.leave_when(code.both(capturing, code.equal("i64", producer, LEGACY_STREAM)), "true")
    there = code.call("capture_state", producer, state)
    with code.when(capturing):
        code.leave_when(code.opposite(there), "true")
        code.leave_when(code.equal("i64", code.load("i64", state), 0), "true")
        theirs, ours = (code.call("capture_number", each) for each in (producer, code.get(LAUNCH, "%launch", "stream")))
        code.leave_when(code.compare("ne", "i64", theirs, ours), "true")
    with code.when(code.opposite(capturing)):
        code.require(there)
        code.require(code.equal("i64", code.load("i64", state), 0))
    context = code.memory(8)
    code.require(code.call("current_context", context))
    code.require(code.equal("i64", code.load("i64", context), code.call("context_of", "%launch")))
    code.require(code.compare("ult", "i64", count, MOST_PRODUCERS))
    code.store("i64", producer, code.at(known, count, 8))
    code.set(LAUNCH, "%launch", "producers", code.value(f"add i64 {count}, 1"))


@shared("i1", "ptr %object", "ptr %element", "i64 %count", "ptr %launch", "ptr %out", exported=True)
def own_array(code: GuardWriter) -> None:
    """Stores the address of the words of an array of ours in `%out`, and enters its stream among the producers."""
    code.require(code.has_type("%object", Word.DEVICE_ARRAY))
    words = code.slot("%object", DeviceArray, "_words")
    code.require(code.has_type(words, Word.BYTES))
    nbytes = code.value(f"add i64 {code.value('mul i64 %count, 8')}, {8 * len(OWN_ARRAY)}")
    code.require(code.equal("i64", code.size_of(words), nbytes))
    here = code.octets(words)
    context, stream, element = (
        code.load(type, here, 8 * OWN_ARRAY.index(name))
        for name, type in (("context", "i64"), ("stream", "i64"), ("element", "ptr"))
    )
    code.require(code.equal("ptr", element, "%element"))
    code.store("ptr", here, "%out")
    with code.when(code.equal("i64", stream, code.get(LAUNCH, "%launch", "stream"))):
        known = code.get(LAUNCH, "%launch", "context")
        code.leave_when(code.equal("i64", context, known), "true")
        # A stream has one context; but the legacy streams of all contexts have the same handle.
        with code.when(code.both(code.equal("i64", known, 0), code.compare("ne", "i64", stream, LEGACY_STREAM))):
            code.set(LAUNCH, "%launch", "context", context)
            code.leave_when("true", "true")
    code.require(code.call("made_elsewhere", stream, context, "%launch"))


@shared("i1", "i64 %stream", "i64 %context", "ptr %launch", rare=True)
def made_elsewhere(code: GuardWriter) -> None:
    """Enters the stream of an array of ours among the producers, if the launch is in the same context."""
    code.require(code.equal("i64", "%context", code.call("context_of", "%launch")))
    code.require(code.call("made_on", "%stream", "%launch"))


@shared(
    "i1",
    "ptr %object",
    "ptr %type",
    "ptr %graded",
    "ptr %lend",
    "i64 %where",
    "i64 %what",
    "ptr %out",
    exported=True,
    rare=True,
)
def lent_tensor(code: GuardWriter) -> None:
    """Stores the address of the memory of an array, and of its lengths and strides, in `%out`, by DLPack's C exchange API.

    The attribute `%graded`, unless it is null, has to be False. `%where` and `%what` are words of the DLTensor.
    """
    code.require(code.equal("ptr", code.type_of("%object"), "%type"))
    with code.when(code.compare("ne", "ptr", "%graded", "null")):
        code.require(code.call("same_attribute", "%object", "%graded", code.word(Word.FALSE)))
    tensor = code.memory(_TENSOR_BYTES)
    status = code.call_pointer("i32", "%lend", ("ptr", "%object"), ("ptr", tensor))
    code.require(code.equal("i32", status, 0))
    for offset, expected in ((8, "%where"), (16, "%what")):
        code.require(code.equal("i64", code.load("i64", tensor, offset), expected))
    code.store("i64", code.value(f"add i64 {code.load('i64', tensor)}, {code.load('i64', tensor, 40)}"), "%out")
    scalar = code.equal("i32", code.value("trunc i64 %what to i32"), 0)
    for i, offset in ((1, 24), (2, 32)):
        numbers = code.load("ptr", tensor, offset)  # producers that are this new always give strides
        code.require(code.either(scalar, code.compare("ne", "ptr", numbers, "null")))
        code.store("ptr", numbers, "%out", _POINTER * i)


def torch_tensor(
    code: GuardWriter,
    tensor: str,
    kind: str,
    layout: Mapping[str, int],
    expected: Sequence[Operand],
    shape: tuple[int, int],
    out: str,
) -> str:
    """Stores the address of the memory of a torch tensor, and of its lengths and strides, in `out`; returns whether it has.

    It has not for tensors that require a gradient or are views, and if they differ from what is `expected`: keys (which tell
    sparse, negated and other unusual tensors), kind, and the function that frees the memory. `shape` is the number of axes, and
    the bytes of an element. The offsets are constants, so each tensor takes 5 ns less than by a function of all launchers.
    """
    keys, dtype, freed = expected
    ndim, itemsize = shape
    read = code.memory(1)
    code.store("i1", "false", read)
    with ExitStack() as right:

        def check(condition: str) -> None:
            right.enter_context(code.when(condition))

        check(code.equal("ptr", code.type_of(tensor), kind))
        impl = code.load("ptr", tensor, layout["impl"])
        check(code.compare("ne", "ptr", impl, "null"))
        fields = ("autograd", "i64", 0), ("keys", "i64", keys), ("kind", "i32", dtype), ("ndim", "i64", ndim)
        for name, type, value in fields:
            check(code.equal(type, code.load(type, impl, layout[name]), value))
        storage = code.load("ptr", impl, layout["storage"])
        check(code.compare("ne", "ptr", storage, "null"))
        place = code.at(storage, layout["data"])
        check(code.equal("i64", code.load("i64", place, _POINTER), freed))
        offset = code.value(f"mul i64 {code.load('i64', impl, layout['offset'])}, {itemsize}")
        code.store("i64", code.value(f"add i64 {code.load('i64', place)}, {offset}"), out)
        for i, name in enumerate(("shape", "strides"), 1):
            code.store("ptr", code.at(impl, layout[name]), out, _POINTER * i)
        code.store("i1", "true", read)
    return code.load("i1", read)


@shared("i1", "ptr %function", "ptr %device", "ptr %launch", exported=True)
def cupy_works_on(code: GuardWriter) -> None:
    """Enters the current stream of CuPy among the producers; `%function` returns it for the number of a device."""
    stream = code.call("PyObject_CallOneArg", "%function", "%device")
    code.require(code.compare("ne", "ptr", stream, "null"))
    seen, right, found = code.word(Word.STREAM_OF_CUPY), code.memory(1), code.memory(8)
    code.store("i1", "true", right)
    code.store("i64", code.get(SEEN_STREAM, seen, "handle"), found)
    with code.when(code.compare("ne", "ptr", stream, code.get(SEEN_STREAM, seen, "object"))):
        code.store("i1", code.call("integer_attribute", stream, code.word(Word.PTR), found), right)
        with code.when(code.load("i1", right)):
            code.call("remember_stream", seen, stream, code.load("i64", found), -1, TYPE)
    code.release(stream)
    code.require(code.load("i1", right))
    code.require(code.call("made_on", code.load("i64", found), "%launch"))


@shared("void", "ptr %seen", "ptr %object", "i64 %handle", "i64 %device", "i64 %open")
def remember_stream(code: GuardWriter) -> None:
    """Stores a stream of a framework (see `SEEN_STREAM`). Holding a reference keeps the object's address unique."""
    old = code.get(SEEN_STREAM, "%seen", "object")
    code.call("Py_IncRef", "%object")
    is_open = code.at("%object", "%open")
    for name, value in (("object", "%object"), ("handle", "%handle"), ("device", "%device"), ("open", is_open)):
        code.set(SEEN_STREAM, "%seen", name, value)
    code.release(old)  # last, because its destructor can run any code
    code.finish()


# The stream and sizes of a launch


KEYWORDS = (Word.GRID, Word.BLOCK, Word.STREAM, Word.SHARED)
"""The keywords of `launch`, in the order in which their objects come."""

_INT_MAX = (1 << 31) - 1


@shared("i1", "ptr %object", "i64 %most", "ptr %out")
def size(code: GuardWriter) -> None:
    """Reads the size of a grid or a block along one axis."""
    found = code.memory(8)
    code.require(code.call("int_of", "%object", 1, "%most", found))
    code.store("i32", code.value(f"trunc i64 {code.load('i64', found)} to i32"), "%out")


@shared("i1", "ptr %object", "i64 %x", "i64 %y", "i64 %z", "ptr %out")
def sizes(code: GuardWriter) -> None:
    """Reads the size of a grid or a block: an int, or a tuple of one to three."""
    code.require(code.compare("ne", "ptr", "%object", "null"))
    for i in range(3):
        code.store("i32", 1, "%out", 4 * i)
    many = code.has_type("%object", Word.TUPLE)
    with code.when(many):
        code.leave_when(code.call("several_sizes", "%object", "%x", "%y", "%z", "%out"), "true")
        code.leave_when("true", "false")
    code.require(code.call("size", "%object", "%x", "%out"))


@shared("i1", "ptr %object", "i64 %x", "i64 %y", "i64 %z", "ptr %out", rare=True)
def several_sizes(code: GuardWriter) -> None:
    """Reads the sizes along one to three axes. An int, which is more usual, needs none of the registers."""
    count = code.size_of("%object")
    code.require(code.between(count, 1, 3))
    for axis, most in enumerate(("%x", "%y", "%z")):
        with code.when(code.compare("sgt", "i64", count, axis)):
            item = code.item("%object", axis)
            code.require(code.call("size", item, most, code.at("%out", 4 * axis)))


@shared("i1", "ptr %object", "ptr %launch")
def find_stream(code: GuardWriter) -> None:
    """Reads the stream of a launch as `as_stream` does: None, one of ours, a handle, or an object with `__cuda_stream__`."""
    for name, value in (("device", -1), ("ordered", 1), ("pending", "null"), ("producers", 0)):
        code.set(LAUNCH, "%launch", name, value)
    none = code.equal("ptr", "%object", "null")
    with code.when(code.either(none, code.is_word("%object", Word.NONE))):
        code.leave_when(code.call("numbered_stream", LEGACY_STREAM, "%launch"), "true")
        code.leave_when("true", "false")
    with code.when(code.has_type("%object", Word.GPU_STREAM)):
        words = code.memory(8 * len(STREAM.fields))
        code.require(code.call("octets", code.slot("%object", GpuStream, "_words"), 8 * len(STREAM.fields), words))
        for name, field in (("stream", "handle"), ("context", "context"), ("ordered", "ordered")):
            code.set(LAUNCH, "%launch", name, code.get(STREAM, words, field))
        code.set(
            LAUNCH, "%launch", "pending", code.slot(code.slot("%object", GpuStream, "_retained"), Retained, "pending")
        )
        handle = code.get(STREAM, words, "handle")
        code.require(code.compare("ne", "i64", handle, PER_THREAD_STREAM))
        code.require(code.call("is_here", "%launch"))
        code.leave_when("true", "true")
    with code.when(code.has_type("%object", Word.INT)):
        number = code.memory(8)
        code.require(code.call("integer", "%object", number))
        code.require(code.call("numbered_stream", code.load("i64", number), "%launch"))
        code.leave_when("true", "true")
    code.require(code.call("foreign_stream", "%object", "%launch"))


@shared("i1", "i64 %handle", "ptr %launch")
def numbered_stream(code: GuardWriter) -> None:
    """Sets the stream of a launch by its handle. `context_of` finds its context."""
    code.require(code.compare("ne", "i64", "%handle", PER_THREAD_STREAM))
    legacy = code.compare("ule", "i64", "%handle", LEGACY_STREAM)
    code.set(LAUNCH, "%launch", "stream", code.value(f"select i1 {legacy}, i64 {LEGACY_STREAM}, i64 %handle"))
    code.set(LAUNCH, "%launch", "context", 0)


@shared("i64", "ptr %launch")
def context_of(code: GuardWriter) -> None:
    """The context of a launch; 0 if it has none. The driver is asked once, unless an array has told it (`own_array`)."""
    known = code.get(LAUNCH, "%launch", "context")
    code.leave_when(code.compare("ne", "i64", known, 0), known)
    stream, found = code.get(LAUNCH, "%launch", "stream"), code.field(LAUNCH, "%launch", "context")
    with code.when(code.equal("i64", stream, LEGACY_STREAM)):  # that of the legacy stream is the current one
        code.leave_when(code.opposite(code.call("current_context", found)), 0)
        code.leave_when("true", code.load("i64", found))
    code.leave_when(code.equal("ptr", code.word(Word.CONTEXT_OF_STREAM), "null"), 0)
    status = code.call_pointer("i32", code.word(Word.CONTEXT_OF_STREAM), ("i64", stream), ("ptr", found))
    code.leave_when(code.compare("ne", "i32", status, 0), 0)
    code.finish(code.load("i64", found))


@shared("i1", "ptr %object", "ptr %launch")
def foreign_stream(code: GuardWriter) -> None:
    """Reads a stream of a framework, and its device: by an attribute for known types, and otherwise by the slower protocol.

    The handle of a stream of a known type is constant, so the last such stream is not read again while it is open.
    """
    seen = code.word(Word.STREAM_OF_LAUNCH)
    with code.when(code.equal("ptr", "%object", code.get(SEEN_STREAM, seen, "object"))):
        is_open = code.load("i64", code.get(SEEN_STREAM, seen, "open"))
        with code.when(code.compare("ne", "i64", is_open, 0)):
            code.set(LAUNCH, "%launch", "device", code.get(SEEN_STREAM, seen, "device"))
            code.require(code.call("numbered_stream", code.get(SEEN_STREAM, seen, "handle"), "%launch"))
            code.leave_when("true", "true")
    pair, found, kind = code.memory(16), code.memory(_POINTER), code.type_of("%object")
    of_a_graph = code.call("PyType_IsSubtype", kind, code.word(Word.GPU_STREAM))
    code.require(code.equal("i32", of_a_graph, 0))  # Python records the launches of such a stream
    rows, nbytes = code.word(Word.STREAM_TYPES), _POINTER * len(STREAM_TYPE.fields)
    code.store("ptr", code.at(rows, MOST_STREAM_TYPES, nbytes), found)  # a row of zeros
    with code.repeat(MOST_STREAM_TYPES) as i:
        row = code.at(rows, i, nbytes)
        with code.when(code.equal("ptr", kind, code.get(STREAM_TYPE, row, "type"))):
            code.store("ptr", row, found)
    row = code.load("ptr", found)
    name, open_at = code.get(STREAM_TYPE, row, "name"), code.get(STREAM_TYPE, row, "open")
    named = code.compare("ne", "ptr", name, "null")
    with code.when(named):
        code.require(code.call("integer_attribute", "%object", name, code.at(pair, 8)))
    with code.when(code.opposite(named)):
        code.require(code.call("stream_pair", "%object", pair))
    handle = code.load("i64", pair, 8)
    code.require(code.call("numbered_stream", handle, "%launch"))
    several = code.compare("ne", "ptr", code.word(Word.SEVERAL_DEVICES), "null")
    with code.when(code.both(several, code.compare("ule", "i64", handle, LEGACY_STREAM))):
        code.require(code.call("device_of", "%object", "%launch"))
    with code.when(code.compare("ne", "i64", open_at, 0)):
        code.call("remember_stream", seen, "%object", handle, code.get(LAUNCH, "%launch", "device"), open_at)


@shared("i1", "ptr %object", "ptr %out")
def stream_pair(code: GuardWriter) -> None:
    """Reads the result of `__cuda_stream__`: version 0 and a handle."""
    arguments = code.memory(8)
    code.store("ptr", "%object", arguments)
    found = code.call("PyObject_VectorcallMethod", code.word(Word.CUDA_STREAM), arguments, 1, "null")
    code.require(code.compare("ne", "ptr", found, "null"))
    right = code.call("integers", found, 2, "%out")
    code.release(found)
    code.require(right)
    code.require(code.equal("i64", code.load("i64", "%out"), 0))


@shared("i1", "ptr %object", "ptr %launch")
def device_of(code: GuardWriter) -> None:
    """Reads the device number of a framework's stream: -1 if it has none, which means the current device."""
    found = code.field(LAUNCH, "%launch", "device")
    for name in (Word.DEVICE_INDEX, Word.DEVICE_ID):
        code.leave_when(code.call("integer_attribute", "%object", code.word(name), found), "true")
        code.call("PyErr_Clear")
    code.store("i64", -1, found)


@shared("i1", "ptr %sizes", "ptr %launch")
def read_launch(code: GuardWriter) -> None:
    """Reads the stream and the sizes of a launch from the values of the keywords."""
    grid, block, stream, shared = (code.load("ptr", "%sizes", _POINTER * i) for i in range(len(KEYWORDS)))
    code.require(code.call("sizes", grid, *MOST_BLOCKS, code.field(LAUNCH, "%launch", "grid.x")))
    code.require(code.call("sizes", block, *MOST_THREADS, code.field(LAUNCH, "%launch", "block.x")))
    x, y, z = (code.get(LAUNCH, "%launch", f"block.{axis}") for axis in "xyz")
    threads = code.value(f"mul i32 {code.value(f'mul i32 {x}, {y}')}, {z}")
    code.require(code.compare("ule", "i32", threads, MOST_IN_BLOCK))
    code.set(LAUNCH, "%launch", "threads", threads)
    blocks, width = (
        code.value(f"zext i32 {code.get(LAUNCH, '%launch', name)} to i64") for name in ("grid.x", "block.x")
    )
    # Python checks whether the kernel counts its threads in 32 bits.
    code.require(code.compare("ult", "i64", code.value(f"mul i64 {blocks}, {width}"), MOST_POSITIONS))
    nbytes = code.memory(8)
    code.store("i64", 0, nbytes)
    with code.when(code.compare("ne", "ptr", shared, "null")):
        code.require(code.call("int_of", shared, 0, _INT_MAX, nbytes))
    code.set(LAUNCH, "%launch", "shared", code.value(f"trunc i64 {code.load('i64', nbytes)} to i32"))
    code.require(code.call("find_stream", stream, "%launch"))


@shared("i1", "ptr %out")
def current_context(code: GuardWriter) -> None:
    """Gets the current context."""
    code.require(code.compare("ne", "ptr", code.word(Word.GET_CONTEXT), "null"))
    code.require(code.equal("i32", code.call_pointer("i32", code.word(Word.GET_CONTEXT), ("ptr", "%out")), 0))


@shared("i1", "ptr %launch")
def is_here(code: GuardWriter) -> None:
    """Whether the driver will launch in the stream's context; that of the legacy stream has to be the current one."""
    legacy = code.equal("i64", code.get(LAUNCH, "%launch", "stream"), LEGACY_STREAM)
    code.leave_when(code.opposite(legacy), "true")
    context = code.memory(8)
    code.require(code.call("current_context", context))
    code.require(code.equal("i64", code.load("i64", context), code.get(LAUNCH, "%launch", "context")))


@shared("i1", "i64 %stream", "ptr %out")
def capture_state(code: GuardWriter) -> None:
    """Gets whether a stream is being captured: 0 or 1. Returns false if the capture is invalid or would become so."""
    code.require(code.compare("ne", "ptr", code.word(Word.CAPTURE_STATE), "null"))
    code.store("i64", 0, "%out")
    status = code.call_pointer("i32", code.word(Word.CAPTURE_STATE), ("i64", "%stream"), ("ptr", "%out"))
    code.require(code.equal("i32", status, 0))
    code.require(code.compare("ule", "i64", code.load("i64", "%out"), 1))


@shared("i64", "i64 %stream", rare=True)
def capture_number(code: GuardWriter) -> None:
    """The driver's number of the capture that a stream takes part in; 0 if none."""
    state, number = code.memory(8), code.memory(8)
    code.store("i64", 0, number)
    nulls = [("ptr", "null")] * 3
    code.call_pointer("i32", code.word(Word.CAPTURE_INFO), ("i64", "%stream"), ("ptr", state), ("ptr", number), *nulls)
    code.finish(code.load("i64", number))


@shared("i1", "ptr %launch")
def read_capture(code: GuardWriter) -> None:
    """Sets whether the stream of a launch is being captured, which the legacy stream cannot be."""
    code.set(LAUNCH, "%launch", "capturing", 0)
    stream = code.get(LAUNCH, "%launch", "stream")
    code.leave_when(code.compare("ule", "i64", stream, LEGACY_STREAM), "true")
    code.require(code.call("capture_state", stream, code.field(LAUNCH, "%launch", "capturing")))
