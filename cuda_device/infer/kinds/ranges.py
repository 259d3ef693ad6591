"""Rules of type inference for ranges: their attributes and truth value.

range(1, n).stop        n
"""

from __future__ import annotations

from cuda_device.infer.frame import Kind, Rank
from cuda_device.library import standard

_PARTS = ("start", "stop", "step")


KIND = Kind(
    rank=Rank.OTHER,
    getattr=lambda frame, _, cell, name: frame.field(cell, _PARTS.index(name)) if name in _PARTS else None,
    names=lambda _: _PARTS,
    truth=lambda frame, cell: frame.truth(
        frame.run(standard.length_of_range, *(frame.field(cell, i) for i in range(3)))
    ),
)
