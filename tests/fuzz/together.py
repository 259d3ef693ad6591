"""Statements that the threads of a block run together: shared memory and barriers, warp operations, atomics.

    s = device.shared_array(8, device.float32)
    s[i] = x
    device.syncthreads()
    v = s[j]
    device.syncthreads()

The reference runs each for all threads at once. Warps are in `warps`, atomics in `atomics`.
"""

from __future__ import annotations

from typing import Any

import reference
from reference import EVERY, EVERY_FIXED, FIXED

from fuzz.atomics import ORDERS, OWN, UPDATES, fence, own, update
from fuzz.expressions import binary, condition
from fuzz.maker import ELEMENTS, Maker
from fuzz.places import stored
from fuzz.programs import (
    THREADS,
    Assign,
    Statement,
    Struct,
    Type,
    Vector,
    spelled,
    variable,
)
from fuzz.threads import Repeat, new
from fuzz.warps import MASKS, SHUFFLES, VOTES, diverged, masks, match_all, match_any, shuffle, vote

# Shared memory


def exchange(make: Maker, type: Type, dynamic: bool = False) -> Statement:
    """Threads hand over values in shared memory."""
    make.rows.add(("dynamic" if dynamic else "shared", type))
    made = f"device.shared_array({THREADS}, {spelled(type)})"
    if dynamic:
        made = f"device.dynamic_shared_array().view({spelled(type)})[:{THREADS}]"
    x = make.expression(type if type not in EVERY else make.pick([type, "int8"]), 2)
    array = make.fresh()
    text = f"{array} = {made}\n{array}[i] = {{1}}\ndevice.syncthreads()\n{{0}} = {array}[{{2}}]\ndevice.syncthreads()"
    return new(
        make,
        type,
        text,
        lambda values, at: [stored(type, values[k]) for k in at],
        "shared memory",
        x,
        make.index(THREADS, 2),
    )


def barrier(make: Maker, kind: str) -> Statement:
    """`syncthreads_count`, `_and`, `_or`."""
    make.rows.add(("barrier", kind))
    name, type, compute = {
        "count": ("syncthreads_count", "int32", sum),
        "and": ("syncthreads_and", "bool", all),
        "or": ("syncthreads_or", "bool", any),
    }[kind]
    predicate = condition(make, 2, ("bool",))
    text = f"{{0}} = device.{name}({make.pick(['lambda: ', ''])}{{1}})"
    return new(make, type, text, lambda given: [compute(given)] * THREADS, f"barrier {kind}", predicate)


# Rows

EXCHANGED = (
    *EVERY,
    *(Vector(e, n) for e in ELEMENTS for n in (1, 2, 3, 4) if reference.bits(e) * n <= 128),
    ("int8", "float64"),
    ("float32", "bool", "int16"),
    Struct("int32", "float32"),
    Struct("float8e4m3", "float64"),
)
IN_MEMORY = tuple(
    t for t in EXCHANGED if t not in ("int", "index", "float", "complex", "bool") and not isinstance(t, tuple)
)
ATOMIC = tuple(t for t in EVERY_FIXED if reference.bits(t) <= 64)

ROWS: tuple[tuple[Any, ...], ...] = (
    *(("shared", t) for t in IN_MEMORY),
    *(("barrier", kind) for kind in ("count", "and", "or")),
    *(("vote", name) for name in VOTES),
    *(("diverged", name) for name in VOTES),
    *((name, t) for name in SHUFFLES for t in EXCHANGED),
    *((name, t) for name in ("match_any_sync", "match_all_sync") for t in EXCHANGED),
    *(("atomic", name, t) for name, types in UPDATES.items() for t in types),
    *(("atomic", name, t) for name in OWN for t in ATOMIC),
    *(("atomic", name, "complex128") for name in ("load", "store")),
    *(("fence", name) for name in ("syncwarp", *ORDERS)),
    *(("mask", name) for name in MASKS),
    *(("dynamic", t) for t in EVERY_FIXED),
)
"""What threads do together, with each type that can be had."""


def of_row(make: Maker, row: tuple[Any, ...]) -> Statement:
    """The statement of a row."""
    match row:
        case ("shared", type):
            return exchange(make, type)
        case ("dynamic", type):
            return exchange(make, type, dynamic=True)
        case ("mask", name):
            return masks(make, name)
        case ("barrier", kind):
            return barrier(make, kind)
        case ("vote", name):
            return vote(make, name)
        case ("diverged", name):
            return diverged(make, name)
        case ("match_any_sync", type):
            return match_any(make, type)
        case ("match_all_sync", type):
            return match_all(make, type)
        case ("atomic", name, type):
            return own(make, name, type) if name in OWN else update(make, name, type)
        case ("fence", name):
            return fence(make, name)
        case (name, type):
            return shuffle(make, name, type)
    raise AssertionError(row)


def in_a_loop(make: Maker) -> Statement:
    """A value that goes from lane to lane, and is gathered on the way."""
    counter, total = make.fresh(), make.fresh()
    type = make.pick(FIXED)
    first = make.expression(type, 1)
    scope = make.scope.copy()
    make.types.update({counter: "int", total: type})
    name = make.pick([*SHUFFLES])
    body = [of_row(make, make.pick([("shared", type), (name, type)]))]
    last = body[0].gives()
    (other,) = last
    sum = binary(make, make.pick("+-*"), variable(total, type), variable(other, type))
    assert sum is not None
    body.append(Assign((sum,), (), (total,), (type,)))
    make.scope = scope
    make.define(total, type)
    return Repeat((first,), (tuple(body),), counter, make.pick([2, 3]), total, type)
