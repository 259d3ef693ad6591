"""What a cubin says of a kernel without a GPU and without NVIDIA's tools: instructions, registers, spills.

A cubin is an ELF file. From Volta on an instruction has 16 bytes, of which the lowest 12 bits are the operation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

NOP, LOAD_LOCAL, STORE_LOCAL = 0x918, 0x983, 0x387
INSTRUCTION = 16  # bytes
SIZED, REGISTER_COUNT = 4, 0x2F  # of the section .nv.info


@dataclass(frozen=True, slots=True)
class Code:
    """`instructions` in the kernel's text without the padding at its end; `spills` are accesses of local memory."""

    instructions: int
    registers: int
    spills: int


def measure(cubin: bytes, symbol: str) -> Code:
    """The code of the kernel `symbol`. Raises `ValueError` where the cubin has no such kernel."""
    sections = dict(_sections(cubin))
    text = sections.get(f".text.{symbol}")
    if text is None:
        raise ValueError(f"the cubin has no kernel {symbol}")
    operations = [
        struct.unpack_from("<Q", text, place)[0] & 0xFFF for place in range(0, len(text) - INSTRUCTION + 1, INSTRUCTION)
    ]
    while operations and operations[-1] == NOP:
        operations.pop()
    spills = sum(operation in (LOAD_LOCAL, STORE_LOCAL) for operation in operations)
    return Code(len(operations), _registers(sections, symbol), spills)


def _registers(sections: dict[str, bytes], symbol: str) -> int:
    """The registers of a thread: an attribute of the function, whose number in the table of symbols comes before the value."""
    names, symbols, info = sections[".strtab"], sections[".symtab"], sections[".nv.info"]
    place = 0
    while place < len(info):
        form, attribute, length = struct.unpack_from("<BBH", info, place)
        place += 4
        if form != SIZED:
            continue
        if attribute == REGISTER_COUNT:
            number, count = struct.unpack_from("<II", info, place)
            (start,) = struct.unpack_from("<I", symbols, 24 * number)
            if names[start : names.index(b"\0", start)].decode() == symbol:
                return int(count)
        place += length
    raise ValueError(f"the cubin does not say how many registers {symbol} has")


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the sections of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = headers[names_index][4]
    for name, _, _, _, offset, length in headers:
        start = names + name
        yield elf[start : elf.index(b"\0", start)].decode(), elf[offset : offset + length]
