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
from cuda_device.ir.dominance import Definitions, Loop, drop_dead, natural_loops, reverse_postorder, substitute, used
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Op, Value
from cuda_device.types.model import BOOL, INT64, Number


@dataclass(frozen=True, slots=True)
class _Counter:
    """The variable of a loop and its range. `left` counts the remaining iterations."""

    variable: Value
    left: Value
    start: Value
    stop: Value
    step: Value


def rewrite(function: Function) -> set[Block]:
    """Rewrites the loops of a kernel whose threads run together; returns their headers."""
    headers, loops = set[Block](), natural_loops(reverse_postorder(function.blocks[0]))
    flow, found = analysed(function)
    for loop in loops if runs_together(function, flow, found) else []:
        values = Definitions(function)
        counter = _counter(loop, values, found)
        if counter is not None:
            _align(function, loop, counter, values)
            headers.add(loop.header)
    if headers:
        drop_dead(function)  # the numbers of iterations, whose divisions would keep LLVM from vectorising (`native`)
    return headers


def _made_by(values: Definitions, value: Value, code: ops.OpDef, **attributes: object) -> list[Value]:
    """The operands of the operation that defines a value; none if it is another operation."""
    maker = values.makers.get(value)
    if maker is None or maker.code is not code or not attributes.items() <= maker.attributes.items():
        return []
    return maker.operands


def _counter(loop: Loop, values: Definitions, found: Uniform) -> _Counter | None:
    """The counter of a loop over a `range` with a uniform step, which starts at x plus a uniform value; None for other loops."""
    header = loop.header
    if not _tests_first(loop) or loop.entries[0][0] in found.divergent:
        return None
    condition = _made_by(values, header.terminator.operands[0], ops.COMPARE, op="!=")
    if not condition or values.constant(condition[1]) != 0 or condition[0] not in header.params:
        return None
    (_, first), (_, back), left = loop.entries[0], loop.backs[0], condition[0]
    given = {param: (a, b) for param, a, b in zip(header.params, first.arguments, back.arguments, strict=True)}
    passes, down = _passes(values, given[left][0]), _made_by(values, given[left][1], ops.SUB)
    if passes is None or down[:1] != [left] or values.constant(down[1]) != 1:
        return None
    start, stop, step = passes
    variables = [p for p, (a, b) in given.items() if a is start and _made_by(values, b, ops.ADD) == [p, step]]
    moving = [(value, factor) for value, factor in values.terms(start) if value in found.varying]
    if len(variables) != 1 or {stop, step} & found.varying or [factor for _, factor in moving] != [1]:
        return None
    if not is_x(moving[0][0], values) or not (start.nonneg or not getattr(start.type, "signed", True)):
        return None
    if not all(map(has_room, (stop, step, start, *(value for value, _ in values.terms(start))))):
        return None  # sums in 64 bits may overflow
    if not _counts_only(values.function, left, {header.terminator.operands[0], given[left][1]}):
        return None  # the rewrite drops the count
    if _is_used_behind(variables[0], loop, values.function):
        return None  # the rewrite changes its last value
    others = set(header.params) - {left, variables[0]}
    in_memory = all(isinstance(value.type, Number) for value in others)
    is_read_by_header = any(others.intersection(op.operands) for op in header.ops)
    return _Counter(variables[0], left, start, stop, step) if in_memory and not is_read_by_header else None


def _tests_first(loop: Loop) -> bool:
    """Whether one jump leads to a loop, one leads back, and its header only decides whether it goes on."""
    header = loop.header
    if len(loop.entries) != 1 or len(loop.backs) != 1 or not loop.ends_at_header:
        return False
    if loop.entries[0][0].terminator.code is not ops.JUMP or header.terminator.code is not ops.BRANCH:
        return False
    return header.successors[0].block in loop.blocks and all(op.code in PLAIN for op in header.ops[:-1])


def _counts_only(function: Function, left: Value, made: set[Value]) -> bool:
    """Whether the count of iterations is used only by the loop itself."""
    uses = [
        value
        for op in function.ops()
        for value in (*op.operands, *(a for edge in op.successors for a in edge.arguments))
    ]
    return uses.count(left) == 2 and all(uses.count(value) == 1 for value in made)


