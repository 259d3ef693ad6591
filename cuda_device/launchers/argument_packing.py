"""What a launcher has read, in the form in which a kernel takes it: packed as `runtime/launch/arguments` packs it.

parameters(code, packing, leaves)                the addresses of the parameters, for the driver
record_and_parameters(code, packing, leaves)     the record of the launch and the parameters, for a kernel on the CPU
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cuda_device.launchers.memory_layout import RECORD_BYTES
from cuda_device.launchers.writer import Code
from cuda_device.runtime.launch.arguments import Packing

Leaf = tuple[str, str]
"""A number that a kernel takes: its type and the value, as LLVM spells them."""


def record_and_parameters(code: Code, packing: Packing, leaves: Sequence[Leaf]) -> tuple[str, int]:
    """Memory with the record of the launch, and the packed leaves behind it; and how many bytes that is."""
    nbytes = RECORD_BYTES + packing.structure.size
    memory = code.memory(nbytes)
    code.copy(memory, "%launch", RECORD_BYTES)
    _pack(code, packing, leaves, code.at(memory, RECORD_BYTES))
    return memory, nbytes


def parameters(code: Code, packing: Packing, leaves: Sequence[Leaf]) -> str:
    """The addresses of the packed leaves, as the driver wants them."""
    buffer = code.memory(packing.structure.size)
    _pack(code, packing, leaves, buffer)
    addresses = code.memory(8 * max(1, len(packing.offsets)))
    for i, offset in enumerate(packing.offsets):
        code.store("ptr", code.at(buffer, offset), addresses, 8 * i)
    return addresses


def _pack(code: Code, packing: Packing, leaves: Sequence[Leaf], buffer: str) -> None:
    for (kind, value), place, letter in zip(leaves, packing.places, packing.codes, strict=True):
        bits = 8 * struct.calcsize(letter)
        if kind == "i64" and bits < 64:
            code.store(f"i{bits}", code.value(f"trunc i64 {value} to i{bits}"), buffer, place)
        else:
            code.store(kind, value, buffer, place)
