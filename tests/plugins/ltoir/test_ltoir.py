"""LTO-IR: libNVVM accepts the translated LLVM IR, and its output links to cubins and to CUDA C++."""

import re
import textwrap
from pathlib import Path

import cuda_cpp
import golden_pages
import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from conftest import thinned
from cuda.bindings import nvvm
from ir_helpers import define

import cuda_device as device
from cuda_device.device.options import FASTMATH
from cuda_device.plugins import ltoir

exchange = pytest.importorskip("exchange", reason="needs the plugin cpp")
FLOATS = device.ArrayType(device.float32, 1)

MAGIC = b"\xedCN\x7f"


@device.func(interop=True)
def scaled(x, k):
    return x * k + 1


@device.kernel
def everything(x, out, flags, n):
    """Shared memory, barriers, shuffles, votes, atomics with orders, libdevice, conversions, an assertion."""
    tile = device.shared_array(64, device.float32)
    i, thread = device.tid(1), device.thread_idx.x
    tile[thread] = x[i] if i < n else 0
    device.syncthreads()
    v = tile[63 - thread]
    v += device.shfl_xor_sync(-1, v, 1) + device.shfl_down_sync(-1, v, 2)
    if device.any_sync(-1, lambda: v > 3) and device.syncthreads_or(lambda: v < 0):
        v = device.float32(np.sin(v)) + abs(v)
    device.atomic_ref(flags, 0).add(int(v), "acq_rel", "device")
    device.atomic_ref(flags, 1).cas(1, 2, "seq_cst", "block")
    device.atomic_ref(flags, 2).store(device.atomic_ref(flags, 3).load("acquire"), "release")
    device.threadfence()
    assert n > 0, "nothing to do"
    out[i] = v + device.popc(device.activemask()) + device.ffs(device.match_any_sync(-1, i))


@device.kernel
def newest(out):
    """Operations for which libNVVM of CUDA 13.0 has no intrinsics."""
    dynamic = device.dynamic_shared_array().view(device.int32)
    counter = device.atomic_ref(out, 1)
    counter.wait(3, "acquire", "device")
    counter.notify_all()
    out[0] = len(dynamic) + device.syncthreads_count(lambda: out[2] > 3) + int(device.activemask())


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_ltoir_is_made_for_every_generation(target):
    arguments = FLOATS, FLOATS, device.ArrayType(device.int32, 1), int
    made = device.compile(everything, *arguments, target=target, output="ltoir")
    assert made.code.startswith(MAGIC) and (made.symbol, made.output) == ("everything", "ltoir")
    assert made.code == device.compile(everything, *arguments, target=target, output="ltoir").code
    assert device.compile(scaled, device.float32, int, target=target, output="ltoir").code.startswith(MAGIC)
    nothing = f".version 8.7\n.target {target}\n.address_size 64\n"
    for code in (made, device.compile(newest, arguments[2], target=target, output="ltoir")):
        linked = cuda_cpp.assembled(nothing, code, target=target).code
        assert cuda_cpp.functions(linked, only_global=True) == {code.symbol}


def ptx_of(function, *types, target):
    """What libNVVM understands of a function: its own PTX."""
    text = device.compile(function, *types, output="llvm", target=target).code
    data = ltoir.translate(text).encode()
    program = nvvm.create_program()
    try:
        nvvm.add_module_to_program(program, data, len(data), "module")
        nvvm.compile_program(program, 1, [f"-arch={target.replace('sm_', 'compute_')}"])
        code = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, code)
        return code.decode()
    finally:
        nvvm.destroy_program(program)


@pytest.mark.parametrize(("target", "part"), thinned(["sm_80", "sm_100"], [0, 1], one_in=2))
def test_every_signature_is_that_of_cuda_cpp(target, part):
    """A linker does not compare them: alignments that differ would only show when it runs."""
    expected = cuda_cpp.signatures(exchange.cpp_ptx().decode())
    for i, (_, cpp, type) in [*enumerate(exchange.KINDS)][part::2]:
        function = exchange.abi.function_of(f"f{i}", f"def f{i}(x): return x", device.func)
        assert cuda_cpp.signatures(ptx_of(function, type, target=target)) == {f"f{i}": expected[f"f{i}"]}, cpp
        kernel = exchange.abi.function_of(f"k{i}", f"def k{i}(b, x, c): pass", device.kernel)
        types = bool, type, device.int8
        ours = cuda_cpp.signatures(device.compile(kernel, *types, output="ptx").code)
        assert cuda_cpp.signatures(ptx_of(kernel, *types, target=target)) == ours, cpp


def test_every_kind_of_value_passes_to_cuda_cpp_and_back():
    """Calls of `extern` functions, where arguments and results are words of memory."""

    def call(x): ...

    for _, cpp, type in exchange.KINDS:
        call.__annotations__ = {"x": type, "return": type}
        called = device.extern(call)
        kernel = device.kernel(define("def k(x):\n    called(called(x))\n", called=called))
        ours = cuda_cpp.signatures(device.compile(kernel, type, output="ptx", target="sm_80").code)["call"]
        assert cuda_cpp.signatures(ptx_of(kernel, type, target="sm_80"))["call"] == ours, cpp


