"""Divides kernels that wait into regions for the CPU: the code between two waits becomes a loop over threads.

    split(module)       the module, whose kernel stores values that are live across a wait in slots, and the `Regions`

The kernel remains one function, which returns at a wait and is called again with the number of the region where it continues:

    x = a[i]; syncthreads(); b[i] = x        →      region 0:  x = a[i]; slot[lane] = x; return 1
                                                    region 1:  x = slot[lane]; b[i] = x

A call with a constant number is inlined into a loop (`thread_loops`), where LLVM removes the other regions and vectorises. Slots
are arrays with an element for each thread. Values that are cheap to recompute, such as a thread's index, have no slot.

If all threads of a block run together (`uniform`), the loops are over the threads of the block. Otherwise they are over the lanes
of a warp that continue at the same place, and the scheduler decides which lanes continue. In kernels that would become too large,
and for debuggers, each lane continues by a separate call of the kernel.
"""

from __future__ import annotations

import itertools

from cuda_device.cpu import early_checks, strided_loops, uniform
from cuda_device.cpu.records import MAXIMUM_THREADS, WARP_SIZE, Suspension
from cuda_device.cpu.uniform import LIMIT, waits_at
from cuda_device.extend import dataclass, field, layout, ops, replace
from cuda_device.ir.dominance import back_edges, reverse_postorder
from cuda_device.ir.nodes import Block, Function, Module, Op, Value
from cuda_device.types.model import BOOL, Number, Ref, Space, Type

LARGEST = 6000
"""Kernels with more operations in all regions have no loops; four times as many are allowed if their threads run together."""
_DEAREST = 24
"""Values that need more operations are not recomputed."""
_POINTS = 4 * WARP_SIZE
_ALIGN = 64
COMMON = "%Common"
"""The LLVM type of the memory that all threads share: the range of threads that continue, the number of the next region, and the
uniform values."""
FIRST, END, NEXT = range(3)
"""The numbers of its first fields."""
PARALLEL = ", !llvm.access.group !900000001"
"""Metadata of loads and stores that are independent of those of other lanes."""
_MARGIN = 8 * WARP_SIZE
"""The number of bytes before and after a slot that shuffles may load, and not use."""
_LANES = ("lane_id", "lanes", "lanemask_lt")
_CHEAP = frozenset(
    {
        *(ops.CONST, ops.CONVERT, ops.ADD, ops.SUB, ops.MUL, ops.AND, ops.OR, ops.XOR, ops.SHL, ops.SHR, ops.COMPARE),
        *(ops.SELECT, ops.ELEMENT, ops.BYTES, ops.SHARED, ops.DYNAMIC_SHARED, ops.CONSTANT, ops.REGISTER, ops.GENERIC),
    }
)


@dataclass(frozen=True, slots=True)
class LaneSlot:
    """An array in a frame: its offset, and the size and LLVM type of its elements, one for each lane.

    A slot that is `common` is the field of `COMMON` with the number `offset`.
    """

    offset: int
    size: int
    type: str
    common: bool = False

    @property
    def align(self) -> int:
        """The alignment of each element."""
        return self.size & -self.size


