"""From LLVM text to machine code in the process, and what the kernels on the CPU look like there."""

import ctypes
import math
import re
import struct

import llvmlite.binding as llvm
import numpy as np
import pytest
from cpu_kernels import DIALECT, assembled, compiled, packed, registers, reversal, run, run_reversal
from ir_helpers import stage

import cuda_device as device
from cuda_device.codegen import llvm as llvm_api
from cuda_device.codegen.gpu import elf
from cuda_device.cpu import cpu_executor, machine_code, native, records
from cuda_device.errors import CompilerBug


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_DEVICE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return compiled(reversal, device.ArrayType(device.int32, 1), 5)


SAXPY = (
    registers("thread_idx.x", "block_idx.x", "block_dim.x")
    + """\
  %first = mul i32 %block_idx.x, %block_dim.x
  %i = add i32 %first, %thread_idx.x
  %wide = zext i32 %i to i64
  %inside = icmp slt i64 %wide, %n
  br i1 %inside, label %work, label %finish
work:
  %x.at = getelementptr float, ptr %x, i64 %wide
  %y.at = getelementptr float, ptr %y, i64 %wide
  %x.value = load float, ptr %x.at
  %y.value = load float, ptr %y.at
  %product = fmul FLAGS float %a, %x.value
  %sum = fadd FLAGS float %product, %y.value
  store float %sum, ptr %y.at
  br label %finish
"""
)


def optimised(code):
    """LLVM IR as the code generator saw it."""
    return str(native.optimised(code.ir, code._level))


def saxpy(flags=""):
    return assembled(SAXPY.replace("FLAGS", flags), ["float", "ptr", "ptr", "i64"], ["a", "x", "y", "n"])


def test_a_plain_kernel_is_vectorised_over_its_threads():
    code = saxpy()
    assert re.search(r"fmul <\d+ x float>", optimised(code))
    assert "%Thread" not in re.sub(r"(?m)^%.*", "", optimised(code)), "the thread's record is still in memory"
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    parameters = packed("@fPPq", 2.0, x.ctypes.data, y.ctypes.data, 990)
    run(code, (4, 1, 1), (256, 1, 1), parameters, may_run_long=False)
    assert (y == np.where(np.arange(1000) < 990, 2 * x + 1, 1)).all()


def test_multiply_and_add_fuse_only_where_both_allow_it():
    code = saxpy()
    assert "vfmadd" not in code.assembly and "fmla" not in code.assembly
    x, y = np.full(64, 1 + 2**-12, np.float32), np.full(64, -(1 + 2**-11), np.float32)
    fused = saxpy("contract")
    expected = {code: np.float32(0), fused: np.float32(2**-24) if "fmadd" in fused.assembly else np.float32(0)}
    for native_code, value in expected.items():
        result = y.copy()
        parameters = packed("@fPPq", 1 + 2**-12, x.ctypes.data, result.ctypes.data, 64)
        run(native_code, (1, 1, 1), (64, 1, 1), parameters)
        assert (result == value).all()


def test_the_records_are_the_same_in_both_languages():

    text = DIALECT.preamble() + "".join(f"@{r.name[1:]} = external global {r.name}\n" for r in records.RECORDS)
    parsed = llvm.parse_assembly(text)
    data = llvm.create_target_data(native._machine(2).data_layout)
    for record in records.RECORDS:
        type = parsed.get_global_variable(record.name[1:]).global_value_type
        structure = cpu_executor._structure(record)
        assert ctypes.sizeof(structure) == data.get_abi_size(type)
        for i, name in enumerate(record.fields):
            assert getattr(structure, name).offset == record.offset(name) == data.get_element_offset(type, i)


def test_functions_of_the_host_can_be_given():
    heard = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int)(heard.append)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    body = "  call void @hear(i32 %n)\n  br label %finish\n"
    code = assembled(body, ["i32"], ["n"], "declare void @hear(i32)\n", {"hear": address})
    run(code, (3, 1, 1), (2, 1, 1), packed("@i", 5))
    assert heard == [5] * 6


