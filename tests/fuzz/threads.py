"""Statements in which the threads of a block meet: what `together`, `warps` and `atomics` are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import reference
from reference import EVERY

from fuzz.maker import Maker
from fuzz.programs import (
    THREADS,
    Expression,
    Open,
    Statement,
    Type,
    Variables,
    holds,
    indented,
    parts,
    uses,
)

ALL = f"{(1 << THREADS) - 1:#x}"


@dataclass(eq=False)
class Together(Statement):
    """A value for each thread from the values of all: `compute` gets, for each expression, the list of them.

    `text` has a hole for each expression after that for the variable's name; a line break ends a line.
    """

    name: str = ""
    type: Type = "int32"
    text: str = ""
    compute: Callable[..., Sequence[Any]] = lambda *_: ()
    kind: str = "together"

    def lines(self) -> list[str]:
        return self.text.format(self.name, *self.expressions).split("\n")

    def run_block(self, threads: Sequence[Variables]) -> None:
        given = [[x.value(variables) for variables in threads] for x in self.expressions]
        for variables, value in zip(threads, self.compute(*given), strict=True):
            if value is reference.UNSPECIFIED:
                raise Open
            variables[self.name] = value

    def gives(self) -> dict[str, Type]:
        return {self.name: self.type}


@dataclass(eq=False)
class Repeat(Statement):
    """A loop whose iterations all threads do together; the expression is what the variable `total` is before it."""

    counter: str = ""
    times: int = 2
    total: str = ""
    type: Type = "int32"

    def lines(self) -> list[str]:
        inside = indented(self.bodies[0])
        return [f"{self.total} = {self.expressions[0]}", f"for {self.counter} in range({self.times}):", *inside]

    def run_block(self, threads: Sequence[Variables]) -> None:
        for variables in threads:
            variables[self.total] = self.expressions[0].value(variables)
        for count in range(self.times):
            for variables in threads:
                variables[self.counter] = count
            for statement in self.bodies[0]:
                statement.run_block(threads)

    def holds(self, types: dict[str, Type]) -> bool:
        if not uses(self.expressions[0], types):
            return False
        types[self.total] = self.type
        inside = types | {self.counter: "int"}
        return holds(self.bodies[0], inside) and inside[self.total] == self.type


def new(make: Maker, type: Type, text: str, compute: Any, kind: str, *given: Expression) -> Statement:
    """The statement that defines a new variable."""
    name = make.fresh()
    make.define(name, type)
    return Together(given, (), name, type, text, compute, kind)


def pattern(value: Any) -> Any:
    """What stands for a value's bits. Which NaN a NaN is, is left open."""
    if isinstance(value, tuple):
        return tuple(map(pattern, value))
    if isinstance(value, complex):
        return pattern(value.real), pattern(value.imag)
    if isinstance(value, float):
        if math.isnan(value):
            raise Open
        return value, math.copysign(1.0, value)
    return value


def size_of(type: Type) -> int:
    """The bytes of a value, without padding."""
    return reference.bits(type) // 8 if type in EVERY else sum(map(size_of, parts(type)))
