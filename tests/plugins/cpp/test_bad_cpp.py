"""C++ that is wrong is said where it is called, with what helps, and the next launch works."""

import contextlib
import pathlib
import re

import cuda_cpp
import emulated_gpu
import numpy as np
import pytest

import cuda_device as device

GOOD = device.cuda_source('extern "C" __device__ float scaled(float x) { return 3 * x; }', name="good.cu")
LINE = "        x[0] = scaled(x[0])"


def calling(link, type=device.float32, **options):
    def scaled(x): ...

    scaled.__annotations__ = {"x": type, "return": device.float32}
    scaled = device.extern(link=link, **options)(scaled)

    @device.kernel
    def kernel(x):
        x[0] = scaled(x[0])

    return kernel


@device.struct
class pair:  # noqa: N801 (a name in C++)
    x: device.float32
    y: device.float32


@device.struct
class lock:  # noqa: N801
    held: device.Atomic(device.int32)


def old_cubin(_):
    return cuda_cpp.compile_cpp(GOOD.text, "cubin", target="sm_80")


def finished(_):
    return device.compile(device.kernel(lambda x: None), 1)


def not_a_library(folder):
    file = folder / "libnorms.a"
    file.write_text("!<arch>\nno library\n")
    return file


def not_code(folder):
    file = folder / "norms.ptx"
    file.write_text("once upon a time\n")
    return file


def twice(_):
    return [device.cuda_source(f"{GOOD.text} // {n}", name=f"{n}.cu") for n in range(2)]


def twice_as_ptx(_):
    return [cuda_cpp.compile_cpp(f"{GOOD.text} __device__ int v{n};") for n in range(2)]


def other_types(output):
    return cuda_cpp.compile_cpp(GOOD.text.replace("float x", "double x"), output)


def newer_ptx():
    return re.sub(rb"\.version \S+", b".version 99.9", cuda_cpp.compile_cpp(GOOD.text))


BAD = {
    "syntax": (
        lambda _: device.cuda_source('extern "C" __device__ float scaled(float x) { return }'),
        "NVRTC cannot compile",
    ),
    "an undefined name": (
        lambda _: device.cuda_source(GOOD.text.replace("3", "three")),
        'identifier "three" is undefined',
    ),
    "no header": (lambda _: device.cuda_source("#include <nowhere.h>"), "nowhere.h"),
    "another symbol": (lambda _: device.cuda_source(GOOD.text.replace("scaled", "other")), "nothing defines scaled"),
    "no symbol in PTX": (lambda _: cuda_cpp.compile_cpp("__device__ int n;"), "nothing defines scaled"),
    "nothing": (lambda _: (), "nothing defines scaled"),
    "an architecture": (old_cubin, "was compiled for sm_80, and cannot be linked"),
    "a finished cubin": (finished, "is a finished cubin"),
    "no code in an archive": (not_a_library, "cannot link the kernel to libnorms.a"),
    "no code in PTX": (not_code, "cannot link the kernel to norms.ptx"),
    "no code in LTO-IR": (lambda _: b"\xedCN\x7fand so on", "cannot link the kernel to scaled|nvJitLink"),
    "no code in bytes": (lambda _: b"hello", "nvJitLink cannot link the kernel to link 1"),
    "no code at all": (lambda _: b"", "nvJitLink cannot link the kernel to link 1"),
    "no file": (lambda folder: folder / "missing.ltoir", "missing.ltoir' cannot be read"),
    "two definitions": (twice, "scaled is defined twice, in .*0.cu.*1.cu"),
    "two definitions in PTX": (twice_as_ptx, "scaled is defined twice"),
    "other types in PTX": (lambda _: other_types("ptx"), "scaled has other parameters or another result in link 1"),
    "other types in a cubin": (lambda _: other_types("cubin"), "scaled has other parameters or another result"),
    "PTX of a newer version": (lambda _: newer_ptx(), r"cannot link the kernel to link 1: .*Unsupported .version 99.9"),
}


