"""Fixed-format numbers in device code are 0-d arrays, as NumPy's scalars are."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from against_python import refused
from conftest import StreamUnderTest, poison

import cuda_device as device

SCALARS = [
    np.int8(-5), np.int16(-300), np.int32(7), np.int64(2**40), np.uint8(200), np.uint16(40000), np.uint32(2**31),
    np.uint64(2**63), np.float16(1.5), np.float32(-2.25), np.float64(1e300), ml_dtypes.bfloat16(3), device.float8e4m3(-1.25),
    device.float8e5m2(0.75), np.bool_(True),
]  # fmt: skip
each_scalar = pytest.mark.parametrize("scalar", SCALARS, ids=lambda x: type(x).__name__)


@device.kernel
def facts(x: Any, out: Any) -> None:
    out[0], out[1], out[2], out[3] = x.ndim + x.ndims, x.size, x.itemsize, x.nbytes
    out[4], out[5] = len(x.shape), len(x.strides)
    out[6] = x.shape == () and x.strides == ()
    if x.dtype == device.float32:
        out[7] = 32


@each_scalar
def test_facts(stream: StreamUnderTest, scalar: Any) -> None:
    out = stream.run(facts, scalar, poison(8, np.int32))
    expected = [scalar.ndim, scalar.size, scalar.itemsize, scalar.nbytes, len(scalar.shape), len(scalar.strides), 1]
    assert out.tolist()[:7] == expected
    assert (out[7] == 32) == (scalar.dtype == np.float32)


@device.kernel
def with_axes(x: Any, out: Any) -> None:
    row, cube = x[None], x[np.newaxis, ..., None, None]
    out[0], out[1] = row[0], cube[0, -1, 0]
    for v in row:
        out[2] = v
    if row.shape == (1,) and cube.shape == (1, 1, 1) and cube.ndim == 3 and len(row) == 1 and row.dtype == x.dtype:
        out[3] = x
    out[4:] = row


@device.kernel
def itself(x: Any, out: Any) -> None:
    out[0] = x.T
    out[1] = x.real
    out[2] = x.imag
    out[3] = x.conjugate()
    out[4] = x.conj()
    out[5] = x[()]
    out[6] = x.reshape(())
    out[7] = x.item()
    out[8] = x[...]


@each_scalar
def test_a_number_and_an_array_of_it(stream: StreamUnderTest, scalar: Any) -> None:
    out, axes = stream.empty(9, scalar.dtype), stream.empty(6, scalar.dtype)
    stream.launch(itself, scalar, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [scalar, scalar, type(scalar)(0), *[scalar] * 6]
    stream.launch(with_axes, scalar, axes, grid=1, block=1)
    assert stream.numpy(axes).tolist() == [scalar] * 6


@device.kernel
def converted(x: Any, out: Any) -> None:
    out[0] = x.astype(device.float64)
    out[1] = x.astype(np.dtype("float32"), copy=False)
    out[2] = x.astype(dtype="int64")
    out[3] = x.astype(bool)


@each_scalar
def test_astype(stream: StreamUnderTest, scalar: Any) -> None:
    out = stream.run(converted, scalar, poison(4, np.float64))
    number = float(scalar)
    single = float(np.float32(number)) if number < 1e39 else np.inf
    whole = float(min(int(number), 2**63 - 1)) if scalar.dtype.kind != "u" else float(int(scalar) % 2**64)
    if scalar.dtype == np.uint64:
        whole = -(2.0**63)  # integers wrap
    assert out.tolist() == [number, single, whole, 1.0]


VIEWS = [(np.float32, np.uint32), (np.float64, np.int64), (np.float16, np.uint16), (ml_dtypes.bfloat16, np.int16),
         (device.float8e4m3, np.uint8), (np.int8, device.float8e5m2), (np.uint64, np.float64)]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), VIEWS)
def test_view(stream: StreamUnderTest, source: Any, target: Any) -> None:
    @device.kernel
    def view(x: Any, there: Any, back: Any) -> None:
        there[0] = x.view(target)
        back[0] = x.view(target).view(source)

    scalar = source(1.5 if np.dtype(source).kind != "u" else 2**62)
    there, back = stream.empty(1, target), stream.empty(1, source)
    stream.launch(view, scalar, there, back, grid=1, block=1)
    assert stream.numpy(there).tobytes() == scalar.view(target).tobytes()
    assert stream.numpy(back).tobytes() == scalar.tobytes()


@device.kernel
def as_vector(x: Any, out: Any) -> None:
    v = x.view(device.uint8x4)
    out[0], out[1], out[2], out[3] = v.x, v.y, v.z, v.w


def test_view_as_a_vector(stream: StreamUnderTest) -> None:
    assert stream.run(as_vector, np.float32(0.1), poison(4, np.uint8)).tobytes() == np.float32(0.1).tobytes()


@device.kernel
def builtin_items(a: Any, b: Any, c: Any, out: Any) -> None:
    out[0] = a.item() + 300  # a uint8 would wrap, and has no room for the constant
    out[1] = b.item() * 2.5
    out[2] = c.item() + 1
    out[3] = (3).real + (4).imag + (5).conjugate()


def test_item_is_a_builtin_number(stream: StreamUnderTest) -> None:
    out = stream.run(builtin_items, np.uint8(200), np.float32(2), np.int64(2**40), poison(4, np.float64))
    assert out.tolist() == [500, 5, 2**40 + 1, 8]


@pytest.mark.parametrize(
    ("type", "use", "message"),
    [
        (device.float32, lambda x: x.flags, "float32 has no attribute 'flags'"),
        (device.float32, lambda x: x.reshape(1, 1), r"its only shape is \(\)"),
        (device.float32, lambda x: x.view(device.float64), "float32 cannot be viewed as float64: their sizes differ"),
        (device.float32, lambda x: x[0], "float32 cannot be indexed"),
        (float, lambda x: x.shape, r"a Python number has only [\s\S]*float32\(…\).shape"),
    ],
)
def test_what_is_not_there(type: Any, use: Any, message: str) -> None:
    refused(use, type, match=message)


@device.kernel
def stored(x, y):
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i]


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_subnormal_numbers_are_kept(stream, name):
    dtype = np.dtype(getattr(device, name))
    least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    steps = np.arange(1, 120, dtype=np.float32)
    x = np.concatenate([steps, -steps]) * np.float32(least)
    y = stream.run(stored, x, np.full(len(x), -1, dtype), block=256)[-1]
    assert (y.view(np.uint16)[:119] == np.arange(1, 120)).all()
    assert (y.astype(np.float64) == x).all()


@device.kernel
def products(a, b, out):
    i = device.tid(1)
    if i < len(out):
        out[i] = a[i] * b[i]


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_products_may_be_subnormal(stream, name):
    dtype = np.dtype(getattr(device, name))
    least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    a, b = (np.arange(64) * 2 * least).astype(dtype), np.full(64, 0.5, dtype)
    out = stream.run(products, a, b, np.full(64, -1, dtype), block=64)[-1]
    assert out.view(np.uint16).tolist() == list(range(64))
