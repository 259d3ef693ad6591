"""How machine code reads Python objects: the functions that all launchers share.

Each gives up at what it does not expect; what it read is then of no use. None keeps a reference, and none looks into an object
whose type it has not compared, or which Python's own functions do not check.
"""

from __future__ import annotations

from cuda_device.launchers.guard_writer import GuardWriter, Operand
from cuda_device.launchers.memory_layout import LAUNCH, MOST_PRODUCERS, OWN_ARRAY, Word
from cuda_device.runtime.arrays.device_array import DeviceArray
from cuda_device.runtime.gpu.driver import LEGACY_STREAM, PER_THREAD_STREAM

EQ = 2  # Python's number for ==
_SIMPLE = 0  # a buffer of plain bytes
_BUFFER_BYTES, _BUFFER_LENGTH = 80, 16  # Py_buffer, and where its length is


def same_attribute() -> GuardWriter:
    """Whether the attribute `name` of an object is that very object."""
    code = GuardWriter("same_attribute", "i1", "ptr %object", "ptr %name", "ptr %expected", exported=True)
    found = code.call("PyObject_GetAttr", "%object", "%name")
    code.require(code.compare("ne", "ptr", found, "null"))
    code.release(found)  # its address only is compared
    code.require(code.equal("ptr", found, "%expected"))
    return code


def denies() -> GuardWriter:
    """Whether the method `name` of an object, called without arguments, gives False."""
    code = GuardWriter("denies", "i1", "ptr %object", "ptr %name", exported=True)
    arguments = code.memory(8)
    code.store("ptr", "%object", arguments)
    found = code.call("PyObject_VectorcallMethod", "%name", arguments, 1, "null")
    code.require(code.compare("ne", "ptr", found, "null"))
    code.release(found)
    code.require(code.is_word(found, Word.FALSE))
    return code


def same_constant() -> GuardWriter:
    """Whether a value is a constant: the very object, or an equal int, str or float.

    Zeros and NaN are for the caller.
    """
    code = GuardWriter("same_constant", "i1", "ptr %object", "ptr %expected", exported=True)
    code.leave_when(code.equal("ptr", "%object", "%expected"), "true")
    kind = code.type_of("%object")
    code.require(code.equal("ptr", kind, code.type_of("%expected")))
    plain = code.either(code.is_word(kind, Word.INT), code.is_word(kind, Word.STR))
    code.require(code.either(plain, code.is_word(kind, Word.FLOAT)))
    code.require(code.equal("i32", code.call("PyObject_RichCompareBool", "%object", "%expected", EQ), 1))
    return code


def int_of() -> GuardWriter:
    """An int, no bool, between two bounds."""
    code = GuardWriter("int_of", "i1", "ptr %object", "i64 %low", "i64 %high", "ptr %out", exported=True)
    code.require(code.has_type("%object", Word.INT))
    overflow = code.memory(4)
    number = code.call("PyLong_AsLongLongAndOverflow", "%object", overflow)
    code.require(code.equal("i32", code.load("i32", overflow), 0))
    code.require(code.compare("sge", "i64", number, "%low"))
    code.require(code.compare("sle", "i64", number, "%high"))
    code.store("i64", number, "%out")
    return code


def scalar() -> GuardWriter:
    """The bytes of a NumPy scalar, whose type the caller has compared."""
    code = GuardWriter("scalar", "i1", "ptr %object", "ptr %out", "i64 %nbytes", exported=True)
    view = code.memory(_BUFFER_BYTES)
    code.require(code.equal("i32", code.call("PyObject_GetBuffer", "%object", view, _SIMPLE), 0))
    length = code.load("i64", view, _BUFFER_LENGTH)
    right = code.equal("i64", length, "%nbytes")
    with code.when(right):
        code.copy("%out", code.load("ptr", view), "%nbytes")
    code.call("PyBuffer_Release", view)
    code.require(right)
    return code


