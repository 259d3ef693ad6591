"""From device IR to LLVM IR and PTX: the lines that matter, named beside the program that they come from.

Fast code is what these tests are about: no double precision where none was asked for, no divisions or comparisons that
nothing needs, one instruction for a barrier.
"""

from __future__ import annotations

import math
import re
import textwrap
from typing import Any

import pytest
from filecheck import check
from ir_helpers import job, read
from ir_programs import IDS, PROGRAMS

import cuda_device as device
from cuda_device import ArrayType, compiler
from cuda_device.codegen.emit import to_llvm
from cuda_device.codegen.gpu import nvptx
from cuda_device.codegen.gpu.nvptx_dialect import Nvptx

F16, F32, F64 = (ArrayType(t, 1) for t in (device.float16, device.float32, device.float64))
I32, U32 = ArrayType(device.int32, 1), ArrayType(device.uint32, 1)


# Kernels, from Python to PTX: (kernel, arguments). Docstrings are the checks.


@device.kernel
def saxpy(a, x, y, out):
    """
    LLVM-LABEL: define ptx_kernel void @saxpy(float %v1, ptr addrspace(1) %v2, i64 range(i64 0, -9223372036854775808) %v3,
    LLVM:       call range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
    LLVM:       call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
    LLVM:       call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
    LLVM:       mul nuw nsw i32
    LLVM:       add nuw nsw i32
    LLVM:       sext i32 {{.*}} to i64
    LLVM-NOT:   select
    LLVM:       getelementptr inbounds nuw float, ptr addrspace(1) %v2
    LLVM:       fmul contract float
    LLVM:       fadd contract float
    LLVM:       store float {{.*}} align 4

    PTX-LABEL:  .visible .entry saxpy(
    PTX:        mad.lo.s32
    PTX-NOT:    selp
    PTX:        ld.global.b32
    PTX:        ld.global.b32
    PTX:        fma.rn.f32
    PTX:        st.global.b32
    PTX-LABEL:  .visible .entry saxpy(
    PTX-NOT:    f64
    PTX-NOT:    bar.
    PTX-NOT:    call
    """
    i = device.tid(1)
    if i < len(out):
        out[i] = a * x[i] + y[i]


@device.kernel
def literals_and_functions_stay_float32(x):
    """
    PTX-LABEL: .entry literals_and_functions_stay_float32
    PTX-NOT:   f64
    PTX:       fma.rn.f32 {{.*}} 0f40200000, 0f3F800000;
    PTX-COUNT-2: sqrt.rn.f32
    PTX-NOT:   f64
    """
    i = device.thread_idx.x
    x[i] = x[i] * 2.5 + 1
    x[i + 2] = math.sqrt(x[i + 2]) + math.exp(x[i + 1]) * abs(math.sqrt(x[i + 2] * math.pi)) - max(x[i + 2], 0.5) / 3


@device.kernel
def square_root_and_quotient_are_exact(x, y):
    """
    PTX-LABEL: .entry square_root_and_quotient_are_exact
    PTX-NOT:   approx
    PTX-NOT:   full
    PTX:       sqrt.rn.f32
    PTX:       div.rn.f32
    PTX-NOT:   approx
    PTX:       sqrt.rn.f64
    PTX:       div.rn.f64
    PTX-NOT:   approx
    """
    i = device.thread_idx.x
    x[i] = math.sqrt(x[i]) / x[i + 1]
    y[i] = math.sqrt(y[i]) / y[i + 1]


@device.kernel
def fused(x, y):
    """
    PTX-LABEL: .entry fused
    PTX-NOT:   mul.{{.*}}f32
    PTX:       fma.rn.f32
    PTX-NOT:   mul.{{.*}}f32
    PTX:       fma.rn.f64
    PTX-NOT:   mul.{{.*}}f64

    STRICT-LABEL: .entry fused
    STRICT-NOT: fma
    STRICT:     mul.rn.f32
    STRICT:     add.rn.f32
    STRICT:     mul.rn.f64
    STRICT:     add.rn.f64
    STRICT-NOT: fma
    """
    i = device.thread_idx.x
    x[i] = x[i] * x[i + 1] + x[i + 2]
    y[i] = y[i] * y[i + 1] + y[i + 2]


