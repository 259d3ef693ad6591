"""`TensorMap`: a description of an array in global memory, by which one thread copies boxes of it (`tma`).

    a = TensorMap.of(x, (128, 64), swizzle=128)          # boxes of 128 rows and 64 columns
    launch(gemm, a, b, c, …)

A kernel takes a map as 128 bytes by value. On GPUs, they are the driver's CUtensorMap, which only instructions read. On CPU
streams, they are the address of the array, and the length and the stride of each axis in elements.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import struct
from collections.abc import Sequence
from typing import Any

import cuda_device as device
from cuda_device import ArrayType, LaunchError, int64, pointer
from cuda_device.extend import (
    ByValue,
    array_view,
    dataclass,
    driver,
    host_type,
    layout,
    model,
    struct_model,
    users_traceback,
)

MOST_AXES = 5
_MOST_IN_BOX, _MOST_LENGTH, _MOST_STRIDE = 256, 1 << 32, 1 << 40
_UNIT = 16
"""The bytes of which addresses, strides and the rows of boxes are multiples."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""The patterns by the bytes of their rows: the driver's numbers (CUtensorMapSwizzle)."""
_FILLS = {"zeros": 0, "nan": 1}
TF32 = "tf32"
_NUMBERS = {
    model.UINT8: 0, model.INT8: 0, model.FLOAT8E4M3: 0, model.FLOAT8E5M2: 0, model.UINT16: 1, model.INT16: 1,
    model.UINT32: 2, model.INT32: 3, model.UINT64: 4, model.INT64: 5, model.FLOAT16: 6, model.FLOAT32: 7,
    model.FLOAT64: 8, model.BFLOAT16: 9,
}  # fmt: skip
"""The driver's numbers (CUtensorMapDataType) of the types of elements. For copies, a type of the same size is as good."""
_TF32_NUMBER = 11
_L2_256_BYTES = 3
_SIZE, _ALIGNMENT = 128, 64


