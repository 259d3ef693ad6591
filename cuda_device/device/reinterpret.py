"""A value's bits as a value of another type of the same size: what `x.view(T)` of a number is.

reinterpret(float32(1), uint32) == 0x3F800000
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_device.device.lowering import Lowering, Tree, flatten, grow
from cuda_device.device.packing import pack, unpack
from cuda_device.device.rows import Intrinsic, Typed, constant_of
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.types.dtypes import element_of
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import leaves, size_of
from cuda_device.types.model import Number, Vector


def reinterpret(value: Any, dtype: Any) -> Any:
    """The bits of a number or vector as `dtype`, a number or vector of the same size."""
    raise DeviceOnlyError.of("reinterpret")


def _infer(arguments: Sequence[Known]) -> Typed:
    value, dtype = arguments
    try:
        target = element_of(constant_of(dtype, "the dtype of view"))
    except TypeError as error:
        raise CompileError(f"dtype: {error}", help="name a type: float32, x.dtype, …") from None
    assert isinstance(value.type, (Number, Vector))
    if not isinstance(target, (Number, Vector)) or size_of(target) != size_of(value.type):
        raise CompileError(
            f"{value.type} cannot be viewed as {target}: their sizes differ", help="convert it: x.astype(T, copy=False)"
        )
    return Typed(of_type(target), ((0, value.type),))


def _lower(build: Lowering, operands: Sequence[Tree], typed: Typed) -> Tree:
    words = pack(build, list(flatten(operands[0])))
    return grow(typed.result.type, iter(unpack(build, words, leaves(typed.result.type))))


ROWS = (Intrinsic(reinterpret, "reinterpret", _infer, _lower),)
