"""LLVM IR of device functions for the CPU."""

import pytest
from filecheck import check
from ir_helpers import read
from test_to_llvm import IR, SM_90, program_of, with_kernel

from cuda_device.codegen.emit import to_llvm
from cuda_device.codegen.gpu import nvptx
from cuda_device.codegen.gpu.nvptx_dialect import Nvptx
from cuda_device.cpu.cpu_dialect import Cpu


@pytest.mark.parametrize("text", IR.values(), ids=IR)
def test_device_ir_for_the_cpu(text: str) -> None:
    """The same functions, with the thread as their first parameter."""
    module = with_kernel(program_of(text))
    module.functions[1].kernel = False
    llvm = to_llvm.run(module, Cpu(module)).text
    check(llvm, "CHECK: @device.f({{.*}}ptr {{.*}}%thread", "CHECK")
    nvptx.parse(llvm)


@pytest.mark.parametrize("type", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_halves_become_integers_by_way_of_floats_on_the_cpu(type: str) -> None:
    """With AVX512-FP16 LLVM 22 makes -32768 of NaN as an int16."""
    text = f"""
    func @f -> {type} device {{
    ^0(%h: float16, %b: bfloat16):
      %1: {type} = convert %b
      %2: {type} = convert %h
      return %2
    }}
    """
    name = f"llvm.fpto{'u' if type[0] == 'u' else 's'}i.sat.i{type.lstrip('uint')}"
    module = with_kernel(text)
    check(
        to_llvm.run(module, Cpu(module)).text,
        f"""
        CHECK:      call {{{{.*}}}} @{name}.bf16(bfloat %v2)
        CHECK:      [[WIDE:%v\\d+]] = fpext half %v1 to float
        CHECK-NEXT: call {{{{.*}}}} @{name}.f32(float [[WIDE]])
        """,
        "CHECK",
    )
    module = read(text)
    check(to_llvm.run(module, Nvptx(module, SM_90)).text, f"CHECK: @{name}.f16(half %v1)", "CHECK")
