"""CUDA C++ that calls Python, and kernels of ours that others launch; `tests/codegen/test_linking.py` has the other direction."""

import ctypes

import cuda_cpp
import exchange
import numpy as np
import pytest
from conftest import a_gpu, properties_of, target_of

import cuda_device as device
from cuda_device.runtime.gpu import driver


@pytest.fixture
def stream():
    with a_gpu() as found:
        yield found


@pytest.fixture
def target(stream):
    if properties_of(stream).capability < (9, 0):
        pytest.skip("the C++ is compiled for sm_90")
    return target_of(stream)


def start(code, symbol, stream, *parameters):
    """Launches one thread of a kernel as others do, with C structures for parameters, and waits for it."""
    with stream.using():
        kernel = driver.get_kernel(driver.load_library(code), symbol)
        addresses = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        driver.launch(kernel, (1, 1, 1), (1, 1, 1), 0, stream.handle, ctypes.addressof(addresses))
    stream.synchronize()


def address(array):
    return ctypes.c_uint64(array.__cuda_array_interface__["data"][0])


@pytest.mark.parametrize("number", range(len(exchange.KINDS)), ids=[cpp for _, cpp, _ in exchange.KINDS])
def test_values_come_back_from_python(number, stream, target):
    value, poisoned = exchange.sample(exchange.TYPES[number])
    source, result = device.array(value, stream=stream), device.array(poisoned, stream=stream)
    start(exchange.cpp_calls_python(target).code, f"k{number}", stream, address(source), address(result))
    assert exchange.parts(result.numpy()) == exchange.parts(value)


CALLERS = """
#include <cuda_device/interop.h>
using array = cuda::interoperable_array_descriptor<float, 2>;
extern "C" __device__ float corner(array x);
extern "C" __device__ array turned(array x);
extern "C" __global__ void user(float* data, float* out) {
  cuda::std::mdspan<float, cuda::std::dextents<int, 2>> rows(data, 3, 4);
  __shared__ float tile[12];
  for (int i = 0; i < 12; ++i) tile[i] = 100 + i;
  array columns{};
  columns.data = data;
  columns.shape[0] = 4;
  columns.shape[1] = 3;
  columns.strides[0] = 1;
  columns.strides[1] = 4;
  out[0] = corner(rows);
  out[1] = corner(columns);
  out[2] = corner(cuda::std::mdspan<float, cuda::std::extents<int, 3, 4>>(tile));
  out[3] = turned(rows).to_mdspan()(3, 1);
}
"""


@device.func(interop=True)
def corner(x):
    return x[-1, -1] + 1000 * x[0, 1]


@device.func(interop=True)
def turned(x):
    return x.T


def test_python_takes_and_returns_the_arrays_of_cpp(stream, target):
    matrix = device.ArrayType(device.float32, 2)
    functions = [device.compile(f, matrix, target=target, output="ptx") for f in (corner, turned)]
    code = cuda_cpp.assembled(cuda_cpp.compile_cpp(CALLERS), *functions, target=target).code
    x = np.arange(12, dtype=np.float32)
    data, out = device.array(x, stream=stream), device.array(np.full(4, np.nan, np.float32), stream=stream)
    start(code, "user", stream, address(data), address(out))
    assert out.numpy().tolist() == [11 + 1000, 11 + 4000, 111 + 101000, x.reshape(3, 4)[1, 3]]


class Descriptor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("shape", ctypes.c_uint64 * 1), ("strides", ctypes.c_uint64 * 1)]


@device.struct
class Pair:
    x: device.float32
    y: device.int8


class CPair(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_int8)]


@device.kernel(interop=True)
def scaled(x, pair, n, nothing, flag):
    if flag:
        for i in range(len(x)):
            x[i] = pair.x * i + pair.y + n


def test_a_kernel_is_launched_by_others(stream, target):
    """The strides are not those of the type that the kernel was compiled for: the descriptor's count."""
    types = (device.ArrayType(device.float32, 1), Pair, device.int16, None, bool)
    code = device.compile(scaled, *types, target=target).code
    out = device.array(np.full(7, np.nan, np.float32), stream=stream)
    descriptor = Descriptor(address(out).value, (3,), (2,))
    parameters = (descriptor, CPair(0.5, -3), ctypes.c_int16(-100), ctypes.c_void_p(0), ctypes.c_bool(True))
    start(code, "scaled", stream, *parameters)
    found = out.numpy()
    assert found[:6:2].tolist() == [-103, -102.5, -102]
    assert np.isnan(found[[1, 3, 5, 6]]).all()


SMALLEST = """
#include <cuda_device/interop.h>
#include <cuda/std/cmath>
extern "C" __device__ float length_of(cuda::interoperable_array_descriptor<float, 1> x) {
  float sum = 0;
  for (unsigned long long i = 0; i < x.shape[0]; ++i) sum += x.data[i * x.strides[0]] * x.data[i * x.strides[0]];
  return SCALE * cuda::std::sqrt(sum);
}
"""


@pytest.mark.parametrize("as_file", [True, False])
def test_a_kernel_calls_a_source_of_cpp(stream, tmp_path, as_file):
    file = tmp_path / "norm.cu"
    file.write_text(SMALLEST)

    @device.extern(link=device.cuda_source(file if as_file else SMALLEST, define={"SCALE": 2}))
    def length_of(x: device.ArrayType(device.float32, 1)) -> device.float32: ...

    @device.kernel
    def k(x, out):
        out[device.tid(1)] = length_of(x[device.tid(1)])

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    out = device.zeros(4, stream=stream)
    device.launch(k, device.array(x, stream=stream), out, grid=1, block=4, stream=stream)
    np.testing.assert_allclose(out.numpy(), 2 * np.linalg.norm(x, axis=1), rtol=1e-6)


def test_a_folder_of_kernels_is_launched(stream, target, tmp_path):
    """Machine code and PTX, by Python; the fake driver's tests look at arguments, this one at results."""

    @device.kernel
    def saxpy(a, x, y):
        i = device.tid(1)
        if i < len(y):
            y[i] = a * x[i] + y[i]

    floats = device.ArrayType(device.float32, 1)
    device.build([(saxpy, [(device.float32, floats, floats)])], [target], str(tmp_path))
    (kernel,) = device.load(tmp_path).values()
    assert [each.output for each in kernel.variants] == ["cubin", "ptx"]
    for launch in (kernel.launch, *(each.launch for each in kernel.variants)):
        x, y = (device.array(np.arange(1000, dtype=np.float32), stream=stream) for _ in range(2))
        launch(2.5, x, y, threads=1000, stream=stream)
        np.testing.assert_array_equal(y.numpy(), 3.5 * np.arange(1000, dtype=np.float32))


def test_a_loaded_kernel_reports(stream, target, tmp_path):
    @device.kernel
    def positive(x):
        assert x[device.tid(1)] > 0, "not positive"

    file = tmp_path / "positive.cubin"
    device.compile(positive, device.ArrayType(device.float32, 1), target=target).save(file)
    loaded = device.load(file)
    loaded.launch(device.array(np.ones(4, np.float32), stream=stream), grid=1, block=4, stream=stream)
    device.synchronize(stream)
    loaded.launch(device.array(np.float32([1, 1, 0, 1]), stream=stream), grid=1, block=4, stream=stream)
    with pytest.raises(device.KernelError, match="not positive") as caught:
        device.synchronize(stream)
    assert caught.value.thread == (2, 0, 0)
    loaded.launch(device.array(np.ones(4, np.float32), stream=stream), grid=1, block=4, stream=stream)
    device.synchronize(stream)
