"""The path of a launch in machine code: from the call of `launch` to the launcher of a signature, and to the driver.

    launch(f, x, y, grid=1, block=32)    →   try_launch     gets the record of f
                                             bind           one object for each parameter
                                             read_launch    sizes and stream
                                             read_capture   whether the stream is being captured
                                             a launcher of f for these objects, which calls `fits` and `start`

Each function returns whether the launch was made. If not, it has had no effect, and Python makes the launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.device.functions import Kernel
from cuda_device.plugins.launchers import memory_layout
from cuda_device.plugins.launchers.guard_writer import GuardWriter, Operand, shared
from cuda_device.plugins.launchers.memory_layout import (
    CALL,
    LAUNCH,
    LAUNCH_BYTES,
    MOST_PARAMETERS,
    NAME,
    PLAN,
    PREPARED,
    START,
    Owner,
    Word,
    function_words,
)
from cuda_device.plugins.launchers.object_reading import EQ, KEYWORDS
from cuda_device.runtime.gpu import launch_log
from cuda_device.runtime.gpu.streams import MOST_RETAINED

_POINTER = 8
_WITHOUT_TIMING = 2  # CU_EVENT_DISABLE_TIMING
# The highest bit of the count in a vector call is a flag (PY_VECTORCALL_ARGUMENTS_OFFSET).
_COUNT = (1 << 63) - 1


@shared("i64", "ptr %names", "i64 %count", "ptr %name")
def place_of(code: GuardWriter) -> None:
    """The position of a name among the parameters, or -1. Names are compared by identity first, and then as text."""
    for by_identity in (True, False):
        with code.repeat("%count") as i:
            here = code.load("ptr", code.at("%names", i, _POINTER))
            with code.when(code.compare("ne", "ptr", here, "null")):
                if by_identity:
                    same = code.equal("ptr", here, "%name")
                else:
                    same = code.equal("i32", code.call("PyObject_RichCompareBool", here, "%name", EQ), 1)
                code.leave_when(same, i)
    code.finish(-1)


@shared("i1", "ptr %call", "ptr %args", "i64 %count", "ptr %names", "ptr %values", "ptr %sizes")
def bind(code: GuardWriter) -> None:
    """Stores an object for each parameter in `%values`, unless `%args` has all, and the keywords of `launch` in `%sizes`."""
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


@shared("i1", "ptr %names", "i64 %count")
def unchanged(code: GuardWriter) -> None:
    """Whether the names that the compiler looked up still have the same values, with the same contents."""
    version_at = memory_layout.version_of_dicts()
    with code.repeat("%count") as i:
        name = code.at("%names", i, 8 * len(NAME.fields))
        changed = code.memory(1)
        code.store("i1", "true", changed)
        if version_at is not None:
            with code.when(code.equal("i64", code.get(NAME, name, "kind"), Owner.NAMESPACE)):
                version = code.load("i64", code.get(NAME, name, "owner"), version_at)
                code.store("i1", code.compare("ne", "i64", version, code.get(NAME, name, "version")), changed)
        with code.when(code.load("i1", changed)):
            code.require(code.call("has_value", name))


@shared("i1", "ptr %name", rare=True)
def has_value(code: GuardWriter) -> None:
    """Whether a name still has the same value, or an object the same content; notes the version of the namespace."""
    kind = code.get(NAME, "%name", "kind")
    owner, name, value = (code.get(NAME, "%name", field) for field in ("owner", "name", "value"))
    with code.when(code.equal("i64", kind, Owner.BYTES)):
        count = code.value(f"ptrtoint ptr {name} to i64")
        operands = ("ptr", owner), ("ptr", value), ("i64", count)
        difference = code.call_pointer("i32", code.word(Word.COMPARE_BYTES), *operands)
        code.leave_when(code.equal("i32", difference, 0), "true")
        code.leave_when("true", "false")
    found = code.memory(8)
    code.store("ptr", "null", found)
    with code.when(code.equal("i64", kind, Owner.NAMESPACE)):
        code.store("ptr", code.call("PyDict_GetItemWithError", owner, name), found)
    with code.when(code.equal("i64", kind, Owner.CELL)):
        _compare_later(code, code.call("PyCell_Get", owner), found)
    with code.when(code.equal("i64", kind, Owner.OBJECT)):
        _compare_later(code, code.call("PyObject_GetAttr", owner, name), found)
    with code.when(code.equal("i64", kind, Owner.CALL)):
        _compare_later(code, code.call("PyObject_Vectorcall", owner, "null", 0, "null"), found)
    code.require(code.equal("ptr", code.load("ptr", found), value))
    with code.when(code.equal("ptr", value, "null")):
        # There is no such name, or the lookup raised an exception.
        code.require(code.equal("ptr", code.call("PyErr_Occurred"), "null"))
    if (version_at := memory_layout.version_of_dicts()) is not None:
        with code.when(code.equal("i64", kind, Owner.NAMESPACE)):
            code.set(NAME, "%name", "version", code.load("i64", owner, version_at))


def _compare_later(code: GuardWriter, found: str, place: str) -> None:
    """Stores the address of an object and releases the reference. The caller holds the object that it compares with."""
    code.store("ptr", found, place)
    with code.when(code.compare("ne", "ptr", found, "null")):
        code.release(found)


@shared("i1", "ptr %launch", "ptr %start")
def fits(code: GuardWriter) -> None:
    """Whether a compiled kernel can be launched: its context, the sizes, its names, and no pending report of an error."""
    context = code.call("context_of", "%launch")
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


@shared("i1", "ptr %launch", "ptr %start", "ptr %parameters", exported=True)
def start(code: GuardWriter) -> None:
    """Calls the driver, without the interpreter's lock if it can take time, and adds the launch to the log.

    Returns false if the kernel cannot be launched (`fits`).

    An ordered launch waits for the present work of the streams on which its arrays are produced, and their later work waits for
    the launch. Memory that is freed in the order of such a stream is therefore freed after the launch. A launch that is not
    ordered, or that reaches the memory of other devices, keeps its arguments alive until it has ended. A captured launch keeps
    them forever.
    """
    code.require(code.call("fits", "%launch", "%start"))
    code.leave_when(code.compare("ne", "i64", code.get(LAUNCH, "%launch", "only_checked"), 0), "true")
    stream = code.get(LAUNCH, "%launch", "stream")
    capturing = code.compare("ne", "i64", code.get(LAUNCH, "%launch", "capturing"), 0)
    producers, retained = (code.get(LAUNCH, "%launch", name) for name in ("producers", "retained"))
    waits = code.compare("ne", "i64", code.value(f"or i64 {producers}, {retained}"), 0)
    event, done, thread = code.memory(2 * _POINTER), code.memory(1), code.memory(_POINTER)
    with code.when(waits):
        code.require(code.call("take_event", "%launch", "%start", event))
    code.store("i1", "true", done)
    with code.when(code.opposite(capturing)):  # a captured launch never waits for the GPU
        code.store("ptr", code.call("PyEval_SaveThread"), thread)
    with code.when(waits):
        code.store("i1", code.call("wait_for_producers", "%launch", event), done)
    with code.when(code.load("i1", done)):
        status = code.call_pointer(
            "i32",
            code.word(Word.LAUNCH_KERNEL),
            ("i64", code.get(START, "%start", "kernel")),
            *(("i32", code.get(LAUNCH, "%launch", size)) for size in (*_SIZES, "shared")),
            ("i64", stream),
            ("ptr", "%parameters"),
            ("ptr", "null"),
        )
        code.store("i1", code.equal("i32", status, 0), done)
    made = code.load("i1", done)
    # An error after the launch affects the whole context, and the next call of the driver reports it.
    with code.when(code.both(made, waits)):
        code.call("hold_producers_back", "%launch", event)
    with code.when(code.opposite(capturing)):
        code.call("PyEval_RestoreThread", code.load("ptr", thread))
    with code.when(waits):
        code.call("give_event", "%launch", "%start", event, made)
    code.require(made)
    with code.when(capturing):
        values, count = code.get(LAUNCH, "%launch", "values"), code.get(LAUNCH, "%launch", "count")
        with code.when(code.opposite(code.call("is_kept", values, count))):
            kept = code.call("tuple_of", values, count)
            with code.when(code.compare("ne", "ptr", kept, "null")):
                code.call("PyList_Append", code.word(Word.CAPTURED), kept)
                code.release(kept)
            code.call("PyErr_Clear")
    ring = code.word(Word.RING)
    count = code.load("i64", ring)
    record = code.at(code.at(ring, 8), code.value(f"urem i64 {count}, {launch_log.MOST}"), launch_log.RECORD.size)
    words = (code.get(START, "%start", "name"), code.get(START, "%start", "context"), stream, "0")
    for i, word in enumerate(words):
        code.store("i64", word, record, 8 * i)
    code.copy(code.at(record, 8 * len(words)), code.field(LAUNCH, "%launch", _SIZES[0]), 4 * len(_SIZES))
    code.store("i64", code.value(f"add i64 {count}, 1"), ring)


@shared("i1", "ptr %launch", "ptr %start", "ptr %event", rare=True)
def take_event(code: GuardWriter) -> None:
    """Decides how the launch waits, and gets an event and the Python int with its handle, or zeros if it needs none.

    The event is a spare one, or a new one (and null) for a capture. From here on, the launch has `producers` only if it is
    ordered with them, and is `retained` only if its arguments are kept until it has ended.
    """
    with code.when(code.equal("i64", code.get(LAUNCH, "%launch", "ordered"), 0)):
        code.set(LAUNCH, "%launch", "producers", 0)
        code.set(LAUNCH, "%launch", "retained", 1)
    for i in range(2):
        code.store("i64", 0, "%event", _POINTER * i)
    with code.when(code.compare("ne", "i64", code.get(LAUNCH, "%launch", "capturing"), 0)):
        code.set(LAUNCH, "%launch", "retained", 0)
        code.leave_when(code.equal("i64", code.get(LAUNCH, "%launch", "producers"), 0), "true")
        code.leave_when(_succeeds(code, Word.CREATE_EVENT, ("ptr", "%event"), ("i32", _WITHOUT_TIMING)), "true")
        code.leave_when("true", "false")
    with code.when(code.compare("ne", "i64", code.get(LAUNCH, "%launch", "retained"), 0)):
        # Python releases the arguments of launches that have ended.
        waiting = code.call("PyObject_Size", code.get(LAUNCH, "%launch", "pending"))
        code.require(code.compare("slt", "i64", waiting, MOST_RETAINED))
    spare = code.memory(_POINTER)
    code.store("ptr", code.get(START, "%start", "events"), spare)
    found = code.call("PyObject_VectorcallMethod", code.word(Word.POP), spare, 1, "null")
    code.require(code.compare("ne", "ptr", found, "null"))
    code.store("ptr", found, "%event", _POINTER)
    code.store("i64", code.call("PyLong_AsUnsignedLongLong", found), "%event")


@shared("void", "ptr %launch", "ptr %start", "ptr %event", "i1 %made", rare=True)
def give_event(code: GuardWriter) -> None:
    """Keeps an event of `take_event` with the arguments of a retained launch, returns it to the spare ones, or destroys it."""
    number = code.load("ptr", "%event", _POINTER)
    own = code.compare("ne", "ptr", number, "null")
    retained = code.both("%made", code.compare("ne", "i64", code.get(LAUNCH, "%launch", "retained"), 0))
    with code.when(retained):
        code.call("keep_until", "%launch", "%event")
    with code.when(code.both(own, code.opposite(retained))):
        code.call("PyList_Append", code.get(START, "%start", "events"), number)
        code.release(number)
    with code.when(code.both(code.opposite(own), code.compare("ne", "i64", code.load("i64", "%event"), 0))):
        code.call_pointer("i32", code.word(Word.DESTROY_EVENT), ("i64", code.load("i64", "%event")))
    code.call("PyErr_Clear")
    code.finish()


@shared("i1", "ptr %launch", "ptr %event")
def keep_until(code: GuardWriter) -> None:
    """Puts an event and the arguments of a launch into the queue of `streams.Retained`, which owns them from then on."""
    values = code.call("tuple_of", code.get(LAUNCH, "%launch", "values"), code.get(LAUNCH, "%launch", "count"))
    code.require(code.compare("ne", "ptr", values, "null"))
    pair = code.memory(2 * _POINTER)
    code.store("ptr", code.load("ptr", "%event", _POINTER), pair)
    code.store("ptr", values, pair, _POINTER)
    item = code.call("tuple_of", pair, 2)
    code.release(values)
    code.release(code.load("ptr", "%event", _POINTER))
    code.require(code.compare("ne", "ptr", item, "null"))
    arguments = code.memory(2 * _POINTER)
    code.store("ptr", code.get(LAUNCH, "%launch", "pending"), arguments)
    code.store("ptr", item, arguments, _POINTER)
    answer = code.call("PyObject_VectorcallMethod", code.word(Word.APPEND), arguments, 2, "null")
    code.release(item)
    code.require(code.compare("ne", "ptr", answer, "null"))
    code.release(answer)


@shared("i1", "ptr %launch", "ptr %event", rare=True)
def wait_for_producers(code: GuardWriter) -> None:
    """Makes the stream of the launch wait for the present work of the producers' streams."""
    stream, others = code.get(LAUNCH, "%launch", "stream"), code.field(LAUNCH, "%launch", "producer")
    event = code.load("i64", "%event")
    with code.repeat(code.get(LAUNCH, "%launch", "producers")) as i:
        producer = code.load("i64", code.at(others, i, 8))
        code.require(_succeeds(code, Word.RECORD_EVENT, ("i64", event), ("i64", producer)))
        code.require(_succeeds(code, Word.WAIT_EVENT, ("i64", stream), ("i64", event), ("i32", 0)))


