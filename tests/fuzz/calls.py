"""Functions of numbers: for which types they are, of what result, what they compute, and how they are written.

CALLS["popc"]        a function of one number whose result the rules settle to the last bit
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import reference
from reference import BUILTIN, INTEGERS, UNSPECIFIED, convert, is_complex, is_float, promote

from fuzz.maker import in_range
from fuzz.programs import Type


@dataclass(frozen=True)
class Call:
    """A function of numbers; `compute` gets the operands' types, then their values."""

    takes: Callable[..., bool]
    result: Callable[..., Type]
    compute: Callable[..., Any]
    texts: tuple[str, ...]
    arity: int = 1


def is_real(type: Type) -> bool:
    """Whether a type is no complex number."""
    return not is_complex(type)


def is_integral(type: Type) -> bool:
    """Whether a type is an integer, and no bool."""
    return type in INTEGERS and type != "bool"


def float_of(type: Type) -> Type:
    """In which float a function of a real number computes."""
    if is_float(type):
        return type
    return "float" if type in BUILTIN else "float64" if reference.bits(type) == 64 else "float32"


def _common(*types: Type) -> Type:
    """In which float a function of several real numbers computes."""
    first, *rest = map(float_of, types)
    for other in rest:
        first = promote(first, other)
    return first


def _sqrt(type: Type, x: Any) -> Any:
    target = float_of(type)
    value = convert(target, x)
    with np.errstate(all="ignore"):
        # Twice as many digits and two more: rounding twice is as good as once.
        wide = np.float64(value) if reference.bits(target) == 64 else np.float32(value)
        return reference.round_to(target, float(np.sqrt(wide)))


def _rounded(function: Callable[[float], int]) -> Callable[[Type, Any], Any]:
    def compute(type: Type, x: Any) -> Any:
        if not is_float(type):
            return x
        return convert("int", float(function(x)) if math.isfinite(x) else x)

    return compute


def _absolute(type: Type, x: Any) -> Any:
    if is_float(type):
        return abs(x)
    return in_range("int" if type == "bool" else type, abs(int(x)))


def _bits(type: Type, x: int) -> int:
    return x & ((1 << reference.bits(type)) - 1)


def _reversed(type: Type, x: int) -> int:
    width = reference.bits(type)
    return int(convert(type, int(f"{_bits(type, x):0{width}b}"[::-1], 2)))


def _int_of(type: Type) -> Type:
    return "int" if is_float(type) or type == "bool" else type


def _is(test: Callable[[float], bool], otherwise: bool) -> Callable[[Type, Any], bool]:
    return lambda type, x: test(x) if is_float(type) else otherwise


def _fmod(a: Type, b: Type, x: Any, y: Any) -> Any:
    type = _common(a, b)
    x, y = convert(type, x), convert(type, y)
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    return math.fmod(x, y)


def _remainder(a: Type, b: Type, x: Any, y: Any) -> Any:
    type = _common(a, b)
    x, y = convert(type, x), convert(type, y)
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    return math.remainder(x, y)


def _copysign(a: Type, b: Type, x: Any, y: Any) -> Any:
    type = _common(a, b)
    x, y = convert(type, x), convert(type, y)  # to a NaN, where a format has no infinity
    return math.copysign(x, y) if not math.isnan(y) else UNSPECIFIED


