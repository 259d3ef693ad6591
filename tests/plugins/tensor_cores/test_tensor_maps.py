"""`TensorMap`: what the driver gets, what kernels on CPU streams get, its type, and what no hardware can do."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest
from fake_driver import Result
from producers import Torch

import cuda_device as device
from cuda_device import TensorMap, TensorMapType, extend


@device.kernel
def reads(map, out):
    out[0], out[1], out[2], out[3] = map.nbytes, map.box[0], map.swizzle, map.dtype(2.75)


# What the driver gets: type of the elements, the address, and per axis, the last one first, length, stride, box and step

ENCODED = [
    (device.float32, (6, 8), {}, (6, 8), 7, ((8, 6), (32,), (8, 6), (1, 1)), (0, 0, 3, 0)),
    (device.float32, (6, 8), {"dtype": "tf32"}, (1, 4), 11, ((8, 6), (32,), (4, 1), (1, 1)), (0, 0, 3, 0)),
    (device.bfloat16, (4, 6, 64), {"swizzle": 128, "fill": "nan"}, (2, 3, 64), 9,
     ((64, 6, 4), (128, 768), (64, 3, 2), (1, 1, 1)), (0, 3, 3, 1)),
    (device.float8e4m3, (2, 64), {"swizzle": 64}, (2, 64), 0, ((64, 2), (64,), (64, 2), (1, 1)), (0, 2, 3, 0)),
    (device.int8, (3, 2, 2, 2, 32), {"swizzle": 32}, (1, 1, 2, 1, 32), 0,
     ((32, 2, 2, 2, 3), (32, 64, 128, 256), (32, 1, 2, 1, 1), (1,) * 5), (0, 1, 3, 0)),
    (device.uint64, 100, {}, 2, 4, ((100,), (), (2,), (1,)), (0, 0, 3, 0)),
    (device.int64, 100, {}, 2, 5, ((100,), (), (2,), (1,)), (0, 0, 3, 0)),
    (device.float16, 100, {}, 8, 6, ((100,), (), (8,), (1,)), (0, 0, 3, 0)),
    (device.float64, 100, {}, 256, 8, ((100,), (), (256,), (1,)), (0, 0, 3, 0)),
    (device.uint16, 100, {}, 8, 1, ((100,), (), (8,), (1,)), (0, 0, 3, 0)),
    (device.int16, 100, {}, 8, 1, ((100,), (), (8,), (1,)), (0, 0, 3, 0)),
    (device.uint32, 100, {}, 8, 2, ((100,), (), (8,), (1,)), (0, 0, 3, 0)),
    (device.int32, 100, {}, 8, 3, ((100,), (), (8,), (1,)), (0, 0, 3, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "shape", "options", "box", "kind", "tables", "patterns"), ENCODED)
def test_the_driver_describes_the_array(current_gpu, dtype, shape, options, box, kind, tables, patterns):
    x, out = device.zeros(shape, dtype, stream=current_gpu.stream), device.zeros(4, stream=current_gpu.stream)
    map, current_gpu.sizes = TensorMap.of(x, box, **options), [128]
    for _ in range(2):
        device.launch(reads, map, out, grid=1, block=1, stream=current_gpu.stream)
    address = extend.array_view(x).data
    (encoded,) = [entry for entry in current_gpu.log if entry[0] == "cuTensorMapEncodeTiled"]
    assert encoded == ("cuTensorMapEncodeTiled", 0, kind, address, *tables, patterns)
    assert current_gpu.bytes[0][0] == current_gpu.bytes[1][0] == address.to_bytes(8, "little") + b"\x5a" * 120


def test_strides_of_padded_and_transposed_arrays(current_gpu):
    x = device.zeros((4, 6, 16), stream=current_gpu.stream)
    turned = extend.with_layout(x, lambda elements: elements[1:, ::2, :12].transpose(1, 0, 2))
    device.launch(reads, TensorMap.of(turned, (1, 2, 4)), x[0, 0], grid=1, block=1, stream=current_gpu.stream)
    (encoded,) = [entry for entry in current_gpu.log if entry[0] == "cuTensorMapEncodeTiled"]
    assert encoded[4:6] == ((12, 3, 3), (384, 128))


def test_what_the_driver_refuses_is_an_error(current_gpu):
    current_gpu.failing["cuTensorMapEncodeTiled"] = Result.CUDA_ERROR_INVALID_VALUE
    x = device.zeros((4, 8), stream=current_gpu.stream)
    with pytest.raises(device.LaunchError, match=r"INVALID_VALUE .* describing an array of the shape \(4, 8\)"):
        TensorMap.of(x, (2, 8))


def test_no_stream_waits_for_the_library_of_the_array(current_gpu):
    """Launches do, so that maps can be made while a stream is captured."""
    x = Torch().tensor(0x7F00_0000_0000, (4, 8))
    map, before = TensorMap.of(x, (2, 8)), current_gpu.names()
    assert not {"cuStreamWaitEvent", "cuEventRecord", "cuStreamSynchronize"}.intersection(before)
    device.launch(reads, map, device.zeros(4, stream=current_gpu.stream), grid=1, block=1, stream=current_gpu.stream)
    assert "cuStreamWaitEvent" in current_gpu.names()


# Maps as arguments and as objects


def test_kernels_see_what_is_constant():
    out, x = np.zeros(4, np.float32), np.zeros((4, 16), np.int32)
    device.launch(reads, TensorMap.of(x, (2, 8), swizzle=32), out, grid=1, block=1, stream=device.cpu_stream())
    assert out.tolist() == [64, 2, 32, 2]


def test_attributes_and_lifetime():
    x = np.zeros((4, 16), np.float32)
    map = TensorMap.of(x, (2, np.int64(8)), swizzle=32, fill="nan")
    assert map.array is x and (map.box, map.swizzle, map.fill, map.nbytes) == ((2, 8), 32, "nan", 64)
    assert map.dtype is device.float32 and TensorMap.of(x, (2, 8), dtype="tf32").dtype == "tf32"
    assert repr(map) == "<TensorMap_float32_2x8_swizzle32_nan of an array of the shape (4, 16)>"
    copy = pickle.loads(pickle.dumps(map))
    assert (copy.box, copy.swizzle, copy.fill, copy.array.shape) == ((2, 8), 32, "nan", (4, 16))
    owner = device.zeros((4, 8), stream=device.cpu_stream())
    map, kept = TensorMap.of(owner, (1, 4)), weakref.ref(owner)
    del owner
    gc.collect()
    assert kept() is map.array


def test_types():
    x, stream = np.zeros((4, 16), np.float32), device.cpu_stream()
    for options in ({}, {"swizzle": 32}, {"fill": "nan"}):
        assert TensorMapType(device.float32, (2, 8), **options) == TensorMap.of(x, (2, 8), **options)._known.type
    assert TensorMapType("tf32", (2, 8)) == TensorMap.of(x, (2, 8), dtype="tf32")._known.type
    assert TensorMapType("float32", [2, 8]) != TensorMapType("tf32", (2, 8))

    @device.kernel
    def hinted(map: TensorMapType(device.float32, (2, 8))):
        pass

    device.compile(hinted)
    device.launch(hinted, TensorMap.of(x, (2, 8)), grid=1, block=1, stream=stream)
    x.flags.writeable = False
    device.launch(hinted, TensorMap.of(x, (2, 8)), grid=1, block=1, stream=stream)
    with pytest.raises(device.CallError, match="'map' is TensorMap_float32_2x4, but .* hint is TensorMap_float32_2x8"):
        device.launch(hinted, TensorMap.of(x, (2, 4)), grid=1, block=1, stream=stream)


# What the hardware cannot do, and why

X = np.zeros((4, 16), np.float32)
REFUSED = [
    (X[0, :1].reshape(()), (1,), {}, "the array has 0 axes, and a map has 1 to 5"),
    (X.reshape(1, 1, 1, 1, 4, 16), (1,) * 5 + (4,), {}, "the array has 6 axes, and a map has 1 to 5"),
    (X[:, 1:], (2, 4), {}, r"at the address 0x\w+, which is not a multiple of 16"),
    (X[:0], (2, 4), {}, "the axis 0 has the length 0, and maps have lengths from 1 to 2"),
    (np.lib.stride_tricks.as_strided(X, (2**32 + 1,), (4,)), 4, {}, "the axis 0 has the length 4294967297"),
    (X.T, (2, 4), {}, "the last axis is not contiguous: its stride is 64 bytes, and an element has 4"),
    (X[:, ::2], (2, 4), {}, "the last axis is not contiguous: its stride is 8 bytes"),
    (np.zeros((4, 15), np.float32), (2, 4), {}, "the axis 0 has a stride of 60 bytes, not a multiple of 16"),
    (X[::-1], (2, 4), {}, "has a stride of -64 bytes, not a multiple of 16 from 0 to 2"),
    (np.lib.stride_tricks.as_strided(X, (2, 4), (2**40, 4)), (2, 4), {}, "has a stride of 1099511627776 bytes"),
    (X.astype(np.complex64), (2, 4), {}, "boxes have no elements of the type complex64"),
    (X, (2, 4), {"dtype": device.int32}, "elements of the type float32, and dtype="),
    (X.view(np.int32), (2, 4), {"dtype": "tf32"}, "elements of the type int32, and dtype='tf32'"),
    (X, (2, 4, 1), {}, r"the box \(2, 4, 1\) has 3 axes, and the array has 2"),
    (X, (2, 257), {}, r"the box \(2, 257\) has an axis that is not from 1 to 256 long"),
    (X, (0, 4), {}, "an axis that is not from 1 to 256 long"),
    (X, (2, 2), {}, r"a row of the box \(2, 2\) has 8 bytes, which is not a multiple of 16"),
    (X, (2, 4), {"swizzle": 32}, r"a row of the box \(2, 4\) has 16 bytes, and the pattern has 32"),
    (X, (2, 16), {"swizzle": 32}, "has 64 bytes, and the pattern has 32"),
    (X, (2, 4), {"swizzle": 16}, "swizzle=16"),
    (X, (2, 4), {"fill": "ones"}, "fill='ones'"),
    (X.view(np.int32), (2, 4), {"fill": "nan"}, "fill='nan'"),
    (X, 2.5, {}, "box=2.5"),
    (3, (2, 4), {}, "'array' is of type int, which is not an array"),
]


@pytest.mark.parametrize(("array", "box", "options", "reason"), REFUSED)
def test_refusals(array, box, options, reason):
    with pytest.raises(device.LaunchError, match=reason) as caught:
        TensorMap.of(array, box, **options)
    assert caught.value.help


def test_types_are_refused_like_maps():
    for arguments in ((device.float32, (2, 2)), (device.complex64, (2, 4)), (device.float8e5m2, (2, 16), 0, "nan")):
        with pytest.raises(device.LaunchError, match="TensorMap: "):
            TensorMapType(*arguments)
    with pytest.raises(TypeError, match="not a dtype"):
        TensorMapType("words", (2, 4))


def test_an_array_elsewhere_is_refused(current_gpu):
    map, out = TensorMap.of(X, (2, 4)), device.zeros(4, stream=current_gpu.stream)
    with pytest.raises(device.LaunchError, match="argument 'map' is in host memory, but the stream is on GPU 0"):
        device.launch(reads, map, out, grid=1, block=1, stream=current_gpu.stream)
