"""What programs are made of: expressions and statements, each with its text and with what it does to the reference's variables.

    Expression("int8", "{} + {}", (x, y), lambda a, b: …)      text with holes for its operands; values of Python
    Assign("v3", x)                                            v3 = …

A type is a name, as in `reference`; a tuple type is a tuple of types. Values are Python's. A value that the rules leave open
raises `Open`: such a program is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reference import UNSPECIFIED, convert

Type = Any
Variables = dict[str, Any]


class Open(Exception):
    """The program's result is not settled by the rules, or takes too long."""


class Stop(Exception):
    """`break`, `continue` or `return`."""

    def __init__(self, kind: str, value: Any = None) -> None:
        super().__init__(kind)
        self.kind, self.value = kind, value


def cast(type: Type, value: Any) -> Any:
    """A value as a variable of `type` holds it after control flow has met."""
    if isinstance(type, tuple):
        return tuple(map(cast, type, value))
    return convert(type, value) if isinstance(value, (bool, int, float)) else value


@dataclass(frozen=True, eq=False)
class Expression:
    """`text` has a hole for each operand; `compute` gets their values. A `literal` is a constant of Python.

    `lazy` operands are not evaluated first: `compute` gets functions for all of them.
    """

    type: Type
    text: str
    operands: tuple[Expression, ...] = ()
    compute: Callable[..., Any] = lambda: None
    literal: bool = False
    lazy: bool = False
    name: str = ""
    row: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text.format(*self.operands)

    def value(self, variables: Variables) -> Any:
        """What it is for these variables."""
        if self.name:
            return variables[self.name]
        if self.lazy:
            result = self.compute(*((lambda e=operand: e.value(variables)) for operand in self.operands))
        else:
            result = self.compute(*[operand.value(variables) for operand in self.operands])
        if result is UNSPECIFIED:
            raise Open
        return result

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


@dataclass(frozen=True, eq=False)
class Statement:
    """`lines` with holes for the expressions, and for each body where it stands alone on its line as `{0}`."""

    expressions: tuple[Expression, ...] = ()
    bodies: tuple[tuple[Statement, ...], ...] = ()

    def lines(self) -> list[str]:
        """Its text."""
        raise NotImplementedError

    def run(self, variables: Variables) -> None:
        """What it does."""
        raise NotImplementedError

    def smaller(self) -> Iterator[Statement]:
        """The same with less in it."""
        for i, body in enumerate(self.bodies):
            for less in smaller_bodies(body):
                yield replace(self, bodies=(*self.bodies[:i], less, *self.bodies[i + 1 :]))
        for i, expression in enumerate(self.expressions):
            for part in expression.smaller():
                yield replace(self, expressions=(*self.expressions[:i], part, *self.expressions[i + 1 :]))


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


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class Store(Statement):
    """`m[i] = x` of a local array `m` of `dtype`: expressions are the index and the value."""

    array: str = ""
    dtype: str = ""

    def lines(self) -> list[str]:
        return [f"{self.array}[{self.expressions[0]}] = {self.expressions[1]}"]

    def run(self, variables: Variables) -> None:
        index, value = (expression.value(variables) for expression in self.expressions)
        changed = list(variables[self.array])
        changed[index] = convert(self.dtype, value)
        variables[self.array] = changed


@dataclass(frozen=True, eq=False)
class Local(Statement):
    """A local array with its elements set; expressions are the elements."""

    array: str = ""
    dtype: str = ""

    def lines(self) -> list[str]:
        sets = [f"{self.array}[{i}] = {x}" for i, x in enumerate(self.expressions)]
        return [f"{self.array} = device.local_array({len(self.expressions)}, device.{self.dtype})", *sets]

    def run(self, variables: Variables) -> None:
        variables[self.array] = [convert(self.dtype, x.value(variables)) for x in self.expressions]

    def smaller(self) -> Iterator[Statement]:
        for i, expression in enumerate(self.expressions):
            for part in expression.smaller():
                yield replace(self, expressions=(*self.expressions[:i], part, *self.expressions[i + 1 :]))


@dataclass(frozen=True, eq=False)
class If(Statement):
    """`if` with as many conditions as expressions; the last body is `else`. `joined` are variables and what they are after it."""

    joined: tuple[tuple[str, Type], ...] = ()

    def lines(self) -> list[str]:
        lines = []
        for word, condition, body in zip(
            ["if", *["elif"] * len(self.expressions)], self.expressions, self.bodies, strict=False
        ):
            lines += [f"{word} {condition}:", *indented(body)]
        return [*lines, "else:", *indented(self.bodies[-1])] if self.bodies[-1] else lines

    def run(self, variables: Variables) -> None:
        chosen = next((i for i, x in enumerate(self.expressions) if x.value(variables)), -1)
        run_all(self.bodies[chosen], variables)
        for name, type in self.joined:
            if name in variables:
                variables[name] = cast(type, variables[name])


