"""Identifies the processor for which machine code for the CPU stream is compiled.

host()          ("znver5", "+avx512f,…"): its name and features, as LLVM spells them
identity()      the same with the version of the C library, for keys
worker_count()  how many host threads run a launch
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform

# The conversions of these instruction sets from float to bfloat flush subnormal numbers to zero, unlike a GPU's.
_FLUSHING = ("avx512bf16", "avxneconvert")


@functools.cache
def host() -> tuple[str, str]:
    """The processor's name and the features that generated code uses, as LLVM spells them."""
    from cuda_device.codegen import llvm

    api = llvm.load_llvm()
    _, said = api.GetHostCPUFeatures()
    signs = {feature[1:]: feature[0] for feature in said.decode().split(",") if feature}
    signs.update({name: "-" for name in _FLUSHING if name in signs})
    return api.GetHostCPUName().decode(), ",".join(sign + name for name, sign in sorted(signs.items()))


def identity() -> str:
    """Identifies the processor and the C library in keys of the cache."""
    return " ".join((*host(), platform.libc_ver()[1]))


_VECTORS = ("avx512f", "e", 512), ("avx2", "d", 256), ("sse2", "b", 128)
"""A feature of x86-64, the letter in the names of vector functions that need it, and the bits of their vectors."""


@functools.cache
def vector_library() -> ctypes.CDLL | None:
    """Loads glibc's vector functions, libmvec, into the process; None if there are none."""
    try:
        return ctypes.CDLL("libmvec.so.1", ctypes.RTLD_GLOBAL)
    except OSError:
        return None


@functools.cache
def vector_functions(symbol: str, arity: int, bits: int) -> dict[str, int]:
    """The vector functions for a function of the C library, with the numbers of their elements."""
    library, features = vector_library(), host()[1].split(",")
    rows = [(letter, width // bits) for feature, letter, width in _VECTORS if f"+{feature}" in features]
    candidates = {f"_ZGV{letter}N{lanes}{'v' * arity}_{symbol}": lanes for letter, lanes in rows}
    return {name: lanes for name, lanes in candidates.items() if library is not None and hasattr(library, name)}


@functools.cache
def worker_count() -> int:
    """How many host threads run a launch: `CUDA_DEVICE_CPU_THREADS`, or the number of processors that the process may use."""
    asked = os.environ.get("CUDA_DEVICE_CPU_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
