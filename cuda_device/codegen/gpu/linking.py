"""The inputs of `link=`: files and bytes of machine code, PTX, LTO-IR or bitcode, and sources, which a plugin compiles.

    read(["norms.ptx", source], parse("sm_90"))   ->  (Input("norms.ptx", b".version …"), Input("source.cu", b"…"))
    bitcode(["norms.bc"])                         ->  (Input("norms.bc", b"BC…"),): LLVM links it before it optimises

A source is an object with a `name` and a method `compiled(architecture, stubs)`, which returns code for a linker. `stubs` are the
functions of `extern` that it defines. Files whose suffixes are in `hooks.LINK_KINDS` are sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from cuda_device import hooks
from cuda_device.codegen.gpu.assemblers import Input
from cuda_device.device.functions import Extern, Instance, is_source
from cuda_device.errors import CompileError
from cuda_device.types.architectures import Architecture


def read(links: Iterable[Any], architecture: Architecture) -> tuple[Input, ...]:
    """The contents of the items of `link=`, each once, except bitcode; sources are compiled for an architecture.

    Raises `CompileError` for an item that cannot be read, compiled or linked, and `PluginError` for a source without its plugin.
    """
    inputs: dict[str, Input] = {}
    sources: dict[Any, list[Extern]] = {}
    for number, link in enumerate(links, 1):
        item = _item_of(link)
        if is_source(item):  # compiled once, for all stubs
            sources.setdefault(item, []).extend([link.function] if isinstance(link, Instance) else [])
            continue
        code = _read(item, number)
        if code.is_finished:
            raise CompileError(
                f"{code.name} is a finished cubin, which cannot be linked",
                help="compile it with -rdc=true, or link its PTX",
            )
        if not code.is_bitcode:
            inputs.setdefault(code.digest, code)
    for source, stubs in sources.items():
        code = Input(os.path.basename(source.name), source.compiled(architecture, stubs))
        inputs.setdefault(code.digest, code)
    return tuple(inputs.values())


def bitcode(links: Iterable[Any]) -> tuple[Input, ...]:
    """The LLVM bitcode among the items of `link=`. Raises `CompileError` for a file that cannot be read."""
    items = enumerate(map(_item_of, links), 1)
    files = (_read(item, number) for number, item in items if not is_source(item))
    return tuple(code for code in files if code.is_bitcode)


def _item_of(link: Any) -> Any:
    """The file, code or source of an item of `link=`."""
    item = link.link if isinstance(link, Instance) else link
    if isinstance(item, (str, os.PathLike)):
        path = os.fspath(item)
        plugin = hooks.LINK_KINDS.get(os.path.splitext(path)[1])
        return hooks.plugin(plugin).source_of(path) if plugin else path
    return item


def _read(item: Any, number: int) -> Input:
    if isinstance(item, str):
        return Input(os.path.basename(item), _content(item))
    code = item if isinstance(item, bytes) else item.code
    name = str(getattr(item, "symbol", None) or f"link {number}")
    return Input(name, code.encode() if isinstance(code, str) else bytes(code))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CompileError(
            f"link={path!r} cannot be read: {error.strerror}", help="pass the path of a file, or its contents as bytes"
        ) from None
