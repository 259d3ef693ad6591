"""Packs the leaves of a kernel's arguments like a C structure, by Python's `struct`.

packing((FLOAT32, Array(FLOAT32, 1))).offsets               (0, 8)
packing((FLOAT32, Array(FLOAT32, 1))).pack([2.0, address, 100])     a buffer of 24 bytes
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types import model
from cuda_device.types.abi import representation
from cuda_device.types.layout import accesses, align_of, float_bits, is_by_value, leaves, size_of

Leaf = int | float | bool | bytes
"""A number that is passed to a kernel, or the bytes of an argument that is passed by value."""

_CODES = {
    model.NumberKind.BOOL: "?",
    model.NumberKind.INT: "bhiq",
    model.NumberKind.UINT: "BHIQ",
    model.NumberKind.FLOAT: " efd",
}


def code_of(leaf: model.Type) -> str:
    """The format character of a leaf in Python's `struct`."""
    if isinstance(leaf, model.Ref):
        return f"{size_of(leaf.pointee)}s" if is_by_value(leaf) else "Q"
    assert isinstance(leaf, model.Number)
    if leaf.format != model.Format.IEEE:
        return {8: "B", 16: "H"}[leaf.bits]
    codes = _CODES[leaf.kind]
    return codes if leaf.kind is model.NumberKind.BOOL else codes[leaf.bits.bit_length() - 4]


@dataclass(frozen=True)
class Packing:
    """The layout of the leaves of a signature in a C structure."""

    structure: struct.Struct
    offsets: tuple[int, ...]
    """The offset of each parameter."""
    leaf_offsets: tuple[int, ...]
    """The offset of each leaf."""
    codes: tuple[str, ...]
    """The format character of each leaf."""
    singles: frozenset[int]
    """The positions of float32 leaves."""
    odd: Mapping[int, model.Number]
    """The leaves that `struct` cannot pack as floats, so that their bits are packed."""

    @cached_property
    def buffer(self) -> type[ctypes.Array[ctypes.c_char]]:
        """The type of a buffer for the arguments."""
        return ctypes.c_char * (self.structure.size or 1)

    def pack(self, values: Sequence[Any]) -> ctypes.Array[ctypes.c_char]:
        """A buffer with the leaves; a float that is too large for float32 becomes infinite."""
        buffer = self.buffer()
        if self.odd:
            values = [float_bits(self.odd[i], v) if i in self.odd else v for i, v in enumerate(values)]
        try:
            self.structure.pack_into(buffer, 0, *values)
        except OverflowError:
            rounded = (ctypes.c_float(v).value if i in self.singles else v for i, v in enumerate(values))
            self.structure.pack_into(buffer, 0, *rounded)
        return buffer


@lru_cache(maxsize=4096)
def packing(types: tuple[model.Type, ...]) -> Packing:
    """The packing of arguments of these types, each leaf of which is a parameter."""
    return _packing([leaf for type in types for leaf in leaves(type)])


@lru_cache(maxsize=4096)
def boundary_packing(types: tuple[model.Type, ...]) -> Packing:
    """The packing of the parameters of an interoperable kernel."""
    return _packing([representation(type) for type in types])


def _packing(parameters: Sequence[model.Type]) -> Packing:
    """The packing of parameters, each of which has the alignment of its type."""
    leaf_types, codes, texts, offsets, leaf_offsets = [], [], ["="], [], []
    end = packed = 0  # of the structure, and of its leaves
    for type in parameters:
        placed = type.pointee if is_by_value(type) else type
        start = -(-end // align_of(placed)) * align_of(placed)
        offsets.append(start)
        for access in accesses(type, _NO_ALIGNMENT):
            leaf_types.append(access.type)
            codes.append(code_of(access.type))
            leaf_offsets.append(start + access.offset)
            texts.append(f"{leaf_offsets[-1] - packed}x{codes[-1]}")
            packed = leaf_offsets[-1] + struct.calcsize(codes[-1])
        end = start + size_of(placed)
    texts.append(f"{end - packed}x")
    singles = frozenset(i for i, code in enumerate(codes) if code == "f")
    odd = {i: n for i, n in enumerate(leaf_types) if isinstance(n, model.Number) and n.format != model.Format.IEEE}
    return Packing(struct.Struct("".join(texts)), tuple(offsets), tuple(leaf_offsets), tuple(codes), singles, odd)


_NO_ALIGNMENT = 1  # for accesses to one number each
