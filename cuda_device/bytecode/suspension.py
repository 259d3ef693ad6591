"""Turns a generator into a function that runs from one `yield` to the next.

A generator has no stack of its own at run time. While it is suspended, its state is a tuple: the number of the current `yield`,
and the variables and stack that are still needed there. Each step calls a function that continues from there:

    def squares(n):                def step(position, n, i, …):
        for i in range(n):             if position is 0: the start of the code
            yield i * i      →         if position is 1: after the first yield
                                       …
                                       yield v  →  return (True, v, 1, and the state)
                                       return   →  return (False,)

If the position is a constant, as in most loops, inference keeps one branch and drops the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuda_device.bytecode.cfg import Span
from cuda_device.bytecode.instructions import Instruction, Opcode
from cuda_device.bytecode.reader import Reader, Stop, mark
from cuda_device.device.parameters import parameter_names
from cuda_device.ir import ops
from cuda_device.ir.dominance import topological
from cuda_device.ir.nodes import Block, Builder, Edge, Op, Value

STEP, STEP_UNROLLED = "step", "step unrolled"
"""The names of these readings of a code; the second unrolls all loops that yield."""
STEPS = (STEP, STEP_UNROLLED)
POSITION = ".position"
"""The parameter that holds the generator's position: the number of a `yield`, counted from 1, or one of these."""
START, DONE = 0, -1
OUTERMOST = -1
"""In place of the index of an ITER: the iterator that a generator expression gets as its parameter."""


def slots(parameters: Sequence[str], stops: Sequence[Stop]) -> tuple[str, ...]:
    """The names of all values that a generator keeps: its arguments before it starts, then those of each `Stop`."""
    kept = (name for position, stop in enumerate(stops, 1) for name in stop.slots(position))
    return (*parameters, mark(START), mark(DONE), *kept)


# Reading


def suspend(reader: Reader, value: Value) -> None:
    """A `yield` ends the step; the next step starts behind it."""
    target = reader.index + 1
    names = tuple(reader.params(target))
    reader.stack.append(reader.build.op(ops.PY_CONST, None, value=None))  # the sent value
    kept = reader.edge(target).arguments
    depth = len(kept) - len(names) - 1
    reader.pop(1)
    more, position = (reader.build.op(ops.PY_CONST, None, value=v) for v in (True, len(reader.stops) + 1))
    kept = [*kept[:depth], *kept[depth + 1 :]]
    step = reader.build.op(ops.PY_STEP, None, more, value, position, more, *kept)
    reader.stops.append(Stop(reader.build.block, target, depth, names))
    reader.end(ops.RETURN, [step], [])


def finish(reader: Reader) -> None:
    """A `return`. The caller knows that the generator is done."""
    more = reader.build.op(ops.PY_CONST, None, value=False)
    nothing = reader.build.op(ops.PY_UNDEFINED, None, name="")
    step = reader.build.op(ops.PY_STEP, None, more, nothing, nothing)
    reader.ends.append(reader.build.block)
    reader.end(ops.RETURN, [step], [])


def complete(reader: Reader, names: Sequence[str]) -> None:
    """Gives all results of a step the same form: each has a slot for every value that is kept anywhere."""
    stops = [(stop.block, stop.slots(position)) for position, stop in enumerate(reader.stops, 1)]
    for block, kept in [*stops, *((end, ()) for end in reader.ends)]:
        op = block.ops[-2]
        values = dict(zip(kept, op.operands[3:], strict=True))
        nothing = Op(ops.PY_UNDEFINED, [], [Value()], {"name": ""}, [], op.location)
        op.operands[3:] = [values.get(name, nothing.result) for name in names]
        block.ops.insert(-2, nothing)


def dispatch(reader: Reader, start: Block) -> list[Block]:
    """The branches from the entry to the position of the generator; `start` is the block at its beginning."""
    parameters = parameter_names(reader.code)
    names = slots(parameters, reader.stops)
    location = reader.instructions[0].location
    params = [Value(hint=name) for name in (POSITION, *names)]
    blocks = [Block(params)]
    for position, stop in [*enumerate(reader.stops, 1), (START, None)]:
        test = blocks[-1]
        kept = dict(zip((POSITION, *names), test.params, strict=True))
        build = Builder(test, location)
        here = build.op(ops.PY_AT, None, kept[POSITION], kept[mark(position)], position=position)
        if stop is None:
            taken = Edge(start, [kept[name] for name in parameters])
        else:
            sent = build.op(ops.PY_CONST, None, value=None)
            _, *others = (kept[name] for name in stop.slots(position))
            taken = Edge(reader.blocks[stop.target], [*others[: stop.depth], sent, *others[stop.depth :]])
        following = Block([] if stop is None else [Value(hint=param.hint) for param in test.params])
        passed = [] if stop is None else [*test.params]
        build.append(Op(ops.BRANCH, [here], [], {}, [taken, Edge(following, passed)], location))
        blocks.append(following)
    reader.build = Builder(blocks[-1], location)
    finish(reader)
    complete(reader, names)
    return [*blocks, start]


# Loops


def yielding_loops(instructions: Sequence[Instruction], parts: dict[int, Span]) -> Iterator[int]:
    """The indices of the ITERs whose loops yield (or `OUTERMOST`)."""
    yields = {start for start, span in parts.items() if instructions[span.stop - 1].opcode is Opcode.YIELD}
    for head, span in parts.items():
        if instructions[span.stop - 1].opcode is Opcode.FOR_ITER:
            inside = _loop(parts, head)
            if head in inside and inside & yields:
                before = (i for i in range(span.stop - 1, -1, -1) if instructions[i].opcode is Opcode.ITER)
                yield next(before, OUTERMOST)


def _loop(parts: dict[int, Span], head: int) -> set[int]:
    """The spans that are reachable from the body of a loop without passing through its head, and the head if it is reached."""
    return set(topological(parts[head].successors[0], lambda start: () if start == head else parts[start].successors))
