"""The layouts of the records that host code, kernels and the block scheduler share on the CPU.

Each record is one table. The LLVM type that kernels use, the NumPy dtype that the scheduler uses, and the `ctypes.Structure` that
the executor uses are all generated from its rows, so they cannot disagree.

    THREAD.load("%x", "%thread", "index.x")   ->   %x.at = getelementptr %Thread, ptr %thread, i32 0, i32 0, i32 0
                                                   %x = load i32, ptr %x.at
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from cuda_device import numpy_dtype, uint32x3
from cuda_device.extend import dataclass

MAXIMUM_THREADS = 1024
"""The most threads of a block."""
WARP_SIZE = 32
FUEL = 64
"""The number of iterations after which a thread yields in a loop that may wait for other threads."""


class Suspension(IntEnum):
    """Why a thread waits. It stores the word `kind << 24 | place`, or 0 when it returns.

    The scheduler relies on the order: waits of the block come first, then `YIELD`, then waits for a number in memory to change,
    by its size, then waits of a warp.
    """

    BARRIER = 1
    COUNT = 2
    AND = 3
    OR = 4
    YIELD = 5
    WORD8 = 6
    WORD16 = 7
    WORD32 = 8
    WORD64 = 9
    ACTIVE = 10
    SYNC = 11
    ALL = 12
    ANY = 13
    EQUAL = 14
    BALLOT = 15
    INDEX = 16
    UP = 17
    DOWN = 18
    XOR = 19
    MATCH_ANY = 20
    MATCH_ALL = 21
    REDUCE_ADD = 22
    REDUCE_MIN = 23
    REDUCE_UMIN = 24
    REDUCE_MAX = 25
    REDUCE_UMAX = 26
    REDUCE_AND = 27
    REDUCE_OR = 28
    REDUCE_XOR = 29


FIRST_MASKED = Suspension.SYNC
"""The first kind with a mask of lanes."""
KIND_SHIFT = 24
PLACE_MASK = (1 << KIND_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Record:
    """A structure in memory: the name or text of its LLVM type, and the LLVM types of its fields by their names.

    A field of the type `INDEX` consists of `field.x`, `field.y` and `field.z`.
    """

    name: str
    fields: Mapping[str, str]

    def __str__(self) -> str:
        return self.name

    def declaration(self) -> str:
        """The definition of the LLVM type."""
        return f"{self.name} = type {{ {', '.join(self.fields.values())} }}\n"

    def index(self, field: str) -> int:
        """The number of a field."""
        return [*self.fields].index(field)

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The NumPy type of the record."""
        return np.dtype([(name, *_numpy(type)) for name, type in self.fields.items()], align=True)

    def offset(self, field: str) -> int:
        """The offset of a field in bytes."""
        fields = self.dtype.fields
        assert fields is not None
        return int(fields[field][1])

    def address(self, result: str, pointer: str, field: str) -> str:
        """Computes the address of `field` in the record at `pointer`."""
        name, _, axis = field.partition(".")
        within = f", i32 {'xyz'.index(axis)}" if axis else ""
        return f"  {result} = getelementptr {self.name}, ptr {pointer}, i32 0, i32 {self.index(name)}{within}\n"

    def _type(self, field: str) -> str:
        return "i32" if "." in field else self.fields[field]

    def load(self, result: str, pointer: str, field: str, metadata: str = "") -> str:
        """Loads `field`."""
        load = f"  {result} = load {self._type(field)}, ptr {result}.at{metadata}\n"
        return self.address(f"{result}.at", pointer, field) + load

    def loads(self, pointer: str, *fields: str) -> str:
        """Loads each field into a value of its name."""
        return "".join(self.load(f"%{field}", pointer, field) for field in fields)

    def store(self, value: str, pointer: str, field: str, address: str = "") -> str:
        """Stores `value`; `address` names the address if the default name is already used."""
        address = address or f"%to.{self.name[1:]}.{field}"
        return self.address(address, pointer, field) + f"  store {self._type(field)} {value}, ptr {address}\n"


INDEX = "%Index"
"""The LLVM type of an index or a size, which is a `uint32x3`."""
_NUMPY: dict[str, Any] = {
    "i32": np.uint32,
    "i64": np.int64,
    "ptr": np.int64,
    INDEX: numpy_dtype(uint32x3),
}


def _numpy(type: str) -> tuple[Any, ...]:
    """The NumPy type of a field, with the shape if it is an array such as `[32 x i32]`."""
    count, _, element = type.strip("[]").rpartition(" x ")
    return (_NUMPY[element], (int(count),)) if count else (_NUMPY[element],)


# What differs between the threads of a block. `lane` is the thread's number in its warp, which has `lanes` threads.
THREAD = Record(
    "%Thread",
    {"index": INDEX, "linear": "i32", "lane": "i32", "lanes": "i32", "block": "ptr", "state": "ptr", "fuel": "i32"},
)

# A warp, with an entry for each lane in each array. `words` say where the lanes wait. The others are the operands of a warp
# operation: a mask; a lane, plus `WIDE` for a value of 64 bits; and the halves of the value, which the result replaces. The
# field `state` of a thread points to its word, from which it finds its other entries. Of a lane that waits for a number in
# memory, `masks` and `sources` are the halves of its address, and `lows` and `highs` those of the old number.
WARP = Record("%Warp", dict.fromkeys(("words", "masks", "sources", "lows", "highs"), f"[{WARP_SIZE} x i32]"))
WIDE = WARP_SIZE

