"""Finds the kernels whose threads all reach the same barriers, and prepares them to run as loops over the threads of a block.

    for k in range(n):                 start:        for each thread:  k = 0; continue at `body` or at the end
        t[i] = x[k, i]          →      body:         for each thread:  t[i] = x[k, i]; continue at `barrier`
        syncthreads()                  barrier:      for each thread:  k += 1; continue at `body` or at the end

A value is uniform if all threads of a block compute the same value; a branch on such a value is uniform too. If only uniform
branches lead to a wait, all threads of the block reach it together, and the scheduler does not have to track each thread. A
uniform branch that decides whether threads wait ends a region, like a wait (`regions`); this is a cut. Branches to a failure are
ignored, because the launch stops after a failure.

Code that only a range of threads along x executes, as after `if i < k`, becomes a region of these threads. Otherwise vectors
would need masked stores, which take several times as long. A range of whole warps, as after `if i < 32`, may contain warp
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from cuda_device.cpu.early_checks import PURE
from cuda_device.cpu.records import MAXIMUM_THREADS, WARP_SIZE
from cuda_device.extend import dataclass, field, layout, ops, replace
from cuda_device.ir.dominance import (
    Definitions,
    Loop,
    copied_blocks,
    dominators,
    natural_loops,
    predecessors,
    reverse_postorder,
)
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.types.model import BOOL, INT32, INT64, Number, Ref, Space, Type

CUT, RANGE = "cut", "range"
"""The kinds of a `yield` that ends a region without waiting. After a `range`, the threads whose x lies between the operands
continue; the others continue at the cut with the same `place`, or return if there is none."""
LIMIT = "limit"
"""An attribute of operations that wait: only threads with a smaller x continue."""
FULL_MASK = 0xFFFFFFFF
_OF_OPERANDS = PURE | {
    *(ops.DIV, ops.NEG, ops.BITWISE, ops.SHL, ops.SHR, ops.MATH, ops.MAKE, ops.FIELD, ops.BITS, ops.ELEMENT),
    *(ops.BYTES, ops.SHARED, ops.DYNAMIC_SHARED, ops.CONSTANT, ops.BARRIER_REDUCE),
}
"""Operations whose result depends only on their operands, or is the same for all threads of a block."""
_BARRIERS = (ops.BARRIER, ops.BARRIER_REDUCE)
_OF_THREADS = ("thread_idx", "lanes", "lane_id", "lanemask_lt")


@dataclass(slots=True)
class Uniform:
    """The values that differ between threads, the blocks that only some threads may execute, and the blocks that end in a cut.

    In a kernel that does not wait, threads are compared within a row (`by_row`), and not within a block.
    """

    by_row: bool
    varying: set[Value] = field(default_factory=set)
    divergent: set[Block] = field(default_factory=set)
    cuts: list[Block] = field(default_factory=list)
    ranges: list[ThreadRange] = field(default_factory=list)
    warps: list[ThreadRange] = field(default_factory=list)
    """The ranges of whole warps in which lanes wait for each other. Their branches count as uniform."""


@dataclass(slots=True)
class ThreadRange:
    """A branch at the end of `block`: a range of threads takes the blocks `between`, and then, like the others, `end`."""

    block: Block
    inside: Edge
    between: set[Block]
    end: Block | None
    bounds: tuple[list[Bound], list[Bound]]


Bound = tuple[Value, int] | int
"""A term of a sum: a number, or a value multiplied by 1 or -1."""


def find_uniform(function: Function, headers: set[Block]) -> Uniform | None:
    """Analyses a kernel; None if its threads may wait at different places.

    Also None for a kernel that does not wait, unless it has loops that gain from running around the threads of a row, such as
    those with these `headers`.
    """
    flow, uniform = analysed(function)
    if not runs_together(function, flow, uniform):
        return None
    values, waits = Definitions(function), _waiting(function) | headers
    waits |= _loops(function, values, uniform)
    if not waits:
        return None
    whole = {thread_range.block for thread_range in uniform.warps}
    for block in function.blocks:
        if block in whole or block in uniform.divergent or not flow.decides(block):
            continue
        if waits & flow.between(block):
            assert block.terminator.operands[0] not in uniform.varying
            uniform.cuts.append(block)
        else:
            uniform.ranges += _ranges(block, flow, values, uniform.varying)
    return uniform


def runs_together(function: Function, flow: Flow, uniform: Uniform) -> bool:
    """Whether all threads of a block reach the same waits, and each wait is for all threads of the block or warp."""
    waits, values = _waiting(function), Definitions(function)
    leads_on = waits <= flow.after.keys() and not waits & uniform.divergent
    return leads_on and all(_is_for_all(op, values) for op in function.ops())


def _waiting(function: Function) -> set[Block]:
    return {block for block in function.blocks if any(map(waits_at, block.ops))}


def analysed(function: Function) -> tuple[Flow, Uniform]:
    """The control flow of a kernel, and what is uniform in it."""
    flow, waits, values = Flow(function), _waiting(function), Definitions(function)
    uniform = _spread(function, flow, Uniform(not waits))
    for block in function.blocks if waits & uniform.divergent else []:
        ranges = _ranges(block, flow, values, uniform.varying) if flow.decides(block) else []
        uniform.warps += [r for r in ranges if waits & r.between and _has_whole_warps(r, values)]
    return flow, _spread(function, flow, Uniform(not waits, warps=uniform.warps)) if uniform.warps else uniform


PLAIN = PURE | {ops.REGISTER}
"""Operations that any thread may execute."""


def split_guard(module: Module) -> tuple[Module, Function | None]:
    """Takes out a guard such as `if i < n:`; returns the new module, and a function that computes how many threads of a row pass.

    Returns the same module and None if the kernel has no such guard, or waits.
    """
    if _waiting(module.main):
        return module, None
    main = copied(module.main)
    varying, values, before = analysed(main)[1].varying, Definitions(main), list[Op]()
    for block, inside in _first_branches(main):
        before += block.ops[:-1]
        bounds = _bounds(values, block.terminator, inside == 0, varying)
        if bounds is not None and bounds[0] == [0]:
            limit = Function(f"{main.name}.limit", [Block(list(main.params), before)], main.level, INT64)
            build = Builder(limit.blocks[0], block.terminator.location)
            build.return_(total(build, bounds[1]))
            block.ops[-1] = Op(ops.JUMP, successors=[block.successors[inside]], location=block.terminator.location)
            main.blocks = reverse_postorder(main.blocks[0])
            return Module([main, limit, *module.functions[1:]], module.links, module.losses), limit
    return module, None


def _first_branches(main: Function) -> Iterator[tuple[Block, int]]:
    """The blocks with which each thread begins unless it returns, and which of their successors is next."""
    before, block = predecessors(main.blocks), main.blocks[0]
    while all(op.code in PLAIN for op in block.ops[:-1]) and block.terminator.code is ops.BRANCH:
        ends = [not edge.arguments and _returns_at_once(edge.block) for edge in block.successors]
        if ends[0] == ends[1]:
            return
        yield block, ends.index(False)
        edge = block.successors[ends.index(False)]
        if edge.arguments or len(before[edge.block]) != 1:
            return
        block = edge.block


def _has_whole_warps(thread_range: ThreadRange, values: Definitions) -> bool:
    """Whether a range consists of whole warps, and contains no barrier of the block."""
    first, end = (_constant(parts, values) for parts in thread_range.bounds)
    codes = {op.code for block in thread_range.between for op in block.ops}
    is_whole = first == 0 and end is not None and end > 0 and end % WARP_SIZE == 0
    return is_whole and codes.isdisjoint(_BARRIERS)


def _constant(parts: list[Bound], values: Definitions) -> int | None:
    """The value of a sum of constants; None for any other sum."""
    total = 0
    for part in parts:
        number, factor = (part, 1) if isinstance(part, int) else (values.constant(part[0]), part[1])
        if number is None:
            return None
        total += factor * number
    return total


def _ranges(block: Block, flow: Flow, values: Definitions, varying: set[Value]) -> list[ThreadRange]:
    """The range of threads that a branch on their x selects; empty for any other branch."""
    end = flow.after.get(block, flow.end)
    for number, edge in enumerate(block.successors):
        other = block.successors[1 - number]
        skips = other.block is end or (end is flow.end and _returns_at_once(other.block))
        passes_values = edge.arguments or other.arguments or other.block.params
        if skips and not passes_values:
            bounds = _bounds(values, block.terminator, number == 0, varying)
            between = {edge.block} | flow.between(block) - {other.block}
            return [ThreadRange(block, edge, between, None if end is flow.end else end, bounds)] if bounds else []
    return []


def _returns_at_once(block: Block) -> bool:
    return [op.code for op in block.ops] == [ops.RETURN]


def _bounds(
    values: Definitions, branch: Op, is_true: bool, varying: set[Value]
) -> tuple[list[Bound], list[Bound]] | None:
    """The half-open range of x for which a branch is taken."""
    maker = values.makers.get(branch.operands[0])
    if maker is None or maker.code is not ops.COMPARE:
        return None
    sign, (a, b) = str(maker.attributes["op"]), maker.operands
    sign = sign if is_true else ops.OPPOSITES[sign]
    if b in varying:
        a, b, sign = b, a, ops.SWAPPED[sign]
    if b in varying or sign == "!=" or not all(has_room(side) for side in (a, b)):
        return None
    terms = values.terms(a)
    moving = [(value, factor) for value, factor in terms if value in varying]
    if [factor for _, factor in moving] != [1] or not all(has_room(value) for value, _ in terms):
        return None
    x, share = _share_of_x(moving[0][0], values)
    if not is_x(x, values):
        return None
    assert isinstance(b.type, Number)
    if b.type.bits > 32 and (sign not in ("<", ">=") or any(factor < 0 for _, factor in terms)):
        return None  # The sum may have no room.
    limit: list[Bound] = [(b, 1), *((value, -factor) for value, factor in terms if (value, factor) not in moving)]
    ranges: dict[str, tuple[list[Bound], list[Bound]]] = {
        "<": ([0], limit),
        "<=": ([0], [*limit, 1]),
        ">": ([*limit, 1], [MAXIMUM_THREADS]),
        ">=": (limit, [MAXIMUM_THREADS]),
        "==": (limit, [*limit, 1]),
    }
    if share == 1:
        return ranges[sign]
    ends = [_constant(parts, values) for parts in ranges[sign]]
    first, end = (None if n is None else min(max(n * share, 0), MAXIMUM_THREADS) for n in ends)
    return None if first is None or end is None else ([first], [end])


def _share_of_x(value: Value, values: Definitions) -> tuple[Value, int]:
    """`(x, 32)` for the value x // 32 or x >> 5, `(value, 1)` for any other value."""
    maker = values.makers.get(value)
    number = values.constant(maker.operands[1]) if maker is not None and maker.code in (ops.QUOTIENT, ops.SHR) else None
    if maker is None or number is None or not 0 < number <= WARP_SIZE:
        return value, 1
    return maker.operands[0], number if maker.code is ops.QUOTIENT else 1 << number


