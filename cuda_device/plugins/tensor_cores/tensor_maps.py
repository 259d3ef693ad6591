"""`TensorMap`: a description of an array in global memory, by which one thread copies boxes of it (`tma`).

    a = device.TensorMap.of(x, (128, 64), swizzle=128)          # boxes of 128 rows and 64 columns
    launch(gemm, a, b, c, …)

A kernel takes a map as 128 bytes by value. On GPUs, they are the driver's CUtensorMap, which only instructions read. On CPU
streams, they are the address of the array, the lengths of its axes, and their strides in bytes.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
from collections.abc import Sequence
from typing import Any

import cuda_device as device
from cuda_device import ArrayType, LaunchError, as_array, int64, pointer
from cuda_device.extend import ByValue, array_view, driver, layout, model, struct_model, users_traceback

MOST_AXES, MOST_IN_BOX, MOST_LENGTH, MOST_STRIDE = 5, 256, 1 << 32, 1 << 40
UNIT = 16
"""The bytes of which addresses, strides and the rows of boxes are multiples."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""The patterns by the bytes of their rows: the driver's numbers (CUtensorMapSwizzle)."""
FILLS = {"zeros": 0, "nan": 1}
TF32 = "tf32"
_DATA_TYPES = {
    device.uint8: 0, device.int8: 0, device.float8e4m3: 0, device.float8e5m2: 0, device.uint16: 1, device.int16: 1,
    device.uint32: 2, device.int32: 3, device.uint64: 4, device.int64: 5, device.float16: 6, device.float32: 7,
    device.float64: 8, device.bfloat16: 9,
}  # fmt: skip
"""The driver's numbers (CUtensorMapDataType) of the types of elements. For copies, a type of the same size is as good."""
_CLASSES = {ArrayType(scalar, 0).dtype: scalar for scalar in _DATA_TYPES}
_TF32_NUMBER, _L2_256_BYTES = 11, 3
_SIZE, _ALIGNMENT = 128, 64


class TensorMap(ByValue):
    """A description of an array, by which `tma_load` and `tma_store` copy boxes of it; made by `TensorMap.of`."""

    __slots__ = ("array", "box", "dtype", "fill", "nbytes", "swizzle")

    def __init__(self, array: Any, box: Any, *, swizzle: int = 0, fill: str = "zeros", dtype: Any = None) -> None:
        view = array_view(as_array(array, order="strided", name="array"))
        lengths = _box_of(box)
        _check_array(view.data, view.shape, view.strides, view.itemsize)
        element = _element_of(view.element, dtype)
        if len(lengths) != view.ndim:
            raise _refusal(f"the box {lengths} has {len(lengths)} axes, and the array has {view.ndim}", "give a length for each")
        described = map_class(element, dtype == TF32, lengths, swizzle, fill, view.readonly)
        super().__init__(described, array, view)
        self.array, self.box, self.swizzle, self.fill = array, lengths, swizzle, fill
        self.dtype, self.nbytes = TF32 if dtype == TF32 else _CLASSES[element], described.nbytes  # type: ignore[attr-defined]

    @classmethod
    @users_traceback
    def of(cls, array: Any, box: Any, *, swizzle: int = 0, fill: str = "zeros", dtype: Any = None) -> TensorMap:
        """Describes an array for copies of boxes (`tma_load`, `tma_store`, `tma_reduce`).

        `array` is an array of any library, with 1 to 5 axes, the last of which is contiguous; on CPU streams also one of NumPy.
        `box` has the length of a box along each axis, in the order of NumPy: at most 256, and a multiple of 16 bytes along the
        last axis. `swizzle` is the pattern of the boxes in shared memory, 32, 64 or 128 bytes, which are then the bytes of a
        box's row, or 0 for none. What lies outside the array is read as `fill`, "zeros" or, for floats, "nan". With the `dtype`
        "tf32", loads round the elements of a float32 array to that format.

        The map keeps the array alive. It describes the memory that the array has now. As an argument of a kernel it is passed by
        value, with the type `TensorMapType(dtype, box, swizzle, fill)`; `nbytes` are those of a box. Raises `LaunchError` for
        what the hardware cannot do, with the reason. CUDA: cuTensorMapEncodeTiled.
        """
        return cls(array, box, swizzle=swizzle, fill=fill, dtype=dtype)

    def pack(self, on_gpu: bool) -> bytes:
        """The bytes of the argument."""
        view = self._view
        if not on_gpu:
            missing = MOST_AXES - view.ndim
            axes = *view.shape, *(1,) * missing, *view.strides, *(0,) * missing
            return struct.pack(f"=Q{2 * MOST_AXES}q", view.data, *axes).ljust(_SIZE, b"\0")
        number = _TF32_NUMBER if self.dtype == TF32 else _DATA_TYPES[self.dtype]
        with driver.using(driver.context_of(view.ordinal)):
            return _encoded(number, view.data, view.shape, _steps(view.shape, view.strides), self)

    def __reduce__(self) -> Any:
        dtype = TF32 if self.dtype == TF32 else None
        return functools.partial(TensorMap, swizzle=self.swizzle, fill=self.fill, dtype=dtype), (self.array, self.box)

    def __repr__(self) -> str:
        return f"<{self._known.type.pointee.name} of an array of the shape {tuple(self.array.shape)}>"  # type: ignore[union-attr]