# A block. `warps` is an array of %Warp (the words of lanes that do not exist are 0), `threads` an array of `count` %Thread, and
# `frames` is the memory of `regions`. The function `resume` resumes lanes of a warp. `cluster` is null if each block is a
# cluster; otherwise it points to `CLUSTER_WORDS` words, the counter of the cluster's barriers and the number of its blocks that
# have ended, followed by the address of each block's shared memory, which has `shared_bytes`. `words` is an array of
# `device.memory.BLOCK_WORDS` i32 for barriers. `base` is the position on the host's stack at the start; kernels may use `stack`
# bytes of it. `watch` is the race detector's record of the block, or null.
CLUSTER_WORDS = 2
BLOCK = Record(
    "%Block",
    {
        "index": INDEX,
        "size": INDEX,
        "grid": INDEX,
        "cluster_dim": INDEX,
        "cluster_idx": INDEX,
        "block_rank": "i32",
        "count": "i32",
        "dynamic_bytes": "i32",
        "shared": "ptr",
        "shared_bytes": "i64",
        "dynamic": "ptr",
        "words": "ptr",
        "base": "ptr",
        "cluster": "ptr",
        "control": "ptr",
        "watch": "ptr",
        "parameters": "ptr",
        "warps": "ptr",
        "threads": "ptr",
        "frames": "ptr",
        "resume": "ptr",
    },
)

# A launch. Workers take blocks from the counter `next`, which has a cache line of its own. A `step`, which is a prime number, and
# a `seed` permute the order of blocks and warps; `turns` counts the turns of warps that yielded. `clusters` are the records of
# all clusters. `present` is the number of workers that take turns; `epoch` counts their activities, and `agreed` (the epoch, and
# the number of workers) those that have nothing to do in this epoch but wait for numbers in memory. The function `judge` returns
# whether others than the launch may write to an address. `numbers` is null, or an array of the numbers for which the threads of
# a report wait, followed by an array of their addresses.
CONTROL = Record(
    "%Control",
    {
        "next": "i64",
        "padding": "[15 x i64]",
        "blocks": "i64",
        "chunk": "i64",
        "parameters": "ptr",
        "grid": INDEX,
        "size": INDEX,
        "cluster_dim": INDEX,
        "dynamic_bytes": "i32",
        "checked": "i32",
        "stop": "i32",
        "grid_word": "i32",
        "status": "i32",
        "place": "i32",
        "report_block": INDEX,
        "report_thread": INDEX,
        "log": "ptr",
        "print": "ptr",
        "stack": "i64",
        "seed": "i64",
        "step": "i64",
        "turns": "i64",
        "clusters": "ptr",
        "judge": "ptr",
        "present": "i64",
        "epoch": "i64",
        "agreed": "i64",
        "values": "[2 x i64]",
        "numbers": "ptr",
        "waiting": f"[{MAXIMUM_THREADS} x i32]",
    },
)

# What the race detector knows about a block: the log of the launch, and `moment`, the number of what the block does from one
# barrier to the next. `cells` is the shadow of its shared memory, with a cell for `unit` bytes; `unit` is 0 if the threads record
# events. The loads and stores of a `quiet` thread are no events, because it makes a copy whose reads are recorded as a whole.
WATCH = Record(
    "%Watch",
    {"log": "ptr", "moment": "i64", "cells": "ptr", "unit": "i64", "quiet": f"[{MAXIMUM_THREADS} x i32]"},
)

# The log of the race detector: `count` events, with room for `capacity`. The function `full` empties it; its argument is the
# address of the log. If there are `kinds`, a number for each place, `shadow_memory` checks the accesses: `pages` is its
# table of pages, and the function `fetch` makes the entry for the page `missing`. A cell stands for 1 << `shift` bytes, or
# 1 << `shared_shift` in shared memory. `moments` counts those of all blocks.
LOG = Record(
    "%Log",
    {
        "count": "i64",
        "capacity": "i64",
        "events": "ptr",
        "full": "ptr",
        "kinds": "ptr",
        "pages": "ptr",
        "fetch": "ptr",
        "missing": "i64",
        "shift": "i64",
        "shared_shift": "i64",
        "moments": "i64",
    },
)
# An access, or the end of a wait: the place in the program, an address or a mask, and whether memory was written.
EVENT = Record("%Event", {"block": "i64", "thread": "i32", "place": "i32", "value": "i64", "done": "i64"})

GENERIC, SKIPPED, HUSHES, WAKES = 1, 2, 4, 8
"""The flags of an event: its address may be in any memory; quiet threads skip it; the thread is quiet from now on; it is not."""

RECORDS = (Record(INDEX, dict.fromkeys("xyz", "i32")), THREAD, WARP, BLOCK, CONTROL, WATCH, LOG, EVENT)

INTERLEAVED = 256
"""The most blocks of a worker that wait at the same time."""

RUN = "cuda_device.run"
EXPORTS = tuple(f"cuda_device.{name}" for name in ("blocks", "crew", "keep", "trace", "settle", "exchange"))
"""The functions for kernels that `scheduler` defines."""
CREW = "cuda_device.crew"
STRAIGHT = ("cuda_device.blocks", "cuda_device.keep")
"""The `EXPORTS` that do not gain from LLVM's optimiser."""
CONVERSIONS = ("__truncdfhf2", "__truncsfhf2", "__truncdfbf2", "__truncsfbf2", "__extendhfsf2")
NANOSECONDS = "cuda_device.nanoseconds"
SUPPORT = frozenset((*EXPORTS, *CONVERSIONS, NANOSECONDS))
"""The functions that kernels may call; `host_code` defines those that are not in `EXPORTS`."""