def has_room(value: Value) -> bool:
    """Whether a value is an integer that int64 can represent."""
    number = value.type
    return isinstance(number, Number) and number.is_integer and (number.bits <= 32 or (number.signed and value.nonneg))


def is_x(value: Value, values: Definitions) -> bool:
    """Whether a value is the thread's x, which every type that holds an index has room for."""
    maker, number = values.makers.get(value), value.type
    if maker is not None and maker.code is ops.CONVERT and isinstance(number, Number) and number.bits >= 32:
        return number.is_integer and is_x(maker.operands[0], values)
    return maker is not None and maker.code is ops.REGISTER and maker.attributes["name"] == "thread_idx.x"


_MOST_CARRIED = 8
_SHORT = 32


def _loops(function: Function, values: Definitions, uniform: Uniform) -> set[Block]:
    """The headers of innermost uniform loops in which neighbouring threads access neighbouring elements.

    Such a loop becomes a loop around the threads, which LLVM vectorises, even if it could not vectorise the loop of one thread.
    """
    loops = natural_loops(reverse_postorder(function.blocks[0]))
    headers = {loop.header for loop in loops}
    innermost = [loop for loop in loops if not headers & (loop.blocks - {loop.header})]
    return {loop.header for loop in innermost if _gains(loop, values, uniform)}


