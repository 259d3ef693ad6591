"""Functions of sequences and arrays that the compiler has in Python, against Python's and NumPy's: `own` says how they are run.

copying.move_elements(x[2:8], x[::3])      x[2:8] = x[::3].copy()
"""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from cuda_device.library import array_functions, copying, iterators, standard
from fuzz.own import Check

# Iterators and builtins


def numbers_of(choose: random.Random, most: int = 6) -> tuple[int, ...]:
    """A few small numbers."""
    return tuple(choose.randint(-4, 4) for _ in range(choose.randint(0, most)))


def _some(choose: random.Random, most: int = 6) -> tuple[int, ...]:
    return numbers_of(choose, most) or (3,)


def _is_small(n: int) -> bool:
    return abs(n) < 3


def _bound(choose: random.Random) -> int | None:
    return choose.choice((None, choose.randint(0, 8)))


Arguments = Callable[[random.Random], tuple[tuple[Any, ...], dict[str, Any]]]


def plain(*parts: Callable[[random.Random], Any]) -> Arguments:
    """Positional arguments."""
    return lambda choose: (tuple(part(choose) for part in parts), {})


def of_initial(choose: random.Random) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of `accumulate`."""
    more = choose.choice(((), (operator.mul,), (max,)))
    return (numbers_of(choose), *more), choose.choice(({}, {"initial": 2}))


def of_product(choose: random.Random) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of `product`."""
    pools = tuple(numbers_of(choose, 3) for _ in range(choose.randint(0, 4)))
    return pools, choose.choice(({}, {}, {"repeat": choose.randint(0, 2)}))


def of_islice(choose: random.Random) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of `islice`."""
    parts = choose.choice(
        ((_bound(choose),), (_bound(choose), _bound(choose)), (_bound(choose), _bound(choose), choose.randint(1, 3)))
    )
    return (numbers_of(choose, 9), *parts), {}


def of_extreme(choose: random.Random) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of `min` and `max`."""
    return (numbers_of(choose),), choose.choice(
        ({}, {"key": abs}, {"default": 7}, {"key": operator.neg, "default": None})
    )


_POOL = plain(numbers_of)
_ARGUMENTS: dict[object, Arguments] = {
    itertools.accumulate: of_initial,
    itertools.chain: lambda c: (tuple(numbers_of(c, 2) for _ in range(c.randint(0, 11))), {}),
    itertools.chain.from_iterable: lambda c: (
        (c.choice((tuple, list, iter))([numbers_of(c, 2) for _ in range(c.randint(0, 9))]),),
        {},
    ),
    itertools.combinations: plain(numbers_of, lambda c: c.randint(0, 4)),
    itertools.combinations_with_replacement: plain(lambda c: numbers_of(c, 4), lambda c: c.randint(0, 4)),
    itertools.compress: plain(numbers_of, lambda c: [c.random() < 0.5 for _ in range(c.randint(0, 8))]),
    itertools.count: lambda c: ((c.randint(-3, 3), *c.choice(((), (2,), (-3,)))), {}),
    itertools.cycle: _POOL,
    itertools.dropwhile: plain(lambda c: _is_small, numbers_of),
    itertools.filterfalse: plain(lambda c: c.choice((None, _is_small)), numbers_of),
    itertools.islice: of_islice,
    itertools.pairwise: _POOL,
    itertools.permutations: lambda c: ((numbers_of(c, 4), *c.choice(((), (c.randint(0, 4),)))), {}),
    itertools.product: of_product,
    itertools.repeat: lambda c: ((c.randint(0, 9), *c.choice(((), (c.randint(0, 4),)))), {}),
    itertools.starmap: plain(lambda c: c.choice((pow, max)), lambda c: [(abs(n), 2) for n in numbers_of(c)]),
    itertools.takewhile: plain(lambda c: _is_small, numbers_of),
    itertools.zip_longest: lambda c: (
        tuple(_some(c) for _ in range(c.randint(1, 3))),
        c.choice(({}, {"fillvalue": 9})),
    ),
    any: _POOL,
    all: _POOL,
    sum: lambda c: ((numbers_of(c), *c.choice(((), (5,)))), {}),
    pow: plain(lambda c: c.randint(-9, 9), lambda c: c.randint(0, 5), lambda c: c.choice((None, 7))),
    math.prod: lambda c: ((numbers_of(c),), c.choice(({}, {"start": 3}))),
    math.fsum: plain(lambda c: [c.choice((1e16, -1e16, 1.0, 0.5, 3e-9, 2.0)) for _ in range(c.randint(0, 3))]),
    math.dist: plain(lambda c: (3.5, c.uniform(-2, 2)), lambda c: (c.uniform(-2, 2), 1.0)),
    getattr(math, "sumprod", None): plain(lambda c: (1, 2, c.randint(-9, 9)), lambda c: (c.randint(0, 9), 4, 5)),
    operator.contains: plain(numbers_of, lambda c: c.randint(-4, 4)),
    operator.getitem: plain(_some, lambda c: 0),
    operator.concat: plain(numbers_of, numbers_of),
    operator.countOf: plain(numbers_of, lambda c: c.randint(-4, 4)),
    operator.indexOf: plain(numbers_of, lambda c: c.randint(-4, 4)),
    getattr(operator, "call", None): lambda c: ((max, c.randint(0, 9), c.randint(0, 9)), {"key": operator.neg}),
    min: of_extreme,
    max: of_extreme,
}
_TWO = {
    getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor eq ne lt le gt ge is_ is_not".split()
}
_ONE = {getattr(operator, name) for name in "neg pos invert inv not_ truth abs index".split()}


