"""Link-time optimisation between Python and CUDA C++: no calls remain, and the results are the same."""

import re
import struct

import cuda_cpp
import numpy as np
import pytest
from cuda.bindings import nvvm
from ir_helpers import job
from ptx_machine.machine import Machine, Module
from ptx_machine.memory import Arena
from ptx_machine.reader import read

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.gpu import assemblers, elf

TARGETS = ["sm_90", pytest.param("sm_100", marks=pytest.mark.long)]
FLOATS = device.ArrayType(device.float32, 1)
type_names = pytest.importorskip("cuda_device.plugins.cpp.type_names")
exchange = pytest.importorskip("exchange", reason="needs the plugin cpp")
EVERY_KIND = [device.ArrayType(type, 1) for type in exchange.TYPES for _ in range(2)]
ARENA = Arena(1 << 22)


@pytest.fixture
def linked(monkeypatch):
    """The PTX of each program that was optimised as a whole."""
    found = []
    genuine = assemblers.optimised
    monkeypatch.setattr(assemblers, "optimised", lambda *given: (found.append(genuine(*given)), found[-1])[1])
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    return found


def run(module, kernel, *parameters):
    """Runs one thread of a kernel; parameters are words of 64 bits, or arrays, which come back."""
    addresses = {i: ARENA.allocate(p.nbytes) for i, p in enumerate(parameters) if isinstance(p, np.ndarray)}
    for i, address in addresses.items():
        ARENA.write(address, parameters[i].tobytes())
    words = struct.pack(f"<{len(parameters)}Q", *(addresses.get(i, p) for i, p in enumerate(parameters)))
    buffer = ARENA.allocate(len(words))
    ARENA.write(buffer, words)
    Machine(module, kernel, (1, 1, 1), (1, 1, 1), buffer, 0, 0).run()
    found = [
        np.frombuffer(ARENA.read(address, parameters[i].nbytes), parameters[i].dtype)
        for i, address in addresses.items()
    ]
    for address in (*addresses.values(), buffer):
        ARENA.free(address)
    return found


def check(results):
    for (_, cpp, _), (value, result) in zip(exchange.KINDS, results, strict=True):
        assert exchange.parts(result) == exchange.parts(value), cpp


# Python calls C++


@pytest.mark.parametrize("target", TARGETS)
def test_no_call_of_cpp_is_left(target, linked):
    made = device.compile(exchange.python_kernel(as_source=True), *EVERY_KIND, target=target)
    assert cuda_cpp.calls(made.code) == 0 and cuda_cpp.functions(made.code) == {"kernel"}
    values, poisoned = zip(*map(exchange.sample, exchange.TYPES), strict=True)
    parameters = [word for pair in zip(values, poisoned, strict=True) for array in pair for word in (array, 1)]
    arrays = run(Module(read(linked[0]), ARENA), "kernel", *parameters)
    check(zip(values, arrays[1::2], strict=True))


def test_a_linker_that_does_not_optimise_leaves_calls():
    """What the counts of calls above would find."""
    kernel = exchange.python_kernel(as_source=True)
    ptx = device.compile(kernel, *EVERY_KIND, output="ptx").code
    assert cuda_cpp.calls(cuda_cpp.assembled(ptx, *kernel.options.link).code) >= len(exchange.KINDS)


@device.struct(align=32)
class wide:  # noqa: N801 (a name in C++)
    a: device.int8
    b: device.align(int, 8)
    c: device.float32x4


@device.struct
class outer:  # noqa: N801
    flag: bool
    w: wide
    h: device.float16
    pair: tuple[device.int8, device.float64]
    v: device.float16x3
    z: device.complex64


LARGE = tuple[*[device.float32] * 40, int]
PLAIN = np.dtype([("s", np.int16, (2, 3)), ("w", np.int32)])
PACKED = np.dtype({"names": ["a", "b"], "formats": [np.int8, np.int32], "offsets": [0, 2], "itemsize": 7})


STRUCTURES = [wide, outer, PLAIN, PACKED, tuple[outer, device.float8e4m3x4], LARGE]


