"""Threads take turns: a group of those that are at the same instruction executes it, all at once, in NumPy arrays.

    module = Module(read(text), arena)
    Machine(module, "saxpy", (4, 1, 1), (256, 1, 1), parameters).run()

Each thread has a place in the text and a depth of calls. The next group is, most times, the deepest at the lowest place, so that
threads come together again; now and then it is another, or half of the warps only, so that nobody can count on the order. A seed
decides. Blocks that are resident together, `RESIDENT` threads, take turns with each other.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from ptx_machine import control
from ptx_machine.collectives import WARP, Barrier, WarpOperation, check_members, members
from ptx_machine.control import Step
from ptx_machine.memory import LOCAL_BYTES, Arena, Fault, Window
from ptx_machine.operands import Scope
from ptx_machine.reader import Function, Program, Variable

Values = np.ndarray
RESIDENT = 1 << 13
MOST_BLOCKS = 2_000_000
"""So many basic blocks may a launch execute."""
_TIMEOUT = 702
_CLOCKS = {"%clock64": time.monotonic_ns, "%globaltimer": time.time_ns}


class Status(IntEnum):
    """What a thread does: it runs, waits for its block, for its warp, or has ended."""

    RUNS = 0
    BLOCK = 1
    WARP = 2
    ENDED = 3


class Module:
    """A program with its variables in memory, and its functions' instructions as steps, one function after the other."""

    def __init__(self, program: Program, arena: Arena) -> None:
        self.program, self.arena = program, arena
        self.symbols: dict[str, tuple[str, int]] = {}
        self.shared_bytes = 0
        inner = [variable for function in program.functions.values() for variable in function.local]
        placed = [*program.variables.values(), *(v for v in inner if v.space in ("shared", "global", "const"))]
        for variable in sorted(placed, key=lambda v: v.space == "shared" and v.size == 0):  # what is dynamic comes last
            self._place(variable)
        for variable in placed:
            self._initialise(variable)
        self.steps: list[Step] = []
        self.leaders: set[int] = set()
        self._warp_barriers: list[int] = []
        self.entries: dict[str, int] = {}
        self.functions: list[Function] = []  # of each step
        self.scopes: dict[str, Scope] = {}
        self.stack_bytes: dict[str, int] = {}
        for function in program.functions.values():
            if function.is_defined:
                self.entries[function.name] = len(self.steps)
                self._add(function)
        self.runs = [step.run for step in self.steps]

    def _place(self, variable: Variable) -> None:
        if variable.space == "shared":
            start = -(-self.shared_bytes // variable.align) * variable.align
            self.symbols[variable.name] = ("shared", start)
            self.shared_bytes = max(self.shared_bytes, start + variable.size)
        else:
            self.symbols[variable.name] = (variable.space, self.arena.allocate(variable.size, 0))

    def _initialise(self, variable: Variable) -> None:
        data = bytearray()
        for entry in variable.initial:
            number = entry if isinstance(entry, int) else self.symbols[entry[0]][1] + entry[2]
            data += (number % (1 << 8 * variable.width)).to_bytes(variable.width, "little")
        if data:
            self.arena.write(self.symbols[variable.name][1], bytes(data))

    def _add(self, function: Function) -> None:
        start, symbols = len(self.steps), dict(self.symbols)
        stack = 0
        for variable in function.local:
            if variable.space == "local":
                stack = -(-stack // variable.align) * variable.align
                symbols[variable.name] = ("local", stack)
                stack += variable.size
        if function.is_kernel:
            offset = 0
            for parameter in function.parameters:
                offset = -(-offset // parameter.align) * parameter.align
                symbols[parameter.name] = ("param", offset)
                offset += parameter.size
        self.stack_bytes[function.name] = -(-stack // 16) * 16
        scope = self.scopes[function.name] = Scope(function, symbols)
        self.leaders.update(start + at for at in function.labels.values())
        for instruction in function.code:
            step = control.step(instruction, scope, start)
            if isinstance(step.operation, WarpOperation):
                self._note(step.operation, instruction.opcode, len(self.steps))
            self.steps.append(step)
            self.functions.append(function)

    def _note(self, operation: WarpOperation, opcode: tuple[str, ...], place: int) -> None:
        """Barriers of warps are one, wherever they stand; other operations are each their own."""
        shared = self._warp_barriers if opcode[0].startswith("bar") else []
        shared.append(place)
        operation.places = shared


class Frame(dict):
    """The registers of one function at one depth of calls, for all threads."""

    def __init__(self, scope: Scope, threads: int) -> None:
        super().__init__()
        self.scope, self.threads = scope, threads
        self.parameters: dict[str, Values] = {}
        self.stack = np.zeros(threads, np.uint64)

    def __missing__(self, name: str) -> Values:
        self[name] = values = np.zeros(self.threads, bool if name == "%carry" else self.scope.bits_of(name))
        return values

    def parameter(self, name: str, size: int = 64) -> Values:
        """The bytes of a parameter of a call: [thread, byte]."""
        declared = [p for p in (*self.scope.function.parameters, *self.scope.function.results) if p.name == name]
        declared += [v for v in self.scope.function.local if v.name == name]
        size = max([size, *(item.size for item in declared)])
        found = self.parameters.get(name)
        if found is None or found.shape[1] < size:
            found = self.parameters[name] = np.zeros((self.threads, size), np.uint8)
        return found


@dataclass(slots=True)
class Group:
    """Threads at the same place: all, or those whose numbers are in `index`."""

    machine: Any
    frame: Frame
    index: Any
    count: int
    depth: int = 0

    def only(self, which: Values) -> Group:
        """A part of the group, by positions in it."""
        index = which if isinstance(self.index, slice) else self.index[which]
        return Group(self.machine, self.frame, index, len(which), self.depth)

    @property
    def threads(self) -> Values:
        """Their numbers."""
        return self.machine.numbers[self.index]


@dataclass
class Machine:
    """One launch of a kernel. `parameters` is the address of the packed parameters."""

    module: Module
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: int
    dynamic_shared: int = 0
    seed: int = 0
    blocks_run: int = 0

    @property
    def arena(self) -> Arena:
        """The GPU's memory."""
        return self.module.arena

    def run(self) -> None:
        """Runs all blocks. Raises `Fault`."""
        x, y, z = self.block
        self.threads = x * y * z
        self.each = -(-self.threads // WARP) * WARP
        gx, gy, gz = self.grid
        count, room = gx * gy * gz, max(1, RESIDENT // self.each)
        self.chance = random.Random(self.seed)
        self.random = np.random.default_rng(self.seed)
        with np.errstate(all="ignore"):
            for first in range(0, count, room):
                self._wave(np.arange(first, min(first + room, count)))

    def _wave(self, blocks: Values) -> None:
        count = len(blocks) * self.each
        self.numbers = np.arange(count)
        self.block_of = self.numbers // self.each
        self._blocks = blocks
        self.status = np.where(self.numbers % self.each < self.threads, Status.RUNS, Status.ENDED).astype(np.int8)
        self.pc = np.full(count, self.module.entries[self.kernel])
        self.depth = np.zeros(count, np.int32)
        self.masks = np.zeros(count, np.uint32)
        self.frames: dict[tuple[int, str], Frame] = {}
        self.return_to: dict[int, Values] = {}
        self._special: dict[str, Values] = {}
        self.shared = Window(len(blocks), self.module.shared_bytes + self.dynamic_shared, "shared")
        self.local = Window(count, LOCAL_BYTES if any(self.module.stack_bytes.values()) else 0, "local")
        while (chosen := self._choose()) is not None:
            self._advance(*chosen)
        if (self.status != Status.ENDED).any():
            raise Fault(self._deadlock(), _TIMEOUT)

    def frame(self, depth: int, function: str) -> Frame:
        """The registers of a function at a depth of calls."""
        key = (depth, function)
        if key not in self.frames:
            self.frames[key] = Frame(self.module.scopes[function], len(self.numbers))
        return self.frames[key]

    def _choose(self) -> tuple[Group, int, bool] | None:
        """The threads that go on, where they are, and whether nobody else could."""
        runnable = np.flatnonzero(self.status == Status.RUNS)
        if not len(runnable):
            return None
        depths, places = self.depth[runnable], self.pc[runnable]
        if self.chance.random() < 0.25:
            pc = self.chance.choice(np.unique(places).tolist())
            depth = int(depths[places == pc].max())
        else:
            depth = int(depths.max())
            pc = int(places[depths == depth].min())
        here = (depths == depth) & (places == pc)
        if self.chance.random() < 0.25:
            half = self.random.random(len(self.numbers) // WARP) < 0.5
            part = here & half[runnable // WARP]
            here = part if part.any() else here
        chosen = runnable[here]
        everyone = len(chosen) == len(self.numbers)
        frame = self.frame(depth, self.module.functions[pc].name)
        group = Group(self, frame, slice(None) if everyone else chosen, len(chosen), depth)
        return group, pc, len(chosen) == len(runnable)

    def _advance(self, group: Group, pc: int, alone: bool) -> None:
        """Lets a group go on up to where it parts, waits, ends, or may meet others."""
        runs, leaders, following = self.module.runs, self.module.leaders, pc
        try:
            while following is not None:
                pc = following
                following = runs[pc](group, pc)
                if following in leaders:
                    self.blocks_run += 1
                    if self.blocks_run > MOST_BLOCKS:
                        raise Fault("it seems to run for ever", _TIMEOUT)
                    if not alone:
                        self.pc[group.index] = following
                        return
        except Fault as fault:
            text = self.module.steps[pc].text
            if text not in str(fault):
                fault.args = (f"{fault.args[0]}\n  in {self.kernel}: {text}",)
            raise

    # ---- Ends and waits

    def end(self, group: Group) -> None:
        """Threads end; whoever waited for them goes on."""
        self.status[group.index] = Status.ENDED
        for pc in np.unique(self.pc[self.status == Status.WARP]):
            self._settle_warps(self.module.steps[pc].operation.places)
        self._settle_blocks()

    def wait_for_warp(self, group: Group, pc: int, operation: WarpOperation) -> None:
        """Threads come to an operation of their warp."""
        masks = operation.mask(group)
        check_members(masks, group.threads % WARP, self.module.steps[pc].text)
        self.masks[group.index] = masks
        self.status[group.index] = Status.WARP
        self.pc[group.index] = pc
        self._settle_warps(operation.places)

    def _settle_warps(self, places: list[int]) -> None:
        """Runs the operation at these places for those all of whose mask are there or have ended."""
        here = (self.status == Status.WARP) & np.isin(self.pc, places)
        for depth in np.unique(self.depth[here]):
            waiting = (here & (self.depth == depth)).reshape(-1, WARP)
            masks, ended = self.masks.reshape(-1, WARP), (self.status == Status.ENDED).reshape(-1, WARP)
            agree = waiting[:, None, :] & (masks[:, None, :] == masks[:, :, None]) | ended[:, None, :]
            wanted = members(self.masks).reshape(-1, WARP, WARP)
            together = (waiting & (agree | ~wanted).all(axis=2)).reshape(-1)
            if not together.any():
                continue
            operation: WarpOperation = self.module.steps[places[0]].operation
            frame = self.frame(int(depth), self.module.functions[places[0]].name)
            operation.run(Group(self, frame, slice(None), len(self.numbers), int(depth)), together)
            self.status[together] = Status.RUNS
            self.pc[together] += 1

    def wait_for_block(self, group: Group, pc: int) -> None:
        """Threads come to a barrier."""
        self.status[group.index] = Status.BLOCK
        self.pc[group.index] = pc
        self._settle_blocks()

    def _settle_blocks(self) -> None:
        """Lets blocks go on all of whose threads have come to a barrier."""
        rows = self.status.reshape(-1, self.each)
        waiting = rows == Status.BLOCK
        complete = (waiting | (rows == Status.ENDED)).all(axis=1) & waiting.any(axis=1)
        for block in np.flatnonzero(complete):
            threads = block * self.each + np.flatnonzero(waiting[block])
            places = self.pc[threads]
            barriers: list[Barrier] = [self.module.steps[pc].operation for pc in np.unique(places)]
            if len({barrier.number for barrier in barriers}) > 1:
                raise Fault("the threads of a block wait at different barriers", _TIMEOUT)
            if len(barriers) > 1 and any(barrier.aligned for barrier in barriers):
                self._check_aligned(threads, places)
            for pc in np.unique(places):
                depth = int(self.depth[threads[0]])
                frame = self.frame(depth, self.module.functions[pc].name)
                everyone = Group(self, frame, slice(None), len(self.numbers), depth)
                self.module.steps[pc].operation.finish(everyone, threads[places == pc])
            self.status[threads] = Status.RUNS
            self.pc[threads] += 1

    def _check_aligned(self, threads: Values, places: Values) -> None:
        for warp in np.unique(threads // WARP):
            at = np.unique(places[threads // WARP == warp])
            if len(at) > 1:
                texts = [f"{pc}: {self.module.steps[pc].text}" for pc in at]
                raise Fault(f"a warp is torn apart at a barrier: {texts}", _TIMEOUT)

    def _deadlock(self) -> str:
        lines = ["nobody can go on"]
        for pc in np.unique(self.pc[self.status != Status.ENDED]):
            count = int(((self.pc == pc) & (self.status != Status.ENDED)).sum())
            lines.append(f"  {count} threads wait at: {self.module.steps[pc].text}")
        return "\n".join(lines)

    # ---- Special registers

    def special(self, name: str) -> Values:
        """A special register, for each thread."""
        if name in _CLOCKS:
            return np.broadcast_to(np.uint64(_CLOCKS[name]()), self.numbers.shape)
        if name not in self._special:
            found = self._registers.get(name)
            if found is None:
                raise Fault(f"special register {name}")
            self._special[name] = np.broadcast_to(np.asarray(found(self)), self.numbers.shape)
        return self._special[name]

    @cached_property
    def _registers(self) -> dict[str, Any]:
        def axis(number: int, extent: tuple[int, int, int], i: int) -> Any:
            inner = int(np.prod(extent[:i]))
            return number // inner % extent[i]

        found: dict[str, Any] = {}
        for i, letter in enumerate("xyz"):
            found[f"%tid.{letter}"] = lambda m, i=i: axis(m.numbers % m.each, m.block, i)
            found[f"%ctaid.{letter}"] = lambda m, i=i: axis(m._blocks[m.block_of], m.grid, i)
            found[f"%ntid.{letter}"] = lambda m, i=i: m.block[i]
            found[f"%nctaid.{letter}"] = lambda m, i=i: m.grid[i]
        lane = lambda m: m.numbers % WARP  # noqa: E731
        found["%laneid"] = lane
        found["%warpid"] = lambda m: m.numbers % m.each // WARP
        found["%nwarpid"] = lambda m: m.each // WARP
        found["%smid"] = lambda m: m.block_of
        found["%nsmid"] = lambda m: len(m._blocks)
        found["%gridid"] = lambda m: 1
        found["%lanemask_eq"] = lambda m: 1 << lane(m)
        found["%lanemask_lt"] = lambda m: (1 << lane(m)) - 1
        found["%lanemask_le"] = lambda m: (2 << lane(m)) - 1
        found["%lanemask_gt"] = lambda m: ((1 << WARP) - (2 << lane(m))) % (1 << WARP)
        found["%lanemask_ge"] = lambda m: (1 << WARP) - (1 << lane(m))
        found["%dynamic_smem_size"] = lambda m: m.dynamic_shared
        found["%total_smem_size"] = lambda m: m.module.shared_bytes + m.dynamic_shared
        return found

    def print(self, text: bytes) -> None:
        """What threads print, at once."""
        os.write(1, text)
