"""What arithmetic in device code gives: the rules in plain Python, one number at a time, from the tables of the Array API.

A type is its name: `"bool"`, `"int"`, `"index"`, `"float"`, `"complex"` are builtin numbers, `"int8"` to `"complex128"`
fixed-format ones. A value is a Python bool, int, float or complex; a Python float holds every float of at most 64 bits exactly.
So `binary("+", "uint8", 255, "int", 1)` is 0. Nothing here uses the compiler's own tables, or another's formats of 8 and 16 bits.
"""

import ctypes
import functools
import math
import operator
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
FIXED = (*SIGNED, *UNSIGNED, *FLOATS)
BUILTIN = ("bool", "int", "index", "float")
NUMBERS = (*BUILTIN, *FIXED)
INTEGERS = ("bool", "int", "index", *SIGNED, *UNSIGNED)
NARROW = ("bfloat16", "float8e4m3", "float8e5m2")
"""The floats that NumPy has not."""
REALS = (*NUMBERS, *NARROW)
COMPLEXES = ("complex", "complex64", "complex128")
EVERY = (*REALS, *COMPLEXES)
EVERY_FIXED = (*FIXED, *NARROW, "complex64", "complex128")

BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")
COMPARISONS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

# Array API standard, "Mixed signed and unsigned integer type promotion"; uint64 beside a signed integer is undefined there.
_MIXED = {
    ("int8", "uint8"): "int16", ("int8", "uint16"): "int32", ("int8", "uint32"): "int64",
    ("int16", "uint8"): "int16", ("int16", "uint16"): "int32", ("int16", "uint32"): "int64",
    ("int32", "uint8"): "int32", ("int32", "uint16"): "int32", ("int32", "uint32"): "int64",
    ("int64", "uint8"): "int64", ("int64", "uint16"): "int64", ("int64", "uint32"): "int64",
}  # fmt: skip


class _Unspecified:
    """A result that the rules leave open."""

    def __repr__(self):
        return "unspecified"


UNSPECIFIED = _Unspecified()


# Formats


# A float's digits, the exponent of its least bit, its greatest value, and what is greater than that.
_FORMATS = {
    "float8e4m3": (4, -9, 448.0, math.nan),
    "float8e5m2": (3, -16, 57344.0, math.inf),
    "float16": (11, -24, 65504.0, math.inf),
    "bfloat16": (8, -133, 255 * 2.0**120, math.inf),
    "float32": (24, -149, (2**24 - 1) * 2.0**104, math.inf),
    "float64": (53, -1074, (2**53 - 1) * 2.0**971, math.inf),
}
_STORED = {"bool": "bool", "int": "int32", "index": "int64", "float": "float32", "complex": "complex64"}
_BITS = {
    "bool": 8,
    "int": 32,
    "index": 64,
    "float": 32,
    "complex": 64,
    "float8e4m3": 8,
    "float8e5m2": 8,
    "bfloat16": 16,
}


@functools.cache
def bits(name):
    """The width of a number."""
    return _BITS.get(name) or int(name.lstrip("uintfloacmpex"))


@functools.cache
def storage(name):
    """The NumPy dtype that holds every value of a type; those of narrow floats are ml_dtypes'."""
    name = _STORED.get(name, name)
    return np.dtype(getattr(ml_dtypes, "float8_e4m3fn" if name == "float8e4m3" else name.replace("8e", "8_e"))
                    if name in NARROW else name)  # fmt: skip


@functools.cache
def is_float(name):
    """Whether a type is a floating point number."""
    return name.startswith(("float", "bfloat"))


@functools.cache
def is_complex(name):
    """Whether a type is a complex number."""
    return name.startswith("complex")


@functools.cache
def part(name):
    """The type of a complex number's real and imaginary part."""
    return {"complex": "float", "complex64": "float32", "complex128": "float64"}[name]


@functools.cache
def limits(name):
    """The least and the greatest value of an integer or bool."""
    if name == "bool":
        return 0, 1
    if name in UNSIGNED:
        return 0, (1 << bits(name)) - 1
    return -(1 << (bits(name) - 1)), (1 << (bits(name) - 1)) - 1