@users_traceback
def TensorMapType(dtype: Any, box: Any, swizzle: int = 0, fill: str = "zeros") -> Any:  # noqa: N802
    """The type of a `TensorMap` as an argument, for `compile` and type hints of parameters.

    The parameters and errors are those of `TensorMap.of`; `dtype` is the type of the array's elements, or "tf32".
    """
    element = _element_of(model.FLOAT32 if dtype == TF32 else ArrayType(dtype, 0).dtype, dtype)
    described = map_class(element, dtype == TF32, _box_of(box), swizzle, fill, False)
    return model.Ref(model.Space.PARAMETER, struct_model(described), readonly=True)


@functools.cache
def map_class(element: Any, tf32: bool, box: tuple[int, ...], swizzle: int, fill: str, readonly: bool) -> type:
    """The class of a map in device code: a struct with the members for CPU streams and constants. Raises `LaunchError`."""
    _check_box(element, box, swizzle, fill)
    axes, name = tuple[(int64,) * MOST_AXES], TF32 if tf32 else str(element)
    members = {"_data": pointer(_CLASSES[element], readonly=readonly), "_lengths": axes, "_strides": axes}
    constants = {
        "box": box,
        "dtype": staticmethod(_CLASSES[element]),
        "fill": fill,
        "nbytes": functools.reduce(operator.mul, box, layout.size_of(element)),
        "swizzle": swizzle,
        "is_tf32": tf32,
    }
    marks = f"_swizzle{swizzle}" * bool(swizzle) + f"_{fill}" * (fill != "zeros")
    body = {"__annotations__": members, "__module__": __name__, **constants}
    return device.struct(align=_ALIGNMENT)(type(f"TensorMap_{name}_{'x'.join(map(str, box))}{marks}", (), body))


# What the hardware can do


def _refusal(reason: str, help: str) -> LaunchError:
    return LaunchError(f"TensorMap: {reason}", help)


def _box_of(box: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(length) for length in (box if isinstance(box, Sequence) else (box,)))
    except TypeError:
        raise _refusal(f"box={box!r}", "give a tuple with the length of a box along each axis") from None


def _element_of(element: model.Type, dtype: Any) -> model.Number:
    """The type of the elements of an array, which `dtype` must be if it is not None."""
    if element not in _CLASSES:
        known = ", ".join(map(str, _CLASSES))
        raise _refusal(f"boxes have no elements of the type {element}", f"view the array as one of {known}")
    expected = model.FLOAT32 if dtype == TF32 else element if dtype is None else ArrayType(dtype, 0).dtype
    if element != expected:
        raise _refusal(
            f"the array has elements of the type {element}, and dtype={dtype!r}", "convert the array, or leave dtype out"
        )
    assert isinstance(element, model.Number)
    return element


