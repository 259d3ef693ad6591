"""Expressions of numbers: operators, functions, choices, comparisons. Each makes one of a type, or None.

binary(maker, "+", a, b)        a + b, kept clear of what the rules leave open where that is easy
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import reference
from reference import INTEGERS, REALS, convert, is_complex, is_float, promote, result_type, unary_type

from fuzz.calls import CALLS
from fuzz.control import joined
from fuzz.maker import COMMON, COMMON_REALS, Maker
from fuzz.programs import BLOCKS, THREADS, Expression, Type, cast

BINARY = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=")
UNARY = ("-", "+", "~", "not")
NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "&": "and_", "|": "or_", "^": "xor",
    "<<": "lshift", ">>": "rshift", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
"""The operators' names in `operator`."""
UFUNCS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder",
    "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "left_shift", ">>": "right_shift", "==": "equal",
    "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip
"""And in NumPy."""
UNARY_NAMES = {"-": ("operator.neg", "np.negative"), "+": ("operator.pos", "np.positive"), "~": ("operator.invert", "np.invert"),
               "not": ("operator.not_", "np.logical_not")}  # fmt: skip


def settled(op: str, a: Type, b: Type) -> bool:
    """Whether the rules settle the result of an operator to the last bit."""
    type = result_type(op, a, b)
    if type is None or (op == "**" and (is_float(type) or is_complex(type))):
        return False
    return not (op == "/" and is_complex(b))


def binary(make: Maker, op: str, a: Expression, b: Expression) -> Expression | None:
    """`a op b`."""
    x, y = a.type, b.type
    if not settled(op, x, y) or (a.literal and b.literal):
        return None
    type, row = result_type(op, x, y), (op, x, y)
    # A variable that is a float by the end of a loop may be an integer in its first round.
    if op in ("//", "%", "/") and y in INTEGERS and b.literal and not b.value({}):
        return None
    if op in ("//", "%", "/") and y in INTEGERS and not b.literal:
        b = make.masked("|", b, 1) if y != "bool" else Expression("bool", "({} or True)", (b,), lambda v: True)
    if op == "**" and not b.literal and y != "bool":
        b = make.masked("&", b, 3)
    if op in ("<<", ">>") and not b.literal and y != "bool":
        b = make.masked("&", b, make.pick([7, 7, 127]))
    if op == "<<" and x in reference.BUILTIN and not a.literal and x != "bool":
        a = make.masked("&", a, 1023)
    if op in ("*", "**") and type in ("int", "index") and not a.literal and x in INTEGERS and x != "bool":
        a = make.masked("&", a, 127)
    make.rows.add(row)
    text = f"({{}} {op} {{}})"
    if op in NAMES and not a.literal and not b.literal and make.chance(0.08):
        text = f"{make.pick([f'operator.{NAMES[op]}', f'np.{UFUNCS[op]}'])}({{}}, {{}})"
    elif op == "**" and make.chance(0.3):
        text = "pow({}, {})"
    return Expression(type, text, (a, b), lambda v, w: reference.binary(op, x, v, y, w), row=row, kind=op)


def some_binary(make: Maker, type: Type, depth: int) -> Expression | None:
    """Two operands whose types give this one."""
    if type not in reference.EVERY:
        return None
    op = make.pick(BINARY[-6:] if type == "bool" else BINARY)
    a, b = make.pick(COMMON), make.pick(COMMON)
    if type != "bool" and make.chance(0.8):
        a, b = type, make.pick([type, type, b])
    if result_type(op, a, b) != type:
        return None
    left, right = make.expression(a, depth - 1), make.expression(b, depth - 1)
    if make.chance(0.2):
        right = make.literal(a)
    elif make.chance(0.1):
        left = make.literal(b)
    return binary(make, op, left, right)


def unary(make: Maker, op: str, a: Expression) -> Expression | None:
    """`op a`."""
    type, x = unary_type(op, a.type), a.type
    if type is None or (op == "not" and a.literal):
        return None
    make.rows.add((op, x))
    names = UNARY_NAMES[op][: 1 if (op, x) == ("~", "bool") else None]  # NumPy's is `not` for bools
    text = f"{make.pick(names)}({{}})" if make.chance(0.1) and not a.literal else f"({op} {{}})"
    return Expression(type, text, (a,), lambda v: reference.unary(op, x, v), kind=f"{op}x")