def round_to(name, exact):
    """An exact int, float or Fraction, rounded once, to nearest even, to a float type."""
    if isinstance(exact, Fraction) or (isinstance(exact, int) and abs(exact) > 1 << 53):
        return _round_fraction(name, Fraction(exact))
    if name in NARROW:
        return _round_narrow(name, float(exact))
    if name == "float64":
        return float(exact)
    if name != "float16":
        return ctypes.c_float(exact).value
    with np.errstate(all="ignore"):
        return float(np.float16(exact))


def _round_narrow(name, exact):
    digits, least, most, beyond = _FORMATS[name]
    if exact == 0 or math.isnan(exact):
        return exact
    if math.isinf(exact):
        return math.copysign(beyond, exact)
    unit = max(math.frexp(exact)[1] - digits, least)
    rounded = math.ldexp(round(math.ldexp(exact, -unit)), unit)  # both scalings are exact, and half goes to even
    return math.copysign(beyond if abs(rounded) > most else rounded, exact)


def _round_fraction(name, exact):
    digits, least, most, beyond = _FORMATS[_STORED.get(name, name)]
    if exact == 0:
        return 0.0
    size = abs(exact)
    top = size.numerator.bit_length() - size.denominator.bit_length()
    top += size >= Fraction(2) ** top  # 2 ** (top - 1) <= size < 2 ** top
    unit = Fraction(2) ** max(top - digits, least)
    rounded = round(size / unit) * unit  # half to even
    return math.copysign(beyond if rounded > Fraction(most) else float(rounded), exact)


def convert(name, value):
    """What the constructor of a type makes of a value, at run time."""
    if name == "bool":
        return bool(value)
    if is_float(name):
        return round_to(name, value if isinstance(value, float) else int(value))
    if is_complex(name):
        real, imaginary = (value.real, value.imag) if isinstance(value, complex) else (value, 0.0)
        return complex(convert(part(name), real), convert(part(name), imaginary))
    low, high = limits(name)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return low if value < 0 else high
        return max(low, min(high, int(value)))
    wrapped = int(value) & ((1 << bits(name)) - 1)
    return wrapped - (1 << bits(name)) if wrapped > high else wrapped


# Types of results


@functools.cache
def promote(a, b):
    """The type of `a + b`; None where there is none."""
    a, b = ("int" if t == "bool" else t for t in (a, b))
    if is_complex(a) or is_complex(b):
        return _promote_complex(a, b)
    if a in BUILTIN and b in BUILTIN:
        return "float" if "float" in (a, b) else "index" if "index" in (a, b) else "int"
    if a in BUILTIN or b in BUILTIN:
        builtin, fixed = (a, b) if a in BUILTIN else (b, a)
        if builtin == "float" and not is_float(fixed):
            return "float64" if bits(fixed) == 64 else "float32"
        if builtin == "index" and not is_float(fixed) and bits(fixed) <= 32:
            return "index"
        return fixed
    for kind in (SIGNED, UNSIGNED, FLOATS):
        if a in kind and b in kind:
            return kind[max(kind.index(a), kind.index(b))]
    if is_float(a) and is_float(b):
        wide = max(a, b, key=bits)
        return a if a == b else "float32" if bits(wide) <= 16 else wide
    if is_float(a) or is_float(b):
        return a if is_float(a) else b
    return _MIXED.get((a, b) if a in SIGNED else (b, a))


def _promote_complex(a, b):
    """An integer of fixed format has a say beside a builtin complex number only."""
    builtin = (*BUILTIN, "complex")
    if a in builtin and b in builtin:
        return "complex"
    fixed = [t for t in (a, b) if t not in builtin]
    double = {"complex128", "float64", *(("int64", "uint64") if len(fixed) == 1 else ())}
    return "complex128" if double & set(fixed) else "complex64"


@functools.cache
def result_type(op, a, b):
    """The type of `a op b`; None where that is an error."""
    if is_complex(a) or is_complex(b):
        return "bool" if op in ("==", "!=") else promote(a, b) if op in ("+", "-", "*", "/", "**") else None
    if op in COMPARISONS:
        return "bool"
    if op in SHIFTS:
        if is_float(a) or is_float(b):
            return None
        return "int" if a == "bool" else a
    common = promote(a, b)
    if op in BITWISE:
        if a == b == "bool":
            return "bool"
        return None if common is None or is_float(common) else common
    if op == "/" and common is not None and not is_float(common):
        if a in BUILTIN and b in BUILTIN:
            return "float"
        return "float64" if any(bits(t) == 64 and t not in BUILTIN for t in (a, b)) else "float32"
    return common