@shared("i1", "ptr %launch", "ptr %event", rare=True)
def hold_producers_back(code: GuardWriter) -> None:
    """Records the end of the launch, if an event is needed, and makes the producers' streams wait for it."""
    stream, others = code.get(LAUNCH, "%launch", "stream"), code.field(LAUNCH, "%launch", "producer")
    event = code.load("i64", "%event")
    code.require(code.compare("ne", "i64", event, 0))
    code.require(_succeeds(code, Word.RECORD_EVENT, ("i64", event), ("i64", stream)))
    with code.repeat(code.get(LAUNCH, "%launch", "producers")) as i:
        producer = code.load("i64", code.at(others, i, 8))
        code.require(_succeeds(code, Word.WAIT_EVENT, ("i64", producer), ("i64", event), ("i32", 0)))


def _succeeds(code: GuardWriter, function: Word, *arguments: tuple[str, Operand]) -> str:
    return code.equal("i32", code.call_pointer("i32", code.word(function), *arguments), 0)


_SIZES = tuple(f"{name}.{axis}" for name in ("grid", "block") for axis in "xyz")


@shared("i1", "ptr %values", "i64 %count")
def is_kept(code: GuardWriter) -> None:
    """Whether the launch that was captured last had the same arguments, which are never released."""
    captured = code.word(Word.CAPTURED)
    launches = code.size_of(captured)
    code.require(code.compare("sgt", "i64", launches, 0))
    behind = code.at(code.load("ptr", captured, memory_layout.LISTED), launches, _POINTER)
    last = code.load("ptr", behind, -_POINTER)
    code.require(code.equal("i64", code.size_of(last), "%count"))
    with code.repeat("%count") as i:
        code.require(code.equal("ptr", code.item(last, i), code.load("ptr", code.at("%values", i, _POINTER))))


