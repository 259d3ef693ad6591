"""The operations of the IR: one table, one row an operation.

A row says at which levels the operation is legal, how many operands and results it has, which attributes, and what it
may do beside computing its results. Printer, parser and verifier read the rows; `passes/infer` and `passes/lower` have
a rule for each row of their level and `codegen/to_llvm` an emitter for each row of the device level (tests compare the
sets). To add an operation: one row here, one rule in the pass that makes it, one emitter.

The levels follow each other:

    PYTHON   what the bytecode says, untyped                 %2 = py.binary {op="+"} %0 %1
    TYPED    the same with types, calls resolved             %2: float32 = py.binary {op="+"} %0 %1
    DEVICE   machine operations on numbers and addresses     %2: float32 = add %0 %1
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.Flag):
    """A stage of the IR; a row may be legal at several."""

    PYTHON = enum.auto()
    TYPED = enum.auto()
    DEVICE = enum.auto()


class Effect(enum.Flag):
    """What an operation or a function does beside computing its results.

    CONVERGENT operations must be reached by the same threads as in the source: nothing may move, duplicate or guard them.
    SUSPENDS marks those at which a thread waits for others: the CPU stream makes coroutines of functions that have one.
    """

    PURE = 0
    READS = enum.auto()
    WRITES = enum.auto()
    CONVERGENT = enum.auto()
    SUSPENDS = enum.auto()
    TERMINATES = enum.auto()


MANY = -1  # as many operands or results as the operation at hand has


@dataclass(frozen=True, eq=False, slots=True)
class Opcode:
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


P, T, D = Level.PYTHON, Level.TYPED, Level.DEVICE
_PT, _TD, _ALL = P | T, T | D, P | T | D

# What Python says.
PY_CONST = Opcode("py.const", P, 0, 1, "A constant of the code object.", ("value",))
PY_GLOBAL = Opcode("py.global", P, 0, 1, "A global or builtin name.", ("name",))
PY_CELL = Opcode("py.cell", P, 0, 1, "The content of a closure's cell.", ("name",))
PY_UNDEFINED = Opcode("py.undefined", P, 0, 1, "A local variable before its first assignment.", ("name",))
PY_UNARY = Opcode("py.unary", _PT, 1, 1, "`-x`, `+x`, `~x` or `not x`.", ("op",))
PY_BINARY = Opcode("py.binary", _PT, 2, 1, "`x + y` and the other binary operators.", ("op",))
PY_COMPARE = Opcode("py.compare", _PT, 2, 1, "`x < y` and the other comparisons.", ("op",))
PY_IS = Opcode("py.is", P, 2, 1, "`x is y`, or `x is not y` if inverted.", ("inverted",))
PY_TRUTH = Opcode("py.truth", _PT, 1, 1, "`bool(x)` as `if` and `while` ask for it.")
PY_GETATTR = Opcode("py.getattr", P, 1, 1, "`x.name`.", ("name",))
PY_GETITEM = Opcode("py.getitem", _PT, MANY, 1, "`x[i]`; typed, `x[i, j]` has three operands.", (), Effect.READS)
PY_SETITEM = Opcode("py.setitem", _PT, MANY, 0, "`x[i] = v`: x, the indices, v.", (), Effect.WRITES)
PY_TUPLE = Opcode("py.tuple", P, MANY, 1, "`(x, y, …)`.")
PY_UNPACK = Opcode("py.unpack", P, 1, MANY, "`a, b, … = x`.")
PY_CALL = Opcode(
    "py.call", P, MANY, 1, "`f(x, …, k=y, …)`: f, arguments; `names` are the last ones' keywords.", optional=("names",)
)
PY_ITER = Opcode("py.iter", _PT, 1, 1, "`iter(x)`.")
PY_NEXT = Opcode(
    "py.next",
    _PT,
    1,
    3,
    "One step of a `for`: iterator → is there an item, the item, the iterator after it. `step` is the range's if it is known, "
    "else `up` says whether it is positive for certain.",
    optional=("step", "up"),
)
PY_UNSUPPORTED = Opcode("py.unsupported", P, 0, 0, "What device code cannot do: an error if it is reached.", ("what",))

# What the typed level adds.
INTRINSIC = Opcode(
    "intrinsic",
    T,
    MANY,
    1,
    "A row of the device tables; further attributes are the row's own.",
    ("name",),
    optional=("settings",),
)
CALL = Opcode("call", _TD, MANY, 1, "A call of another function of the module.", ("callee",))
CONST = Opcode("const", _TD, 0, 1, "A number, or None.", ("value",))
CONVERT = Opcode("convert", _TD, 1, 1, "A number as another number, as the target type's constructor converts.")
MAKE = Opcode("make", _TD, MANY, 1, "A tuple of its operands.")
FIELD = Opcode("field", _TD, 1, 1, "One element of a tuple.", ("index",))
EXTENT = Opcode("extent", T, 1, 1, "The length of one axis of an array, an index.", ("axis",))
STRIDE = Opcode("stride", T, 1, 1, "The step of one axis of an array, in bytes, an index.", ("axis",))

# What machines do. Operands of an arithmetic row have one type, its result has the same.
ADD = Opcode("add", D, 2, 1, "Sum; integers wrap, unless `exact` says that they never do.", optional=("exact",))
SUB = Opcode("sub", D, 2, 1, "Difference, as `add`.", optional=("exact",))
MUL = Opcode("mul", D, 2, 1, "Product, as `add`.", optional=("exact",))
DIV = Opcode("div", D, 2, 1, "Quotient of floats, correctly rounded.")
QUOTIENT = Opcode("quotient", D, 2, 1, "Quotient of integers, truncated; unspecified, but no fault, by zero.")
REMAINDER = Opcode("remainder", D, 2, 1, "What `quotient` leaves (of floats: fmod); as harmless by zero.")
AND = Opcode("and", D, 2, 1, "Bitwise and of integers or bools.")
OR = Opcode("or", D, 2, 1, "Bitwise or of integers or bools.")
XOR = Opcode("xor", D, 2, 1, "Bitwise exclusive or of integers or bools.")
SHL = Opcode("shl", D, 2, 1, "Left shift; the count is below the width.")
SHR = Opcode("shr", D, 2, 1, "Right shift, arithmetic if signed; the count is below the width.")
NEG = Opcode("neg", D, 1, 1, "Negation of a float.")
COMPARE = Opcode("compare", D, 2, 1, "A bool from two numbers of one type: `op` is == != < <= > >=.", ("op",))
SELECT = Opcode("select", D, 3, 1, "The second operand where the first is true, else the third.")
MATH = Opcode("math", D, MANY, 1, "A row of `device/math`, in the precision of its operands.", ("function",))
ELEMENT = Opcode("element", D, 2, 1, "The reference `index` elements after a reference.")
BYTES = Opcode("bytes", D, 2, 1, "The reference so many bytes after a reference.")
LOAD = Opcode("load", D, 1, 1, "What a reference points to.", (), Effect.READS)
STORE = Opcode("store", D, 2, 0, "Writes the second operand to the first, a reference.", (), Effect.WRITES)
SHARED = Opcode(
    "shared",
    D,
    0,
    1,
    "`count` elements of static shared memory, for all operations of this `number` and all threads.",
    ("count", "align"),
    optional=("number",),
)
REGISTER = Opcode("register", D, 0, 1, "A special register: `thread_idx.x`, `block_dim.y`, …", ("name",))
BARRIER = Opcode(
    "barrier",
    D,
    0,
    0,
    "Waits for every thread of the block; `place` numbers the barrier in the text.",
    effects=Effect.CONVERGENT | Effect.SUSPENDS | Effect.WRITES,
    optional=("place",),
)

# How blocks end.
JUMP = Opcode("jump", _ALL, 0, 0, "To a block.", (), Effect.TERMINATES, 1)
BRANCH = Opcode(
    "branch", _ALL, 1, 0, "To the first block where the operand is true, else the second.", (), Effect.TERMINATES, 2
)
RETURN = Opcode("return", _ALL, MANY, 0, "To the caller, with at most one value.", (), Effect.TERMINATES)
UNREACHABLE = Opcode("unreachable", _ALL, 0, 0, "Control never comes here.", (), Effect.TERMINATES)

ALL: tuple[Opcode, ...] = tuple(row for row in list(globals().values()) if isinstance(row, Opcode))
BY_NAME = {row.name: row for row in ALL}


def at(level: Level) -> frozenset[Opcode]:
    """The rows that are legal at `level`."""
    return frozenset(row for row in ALL if level in row.levels)