def integer() -> GuardWriter:
    """An int of 64 bits without a sign."""
    code = GuardWriter("integer", "i1", "ptr %object", "ptr %out", exported=True)
    number = code.call("PyLong_AsUnsignedLongLong", "%object")
    with code.when(code.equal("i64", number, -1)):
        code.leave_when(code.compare("ne", "ptr", code.call("PyErr_Occurred"), "null"), "false")
    code.store("i64", number, "%out")
    return code


def integers() -> GuardWriter:
    """A tuple of so many ints of 64 bits."""
    code = GuardWriter("integers", "i1", "ptr %object", "i64 %count", "ptr %out")
    code.require(code.has_type("%object", Word.TUPLE))
    code.require(code.equal("i64", code.size_of("%object"), "%count"))
    with code.repeat("%count") as i:
        item = code.item("%object", i)
        code.require(code.call("int_of", item, -(1 << 63), (1 << 63) - 1, code.at("%out", i, 8)))
    return code


def octets() -> GuardWriter:
    """A bytes object of so many bytes."""
    code = GuardWriter("octets", "i1", "ptr %object", "i64 %count", "ptr %out")
    code.require(code.has_type("%object", Word.BYTES))
    code.require(code.equal("i64", code.size_of("%object"), "%count"))
    code.copy("%out", code.octets("%object"), "%count")
    return code


def integer_attribute() -> GuardWriter:
    """An attribute that is an int of 64 bits without a sign."""
    code = GuardWriter("integer_attribute", "i1", "ptr %object", "ptr %name", "ptr %out")
    _read_attribute(code, "integer", "%out")
    return code


def int_attribute() -> GuardWriter:
    """An attribute that is an int of 32 bits with a sign."""
    code = GuardWriter("int_attribute", "i1", "ptr %object", "ptr %name", "ptr %out")
    _read_attribute(code, "int_of", -(1 << 31), (1 << 31) - 1, "%out")
    return code


def integers_attribute() -> GuardWriter:
    """An attribute that is a tuple of so many ints of 64 bits."""
    code = GuardWriter("integers_attribute", "i1", "ptr %object", "ptr %name", "i64 %count", "ptr %out")
    _read_attribute(code, "integers", "%count", "%out")
    return code


def _read_attribute(code: GuardWriter, function: str, *arguments: Operand) -> None:
    found = code.call("PyObject_GetAttr", "%object", "%name")
    code.require(code.compare("ne", "ptr", found, "null"))
    right = code.call(function, found, *arguments)
    code.release(found)
    code.require(right)


def works_on() -> GuardWriter:
    """Notes the stream that a framework with DLPack's C exchange API works on, by its function that tells."""
    code = GuardWriter("works_on", "i1", "ptr %function", "i64 %device", "ptr %launch", exported=True)
    found = code.memory(8)
    code.store("i64", 0, found)
    device = code.value("trunc i64 %device to i32")
    status = code.call_pointer("i32", "%function", ("i32", 2), ("i32", device), ("ptr", found))
    code.require(code.equal("i32", status, 0))
    code.require(code.call("made_on", code.load("i64", found), "%launch"))
    return code


def made_on() -> GuardWriter:
    """Notes that an array is made on a stream, where 0 is the legacy one: a launch on another stream is put in order with it.

    In a capture that is done with streams of the same graph only; what others have to wait for is up to who starts the graph.
    """
    code = GuardWriter("made_on", "i1", "i64 %handle", "ptr %launch")
    legacy = code.equal("i64", "%handle", 0)
    producer = code.value(f"select i1 {legacy}, i64 {LEGACY_STREAM}, i64 %handle")
    code.leave_when(code.equal("i64", producer, code.get(LAUNCH, "%launch", "stream")), "true")
    code.require(code.compare("ne", "i64", producer, PER_THREAD_STREAM))
    count, known = code.get(LAUNCH, "%launch", "producers"), code.field(LAUNCH, "%launch", "producer")
    with code.repeat(count) as i:
        code.leave_when(code.equal("i64", code.load("i64", code.at(known, i, 8)), producer), "true")
    state = code.memory(8)
    capturing = code.compare("ne", "i64", code.get(LAUNCH, "%launch", "capturing"), 0)
    there = code.call("capture_state", producer, state)
    with code.when(capturing):
        code.leave_when(code.opposite(there), "true")
        code.leave_when(code.equal("i64", code.load("i64", state), 0), "true")
    with code.when(code.opposite(capturing)):
        code.require(there)
        code.require(code.equal("i64", code.load("i64", state), 0))
    context = code.memory(8)
    code.require(code.call("current_context", context))
    code.require(code.equal("i64", code.load("i64", context), code.get(LAUNCH, "%launch", "context")))
    code.require(code.compare("ult", "i64", count, MOST_PRODUCERS))
    code.store("i64", producer, code.at(known, count, 8))
    code.set(LAUNCH, "%launch", "producers", code.value(f"add i64 {count}, 1"))
    return code


