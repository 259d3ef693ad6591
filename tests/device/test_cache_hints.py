"""`cache_load` and `cache_store`: loads and stores with cache operators of PTX, which the CPU stream does without."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import can_assemble, poison

import cuda_device as device

TYPES = (
    *(np.int8, np.uint8, np.bool_, np.int16, np.float16, device.bfloat16, device.float8e4m3),
    *(np.int32, np.float32, np.uint64, np.float64, np.complex64, np.complex128),
)
LOADS, STORES = ("ca", "cg", "cs", "lu", "cv"), ("wb", "cg", "cs", "wt")


@device.kernel
def reverse(x, y, load: device.ConstExpr[str], store: device.ConstExpr[str]):
    i = device.tid(1)
    if i < len(x):
        device.cache_store(y, i, device.cache_load(x, -1 - i, load), store)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_numbers(stream, dtype):
    numbers = np.arange(-50, 50).astype(np.int8).astype(dtype)
    y = stream.run(reverse, numbers, poison(100, dtype), "cs", "cg", grid=2, block=64)[-1]
    assert y.tobytes() == numbers[::-1].tobytes()


@pytest.mark.parametrize(
    "vector", [device.float32x4, device.float32x2, device.float64x2, device.uint8x4, device.int8x2]
)
def test_vectors(stream, vector):
    numbers = np.frombuffer(np.arange(800, dtype=np.uint8).tobytes(), device.numpy_dtype(vector))
    y = stream.run(reverse, numbers, np.zeros_like(numbers), "cg", "cs", grid=7, block=64)[-1]
    assert y.tobytes() == numbers[::-1].tobytes()


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("store", STORES)
def test_hints(stream, load, store):
    numbers = np.arange(33, dtype=np.float32)
    assert (stream.run(reverse, numbers, poison(33), load, store, block=64)[-1] == numbers[::-1]).all()
    ptx = str(device.compile(reverse, np.zeros(3, np.float32), np.zeros(3, np.float32), load, store, output="ptx"))
    assert f"ld.global.{load}.b32" in ptx and f"st.global.{store}.b32" in ptx


@device.kernel
def transposed(x, y):
    i, j = device.tid(2)
    if i < x.shape[0] and j < x.shape[1]:
        device.cache_store(y, (j, i), 2 * device.cache_load(x, (i, j), "cs"), "cs")


def test_axes_strides_and_conversions(stream):
    numbers = np.arange(35, dtype=np.int16).reshape(5, 7)
    x, y = stream.array(numbers), stream.empty((7, 5), np.float64)
    stream.launch(transposed, x, y, grid=(1, 1), block=(8, 8))
    assert (stream.numpy(y) == 2 * numbers.T).all()
    z = stream.empty((7, 5), np.int8)
    stream.launch(transposed, x, z, grid=1, block=(8, 8))
    assert (stream.numpy(z) == 2 * numbers.T).all()


HINTS = tuple(zip(LOADS, (*STORES, "cs"), strict=True))


@device.kernel
def with_all_hints(arrays):
    i = device.tid(1)
    for x, y in arrays:
        for load, store in HINTS:
            device.cache_store(y, i, device.cache_load(x, i, load), store)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_they_are_assembled(target):
    if not can_assemble(target):
        pytest.skip("no assembler")
    types = np.int8, np.float16, np.float32, np.float64, device.float32x4, device.uint8x4
    arrays = tuple((np.zeros(1, device.numpy_dtype(type)),) * 2 for type in types)
    text = device.compile(with_all_hints, arrays, target=target, output="ptx").code
    assert text.count("ld.global.cv.") == text.count("st.global.wt.") == len(types)
    assert device.compile(with_all_hints, arrays, target=target).code.startswith(b"\x7fELF")


def test_bounds_are_checked():
    @device.kernel
    def k(x):
        device.cache_store(x, device.cache_load(x, 0, "cs"), 1, "cs")

    with pytest.raises(device.KernelError, match="index 7"):
        device.launch(k, np.full(3, 7), grid=1, block=1, stream=device.cpu_stream())


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ('device.cache_load(x, 0, "streaming")', "cache must be one of ca, cg, cs, lu, cv, not 'streaming'"),
        ('device.cache_store(x, 0, 1, "lu")', "cache must be one of wb, cg, cs, wt, not 'lu'"),
        ("device.cache_load(x, 0, i)", "cache must be a constant expression"),
        ('device.cache_load(x, (0, 1), "cs")', "has 1 axes, but there are 2 indices"),
        ('device.cache_load(x, 0.5, "cs")', "an index must be an integer or a tuple of integers"),
        ('device.cache_load(i, 0, "cs")', "takes an array in global memory, not int32"),
        ('device.cache_load(device.shared_array(4, x.dtype), 0, "cs")', "takes an array in global memory"),
        ('device.cache_load(w, 0, "cs")', "takes aligned numbers and vectors of 1, 2, 4, 8 or 16 bytes"),
        ('device.cache_store(x, 0, 1j, "cs")', "the constant 1j does not fit float32"),
    ],
)
def test_wrong_uses(statement, reason):
    namespace = {"device": device}
    exec(f"def k(x, w):\n    i = device.tid(1)\n    {statement}", namespace)
    arrays = np.zeros(4, np.float32), device.ArrayType(device.float32x3, 1)
    with pytest.raises(device.CompileError, match=reason):
        device.compile(device.kernel(namespace["k"]), *arrays, output="ptx")


def test_read_only_arrays_and_the_host():
    def store(x):
        device.cache_store(x, 0, 1, "cs")

    def load(x, y):
        y[0] = device.cache_load(x, 0, "cs")

    x = device.ArrayType(device.float32, 1, readonly=True)
    with pytest.raises(device.CompileError, match="read-only"):
        device.compile(device.kernel(store), x, output="ptx")
    assert "ld.global.cs" in str(device.compile(device.kernel(load), x, np.zeros(1, np.float32), output="ptx"))
