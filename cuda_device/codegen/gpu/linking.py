"""What a program is linked to: PTX, cubins, LTO-IR, objects and libraries that define functions which it calls.

    read([Path("norms.ptx"), compiled])  ->  (Input("norms.ptx", b".version …"), Input("diff.ptx", b"…"))

nvJitLink, which links them, looks into each to see what it is, but wants to know first whether one is LTO-IR. Where two
define the same function it may end the process, so that is refused before.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from typing import Any

from cuda_device.cache.store import sha256
from cuda_device.codegen.gpu import elf
from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import Architecture

_LTO_IR = b"\xedCN\x7f"
_ELF = b"\x7fELF"
_RELOCATABLE, _EM_CUDA = 1, 190
# Where the flags of an ELF file are, and by the version of CUDA's conventions (its ninth byte) where the architecture is in them.
_FLAGS, _VERSION, _ARCHITECTURE = 48, 8, {7: 0, 8: 1}
_PTX_DEFINITION = rb"(?m)^\s*\.visible \.(?:func|entry)\s*(?:\([^)]*\))?\s*([\w$]+)\s*(?:\([^)]*\))?[^;{]*\{"


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to link, and what people call it."""

    name: str
    data: bytes

    @property
    def is_lto(self) -> bool:
        """Whether it is LTO-IR, which has yet to be compiled."""
        return self.data.startswith(_LTO_IR)

    @property
    def functions(self) -> frozenset[str]:
        """The functions that it defines for others, if it is PTX or a cubin."""
        if self.data.startswith(_ELF):
            try:
                return elf.exported(self.data)
            except (struct.error, IndexError, ValueError):
                return frozenset()  # nvJitLink will say what is wrong with it
        return frozenset(name.decode() for name in re.findall(_PTX_DEFINITION, self.data))

    @property
    def architecture(self) -> int | None:
        """The number of the architecture that it is for (90 for sm_90a, too), if it is a cubin."""
        if not _is_cubin(self.data) or self.data[_VERSION] not in _ARCHITECTURE:
            return None
        return self.data[_FLAGS + _ARCHITECTURE[self.data[_VERSION]]]

    @property
    def digest(self) -> str:
        """What tells it from others."""
        return sha256(self.data).hexdigest()


def read(sources: Iterable[Any]) -> tuple[Input, ...]:
    """The contents of what `link=` was given, each once. Raises `CompileError` for what cannot be read or linked."""
    found: dict[str, Input] = {}
    for number, source in enumerate(sources, 1):
        item = _read(source, number)
        found.setdefault(item.digest, item)
    return tuple(found.values())


def _read(source: Any, number: int) -> Input:
    if isinstance(source, (str, os.PathLike)):
        from pathlib import Path

        path = Path(source)
        try:
            return Input(path.name, _checked(path.read_bytes(), str(path)))
        except OSError as error:
            raise CompileError(
                f"link={str(source)!r} cannot be read: {error.strerror}", help="name a file, or give its bytes"
            ) from None
    symbol = getattr(source, "symbol", None) or f"link {number}"
    code = source if isinstance(source, bytes) else source.code
    return Input(str(symbol), _checked(code.encode() if isinstance(code, str) else bytes(code), str(symbol)))


def _checked(data: bytes, name: str) -> bytes:
    """The data; a cubin that is not relocatable has no functions left to link."""
    if _is_cubin(data) and int.from_bytes(data[16:18], "little") != _RELOCATABLE:
        raise CompileError(
            f"{name} is a finished cubin, which cannot be linked", help="make it with -rdc=true, or give its PTX"
        )
    return data


def _is_cubin(data: bytes) -> bool:
    return len(data) > _FLAGS + 4 and data.startswith(_ELF) and int.from_bytes(data[18:20], "little") == _EM_CUDA


def check(main: Input, inputs: Iterable[Input], architecture: Architecture) -> None:
    """Raises `CompileError` if two of them define the same function, or if a cubin is for another architecture.

    A cubin is for its architecture and the later ones of its generation: one for sm_80 for sm_86 and sm_89, too.
    """
    owners: dict[str, str] = {}
    for item in (main, *inputs):
        made_for = item.architecture
        if made_for is not None and not (
            made_for // 10 == architecture.number // 10 and made_for <= architecture.number
        ):
            raise CompileError(
                f"{item.name} was compiled for sm_{made_for}, and cannot be linked to a kernel for {architecture}",
                help="give what was made for this architecture, or PTX",
            )
        for function in sorted(item.functions):
            if function in owners:
                raise CompileError(
                    f"{function} is defined twice, in {owners[function]} and in {item.name}",
                    help="link one of them only",
                )
            owners[function] = item.name
