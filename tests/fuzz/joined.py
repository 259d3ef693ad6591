"""What is known where ways meet, by the laws of a lattice.

join(a, b) == join(b, a), and it holds both
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import reference

from cuda_device.infer.joins import common, join, join_all
from cuda_device.types.known import (
    FAILED,
    UNKNOWN,
    Conflict,
    Identity,
    Known,
    State,
    Undefined,
    constant,
    iterator_of,
    literal,
    of_type,
    tuple_of,
)
from cuda_device.types.model import NUMBERS, Range, Ref, Space, Struct
from fuzz.bounds import some_bounds
from fuzz.host_values import SCALARS


def a_known(choose: random.Random, depth: int = 1) -> Known:
    """What may be known of something."""
    match choose.randrange(9 if depth else 5):
        case 0:
            return constant(choose.choice((0, 1, -1, True, 0.0, -0.0, 2.5, 7, 300, 1j, None)))
        case 1:
            return literal(
                choose.choice(
                    (np.int8(3), np.int8(-3), np.float32(0.5), np.uint64(2**63), np.float16(-0.0), np.complex64(1j))
                )
            )
        case 2 | 3:
            number = NUMBERS[choose.choice([*NUMBERS])]
            if number.is_integer and choose.random() < 0.6:
                low, high = some_bounds(choose, number)
                return Known(number, low=low, high=high)
            return of_type(number, nonneg=choose.random() < 0.3)
        case 4:
            return constant(choose.choice((len, max, "text")))
        case 5 | 6:
            return tuple_of(tuple(a_known(choose, 0) for _ in range(choose.randint(0, 2))))
        case 7:
            return of_type(Range(NUMBERS[choose.choice(("int", "index", "int8"))]))
    return iterator_of(tuple_of(tuple(of_type(NUMBERS["int"]) for _ in range(3))), choose.randint(0, 2))


def _same(a: State, b: State) -> bool:
    return (isinstance(a, Conflict) and isinstance(b, Conflict)) or a == b


def _holds(whole: Known, one: Known) -> bool:
    """Whether what is known of a value on all ways is true of it on one."""
    if whole.type == one.type and whole.value is not UNKNOWN and one.constant_identity() != whole.constant_identity():
        return False
    if not hasattr(whole.type, "is_integer") or not hasattr(one.type, "is_integer"):
        return type(whole.type) is not type(one.type) or all(
            itertools.starmap(_holds, zip(whole.items, one.items, strict=True))
        )
    if whole.type.is_integer and one.type.is_integer:
        (low, high), (least, most) = whole.bounds, one.bounds
        wraps = least < whole.type.low or most > whole.type.high
        return wraps or (low <= least and most <= high)
    return not whole.nonneg or one.nonneg or whole.value is not UNKNOWN


def joins(choose: random.Random) -> str | None:
    """A join is the same in any order, holds all, and knows of two numbers of one type what both have."""
    few = [a_known(choose) for _ in range(3)]
    a, b, _ = few
    found = join(a, b)
    shown = f"{[*map(repr, few)]}"
    if not _same(found, join(b, a)):
        return f"the join of {a!r} and {b!r} is {found!r}, and {join(b, a)!r} the other way"
    if (
        join(a, a) != a
        or join(Undefined("x"), a) != a
        or join(a, Undefined("x")) != a
        or join(FAILED, a) != a
        or join(a, FAILED) != a
    ):
        return f"the join of {a!r} and itself, or nothing, is another"
    lost = Undefined("x", "it is gone")
    if join(a, lost) != lost or join(lost, a) != lost:
        return f"the join of {a!r} and what is gone is {join(a, lost)!r}"
    if isinstance(found, Known):
        if join(found, a) != found or not _holds(found, a) or not _holds(found, b):
            return f"the join of {a!r} and {b!r} is {found!r}"
        named = Known(a.type, a.value, a.items, a.low, a.high, Identity((1,)))
        if not isinstance(join(named, b), Conflict):
            return f"{a!r}, as an object, and {b!r} are {join(named, b)!r}"
    if hasattr(a.type, "is_integer") and hasattr(b.type, "is_integer"):
        names = str(a.type), str(b.type)
        wanted = (
            "bool"
            if names == ("bool", "bool")
            else names[0]
            if names[0] == names[1]
            else reference.promote(*(name.replace("warp_mask", "int32") for name in names))
        )
        is_known = isinstance(found, Known)
        if (
            wanted is None
            or (is_known and str(found.type) != wanted)
            or (not is_known and UNKNOWN is a.value is b.value)
        ):  # type: ignore[union-attr]
            return (
                None if wanted is None and not is_known else f"the join of {a!r} and {b!r} is {found!r}, not {wanted}"
            )
        if is_known and found.type.is_integer and a.type.is_integer and b.type.is_integer:  # type: ignore[union-attr]
            ends = [*a.bounds, *b.bounds]
            if found.type.low <= min(ends) and max(ends) <= found.type.high and found.bounds != (min(ends), max(ends)):  # type: ignore[union-attr]
                return f"the join of {a!r} and {b!r} is only known as {found!r}"
    elif len(a.items) != len(b.items) and isinstance(found, Known):
        return f"the join of {a!r} and {b!r} is {found!r}"
    numbers = [known for known in few if hasattr(known.type, "is_integer")]
    orders = (
        {str(getattr(join_all(order), "type", "conflict")) for order in itertools.permutations(numbers)}
        if numbers
        else {""}
    )
    if len(orders) != 1:
        return f"the join of {shown} is {orders}"
    together = common(few[:2])
    if len(numbers) == 3 and (together is None) != isinstance(
        join_all([known.forget() for known in few[:2]]), Conflict
    ):
        return f"what {a!r} and {b!r} have in common is {together!r}"
    return None


def references(choose: random.Random) -> str | None:
    """A reference to a struct and the struct are the struct."""
    one, other = (Struct(name, ()) for name in ("S", "T"))
    ref, value = of_type(Ref(Space.LOCAL, one)), of_type(one)
    if join(ref, value) != value or join(value, ref) != value or not isinstance(join(ref, of_type(other)), Conflict):
        return f"{join(ref, value)!r} is no value"
    return None


def constants(choose: random.Random) -> str | None:
    """What is known of constants is equal where they are the same, sign, type and all; and so are their hashes."""
    pool: list[Any] = [
        0,
        1,
        True,
        False,
        0.0,
        -0.0,
        1.0,
        1j,
        -1j,
        complex(0.0, -0.0),
        complex(-0.0, 0.0),
        2.5,
        None,
        "a",
        "1",
        (1, 2.0),
        (1, 2),
    ]
    x, y = choose.choice(pool), choose.choice(pool)
    a, b = constant(x), constant(y)
    same = repr(x) == repr(y)
    if (
        (a == b) != same
        or (same and hash(a) != hash(b))
        or not a.constant
        or (x is not None and repr(a.python) != repr(x))
    ):
        return f"{a!r} and {b!r} are {'not ' * same}the same"
    number = choose.choice((3, -2, 0, True, 0.5, -0.5))
    if constant(number).nonneg != (number >= 0) or (
        isinstance(number, int) and constant(number).bounds != (number, number)
    ):
        return f"{number} is {constant(number)!r}"
    name = choose.choice([*SCALARS])
    value = SCALARS[name](choose.randint(0, 5))
    if str(literal(value).type) != name or literal(value).value != value.item():
        return f"{value!r} is {literal(value)!r}"
    return None


CHECKS = (joins, joins, joins, references, constants)
