"""`device.bindings`: a header of CUDA C++ as stubs, structs and enumerations of Python, and what has no counterpart."""

import enum
import pickle
import re
import sys

import cuda_cpp
import numpy as np
import pytest
from conftest import a_gpu

import cuda_device as device

pytest.importorskip("clang.cindex", reason="libclang is not installed")

HEADER = """
#pragma once
#include <cuda/std/cstdint>
#include <cuda_fp16.h>
#include <cuda/std/complex>
#include "cuda_device/interop.h"
#include "scale.h"

struct Point { float x, y; };
struct alignas(32) Wide { double2 at; cuda::std::int64_t ids[3]; Point points[2]; };
typedef struct { short a; Point b; } Pair;
struct Node { int value; Node* next; Other* other; };
enum Mode { FAST = 1, EXACT = FAST + 4 };
enum class Kind : unsigned char { A, B = 200 };

namespace ns {
/// The square of the distance from the origin.
__device__ inline float norm(const Point& p) { return SCALE * (p.x * p.x + p.y * p.y); }
struct Box { Point low, high; };
__device__ inline float area(Box box, Kind kind)
{
  return kind == Kind::B ? (box.high.x - box.low.x) * (box.high.y - box.low.y) : 0;
}
template <class T> __device__ T twice(T x) { return x + x; }
namespace inner { extern "C" __device__ Point moved(Point p, float by); }
}
__device__ float dot(float2 a, float2 b);
__device__ inline double dot(double2 a, double2 b) { return a.x * b.x + a.y * b.y; }
extern "C" {
__device__ void fill(cuda::interoperable_array_descriptor<float, 1> out, float value);
__device__ long long lambda(const float* from, void* to, bool b, unsigned char c, size_t n, __half h,
                            cuda::std::complex<float> z, Mode mode);
}
__global__ void a_kernel(int);
__device__ inline Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
__device__ Point operator-(Point a, Point b);
void for_the_host(int n);
inline float on_the_host(float x) { return x / 2; }
struct Base {};
struct Derived : Base { int x; };
struct Bits { int a : 3; };
struct __attribute__((packed)) Packed { char a; int b; };
__device__ int of_derived(Derived d);
__device__ inline void change(Point& p) { p.x = 0; }
__device__ int printed(const char* format, ...);
__device__ Opaque* opened(Opaque*);
union Either { int a; float b; };
struct Later;
constexpr int LIMIT = 3;
typedef Mode Way;
using real = float;
enum { ANONYMOUS = 4 };
__device__ inline float of_three(const float (&three)[3]) { return three[0]; }
enum class Choice { None, Some = 2 };
enum class Order { mro };
struct Owner { int x; __device__ ~Owner() {} };
__device__ inline int of_owner(Owner owner) { return owner.x; }
"""
SOURCE = """
#include "norms.h"
namespace ns { namespace inner { extern "C" __device__ Point moved(Point p, float by) { return {p.x + by, p.y - by}; } } }
__device__ float dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
extern "C" __device__ void fill(cuda::interoperable_array_descriptor<float, 1> out, float value) {
  for (int i = 0; i < out.shape[0]; ++i) ((float*)out.data)[i * out.strides[0]] = value;
}
"""
FLOATS = device.ArrayType(device.float32, 1)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "norms.h").write_text(HEADER)
    (tmp_path / "scale.h").write_text("#define SCALE 10\nstruct Other;\nclass Opaque;\nstruct Unbound { int x; };\n")
    (tmp_path / "norms.cu").write_text(SOURCE)
    return tmp_path


@pytest.fixture
def norms(folder):
    return device.bindings(folder / "norms.h", link=folder / "norms.cu")


def shown(function):
    return [str(each) for each in (*function.parameters, function.result)]


