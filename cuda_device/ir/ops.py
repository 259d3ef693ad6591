"""The table of IR operations, one row for each.

A row lists the levels at which the operation is legal, the numbers of its operands and results, its attributes, and its side
effects. The printer, the parser and the verifier read the rows. `infer/engine` and `lower` have a rule for each row of their
level, and `codegen/emit/to_llvm` or each dialect has an emitter for each row of the device level (tests compare the sets). To add
an operation, write a row here, a rule in the pass that creates it, and an emitter.

The levels follow each other:

    PYTHON   the operations of the bytecode, untyped         %2 = py.binary {op="+"} %0 %1
    TYPED    the same with types, calls resolved             %2: float32 = py.binary {op="+"} %0 %1
    DEVICE   machine operations on numbers and addresses     %2: float32 = add %0 %1
"""

from __future__ import annotations

import enum
from enum import StrEnum

from cuda_device.lazy_dataclasses import dataclass


class Level(enum.Flag):
    """A level of the IR; an operation may be legal at several."""

    PYTHON = enum.auto()
    TYPED = enum.auto()
    DEVICE = enum.auto()


class Effect(enum.Flag):
    """The side effects of an operation or a function.

    CONVERGENT operations must be reached by the same threads as in the source: nothing may move, duplicate or guard them.
    SUSPENDS: a thread waits for others. On the CPU, threads take turns there (`cpu/regions`).
    EXITS: the thread may end.
    SPINS: a loop may repeat the operation, an atomic, until another thread does something.
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


MANY = -1  # any number of operands or results


@dataclass(frozen=True, eq=False, slots=True)
class OpDef:
    """A row of the table."""

    name: str
    levels: Level
    """The levels of the IR that have it."""
    operands: int
    """Their number, or `MANY`."""
    results: int
    """Their number, or `MANY`."""
    doc: str
    attributes: tuple[str, ...] = ()
    """The names of the attributes that each operation has."""
    effects: Effect = Effect.PURE
    successors: int = 0
    """The number of edges to other blocks."""
    optional: tuple[str, ...] = ()
    """The names of attributes that an operation may have."""

    def __repr__(self) -> str:
        return self.name


P, T, D = Level.PYTHON, Level.TYPED, Level.DEVICE
_PT, _TD, _ALL = P | T, T | D, P | T | D

# The operations of Python.
PY_CONST = OpDef("py.const", P, 0, 1, "A constant of the code object.", ("value",))
PY_GLOBAL = OpDef("py.global", P, 0, 1, "A global or builtin name.", ("name",))
PY_CELL = OpDef("py.cell", P, 0, 1, "The content of a closure's cell.", ("name",))
PY_SET_CELL = OpDef("py.set_cell", P, 1, 0, "An assignment to a variable of an enclosing function.", ("name",))
PY_BOX = OpDef("py.box", P, 1, 1, "The box of a variable that nested functions assign to, with its value.", ("name",))
PY_UNBOX = OpDef("py.unbox", P, 1, 1, "The value in a box.")
PY_SET_BOX = OpDef("py.set_box", P, 2, 0, "An assignment to a box.")
PY_UNDEFINED = OpDef("py.undefined", P, 0, 1, "A local variable before its first assignment.", ("name",))
PY_UNARY = OpDef("py.unary", _PT, 1, 1, "`-x`, `+x`, `~x` or `not x`.", ("op",))
_BINARY_DOC = "`x + y` and the other binary operators; `inplace` marks `x += y`, `exact` a sum that does not overflow."
PY_BINARY = OpDef("py.binary", _PT, 2, 1, _BINARY_DOC, ("op",), optional=("inplace", "exact"))
PY_COMPARE = OpDef("py.compare", _PT, 2, 1, "`x < y` and the other comparisons.", ("op",))
PY_IS = OpDef("py.is", P, 2, 1, "`x is y`, or `x is not y` if inverted.", ("inverted",))
PY_TRUTH = OpDef("py.truth", _PT, 1, 1, "`bool(x)`, as `if` and `while` evaluate it.")
_GETATTR_DOC = "`x.name`; `part` marks an x that is no variable, but was read from an array or another value."
PY_GETATTR = OpDef("py.getattr", P, 1, 1, _GETATTR_DOC, ("name",), optional=("part",))
PY_GETITEM = OpDef("py.getitem", _PT, MANY, 1, "`x[i, …]`; `part` as above.", (), Effect.READS, 0, ("part",))
_SETATTR_DOC = "`x.name = v`: operands x, v; `target` and `back` as for `py.setitem`."
PY_SETATTR = OpDef("py.setattr", P, 2, 0, _SETATTR_DOC, ("name",), Effect.WRITES, optional=("target", "back"))
PY_COPY = OpDef(
    "py.copy", P, 1, 1, "A copy of a value for a second variable, so that changes of one do not affect the other."
)
# The assignment changes the variable x. If x is no variable, `target` says whether it is a `part` of one or another `value`.
# `back` marks the assignment of `x[i]` to x after a change of a part of `x[i]`, which does nothing if that part is in memory.
_SETITEM_DOC = "`x[i] = v`: x, the indices, v. `target` describes x, `back` assigns a changed item back."
PY_SETITEM = OpDef("py.setitem", _PT, MANY, 0, _SETITEM_DOC, (), Effect.WRITES, optional=("target", "back"))
PY_TUPLE = OpDef("py.tuple", P, MANY, 1, "`(x, y, …)`.")
PY_LIST = OpDef("py.list", P, MANY, 1, "`[x, y, …]`.")
PY_APPEND = OpDef("py.append", P, 2, 1, "A list with one more item, in a comprehension.")
PY_EXTEND = OpDef("py.extend", P, 2, 1, "A list with all items of an iterable: `[*x, *y]`.")
PY_TUPLE_OF = OpDef("py.tuple_of", P, 1, 1, "The tuple of a list.")
PY_DICT = OpDef("py.dict", P, MANY, 1, "A dict with constant `keys`; the operands are the values.", ("keys",))
PY_MAP_ADD = OpDef("py.map_add", P, 3, 1, "A dict with one more key and its value, in a comprehension.")
PY_MERGE = OpDef("py.merge", P, 2, 1, "`{**a, **b}`; if `unique`, no key may be in both.", ("unique",))
PY_SLICE = OpDef("py.slice", P, MANY, 1, "`start:stop` or `start:stop:step`, as an index.")
PY_STRING = OpDef("py.string", P, MANY, 1, "An f-string; the operands are its parts.")
PY_FORMAT = OpDef("py.format", P, MANY, 1, "One part of an f-string, perhaps with a format.", ("conversion",))
PY_CONTAINS = OpDef("py.contains", P, 2, 1, "`x in y`, or `x not in y` if inverted.", ("inverted",))
PY_IS_SEQUENCE = OpDef("py.is_sequence", P, 1, 1, "Whether a sequence pattern of `match` can match a value.")
PY_UNPACK = OpDef("py.unpack", P, 1, MANY, "`a, b, … = x`.")
_UNPACK_STAR_DOC = "`a, *b, c = x`, with the numbers of names before and after the star."
PY_UNPACK_STAR = OpDef("py.unpack_star", P, 1, MANY, _UNPACK_STAR_DOC, ("before", "after"))
_CALL_DOC = "`f(x, …, k=y, …)`: f, arguments; `names` are the keywords of the last arguments."
PY_CALL = OpDef("py.call", P, MANY, 1, _CALL_DOC, optional=("names",))
PY_CALL_STAR = OpDef("py.call_star", P, MANY, 1, "`f(*x)` or `f(*x, **y)`.")
# `cells` names the captured variables. The operands are a tuple of defaults, if `defaults`, and the defaults of `keywords`.
_FUNCTION = ("function", "cells", "defaults", "keywords")
PY_FUNCTION = OpDef("py.function", P, MANY, 1, "A nested function.", _FUNCTION)
PY_CELLS = OpDef("py.cells", P, MANY, 0, "The values of captured variables, for the call that follows.", ("names",))
_ITER_DOC = "`iter(x)`, perhaps for a loop that is unrolled (`unroll`)."
PY_ITER = OpDef("py.iter", _PT, 1, 1, _ITER_DOC, optional=("unroll",))
_AT_DOC = "Whether a generator is at `position`: its position, and a flag that says whether it may be there."
PY_AT = OpDef("py.at", P, 2, 1, _AT_DOC, ("position",))
_STEP_DOC = "The result of a generator's step: whether there is a value, the value, the position, the kept values."
PY_STEP = OpDef("py.step", P, MANY, 1, _STEP_DOC)
# `step` is the step of the range if it is known; otherwise `up` says whether it is certainly positive. If `roomy`, a step from
# the last item does not overflow.
_NEXT_DOC = "One step of a `for` loop: iterator → whether there is an item, the item, the next iterator."
PY_NEXT = OpDef("py.next", _PT, 1, 3, _NEXT_DOC, optional=("step", "up", "roomy"))
_RAISE_DOC = (
    "An exception or a failed assertion, which ends the thread; `{0}` and `{1}` in the message are the operands."
)
PY_RAISE = OpDef("py.raise", _PT, MANY, 0, _RAISE_DOC, ("kind",), optional=("message", "help"))
_CHECK_DOC = "Unless the first operand is true, ends the thread with a report of the other two: checked mode."
PY_CHECK = OpDef("py.check", T, MANY, 0, _CHECK_DOC, ("message",), optional=("help",))
PY_DEFINED = OpDef("py.defined", P, 1, 0, "Checks that a variable has a value, which the operand says.", ("name",))
PY_UNSUPPORTED = OpDef("py.unsupported", P, 0, 0, "An unsupported construct: an error if it is reached.", ("what",))

# The additional operations of the typed level.
INTRINSIC = OpDef("intrinsic", T, MANY, 1, "A row of the device tables.", ("name",), optional=("settings",))
CALL = OpDef("call", _TD, MANY, 1, "A call of another function of the module.", ("callee",))
_FOREIGN = Effect.READS | Effect.WRITES | Effect.CONVERGENT
_EXTERN_DOC = "A call of a C++ function, with operands as in `lower`; the first takes the result if `into`."
EXTERN = OpDef("extern", _TD, MANY, MANY, _EXTERN_DOC, ("symbol",), _FOREIGN, optional=("into",))
CONST = OpDef("const", _TD, 0, 1, "A number, or None.", ("value",))
_CONVERT_DOC = "A conversion between numbers; if `exact`, the value fits a narrower integer."
CONVERT = OpDef("convert", _TD, 1, 1, _CONVERT_DOC, optional=("exact",))
MAKE = OpDef("make", _TD, MANY, 1, "A tuple, vector or struct of its operands.")
_EXTEND_DOC = "A list with more items behind those of the first operand."
EXTEND = OpDef("extend", T, MANY, 1, _EXTEND_DOC)
FIELD = OpDef("field", _TD, 1, 1, "One element of a tuple, vector or struct.", ("index",))
EXTENT = OpDef("extent", T, 1, 1, "The length of one axis of an array, an index.", ("axis",))
# The operands are the array, or a reference, an offset in bytes, the shape, and the strides in bytes.
_WINDOW_DOC = (
    "An array within the memory of another one; `used` says that something accesses it, and `aligned` its alignment."
)
WINDOW = OpDef("window", T, MANY, 1, _WINDOW_DOC, optional=("used", "aligned"))
_REFER_DOC = "The reference to an element: the array, the indices. It may be `behind` the array if nothing accesses it."
REFER = OpDef("refer", T, MANY, 1, _REFER_DOC, optional=("behind",))
MEMBER = OpDef("member", T, 1, 1, "The reference `offset` bytes behind a reference.", ("offset",))
STRIDE = OpDef("stride", T, 1, 1, "The stride of one axis of an array, in bytes, an index.", ("axis",))

# The operations of machines. The operands and the result of an arithmetic operation have the same type.
ADD = OpDef(
    "add",
    D,
    2,
    1,
    "Sum; if `exact`, integers never overflow (else they wrap), and floats do not fuse.",
    optional=("exact",),
)
SUB = OpDef("sub", D, 2, 1, "Difference, as `add`.", optional=("exact",))
MUL = OpDef("mul", D, 2, 1, "Product, as `add`.", optional=("exact",))
DIV = OpDef("div", D, 2, 1, "Quotient of floats, correctly rounded.")
QUOTIENT = OpDef("quotient", D, 2, 1, "Quotient of integers, truncated; by zero, unspecified without a fault.")
REMAINDER = OpDef("remainder", D, 2, 1, "Remainder of `quotient` (of floats: fmod); by zero, as `quotient`.")
AND = OpDef("and", D, 2, 1, "Bitwise and of integers or bools.")
OR = OpDef("or", D, 2, 1, "Bitwise or of integers or bools. `early`: see `cpu/early_checks`.", optional=("early",))
XOR = OpDef("xor", D, 2, 1, "Bitwise exclusive or of integers or bools.")
SHL = OpDef("shl", D, 2, 1, "Left shift; the count is below the width.")
SHR = OpDef("shr", D, 2, 1, "Right shift, arithmetic if signed; the count is below the width.")
BITS = OpDef("bits", D, 1, 1, "The bits of a number or vector as another one of the same size.")
_BITWISE_DOC = "A `function` of an integer's bits: `ctpop`, `ctlz`, `cttz` or `bitreverse`, as in LLVM."
BITWISE = OpDef("bitwise", D, 1, 1, _BITWISE_DOC, ("function",))
NEG = OpDef("neg", D, 1, 1, "Negation of a float.")
COMPARE = OpDef("compare", D, 2, 1, "A bool from two numbers of one type: `op` is == != < <= > >=.", ("op",))
_SELECT_DOC = "The second operand if the first is true, otherwise the third; `extreme` marks a minimum or maximum."
SELECT = OpDef("select", D, 3, 1, _SELECT_DOC, optional=("extreme",))
MATH = OpDef("math", D, MANY, 1, "A row of `device/numeric`, in the precision of its operands.", ("function",))
_MACHINE_DOC = (
    "One `instruction` of a GPU: an intrinsic of LLVM, or PTX with `$0`, … for the results and then the operands. The "
    "last `tied` operands are in the registers of the first results."
)
MACHINE = OpDef("machine", D, MANY, MANY, _MACHINE_DOC, ("instruction",), optional=("tied",))
_PTX_DOC = "Inline PTX of the program, as for `machine`, with any effect; references among the operands are addresses."
PTX = OpDef("ptx", D, MANY, MANY, _PTX_DOC, ("instruction",), _FOREIGN, optional=("tied",))
_ELEMENT_DOC = "The reference `index` elements behind a reference, perhaps `outside` the array."
ELEMENT = OpDef("element", _TD, 2, 1, _ELEMENT_DOC, optional=("outside",))
_BYTES_DOC = (
    "The reference a number of bytes behind a reference, perhaps to another type; see `ir/alignment` for `aligned`."
)
BYTES = OpDef("bytes", D, 2, 1, _BYTES_DOC, optional=("aligned",))
ADDRESS = OpDef("address", D, 1, 1, "The address of a reference in its space, uint64.")
_LOAD_DOC = "The value of a reference, which is aligned to `align` (by default as its type)."
LOAD = OpDef("load", _TD, 1, 1, _LOAD_DOC, (), Effect.READS, optional=("align",))
_STORE_DOC = "Writes the second operand to the first; `align` as for `load`."
STORE = OpDef("store", _TD, 2, 0, _STORE_DOC, (), Effect.WRITES, optional=("align",))
_SHARED_DOC = "`count` elements of static shared memory, the same for all operations with this `number`."
SHARED = OpDef("shared", D, 0, 1, _SHARED_DOC, ("count", "align"), optional=("number",))
ROOM = OpDef("room", D, 0, 1, "Whether the stack has room for another call: a bool, true on a GPU.", (), Effect.READS)
_DYNAMIC_SHARED_DOC = (
    "The first byte of the dynamic shared memory of the launch, which is aligned to `align`, at least 128."
)
DYNAMIC_SHARED = OpDef("dynamic_shared", D, 0, 1, _DYNAMIC_SHARED_DOC, optional=("align",))
_GRID_WORD_DOC = (
    "The uint32 for the barriers of a cooperative launch, or of a `cluster`; all bits but the highest are 0. On the CPU also "
    "those of a `block`, which are 0."
)
GRID_WORD = OpDef("grid_word", D, 0, 1, _GRID_WORD_DOC, optional=("cluster", "block"))
_IN_CLUSTER_DOC = "A reference to shared memory and a rank: the same place in the block of the cluster with this rank."
IN_CLUSTER = OpDef("in_cluster", D, 2, 1, _IN_CLUSTER_DOC)
CONSTANT = OpDef("constant", D, 0, 1, "Constant memory; `data` is hexadecimal.", ("data", "align"))
_VARIABLE_DOC = "For debuggers: the variable `name` has this value from here on."
VARIABLE = OpDef("variable", P | T | D, 1, 0, _VARIABLE_DOC, ("name",), Effect.LOCAL)
_LOCAL_DOC = "`count` elements of the thread's own memory, the same whenever a call of the function comes here."
LOCAL = OpDef("local", D, 0, 1, _LOCAL_DOC, ("count", "align"), Effect.LOCAL)
GENERIC = OpDef("generic", D, 1, 1, "The same place as a reference into generic memory.")
REGISTER = OpDef("register", D, 0, 1, "A special register: `thread_idx.x`, …; `hidden_zero` is 0.", ("name",))


def _convergent(name: str, operands: int, results: int, doc: str, effects: Effect = Effect.PURE) -> OpDef:
    """A row at which threads wait for each other; `place` numbers it. With operands and results, it has a `kind`."""
    effects |= Effect.CONVERGENT | Effect.SUSPENDS
    return OpDef(name, D, operands, results, doc, ("kind",) * bool(operands and results), effects, optional=("place",))


BARRIER = _convergent("barrier", 0, 0, "Waits for every thread of the block.", Effect.WRITES)
_REDUCE_DOC = (
    "As `barrier`, of a bool from each thread: `kind` is `count` (of the true ones: int32), `and` or `or` (bool)."
)
BARRIER_REDUCE = _convergent("barrier.reduce", 1, 1, _REDUCE_DOC, Effect.WRITES)
# The first operand of the following is the mask of the lanes that take part, except for `warp.active`.
WARP_SYNC = _convergent("warp.sync", 1, 0, "Waits for the lanes of a mask.", Effect.WRITES)
_VOTE_DOC = (
    "Of a bool from each lane: `kind` is `all`, `any`, `eq` (bool) or `ballot` (the mask of the true ones: int32)."
)
WARP_VOTE = _convergent("warp.vote", 2, 1, _VOTE_DOC)
_SHUFFLE_DOC = "A uint32 or uint64 from the lane that `kind` (`idx`, `up`, `down`, `xor`) and an int32 determine."
WARP_SHUFFLE = _convergent("warp.shuffle", 3, 1, _SHUFFLE_DOC)
_MATCH_DOC = "The lanes with the same uint32 or uint64 (`kind` is `any`), or all of them or none (`all`): int32."
WARP_MATCH = _convergent("warp.match", 2, 1, _MATCH_DOC)
_WARP_REDUCE_DOC = (
    "The `kind` (`add`, `min`, `umin`, `max`, `umax`, `and`, `or`, `xor`) of an int32 or uint32 of the lanes."
)
WARP_REDUCE = _convergent("warp.reduce", 2, 1, _WARP_REDUCE_DOC)
WARP_ACTIVE = _convergent("warp.active", 0, 1, "The lanes that arrive together: int32.")
_YIELD_DOC = (
    "Lets other threads run, always if `now`, otherwise occasionally, in loops that may wait. Nothing on a GPU."
)
YIELD = OpDef("yield", D, 0, 0, _YIELD_DOC, effects=Effect.SUSPENDS, optional=("now", "place"))
_AWAIT_DOC = (
    "Lets other threads run until the number at a reference differs from an unsigned integer, or earlier. Nothing on a GPU. "
    "`state` is a format for the number (`ReportPlace`)."
)
AWAIT = OpDef("await", D, 2, 0, _AWAIT_DOC, ("state",), Effect.SUSPENDS, optional=("place",))

# `place` numbers the following operations in the text.
_REPORT_DOC = (
    "Reports an error of this thread to the host, perhaps with two int64; the first report of a launch counts."
)
REPORT = OpDef("report", D, MANY, 0, _REPORT_DOC, ("status", "message"), Effect.WRITES, optional=("place", "help"))
# The first operand is a reference, a mask of lanes or a number of groups; a second one says whether an access wrote, or how many
# bytes a copy reads. The attributes after `place` are those of asynchronous copies (`device/copies`).
_TRACED = ("memory", "scope", "place", "kind", "proxy", "quiet", "read", "open")
TRACE = OpDef(
    "trace", D, MANY, 0, "Records an `event` for the race detector.", ("event",), Effect.WRITES, optional=_TRACED
)
# The operands are 64-bit integers and float64, and bools and integers that select one of a tuple of texts in `choices`.
_PRINT_DOC = "Prints the operands with `format`, as C's printf does."
PRINT = OpDef("print", _TD, MANY, 0, _PRINT_DOC, ("format", "choices"), Effect.WRITES, optional=("place",))

# Atomic operations on a reference to an atomic, with an order (`memory`) and a scope from below.
_ATOMIC = Effect.READS | Effect.WRITES | Effect.SPINS
_ORDERED = ("memory", "scope")
ATOMIC_LOAD = OpDef("atomic.load", D, 1, 1, "The number.", _ORDERED, Effect.READS | Effect.SPINS)
ATOMIC_STORE = OpDef("atomic.store", D, 2, 0, "Sets the number.", _ORDERED, _ATOMIC)
_CAS_DOC = "Stores the third operand if the number has the bits of the second; the old number."
ATOMIC_CAS = OpDef("atomic.cas", D, 3, 1, _CAS_DOC, _ORDERED, _ATOMIC)
_UPDATE_DOC = "Applies `operation` (add, and, or, xor, max, min, exch) with the second operand; the old number."
ATOMIC_UPDATE = OpDef("atomic.update", D, 2, 1, _UPDATE_DOC, ("operation", *_ORDERED), _ATOMIC)
ATOMICS = (ATOMIC_LOAD, ATOMIC_STORE, ATOMIC_CAS, ATOMIC_UPDATE)
FENCE = OpDef("fence", D, 0, 0, "Orders the accesses around it.", _ORDERED, Effect.READS | Effect.WRITES)
PAUSE = OpDef("pause", D, 1, 0, "Pauses for about a number of nanoseconds, a uint32.", (), Effect.SPINS)
_TIMER_DOC = "`clock64`, an int64, or `globaltimer`, a uint64."
TIMER = OpDef("timer", D, 0, 1, _TIMER_DOC, ("name",), Effect.READS | Effect.WRITES)

# Terminators.
JUMP = OpDef("jump", _ALL, 0, 0, "To a block.", (), Effect.TERMINATES, 1)
_BRANCH_DOC = "To the first block if the operand is true, otherwise to the second."
BRANCH = OpDef("branch", _ALL, 1, 0, _BRANCH_DOC, (), Effect.TERMINATES, 2)
RETURN = OpDef("return", _ALL, MANY, 0, "To the caller, with at most one value.", (), Effect.TERMINATES)
EXIT = OpDef("exit", D, 0, 0, "Ends the thread.", (), Effect.TERMINATES | Effect.EXITS)
UNREACHABLE = OpDef("unreachable", _ALL, 0, 0, "Never reached.", (), Effect.TERMINATES)

ALL: tuple[OpDef, ...] = tuple(row for row in list(globals().values()) if isinstance(row, OpDef))
BY_NAME = {row.name: row for row in ALL}


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
    """The threads with which an operation synchronises, from all to none."""

    SYSTEM = "system"
    DEVICE = "device"
    BLOCK = "block"
    THREAD = "thread"


# The orders that C++ allows: a load releases nothing, a store acquires nothing.
OF_LOADS = (Order.RELAXED, Order.CONSUME, Order.ACQUIRE, Order.SEQ_CST)
OF_STORES = (Order.RELAXED, Order.RELEASE, Order.SEQ_CST)
OF_UPDATES = tuple(Order)

OPPOSITES = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
"""The comparison that holds if another does not."""
SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
"""The same comparison with its operands exchanged."""
