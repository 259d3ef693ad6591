"""Functions of numbers at hard arguments: zeros of both signs, infinities, NaN, the least and the largest numbers, branch cuts.

    o0[i] = np.arctan2(a0[i], b0[i])

What NumPy, `math` and `cmath` compute in doubles is expected, as near as CUDA promises its functions to be. Of special values the
kind counts, and the sign.
"""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined, due

COUNT, FUNCTIONS = 32, 8
NAMES = {"math": math, "cmath": cmath, "np": np, "device": device}
inf, nan = math.inf, math.nan


@dataclass(frozen=True)
class Row:
    """A function: its text, what computes it in doubles, and by how many units in the last place it may be off."""

    text: str
    compute: Callable[..., Any]
    arity: int = 1
    ulps: float = 0.0
    signed: bool = True
    largest: float = inf
    types: tuple[str, ...] = ("float32", "float64")
    least: float = 0.0
    """Units are those of a number of this size at least: what nearly cancels has lost the digits behind."""


def _np(name: str, arity: int = 1, ulps: float = 0.0, **more: Any) -> Row:
    holes = ", ".join(["{}"] * arity)
    return Row(f"np.{name}({holes})", getattr(np, name), arity, ulps, **more)


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    """A function of Python for arrays; where it raises, C says NaN."""

    def one(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return inf
        except ValueError:
            return nan

    return lambda *arrays: np.array([one(*values) for values in zip(*map(np.ndarray.tolist, arrays), strict=True)])


NARROW = {"types": ("float16", "float32", "float64")}
REAL = (
    *(
        _np(name, 1, 6)
        for name in """
            sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10
            log1p cbrt deg2rad rad2deg degrees radians
        """.split()
    ),
    *(_np(name, 2, 6) for name in ("arctan2", "hypot", "power")),
    *(_np(name, 2, 6, least=4.0) for name in ("logaddexp", "logaddexp2")),
    *(
        _np(name, **NARROW)
        for name in """
            sqrt floor ceil trunc rint abs fabs negative positive isnan isinf isfinite signbit square sign
        """.split()
    ),
    _np("reciprocal"),
    _np("spacing"),
    *(_np(name, 2) for name in ("copysign", "nextafter", "add", "subtract", "multiply", "divide", "fmod")),
    *(_np(name, 2, signed=False) for name in ("maximum", "minimum", "fmax", "fmin", "heaviside")),
    *(_np(name, 2, largest=1e6) for name in ("floor_divide", "mod", "remainder")),
    *(_np(name, 2) for name in ("equal", "less", "greater_equal", "not_equal", "logical_and", "logical_xor")),
    Row("math.erf({})", _each(math.erf), 1, 6),
    Row("math.erfc({})", _each(math.erfc), 1, 12, largest=8),
    Row("math.gamma({})", _each(lambda x: math.gamma(x) if 0.1 < x < 30 or x != x else nan), 1, 16),
    Row("math.lgamma({})", _each(lambda x: math.lgamma(x) if x > 3 else nan), 1, 16),
    Row("math.frexp({})[0]", lambda x: np.frexp(x)[0]),
    Row("math.modf({})[0]", lambda x: np.modf(x)[0]),
    Row("math.modf({})[1]", lambda x: np.modf(x)[1]),
    Row("math.ldexp({}, 3)", lambda x: np.ldexp(x, 3)),
    Row("np.ldexp({}, -5)", lambda x: np.ldexp(x, -5)),
    *(
        Row(f"{module}.ldexp({{}}, {k})", lambda x, k=k: np.ldexp(x, k))
        for module, k in (
            ("math", -3),
            ("np", 60),
            ("math", -90),
            ("np", -140),
            ("math", 127),
            ("math", -1030),
            ("np", 990),
            ("math", 2500),
        )
    ),
    Row("math.copysign(1.0, {})", lambda x: np.copysign(1.0, x)),
    Row("math.remainder({}, {})", _each(math.remainder), 2),
    Row("math.isclose({}, {})", _each(math.isclose), 2),
    Row("math.ulp({})", _each(math.ulp), types=("float64",)),
    Row("math.hypot({}, {}, {})", _each(math.hypot), 3, 6),
    Row("math.hypot({})", _each(math.hypot), 1, 2),
    Row("math.fabs({})", np.abs),
    Row("math.sqrt({})", np.sqrt),
    Row("device.cbrt({})", np.cbrt, 1, 6),
    Row("abs({})", np.abs),
    Row("max({}, 0.5)", lambda x: np.where(x < 0.5, 0.5, x), signed=False),
    Row("({} ** 2)", np.square, 1, 4),
    Row("({} ** -1)", np.reciprocal, 1, 4),
    Row("({} ** 0.5)", _each(lambda x: math.pow(x, 0.5)), 1, 6, signed=False),
    Row("math.pow({}, {})", np.power, 2, 6),
    Row("math.atan2({}, {})", np.arctan2, 2, 6),
    Row("math.exp({})", np.exp, 1, 6),
    Row("math.log({}, 10)", np.log10, 1, 10),
    Row("math.isfinite({})", np.isfinite),
    Row("np.clip({}, -1, 2)", lambda x: np.clip(x, -1, 2)),
    Row("np.where({} > 0, 1.0, -1.0)", lambda x: np.where(x > 0, 1.0, -1.0)),
    Row("float({})", lambda x: x.astype(np.float32) * 1.0, types=("float32",)),
    Row("device.fma({}, 2.0, 1.0)", lambda x: x * 2 + 1, types=("float32",)),
    Row("math.cosh({})", np.cosh, 1, 6),
    Row("math.floor({})", np.floor, largest=2e9, signed=False),
    Row("math.ceil({})", np.ceil, largest=2e9, signed=False),
    Row("int({})", np.trunc, largest=2e9, signed=False),
    Row("round({})", np.rint, largest=2e9, signed=False),
    Row("np.float_power({}, 2)", np.square, 1, 6, types=("float64",)),
    Row("({}).is_integer()", lambda x: x == np.trunc(x), largest=1e30),
    Row("np.modf({})[0]", lambda x: np.modf(x)[0]),
    Row("np.frexp({})[1]", lambda x: np.frexp(x)[1], largest=1e30),
    Row("divmod({}, 3)[1]", lambda x: np.mod(x, 3), largest=1e6),
)
COMPLEX = (
    *(
        Row(f"cmath.{name}({{}})", getattr(cmath, name), 1, 16)
        for name in "sqrt exp log log10 sinh cosh tanh asinh acosh atanh sin cos tan asin acos atan".split()
    ),
    *(
        Row(f"np.{name}({{}})", getattr(cmath, other), 1, 16)
        for name, other in (
            ("sqrt", "sqrt"),
            ("exp", "exp"),
            ("log", "log"),
            ("arctan", "atan"),
            ("arcsinh", "asinh"),
            ("cosh", "cosh"),
        )
    ),
    Row("cmath.isnan({})", cmath.isnan),
    Row("cmath.isinf({})", cmath.isinf),
    Row("cmath.isfinite({})", cmath.isfinite),
    Row("abs({})", abs, 1, 6, largest=1e18),
    Row("cmath.phase({})", cmath.phase, 1, 8),
    Row("np.angle({})", cmath.phase, 1, 8),
    Row("cmath.polar({})[1]", cmath.phase, 1, 8),
    Row("({} * {})", lambda a, b: a * b, 2, 8, largest=1e8),
    Row("({} / {})", lambda a, b: a / b, 2, 16, largest=1e8),
    *(
        Row(text, compute, arity, 16, types=("complex64",))
        for text, compute, arity in (
            ("({} / {})", lambda a, b: a / b, 2),
            ("(1 / {})", lambda a: 1 / a, 1),
            ("np.divide({}, {})", lambda a, b: a / b, 2),
            ("np.reciprocal({})", lambda a: 1 / a, 1),
        )
    ),
    Row("({} + {})", lambda a, b: a + b, 2, 1, largest=1e30),
    Row("({} - {})", lambda a, b: a - b, 2, 1, largest=1e30),
    Row("({} ** {})", lambda a, b: a**b, 2, 200, largest=6),
    Row("({} ** 3)", lambda a: a**3, 1, 40, largest=1e8),
    Row("({} ** -2)", lambda a: a**-2, 1, 40, largest=1e8),
    Row("({} ** 0.5)", cmath.sqrt, 1, 40, largest=1e8),
    Row("np.square({})", lambda a: a * a, 1, 8, largest=1e8),
    Row("({}).conjugate()", lambda a: a.conjugate()),
    Row("(-{})", lambda a: -a),
    Row("({} == {})", lambda a, b: a == b, 2),
    Row("(2 / {})", lambda a: 2 / a, 1, 16, largest=1e8),
    Row("({} * 2.5)", lambda a: a * 2.5, 1, 1, largest=1e8),
    Row("cmath.isclose({}, {})", cmath.isclose, 2, largest=1e8),
    Row("cmath.rect(abs({0}), cmath.phase({0}))", lambda a: a, 1, 40, largest=1e8),
    Row("np.reciprocal({})", lambda a: 1 / a, 1, 16, largest=1e8),
)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
WHOLE = (
    *(
        _np(name, 1, types=INTEGERS)
        for name in ("abs", "square", "negative", "positive", "invert", "sign", "bitwise_count", "bitwise_not")
    ),
    *(
        _np(name, 2, types=INTEGERS)
        for name in """
            add subtract multiply bitwise_and bitwise_or bitwise_xor maximum minimum gcd equal less greater
            less_equal logical_or logical_and not_equal fmax fmin
        """.split()
    ),
    *(_np(name, 2, types=INTEGERS, signed=False) for name in ("floor_divide", "mod", "remainder")),
    Row("({} << 3)", lambda a: a << 3, types=INTEGERS),
    Row("({} >> 2)", lambda a: a >> 2, types=INTEGERS),
    Row("(~{})", np.invert, types=INTEGERS),
    Row("np.left_shift({}, 2)", lambda a: a << 2, types=INTEGERS),
    Row("np.right_shift({}, 1)", lambda a: a >> 1, types=INTEGERS),
    Row("np.clip({}, 2, 9)", lambda a: np.clip(a, 2, 9), types=INTEGERS),
    Row("np.lcm({} % 100, {} % 100)", lambda a, b: np.lcm(a % 100, b % 100), 2, types=("int32", "int64", "uint32")),
    Row("({} ** 2)", np.square, types=INTEGERS),
    Row("({} ** 3)", lambda a: a**3, types=INTEGERS),
    Row("pow({}, 5)", lambda a: a**5, types=INTEGERS),
    Row("max({}, {})", np.maximum, 2, types=INTEGERS),
    Row("min({}, {})", np.minimum, 2, types=INTEGERS),
    Row("abs({})", np.abs, types=INTEGERS),
    Row("divmod({}, {})[0]", np.floor_divide, 2, types=INTEGERS, signed=False),
    Row("divmod({}, {})[1]", np.mod, 2, types=INTEGERS, signed=False),
    Row("math.gcd({}, {})", np.gcd, 2, types=INTEGERS[:-1]),
    *(
        Row(text, _each(compute), arity, types=("int32", "int64", "uint32"))
        for text, compute, arity in (
            ("math.comb({} % 19, {} % 12)", lambda a, b: math.comb(a % 19, b % 12), 2),
            ("math.perm({} % 10, {} % 12)", lambda a, b: math.perm(a % 10, b % 12), 2),
            ("math.factorial({} % 13)", lambda a: math.factorial(a % 13), 1),
            (
                "pow({} % 60, {} % 7, 1 + {} % 45)",
                lambda a, b, c: pow(a % 60, b % 7, 1 + c % 45),
                3,
            ),
            ("math.gcd({} % 720, {} % 480, {} % 36)", lambda a, b, c: math.gcd(a % 720, b % 480, c % 36), 3),
            ("({} % 1009).bit_length()", lambda a: (a % 1009).bit_length(), 1),
            ("({} % 9) ** ({} % 9)", lambda a, b: (a % 9) ** (b % 9), 2),
            ("sum(range({} % 50, {} % 90, 3))", lambda a, b: sum(range(a % 50, b % 90, 3)), 2),
            ("len(range({} % 90, 3, 2))", lambda a: len(range(a % 90, 3, 2)), 1),
            ("({} % 40 in range(3, {} % 90, 4))", lambda a, b: a % 40 in range(3, b % 90, 4), 2),
            ("min({} % 50, {} % 40, {} % 30)", lambda a, b, c: min(a % 50, b % 40, c % 30), 3),
        )
    ),
    Row(
        "math.isqrt(max(abs({}), 0))",
        lambda a: np.array([math.isqrt(abs(int(x))) if abs(int(x)) == int(abs(x)) else 0 for x in a]),
        types=INTEGERS,
    ),
)


EVERY = (*REAL, *COMPLEX, *WHOLE)


class Hard(Case):
    """Some functions, each of values of its own."""

    kind = "hard arguments"
    everywhere = True
    at_once = 2

    def __init__(self, number: int) -> None:
        super().__init__(number)
        choose = random.Random(f"hard {number}")
        rows = due(number, EVERY, FUNCTIONS)
        self.rows = [(row, choose.choice(_types(row))) for row in rows]
        self.given = [[_values(choose, type, row) for _ in range(row.arity)] for row, type in self.rows]
        self.expected = [_expected(row, type, given) for (row, type), given in zip(self.rows, self.given, strict=True)]

    def source(self) -> str:
        names = [f"o{k}, {', '.join(f'a{k}_{j}' for j in range(row.arity))}" for k, (row, _) in enumerate(self.rows)]
        lines = [f"def k({', '.join(names)}):", "    i = device.tid(1)"]
        for k, (row, _) in enumerate(self.rows):
            lines.append(f"    o{k}[i] = {row.text.format(*(f'a{k}_{j}[i]' for j in range(row.arity)))}")
        return "\n".join(lines) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        kernel = device.kernel(contract=False, level=self.number % 4)(
            defined(self.source(), "k", NAMES, f"<hard {self.number}>")
        )
        arguments, outputs = [], []
        for given, expected in zip(self.given, self.expected, strict=True):
            outputs.append(device.array(np.full(COUNT, 7, expected.dtype), stream=stream))
            arguments += [outputs[-1], *(device.array(each, stream=stream) for each in given)]
        device.launch(kernel, *arguments, grid=1, block=COUNT, stream=stream)
        device.synchronize(stream)
        for (row, type), given, expected, output in zip(self.rows, self.given, self.expected, outputs, strict=True):
            found = np.asarray(output.numpy())
            for place in range(COUNT):
                if not _near(
                    row,
                    found[place].item(),
                    expected[place].item(),
                    type,
                    not all(np.isfinite(g[place]) for g in given),
                ):
                    values = ", ".join(str(each[place]) for each in given)
                    return f"{row.text} of {type} {values} is {found[place]!r}, not {expected[place]!r}"
        return None


def _types(row: Row) -> tuple[str, ...]:
    if row in COMPLEX:
        return row.types if "complex64" in row.types else ("complex64", "complex128")
    return row.types


def _expected(row: Row, type: str, given: list[Any]) -> Any:
    if row in WHOLE:
        with np.errstate(all="ignore"):
            found = row.compute(*given)
        return found if found.dtype == bool or "count" in row.text else found.astype(type)
    wide = [each.astype(np.complex128 if "complex" in type else np.float64) for each in given]
    with np.errstate(all="ignore"):
        if row in COMPLEX:
            found = np.array(
                [_of_points(row.compute, *point) for point in zip(*(w.tolist() for w in wide), strict=True)]
            )
            return found.astype(np.complex128 if found.dtype == object else found.dtype)
        if row.text in ("np.nextafter({}, {})", "np.spacing({})", "np.floor_divide({}, {})"):
            return row.compute(*given)
        found = row.compute(*wide)
        return found if found.dtype == bool else found.astype(type)


def _of_points(function: Callable[..., Any], *point: complex) -> Any:
    """None is for what C leaves open, or CPython refuses."""
    try:
        return function(*point)
    except (ValueError, OverflowError, ZeroDivisionError):
        return complex(nan, 12345.0)


def _values(choose: random.Random, type: str, row: Row) -> Any:
    if type in INTEGERS:
        info = np.iinfo(type)
        edges = [
            v
            for v in (info.min, info.max, info.max - 1, 0, 1, 2, 3, 7, -1, -2, -7, 100, info.max // 2 + 1)
            if info.min <= v <= info.max
        ]
        if not row.signed:
            edges = [v for v in edges if v not in (0, -1)]
        return np.array(
            [choose.choice(edges) if choose.random() < 0.6 else choose.randint(1, 100) for _ in range(COUNT)], type
        )
    part = {"complex64": "float32", "complex128": "float64"}.get(type, type)
    numbers = [_number(choose, part, row.largest) for _ in range(2 * COUNT)]
    if part == type:
        return np.array(numbers[:COUNT], type)
    return np.array([complex(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)], type)


def _number(choose: random.Random, type: str, largest: float) -> float:
    info = np.finfo(type)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, float(info.eps), 1 - float(info.eps)]
    if largest == inf:
        edges += [inf, -inf, nan, float(info.max), float(info.tiny), float(info.smallest_subnormal), -float(info.max)]
    match choose.randrange(4 if largest == inf else 3):
        case 0:
            return choose.choice(edges)
        case 3:
            return choose.choice((1, -1)) * math.ldexp(
                choose.uniform(1, 2), choose.randint(info.minexp - 20, info.maxexp - 1)
            )
        case 1:
            return choose.uniform(-4, 4)
    return choose.choice((1, -1)) * min(math.exp(choose.uniform(-12, 12)), min(largest, float(info.max)))


def _near(row: Row, found: Any, expected: Any, type: str, hidden: bool) -> bool:
    """Whether a result is that of the row, as far as it says. Of what is not finite (`hidden`) the signs of zeros are open."""
    if isinstance(expected, complex):
        return expected.imag == 12345.0 or _near_complex(row, found, expected, type, hidden)
    if isinstance(expected, (bool, int)):
        return bool(found == expected)
    if math.isnan(expected) or (row in COMPLEX and not math.isfinite(expected)):
        return math.isnan(found) or row in COMPLEX or "gamma" in row.text
    if math.isinf(expected) or expected == 0:
        same = not row.signed or math.copysign(1, found) == math.copysign(1, expected)
        small = row.ulps and abs(found) <= 4 * np.finfo(type).tiny and expected == 0
        large = row.ulps and math.isinf(expected) and abs(found) >= np.finfo(type).max * (1 - 1e-6)
        return bool((found == expected or small or large) and same)
    if found == expected:
        return True
    unit = float(np.spacing(np.array(max(abs(expected), row.least), _part(type))))
    return bool(abs(found - expected) <= row.ulps * unit)


def _part(type: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(type, type)


def _near_complex(row: Row, found: complex, expected: complex, type: str, hidden: bool) -> bool:
    if not cmath.isfinite(expected):
        return cmath.isnan(expected) or not cmath.isfinite(found)
    if not row.ulps:
        return found == expected
    info = np.finfo(_part(type))
    if abs(expected.real) > info.max / 8 or abs(expected.imag) > info.max / 8:
        return True
    size = max(abs(expected), float(info.tiny) * 4)
    same = all(
        a or b or row.largest != inf or hidden or math.copysign(1, a) == math.copysign(1, b)
        for a, b in ((found.real, expected.real), (found.imag, expected.imag))
    )
    return same and abs(found - expected) <= row.ulps * float(info.eps) * size
