"""What NumPy computes from all elements of an array, and its methods, in Python: compiled like a user's functions.

    np.max(x), x.max()      the largest element of an array of any number of axes; NaN wins

Tuples and lists are taken as arrays of one axis. The results are of the types that the operators of device code give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_device.device import numbers


def has_rows(items: Any) -> Any:
    """Whether its items are arrays themselves."""
    return hasattr(items, "ndim") and items.ndim > 1


def sum_of(items: Any, /) -> Any:
    """`np.sum(items)`."""
    total = 0
    for item in items:
        total = total + (sum_of(item) if has_rows(items) else item)
    return total


def product_of(items: Any, /) -> Any:
    """`np.prod(items)`."""
    total = 1
    for item in items:
        total = total * (product_of(item) if has_rows(items) else item)
    return total


def mean_of(items: Any, /) -> Any:
    """`np.mean(items)`."""
    return sum_of(items) / (items.size if hasattr(items, "size") else len(items))


def largest(items: Any, /) -> Any:
    """`np.max(items)`: NaN wins."""
    some = False
    for item in items:
        value = largest(item) if has_rows(items) else item
        best = numbers.maximum(best, value) if some else value  # type: ignore[has-type]  # noqa: F821
        some = True
    if not some:
        raise ValueError("zero-size array to reduction operation maximum which has no identity")
    return best


def smallest(items: Any, /) -> Any:
    """`np.min(items)`: NaN wins."""
    some = False
    for item in items:
        value = smallest(item) if has_rows(items) else item
        best = numbers.minimum(best, value) if some else value  # type: ignore[has-type]  # noqa: F821
        some = True
    if not some:
        raise ValueError("zero-size array to reduction operation minimum which has no identity")
    return best


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