# What threads do together, with the PTX that the specification names for it.
TOGETHER = {
    "shfl_sync(-1, v, 3)": "shfl.sync.idx.b32", "shfl_up_sync(-1, v, 3)": "shfl.sync.up.b32",
    "shfl_down_sync(-1, v, 3)": "shfl.sync.down.b32", "shfl_xor_sync(-1, v, 3)": "shfl.sync.bfly.b32",
    "all_sync(-1, lambda: v > 3)": "vote.sync.all.pred", "any_sync(-1, lambda: v > 3)": "vote.sync.any.pred",
    "eq_sync(-1, lambda: v > 3)": "vote.sync.uni.pred", "ballot_sync(-1, lambda: v > 3)": "vote.sync.ballot.b32",
    "match_any_sync(-1, v)": "match.any.sync.b32", "match_all_sync(-1, v)[0]": "match.all.sync.b32",
    "reduce_add_sync(-1, device.int32(v))": "redux.sync.add.s32", "reduce_max_sync(-1, device.uint32(v))": "redux.sync.max.u32",
    "reduce_xor_sync(-1, device.int32(v))": "redux.sync.xor.b32",
    "syncthreads_or(lambda: v > 3)": "bar.red.or.pred", "syncthreads_and(lambda: v > 3)": "bar.red.and.pred",
    "syncthreads_count(lambda: v > 3)": "bar.red.popc.u32", "activemask()": "activemask.b32",
}  # fmt: skip


@pytest.mark.parametrize("target", ["sm_80", "sm_100"])
def test_both_compilers_choose_the_instructions(target):
    lines = "".join(f"    x[{i}] = device.int32(device.{call})\n" for i, call in enumerate(TOGETHER, 1))
    text = f"import cuda_device as device\ndef f(x):\n    v = x[0]\n{lines}"
    function, array = exchange.abi.function_of("f", text, device.func), device.ArrayType(device.int32, 1)
    ours = device.compile(function, array, output="ptx", target=target).code
    for ptx in (ours, ptx_of(function, array, target=target)):
        found = re.findall(r"\b(?:shfl|vote|bar|barrier|match|redux|activemask)\.[\w.:]+", ptx)
        assert found == [*TOGETHER.values()]


def test_what_llvm_7_cannot_say_is_refused():
    @device.kernel
    def exchanges(x):
        device.atomic_ref(x, 0).cas(1, 2)

    with pytest.raises(device.CompileError, match="not support 8-bit atomics"):
        device.compile(exchanges, device.ArrayType(device.int8, 1), output="ltoir")


# The language of LLVM 7

LINES = golden_pages.texts_in(Path(__file__).with_name("lines_of_llvm_7.txt"))


@pytest.mark.parametrize("line", LINES)
def test_a_line_in_the_language_of_llvm_7(line):
    text = ltoir.translate(f"define void @f() {{\nb0:\n  {line}\n  ret void\n}}\n")
    body = text[text.index("b0:\n") + 4 : text.index("  ret void")]
    assert body == textwrap.indent(LINES[line], "  ")


def test_metadata_marks_kernels_and_alignments():
    text = ltoir.translate(
        'define ptx_kernel void @k(ptr byval([8 x i8]) align 4 %v1, i32 %v2) nounwind "nvvm.maxntid"="128" {\n'
        "b0:\n  ret void\n}\n"
        "define alignstack(16) [2 x i64] @f([2 x i64] alignstack(16) %v1) nounwind {\nb0:\n  ret [2 x i64] %v1\n}\n"
    )
    assert "define void @k([2 x i32] %v1.in, i32 %v2) nounwind {\nb0:\n  %v1.memory = alloca [2 x i32]" in text
    for fact in (
        '!{void ([2 x i32], i32)* @k, !"kernel", i32 1}',
        '!{void ([2 x i32], i32)* @k, !"maxntidx", i32 128}',
        '!{[2 x i64] ([2 x i64])* @f, !"align", i32 16}',
        '!{[2 x i64] ([2 x i64])* @f, !"align", i32 65552}',
    ):
        assert fact in text


