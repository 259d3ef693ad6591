"""The table of IR operations, one row for each.

A row lists the levels at which the operation is legal, the numbers of its operands and results, its attributes, and its side
effects. The printer, the parser and the verifier read the rows. `infer/engine` and `lower` have a rule for each row of their
level, and `codegen/emit/to_llvm` has an emitter for each row of the device level (tests compare the sets). To add an operation,
write a row here, a rule in the pass that creates it, and an emitter.

The levels follow each other:

    PYTHON   the operations of the bytecode, untyped         %2 = py.binary {op="+"} %0 %1
    TYPED    the same with types, calls resolved             %2: float32 = py.binary {op="+"} %0 %1
    DEVICE   machine operations on numbers and addresses     %2: float32 = add %0 %1
"""

from __future__ import annotations

import enum
from enum import StrEnum

from cuda_device.lazy_dataclasses import dataclass

# What a row of the table of operations (`ir/ops`) says: the levels, the effects, the row itself.


class Level(enum.Flag):
    """A stage of the IR; a row may be legal at several."""

    PYTHON = enum.auto()
    TYPED = enum.auto()
    DEVICE = enum.auto()


class Effect(enum.Flag):
    """What an operation or a function does beside computing its results.

    CONVERGENT operations must be reached by the same threads as in the source: nothing may move, duplicate or guard them.
    SUSPENDS marks those at which a thread waits for others: on the CPU, threads take turns there (`codegen/cpu/regions`).
    EXITS marks those that may end the thread.
    SPINS marks those that a loop may repeat until another thread does something: atomics.
    """

    PURE = 0
    READS = enum.auto()
    WRITES = enum.auto()
    CONVERGENT = enum.auto()
    SUSPENDS = enum.auto()
    SPINS = enum.auto()
    EXITS = enum.auto()
    TERMINATES = enum.auto()
    LOCAL = enum.auto()


MANY = -1  # as many operands or results as the operation at hand has


@dataclass(frozen=True, eq=False, slots=True)
class OpDef:
    """One row. `attributes` name what an operation carries beside operands, `optional` what it may carry."""

    name: str
    levels: Level
    operands: int
    results: int
    doc: str
    attributes: tuple[str, ...] = ()
    effects: Effect = Effect.PURE
    successors: int = 0
    optional: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.name


# The operations of the IR: one table, one row an operation.


P, T, D = Level.PYTHON, Level.TYPED, Level.DEVICE
_PT, _TD, _ALL = P | T, T | D, P | T | D

