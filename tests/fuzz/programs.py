"""What programs are made of: types, expressions and statements, each with its text and with what it does to variables.

    Expression("int8", "{} + {}", (x, y), lambda a, b: …)      text with holes for its operands; values of Python
    Assign((x,), names=("v3",), types=("int8",))               v3 = …

A type is a number's name, as in `reference`, a tuple of types, a `Vector` or a `Struct`. Values are Python's; those of vectors
and structs are tuples. What the rules leave open raises `Open`: such a program is not made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reference import UNSPECIFIED, convert

Type = Any
Variables = dict[str, Any]
THREADS = 8
"""How many threads run a program."""
BLOCKS = (2, 3, 4)
"""How many blocks there are, of which the first one runs programs."""


class Open(Exception):
    """The program's result is not settled by the rules, or takes too long."""


class Stop(Exception):
    """`break`, `continue` or `return`."""

    def __init__(self, kind: str, value: Any = None) -> None:
        super().__init__(kind)
        self.kind, self.value = kind, value


@dataclass(frozen=True, slots=True)
class Vector:
    """`float32x3`."""

    element: str
    size: int

    def __str__(self) -> str:
        return f"{self.element}x{self.size}"


@dataclass(frozen=True, slots=True)
class Struct:
    """The struct with the members `x` and `y` of these types; see `structs`."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"S_{self.first}_{self.second}"


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a program's own: of numbers, vectors or structs."""

    dtype: Type
    shape: tuple[int, ...]


def spelled(type: Type) -> str:
    """A type as a program writes it."""
    if isinstance(type, Struct) or type in ("int", "float", "complex", "bool"):
        return str(type)
    return f"device.{type}"


def parts(type: Type) -> tuple[Type, ...]:
    """The types of what a tuple, vector or struct consists of; none of a number."""
    if isinstance(type, Vector):
        return (type.element,) * type.size
    if isinstance(type, Struct):
        return type.first, type.second
    return type if isinstance(type, tuple) else ()


def cast(type: Type, value: Any) -> Any:
    """A value as a variable of `type` holds it after control flow has met."""
    if isinstance(value, tuple):
        return tuple(map(cast, parts(type), value))
    return convert(type, value) if isinstance(value, (bool, int, float, complex)) else value


@dataclass(eq=False, slots=True)
class Expression:
    """`text` has a hole for each operand; `compute` gets their values. A `literal` is a constant of Python.

    `lazy` operands are not evaluated first: `compute` gets functions for all of them. With `binds` the last operand is what a
    lambda or comprehension computes: `compute` gets first a function of the values of these variables. `kind` is what it is
    counted as.
    """

    type: Type
    text: str
    operands: tuple[Expression, ...] = ()
    compute: Callable[..., Any] = lambda: None
    literal: bool = False
    lazy: bool = False
    name: str = ""
    row: tuple[str, ...] = ()
    binds: tuple[tuple[str, Type], ...] = ()
    kind: str = ""

    def __str__(self) -> str:
        return self.text.format(*self.operands)

    def value(self, variables: Variables) -> Any:
        """What it is for these variables."""
        if self.name:
            return variables[self.name]
        if self.lazy:
            result = self.compute(*((lambda e=operand: e.value(variables)) for operand in self.operands))
        elif self.binds:
            result = self.compute(self._inside(variables), *[x.value(variables) for x in self.operands[:-1]])
        else:
            result = self.compute(*[operand.value(variables) for operand in self.operands])
        if result is UNSPECIFIED:
            raise Open
        return result

    def _inside(self, variables: Variables) -> Callable[..., Any]:
        body, names = self.operands[-1], [name for name, _ in self.binds]
        return lambda *values: body.value({**variables, **dict(zip(names, values, strict=True))})

    def all(self) -> Iterator[Expression]:
        """This one and all in it."""
        yield self
        for operand in self.operands:
            yield from operand.all()

    def smaller(self) -> Iterator[Expression]:
        """What it could be cut down to: a part of the same type, or itself with a smaller part."""
        for part in self.all():
            if part is not self and part.type == self.type and not part.literal:
                yield part
        for i, operand in enumerate(self.operands):
            for less in operand.smaller():
                yield replace(self, operands=(*self.operands[:i], less, *self.operands[i + 1 :]))


