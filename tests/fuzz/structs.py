"""The structs that programs use: a member of each of two types, and methods.

S_int8_float32(x, y).plus(z)        x + z
"""

from __future__ import annotations

from typing import Any

import reference

import cuda_device as device


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


SECONDS = ("int8", "uint16", "int32", "uint64", "float8e4m3", "bfloat16", "float32", "float64", "complex64")
STRUCTS = {f"S_{first}_{second}": _made(first, second) for first in reference.EVERY_FIXED for second in SECONDS}
