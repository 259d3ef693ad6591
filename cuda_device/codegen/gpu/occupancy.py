"""Registers and how many threads run at once: a register or two more than so many warps can have is worth saving.

warps(96), warps(97)     20, 16          of a multiprocessor, which has 65536 registers, given out by 8 for each thread
fewer(97)                96
fewer(100)               None            more than the assembler saves without writing registers to memory
"""

from __future__ import annotations

import struct

from cuda_device.codegen.gpu import elf

_REGISTERS, _PARTITIONS, _LANES, _MOST_WARPS = 1 << 16, 4, 32, 16
_UNIT = 8
_SAVED = 2
"""Registers that the assembler may be asked to do without."""
_ACCESSES = 4
"""Of local memory, which it may need for that."""
_INSTRUCTION = 16  # bytes
_LOCAL = (0x983, 0x387)
"""The operations that load from and store to local memory: the lowest 12 bits of an instruction."""


def warps(registers: int) -> int:
    """How many warps of a multiprocessor can have so many registers a thread."""
    each = -(-registers // _UNIT) * _UNIT * _LANES
    return _PARTITIONS * min(_MOST_WARPS, _REGISTERS // _PARTITIONS // each)


def fewer(registers: int) -> int | None:
    """A number of registers that is a little less, and with which more warps run; None if there is none."""
    least = (registers - 1) // _UNIT * _UNIT
    return least if least and registers - least <= _SAVED and warps(least) > warps(registers) else None


def is_as_good(code: bytes, other: bytes, kernel: str) -> bool:
    """Whether a kernel's code in a cubin is hardly longer than in another one, and hardly more in local memory."""
    now, before = _operations(code, kernel), _operations(other, kernel)
    spilled = sum(now.count(each) - before.count(each) for each in _LOCAL)
    return spilled <= _ACCESSES and len(now) <= len(before) + len(before) // 32 + _ACCESSES


def _operations(cubin: bytes, kernel: str) -> list[int]:
    for section in elf.sections(cubin):
        if section.name == f".text.{kernel}":
            text = elf.content(cubin, section)
            return [
                low & 0xFFF for low, _ in struct.iter_unpack("<QQ", text[: len(text) // _INSTRUCTION * _INSTRUCTION])
            ]
    return []