def some_unary(make: Maker, type: Type, depth: int) -> Expression | None:
    """An operand of this type, or for `not` of any."""
    if type not in reference.EVERY:
        return None
    return unary(make, make.pick(UNARY), make.expression(type if type != "bool" else make.pick(COMMON), depth - 1))


def converted(make: Maker, type: Type, depth: int) -> Expression | None:
    """A constructor's call."""
    return make.made_of(type, depth)


def call(make: Maker, name: str, operands: Sequence[Expression]) -> Expression | None:
    """A row of `CALLS`."""
    row, types = CALLS[name], [operand.type for operand in operands]
    if len(operands) != row.arity or not row.takes(*types) or row.result(*types) is None:
        return None
    make.rows.add((name, *types))
    return Expression(
        row.result(*types),
        make.pick(row.texts),
        tuple(operands),
        lambda *values: row.compute(*types, *values),
        kind=name,
    )


def some_call(make: Maker, type: Type, depth: int) -> Expression | None:
    """A function with a result of this type."""
    name = make.pick([*CALLS])
    row = CALLS[name]
    sources = [make.pick([type, type, *COMMON]) for _ in range(row.arity)]
    if not all(each in reference.EVERY for each in sources) or not row.takes(*sources) or row.result(*sources) != type:
        return None
    return call(make, name, [make.expression(each, depth - 1) for each in sources])


def extreme(make: Maker, name: str, operands: Sequence[Expression]) -> Expression | None:
    """`min(a, b, …)` or `max`."""
    type: Type = operands[0].type
    for operand in operands[1:]:
        type = type and promote(type, operand.type)
    if type is None or is_complex(type):
        return None
    if all(operand.type == "bool" for operand in operands):
        type = "bool"
    if len(operands) == 2:
        make.rows.add((name, operands[0].type, operands[1].type))
    better = (lambda v, w: w < v) if name == "min" else (lambda v, w: w > v)

    def compute(*values: Any) -> Any:
        best, *rest = (convert(type, value) for value in values)
        for other in rest:
            best = other if better(best, other) else best
        return best

    return Expression(type, f"{name}({', '.join('{}' for _ in operands)})", tuple(operands), compute, kind=name)


def some_extreme(make: Maker, type: Type, depth: int) -> Expression | None:
    """The least or greatest of some."""
    if type not in REALS:
        return None
    others = [make.pick([type, type, *COMMON_REALS]) for _ in range(make.random.randint(1, 2))]
    return extreme(make, make.pick(["min", "max"]), [make.expression(each, depth - 1) for each in (type, *others)])


def is_choice(x: Expression) -> bool:
    """Whether CPython may jump over what an expression gives to what follows from it: its ways then never meet."""
    while x.kind == "notx":
        x = x.operands[0]
    return x.kind in ("if else", "and", "or", "chained")


def choice(make: Maker, type: Type, depth: int) -> Expression | None:
    """`a if c else b`, `a and b`, `a or b`."""
    other = make.pick([type, type, *COMMON])
    if joined(type, other) != type or (isinstance(type, tuple) and make.inside):
        return None
    a, b = make.expression(type, depth - 1), make.expression(other, depth - 1)
    if is_choice(a) or is_choice(b):
        return None
    make.rows.add(("join", type, other))
    form = make.random.randrange(3) if type in reference.EVERY else 0
    if form == 0:
        return Expression(
            type,
            "({} if {} else {})",
            (a, condition(make, depth - 1), b),
            lambda x, c, y: cast(type, x() if c() else y()),
            lazy=True,
            kind="if else",
        )
    if form == 1:
        return Expression(type, "({} and {})", (a, b), lambda x, y: cast(type, x() and y()), lazy=True, kind="and")
    return Expression(type, "({} or {})", (a, b), lambda x, y: cast(type, x() or y()), lazy=True, kind="or")


def condition(make: Maker, depth: int, types: Sequence[Type] = ("bool", "bool", "bool", *COMMON)) -> Expression:
    """What `if` and its like ask for."""
    for _ in range(3):
        found = make.expression(make.pick(types), depth)
        if not is_choice(found):
            return found
    return Expression("bool", "bool({})", (found,), lambda v: bool(v), kind="conversion")


