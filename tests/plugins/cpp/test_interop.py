"""Interoperable functions and kernels: what they look like to others, and that they still are functions and kernels."""

import ctypes
import re

import cuda_cpp
import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device.runtime.launch.arguments import describe, read
from cuda_device.types.argument_packing import boundary_packing

FLOATS = device.ArrayType(device.float32, 1)


@device.struct
class point:  # noqa: N801 (a name in C++)
    x: device.float32
    y: device.int8 = 0


@device.func(interop=True)
def diff(a, b):
    return abs(a - b)


@device.func(interop=True)
def moved(p, by):
    return point(p.x + by, p.y)


@device.func(interop=True)
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@device.func(interop=True)
def checked_root(x):
    assert x >= 0, "a negative number"
    return x


def ptx(function, *types, **options):
    return device.compile(function, *types, output="ptx", **options).code


def signature(function, *types):
    (found,) = cuda_cpp.signatures(ptx(function, *types)).items()
    return found


# What others see


def test_the_machine_representation_is_that_of_the_platform():
    assert device.machine_representation() == "itanium"


@pytest.mark.parametrize(
    ("text", "types", "expected"),
    [
        (
            "def diff(a, b): return abs(a - b)",
            [device.float32] * 2,
            "func .param .b32 x (.param .b32 x, .param .b32 x)",
        ),
        ("def clear(x, i): x[i] = 0", [FLOATS, int], "func void (.param .align 8 .b8 x[24], .param .b32 x)"),
        ("def two(): return 2", [], "func .param .b32 x ()"),
        ("def several(): return 1, None, np.float64(2.5)", [], "func .param .align 8 .b8 x[24] ()"),
        ("def ignores(x, y): return y", [None, device.int64], "func .param .b64 x (.param .b64 x, .param .b64 x)"),
    ],
)
def test_a_function_is_visible_by_its_plain_name(text, types, expected):
    """One that never returns a value is void, constants are results like any other, and None is a null pointer."""
    name = re.match(r"def (\w+)", text)[1]
    function = device.func(interop=True)(define(text, name))
    assert signature(function, *types) == (name, expected)
    assert device.compile(function, *types, output="ptx").symbol == name
    assert name != "two" or "2;" in ptx(function)


def test_its_helpers_are_not_visible():
    @device.func
    def helper(n):
        return helper(n - 1) + helper(n - 2) if n > 1 else n

    @device.func(interop=True)
    def outer(n):
        return helper(n)

    text = ptx(outer, int)
    assert ".visible .func" in text
    assert set(cuda_cpp.signatures(text)) == {"outer"}


def test_a_function_may_call_itself():
    text = ptx(factorial, int)
    assert set(cuda_cpp.signatures(text)) == {"factorial"}
    assert device.compile(factorial, int, output="ir").symbol == "factorial"


def test_an_array_may_lie_anywhere_and_have_any_strides():
    @device.func(interop=True)
    def second(x):
        return x[1]

    text = ptx(second, FLOATS)
    assert "ld.b32" in text and "ld.global" not in text
    assert "[second_param_0+16]" in text, "the stride counts, though the type said that the array is contiguous"


def test_an_array_of_a_kernel_lies_in_global_memory():
    @device.kernel(interop=True)
    def clear(x):
        x[1] = 0

    text = ptx(clear, FLOATS)
    assert "st.global.b32" in text and "[clear_param_0+16]" in text


def test_functions_and_kernels_assemble():
    for function, types in ((diff, (device.int8, device.int8)), (moved, (point, float)), (factorial, (int,))):
        assert ".visible .func" in ptx(function, *types)
    assert device.compile(everything, *map(type_of, arguments()), target="sm_90").code
    assert device.compile(everything, *map(type_of, arguments()), target="sm_75").code


# What cannot be


@pytest.mark.parametrize("name", ["Größe", "_", "WARP_SZ", "double", "xor"])
@pytest.mark.parametrize("decorator", [device.func, device.kernel])
def test_a_name_has_to_be_a_symbol(name, decorator):
    scope = {}
    exec(f"def {name}(x): pass", scope)
    with pytest.raises(TypeError, match="cannot be the name of an interoperable function"):
        decorator(interop=True)(scope[name])
    with pytest.raises(TypeError, match="<lambda>"):
        decorator(interop=True)(lambda x: None)


# Of the standard's tables [lex.key] and [lex.digraph], without what Python has as well.
CPP_KEYWORDS = """
    alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t char16_t char32_t co_await co_return co_yield
    compl concept const const_cast consteval constexpr constinit decltype default delete do double dynamic_cast enum explicit
    export extern false float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private
    protected public register reinterpret_cast requires short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true typedef typeid typename union unsigned using virtual void volatile wchar_t xor xor_eq
"""


