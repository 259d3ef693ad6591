"""Every row of the tables of functions: NumPy's universal functions, `math`, `operator`, at the edges of their types.

What is expected comes from NumPy and Python themselves, and so do the names; what has no row fails.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import reference as ref
from against_python import refused
from conftest import poison, thinned
from ir_helpers import define

import cuda_device as device
from cuda_device.infer import builtin_calls

EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.5, -7.0, 7.0, 0.1, -0.3, 0.9999, 11.25, 1e-5, 1e10, -1e10, math.inf,
    -math.inf, math.nan,
]  # fmt: skip
EXTREMES = {
    "float64": [
        5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7e308, 2.0**53 + 2, 4503599627370497.5,
    ],
    "float32": [1e-45, -1e-45, 1e-40, 1.1754944e-38, 3.4028235e38, -3.4e38, 16777218.0, 8388609.5],
    "float16": ref.edges("float16"),
}  # fmt: skip
INTEGERS = {
    **{name: ref.edges(name) for name in (*ref.SIGNED, *ref.UNSIGNED)},
    "int32": [0, 1, -1, 2, -2, 3, 7, -7, 10, 31, 100, 46340, 46341, -46341, 2**31 - 1, -(2**31), 12345678],
    "uint8": [0, 1, 2, 3, 7, 15, 16, 100, 127, 128, 200, 254, 255],
    "bool": [False, True],
}
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert"]
COMPARED = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
LOGICAL = ["logical_and", "logical_or", "logical_xor", "logical_not"]
ARITHMETIC = "add subtract multiply floor_divide remainder divmod negative positive square absolute".split()
OF_INTEGERS = [*BITWISE, *COMPARED, *LOGICAL, *ARITHMETIC, "minimum", "maximum", "fmin", "fmax", "sign", "left_shift",
               "right_shift", "power", "gcd", "lcm", "bitwise_count", "floor", "ceil", "trunc"]  # fmt: skip
OF_INTEGERS_ALONE = [*BITWISE, "left_shift", "right_shift", "gcd", "lcm", "bitwise_count"]
OF_BOOLS = [*BITWISE, *COMPARED, *LOGICAL]
EXACT = {
    *OF_INTEGERS, "copysign", "fabs", "floor", "ceil", "trunc", "rint", "fmod", "nextafter", "spacing", "ldexp", "frexp", "modf",
    "sqrt", "divide", "signbit", "isnan", "isinf", "isfinite", "heaviside", "conjugate", "reciprocal",
} - {"power"}  # fmt: skip
OF_ANY_ZERO = {*"floor_divide remainder divmod frexp minimum maximum fmin fmax sign heaviside".split()}
"""Functions of which NumPy itself does not say what sign a zero has."""
OF_NARROW_FLOATS = "fabs floor ceil trunc rint sqrt signbit isnan isinf isfinite square sign".split()
NAMES = [function.__name__ for function in builtin_calls.BUILTINS if isinstance(function, np.ufunc)]


def columns(name: str, dtype: str) -> list[np.ndarray]:
    """All pairs of edges, or all edges, that a function is tried with."""
    function = getattr(np, name)
    edges = INTEGERS[dtype] if dtype in INTEGERS else EDGES + EXTREMES[dtype]
    cases = list(itertools.product(edges, repeat=function.nin))
    if name in ("left_shift", "right_shift"):
        cases = [(a, b) for a, b in cases if 0 <= b <= 100]
    if name == "ldexp":
        cases = list(
            itertools.product(edges, [0, 1, -1, 5, -30, 52, -52, 149, -150, 1023, -1074, 1100, -1100, 2200, -2200])
        )
    if dtype in INTEGERS and name in ("floor_divide", "remainder", "divmod"):
        cases = [(a, b) for a, b in cases if b]
    if dtype in INTEGERS and name == "power":
        cases = [(a, b) for a, b in cases if 0 <= b <= 100]
    if name in ("gcd", "lcm"):
        most = min(2**31, np.iinfo(dtype).max)
        cases = [case for case in cases if all(abs(n) <= 12345678 for n in case) and abs(case[0] * case[1]) < most]
    if name == "hypot":  # a GPU's is right to two last places, and the greatest number has none after it
        cases = [case for case in cases if not any(abs(np.array(x, dtype)) == np.finfo(dtype).max for x in case)]
    if dtype == "float32" and name in ("sin", "cos", "tan"):
        cases = [case for case in cases if not abs(case[0]) > 1e5]
    types = [dtype, np.int32] if name == "ldexp" else [dtype] * function.nin
    return [np.array(column, type) for column, type in zip(zip(*cases, strict=True), types, strict=True)]


def computed(stream, name: str, given: list[np.ndarray], expected: list[np.ndarray]) -> list[np.ndarray]:
    names = "abc"[: len(given)]
    outs = "pqr"[: len(expected)]
    kernel = define(
        f"""
        @device.kernel
        def k({", ".join((*names, *outs))}):
            for i in range(len(a)):
                {", ".join(f"{o}[i]" for o in outs)} = np.{name}({", ".join(f"{n}[i]" for n in names)})
        """
    )
    found = [stream.empty(each.shape, each.dtype) for each in expected]
    stream.launch(kernel, *map(stream.array, given), *found, grid=1, block=1)
    return [stream.numpy(each) for each in found]


def compare(name: str, dtype: str, given, found, expected) -> None:
    for got, right in zip(found, expected, strict=True):
        if name in EXACT or right.dtype.kind in "biu":
            same = (got == right) | ((got != got) & (right != right))
            if right.dtype.kind == "f" and name not in OF_ANY_ZERO:
                same &= (np.signbit(got) == np.signbit(right)) | (right != right)
        else:
            close = {"float32": 4e-6, "float64": 1e-13}[dtype]
            same = np.isclose(got, right, rtol=close, atol=float(np.finfo(dtype).tiny) * 8, equal_nan=True)
        wrong = [(*(column[i] for column in given), got[i], right[i]) for i in np.flatnonzero(~same)[:5]]
        assert not wrong, f"{name} of {dtype}: (arguments, ours, NumPy's) {wrong}"


def check(stream, name: str, dtype: str) -> None:
    given = columns(name, dtype)
    with np.errstate(all="ignore"):
        right = getattr(np, name)(*given)
    expected = list(right) if isinstance(right, tuple) else [right]
    compare(name, dtype, given, computed(stream, name, given, expected), expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned([name for name in NAMES if name not in OF_INTEGERS_ALONE], ["float64", "float32"], one_in=2),
)
def test_universal_functions_of_floats(stream, name, dtype):
    check(stream, name, dtype)


@pytest.mark.parametrize("name", OF_NARROW_FLOATS)
def test_universal_functions_of_narrow_floats(stream, name):
    check(stream, name, "float16")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("name", "dtype"), thinned([name for name in OF_INTEGERS if name in NAMES], [*ref.SIGNED, *ref.UNSIGNED], one_in=4)
)
def test_universal_functions_of_integers(stream, name, dtype):
    check(stream, name, dtype)


@pytest.mark.parametrize("name", OF_BOOLS)
def test_universal_functions_of_bools(stream, name):
    check(stream, name, "bool")


def test_the_tables_are_whole():
    known = {name for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
    assert set(NAMES) <= known
    assert set(NAMES) >= {name for name in OF_INTEGERS if name in known}


# math


MATH = {
    "ldexp": [
        (x, n) for x in EDGES + EXTREMES["float64"] for n in (0, 1, -1, 52, -52, 1023, -1074, 1100, -1100, 2200, -2200)
    ],
    "frexp": [(x,) for x in EDGES + EXTREMES["float64"]],
    "modf": [(x,) for x in EDGES + EXTREMES["float64"]],
    "ulp": [(x,) for x in EDGES + EXTREMES["float64"]],
    "isclose": list(itertools.product([*EDGES, 1 + 1e-9, 1 + 1.1e-9, 1e10 + 9, 1e10 + 11], repeat=2)),
    "fsum": [((a, b, c),) for a, b, c in itertools.product([1e16, 1.0, -1e16, 1e-5, 0.1, -0.0, 3.5e15], repeat=3)],
    "dist": [((a, b), (c, 1.5)) for a, b, c in itertools.product([0.0, -3.0, 1e200, 1e-200, math.inf], repeat=3)],
    "hypot": list(itertools.product([0.0, -3.0, 4.0, 1e200, 1e-200, math.inf, math.nan], repeat=3)),
}
OF_INTEGERS_IN_MATH = {
    "gcd": list(itertools.product([0, 1, -4, 6, 35, -12345], repeat=3)),
    "lcm": list(itertools.product([0, 1, -4, 6, 35, -123], repeat=3)),
    "comb": list(itertools.product(range(12), range(12))),
    "perm": list(itertools.product(range(9), range(9))),
    "factorial": [(n,) for n in range(13)],
    "isqrt": [(n,) for n in (*range(30), 15129, 15128, 2**31 - 1, 46340**2, 46340**2 - 1)],
}


@pytest.mark.parametrize("name", [*MATH, *OF_INTEGERS_IN_MATH])
def test_math(stream, name):
    function = getattr(math, name)
    cases, right = [], []
    for case in (MATH | OF_INTEGERS_IN_MATH)[name]:
        try:
            right.append(function(*case))
        except (ValueError, OverflowError):  # device code has inf and nan
            continue
        cases.append(case)
    flat = [list(itertools.chain.from_iterable(a if isinstance(a, tuple) else (a,) for a in case)) for case in cases]
    dtype = np.int32 if name in OF_INTEGERS_IN_MATH else np.float64
    table = np.array(flat, dtype)
    places = iter(range(table.shape[1]))

    def argument(a, k):
        if isinstance(a, tuple):
            return f"({', '.join(argument(x, 0) for x in a)},)"
        at = f"x[i, {next(places)}]"
        return f"int({at})" if isinstance(a, int) else at

    call = ", ".join(argument(a, k) for k, a in enumerate(cases[0]))
    count = len(right[0]) if isinstance(right[0], tuple) else 1
    outs = ", ".join(f"out[i, {k}]" for k in range(count))
    kernel = define(
        f"@device.kernel\ndef k(x, out):\n    for i in range(len(x)):\n        {outs} = math.{name}({call})\n",
        file="<math>",
    )
    out = stream.run(kernel, table, poison((len(cases), count), np.float64))[-1]
    expected = np.array(right, np.float64).reshape(len(cases), count)
    found = out
    tolerance = 4e-16 if name in ("hypot", "dist") else 0.0
    same = np.isclose(found, expected, rtol=tolerance, atol=0, equal_nan=True)
    same &= (np.signbit(found) == np.signbit(expected)) | np.isnan(expected)
    wrong = [(cases[i], found[i], expected[i]) for i in np.flatnonzero(~same.all(axis=1))[:5]]
    assert not wrong, wrong


@device.kernel
def distances(x, out):
    out[0] = math.dist((x[0],), (x[1],))
    out[1] = np.logaddexp(x[0], x[1])
    out[2] = np.logaddexp2(x[0], x[1])
    out[3] = math.isclose(x[0], x[1], rel_tol=0.6)
    out[4] = np.isclose(x[0], x[3])
    out[5] = np.isclose(x[2], x[3])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "uint32", "uint64"])
def test_differences_of_integers_do_not_wrap(stream, dtype):
    x, out = np.array([3, 7, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype), stream.empty(6, np.float64)
    stream.launch(distances, stream.array(x), out, grid=1, block=1)
    expected = [4, np.logaddexp(3.0, 7.0), np.logaddexp2(3.0, 7.0), 1, 0, 0]
    np.testing.assert_allclose(stream.numpy(out), expected, rtol=1e-6)


# operator

X, Y = -7, 3
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"]
COMPARISONS = ["lt", "le", "eq", "ne", "ge", "gt"]
EXPRESSIONS = {
    **{name: f"operator.{name}(n, 3)" for name in (*BINARY, *COMPARISONS)},
    **{name: f"operator.{name}(n)" for name in ("neg", "pos", "invert", "not_")},
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_operator(stream, name):
    function = define(f"import operator\ndef f(n):\n    return {EXPRESSIONS[name]}", "f")

    @device.kernel
    def kernel(n, out):
        out[0] = function(n)

    out = stream.empty(1, np.float64)
    stream.launch(kernel, X, out, grid=1, block=1)
    right = function(X)
    assert stream.numpy(out)[0] == (np.float32(right) if isinstance(right, float) else right)


def test_errors_name_the_function_of_numpy():
    assert (
        "write numpy.square(x)"
        in refused(lambda n: np.square(n, 3), int, match="^numpy.square: too many positional").help
    )


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("operator.contains((1, n), 2)", "a in b"),
        ("operator.getitem((1, n), 1)", "the operator itself"),
        ("operator.truth(n)", "the operator itself"),
        ("functools.reduce(max, (1, n))", "write the loop"),
        ("np.sum((1, n))", "write loops over arrays"),
    ],
)
def test_what_device_code_has_other_words_for_is_refused(expression, remedy):
    function = define(f"import functools, operator\nimport numpy as np\ndef f(n):\n    return {expression}", "f")
    assert remedy in refused(function, int, match="cannot be called").help