def variable(name: str, type: Type) -> Expression:
    """The use of a variable."""
    return Expression(type, name, name=name)


def uses(expression: Expression, types: dict[str, Type]) -> bool:
    """Whether all variables in an expression are of the types that it takes them for."""
    if expression.name:
        return bool(types.get(expression.name) == expression.type)
    if expression.binds:
        *given, body = expression.operands
        return all(uses(each, types) for each in given) and uses(body, types | dict(expression.binds))
    return all(uses(each, types) for each in expression.operands)


@dataclass(eq=False)
class Statement:
    """`expressions` and `bodies` are the parts. `needs` and `gives` are the types of variables before and after it."""

    expressions: tuple[Expression, ...] = ()
    bodies: tuple[tuple[Statement, ...], ...] = ()

    def lines(self) -> list[str]:
        """Its text."""
        raise NotImplementedError

    def run(self, variables: Variables) -> None:
        """What it does for one thread."""
        raise NotImplementedError

    def run_block(self, threads: Sequence[Variables]) -> None:
        """What it does for all threads of the block."""
        for variables in threads:
            self.run(variables)

    def needs(self) -> dict[str, Type]:
        """Variables that it uses beside those of its expressions."""
        return {}

    def gives(self) -> dict[str, Type]:
        """Variables that have a type after it that they may not have had before."""
        return {}

    def holds(self, types: dict[str, Type]) -> bool:
        """Whether all variables are still what it takes them for; `types` are those before it, and then those after it."""
        sound = all(uses(x, types) for x in self.expressions) and self.needs().items() <= types.items()
        sound = sound and all(holds(body, dict(types)) for body in self.bodies)
        types |= self.gives()
        return sound

    def smaller(self) -> Iterator[Statement]:
        """The same with less in it."""
        for i, body in enumerate(self.bodies):
            for less in smaller_bodies(body):
                yield replace(self, bodies=(*self.bodies[:i], less, *self.bodies[i + 1 :]))
        for i, expression in enumerate(self.expressions):
            for part in expression.smaller():
                yield replace(self, expressions=(*self.expressions[:i], part, *self.expressions[i + 1 :]))

    def count(self, into: Counter[str]) -> None:
        """Counts the constructs in it."""
        into[getattr(self, "kind", "") or type(self).__name__.lower()] += 1
        for expression in self.expressions:
            into.update(each.kind for each in expression.all() if each.kind)
        for body in self.bodies:
            for statement in body:
                statement.count(into)


def holds(body: Sequence[Statement], types: dict[str, Type]) -> bool:
    """Whether all statements hold, one after the other."""
    return all(statement.holds(types) for statement in body)


