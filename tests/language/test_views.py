"""Arrays made of arrays: rows, slices, `...` and None, `.T`, `view`, `reshape`, `astype`, and assignment to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from against_python import refused
from conftest import poison, thinned
from ir_helpers import define

import cuda_device as device
from cuda_device import float32, float32x4

SLICES = [
    "1", "-1", ":", "1:", ":2", "::2", "::-1", "-2:", "5:1:-2", "1:100", "-100:2", "3:1", "::-3", "None", "..., 1", "1, 2",
    "1, :", ":, 1", "1:3, 2", "::2, ::-1", "-1, ::2", "..., None, 1:3", "None, 1, ...", ":, None, -1", "2:0:-1, 3:0:-2",
]  # fmt: skip
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
}


def kernel_of(body: str):
    names = {"device": device, "float32x4": float32x4, "np": np}
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    exec(f"def k(a, out, shape, n):\n{lines}", names)
    return device.kernel(names["k"])


def copy_out(selection: str):
    """A kernel that writes the shape and the elements of a view."""
    return kernel_of(f"""\
v = {selection}
for i in (0, 1, 2):
    if i < v.ndim:
        shape[i] = v.shape[i]
if v.ndim == 0:
    out[0] = v[()]
if v.ndim == 1:
    for i in range(v.shape[0]):
        out[i] = v[i]
if v.ndim == 2:
    for i in range(v.shape[0]):
        for j in range(v.shape[1]):
            out[i * v.shape[1] + j] = v[i, j]
