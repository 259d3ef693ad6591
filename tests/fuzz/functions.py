"""Functions that programs call: plain ones and recursive ones. Closures and lambdas are those of `pythonic`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import reference
from reference import EVERY_FIXED, result_type

from fuzz.control import joined
from fuzz.expressions import condition, is_choice
from fuzz.maker import COMMON, WHOLE, Maker, Scope
from fuzz.programs import (
    Expression,
    Function,
    Open,
    Return,
    Struct,
    Type,
    Vector,
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
