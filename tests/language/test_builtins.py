"""Python's builtins, `math`, `operator` and NumPy's functions on scalars, against Python itself."""

from __future__ import annotations

import pytest
from against_python import refused

import cuda_device as device


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.sizeof(n)", "each argument of sizeof must be a constant expression"),
        ("device.sizeof(3)", "sizeof raised TypeError"),
        ("ord('ab')", "ord raised TypeError"),
        ("callable(f=3)", "callable\\(\\) takes no keyword arguments"),
    ],
)
def test_functions_of_constants_refuse_what_is_none(expression, message):
    names = {"device": device}
    exec(f"def k(x, n):\n    x[0] = {expression}", names)
    with pytest.raises(device.CompileError, match=message):
        device.compile(device.kernel(names["k"]), device.ArrayType(device.float32, 1), device.int32, output="ir")


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: sorted(range(x)), "sorted cannot be called in device code"),
        (lambda x: max(x), "max of one argument takes a tuple"),
        (lambda x: (1, 2)[x:], "the bounds of a tuple's slice must be constant integers"),
        (lambda x: zip((x,), (1, 2), strict=True), "strict=True"),
        (lambda x: round(None, 1), "round takes a number, not None"),  # type: ignore[call-overload]
        (lambda x: round([x], 1), "round takes a number, not a list"),  # type: ignore[call-overload]
        (lambda x: round(1 + 2j, 1), "round takes a real number, not complex"),  # type: ignore[call-overload]
        (lambda x: round(2.5, 2.5), "the digits of round must be an integer, not float 2.5"),  # type: ignore[call-overload]
        (lambda x: device.bfloat16("abc"), "bfloat16 takes a number, not 'abc'"),
        (lambda x: device.float8e4m3("abc"), "float8e4m3 takes a number, not 'abc'"),
    ],
)
def test_what_is_not_there_is_refused(function, match):
    refused(function, int, match=match)