def own_array() -> GuardWriter:
    """What one of our arrays says of itself, in `%out`, if it belongs to the context of the launch; its stream is noted."""
    code = GuardWriter(
        "own_array", "i1", "ptr %object", "ptr %element", "i64 %count", "ptr %launch", "ptr %out", exported=True
    )
    nbytes = code.value(f"add i64 {code.value('mul i64 %count, 8')}, {8 * len(OWN_ARRAY)}")
    code.require(code.call("octets", code.slot("%object", DeviceArray, "_words"), nbytes, "%out"))
    context, stream = (code.load("i64", "%out", 8 * OWN_ARRAY.index(name)) for name in ("context", "stream"))
    code.require(code.equal("i64", context, code.get(LAUNCH, "%launch", "context")))
    code.require(code.call("made_on", stream, "%launch"))
    code.require(code.equal("ptr", code.load("ptr", "%out", 8 * OWN_ARRAY.index("element")), "%element"))
    return code


def cupy_memory() -> GuardWriter:
    """The address in a CuPy pointer to memory of a device."""
    code = GuardWriter("cupy_memory", "i1", "ptr %object", "i64 %device", "ptr %out")
    device = code.memory(8)
    code.require(code.call("integer_attribute", "%object", code.word(Word.DEVICE_ID), device))
    code.require(code.equal("i64", code.load("i64", device), "%device"))
    code.require(code.call("integer_attribute", "%object", code.word(Word.PTR), "%out"))
    return code


def cupy_array() -> GuardWriter:
    """The address, the lengths and the strides of a CuPy array, in `%out`."""
    code = GuardWriter(
        "cupy_array", "i1", "ptr %object", "ptr %dtype", "i64 %device", "i64 %count", "ptr %out", exported=True
    )
    code.require(code.call("same_attribute", "%object", code.word(Word.DTYPE), "%dtype"))
    memory = code.call("PyObject_GetAttr", "%object", code.word(Word.DATA))
    code.require(code.compare("ne", "ptr", memory, "null"))
    right = code.call("cupy_memory", memory, "%device", "%out")
    code.release(memory)
    code.require(right)
    shape = code.at("%out", 8)
    code.require(code.call("integers_attribute", "%object", code.word(Word.SHAPE), "%count", shape))
    strides = code.at(shape, "%count", 8)
    code.require(code.call("integers_attribute", "%object", code.word(Word.STRIDES), "%count", strides))
    return code


def cupy_works_on() -> GuardWriter:
    """Notes the stream that CuPy works on, by its function that tells, and the device's number as an object."""
    code = GuardWriter("cupy_works_on", "i1", "ptr %function", "ptr %device", "ptr %launch", exported=True)
    found = code.memory(8)
    stream = code.call("PyObject_CallOneArg", "%function", "%device")
    code.require(code.compare("ne", "ptr", stream, "null"))
    right = code.call("integer_attribute", stream, code.word(Word.PTR), found)
    code.release(stream)
    code.require(right)
    code.require(code.call("made_on", code.load("i64", found), "%launch"))
    return code


ALL = (
    same_attribute,
    denies,
    same_constant,
    int_of,
    scalar,
    integer,
    integers,
    octets,
    integer_attribute,
    int_attribute,
    integers_attribute,
    works_on,
    made_on,
    own_array,
    cupy_memory,
    cupy_array,
    cupy_works_on,
)
