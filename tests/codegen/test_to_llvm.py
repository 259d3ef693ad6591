"""From device IR to LLVM IR and PTX: the lines that matter, named below the program that they come from.

The programs are texts in `programs`: kernels with the types of their parameters as hints, and functions of device IR.

Fast code is what these tests are about: no double precision where none was asked for, no divisions or comparisons that
nothing needs, one instruction for a barrier.
"""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path
from typing import Any

import golden_pages
import pytest
from filecheck import check
from ir_helpers import define, job, read
from ir_programs import IDS, PROGRAMS

import cuda_device as device
from cuda_device import ArrayType, compiler
from cuda_device.codegen.emit import to_llvm
from cuda_device.codegen.gpu import nvptx
from cuda_device.codegen.gpu.nvptx_dialect import Nvptx

FOLDER = Path(__file__).with_name("programs")
KERNELS = golden_pages.texts_in(FOLDER / "kernels.txt")
IR = golden_pages.texts_in(FOLDER / "device_ir.txt")
STAGES = {"LLVM": ("llvm", True), "OPT": ("optimised", True), "PTX": ("ptx", True), "STRICT": ("ptx", False)}
"""The prefixes of checks: a stage of the compiler, and whether products and sums are contracted."""
NAMES = {
    "F16": ArrayType(device.float16, 1), "F32": ArrayType(device.float32, 1), "F64": ArrayType(device.float64, 1),
    "I32": ArrayType(device.int32, 1), "U32": ArrayType(device.uint32, 1), "ArrayType": ArrayType, "float32": device.float32,
}  # fmt: skip


@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_kernel(text: str) -> None:
    """With every prefix that its checks have."""
    kernel = device.kernel(define(program_of(text), **NAMES))
    prefixes = [prefix for prefix in STAGES if re.search(rf"^{prefix}[-:]", text, re.MULTILINE)]
    assert prefixes
    for prefix in prefixes:
        check(text_of(kernel, tuple(kernel.underlying.__annotations__.values()), *STAGES[prefix]), text, prefix)


def program_of(text: str) -> str:
    """A text without its checks."""
    return re.sub(rf"^({'|'.join(STAGES)}|CHECK)[-:].*\n", "", text, flags=re.MULTILINE)


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


# From device IR to LLVM IR

SM_90 = job(lambda: None, target="sm_90").target.architecture


@pytest.mark.parametrize("text", IR.values(), ids=IR)
def test_device_ir(text: str) -> None:
    module = read(program_of(text))
    llvm = to_llvm.run(module, Nvptx(module, SM_90)).text
    check(llvm, text, "CHECK")
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
