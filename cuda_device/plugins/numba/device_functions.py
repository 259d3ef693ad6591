"""What kernels of `numba_compat` call in place of Python's and NumPy's functions, and numba's names that its policy replaces.

x.reshape(n, m)                  reshape(x, n, m)          n or m may be -1
round(x, 2)                      round_to_wide(x, 2)       of a float32
cuda.shared.array(4, int32)      shared_array(4, int32) of `cuda_device`, at the place of the call
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from cuda_device import DeviceOnlyError, block_dim, block_idx, dynamic_shared_array, func, grid_dim, thread_idx
from cuda_device.extend import DeviceValue


class Position(DeviceValue):
    """`threadIdx` and others: a `Dim3` with elements of int64, because a difference may be negative.

    `unsigned` is the value of `cuda_device` with the same elements.
    """

    def __init__(self, name: str, unsigned: Any) -> None:
        super().__init__(name, str(type(self).__doc__), "cuda_device.numba_compat")
        vars(self)["unsigned"] = unsigned

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DeviceOnlyError(f"{self._name}.{name} can only be used in kernels of numba_compat")


threadIdx, blockIdx = Position("threadIdx", thread_idx), Position("blockIdx", block_idx)  # noqa: N816
blockDim, gridDim = Position("blockDim", block_dim), Position("gridDim", grid_dim)  # noqa: N816


def array_arguments(shape: Any, dtype: Any, alignment: Any = None) -> tuple[Any, Any, Any]:
    """Binds the arguments of `shared_array` and `local_array`."""
    return shape, dtype, alignment


def shared_array(shape: Any, dtype: Any, alignment: Any = None) -> Any:
    """Returns an array of the block; with the shape 0, all of the launch's dynamic shared memory."""
    raise DeviceOnlyError.of("shared.array")


def local_array(shape: Any, dtype: Any, alignment: Any = None) -> Any:
    """Returns an array of the thread."""
    raise DeviceOnlyError.of("local.array")


@func
def dynamic(dtype: Any) -> Any:
    """Returns the launch's dynamic shared memory as an array of `dtype`."""
    return dynamic_shared_array().view(dtype)


@func
def reshape(array: Any, *shape: Any) -> Any:
    """Returns `array.reshape(*shape)`, where one length may be -1 at run time."""
    lengths = shape[0] if isinstance(shape[0], tuple) else shape
    product = math.prod(lengths)
    return array.reshape(*[array.size // -product if length == -1 else length for length in lengths])


@func
def round_to_wide(x: Any, digits: Any) -> Any:
    """Returns `round(x, digits)` of a narrow float, which is scaled in float64."""
    return type(x)(round(np.float64(x), digits))


@func
def round_to_int64(x: Any) -> Any:
    """Returns `round(x)` of a float as an int64."""
    return np.int64(np.rint(x))


@func
def apply_to_each(function: Any, out: Any, *operands: Any) -> None:
    """Computes `function(*operands, out)` of a ufunc. Operands are numbers or arrays with as many axes as `out`."""
    for i in range(len(out)):
        items = [operand[i] if operand.ndim else operand for operand in operands]
        if out.ndim > 1:
            apply_to_each(function, out[i], *items)
        else:
            out[i] = function(*items)
