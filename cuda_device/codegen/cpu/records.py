"""The layouts of the records that host code, kernels and the block scheduler share on the CPU.

Each record is one table. The LLVM type that kernels use, the NumPy dtype that the scheduler uses, and the `ctypes.Structure` that
the executor uses are all generated from its rows, so they cannot disagree.

    THREAD.load("%x", "%thread", "x")   ->   %x.at = getelementptr %Thread, ptr %thread, i32 0, i32 0
                                             %x = load i32, ptr %x.at
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from cuda_device.lazy_dataclasses import dataclass

# The hardware's limit, and so the length of the list of waiting threads in a report.
MAXIMUM_THREADS = 1024
WARP_SIZE = 32


FUEL = 64
"""So many turns of a loop that may wait for other threads pass before they get theirs."""


class Suspension(IntEnum):
    """Why a thread waits. The word that it leaves behind is `kind << 24 | place`; 0 means that it has returned.

    First those of a whole block, then a turn for others, then those of a warp: the scheduler compares.
    """

    BARRIER = 1
    COUNT = 2
    AND = 3
    OR = 4
    YIELD = 5
    ACTIVE = 6
    SYNC = 7
    ALL = 8
    ANY = 9
    EQUAL = 10
    BALLOT = 11
    INDEX = 12
    UP = 13
    DOWN = 14
    XOR = 15
    MATCH_ANY = 16
    MATCH_ALL = 17
    REDUCE_ADD = 18
    REDUCE_MIN = 19
    REDUCE_UMIN = 20
    REDUCE_MAX = 21
    REDUCE_UMAX = 22
    REDUCE_AND = 23
    REDUCE_OR = 24
    REDUCE_XOR = 25


# The first kind that has a mask of lanes.
FIRST_MASKED = Suspension.SYNC


KIND_SHIFT = 24
PLACE_MASK = (1 << KIND_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Record:
    """A structure in memory: its LLVM type (a name, or text for one without), its fields as (name, LLVM type)."""

    name: str
    fields: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return self.name

    def declaration(self) -> str:
        """The type's definition."""
        return f"{self.name} = type {{ {', '.join(type for _, type in self.fields)} }}\n"

    def index(self, field: str) -> int:
        """Where `field` stands."""
        return [name for name, _ in self.fields].index(field)

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The same record for NumPy, and so for our own Python: dots in names become underscores."""
        return np.dtype([(name.replace(".", "_"), *_numpy(type)) for name, type in self.fields], align=True)

    def offset(self, field: str) -> int:
        """How many bytes behind the beginning a field stands."""
        fields = self.dtype.fields
        assert fields is not None
        return int(fields[field.replace(".", "_")][1])

    def address(self, result: str, pointer: str, field: str) -> str:
        """Text that makes `result` the address of `field` in the record at `pointer`."""
        return f"  {result} = getelementptr {self.name}, ptr {pointer}, i32 0, i32 {self.index(field)}\n"

    def load(self, result: str, pointer: str, field: str, metadata: str = "") -> str:
        """Text that makes `result` the value of `field`."""
        type = self.fields[self.index(field)][1]
        return self.address(f"{result}.at", pointer, field) + f"  {result} = load {type}, ptr {result}.at{metadata}\n"

    def loads(self, pointer: str, *fields: str) -> str:
        """Text that loads each of `fields` into the value `%field`."""
        return "".join(self.load(f"%{field}", pointer, field) for field in fields)

    def store(self, value: str, pointer: str, field: str, at: str = "") -> str:
        """Text that writes `value`; `at` names the address, where the name made from the field's is taken."""
        type = self.fields[self.index(field)][1]
        at = at or f"%to.{self.name[1:]}.{field}"
        return self.address(at, pointer, field) + f"  store {type} {value}, ptr {at}\n"


_NUMPY: dict[str, type[np.generic]] = {"i32": np.uint32, "i64": np.int64, "ptr": np.int64}


def _numpy(type: str) -> tuple[Any, ...]:
    """NumPy's type, and the shape of an array: `[32 x i32]`."""
    count, _, element = type.strip("[]").rpartition(" x ")
    return (_NUMPY[element], (int(count),)) if count else (_NUMPY[element],)


