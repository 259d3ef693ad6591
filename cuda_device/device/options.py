"""`Options`: how to compile a function or kernel. Compiled code that is loaded from files has them, too.

Those passed to `compile` override those of the kernel, which apply to all functions that the kernel calls. The options of a
`@func` apply only when `compile` compiles that function itself. `device/functions` checks the keywords of users.
"""

from __future__ import annotations

import os

from cuda_device.lazy_dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The options for compiling a function or kernel. Those from `max_threads` on apply to kernels."""

    level: int = 3
    """LLVM's optimisation level, 0 to 3."""
    contract: bool = True
    """Whether a product and a sum may fuse into a multiply-add, as in nvcc."""
    checked: bool | None = None
    """Adds checks of indices, divisors, lanes, masks, barriers, the range of Python ints and unassigned variables.

    If it is None, the environment variable CUDA_DEVICE_CHECKED decides; if that is unset, only code for the CPU is checked.
    """
    fastmath: tuple[str, ...] = ()
    """The flags of fast mathematics that apply (see `FASTMATH`)."""
    lineinfo: bool = False
    """Adds line tables for profilers."""
    debug: bool = False
    """Adds lines and variables for debuggers, and turns optimisation off."""
    max_threads: int = 0
    """The maximum number of threads of a block; here and below, 0 leaves the choice to the assembler."""
    min_blocks: int = 0
    """The number of such blocks that should fit on a multiprocessor."""
    max_registers: int = 0
    """The maximum number of registers of a thread."""
    stack_size: int = 0
    """The minimum size of a thread's stack in bytes; 0 leaves the choice to the launch."""
    cluster: tuple[int, int, int] | None = None
    """The number of blocks of a cluster along each axis; if it is None, each launch chooses it."""
    launch_facts: bool = False
    """Whether the code relies on facts that launches check (`runtime/launch/launcher`).

    These are that every array is small, and that no array that the kernel writes shares memory with another.
    """
    policy: str = ""
    """The name of rules of inference in place of Python's (`infer/policies`)."""

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
