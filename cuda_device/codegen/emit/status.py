"""What a thread's report says: the same numbers on a GPU and on the CPU."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What a report says. The first report of a launch wins: `CLAIMED` while its writer fills in the rest."""

    NONE = 0
    CLAIMED = 1
    ASSERTION = 2
    EXCEPTION = 3
    CHECK = 4
    DEADLOCK = 5
    DIVERGENT_BARRIER = 6
    OUT_OF_MEMORY = 7
    OUTSIDE_MASK = 8