@pytest.mark.parametrize("word", CPP_KEYWORDS.split())
def test_no_keyword_of_cpp_is_a_symbol(word):
    scope = {}
    exec(f"def {word}(x): pass", scope)
    with pytest.raises(TypeError, match=f"'{word}' cannot be the name of an interoperable function"):
        device.func(interop=True)(scope[word])


def test_the_keywords_are_those_of_cuda_cpp():
    assert cuda_cpp.compile_cpp("enum { name };", "ptx", "-std=c++20")
    for word in (word for word in CPP_KEYWORDS.split() if not word.startswith("co_")):  # NVRTC has no coroutines
        with pytest.raises(AssertionError, match="error"):
            cuda_cpp.compile_cpp(f"enum {{ {word} }};", "ptx", "-std=c++20")


def test_cpp_has_no_constant_parameters():
    @device.kernel(interop=True)
    def filled(x, n: device.ConstExpr[int]):
        x[0] = n

    with pytest.raises(device.CompileError, match="'n' is a constant expression") as caught:
        device.compile(filled, FLOATS, 3)
    assert caught.value.help
    with pytest.raises(device.CompileError, match="'n' is a constant expression"):
        device.launch(filled, np.zeros(1, np.float32), 3, grid=1, block=1, stream=device.cpu_stream())


def test_a_result_needs_a_counterpart():
    @device.func(interop=True)
    def text():
        return "text"

    with pytest.raises(device.CompileError, match="the result of .*text is .* no counterpart in CUDA C") as caught:
        device.compile(text, output="ptx")
    assert caught.value.help


# Reports


def test_a_function_traps():
    text = ptx(checked_root, float)
    assert "trap;" in text and "record" not in text


def test_a_kernel_reports_by_a_record_of_its_own_and_traps_where_nobody_reads_it():
    kernels = []
    for name in ("first", "second"):
        scope = {}
        exec(f"def {name}(x):\n    assert x > 0\n", scope)
        kernels.append(device.kernel(interop=True)(scope[name]))
    texts = [ptx(kernel, int) for kernel in kernels]
    records = [re.findall(r"\.visible \.global \.align 8 \.[bu](?:8|64) (\w*record\w*)", text) for text in texts]
    assert records == [["cuda_device_record_first"], ["cuda_device_record_second"]]
    assert all("trap;" in text for text in texts)
    assert signature(kernels[0], int) == ("first", "entry void (.param .b32 x)")


# They still are what they were


def test_functions_are_called_on_the_host():
    assert diff(3, 5) == 2
    assert moved(point(1.5, 2), 1) == point(2.5, 2)


@device.kernel(interop=True)
def calls(x, p, out):
    i = device.tid(1)
    q = moved(p, x[i])
    out[i] = diff(q.x, factorial(i) + q.y)


def test_functions_are_called_from_kernels(stream):
    x, out = stream.array(np.arange(5, dtype=np.float32)), stream.empty(5)
    stream.launch(calls, x, point(10, 3), out, grid=1, block=5)
    assert stream.numpy(out).tolist() == [abs(10 + i - (f + 3)) for i, f in enumerate([1, 1, 2, 6, 24])]


@device.kernel(interop=True)
def everything(b, n, f, h, v, p, t, nothing, x, grid2, scalar, out):
    out[0] = b
    out[1] = n
    out[2] = f
    out[3] = h
    out[4] = v.x + v.y + v.z
    out[5] = p.x + p.y
    out[6] = t[0] + t[1][0] + len(t[2])
    out[7] = x[1] + x[-1] + len(x)
    out[8] = grid2[1, 2] + grid2.shape[0]
    out[9] = scalar[()]
    out[10] = nothing is None


def arguments():
    grid2 = np.arange(24, dtype=np.float32).reshape(4, 6)[::-1, ::2]
    return (
        True, np.int8(-5), np.float64(0.5), np.float16(1.5), device.int16x3(1, 2, 3), point(2.5, -1),
        (7, (np.uint8(200),), np.zeros(9, np.float32)), None, np.arange(8, dtype=np.float32)[::-3], grid2,
        np.array(3.25, np.float32), np.full(11, np.nan, np.float32),
    )  # fmt: skip


EXPECTED = [1, -5, 0.5, 1.5, 6, 1.5, 216, 4 + 1 + 3, 16 + 4, 3.25, 1]


def type_of(value):
    return tuple(map(type_of, value)) if type(value) is tuple else value


