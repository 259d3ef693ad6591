"""How to compile: the options that `@kernel`, `@func` and `compile` take.

@device.kernel(max_threads=256, fastmath=True)
def k(x): ...

device.compile(k, x, lineinfo=True)         here the options of `compile` come first, then those of the kernel

A kernel's options hold for all that it calls; those of a `@func` for `compile` of that function alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from cuda_device.lazy_dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile.

    `level` is LLVM's, 0 to 3; `contract` lets a product and a sum fuse, as nvcc does. `checked` adds checks to the code: of
    indices, divisors, lanes, masks, barriers, ints of Python, and of variables without a value; None leaves it to the
    environment variable CUDA_DEVICE_CHECKED, and where that says nothing, code for the CPU is checked. `fastmath` names what
    arithmetic may do beside (see `FASTMATH`). `lineinfo` makes tables of lines for profilers; `debug`
    describes lines and variables for debuggers, in code that is not optimised.

    Of a kernel: a block has at most `max_threads`, of which a multiprocessor can hold `min_blocks` blocks; a thread uses at
    most `max_registers`, and has `stack_size` bytes of stack at least; 0 leaves it to the assembler (`runtime/launch/launcher`).
    `races` looks for races, on the CPU alone: the stream says so. `launch_facts` counts on what launches check
    (`runtime/launch/launcher`): every array is small, and none that the kernel writes shares memory with another.
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
    races: bool = False
    launch_facts: bool = False

    def is_checked(self, on_cpu: bool) -> bool:
        """Whether code for a CPU or a GPU is checked."""
        if self.checked is not None:
            return self.checked
        asked = os.environ.get(CHECKED_VARIABLE, "")
        return asked != "0" if asked else on_cpu


DEFAULTS = Options()

LLVM_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc")
"""What LLVM calls them: no NaN, no infinity, no sign of zero, reciprocals, contraction, approximate functions, any order."""

FASTMATH = (*LLVM_FLAGS, "ftz")
"""What may be named; `ftz` takes float32 below the normal ones for zero, on a GPU."""

_NVCC = ("afn", "ftz")
"""What `fastmath=True` stands for, as `-use_fast_math` of nvcc: products and sums fuse anyhow."""


_MOST_STACK = 512 * 1024
"""No GPU gives a thread more."""

CHECKED_VARIABLE = "CUDA_DEVICE_CHECKED"


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_int(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _is_fastmath(value: object) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, str) or not isinstance(value, Iterable):
        return False
    return all(name in (*FASTMATH, "fast") for name in value)


@dataclass(frozen=True, slots=True)
class _Keyword:
    """What values a keyword takes, in words, too; whether it is for kernels only."""

    fits: Callable[[object], bool]
    wanted: str
    for_kernels: bool = False


_KEYWORDS = {
    "level": _Keyword(_is_int(0, 3), "an optimisation level from 0 to 3"),
    "contract": _Keyword(_is_bool, "True or False"),
    "checked": _Keyword(lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "fastmath": _Keyword(_is_fastmath, f"True, False, or a set of names from {', '.join(FASTMATH)}"),
    "lineinfo": _Keyword(_is_bool, "True or False"),
    "debug": _Keyword(_is_bool, "True or False"),
    "max_threads": _Keyword(_is_int(1, 1024), "the most threads of a block, from 1 to 1024", for_kernels=True),
    "min_blocks": _Keyword(_is_int(1, 32), "a number of blocks from 1 to 32", for_kernels=True),
    "max_registers": _Keyword(_is_int(16, 255), "a number of registers from 16 to 255", for_kernels=True),
    "stack_size": _Keyword(_is_int(1, _MOST_STACK), f"a number of bytes from 1 to {_MOST_STACK}", for_kernels=True),
}


def with_options(
    options: Options, keywords: Mapping[str, object], who: str, others: tuple[str, ...] = (), kernel: bool = True
) -> Options:
    """`options` with some changed; `others` are names that `who` takes, too.

    An unknown name or a wrong value is a `TypeError`, and so is `min_blocks` without `max_threads`.
    """
    names = [name for name, keyword in _KEYWORDS.items() if kernel or not keyword.for_kernels]
    changes = dict(keywords)
    for name, value in keywords.items():
        if name not in names:
            raise TypeError(f"{who} has no keyword {name!r}: there are {', '.join((*others, *names))}")
        if not _KEYWORDS[name].fits(value):
            raise TypeError(f"{who}({name}=…) takes {_KEYWORDS[name].wanted}, not {value!r}")
        if name == "fastmath":
            changes[name] = _fastmath(value)
    if changes.get("debug"):
        changes.setdefault("level", 0)
    changed = replace(options, **changes)  # type: ignore[arg-type]
    if changed.min_blocks and not changed.max_threads:
        raise TypeError(f"{who}(min_blocks=…) says how many blocks of max_threads=… threads: give that, too")
    return changed


def _fastmath(value: object) -> tuple[str, ...]:
    """The names that a value stands for, in one order."""
    if isinstance(value, bool):
        return _NVCC if value else ()
    assert isinstance(value, Iterable)
    given = set(value)
    return tuple(name for name in FASTMATH if name in given or ("fast" in given and name in LLVM_FLAGS))
