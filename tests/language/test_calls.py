"""Calls: `*args`, `**` of known keywords, keyword-only parameters, partial functions, functions and types as arguments."""

from __future__ import annotations

import pytest
from against_python import check, refused

import cuda_device as device


@pytest.mark.parametrize(
    "function",
    [
        lambda x: device.launch(x, grid=1, block=1),
        lambda x: device.zeros(3),
        lambda x: device.kernel(x),
        lambda x: device.struct(x),
        pytest.param(lambda x: device.cpu_stream(), marks=pytest.mark.needs("cpu")),
        lambda x: device.compile(x),
        lambda x: device.ArrayType(device.int32, 1),
    ],
)
def test_our_own_functions_for_the_host(function):
    refused(function, int, match=r"^device code cannot call \w+: it can only run on the host\n  at .*test_calls.py")


def test_asserts_that_pytest_has_rewritten(stream):
    """In a module of tests, pytest has replaced every `assert` by what explains it."""

    def checked(i, limit):
        assert i < limit
        assert i >= 0 and limit in (8, 3), "message"  # noqa: PT018
        return i

    check(stream, checked, 8)
    with pytest.raises(device.KernelError, match=r"the assertion does not hold\n(.|\n)*assert i < limit"):
        check(stream, checked, 3)