def _arguments_of(function: object) -> Arguments | None:
    if function in _TWO:
        return plain(lambda c: c.randint(-9, 9), lambda c: c.randint(1, 5))
    if function in _ONE:
        return plain(lambda c: c.randint(-9, 9))
    return _ARGUMENTS.get(function)


def result_of(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What a call gives, of an iterator its first items; or the class of the error that it raises."""
    try:
        found = function(*arguments, **keywords)
        return (
            list(itertools.islice(found, 200))
            if hasattr(found, "__next__") or isinstance(found, itertools.count)
            else found
        )
    except (ValueError, TypeError, StopIteration) as error:
        return type(error)


def replacements(table: dict[object, Callable[..., Any]]) -> Check:
    """Each function of a table, beside the one that stands for it on a device."""

    def check(choose: random.Random) -> str | None:
        for theirs, ours in table.items():
            arguments = _arguments_of(theirs)
            for _ in range(12 if arguments else 0):
                assert arguments is not None
                state = choose.getstate()
                given, keywords = arguments(choose)
                found = result_of(ours, given, keywords)
                choose.setstate(state)
                given, keywords = arguments(choose)  # once more, as iterators end
                expected = result_of(theirs, given, keywords)
                if found != expected or type(found) is not type(expected):
                    return f"{theirs} of {given}, {keywords} is {found!r}, not {expected!r}"
        return None

    return check


def complete(choose: random.Random) -> str | None:
    """All of these have a function that stands for them; and those that need more than an iterator are known."""
    has = {**iterators.REPLACEMENTS, **standard.REPLACEMENTS, **standard.ONE_ARGUMENT}
    for function in (*_TWO, *_ONE, *(each for each in _ARGUMENTS if each is not None)):
        if function not in has:
            return f"nothing stands for {function}"
    for theirs, ours in iterators.REPLACEMENTS.items():
        given, keywords = _ARGUMENTS[theirs](choose)
        few = given and isinstance(given[0], tuple) and theirs != itertools.chain.from_iterable
        if (
            few
            and result_of(ours, (iter(given[0] or (1,)), *given[1:]), keywords) is TypeError
            and theirs not in iterators.AGAIN
        ):
            return f"{theirs} takes what it is given more than once"
    if iterators.AGAIN != _AGAIN:
        return f"{set(iterators.AGAIN) ^ set(_AGAIN)} takes arguments once, or more than once"
    return None


_AGAIN = dict.fromkeys((itertools.product, itertools.zip_longest)) | dict.fromkeys(
    (itertools.combinations, itertools.combinations_with_replacement, itertools.cycle, itertools.permutations), 1
)


def _ranges(choose: random.Random) -> tuple[int, int, int]:
    return choose.randint(-9, 9), choose.randint(-9, 9), choose.choice((1, 2, 3, -1, -2, -5))


def sequences(choose: random.Random) -> str | None:
    """Ranges, and what loops ask of their parts."""
    for _ in range(60):
        bounds, items, value = _ranges(choose), numbers_of(choose), choose.randint(-4, 4)
        whole, cut = range(*bounds), _ranges(choose)
        first, last = choose.choice((None, cut[0])), choose.choice((None, cut[1]))
        pairs = [(choose.randint(0, 2), "a"), (choose.randint(0, 2), "b")]
        index = choose.randrange(-len(whole), len(whole)) if whole else 0
        rows: tuple[tuple[str, Any, Any], ...] = (
            ("reversed", list(standard.reversed_range(*bounds)), list(reversed(whole))),
            ("in", standard.range_contains(value, *bounds), value in whole),
            (
                "item",
                standard.range_item(index, bounds[0], len(whole), bounds[2]) if whole else 0,
                whole[index] if whole else 0,
            ),
            ("index", result_of(standard.index_in_range, (whole, value), {}), result_of(whole.index, (value,), {})),
            ("slice", list(standard.range_slice(first, last, cut[2], *bounds)), list(whole[first : last : cut[2]])),
            ("equal", standard.same_range(whole, range(*cut)), whole == range(*cut)),
            (
                "same",
                standard.same_range(whole, range(bounds[0], bounds[1] + value, bounds[2])),
                whole == range(bounds[0], bounds[1] + value, bounds[2]),
            ),
            ("lesser", standard.lesser(*pairs), min(pairs, key=operator.itemgetter(0))),
            ("greater", standard.greater(*pairs), max(pairs, key=operator.itemgetter(0))),
            ("sorted", standard.in_order(*pairs, False), tuple(sorted(pairs, key=operator.itemgetter(0)))),
            (
                "descending",
                standard.in_order(*pairs, True),
                tuple(sorted(pairs, key=operator.itemgetter(0), reverse=True)),
            ),
            ("filter", list(standard.chosen(_is_small, items)), list(filter(_is_small, items))),
            ("next", result_of(standard.next_of, (iter(items),), {}), items[0] if items else StopIteration),
            ("next or", standard.next_or(iter(items), None), next(iter(items), None)),
            ("next if", list(standard.next_if(iter(items), value > 0)), list(items[:1]) if value > 0 else []),
            ("one of", standard.one_of(value > 0, 1, 2), 1 if value > 0 else 2),
            ("itself", standard.itself(value), value),
            ("reduce", standard.reduce_from(operator.sub, items, value), value - sum(items)),
            (
                "reduce all",
                result_of(standard.reduce_all, (operator.sub, items), {}),
                2 * items[0] - sum(items) if items else TypeError,
            ),
            (
                "lengths",
                result_of(standard.check_lengths, (2, 2, abs(value)), {}),
                None if abs(value) == 2 else ValueError,
            ),
            ("in array", standard.array_contains(value, items), value in items),
            ("call", standard.call_if(max, (value, 1), True), max(value, 1)),
            ("element", standard.element_if((value, 5), 1, True), 5),
            (
                "plus zero",
                (standard.is_plus_zero(0.0), standard.is_plus_zero(-0.0), standard.is_plus_zero(1.0)),
                (True, False, False),
            ),
        )
        for name, found, expected in rows:
            if found != expected or type(found) is not type(expected):
                return f"{name} of {bounds}, {items}, {value}, {cut}, {pairs} is {found!r}, not {expected!r}"
    return None


# Arrays


def distance(target: Any, source: Any) -> int:
    """Where one array begins, from the other."""
    return int(target.__array_interface__["data"][0]) - int(source.__array_interface__["data"][0])


def overlapping(choose: random.Random) -> tuple[Any, Any]:
    """Two arrays of the same memory, the second of which can be assigned to the first."""
    memory = np.arange(64, dtype=np.int16)
    match choose.randrange(7):
        case 0:  # one axis
            count = choose.randint(0, 8)
            views = []
            for _ in range(2):
                step = choose.choice((1, 1, 2, 3, -1, -2, -3))
                first = choose.randint(24, 40)
                views.append(memory[first : first + count * step : step])
            return views[0], views[1][:1] if choose.random() < 0.1 and count else views[1]
        case 1:  # a matrix and its transpose
            n = choose.randint(1, 5)
            square = memory[choose.randint(0, 8) :][: n * n].reshape(n, n)
            return square, choose.choice((square.T, square[::-1], square[:, ::-1], square.T[::-1], square[::-1, ::-1]))
        case 2:  # parts of a matrix
            grid = memory.reshape(8, 8)
            size = choose.randint(1, 5), choose.randint(1, 5)
            places = [[choose.randint(0, 3) for _ in range(2)] for _ in range(2)]
            views = [grid[i : i + size[0], j : j + size[1]] for i, j in places]
            if choose.random() < 0.3:
                views = [view.T for view in views]
            return views[0], views[1]
        case 3:  # three axes, in any order and direction
            n = choose.randint(1, 3)
            cube = memory[: n**3].reshape(n, n, n)
            order = choose.sample(range(3), 3)
            turned = cube.transpose(order)
            return cube, turned[:: choose.choice((1, -1)), :, :: choose.choice((1, -1))]
        case 4:  # fewer axes, or axes of length 1, of the same memory
            grid = memory.reshape(8, 8)
            i, j = choose.choice((0, choose.randint(0, 7))), choose.randint(0, 7)
            return grid, choose.choice(
                (
                    grid[i],
                    grid[:, i],
                    grid[i, ::-1],
                    memory[i : i + 8],
                    grid[i, j, ...],
                    grid[i : i + 1],
                    grid[:, j : j + 1],
                )
            )
        case 5:  # numbers of other sizes, no numbers, repeated numbers
            i, count = choose.randint(0, 20), choose.randint(0, 8)
            k = max(2 * i + choose.randint(-6, 6), 0)
            target, other = memory[i : i + count], memory.view(choose.choice((np.int8, np.uint8)))
            grid, again = memory.reshape(8, 8), np.broadcast_to(memory[k : k + 1], (count,))
            return choose.choice(
                (
                    *((target, other[k : k + count]), (target, other[k : k + count])),
                    *((target, again), (target[:0], again[:1]), (grid[3:3], grid[:1, 1:2])),
                )
            )
    grid = memory.reshape(8, 8)  # other memory, and fewer axes
    row = np.arange(8, dtype=np.int16) * 3
    return choose.choice(((grid, row), (grid, row[:1]), (grid[2:5], grid[1:2]), (grid[1:4], grid[2]), (row, row[2:3])))


def moves(choose: random.Random) -> str | None:
    """Assignments of overlapping arrays, in any order that is right."""
    with mock.patch.object(copying, "distance", distance):
        for _ in range(60):
            state = choose.getstate()
            target, source = overlapping(choose)
            choose.setstate(state)
            expected, again = overlapping(choose)
            if target.shape and source.shape != target.shape and source.shape != (1,) and source.ndim == target.ndim:
                source, again = source[: len(target)], again[: len(target)]
            before = repr((target, source))
            order = bool(copying.has_order(target, source))
            if not order and (target.size == 0 or source.ndim == 0 or not np.shares_memory(target, source)):
                return f"it finds no order for {before}"
            if target.size == 0 or source.size == 0 or (not order and source.itemsize != target.itemsize):
                continue
            expected[...] = again.copy()
            (copying.move_elements if order else copying.copy_elements)(target, source)
            base = target if target.base is None else target.base
            if np.array_equal(base, expected if expected.base is None else expected.base) != order:
                return f"of {before} it makes {target!r}, not {expected!r}, with{'' if order else 'out'} an order"
    return None


def parts(choose: random.Random) -> str | None:
    """How copies find their elements."""
    with mock.patch.object(copying, "distance", distance):
        for _ in range(40):
            target, source = overlapping(choose)
            if not target.size or 0 in target.strides:
                continue
            place = choose.randrange(target.size)
            index = tuple(map(int, np.unravel_index(place, target.shape)))
            offset = sum(i * step for i, step in zip(index, target.strides, strict=True))
            low, high = np.lib.array_utils.byte_bounds(target)
            begin = target.__array_interface__["data"][0]
            plain = source.itemsize == target.itemsize
            plain = plain and (target.ndim == source.ndim == 1 or source.strides == target.strides)
            apart = not np.may_share_memory(target, source)
            rows: tuple[tuple[str, Any, Any], ...] = (
                ("indices", copying._indices(place, target), index),
                ("offset", copying._offset(place, target), offset),
                ("place", copying._place_of(offset, target), place),
                ("no place", copying._place_of(offset + 1, target), -1),
                ("before", copying._place_of(low - begin - 2, target), -1),
                ("behind", copying._place_of(high - begin, target), -1),
                ("span", copying._span(target), (low - begin, high - begin)),
                ("apart", copying._are_apart(target, source), apart) if source.size else ("", 0, 0),
                ("order", bool(copying.has_order(target, source)), True) if plain or apart else ("", 0, 0),
            )
            for name, found, expected in rows:
                if found != expected:
                    return f"{name} of {place} in {target.shape}, {target.strides} is {found}, not {expected}"
    return None


_REDUCTIONS = {
    "all": np.all,
    "any": np.any,
    "max": np.max,
    "mean": np.mean,
    "min": np.min,
    "prod": np.prod,
    "sum": np.sum,
}


def reductions(choose: random.Random) -> str | None:
    """What is computed from all elements."""
    for _ in range(12):
        type = choose.choice(
            (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.bool_, np.float64)
        )
        shape = tuple(choose.randint(1, 3) for _ in range(choose.randint(1, 3)))
        items = np.array([choose.randint(0, 3) for _ in range(math.prod(shape))], type).reshape(shape)
        if type is np.float64 and choose.random() < 0.4:
            items[(0,) * len(shape)] = np.nan
        for name, theirs in _REDUCTIONS.items():
            if type is np.bool_ and name in ("max", "min"):
                continue
            found, expected = array_functions.METHODS[name](items), theirs(items)
            same = found == expected or (found != found and expected != expected)
            if not same or (name in ("sum", "prod") and type is not np.bool_ and found.dtype != expected.dtype):
                return f"{name} of {items!r} is {found!r}, not {expected!r}"
            if name in array_functions.KEYWORDS:
                found, expected = (
                    array_functions.METHODS[name](items, dtype=np.float32),
                    theirs(items, dtype=np.float32),
                )
                if not (found == expected or found != found) or found.dtype != expected.dtype:
                    return f"{name} of {items!r} in float32 is {found!r}, not {expected!r}"
    return None


CHECKS: tuple[Check, ...] = (
    *(replacements(iterators.REPLACEMENTS), replacements(standard.REPLACEMENTS), replacements(standard.ONE_ARGUMENT)),
    *(complete, sequences, moves, moves, parts, reductions),
)