@shared("ptr", "ptr %values", "i64 %count")
def tuple_of(code: GuardWriter) -> None:
    """Makes a tuple; returns null if that fails."""
    made = code.call("PyTuple_New", "%count")
    code.leave_when(code.equal("ptr", made, "null"), "null")
    with code.repeat("%count") as i:
        value = code.load("ptr", code.at("%values", i, _POINTER))
        code.call("Py_IncRef", value)
        code.call("PyTuple_SetItem", made, i, value)
    code.finish(made)


@shared("i1", "ptr %call", "ptr %args", "i64 %count", "ptr %names", "i64 %only_checked")
def try_plans(code: GuardWriter) -> None:
    """Tries the launchers of a kernel one after the other. The one that makes the launch becomes the first."""
    values = code.memory(_POINTER * MOST_PARAMETERS)
    sizes = code.memory(_POINTER * len(KEYWORDS))
    launch = code.memory(LAUNCH_BYTES)
    code.require(code.call("bind", "%call", "%args", "%count", "%names", values, sizes))
    all_there = code.equal("i64", "%count", code.get(CALL, "%call", "parameters"))
    values = code.value(f"select i1 {all_there}, ptr %args, ptr {values}")
    code.require(code.call("read_launch", sizes, launch))
    code.require(code.call("read_capture", launch))
    code.set(LAUNCH, launch, "only_checked", "%only_checked")
    code.set(LAUNCH, launch, "values", values)
    code.set(LAUNCH, launch, "count", code.get(CALL, "%call", "parameters"))
    with code.repeat(code.get(CALL, "%call", "plans")) as i:
        code.set(LAUNCH, launch, "producers", 0)
        code.set(LAUNCH, launch, "retained", 0)
        first, nbytes = code.get(CALL, "%call", "plan"), _POINTER * len(PLAN.fields)
        plan = code.at(first, i, nbytes)
        function, state = code.get(PLAN, plan, "function"), code.get(PLAN, plan, "state")
        made = code.call_pointer("i1", function, ("ptr", state), ("ptr", values), ("ptr", launch))
        with code.when(made):
            code.copy(plan, first, nbytes)
            code.set(PLAN, first, "function", function)
            code.set(PLAN, first, "state", state)
            code.leave_when("true", "true")
        code.call("clear_error")
    code.finish("false")


