"""Functions of `itertools` that Python itself can express, as generators: compiled like a user's.

`REPLACEMENTS` maps each to the generator function that device code runs instead. What they need is counted, so none of them keeps
more than one item: what would (`cycle`, `tee`, `groupby`, `permutations`, …) is not here.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any


def accumulate(iterable: Any, func: Any = operator.add, *, initial: Any = None) -> Any:
    """`itertools.accumulate`."""
    some = False
    if initial is not None:
        total = initial
        some = True
        yield total
    for item in iterable:
        total = func(total, item) if some else item
        some = True
        yield total


def chain(*iterables: Any) -> Any:
    """`itertools.chain`: in halves, as each part has a place of its own."""
    if len(iterables) > 1:
        yield from chain(*iterables[: len(iterables) // 2])
        yield from chain(*iterables[len(iterables) // 2 :])
    elif iterables:
        yield from iterables[0]


def chain_from_iterable(iterables: Any, /) -> Any:
    """`itertools.chain.from_iterable`."""
    return chain(*iterables) if isinstance(iterables, (tuple, list)) else each_of_each(iterables)


def each_of_each(iterables: Any) -> Any:
    """The items of iterables that are of one type."""
    for iterable in iterables:
        yield from iterable


def compress(data: Any, selectors: Any) -> Any:
    """`itertools.compress`."""
    for item, selected in zip(data, selectors):  # noqa: B905
        if selected:
            yield item


def count(start: Any = 0, step: Any = 1) -> Any:
    """`itertools.count`."""
    while True:
        yield start
        start += step


def dropwhile(predicate: Any, iterable: Any, /) -> Any:
    """`itertools.dropwhile`."""
    items = iter(iterable)
    for item in items:
        if not predicate(item):
            yield item
            break
    yield from items


def filterfalse(function: Any, iterable: Any, /) -> Any:
    """`itertools.filterfalse`."""
    for item in iterable:
        if not (item if function is None else function(item)):
            yield item


def islice(iterable: Any, first: Any, last: Any = ..., step: Any = 1, /) -> Any:
    """`itertools.islice`: it takes no item behind the last one that it is asked for."""
    begin = 0 if last is ... or first is None else first
    end = first if last is ... else last
    stride = 1 if step is None else step
    items = iter(iterable)
    place = 0
    while end is None or place < end:
        some = False
        for item in items:  # noqa: B007
            some = True
            break
        if not some:
            return
        if place >= begin and (place - begin) % stride == 0:
            yield item
        place += 1


def pairwise(iterable: Any, /) -> Any:
    """`itertools.pairwise`."""
    items = iter(iterable)
    for first in items:
        before = first
        for item in items:
            yield before, item
            before = item


def product(*iterables: Any, repeat: Any = 1) -> Any:
    """`itertools.product`."""
    for pool in iterables:
        len(pool)  # an iterator could be run through only once
    return product_of(*(iterables * repeat))


def product_of(*pools: Any) -> Any:  # noqa: C901
    """All tuples of an item of each: what is in the last one changes first."""
    if len(pools) <= 1:
        for item in pools[0] if pools else ((),):
            yield (item,) if pools else ()
    elif len(pools) == 2:
        for a in pools[0]:
            for b in pools[1]:
                yield a, b
    elif len(pools) == 3:
        for a in pools[0]:
            for b in pools[1]:
                for c in pools[2]:
                    yield a, b, c
    else:
        for a in pools[0]:
            for b in pools[1]:
                for others in product_of(*pools[2:]):
                    yield (a, b, *others)


def repeat(object: Any, times: Any = None) -> Any:
    """`itertools.repeat`."""
    number = 0
    while times is None or number < times:
        yield object
        number += 1


def starmap(function: Any, iterable: Any, /) -> Any:
    """`itertools.starmap`."""
    for arguments in iterable:
        yield function(*arguments)


def takewhile(predicate: Any, iterable: Any, /) -> Any:
    """`itertools.takewhile`."""
    for item in iterable:
        if not predicate(item):
            return
        yield item


REPLACEMENTS: dict[object, Callable[..., Any]] = {
    itertools.accumulate: accumulate,
    itertools.chain: chain,
    itertools.chain.from_iterable: chain_from_iterable,
    itertools.compress: compress,
    itertools.count: count,
    itertools.dropwhile: dropwhile,
    itertools.filterfalse: filterfalse,
    itertools.islice: islice,
    itertools.pairwise: pairwise,
    itertools.product: product,
    itertools.repeat: repeat,
    itertools.starmap: starmap,
    itertools.takewhile: takewhile,
}