@functools.cache
def unary_type(op, a):
    """The type of `op a`; None where that is an error."""
    if op == "not":
        return "bool"
    if op == "~" and (is_float(a) or is_complex(a)):
        return None
    return "int" if a == "bool" else a


# Values


def binary(op, a, x, b, y):
    """`x op y` for a value x of type a and y of type b."""
    type = result_type(op, a, b)
    assert type is not None, (op, a, b)
    if op in COMPARISONS:
        return compare(op, a, x, b, y)
    if is_complex(type):
        return _complex(op, type, x, y)
    if op == "**" and not is_float(type) and not 0 <= y <= limits(type)[1]:
        return UNSPECIFIED
    if op in SHIFTS:
        return _shift(op, type, int(x), int(y))
    x, y = convert(type, x), convert(type, y)
    if is_float(type):
        return _float(op, type, x, y)
    if type == "bool":
        return bool({"&": x & y, "|": x | y, "^": x ^ y}[op])
    return _integer(op, type, x, y)


def _complex(op, type, x, y):
    """A real operand stays real, as in C's Annex G; products are the textbook formula. Quotients and powers are left open."""
    of = part(type)
    (a, b), (c, d) = _parts(of, x), _parts(of, y)
    round = functools.partial(round_to, of)
    negative = op == "-"
    if op in ("+", "-"):
        real = round(a - c if negative else a + c)
        if b is None or d is None:
            return complex(real, b if d is None else -d if negative else d)
        return complex(real, round(b - d if negative else b + d))
    if op == "*" and b is not None and d is not None:
        return complex(round(round(a * c) - round(b * d)), round(round(a * d) + round(b * c)))
    if op == "*":
        return complex(round(a * c), round(a * d if b is None else b * c))
    if op == "/" and d is None:
        return complex(_float("/", of, a, c), _float("/", of, b, c))
    return UNSPECIFIED


def _parts(of, value):
    """The real and the imaginary part in the precision of `of`; None for that of a real number."""
    if isinstance(value, complex):
        return convert(of, value.real), convert(of, value.imag)
    return convert(of, value), None


def _integer(op, type, x, y):
    if y == 0 and op in ("//", "%"):
        return UNSPECIFIED
    exact = {
        "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y, "%": lambda: x % y,
        "&": lambda: x & y, "|": lambda: x | y, "^": lambda: x ^ y, "**": lambda: _power(type, x, y),
    }[op]()  # fmt: skip
    return _wrapped(type, exact)


def _power(type, x, y):
    if type in BUILTIN:  # 0, 1 and -1 have all powers; those of other numbers have no room from here on
        return x ** min(y, 64 + y % 2)
    return pow(x, y, 1 << bits(type))


def _wrapped(type, exact):
    """A fixed-format integer wraps; what a builtin one has no room for is left open."""
    low, high = limits(type)
    if type in BUILTIN and not low <= exact <= high:
        return UNSPECIFIED
    return convert(type, exact)


def _shift(op, type, x, count):
    if count < 0:
        return UNSPECIFIED
    if op == ">>":
        return x >> min(count, 64)
    if count >= bits(type):
        return 0
    return _wrapped(type, x << count)


def _float(op, type, x, y):
    # One operation on doubles, rounded again to a narrower type, is as if rounded once for + - * / (Figueroa 1995).
    if op in ("+", "-", "*"):
        return round_to(type, {"+": x + y, "-": x - y, "*": x * y}[op])
    if op in ("/", "**"):
        with np.errstate(all="ignore"):
            a, b = np.float64(x), np.float64(y)
            return round_to(type, float(a / b if op == "/" else a**b))
    if op == "%":
        return _float_modulo(type, x, y)
    return round_to(type, _float_floor(type, x, y))  # of which float8e4m3 has no infinity


def _float_modulo(type, x, y):
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    remainder = math.fmod(x, y)  # exact
    if remainder == 0:
        return math.copysign(0.0, y)
    if (remainder < 0) != (y < 0):
        remainder = y if math.isinf(y) else round_to(type, remainder + y)
    return remainder