def test_structs_and_enumerations(norms):
    assert norms.Point(3, 4) == norms.Point(x=3, y=4)
    assert (device.sizeof(norms.Wide), device.alignof(norms.Wide)) == (64, 32)
    assert [offset for _, offset, *_ in device.numpy_dtype(norms.Wide).fields.values()] == [0, 16, 40]
    wide = norms.Wide(device.float64x2(1, 2), (1, 2, 3), (norms.Point(1, 2), norms.Point(3, 4)))
    assert wide.points[1].y == 4
    assert norms.Pair(1, norms.Point(2, 3)).b.y == 3
    assert norms.ns.Box(norms.Point(0, 0), norms.Point(1, 2)).high.y == 2
    assert issubclass(norms.Mode, enum.IntEnum)
    assert (norms.EXACT, norms.Mode.FAST, norms.Kind.B) == (5, 1, 200)
    assert norms.FAST is norms.Mode.FAST
    assert norms.Way is norms.Mode and norms.ANONYMOUS == 4
    assert norms.Choice.None_ == 0
    assert not any("(" in name for name in dir(norms))


def test_types_in_a_struct_are_attributes_of_its_class(tmp_path):
    (tmp_path / "outer.h").write_text("""
struct Outer { struct Inner { int x; } one; enum Kind { A, B = 3 } kind; enum of { C }; using Other = Inner; };
__device__ inline int total(Outer outer, Outer::Inner inner, Outer::Kind kind) { return outer.one.x + inner.x + kind; }
""")
    lib = device.bindings(tmp_path / "outer.h")
    outer = lib.Outer(lib.Outer.Inner(1), lib.Outer.Kind.B)
    assert (outer.one.x, outer.kind, lib.Outer.B, lib.Outer.Other) == (1, 3, 3, lib.Outer.Inner)
    assert lib.Outer.of(lib.Outer.Inner(1), 2) == lib.Outer(lib.Outer.Inner(1), 2)

    @device.kernel
    def kernel(x):
        x[0] = lib.total(lib.Outer(lib.Outer.Inner(1), 2), lib.Outer.Inner(3), lib.Outer.B)

    assert device.compile(kernel, FLOATS).code


def test_functions(norms):
    point = device.compile(device.func(lambda x: None), norms.Point, output="ir").parameters[0].type
    assert shown(norms.ns.norm) == [point, "float32"]
    assert norms.ns.norm.__doc__ == "The square of the distance from the origin."
    assert norms.ns.inner.moved.symbol == "moved"
    assert shown(norms.lambda_) == [
        "pointer<float32, readonly>", "pointer<none>", "bool", "uint8", "uint64", "float16", "complex64", "uint32", "int64"
    ]  # fmt: skip
    assert shown(norms.fill) == ["array<float32, 1, strided, generic>", "float32", "none"]
    assert shown(norms["dot(float2, float2)"]) == ["vector<float32, 2>", "vector<float32, 2>", "float32"]
    assert norms["dot(float2, float2)"].symbol == "_Z3dot6float2S_"
    assert shown(norms.opened) == ["pointer<none>", "pointer<none>"]
    assert repr(norms) == "<bindings of norms.h>"
    with pytest.raises(KeyError, match=r"norms.h has no 'dot\(int\)'; its functions are .*dot\(double2, double2\)"):
        norms["dot(int)"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Derived", "Derived has a base class or a virtual function"),
        ("Bits", "Bits has a bit-field, or a member without a name"),
        ("Packed", "Packed has a layout that a struct of Python does not have"),
        ("of_derived", "Derived has a base class"),
        ("change", r"Point & is a reference; write a function that takes a pointer"),
        ("printed", "it takes any number of arguments"),
        ("a_kernel", "it is no __device__ function"),
        ("on_the_host", "it is no __device__ function"),
        ("operator+", "it is an operator; write a function that calls it"),
        ("dot", r"it is overloaded: choose one as an item, such as \['dot\("),
        ("Unbound", "it is not declared there"),
        ("Either", "Either has a layout that a struct of Python does not have"),
        ("Later", "Later is not defined"),
        ("LIMIT", "it is a variable"),
        ("real", "it is another name of float"),
        ("Order", "invalid enum member name"),
        ("of_owner", "Owner has a copy constructor or a destructor, so it is passed by its address"),
        ("of_three", r"const float \(&\)\[3\] is a reference"),
    ],
)
def test_what_has_no_counterpart_says_why(norms, name, reason):
    with pytest.raises(AttributeError, match=f"^norms.h has no binding for '{re.escape(name)}': {reason}"):
        getattr(norms, name)
    if name.isidentifier():
        with pytest.raises(device.CompileError, match=f"^norms.h has no binding for '{name}': {reason}"):
            device.compile(f"def f():\n    norms.{name}\n", globals={"norms": norms})
    with pytest.raises(
        AttributeError, match=r"norms.h::ns has no binding for 'twice': it is a template; .*cpp='ns::twice<…>'"
    ):
        norms.ns.twice  # noqa: B018


