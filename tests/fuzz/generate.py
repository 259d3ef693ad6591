"""Makes programs: typed, sensible, and such that every thread's results are settled by the rules.

`Maker` adds one statement after the other and runs each in the reference at once, for all threads: what the rules leave open
(an overflow of a builtin int, a division by zero) is thrown away and made again. `SWEEP` lists every operator with every
pair of types; each program begins with some of them, so that together they reach all.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import reference
from reference import FIXED, NUMBERS, UNSPECIFIED, convert, is_float, promote, result_type, unary_type

from fuzz.programs import (
    Assign,
    Expression,
    Function,
    If,
    Leave,
    Local,
    Loop,
    Match,
    Open,
    Program,
    Return,
    Statement,
    Stop,
    Store,
    Type,
    Variables,
    cast,
    run_all,
    variable,
)

THREADS = 8
SLOTS = 6
ARRAYS = ("bool", *FIXED)
"""The types of the arrays that programs read: `a[k]` is the one of `ARRAYS[k]`, `o[k]` the one that they write."""
LENGTH = 16
STORED = {"int": "int32", "index": "int64", "float": "float32"}
INTEGERS = tuple(t for t in NUMBERS if not is_float(t))
BINARY = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=")
UNARY = ("-", "+", "~", "not")


def _sweep() -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for op, a, b in itertools.product(BINARY, NUMBERS, NUMBERS):
        common = result_type(op, a, b)
        if common is None or (op == "**" and is_float(common)):
            continue
        rows.append((op, a, b))
    rows += [(op, a) for op, a in itertools.product(UNARY, NUMBERS) if unary_type(op, a)]
    rows += [("convert", a, b) for a, b in itertools.product(NUMBERS, NUMBERS) if a != "index"]
    rows += [(name, a) for name in CALLS for a in NUMBERS if CALLS[name][0](a)]
    rows += [(name, a, b) for name in ("min", "max") for a, b in itertools.product(NUMBERS, NUMBERS) if promote(a, b)]
    rows += [("join", a, b) for a, b in itertools.product(NUMBERS, NUMBERS) if joined(a, b)]
    return sorted(rows)


def joined(a: Type, b: Type) -> Type | None:
    """What a variable is that is `a` on one way and `b` on another; None if it is nothing."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [joined(x, y) for x, y in zip(a, b, strict=True)]
        return None if None in parts else tuple(parts)
    if a == b or isinstance(a, tuple) or isinstance(b, tuple) or not (a in NUMBERS and b in NUMBERS):
        return a if a == b else None
    return promote(a, b)


def joined_all(types: Sequence[Type]) -> Type | None:
    """What a variable is after several ways: those of fixed format decide first, then builtin numbers meet the result."""
    ordered = sorted(types, key=lambda type: type in reference.BUILTIN)
    result: Type | None = ordered[0]
    for type in ordered[1:]:
        result = result and joined(result, type)
    return result


# Functions of one number: for which types, of what result, and what they compute.


def _integral(type: Type) -> bool:
    return not is_float(type) and type != "bool"


def _of_float(type: Type) -> Type:
    """In which float a function of a real number computes."""
    if is_float(type):
        return type
    return "float" if type in reference.BUILTIN else "float64" if reference.bits(type) == 64 else "float32"


def _sqrt(type: Type, x: Any) -> Any:
    target = _of_float(type)
    value = convert(target, x)
    with np.errstate(all="ignore"):
        wide = np.float64(value) if reference.bits(target) == 64 else np.float32(value)
        return reference.round_to(target, float(np.sqrt(wide)))


def _rounded(function: Callable[[float], int]) -> Callable[[Type, Any], Any]:
    def compute(type: Type, x: Any) -> Any:
        if not is_float(type):
            return x
        return convert("int", float(function(x)) if math.isfinite(x) else x)

    return compute


def _absolute(type: Type, x: Any) -> Any:
    if is_float(type):
        return abs(x)
    return _in_range("int" if type == "bool" else type, abs(int(x)))


def _in_range(type: Type, exact: int) -> Any:
    low, high = reference.limits(type)
    if type in reference.BUILTIN and not low <= exact <= high:
        return UNSPECIFIED
    return convert(type, exact)


def _bits(type: Type, x: int) -> int:
    return x & ((1 << reference.bits(type)) - 1)


def _same(type: Type) -> Type:
    return type


def _int_of(type: Type) -> Type:
    return "int" if is_float(type) or type == "bool" else type