if v.ndim == 3:
    for i in range(v.shape[0]):
        for j in range(v.shape[1]):
            for k in range(v.shape[2]):
                out[(i * v.shape[1] + j) * v.shape[2] + k] = v[i, j, k]""")


def check(stream, selection: str, a, expected) -> None:
    expected = np.asarray(expected)
    _, out, shape = stream.run(copy_out(selection), a, poison(64, a.dtype), poison(3, np.int64), 2)
    assert shape[: expected.ndim].tolist() == list(expected.shape)
    assert out[: expected.size].tolist() == expected.reshape(-1).tolist()


@pytest.mark.parametrize(("index", "layout"), thinned([s for s in SLICES if s != "1, 2"], LAYOUTS, one_in=2))
def test_slices_are_numpys(stream, index, layout):
    a = LAYOUTS[layout](np.arange(20, dtype=np.float32).reshape(4, 5))
    if stream.kind == "gpu" and layout != "C":
        pytest.skip("arrays on the GPU are contiguous here")
    check(stream, f"a[{index}]", a, eval(f"a[{index}]"))


def test_bounds_that_only_run_time_knows(stream):
    @device.kernel
    def middle(a, out, low, high, step):
        v = a[low:high:step]
        out[0] = len(v)
        for i in range(len(v)):
            out[i + 1] = v[i]

    a = np.arange(10, dtype=np.int32)
    for low, high, step in [(2, 7, 1), (-3, 100, 1), (8, 1, -3), (0, 10, 4), (5, 5, 1), (-1, -11, -1), (7, 2, 1)]:
        out = stream.empty(12, np.int32)
        stream.launch(middle, stream.array(a), out, low, high, step, grid=1, block=1)
        expected = a[low:high:step]
        assert stream.numpy(out)[: len(expected) + 1].tolist() == [len(expected), *expected.tolist()]


def strided(shape, steps, kind):
    """An array of numbers that are all different: permuted axes, slices of a larger array, or one of a step in a shape."""
    if kind == "permuted":
        inner = np.arange(math.prod(shape), dtype=np.float32).reshape([shape[i] for i in steps])
        return inner.transpose(np.argsort(steps))
    if kind == "sliced":
        whole = np.arange(math.prod(shape) * 2 ** len(shape), dtype=np.float32).reshape([2 * n for n in shape])
        return whole[tuple(slice(0, n * step, step) for n, step in zip(shape, steps, strict=True))]
    return np.arange(math.prod(shape) * 3, dtype=np.float32)[::-3].reshape(shape)


STRIDED = [
    strided((6, 4), (1, 0), "permuted"), strided((2, 3, 4), (0, 2, 1), "permuted"), strided((2, 3, 4), (1, 0, 2), "permuted"),
    strided((6, 1, 4), (2, 1, 0), "permuted"), strided((4, 6), (1, 2), "sliced"), strided((4, 6), (2, 1), "sliced"),
    strided((1, 24), (2, 2), "sliced"), strided((2, 2, 6), (1, 1, 2), "sliced"), strided((24, 1), (1, 1), "sliced"),
    strided((4, 6), (), "of one step"), strided((2, 3, 4), (), "of one step"), np.zeros((4, 0, 3), np.float32)[::2, :, 1:],
    np.broadcast_to(np.arange(4, dtype=np.float32), (6, 4)),
]  # fmt: skip


SHAPES = ["-1", "3, 8", "4, 6", "2, 12", "2, 3, 4", "4, 1, 6", "2, 2, 6", "1, 24", "24, 1", "0, 7"]
RESHAPED = [(a, to) for a in STRIDED for to in SHAPES if to == "-1" or math.prod(eval(f"({to},)")) == a.size]


@pytest.mark.parametrize("case", thinned(RESHAPED, one_in=5))
def test_what_is_not_contiguous_is_reshaped_where_numpy_makes_no_copy(case):
    a, shape = case
    stream = device.cpu_stream()
    out, lengths = np.full(64, -1, np.float32), np.zeros(3, np.int64)
    want = eval(f"a.reshape({shape})")
    ours = copy_out(f"a.reshape({shape})")
    if not np.shares_memory(want, a) and a.size:
        with pytest.raises((device.CompileError, device.KernelError), match="cannot be reshaped without a copy"):
            device.launch(ours, a, out, lengths, 2, grid=1, block=1, stream=stream)
        return
    device.launch(ours, a, out, lengths, 2, grid=1, block=1, stream=stream)
    assert lengths[: want.ndim].tolist() == list(want.shape)
    assert out[: a.size].tolist() == want.reshape(-1).tolist()


@pytest.mark.parametrize(
    "expression",
    [
        "a.reshape([2, -1], copy=False)", "a.reshape((2, n, 5))",
        "a.T", "a.T[1:]", "a.reshape(5, 4)", "a.reshape((2, -1))", "a.reshape(-1)", "a[1:3].T", "a.reshape(a.T.shape)",
        "a[:, 1:3].reshape(n, 2, 2)", "a[::2, None].reshape(2, 5)", "a[:, :1].reshape(-1)",
    ],
)  # fmt: skip
def test_shapes(stream, expression):
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    check(stream, expression, a, eval(expression, {"n": 2, "a": a}))


def test_the_shape_has_a_name(stream):
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    check(stream, "a.reshape(shape=(2, n, 5), copy=None)", a, a.reshape(2, 2, 5))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a.reshape(4, 5, order='F')", "reshape: got an unexpected keyword argument 'order'"),
        ("a.reshape(4, 5, copy=True)", "copy=True needs memory"),
        ("a.reshape(4, 5, like=a)", "got an unexpected keyword argument 'like'"),
        ("a.T.reshape(-1)", "cannot be reshaped without a copy"),
    ],
)
def test_what_reshape_does_not_take(expression, message):
    with pytest.raises(device.CompileError, match=message):
        device.compile(copy_out(expression), np.zeros((4, 5), np.float32), np.zeros(20), np.zeros(3, np.int64), 2)


def test_views_of_other_types(stream):
    a = np.arange(16, dtype=np.float32).reshape(2, 8)
    check(stream, "a.view(np.uint32)[1]", a, a.view(np.uint32)[1])
    check(stream, "a.view(np.uint8)[1, 3:7]", a, a.view(np.uint8)[1, 3:7])
    check(stream, "a[:, 1, None].view(np.uint16)", a, a[:, 1, None].view(np.uint16))
    check(stream, "a[:0, ::n].view(np.uint8)", a, a[:0, ::2].view(np.uint8))
    check(stream, "a.astype(np.float32, copy=False)[1]", a, a[1])

    @device.kernel
    def as_vectors(x, out):
        v = x.view(float32x4)
        out[0] = v[1, 0].z
        out[1] = v.shape[1]

    out = stream.empty(2, np.float32)
    stream.launch(as_vectors, stream.array(a), out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [a[1, 2], 2]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("a[1] = 7", lambda a: a.__setitem__(1, 7)),
        ("a[:, 1:3] = -1", lambda a: a.__setitem__((slice(None), slice(1, 3)), -1)),
        ("a[...] = 5", lambda a: a.__setitem__(..., 5)),
        ("a[1, 2, ...] = a[3, 4, ...]", lambda a: a.__setitem__((1, 2), a[3, 4])),
        ("a[::2] = a[1]", lambda a: a.__setitem__(slice(None, None, 2), a[1].copy())),
        ("a[:, 0] = a[:, 4]", lambda a: a.__setitem__((slice(None), 0), a[:, 4].copy())),
        ("a[0, ::-1] = a[3]", lambda a: a.__setitem__((0, slice(None, None, -1)), a[3].copy())),
        ("a.T[2] = n", lambda a: a.T.__setitem__(2, 2)),
        ("a[n] = 9, 8, n, 6, 5", lambda a: a.__setitem__(2, (9, 8, 2, 6, 5))),
        ("a[1:3, n] = [n, 9]", lambda a: a.__setitem__((slice(1, 3), 2), [2, 9])),
        (
            "a[:, :2] = (n, 1), (5, 6), (7, 8), (9, n)",
            lambda a: a[:, :2].__setitem__(..., [[2, 1], [5, 6], [7, 8], [9, 2]]),
        ),
        ("a[1, :4] = float32x4(5, 6, 7, n)", lambda a: a.__setitem__((1, slice(4)), [5, 6, 7, 2])),
        ("a[:2] = ((n,), (3,))", lambda a: a.__setitem__(slice(2), [[2], [3]])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_assignment_to_slices(stream, statement, expected):
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    x, _, _ = stream.run(kernel_of(statement), a, poison(1), poison(1, np.int64), 2)
    expected(a)
    assert x.tolist() == a.tolist()


def test_slices_of_shared_arrays(stream):
    @device.kernel
    def rotate(x):
        tile = device.shared_array((2, 32), float32)
        i = device.thread_idx.x
        front, back = tile[0], tile[1]
        front[i] = x[i]
        device.syncthreads()
        back[i] = front[::-1][i]
        device.syncthreads()
        x[i] = back[i]

    x = stream.array(np.arange(32, dtype=np.float32))
    stream.launch(rotate, x, grid=1, block=32)
    assert stream.numpy(x).tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a[1, 2, 3]", "has 2 axes, but there are 3 indices"),
        ("a[..., ...]", "at most one ..."),
        ("a[1.5:]", "int"),
        ("a[::0]", "step of a slice cannot be 0"),
        ("a.reshape(-1, -1)", "one length of a shape may be -1"),
        ("a.astype(np.float64)", "copy"),
        ("a.astype(np.float64, copy=False)", "needs a copy"),
        ("a.flags", "no attribute 'flags'"),
        ("a[1:]\nv[0, 0] = 1", "read-only"),
    ],
)
def test_errors_say_what_is_wrong(body, message):
    kernel = kernel_of(f"v = {body}\nout[0] = v[0, 0]")
    array = device.ArrayType(float32, 2, readonly=True)
    with pytest.raises(device.CompileError, match=message):
        device.compile(kernel, array, device.ArrayType(float32, 1), device.ArrayType(device.int64, 1), 2, output="ir")


@device.kernel
def either(x, y, out):
    chosen = x if out[0] else y
    out[1] = chosen[1]


@device.kernel
def writes_either(x, y, out):
    chosen = x if out[0] else y
    chosen[1] = 3


def test_arrays_join_though_one_is_read_only_or_less_aligned():
    y = np.frombuffer(bytes(1) + np.arange(4, dtype=np.float32).tobytes(), np.float32, 3, 1)
    x = np.full(5, 7, np.float32)
    for chosen, expected in ((0, 1), (1, 7)):
        out = np.array([chosen, -1], np.float32)
        device.launch(either, x, y, out, grid=1, block=1, stream=device.cpu_stream())
        assert out[1] == expected
        with pytest.raises(device.CompileError, match="the array is read-only"):
            device.launch(writes_either, x, y, out, grid=1, block=1, stream=device.cpu_stream())
    with pytest.raises(device.CompileError, match="array<float64, 1, C> on one path here"):
        device.launch(either, x, x.astype(np.float64), x, grid=1, block=1, stream=device.cpu_stream())


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("x.sum()", "sum(x)"),
        ("x.max(0)", "a loop over the rows"),
        ("x.copy()", "local_array"),
        ("x.flatten()", "x.reshape(-1)"),
        ("x.sort()", "an algorithm of your own"),
        ("x.std()", "reshape"),
    ],
)
def test_methods_that_arrays_have_not_are_refused(expression, remedy):
    function = define(f"def f(x):\n    return {expression}", "f")
    assert remedy in refused(function, device.ArrayType(device.float32, 1), match="arrays have no attribute").help