@pytest.mark.parametrize("target", TARGETS)
def test_structures_are_those_of_declarations(target, linked):
    """Each as `cpp_declaration` writes it, in a namespace of its own."""
    scope, text, body = {}, "", ""
    for i, type in enumerate(STRUCTURES):
        declared = device.cpp_declaration(type)
        name = re.findall(r"^struct .*?(\w+) \{$", declared, re.M)[-1]
        text += f'namespace n{i} {{\n{declared}\nextern "C" __device__ {name} s{i}({name} x) {{ return x; }} }}\n'
        stub = exchange.plain_function(f"s{i}", f"def s{i}(x): ...")
        stub.__annotations__ = {"x": type, "return": type}
        scope[f"s{i}"] = device.extern(stub)
        body += f"    y{i}[0] = s{i}(x{i}[0])\n"
    includes = "".join(f"#include <{header}>\n" for header in type_names.headers_for(text))
    names = ", ".join(f"x{i}, y{i}" for i in range(len(STRUCTURES)))
    exec(f"def kernel({names}):\n{body}", scope)
    kernel = device.kernel(link=device.cuda_source(includes + text))(scope["kernel"])
    arrays = [device.ArrayType(type, 1) for type in STRUCTURES for _ in range(2)]
    assert cuda_cpp.calls(device.compile(kernel, *arrays, target=target).code) == 0
    samples = [exchange.sample(type) for type in STRUCTURES]
    found = run(
        Module(read(linked[0]), ARENA), "kernel", *(word for pair in samples for each in pair for word in (each, 1))
    )
    for (value, _), result in zip(samples, found[1::2], strict=True):
        assert exchange.parts(result) == exchange.parts(value)


ARRAYS = """
#include <cuda_device/interop.h>
using column = cuda::interoperable_array_descriptor<float, 1>;
extern "C" __device__ column row(cuda::interoperable_array_descriptor<const float, 2> x, int i, float* p, const float4* q,
                                 void* r, unsigned char c) {
  auto view = x.to_mdspan();
  *p = view(i, 2) + q->z + c + static_cast<short*>(r)[1];
  column found{};
  found.data = p;
  found.shape[0] = 1;
  found.strides[0] = 1;
  return found;
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_and_pointers_pass(target, linked):
    @device.extern(link=device.cuda_source(ARRAYS))
    def row(
        x: device.ArrayType(device.float32, 2, readonly=True),
        i: int,
        p: device.pointer(device.float32),
        q: device.pointer(device.float32x4, readonly=True),
        r: device.pointer(),
        c: device.uint8,
    ) -> device.ArrayType(device.float32, 1): ...

    @device.kernel
    def kernel(x, out, q, r):
        grid = x.reshape((2, 3))
        column = row(grid, 1, out.pointer(0), q.pointer(1), r.pointer(0).cast(None), 200)
        column[0] += 0.5

    types = (FLOATS, FLOATS, device.ArrayType(device.float32x4, 1), device.ArrayType(device.int16, 1))
    made = device.compile(kernel, *types, target=target)
    assert cuda_cpp.calls(made.code) == 0
    x, out = np.arange(6, dtype=np.float32), np.zeros(1, np.float32)
    q, r = np.arange(8, dtype=np.float32), np.int16([0, -1000])
    found = run(Module(read(linked[0]), ARENA), "kernel", x, 6, out, 1, q, 2, r, 2)
    assert found[1][0] == 5 + 6 + 200 - 1000 + 0.5


SCALED = 'extern "C" __device__ float scaled(float x) { return 3 * x + 1; }'


def scaling(link, **options):
    @device.extern(link=link)
    def scaled(x: device.float32) -> device.float32: ...

    @device.kernel(**options)
    def kernel(x):
        x[0] = scaled(x[0]) * x[1] + x[2]

    return kernel


def test_ltoir_as_bytes_and_files(linked, tmp_path):
    code = cuda_cpp.compile_cpp(SCALED, "ltoir", "-dlto")
    (tmp_path / "scaled.ltoir").write_bytes(code)
    for link in (code, tmp_path / "scaled.ltoir"):
        assert cuda_cpp.calls(device.compile(scaling(link), FLOATS).code) == 0
    assert len(linked) == 2


def test_what_the_host_writes_is_there():
    """The launcher writes the address of the record into a variable of the kernel's."""
    scaled = device.extern(exchange.plain_function("scaled", "def scaled(x: float) -> float: ..."))

    def kernel(x):
        assert scaled(x[0]) > 0

    plain, optimised = (
        device.compile(device.kernel(link=link)(kernel), FLOATS).code
        for link in (cuda_cpp.compile_cpp(SCALED), device.cuda_source(SCALED))
    )
    records = [
        {each.name for each in elf.symbols(code) if each.is_global and each.section and each.kind != 2}
        for code in (plain, optimised)
    ]
    assert records[0] & records[1]


def test_the_options_of_the_kernel_hold_for_all(linked):
    for options in ({}, {"fastmath": True}, {"contract": False}):
        source = device.cuda_source(SCALED.replace("+ 1", "+ 5 / x"))
        device.compile(scaling(source, **options), FLOATS, target="sm_90")
    plain, fast, separate = linked
    assert "div.rn.f32" in plain and "fma.rn.f32" in plain
    assert "div.full.ftz.f32" in fast
    assert "fma" not in separate


