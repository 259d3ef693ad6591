"""`build`: writes a folder of compiled kernels, for `load` and for C++ programs.

build([(saxpy, [(float32, floats, floats)])], ["sm_90", "sm_100"], "out")             python -m cuda_device build
out/saxpy-5f0c3a1b.sm_90.cubin  out/saxpy-5f0c3a1b.sm_100.cubin  out/saxpy-5f0c3a1b.sm_100.ptx  out/index.json
device.load("out")["saxpy"].launch(2.0, x, y, grid=4, block=256)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cuda_device import Compiled, Func, Kernel, compile
from cuda_device.extend import architectures, sha256
from cuda_device.plugins.saved.fatbin import is_whole
from cuda_device.plugins.saved.files import data_of, write_index

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

    There is a cubin for each target, or with `fatbin` one file for all targets of a kernel, and PTX of the newest target for
    later GPUs, unless the kernel is linked with other code. With `ltoir`, there is also LTO-IR for each target. The header
    declares the interoperable kernels and functions, and has a function that launches each kernel. Raises `ValueError` if two
    functions have the same name; other errors are those of `compile` and `cpp_header`.
    """
    names = [function.__qualname__ for function, _ in kernels]
    if len(set(names)) < len(names):
        raise ValueError(f"two functions have the same name: {', '.join(names)}")
    variants = {
        _name(compiled): compiled
        for function, signatures in kernels
        for signature in signatures
        for compiled in _variants(function, signature, targets, fatbin, ltoir)
    }
    declared = [(f, *signature) for f, signatures in kernels if f.options.interop for signature in signatures]
    header = ""
    if declared:
        from cuda_device import cpp_header  # of the plugin `cpp`

        header = cpp_header(*declared, launchers=True)
    os.makedirs(folder, exist_ok=True)
    for name, compiled in variants.items():
        Path(folder, name).write_bytes(data_of(compiled))
    if header:
        Path(folder, HEADER).write_text(header, encoding="utf-8")
    write_index(os.path.join(folder, INDEX), variants)
    return [*variants, *[HEADER] * bool(header), INDEX]


def _variants(
    function: Kernel | Func, signature: Sequence[Any], targets: Sequence[str], fatbin: bool, ltoir: bool
) -> Iterator[Compiled]:
    """The compiled forms of one signature."""
    if fatbin and isinstance(function, Kernel):
        yield compile(function, *signature, target=targets, output="fatbin")
    else:
        yield from (compile(function, *signature, target=target) for target in targets)
        ptx = compile(function, *signature, target=architectures.latest(targets), output="ptx")
        if is_whole(ptx) and not function.options.link:
            yield ptx
    if ltoir:
        yield from (compile(function, *signature, target=target, output="ltoir") for target in targets)


def _name(compiled: Compiled) -> str:
    """The name of a file: the symbol, a hash of the signature, the targets and the form."""
    types = repr([(parameter.type, parameter.constant) for parameter in compiled.parameters])
    plain = "".join(letter if letter.isalnum() else "_" for letter in compiled.symbol)
    return f"{plain}-{sha256(types.encode()).hexdigest()[:8]}.{compiled.target.replace(', ', '-')}.{compiled.output}"
