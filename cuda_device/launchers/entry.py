"""The way into a launch: from the call of `launch` to the launcher of a signature, and from that to the driver.

    launch(f, x, y, grid=1, block=32)    →   try_launch   f's record, found by an attribute of f
                                             bind         one object for each parameter
                                             read_launch  sizes and stream
                                             is_quiet     nothing is being captured
                                             a launcher of f's for these objects: it ends with `fits` and `start`

All answer whether the launch was made. If it was not, nothing has happened, and Python's way is taken.
"""

from __future__ import annotations

from cuda_device.codegen.cpu.records import Record
from cuda_device.device.functions import Kernel
from cuda_device.launchers.launch_size import KEYWORDS
from cuda_device.launchers.memory_layout import (
    CALL,
    LAUNCH,
    MOST_PARAMETERS,
    NAME,
    PLAN,
    PREPARED,
    START,
    Owner,
    Word,
    function_words,
)
from cuda_device.launchers.object_reading import EQ
from cuda_device.launchers.writer import Code
from cuda_device.runtime.gpu import launch_log
from cuda_device.runtime.launch.prepared import PreparedLaunch

_POINTER = 8
# Python sets the highest bit of a count where it lends the place before the first argument.
_COUNT = (1 << 63) - 1


def place_of() -> Code:
    """Where a name stands among the parameters, or -1. Names are almost always the same objects, and else compared as text."""
    code = Code("place_of", "i64", "ptr %names", "i64 %count", "ptr %name")
    for same in (_is_same, _is_equal):
        with code.repeat("%count") as i:
            here = code.load("ptr", code.at("%names", i, _POINTER))
            with code.when(code.compare("ne", "ptr", here, "null")):
                code.leave_when(same(code, here), i)
    code.finish(-1)
    return code


def _is_same(code: Code, here: str) -> str:
    return code.equal("ptr", here, "%name")


def _is_equal(code: Code, here: str) -> str:
    return code.equal("i32", code.call("PyObject_RichCompareBool", here, "%name", EQ), 1)


def bind() -> Code:
    """An object for each parameter in `%values`, if not all are `%args`; those of `launch`'s keywords in `%sizes`, or null."""
    code = Code("bind", "i1", "ptr %call", "ptr %args", "i64 %count", "ptr %names", "ptr %values", "ptr %sizes")
    parameters = code.get(CALL, "%call", "parameters")
    function = code.get(CALL, "%call", "function")
    for name, offset in function_words().items():
        code.require(code.equal("ptr", code.load("ptr", function, offset), code.get(CALL, "%call", name)))
    code.require(code.compare("ule", "i64", "%count", code.get(CALL, "%call", "positional")))
    missing = code.compare("ult", "i64", "%count", parameters)
    with code.when(missing):
        code.copy("%values", code.get(CALL, "%call", "values"), code.value(f"mul i64 {parameters}, {_POINTER}"))
        code.copy("%values", "%args", code.value(f"mul i64 %count, {_POINTER}"))
    for k in range(len(KEYWORDS)):
        code.store("ptr", "null", "%sizes", _POINTER * k)
    number = code.memory(8)
    code.store("i64", 0, number)
    with code.when(code.compare("ne", "ptr", "%names", "null")):
        code.store("i64", code.size_of("%names"), number)
    with code.repeat(code.load("i64", number)) as i:
        name = code.item("%names", i)
        value = code.load("ptr", code.at("%args", code.value(f"add i64 %count, {i}"), _POINTER))
        place = code.memory(8)
        code.store("i64", -1, place)
        for k, word in enumerate(KEYWORDS):
            with code.when(code.is_word(name, word)):
                code.store("i64", k, place)
        keyword = code.load("i64", place)
        with code.when(code.compare("sge", "i64", keyword, 0)):
            code.store("ptr", value, code.at("%sizes", keyword, _POINTER))
        with code.when(code.compare("slt", "i64", keyword, 0)):
            at = code.call("place_of", code.get(CALL, "%call", "names"), parameters, name)
            code.require(code.compare("sge", "i64", at, "%count"))  # known, and not given by position
            code.store("ptr", value, code.at("%values", at, _POINTER))
    with code.when(missing), code.repeat(parameters) as i:
        code.require(code.compare("ne", "ptr", code.load("ptr", code.at("%values", i, _POINTER)), "null"))
    return code