def test_a_kernel_that_calls_ptx_too(linked):
    """Calls of PTX stay, and those of C++ do not."""
    other = cuda_cpp.compile_cpp('extern "C" __device__ float other(float x) { return 7 * x; }')
    text = 'extern "C" __device__ float other(float); ' + SCALED.replace("3 * x", "3 * other(x)")
    made = device.compile(scaling([other, device.cuda_source(text)]), FLOATS)
    assert cuda_cpp.calls(made.code) == 1 and len(linked) == 1
    # The other way round, what is called from PTX cannot go.
    back = cuda_cpp.compile_cpp(
        'extern "C" __device__ float other(float x); ' + SCALED.replace("3 * x", "3 * other(x)")
    )
    text = 'extern "C" __device__ float other(float x) { return 7 * x; }'
    assert cuda_cpp.calls(device.compile(scaling([back, device.cuda_source(text)]), FLOATS).code) >= 2


def test_without_libnvvm_the_kernel_calls(monkeypatch, caplog, linked):
    def missing():
        raise RuntimeError("libnvvm.so not found")

    monkeypatch.setattr(nvvm, "version", missing)
    caplog.set_level("INFO", "cuda_device")
    made = device.compile(scaling(device.cuda_source(SCALED)), FLOATS)
    assert cuda_cpp.calls(made.code) >= 1 and not linked
    assert "kernel calls linked code without inlining it: LTO-IR needs libNVVM" in caplog.text


def test_lines_are_worth_calls(linked):
    """LTO-IR in LLVM 7's language has no line tables."""
    assert (
        cuda_cpp.calls(device.compile(scaling(device.cuda_source(SCALED), lineinfo=True), FLOATS).code) and not linked
    )


def test_kernels_that_link_nothing_are_no_ltoir(monkeypatch):
    work = compiler.run(job(scaling(()), FLOATS), "ptx")
    monkeypatch.setattr(compiler, "_optimised_with_links", None)
    assert list(work.seconds) == ["python", "typed", "device", "llvm", "optimised", "ptx"]

    @device.kernel
    def plain(x):
        x[0] = 1

    assert "ltoir" not in compiler.run(job(plain, FLOATS)).seconds


# C++ calls Python


@pytest.mark.parametrize("target", TARGETS)
def test_no_call_of_python_is_left(target):
    ptx = cuda_cpp.optimised(exchange.cpp_callers(), *exchange.python_functions(target, "ltoir"), target=target)
    code = cuda_cpp.assembled(ptx, target=target).code
    assert cuda_cpp.calls(code) == 0
    assert cuda_cpp.functions(code) == {f"k{i}" for i in range(len(exchange.KINDS))}
    module, results = Module(read(ptx), ARENA), []
    for i, type in enumerate(exchange.TYPES):
        value, poisoned = exchange.sample(type)
        results.append((value, run(module, f"k{i}", value, poisoned)[1]))
    check(results)


@device.func(interop=True)
def turned(x, c, p: device.pointer(device.float32), r: device.pointer()):
    p[0] += c + r.cast(device.int16)[1]
    return x.T


CALLERS = """
#include <cuda_device/interop.h>
using array = cuda::interoperable_array_descriptor<float, 2>;
extern "C" __device__ array turned(array x, signed char c, float* p, void* r);
extern "C" __global__ void k(float* data, float* out, short* r) {
  cuda::std::mdspan<float, cuda::std::dextents<int, 2>> rows(data, 3, 4);
  *out += turned(rows, -100, out, r).to_mdspan()(3, 1);
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_python_takes_arrays_and_pointers(target):
    types = (device.ArrayType(device.float32, 2), device.int8, device.pointer(device.float32), device.pointer())
    made = device.compile(turned, *types, target=target, output="ltoir")
    ptx = cuda_cpp.optimised(CALLERS, made, target=target)
    assert cuda_cpp.calls(cuda_cpp.assembled(ptx, target=target).code) == 0
    data, out, r = np.arange(12, dtype=np.float32), np.float32([0.5]), np.int16([0, 1000])
    assert run(Module(read(ptx), ARENA), "k", data, out, r)[1].tolist() == [0.5 - 100 + 1000 + 7]


@pytest.mark.parametrize("target", TARGETS)
def test_python_takes_large_structures(target):
    """C++ has those of more than 128 bytes in memory."""
    f = exchange.abi.function_of("f", "def f(x): return x", device.func)
    text = f"#include <cuda/std/cstdint>\n{device.cpp_declaration(LARGE)}"
    text += 'extern "C" __device__ tuple_0 f(tuple_0 x);'
    text += 'extern "C" __global__ void k(tuple_0* x, tuple_0* y) { *y = f(*x); }'
    ptx = cuda_cpp.optimised(text, device.compile(f, LARGE, target=target, output="ltoir"), target=target)
    value, poisoned = exchange.sample(LARGE)
    assert "call" not in ptx
    assert exchange.parts(run(Module(read(ptx), ARENA), "k", value, poisoned)[1]) == exchange.parts(value)


def test_a_function_that_cpp_declares_otherwise_is_called():
    """Structures of other members have the same bytes: it is called, as any other function."""
    text = """
