"""What ELF files say: sections, and of a cubin its kernels.

    registers(cubin)["saxpy"]       16: how many registers a thread uses
    sections(object_code)[1]        Section(name=".text", …)

The section `.nv.info` of a cubin is a list of attributes: a byte for the form, one for the kind, two for the size, then the
value. The one that counts registers holds the number of the kernel's symbol and the count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_SYMBOL_TABLE = 2
_SIZED = 4
_REGISTERS = 0x2F
_SYMBOL_BYTES = 24


class Section(NamedTuple):
    """What a section's header says, but for its address."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


def registers(cubin: bytes) -> dict[str, int]:
    """How many registers a thread of each kernel uses; none for what is no cubin, or one that does not say."""
    if cubin[:5] != b"\x7fELF\x02":
        return {}
    all_sections = sections(cubin)
    symbols = next((section for section in all_sections if section.kind == _SYMBOL_TABLE), None)
    if symbols is None:
        return {}
    found = {}
    for section in all_sections:
        if section.name == ".nv.info":
            for symbol, count in _counts(cubin[section.offset : section.offset + section.size]):
                name = struct.unpack_from("<I", cubin, symbols.offset + _SYMBOL_BYTES * symbol)[0]
                found[text(cubin, all_sections[symbols.link].offset + name)] = count
    return found


def sections(file: bytes) -> list[Section]:
    """The sections of an ELF file of 64 bits."""
    (start,) = struct.unpack_from("<Q", file, 40)
    size, count, names = struct.unpack_from("<HHH", file, 58)
    headers = [struct.unpack_from("<IIQQQQIIQ", file, start + size * i) for i in range(count)]
    strings = headers[names][4]
    return [Section(text(file, strings + name), kind, flags, *rest) for name, kind, flags, _, *rest in headers]


def text(file: bytes, start: int) -> str:
    """The name at a place in a table of names."""
    return file[start : file.index(b"\0", start)].decode()


def _counts(attributes: bytes) -> Iterator[tuple[int, int]]:
    """The numbers of symbols, and how many registers they use."""
    at = 0
    while at + 4 <= len(attributes):
        form, kind, size = struct.unpack_from("<BBH", attributes, at)
        at += 4
        if form == _SIZED:
            if kind == _REGISTERS:
                yield struct.unpack_from("<II", attributes, at)
            at += size