@shared("void")
def clear_error(code: GuardWriter) -> None:
    """Clears the exception, if one is set: asking takes a tenth of the time of clearing."""
    with code.when(code.compare("ne", "ptr", code.call("PyErr_Occurred"), "null")):
        code.call("PyErr_Clear")
    code.finish()


@shared("ptr", "ptr %native", "i64 %nbytes")
def record_of(code: GuardWriter) -> None:
    """The first item of the tuple `native` if that has `%nbytes` bytes: the record of a kernel. Otherwise null.

    The tuple owns the objects to which the record refers.
    """
    code.leave_when(code.opposite(code.has_type("%native", Word.TUPLE)), "null")
    code.leave_when(code.equal("i64", code.size_of("%native"), 0), "null")
    record = code.item("%native", 0)
    code.leave_when(code.opposite(code.has_type(record, Word.BYTES)), "null")
    code.leave_when(code.compare("ne", "i64", code.size_of(record), "%nbytes"), "null")
    code.finish(code.octets(record))


@shared("i1", "ptr %args", "i64 %count", "ptr %names", "i64 %only_checked")
def try_launch(code: GuardWriter) -> None:
    """Makes the launch of a call of `launch`, or only checks it."""
    code.require(code.compare("sge", "i64", "%count", 1))
    kernel = code.load("ptr", "%args")
    code.require(code.has_type(kernel, Word.KERNEL))
    rest, fewer = code.at("%args", _POINTER), code.value("sub i64 %count, 1")
    native = code.slot(kernel, Kernel, "native")
    code.call("Py_IncRef", native)
    record = code.call("record_of", native, 8 * len(CALL.fields))
    done = code.memory(1)
    code.store("i1", "false", done)
    with code.when(code.compare("ne", "ptr", record, "null")):
        code.store("i1", code.call("try_plans", record, rest, fewer, "%names", "%only_checked"), done)
    code.release(native)
    code.require(code.load("i1", done))


