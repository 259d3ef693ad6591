"""Fatbins, an output of `compile`: cubins of a kernel for several targets, and PTX for later GPUs, in one file.

device.compile(saxpy, float, x, y, target=["sm_80", "sm_90"], output="fatbin")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from cuda_device import Compiled, CompileError, Func, Kernel
from cuda_device.extend import Output, architectures, replace, toolkit


def _combine(
    f: Kernel | Func, target: str | Sequence[str], compile: Callable[[str, str], Compiled], link: Any
) -> Compiled:
    """The fatbin of a kernel, with PTX of the newest target unless the kernel is linked with other code."""
    targets = (target,) if isinstance(target, str) else tuple(dict.fromkeys(target))
    if not targets or isinstance(f, Func):
        raise ValueError("output='fatbin' takes a kernel and at least one target")
    cubins = [compile(architecture, "cubin") for architecture in targets]
    ptx = None if link or f.options.link else compile(architectures.latest(targets), "ptx")
    return _fatbin(cubins, ptx if ptx is not None and is_whole(ptx) else None)


OUTPUT = Output("fatbin", "cubin", is_loadable=True, has_object_code=True, combine=_combine)


def _fatbin(cubins: Sequence[Compiled], ptx: Compiled | None) -> Compiled:
    """Combines the cubins of several targets, and PTX for later GPUs."""
    try:
        from cuda.bindings import nvfatbin

        handle = nvfatbin.create([], 0)
    except (ImportError, RuntimeError, OSError):
        raise CompileError(
            "fatbins need nvFatbin, which is not installed",
            help=f"{toolkit.pip_install('nvidia-nvfatbin')}, or install a CUDA toolkit and set CUDA_HOME",
        ) from None
    try:
        for cubin in cubins:
            nvfatbin.add_cubin(handle, cubin.code, len(cubin.code), cubin.target.removeprefix("sm_"), cubin.symbol)
        if ptx is not None:
            text = str(ptx).encode() + b"\0"
            nvfatbin.add_ptx(handle, text, len(text), ptx.target.removeprefix("sm_"), ptx.symbol, "")
        code = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, code)
    finally:
        nvfatbin.destroy(handle)
    programs = {target: program for cubin in cubins for target, program in cubin.record.programs.items()}
    warnings = tuple(dict.fromkeys(text for cubin in cubins for text in cubin.warnings))
    record = replace(cubins[-1].record, programs=programs, warnings=warnings, ptx=None if ptx is None else ptx.target)
    return Compiled(bytes(code), cubins[-1].symbol, ", ".join(cubin.target for cubin in cubins), "fatbin", record)


def is_whole(ptx: Compiled) -> bool:
    """Whether PTX calls no function that has to be linked; the driver provides vprintf."""
    return set(re.findall(r"(?m)^\.extern \.func\s*(?:\([^)]*\))?\s*([\w$]+)", str(ptx))) <= {"vprintf"}
