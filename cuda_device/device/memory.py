"""Memory that a kernel asks for: the specification's 'Local, Shared, and Const Memory'.

tile = device.shared_array((16, 18), device.float32)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuda_device.device.lowering import ArrayTree, Lowering, Tree
from cuda_device.device.rows import Intrinsic, Typed, constant_of
from cuda_device.errors import CompileError, DeviceOnlyError
from cuda_device.ir import ops
from cuda_device.types.host import dtype_of, element_of_dtype
from cuda_device.types.known import Known
from cuda_device.types.layout import align_of
from cuda_device.types.model import INT64, Array, Layout, Number, Ref, Space, Type


def shared_array(shape: Any, dtype: Any, order: str = "C", align: int = 0) -> Any:
    """An array in memory that the threads of a block share; its content is unspecified at first.

    `shape` is an int or a tuple of ints, `dtype` a number type, `order` "C" or "F", `align` a power of two in bytes (0: the
    type's own): constant expressions all. One array for each place in the text and specialisation of its function, as
    `__shared__` in CUDA C++. Specification: 'Local, Shared, and Const Memory'.
    """
    raise DeviceOnlyError.of("shared_array")


def _infer_shared(arguments: Sequence[Known]) -> Typed:
    shape, dtype, order, align = arguments
    extents = _shape(constant_of(shape, "shape"))
    element = _element(constant_of(dtype, "dtype"))
    layout = {"C": Layout.C, "F": Layout.F}.get(str(constant_of(order, "order")))
    if layout is None:
        raise CompileError(f"order is 'C' or 'F', not {order.python!r}")
    boundary = _alignment(constant_of(align, "align"), element)
    array = Array(element, len(extents), layout, space=Space.SHARED)
    return Typed(Known(array), settings=(extents, boundary))


def _shape(shape: object) -> tuple[int, ...]:
    extents = shape if isinstance(shape, tuple) else (shape,)
    for extent in extents:
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 0:
            raise CompileError(f"shape is an int or a tuple of ints from 0 up, not {shape!r}")
    return extents


def _element(dtype: object) -> Type:
    try:
        return element_of_dtype(dtype_of(dtype))
    except TypeError as error:
        raise CompileError(f"dtype: {error}") from None


def _alignment(align: object, element: Type) -> int:
    if not isinstance(align, int) or isinstance(align, bool) or align < 0 or align & (align - 1):
        raise CompileError(f"align is a power of two in bytes, not {align!r}")
    return max(align, align_of(element))


def _lower_shared(build: Lowering, _: Sequence[Tree], typed: Typed) -> Tree:
    extents, boundary = typed.settings
    assert isinstance(extents, tuple) and isinstance(typed.result.type, Array)
    element = typed.result.type.dtype
    assert isinstance(element, Number)
    data = build.op(ops.SHARED, Ref(Space.SHARED, element), count=math.prod(extents), align=boundary)
    return ArrayTree(data, tuple(build.const(INT64, extent) for extent in extents))


ROWS = (Intrinsic(shared_array, "shared_array", _infer_shared, _lower_shared),)