# What Python says.
PY_CONST = OpDef("py.const", P, 0, 1, "A constant of the code object.", ("value",))
PY_GLOBAL = OpDef("py.global", P, 0, 1, "A global or builtin name.", ("name",))
PY_CELL = OpDef("py.cell", P, 0, 1, "The content of a closure's cell.", ("name",))
PY_SET_CELL = OpDef("py.set_cell", P, 1, 0, "An assignment to a variable of an enclosing function.", ("name",))
PY_BOX = OpDef("py.box", P, 1, 1, "A place for a variable that nested functions assign to: its value.", ("name",))
PY_UNBOX = OpDef("py.unbox", P, 1, 1, "The value of such a variable.")
PY_SET_BOX = OpDef("py.set_box", P, 2, 0, "An assignment to such a variable.")
PY_UNDEFINED = OpDef("py.undefined", P, 0, 1, "A local variable before its first assignment.", ("name",))
PY_UNARY = OpDef("py.unary", _PT, 1, 1, "`-x`, `+x`, `~x` or `not x`.", ("op",))
PY_BINARY = OpDef(
    "py.binary",
    _PT,
    2,
    1,
    "`x + y` and the other binary operators; `inplace` marks `x += y`, `exact` promises that a sum has room.",
    ("op",),
    optional=("inplace", "exact"),
)
PY_COMPARE = OpDef("py.compare", _PT, 2, 1, "`x < y` and the other comparisons.", ("op",))
PY_IS = OpDef("py.is", P, 2, 1, "`x is y`, or `x is not y` if inverted.", ("inverted",))
PY_TRUTH = OpDef("py.truth", _PT, 1, 1, "`bool(x)` as `if` and `while` ask for it.")
PY_GETATTR = OpDef(
    "py.getattr",
    P,
    1,
    1,
    "`x.name`; `part` says that x is no variable, but was read from an array or from a part of another value.",
    ("name",),
    optional=("part",),
)
PY_GETITEM = OpDef("py.getitem", _PT, MANY, 1, "`x[i, …]`; `part` as above.", (), Effect.READS, 0, ("part",))
PY_SETATTR = OpDef(
    "py.setattr",
    P,
    2,
    0,
    "`x.name = v`: operands x, v; `target` and `back` as of `py.setitem`.",
    ("name",),
    Effect.WRITES,
    optional=("target", "back"),
)
PY_COPY = OpDef("py.copy", P, 1, 1, "A value under a second name: what changes by one does not show by the other.")
PY_SETITEM = OpDef(
    "py.setitem",
    _PT,
    MANY,
    0,
    "`x[i] = v`: x, the indices, v. A vector changes in the variable x; `target` says where x is no variable: a `part` of what "
    "one holds, or a mere `value`. `back`: v is `x[i]` after a change of its own part; nothing is done if that was in memory.",
    (),
    Effect.WRITES,
    optional=("target", "back"),
)
PY_TUPLE = OpDef("py.tuple", P, MANY, 1, "`(x, y, …)`.")
PY_LIST = OpDef("py.list", P, MANY, 1, "`[x, y, …]`: its length is known, and it never changes.")
PY_APPEND = OpDef("py.append", P, 2, 1, "A list and one more item: what a comprehension does.")
PY_EXTEND = OpDef("py.extend", P, 2, 1, "A list and all items of something: `[*x, *y]`.")
PY_TUPLE_OF = OpDef("py.tuple_of", P, 1, 1, "The tuple of a list.")
PY_DICT = OpDef("py.dict", P, MANY, 1, "Keywords with their values, for a call or a function's defaults.", ("keys",))
PY_MAP_ADD = OpDef("py.map_add", P, 3, 1, "A dict with one more key and its value: what a comprehension does.")
PY_MERGE = OpDef("py.merge", P, 2, 1, "`{**a, **b}`; `unique`: no key may be in both.", ("unique",))
PY_SLICE = OpDef("py.slice", P, MANY, 1, "`start:stop` or `start:stop:step`, as an index.")
PY_STRING = OpDef("py.string", P, MANY, 1, "An f-string of its parts.")
PY_FORMAT = OpDef("py.format", P, MANY, 1, "One part of an f-string, perhaps with a format.", ("conversion",))
PY_CONTAINS = OpDef("py.contains", P, 2, 1, "`x in y`, or `x not in y` if inverted.", ("inverted",))
PY_IS_SEQUENCE = OpDef("py.is_sequence", P, 1, 1, "Whether a sequence pattern of `match` can match a value.")
PY_UNPACK = OpDef("py.unpack", P, 1, MANY, "`a, b, … = x`.")
PY_UNPACK_STAR = OpDef(
    "py.unpack_star", P, 1, MANY, "`a, *b, c = x`: so many names before the star, and after it.", ("before", "after")
)
PY_CALL = OpDef(
    "py.call", P, MANY, 1, "`f(x, …, k=y, …)`: f, arguments; `names` are the last ones' keywords.", optional=("names",)
)
PY_CALL_STAR = OpDef("py.call_star", P, MANY, 1, "`f(*x)` or `f(*x, **y)`.")
PY_FUNCTION = OpDef(
    "py.function",
    P,
    MANY,
    1,
    "A nested function: `cells` name the variables that it captures; operands are a tuple of `defaults` last ones', and the "
    "`keywords`' defaults.",
    ("function", "cells", "defaults", "keywords"),
)
PY_CELLS = OpDef(
    "py.cells",
    P,
    MANY,
    0,
    "What captured variables hold now, for the call that follows.",
    ("names",),
)
PY_ITER = OpDef(
    "py.iter", _PT, 1, 1, "`iter(x)`, for a loop that is `unroll`ed, or not.", optional=("unroll", "indexed")
)
PY_AT = OpDef("py.at", P, 2, 1, "Whether a generator stands at `position`: where, a mark if it may.", ("position",))
PY_STEP = OpDef(
    "py.step", P, MANY, 1, "What a generator gives: is there a value, the value, where it stands, what it keeps."
)
_NEXT_DOC = (
    "One step of a `for`: iterator → is there an item, the item, the iterator after it. `step` is the range's if it is known, "
    "else `up` says whether it is positive for certain; `roomy`: a step from its last item has room in its type."
)
PY_NEXT = OpDef("py.next", _PT, 1, 3, _NEXT_DOC, optional=("step", "up", "roomy"))
PY_RAISE = OpDef(
    "py.raise",
    _PT,
    MANY,
    0,
    "An exception, or an assertion that does not hold: the thread ends. `{0}` and `{1}` in the message are the operands.",
    ("kind",),
    optional=("message", "help"),
)
PY_CHECK = OpDef(
    "py.check",
    T,
    MANY,
    0,
    "Unless the first operand is true, the thread ends with a report of the two indices behind it: checked mode.",
    ("message",),
    optional=("help",),
)
PY_DEFINED = OpDef("py.defined", P, 1, 0, "Checks that a variable has a value: the operand says so.", ("name",))
PY_UNSUPPORTED = OpDef("py.unsupported", P, 0, 0, "What device code cannot do: an error if it is reached.", ("what",))

