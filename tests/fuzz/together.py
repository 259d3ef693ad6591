"""Statements that the threads of a block run together: shared memory and barriers, warp operations, atomics.

    s = device.shared_array(8, device.float32)
    s[i] = x
    device.syncthreads()
    v = s[j]
    device.syncthreads()

The reference runs each for all threads at once. Results of atomics do not depend on the order in which threads come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import reference
from reference import EVERY, EVERY_FIXED, FIXED, convert, is_float

from fuzz.expressions import binary, condition
from fuzz.maker import ELEMENTS, Maker
from fuzz.places import stored
from fuzz.programs import (
    THREADS,
    Assign,
    Expression,
    Open,
    Statement,
    Struct,
    Type,
    Variables,
    Vector,
    holds,
    indented,
    parts,
    spelled,
    uses,
    variable,
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


def _new(make: Maker, type: Type, text: str, compute: Any, kind: str, *given: Expression) -> Statement:
    name = make.fresh()
    make.define(name, type)
    return Together(given, (), name, type, text, compute, kind)


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
    return _new(
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
    return _new(make, type, text, lambda given: [compute(given)] * THREADS, f"barrier {kind}", predicate)


# Warps


def _bits_of(mask: Sequence[bool]) -> int:
    return sum(1 << i for i, each in enumerate(mask) if each)


VOTES: dict[str, tuple[Type, Callable[[Sequence[bool]], Any]]] = {
    "all_sync": ("bool", all),
    "any_sync": ("bool", any),
    "eq_sync": ("bool", lambda given: len(set(given)) == 1),
    "ballot_sync": ("int32", _bits_of),
}


def vote(make: Maker, name: str) -> Statement:
    """A vote of all lanes."""
    make.rows.add(("vote", name))
    type, compute = VOTES[name]
    call = f"device.{name}({ALL}, {make.pick(['lambda: ', ''])}{{1}})"
    text = f"{{0}} = device.int32({call})" if type == "int32" else f"{{0}} = {call}"
    predicate = condition(make, 2, ("bool",))
    return _new(make, type, text, lambda given: [compute(given)] * THREADS, name, predicate)


def _up(given: Sequence[Any], by: Sequence[int]) -> list[Any]:
    return [given[i - d] if i >= d else given[i] for i, d in enumerate(by)]


def _down(given: Sequence[Any], by: Sequence[int]) -> list[Any]:
    return [given[i + d % (THREADS - i)] for i, d in enumerate(by)]


SHUFFLES: dict[str, Callable[[Sequence[Any], Sequence[int]], list[Any]]] = {
    "shfl_sync": lambda given, at: [given[k] for k in at],
    "shfl_up_sync": _up,
    "shfl_down_sync": _down,
    "shfl_xor_sync": lambda given, by: [given[i ^ d] for i, d in enumerate(by)],
}


def shuffle(make: Maker, name: str, type: Type) -> Statement:
    """A value of another lane."""
    make.rows.add((name, type))
    given = make.expression(type, 2)
    lane = make.masked("&", make.expression(make.pick(["int", "int32", "uint8", "int64"]), 2), THREADS - 1)
    text, compute = f"{{0}} = device.{name}({ALL}, {{1}}, {{2}})", SHUFFLES[name]
    if name == "shfl_down_sync":  # of a lane that there is
        text = f"{{0}} = device.{name}({ALL}, {{1}}, device.int32({{2}}) % ({THREADS} - i))"
        compute = _down
    return _new(make, type, text, compute, name, given, lane)


def _pattern(value: Any) -> Any:
    """What stands for a value's bits. Which NaN a NaN is, is left open."""
    if isinstance(value, tuple):
        return tuple(map(_pattern, value))
    if isinstance(value, complex):
        return _pattern(value.real), _pattern(value.imag)
    if isinstance(value, float):
        if math.isnan(value):
            raise Open
        return value, math.copysign(1.0, value)
    return value


