"""`python -m cuda_device build`: compiles kernels to a folder that Python and C++ can load without the compiler.

build([(saxpy, [(float32, floats, floats)])], ["sm_90", "sm_100"], "out")
out/saxpy-5f0c3a1b.sm_90.cubin  out/saxpy-5f0c3a1b.sm_100.cubin  out/saxpy-5f0c3a1b.sm_100.ptx  out/index.json
device.load("out")["saxpy"].launch(2.0, x, y, grid=4, block=256)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from cuda_device.cache import sha256
from cuda_device.device.functions import Func, Kernel
from cuda_device.interop.declarations import cpp_header
from cuda_device.runtime.launch.compiled import Compiled, write_index
from cuda_device.runtime.launch.compiling import compile, is_whole
from cuda_device.types.architectures import latest

HEADER, INDEX = "kernels.h", "index.json"

Signatures = Sequence[Sequence[Any]]
"""The types of arguments that a kernel is compiled for, each as `compile` takes them."""


def build(
    kernels: Sequence[tuple[Kernel | Func, Signatures]],
    targets: Sequence[str],
    folder: str,
    *,
    fatbin: bool = False,
    ltoir: bool = False,
) -> list[str]:
    """Writes compiled kernels, a C++ header, and an index to a folder; returns the names of the files.

    There is a cubin for each target, or with `fatbin` one file for all, and PTX of the highest for later GPUs, unless the
    kernel is linked to something; with `ltoir` also LTO-IR for each target. The header has the interoperable ones, with a
    function that launches a kernel. Raises `ValueError` for two functions of one name, and what `compile` and `cpp_header` raise.
    """
    names = [function.__qualname__ for function, _ in kernels]
    if len(set(names)) < len(names):
        raise ValueError(f"two functions have the same name: {', '.join(names)}")
    made = {
        _name(each): each
        for function, signatures in kernels
        for signature in signatures
        for each in _variants(function, signature, targets, fatbin, ltoir)
    }
    declared = [(f, *signature) for f, signatures in kernels if f.options.interop for signature in signatures]
    header = cpp_header(*declared, launchers=True) if declared else ""
    os.makedirs(folder, exist_ok=True)
    for name, each in made.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(each.code if isinstance(each.code, bytes) else each.code.encode())
    if header:
        with open(os.path.join(folder, HEADER), "w", encoding="utf-8") as text:
            text.write(header)
    write_index(os.path.join(folder, INDEX), list(made.items()))
    return [*made, *[HEADER] * bool(header), INDEX]


def _variants(
    function: Kernel | Func, signature: Sequence[Any], targets: Sequence[str], fatbin: bool, ltoir: bool
) -> Iterator[Compiled]:
    """The compiled forms of one signature."""
    if fatbin:
        yield compile(function, *signature, target=targets, output="fatbin")
    else:
        yield from (compile(function, *signature, target=target) for target in targets)
        ptx = compile(function, *signature, target=latest(targets), output="ptx")
        if is_whole(ptx) and not function.options.link:
            yield ptx
    if ltoir:
        yield from (compile(function, *signature, target=target, output="ltoir") for target in targets)


def _name(compiled: Compiled) -> str:
    """The name of a file: the symbol, a hash of the signature, the targets and the form."""
    types = repr([(each.type, each.constant) for each in compiled.parameters])
    plain = "".join(letter if letter.isalnum() else "_" for letter in compiled.symbol)
    return f"{plain}-{sha256(types.encode()).hexdigest()[:8]}.{compiled.target.replace(', ', '-')}.{compiled.output}"


__all__ = ["build"]
