"""What each launch checks of its arrays, so that the compiler may count on it.

    small      every array has 2**30 - 2**16 elements at most, and no axis is longer: places, and sums of two, have 32 bits
    disjoint   no array that the kernel writes shares memory with another one
    aligned    arrays of numbers that it can access several at a time begin at a multiple of 16 bytes (see `optimise/alignment`)

A kernel has two variants for a signature at most: one for arrays of which all of this holds, and one for any arrays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from cuda_device.runtime.arrays.array_view import ArrayView
from cuda_device.types.layout import WIDEST_ACCESS
from cuda_device.types.model import SMALL


def small(views: Sequence[ArrayView]) -> bool:
    """Whether 32 bits hold all lengths and all places of elements, and the sum of any two of them."""
    for view in views:
        shape = view.shape
        if math.prod(shape) > SMALL or (shape and max(shape) > SMALL):
            return False
    return True


def disjoint(views: Sequence[ArrayView], written: Collection[int]) -> bool:
    """Whether no array whose number is in `written` shares a byte with another one."""
    if len(views) < 2 or not written:
        return True
    spans = [view.span or view.find_span() for view in views]
    for i in written:
        low, high = spans[i]
        for j, (start, end) in enumerate(spans):
            if start < high and low < end and i != j and start < end and low < high:
                return False
    return True


def aligned(views: Sequence[ArrayView], numbers: Collection[int]) -> bool:
    """Whether the memory of each array whose number is in `numbers` begins at a multiple of 16 bytes."""
    return not any(views[i].data % WIDEST_ACCESS for i in numbers)