@shared("ptr", "ptr %callable", "ptr %args", "i64 %flags", "ptr %names", exported=True)
def launch_in_place(code: GuardWriter) -> None:
    """The vector call of `launch`: tries machine code, and then calls the Python function."""
    count = code.value(f"and i64 %flags, {_COUNT}")
    # None is immortal in all Pythons that can do this.
    code.leave_when(code.call("try_launch", "%args", count, "%names", 0), code.word(Word.NONE))
    code.call("PyErr_Clear")
    arguments = ("ptr", "%callable"), ("ptr", "%args"), ("i64", "%flags"), ("ptr", "%names")
    code.finish(code.call_pointer("ptr", code.word(Word.LAUNCH), *arguments))


@shared("ptr", "ptr %self", "ptr %args", "i64 %count", "ptr %names", exported=True)
def launch_method(code: GuardWriter) -> None:
    """A built-in function that returns whether it has made the launch: for groups and for Python 3.11."""
    _answer(code, 0)


@shared("ptr", "ptr %self", "ptr %args", "i64 %count", "ptr %names", exported=True)
def check_method(code: GuardWriter) -> None:
    """A built-in function that returns whether `launch_method` would make the launch."""
    _answer(code, 1)


def _answer(code: GuardWriter, only_checked: int) -> None:
    done = code.call("try_launch", "%args", "%count", "%names", only_checked)
    with code.when(code.opposite(done)):
        code.call("PyErr_Clear")
    yes, no = code.word(Word.TRUE), code.word(Word.FALSE)
    answer = code.value(f"select i1 {done}, ptr {yes}, ptr {no}")
    code.call("Py_IncRef", answer)
    code.finish(answer)


