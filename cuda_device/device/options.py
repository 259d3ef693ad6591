"""`Options`: how to compile a function or kernel. Compiled code that is loaded from files has them, too.

Those passed to `compile` override those of the kernel, which apply to all functions that the kernel calls. The options of a
`@func` apply only when `compile` compiles that function itself. `device/functions` checks the keywords of users.
"""

from __future__ import annotations

import os

from cuda_device.lazy_dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The options for compiling a function or kernel.

    `level` is LLVM's optimisation level, 0 to 3. `contract` allows a product and a sum to fuse into a multiply-add, as nvcc
    does. `checked` adds checks of indices, divisors, lanes, masks, barriers, the range of Python ints and unassigned variables;
    if it is None, the environment variable CUDA_DEVICE_CHECKED decides, and if that is unset, only code for the CPU is checked.
    `fastmath` lists the flags of fast mathematics that apply (see `FASTMATH`). `lineinfo` adds line tables for profilers.
    `debug` adds lines and variables for debuggers, and turns optimisation off.

    The following apply to kernels. A block has at most `max_threads` threads, and at least `min_blocks` such blocks
    should fit on a multiprocessor. A thread uses at most `max_registers` registers and has a stack of at least
    `stack_size` bytes. 0 leaves the choice to the assembler, or for the stack to the launch. `cluster` is the number of
    blocks of a cluster along each axis; if it is None, each launch chooses it. With `launch_facts`, the code relies on
    facts that launches check (`runtime/launch/launcher`): every array is small, and no array that the kernel writes
    shares memory with another. `policy` names rules of inference in place of Python's (`infer/policies`).
    """

    level: int = 3
    contract: bool = True
    checked: bool | None = None
    fastmath: tuple[str, ...] = ()
    lineinfo: bool = False
    debug: bool = False
    max_threads: int = 0
    min_blocks: int = 0
    max_registers: int = 0
    stack_size: int = 0
    cluster: tuple[int, int, int] | None = None
    launch_facts: bool = False
    policy: str = ""

    def is_checked(self, on_cpu: bool) -> bool:
        """Whether code for a CPU or a GPU is checked."""
        if self.checked is not None:
            return self.checked
        if _CHECKED_KEY not in _ENVIRONMENT:
            return on_cpu
        asked = os.environ.get(CHECKED_VARIABLE, "")
        return asked != "0" if asked else on_cpu


DEFAULTS = Options()

LLVM_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc")
"""LLVM's flags: no NaN, no infinity, no sign of zero, reciprocals, contraction, approximate functions, reassociation."""

FASTMATH = (*LLVM_FLAGS, "ftz")
"""The flags that `fastmath` accepts; `ftz` treats denormal float32 as zero, on a GPU."""

CHECKED_VARIABLE = "CUDA_DEVICE_CHECKED"
# CPython's dict behind `os.environ`, which itself takes a microsecond to find nothing. Each launch asks.
_ENVIRONMENT, _CHECKED_KEY = os.environ._data, os.environ.encodekey(CHECKED_VARIABLE)  # type: ignore[attr-defined]