def _three(name: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{name}.{axis}", "i32") for axis in "xyz")


# One for each thread of the block that a worker runs. Only what differs between the threads of a block.
THREAD = Record(
    "%Thread",
    (
        ("x", "i32"),
        ("y", "i32"),
        ("z", "i32"),
        ("linear", "i32"),
        ("lane", "i32"),
        ("lanes", "i32"),
        ("block", "ptr"),
        ("state", "ptr"),
        ("fuel", "i32"),
    ),
)

# One for each warp of the block that a worker runs, an entry of each array for each lane. `words` say where the lanes
# wait, the others what they bring to a meeting: a mask, a lane (plus `WIDE` for a number of 64 bits), a number in two
# halves. The meeting's results come back in the halves. Threads reach theirs from their word, to which `state` points.
_LANES = f"[{WARP_SIZE} x i32]"
WARP = Record("%Warp", tuple((name, _LANES) for name in ("words", "masks", "sources", "lows", "highs")))
WIDE = WARP_SIZE

# One for each block that runs. `warps`, `threads` are arrays: the %Warp of each warp (the words of
# lanes that do not exist are 0), and for each of `count` threads its %Thread. `frames` are those of the warps
# (`regions`). `resume` lets lanes of a warp go on. `cluster` is the record of the block's cluster: a number that its barriers
# count in, and the address of the shared memory of each of its blocks; null where each block is a cluster. `base` is where the
# host thread's stack began to be used for kernels, of which a launch may use `stack` bytes. For the race detector, `moment` is
# the number of what the block does from one barrier to the next. `words` and `cells` are the shadow of its shared memory, one of
# each for `unit` bytes. `unit` is 0 if the threads record events, and -1 if the shared memory has no shadow of its own.
BLOCK = Record(
    "%Block",
    (
        *_three("index"),
        *_three("size"),
        *_three("grid"),
        *_three("cluster_dim"),
        *_three("cluster_idx"),
        ("block_rank", "i32"),
        ("count", "i32"),
        ("dynamic_bytes", "i32"),
        ("shared", "ptr"),
        ("dynamic", "ptr"),
        ("base", "ptr"),
        ("cluster", "ptr"),
        ("control", "ptr"),
        ("log", "ptr"),
        ("moment", "i64"),
        ("words", "ptr"),
        ("cells", "ptr"),
        ("unit", "i64"),
        ("parameters", "ptr"),
        ("warps", "ptr"),
        ("threads", "ptr"),
        ("frames", "ptr"),
        ("resume", "ptr"),
    ),
)

# One for each launch. `next` is what the workers contend for: alone on its cache line. With a `step`, which is a prime, and a
# `seed` blocks and warps have their turns in another order; `turns` counts those of warps that yielded. `clusters` are the
# records of all clusters, one behind the other.
CONTROL = Record(
    "%Control",
    (
        ("next", "i64"),
        ("padding", "[15 x i64]"),
        ("blocks", "i64"),
        ("chunk", "i64"),
        ("parameters", "ptr"),
        *_three("grid"),
        *_three("size"),
        *_three("cluster_dim"),
        ("dynamic_bytes", "i32"),
        ("checked", "i32"),
        ("stop", "i32"),
        ("grid.word", "i32"),
        ("status", "i32"),
        ("place", "i32"),
        *_three("report.block"),
        *_three("report.thread"),
        ("log", "ptr"),
        ("print", "ptr"),
        ("stack", "i64"),
        ("seed", "i64"),
        ("step", "i64"),
        ("turns", "i64"),
        ("clusters", "ptr"),
        ("value.0", "i64"),
        ("value.1", "i64"),
        ("waiting", f"[{MAXIMUM_THREADS} x i32]"),
    ),
)

# What the threads of a launch did, for the race detector: `count` events of the `capacity` that there is room for. The
# function `full` empties it; it gets the address of the log. Where there are `kinds`, a number for each place, accesses are
# checked by `shadow_memory`: `pages` is a hash table of `mask` + 1 pairs, the number of a page and its shadow, and `grow` adds
# the one that is `missing`. A cell stands for 1 << `shift` bytes, or 1 << `shared_shift` in shared memory, which is found by its
# address if that is -1. There were so many `moments` of blocks.
LOG = Record(
    "%Log",
    (
        ("count", "i64"),
        ("capacity", "i64"),
        ("events", "ptr"),
        ("full", "ptr"),
        ("kinds", "ptr"),
        ("pages", "ptr"),
        ("mask", "i64"),
        ("grow", "ptr"),
        ("missing", "i64"),
        ("shift", "i64"),
        ("shared_shift", "i64"),
        ("moments", "i64"),
    ),
)
# One access, or one end of a wait: at a place of the program, with an address or a mask, and whether a write took place.
EVENT = Record("%Event", (("block", "i64"), ("thread", "i32"), ("place", "i32"), ("value", "i64"), ("done", "i64")))

# A word of `shadow_memory`: the number of a moment, what happened in it to the location and at which place in the program, and
# the one or two threads that did.
WORD = Record("%Word", (("when", "i64"), ("first", "i32"), ("second", "i32")))
READ, WRITE = range(2)
WRITTEN, READ_ONCE, READ_TWICE, MIXED = range(4)
STATE_SHIFT, WHEN_SHIFT = KIND_SHIFT, KIND_SHIFT + 2

RECORDS = (THREAD, WARP, BLOCK, CONTROL, LOG, EVENT, WORD)

INTERLEAVED = 256
"""So many blocks of a worker may wait at a time."""

# The names of functions: what surrounds each kernel, and what is the same for all.

RUN = "cuda_device.run"
EXPORTS = tuple(f"cuda_device.{name}" for name in ("blocks", "crew", "keep", "trace", "passes", "reduce", "exchange"))
"""What `scheduler` defines for kernels."""
CREW = "cuda_device.crew"
STRAIGHT = ("cuda_device.blocks", "cuda_device.keep")
"""Those of `EXPORTS` that do not gain from LLVM's optimiser."""
CONVERSIONS = ("__truncdfhf2", "__truncsfhf2", "__truncdfbf2", "__truncsfbf2", "__extendhfsf2")
NANOSECONDS = "cuda_device.nanoseconds"
SUPPORT = frozenset((*EXPORTS, *CONVERSIONS, NANOSECONDS))
"""What kernels may call: `host_code` defines the others."""
