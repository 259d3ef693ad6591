"""Arrays that have a part on each device of a group, as kernels see them: an ordinary struct.

    g[rank][i]                  an element of the part of any device, which may be read and written
    g[g.rank], g.own            the device's own part
    g.rank, g.n_devices         numbers of run time: a kernel is compiled once for groups of all sizes

`groups/device_arrays` makes them. The parts have one shape and are contiguous; `offsets[rank]` is how many elements the part of a
rank lies behind the own one.
"""

from __future__ import annotations

import functools
from typing import Any

from cuda_device.device.functions import func
from cuda_device.device.memory import displaced
from cuda_device.types.dtypes import ArrayType
from cuda_device.types.model import INT32, INT64, Array, Type
from cuda_device.types.struct_classes import struct


@func
def _part(self: Any, rank: Any) -> Any:
    """The part of a device; a negative rank counts from the last one."""
    return displaced(self.own, self.offsets[rank])


def _count(self: Any) -> Any:
    return len(self.offsets)


def _shape(self: Any) -> Any:
    return self.own.shape


@functools.cache
def array_group(element: Type, ndim: int) -> Any:
    """The struct of arrays of these elements and so many axes."""
    members = {"own": Array(element, ndim), "offsets": ArrayType(INT64, 1, readonly=True), "rank": INT32}
    names = {"n_devices": property(_count), "shape": property(_shape), "__getitem__": _part, "__len__": func(_count)}
    return struct(type("array_group", (), {"__annotations__": members, "__module__": __name__, **names}))