@dataclass(slots=True)
class Regions:
    """The regions of a kernel: all `slots`, those `live` at each wait, and the local arrays that are `kept` in the frame.

    With `in_loops`, each region is a loop over lanes, which copies the live values to memory of its own and back, where LLVM
    turns them into registers. Otherwise the values stay in the frame, and `live` is empty. If the kernel is `together`, the lanes
    are all threads of a block, and the frame is that of the block; otherwise they are those of a warp.
    """

    slots: list[LaneSlot]
    live: list[list[int]]
    kept: set[Value]
    slot_numbers: dict[Value, int]
    """The numbers of the slots, by the addresses of the memory that holds the values within a region."""
    bytes: int
    in_loops: bool
    together: bool = False
    by_row: bool = False
    """Whether the lanes are the threads of a row of a block, as in a kernel that does not wait."""
    whole: Function | None = None
    """The undivided kernel, for short rows."""
    names: dict[int, str] = field(default_factory=dict)
    """The names of the memory that holds the values of slots within a region."""
    labels: list[str] = field(default_factory=list)
    """The labels of the regions after the first."""
    meetings: dict[int, Suspension] = field(default_factory=dict)
    """Regions before which threads that run together exchange operands."""
    ranges: dict[int, int] = field(default_factory=dict)
    """Regions that only a range of threads executes, with the numbers of the ranges."""
    limits: dict[int, int] = field(default_factory=dict)
    """Regions of the threads whose x is less than a number, a multiple of 32."""
    of_lanes: set[int] = field(default_factory=set)
    """Regions whose threads use their `lane_id`, as shuffles do."""
    ends: dict[int, int] = field(default_factory=dict)
    """The regions after the ranges, by the numbers of the ranges."""

    @property
    def count(self) -> int:
        """The number of regions."""
        return len(self.live) + 1

    @property
    def lanes(self) -> int:
        """The number of lanes of a frame."""
        return MAXIMUM_THREADS if self.together else WARP_SIZE

    @property
    def common(self) -> str:
        """The definition of `COMMON`."""
        fields = ("i64", "i64", "i32", *(slot.type for slot in self.slots if slot.common))
        return f"{COMMON} = type {{ {', '.join(fields)} }}\n"

    @property
    def block_bytes(self) -> int:
        """The size of the frame of a block."""
        return self.bytes + _MARGIN

    @property
    def warp_bytes(self) -> int:
        """The distance of the frames of two warps: an odd number of cache lines, so that they do not compete for few lines."""
        return self.bytes | _ALIGN

    def reserve(self, name: str, size: int, align: int) -> str:
        """Reserves memory for each lane in the frame; `name` is the address of the lane's own."""
        is_wide = align > _ALIGN  # more than the frame is aligned to
        slot = LaneSlot(self.bytes, size + align if is_wide else -(-size // align) * align, "")
        self.bytes = _aligned(self.bytes + slot.size * self.lanes)
        if not is_wide:
            return self._element(name, slot)
        return f"""\
{self._element(f"{name}.memory", slot)}\
  {name}.address = ptrtoint ptr {name}.memory to i64
  {name}.negated = sub i64 0, {name}.address
  {name}.missing = and i64 {name}.negated, {align - 1}
  {name} = getelementptr inbounds i8, ptr {name}.memory, i64 {name}.missing
"""

    def reserve_local(self, name: str, size: int, align: int, value: Value) -> str:
        """Reserves the memory of a local array if it is kept in the frame; notes the names of memory for slots."""
        if value in self.slot_numbers and not self.in_loops:
            return self._element(name, self.slots[self.slot_numbers[value]])
        if value in self.slot_numbers:
            self.names[self.slot_numbers[value]] = name
        return self.reserve(name, size, align) if value in self.kept else ""

    def prologue(self, memory: str) -> str:
        """The start of the kernel: its memory, and the jump to the region where it continues."""
        regions = " ".join(f"i32 {number}, label %region.{number}" for number in range(1, self.count))
        return f"entry:\n{memory}  switch i32 %place, label %start [{regions}]\nstart:\n"

    def leave(self, label: str) -> str:
        """The end of a region; the next one starts at `label`."""
        self.labels.append(label)
        number = len(self.labels)
        text = self._moves(number, f"%{label}.out", "%out")
        if self.together:
            return f"{text}  ret i32 {number}\n"
        text += f"  %{label}.point = getelementptr i32, ptr %frame, i64 %lane\n"
        return f"{text}  store i32 {number}, ptr %{label}.point\n  ret void\n"

    def epilogue(self) -> str:
        """The beginnings of the regions."""
        return "".join(
            f"region.{number}:\n{self._moves(number, f'%{label}.in', '%in')}  br label %{label}\n"
            for number, label in enumerate(self.labels, 1)
        )

    def _moves(self, number: int, prefix: str, common: str) -> str:
        """Copies the values that are live at a wait to the slots, or back; uniform values to the memory `%out`, or from `%in`."""
        lines = []
        for index in self.live[number - 1]:
            slot, name, memory = self.slots[index], f"{prefix}.{index}", self.names[index]
            address = f"{name}.at"
            source, target = (memory, address) if common == "%out" else (address, memory)
            lines.append(in_common(address, common, slot.offset) if slot.common else self._element(address, slot))
            marks = [PARALLEL if pointer == address and not slot.common else "" for pointer in (source, target)]
            lines.append(f"  {name} = load {slot.type}, ptr {source}, align {slot.align}{marks[0]}\n")
            lines.append(f"  store {slot.type} {name}, ptr {target}, align {slot.align}{marks[1]}\n")
        return "".join(lines)

    def _element(self, result: str, slot: LaneSlot) -> str:
        return (
            f"  {result}.array = getelementptr inbounds i8, ptr %frame, i64 {slot.offset}\n"
            f"  {result} = getelementptr inbounds [{slot.size} x i8], ptr {result}.array, i64 %lane\n"
        )


def in_common(result: str, pointer: str, number: int) -> str:
    """Computes the address of a field of `COMMON`."""
    return f"  {result} = getelementptr inbounds {COMMON}, ptr {pointer}, i32 0, i32 {number}\n"


def split(module: Module, debug: bool = False, may_be_together: bool = True) -> tuple[Module, Regions | None]:
    """Divides the kernel of a module, in a new module; returns the same module and None if it is not divided.

    Code for debuggers, and threads that may not run `together`, are divided at waits alone.
    """
    divided = _divided(module, debug, may_be_together and not debug)
    if divided is None:
        return module, None
    function, together, in_loops = divided
    live = _live(function)
    arrays = {op.result for op in function.ops() if op.code is ops.LOCAL}
    defined = [v for block in function.blocks for v in (*block.params, *(v for op in block.ops for v in op.results))]
    cheap, shared = _cheap(function, set()), set[Value]()
    if together:
        shared = {v for v in defined if v not in together.varying and v not in cheap} - arrays - {*function.params}
        cheap = _cheap(function, shared)
    for values in live.values():
        values.update(*(_roots(value, cheap, shared) for value in [*values]))
    crossing = set[Value]().union(*live.values())
    spilled = [value for value in defined if value in crossing and value not in cheap and value not in arrays]
    slot_numbers = {value: index for index, value in enumerate(spilled)}
    slots, end = _laid_out(spilled, together)
    waiting = [op for op in function.ops() if waits_at(op)]
    spilling = _Spilling(function, crossing, cheap, slot_numbers)
    spilling.spill()
    escapes = any(isinstance(v.type, Ref) and v.type.space in (Space.LOCAL, Space.GENERIC) for v in spilled)
    regions = Regions(
        slots,
        live=[sorted(slot_numbers[v] for v in live[op] if v in slot_numbers and in_loops) for op in waiting],
        kept=arrays if escapes else arrays & crossing,
        slot_numbers={value: index for index, value in enumerate(spilling.memory)},
        bytes=end,
        in_loops=in_loops,
        together=together is not None,
        by_row=together is not None and together.by_row,
        limits={n: int(str(op.attributes[LIMIT])) for n, op in enumerate(waiting, 1) if LIMIT in op.attributes},
        of_lanes=_of_lanes(function) if together else set(),
    )
    functions = [function, *module.functions[1:]]
    if regions.by_row:
        regions.whole = replace(uniform.copied(module.main), name=f"{module.main.name}.whole", kernel=False)
        functions.append(regions.whole)
    return Module(functions, module.links, module.losses), regions


def _divided(
    module: Module, debug: bool, may_be_together: bool
) -> tuple[Function, uniform.Uniform | None, bool] | None:
    """A copy of the kernel with its cuts, what is uniform if its threads run together, and whether regions are loops."""
    count, waits = len(module.main.ops()), sum(waits_at(op) for op in module.main.ops())
    if not module.main.kernel or (debug and not waits):
        return None
    may_be_together = may_be_together and (1 + waits) * count <= 4 * LARGEST
    for divides in (True, False) if may_be_together else ():
        function = uniform.copied(module.main)
        headers = early_checks.divide(function) if divides else set()
        if not (headers if divides else waits or back_edges(reverse_postorder(function.blocks[0]))):
            continue
        together = uniform.find_uniform(function, headers | strided_loops.rewrite(function))
        if together and uniform.count_of_regions(function, together) * count <= 4 * LARGEST:
            uniform.cut(function, together)
            return function, together, True
    if not waits:
        return None
    return uniform.copied(module.main), None, not debug and (waits + 1) * count <= LARGEST


def _laid_out(spilled: list[Value], together: uniform.Uniform | None) -> tuple[list[LaneSlot], int]:
    """The slots of values, and the end of those for each lane."""
    lanes, slots, common = MAXIMUM_THREADS if together else WARP_SIZE, list[LaneSlot](), itertools.count(NEXT + 1)
    end = _aligned(_MARGIN) if together else _POINTS
    for value in spilled:
        size, type = layout.size_of(value.type or BOOL), _memory(value.type)
        if together and value not in together.varying:
            slots.append(LaneSlot(next(common), size, type, True))
        else:
            slots.append(LaneSlot(end, size, type))
            end = _aligned(end + size * lanes)
    return slots, end


def _of_lanes(function: Function) -> set[int]:
    """The regions whose threads use their `lane_id`."""
    return {
        number
        for number, stretch in enumerate(uniform.stretches(function, waits_at))
        if any(op.code is ops.REGISTER and op.attributes["name"] in _LANES for op in stretch)
    }


def _aligned(size: int) -> int:
    return size + _ALIGN - 1 & -_ALIGN


def _memory(type: Type | None) -> str:
    """The LLVM type that copies a value."""
    if isinstance(type, Ref):
        return "ptr"
    if isinstance(type, Number) and type.is_float and type.bits in (32, 64):
        return "float" if type.bits == 32 else "double"
    return f"i{8 * layout.size_of(type or BOOL)}"


def _live(function: Function) -> dict[Op, set[Value]]:
    """The values that are live after each wait."""
    parameters = set(function.params)
    defined = {block: parameters.union(block.params, *(op.results for op in block.ops)) for block in function.blocks}
    needed = {block: _live_before(block, set(), {}) - parameters for block in function.blocks}
    before, changed = dict(needed), True
    while changed:
        changed = False
        for block in reversed(function.blocks):
            live = needed[block].union(*(before[edge.block] - defined[block] for edge in block.successors))
            if live != before[block]:
                before[block], changed = live, True
    live_after: dict[Op, set[Value]] = {}
    for block in function.blocks:
        _live_before(block, set[Value]().union(*(before[edge.block] for edge in block.successors)), live_after)
    return {op: live - parameters for op, live in live_after.items()}


def _live_before(block: Block, live: set[Value], live_after: dict[Op, set[Value]]) -> set[Value]:
    """The values that are live before a block, from those that are `live` behind it; sets those that are live after each wait."""
    for op in reversed(block.ops):
        live.difference_update(op.results)
        if waits_at(op):
            live_after[op] = live.copy()
        live.update(op.operands)
        for edge in op.successors:
            live.update(edge.arguments)
    return live.difference(block.params)


def _roots(value: Value, cheap: dict[Value, Op], common: set[Value]) -> set[Value]:
    """The uniform values from which a cheap one is computed."""
    if value not in cheap:
        return {value} & common
    return set[Value]().union(*(_roots(operand, cheap, common) for operand in cheap[value].operands))


def _cheap(function: Function, common: set[Value]) -> dict[Value, Op]:
    """The values that are computed by few operations from parameters and uniform values, which need no slots for lanes."""
    cost = dict.fromkeys((*function.params, *common), 0)
    recomputed: dict[Value, Op] = {}
    changed = True
    while changed:
        changed = False
        for op in function.ops():
            if op.code in _CHEAP and op.result not in cost and all(operand in cost for operand in op.operands):
                price = 1 + sum(cost[operand] for operand in op.operands)
                if price <= _DEAREST:
                    copy = Op(op.code, list(op.operands), [op.result], dict(op.attributes), [], op.location)
                    cost[op.result], recomputed[op.result], changed = price, copy, True
    return recomputed


@dataclass(slots=True)
class _Spilling:
    """Changes a function so that the values with slots are in memory, and `cheap` ones are recomputed where they are needed."""

    function: Function
    crossing: set[Value]
    cheap: dict[Value, Op]
    slot_numbers: dict[Value, int]
    memory: list[Value] = field(default_factory=list)
    here: dict[Value, Value] = field(default_factory=dict)
    """The values defined, loaded or recomputed since the last wait or the start of the block, by the original values."""
    out: list[Op] = field(default_factory=list)

    def spill(self) -> None:
        """Changes the operations of all blocks."""
        entry = self.function.blocks[0]
        allocations = []
        for value in self.slot_numbers:
            address = Value(Ref(Space.LOCAL, value.type or BOOL))
            allocations.append(Op(ops.LOCAL, [], [address], {"count": 1, "align": _align(value.type)}))
            self.memory.append(address)
        for block in self.function.blocks:
            self.here, self.out = {}, list(allocations) if block is entry else []
            self.define(block.params)
            for op in block.ops:
                op.operands = [self.use(value) for value in op.operands]
                for edge in op.successors:
                    edge.arguments = [self.use(value) for value in edge.arguments]
                if waits_at(op):
                    self.here = {}
                self.out.append(op)
                self.define(op.results)
            block.ops = self.out

    def define(self, values: list[Value]) -> None:
        for value in values:
            self.here[value] = value
            if value in self.slot_numbers:
                slot = self.memory[self.slot_numbers[value]]
                self.out.append(Op(ops.STORE, [slot, value], attributes={"align": _align(value.type)}))

    def use(self, value: Value, again: bool = False) -> Value:
        if value in self.here or not (again or value in self.crossing):
            return self.here.get(value, value)
        new = Value(value.type, value.hint, value.nonneg)
        if value in self.slot_numbers:
            slot = self.memory[self.slot_numbers[value]]
            self.out.append(Op(ops.LOAD, [slot], [new], {"align": _align(value.type)}))
        elif value in self.cheap:
            op = self.cheap[value]
            operands = [self.use(operand, True) for operand in op.operands]
            self.out.append(Op(op.code, operands, [new], dict(op.attributes), [], op.location))
        else:
            return value
        self.here[value] = new
        return new


def _align(type: Type | None) -> int:
    return 8 if isinstance(type, Ref) else layout.align_of(type or BOOL)