DEFINED = {
    "comment": ("__device__ inline float f(float x)  // {\n{ return x; }", "f(2.0)"),
    "block comment": ("__device__ inline float f(float x) /* { */ noexcept /* ; */ { return x; }", "f(2.0)"),
    "constexpr": ("__device__ constexpr float f(float x) { return x; }", "f(2.0)"),
    "deduced": ("__device__ inline auto f(float x) { return 2.0 * x; }", "f(2.0)"),
    "array": (
        "__device__ inline float f(float x[4], float y[]) { return x[0] + y[0]; }",
        "f(x.pointer(0), x.pointer(1))",
    ),
    "reference": ("__device__ inline float& f(float* x) { return x[1]; }", "f(x.pointer(0))[0]"),
}


@pytest.mark.parametrize("what", DEFINED)
def test_what_a_header_defines_can_be_called(tmp_path, what):
    text, call = DEFINED[what]
    (tmp_path / "f.h").write_text(text)
    kernel = f"@device.kernel\ndef kernel(x):\n    x[0] = {call}\n"
    names = {"f": device.bindings(tmp_path / "f.h").f, "device": device}
    assert cuda_cpp.calls(device.compile(kernel, FLOATS, globals=names).code) == 0  # types that differ prevent inlining


def kernels(norms):
    of_floats, of_doubles = norms["dot(float2, float2)"], norms["dot(double2, double2)"]

    @device.kernel
    def kernel(out, points):
        p = norms.ns.inner.moved(norms.Point(3, 4), 1.0)
        norms.fill(out, -1.0)
        out[0] = p.x + 10 * p.y
        out[1] = norms.ns.norm(points[0])
        out[2] = norms.ns.area(norms.ns.Box(norms.Point(1, 2), points[0]), norms.Kind.B)
        out[3] = of_floats(device.float32x2(1, 2), device.float32x2(3, 4))
        out[4] = of_doubles(device.float64x2(1, 2), device.float64x2(3, 5))

    return kernel


def test_a_kernel_calls_what_the_header_and_what_the_source_defines(norms):
    made = device.compile(kernels(norms), FLOATS, device.ArrayType(norms.Point, 1), target="sm_90")
    assert made.code.startswith(b"\x7fELF")


@pytest.mark.parametrize("where", ["gpu"])  # so that tests/gpu/evidence.py counts it
def test_a_gpu_computes_it(norms, where):
    with a_gpu() as stream:
        out, points = np.zeros(6, np.float32), device.array([norms.Point(3, 5)], stream=stream)
        found = device.array(out, stream=stream)
        device.launch(kernels(norms), found, points, grid=1, block=1, stream=stream)
        assert found.numpy().tolist() == [34.0, 340.0, 6.0, 11.0, 13.0, -1.0]