@dataclass(frozen=True, eq=False)
class Match(If):
    """`match` on constants: `values` are the cases; expressions are what is matched."""

    values: tuple[int, ...] = ()

    def lines(self) -> list[str]:
        cases = [f"    case {' | '.join(map(str, case))}:" for case in self.values]
        lines = [f"match {self.expressions[0]}:"]
        for case, body in zip([*cases, "    case _:"], self.bodies, strict=True):
            lines += [case, *("    " + line for line in indented(body))]
        return lines

    def run(self, variables: Variables) -> None:
        value = self.expressions[0].value(variables)
        chosen = next((i for i, case in enumerate(self.values) if value in case), -1)
        run_all(self.bodies[chosen], variables)
        for name, type in self.joined:
            if name in variables:
                variables[name] = cast(type, variables[name])


@dataclass(frozen=True, eq=False)
class Loop(Statement):
    """A `for` over a range (expressions are its arguments), over a tuple (the one expression), or a `while` that counts.

    `carried` are the variables that the body changes, with what they are in the loop and after it.
    """

    kind: str = "range"
    counter: str = ""
    type: Type = "int"
    carried: tuple[tuple[str, Type], ...] = ()

    def lines(self) -> list[str]:
        listed = ", ".join(map(str, self.expressions))
        if self.kind == "while":
            head = [f"{self.counter} = 0", f"while {self.counter} < {listed}:", f"    {self.counter} += 1"]
        else:
            head = [f"for {self.counter} in {listed if self.kind == 'tuple' else f'range({listed})'}:"]
        lines = [*head, *indented(self.bodies[0])]
        return [*lines, "else:", *indented(self.bodies[1])] if len(self.bodies) > 1 else lines

    def run(self, variables: Variables) -> None:
        # A range's arguments are asked for once, before the ways of the loop meet; a condition is asked behind that.
        items = self.items(variables) if self.kind != "while" else ()
        for name, type in self.carried:
            variables[name] = cast(type, variables[name])
        for item in items if self.kind != "while" else self.items(variables):
            variables[self.counter] = cast(self.type, item) if self.kind != "tuple" else item
            try:
                run_all(self.bodies[0], variables)
            except Stop as stop:
                if stop.kind == "break":
                    break
                if stop.kind == "return":
                    raise
            finally:
                for name, type in self.carried:
                    variables[name] = cast(type, variables[name])
        else:
            for body in self.bodies[1:]:
                run_all(body, variables)

    def items(self, variables: Variables) -> Sequence[Any]:
        """What the loop runs over."""
        values = [x.value(variables) for x in self.expressions]
        if self.kind == "tuple":
            return values[0]
        if len(values) == 3 and values[2] == 0:
            raise Open
        found = range(1, int(values[0]) + 1) if self.kind == "while" else range(*values)
        if max(found.start, found.stop, key=abs) > 1000 or len(found) > 40:
            raise Open
        return found


@dataclass(frozen=True, eq=False)
class Leave(Statement):
    """`if x: break` or `if x: continue`."""

    kind: str = "break"

    def lines(self) -> list[str]:
        return [f"if {self.expressions[0]}:", f"    {self.kind}"]

    def run(self, variables: Variables) -> None:
        if self.expressions[0].value(variables):
            raise Stop(self.kind)


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class Function:
    """A function that a program calls."""

    name: str
    parameters: tuple[tuple[str, Type], ...]
    body: tuple[Statement, ...]
    type: Type

    def lines(self) -> list[str]:
        """Its text."""
        return [f"def {self.name}({', '.join(name for name, _ in self.parameters)}):", *indented(self.body), "", ""]

    def call(self, *values: Any) -> Any:
        """What it returns."""
        names = [name for name, _ in self.parameters]
        try:
            run_all(self.body, dict(zip(names, values, strict=True)))
        except Stop as stop:
            return stop.value
        raise Open


@dataclass(frozen=True, eq=False)
class Program:
    """A function of a thread: what it stores, in the order of the output's slots, and the functions that it calls."""

    number: int
    body: tuple[Statement, ...]
    stores: tuple[Expression, ...]
    functions: tuple[Function, ...] = ()
    rows: frozenset[tuple[str, ...]] = field(default=frozenset())

    def expected(self, variables: Variables) -> list[Any]:
        """The values of a thread's slots."""
        scope = dict(variables)
        run_all(self.body, scope)
        return [store.value(scope) for store in self.stores]

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