def test_what_llvm_refuses_is_a_bug_with_its_line(capfd):
    with pytest.raises(CompilerBug, match=r"(?s)\n  %x = nonsense i32 1\n"):
        assembled("  %x = nonsense i32 1\n  br label %finish\n")
    with pytest.raises(CompilerBug, match=r"unknown functions: \['nowhere'\]"):
        assembled("  call void @nowhere()\n  br label %finish\n", extra="declare void @nowhere()\n")
    assert capfd.readouterr().err == ""


def test_object_code_can_be_loaded_again(code):
    again = machine_code.load_native(code.object_code)
    run_reversal(again, (4, 1, 1), (64, 1, 1))
    assert again.assembly == ""
    assert "@cuda_device.block" in optimised(code) and ".globl" in code.assembly


DATA = """
@count = global i64 5
@table = internal constant [2 x ptr] [ptr @one, ptr @two]
@zeros = internal global [3 x i64] zeroinitializer
define i64 @one() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}
define i64 @two() {
  %p = getelementptr i64, ptr @zeros, i64 2
  %old = load i64, ptr %p
  %new = add i64 %old, 10
  store i64 %new, ptr %p
  ret i64 %new
}
define i64 @call(i64 %i) {
  %at = getelementptr ptr, ptr @table, i64 %i
  %function = load ptr, ptr %at
  %result = call i64 %function()
  ret i64 %result
}
define double @far(double %x) {
  %result = call double @elsewhere(double %x)
  ret double %result
}
declare double @elsewhere(double)
"""


def test_data_tables_of_addresses_and_functions_far_away():
    twice = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: 2 * x)
    address = ctypes.cast(twice, ctypes.c_void_p).value
    code = machine_code.compile_native(DATA, {"elsewhere": address}, level=0, exports=("call", "far"))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("call"))
    assert [call(0), call(1), call(0), call(1)] == [6, 10, 7, 20]
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("far"))(1.5) == 3.0


def test_sixteen_bit_conversions_round_once():
    declared = (
        "declare half @__truncdfhf2(double)\ndeclare half @__truncsfhf2(float)\ndeclare float @__extendhfsf2(half)\n"
    )
    declared += "declare bfloat @__truncdfbf2(double)\ndeclare bfloat @__truncsfbf2(float)\n"
    body = registers("block_idx.x", "thread_idx.x", "block_dim.x")
    body += "  %base = mul i32 %block_idx.x, %block_dim.x\n  %i = add i32 %base, %thread_idx.x\n"
    rows = [
        ("d", "double", "half", "__truncdfhf2"),
        ("f", "float", "half", "__truncsfhf2"),
        ("h", "half", "float", "__extendhfsf2"),
    ]
    rows += [("e", "double", "bfloat", "__truncdfbf2"), ("g", "float", "bfloat", "__truncsfbf2")]
    for name, source, target, function in rows:
        body += f"""\
  %{name}.in = getelementptr {source}, ptr %{name}, i32 %i
  %{name}.value = load {source}, ptr %{name}.in
  %{name}.result = call {target} @{function}({source} %{name}.value)
  %{name}.at = getelementptr {target}, ptr %{name}.out, i32 %i
  store {target} %{name}.result, ptr %{name}.at
"""
    names = [name for row in rows for name in (row[0], f"{row[0]}.out")]
    code = assembled(body + "  br label %finish\n", ["ptr"] * 10, names, extra=declared)
    assert {row[3] for row in rows} == set(records.CONVERSIONS)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        # Between two neighbours, a hair to either side: where rounding twice goes wrong.
        middle = (halves.astype(np.float64) + np.roll(halves, 1).astype(np.float64)) / 2
        doubles = middle * (1 + np.resize([0, 2.0**-50, -(2.0**-50), 2.0**-20], middle.size))
        floats = doubles.astype(np.float32)
        inputs = [doubles, floats, halves, doubles, floats]
        outputs = [np.zeros(1 << 16, t) for t in (np.float16, np.float16, np.float32, np.uint16, np.uint16)]
        pointers = [array.ctypes.data for pair in zip(inputs, outputs, strict=True) for array in pair]
        run(code, (256, 1, 1), (256, 1, 1), packed("@10P", *pointers))
        np.testing.assert_array_equal(outputs[0], doubles.astype(np.float16))
        np.testing.assert_array_equal(outputs[1], floats.astype(np.float16))
        np.testing.assert_array_equal(outputs[2], halves.astype(np.float32))
        for source, words in ((doubles, outputs[3]), (floats.astype(np.float64), outputs[4])):
            near = [
                ((words + step).astype(np.uint32) << 16).view(np.float32).astype(np.float64) for step in (0, 1, 65535)
            ]
            errors = [np.abs(value - source) for value in near]
            finite = np.isfinite(source)
            assert not (errors[0] > errors[1])[finite].any() and not (errors[0] > errors[2])[finite].any()
            tie = (errors[0] == errors[1]) | (errors[0] == errors[2])
            assert not (words & 1)[tie & finite & (errors[0] != 0)].any() and np.isnan(near[0])[np.isnan(source)].all()