def unchanged() -> Code:
    """Whether the names that a kernel read still mean the same."""
    code = Code("unchanged", "i1", "ptr %names", "i64 %count")
    with code.repeat("%count") as i:
        here = code.at("%names", i, 8 * len(NAME.fields))
        kind = code.get(NAME, here, "kind")
        owner, name, value = (code.get(NAME, here, field) for field in ("owner", "name", "value"))
        found = code.memory(8)
        code.store("ptr", "null", found)
        with code.when(code.equal("i64", kind, Owner.NAMESPACE)):
            code.store("ptr", code.call("PyDict_GetItemWithError", owner, name), found)
        with code.when(code.equal("i64", kind, Owner.CELL)):
            _compare_later(code, code.call("PyCell_Get", owner), found)
        with code.when(code.equal("i64", kind, Owner.OBJECT)):
            _compare_later(code, code.call("PyObject_GetAttr", owner, name), found)
        code.require(code.equal("ptr", code.load("ptr", found), value))
        with code.when(code.equal("ptr", value, "null")):
            # There is no such name, or to look for it went wrong.
            code.require(code.equal("ptr", code.call("PyErr_Occurred"), "null"))
    return code


def _compare_later(code: Code, found: str, place: str) -> None:
    """Gives a new reference back and keeps the address: equal to one that is held, it is that object."""
    code.store("ptr", found, place)
    with code.when(code.compare("ne", "ptr", found, "null")):
        code.release(found)


def fits() -> Code:
    """Whether a compiled kernel can start so: here, of that size, with the names that it read, and nothing reported."""
    code = Code("fits", "i1", "ptr %launch", "ptr %start", exported=True)
    context = code.get(LAUNCH, "%launch", "context")
    code.require(code.equal("i64", context, code.get(START, "%start", "context")))
    device = code.get(LAUNCH, "%launch", "device")
    here = code.equal("i64", device, code.get(START, "%start", "device"))
    code.require(code.either(here, code.compare("slt", "i64", device, 0)))
    for size, most in (("threads", "most.threads"), ("shared", "most.shared")):
        number = code.value(f"zext i32 {code.get(LAUNCH, '%launch', size)} to i64")
        code.require(code.compare("sle", "i64", number, code.get(START, "%start", most)))
    mailbox = code.load("ptr", code.get(START, "%start", "status"))
    code.require(code.equal("i32", code.load("i32", mailbox), 0))
    names, count = code.get(START, "%start", "names"), code.get(START, "%start", "count")
    code.require(code.call("unchanged", names, count))
    return code


def start() -> Code:
    """Calls the driver, without the interpreter's lock, and notes the launch."""
    code = Code("start", "i1", "ptr %launch", "ptr %start", "ptr %parameters", exported=True)
    sizes = [(axis, code.get(LAUNCH, "%launch", axis)) for axis in _SIZES]
    stream = code.get(LAUNCH, "%launch", "stream")
    shared = code.get(LAUNCH, "%launch", "shared")
    kernel = code.get(START, "%start", "kernel")
    operands = [("i32", value) for _, value in sizes]
    thread = code.call("PyEval_SaveThread")
    status = code.call_pointer(
        "i32",
        code.word(Word.LAUNCH_KERNEL),
        ("i64", kernel),
        *operands,
        ("i32", shared),
        ("i64", stream),
        ("ptr", "%parameters"),
        ("ptr", "null"),
    )
    code.call("PyEval_RestoreThread", thread)
    code.require(code.equal("i32", status, 0))
    ring = code.word(Word.RING)
    count = code.load("i64", ring)
    record = code.at(code.at(ring, 8), code.value(f"urem i64 {count}, {launch_log.MOST}"), launch_log.RECORD.size)
    words = (code.get(START, "%start", "name"), code.get(START, "%start", "context"), stream, "0")
    for i, word in enumerate(words):
        code.store("i64", word, record, 8 * i)
    for i, (_, value) in enumerate(sizes):
        code.store("i32", value, record, 8 * len(words) + 4 * i)
    code.store("i64", code.value(f"add i64 {count}, 1"), ring)
    return code


