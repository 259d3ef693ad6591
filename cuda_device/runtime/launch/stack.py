"""How much stack the threads of a kernel have on a GPU.

    provide(work, ordinal)      before the kernel's first launch in the current context

The driver gives each launch the stack that the assembler found to be enough, and that counts a function that calls itself once,
or not at all. What such a kernel needs depends on what it computes; a context starts with 1 KiB a thread, and a thread that
needs more writes to memory that is not there, which ends the context. So such kernels get more, once for the context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda_device import logs
from cuda_device.codegen.gpu import elf
from cuda_device.errors import LaunchError
from cuda_device.runtime.gpu import driver, loaded_kernels

if TYPE_CHECKING:
    from cuda_device.compiler import Work

RECURSION = 32 * 1024
"""The bytes of stack of a thread that a kernel with recursion gets if it does not say what it needs."""
_PART = 8
"""The GPU sets stack aside for all threads that it can hold at once; without being told so, for an eighth of its memory."""


def provide(work: Work, ordinal: int) -> None:
    """Sees to it that a kernel has enough stack in the current context, which is on device `ordinal`.

    Raises `LaunchError` if the GPU cannot give as much as the kernel's option `stack_size` says.
    """
    wanted = work.job.options.stack_size
    if wanted:
        try:
            loaded_kernels.raise_stack_limit(wanted)
        except LaunchError as error:
            text = f"stack_size={wanted}: this GPU cannot give each thread as much stack"
            raise LaunchError(f"{text} ({error.reason})", "ask for less, or launch fewer threads at once") from None
    elif has_recursion(work):
        _provide_some(work.job.name, min(RECURSION, _share(ordinal)))


def has_recursion(work: Work) -> bool:
    """Whether functions of the kernel's machine code call themselves."""
    code, symbol = work["cubin"].code, work.outline.symbol
    if elf.stacks(code).get(symbol) == elf.UNBOUNDED:
        return True
    # Recursion that LLVM has made a loop leaves no function behind.
    return work.outline.recursive and elf.functions(code) != {symbol}


def _share(ordinal: int) -> int:
    """The bytes of stack of a thread when all stacks together take the part of the memory that they may."""
    properties = driver.properties(ordinal)
    return properties.memory // _PART // (properties.multiprocessors * properties.resident_threads)


def _provide_some(name: str, nbytes: int) -> None:
    """Gives each thread `nbytes` of stack, or what can be had."""
    wanted = nbytes
    while nbytes:
        try:
            loaded_kernels.raise_stack_limit(nbytes)
            break
        except LaunchError:
            nbytes //= 2
    if nbytes < wanted:
        message = "%s calls itself, and the GPU has memory for %d bytes of stack of a thread only"
        logs.say(logs.WARNING, message, name, nbytes)