def _gains(loop: Loop, values: Definitions, uniform: Uniform) -> bool:
    """Whether an innermost loop is worth a loop around the threads."""
    end = loop.header.terminator
    if end.code is not ops.BRANCH or end.operands[0] in uniform.varying:
        return False  # threads may leave it at different times
    if not loop.ends_at_header or uniform.divergent & loop.blocks:
        return False  # threads may take different ways through it
    if len(loop.header.params) > _MOST_CARRIED:
        return False  # each of these values needs a slot, which is stored and loaded in each iteration
    if _is_short(loop, values):
        return False  # LLVM unrolls it
    return all(_is_side_by_side(op, values, uniform.varying) for block in loop.blocks for op in block.ops)


def _is_short(loop: Loop, values: Definitions) -> bool:
    """Whether a loop has small constant bounds, so that LLVM unrolls it."""
    maker = values.makers.get(loop.header.terminator.operands[0])
    bounds = maker.operands if maker is not None else []
    starts = [argument for _, edge in loop.entries for argument in edge.arguments]
    return all(any(values.constant(term) in range(_SHORT + 1) for term in side) for side in (bounds, starts))


def _is_side_by_side(op: Op, values: Definitions, varying: set[Value]) -> bool:
    """Whether an operation of neighbouring threads can be vectorised."""
    if op.code in (ops.LOAD, ops.STORE):
        stride = _stride(op.operands[0], values, varying)
        return stride == 1 or (stride == 0 and op.code is ops.LOAD)
    return op.code in _OF_OPERANDS or op.code in (ops.REGISTER, ops.JUMP, ops.BRANCH)