class TensorMap(ByValue):
    """A description of an array, by which `tma_load` and `tma_store` copy boxes of it; made by `TensorMap.of`.

    `array` is the array, `box` and `nbytes` are the shape and the size of a box, and `dtype`, `swizzle` and `fill` are as they
    were given.
    """

    __slots__ = ("_number", "array", "box", "dtype", "fill", "nbytes", "swizzle")

    def __init__(self, array: Any, box: Any, *, swizzle: int = 0, fill: str = "zeros", dtype: Any = None) -> None:
        view = array_view(array)
        _check_array(view.data, view.shape, view.strides, view.itemsize)
        boxes = Boxes(_element_of(view.element, dtype), _box_of(box), swizzle, fill, dtype == TF32, view.readonly)
        if len(boxes.box) != view.ndim:
            reason = f"the box {boxes.box} has {len(boxes.box)} axes, and the array has {view.ndim}"
            raise _refusal(reason, "give the length of a box along each axis")
        super().__init__(map_class(boxes), array, view)
        self._number, self.array, self.box, self.nbytes = boxes.number, array, boxes.box, boxes.nbytes
        self.swizzle, self.fill, self.dtype = swizzle, fill, TF32 if boxes.is_tf32 else host_type(boxes.element)
        if view.device.on_gpu:
            self._cuda_device_bytes_(True)  # which the launchers in machine code need

    @classmethod
    @users_traceback
    def of(cls, array: Any, box: Any, *, swizzle: int = 0, fill: str = "zeros", dtype: Any = None) -> TensorMap:
        """Describes an array for copies of boxes by `tma_load`, `tma_store` and `tma_reduce`.

        `array` is an array of any library, also of NumPy for CPU streams, with 1 to 5 axes, the last of which is contiguous.
        `box` is the shape of a box, in the order of the array's axes: at most 256 along each, and a multiple of 16 bytes along
        the last one. `swizzle` is the pattern of boxes in shared memory, 32, 64 or 128 bytes, of which a box's row then has
        exactly so many, or 0 for none. What lies outside the array is read as `fill`: "zeros" or, for floats, "nan". With the
        `dtype` "tf32", loads round the elements of a float32 array to that format.

        The map keeps the array alive, and describes the memory that it has now. Launches with the map are ordered with the work
        of the array's library, as with the array. Kernels take the map by value, with the type
        `TensorMapType(dtype, box, swizzle, fill)`. Raises `LaunchError`, with the reason, for what the hardware cannot do.
        CUDA: cuTensorMapEncodeTiled.
        """
        return cls(array, box, swizzle=swizzle, fill=fill, dtype=dtype)

    def pack(self, on_gpu: bool) -> bytes:
        """The bytes of the argument."""
        view = self._view
        if not on_gpu:
            steps, missing = [stride // view.itemsize for stride in view.strides], MOST_AXES - view.ndim
            axes = *view.shape, *(1,) * missing, *steps, *(0,) * missing
            return struct.pack(f"=Q{2 * MOST_AXES}q", view.data, *axes).ljust(_SIZE, b"\0")
        memory = view.ordinal, view.data, view.shape, _steps(view.shape, view.strides)
        return _encoded(*memory, self._number, self.box, self.swizzle, self.fill)

    def __reduce__(self) -> Any:
        dtype = TF32 if self.dtype == TF32 else None
        return functools.partial(TensorMap, swizzle=self.swizzle, fill=self.fill, dtype=dtype), (self.array, self.box)

    def __repr__(self) -> str:
        return f"<{self._known} of an array of the shape {self._view.shape}>"


@users_traceback
def TensorMapType(dtype: Any, box: Any, swizzle: int = 0, fill: str = "zeros") -> Any:  # noqa: N802
    """The type of a `TensorMap` as an argument, for `compile` and type hints of parameters.

    The parameters and errors are those of `TensorMap.of`; `dtype` is the type of the array's elements, or "tf32".
    """
    element = _element_of(_named_by(dtype), None)
    kind = struct_model(map_class(Boxes(element, _box_of(box), swizzle, fill, dtype == TF32)))
    assert kind is not None
    return model.Ref(model.Space.PARAMETER, kind, readonly=True)


@dataclass(frozen=True)
class Boxes:
    """What the type of a map says of its boxes, by which entities choose their code."""

    element: Any
    """The type of the elements, a class of `extend.model`."""
    box: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zeros"
    is_tf32: bool = False
    readonly: bool = False

    @property
    def count(self) -> int:
        """The number of elements of a box."""
        return math.prod(self.box)

    @property
    def unit(self) -> int:
        """The number of elements in 16 bytes, of which coordinates along the last axis are multiples."""
        return _UNIT // layout.size_of(self.element)

    @property
    def alignment(self) -> int:
        """The alignment of a box in shared memory in bytes."""
        return 8 * self.swizzle or 128

    @property
    def number(self) -> int:
        """The driver's number of the type of the elements."""
        return _TF32_NUMBER if self.is_tf32 else _NUMBERS[self.element]

    @property
    def nbytes(self) -> int:
        """The size of a box in bytes."""
        return self.count * layout.size_of(self.element)

    def __str__(self) -> str:
        pattern = f", swizzled by {self.swizzle} bytes" if self.swizzle else ""
        return f"boxes of {' x '.join(map(str, self.box))} {self.element}{pattern}"


@functools.cache
def map_class(boxes: Boxes) -> type:
    """The class of maps in device code: a struct with the members for CPU streams, and constants. Raises `LaunchError`."""
    _check_box(boxes)
    axes: Any = tuple[(int64,) * MOST_AXES]  # type: ignore[misc]
    scalar = host_type(boxes.element)
    members = {"_data": pointer(scalar, readonly=boxes.readonly), "_lengths": axes, "_strides": axes}
    constants = {"boxes": boxes, "box": boxes.box, "nbytes": boxes.nbytes, "dtype": staticmethod(scalar)}
    constants |= {"swizzle": boxes.swizzle, "fill": boxes.fill}
    marks = f"_swizzle{boxes.swizzle}" * bool(boxes.swizzle) + f"_{boxes.fill}" * (boxes.fill != "zeros")
    name = f"TensorMap_{TF32 if boxes.is_tf32 else boxes.element}_{'x'.join(map(str, boxes.box))}{marks}"
    body = {"__annotations__": members, "__module__": __name__, **constants}
    return device.struct(align=_ALIGNMENT)(type(name, (), body))


# What the hardware can do


def _refusal(reason: str, help: str) -> LaunchError:
    return LaunchError(f"TensorMap: {reason}", help)


def _box_of(box: Any) -> tuple[int, ...]:
    try:
        return (operator.index(box),) if hasattr(box, "__index__") else tuple(map(operator.index, box))
    except TypeError:
        raise _refusal(f"box={box!r}", "give a tuple with the length of a box along each axis") from None


def _named_by(dtype: Any) -> Any:
    """The type of the elements that `dtype` names."""
    return model.FLOAT32 if dtype == TF32 else ArrayType(dtype, 0).dtype


def _element_of(element: Any, dtype: Any) -> model.Number:
    """The type of the elements of an array, which `dtype` must be if it is not None."""
    if element not in _NUMBERS:
        known = ", ".join(map(str, _NUMBERS))
        raise _refusal(f"boxes have no elements of the type {element}", f"view the array as one of {known}")
    expected = element if dtype is None else _named_by(dtype)
    if element != expected:
        reason = f"the array has elements of the type {element}, and dtype={dtype!r}"
        raise _refusal(reason, "convert the array, or leave dtype out")
    assert isinstance(element, model.Number)
    return element


def _check_array(data: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> None:
    """Raises `LaunchError` for an array that no map describes."""
    if not 1 <= len(shape) <= MOST_AXES:
        raise _refusal(f"the array has {len(shape)} axes, and a map has 1 to {MOST_AXES}", "reshape it")
    for axis, length in enumerate(shape):
        if not 1 <= length <= _MOST_LENGTH:
            reason = f"the axis {axis} has the length {length}, and maps have lengths from 1 to 2**32"
            raise _refusal(reason, "describe parts of the array" if length else "give it elements")
    if data % _UNIT:
        raise _refusal(f"the array is at the address {data:#x}, which is not a multiple of {_UNIT}", "copy the array")
    if shape[-1] != 1 and strides[-1] != itemsize:
        reason = f"the last axis is not contiguous: its stride is {strides[-1]} bytes, and an element has {itemsize}"
        raise _refusal(reason, "transpose the array, or copy it (.copy())")
    for axis, stride in enumerate(_steps(shape, strides)):
        if stride % _UNIT or not 0 <= stride < _MOST_STRIDE:
            reason = (
                f"the axis {axis} has a stride of {stride} bytes, not a multiple of {_UNIT} from 0 to 2**40 - {_UNIT}"
            )
            raise _refusal(reason, "pad the rows of the array, or copy it (.copy())")


def _steps(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of all axes but the last one; that of an axis of length 1, which does not matter, is one unit."""
    pairs = zip(shape[:-1], strides[:-1], strict=True)
    return tuple([stride if length != 1 else _UNIT for length, stride in pairs])


def _check_box(boxes: Boxes) -> None:
    """Raises `LaunchError` for boxes that the hardware cannot copy."""
    element, box, swizzle, fill = boxes.element, boxes.box, boxes.swizzle, boxes.fill
    if swizzle not in SWIZZLES or isinstance(swizzle, bool):
        raise _refusal(f"swizzle={swizzle!r}", f"choose one of {', '.join(map(str, SWIZZLES))} bytes")
    if fill not in _FILLS or (fill == "nan" and (not element.is_float or element.is_float8)):
        choices = "'zeros' or 'nan'" if fill not in _FILLS else f"'zeros', because {element} is filled with no NaN"
        raise _refusal(f"fill={fill!r}", f"choose {choices}")
    if not 1 <= len(box) <= MOST_AXES:
        raise _refusal(f"the box {box} has {len(box)} axes, and a map has 1 to {MOST_AXES}", "reshape the array")
    if not all(1 <= length <= _MOST_IN_BOX for length in box):
        reason = f"the box {box} has an axis that is not from 1 to {_MOST_IN_BOX} long"
        raise _refusal(reason, "copy several smaller boxes")
    size = layout.size_of(element)
    row = f"a row of the box {box} has {box[-1] * size} bytes"
    if swizzle and box[-1] * size != swizzle:
        help = f"make the last axis of the box {swizzle // size} elements long, or choose another swizzle"
        raise _refusal(f"{row}, and the pattern has {swizzle}", help)
    if box[-1] * size % _UNIT:
        raise _refusal(f"{row}, which is not a multiple of {_UNIT}", "make the last axis of the box longer")


# The driver

_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, *[ctypes.c_void_p] * 4, *[ctypes.c_int] * 4
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _encoded(
    ordinal: int,
    data: int,
    shape: tuple[int, ...],
    steps: tuple[int, ...],
    number: int,
    box: tuple[int, ...],
    swizzle: int,
    fill: str,
) -> bytes:
    """The driver's description of an array, which depends on nothing else. Its axes are in the opposite order."""
    rank, memory = len(shape), ctypes.create_string_buffer(_SIZE + _ALIGNMENT)
    start = -ctypes.addressof(memory) % _ALIGNMENT
    longs, words = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    tables = longs(*shape[::-1]), longs(*steps[::-1]), words(*box[::-1]), words(*(1,) * rank)
    addresses = [ctypes.addressof(table) for table in tables]
    patterns = 0, SWIZZLES[swizzle], _L2_256_BYTES, _FILLS[fill]
    with driver.using(driver.context_of(ordinal)):
        status = _ENCODE(driver.entry_point("cuTensorMapEncodeTiled"))(
            ctypes.addressof(memory) + start, number, rank, data, *addresses, *patterns
        )
    driver.check((status,), f"describing an array of the shape {shape} by a tensor map")
    return memory.raw[start : start + _SIZE]