@shared("i1", "ptr %self", "ptr %args", "i64 %count", "ptr %names")
def try_prepared(code: GuardWriter) -> None:
    """Makes a prepared launch, some of whose arguments may be replaced, as a call of `launch`."""
    record = code.call("record_of", "%self", 8 * len(PREPARED.fields))
    code.require(code.compare("ne", "ptr", record, "null"))
    parameters = code.get(PREPARED, record, "parameters")
    code.require(code.compare("ule", "i64", "%count", code.get(PREPARED, record, "positional")))
    given = code.value(f"add i64 {parameters}, 1")
    objects = code.memory(_POINTER * (1 + MOST_PARAMETERS + len(KEYWORDS)))
    nbytes = code.value(f"mul i64 {code.value(f'add i64 {given}, {len(KEYWORDS)}')}, {_POINTER}")
    code.copy(objects, code.get(PREPARED, record, "values"), nbytes)
    values = code.at(objects, _POINTER)
    code.copy(values, "%args", code.value(f"mul i64 %count, {_POINTER}"))
    with code.when(code.compare("ne", "ptr", "%names", "null")), code.repeat(code.size_of("%names")) as i:
        at = code.call("place_of", code.get(PREPARED, record, "names"), parameters, code.item("%names", i))
        code.require(code.compare("sge", "i64", at, "%count"))  # known, and not given by position
        value = code.load("ptr", code.at("%args", code.value(f"add i64 %count, {i}"), _POINTER))
        code.store("ptr", value, code.at(values, at, _POINTER))
    code.require(code.call("try_launch", objects, given, code.get(PREPARED, record, "keywords"), 0))


@shared("ptr", "ptr %self", "ptr %args", "i64 %count", "ptr %names", exported=True)
def start_prepared(code: GuardWriter) -> None:
    """A built-in function that makes a prepared launch; the second item of its tuple is the Python function for the same."""
    with code.when(code.call("try_prepared", "%self", "%args", "%count", "%names")):
        none = code.word(Word.NONE)
        code.call("Py_IncRef", none)
        code.leave_when("true", none)
    code.call("PyErr_Clear")
    code.finish(code.call("PyObject_Vectorcall", code.item("%self", 1), "%args", "%count", "%names"))


def addresses(code: GuardWriter, buffer: str, offsets: Sequence[int]) -> str:
    """The array with the address of each parameter in a buffer, which `start` and the driver take."""
    padded = [*offsets, *[0] * (-len(offsets) % 4)] or [0]  # whole vectors, which take a third of the instructions
    array, words = code.memory(_POINTER * len(padded)), f"<{len(padded)} x i64>"
    base = code.value(f"insertelement {words} poison, i64 {code.value(f'ptrtoint ptr {buffer} to i64')}, i64 0")
    bases = code.value(f"shufflevector {words} {base}, {words} poison, <{len(padded)} x i32> zeroinitializer")
    numbers = ", ".join(f"i64 {offset}" for offset in padded)
    code.store(words, code.value(f"add {words} {bases}, <{numbers}>"), array)
    return array
