"""Other ways from LLVM IR to what the machine of `ptx_machine` executes.

with by_libnvvm():
    device.launch(kernel, …)        LTO-IR of libNVVM, which nvJitLink made PTX of
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import emulated_gpu

from cuda_device import compiler
from cuda_device.codegen.gpu import cubin, elf
from cuda_device.plugins import ltoir


def is_emulated() -> bool:
    """Whether what runs on a GPU's stream is executed by the machine."""
    return cubin.ASSEMBLERS == (emulated_gpu.ASSEMBLER,)


@functools.cache
def has_libnvvm() -> bool:
    """Whether libNVVM and nvJitLink are here."""
    try:
        from cuda.bindings import nvjitlink, nvvm

        return bool(nvvm.version() and nvjitlink.version())
    except (ImportError, RuntimeError, OSError):
        return False


@contextlib.contextmanager
def by_libnvvm() -> Iterator[None]:
    """Kernels are made by NVIDIA's compiler meanwhile."""
    stages = (
        *compiler.GPU[: len(compiler.FRONT) + 1],
        compiler.Stage("cubin", _linked, "cubin", lambda made: made.code),
    )
    with mock.patch.object(compiler, "GPU", stages):
        yield


def _linked(work: compiler.Work) -> elf.Cubin:
    """PTX of the kernel's LTO-IR."""
    architecture, options = work.job.target.architecture, work.job.options
    return elf.Cubin(
        ptx_of(ltoir.make(work["llvm"], architecture, options, {}), architecture.name).encode(), "nvJitLink"
    )


def ptx_of(code: bytes, architecture: str) -> str:
    """What nvJitLink makes of LTO-IR before it assembles it."""
    from cuda.bindings import nvjitlink

    try:
        return _ptx_of(code, f"-arch={architecture}", "-lto", "-ptx", "-O3")
    except nvjitlink.nvJitLinkError:
        # Optimising, it ends with "unsupported operation" for some local arrays of float16 that are indexed at run time.
        return _ptx_of(code, f"-arch={architecture}", "-lto", "-ptx", "-O0")


def _ptx_of(code: bytes, *options: str) -> str:
    from cuda.bindings import nvjitlink

    handle: Any = nvjitlink.create(len(options), list(options))
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "kernel.ltoir")
        nvjitlink.complete(handle)
        text = bytearray(nvjitlink.get_linked_ptx_size(handle))
        nvjitlink.get_linked_ptx(handle, text)
        return text.rstrip(b"\0").decode()
    finally:
        nvjitlink.destroy(handle)