def match_any(make: Maker, type: Type) -> Statement:
    """The lanes with the same bits."""
    make.rows.add(("match_any_sync", type))

    def compute(given: Sequence[Any]) -> list[int]:
        bits = [*map(_pattern, given)]
        return [_bits_of([each == own for each in bits]) for own in bits]

    text = f"{{0}} = device.int32(device.match_any_sync({ALL}, {{1}}))"
    return _new(make, "int32", text, compute, "match_any_sync", make.expression(type, 1))


def match_all(make: Maker, type: Type) -> Statement:
    """All lanes or none."""
    make.rows.add(("match_all_sync", type))

    def compute(given: Sequence[Any]) -> list[tuple[int, bool]]:
        same = len({_pattern(each) for each in given}) == 1
        return [((1 << THREADS) - 1 if same else 0, same)] * THREADS

    text = f"{{0}} = device.match_all_sync({ALL}, {{1}})\n{{0}} = (device.int32({{0}}[0]), {{0}}[1])"
    return _new(make, ("int32", "bool"), text, compute, "match_all_sync", make.expression(type, 1))


def diverged(make: Maker, name: str) -> Statement:
    """Lanes that go one way vote among themselves."""
    make.rows.add(("diverged", name))
    mask = make.fresh()
    branch, predicate = condition(make, 1, ("bool",)), condition(make, 1, ("bool",))
    type, compute = VOTES[name]
    call = f"device.{name}({mask}, lambda: {{2}})"
    shown = f"device.int32({call})" if type == "int32" else call
    other = "device.int32(-1)" if type == "int32" else "True"
    text = (
        f"{mask}p = {{1}}\n{mask} = device.ballot_sync({ALL}, {mask}p)\nif {mask}p:\n    {{0}} = {shown}\n"
        f"else:\n    {{0}} = {other}\ndevice.syncwarp({ALL})"
    )

    def result(ways: Sequence[bool], given: Sequence[bool]) -> list[Any]:
        lanes = [i for i, way in enumerate(ways) if way]
        found = _bits_of([way and flag for way, flag in zip(ways, given, strict=True)])
        if type == "bool":
            found = compute([given[i] for i in lanes]) if lanes else False
        return [found if way else (-1 if type == "int32" else True) for way in ways]

    return _new(make, type, text, result, f"diverged {name}", branch, predicate)


# Atomics

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

    return _new(make, type, text, compute, f"atomic {name}", at, x, there)


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
                (a, c if _pattern(a) == _pattern(b) else a) for a, b, c in zip(old, expected, new, strict=True)
            ],
        )
    extra = (make.leaf(type),) if name == "cas" else ()
    given = type if name in ("load", "store") else (type, type)
    return _new(make, given, head + body, compute, f"atomic {name}", before, x, *extra)


def fence(make: Maker, name: str) -> Statement:
    """A barrier of a warp, or a fence."""
    make.rows.add(("fence", name))
    call = f"device.syncwarp({ALL})"
    if name != "syncwarp":
        call = f"device.threadfence({name!r}, {make.pick(SCOPES)!r})"
    text = f"{call}\n{{0}} = device.int32(0)"
    return _new(make, "int32", text, lambda: [0] * THREADS, "syncwarp" if name == "syncwarp" else "threadfence")


MASKS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "active": ("(device.int32(device.activemask()) >> i) & ({1} | 1) & 1", lambda i, x: 1),
    "operators": (
        "device.int32(~device.WarpMask({1}) ^ device.WarpMask(0x1F) | device.WarpMask(8))",
        lambda i, x: ~x ^ 31 | 8,
    ),
    "below": ("device.int32(device.lanemask_lt() & {1})", lambda i, x: ((1 << i) - 1) & x),
    "item": ("device.int32(device.WarpMask({1})[i])", lambda i, x: x >> i & 1),
}


def masks(make: Maker, name: str) -> Statement:
    """Masks of lanes."""
    make.rows.add(("mask", name))
    text, compute = MASKS[name]
    x = make.expression("int32", 2)
    return _new(make, "int32", f"{{0}} = {text}", lambda xs: [compute(i, x) for i, x in enumerate(xs)], "mask", x)


def size_of(type: Type) -> int:
    """The bytes of a value, without padding."""
    return reference.bits(type) // 8 if type in EVERY else sum(map(size_of, parts(type)))


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
