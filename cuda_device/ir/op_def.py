"""What a row of the table of operations (`ir/ops`) says: the levels, the effects, the row itself."""

from __future__ import annotations

import enum

from cuda_device.lazy_dataclasses import dataclass


class Level(enum.Flag):
    """A stage of the IR; a row may be legal at several."""

    PYTHON = enum.auto()
    TYPED = enum.auto()
    DEVICE = enum.auto()


class Effect(enum.Flag):
    """What an operation or a function does beside computing its results.

    CONVERGENT operations must be reached by the same threads as in the source: nothing may move, duplicate or guard them.
    SUSPENDS marks those at which a thread waits for others: the CPU stream makes coroutines of functions that have one.
    EXITS marks those that may end the thread.
    SPINS marks those that a loop may repeat until another thread does something: atomics.
    """

    PURE = 0
    READS = enum.auto()
    WRITES = enum.auto()
    CONVERGENT = enum.auto()
    SUSPENDS = enum.auto()
    SPINS = enum.auto()
    EXITS = enum.auto()
    TERMINATES = enum.auto()
    LOCAL = enum.auto()


MANY = -1  # as many operands or results as the operation at hand has


@dataclass(frozen=True, eq=False, slots=True)
class OpDef:
    """One row. `attributes` name what an operation carries beside operands, `optional` what it may carry."""

    name: str
    levels: Level
    operands: int
    results: int
    doc: str
    attributes: tuple[str, ...] = ()
    effects: Effect = Effect.PURE
    successors: int = 0
    optional: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.name
