"""Functions that programs call: plain ones, recursive ones, nested ones that capture variables, lambdas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import reference
from reference import EVERY, EVERY_FIXED, result_type

from fuzz.control import joined
from fuzz.expressions import binary, condition, is_choice
from fuzz.maker import COMMON, WHOLE, Maker, Scope
from fuzz.programs import (
    Expression,
    Function,
    Open,
    Return,
    Statement,
    Struct,
    Type,
    Variables,
    Vector,
    indented,
    variable,
)


def make_function(make: Maker) -> None:
    """A function of some types, with a result on two ways, or a recursive one."""
    other = make.other()
    name = f"f{make.number}_{len(make.functions)}"
    if make.chance(0.25):
        make.functions.append(_recursive(make, other, name))
        return
    options = [*COMMON, ("int8", "float64"), Vector("float32", 3), Vector("int16", 2), Struct("int32", "float32")]
    parameters: list[tuple[str, Type]] = [(f"p{i}", make.pick(options)) for i in range(make.random.randint(1, 3))]
    defaults: tuple[int, ...] = ()
    if make.chance(0.25):
        parameters.append(("d", "int"))
        defaults = (make.random.randint(0, 9),)
    types: list[Type] = [make.pick(COMMON)]
    types.append(make.pick(COMMON))
    if joined(*types) is None:
        types[1] = types[0]
    other.scope = Scope({"q" if name == "d" else name: type for name, type in parameters})
    body = [*other.body(1)]
    result = joined(*types)
    body.append(Return((condition(other, 2, ("bool",)), _returned(other, types[0])), (), result))
    body.append(Return((_returned(other, types[1]),), (), result))
    make.rows |= other.rows | {("join", *types)}
    make.functions.append(Function(name, tuple(parameters), tuple(body), result, defaults))


def _returned(make: Maker, type: Type) -> Expression:
    """What a function returns, without a choice: from 3.12 on CPython may end each of its ways with a `return` of its own."""
    for depth in (2, 2, 2, 1, 1, 0):
        found = make.expression(type, depth)
        if not any(is_choice(each) for each in found.all()):
            return found
    raise Open


@dataclass(eq=False)
class Recursive(Function):
    """`if n <= 0: return x`, else what two calls with a smaller n give, or one."""

    step: Expression | None = None
    twice: bool = False

    def lines(self) -> list[str]:
        (n, _), (x, _) = self.parameters
        deeper = f"{self.name}({n} - 1, after)"
        result = f"{deeper} + {self.name}({n} - 2, {x})" if self.twice else deeper
        return [
            f"def {self.name}({n}, {x}):",
            f"    if {n} <= 0:",
            f"        return {x}",
            # A choice that is part of a `return` is two of them in some releases of Python, whose types do not meet.
            f"    after = {self.step}",
            f"    return {result}",
            "",
            "",
        ]

    def call(self, *values: Any) -> Any:
        n, x = values
        if n <= 0:
            return x
        assert self.step is not None
        (first, _), (second, _) = self.parameters
        deeper = self.call(n - 1, self.step.value({first: n, second: x}))
        if not self.twice:
            return deeper
        found = reference.binary("+", self.type, deeper, self.type, self.call(n - 2, x))
        if found is reference.UNSPECIFIED:
            raise Open
        return found


def _recursive(make: Maker, other: Maker, name: str) -> Recursive:
    counter = make.pick([t for t in WHOLE if not t.startswith("u")])
    type = make.pick(EVERY_FIXED)
    other.scope = Scope({"n": counter, "x": type})
    step = other.expression(type, 2)
    make.rows |= other.rows
    twice = make.chance(0.4) and result_type("+", type, type) == type
    return Recursive(name, (("n", counter), ("x", type)), (), type, (), step, twice)


def of_function(make: Maker, type: Type, depth: int) -> Expression | None:
    """A call of one of the program's functions."""
    known = [function for function in make.functions if function.type == type]
    if not known or make.inside:
        return None
    function = make.pick(known)
    given = function.parameters
    if function.defaults and make.chance(0.5):
        given = given[:-1]
    if isinstance(function, Recursive):
        n = make.masked("&", make.expression(given[0][1], depth - 1), 3)
        operands = [n, make.expression(given[1][1], depth - 1)]
    else:
        operands = [make.expression(each, depth - 1) for _, each in given]
    holes = ["{}" for _ in operands]
    if make.chance(0.3):
        holes[-1] = f"{given[-1][0]}={{}}"
    text = f"{function.name}({', '.join(holes)})"
    if make.chance(0.15):
        text = f"functools.partial({function.name}, {{}})({', '.join(holes[1:])})"
    if make.chance(0.15) and "=" not in holes[-1]:
        text = f"{function.name}(*({', '.join(holes)},))"
    kind = "recursive call" if isinstance(function, Recursive) else "call"
    return Expression(type, text, tuple(operands), function.call, kind=kind)


