"""Builtins, iteration and functions of `math`, written in Python and compiled like users' functions.

`FUNCTIONS` maps each function to the one that device code calls instead: `sum` of a tuple is unrolled, `sum` of an array or a
range is a loop. `min` and `max` call theirs for a single argument.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any


def add_all(items: Any, /, start: Any = 0) -> Any:
    """`sum(items, start)`."""
    for item in items:
        start = start + item
    return start


def any_of(items: Any, /) -> Any:
    """`any(items)`."""
    for item in items:  # noqa: SIM110
        if item:
            return True
    return False


def all_of(items: Any, /) -> Any:
    """`all(items)`."""
    for item in items:  # noqa: SIM110
        if not item:
            return False
    return True


def least(items: Any, /, *, key: Any = None, default: Any = ...) -> Any:
    """`min(items)`; if there are no items, returns `default` or reports an error."""
    return _extreme(items, key, default, operator.lt, "min() iterable argument is empty")


def greatest(items: Any, /, *, key: Any = None, default: Any = ...) -> Any:
    """`max(items)`; if there are no items, returns `default` or reports an error."""
    return _extreme(items, key, default, operator.gt, "max() iterable argument is empty")


def _extreme(items: Any, key: Any, default: Any, wins: Any, complaint: Any) -> Any:
    """Returns the first of the least or greatest items."""
    some = False
    for item in items:
        rank = item if key is None else key(item)
        if not some or wins(rank, best_rank):  # type: ignore[has-type]  # noqa: F821
            best, best_rank = item, rank  # noqa: F841
        some = True
    if not some:
        if default is ...:
            raise ValueError(complaint, "pass a default for that case, as in default=0")
        best = default
    return best


def chosen(function: Any, items: Any) -> Any:
    """`filter(function, items)`."""
    for item in items:
        if function(item):
            yield item


def mapped(function: Any, *items: Any) -> Any:
    """`map(function, *items)`."""
    for arguments in zip(*items):  # noqa: B905
        yield function(*arguments)


def next_of(items: Any) -> Any:
    """`next(items)`."""
    for item in items:
        return item
    raise StopIteration("the iterator has no next item", "give a default: next(items, 0)")


def next_or(items: Any, default: Any) -> Any:
    """`next(items, default)`."""
    for item in items:
        return item
    return default


def zipped(*iterators: Any) -> Any:
    """`zip(*iterators)` of iterators that others may see."""
    while True:
        items: Any = ()
        for iterator in iterators:
            for item in iterator:
                items = (*items, item)
                break
            else:
                return
        yield items


def check_lengths(*lengths: Any) -> None:
    """The check of `zip(strict=True)`."""
    for length in lengths[1:]:
        if length != lengths[0]:
            raise ValueError(
                "zip() arguments are of different lengths", "leave strict=True out to stop at the shortest"
            )


def compare_in_order(a: Any, b: Any, operator: Any) -> Any:
    """An order comparison of two tuples: the first items that differ decide, otherwise the lengths."""
    for x, y in zip(a, b):  # noqa: B905
        if not x == y:  # noqa: SIM201
            return operator(x, y)
    return operator(len(a), len(b))


def index_of(items: Any, value: Any) -> Any:
    """`items.index(value)` of a tuple or list."""
    position = 0
    first = -1
    for item in items:
        if first < 0 and item == value:
            first = position
        position += 1  # noqa: SIM113
    if first < 0:
        raise ValueError("index(x): x is not among the items", "test `x in items` first")
    return first


def count_of(items: Any, value: Any) -> Any:
    """`items.count(value)` of a tuple."""
    result = 0
    for item in items:
        if item == value:
            result += 1
    return result


def array_contains(value: Any, items: Any) -> Any:
    """`value in items` of an array."""
    for item in items:  # noqa: SIM110
        if item == value:
            return True
    return False


def product(items: Any, /, *, start: Any = 1) -> Any:
    """`math.prod(items, start=start)`."""
    for item in items:
        start = start * item
    return start


def float_sum(items: Any, /) -> Any:
    """`math.fsum(items)`, by compensated summation (Neumaier)."""
    total, lost = 0.0, 0.0
    for item in items:
        after = total + item
        lost += (total - after) + item if abs(total) >= abs(item) else (item - after) + total
        total = after
    return total + lost if math.isfinite(total) else total


def sum_of_products(p: Any, q: Any, /) -> Any:
    """`math.sumprod(p, q)`."""
    total = 0
    for a, b in zip(p, q):  # noqa: B905
        total = total + a * b
    return total


# Ranges and arrays


def backwards(items: Any) -> Any:
    """`reversed(items)` of an array."""
    return items[::-1]


def reversed_range(start: Any, stop: Any, step: Any) -> Any:
    """`reversed(range(start, stop, step))`."""
    count = length_of_range(start, stop, step)
    return range(start + (count - 1) * step, start - step, -step)


def length_of_range(start: Any, stop: Any, step: Any) -> Any:
    """`len(range(start, stop, step))`."""
    if step > 0:
        return (stop - start + step - 1) // step if start < stop else 0
    return (start - stop - step - 1) // -step if stop < start else 0


def range_contains(value: Any, start: Any, stop: Any, step: Any) -> Any:
    """`value in range(start, stop, step)`."""
    inside = start <= value < stop if step > 0 else stop < value <= start
    return inside and (value - start) % step == 0


def element_if(items: Any, index: Any, condition: Any) -> Any:
    """Reads `items[index]` if `condition` holds: one step of a loop over an array."""
    if condition:
        item = items[index]
    return item


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    sum: add_all,
    any: any_of,
    all: all_of,
    min: least,
    max: greatest,
    math.prod: product,
    math.fsum: float_sum,
}
if hasattr(math, "sumprod"):
    FUNCTIONS[math.sumprod] = sum_of_products

TUPLE_METHODS: dict[str, Callable[..., Any]] = {"index": index_of, "count": count_of}
"""Methods of tuples and lists."""
