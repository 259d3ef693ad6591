"""Statements that change parts: elements of arrays, through views too, and members of vectors and structs.

m = device.local_array((2, 4), device.float32)      Local
m[i & 1, 2] = x                                     Store
v.x = x                                             Part: a vector's or struct's variable is another value after it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from reference import convert

from fuzz.programs import Array, Statement, Struct, Type, Variables, Vector, parts, spelled

_NONE = Array("int32", (1,))


def stored(type: Type, value: Any) -> Any:
    """A value as an element of `type`: numbers convert, and fill a vector's elements."""
    return value if isinstance(type, (Vector, Struct)) else convert(type, value)


def places(shape: Sequence[int]) -> Any:
    """The number of each element of an array of a shape, as an array of that shape."""
    return np.arange(int(np.prod(shape))).reshape(tuple(shape))


@dataclass(eq=False)
class Local(Statement):
    """A local array with its elements set, in order; expressions are the elements."""

    array: str = ""
    type: Array = _NONE

    def lines(self) -> list[str]:
        shape = self.type.shape
        shown = str(shape[0]) if len(shape) == 1 else str(shape)
        at = [", ".join(map(str, np.unravel_index(i, shape))) for i in range(len(self.expressions))]
        sets = [f"{self.array}[{place}] = {x}" for place, x in zip(at, self.expressions, strict=True)]
        return [f"{self.array} = device.local_array({shown}, {spelled(self.type.dtype)})", *sets]

    def run(self, variables: Variables) -> None:
        variables[self.array] = [stored(self.type.dtype, x.value(variables)) for x in self.expressions]

    def gives(self) -> dict[str, Type]:
        return {self.array: self.type}


@dataclass(eq=False)
class Store(Statement):
    """`m[i] = x`, `m[i, j] = x`, `m[i][j] = x`, `m[i].x = x` or `m[::2] = x`: expressions are the indices and the value.

    `at` has the numbers of the elements that may be meant. `member` is which part of the
    element changes, `text` what stands between array and value, with holes for the indices; `many` says that no
    index is left, and all of `at` get the value.
    """

    array: str = ""
    type: Array = _NONE
    at: Any = None
    member: int = -1
    text: str = "[{}]"
    many: bool = False
    operator: str = "="

    def lines(self) -> list[str]:
        *indices, value = self.expressions
        return [f"{self.array}{self.text.format(*indices)} {self.operator} {value}"]

    def run(self, variables: Variables) -> None:
        *indices, value = (expression.value(variables) for expression in self.expressions)
        found = self.at if self.many else self.at[tuple(indices)]
        changed = list(variables[self.array])
        for place in np.ravel(found):
            changed[place] = self.changed(changed[place], value)
        variables[self.array] = changed

    def changed(self, element: Any, value: Any) -> Any:
        """An element with the value in it."""
        dtype = self.type.dtype
        if self.member < 0:
            return stored(dtype, value)
        kept = list(element)
        kept[self.member] = convert(parts(dtype)[self.member], value)
        return tuple(kept)

    def needs(self) -> dict[str, Type]:
        return {self.array: self.type}


@dataclass(eq=False)
class Part(Statement):
    """`v.x = a`, `v[1] = a` or `v[i] = a` of a variable; expressions are the index, if there is one, and the value."""

    variable: str = ""
    type: Type = None
    member: int = -1
    text: str = ".x"

    def lines(self) -> list[str]:
        *index, value = self.expressions
        return [f"{self.variable}{self.text.format(*index)} = {value}"]

    def run(self, variables: Variables) -> None:
        *index, value = (expression.value(variables) for expression in self.expressions)
        member = index[0] if index else self.member
        changed = list(variables[self.variable])
        changed[member] = convert(parts(self.type)[member], value)
        variables[self.variable] = tuple(changed)

    def needs(self) -> dict[str, Type]:
        return {self.variable: self.type}