def test_pieces_that_are_made_quickly_do_the_same():
    ir = """
declare i64 @llvm.smax.i64(i64, i64)
define i64 @piece(i64 %a, i64 %b) {
  %place = alloca i64
  store i64 %a, ptr %place
  %less = icmp slt i64 %a, %b
  br i1 %less, label %then, label %end
then:
  %c = mul i64 %b, 1000003
  store i64 %c, ptr %place
  br label %end
end:
  %d = load i64, ptr %place
  %e = call i64 @llvm.smax.i64(i64 %d, i64 -7)
  ret i64 %e
}
"""
    objects = [native.compile_piece(ir, quick) for quick in (False, True)]
    assert objects[0] != objects[1]
    for code in objects:
        linked = llvm_api.link(code, {}, ["piece"])
        piece = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(linked.addresses["piece"])
        for a, b in ((1, 2), (2, 1), (-9, -8), (-8, -9), (5, 5)):
            assert piece(a, b) == max(b * 1000003 if a < b else a, -7)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_division_in_a_branch_that_is_the_same_in_each_pass(level):
    """LLVM's vectors of passes do it for the first pass alone."""

    @device.kernel(level=level)
    def kernel(x, out):
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                n, k = i - 6, j - 6
                out[i, j] = x[abs(n) % len(x)] if abs(n) < k else 7

    x, out = np.arange(31, 66, dtype=np.int32)[14:21], np.zeros((13, 40), np.int32)
    device.launch(kernel, x, out, grid=1, block=1, stream=device.cpu_stream())
    expected = [[int(x[abs(i) % 7]) if abs(i) < j else 7 for j in range(-6, 34)] for i in range(-6, 7)]
    assert out.tolist() == expected


# Another processor. Its code is made here, and not run.


@device.kernel
def of_many_kinds(x, halves, n):
    """Barriers, warps, atomics, small floats, division and mathematics: what differs between processors."""
    tile = device.shared_array(32, device.float32)
    t = device.thread_idx.x
    tile[t] = math.sin(x[t]) + float(halves[t])
    device.syncthreads()
    x[t] = device.shfl_xor_sync(-1, tile[31 - t], 1) / n
    halves[t] = device.bfloat16(x[t] // n)
    device.atomic_ref(x, 0).add(1.0)
    print("thread", t, x[t])


def test_llvm_makes_code_for_aarch64():
    floats, halves = device.ArrayType(device.float32, 1), device.ArrayType(device.bfloat16, 1)
    module = llvm_api.parse(stage("llvm", of_many_kinds, floats, halves, 3.0, on_cpu=True).text)
    api = llvm_api.load_llvm()
    for part in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
        getattr(api, f"InitializeAll{part}")()
    machine = llvm_api.Machine("aarch64-unknown-linux-gnu", "generic", "", 2)
    module.fit(machine)
    llvm_api.optimise(module, machine, 2)
    code = machine.object_code(module)
    assert struct.unpack_from("<4sB13xH", code)[::2] == (b"\x7fELF", 183)
    assert {"cuda_device.run"} <= {symbol.name for symbol in elf.symbols(code) if symbol.is_global and symbol.section}
