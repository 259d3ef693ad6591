"""Sizes, alignments, offsets and signatures, beside what NVRTC makes of the same types in CUDA C++."""

import random
import re

import cuda_cpp
import numpy as np
import pytest

import cuda_device as device

INCLUDES = """
#include <cuda/std/complex>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_device/interop.h>
"""

NUMBERS = {
    "bool": bool, "int": int, "float": float,
    "signed char": device.int8, "short": device.int16, "long long": device.int64,
    "unsigned char": device.uint8, "unsigned short": device.uint16, "unsigned int": device.uint32,
    "unsigned long long": device.uint64,
    "__half": device.float16, "double": device.float64, "__nv_bfloat16": device.bfloat16,
    "__nv_fp8_e4m3": device.float8e4m3, "__nv_fp8_e5m2": device.float8e5m2,
    "cuda::std::complex<float>": device.complex64, "cuda::std::complex<double>": device.complex128,
}  # fmt: skip
FAMILIES = {
    "char": "int8", "short": "int16", "int": "int32", "longlong": "int64",
    "uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulonglong": "uint64", "float": "float32", "double": "float64",
}  # fmt: skip
# The vectors of four 8-byte numbers are aligned to 16 bytes, as they always were in CUDA.
WIDE = {"longlong4": "longlong4_16a", "ulonglong4": "ulonglong4_16a", "double4": "double4_16a"}
OTHERS = {
    "__half2": "float16x2", "__nv_bfloat162": "bfloat16x2",
    "__nv_fp8x2_e4m3": "float8e4m3x2", "__nv_fp8x4_e4m3": "float8e4m3x4",
    "__nv_fp8x2_e5m2": "float8e5m2x2", "__nv_fp8x4_e5m2": "float8e5m2x4",
}  # fmt: skip


def in_device_code(type):
    """Whether device code has this type."""
    try:
        return type is not None and device.sizeof(type) > 0
    except TypeError:
        return False


def vectors():
    for cpp, name in FAMILIES.items():
        for size in (1, 2, 3, 4):
            yield WIDE.get(f"{cpp}{size}", f"{cpp}{size}"), getattr(device, f"{name}x{size}")
    yield from ((cpp, getattr(device, name, None)) for cpp, name in OTHERS.items())


SIMPLE = {cpp: type for cpp, type in (*NUMBERS.items(), *vectors()) if in_device_code(type)}


def table(name, expressions):
    return f'extern "C" __device__ unsigned {name}[] = {{ {", ".join(f"(unsigned)({e})" for e in expressions)} }};\n'


# Types made at random, each in Python and in C++


