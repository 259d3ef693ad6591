"""The device table: every row, assembled by explicit import. What is not here, device code cannot name."""

from __future__ import annotations

from cuda_device.device import builtins, math, memory, positioning, sync
from cuda_device.device.rows import Intrinsic

ALL: tuple[Intrinsic, ...] = (*positioning.ROWS, *memory.ROWS, *sync.ROWS, *builtins.ROWS, *math.ROWS)
BY_NAME = {row.name: row for row in ALL}
# By identity: some entities compare equal to others (np.float32 == np.dtype("float32")), some do not hash.
_BY_IDENTITY = {id(row.entity): row for row in ALL}


def find(entity: object) -> Intrinsic | None:
    """The row of an entity, or None."""
    row = _BY_IDENTITY.get(id(entity))
    return row if row is not None and row.entity is entity else None
