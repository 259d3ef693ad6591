"""`ArrayView`: the form to which array arguments of all libraries are converted.

A view consists of an address, a shape, byte strides, an element type, and the object that keeps the memory alive. It also has the
device of the memory and the stream that may still be writing to it. Creating a view never copies data.

    view = view_of(np.zeros((2, 3), np.float32))        # in array_interface.py
    view.shape, view.strides, view.layout               # (2, 3), (12, 4), Layout.C
"""

from __future__ import annotations

import enum
import functools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.host import dtype_of_type
from cuda_device.types.layout import WIDEST_ACCESS, size_of, usual_alignment
from cuda_device.types.model import Array, Layout, Type


class Device(enum.Enum):
    """The kind of memory of an array."""

    HOST = "host memory"
    CUDA = "GPU memory"
    PINNED = "pinned host memory"
    MANAGED = "managed memory"

    @property
    def on_host(self) -> bool:
        """Whether the CPU can access the memory."""
        return self is not Device.CUDA

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can access the memory."""
        return self is not Device.HOST


@dataclass(slots=True, eq=False)
class ArrayView:
    """An array in memory."""

    data: int
    """The address of the element [0, 0, …]; 0 if the array has no elements."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    element: Type
    readonly: bool = False
    device: Device = Device.HOST
    ordinal: int = 0
    """The GPU's number; 0 in host memory."""
    keep_alive: object = None
    """The owner of the memory."""
    stream: int | None = None
    """The handle of the stream whose work must end before the data may be used."""
    passed: tuple[int | None, Any, Any] | None = field(default=None, init=False)
    """The results of binding it as an argument: the GPU (None: the host), its known properties, the leaves.

    They must not refer to the view: a cycle would keep the memory alive.
    """

    span: tuple[int, int] | None = field(default=None, init=False)
    """The addresses of the first byte of the elements and of the byte after the last one, once `find_span` was called."""

    def find_span(self) -> tuple[int, int]:
        """Computes and keeps `span`."""
        self.span = self.extent if self.layout is Layout.STRIDED else (self.data, self.data + self.nbytes)
        return self.span

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return size_of(self.element)

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes, without gaps between them."""
        return self.size * self.itemsize

    @property
    def layout(self) -> Layout:
        """The layout; an array that is both C and F contiguous counts as C."""
        return layout_of(self.shape, self.strides, self.itemsize)

    @property
    def type(self) -> Array:
        """The type of this array as an argument."""
        return Array(self.element, self.ndim, self.layout, self.readonly, align=self.shortfall)

    @property
    def shortfall(self) -> int:
        """The alignment of the elements if it is less than the usual alignment of their type, else 0."""
        align = min(usual_alignment(self.element), WIDEST_ACCESS)
        if not (self.data % align or any(stride % align for stride in self.strides)) or not self.size:
            return 0
        steps = functools.reduce(operator.or_, self.strides, self.data | align)
        return steps & -steps

    @property
    def extent(self) -> tuple[int, int]:
        """The addresses of the first byte of the elements and of the byte after the last one; equal for an empty array."""
        if self.size == 0:
            return self.data, self.data
        reach = [(length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)]
        low = self.data + sum(r for r in reach if r < 0)
        return low, self.data + sum(r for r in reach if r > 0) + self.itemsize


def c_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of a C-contiguous array in bytes; an axis of length 0 counts as 1."""
    strides, step = [], itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def layout_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Layout:
    """The layout by NumPy's rules: strides of axes of length 1 and of empty arrays do not matter."""
    if 0 in shape or _is_dense(reversed(tuple(zip(shape, strides, strict=True))), itemsize):
        return Layout.C
    return Layout.F if _is_dense(zip(shape, strides, strict=True), itemsize) else Layout.STRIDED


def _is_dense(axes: Iterable[tuple[int, int]], itemsize: int) -> bool:
    """Whether `axes`, pairs of length and stride from the fastest to the slowest, leave no gap."""
    step = itemsize
    for length, stride in axes:
        if length != 1:
            if stride != step:
                return False
            step *= length
    return True


def numpy_over(view: ArrayView) -> np.ndarray[Any, Any]:
    """A NumPy array at the address of `view`, which it keeps alive. The memory is not accessed, so it may be a GPU's."""
    plain = np.asarray(_Interface(view))
    dtype = dtype_of_type(view.element)
    return plain if plain.dtype == dtype else plain.view(dtype)


def described(obj: Any) -> str:
    """The type of an object, for messages."""
    return f"the {type(obj).__module__}.{type(obj).__qualname__}"


class _Interface:
    """NumPy's array interface of a view. As the base of a NumPy array it keeps the memory alive."""

    __slots__ = ("__array_interface__", "_view")

    def __init__(self, view: ArrayView) -> None:
        self._view = view
        dtype = dtype_of_type(view.element)
        self.__array_interface__ = {
            "version": 3,
            # NumPy before 2.4 rejects address 0, which empty arrays have.
            "data": (view.data or 64, view.readonly),
            "shape": view.shape,
            "strides": view.strides,
            # The text of other types than NumPy's own has only the size.
            "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}",
        }
