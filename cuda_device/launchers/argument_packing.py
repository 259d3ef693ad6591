"""What a launcher has read, in the form in which a kernel takes it: packed as `types/abi` packs it.

parameters(code, packing, leaves)        the addresses of the parameters, for the driver
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cuda_device.launchers.guard_writer import GuardWriter
from cuda_device.types.abi import Packing

PackedLeaf = tuple[str, str]
"""A number that a kernel takes: its type and the value, as LLVM spells them."""


def parameters(code: GuardWriter, packing: Packing, leaves: Sequence[PackedLeaf]) -> str:
    """The addresses of the packed leaves, as the driver wants them."""
    buffer = code.memory(packing.structure.size)
    _pack(code, packing, leaves, buffer)
    addresses = code.memory(8 * max(1, len(packing.offsets)))
    for i, offset in enumerate(packing.offsets):
        code.store("ptr", code.at(buffer, offset), addresses, 8 * i)
    return addresses


def _pack(code: GuardWriter, packing: Packing, leaves: Sequence[PackedLeaf], buffer: str) -> None:
    for (kind, value), place, letter in zip(leaves, packing.places, packing.codes, strict=True):
        bits = 8 * struct.calcsize(letter)
        if kind == "i64" and bits < 64:
            code.store(f"i{bits}", code.value(f"trunc i64 {value} to i{bits}"), buffer, place)
        else:
            code.store(kind, value, buffer, place)
