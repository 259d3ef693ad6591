"""Templates, overloads and functions in namespaces that C++ sources have: stubs name them, and we write the instantiation."""

import pathlib
import pickle

import cuda_cpp
import numpy as np
import pytest

import cuda_device as device
from cuda_device.plugins.cpp import sources

FLOATS = device.ArrayType(device.float32, 1)
NORMS = """
struct point { float x; double y; };
namespace ns {
template <class T> __device__ T norm(T x, T y) { return x * x + y * y; }
template <class T, int n> __device__ T times(T x) { return n * x; }
__device__ float twice(float x) { return 2 * x; }
__device__ double twice(double x) { return -2 * x; }
__device__ point twice(point p) { return {2 * p.x, 2 * p.y}; }
}
"""
MORE = """
#include <cuda_fp16.h>
#include <cuda_device/interop.h>
namespace ns {
__device__ float first(cuda::interoperable_array_descriptor<float, 1> x) { return x.data[0]; }
__device__ void put(float* to, __half value) { *to = float(value); }
}
"""
SOURCE = device.cuda_source(NORMS + MORE, name="norms.cuh")
PLAIN = device.cuda_source(NORMS, name="plain.cuh")
"""Without headers, which take NVRTC a second."""


@device.struct
class point:  # noqa: N801 (a name in C++)
    x: device.float32
    y: device.float64


@device.extern(cpp="ns::norm<float>", link=SOURCE)
def norm(x: device.float32, y: device.float32) -> device.float32:
    return x * x + y * y


@device.extern(cpp="ns::times<int, 3>", link=SOURCE)
def thrice(x: int) -> int: ...


@device.extern(cpp="ns::twice", link=SOURCE)
def twice(x: device.float32) -> device.float32: ...


@device.extern(cpp="ns::twice", link=SOURCE)
def twice_double(x: device.float64) -> device.float64: ...


@device.extern(cpp="ns::twice", link=SOURCE)
def twice_point(x: point) -> point: ...


@device.extern(cpp="ns::first", link=SOURCE)
def first(x: FLOATS) -> device.float32: ...


@device.extern(cpp="ns::put", link=SOURCE)
def put(to: device.pointer(device.float32), value: device.float16) -> None: ...


def refused(kernel, *types) -> device.CompileError:
    with pytest.raises(device.CompileError) as caught:
        device.compile(kernel, *types)
    assert caught.value.help
    return caught.value


@pytest.mark.parametrize(
    "target", ["sm_90", *(pytest.param(each, marks=pytest.mark.long) for each in ("sm_75", "sm_120"))]
)
def test_each_is_instantiated_and_inlined(target):
    @device.kernel
    def kernel(x, d, p):
        x[0] = norm(x[1], 2) + thrice(3) + twice(x[2]) + first(x)
        d[0] = twice_double(d[1])
        p[0] = twice_point(p[1])
        put(x.pointer(3), device.float16(x[4]))

    arrays = (FLOATS, device.ArrayType(device.float64, 1), device.ArrayType(point, 1))
    assert cuda_cpp.calls(device.compile(kernel, *arrays, target=target).code) == 0


def test_results(stream):
    """On a GPU; elsewhere bodies run."""

    @device.kernel
    def kernel(x):
        x[0] = norm(x[1], x[2])

    x = stream.array(np.float32([0, 3, 4]))
    stream.launch(kernel, x, grid=1, block=1)
    assert stream.numpy(x)[0] == 25


def test_a_source_is_compiled_once_for_all_functions(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path))
    runs = []
    genuine = sources.CudaSource._compile
    monkeypatch.setattr(sources.CudaSource, "_compile", lambda *given: (runs.append(given[1]), genuine(*given))[1])
    (item,) = cuda_cpp.inputs(*norm.links, SOURCE, *thrice.links, *norm.links)
    assert item.is_lto and len(runs) == 1
    assert runs[0].count('extern "C"') == 2
    assert cuda_cpp.inputs(*thrice.links, *norm.links) == (item,) and len(runs) == 1


def test_a_file_and_a_symbol_beside_it(tmp_path):
    file = tmp_path / "norms.cu"
    file.write_text(NORMS + 'extern "C" __device__ float plain(float x) { return x; }\n')

    @device.extern(cpp="ns::twice", link=str(file))
    def from_file(x: device.float32) -> device.float32: ...

    @device.extern(link=file)
    def plain(x: device.float32) -> device.float32: ...

    @device.kernel
    def kernel(x):
        x[0] = plain(from_file(x[0]))

    assert cuda_cpp.calls(device.compile(kernel, FLOATS).code) == 0


def test_pickles():
    again = pickle.loads(pickle.dumps(norm))
    assert (again.symbol, again.cpp, again.link) == (norm.symbol, "ns::norm<float>", (SOURCE,))
    assert twice.symbol != twice_double.symbol and twice(3) if twice.has_body else True


# What is wrong


def calling(cpp, type=device.float32, source=PLAIN):
    def stub(x): ...

    stub.__annotations__ = {"x": type, "return": type}
    function = device.extern(cpp=cpp, link=source)(stub)

    @device.kernel
    def kernel(x):
        x[0] = function(x[0])

    return kernel


def test_messages_show_the_stub():
    error = refused(calling("ns::nothing"), FLOATS)
    assert 'has no member "nothing"' in error.reason
    assert error.location.file == __file__
    assert "def stub(x): ..." in pathlib.Path(__file__).read_text().splitlines()[error.location.line - 1]
    error = refused(calling("ns::norm<float, float>"), FLOATS)
    assert error.location.file == __file__
    assert cuda_cpp.calls(device.compile(calling("ns::twice"), FLOATS).code) == 0


def test_an_overload_that_does_not_exist():
    assert "more than one instance" in refused(calling("ns::twice", int), device.ArrayType(int, 1)).reason


def test_layouts_are_checked():
    wrong = device.struct(type("point", (), {"__annotations__": {"x": device.float32, "y": device.float32}}))
    error = refused(calling("ns::twice", wrong), device.ArrayType(wrong, 1))
    assert "point: struct<point, x: float32, y: float32>" in error.reason and error.location.file == __file__


def test_a_structure_without_a_name():
    error = refused(calling("ns::twice", tuple[device.float32, int]), device.ArrayType(tuple[device.float32, int], 1))
    assert "C++ has no name for tuple<float32, int32>" in error.reason


@pytest.mark.parametrize("cpp", ["", "norm; int x", "norm{}", 3, "a\nb"])
def test_names_that_are_none(cpp):
    with pytest.raises(TypeError, match="cannot be how C.. calls a function"):
        calling(cpp)


def test_symbol_and_cpp_exclude_each_other():
    with pytest.raises(TypeError, match="symbol=… or cpp=…"):
        device.extern(cpp="norm", symbol="norm")(lambda: None)


def test_without_a_source_nothing_defines_it():
    assert refused(calling("ns::twice", source=()), FLOATS).reason.startswith("nothing defines cuda_device_ns")
