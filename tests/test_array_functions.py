"""What NumPy computes from all elements of an array: `x.sum()`, `np.max(x)` and such, of any number of axes."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from against_python import check, refused

import cuda_device as device

ARRAYS = {
    "float64": np.arange(24.0).reshape(4, 6) * 0.5 - 3,
    "float32": np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7,
    "int32": np.array([5, 3, -2, 7, 1, 11, -9, 4], np.int32),
    "F": np.asfortranarray(np.arange(12.0).reshape(3, 4) % 5),
    "steps": (np.arange(48.0).reshape(6, 8) % 7)[::2, ::-3],
    "bool": np.array([[True, False], [True, True]]),
    "one": np.array([[2.5]]),
    "nan": np.array([[1.0, np.nan], [3.0, -1.0]]),
}
NAMES = ["sum", "prod", "mean", "max", "min", "any", "all"]


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", NAMES)
def test_arrays(stream, name, array):
    x = ARRAYS[array]
    scope = {"np": np}
    exec(f"def method(x):\n    return x.{name}()\ndef function(x):\n    return np.{name}(x)", scope)
    method, function = scope["method"], scope["function"]

    @device.kernel
    def both(x, out):
        out[0] = method(x)
        out[1] = function(x)

    out = stream.empty(2, np.float64)
    stream.launch(both, stream.array(x), out, grid=1, block=1)
    np.testing.assert_allclose(stream.numpy(out), float(getattr(x, name)()), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_tuples_lists_and_rows(stream, name):
    scope = {"np": np}
    exec(
        f"def f(i, x):\n    return 1.0 * np.{name}((i, 2.5, x[i, 0])) + 1.0 * np.{name}([1, i]) + 1.0 * x[i].{name}()",
        scope,
    )
    check(stream, scope["f"], np.arange(32.0).reshape(8, 4) - 5, exact=False)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"])
def test_sums_of_integers_have_the_room_that_numpy_gives_them(stream, dtype):
    @device.kernel(checked=False)  # which would report the sum that does not fit
    def sums(x, of, means):
        of[0], of[1], of[2], of[3] = np.sum(x), x.sum(), np.prod(x), x[0].prod()
        of[4], of[5] = x.sum(dtype=np.int16), np.sum(x, dtype=np.uint8)
        of[6] = sum(x[0])
        means[0], means[1], means[2] = x.mean(), np.mean(x[1]), np.mean(x, dtype=np.float32)

    info = None if dtype == "bool" else np.iinfo(dtype)
    x = np.array([[1, 1, 0]] if info is None else [[info.max, info.max, 2], [3, info.max, info.min]], dtype)
    x = np.concatenate([x, x[:, ::-1]])
    of, means = stream.empty(7, np.uint64), stream.empty(3, np.float64)
    stream.launch(sums, stream.array(x), of, means, grid=1, block=1)
    with np.errstate(over="ignore"):
        first = int(
            np.add.reduce(x[0], dtype=dtype if info else np.int64)
        )  # the builtin adds in the type of the elements
        right = [x.sum(), x.sum(), x.prod(), x[0].prod(), x.sum(dtype=np.int16), x.sum(dtype=np.uint8), first]
    assert stream.numpy(of).tolist() == [int(n) % 2**64 for n in right]
    if dtype not in ("int64", "uint64"):
        right = [x.mean(), x[1].mean(), x.mean(dtype=np.float32)]
        np.testing.assert_allclose(stream.numpy(means)[:2], right[:2], rtol=1e-12)
        np.testing.assert_allclose(stream.numpy(means)[2], right[2], rtol=1e-5)


def test_nothing_has_a_sum_and_no_maximum(stream):
    @device.kernel
    def of_nothing(x, out):
        out[0] = x.sum()
        out[1] = x.prod()
        out[2] = x.any()
        out[3] = x.all()

    out = stream.empty(4)
    stream.launch(of_nothing, stream.array(np.zeros((0, 3), np.float32)), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [0, 1, 0, 1]

    @device.kernel
    def largest(x):
        x[0] = x.max()

    with pytest.raises(
        device.KernelError, match="zero-size array to reduction operation maximum which has no identity"
    ):
        stream.launch(largest, stream.array(np.zeros(0, np.float32)), grid=1, block=1)


@pytest.mark.parametrize(
    ("expression", "match", "remedy"),
    [
        ("x.sum(0)", "sum of an array takes no arguments", "loop over the axis"),
        ("x.sum(axis=0)", "sum of an array takes no arguments", "loop over the axis"),
        ("x.max(dtype=int)", "max of an array takes no arguments", "loop over the axis"),
        ("x.copy()", "arrays have no attribute 'copy'", "local_array"),
        ("x.flatten()", "arrays have no attribute 'flatten'", "x.reshape(-1)"),
        ("x.sort()", "arrays have no attribute 'sort'", "an algorithm of your own"),
        ("x.std()", "arrays have no attribute 'std'", "mean"),
    ],
)
def test_what_arrays_have_not(expression, match, remedy):
    scope: dict = {}
    exec(f"def f(x):\n    return {expression}", scope)
    error = refused(scope["f"], device.ArrayType(device.float32, 1), match=match)
    assert remedy in error.help


@functools.lru_cache(maxsize=8)
def squared(x):
    return x * x