# What the typed level adds.
INTRINSIC = OpDef(
    "intrinsic",
    T,
    MANY,
    1,
    "A row of the device tables; further attributes are the row's own.",
    ("name",),
    optional=("settings",),
)
CALL = OpDef("call", _TD, MANY, 1, "A call of another function of the module.", ("callee",))
_FOREIGN = Effect.READS | Effect.WRITES | Effect.CONVERGENT
_EXTERN_DOC = "A call of a C++ function. Its operands are as in `lower`; the first takes the result if `into`."
EXTERN = OpDef("extern", _TD, MANY, MANY, _EXTERN_DOC, ("symbol",), _FOREIGN, optional=("into",))
CONST = OpDef("const", _TD, 0, 1, "A number, or None.", ("value",))
CONVERT = OpDef("convert", _TD, 1, 1, "A number as another; `exact`: a narrower integer has room.", optional=("exact",))
MAKE = OpDef("make", _TD, MANY, 1, "A tuple, vector or struct of its operands.")
FIELD = OpDef("field", _TD, 1, 1, "One element of a tuple, vector or struct.", ("index",))
EXTENT = OpDef("extent", T, 1, 1, "The length of one axis of an array, an index.", ("axis",))
WINDOW = OpDef(
    "window",
    T,
    MANY,
    1,
    "An array within another one's memory: the array, or a reference, an offset in bytes, the shape, the strides in bytes. "
    "`used` says that something looks there.",
    optional=("used",),
)
REFER = OpDef(
    "refer",
    T,
    MANY,
    1,
    "The reference to an element of an array: the array, the indices; `behind` says that nothing looks there if it is none.",
    optional=("behind",),
)
MEMBER = OpDef("member", T, 1, 1, "The reference to what lies `offset` bytes behind a reference.", ("offset",))
STRIDE = OpDef("stride", T, 1, 1, "The step of one axis of an array, in bytes, an index.", ("axis",))