def _float_floor(type, x, y):
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if y == 0:
        return math.nan if x == 0 else math.copysign(math.inf, x) * math.copysign(1, y)
    if math.isinf(x):
        return math.nan
    sign = math.copysign(1, x) * math.copysign(1, y)
    if math.isinf(y):
        return -1.0 if x and sign < 0 else math.copysign(0.0, sign)
    # CPython's algorithm, which is not always the floor of the exact quotient; float16 computes in float32, as in NumPy.
    wide = "float32" if type != "float" and bits(type) < 32 else type
    remainder = math.fmod(x, y)  # exact
    quotient = round_to(wide, round_to(wide, x - remainder) / y)
    if remainder and (remainder < 0) != (y < 0):
        quotient = round_to(wide, quotient - 1)
    if math.isfinite(quotient):
        floor = math.floor(quotient)
        quotient = float(floor + (quotient - floor > 0.5))
    return round_to(type, quotient) or math.copysign(0.0, sign)


def unary(op, a, x):
    """`op x` for a value x of type a."""
    if op == "not":
        return not x
    type = unary_type(op, a)
    assert type is not None, (op, a)
    if is_float(type):
        return -x if op == "-" else x
    if is_complex(type):
        return complex(-x.real, -x.imag) if op == "-" else x
    x = int(x)
    return _wrapped(type, {"-": -x, "+": x, "~": ~x if type not in UNSIGNED else ~x & limits(type)[1]}[op])


def compare(op, a, x, b, y):
    """Integers compare exactly whatever their types; a float compares in the promoted type."""
    if is_float(a) or is_float(b) or is_complex(a) or is_complex(b):
        type = promote(a, b)
        x, y = convert(type, x), convert(type, y)
        if is_complex(type):
            return (x == y) is (op == "==")
    return COMPARISONS[op](x, y)


# Values to test with


def edges(name):
    """Values at which mistakes show: 0, ±1, small ones, the limits, and for floats also NaN, infinities, subnormals, -0."""
    if name == "bool":
        return [False, True]
    if is_complex(name):
        most = _FORMATS[_STORED.get(part(name), part(name))][2]
        parts = [0.0, -0.0, 1.0, -1.5, 2.5, round_to(part(name), Fraction(1, 3)), most, math.inf, math.nan]
        return [complex(a, b) for a, b in zip(parts, parts[3:] + parts[:3], strict=True)] + [
            complex(a, b) for a in parts[:5] for b in parts[:5]
        ]
    if is_float(name):
        digits, least, most, _ = _FORMATS[_STORED.get(name, name)]
        tiny, normal = math.ldexp(1.0, least), math.ldexp(1.0, least + digits - 1)
        third = round_to(name, Fraction(1, 3))
        positive = [0.0, 0.5, third, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 250.0, tiny, 3 * tiny, normal, most, math.inf]
        return [s * round_to(name, v) for v in positive for s in (1, -1)] + [math.nan]
    low, high = limits(name)
    values = [0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 100, high, high - 1, high // 2, high // 3, low, low + 1, low // 2]
    values += [-v for v in (1, 2, 3, 7, 100) if low < 0]
    return sorted(set(values))


def ulps(name, got, expected):
    """How many numbers of a float type lie between two of its values; 0 for equal ones (also two NaNs), inf for NaN or sign."""
    if math.isnan(got) or math.isnan(expected):
        return 0 if math.isnan(got) and math.isnan(expected) else math.inf
    if got == expected:
        return 0 if math.copysign(1, got) == math.copysign(1, expected) else math.inf
    return abs(_ordinal(name, got) - _ordinal(name, expected))


def _ordinal(name, value):
    real, whole = {16: ("<e", "<h"), 32: ("<f", "<i"), 64: ("<d", "<q")}[bits(name)]
    (ordinal,) = struct.unpack(whole, struct.pack(real, value))
    return ordinal if ordinal >= 0 else -(ordinal & ((1 << (bits(name) - 1)) - 1))


def same(name, got, expected):
    """Whether two values of a type are the same: NaN is NaN, and 0.0 is not -0.0."""
    if is_complex(name):
        return same("float", got.real, expected.real) and same("float", got.imag, expected.imag)
    if is_float(name):
        if math.isnan(got) or math.isnan(expected):
            return math.isnan(got) and math.isnan(expected)
        return got == expected and math.copysign(1, got) == math.copysign(1, expected)
    return got == expected
