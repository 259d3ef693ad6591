"""Arrays whose memory is less aligned than their elements: read and written by narrower accesses, refused by atomics."""

from typing import Any

import numpy as np
import pytest
from conftest import POISON, StreamUnderTest

import cuda_device as device
from cuda_device.types.model import FLOAT32, FLOAT64, Array

NUMBERS = [np.int16, np.uint32, np.int64, np.float16, np.float32, np.float64, device.bfloat16]


def moved(elements: np.ndarray[Any, Any], by: int) -> np.ndarray[Any, Any]:
    """A copy that begins so many bytes behind a multiple of 64."""
    memory = np.full(elements.nbytes + 192, POISON, np.uint8)
    begin = -memory.ctypes.data % 64 + by
    result = np.ndarray(elements.shape, elements.dtype, memory.data, begin)
    result[...] = elements
    assert result.ctypes.data % 64 == by
    return result


@device.kernel
def double(x: Any, y: Any) -> None:
    i = device.tid(1)
    if i < len(x):
        y[i] = x[i] + x[i]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("by", [1, 2, 3, 4, 6, 8, 12])
def test_numbers_at_any_address(dtype: Any, by: int) -> None:
    x = moved(np.arange(1, 41).astype(dtype), by)
    y = moved(np.zeros(40, dtype), 64 - by)
    device.launch(double, x, y, grid=2, block=32, stream=device.cpu_stream())
    assert np.array_equal(y, (np.arange(1, 41) * 2).astype(dtype))


@pytest.mark.parametrize("kind", [device.float32x4, device.float64x2, device.int16x4, device.float64x4, device.uint8x2])
@pytest.mark.parametrize("by", [1, 2, 4, 8])
def test_vectors_at_any_address(kind: Any, by: int) -> None:
    layout = device.numpy_dtype(kind)
    numbers = np.arange(1, 1 + 6 * int(kind.size)).astype(kind.dtype)
    x, y = moved(numbers.view(layout), by), moved(np.zeros(6, layout), 3)
    device.launch(double, x, y, grid=1, block=32, stream=device.cpu_stream())
    assert np.array_equal(y.copy().view(kind.dtype), numbers * 2)


@device.kernel
def views(x: Any, y: Any) -> None:
    y[0] = x[1:][0]
    y[1] = x[::-1][1]
    y[2] = x.reshape(2, -1)[1, 0]
    y[3] = x.reshape(2, -1).T[1, 0]
    y[4] = x.view(device.uint32).view(device.float32)[3]
    for element in x:
        y[5] = element
    x[2:4] = 7


def test_views_of_such_arrays() -> None:
    x, y = moved(np.arange(1, 7).astype(np.float32), 1), np.full(6, np.nan, np.float32)
    device.launch(views, x, y, grid=1, block=1, stream=device.cpu_stream())
    assert y.tolist() == [2, 5, 4, 2, 4, 6] and x.tolist() == [1, 2, 7, 7, 5, 6]


def test_strides_count_too() -> None:
    x = np.frombuffer(bytes(range(60)), np.uint8).copy()
    x = np.ndarray(6, np.float32, x.data, -x.ctypes.data % 4, (7,))
    y = np.full(6, np.nan, np.float32)
    x[...] = np.arange(6)
    device.launch(double, x, y, grid=1, block=32, stream=device.cpu_stream())
    assert y.tolist() == [0, 2, 4, 6, 8, 10]


def test_an_empty_array_is_aligned() -> None:
    x = moved(np.zeros(0, np.float32), 1)
    device.launch(double, x, x, grid=1, block=32, stream=device.cpu_stream())


class OnGpu:
    """Bytes of a GPU's array, from `offset` on, as float32."""

    def __init__(self, memory: Any, offset: int, count: int) -> None:
        self.memory = memory
        interface = memory.__cuda_array_interface__
        address = (interface["data"][0] + offset, False)
        self.__cuda_array_interface__ = interface | {"data": address, "shape": (count,), "typestr": "<f4"}


@pytest.mark.parametrize("by", [1, 2, 4])
def test_numbers_at_any_address_of_a_gpu(stream: StreamUnderTest, by: int) -> None:
    if stream.kind == "cpu":
        pytest.skip("a test of GPUs")
    numbers = np.arange(1, 33).astype(np.float32)
    x = stream.array(np.frombuffer(bytes(by) + numbers.tobytes(), np.uint8))
    y = stream.empty(32 * 4 + by, np.uint8)
    stream.launch(double, OnGpu(x, by, 32), OnGpu(y, by, 32), grid=1, block=32)
    assert np.array_equal(stream.numpy(y)[by:].view(np.float32), numbers * 2)


@device.kernel
def count(x: Any) -> None:
    device.atomic_ref(x, 0).add(1)


def test_atomics_need_alignment(stream: StreamUnderTest) -> None:
    x = moved(np.zeros(4, np.int32), 2)
    with pytest.raises(device.LaunchError, match="aligned to 2 bytes: atomics need 4") as error:
        device.launch(count, x, grid=1, block=1, stream=device.cpu_stream())
    assert isinstance(error.value, device.CompileError) and "atomic_ref(x, 0)" in str(error.value)
    x = moved(np.zeros(4, np.int32), 4)
    device.launch(count, x, grid=1, block=3, stream=device.cpu_stream())
    assert x.tolist() == [3, 0, 0, 0]


def test_accesses_in_ptx() -> None:
    """A GPU faults at an address that is no multiple of an access."""
    code = device.compile(double, Array(FLOAT32, 1, align=1), Array(FLOAT64, 1, align=4), output="ptx").code
    accesses = [line.split()[0] for line in code.splitlines() if "ld.global" in line or "st.global" in line]
    assert accesses.count("ld.global.b8") == 4 and accesses.count("st.global.b32") == 2 and len(accesses) == 6
    device.compile(double, Array(FLOAT32, 1, align=1), Array(FLOAT64, 1, align=4))