def _stride(reference: Value, values: Definitions, varying: set[Value]) -> int | None:
    """The distance in elements to the reference of the next thread along x; None if it is unknown."""
    maker = values.makers.get(reference)
    if reference not in varying:
        return 0
    if maker is None or maker.code not in (ops.ELEMENT, ops.BYTES):
        return None
    base, index = maker.operands
    if maker.code is ops.BYTES or index not in varying:
        return _stride(base, values, varying) if index not in varying else None
    moving = [(value, factor) for value, factor in values.terms(index) if value in varying]
    is_next = [factor for _, factor in moving] == [1] and is_x(moving[0][0], values)
    return 1 if is_next and base not in varying else None


def copied(function: Function) -> Function:
    """The function with blocks and operations of its own; values are shared."""
    return replace(function, blocks=[*copied_blocks(function.blocks).values()])


def waits_at(op: Op) -> bool:
    """Whether a region ends at an operation."""
    return _suspends(op.code)


@cache
def _suspends(code: ops.OpDef) -> bool:
    return Effect.SUSPENDS in code.effects


def _is_for_all(op: Op, values: Definitions) -> bool:
    """Whether an operation does not wait, or waits for all threads of the block or warp."""
    if not waits_at(op) or op.code in _BARRIERS:
        return True
    if op.code in (ops.YIELD, ops.AWAIT, ops.WARP_ACTIVE):
        return False
    mask = values.constant(op.operands[0])
    return mask is not None and mask & FULL_MASK == FULL_MASK


