"""What the options of a kernel become in LLVM IR for a GPU, and what reads its plain registers.

attributes(Options(max_threads=256), kernel=True)        ' "nvvm.maxntid"="256"'
"""

from __future__ import annotations

from cuda_device.device.options import Options
from cuda_device.ir import ops
from cuda_device.ir.nodes import Module
from cuda_device.types.architectures import FLUSH_DENORMALS_ATTRIBUTE, FLUSH_DENORMALS_FLAG

REGISTERS = {
    "dynamic_shared_bytes": "@llvm.nvvm.read.ptx.sreg.dynamic_smem_size",
    "hidden_zero": 'asm "mov.b32 $0, 0;", "=r"',
}
"""Special registers of which nothing is promised, and what reads them."""

_INTRINSICS = (
    *(f"i32 @llvm.nvvm.read.ptx.sreg.{name}.{axis}()" for name in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz"),
    "i32 @llvm.nvvm.read.ptx.sreg.dynamic_smem_size()",
    "void @llvm.nvvm.nanosleep(i32)",
    "void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent nounwind",
    "void @llvm.trap() noreturn nounwind",
    "void @llvm.nvvm.exit() noreturn nounwind",
)
"""What functions may call without saying so to their module."""


def declarations(text: str) -> list[str]:
    """Those of the intrinsics that a text calls: to LLVM's passes each one that is declared is a function to look at."""
    return [f"declare {line}" for line in _INTRINSICS if line[line.index("@") : line.index("(") + 1] in text]


def attributes(options: Options, kernel: bool) -> str:
    """What the definition of a function says."""
    bounds = {"maxntid": options.max_threads, "minctasm": options.min_blocks, "maxnreg": options.max_registers}
    given = [f' "nvvm.{name}"="{number}"' for name, number in bounds.items() if number and kernel]
    return "".join(given) + (f" {FLUSH_DENORMALS_ATTRIBUTE}" if "ftz" in options.fastmath else "")


def flags(options: Options) -> tuple[str, ...]:
    """What the module says: libdevice asks it."""
    return (FLUSH_DENORMALS_FLAG,) if "ftz" in options.fastmath else ()


def checked_barriers(options: Options, module: Module) -> list[int]:
    """In checked mode, the places of the barriers, which are checked."""
    found = (op for f in module.functions for op in f.ops() if op.code in (ops.BARRIER, ops.BARRIER_REDUCE))
    return sorted({int(str(op.attributes["place"])) for op in found}) if options.checked else []
