"""What arithmetic in device code gives: the rules in plain Python, one number at a time, from the tables of the Array API.

A type is its name: `"bool"`, `"int"`, `"index"`, `"float"` are builtin numbers, `"int8"` to `"float64"` fixed-format ones.
A value is a Python bool, int or float; a Python float holds every float16, float32 and float64 exactly. So
`binary("+", "uint8", 255, "int", 1)` is 0. Nothing here uses the compiler's own tables.
"""

import functools
import math
import struct
from fractions import Fraction

import numpy as np

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
FIXED = (*SIGNED, *UNSIGNED, *FLOATS)
BUILTIN = ("bool", "int", "index", "float")
NUMBERS = (*BUILTIN, *FIXED)
INTEGERS = ("bool", "int", "index", *SIGNED, *UNSIGNED)

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

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


def bits(name):
    """The width of a number."""
    return {"bool": 8, "int": 32, "index": 64, "float": 32}.get(name) or int(name.lstrip("uintfloa"))


def storage(name):
    """The NumPy dtype that holds every value of a type."""
    return np.dtype({"bool": "bool", "int": "int32", "index": "int64", "float": "float32"}.get(name, name))


def is_float(name):
    """Whether a type is a floating point number."""
    return name.startswith("float")


def limits(name):
    """The least and the greatest value of an integer or bool."""
    if name == "bool":
        return 0, 1
    if name in UNSIGNED:
        return 0, (1 << bits(name)) - 1
    return -(1 << (bits(name) - 1)), (1 << (bits(name) - 1)) - 1


@functools.lru_cache(maxsize=None)
def _format(name):
    return np.dtype(name if name != "float" else "float32").type


def round_to(name, exact):
    """An exact int or float, rounded once, to nearest even, to a float type."""
    if isinstance(exact, int) and abs(exact) > 1 << 53:
        return _round_integer(name, exact)
    with np.errstate(all="ignore"):
        return float(_format(name)(exact))


def _round_integer(name, exact):
    digits = {16: 11, 32: 24, 64: 53}[bits(name)]
    surplus = max(0, abs(exact).bit_length() - digits)
    unit = 1 << surplus
    rounded = float(round(Fraction(abs(exact), unit)) * unit)  # half to even
    rounded = math.inf if rounded > float(np.finfo(_format(name)).max) else rounded
    return rounded if exact > 0 else -rounded


def convert(name, value):
    """What the constructor of a type makes of a value, at run time."""
    if name == "bool":
        return bool(value)
    if is_float(name):
        return round_to(name, value if isinstance(value, float) else int(value))
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


def promote(a, b):
    """The type of `a + b`; None where there is none."""
    a, b = ("int" if t == "bool" else t for t in (a, b))
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
    if is_float(a) or is_float(b):
        return a if is_float(a) else b
    return _MIXED.get((a, b) if a in SIGNED else (b, a))


def result_type(op, a, b):
    """The type of `a op b`; None where that is an error."""
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


def unary_type(op, a):
    """The type of `op a`; None where that is an error."""
    if op == "not":
        return "bool"
    if op == "~" and is_float(a):
        return None
    return "int" if a == "bool" else a


# Values


def binary(op, a, x, b, y):
    """`x op y` for a value x of type a and y of type b."""
    type = result_type(op, a, b)
    assert type is not None, (op, a, b)
    if op in COMPARISONS:
        return compare(op, a, x, b, y)
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
    return _float_floor(type, x, y)


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
    wide = "float32" if type == "float16" else type
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
    x = int(x)
    return _wrapped(type, {"-": -x, "+": x, "~": ~x if type not in UNSIGNED else ~x & limits(type)[1]}[op])


def compare(op, a, x, b, y):
    """Integers compare exactly whatever their types; a float compares in the promoted type."""
    if is_float(a) or is_float(b):
        type = promote(a, b)
        x, y = convert(type, x), convert(type, y)
    return {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]


# Values to test with


def edges(name):
    """Values at which mistakes show: 0, ±1, small ones, the limits, and for floats also NaN, infinities, subnormals, -0."""
    if name == "bool":
        return [False, True]
    if is_float(name):
        tiny, normal, most = {
            16: (2.0**-24, 2.0**-14, 65504.0),
            32: (2.0**-149, 2.0**-126, float(np.finfo(np.float32).max)),
            64: (5e-324, 2.0**-1022, float(np.finfo(np.float64).max)),
        }[bits(name)]
        third = round_to(name, Fraction(1, 3))
        positive = [0.0, 0.5, third, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 250.0, tiny, 3 * tiny, normal, most, math.inf]
        return [s * v for v in positive for s in (1, -1)] + [math.nan]
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
    if is_float(name):
        return ulps(name, float(got), float(expected)) == 0
    return got == expected