@pytest.mark.parametrize("what", BAD)
def test_it_is_refused_where_it_is_called(what, tmp_path):
    make, message = BAD[what]
    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(calling(make(tmp_path)), device.ArrayType(device.float32, 1))
    assert caught.value.help
    if what.startswith("no code"):
        assert "pass C++, or what nvcc, NVRTC or clang makes of it" in caught.value.help
    if caught.value.location.file == __file__:
        lines = pathlib.Path(__file__).read_text().splitlines()
        assert lines[caught.value.location.line - 1] == LINE
    else:
        assert caught.value.location.file.endswith(".cu") and what in ("syntax", "an undefined name", "no header")
    assert cuda_cpp.calls(device.compile(calling(GOOD), device.ArrayType(device.float32, 1)).code) == 0


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("float x; double y;", "pair: struct<pair"),
        ("float y, x;", "pair.x"),
        ("float x; int y;", "pair.y: float32"),
        ("float x, y; __device__ ~pair() {}", "pair: struct<pair, .* is passed as a copy"),
    ],
)
def test_another_layout(members, message):
    text = f"struct pair {{ {members} }};\n__device__ float first(pair p) {{ return p.x; }}"
    kernel = with_first(text)
    with pytest.raises(device.CompileError, match=f'failed with "{message}') as caught:
        device.compile(kernel, device.ArrayType(pair, 1), device.ArrayType(device.float32, 1))
    assert caught.value.location.file == __file__ and caught.value.help


def test_an_old_standard_has_structs_too():
    text = "struct pair { float x, y; };\n__device__ float first(pair p) { return p.x; }"
    kernel = with_first(text, std="c++03")
    assert device.compile(kernel, device.ArrayType(pair, 1), device.ArrayType(device.float32, 1)).code


def with_first(text, **options):
    """A kernel that calls `first` in this text with a struct."""

    @device.extern(link=device.cuda_source(text, **options), cpp="first")
    def first(p: pair) -> device.float32: ...

    @device.kernel
    def kernel(x, out):
        out[0] = first(x[0])

    return kernel


def with_types(text, parameter, argument, result=device.float32):
    """A kernel that calls a function of C++ in this text."""

    def taken(p): ...

    taken.__annotations__ = {"p": parameter, "return": result}
    taken = device.extern(link=device.cuda_source(text))(taken)

    @device.kernel
    def kernel(x):
        x[0] = device.float32(taken(argument(x)))

    return kernel


def a_pair(x):
    return pair(x[0], x[1])


def a_number(x):
    return x[0]


def a_pointer(x):
    return x.pointer(0)


FLOAT_POINTER = device.pointer(device.float32)
DESCRIPTOR = "cuda::interoperable_array_descriptor"
OF_PAIRS = "float taken(pair p) { return p.x; }"
OTHER_TYPES = {
    "a result": ("double taken(float p) { return p; }", "taken, result: float32"),
    "a parameter": ("float taken(double p) { return p; }", "taken, p: float32"),
    "a kind": ("float taken(int p) { return p; }", "taken, p: float32"),
    "more parameters": ("double taken(double p, int n) { return p; }", "cuda_device_stub_taken"),
    "a reference": ("float taken(const float& p) { return p; }", "taken, p: float32"),
    "what a pointer points to": ("float taken(double* p) { return *p; }", r"taken, p\[0\]: float32"),
    "members behind a pointer": ("float taken(const pair* p) { return p->x; }", r"taken, p\[0\].y: float32"),
    "a pointer behind a pointer": ("float taken(double** p) { return **p; }", r"taken, p\[0\]\[0\]: float32"),
    "a pointer that is not to const": (
        "float taken(float* p) { return *p = 1; }",
        "taken, p: pointer<float32, readonly>",
    ),
    "elements": (f"float taken({DESCRIPTOR}<double, 1> p) {{ return p.data[0]; }}", r"taken, p\[0\]: float32"),
    "a larger struct": (OF_PAIRS, "taken, p: struct<pair"),
    "another order": (OF_PAIRS, "taken, p.x"),
    "another member": (OF_PAIRS, "taken, p.y: float32"),
    "another name": (OF_PAIRS, 'has no member "y"'),
    "a copy constructor": (OF_PAIRS, "taken, p: struct<pair, .* is passed as a copy"),
}
MEMBERS = {
    "a larger struct": "double x; float y;", "another order": "float y, x;", "another member": "float x; int y;",
    "another name": "float x, z;", "members behind a pointer": "float x; int y;",
    "a copy constructor": "float x, y; __device__ pair(const pair& p) : x(p.x), y(p.y) {}",
}  # fmt: skip
"""Those of the struct in C++."""
PASSED = {
    "what a pointer points to": (FLOAT_POINTER, a_pointer),
    "members behind a pointer": (device.pointer(pair), lambda x: x.pointer(0).cast(pair)),
    "a pointer behind a pointer": (device.pointer(FLOAT_POINTER), lambda x: x.pointer(0).cast(FLOAT_POINTER)),
    "a pointer that is not to const": (device.pointer(device.float32, readonly=True), a_pointer),
    "elements": (device.ArrayType(device.float32, 1), lambda x: x),
}
"""What is passed, if it is neither a number nor a pair."""