CALLS: dict[str, tuple[Callable[[Type], bool], Callable[[Type], Type], Callable[[Type, Any], Any], str]] = {
    "abs": (lambda t: True, lambda t: "int" if t == "bool" else t, _absolute, "abs({})"),
    "sqrt": (lambda t: True, _of_float, _sqrt, "math.sqrt({})"),
    "floor": (lambda t: t != "bool", _int_of, _rounded(math.floor), "math.floor({})"),
    "ceil": (lambda t: t != "bool", _int_of, _rounded(math.ceil), "math.ceil({})"),
    "trunc": (lambda t: t != "bool", _int_of, _rounded(math.trunc), "math.trunc({})"),
    "round": (lambda t: t != "bool", _int_of, _rounded(round), "round({})"),
    "isnan": (lambda t: True, lambda t: "bool", lambda t, x: is_float(t) and math.isnan(x), "math.isnan({})"),
    "fabs": (lambda t: True, _of_float, lambda t, x: abs(convert(_of_float(t), x)), "math.fabs({})"),
    "popc": (_integral, lambda t: "int32", lambda t, x: _bits(t, x).bit_count(), "device.popc({})"),
    "clz": (
        _integral,
        lambda t: "int32",
        lambda t, x: reference.bits(t) - _bits(t, x).bit_length(),
        "device.clz({})",
    ),
    "ffs": (_integral, lambda t: "int32", lambda t, x: (_bits(t, x) & -_bits(t, x)).bit_length(), "device.ffs({})"),
    "bit_length": (_integral, lambda t: "int", lambda t, x: x.bit_length(), "({}).bit_length()"),
}

SWEEP = _sweep()


def inputs(seed: int) -> dict[str, list[Any]]:
    """What the arrays hold: values at which mistakes show, and others, small ones first."""
    choose = random.Random(seed)
    found = {}
    for type in ARRAYS:
        edges = reference.edges(type)
        values = [choose.choice(edges) for _ in range(LENGTH)]
        if type != "bool":
            small = [convert(type, choose.randint(0 if type.startswith("u") else -9, 9)) for _ in range(LENGTH)]
            values = [s if choose.random() < 0.5 else v for s, v in zip(small, values, strict=True)]
        found[type] = values
    return found


