"""How the leaves of a kernel's arguments lie in memory: like the members of a C structure.

packing((FLOAT32, INT32)).pack([1.5, 7])        # a buffer of 8 bytes
packing((FLOAT32, INT32)).offsets               # (0, 4)
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.layout import float_bits, leaves
from cuda_device.types.model import Format, Kind, Number, Ref, Type

Leaf = int | float | bool
"""A number that travels to a kernel."""

_CODES = {Kind.BOOL: "?", Kind.INT: "bhiq", Kind.UINT: "BHIQ", Kind.FLOAT: " efd"}


def code_of(leaf: Type) -> str:
    """The letter that `struct` has for a leaf."""
    if isinstance(leaf, Ref):
        return "Q"
    assert isinstance(leaf, Number)
    if leaf.format is not Format.IEEE:
        return {8: "B", 16: "H"}[leaf.bits]
    codes = _CODES[leaf.kind]
    return codes if leaf.kind is Kind.BOOL else codes[leaf.bits.bit_length() - 4]


@dataclass(frozen=True, slots=True)
class Packing:
    """How the leaves of a signature lie in a C structure."""

    structure: struct.Struct
    offsets: tuple[int, ...]
    """Where each parameter starts."""
    places: tuple[int, ...]
    """Where each leaf is."""
    codes: tuple[str, ...]
    """What each leaf is, as `struct` says it."""
    singles: frozenset[int]
    """Which leaves are float32."""
    odd: Mapping[int, Number]
    """Which leaves are floats that Python cannot pack: their bits are packed."""

    @property
    def buffer(self) -> type[ctypes.Array[ctypes.c_char]]:
        """The type of a buffer for them; ctypes keeps one for each size."""
        return ctypes.c_char * (self.structure.size or 1)

    def pack(self, values: Sequence[Leaf]) -> ctypes.Array[ctypes.c_char]:
        """A buffer with the values; a float that is too large for float32 is infinite there."""
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
def packing(types: tuple[Type, ...]) -> Packing:
    """The packing of arguments of these types."""
    found = [leaf for type in types for leaf in leaves(type)]
    codes = [code_of(leaf) for leaf in found]
    offsets = []
    for i, code in enumerate(codes):
        offsets.append(struct.calcsize("@" + "".join(codes[: i + 1])) - struct.calcsize(code))
    places = tuple(offsets)
    return Packing(struct.Struct("@" + "".join(codes)), places, places, tuple(codes), *marks(found))


def marks(found: Sequence[Type]) -> tuple[frozenset[int], dict[int, Number]]:
    """Which leaves are float32, and which are packed as the bits of what format."""
    singles = frozenset(i for i, leaf in enumerate(found) if code_of(leaf) == "f")
    odd = {i: n for i, n in enumerate(found) if isinstance(n, Number) and n.format is not Format.IEEE}
    return singles, odd