def placed(stream, value):
    if type(value) is tuple:
        return tuple(placed(stream, item) for item in value)
    return stream.array(value) if isinstance(value, np.ndarray) else value


def test_a_kernel_is_launched_with_every_kind_of_argument(stream):
    values = [placed(stream, value) for value in arguments()]
    stream.launch(everything, *values, grid=1, block=1)
    assert stream.numpy(values[-1]).tolist() == EXPECTED


def test_a_kernel_reports(stream):
    @device.kernel(interop=True)
    def fails(x):
        assert device.tid(1) != 2, "the third thread"

    with pytest.raises(device.KernelError, match="the third thread"):
        stream.launch(fails, 1, grid=1, block=4)


# How the launcher passes arguments


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_int8)]


class Vector(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int16), ("y", ctypes.c_int16), ("z", ctypes.c_int16)]


class Descriptor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_uint64 * 2), ("strides", ctypes.c_uint64 * 2)]


class Mixed(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int32), ("none", ctypes.c_void_p), ("x", Descriptor), ("b", ctypes.c_bool)]


def test_arguments_are_packed_as_cpp_would_pass_them():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)[::-1, ::2]
    values = [True, np.float64(0.1), point(2.5, -1), device.int16x3(1, -2, 3), None, (7, None, x, True), x]
    names = [f"p{i}" for i in range(len(values))]
    read_values = [read(value, name, device.cpu_stream()) for value, name in zip(values, names, strict=True)]
    packing = boundary_packing(tuple(argument.known.type for argument in read_values))
    buffer = packing.pack([leaf for argument in describe(read_values, names) for leaf in argument.leaves])
    shapes = (ctypes.c_bool, ctypes.c_double, Point, Vector, ctypes.c_uint64, Mixed, Descriptor)
    b, f, p, v, none, mixed, d = (
        shape.from_buffer_copy(buffer, at) for shape, at in zip(shapes, packing.offsets, strict=True)
    )
    assert (b.value, f.value, (p.x, p.y), (v.x, v.y, v.z), none.value) == (True, 0.1, (2.5, -1), (1, -2, 3), 0)
    for descriptor in (mixed.x, d):
        assert descriptor.data == x.ctypes.data
        assert list(descriptor.shape) == [4, 3]
        assert list(descriptor.strides) == [2**64 - 6, 2]
    assert (mixed.a, mixed.none, mixed.b) == (7, None, True)


def test_strides_that_are_no_multiples_of_elements_cannot_be_described():
    records = np.zeros(4, np.dtype([("a", device.numpy_dtype(device.float32x3)), ("b", np.float32)]))["a"]
    argument = read(records, "x", device.cpu_stream())
    with pytest.raises(
        device.LaunchError, match=r"'x': its strides \(16,\) are not multiples of its elements' 12 bytes"
    ):
        describe([argument], ["x"])

    @device.kernel(interop=True)
    def kernel(x):
        x[0] = x[1]

    with pytest.raises(device.LaunchError, match="are not multiples of its elements"):
        device.launch(kernel, records, grid=1, block=1, stream=device.cpu_stream())

    @device.func(interop=True)
    def second(pair):
        return pair[1][1].x

    @device.kernel
    def calls(x, out):
        out[0] = second((2, x))

    out = np.zeros(1)
    device.launch(calls, np.ones(6, records.dtype)[::2], out, grid=1, block=1, stream=device.cpu_stream())
    assert out[0] == 1
    with pytest.raises(device.KernelError, match="strides are multiples of the size of an element"):
        device.launch(calls, records, out, grid=1, block=1, stream=device.cpu_stream())


# C++ declarations


def test_a_declaration_defines_what_it_needs_first():
    text = device.cpp_declaration(
        device.struct(type("line", (), {"__annotations__": {"a": point, "b": tuple[point, int]}}))
    )
    assert re.findall(r"struct (?:alignas\(\d+\) )?(\w+) \{", text) == ["point", "tuple_0", "line"]
    assert "  float x;\n  cuda::std::int8_t y;\n" in text
    assert 'static_assert(sizeof(point) == 8, "sizeof point");' in text


def test_a_header_compiles_and_declares(tmp_path):
    header = device.cpp_header(point, (diff, int, int), (moved, point, float), (everything, *map(type_of, arguments())))
    assert 'extern "C" __device__ point moved(point p, float by);' in header
    cuda_cpp.compile_cpp(header + 'extern "C" __device__ int user(int a) { return diff(a, 1); }')