def test_structs_on_the_cpu_stream(norms):
    @device.kernel
    def kernel(boxes, out):
        box = boxes[device.tid(1)]
        out[device.tid(1)] = (box.high.x - box.low.x) * norms.EXACT

    boxes = device.array(
        [norms.ns.Box(norms.Point(i, 0), norms.Point(2 * i, 0)) for i in range(4)], stream=device.cpu_stream()
    )
    out = np.zeros(4, np.float32)
    device.launch(kernel, boxes, out, grid=1, block=4, stream=device.cpu_stream())
    assert out.tolist() == [0, 5, 10, 15]


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("int x;\nstruct Point { float x y; };", "expected ';'", 2),
        ('\n\n#include "nowhere.h"', "'nowhere.h' file not found", 3),
        ("__device__ Unknown f();", "unknown type name 'Unknown'", 1),
    ],
)
def test_a_wrong_header_is_an_error_at_its_line(tmp_path, text, reason, line):
    file = tmp_path / "wrong.h"
    file.write_text(text)
    with pytest.raises(device.CompileError, match=reason) as caught:
        device.bindings(file)
    assert (caught.value.location.file, caught.value.location.line) == (str(file), line)
    assert text.splitlines()[line - 1] in str(caught.value)
    file.write_text(f"\n\n// changed\n{text}")
    with pytest.raises(device.CompileError, match=re.escape(text.splitlines()[line - 1])):
        device.bindings(file)
    assert caught.value.help == "correct the header; pass folders of other headers as include=…, and macros as define=…"
    file.write_text("__device__ float f(float);")
    assert shown(device.bindings(file).f) == ["float32", "float32"]


def test_options(tmp_path, monkeypatch):
    with pytest.raises(device.CompileError, match="cannot be read") as caught:
        device.bindings(tmp_path / "nowhere.h")
    assert caught.value.help == "name a header"
    other = tmp_path / "other"
    other.mkdir()
    (other / "types.h").write_text("typedef float real;")
    (tmp_path / "f.h").write_text(
        '#include "types.h"\n#ifdef WITH\n__device__ real f(real x) { return VALUE; }\n#endif'
    )
    f = device.bindings(tmp_path / "f.h", include=other, define={"WITH": None, "VALUE": "x"}).f
    assert shown(f) == ["float32", "float32"]

    @device.kernel
    def kernel(x):
        x[0] = f(x[0])

    assert device.compile(kernel, FLOATS, target="sm_90").code.startswith(b"\x7fELF")
    with pytest.raises(TypeError, match="takes files"):
        device.bindings(tmp_path / "f.h", link=3)
    with pytest.raises(TypeError, match="std='c.*99'"):
        device.bindings(tmp_path / "f.h", std="c++99")
    monkeypatch.setitem(sys.modules, "clang", None)
    with pytest.raises(device.CompileError, match="libclang reads headers") as caught:
        device.bindings(tmp_path / "f.h")
    assert caught.value.help == "pip install libclang"


def test_what_nothing_defines_is_an_error_at_the_header(folder):
    norms = device.bindings(folder / "norms.h")

    @device.kernel
    def kernel(p, out):
        out[0] = norms.ns.inner.moved(norms.Point(1, 2), 1.0).x

    with pytest.raises(device.CompileError, match="nothing defines moved"):
        device.compile(kernel, FLOATS, FLOATS, target="sm_90")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("struct Point { double x; float y; };", "struct Point.* redefinition|has already been defined"),
        ('struct Point { float x, y; };\n#include "scale.h"', "has already been defined"),
        ('extern "C" __device__ double moved(int n) { return n; }', "moved"),
    ],
)
def test_a_source_that_disagrees_with_the_header(folder, text, message):
    (folder / "other.cu").write_text(text)
    norms = device.bindings(folder / "norms.h", link=folder / "other.cu")

    @device.kernel
    def kernel(x):
        x[0] = norms.ns.inner.moved(norms.Point(1, 2), 1.0).x

    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(kernel, FLOATS)
    assert caught.value.location.file.endswith((".cu", ".h")) and caught.value.help


def test_a_source_that_agrees_need_not_include_the_header(folder):
    (folder / "other.cu").write_text("__device__ float dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }")
    dot = device.bindings(folder / "norms.h", link=folder / "other.cu")["dot(float2, float2)"]

    @device.kernel
    def kernel(x):
        x[0] = dot(device.float32x2(1, 2), device.float32x2(3, 4))

    assert device.compile(kernel, FLOATS, target="sm_90").code.startswith(b"\x7fELF")


def test_pickle_takes_a_function_by_its_header(norms):
    for function in (norms.ns.inner.moved, norms["dot(float2, float2)"], norms.ns.norm):
        made = pickle.loads(pickle.dumps(function))
        assert made is not function and shown(made) == shown(function) and made.symbol == function.symbol
    assert pickle.loads(pickle.dumps(norms)).EXACT == norms.EXACT