def _check_array(data: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> None:
    """Raises `LaunchError` for an array that no map describes."""
    if not 1 <= len(shape) <= MOST_AXES:
        raise _refusal(f"the array has {len(shape)} axes, and a map has 1 to {MOST_AXES}", "reshape it")
    if data % UNIT:
        raise _refusal(f"the array is at the address {data:#x}, which is not a multiple of {UNIT}", "copy the array")
    for axis, length in enumerate(shape):
        if not 1 <= length <= MOST_LENGTH:
            raise _refusal(f"the axis {axis} has the length {length}, and a map has 1 to 2**32", "divide the array")
    if shape[-1] != 1 and strides[-1] != itemsize:
        reason = f"the last axis is not contiguous: its stride is {strides[-1]} bytes, and an element has {itemsize}"
        raise _refusal(reason, "transpose the array, or copy it (.copy())")
    for axis, stride in enumerate(_steps(shape, strides)):
        if stride % UNIT or not 0 <= stride < MOST_STRIDE:
            reason = f"the axis {axis} has a stride of {stride} bytes, which is not a multiple of {UNIT} from 0 to 2**40"
            raise _refusal(reason, "pad the rows of the array, or copy it (.copy())")


def _steps(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The strides of all axes but the last one; that of an axis of length 1, which does not matter, is one unit."""
    pairs = zip(shape[:-1], strides[:-1], strict=True)
    return [stride if length != 1 else UNIT for length, stride in pairs]


def _check_box(element: model.Number, box: tuple[int, ...], swizzle: Any, fill: Any) -> None:
    """Raises `LaunchError` for a box that the hardware cannot copy."""
    if swizzle not in SWIZZLES or isinstance(swizzle, bool):
        raise _refusal(f"swizzle={swizzle!r}", f"choose one of {', '.join(map(str, SWIZZLES))} bytes")
    if fill not in FILLS or (fill == "nan" and (not element.is_float or element.is_float8)):
        choices = "'zeros' or 'nan'" if fill not in FILLS else f"'zeros', because {element} has no such NaN"
        raise _refusal(f"fill={fill!r}", f"choose {choices}")
    if not 1 <= len(box) <= MOST_AXES:
        raise _refusal(f"the box {box} has {len(box)} axes, and a map has 1 to {MOST_AXES}", "reshape the array")
    if not all(1 <= length <= MOST_IN_BOX for length in box):
        raise _refusal(f"the box {box} has an axis that is not from 1 to {MOST_IN_BOX} long", "copy several smaller boxes")
    nbytes = box[-1] * layout.size_of(element)
    if swizzle and nbytes != swizzle:
        fits = f"{swizzle // layout.size_of(element)} elements"
        raise _refusal(
            f"a row of the box {box} has {nbytes} bytes, and the pattern has {swizzle}",
            f"make the last axis of the box {fits} long, or choose another swizzle",
        )
    if nbytes % UNIT:
        raise _refusal(f"a row of the box {box} has {nbytes} bytes, which is not a multiple of {UNIT}", "make it longer")


# The driver

_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    *[ctypes.c_void_p] * 4,
    *[ctypes.c_int] * 4,
)


def _encoded(number: int, data: int, shape: Sequence[int], steps: Sequence[int], map: TensorMap) -> bytes:
    """The driver's description of an array, whose context is current. Its axes are in the opposite order."""
    rank = len(shape)
    lengths, strides = (ctypes.c_uint64 * rank)(*shape[::-1]), (ctypes.c_uint64 * rank)(*steps[::-1])
    box, every = (ctypes.c_uint32 * rank)(*map.box[::-1]), (ctypes.c_uint32 * rank)(*(1,) * rank)
    memory = ctypes.create_string_buffer(_SIZE + _ALIGNMENT)
    start = -ctypes.addressof(memory) % _ALIGNMENT
    encode = _ENCODE(driver.entry_point("cuTensorMapEncodeTiled"))
    tables = map_tables = lengths, strides, box, every
    patterns = 0, SWIZZLES[map.swizzle], _L2_256_BYTES, FILLS[map.fill]
    addresses = [ctypes.addressof(table) for table in map_tables]
    status = encode(ctypes.addressof(memory) + start, number, rank, data, *addresses, *patterns)
    driver.check((status,), f"describing an array of the shape {tuple(shape)} by a tensor map")
    del tables
    return memory.raw[start : start + _SIZE]