class Flow:
    """The control flow of a kernel, without the paths that end in a failure."""

    def __init__(self, function: Function) -> None:
        self.failing: set[Block] = set()
        size = -1
        while size != (size := len(self.failing)):
            for block in function.blocks:
                following = [edge.block for edge in block.successors]
                if block.terminator.code in (ops.EXIT, ops.UNREACHABLE) or (
                    following and self.failing.issuperset(following)
                ):
                    self.failing.add(block)
        self.end = Block()
        mirror = {block: Block() for block in (self.end, *function.blocks)}
        edges: dict[Block, list[Edge]] = {block: [] for block in mirror}
        for block in function.blocks:
            for successor in self.following(block) or [self.end]:
                edges[successor].append(Edge(mirror[block], []))
        for block, image in mirror.items():
            image.ops.append(Op(ops.JUMP, successors=edges[block]))
        images = {image: block for block, image in mirror.items()}
        self.after = {images[a]: images[b] for a, b in dominators(mirror[self.end]).items()}
        """The immediate post-dominator of each block that leads to the end."""

    def following(self, block: Block) -> list[Block]:
        """The successors."""
        return [edge.block for edge in block.successors if edge.block not in self.failing]

    def decides(self, block: Block) -> bool:
        """Whether a block ends with a branch that may go both ways."""
        return block not in self.failing and len(set(self.following(block))) > 1

    def between(self, block: Block) -> set[Block]:
        """The blocks from a branch to the place where its ways meet."""
        blocks, todo, meets = set[Block](), self.following(block), self.after.get(block)
        while todo:
            current = todo.pop()
            if current is not meets and current not in blocks:
                blocks.add(current)
                todo += self.following(current)
        return blocks


def _spread(function: Function, flow: Flow, uniform: Uniform) -> Uniform:
    """Finds the values that differ between threads, and the blocks that only some threads may execute."""
    size = -1
    while size != (size := len(uniform.varying) + len(uniform.divergent)):
        _spread_once(function, flow, uniform)
    return uniform


def _spread_once(function: Function, flow: Flow, uniform: Uniform) -> None:
    varying, joins, whole = uniform.varying, set[Block](), {thread_range.block for thread_range in uniform.warps}
    for block in function.blocks:
        if flow.decides(block) and block not in whole and block.terminator.operands[0] in varying:
            between = flow.between(block)
            uniform.divergent |= between
            joins |= {*between, flow.after.get(block, flow.end)}
    for block in function.blocks:
        if block in joins:
            varying.update(block.params)
        for op in block.ops:
            if not _is_uniform(op, varying, uniform.by_row):
                varying.update(op.results)
            for edge in op.successors:
                pairs = zip(edge.block.params, edge.arguments, strict=True)
                varying.update(param for param, argument in pairs if argument in varying)


def _is_uniform(op: Op, varying: set[Value], by_row: bool) -> bool:
    """Whether the results are uniform. A load from a uniform address is, because programs without races do not write to it."""
    if op.code is ops.REGISTER:
        name = str(op.attributes["name"])
        return name.partition(".")[0] not in _OF_THREADS or (by_row and name in ("thread_idx.y", "thread_idx.z"))
    if op.code is ops.BARRIER_REDUCE:
        return True
    if op.code is ops.LOAD:
        type = op.operands[0].type
        if not isinstance(type, Ref) or type.space not in (Space.GLOBAL, Space.SHARED, Space.CONSTANT, Space.PARAMETER):
            return False
    elif op.code not in _OF_OPERANDS:
        return False
    return varying.isdisjoint(op.operands)


def stretches(function: Function, ends: Callable[[Op], bool]) -> list[list[Op]]:
    """The operations on all paths from the entry, and from each operation that `ends` a stretch, to the next such operation."""
    starts = [(block, index + 1) for block in function.blocks for index, op in enumerate(block.ops) if ends(op)]
    reached = list[list[Op]]()
    for start in [(function.blocks[0], 0), *starts]:
        stretch, todo, seen = list[Op](), [start], set[Block]()
        while todo:
            block, index = todo.pop()
            for op in block.ops[index:]:
                stretch.append(op)
                if ends(op):
                    break
            else:
                todo += [(edge.block, 0) for edge in block.successors if edge.block not in seen]
                seen.update(block for block, _ in todo)
        reached.append(stretch)
    return reached


