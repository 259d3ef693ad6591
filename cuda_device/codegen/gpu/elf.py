"""Reads ELF files: sections, symbols, and the attributes of kernels in cubins.

    registers(cubin)["saxpy"]       16: the number of registers of a thread
    stacks(cubin)["saxpy"]          0: the stack of a thread in bytes
    sections(cubin)[1]              Section(name=".strtab", …)

The section `.nv.info` of a cubin is a list of attributes: a byte for the form, a byte for the kind, two bytes for the size, and
the value, which for registers and stacks is the index of a function's symbol and a count.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator

from cuda_device.lazy_dataclasses import dataclass

_SYMBOL_TABLE = 2
_SIZED = 4
_REGISTERS = 0x2F
_EM_CUDA = 190
# The offset of an ELF file's flags, and, by the version of CUDA's ABI (its ninth byte), the offset of the architecture in them.
_FLAGS, _VERSION, _ARCHITECTURE = 48, 8, {7: 0, 8: 1}
_LEAST_STACK = 0x12
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION, _GLOBAL = 2, 1

UNBOUNDED = 2**32 - 1
"""The stack size of a kernel without a bound, such as one with recursion."""


@dataclass(frozen=True)
class AssemblerNotes:
    """What an assembler says about code: its warnings and advisories, and the bytes of registers that a thread spills."""

    warnings: tuple[str, ...] = ()
    spills: int = 0
    on_purpose: bool = False
    """Whether they are spilled only because `cubin` has limited the registers, so that more warps are resident."""


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, and the assembler that generated it, with what it said about the code."""

    code: bytes
    assembler: str
    notes: AssemblerNotes = AssemblerNotes()


@dataclass(frozen=True)
class Section:
    """A part of a section's header."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    """A symbol; `section` is 0 if it is undefined."""

    name: str
    kind: int
    is_global: bool
    section: int


def kernels(file: bytes) -> tuple[list[str], int | None]:
    """The kernels of a cubin, and the number of its architecture (90 for sm_90a, too; None if it is unknown)."""
    return sorted(registers(file)), architecture(file)


def registers(cubin: bytes) -> dict[str, int]:
    """The registers per thread of each kernel; empty if the file is not a cubin."""
    return _counts(cubin).get(_REGISTERS, {})


def stacks(cubin: bytes) -> dict[str, int]:
    """The bytes of stack per thread of each kernel, or `UNBOUNDED`.

    Only linked cubins have `UNBOUNDED`; the assembler does not count recursive functions.
    """
    return _counts(cubin).get(_LEAST_STACK, {})


def functions(file: bytes, only_global: bool = False) -> frozenset[str]:
    """The functions and kernels that an ELF file defines; empty for another file."""
    named = symbols(file) if _is_elf(file) else ()
    return frozenset(s.name for s in named if s.kind == _FUNCTION and s.section and (s.is_global or not only_global))


def undefined_functions(file: bytes) -> list[str]:
    """The functions that an ELF file calls and does not define."""
    return sorted(symbol.name for symbol in symbols(file) if symbol.kind == _FUNCTION and not symbol.section)


def prototypes(file: bytes) -> dict[str, str]:
    """The prototypes of the functions that a relocatable cubin declares or defines, in the linker's notation.

    `#ilb12` returns 32 bits (v: nothing) and takes 64 bits and a struct of 12 bytes.
    """
    by_name = {section.name: section for section in sections(file)}
    if ".nv.prototype" not in by_name:
        return {}
    named, strings = list(symbols(file)), by_name[".strtab"].offset
    pairs = struct.iter_unpack("<II", content(file, by_name[".nv.prototype"]))
    return {named[number].name: text(file, strings + offset) for number, offset in pairs}


@functools.lru_cache(maxsize=1)  # the assembler asks first, and then the launch
def _counts(cubin: bytes) -> dict[int, dict[str, int]]:
    """The counts of each kind of attribute by the names of functions."""
    counts: dict[int, dict[str, int]] = {}
    if not _is_elf(cubin):
        return counts
    named = list(symbols(cubin))
    for section in sections(cubin):
        for kind, value in _attributes(content(cubin, section)) if section.name == ".nv.info" else ():
            if kind in (_REGISTERS, _LEAST_STACK):
                number, count = struct.unpack_from("<II", value)
                counts.setdefault(kind, {})[named[number].name] = count
    return counts


def is_cubin(file: bytes) -> bool:
    """Whether this is an ELF file for GPUs."""
    return len(file) > _FLAGS + 4 and _is_elf(file) and int.from_bytes(file[18:20], "little") == _EM_CUDA


def architecture(file: bytes) -> int | None:
    """The number of a cubin's architecture; None for another file."""
    return file[_FLAGS + _ARCHITECTURE[file[_VERSION]]] if is_cubin(file) and file[_VERSION] in _ARCHITECTURE else None


def _is_elf(file: bytes) -> bool:
    """Whether a file is an ELF file of 64 bits."""
    return file[:5] == b"\x7fELF\x02"


def symbols(file: bytes) -> Iterator[Symbol]:
    """The symbols of an ELF file."""
    tables = sections(file)
    for table in tables:
        if table.kind == _SYMBOL_TABLE:
            names = tables[table.link].offset
            for name, info, _, section, *_ in _SYMBOL.iter_unpack(content(file, table)):
                yield Symbol(text(file, names + name), info & 15, info >> 4 == _GLOBAL, section)


def content(file: bytes, section: Section) -> bytes:
    """The bytes of a section."""
    return file[section.offset : section.offset + section.size]


def sections(file: bytes) -> list[Section]:
    """The sections of an ELF file."""
    (start,) = struct.unpack_from("<Q", file, 40)
    size, count, names = struct.unpack_from("<HHH", file, 58)
    headers = [struct.unpack_from("<II16xQQI", file, start + size * i) for i in range(count)]
    strings = headers[names][2]
    return [Section(text(file, strings + name), *rest) for name, *rest in headers]


def text(file: bytes, start: int) -> str:
    """The string at an offset of a string table."""
    return file[start : file.index(b"\0", start)].decode()


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The kinds and values of the attributes that have a size."""
    offset = 0
    while offset + 4 <= len(data):
        form, kind, size = struct.unpack_from("<BBH", data, offset)
        offset += 4
        if form == _SIZED:
            yield kind, data[offset : offset + size]
            offset += size