@device.kernel
def int_division(x, n):
    """
    PTX-LABEL: .entry int_division
    PTX-NOT:   {{(div|rem)\\.[su]64}}
    PTX:       {{(div|rem)\\.[su]32}}
    PTX:       {{(div|rem)\\.[su]32}}
    PTX-NOT:   {{(div|rem)\\.[su]64}}
    """
    i = device.tid(1)
    x[i] = i // n + i % (n + 1) + (x[i] // 3) * (x[i] % 7)


@device.kernel
def division_by_a_constant(x):
    """
    PTX-LABEL: .entry division_by_a_constant
    PTX-NOT:   {{(div|rem)\\.}}
    PTX:       st.global
    PTX-NOT:   {{(div|rem)\\.}}
    """
    i = device.tid(1)
    x[i] = i // 8 + i % 16 + i // 10


@device.kernel
def known_indices(x, y):
    """
    The comparison with zero, and the sum with the length, that a negative index needs.

    LLVM-LABEL: @known_indices
    LLVM-NOT:   select
    LLVM-NOT:   icmp slt i64 {{.*}}, 0
    PTX-LABEL:  .entry known_indices
    PTX-NOT:    {{shr\\.s64|selp|setp}}
    """
    i = device.tid(1)
    t = device.thread_idx.x
    x[i] = x[i // 2] + y[t] + y[t + device.block_dim.x] + x[device.block_idx.y] + x[i % 7] + x[3]


@device.kernel
def unknown_index(x, y):
    """
    LLVM-LABEL: @unknown_index
    LLVM:       load i32
    LLVM:       sext i32 {{.*}} to i64
    LLVM:       icmp slt i64 {{.*}}, 0
    LLVM:       add nsw i64
    LLVM:       select i1
    LLVM:       getelementptr inbounds nuw float
    """
    x[y[0]] = 1


@device.kernel
def grid_stride(x, out):
    """
    One way round the loop: no second direction, no index from the end.

    LLVM-LABEL: @grid_stride
    LLVM-NOT:   icmp sgt
    LLVM-NOT:   icmp slt i64 {{.*}}, 0
    PTX-LABEL:  .entry grid_stride
    PTX-NOT:    shr.s64
    PTX:        [[LOOP:\\$L\\w+]]:
    PTX:        ld.global.b32
    PTX:        add{{.*}}f32
    PTX-NOT:    shr.s64
    PTX:        bra [[LOOP]];
    """
    total = 0
    for i in range(device.tid(1), len(x), device.grid_size(1)):
        total += x[i]
    out[device.tid(1)] = total


@device.kernel
def simple_loop(x, n):
    """
    LLVM-LABEL: @simple_loop
    LLVM:       phi i32
    LLVM-NOT:   select
    LLVM:       add nuw nsw i32 {{.*}}, 1
    LLVM-NOT:   select
    LLVM:       ret void
    """
    for i in range(n):
        x[i] = i


@device.kernel
def difference_of_lengths(x, n):
    """The difference of two numbers that are never below zero may be.

    LLVM-LABEL: @difference_of_lengths
    LLVM:       sub nsw i64
    LLVM-NOT:   sub nuw
    LLVM:       ret void
    """
    x[0] = len(x) - device.tid(1)


@device.kernel
def syncs_once(x):
    """
    LLVM:      define ptx_kernel void @syncs_once({{.*}}) {{.*}}convergent {
    LLVM:      call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) convergent
    LLVM-NOT:  barrier
    PTX-LABEL: .entry syncs_once
    PTX-NOT:   bar
    PTX:       ld.global
    PTX:       bar.sync 0;
    PTX-NOT:   bar
    PTX-NOT:   membar
    PTX-NOT:   fence
    PTX:       st.global
    PTX-NOT:   bar
    """
    i = device.thread_idx.x
    value = x[i]
    device.syncthreads()
    x[i + 1] = value


def wait():
    device.syncthreads()


@device.func
def wait_and_read(x, i):
    wait()
    return x[i]


@device.kernel
def barrier_in_callees(x):
    """
    LLVM: define ptx_kernel void @barrier_in_callees({{.*}}) {{.*}}convergent {
    LLVM: call float @device_wait_and_read({{.*}}) convergent
    LLVM: define internal float @device_wait_and_read({{.*}}) {{.*}}convergent {
    LLVM: call void @device_wait() convergent
    LLVM: define internal void @device_wait() {{.*}}convergent {
    PTX-LABEL: .entry barrier_in_callees
    PTX-COUNT-2: bar.sync 0;
    PTX-NOT:   bar.sync
    """
    i = device.thread_idx.x
    x[i] = wait_and_read(x, i + 1) + wait_and_read(x, i + 2)


@device.kernel
def barriers_on_both_ways(x, n):
    """
    Two barriers in the text stay two: threads on different ways must not meet, and none may be moved out.

    OPT-LABEL: @barriers_on_both_ways
    OPT:       call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
    OPT:       call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
    OPT-NOT:   call void @llvm.nvvm.barrier
    """
    i = device.thread_idx.x
    if i < n:
        x[i] = 1
        device.syncthreads()
    else:
        x[i] = 2
        device.syncthreads()
    x[i] += x[0]


@device.kernel
def shared_tile(x):
    """
    LLVM:      @shared_0 = internal addrspace(3) global [1152 x i8] undef, align 16
    LLVM:      @shared_1 = internal addrspace(3) global [8 x i8] undef, align 8
    LLVM:      getelementptr inbounds nuw float, ptr addrspace(3) @shared_0, i64
    PTX-LABEL: .entry shared_tile
    PTX:       .shared .align 16 .b8 shared_0[1152];
    PTX:       st.shared.b32
    PTX:       ld.shared.b64
    PTX-NOT:   cvta
    """
    tile = device.shared_array((16, 18), device.float32, align=16)
    flag = device.shared_array(1, device.int64)
    i = device.thread_idx.x
    tile[i, i] = x[i]
    if i == 0:
        flag[0] = 1
    device.syncthreads()
    x[i] = tile[i, 0] + flag[0]


@device.kernel
def ranges_of_registers(x):
    """
    LLVM: range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
    LLVM: range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.y()
    LLVM: range(i32 0, 64) i32 @llvm.nvvm.read.ptx.sreg.tid.z()
    LLVM: range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
    LLVM: range(i32 0, 65535) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
    LLVM: range(i32 0, 65535) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
    LLVM: range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
    LLVM: range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
    LLVM: range(i32 1, 65) i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
    LLVM: range(i32 1, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
    LLVM: range(i32 1, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
    LLVM: range(i32 1, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
    """
    t, b, n, g = device.thread_idx, device.block_idx, device.block_dim, device.grid_dim
    x[0] = t.x + t.y + t.z + b.x + b.y + b.z + n.x + n.y + n.z + g.x + g.y + g.z


@device.kernel
def aggregates_are_registers(x, pair):
    """
    OPT-LABEL: @aggregates_are_registers
    OPT-NOT:   alloca
    OPT-NOT:   insertvalue
    OPT-NOT:   extractvalue
    PTX-LABEL: .entry aggregates_are_registers
    PTX-NOT:   .local
    PTX-NOT:   local
    """
    i = device.tid(1)
    items = (x[i], x[i + 1], pair[0])
    total = 0
    for item in items:
        total += item
    x[i] = total * pair[1]


@device.kernel
def float16_computes_in_float32(h):
    """
    PTX-LABEL: .entry float16_computes_in_float32
    PTX-NOT:   f64
    PTX:       sqrt.rn.f32
    PTX:       cvt.rn.f16.f32
    PTX-NOT:   f64
    """
    h[0] = math.sqrt(h[0])


@device.kernel
def double_only_where_it_is_meant(x, y):
    """
    PTX-LABEL: .entry double_only_where_it_is_meant
    PTX:       ld.global.b32
    PTX:       cvt.f64.f32
    PTX:       mul{{.*}}.f64 {{.*}}, 0d3FB999999999999A;
    PTX:       st.global.b64
    """
    y[0] = device.float64(x[0]) * 0.1


@device.kernel
def shifts_by_constants(x, u):
    """
    LLVM-LABEL: @shifts_by_constants
    LLVM-NOT:   select
    LLVM:       shl i32 {{.*}}, 3
    LLVM:       ashr i32 {{.*}}, 2
    LLVM:       lshr i32 {{.*}}, 5
    LLVM-NOT:   select
    """
    x[0] = (x[1] << 3) + (x[2] >> 2)
    u[0] = u[1] >> 5


@device.kernel
def column_major(f, s):
    """
    LLVM-LABEL: @column_major
    LLVM:       mul nuw nsw i64
    LLVM:       getelementptr inbounds nuw float
    LLVM:       mul nsw i64
    LLVM:       mul nsw i64
    LLVM:       getelementptr inbounds i8
    LLVM-NOT:   select
    """
    i, j = device.thread_idx.x, device.thread_idx.y
    f[i, j] = 1
    s[i, j] = 2


KERNELS: list[tuple[Any, tuple[Any, ...]]] = [
    (saxpy, (device.float32, F32, F32, F32)),
    (literals_and_functions_stay_float32, (F32,)),
    (square_root_and_quotient_are_exact, (F32, F64)),
    (fused, (F32, F64)),
    (int_division, (I32, int)),
    (division_by_a_constant, (I32,)),
    (known_indices, (F32, F32)),
    (unknown_index, (F32, I32)),
    (grid_stride, (F32, F32)),
    (simple_loop, (I32, int)),
    (difference_of_lengths, (F32, int)),
    (syncs_once, (F32,)),
    (barrier_in_callees, (F32,)),
    (barriers_on_both_ways, (F32, int)),
    (shared_tile, (F32,)),
    (ranges_of_registers, (U32,)),
    (aggregates_are_registers, (F32, tuple[device.float32, int])),
    (float16_computes_in_float32, (F16,)),
    (double_only_where_it_is_meant, (F32, F64)),
    (shifts_by_constants, (I32, U32)),
    (column_major, (ArrayType(device.float32, 2, "F"), ArrayType(device.float32, 2, "strided"))),
]


@pytest.mark.parametrize(("kernel", "types"), KERNELS, ids=[kernel.underlying.__name__ for kernel, _ in KERNELS])
def test_kernel(kernel: Any, types: tuple[Any, ...]) -> None:
    """Every prefix that the docstring has."""
    stages = {"LLVM": ("llvm", True), "OPT": ("optimised", True), "PTX": ("ptx", True), "STRICT": ("ptx", False)}
    checked = 0
    for prefix, (stage, contract) in stages.items():
        if re.search(rf"^\s*{prefix}[-:]", kernel.__doc__, re.MULTILINE):
            check(text_of(kernel, types, stage, contract), kernel, prefix)
            checked += 1
    assert checked


def text_of(kernel: Any, types: tuple[Any, ...], stage: str, contract: bool = True) -> str:
    """A stage's artifact for sm_90."""
    work = compiler.run(job(kernel, *types, contract=contract), stage)
    shown = next(each.show for each in compiler.GPU if each.name == stage)
    text = shown(work[stage])
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(("program", "types"), PROGRAMS, ids=IDS)
def test_no_double_precision_unless_asked_for(program: Any, types: tuple[Any, ...]) -> None:
    asked = any("float64" in str(part) for part in types)
    text = text_of(program, types, "llvm")
    assert ("double" in text) == asked


# From device IR to LLVM IR: (IR, checks)

SM_90 = job(lambda: None, target="sm_90").target.architecture

IR = {
    "integer sums wrap unless they are exact": (
        """
        func @f -> int32 device {
        ^0(%a: int32, %b: uint32, %n: int32 nonneg):
          %1: int32 = add %a %a
          %2: int32 = add {exact=True} %a %1
          %3: int32 = sub {exact=True} %n %2
          %4: int32 = mul {exact=True} %n %n
          %5: uint32 = mul {exact=True} %b %b
          %6: int32 = convert %5
          %7: int32 = add %6 %3
          %8: int32 = add %7 %4
          return %8
        }
        """,
        """
        CHECK-LABEL: define i32 @f(i32 %v1, i32 %v2, i32 range(i32 0, -2147483648) %v3)
        CHECK-NEXT:  b0:
        CHECK-NEXT:  %v4 = add i32 %v1, %v1
        CHECK-NEXT:  %v5 = add nsw i32 %v1, %v4
        CHECK-NEXT:  %v6 = sub nsw i32 %v3, %v5
        CHECK-NEXT:  %v7 = mul nuw nsw i32 %v3, %v3
        CHECK-NEXT:  %v8 = mul nuw i32 %v2, %v2
        CHECK-NEXT:  add i32 %v8, %v6
        CHECK:       ret i32
        """,
    ),
    "a divisor that may be zero or minus one is made harmless": (
        """
        func @f -> int32 device {
        ^0(%a: int32, %b: int32):
          %1: int32 = quotient %a %b
          %2: int32 = remainder %1 %b
          return %2
        }
        """,
        """
        CHECK:      [[ABOVE:%v\\d+]] = add i32 %v2, 1
        CHECK-NEXT: [[BAD:%v\\d+]] = icmp ult i32 [[ABOVE]], 2
        CHECK-NEXT: [[SAFE:%v\\d+]] = select i1 [[BAD]], i32 1, i32 %v2
        CHECK-NEXT: [[PLAIN:%v\\d+]] = sdiv i32 %v1, [[SAFE]]
        CHECK-NEXT: [[IS:%v\\d+]] = icmp eq i32 %v2, -1
        CHECK-NEXT: [[NEGATED:%v\\d+]] = sub i32 0, %v1
        CHECK-NEXT: [[Q:%v\\d+]] = select i1 [[IS]], i32 [[NEGATED]], i32 [[PLAIN]]
        CHECK:      srem i32 [[Q]], {{%v\\d+}}
        """,
    ),
    "a division by a constant needs no care, one of what is not negative is unsigned": (
        """
        func @f -> int32 device {
        ^0(%a: int32, %n: int32 nonneg, %m: int32 nonneg):
          %1: int32 nonneg = const {value=3}
          %2: int32 = quotient %a %1
          %3: int32 nonneg = quotient %n %1
          %4: int32 nonneg = remainder %n %m
          %5: int32 = add %2 %3
          %6: int32 = add %5 %4
          return %6
        }
        """,
        """
        CHECK:      = sdiv i32 %v1, 3
        CHECK-NEXT: = udiv i32 %v2, 3
        CHECK-NEXT: = icmp eq i32 %v3, 0
        CHECK-NEXT: = select
        CHECK-NEXT: = urem i32 %v2,
        CHECK-NOT:  select
        """,
    ),
    "conversions between numbers": (
        """
        func @f -> none device {
        ^0(%a: int32, %n: int32 nonneg, %u: uint32, %x: float32, %b: bool, %r: ref<global, bool>):
          %1: int64 = convert %a
          %2: int64 nonneg = convert %n
          %3: int64 = convert %u
          %4: int8 = convert %1
          %5: int32 = convert %u
          %6: float32 = convert %a
          %7: float32 = convert %u
          %8: float32 = convert %n
          %9: float64 = convert %x
          %10: float16 = convert %9
          %11: int32 = convert %x
          %12: uint8 = convert %9
          %13: bool = convert %x
          %14: bool = convert %a
          %15: int32 = convert %b
          store %r %13
          %16: bool = load %r
          return
        }
        """,
        """
        CHECK:      sext i32 %v1 to i64
        CHECK-NEXT: sext i32 %v2 to i64
        CHECK-NEXT: zext i32 %v3 to i64
        CHECK-NEXT: trunc i64 {{.*}} to i8
        CHECK-NEXT: sitofp i32 %v1 to float
        CHECK-NEXT: uitofp i32 %v3 to float
        CHECK-NEXT: uitofp {{(nneg )?}}i32 %v2 to float
        CHECK-NEXT: fpext float %v4 to double
        CHECK-NEXT: fptrunc double {{.*}} to half
        CHECK-NEXT: call i32 @llvm.fptosi.sat.i32.f32(float %v4)
        CHECK-NEXT: call i8 @llvm.fptoui.sat.i8.f64(double
        CHECK-NEXT: fcmp une float %v4, 0
        CHECK-NEXT: icmp ne i32 %v1, 0
        CHECK-NEXT: zext i1 %v5 to i32
        CHECK-NEXT: [[BYTE:%v\\d+]] = zext i1 {{.*}} to i8
        CHECK-NEXT: store i8 [[BYTE]], ptr addrspace(1) %v6, align 1
        CHECK-NEXT: [[LOADED:%v\\d+]] = load i8, ptr addrspace(1) %v6, align 1
        CHECK-NEXT: icmp ne i8 [[LOADED]], 0
        CHECK-NEXT: ret void
        """,
    ),
    "comparisons follow the type": (
        """
        func @f -> bool device {
        ^0(%a: int32, %u: uint32, %x: float32):
          %1: bool = compare {op="<"} %a %a
          %2: bool = compare {op=">="} %u %u
          %3: bool = compare {op="!="} %x %x
          %4: bool = compare {op="=="} %x %x
          %5: bool = compare {op="<="} %x %x
          %6: bool = and %1 %2
          %7: bool = or %3 %4
          %8: bool = xor %5 %6
          %9: bool = select %8 %7 %6
          return %9
        }
        """,
        """
        CHECK:      icmp slt i32
        CHECK-NEXT: icmp uge i32
        CHECK-NEXT: fcmp une float
        CHECK-NEXT: fcmp oeq float
        CHECK-NEXT: fcmp ole float
        CHECK-NEXT: and i1
        CHECK-NEXT: or i1
        CHECK-NEXT: xor i1
        CHECK-NEXT: select i1 {{.*}}, i1 {{.*}}, i1
        """,
    ),
    "parameters of blocks are phis, with the blocks that pass the arguments": (
        """
        func @f -> int32 device {
        ^0(%n: int32, %c: bool):
          %1: int32 nonneg = const {value=0}
          branch %c ^1(%1) ^2(%n)
        ^1(%i: int32):
          %2: int32 = add %i %n
          %3: bool = compare {op="<"} %2 %n
          branch %3 ^1(%2) ^2(%i)
        ^2(%r: int32):
          return %r
        }
        """,
        """
        CHECK:      br i1 %v2, label %b1, label %b2
        CHECK-NEXT: b1:
        CHECK-NEXT: [[I:%v\\d+]] = phi i32 [ 0, %b0 ], [ [[NEXT:%v\\d+]], %b1 ]
        CHECK-NEXT: [[NEXT]] = add i32 [[I]], %v1
        CHECK:      b2:
        CHECK-NEXT: phi i32 [ %v1, %b0 ], [ [[I]], %b1 ]
        """,
    ),
    "several results are one struct": (
        """
        func @f -> tuple<int32, float32> device {
        ^0(%n: int32, %x: float32):
          %1: tuple<int32, float32> = make %n %x
          %2: float32 = field {index=1} %1
          %3: tuple<int32, float32> = call {callee="g"} %n %2
          return %3
        }
        func @g -> tuple<int32, float32> device {
        ^0(%n: int32, %x: float32):
          %1: tuple<int32, float32> = make %n %x
          return %1
        }
        """,
        """
        CHECK-LABEL: define { i32, float } @f(
        CHECK:       insertvalue { i32, float } poison, i32 %v1, 0
        CHECK:       extractvalue { i32, float }
        CHECK:       call { i32, float } @device_g(i32 %v1, float
        CHECK:       ret { i32, float }
        CHECK:       define internal { i32, float } @device_g(
        """,
    ),
    "a kernel's bool is a byte": (
        """
        func @f -> none kernel device {
        ^0(%b: bool, %r: ref<global, bool>):
          store %r %b
          return
        }
        """,
        """
        CHECK:      define ptx_kernel void @f(i8 %v1.wide, ptr addrspace(1) %v2)
        CHECK:      %v1 = icmp ne i8 %v1.wide, 0
        CHECK:      ret void
        """,
    ),
    "an unreachable end": (
        """
        func @f -> int32 device {
        ^0():
          unreachable
        }
        """,
        "CHECK: unreachable",
    ),
}


@pytest.mark.parametrize(("text", "checks"), IR.values(), ids=IR)
def test_device_ir(text: str, checks: str) -> None:
    module = read(text)
    llvm = to_llvm.run(module, Nvptx(module, SM_90)).text
    check(llvm, checks, "CHECK")
    nvptx.parse(llvm)


def with_kernel(text: str) -> Any:
    """The functions of a text, behind an empty kernel."""
    return read("func @k -> none kernel device {\n^0():\n  return\n}\n" + textwrap.dedent(text))


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("int32", [0, -1, -(2**31), 2**31 - 1]),
        ("uint8", [0, 255]),
        ("uint64", [2**64 - 1]),
        ("bool", [True, False]),
        ("float32", [0.0, -0.0, 0.1, math.inf, -math.inf, math.nan, 1e-45, 3.5e38, 1e39]),
        ("float64", [0.1, 5e-324, 1.8e308, math.nan]),
        ("float16", [0.1, 65504.0, 1e6, 6e-8]),
    ],
)
def test_constants_are_literals_that_llvm_reads(type: str, values: list[Any]) -> None:
    lines, stored = [], []
    for i, value in enumerate(values):
        shown = repr(value) if not isinstance(value, float) or math.isfinite(value) else f"float('{value}')"
        lines.append(f"  %{i}: {type} = const {{value={shown}}}")
        stored.append(f"  store %r %{i}")
    text = "\n".join([f"func @f -> none device {{\n^0(%r: ref<global, {type}>):", *lines, *stored, "  return\n}\n"])
    module = read(text)
    nvptx.parse(to_llvm.run(module, Nvptx(module, SM_90)).text)


# The checks themselves

TEXT = """\
first  a=1
second a=2
third  b=1
fourth a=1
"""


@pytest.mark.parametrize(
    "checks",
    [
        "CHECK: third\nCHECK: first",
        "CHECK: first\nCHECK-NEXT: third",
        "CHECK: fifth",
        "CHECK-NOT: third",
        "CHECK: first\nCHECK-NOT: a=2\nCHECK: third",
        "CHECK: third\nCHECK-NOT: a=1",
        "CHECK: a=[[N:\\d]]\nCHECK: a=[[N]]\nCHECK: b=[[N]]",
        "OTHER: first",
        "CHECK-COUNT-4: a=",
    ],
)
def test_checks_that_do_not_hold(checks: str) -> None:
    with pytest.raises(AssertionError):
        check(TEXT, checks, "CHECK")


@pytest.mark.parametrize("checks", ["CHECK-NXT: first", "CHECK: a=[[N]]"])
def test_checks_that_are_none(checks: str) -> None:
    with pytest.raises(ValueError, match="not a check|nothing is called"):
        check(TEXT, checks, "CHECK")