def drop_ordered_reads(module: Module) -> Module:
    """The module without the race detector's events of reads of shared memory that barriers separate from all writes to it.

    If all threads of a block reach the same barriers, two accesses are unordered only if paths without a barrier lead to both
    from the entry or from one barrier. A race that makes threads reach different barriers is itself between such accesses.
    Barriers do not order the accesses of asynchronous copies.
    """
    function = module.main
    followed = any(_is_in(Space.GENERIC, op) or _is_of_copies(op) for op in module.ops())
    if followed or not runs_together(function, *analysed(function)):
        return module
    calls_write = any(_writes_shared(op) for callee in module.functions[1:] for op in callee.ops())
    kept = set[Op]()
    for stretch in stretches(function, lambda op: op.code in _BARRIERS):
        if any(_writes_shared(op) or (calls_write and op.code is ops.CALL) for op in stretch):
            kept.update(stretch)
    for block in function.blocks:
        block.ops = [op for op in block.ops if op in kept or not (_is_in(Space.SHARED, op) and _reads(op))]
    return module


def _is_in(space: Space, op: Op) -> bool:
    """Whether an operation is the event of an access to a memory."""
    type = op.operands[0].type if op.code is ops.TRACE and op.operands else None
    return isinstance(type, Ref) and type.space is space


def _is_of_copies(op: Op) -> bool:
    """Whether an operation is an event of asynchronous copies."""
    return op.code is ops.TRACE and str(op.attributes["event"]).startswith("copy")


def _reads(op: Op) -> bool:
    return op.attributes["event"] in ("load", "atomic.load")


def _writes_shared(op: Op) -> bool:
    return _is_in(Space.SHARED, op) and not _reads(op)


def cut(function: Function, uniform: Uniform) -> None:
    """Inserts the cuts and ranges, and replaces the shuffles."""
    known = {value for op in function.ops() for value in op.results}
    values = Definitions(function)
    limits = [(thread_range, _constant(thread_range.bounds[1], values)) for thread_range in uniform.warps]
    for number, thread_range in enumerate((*uniform.ranges, *uniform.warps), 1):
        added = _separate(function, thread_range, number if thread_range in uniform.ranges else 0)
        for whole in uniform.warps:
            whole.between |= added if thread_range is not whole and thread_range.block in whole.between else set()
    for block in uniform.cuts:
        position = function.blocks.index(block) + 1
        for edge in block.successors:
            build = Builder(Block(), block.terminator.location)
            build.effect(ops.YIELD, kind=CUT)
            build.jump(edge.block, *edge.arguments)
            edge.block, edge.arguments = build.block, []
            function.blocks.insert(position, build.block)
            for whole in uniform.warps:
                whole.between |= {build.block} if block in whole.between else set()
    values = Definitions(function)
    for block in function.blocks:
        old, block.ops, again = block.ops, list[Op](), dict[Value, Value]()
        for op in old:
            op.operands = [again.get(value, value) for value in op.operands]
            for edge in op.successors:
                edge.arguments = [again.get(value, value) for value in edge.arguments]
            if op.code is ops.WARP_SHUFFLE:
                _read_lane(op, values, Builder(block, op.location), again)
            else:
                block.ops.append(op)
    uniform.varying |= {value for op in function.ops() for value in op.results} - known
    for whole, limit in limits:
        for op in (op for block in whole.between for op in block.ops if waits_at(op)):
            op.attributes = {**op.attributes, LIMIT: limit}


