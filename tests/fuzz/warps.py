"""Operations of warps: votes, shuffles, matches, masks, also where threads have taken different ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fuzz.expressions import condition
from fuzz.maker import Maker
from fuzz.programs import (
    THREADS,
    Statement,
    Type,
)
from fuzz.threads import ALL, new, pattern


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
    return new(make, type, text, lambda given: [compute(given)] * THREADS, name, predicate)


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
    return new(make, type, text, compute, name, given, lane)


def match_any(make: Maker, type: Type) -> Statement:
    """The lanes with the same bits."""
    make.rows.add(("match_any_sync", type))

    def compute(given: Sequence[Any]) -> list[int]:
        bits = [*map(pattern, given)]
        return [_bits_of([each == own for each in bits]) for own in bits]

    text = f"{{0}} = device.int32(device.match_any_sync({ALL}, {{1}}))"
    return new(make, "int32", text, compute, "match_any_sync", make.expression(type, 1))


def match_all(make: Maker, type: Type) -> Statement:
    """All lanes or none."""
    make.rows.add(("match_all_sync", type))

    def compute(given: Sequence[Any]) -> list[tuple[int, bool]]:
        same = len({pattern(each) for each in given}) == 1
        return [((1 << THREADS) - 1 if same else 0, same)] * THREADS

    text = f"{{0}} = device.match_all_sync({ALL}, {{1}})\n{{0}} = (device.int32({{0}}[0]), {{0}}[1])"
    return new(make, ("int32", "bool"), text, compute, "match_all_sync", make.expression(type, 1))


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

    return new(make, type, text, result, f"diverged {name}", branch, predicate)


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
    return new(make, "int32", f"{{0}} = {text}", lambda xs: [compute(i, x) for i, x in enumerate(xs)], "mask", x)