struct pair { int x, y; };
extern "C" __device__ pair f(pair x);
extern "C" __global__ void k(pair* x) { *x = f(*x); }
"""
    f = exchange.abi.function_of("f", "def f(x): return x", device.func)
    ptx = cuda_cpp.optimised(text, device.compile(f, device.float32x2, output="ltoir"))
    assert ".callprototype" in ptx and cuda_cpp.assembled(ptx).code


# Functions that get addresses

GENERIC = """
struct point { float x; signed char y; };
extern "C" __device__ void op(void* a, void* b, void* result);
extern "C" __global__ void k(point* a, short* b, point* result) { op(a, b, result); }
"""


@device.func(interop=True)
def op(a, b):
    return point(a.x * b, a.y + 1)


@device.struct
class point:  # noqa: N801
    x: device.float32
    y: device.int8


@pytest.mark.parametrize("target", TARGETS)
def test_the_generic_convention(target):
    types = point, device.int16
    made = device.compile(op, *types, target=target, output="ltoir", by_address=True)
    ptx = cuda_cpp.optimised(GENERIC, made, target=target)
    assert "call" not in ptx
    dtype = device.numpy_dtype(point)
    found = run(Module(read(ptx), ARENA), "k", np.array([(1.5, 3)], dtype), np.int16([-2]), np.zeros(1, dtype))
    assert found[2]["x"] == -3 and found[2]["y"] == 4
    made = device.compile(op, *types, target=target, output="ptx", by_address=True)
    assert cuda_cpp.signatures(made.code) == {"op": "func void (.param .b64 x, .param .b64 x, .param .b64 x)"}
    assert cuda_cpp.assembled(cuda_cpp.compile_cpp(GENERIC, target=target), made, target=target).code


def test_a_function_without_a_result_by_addresses():
    @device.func(interop=True)
    def put(x, p: device.pointer(device.float32)):
        p[0] = x

    made = device.compile(put, float, device.pointer(device.float32), output="ptx", by_address=True)
    assert cuda_cpp.signatures(made.code) == {"put": "func void (.param .b64 x, .param .b64 x)"}


def test_who_gets_addresses():
    for f in (device.func(op.underlying), device.kernel(lambda x: None)):
        with pytest.raises(TypeError, match="by_address=True is for functions with @func"):
            device.compile(f, *[float] * f.underlying.__code__.co_argcount, by_address=True)


def test_shared_memory_of_cpp_is_aligned_for_wide_loads(linked):
    """nvJitLink loads the words of an array one by one where it is aligned to four bytes only; ptxas would align it."""
    text = """
    template <int N> __device__ float total(float x) {
      __shared__ float all[N]; __shared__ float few[3];
      all[threadIdx.x] = x; few[threadIdx.x % 3] = x;
      __syncthreads();
      return all[0] + all[1] + all[2] + all[3] + few[0] + few[1] + few[2];
    }"""

    @device.extern(cpp="total<32>", link=device.cuda_source(text))
    def total(x: device.float32) -> device.float32: ...

    @device.kernel
    def kernel(x):
        x[device.tid(1)] = total(x[device.tid(1)])

    code = device.compile(kernel, FLOATS, target="sm_90").code
    assert len(re.findall(r"\.shared \.align 4 \.b8 \S+\[(?:12|128)\];", linked[0])) == 2
    words = [word & 0xFFF for word in cuda_cpp.instructions(code)]
    wide = [word for word in cuda_cpp.instructions(code) if word & 0xFFF == 0x984 and word >> 72 & 0xF >= 0xC]
    assert words.count(0x984) < 7 and wide


@device.struct
class Floats:
    """Whose bytes are floats, and nothing else."""

    position: device.float32x4
    speed: device.float32x2
    mass: tuple[device.float32, device.float32]


@device.struct
class Doubles:
    """Which has no padding, either."""

    real: device.float64
    rest: tuple[device.float64, device.float64]


@device.struct
class Mixed:
    """In which integers have a part."""

    speed: device.float32x2
    count: device.int32
    mass: device.float32


@pytest.mark.parametrize(
    ("type", "form"),
    [(Floats, "[8 x float]"), (Doubles, "[3 x double]"), (Mixed, "[2 x i64]")],
    ids=lambda each: str(each),
)
def test_structures_of_floats_are_returned_as_floats(type, form):
    @device.func(interop=True)
    def same(value: type) -> type:
        return value

    text = str(device.compile(same, type, output="llvm"))
    assert re.search(rf"define alignstack\(\d+\) {re.escape(form)} @same\(", text), text