@pytest.mark.parametrize(
    ("item", "error", "match"),
    [
        (device.struct(type("int", (), {"__annotations__": {"a": int}})), ValueError, "'int' cannot be a name in C"),
        (
            device.struct(type("x", (), {"__annotations__": {"union": int}})),
            ValueError,
            "'union' cannot be a name in C",
        ),
        (float, TypeError, "is neither a struct nor a tuple"),
        ("float", TypeError, "not a type"),
    ],
)
def test_what_cannot_be_declared(item, error, match):
    with pytest.raises(error, match=match):
        device.cpp_declaration(item)


def test_only_interoperable_functions_are_declared():
    with pytest.raises(device.CompileError, match="not interoperable"):
        device.cpp_header((device.func(lambda x: x), int))


def test_two_structs_of_one_name_are_refused():
    other = device.struct(type("point", (), {"__annotations__": {"x": int}}))
    with pytest.raises(ValueError, match="two different structs 'point'"):
        device.cpp_header(point, other)


def test_two_functions_of_one_name_are_refused():
    """Their symbol is their name, which C++ cannot overload: the header would not compile."""
    with pytest.raises(ValueError, match="diff is declared twice"):
        device.cpp_header((diff, int, int), (diff, float, float))
    assert device.cpp_header((diff, int, int), (diff, int, int)).count("diff(") == 1


# Descriptors in C++

MDSPANS = """
#include <cuda_device/interop.h>
template <class T, int n> using array = cuda::interoperable_array_descriptor<T, n>;
extern "C" __device__ float element(array<float, 2> x, int i, int j) { return x.to_mdspan()(i, j); }
extern "C" __device__ float converted(array<float, 2> x, int i, int j) {
  cuda::std::mdspan<float, cuda::std::dims<2>, cuda::std::layout_stride> m = x;
  return m(i, j);
}
extern "C" __device__ float only(array<float, 0> x) { return x.to_mdspan()(); }
extern "C" __device__ array<float, 2> from_pointer(float* p, int n) {
  return cuda::std::mdspan<float, cuda::std::dextents<int, 2>>(p, n, 3);
}
extern "C" __device__ array<const float, 1> from_constants(const float* p) {
  return cuda::std::mdspan<const float, cuda::std::extents<int, 4>>(p);
}
static_assert(cuda::std::is_standard_layout_v<array<float, 3>> && cuda::std::is_trivially_copyable_v<array<float, 3>>);
static_assert(sizeof(array<float, 3>) == 56 && sizeof(array<double, 0>) == 8);
using rank1 = cuda::std::mdspan<float, cuda::std::dextents<int, 1>>;
static_assert(cuda::std::is_constructible_v<array<float, 1>, rank1> && !cuda::std::is_constructible_v<array<float, 2>, rank1>);
"""


def test_descriptors_convert_to_and_from_mdspans():
    found = cuda_cpp.signatures(cuda_cpp.compile_cpp(MDSPANS).decode())
    descriptor = ".param .align 8 .b8 x[40]"
    assert found["element"] == found["converted"] == f"func .param .b32 x ({descriptor}, .param .b32 x, .param .b32 x)"
    assert found["from_pointer"] == f"func {descriptor} (.param .b64 x, .param .b32 x)"
    assert found["from_constants"] == "func .param .align 8 .b8 x[24] (.param .b64 x)"
    assert found["only"] == "func .param .b32 x (.param .align 8 .b8 x[8])"


def test_the_ir_of_the_boundary_is_sound(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "1")

    @device.func(interop=True)
    def rows(x, i):
        return x[i], x[::-1].T

    for readonly in (False, True):
        x = device.ArrayType(device.float32x4, 2, readonly=readonly)
        assert signature(rows, x, int)[1].startswith("func .param .align 8 .b8 x[64] (")
    ptx(everything, *map(type_of, arguments()))
    ptx(moved, point, float)


def report(x):
    assert x > 0
    return x


def x(a):
    return a


@device.kernel
def shared_0(a):
    tile = device.shared_array(4, device.float32)
    tile[0] = a[0]
    a[1] = tile[0]


@device.kernel
def device_x(a):
    a[0] = x(report(a[1]))


def test_names_of_programs_do_not_meet_those_of_ours():
    assert device.compile(shared_0, FLOATS).symbol == "shared_0_2"
    assert device.compile(device_x, FLOATS).symbol == "device_x"
    for name in ("shared_0", "dynamic_shared", "device_report", "cuda_device_record_k"):
        scope = {}
        exec(f"def {name}(x): pass", scope)
        with pytest.raises(TypeError, match="cannot be the name"):
            device.kernel(interop=True)(scope[name])
