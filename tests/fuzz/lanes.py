"""What threads know and tell each other, much of it in one kernel: beside lists of what each thread has.

    o3[t] = device.shfl_down_sync(-1, v, 5)         v[t + 5] where that is a lane of the warp, else v[t]

A grid and blocks of any shape; each row stores a number of 64 bits for each thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined

AXES = "xyz"
AT_ONCE = 22
# Types of what lanes exchange, and factors: numbers whose upper or lower half alone tells lanes apart, or both.
NARROW = {"int8": (1, -8), "uint16": (1, 4096), "float16": (1, 128)}
WORDS = {"int32": (1, -1, 2**27), "uint32": (1, 2**28), "float32": (1, -(2**20))}
WIDE: dict[str, tuple[int, ...]] = {
    "int64": (1, 2**32, -(2**32) - 1),
    "uint64": (2**32, 2**59),
    "float64": (1, -(2**45)),
}
TYPES: dict[str, tuple[int, ...]] = {**NARROW, **WORDS, **WIDE}


@dataclass(frozen=True)
class Threads:
    """A grid of threads, and what each of them has."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    values: list[list[int]]

    @property
    def size(self) -> int:
        """The threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def warp(self, t: int) -> range:
        """The threads of the warp of a thread, which are numbered through all blocks."""
        first = t - t % self.size % 32
        return range(first, min(first + 32, t - t % self.size + self.size))

    def of_block(self, t: int) -> range:
        """The threads of its block."""
        return range(t - t % self.size, t - t % self.size + self.size)

    def place(self, t: int, level: str, axis: int) -> int:
        """Where a thread is in its block, or its block in the grid."""
        shape, number = (self.block, t % self.size) if level == "thread" else (self.grid, t // self.size)
        return (number, number // shape[0], number // (shape[0] * shape[1]))[axis] % shape[axis]


Row = tuple[str, Callable[[Threads, int], int]]


def rows(choose: random.Random) -> list[Row]:
    """A statement of each kind, with numbers of its own: an expression, and what it is for a thread."""
    found: list[Row] = []

    def add(text: str, value: Callable[[Threads, int], Any]) -> None:
        found.append((text, lambda threads, t: int(value(threads, t))))

    for axis, name in enumerate(AXES):
        add(f"device.thread_idx.{name}", lambda g, t, axis=axis: g.place(t, "thread", axis))
        add(f"device.block_idx.{name}", lambda g, t, axis=axis: g.place(t, "block", axis))
        add(f"device.block_dim.{name}", lambda g, t, axis=axis: g.block[axis])
        add(f"device.grid_dim.{name}", lambda g, t, axis=axis: g.grid[axis])
        add(
            f"device.tid(3)[{axis}]",
            lambda g, t, axis=axis: g.place(t, "block", axis) * g.block[axis] + g.place(t, "thread", axis),
        )
        add(f"device.grid_size(3)[{axis}]", lambda g, t, axis=axis: g.block[axis] * g.grid[axis])
    add("device.tid(1)", lambda g, t: g.place(t, "block", 0) * g.block[0] + g.place(t, "thread", 0))
    add("device.lane_id", lambda g, t: t % g.size % 32)
    add("int(device.lanemask_lt())", lambda g, t: _signed((1 << t % g.size % 32) - 1))
    add("int(device.activemask())", lambda g, t: _signed((1 << len(g.warp(t))) - 1))
    k, few = choose.randint(0, 9), choose.randint(0, 3)
    lane, step = choose.randint(0, 31), choose.randint(0, 31)
    mask = "device.activemask()"
    holds = {
        f"v{few} > {k}": lambda g, t: g.values[few][t] > k,
        f"v{few} % 3 == 0": lambda g, t: g.values[few][t] % 3 == 0,
        "v0 >= 0": lambda g, t: True,
        "v0 < 0": lambda g, t: False,
    }
    for text, flag in holds.items():
        add(
            f"int(device.ballot_sync({mask}, {text}))",
            lambda g, t, flag=flag: _signed(sum(1 << i for i, u in enumerate(g.warp(t)) if flag(g, u))),
        )
        add(f"device.all_sync({mask}, {text})", lambda g, t, flag=flag: all(flag(g, u) for u in g.warp(t)))
        add(f"device.any_sync({mask}, {text})", lambda g, t, flag=flag: any(flag(g, u) for u in g.warp(t)))
        add(f"device.eq_sync({mask}, {text})", lambda g, t, flag=flag: len({flag(g, u) for u in g.warp(t)}) == 1)
        add(f"device.syncthreads_count({text})", lambda g, t, flag=flag: sum(flag(g, u) for u in g.of_block(t)))
        add(f"device.syncthreads_and({text})", lambda g, t, flag=flag: all(flag(g, u) for u in g.of_block(t)))
        add(f"device.syncthreads_or({text})", lambda g, t, flag=flag: any(flag(g, u) for u in g.of_block(t)))
    moves: dict[str, Callable[[int], int]] = {
        f"shfl_up_sync({mask}, {{}}, {step})": lambda i: i - step if i >= step else i,
        f"shfl_down_sync({mask}, {{}}, {step})": lambda i: i + step if i + step < 32 else i,
        f"shfl_xor_sync({mask}, {{}}, {step % 8})": lambda i: i ^ step % 8,
        f"shfl_sync({mask}, {{}}, (device.lane_id + {lane}) % 32)": lambda i: (i + lane) % 32,
        f"shfl_sync({mask}, {{}}, {lane % 8})": lambda i: lane % 8,
    }
    found = choose.sample(found, AT_ONCE)
    for text, source in moves.items():
        number = choose.randrange(4)
        kind, factor = choose.choice([(kind, factor) for kind, factors in TYPES.items() for factor in factors])
        add(
            f"device.{text.format(f'device.{kind}(v{number}) * {factor}')}",
            lambda g, t, source=source, number=number, factor=factor: _from_lane(g, t, source, number, factor),
        )
    for kinds in (WORDS, WIDE):
        number, kind = choose.randrange(4), choose.choice([*kinds])
        value = f"device.{kind}(v{number}) * {choose.choice(kinds[kind])}"
        same = [f"match_any_sync({mask}, {value})", f"match_all_sync({mask}, {value})[0]"]
        add(f"int(device.{same[0]})", lambda g, t, number=number: _signed(_alike(g, t, number)))
        add(
            f"int(device.{same[1]})",
            lambda g, t, number=number: _signed(_alike(g, t, number)) if _agree(g, t, number) else 0,
        )
        add(f"device.{same[1].replace('[0]', '[1]')}", lambda g, t, number=number: _agree(g, t, number))
    return choose.sample(found, len(found))


def _alike(threads: Threads, t: int, number: int) -> int:
    """The lanes with the value of a thread."""
    values = threads.values[number]
    return sum(1 << i for i, u in enumerate(threads.warp(t)) if values[u] == values[t])


def _agree(threads: Threads, t: int, number: int) -> bool:
    return len({threads.values[number][u] for u in threads.warp(t)}) == 1


def _signed(mask: int) -> int:
    return mask - (1 << 32) if mask >> 31 else mask


def _from_lane(threads: Threads, t: int, source: Callable[[int], int], number: int, factor: int) -> int:
    """What a lane tells another; where there is none nothing is said, and nothing compared."""
    warp = threads.warp(t)
    lane = source(t % threads.size % 32)
    return threads.values[number][warp[lane]] * factor if lane < len(warp) else OPEN


OPEN = -(10**18)
_INNER = (
    "int((device.thread_idx.z * device.block_dim.y + device.thread_idx.y) * device.block_dim.x + device.thread_idx.x)"
)
_OUTER = "int((device.block_idx.z * device.grid_dim.y + device.block_idx.y) * device.grid_dim.x + device.block_idx.x)"
_LINEAR = f"{_OUTER} * int(device.block_dim.x * device.block_dim.y * device.block_dim.z) + {_INNER}"
_MASKED = (
    "device.any_sync({}, t > 0)", "device.ballot_sync({}, t > 0)", "device.shfl_sync({}, t, 0)", "device.match_any_sync({}, t)",
    "device.shfl_xor_sync({}, device.float64(t), 1)", "device.match_all_sync({}, t)[1]", "device.eq_sync({}, t > 0)",
)  # fmt: skip


class Lanes(Case):
    """Some rows, in any order."""

    kind = "lanes"
    everywhere = True

    def __init__(self, number: int) -> None:
        super().__init__(number)
        choose = random.Random(f"lanes {number}")
        block = choose.choice(((32, 1, 1), (8, 4, 1), (64, 1, 1), (4, 4, 4), (40, 1, 1), (5, 3, 3), (7, 1, 2)))
        grid = choose.choice(((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 3), (2, 2, 1)))
        threads = Threads(grid, block, [])
        count = threads.size * threads.blocks
        most = choose.choice((1, 3, 15))
        self.threads = Threads(grid, block, [[choose.randint(0, most) for _ in range(count)] for _ in range(4)])
        self.rows = rows(choose)
        self.options = {"level": choose.randint(0, 3), "checked": threads.size % 32 == 0 and choose.random() < 0.2}
        self.is_atomic = choose.random() < 0.5

    def source(self) -> str:
        d = "device"
        lines = ["def k(o, a, b, c, e, total):"]
        lines += [f"    t = {_LINEAR}"]
        lines += [f"    v{i} = {name}[t]" for i, name in enumerate("abce")]
        for place, (text, _) in enumerate(self.rows):
            lines.append(f"    o[t, {place}] = device.int64({text})")
        lines += [
            f"    s = {d}.shared_array({self.threads.size}, {d}.int32)",
            f"    s[t % {self.threads.size}] = v0",
            f"    {d}.syncthreads()",
        ]
        lines += [f"    o[t, {len(self.rows)}] = s[{self.threads.size - 1} - t % {self.threads.size}]"]
        lines += [
            f"    {d}.atomic_ref(total, 0).add(v1)",
            f"    {d}.atomic_ref(total, 1).max(v2)",
            f"    {d}.atomic_ref(total, 2).xor(v3)",
        ]
        return "\n".join(lines) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        kernel = device.kernel(**self.options)(
            defined(self.source(), "k", {"device": device}, f"<lanes {self.number}>")
        )
        threads = self.threads
        count = threads.size * threads.blocks
        out = device.array(np.full((count, len(self.rows) + 1), 77, np.int64), stream=stream)
        given = [device.array(np.array(each, np.int32), stream=stream) for each in threads.values]
        total = device.array(np.zeros(3, np.int32), stream=stream)
        device.launch(kernel, out, *given, total, grid=threads.grid, block=threads.block, stream=stream)
        device.synchronize(stream)
        found = out.numpy()
        for place, (text, value) in enumerate(
            [*self.rows, ("the other end", lambda g, t: g.values[0][g.of_block(t)[-1 - t % g.size]])]
        ):
            for t in range(count):
                expected = value(threads, t)
                if expected not in (OPEN, found[t, place]):
                    return (
                        f"{text} is {found[t, place]} for thread {t} of {threads.grid}, {threads.block}, not {expected}"
                    )
        wanted = [sum(threads.values[1]), max(threads.values[2]), 0]
        for each in threads.values[3]:
            wanted[2] ^= each
        if total.numpy().tolist() != wanted:
            return f"all together make {total.numpy()}, not {wanted}"
        return self._outside(stream) if isinstance(stream, type(device.cpu_stream())) else None

    def _outside(self, stream: device.Stream) -> str | None:
        """On the CPU a lane that passes a mask without itself is reported: the mask, the lane, the thread and its block."""
        choose = random.Random(f"outside {self.number}")
        threads, sizes = self.threads, self.threads.size
        t = choose.randrange(sizes * threads.blocks)
        warp = threads.warp(t)
        lane = t - warp[0]
        mask = choose.getrandbits(32) & ~(1 << lane)
        text = f"def k(out, n):\n    t = {_LINEAR}\n    if t == n:\n        out[0] = int({choose.choice(_MASKED).format(mask)})\n"
        kernel = device.kernel(checked=choose.random() < 0.3)(defined(text, "k", {"device": device}, f"<outside {t}>"))
        try:
            out = device.array(np.zeros(1, np.int32), stream=stream)
            device.launch(kernel, out, t, grid=threads.grid, block=threads.block, stream=stream)
            device.synchronize(stream)
        except device.KernelError as error:
            found = (str(error).splitlines()[0], error.thread, error.block, error.location and error.location.line)
            places = (tuple(threads.place(t, level, axis) for axis in range(3)) for level in ("thread", "block"))
            message = f"the mask {mask:#010x} does not include the lane {lane}, which passes it"
            wanted = (found[0] if message in found[0] else message, *places, 4)
            return None if found == wanted else f"{found} is reported of\n{text}, not {wanted}"
        return f"nothing is reported of the thread {t} in\n{text}"
