"""Approximate functions of arrays are glibc's vector functions."""

import math

import numpy as np
import pytest
from ir_helpers import define
from test_math import DOUBLE_REFERENCES, UNARY, WIDE, ulp_errors

import cuda_device as device
from cuda_device.cpu.processor import vector_library

FAST = ("sin", "cos", "tan", "exp", "exp2", "log", "log2", "tanh", "erf", "atan", "sinh")


@pytest.mark.skipif(vector_library() is None, reason="needs glibc's libmvec")
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_approximate_functions_are_those_of_vectors(name):
    """Four units in the last place are what glibc promises; exact functions are called one by one."""
    body = "".join(f"        out[{k}, i] = math.{function}(x[i])\n" for k, function in enumerate(FAST))
    text = f"def k(x, out):\n    i = device.tid(1)\n    if i < len(x):\n{body}"
    x = np.array([*np.random.default_rng(3).uniform(-10, 10, 1000), 0.0, -0.0, np.inf, -np.inf, np.nan], name)
    code = {}
    for fastmath in (False, True):
        kernel = device.kernel(define(text, "k", math=math), fastmath=fastmath, checked=False)
        out = np.zeros((len(FAST), len(x)), name)
        device.launch(kernel, x, out, threads=len(x), stream=device.cpu_stream())
        code[fastmath] = b"".join(variant.work["native"].object_code for variant in kernel.variants.values())
        for row, function in zip(out, FAST, strict=True):
            with np.errstate(all="ignore"):
                exact = np.asarray(UNARY[function][0](x.astype(WIDE) if function not in DOUBLE_REFERENCES else x), WIDE)
            assert (ulp_errors(name, row, exact) <= 4 + DOUBLE_REFERENCES.get(function, 0)).all(), function
    assert b"_ZGV" in code[True] and b"_ZGV" not in code[False]