def smaller_bodies(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """A list of statements with one left out, or with a smaller one."""
    for i in range(len(body)):
        yield (*body[:i], *body[i + 1 :])
    for i, statement in enumerate(body):
        for less in statement.smaller():
            yield (*body[:i], less, *body[i + 1 :])


def indented(body: Sequence[Statement]) -> list[str]:
    """The lines of a body."""
    lines = [line for statement in body for line in statement.lines()]
    return ["    " + line for line in lines or ["pass"]]


def run_all(body: Sequence[Statement], variables: Variables) -> None:
    """Runs a body."""
    for statement in body:
        statement.run(variables)


@dataclass(eq=False)
class Assign(Statement):
    """`a = x`, or `a, b = x`; `types` are what the variables hold from here on."""

    names: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    operator: str = "="

    def lines(self) -> list[str]:
        x = self.expressions[0]
        if x.row and f"{x.row[0]}=" == self.operator and str(x.operands[0]) == self.names[0]:
            return [f"{self.names[0]} {self.operator} {x.operands[1]}"]
        return [f"{', '.join(self.names)} = {x}"]

    def run(self, variables: Variables) -> None:
        value = self.expressions[0].value(variables)
        values = value if len(self.names) > 1 else (value,)
        for name, type, each in zip(self.names, self.types, values, strict=True):
            variables[name] = cast(type, each)

    def gives(self) -> dict[str, Type]:
        return dict(zip(self.names, self.types, strict=True))

    def holds(self, types: dict[str, Type]) -> bool:
        result = self.expressions[0].type
        return super().holds(types) and (result == self.types[0] or parts(result) == self.types)


@dataclass(eq=False)
class Return(Statement):
    """`return x`, perhaps on a condition, which is the first of two expressions."""

    type: Type = "int"

    def lines(self) -> list[str]:
        *condition, result = self.expressions
        return [f"if {condition[0]}:", f"    return {result}"] if condition else [f"return {result}"]

    def run(self, variables: Variables) -> None:
        *condition, result = self.expressions
        if not condition or condition[0].value(variables):
            raise Stop("return", cast(self.type, result.value(variables)))


@dataclass(eq=False)
class Function:
    """A function that a program calls. `defaults` are constants for the last parameter, `d`, whose name in the body is `q`.

    `q` is known at run time alone: what constants decide is compiled in another way, and its other half not at all.
    """

    name: str
    parameters: tuple[tuple[str, Type], ...]
    body: tuple[Statement, ...]
    type: Type
    defaults: tuple[int, ...] = ()

    def lines(self) -> list[str]:
        """Its text."""
        names = [name for name, _ in self.parameters]
        required = len(names) - len(self.defaults)
        names[required:] = [f"{n}={x}" for n, x in zip(names[required:], self.defaults, strict=True)]
        first = ["    q = d + int(device.thread_idx.y)"] * bool(self.defaults)
        return [f"def {self.name}({', '.join(names)}):", *first, *indented(self.body), "", ""]

    def call(self, *values: Any) -> Any:
        """What it returns."""
        values = (*values, *self.defaults[len(values) - len(self.parameters) + len(self.defaults) :])
        variables = {name: value for (name, _), value in zip(self.parameters, values, strict=True)}
        try:
            run_all(self.body, {**variables, "q": variables.get("d")})
        except Stop as stop:
            return stop.value
        raise Open


@dataclass(eq=False)
class Program:
    """A function of a thread: what it stores, in the order of the output's slots, and the functions that it calls."""

    number: int
    body: tuple[Statement, ...]
    stores: tuple[Expression, ...]
    functions: tuple[Any, ...] = ()
    rows: frozenset[tuple[Any, ...]] = field(default=frozenset())

    def expected(self) -> list[list[Any]]:
        """The values of each thread's slots."""
        threads: list[Variables] = [{"i": i} for i in range(THREADS)]
        for statement in self.body:
            statement.run_block(threads)
        return [[store.value(scope) for store in self.stores] for scope in threads]

    def constructs(self) -> Counter[str]:
        """How often there is what in it."""
        found: Counter[str] = Counter()
        for statement in self.body:
            statement.count(found)
        for store in self.stores:
            found.update(each.kind for each in store.all() if each.kind)
        found["function"] += len(self.functions)
        return found

    def is_consistent(self) -> bool:
        """Whether every variable is still what its uses say: without a statement it may be of another type."""
        types: dict[str, Type] = {"i": "int32"}
        return holds(self.body, types) and all(uses(store, types) for store in self.stores)

    def smaller(self) -> Iterator[Program]:
        """Programs with less in them."""
        for i in range(len(self.stores)):
            if len(self.stores) > 1:
                yield replace(self, stores=(*self.stores[:i], *self.stores[i + 1 :]))
        for body in smaller_bodies(self.body):
            yield replace(self, body=body)
        for i, store in enumerate(self.stores):
            for less in store.smaller():
                yield replace(self, stores=(*self.stores[:i], less, *self.stores[i + 1 :]))