@pytest.mark.parametrize("what", OTHER_TYPES)
def test_other_types_are_an_error_at_the_stub(what):
    text, message = OTHER_TYPES[what]
    type, argument = PASSED.get(what, (pair, a_pair) if text == OF_PAIRS else (device.float32, a_number))
    members = f"struct pair {{ {MEMBERS[what]} }};\n" if what in MEMBERS else ""
    text = f'{members}extern "C" __device__ {text}'
    if DESCRIPTOR in text:
        text = f"#include <cuda_device/interop.h>\n{text}"
    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(with_types(text, type, argument), device.ArrayType(device.float32, 1))
    assert caught.value.help == "give the stub the types that the function has in C++"
    assert pathlib.Path(__file__).read_text().splitlines()[caught.value.location.line - 1] == "    def taken(p): ..."


SAME_TYPES = {
    "another name of a struct": ("struct two { float x, y; };", "two p", "p.x", pair, a_pair),
    "noexcept": ("", "float p) noexcept(true", "p", device.float32, a_number),
    "long long": ("", "long long p", "p", device.int64, lambda x: device.int64(x[0])),
    "an enumeration": ("enum class E { A };", "E p", "int(p)", device.int32, lambda x: device.int32(x[0])),
    "a pointer to const": ("", "const float* p", "*p", FLOAT_POINTER, a_pointer),
    "a volatile pointer": ("", "volatile float* p", "*p", FLOAT_POINTER, a_pointer),
    "a pointer to void": ("", "void* p", "1", FLOAT_POINTER, a_pointer),
    "a pointer of Python to void": ("struct hidden;", "hidden* p", "1", device.pointer(), a_pointer),
    "an atomic number": (
        "struct lock { int held; };",
        "lock* p",
        "p->held",
        device.pointer(lock),
        lambda x: x.pointer(0).cast(lock),
    ),
    "half": ("#include <cuda_fp16.h>\n", "__half p", "float(p)", device.float16, lambda x: device.float16(x[0])),
    "an array": (
        "#include <cuda_device/interop.h>\n",
        f"{DESCRIPTOR}<float, 1> p",
        "p.data[0]",
        device.ArrayType(device.float32, 1),
        lambda x: x,
    ),
    "a tuple": ("struct t { int a; float b; };", "t p", "p.b", tuple[int, float], lambda x: (1, x[0])),
    "a namespace": ("namespace n { struct none {}; }", "float p", "p", device.float32, a_number),
}


@pytest.mark.parametrize("what", SAME_TYPES)
def test_what_a_caller_cannot_tell_apart_is_accepted(what):
    before, parameter, value, type, argument = SAME_TYPES[what]
    text = f'{before}extern "C" __device__ float taken({parameter}) {{ return {value}; }}'
    if what == "a namespace":
        text = f"namespace m {{ {text} }}"
    assert device.compile(with_types(text, type, argument), device.ArrayType(device.float32, 1)).code


def test_two_stubs_of_one_function():
    first, second = (calling(GOOD) for _ in range(2))
    stubs = [each.underlying.__closure__[0].cell_contents for each in (first, second)]

    @device.kernel
    def kernel(x):
        x[0] = stubs[0](x[0]) + stubs[1](x[1])

    assert device.compile(kernel, device.ArrayType(device.float32, 1)).code


def test_a_newer_version_of_ptx_does_not_disable_the_linker(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    for link in (newer_ptx(), cuda_cpp.compile_cpp(GOOD.text)):
        with contextlib.suppress(device.CompileError):
            made = device.compile(calling(link), device.ArrayType(device.float32, 1))
    assert cuda_cpp.calls(made.code) == 1


def test_the_next_launch_works(tmp_path):
    with emulated_gpu.installed():
        x = device.array(np.float32([2]))
        for what in ("syntax", "an undefined name", "no header", "an architecture", "no file"):
            with pytest.raises(device.CompileError):
                device.launch(calling(BAD[what][0](tmp_path)), x, grid=1, block=1)
            device.launch(calling(GOOD), x, grid=1, block=1)
        assert x.numpy()[0] == 2 * 3**5
