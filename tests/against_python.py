"""Runs a function in every thread of a kernel, and as plain Python, and compares.

check(stream, lambda i, x: x[i] * 2, np.arange(8.0))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import cuda_device as device

THREADS = 8


def check(stream: Any, function: Callable[..., Any], *arguments: Any, exact: bool = True) -> None:
    """Thread i writes `function(i, *arguments)`; all of them together must be what Python says."""

    @device.kernel
    def one(out, a):
        i = device.tid(1)
        if i < len(out):
            out[i] = function(i, *a)

    found = stream.empty(THREADS, np.float64)
    given = tuple(stream.array(a) if isinstance(a, np.ndarray) else a for a in arguments)
    stream.launch(one, found, given, grid=1, block=THREADS)
    expected = np.array([function(i, *arguments) for i in range(THREADS)], np.float64)
    tolerance = 0 if exact else 1e-6
    np.testing.assert_allclose(stream.numpy(found), expected, rtol=tolerance, atol=tolerance)


def programs(scope: Mapping[str, Any], *parameters: str) -> list[Callable[..., Any]]:
    """The functions of a module that have these parameters, for `parametrize`."""
    functions = [each for each in scope.values() if isinstance(each, FunctionType)]
    return [each for each in functions if each.__code__.co_varnames[: each.__code__.co_argcount] == parameters]


def refused(function: Callable[..., Any], *types: Any, match: str) -> device.CompileError:
    """The function does not compile, and the message says why. Its source, which the message shows, may be that of the test."""
    with pytest.raises(device.CompileError) as caught:
        device.compile(device.func(function), *types, output="ir")
    said = "\n".join(line for line in str(caught.value).splitlines() if not re.match(r" *\d+ \|", line))
    assert re.search(match, said), said
    assert caught.value.help, str(caught.value)
    assert caught.value.location.line > 0
    return caught.value
