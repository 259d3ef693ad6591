"""Which processor machine code for the CPU stream is for, as LLVM spells it.

host()          ("znver5", "+avx512f,…")
"""

from __future__ import annotations

import ast
import functools
import threading
from pathlib import Path

from cuda_device.cache import disk

LOCK = threading.RLock()
"""LLVM's context, our target machines for this processor and the linker are shared by all threads of the process."""


@functools.cache
def host() -> tuple[str, str]:
    """The processor's name and the features that are used, as LLVM spells them: part of the key of any cache of object code."""

    def read(data: bytes) -> tuple[str, str]:
        processor, features = ast.literal_eval(data.decode())
        return str(processor), str(features)

    seen = _as_the_system_sees_it()
    return disk.loaded(f"processor {seen}", lambda: repr(_ask()).encode(), read) if seen else _ask()


_TELLING = ("vendor_id", "cpu family", "model", "stepping", "microcode", "flags", "CPU ", "Features")


def _as_the_system_sees_it() -> str:
    """The processor in Linux's words, and which start of the system it is: by the next one it may be another processor.

    Empty on other systems.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        with Path("/proc/cpuinfo").open() as file:
            first = file.read(1 << 13).partition("\n\n")[0]
    except OSError:
        return ""
    return boot + "\n".join(line for line in first.splitlines() if line.startswith(_TELLING))


# These processors' conversions from float to bfloat make a subnormal number zero, which no GPU does.
_FLUSHING = ("avx512bf16", "avxneconvert")


def _ask() -> tuple[str, str]:
    """What LLVM says."""
    from cuda_device.codegen.llvm import bindings

    api = bindings.load()
    _, said = api.GetHostCPUFeatures()
    signs = {feature[1:]: feature[0] for feature in said.decode().split(",") if feature}
    signs.update({name: "-" for name in _FLUSHING if name in signs})
    return api.GetHostCPUName().decode(), ",".join(sign + name for name, sign in sorted(signs.items()))