# What machines do. Operands of an arithmetic row have one type, its result has the same.
ADD = OpDef("add", D, 2, 1, "Sum; integers wrap, unless `exact` says that they never do.", optional=("exact",))
SUB = OpDef("sub", D, 2, 1, "Difference, as `add`.", optional=("exact",))
MUL = OpDef("mul", D, 2, 1, "Product, as `add`.", optional=("exact",))
DIV = OpDef("div", D, 2, 1, "Quotient of floats, correctly rounded.")
QUOTIENT = OpDef("quotient", D, 2, 1, "Quotient of integers, truncated; unspecified, but no fault, by zero.")
REMAINDER = OpDef("remainder", D, 2, 1, "What `quotient` leaves (of floats: fmod); as harmless by zero.")
AND = OpDef("and", D, 2, 1, "Bitwise and of integers or bools.")
OR = OpDef("or", D, 2, 1, "Bitwise or of integers or bools.")
XOR = OpDef("xor", D, 2, 1, "Bitwise exclusive or of integers or bools.")
SHL = OpDef("shl", D, 2, 1, "Left shift; the count is below the width.")
SHR = OpDef("shr", D, 2, 1, "Right shift, arithmetic if signed; the count is below the width.")
BITS = OpDef("bits", D, 1, 1, "A number's bits as another number of the same size.")
BITWISE = OpDef(
    "bitwise",
    D,
    1,
    1,
    "`function` of an integer's bits: `ctpop` (how many are set), `ctlz`, `cttz` (how many zeros lead, trail), `bitreverse`.",
    ("function",),
)
NEG = OpDef("neg", D, 1, 1, "Negation of a float.")
COMPARE = OpDef("compare", D, 2, 1, "A bool from two numbers of one type: `op` is == != < <= > >=.", ("op",))
_SELECT_DOC = "The second operand where the first is true, else the third; perhaps the `extreme` of the two."
SELECT = OpDef("select", D, 3, 1, _SELECT_DOC, optional=("extreme",))
MATH = OpDef("math", D, MANY, 1, "A row of `device/numeric`, in the precision of its operands.", ("function",))
MACHINE = OpDef(
    "machine",
    D,
    MANY,
    MANY,
    "A function that is one `instruction` of a GPU: an intrinsic of LLVM, or PTX with `$0`, … for results and then operands.",
    ("instruction",),
)
PTX = OpDef(
    "ptx",
    D,
    MANY,
    MANY,
    "PTX of the program's own, as of `machine`, that may do anything; references among the operands are addresses.",
    ("instruction",),
    Effect.READS | Effect.WRITES | Effect.CONVERGENT,
)
ELEMENT = OpDef(
    "element", _TD, 2, 1, "The reference `index` elements on, perhaps `outside` the array.", optional=("outside",)
)
BYTES = OpDef(
    "bytes", D, 2, 1, "The reference so many bytes after a reference, perhaps to something else in its space."
)
ADDRESS = OpDef("address", D, 1, 1, "Where a reference points: the bytes before it in its space, uint64.")
LOAD = OpDef(
    "load",
    _TD,
    1,
    1,
    "What a reference points to, aligned to `align` (or its type).",
    (),
    Effect.READS,
    optional=("align",),
)
STORE = OpDef(
    "store", _TD, 2, 0, "Writes the second operand to the first; as `load`.", (), Effect.WRITES, optional=("align",)
)
SHARED = OpDef(
    "shared",
    D,
    0,
    1,
    "`count` elements of static shared memory, for all operations of this `number` and all threads.",
    ("count", "align"),
    optional=("number",),
)
ROOM = OpDef(
    "room",
    D,
    0,
    1,
    "Whether the stack has room for another call: a bool, always true on a GPU.",
    (),
    Effect.READS,
)
DYNAMIC_SHARED = OpDef("dynamic_shared", D, 0, 1, "The first byte of the shared memory that the launch asked for.")
GRID_WORD = OpDef(
    "grid_word",
    D,
    0,
    1,
    "A uint32 for the barriers of a cooperative launch, or of a `cluster`; all but its highest bit is 0 then.",
    optional=("cluster",),
)
IN_CLUSTER = OpDef(
    "in_cluster", D, 2, 1, "Where a reference to shared memory points, in the block of the cluster that has a rank."
)
CONSTANT = OpDef("constant", D, 0, 1, "Memory that nobody writes; `data` is hexadecimal.", ("data", "align"))
VARIABLE = OpDef(
    "variable",
    P | T | D,
    1,
    0,
    "For debuggers: from here on the variable `name` has this value.",
    ("name",),
    Effect.LOCAL,
)
LOCAL = OpDef(
    "local",
    D,
    0,
    1,
    "`count` elements of the thread's own memory, for all times that a call of the function comes here.",
    ("count", "align"),
    Effect.LOCAL,
)
GENERIC = OpDef("generic", D, 1, 1, "The same place as a reference that may be into any memory.")
REGISTER = OpDef("register", D, 0, 1, "A special register: `thread_idx.x`, …; `hidden_zero` is 0.", ("name",))


