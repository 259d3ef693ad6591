"""What NumPy computes from all elements of an array, and its methods, in Python: compiled like a user's functions.

    np.max(x), x.max()      the largest element of an array of any number of axes; NaN wins

Tuples and lists are taken as arrays of one axis. Sums and products of integers of a fixed format have 64 bits, or are of the
`dtype` that is asked for; other results are of the types that the operators of device code give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cuda_device.library import numbers


def has_rows(items: Any) -> Any:
    """Whether its items are arrays themselves."""
    return hasattr(items, "ndim") and items.ndim > 1


def as_part(item: Any, dtype: Any) -> Any:
    """What is added up: 64 bits of an integer or bool that has fewer, if no type is asked for."""
    if dtype is not None:
        return dtype(item)
    if isinstance(item, (bool, np.int8, np.int16, np.int32)):
        return np.int64(item)
    return np.uint64(item) if isinstance(item, (np.uint8, np.uint16, np.uint32)) else item


def sum_of(items: Any, /, *, dtype: Any = None) -> Any:
    """`np.sum(items)`."""
    total = 0
    for item in items:
        total = total + (sum_of(item, dtype=dtype) if has_rows(items) else as_part(item, dtype))
    return total


def product_of(items: Any, /, *, dtype: Any = None) -> Any:
    """`np.prod(items)`."""
    total = 1
    for item in items:
        total = total * (product_of(item, dtype=dtype) if has_rows(items) else as_part(item, dtype))
    return total


def mean_of(items: Any, /, *, dtype: Any = None) -> Any:
    """`np.mean(items)`."""
    return sum_of(items, dtype=dtype) / (items.size if hasattr(items, "size") else len(items))


def outermost(items: Any, of_two: Any, complaint: Any, /) -> Any:
    """The one of all elements that `of_two` prefers to each other."""
    some = False
    for item in items:
        value = outermost(item, of_two, complaint) if has_rows(items) else item
        best = of_two(best, value) if some else value  # type: ignore[has-type]  # noqa: F821
        some = True
    if not some:
        raise ValueError(complaint)
    return best


def largest(items: Any, /) -> Any:
    """`np.max(items)`: NaN wins."""
    complaint = "zero-size array to reduction operation maximum which has no identity"
    return outermost(items, numbers.maximum, complaint)


def smallest(items: Any, /) -> Any:
    """`np.min(items)`: NaN wins."""
    complaint = "zero-size array to reduction operation minimum which has no identity"
    return outermost(items, numbers.minimum, complaint)


def is_any(items: Any, /) -> Any:
    """`np.any(items)`."""
    for item in items:  # noqa: SIM110
        if is_any(item) if has_rows(items) else item:
            return True
    return False


def are_all(items: Any, /) -> Any:
    """`np.all(items)`."""
    for item in items:  # noqa: SIM110
        if not (are_all(item) if has_rows(items) else item):
            return False
    return True


METHODS: dict[str, Callable[..., Any]] = {
    "all": are_all,
    "any": is_any,
    "max": largest,
    "mean": mean_of,
    "min": smallest,
    "prod": product_of,
    "sum": sum_of,
}
"""By the method of arrays, which is a function of NumPy, too."""

KEYWORDS = dict.fromkeys(("mean", "prod", "sum"), ("dtype",))
"""What some of them take."""
