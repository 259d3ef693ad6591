"""What makes one program: its random choices, the variables that there are, and the rows that it has reached.

`Maker` adds one statement after the other and runs each in the reference at once, for all threads: what the rules leave open
(an overflow of a builtin int, a division by zero) is thrown away and made again. Which expressions and statements there are
say the tables of `generate`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import reference
from reference import EVERY, EVERY_FIXED, INTEGERS, REALS

from fuzz.programs import THREADS, Array, Expression, Open, Statement, Struct, Type, Variables, Vector, variable

ARRAYS = ("bool", *EVERY_FIXED)
"""The types of the arrays that programs read: `a2` is the one of `ARRAYS[2]`, `o2` the one that they write."""
LENGTH = 16
WHOLE = tuple(t for t in INTEGERS if t not in ("bool", "index"))
SECONDS = ("int8", "uint16", "int32", "uint64", "float8e4m3", "bfloat16", "float32", "float64", "complex64")
"""The types of the second members of the structs of `tables`."""
ELEMENTS = tuple(t for t in EVERY_FIXED if not reference.is_complex(t))
"""What vectors are made of."""
COMMON = (*reference.NUMBERS, *reference.NUMBERS, *EVERY)
"""Types to choose from at random: those that have most operators more often."""
COMMON_REALS = (*reference.NUMBERS, *REALS)

Maker_ = Callable[["Maker", Type, int], Expression | None]
Adder = Callable[["Maker", int], Statement | None]


@dataclass(frozen=True)
class Tables:
    """What can be made: each chosen as often as it is there."""

    expressions: tuple[Maker_, ...]
    statements: tuple[Adder, ...]
    inner: tuple[Adder, ...]
    """Statements of bodies."""


@dataclass
class Scope:
    """The variables that there are at a place in a program, and what may be called."""

    types: dict[str, Type] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    """Names that nothing is assigned to."""

    def copy(self) -> Scope:
        """Another one with the same content."""
        return Scope(dict(self.types), dict(self.arrays), self.kept)


class Maker:
    """Makes one program."""

    def __init__(self, number: int, given: dict[str, list[Any]], tables: Tables) -> None:
        self.random = random.Random(f"{number}")
        self.number, self.given, self.tables = number, given, tables
        self.threads: list[Variables] = [{"i": i} for i in range(THREADS)]
        self.scope = Scope()
        self.functions: list[Any] = []
        self.rows: set[tuple[Any, ...]] = set()
        self.count = 0
        self.inside = False

    @property
    def types(self) -> dict[str, Type]:
        """The variables and their types."""
        return self.scope.types

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def pick(self, options: Sequence[Any]) -> Any:
        """One of several."""
        return options[int(self.random.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.random.random() < probability

    def names(self, kinds: Any = EVERY, changing: bool = False) -> list[str]:
        """The variables of some types, or those that may change."""
        kept = self.scope.kept if changing else ()
        return [name for name, type in self.types.items() if type in kinds and name not in kept]

    # Expressions

    def expression(self, type: Type, depth: int) -> Expression:
        """Some expression of a type."""
        if depth <= 0 or self.chance(0.12):
            return self.leaf(type)
        for _ in range(4):
            make = self.pick(self.tables.expressions)
            found = make(self, type, depth)
            if found is not None and found.type == type:
                found.kind = found.kind or make.__name__
                return found
        return self.made_of(type, depth)

    def leaf(self, type: Type) -> Expression:
        """A variable, or an element."""
        names = [name for name, each in self.types.items() if each == type]
        if names and (self.inside or self.chance(0.6)):
            return variable(self.pick(names), type)
        if isinstance(type, (tuple, Vector, Struct)):
            return self.made_of(type, 0)
        if self.inside:
            return self.of_parameters(type)
        if type in ARRAYS:
            return self.element(type)
        if type == "index":
            k = self.random.randrange(len(ARRAYS))
            return Expression("index", f"len(a{k})", (), lambda: LENGTH)
        sources = {"int": ["int8", "uint8", "int16"], "float": ["float16", "float32", "int8", "bfloat16"]}
        return self.convert_to(type, self.element(self.pick(sources.get(type, ["complex64", "float32"]))))

    def element(self, type: Type) -> Expression:
        """`a2[i]`, or another place in it."""
        k, values = ARRAYS.index(type), self.given[type]
        if self.chance(0.5):
            return Expression(type, f"a{k}[i]", (variable("i", "int32"),), lambda i: values[i])
        if self.chance(0.8):
            shift = self.random.randint(1, LENGTH - THREADS)
            return Expression(type, f"a{k}[i + {shift}]", (variable("i", "int32"),), lambda i: values[i + shift])
        shift = self.random.randrange(1, LENGTH)
        return Expression(type, f"a{k}[i - {shift}]", (variable("i", "int32"),), lambda i: values[i - shift])

    def of_parameters(self, type: Type) -> Expression:
        """A parameter, as it is or converted: functions see nothing else."""
        if type == "index":
            raise Open
        real = not (type in EVERY and reference.is_complex(type)) and type != "bool"
        sources = self.names(REALS if real else EVERY)
        if sources:
            name = self.pick(sources)
            return self.convert_to(type, variable(name, self.types[name]))
        for name, each in self.types.items():
            if isinstance(each, tuple) and each[0] in REALS:
                part = Expression(each[0], "{}[0]", (variable(name, each),), lambda t: t[0])
                return self.convert_to(type, part) if part.type != type else part
        raise Open

    def made_of(self, type: Type, depth: int) -> Expression:
        """What a constructor or display makes."""
        if isinstance(type, tuple):
            operands = tuple(self.expression(each, depth - 1) for each in type)
            text = f"({', '.join('{}' for _ in type)}{',' * (len(type) == 1)})"
            return Expression(type, text, operands, lambda *values: values, kind="tuple")
        if isinstance(type, Vector):
            element = type.element
            sources = [element, element, *(("int", "int8", "float64") if depth > 0 else ())]
            operands = tuple(self.expression(self.pick(sources), depth - 1) for _ in range(type.size))
            text = f"device.{type}({', '.join('{}' for _ in operands)})"
            self.rows.add(("vector", element, type.size))
            return Expression(
                type,
                text,
                operands,
                lambda *values: tuple(reference.convert(element, v) for v in values),
                kind="vector",
            )
        if isinstance(type, Struct):
            pair = (self.expression(type.first, depth - 1), self.expression(type.second, depth - 1))
            text = self.pick(["{{}}({{}}, {{}})", "{{}}(x={{}}, y={{}})"]).replace("{{}}", str(type), 1)
            return Expression(type, text.replace("{{}}", "{}"), pair, lambda x, y: (x, y), kind="struct")
        if type == "index" or (self.inside and depth <= 0):
            return self.leaf(type)
        real = type != "bool" and not reference.is_complex(type)
        source = self.pick([t for t in (COMMON_REALS if real else COMMON) if t != "index"])
        return self.convert_to(type, self.expression(source, depth - 1))

    def convert_to(self, type: Type, operand: Expression) -> Expression:
        """`T(x)`. An index stays one in `int`, and what has no room in `int` is left open."""
        name = type if type in reference.BUILTIN or type == "complex" else f"device.{type}"
        if type == "bool" and self.chance(0.5):
            name = "np.bool_"
        self.rows.add(("convert", type, operand.type))

        def compute(x: Any) -> Any:
            if type == "int" and isinstance(x, int):
                return in_range("int", int(x))
            return reference.convert(type, x)

        return Expression(type, f"{name}({{}})", (operand,), compute, kind="conversion")

    def literal(self, beside: Type) -> Expression:
        """A constant of Python that has a place in the type beside it."""
        if beside == "bool" or (self.chance(0.7) and not (reference.is_float(beside) and self.chance(0.5))):
            # What a bool cannot be decides a comparison while compiling.
            value: Any = self.pick([0, 1] if beside == "bool" else [0, 1, 2, 3, 5, 7, 31, 100])
            return Expression("int", str(value), (), lambda: value, literal=True)
        value = self.pick([0.5, 1.5, 2.0, 0.25, 3.0])
        return Expression("float", str(value), (), lambda: value, literal=True)

    def masked(self, op: str, operand: Expression, value: int) -> Expression:
        """`x & value` or `x | value`, of the type of x."""
        type = operand.type
        return Expression(
            type, f"({{}} {op} {value})", (operand,), lambda v: reference.binary(op, type, v, "int", value)
        )

    def index(self, length: int, depth: int) -> Expression:
        """An integer that is inside of a length that is a power of two, from the front or the back."""
        kind = self.pick(WHOLE)
        inner = self.masked("&", self.expression(kind, depth - 1), length - 1)
        if kind.startswith("u") or self.chance(0.6):
            return inner
        return Expression(kind, "(~{})", (inner,), lambda v: ~v)

    def any_struct(self) -> Struct:
        """Some type of a struct."""
        return Struct(self.pick(EVERY_FIXED), self.pick(SECONDS))

    # Statements

    def try_add(self, body: list[Statement], make: Callable[[], Statement | None], tries: int = 6) -> bool:
        """Adds a statement that every thread can run."""
        for _ in range(tries):
            scope, count, rows = self.scope.copy(), self.count, set(self.rows)
            try:
                statement = make()
                if statement is not None:
                    after = [dict(thread) for thread in self.threads]
                    statement.run_block(after)
            except (Open, OverflowError, KeyError, IndexError):
                statement = None
            if statement is not None:
                self.threads = after
                body.append(statement)
                return True
            self.scope, self.count, self.rows = scope, count, rows
        return False

    def statement(self, depth: int) -> Statement | None:
        """Some statement."""
        return self.pick(self.tables.statements)(self, depth)

    def body(self, depth: int) -> tuple[Statement, ...]:
        """Statements of a branch; what they compute is not run here, so that they may be on a way that no thread goes."""
        found: list[Statement] = []
        for _ in range(self.random.randint(0, 2)):
            statement = self.pick(self.tables.inner)(self, depth)
            if statement is not None:
                found.append(statement)
        return tuple(found)

    def define(self, name: str, type: Type) -> Type:
        """Notes that a variable has a type now."""
        self.types[name] = type
        return type

    def other(self) -> Maker:
        """A maker of a function of this program."""
        other = Maker(self.number, self.given, replace(self.tables))
        other.random, other.inside = self.random, True
        return other


def in_range(type: Type, exact: int) -> Any:
    """An exact result of a builtin integer is left open where there is no room for it."""
    low, high = reference.limits(type)
    if type in reference.BUILTIN and not low <= exact <= high:
        return reference.UNSPECIFIED
    return reference.convert(type, exact)
