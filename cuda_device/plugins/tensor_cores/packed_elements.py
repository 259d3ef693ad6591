"""Packing: two elements of 16 bits, or four of 8 bits, in a uint32, as tensor cores take them.

word = pack(x, y, dtype=bfloat16)           x in the low bits
x, y = unpack(word, bfloat16)
z = to_tf32(x)                              rounded to the precision of tf32
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from cuda_device import CompileError, DeviceOnlyError, float32, int32, provides, ptx, sm75, sm80, sm89, target, uint32
from cuda_device.extend import Known, constant_of, host_type, model, specialised, type_argument
from cuda_device.plugins.tensor_cores.single_instructions import UNSIGNED

_ELEMENTS = (
    model.FLOAT16,
    model.BFLOAT16,
    model.FLOAT8E4M3,
    model.FLOAT8E5M2,
    model.INT8,
    model.UINT8,
    model.INT16,
    model.UINT16,
)
"""The types of the elements that are packed."""
_LARGEST = {model.FLOAT16: 65504, model.BFLOAT16: 0xFF << 120, model.FLOAT8E4M3: 448, model.FLOAT8E5M2: 57344}
"""The largest finite float of each type."""


def pack(*x: Any, dtype: Any = None, saturate: bool = False) -> np.uint32:
    """Returns two numbers as elements of 16 bits, or four as elements of 8 bits, in a uint32, the first in the low bits.

    `dtype` is float16, bfloat16, float8e4m3, float8e5m2, int8, uint8, int16 or uint16; it may also be the last positional
    argument. The numbers are converted as by `dtype(x)`: rounded to the nearest float, with ties to even; a number that is too
    large becomes infinity, or NaN in float8e4m3. With `saturate`, a constant, it becomes the largest finite number, and an
    integer that does not fit becomes the nearest that does. NaN stays NaN.

    From float32, GPUs have one instruction for two floats of 16 bits (sm_80), with `saturate` also for two floats of 8 bits
    (sm_89), and for two integers. Device only. Raises `CompileError` for other types and counts. Source: PTX, cvt and cvt.pack.
    """
    raise DeviceOnlyError.of("pack")


def unpack(bits: Any, dtype: Any) -> Any:
    """Returns the elements that `pack` has packed: a tuple of two or four numbers of `dtype`, that in the low bits first.

    `bits` is an integer of 32 bits. Device only. Raises `CompileError` for other types.
    """
    raise DeviceOnlyError.of("unpack")


def to_tf32(x: Any) -> np.float32:
    """Returns `x` as a float32 whose 10 highest bits of the mantissa are set: rounded to nearest, with ties away from zero.

    Tensor cores ignore the other bits of tf32 operands: they truncate a float32 that has not been rounded. Device only, for
    sm_80 and later. Source: PTX, cvt.rna.tf32.f32.
    """
    raise DeviceOnlyError.of("to_tf32")


@specialised(pack)
def _(*arguments: Known) -> Callable[..., Any]:
    *x, dtype, saturate = arguments
    if dtype.constant and dtype.python is None:
        if not x or isinstance(x[-1].type, model.Number):
            raise CompileError(
                "pack needs the type of the elements", help="write pack(x, y, dtype=float16), for example"
            )
        dtype = x.pop()
    element, types = _element(dtype, "pack"), tuple(_real(known, "pack") for known in x)
    if len(x) * element.bits != 32:
        raise CompileError(
            f"pack takes {32 // element.bits} numbers for {element}, not {len(x)}",
            help=f"write pack({', '.join('abcd'[: 32 // element.bits])}, dtype={element})",
        )
    return _packed(types, element, bool(constant_of(saturate, "saturate")))


def _element(dtype: Known, entity: str) -> model.Number:
    element = type_argument(dtype, f"the dtype of {entity}")
    if element not in _ELEMENTS:
        raise CompileError(
            f"{entity} has no elements of {element}", help=f"dtype is one of {', '.join(map(str, _ELEMENTS))}"
        )
    assert isinstance(element, model.Number)
    return element


def _real(known: Known, entity: str) -> model.Number:
    """The type of a real number."""
    if not isinstance(known.type, model.Number) or known.type.is_complex:
        raise CompileError(
            f"{entity} takes real numbers, not {known}", help="pass its elements or its parts one by one"
        )
    return known.type.machine


@functools.cache
def _packed(types: tuple[model.Number, ...], element: model.Number, saturate: bool) -> Callable[..., Any]:
    """The device function that packs numbers of these types."""
    count = len(types)
    if element.is_integer and (set(types) <= _LIKE_INT32 if saturate else set(types) == {model.FLOAT32}):
        return _packed_integers(count, element)
    joined, (since, template) = _joined(types, element, saturate), _CONVERSIONS.get((element, saturate), (sm75, ""))
    if not template or set(types) != {model.FLOAT32}:
        return lambda *arguments: joined(*arguments[:count])

    def packed(*arguments: Any) -> Any:
        x = arguments[:count]
        if target(provides(since)):
            return ptx(template, *x, result=uint32, host=joined, volatile=False)
        return joined(*x)

    return packed


def _two_pairs(conversion: str) -> str:
    """Two instructions, each of which converts two numbers."""
    pairs = f"{conversion} low, $2, $1; {conversion} high, $4, $3;"
    return f"{{ .reg .b16 low, high; {pairs} mov.b32 $0, {{low, high}}; }}"


_CONVERSIONS = {
    (model.FLOAT16, False): (sm80, "cvt.rn.f16x2.f32 $0, $2, $1;"),
    (model.FLOAT16, True): (sm80, "cvt.rn.satfinite.f16x2.f32 $0, $2, $1;"),
    (model.BFLOAT16, False): (sm80, "cvt.rn.bf16x2.f32 $0, $2, $1;"),
    (model.BFLOAT16, True): (sm80, "cvt.rn.satfinite.bf16x2.f32 $0, $2, $1;"),
    (model.FLOAT8E4M3, True): (sm89, _two_pairs("cvt.rn.satfinite.e4m3x2.f32")),
    (model.FLOAT8E5M2, True): (sm89, _two_pairs("cvt.rn.satfinite.e5m2x2.f32")),
}
"""By the type of the elements and `saturate`, the instructions that convert float32, and the first architecture with them."""

# Integers

_LIKE_INT32 = {model.INT8, model.UINT8, model.INT16, model.UINT16, model.INT32, model.FLOAT32}
"""The types whose conversion to an integer of 8 or 16 bits with saturation is the same after one to int32."""


@functools.cache
def _packed_integers(count: int, element: model.Number) -> Callable[..., Any]:
    """The function that packs numbers of these types with saturation."""
    kind = f"cvt.pack.sat.{'s' if element.signed else 'u'}{element.bits}.s32"
    four = f"{{ .reg .b32 high; {kind}.b32 high, $4, $3, 0; {kind}.b32 $0, $2, $1, high; }}"
    template, joined = four if count == 4 else f"{kind} $0, $2, $1;", _joined((model.INT32,) * count, element, True)

    def packed(*arguments: Any) -> Any:
        integers = [int32(x) for x in arguments[:count]]
        return ptx(template, *integers, result=uint32, host=joined, volatile=False)

    return packed


# The meaning of all these instructions


@functools.cache
def _joined(types: tuple[model.Number, ...], element: model.Number, saturate: bool) -> Callable[..., Any]:
    """The function that converts numbers of these types one by one."""
    convert: Any = tuple(_converter(type, element, saturate) for type in types)
    unsigned, bits = UNSIGNED[element.bits // 8], element.bits

    def joined(*x: Any) -> Any:
        word = uint32(0)
        for i, (value, conversion) in enumerate(zip(x, convert)):  # noqa: B905
            word |= uint32(conversion(value).view(unsigned)) << (bits * i)
        return word

    return joined


@functools.cache
def _converter(type: model.Number, element: model.Number, saturate: bool) -> Callable[[Any], Any]:
    """The function that converts a number of a type to an element."""
    dtype, widened = host_type(element), type.is_float and type.bits < 32
    number = float if type.is_float else int
    most = number(element.high if element.is_integer else _LARGEST[element])
    least = number(element.low) if element.is_integer else -most
    limits = saturate and (type.is_integer or (type.is_float and not element.is_integer))
    has_more, has_less = (limits and (type.is_float or beyond) for beyond in (type.high > most, type.low < least))

    def converted(x: Any) -> Any:
        value = float32(x) if widened else x
        if has_more:
            value = min(value, most)
        if has_less:
            value = max(value, least)
        return dtype(value)

    return converted


@specialised(unpack)
def _(bits: Known, dtype: Known) -> Callable[..., Any]:
    element = _element(dtype, "unpack")
    if not isinstance(bits.type, model.Number) or not bits.type.is_integer or bits.type.bits != 32:
        raise CompileError(f"unpack takes an integer of 32 bits, not {bits}", help="convert it, as in uint32(…)")
    return unpacked(element)


@functools.cache
def unpacked(element: model.Number) -> Callable[..., Any]:
    """The function that unpacks elements of a type from an integer of 32 bits."""
    dtype, shifts = host_type(element), tuple(range(0, 32, element.bits))
    unsigned = UNSIGNED[element.bits // 8]

    def elements(word: Any, _: Any = None) -> Any:
        return tuple([unsigned(uint32(word) >> shift).view(dtype) for shift in shifts])

    return elements


# Rounding to tf32


@specialised(to_tf32, since=sm80)
def _(x: Known) -> Callable[..., Any]:
    _real(x, "to_tf32")
    return _to_tf32


def _to_tf32(x: Any) -> Any:
    return ptx("cvt.rna.tf32.f32 $0, $1;", float32(x), result=uint32, host=_rounded_to_tf32, volatile=False).view(
        float32
    )


def _rounded_to_tf32(x: Any) -> Any:
    return tf32_bits(x.view(uint32))


def tf32_bits(bits: Any) -> Any:
    """The bits of a float32, rounded to the nearest tf32, away from zero if there are two."""
    return bits if bits & 0x7F800000 == 0x7F800000 else (bits + uint32(0x1000)) & uint32(0xFFFFE000)
