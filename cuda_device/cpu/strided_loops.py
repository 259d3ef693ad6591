"""Makes loops uniform in which neighbouring threads process neighbouring elements.

    for k in range(tid(1), n, step):             u = k of the first thread
        body                            →        while u < n:
                                                     if u + x < n:  k = u + x; body
                                                     u += step

Values that a loop carries from one iteration to the next move to memory of the thread. `uniform` then runs the loop around the
threads of a row. It is vectorised and reads memory sequentially, whereas each thread alone would stride through the whole array.
"""

from __future__ import annotations

from cuda_device.cpu.uniform import PLAIN, Bound, Uniform, analysed, has_room, is_x, lane_memory, runs_together, total
from cuda_device.extend import dataclass, ops
from cuda_device.ir.dominance import Definitions, Loop, natural_loops, reverse_postorder, substitute, used
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Op, Value
from cuda_device.types.model import BOOL, INT32, INT64, Number


@dataclass(frozen=True, slots=True)
class _Counter:
    """The variable of a loop and its range."""

    variable: Value
    start: Value
    stop: Value
    step: Value


def rewrite(function: Function) -> set[Block]:
    """Rewrites the loops of a kernel whose threads run together; returns their headers."""
    headers, loops = set[Block](), natural_loops(reverse_postorder(function.blocks[0]))
    flow, uniform = analysed(function)
    values = Definitions(function)
    for loop in loops if runs_together(function, flow, uniform) else []:
        counter = _counter(loop, values, uniform)
        if counter is not None:
            _align(function, loop, counter, values)
            headers.add(loop.header)
            values = Definitions(function)
    return headers


def _made_by(values: Definitions, value: Value, code: ops.OpDef, **attributes: object) -> list[Value]:
    """The operands of the operation that defines a value; none if it is another operation."""
    maker = values.makers.get(value)
    if maker is None or maker.code is not code or not attributes.items() <= maker.attributes.items():
        return []
    return maker.operands


def _counter(loop: Loop, values: Definitions, uniform: Uniform) -> _Counter | None:
    """The counter of a loop over a `range` with a uniform step, which starts at x plus a uniform value; None for other loops."""
    header = loop.header
    if not _tests_first(loop) or loop.entries[0][0] in uniform.divergent:
        return None
    compared = _made_by(values, header.terminator.operands[0], ops.COMPARE, op="<")
    if not compared or compared[0] not in header.params:
        return None
    variable, stop = compared
    (start, after) = (edge.arguments[header.params.index(variable)] for _, edge in (*loop.entries, *loop.backs))
    added = _made_by(values, after, ops.ADD, exact=True)
    if added[:1] != [variable] or {values.homes[stop], values.homes[added[1]]} & loop.blocks:
        return None
    step = added[1]
    if values.constant(step) is not None:
        return None  # it may have few iterations
    moving = [(value, factor) for value, factor in values.terms(start) if value in uniform.varying]
    if {stop, step} & uniform.varying or [factor for _, factor in moving] != [1]:
        return None
    if not is_x(moving[0][0], values) or not all(map(_is_nonneg, (start, step))):
        return None
    if not all(map(has_room, (stop, step, start, *(value for value, _ in values.terms(start))))):
        return None  # sums in 64 bits may overflow
    if _is_used_behind(variable, loop, values.function):
        return None  # the rewrite changes its last value
    others = set(header.params) - {variable}
    in_memory = all(isinstance(value.type, Number) for value in others)
    is_read_by_header = any(others.intersection(op.operands) for op in header.ops)
    return _Counter(variable, start, stop, step) if in_memory and not is_read_by_header else None


def _is_nonneg(value: Value) -> bool:
    return value.nonneg or not getattr(value.type, "signed", True)


def _tests_first(loop: Loop) -> bool:
    """Whether one jump leads to a loop, one leads back, and its header only decides whether it goes on."""
    header = loop.header
    if len(loop.entries) != 1 or len(loop.backs) != 1 or not loop.ends_at_header:
        return False
    if loop.entries[0][0].terminator.code is not ops.JUMP or header.terminator.code is not ops.BRANCH:
        return False
    return header.successors[0].block in loop.blocks and all(op.code in PLAIN for op in header.ops[:-1])


def _is_used_behind(variable: Value, loop: Loop, function: Function) -> bool:
    """Whether code behind the loop uses its variable or what the header computes. The rewrite changes their last values."""
    header_values = {variable, *(value for op in loop.header.ops for value in op.results)}
    behind = Function("", [block for block in function.blocks if block not in loop.blocks], function.level)
    return not header_values.isdisjoint(used(behind) | {*loop.header.successors[1].arguments})


def _align(function: Function, loop: Loop, counter: _Counter, values: Definitions) -> None:
    header, variable = loop.header, counter.variable
    (entry, first), (_, back) = loop.entries[0], loop.backs[0]
    location = header.terminator.location
    kept = [i for i, param in enumerate(header.params) if param is not variable]
    params, inside, behind = list(header.params), header.successors[0], header.successors[1]

    end, build = entry.ops.pop(), Builder(entry, location)
    terms: list[Bound] = [(value, factor) for value, factor in values.terms(counter.start) if not is_x(value, values)]
    begin, stop, step = total(build, terms), total(build, [(counter.stop, 1)]), total(build, [(counter.step, 1)])
    memories = [lane_memory(build, params[i].type) for i in kept]
    for i, memory in zip(kept, memories, strict=True):
        build.effect(ops.STORE, memory, first.arguments[i])
    entry.ops.append(end)
    first.arguments = [begin]

    common = Value(INT64, nonneg=True)
    header.params, (*old, _) = [common], header.ops
    header.ops = []
    build = Builder(header, location)
    x = build.op(ops.REGISTER, INT32, nonneg=True, name="thread_idx.x")
    parts = [
        part if part.type == variable.type else build.op(ops.CONVERT, variable.type, part, nonneg=True, exact=True)
        for part in (common, x)
    ]
    build.append(Op(ops.ADD, parts, [variable], {"exact": True}, [], location))
    header.ops += old
    body, past, guard, again = Block(), Block(), Block(), Block()
    build.branch(build.op(ops.COMPARE, BOOL, common, stop, op="<"), Edge(guard, []), Edge(past, []))

    build = Builder(guard, location)
    build.branch(build.op(ops.COMPARE, BOOL, variable, counter.stop, op="<"), Edge(body, []), Edge(again, []))
    stores = Builder(Block(), location)
    for i, memory in zip(kept, memories, strict=True):
        stores.effect(ops.STORE, memory, back.arguments[i])
    stores.jump(again)
    back.block, back.arguments = stores.block, []
    build = Builder(again, location)
    build.jump(header, build.op(ops.ADD, INT64, common, step, nonneg=True, exact=True))
    new = (*(loop.blocks - {header}), stores.block)
    for block, edge, users in ((body, inside, new), (past, behind, None)):
        build = Builder(block, location)
        loaded = {
            params[i]: build.op(ops.LOAD, params[i].type, memory) for i, memory in zip(kept, memories, strict=True)
        }
        build.jump(edge.block, *edge.arguments)
        others = [other for other in function.blocks if other not in loop.blocks] if users is None else list(users)
        part = Function("", [*others, block], function.level)
        substitute(part, loaded)
    function.blocks = reverse_postorder(function.blocks[0])
