"""What a cubin, an ELF file, says of its kernels.

    registers(cubin)["saxpy"]       16: how many registers a thread uses

The section `.nv.info` is a list of attributes: a byte for the form, one for the kind, two for the size, then the value. The one
that counts registers holds the number of the kernel's symbol and the count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_SYMBOL_TABLE = 2
_SIZED = 4
_REGISTERS = 0x2F
_SYMBOL_BYTES = 24


class _Section(NamedTuple):
    """What of a section's header counts here."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


def registers(cubin: bytes) -> dict[str, int]:
    """How many registers a thread of each kernel uses; none for what is no cubin, or one that does not say."""
    if cubin[:5] != b"\x7fELF\x02":
        return {}
    sections = _sections(cubin)
    symbols = next((section for section in sections if section.kind == _SYMBOL_TABLE), None)
    if symbols is None:
        return {}
    found = {}
    for section in sections:
        if section.name == ".nv.info":
            for symbol, count in _counts(cubin[section.offset : section.offset + section.size]):
                name = struct.unpack_from("<I", cubin, symbols.offset + _SYMBOL_BYTES * symbol)[0]
                found[_text(cubin, sections[symbols.link].offset + name)] = count
    return found


def _sections(file: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", file, 40)
    size, count, names = struct.unpack_from("<HHH", file, 58)
    headers = [struct.unpack_from("<IIQQQQI", file, start + size * i) for i in range(count)]
    strings = headers[names][4]
    return [
        _Section(_text(file, strings + name), kind, offset, length, link)
        for name, kind, _, _, offset, length, link in headers
    ]


def _text(file: bytes, start: int) -> str:
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
