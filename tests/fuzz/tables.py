"""What programs find on the host: arrays, whose elements are constants, lists that are indexed at run time, and structs.

TABLE_int8[i], LIST_float[n % 16]
S_int8_float32(x, y).plus(z)        x + z
"""

from __future__ import annotations

from typing import Any

import numpy as np
import reference
from reference import convert

import cuda_device as device
from fuzz.maker import SECONDS, Maker
from fuzz.programs import Expression, Type

TABLES: dict[str, Any] = {
    f"TABLE_{type}": np.array([v for v in reference.edges(type) if v == v][:8], reference.storage(type))
    for type in reference.EVERY_FIXED
}
"""Arrays of the host that programs read as constants."""


def of_table(make: Maker, type: Type, depth: int) -> Expression | None:
    """An element of an array of the host."""
    name = f"TABLE_{type}"
    if make.inside or name not in TABLES:
        return None
    values = [v for v in reference.edges(type) if v == v][:8]
    index = make.index(len(values), depth)
    make.rows.add(("table", type))
    return Expression(type, f"{name}[{{}}]", (index,), lambda i: values[i], kind="constant array")


LISTS: dict[str, Any] = {
    "LIST_int": [7, -1, 0, 2**31 - 1, -(2**31), 12, 255, -256, 3, 1, -100, 65536, 42, -7, 9, 1000],
    "LIST_float": (
        0.5, -0.0, 3.0, 1e10, -2.25, float("inf"), 0.1, -7.0, 1e-30, 100.0, -0.5, 2.0, 65504.0, -1e-8, 6.5, 0.0,
    ),
}  # fmt: skip
"""Sequences of the host that are indexed when the program runs."""


def of_list(make: Maker, type: Type, depth: int) -> Expression | None:
    """An element of a list or tuple of the host."""
    name = f"LIST_{type}"
    if make.inside or name not in LISTS:
        return None
    values = [convert(type, value) for value in LISTS[name]]
    index = make.index(len(values), depth)
    return Expression(type, f"{name}[{{}}]", (index,), lambda i: values[i], kind="constant list")


def _made(first: str, second: str) -> Any:
    name = f"S_{first}_{second}"

    def plus(self: Any, z: Any) -> Any:
        return self.x + z

    def add(self: Any, other: Any) -> Any:
        return device.replace(self, x=self.x + other.x)

    def exchange(self: Any, z: Any) -> Any:
        old = self.x
        self.x = z
        return old

    body = {
        "__annotations__": {"x": getattr(device, first), "y": getattr(device, second)},
        "plus": device.func(plus),
        "__add__": device.func(add),
        "exchange": device.func(exchange),
        "__module__": __name__,
    }
    return device.struct(type(name, (), body))


STRUCTS = {f"S_{first}_{second}": _made(first, second) for first in reference.EVERY_FIXED for second in SECONDS}
"""Structs with a member of each of two types, and methods."""