def _meeting(name: str, operands: int, results: int, doc: str, effects: Effect = Effect.PURE) -> OpDef:
    """A row at which threads meet: its `place` numbers it in the text. One that makes a result of operands has a `kind`."""
    effects |= Effect.CONVERGENT | Effect.SUSPENDS
    return OpDef(name, D, operands, results, doc, ("kind",) * bool(operands and results), effects, optional=("place",))


BARRIER = _meeting("barrier", 0, 0, "Waits for every thread of the block.", Effect.WRITES)
BARRIER_REDUCE = _meeting(
    "barrier.reduce",
    1,
    1,
    "As `barrier`, with a bool from each thread: `kind` is `count` (how many are true: int32), `and` or `or` (bool).",
    Effect.WRITES,
)
WARP_SYNC = _meeting("warp.sync", 1, 0, "Waits for the lanes of a mask.", Effect.WRITES)
WARP_VOTE = _meeting(
    "warp.vote",
    2,
    1,
    "Mask and a bool from each lane: `kind` is `all`, `any`, `eq` (bool) or `ballot` (the lanes where it is true: int32).",
)
WARP_SHUFFLE = _meeting(
    "warp.shuffle",
    3,
    1,
    "Mask, a uint32 or uint64, an int32: the number of the lane that `kind` (`idx`, `up`, `down`, `xor`) and the int32 say.",
)
WARP_MATCH = _meeting(
    "warp.match",
    2,
    1,
    "Mask, a uint32 or uint64: the lanes that have the same one (`kind` is `any`), or all of them or none (`all`): int32.",
)
WARP_REDUCE = _meeting(
    "warp.reduce",
    2,
    1,
    "Mask, an int32 or uint32: the `kind` (`add`, `min`, `umin`, `max`, `umax`, `and`, `or`, `xor`) of the lanes' numbers.",
)
WARP_ACTIVE = _meeting("warp.active", 0, 1, "The lanes that come here together: int32.")
YIELD = OpDef(
    "yield",
    D,
    0,
    0,
    "Lets other threads run, now if `now`, else once in a while: in loops that may wait for them. Nothing on a GPU.",
    effects=Effect.SUSPENDS,
    optional=("now", "place"),
)

REPORT = OpDef(
    "report",
    D,
    MANY,
    0,
    "Tells the host who failed, where and why, perhaps with two int64: the first report of a launch counts. `place` numbers it "
    "in the text.",
    ("status", "message"),
    Effect.WRITES,
    optional=("place", "help"),
)

TRACE = OpDef(
    "trace",
    D,
    MANY,
    0,
    "Tells the race detector what this thread does: `event` at the first operand, a reference or a mask of lanes; a second "
    "one says whether it came to writing.",
    ("event",),
    Effect.WRITES,
    optional=("memory", "scope", "place"),
)