def _separate(function: Function, thread_range: ThreadRange, number: int) -> set[Block]:
    """Replaces a branch by a range; returns the new blocks. Ranges of warps have the number 0."""
    block, location = thread_range.block, thread_range.block.terminator.location
    del block.ops[-1]
    build, inside = Builder(block, location), Builder(Block(), location)
    bounds = [total(build, parts) for parts in thread_range.bounds] if number else []
    build.jump(inside.block)
    inside.effect(ops.YIELD, *bounds, kind=RANGE if number else CUT, place=number)
    inside.jump(thread_range.inside.block)
    added = [inside.block]
    if not number:
        thread_range.between.add(inside.block)
    if thread_range.end is not None:
        after = Builder(Block(), location)
        after.effect(ops.YIELD, kind=CUT, place=number)
        after.jump(thread_range.end)
        added.append(after.block)
        for inner in thread_range.between:
            for edge in inner.successors:
                if edge.block is thread_range.end:
                    edge.block = after.block
    position = function.blocks.index(block) + 1
    function.blocks[position:position] = added
    return set(added)


def total(build: Builder, parts: list[Bound]) -> Value:
    """Computes a sum in 64 bits."""
    result = build.const(INT64, sum(part for part in parts if isinstance(part, int)))
    for part in parts:
        if not isinstance(part, int):
            value, factor = part
            wide = value if value.type == INT64 else build.op(ops.CONVERT, INT64, value)
            result = build.op(ops.ADD if factor > 0 else ops.SUB, INT64, result, wide)
    return result


def lane_memory(build: Builder, type: Type | None) -> Value:
    """Memory for a value of each thread. Its space is not local, because other threads may read it."""
    assert type is not None
    return build.op(ops.LOCAL, Ref(Space.SHARED, type), count=1, align=layout.align_of(type))


def _read_lane(op: Op, values: Definitions, build: Builder, again: dict[Value, Value]) -> None:
    """Replaces a shuffle: each lane stores its value, and loads that of the other lane after a cut.

    A distance that is known makes the other lane's element a neighbour, so the loads are vectors. `again` maps the value to what
    the lane loads of its own, so that it needs no second slot.
    """
    _, word, distance = op.operands
    kind, known, maker, value = op.attributes["kind"], values.constant(distance), values.makers.get(word), word
    if maker is not None and maker.code is ops.BITS and isinstance(maker.operands[0].type, Number):
        (value,) = maker.operands
    memory = lane_memory(build, value.type)
    build.effect(ops.STORE, memory, again.get(value, value))
    build.effect(ops.YIELD, kind=CUT)
    own_value = again[value] = build.op(ops.LOAD, value.type, memory)
    near = build.op(ops.AND, INT32, distance, build.const(INT32, WARP_SIZE - 1))
    lane, lanes = (build.op(ops.REGISTER, INT32, nonneg=True, name=name) for name in ("lane_id", "lanes"))
    before, after = build.op(ops.SUB, INT32, lane, near), build.op(ops.ADD, INT32, lane, near)

    def less(a: Value, b: Value) -> Value:
        return build.op(ops.COMPARE, BOOL, a, b, op="<")

    def load_from(source: Value) -> Value:
        step = build.op(ops.SUB, INT32, source, lane)
        return build.op(ops.LOAD, value.type, build.op(ops.ELEMENT, memory.type, memory, step, outside=True))

    if kind == "up":
        rows = less(lane, near), own_value, load_from(before)
    elif kind == "down":
        rows = less(after, lanes), load_from(after), own_value
    elif kind == "xor" and known in (1, 2, 4, 8, 16):
        above = build.op(ops.SELECT, value.type, less(after, lanes), load_from(after), own_value)
        has_bit = less(build.const(INT32, 0), build.op(ops.AND, INT32, lane, near))
        rows = has_bit, load_from(before), above
    else:
        source = near if kind == "idx" else build.op(ops.XOR, INT32, lane, near)
        rows = less(source, lanes), load_from(source), own_value
    if value is word:
        build.append(Op(ops.SELECT, list(rows), list(op.results), {}, [], op.location))
    else:
        build.append(Op(ops.BITS, [build.op(ops.SELECT, value.type, *rows)], list(op.results), {}, [], op.location))


def count_of_regions(function: Function, uniform: Uniform) -> int:
    """The number of regions of a kernel after `cut`."""
    return 1 + 2 * (len(uniform.cuts) + len(uniform.ranges) + len(uniform.warps)) + sum(map(waits_at, function.ops()))