_SIZES = tuple(f"{name}.{axis}" for name in ("grid", "block") for axis in "xyz")


def tuple_of() -> Code:
    """A new tuple of objects, or null."""
    code = Code("tuple_of", "ptr", "ptr %values", "i64 %count")
    made = code.call("PyTuple_New", "%count")
    code.leave_when(code.equal("ptr", made, "null"), "null")
    with code.repeat("%count") as i:
        value = code.load("ptr", code.at("%values", i, _POINTER))
        code.call("Py_IncRef", value)
        code.call("PyTuple_SetItem", made, i, value)
    code.finish(made)
    return code


def run() -> Code:
    """Runs a kernel on the CPU by a function of Python, which gets the record of the launch, the parameters, and the arguments.

    What that raises is on its way when this returns: the launch was made.
    """
    code = Code("run", "i1", "ptr %start", "ptr %values", "i64 %count", "ptr %data", "i64 %nbytes", exported=True)
    arguments = code.memory(2 * _POINTER)
    values = code.call("tuple_of", "%values", "%count")
    code.require(code.compare("ne", "ptr", values, "null"))
    data = code.call("PyBytes_FromStringAndSize", "%data", "%nbytes")
    code.store("ptr", data, arguments)
    code.store("ptr", values, arguments, _POINTER)
    there = code.compare("ne", "ptr", data, "null")
    with code.when(there):
        function = code.value(f"inttoptr i64 {code.get(START, '%start', 'kernel')} to ptr")
        result = code.call("PyObject_Vectorcall", function, arguments, 2, "null")
        code.release(data)
        with code.when(code.compare("ne", "ptr", result, "null")):
            code.release(result)
    code.release(values)
    code.require(there)
    return code


def try_plans() -> Code:
    """A launch of the kernel whose record `%call` is: its launchers in turn."""
    code = Code("try_plans", "i1", "ptr %call", "ptr %args", "i64 %count", "ptr %names")
    values = code.memory(_POINTER * MOST_PARAMETERS)
    sizes = code.memory(_POINTER * len(KEYWORDS))
    launch = code.memory(8 * len(LAUNCH.fields))
    code.require(code.call("bind", "%call", "%args", "%count", "%names", values, sizes))
    all_there = code.equal("i64", "%count", code.get(CALL, "%call", "parameters"))
    values = code.value(f"select i1 {all_there}, ptr %args, ptr {values}")
    code.require(code.call("read_launch", sizes, launch))
    code.require(code.call("is_quiet", launch))
    with code.repeat(code.get(CALL, "%call", "plans")) as i:
        plan = code.at(code.get(CALL, "%call", "plan"), i, _POINTER * len(PLAN.fields))
        operands = ("ptr", code.get(PLAN, plan, "state")), ("ptr", values), ("ptr", launch)
        code.leave_when(code.call_pointer("i1", code.get(PLAN, plan, "function"), *operands), "true")
        code.call("PyErr_Clear")
    code.finish("false")
    return code


def try_start() -> Code:
    """The start of the prepared launch whose record `%prepared` is."""
    code = Code("try_start", "i1", "ptr %prepared")
    launch, start = code.get(PREPARED, "%prepared", "launch"), code.get(PREPARED, "%prepared", "start")
    code.require(code.call("is_here", launch))
    code.require(code.call("is_quiet", launch))
    code.require(code.call("fits", launch, start))
    code.require(code.call("start", launch, start, code.get(PREPARED, "%prepared", "parameters")))
    return code


def record_of() -> Code:
    """The record of a kernel or a prepared launch: so many bytes that come first in its tuple `native`; null if there is none.

    The tuple owns whatever the record speaks of. Who holds it may use all that.
    """
    code = Code("record_of", "ptr", "ptr %native", "i64 %nbytes")
    code.leave_when(code.opposite(code.has_type("%native", Word.TUPLE)), "null")
    code.leave_when(code.equal("i64", code.size_of("%native"), 0), "null")
    record = code.item("%native", 0)
    code.leave_when(code.opposite(code.has_type(record, Word.BYTES)), "null")
    code.leave_when(code.compare("ne", "i64", code.size_of(record), "%nbytes"), "null")
    code.finish(code.octets(record))
    return code