class Maker:
    """Makes one program."""

    def __init__(self, number: int, given: dict[str, list[Any]]) -> None:
        self.random = random.Random(f"{number}")
        self.number = number
        self.given = given
        self.threads: list[Variables] = [{"i": i} for i in range(THREADS)]
        self.types: dict[str, Type] = {}
        self.locals: dict[str, tuple[str, int]] = {}
        self.functions: list[Function] = []
        self.rows: set[tuple[str, ...]] = set()
        self.count = 0
        self.inside = False

    # Expressions

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.random.randrange(len(options))]

    def expression(self, type: Type, depth: int) -> Expression:
        """Some expression of a type."""
        if isinstance(type, tuple):
            return self.display(type, depth)
        if depth <= 0 or self.random.random() < 0.12:
            return self.leaf(type)
        for _ in range(4):
            found = self.pick(self.MAKERS)(self, type, depth)
            if found is not None and found.type == type:
                return found
        return self.converted(type, depth)

    def leaf(self, type: Type) -> Expression:
        """A variable, or an element."""
        names = [name for name, each in self.types.items() if each == type]
        if names and self.random.random() < 0.6:
            return variable(self.pick(names), type)
        if type in ARRAYS:
            return self.element(type)
        if type == "index":
            k = self.random.randrange(len(ARRAYS))
            return Expression("index", f"len(a[{k}])", (), lambda: LENGTH)
        source = self.pick(["int8", "uint8", "int16"] if type == "int" else ["float16", "float32", "int8"])
        return self.convert_to(type, self.element(source))

    def element(self, type: Type) -> Expression:
        """`a[k][i]`, or another place in it."""
        k, values = ARRAYS.index(type), self.given[type]
        if self.random.random() < 0.5:
            return Expression(type, f"a[{k}][i]", (variable("i", "int32"),), lambda i: values[i])
        shift = self.random.randrange(1, LENGTH)
        sign = self.pick(["+", "-"])
        compute = (lambda i: values[i + shift - 8]) if sign == "+" else (lambda i: values[i - shift])
        text = f"a[{k}][i + {shift - 8}]" if sign == "+" else f"a[{k}][i - {shift}]"
        return Expression(type, text, (variable("i", "int32"),), compute)

    def literal(self, beside: Type) -> Expression:
        """A constant of Python that has a place in the type beside it."""
        if beside == "bool" or (self.random.random() < 0.7 and not (is_float(beside) and self.random.random() < 0.5)):
            # What a bool cannot be decides a comparison while compiling.
            value: Any = self.pick([0, 1] if beside == "bool" else [0, 1, 2, 3, 5, 7, 31, 100])
            return Expression("int", str(value), (), lambda: value, literal=True)
        value = self.pick([0.5, 1.5, 2.0, 0.25, 3.0])
        return Expression("float", str(value), (), lambda: value, literal=True)

    def converted(self, type: Type, depth: int) -> Expression:
        """A constructor's call."""
        if type == "index":
            return self.leaf("index")
        source = self.pick([t for t in NUMBERS if t != "index"])
        return self.convert_to(type, self.expression(source, depth - 1))

    def convert_to(self, type: Type, operand: Expression) -> Expression:
        """`T(x)`. An index stays one in `int`, and what has no room in `int` is left open."""
        source = operand.type
        name = type if type in ("int", "float", "bool") else f"device.{'bool_' if type == 'bool' else type}"
        self.rows.add(("convert", type, source))

        def compute(x: Any) -> Any:
            if type == "int" and isinstance(x, int):
                return _in_range("int", int(x))
            return convert(type, x)

        return Expression(type, f"{name}({{}})", (operand,), compute)

    def binary(self, op: str, a: Expression, b: Expression) -> Expression | None:
        """`a op b`, kept clear of what the rules leave open where that is easy."""
        type = result_type(op, a.type, b.type)
        if type is None or (op == "**" and is_float(type)) or (a.literal and b.literal):
            return None
        x, y = a.type, b.type
        row = (op, x, y)
        if op in ("//", "%", "/") and not is_float(type) and not b.literal and y != "bool":
            b = self.masked("|", b, 1)
        if op in ("//", "%") and y == "bool" and not is_float(type) and not b.literal:
            b = Expression("bool", "({} or True)", (b,), lambda v: True)
        if op == "**" and not b.literal and y != "bool":
            b = self.masked("&", b, 3)
        if op in ("<<", ">>") and not b.literal and y != "bool":
            b = self.masked("&", b, 63 if type not in reference.BUILTIN else 7)
        if op == "*" and type in ("int", "index") and not a.literal and x != "bool":
            a = self.masked("&", a, 127)
        self.rows.add(row)
        return Expression(type, f"({{}} {op} {{}})", (a, b), lambda v, w: reference.binary(op, x, v, y, w), row=row)

    def masked(self, op: str, operand: Expression, value: int) -> Expression:
        """`x & value` or `x | value`, of the type of x."""
        type = operand.type
        return Expression(
            type, f"({{}} {op} {value})", (operand,), lambda v: reference.binary(op, type, v, "int", value)
        )

    def some_binary(self, type: Type, depth: int) -> Expression | None:
        op = self.pick(BINARY)
        if type == "bool":
            op = self.pick(BINARY[-6:])
        a, b = self.pick(NUMBERS), self.pick(NUMBERS)
        if type != "bool" and self.random.random() < 0.8:
            a, b = type, self.pick([type, type, b])
        if result_type(op, a, b) != type:
            return None
        left, right = self.expression(a, depth - 1), self.expression(b, depth - 1)
        if self.random.random() < 0.2:
            right = self.literal(a)
        elif self.random.random() < 0.1:
            left = self.literal(b)
        return self.binary(op, left, right)

    def unary(self, op: str, a: Expression) -> Expression | None:
        type, x = unary_type(op, a.type), a.type
        if type is None or (op == "not" and a.literal):
            return None
        self.rows.add((op, x))
        return Expression(type, f"({op} {{}})", (a,), lambda v: reference.unary(op, x, v))

    def some_unary(self, type: Type, depth: int) -> Expression | None:
        return self.unary(self.pick(UNARY), self.expression(type if type != "bool" else self.pick(NUMBERS), depth - 1))

    def call(self, name: str, operand: Expression) -> Expression | None:
        takes, result, compute, text = CALLS[name]
        x = operand.type
        if not takes(x):
            return None
        self.rows.add((name, x))
        return Expression(result(x), text, (operand,), lambda v: compute(x, v))

    def some_call(self, type: Type, depth: int) -> Expression | None:
        name = self.pick([*CALLS])
        source = self.pick([type, type, *NUMBERS])
        if not CALLS[name][0](source) or CALLS[name][1](source) != type:
            return None
        return self.call(name, self.expression(source, depth - 1))

    def extreme(self, name: str, operands: Sequence[Expression]) -> Expression | None:
        type: Type = operands[0].type
        for operand in operands[1:]:
            type = type and promote(type, operand.type)
        if type is None:
            return None
        if all(operand.type == "bool" for operand in operands):
            type = "bool"
        if len(operands) == 2:
            self.rows.add((name, operands[0].type, operands[1].type))
        better = (lambda v, w: w < v) if name == "min" else (lambda v, w: w > v)

        def compute(*values: Any) -> Any:
            best, *rest = (convert(type, value) for value in values)
            for other in rest:
                best = other if better(best, other) else best
            return best

        return Expression(type, f"{name}({', '.join('{}' for _ in operands)})", tuple(operands), compute)

    def some_extreme(self, type: Type, depth: int) -> Expression | None:
        others = [self.pick([type, type, *NUMBERS]) for _ in range(self.random.randint(1, 2))]
        return self.extreme(self.pick(["min", "max"]), [self.expression(each, depth - 1) for each in (type, *others)])

    def choice(self, type: Type, depth: int) -> Expression | None:
        """`a if c else b`, `a and b`, `a or b`."""
        other = self.pick([type, type, *NUMBERS])
        if joined(type, other) != type:
            return None
        a, b = self.expression(type, depth - 1), self.expression(other, depth - 1)
        if any(str(x).startswith("(") and any(word in str(x) for word in (" and ", " or ", " if ")) for x in (a, b)):
            return None  # CPython jumps over the inner one: what it would give never meets the rest
        kind = self.random.randrange(3)
        self.rows.add(("join", type, other))
        if kind == 0:
            c = self.expression("bool", depth - 1)
            return Expression(
                type, "({} if {} else {})", (a, c, b), lambda x, c, y: cast(type, x() if c() else y()), lazy=True
            )
        if kind == 1:
            return Expression(type, "({} and {})", (a, b), lambda x, y: cast(type, x() and y()), lazy=True)
        return Expression(type, "({} or {})", (a, b), lambda x, y: cast(type, x() or y()), lazy=True)

    def chained(self, type: Type, depth: int) -> Expression | None:
        """`a < b <= c`."""
        if type != "bool":
            return None
        types = [self.pick(NUMBERS) for _ in range(3)]
        first, second = self.pick(BINARY[-6:]), self.pick(BINARY[-6:])
        if not (promote(types[0], types[1]) and promote(types[1], types[2])):
            return None

        def compute(x: Any, y: Any, z: Any) -> Any:
            middle = y()
            if not reference.compare(first, types[0], x(), types[1], middle):
                return False
            return reference.compare(second, types[1], middle, types[2], z())

        operands = tuple(self.expression(each, depth - 1) for each in types)
        return Expression("bool", f"({{}} {first} {{}} {second} {{}})", operands, compute, lazy=True)

    def of_tuple(self, type: Type, depth: int) -> Expression | None:
        """An element of a tuple, a comparison of tuples, `in`, `len`."""
        names = [name for name, each in self.types.items() if isinstance(each, tuple)]
        if type == "bool" and self.random.random() < 0.5:
            pair = tuple(self.pick(INTEGERS) for _ in range(self.random.randint(1, 3)))
            op = self.pick(BINARY[-6:])
            a, b = self.display(pair, depth - 1), self.display(pair, depth - 1)
            compare = {"==": tuple.__eq__, "!=": tuple.__ne__, "<": tuple.__lt__, "<=": tuple.__le__,
                       ">": tuple.__gt__, ">=": tuple.__ge__}[op]  # fmt: skip
            return Expression("bool", f"({{}} {op} {{}})", (a, b), lambda x, y: bool(compare(x, y)))
        if type == "bool":
            kinds = tuple(self.pick(INTEGERS) for _ in range(3))
            item = self.expression(self.pick(INTEGERS), depth - 1)
            return Expression("bool", "({} in {})", (item, self.display(kinds, depth - 1)), lambda x, t: x in t)
        for name in names:
            places = [i for i, each in enumerate(self.types[name]) if each == type]
            if places:
                place = self.pick(places)
                shown = place if self.random.random() < 0.5 else place - len(self.types[name])
                return Expression(
                    type, f"{{}}[{shown}]", (variable(name, self.types[name]),), lambda t, at=place: t[at]
                )
        return None

    def display(self, types: tuple[Type, ...], depth: int) -> Expression:
        """`(a, b, …)`."""
        operands = tuple(self.expression(each, depth - 1) for each in types)
        text = f"({', '.join('{}' for _ in types)}{',' * (len(types) == 1)})"
        return Expression(types, text, operands, lambda *values: values)

    def of_local(self, type: Type, depth: int) -> Expression | None:
        """An element of a local array, by an index of any integer type."""
        names = [name for name, (dtype, _) in self.locals.items() if dtype == type]
        if not names:
            return None
        name = self.pick(names)
        index = self.index(self.locals[name][1], depth)
        whole = variable(name, ("local", type))
        return Expression(type, f"{{}}[{index}]", (whole, index), lambda values, i: values[i])

    def index(self, length: int, depth: int) -> Expression:
        """An integer that is inside of a length that is a power of two, from the front or the back."""
        kind = self.pick([t for t in INTEGERS if t not in ("bool", "index")])
        inner = self.masked("&", self.expression(kind, depth - 1), length - 1)
        if kind.startswith("u") or self.random.random() < 0.6:
            return inner
        return Expression(kind, "(~{})", (inner,), lambda v: ~v)

    def of_function(self, type: Type, depth: int) -> Expression | None:
        """A call of one of the program's functions."""
        known = [function for function in self.functions if function.type == type]
        if not known or self.inside:
            return None
        function = self.pick(known)
        operands = [self.expression(each, depth - 1) for _, each in function.parameters]
        parts = ["{}" for _ in operands]
        if self.random.random() < 0.3:
            parts[-1] = f"{function.parameters[-1][0]}={{}}"
        return Expression(type, f"{function.name}({', '.join(parts)})", tuple(operands), function.call)

    def of_vector(self, type: Type, depth: int) -> Expression | None:
        """A member of a vector that is made here, after some arithmetic of its elements."""
        if type not in FIXED or (type in ("float16",)):
            return None
        size = self.pick([2, 3, 4])
        parts = [self.expression(self.pick([type, "int", "int8"]), depth - 2) for _ in range(2 * size)]
        made = f"device.{type}x{size}({', '.join('{}' for _ in range(size))})"
        op = self.pick(["+", "-", "*"])
        place = self.random.randrange(size)
        member = self.pick([f".{'xyzw'[place]}", f"[{place}]", f"[{place - size}]"])

        def compute(*values: Any) -> Any:
            a, b = (convert(type, values[place + each * size]) for each in (0, 1))
            return reference.binary(op, type, a, type, b)

        return Expression(type, f"({made} {op} {made}){member}", tuple(parts), compute)

    def of_struct(self, type: Type, depth: int) -> Expression | None:
        """A method of a struct, which has a member of each of two types."""
        if type not in FIXED:
            return None
        other = self.pick(FIXED)
        name = f"S_{type}_{other}"
        first, second = self.expression(type, depth - 1), self.expression(other, depth - 1)
        kind = self.random.randrange(3)
        if kind == 0:
            return Expression(type, f"{name}({{}}, {{}}).x", (first, second), lambda x, y: x)
        if kind == 1:
            return Expression(
                type,
                f"device.replace({name}({{}}, {{}}), x={{}}).x",
                (first, second, self.expression(type, depth - 1)),
                lambda x, y, z: z,
            )  # noqa: E501
        total = result_type("+", type, type)
        third = self.expression(type, depth - 1)
        return Expression(
            total, f"{name}({{}}, {{}}).plus({{}})", (first, second, third),
            lambda x, y, z: reference.binary("+", type, x, type, z),
        )  # fmt: skip

    MAKERS = (
        some_binary, some_binary, some_binary, some_binary, some_unary, converted, some_call, some_extreme, choice, choice,
        chained, of_tuple, of_local, of_function, of_vector, of_struct,
    )  # fmt: skip

    # Statements

    def try_add(self, body: list[Statement], make: Callable[[], Statement | None]) -> bool:
        """Adds a statement that every thread can run."""
        for _ in range(6):
            types, local, count, rows = dict(self.types), dict(self.locals), self.count, set(self.rows)
            statement = make()
            if statement is not None:
                after = [dict(thread) for thread in self.threads]
                try:
                    for thread in after:
                        statement.run(thread)
                except (Open, OverflowError, KeyError, IndexError):
                    statement = None
            if statement is not None:
                self.threads = after
                body.append(statement)
                return True
            self.types, self.locals, self.count, self.rows = types, local, count, rows
        return False

    def statement(self, depth: int) -> Statement | None:
        return self.pick(self.STATEMENTS)(self, depth)

    def assign(self, depth: int) -> Statement | None:
        type = self.pick([*NUMBERS, *NUMBERS, ("int8", "float32"), ("int", ("uint8", "bool"))])
        x = self.expression(type, self.random.randint(1, 3))
        name = self.fresh()
        self.types[name] = type
        return Assign((x,), (), (name,), (type,))

    def augment(self, depth: int) -> Statement | None:
        names = [name for name, type in self.types.items() if type in NUMBERS]
        if not names:
            return None
        name = self.pick(names)
        x = self.binary(
            self.pick(BINARY[:12]), variable(name, self.types[name]), self.expression(self.pick(NUMBERS), 2)
        )
        if x is None:
            return None
        op = x.row[0]
        # `v op= y` is `v = v op y`; the text shows the second operand alone.
        return Assign((x,), (), (name,), (self.retype(name, x.type),), f"{op}=")

    def retype(self, name: str, type: Type) -> Type:
        self.types[name] = type
        return type

    def unpack(self, depth: int) -> Statement | None:
        types = tuple(self.pick(NUMBERS) for _ in range(self.random.randint(2, 3)))
        x = self.display(types, 2)
        names = tuple(self.fresh() for _ in types)
        self.types.update(zip(names, types, strict=True))
        return Assign((x,), (), names, types)

    def swap(self, depth: int) -> Statement | None:
        names = [name for name, type in self.types.items() if type in NUMBERS]
        if len(names) < 2:
            return None
        a, b = self.random.sample(names, 2)
        types = (self.types[b], self.types[a])
        x = Expression(types, "{}, {}", (variable(b, types[0]), variable(a, types[1])), lambda *values: values)
        self.types[a], self.types[b] = types
        return Assign((x,), (), (a, b), types)

    def local(self, depth: int) -> Statement | None:
        dtype, name = self.pick(FIXED), self.fresh()
        parts = tuple(self.expression(self.pick([dtype, *NUMBERS]), 1) for _ in range(self.pick([2, 4])))
        self.locals[name] = (dtype, len(parts))
        return Local(parts, (), name, dtype)

    def store(self, depth: int) -> Statement | None:
        if not self.locals:
            return None
        name = self.pick([*self.locals])
        dtype, length = self.locals[name]
        return Store((self.index(length, 2), self.expression(self.pick([dtype, *NUMBERS]), 2)), (), name, dtype)

    def branch(self, depth: int) -> Statement | None:
        """Ways that leave the same variables, of types that join."""
        if depth <= 0:
            return None
        count = self.pick([1, 1, 2])
        before = dict(self.types)
        bodies, after = [], []
        for _ in range(count + 1):
            self.types = dict(before)
            bodies.append(self.body(depth - 1))
            after.append({name: type for name, type in self.types.items() if name in before})
        self.types = dict(before)
        new = self.fresh()
        kinds: list[Type] = [self.pick(NUMBERS) for _ in bodies]
        kinds = [kind if joined(kinds[0], kind) else kinds[0] for kind in kinds]
        for i, kind in enumerate(kinds):
            self.types = dict(after[i])
            bodies[i] = (*bodies[i], Assign((self.expression(kind, 2),), (), (new,), (kind,)))
            after[i][new] = kind
        self.types = dict(before)
        merged: list[tuple[str, Type]] = []
        for name in (*before, new):
            if name == "i":
                continue
            ways = [each[name] for each in after]
            if len(ways) == 2 and all(way in NUMBERS for way in ways):
                self.rows.add(("join", *ways))
            type = joined_all(ways)
            if type is None:
                return None
            merged.append((name, type))
        if self.random.random() < 0.25:
            kind = self.pick([t for t in INTEGERS if t not in ("bool", "index")])
            values = tuple((i,) if self.random.random() < 0.6 else (i, i + 10) for i in range(count))
            on = self.masked("&", self.expression(kind, 2), 3)
            self.types.update(merged)
            return Match((on,), tuple(bodies), tuple(merged), values)  # type: ignore[arg-type]
        conditions = tuple(self.expression(self.pick(["bool", "bool", *NUMBERS]), 2) for _ in range(count))
        self.types.update(merged)
        return If(conditions, tuple(bodies), tuple(merged))

    def body(self, depth: int) -> tuple[Statement, ...]:
        """Statements of a branch; what they compute is not run here, so that they may be on a way that no thread goes."""
        found: list[Statement] = []
        for _ in range(self.random.randint(0, 2)):
            statement = self.pick([self.assign, self.augment, self.unpack, self.swap, self.store])(depth)
            if statement is not None:
                found.append(statement)
        return tuple(found)

    def loop(self, depth: int) -> Statement | None:
        """A loop that carries one or two variables, whose types settle."""
        kind = self.pick(["range", "range", "while", "tuple"])
        counter = self.fresh()
        before, before_locals = dict(self.types), dict(self.locals)
        if kind != "while":
            arguments, type = self.loop_head(kind)
        carried: list[tuple[str, Type, str, Expression]] = []
        names = [name for name, each in before.items() if each in NUMBERS]
        self.random.shuffle(names)
        self.types = {name: each for name, each in before.items() if name not in names[:2]}
        if kind == "while":  # its condition is asked again and again
            self.locals = {}
            arguments, type = self.loop_head(kind)
            self.locals = dict(before_locals)
        self.types[counter] = type
        for name in names[: self.random.randint(1, 2)]:
            op, x = self.pick(BINARY[:10]), self.expression(self.pick(NUMBERS), 2)
            settled: Type = before[name]
            for _ in range(4):
                after = result_type(op, settled, x.type)
                following = after and joined(settled, after)
                if following is None or following == settled:
                    break
                settled = following
            if following is None or op == "**":
                return None
            carried.append((name, settled, op, x))
        body: list[Statement] = []
        if self.random.random() < 0.3:
            body.append(Leave((self.expression("bool", 2),), (), self.pick(["break", "continue"])))
        body += [self.store(depth) or self.assign(depth)] if self.random.random() < 0.4 else []  # type: ignore[list-item]
        for name, settled, op, x in carried:
            made = self.binary(op, variable(name, settled), x)
            if made is None:
                return None
            body.append(Assign((made,), (), (name,), (settled,)))
        bodies = [tuple(body)]
        self.types = dict(before)
        self.locals = before_locals
        self.types.update({name: settled for name, settled, _, _ in carried})
        if self.random.random() < 0.15:
            bodies.append(self.plain_body(carried[0][0]))
        return Loop(
            arguments, tuple(bodies), kind, counter, type, tuple((name, settled) for name, settled, _, _ in carried)
        )

    def plain_body(self, name: str) -> tuple[Statement, ...]:
        """What an `else` of a loop does: one variable gets another value of its type."""
        type = self.types[name]
        return (Assign((self.expression(type, 1),), (), (name,), (type,)),)

    def loop_head(self, kind: str) -> tuple[tuple[Expression, ...], Type]:
        if kind == "tuple":
            type = self.pick(NUMBERS)
            return (self.display((type,) * self.random.randint(1, 3), 2),), type
        whole = self.pick([t for t in INTEGERS if t not in ("bool", "index", "uint64")])
        stop = self.masked("&", self.expression(whole, 1), 7)
        if kind == "while":
            return (stop,), "int"
        number = self.random.randrange(4)
        if number == 0:
            value = self.random.randint(0, 6)
            return (Expression("int", str(value), (), lambda: value, literal=True),), "int"
        if number == 1 or whole.startswith("u"):
            return (stop,), whole
        start = self.masked("&", self.expression(whole, 1), 15)
        if number == 2:
            return (start, stop, Expression("int", "-1", (), lambda: -1, literal=True)), whole
        step = self.pick(["int8", "int", whole])
        middle = self.masked("&", self.expression(step, 1), 7)
        step_type = result_type("-", step, "int")
        shifted = Expression(step_type, "({} - 4)", (middle,), lambda v: reference.binary("-", step, v, "int", 4))
        return (start, stop, shifted), promote(whole, step_type) or whole

    STATEMENTS = (assign, assign, assign, augment, augment, unpack, swap, local, store, branch, branch, loop, loop)

    # Whole programs

    def make_function(self) -> None:
        """A function of some types, with a result on two ways."""
        other = Maker(self.number, self.given)
        other.random = self.random
        other.inside = True
        parameters = tuple(
            (f"p{i}", self.pick([*NUMBERS, ("int8", "float64")])) for i in range(self.random.randint(1, 3))
        )
        types: list[Type] = [self.pick(NUMBERS)]
        types.append(self.pick(NUMBERS))
        if joined(*types) is None:
            types[1] = types[0]
        other.types = dict(parameters)
        other.leaf = lambda type: other.leaf_in_function(type)  # type: ignore[method-assign]
        body = [*other.body(1)]
        result = joined(*types)
        body.append(Return((other.expression("bool", 2), other.returned(types[0])), (), result))
        body.append(Return((other.returned(types[1]),), (), result))
        self.rows |= other.rows | {("join", *map(str, types))}
        self.functions.append(Function(f"f{self.number}_{len(self.functions)}", parameters, tuple(body), result))

    def returned(self, type: Type) -> Expression:
        """What a function returns, without a choice: from 3.12 on CPython may end each of its ways with a `return` of its own."""
        for depth in (2, 2, 2, 1, 1, 0):
            found = self.expression(type, depth)
            if not any(word in str(found) for word in (" and ", " or ", " if ")):
                break
        return found

    def leaf_in_function(self, type: Type) -> Expression:
        """A parameter, as it is or converted: functions see nothing else."""
        names = [name for name, each in self.types.items() if each == type]
        if names:
            return variable(self.pick(names), type)
        if type == "index":
            return Expression("index", "len((1, 2))", (), lambda: 2) if False else self.index_of_parameters()
        sources = [name for name, each in self.types.items() if each in NUMBERS]
        if not sources:
            name, pair = next((n, t) for n, t in self.types.items() if isinstance(t, tuple))
            part = Expression(pair[0], "{}[0]", (variable(name, pair),), lambda t: t[0])
            return self.convert_to(type, part) if part.type != type else part
        source = variable(self.pick(sources), self.types[self.pick(sources)])
        source = variable(source.name, self.types[source.name])
        return self.convert_to(type, source)

    def index_of_parameters(self) -> Expression:
        raise Open

    def program(self) -> Program:
        """The whole program."""
        for _ in range(self.random.randint(0, 2)):
            try:
                self.make_function()
            except Open:
                continue
        body: list[Statement] = []
        swept: list[str] = []
        for k in range(PER_PROGRAM):
            row = SWEEP[(self.number * PER_PROGRAM + k) % len(SWEEP)]
            if self.try_add(body, lambda row=row: self.of_row(row)):
                swept.append(f"v{self.count}")
        for _ in range(self.random.randint(2, 6)):
            self.try_add(body, lambda: self.statement(2))
        stores = self.stores(swept)
        return Program(self.number, tuple(body), stores, tuple(self.functions), frozenset(self.rows))

    def of_row(self, row: tuple[str, ...]) -> Statement | None:
        """A statement with this row of the sweep."""
        if row[0] == "join":
            name, condition = self.fresh(), self.expression("bool", 1)
            type = joined(row[1], row[2])
            ways = tuple((Assign((self.leaf(each),), (), (name,), (each,)),) for each in row[1:])
            self.types[name] = type
            self.rows.add(row)
            return If((condition,), ways, ((name, type),))
        if row[0] == "convert":
            x: Expression | None = self.convert_to(row[1], self.leaf(row[2])) if row[1] != "index" else None
        elif row[0] in ("min", "max"):
            x = self.extreme(row[0], [self.leaf(each) for each in row[1:]])
        elif len(row) == 3:
            x = self.binary(row[0], self.leaf(row[1]), self.leaf(row[2]))
        else:
            x = self.call(row[0], self.leaf(row[1])) if row[0] in CALLS else self.unary(row[0], self.leaf(row[1]))
        if x is None:
            return None
        name = self.fresh()
        self.types[name] = x.type
        return Assign((x,), (), (name,), (x.type,))

    def stores(self, swept: Sequence[str]) -> tuple[Expression, ...]:
        """What the program shows: the newest variables, and parts of tuples."""
        shown: list[Expression] = []
        first = [name for name in swept if self.types.get(name) in NUMBERS]
        rest = [name for name in reversed(self.types) if name not in first]
        for name in (*first, *rest):
            whole = variable(name, self.types[name])
            todo = [whole]
            while todo:
                each = todo.pop()
                if isinstance(each.type, tuple):
                    todo += [
                        Expression(part, f"{{}}[{i}]", (each,), lambda t, i=i: t[i]) for i, part in enumerate(each.type)
                    ]
                else:
                    shown.append(each)
        for name, (dtype, length) in self.locals.items():
            place = self.random.randrange(length)
            shown.insert(
                len(first),
                Expression(dtype, f"{{}}[{place}]", (variable(name, ("local", dtype)),), lambda m, p=place: m[p]),
            )  # noqa: E501
        return tuple(shown[:SLOTS])


PER_PROGRAM = 3
"""How many rows of the sweep a program begins with."""


def program(number: int, given: dict[str, list[Any]]) -> Program:
    """The program of a number."""
    return Maker(number, given).program()


__all__ = ["ARRAYS", "LENGTH", "SLOTS", "STORED", "SWEEP", "THREADS", "Stop", "inputs", "program", "run_all"]
