"""`match` on constants and tuples."""

from __future__ import annotations

import enum

import pytest
from against_python import check, programs


class Color(enum.IntEnum):
    RED = 1
    GREEN = 2


def constants(i, a):
    match i:
        case 0:
            return 10
        case 1 | 2:
            return 20
        case -3:
            return 30
        case n if n > 5:
            return a + n
        case _:
            return 40


def names(i, a):
    match i:
        case Color.RED:
            return 1
        case Color.GREEN:
            return 2
    return 3


def tuples(i, a):
    match (i, i % 2):
        case (0, x):
            return x + 1
        case (x, 1) if x > 3:
            return x * 10
        case (x, y):
            return x + y * 100


def nested(i, a):
    match (i, (a, i + 1)):
        case (_, (x, 4)):
            return x
        case (y, (_, z)):
            return y * 10 + z


def stars(i, a):
    match (i, a, 3, 4):
        case (first, *rest):
            return first + sum(rest)


def lengths(i, a):
    total = 0
    for t in ((i,), (i, a), (1, 2, i), ()):
        match t:
            case ():
                total += 1000
            case (x,):
                total += x
            case [x, y]:
                total += x * y
            case _:
                total += 500
    return total


def strings(i, a):
    match "fast":
        case "slow":
            return 1
        case "fast" | "quick":
            return i
    return 2


def none_and_bools(i, a):
    match i > 3:
        case True:
            result = 1
        case False:
            result = 2
    match None:
        case None:
            result += 10
    return result


def numbers_are_no_sequences(i, a):
    match i:
        case (x, y):
            return x + y
        case x:
            return x * 2


@pytest.mark.parametrize("function", programs(globals(), "i", "a"))
def test_match_is_pythons(stream, function):
    check(stream, function, 2.5)
