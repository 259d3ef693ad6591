"""Atomic operations and fences. Their results do not depend on the order in which threads come."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import reference
from reference import convert, is_float

from fuzz.maker import Maker
from fuzz.programs import (
    THREADS,
    Statement,
    Type,
    spelled,
)
from fuzz.threads import ALL, new, pattern

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = ("block", "device", "system")
WIDE = ("int32", "uint32", "int64", "uint64")
UPDATES = {
    **dict.fromkeys(("add", "sub"), (*WIDE, "float32", "float64")),
    **dict.fromkeys(("and_", "or_", "xor"), WIDE),
    **dict.fromkeys(("max", "min", "nanmax", "nanmin"), (*WIDE, "float32", "float64")),
}
"""Changes whose end does not depend on the order of the threads."""
OWN = ("exch", "cas", "load", "store")


def _extreme(greater: bool, ignores: bool) -> Callable[[Type, Any, Any], Any]:
    def choose(type: Type, a: Any, b: Any) -> Any:
        if a != a or b != b:
            if a != a and b != b:
                return a
            return (b if a != a else a) if ignores else math.nan
        key = (lambda x: (x, math.copysign(1, x))) if is_float(type) else (lambda x: x)
        return max(a, b, key=key) if greater else min(a, b, key=key)

    return choose


_MEANINGS: dict[str, Callable[[Type, Any, Any], Any]] = {
    "add": lambda t, a, b: reference.binary("+", t, a, t, b),
    "sub": lambda t, a, b: reference.binary("-", t, a, t, b),
    "and_": lambda t, a, b: a & b,
    "or_": lambda t, a, b: a | b,
    "xor": lambda t, a, b: a ^ b,
    "max": _extreme(True, False),
    "min": _extreme(False, False),
    "nanmax": _extreme(True, True),
    "nanmin": _extreme(False, True),
}


def update(make: Maker, name: str, type: Type) -> Statement:
    """All threads change some cells, and see what came of it."""
    make.rows.add(("atomic", name, type))
    array, length = make.fresh(), make.pick([1, 2, 4])
    start = make.random.randint(-3, 9) if not type.startswith("u") else make.random.randint(0, 9)
    x = make.expression(type, 2)
    if is_float(type) and name in ("add", "sub"):  # sums that are exact in every order
        x = make.convert_to(type, make.masked("&", make.expression("int16", 2), 31))
    at, there = make.index(length, 1), make.index(length, 1)
    order, scope = make.pick(ORDERS), make.pick(SCOPES)
    text = (
        f"{array} = device.shared_array({length}, {spelled(type)})\nif i < {length}:\n    {array}[i] = {start}\n"
        f"device.syncthreads()\ndevice.atomic_ref({array}, {{1}}).{name}({{2}}, {order!r}, {scope!r})\n"
        f"device.syncthreads()\n{{0}} = {array}[{{3}}]\ndevice.syncthreads()"
    )

    def compute(places: Sequence[int], values: Sequence[Any], seen: Sequence[int]) -> list[Any]:
        cells = [convert(type, start)] * length
        for place, value in zip(places, values, strict=True):
            cells[place] = _MEANINGS[name](type, cells[place], value)
        return [cells[place] for place in seen]

    return new(make, type, text, compute, f"atomic {name}", at, x, there)


def own(make: Maker, name: str, type: Type) -> Statement:
    """Each thread changes a cell of its own."""
    make.rows.add(("atomic", name, type))
    array, before = make.fresh(), make.leaf(type)
    x = make.expression(type, 1)
    order = make.pick(
        {"load": ("relaxed", "acquire", "seq_cst"), "store": ("relaxed", "release", "seq_cst")}.get(name, ORDERS)
    )
    scope = make.pick((*SCOPES, "thread"))
    cell = f"device.atomic_ref({array}, i)"
    settings = f"{order!r}, {scope!r}"
    head = f"{array} = device.shared_array({THREADS}, {spelled(type)})\n{array}[i] = {{1}}\n"
    if name == "load":
        body, compute = f"{{0}} = {cell}.load({settings})", lambda old, new: old
    elif name == "store":
        body, compute = f"{cell}.store({{2}}, {settings})\n{{0}} = {array}[i]", lambda old, new: new
    elif name == "exch":
        body, compute = (
            f"{{0}} = ({cell}.exch({{2}}, {settings}), {array}[i])",
            lambda old, new: [(a, b) for a, b in zip(old, new, strict=True)],
        )
    else:
        body, compute = (
            f"{{0}} = ({cell}.cas({{2}}, {{3}}, {settings}), {array}[i])",
            lambda old, expected, new: [
                (a, c if pattern(a) == pattern(b) else a) for a, b, c in zip(old, expected, new, strict=True)
            ],
        )
    extra = (make.leaf(type),) if name == "cas" else ()
    given = type if name in ("load", "store") else (type, type)
    return new(make, given, head + body, compute, f"atomic {name}", before, x, *extra)


def fence(make: Maker, name: str) -> Statement:
    """A barrier of a warp, or a fence."""
    make.rows.add(("fence", name))
    call = f"device.syncwarp({ALL})"
    if name != "syncwarp":
        call = f"device.threadfence({name!r}, {make.pick(SCOPES)!r})"
    text = f"{call}\n{{0}} = device.int32(0)"
    return new(make, "int32", text, lambda: [0] * THREADS, "syncwarp" if name == "syncwarp" else "threadfence")
