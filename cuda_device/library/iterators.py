"""Functions of `itertools` that Python itself can express, as generators: compiled like a user's.

`REPLACEMENTS` maps each to the generator function that device code runs instead. What they need is counted, so none of them keeps
more than one item: those that would go through what they are given once more (`AGAIN`), which is no iterator, therefore.
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
    """`itertools.chain`: each of the first parts has a place of its own, as they may be of different types."""
    if len(iterables) > 0:
        yield from iterables[0]
    if len(iterables) > 1:
        yield from iterables[1]
    if len(iterables) > 2:
        yield from iterables[2]
    if len(iterables) > 3:
        yield from iterables[3]
    if len(iterables) > 4:
        yield from iterables[4]
    if len(iterables) > 5:
        yield from iterables[5]
    if len(iterables) > 6:
        yield from chain(*iterables[6 : 6 + len(iterables) // 2])
        yield from chain(*iterables[6 + len(iterables) // 2 :])


def chain_from_iterable(iterables: Any, /) -> Any:
    """`itertools.chain.from_iterable`."""
    return chain(*iterables) if isinstance(iterables, (tuple, list)) else each_of_each(iterables)


def each_of_each(iterables: Any) -> Any:
    """The items of iterables that are of one type."""
    for iterable in iterables:
        yield from iterable


def combinations(pool: Any, r: Any) -> Any:
    """`itertools.combinations`."""
    if r < 0:
        raise ValueError("r must be non-negative")
    return combinations_of(pool, 0, 1, (None,) * r)


def combinations_with_replacement(pool: Any, r: Any) -> Any:
    """`itertools.combinations_with_replacement`."""
    if r < 0:
        raise ValueError("r must be non-negative")
    return combinations_of(pool, 0, 0, (None,) * r)


def combinations_of(pool: Any, first: Any, distance: Any, marks: Any) -> Any:
    """As many items as there are marks, from the `first` on, each at this distance behind the one before it at least."""
    if not marks:
        yield ()
    elif len(marks) == 1:
        for i in range(first, len(pool)):
            yield (pool[i],)
    elif len(marks) == 2:
        for i in range(first, len(pool)):
            for j in range(i + distance, len(pool)):
                yield pool[i], pool[j]
    else:
        for i in range(first, len(pool)):
            for others in combinations_of(pool, i + distance, distance, marks[1:]):
                yield (pool[i], *others)


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


def cycle(pool: Any, /) -> Any:
    """`itertools.cycle`."""
    while len(pool) > 0:
        yield from pool


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
    """`itertools.islice`."""
    begin = 0 if last is ... or first is None else first
    end = first if last is ... else last
    stride = 1 if step is None else step
    if last is ... and end is not None and end < 0:
        raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if begin < 0 or (end is not None and end < 0):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if stride < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return every(iterable, begin, end, stride)


def every(iterable: Any, begin: Any, end: Any, stride: Any) -> Any:
    """The items from `begin` to before `end`, so far apart: it takes no item behind the last one that it is asked for."""
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


def permutations(pool: Any, r: Any = None) -> Any:
    """`itertools.permutations`."""
    count = len(pool) if r is None else r
    if count < 0:
        raise ValueError("r must be non-negative")
    return permutations_of(pool, (), (None,) * count)


def permutations_of(pool: Any, taken: Any, marks: Any) -> Any:
    """As many items as there are marks, but those at the places that are taken."""
    if len(marks) == 0:
        yield ()
    elif len(marks) == 1:
        for i in range(len(pool)):
            if i not in taken:
                yield (pool[i],)
    else:
        for i in range(len(pool)):
            if i not in taken:
                for others in permutations_of(pool, (*taken, i), marks[1:]):
                    yield (pool[i], *others)


def product(*iterables: Any, repeat: Any = 1) -> Any:
    """`itertools.product`."""
    if repeat < 0:
        raise ValueError("repeat argument cannot be negative")
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
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


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


def zip_longest(*pools: Any, fillvalue: Any = None) -> Any:
    """`itertools.zip_longest`."""
    for i in range(max(tuple(len(pool) for pool in pools))):
        yield tuple(pool[i] if i < len(pool) else fillvalue for pool in pools)


REPLACEMENTS: dict[object, Callable[..., Any]] = {
    itertools.accumulate: accumulate,
    itertools.chain: chain,
    itertools.chain.from_iterable: chain_from_iterable,
    itertools.combinations: combinations,
    itertools.combinations_with_replacement: combinations_with_replacement,
    itertools.compress: compress,
    itertools.count: count,
    itertools.cycle: cycle,
    itertools.dropwhile: dropwhile,
    itertools.filterfalse: filterfalse,
    itertools.islice: islice,
    itertools.pairwise: pairwise,
    itertools.permutations: permutations,
    itertools.product: product,
    itertools.repeat: repeat,
    itertools.starmap: starmap,
    itertools.takewhile: takewhile,
    itertools.zip_longest: zip_longest,
}
AGAIN: dict[object, int | None] = {
    itertools.combinations: 1,
    itertools.combinations_with_replacement: 1,
    itertools.cycle: 1,
    itertools.permutations: 1,
    itertools.product: None,
    itertools.zip_longest: None,
}
"""Those that go through what they are given more than once, or index it, and how many of their arguments that are."""
