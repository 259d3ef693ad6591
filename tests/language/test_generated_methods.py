"""Methods that change structs, in programs made at random: the CPU stream, and a GPU, against CPython."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from conftest import long
from generated_methods import RESULTS, Methods
from ir_helpers import define

import cuda_device as device

COUNT = 4


class Vector:
    """A mutable vector for CPython."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __getitem__(self, index):
        return (self.x, self.y)[index]

    def __setitem__(self, index, value):
        setattr(self, "xy"[index], value)


def wrapped(number):
    return (number + 2**31) % 2**32 - 2**31


def in_python(source):
    names = {"copy": copy.deepcopy, "int32": lambda number: number}
    exec(source, names)
    points = [names["Outer"](i, names["Inner"](10 * i, Vector(i, -i)), 7) for i in range(COUNT)]
    out = [99] * RESULTS
    names["k"](points, out)
    flat = [(p.x, p.inner.a, p.inner.v.x, p.inner.v.y, p.n) for p in points]
    return [tuple(map(wrapped, each)) for each in flat], [*map(wrapped, out)]


def on_device(stream, source, name):
    names = {"int32": device.int32, "int32x2": device.int32x2}
    kernel = define(source, file=name, **names)
    struct = kernel.underlying.__globals__["Outer"]
    points = np.zeros(COUNT, device.numpy_dtype(struct))
    points[:] = [(i, (10 * i, (i, -i)), 7) for i in range(COUNT)]
    points, out = stream.array(points), stream.array(np.full(RESULTS, 99, np.int32))
    stream.launch(kernel, points, out, grid=1, block=1)
    flat = [(x, a, v[0], v[1], n) for x, (a, v), n in stream.numpy(points).tolist()]
    return flat, stream.numpy(out).tolist()


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=long(seed)) for seed in range(10, 100))])
def test_generated_methods(stream, seed):
    program = Methods(seed).program()
    assert on_device(stream, program.device, f"<methods {seed}>") == in_python(program.python), program.device