class Types:
    """Definitions of structs and tuples in C++, and the same types in Python."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.definitions = []
        self.made = []
        self.members = {}

    def simple(self):
        return self.random.choice(list(SIMPLE.items()))

    def any(self):
        """The C++ name and the Python type of a member."""
        match self.random.random():
            case x if x < 0.65 or not self.made:
                return self.simple()
            case x if x < 0.72:
                return "void*", None
            case x if x < 0.85:
                return self.tuple()
        return self.random.choice(self.made)

    def tuple(self):
        parts = [self.simple() for _ in range(self.random.randrange(1, 4))]
        name = f"t{len(self.definitions)}"
        self.define(name, "", [f"{cpp} _{i};" for i, (cpp, _) in enumerate(parts)])
        return name, tuple[tuple(type for _, type in parts)]

    def struct(self):
        """A struct; about every fourth member, and every fifth struct, is aligned to more than it has to be."""
        members = {f"m{i}": self.any() for i in range(self.random.randrange(1, 7))}
        hints, lines = {}, []
        for member, (cpp, type) in members.items():
            boundary = self.random.choice((0, 0, 0, 2, 4, 8, 16, 32))
            number = cpp in NUMBERS
            aligned = number and boundary > device.alignof(type)
            hints[member] = device.align(type, boundary) if aligned else type
            lines.append((f"alignas({boundary}) " if aligned else "") + f"{cpp} {member};")
        name = f"s{len(self.definitions)}"
        plain = device.struct(type_of(name, hints))
        least = self.random.choice((0, 0, 0, 0, 16, 64))
        aligned = least > device.alignof(plain)
        self.define(name, f"alignas({least}) " if aligned else "", lines)
        python = device.struct(align=least)(type_of(name, hints)) if aligned else plain
        self.members[name] = list(members)
        self.made.append((name, python))
        return name, python

    def define(self, name, align, lines):
        self.definitions.append(f"struct {align}{name} {{ {' '.join(lines)} }};\n")


def type_of(name, hints):
    return type(name, (), {"__annotations__": hints, "__module__": __name__})


# Layout


def test_numbers_and_vectors_have_the_size_and_alignment_of_their_counterparts():
    expressions = [f"{measure}({cpp})" for cpp in SIMPLE for measure in ("sizeof", "alignof")]
    ptx = cuda_cpp.compile_cpp(INCLUDES + table("facts", expressions)).decode()
    facts = cuda_cpp.tables(ptx)["facts"]
    found = dict(zip(SIMPLE, zip(facts[::2], facts[1::2], strict=True), strict=True))
    assert found == {cpp: (device.sizeof(type), device.alignof(type)) for cpp, type in SIMPLE.items()}
    assert found["double4_16a"] == (32, 16)


# What every NVRTC has for the `offsetof` of C++.
OFFSET = "__INTADDR__"


@pytest.fixture(scope="module")
def structs():
    types = Types(2027)
    return types, [types.struct() for _ in range(500)]


@pytest.mark.long
def test_500_structs_lie_as_in_cuda_cpp(structs):
    types, made = structs
    text = INCLUDES + "".join(types.definitions)
    for name, _ in made:
        offsets = [f"{OFFSET}(&(({name}*)0)->{member})" for member in types.members[name]]
        text += table(f"of_{name}", [f"sizeof({name})", f"alignof({name})", *offsets])
    facts = cuda_cpp.tables(cuda_cpp.compile_cpp(text).decode())
    for name, type in made:
        dtype = device.numpy_dtype(type)
        offsets = [dtype.fields[member][1] for member in types.members[name]]
        ours = [device.sizeof(type), device.alignof(type), *offsets]
        assert facts[f"of_{name}"] == ours, device.cpp_declaration(type)
        assert dtype.itemsize == ours[0]


@pytest.mark.long
def test_nvrtc_agrees_with_the_checks_in_a_generated_header(structs):
    _, made = structs
    header = device.cpp_header(*(type for _, type in made), tuple[device.float16x3, device.bfloat16x4, bool])
    assert header.count("static_assert(cuda_device_offsetof") > 1000
    cuda_cpp.compile_cpp(header)
    with pytest.raises(AssertionError, match="static assertion failed"):
        cuda_cpp.compile_cpp(header.replace("== 0,", "== 1,", 1))


# Signatures

SIZES = {
    1: "int8 x1",
    2: "int8 x2",
    4: "int32 x1",
    8: "int32 x2",
    12: "int32 x3",
    16: "int64 x2",
    24: "int64 x3",
    40: "int64 x5",
}
CPP = {"int8": "signed char", "int32": "int", "int64": "long long", "float16x2": "__half2"}


def struct_of(name, *members):
    """A struct of named types: in C++, and in Python."""
    hints = {f"m{i}": getattr(device, member) for i, member in enumerate(members)}
    lines = " ".join(f"{CPP[member]} m{i};" for i, member in enumerate(members))
    return f"struct {name} {{ {lines} }};\n", device.struct(type_of(name, hints))


def kinds():
    """(C++ definition, C++ name, type in Python) of each kind of value."""
    for cpp, type in SIMPLE.items():
        yield "", cpp, type
    yield "", "void*", None
    for size, what in SIZES.items():
        member, count = what.split(" x")
        definition, type = struct_of(f"b{size}", *[member] * int(count))
        yield definition, f"b{size}", type
    definition, hidden = struct_of("hidden", "int32", "float16x2")
    yield definition, "hidden", hidden
    yield "struct outer { hidden a; int b; };\n", "outer", device.struct(type_of("outer", {"a": hidden, "b": int}))
    yield "struct pair { int _0; double _1; };\n", "pair", tuple[int, device.float64]
    yield "struct two { __nv_bfloat162 _0; };\n", "two", tuple[device.bfloat16x2]
    yield "struct nothing {};\n", "nothing", device.struct(type_of("nothing", {}))
    yield "struct wide { alignas(32) int a; };\n", "wide", device.struct(type_of("wide", {"a": device.align(int, 32)}))
    for ndim in range(4):
        yield "", f"cuda::interoperable_array_descriptor<float, {ndim}>", device.ArrayType(device.float32, ndim)


def function_of(name, text, decorator):
    """The function `name` of this source, decorated to be interoperable."""
    names = {}
    exec(text, names)
    return decorator(interop=True)(names[name])


@pytest.fixture(scope="module")
def cpp_signatures():
    """For each kind of value a function that takes and returns it, and a kernel that takes it; and lists of many kinds."""
    all_kinds = list(kinds())
    text = INCLUDES + "".join(definition for definition, _, _ in all_kinds)
    for i, (_, cpp, _) in enumerate(all_kinds):
        text += f'extern "C" __device__ {cpp} f{i}({cpp} x) {{ return x; }}\n'
        text += f'extern "C" __global__ void k{i}(bool b, {cpp} x, signed char c) {{}}\n'
    for i, picked in enumerate(mixtures()):
        parameters = ", ".join(f"{all_kinds[k][1]} p{j}" for j, k in enumerate(picked))
        text += f'extern "C" __device__ void g{i}({parameters}) {{}}\n'
        text += f'extern "C" __global__ void h{i}({parameters}) {{}}\n'
    return all_kinds, cuda_cpp.signatures(cuda_cpp.compile_cpp(text).decode())


def mixtures():
    choice = random.Random(9)
    count = len(list(kinds()))
    return [[choice.randrange(count) for _ in range(choice.randrange(7))] for _ in range(60)]


def test_functions_take_and_return_values_as_in_cuda_cpp(cpp_signatures):
    all_kinds, expected = cpp_signatures
    for i, (_, cpp, type) in enumerate(all_kinds):
        # void* aside, whose only value Python's function does not return.
        body = "pass" if type is None else "return x"
        function = function_of(f"f{i}", f"def f{i}(x): {body}", device.func)
        ptx = device.compile(function, type, target=cuda_cpp.TARGET, output="ptx")
        wanted = expected[f"f{i}"] if type is not None else "func void (.param .b64 x)"
        assert cuda_cpp.signatures(ptx.code) == {f"f{i}": wanted}, cpp
    assert expected["f0"] == "func .param .b32 x (.param .b32 x)"


def test_kernels_take_values_as_in_cuda_cpp(cpp_signatures):
    all_kinds, expected = cpp_signatures
    for i, (_, cpp, type) in enumerate(all_kinds):
        kernel = function_of(f"k{i}", f"def k{i}(b, x, c): pass", device.kernel)
        ptx = device.compile(kernel, bool, type, device.int8, target=cuda_cpp.TARGET, output="ptx")
        assert cuda_cpp.signatures(ptx.code) == {f"k{i}": expected[f"k{i}"]}, cpp
    assert expected["k0"] == "entry void (.param .b8 x, .param .b8 x, .param .b8 x)"


def test_lists_of_parameters_are_those_of_cuda_cpp(cpp_signatures):
    all_kinds, expected = cpp_signatures
    for i, picked in enumerate(mixtures()):
        parameters = ", ".join(f"p{j}" for j in range(len(picked)))
        types = [all_kinds[k][2] for k in picked]
        for letter, decorator in (("g", device.func), ("h", device.kernel)):
            name = f"{letter}{i}"
            function = function_of(name, f"def {name}({parameters}): pass", decorator)
            ptx = device.compile(function, *types, target=cuda_cpp.TARGET, output="ptx")
            assert cuda_cpp.signatures(ptx.code) == {name: expected[name]}


# Structured NumPy dtypes


RECORDS = {
    "plain": [("a", np.int8), ("b", np.float64), ("c", np.int16)],
    "rows": [("a", np.float32, (3,)), ("b", np.int16, (2, 2)), ("c", np.uint8)],
    "inner": [("p", [("x", np.float32), ("y", np.int64)]), ("q", np.int8)],
}


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("name", RECORDS)
def test_records_have_counterparts(name, aligned):
    dtype = np.dtype(RECORDS[name], align=aligned)

    @device.func(interop=True)
    def same(x):
        return x

    array = device.ArrayType(dtype, 1)
    header = device.cpp_header((same, array.dtype))
    expected = cuda_cpp.signatures(cuda_cpp.compile_cpp(header + "__device__ auto used = &same;").decode())["same"]
    assert cuda_cpp.signatures(device.compile(same, array.dtype, output="ptx").code) == {"same": expected}
    assert f".b8 x[{dtype.itemsize}]" in expected
    if aligned:
        assert "packed" not in header
    for field in dtype.names:
        assert re.search(rf"static_assert\(cuda_device_offsetof\(\w+, {field}\) == {dtype.fields[field][1]},", header)


def test_records_whose_fields_overlap_have_none():
    dtype = np.dtype({"names": ["a", "b"], "formats": [np.int32, np.int16], "offsets": [0, 2]})

    @device.func(interop=True)
    def same(x):
        return x

    with pytest.raises(device.CompileError, match="no counterpart"):
        device.compile(same, device.ArrayType(dtype, 1).dtype, output="ptx")
