"""The promotion rules: the type in which an operation computes.

A builtin number that is combined with a fixed-format number of its own or a higher kind takes that number's type. An integer
combined with a fixed-format float takes the float's type. A fixed-format integer combined with a builtin float, or `/` of two
integers, gives float32, or float64 if an operand has 64 bits. A complex number is complex64, or complex128 if it is combined
with a float64.

    promote(FLOAT32, FLOAT)  == FLOAT32          promote(INT32, FLOAT)  == FLOAT32
    promote(UINT8, INT)      == UINT8            promote(INT64, FLOAT)  == FLOAT64
    promote(FLOAT32, COMPLEX) == COMPLEX64       promote(COMPLEX64, FLOAT64) == COMPLEX128
    promote(INT8, UINT8)     == INT16            promote(UINT64, INT64) is None (a cast must decide)

Each function returns None if there is no such type.
"""

from __future__ import annotations

from cuda_device.types import model


def promote(a: model.Number, b: model.Number) -> model.Number | None:
    """The type in which arithmetic on `a` and `b` takes place; bool counts as builtin int."""
    a, b = _arithmetic(a), _arithmetic(b)
    if a == b:
        return a
    if a.builtin and b.builtin:
        return _promote_builtin(a, b)
    if a.builtin or b.builtin:
        builtin, fixed = (a, b) if a.builtin else (b, a)
        return _promote_mixed(builtin, fixed)
    return _promote_fixed(a, b)


def _arithmetic(number: model.Number) -> model.Number:
    return model.INT if number.kind is model.NumberKind.BOOL else model.INT32 if number.mask else number


def _promote_builtin(a: model.Number, b: model.Number) -> model.Number:
    if a.is_complex or b.is_complex:
        return model.COMPLEX
    if a.is_float or b.is_float:
        return model.FLOAT
    return model.INDEX if model.INDEX in (a, b) else model.INT


def _promote_mixed(builtin: model.Number, fixed: model.Number) -> model.Number:
    if builtin.is_complex:
        return to_complex(fixed)
    if builtin.is_float and fixed.is_integer:
        return model.FLOAT64 if fixed.bits == 64 else model.FLOAT32
    if builtin == model.INDEX and fixed.is_integer and fixed.bits <= 32:
        return model.INDEX
    return fixed


def _promote_fixed(a: model.Number, b: model.Number) -> model.Number | None:
    if a.is_complex or b.is_complex:
        # Integers do not count, as beside a float.
        return model.COMPLEX128 if {a, b} & {model.COMPLEX128, model.FLOAT64} else model.COMPLEX64
    if a.is_float and b.is_float:
        wide = a if a.bits > b.bits else b
        # Neither of float16 and bfloat16 can represent the other, and 8-bit floats do not promote to 16 bits.
        return model.FLOAT32 if a.bits == b.bits or (min(a.bits, b.bits) == 8 and wide.bits == 16) else wide
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if a.kind is b.kind:
        return a if a.bits >= b.bits else b
    unsigned, signed = (a, b) if a.kind is model.NumberKind.UINT else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return {8: model.INT16, 16: model.INT32, 32: model.INT64}.get(unsigned.bits)


def divide(a: model.Number, b: model.Number) -> model.Number | None:
    """The type of `a / b`."""
    number = promote(a, b)
    if number is None or number.is_float or number.is_complex:
        return number
    if a.builtin and b.builtin:
        return model.FLOAT
    wide = any(operand.bits == 64 and not operand.builtin for operand in (a, b))
    return model.FLOAT64 if wide else model.FLOAT32


def to_float(number: model.Number) -> model.Number:
    """The floating point type in which functions of real numbers compute for an argument of type `number`."""
    if number.is_float:
        return number
    if number.builtin:
        return model.FLOAT
    return model.FLOAT64 if number.bits == 64 else model.FLOAT32


def to_complex(number: model.Number) -> model.Number:
    """The complex type whose parts have the precision of a number."""
    if number.is_complex:
        return number
    real = to_float(number)
    return model.COMPLEX if real.builtin else model.COMPLEX128 if real.bits == 64 else model.COMPLEX64


def join_numbers(a: model.Number, b: model.Number) -> model.Number | None:
    """The type of a variable that is `a` on one edge and `b` on another: like `promote`, but bools and masks are kept."""
    if a.kind is model.NumberKind.BOOL and b.kind is model.NumberKind.BOOL:
        return model.BOOL
    return a if a == b else promote(a, b)


def signed(bits: int) -> int:
    """The int32 with these 32 bits: 0xFFFFFFFF is -1."""
    return bits - (1 << 32) if bits > model.INT32.high else bits


# Types in which results may lose what the program's builtin numbers have (`infer/precision`)


def is_narrow_number(type: object) -> bool:
    """Whether a type is a number type of at most 16 bits."""
    return isinstance(type, model.Number) and type.bits <= 16 and type != model.BOOL


def is_wide_float(type: object) -> bool:
    """Whether a type is float64 or complex128."""
    return (
        isinstance(type, model.Number) and not type.is_integer and (type.part if type.is_complex else type).bits == 64
    )