def of_lambda(make: Maker, type: Type, depth: int) -> Expression | None:
    """A lambda that is called where it is, and sees the variables around it."""
    if make.inside or depth < 1 or make.chance(0.6):
        return None
    name, given = make.fresh(), make.pick(COMMON)
    argument = make.expression(given, depth - 1)
    scope = make.scope.copy()
    make.types[name] = given
    body = make.expression(type, depth - 1)
    make.scope = scope
    if any(is_choice(each) for each in body.all()):
        return None
    return Expression(
        type,
        f"(lambda {name}: {{1}})({{0}})",
        (argument, body),
        lambda inside, x: inside(x),
        binds=((name, given),),
        kind="lambda",
    )


@dataclass(eq=False)
class Nested(Statement):
    """`def g(p): return x`, where x has variables of the program: what they are is asked when it is called."""

    name: str = ""
    parameter: str = ""
    given: Type = "int32"

    def lines(self) -> list[str]:
        return [f"def {self.name}({self.parameter}):", *indented([Return(self.expressions)])]

    def run(self, variables: Variables) -> None:
        """Nothing: whoever calls it has what it computes."""

    def smaller(self) -> Iterator[Statement]:
        """Nothing: whoever calls it would have to change with it."""
        yield from ()

    def holds(self, types: dict[str, Type]) -> bool:
        types[self.name] = "function"
        return True


def nested(make: Maker, depth: int) -> Statement | None:
    """A nested function."""
    name, parameter, given = make.fresh(), make.fresh(), make.pick(COMMON)
    type = make.pick(EVERY)
    scope = make.scope.copy()
    make.types[parameter] = given
    names = make.names()
    body = make.expression(type, 1)
    if names:
        found = binary(make, make.pick("+-*&|^"), variable(c := make.pick(names), make.types[c]), body)
        body = found or body
    make.scope = scope
    if any(is_choice(each) or each.type == "index" for each in body.all()):
        return None
    free = {e.name: e.type for e in body.all() if e.name and e.name not in (parameter, "i")}
    make.scope.closures[name] = (parameter, given, body, free)
    return Nested((body,), (), name, parameter, given)


def of_closure(make: Maker, type: Type, depth: int) -> Expression | None:
    """A call of a nested function, if what it captures still has the types that it had."""
    if make.inside:
        return None
    for name, (parameter, given, body, free) in make.scope.closures.items():
        if body.type == type and all(make.type_of(each) == what for each, what in free.items()):
            argument = make.expression(given, depth - 1)
            return Expression(
                type,
                "{1}({0})",
                (argument, variable_function(name), body),
                lambda inside, x, _: inside(x),
                binds=((parameter, given),),
                kind="closure",
            )
    return None


def variable_function(name: str) -> Expression:
    """The name of a nested function."""
    return Expression("function", name, (), lambda: None)