PRINT = OpDef(
    "print",
    _TD,
    MANY,
    0,
    "Prints the operands, as C's printf does with `format`: 64-bit integers, float64, and bools, for which a pair of texts of "
    "`choices` stands. `place` numbers it in the text.",
    ("format", "choices"),
    Effect.WRITES,
    optional=("place",),
)

# Atomic operations on a reference to an atomic. `memory` and `scope` are an order and a scope of `ir/ops`.
_ATOMIC = Effect.READS | Effect.WRITES | Effect.SPINS
ATOMIC_LOAD = OpDef("atomic.load", D, 1, 1, "The number.", ("memory", "scope"), Effect.READS | Effect.SPINS)
ATOMIC_STORE = OpDef("atomic.store", D, 2, 0, "Sets the number.", ("memory", "scope"), _ATOMIC)
ATOMIC_CAS = OpDef(
    "atomic.cas", D, 3, 1, "The old number; the third if it has the bits of the second.", ("memory", "scope"), _ATOMIC
)
ATOMIC_UPDATE = OpDef(
    "atomic.update",
    D,
    2,
    1,
    "The old number; the new one is `operation` (add, and, or, xor, max, min, exch) of it and the second operand.",
    ("operation", "memory", "scope"),
    _ATOMIC,
)
FENCE = OpDef("fence", D, 0, 0, "Orders the accesses around it.", ("memory", "scope"), Effect.READS | Effect.WRITES)
PAUSE = OpDef(
    "pause", D, 1, 0, "Leaves the processor to others for about so many nanoseconds, a uint32.", (), Effect.SPINS
)
TIMER = OpDef(
    "timer", D, 0, 1, "`clock64`, an int64, or `globaltimer`, a uint64.", ("name",), Effect.READS | Effect.WRITES
)

# How blocks end.
JUMP = OpDef("jump", _ALL, 0, 0, "To a block.", (), Effect.TERMINATES, 1)
BRANCH = OpDef(
    "branch", _ALL, 1, 0, "To the first block where the operand is true, else the second.", (), Effect.TERMINATES, 2
)
RETURN = OpDef("return", _ALL, MANY, 0, "To the caller, with at most one value.", (), Effect.TERMINATES)
EXIT = OpDef("exit", D, 0, 0, "Ends the thread.", (), Effect.TERMINATES | Effect.EXITS)
UNREACHABLE = OpDef("unreachable", _ALL, 0, 0, "Control never comes here.", (), Effect.TERMINATES)

ALL: tuple[OpDef, ...] = tuple(row for row in list(globals().values()) if isinstance(row, OpDef))
BY_NAME = {row.name: row for row in ALL}


def at(level: Level) -> frozenset[OpDef]:
    """The rows that are legal at `level`."""
    return frozenset(row for row in ALL if level in row.levels)


# Memory orders and thread scopes of atomic operations, as C++ and CUDA C++ define them.
#
# Order("acquire") in OF_LOADS     Scope("block") is Scope.BLOCK


class Order(StrEnum):
    """A memory order of standard C++."""

    RELAXED = "relaxed"
    CONSUME = "consume"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"


class Scope(StrEnum):
    """Whose threads an operation synchronises with, from all to none."""

    SYSTEM = "system"
    DEVICE = "device"
    BLOCK = "block"
    THREAD = "thread"


# What C++ allows: a load releases nothing, a store acquires nothing.
OF_LOADS = (Order.RELAXED, Order.CONSUME, Order.ACQUIRE, Order.SEQ_CST)
OF_STORES = (Order.RELAXED, Order.RELEASE, Order.SEQ_CST)
OF_UPDATES = tuple(Order)

OPPOSITES = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
"""What holds where a comparison does not."""
SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
"""The same comparison with its operands in the other order."""