def try_launch() -> Code:
    """A launch, by the arguments of a call of `launch`."""
    code = Code("try_launch", "i1", "ptr %args", "i64 %count", "ptr %names")
    code.require(code.compare("sge", "i64", "%count", 1))
    kernel = code.load("ptr", "%args")
    code.require(code.has_type(kernel, Word.KERNEL))
    rest, fewer = code.at("%args", _POINTER), code.value("sub i64 %count, 1")
    _try(code, code.slot(kernel, Kernel, "native"), CALL, "try_plans", rest, fewer, "%names")
    return code


def try_prepared() -> Code:
    """The start of a prepared launch, by the arguments of a call of its `__call__`."""
    code = Code("try_prepared", "i1", "ptr %args", "i64 %count", "ptr %names")
    code.require(code.equal("i64", "%count", 1))
    prepared = code.load("ptr", "%args")
    code.require(code.has_type(prepared, Word.PREPARED))
    with code.when(code.compare("ne", "ptr", "%names", "null")):
        code.require(code.equal("i64", code.size_of("%names"), 0))
    _try(code, code.slot(prepared, PreparedLaunch, "native"), PREPARED, "try_start")
    return code


def _try(code: Code, native: str, record_type: Record, function: str, *arguments: str) -> None:
    code.call("Py_IncRef", native)
    record = code.call("record_of", native, 8 * len(record_type.fields))
    done = code.memory(1)
    code.store("i1", "false", done)
    with code.when(code.compare("ne", "ptr", record, "null")):
        code.store("i1", code.call(function, record, *arguments), done)
    code.release(native)
    code.require(code.load("i1", done))


def _in_place_of(name: str, function: str, otherwise: Word) -> Code:
    """A function in the form of Python's vector calls, which takes the place of that of a Python function."""
    code = Code(name, "ptr", "ptr %callable", "ptr %args", "i64 %flags", "ptr %names", exported=True)
    count = code.value(f"and i64 %flags, {_COUNT}")
    done = code.call(function, "%args", count, "%names")
    with code.when(done):
        code.leave_when(code.compare("ne", "ptr", code.call("PyErr_Occurred"), "null"), "null")
        code.leave_when("true", code.word(Word.NONE))  # which no Python that has this counts references of
    code.call("PyErr_Clear")
    arguments = ("ptr", "%callable"), ("ptr", "%args"), ("i64", "%flags"), ("ptr", "%names")
    code.finish(code.call_pointer("ptr", code.word(otherwise), *arguments))
    return code


def launch_in_place() -> Code:
    """What a call of `launch` does."""
    return _in_place_of("launch_in_place", "try_launch", Word.LAUNCH)


def prepared_in_place() -> Code:
    """What a call of `PreparedLaunch.__call__` does."""
    return _in_place_of("prepared_in_place", "try_prepared", Word.START)


def _as_method(name: str, function: str) -> Code:
    """A built-in function that tells whether the launch was made, for Pythons whose functions cannot be replaced."""
    code = Code(name, "ptr", "ptr %self", "ptr %args", "i64 %count", "ptr %names", exported=True)
    done = code.call(function, "%args", "%count", "%names")
    raised = code.compare("ne", "ptr", code.call("PyErr_Occurred"), "null")
    code.leave_when(code.both(done, raised), "null")
    code.call("PyErr_Clear")
    yes, no = code.word(Word.TRUE), code.word(Word.FALSE)
    answer = code.value(f"select i1 {done}, ptr {yes}, ptr {no}")
    code.call("Py_IncRef", answer)
    code.finish(answer)
    return code


def launch_method() -> Code:
    """`try_launch` for Python."""
    return _as_method("launch_method", "try_launch")


def prepared_method() -> Code:
    """`try_prepared` for Python."""
    return _as_method("prepared_method", "try_prepared")


ALL = (
    place_of,
    bind,
    unchanged,
    fits,
    start,
    tuple_of,
    run,
    try_plans,
    try_start,
    record_of,
    try_launch,
    try_prepared,
    launch_in_place,
    prepared_in_place,
    launch_method,
    prepared_method,
)