def _fma(a: Type, b: Type, c: Type, x: Any, y: Any, z: Any) -> Any:
    type = _common(a, b, c)
    x, y, z = (convert(type, each) for each in (x, y, z))
    if not all(map(math.isfinite, (x, y, z))) or x == 0 or y == 0:
        with np.errstate(
            all="ignore"
        ):  # what is not finite, or a sum of zeros and z, needs no more digits than there are
            return float(np.float64(x) * np.float64(y) + np.float64(z)) if x == 0 or y == 0 else _endless(x, y, z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return 0.0 if z != 0 or x * y == 0 else math.copysign(0.0, x) * math.copysign(1.0, y)
    return reference.round_to(type, exact)


def _endless(x: float, y: float, z: float) -> float:
    """x * y + z where one of them is infinite or NaN, and neither x nor y is 0."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if math.isfinite(x) and math.isfinite(y):
        return z
    return math.copysign(1.0, x) * y + z if math.isinf(y) else x * math.copysign(1.0, y) + z


def _fma_takes(*types: Type) -> bool:
    return all(map(is_float, types))


def _next(a: Type, b: Type, x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return float(np.nextafter(reference.storage(a).type(x), reference.storage(b).type(y)))


def _whole(function: Callable[[float], int]) -> Callable[[Type, Any], Any]:
    """A float without a fraction, which keeps its sign."""
    return lambda type, x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


def _gcd(type: Type, _: Type, x: int, y: int) -> Any:
    found = math.gcd(x, y)
    return found if found <= reference.limits(type)[1] else UNSPECIFIED


def _both(test: Callable[[Type], bool]) -> Callable[[Type, Type], bool]:
    return lambda a, b: test(a) and test(b) and promote(a, b) is not None


def _same(type: Type) -> Type:
    return type


def _bool(*_: Type) -> Type:
    return "bool"


CALLS: dict[str, Call] = {
    "abs": Call(is_real, lambda t: "int" if t == "bool" else t, _absolute, ("abs({})",)),
    "sqrt": Call(is_real, float_of, _sqrt, ("math.sqrt({})", "np.sqrt({})")),
    "floor": Call(lambda t: is_real(t) and t != "bool", _int_of, _rounded(math.floor), ("math.floor({})",)),
    "ceil": Call(lambda t: is_real(t) and t != "bool", _int_of, _rounded(math.ceil), ("math.ceil({})",)),
    "trunc": Call(lambda t: is_real(t) and t != "bool", _int_of, _rounded(math.trunc), ("math.trunc({})",)),
    "round": Call(lambda t: is_real(t) and t != "bool", _int_of, _rounded(round), ("round({})",)),
    "isnan": Call(is_real, _bool, _is(math.isnan, False), ("math.isnan({})", "np.isnan({})")),
    "isinf": Call(is_real, _bool, _is(math.isinf, False), ("math.isinf({})",)),
    "isfinite": Call(is_real, _bool, _is(math.isfinite, True), ("math.isfinite({})",)),
    "fabs": Call(is_real, float_of, lambda t, x: abs(convert(float_of(t), x)), ("math.fabs({})",)),
    "popc": Call(is_integral, lambda t: "int32", lambda t, x: _bits(t, x).bit_count(), ("device.popc({})",)),
    "clz": Call(
        is_integral,
        lambda t: "int32",
        lambda t, x: reference.bits(t) - _bits(t, x).bit_length(),
        ("device.clz({})",),
    ),
    "ffs": Call(
        is_integral, lambda t: "int32", lambda t, x: (_bits(t, x) & -_bits(t, x)).bit_length(), ("device.ffs({})",)
    ),
    "brev": Call(is_integral, _same, _reversed, ("device.brev({})",)),
    "bit_length": Call(is_integral, lambda t: "int", lambda t, x: x.bit_length(), ("({}).bit_length()",)),
    "bit_count": Call(is_integral, lambda t: "int", lambda t, x: x.bit_count(), ("({}).bit_count()",)),
    "real": Call(is_complex, lambda t: reference.part(t), lambda t, x: x.real, ("{}.real",)),
    "imag": Call(is_complex, lambda t: reference.part(t), lambda t, x: x.imag, ("{}.imag",)),
    "conjugate": Call(is_complex, _same, lambda t, x: x.conjugate(), ("{}.conjugate()", "np.conj({})")),
    "fmod": Call(_both(is_real), _common, _fmod, ("math.fmod({}, {})",), 2),
    "remainder": Call(_both(is_real), _common, _remainder, ("math.remainder({}, {})",), 2),
    "copysign": Call(_both(is_real), _common, _copysign, ("math.copysign({}, {})",), 2),
    "fma": Call(_fma_takes, _common, _fma, ("device.fma({}, {}, {})",), 3),
    "nextafter": Call(
        lambda a, b: a == b and a in ("float32", "float64"), lambda a, b: a, _next, ("math.nextafter({}, {})",), 2
    ),
    "np.floor": Call(is_float, _same, _whole(math.floor), ("np.floor({})",)),
    "np.trunc": Call(is_float, _same, _whole(math.trunc), ("np.trunc({})",)),
    "np.rint": Call(is_float, _same, _whole(round), ("np.rint({})",)),
    "gcd": Call(lambda a, b: is_integral(a) and a == b, lambda a, b: a, _gcd, ("math.gcd({}, {})",), 2),
}