def _is_used_behind(variable: Value, loop: Loop, function: Function) -> bool:
    """Whether code behind the loop uses its variable or what the header computes. The rewrite changes their last values."""
    own = {variable, *(value for op in loop.header.ops for value in op.results)}
    behind = Function("", [block for block in function.blocks if block not in loop.blocks], function.level)
    return not own.isdisjoint(used(behind) | {*loop.header.successors[1].arguments})


def _passes(values: Definitions, count: Value) -> tuple[Value, Value, Value] | None:
    """Start, stop and step of a range whose length is `count`: `(stop - start + (step - 1)) / step`, or 0 if it is empty."""
    choice = _made_by(values, count, ops.SELECT) or [count] * 3
    less, quotient = _made_by(values, choice[0], ops.COMPARE, op="<"), _made_by(values, choice[1], ops.QUOTIENT)
    if not less or not quotient or values.constant(choice[2]) != 0:
        return None
    (start, stop), (dividend, step) = less, quotient
    parts = _made_by(values, dividend, ops.ADD)
    if not parts or _made_by(values, parts[0], ops.SUB) != [stop, start]:
        return None
    before = _made_by(values, parts[1], ops.SUB)
    return (start, stop, step) if before[:1] == [step] and values.constant(before[1]) == 1 else None


def _align(function: Function, loop: Loop, counter: _Counter, values: Definitions) -> None:
    header, variable = loop.header, counter.variable
    (entry, first), (_, back) = loop.entries[0], loop.backs[0]
    location = header.terminator.location
    kept = [i for i, param in enumerate(header.params) if param not in (variable, counter.left)]
    params, inside, behind = list(header.params), header.successors[0], header.successors[1]

    end, build = entry.ops.pop(), Builder(entry, location)
    terms: list[Bound] = [(value, factor) for value, factor in values.terms(counter.start) if not is_x(value, values)]
    begin, stop, step = total(build, terms), total(build, [(counter.stop, 1)]), total(build, [(counter.step, 1)])
    places = [lane_memory(build, params[i].type) for i in kept]
    for i, place in zip(kept, places, strict=True):
        build.effect(ops.STORE, place, first.arguments[i])
    entry.ops.append(end)
    first.arguments = [begin]

    common = Value(INT64, nonneg=True)
    header.params, (*old, _) = [common], header.ops
    header.ops = []
    build = Builder(header, location)
    x = build.op(ops.REGISTER, variable.type, nonneg=True, name="thread_idx.x")
    own = build.op(ops.CONVERT, variable.type, common, nonneg=True, exact=True)
    build.append(Op(ops.ADD, [own, x], [variable], {"exact": True}, [], location))
    header.ops += [op for op in old if counter.left not in op.operands]
    body, past, guard, again = Block(), Block(), Block(), Block()
    build.branch(build.op(ops.COMPARE, BOOL, common, stop, op="<"), Edge(guard, []), Edge(past, []))

    build = Builder(guard, location)
    build.branch(build.op(ops.COMPARE, BOOL, variable, counter.stop, op="<"), Edge(body, []), Edge(again, []))
    stores = Builder(Block(), location)
    for i, place in zip(kept, places, strict=True):
        stores.effect(ops.STORE, place, back.arguments[i])
    stores.jump(again)
    back.block, back.arguments = stores.block, []
    build = Builder(again, location)
    build.jump(header, build.op(ops.ADD, INT64, common, step, nonneg=True, exact=True))
    new = (*(loop.blocks - {header}), stores.block)
    for block, edge, users in ((body, inside, new), (past, behind, None)):
        build = Builder(block, location)
        loaded = {params[i]: build.op(ops.LOAD, params[i].type, place) for i, place in zip(kept, places, strict=True)}
        build.jump(edge.block, *edge.arguments)
        others = [each for each in function.blocks if each not in loop.blocks] if users is None else list(users)
        part = Function("", [*others, block], function.level)
        substitute(part, loaded)
    function.blocks = reverse_postorder(function.blocks[0])