def chained(make: Maker, type: Type, depth: int) -> Expression | None:
    """`a < b <= c`."""
    if type != "bool":
        return None
    types = [make.pick(COMMON_REALS) for _ in range(3)]
    first, second = make.pick(BINARY[-6:]), make.pick(BINARY[-6:])
    if not (promote(types[0], types[1]) and promote(types[1], types[2])):
        return None

    def compute(x: Any, y: Any, z: Any) -> Any:
        middle = y()
        if not reference.compare(first, types[0], x(), types[1], middle):
            return False
        return reference.compare(second, types[1], middle, types[2], z())

    operands = tuple(make.expression(each, depth - 1) for each in types)
    return Expression("bool", f"({{}} {first} {{}} {second} {{}})", operands, compute, lazy=True, kind="chained")


def complex_of(make: Maker, type: Type, depth: int) -> Expression | None:
    """`complex(x, y)`, or a part times 1j."""
    if type != "complex":
        return None
    x, y = (make.expression(make.pick(["float", "float", "int"]), depth - 1) for _ in range(2))
    return Expression(
        "complex",
        "complex({}, {})",
        (x, y),
        lambda a, b: complex(convert("float", a), convert("float", b)),
        kind="complex",
    )


REGISTERS: dict[str, tuple[tuple[str, Any], ...]] = {
    "int32": (
        ("device.tid(1)", lambda i: i),
        ("device.tid(3)[0]", lambda i: i),
        ("device.tid(3)[1]", lambda i: 0),
        ("device.tid(2)[1]", lambda i: 0),
        ("device.grid_size(1)", lambda i: THREADS * BLOCKS[0]),
        ("device.grid_size(2)[1]", lambda i: BLOCKS[1]),
        ("device.grid_size(3)[2]", lambda i: BLOCKS[2]),
        ("device.lane_id", lambda i: i),
        ("device.warp_size", lambda i: 32),
        ("device.int32(device.lanemask_lt())", lambda i: (1 << i) - 1),
    ),
    "uint32": (
        *[(f"device.thread_idx.{axis}", (lambda i: i) if axis == "x" else (lambda i: 0)) for axis in "xyz"],
        *[(f"device.block_dim.{axis}", lambda i, n=n: n) for axis, n in zip("xyz", (THREADS, 1, 1), strict=True)],
        *[(f"device.block_idx.{axis}", lambda i: 0) for axis in "xyz"],
        *[(f"device.grid_dim.{axis}", lambda i, n=n: n) for axis, n in zip("xyz", BLOCKS, strict=True)],
        ("device.thread_idx[0]", lambda i: i),
        ("device.grid_dim[1]", lambda i: BLOCKS[1]),
    ),
}


def position(make: Maker, type: Type, depth: int) -> Expression | None:
    """Where the thread is."""
    if type not in REGISTERS or make.inside:
        return None
    return register(make, type, make.random.randrange(len(REGISTERS[type])))


def register(make: Maker, type: Type, number: int) -> Expression:
    """One of `REGISTERS`."""
    text, compute = REGISTERS[type][number]
    make.rows.add(("position", type, number))
    return Expression(type, text.replace("{", "{{"), (variable_i(),), compute)


def variable_i() -> Expression:
    """The thread's number."""
    return Expression("int32", "i", name="i")


def view(make: Maker, a: Type, b: Type, operand: Expression) -> Expression:
    """`x.view(T)`: the bits of a number as another one of the same size. Which NaN a NaN is, is left open."""
    make.rows.add(("view", a, b))

    def compute(x: Any) -> Any:
        if x != x:
            return reference.UNSPECIFIED
        (found,) = np.array([x], reference.storage(a)).view(reference.storage(b)).tolist()
        found = found if is_complex(b) else float(found) if is_float(b) else int(found)
        return reference.UNSPECIFIED if found != found else found

    return Expression(b, f"{{}}.view({'device.' + b})", (operand,), compute, kind="view")


def viewable(a: Type, b: Type) -> bool:
    """Whether numbers can be seen as one another: both of fixed format, neither bool, of one size."""
    both = (a, b)
    return all(t in reference.EVERY_FIXED and not is_complex(t) for t in both) and reference.bits(a) == reference.bits(
        b
    )


def some_view(make: Maker, type: Type, depth: int) -> Expression | None:
    """The bits of another number."""
    source = make.pick(reference.EVERY_FIXED)
    if type not in reference.EVERY or not viewable(source, type):
        return None
    return view(make, source, type, make.expression(source, depth - 1))