@pytest.fixture(scope="module")
def arithmetic():
    """Functions of bfloats, translated, and compiled for this machine: what has no pointers means the same to any LLVM."""
    text = "".join(
        f"define bfloat @{name}(bfloat %a, bfloat %b) {{\nb0:\n  %r = {name} bfloat %a, %b\n  ret bfloat %r\n}}\n"
        for name in ("fadd", "fsub", "fmul", "fdiv")
    )
    text += "define bfloat @round(float %a) {\nb0:\n  %r = fptrunc float %a to bfloat\n  ret bfloat %r\n}\n"
    text += "define bfloat @negate(bfloat %a) {\nb0:\n  %r = fneg contract bfloat %a\n  ret bfloat %r\n}\n"
    text += "".join(
        f"define {wide} @to_{wide}(bfloat %a) {{\nb0:\n  %r = fpext bfloat %a to {wide}\n  ret {wide} %r\n}}\n"
        for wide in ("float", "double")
    )
    text += "".join(
        f"define i1 @{how}(bfloat %a, bfloat %b) {{\nb0:\n  %r = fcmp {how} bfloat %a, %b\n  ret i1 %r\n}}\n"
        for how in ("oeq", "olt", "une")
    )
    text = "\n".join(line for line in ltoir.translate(text).splitlines() if not line.startswith(("target", "!")))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    compiler = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    return compiler


def call(compiler, name, result, *types):
    from ctypes import CFUNCTYPE

    return CFUNCTYPE(result, *types)(compiler.get_function_address(name))


def test_bfloat_as_an_integer_rounds_as_bfloat(arithmetic):
    from ctypes import c_float, c_uint16

    rng = np.random.default_rng(3)
    edges = np.array([0, 0x8000, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1, 0x7F81, 0xFFC0], np.uint16)
    bits = np.concatenate([edges, rng.integers(0, 1 << 16, 500, np.uint16)])
    a, b = (x.ravel() for x in np.meshgrid(bits[:120], bits[-120:]))
    a = np.concatenate([a, np.repeat(edges, len(edges))])
    b = np.concatenate([b, np.tile(edges, len(edges))])
    with np.errstate(all="ignore"):
        for name, operation in (("fadd", np.add), ("fsub", np.subtract), ("fmul", np.multiply), ("fdiv", np.divide)):
            f = call(arithmetic, name, c_uint16, c_uint16, c_uint16)
            got = np.array([f(int(x), int(y)) for x, y in zip(a, b, strict=True)], np.uint16).view(ml_dtypes.bfloat16)
            right = operation(a.view(ml_dtypes.bfloat16), b.view(ml_dtypes.bfloat16))
            assert np.array_equal(got.astype(np.float32), right.astype(np.float32), equal_nan=True), name
    floats = rng.integers(0, 1 << 32, 4000, np.uint32).view(np.float32)
    f = call(arithmetic, "round", c_uint16, c_float)
    got = np.array([f(float(x)) for x in floats], np.uint16).view(ml_dtypes.bfloat16)
    assert np.array_equal(got.astype(np.float32), floats.astype(ml_dtypes.bfloat16).astype(np.float32), equal_nan=True)


def test_bfloat_as_an_integer_converts_negates_and_compares_as_bfloat(arithmetic):
    from ctypes import c_bool, c_double, c_float, c_uint16

    edges = np.array([0, 0x8000, 1, 0x7F, 0x80, 0x3F80, 0xBF81, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1], np.uint16)
    values = edges.view(ml_dtypes.bfloat16).astype(np.float64)
    for name, type in (("to_float", c_float), ("to_double", c_double)):
        f = call(arithmetic, name, type, c_uint16)
        np.testing.assert_array_equal([f(int(x)) for x in edges], values, name)
    f = call(arithmetic, "negate", c_uint16, c_uint16)
    assert [f(int(x)) for x in edges] == [int(x) ^ 0x8000 for x in edges]
    for name, compare in (("oeq", np.equal), ("olt", np.less), ("une", np.not_equal)):
        f = call(arithmetic, name, c_bool, c_uint16, c_uint16)
        got = [[f(int(x), int(y)) for y in edges] for x in edges]
        np.testing.assert_array_equal(got, compare.outer(values, values), name)


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_100"])
def test_line_information_is_no_obstacle(target):
    """The language of LLVM 7 gets none."""

    @device.kernel(lineinfo=True)
    def kernel(out, n):
        out[0] = n
        print("n is", n)

    made = device.compile(kernel, device.ArrayType(device.int32, 1), int, target=target, output="ltoir")
    assert made.code.startswith(MAGIC)


@pytest.mark.parametrize("flag", [*FASTMATH, "fast"])
def test_every_flag_of_fast_mathematics_is_taken(flag):
    """In front of functions, sums, quotients, negations and comparisons of every type."""

    @device.kernel(fastmath=[flag])
    def k(arrays):
        i = device.tid(1)
        for x, out in arrays:
            v = np.floor(x[i]) + np.rint(x[i]) * device.fma(x[i], x[i], -x[i])
            out[i] = -np.sqrt(abs(v)) / x[i] if v < x[i] else np.exp(v) - np.copysign(v, x[i])

    arrays = tuple((np.ones(4, dtype),) * 2 for dtype in (np.float16, np.float32, np.float64))
    assert device.compile(k, arrays, target="sm_80", output="ltoir").code.startswith(MAGIC)
