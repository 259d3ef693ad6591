"""Optimises addresses in loops: hoists invariant parts, creates pointer induction variables, and steers LLVM.

The passes change a function of the device level in place. Its blocks are in reverse postorder.

    hoist(function)                       adds the loop-invariant part of an address before the loop
    follow(function)                      creates pointer induction variables for accesses of short loops behind a branch
    wants_strength_reduction(module)      whether LLVM should create induction variables for the other addresses
    has_many_loops(module)                whether LLVM should spend less time on each loop
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from cuda_device.device.lowering import Lowering
from cuda_device.ir import ops
from cuda_device.ir.dominance import Definitions, Loop, Term, back_edges, innermost, natural_loops
from cuda_device.ir.nodes import Block, Edge, Function, Module, Op, Value
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.model import INT64, Number, Ref, Space

# Loop-invariant parts of sums
#
#     invariants.split(index, loop)       [(%k, 1)], [(%i, 1)] for %k + %i, if the loop changes only %i


class Invariants:
    """The loop-invariant values of a function."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self._order = {block: number for number, block in enumerate(definitions.function.blocks)}
        self._values: dict[Loop, set[Value]] = {}

    def split(self, value: Value, loop: Loop) -> tuple[list[Term], list[Term]]:
        """The loop-invariant terms of a sum, and the others."""
        if loop not in self._values:
            self._values[loop] = _invariants(sorted(loop.blocks, key=self._order.__getitem__))
        still, moving = list[Term](), list[Term]()
        for term in self.definitions.terms(value):
            is_invariant = self.definitions.homes[term[0]] not in loop.blocks or term[0] in self._values[loop]
            (still if is_invariant else moving).append(term)
        return still, moving


def _invariants(blocks: list[Block]) -> set[Value]:
    """The results of pure operations whose operands do not change in a loop. Its blocks are in reverse postorder."""
    moving = {param for block in blocks for param in block.params}
    invariants = set[Value]()
    for block in blocks:
        for op in block.ops:
            if op.code.effects is ops.Effect.PURE and moving.isdisjoint(op.operands):
                invariants.update(op.results)
            else:
                moving.update(op.results)
    return invariants


def total(build: Lowering, terms: Sequence[Term]) -> Value:
    """A sum in 64 bits, which does not depend on the order of its terms."""
    result: Value | None = None
    for value, sign in terms:
        wide = build.convert(value, INT64)
        result = (
            wide
            if result is None and sign > 0
            else build.sum(ops.ADD if sign > 0 else ops.SUB, result or build.number(INT64, 0), wide)
        )
    return result or build.number(INT64, 0)


# Hoisting
#
#     for i in range(…):                              row = the address of x[k, 0]
#         … x[k, i] …                        →        for i in range(…):
#                                                         … row[i] …
#
#     %4: int32 = add {exact=True} %3 %i              %7 = element {outside=True} %x %3
#     %6 = element %x %4                     →        %6 = element {outside=True} %7 %i
#
# LLVM can seldom prove that a 32-bit sum behind a branch does not wrap, and computes each such address in every iteration. It can
# for addresses that every iteration computes, but creates two pointers for one row when it unrolls the loop. Addresses are
# therefore split behind branches and, in global memory, if the variable part is a counter of the loop. Others stay in 32 bits,
# because a pointer takes two registers, which loads that wait for memory together need. LLVM hoists the first address.


def hoist_addresses(function: Function) -> None:
    """Separates the loop-invariant part of addresses, so that LLVM hoists it."""
    loops = natural_loops(function.blocks)
    if loops:
        invariants = Invariants(Definitions(function))
        for block, loop in innermost(loops).items():
            _split_addresses(block, loop, invariants)


def _split_addresses(block: Block, loop: Loop, invariants: Invariants) -> None:
    elements = [op for op in block.ops if op.code is ops.ELEMENT]
    always = bool(elements) and loop.always_runs(block)
    for op in elements:
        still, moving = invariants.split(op.operands[1], loop)
        if len(moving) != 1 or all(invariants.definitions.constant(value) is not None for value, _ in still):
            continue
        if not always or (_is_global(op) and moving[0][0] in loop.header.params):
            build, reference = _builder(op), op.operands[0]
            near = build.op(ops.ELEMENT, reference.type, reference, total(build, still), outside=True)
            op.operands = [near, total(build, moving)]
            op.attributes["outside"] = True
            index = block.ops.index(op)
            block.ops[index:index] = build.block.ops


def _is_global(op: Op) -> bool:
    return isinstance(op.result.type, Ref) and op.result.type.space is Space.GLOBAL


# Pointer induction variables
#
#     ^1(%i):                                   ^1(%i, %p):
#         …                                         …
#     ^2():                                     ^2():
#         %6 = element %x %i           →            %6 = element {outside=True} %p 0
#     ^3():                                     ^3():
#         %8 = add {exact=True} %i %4               %8 = add {exact=True} %i %4
#         jump ^1(%8)                               %9 = element {outside=True} %p %4
#                                                   jump ^1(%8, %9)
#
# If LLVM computes an address in each iteration, the assembler reads `x`, an argument of the kernel, before each load. A pointer
# takes two registers throughout the loop, so only short innermost loops get pointers, and only a few.

_MOST = 4
"""The maximum number of pointers of a loop."""
_LONG = 128
"""The number of operations of a loop from which the cost of an address is negligible."""


@dataclass(frozen=True, slots=True, eq=False)
class Increment:
    """An edge to a loop's header, with the initial value of the counter or, on an edge from `inside`, its increment."""

    block: Block
    edge: Edge
    terms: list[Term]
    inside: bool


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """An induction variable: a number that a loop changes by loop-invariant sums.

    `pointers` are its pointer induction variables, each with its constant offset, by the other parts of the address.
    """

    loop: Loop
    increments: list[Increment]
    pointers: dict[tuple[object, ...], tuple[Value, int]] = field(default_factory=dict)


def add_pointer_variables(function: Function) -> None:
    """Creates pointer induction variables in short innermost loops, for addresses behind a branch that follow a counter."""
    loops = natural_loops(function.blocks)
    if loops:
        innermost_loops = innermost(loops)
        pointers = _Pointers(Definitions(function))
        short = {loop for loop in loops if _is_short(loop, innermost_loops)}
        for block in function.blocks:
            loop = innermost_loops.get(block)
            elements = [op for op in block.ops if op.code is ops.ELEMENT] if loop in short else ()
            if loop is not None and elements and not loop.always_runs(block):
                for op in elements:
                    pointers.take(block, op, loop)


def _is_short(loop: Loop, loops: dict[Block, Loop]) -> bool:
    return sum(len(block.ops) for block in loop.blocks) < _LONG and all(loops[block] is loop for block in loop.blocks)


class _Pointers:
    """The induction variables of the loops of a function."""

    def __init__(self, values: Definitions) -> None:
        self.values, self.invariants = values, Invariants(values)
        self.counters: dict[Value, Counter | None] = {}
        self.counts: collections.Counter[Loop] = collections.Counter()
        """The number of pointers of each loop."""

    def take(self, block: Block, op: Op, loop: Loop) -> None:
        """Replaces an address by a pointer induction variable, if possible."""
        reference, offset = op.operands
        if not _is_global(op):
            return
        still, moving = self.invariants.split(offset, loop)
        far = [term for term in still if self.values.constant(term[0]) is None]
        if len(moving) != 1 or any(self.is_inside(value, loop) for value in (reference, *(value for value, _ in far))):
            return
        ((value, sign),) = moving
        counter = self.counter(value, loop)
        if counter is None:
            return
        constant = sum(times * (self.values.constant(term) or 0) for term, times in still)
        key = reference, sign, *far
        if key not in counter.pointers:
            if self.counts[loop] == _MOST:
                return
            self.counts[loop] += 1
            counter.pointers[key] = _pointer(op, counter, sign, far, constant), constant
        pointer, done = counter.pointers[key]
        build = _builder(op)
        index = block.ops.index(op)
        op.operands = [pointer, build.number(INT64, constant - done)]
        op.attributes["outside"] = True
        block.ops[index:index] = build.block.ops

    def is_inside(self, value: Value, loop: Loop) -> bool:
        """Whether a value is defined in a loop and not constant."""
        return self.values.homes[value] in loop.blocks and self.values.constant(value) is None

    def counter(self, value: Value, loop: Loop) -> Counter | None:
        """The value as an induction variable; None if it is not one."""
        if value not in self.counters:
            increments = self.increments(value, loop) if value in loop.header.params else None
            self.counters[value] = Counter(loop, increments) if increments else None
        return self.counters[value]

    def increments(self, value: Value, loop: Loop) -> list[Increment] | None:
        """The increments of a value on the edges to a loop's header; None if it is not an induction variable."""
        index, increments = loop.header.params.index(value), []
        for block, edge in (*loop.entries, *loop.backs):
            inside = block in loop.blocks
            terms = _added(self.values, value, edge.arguments[index]) if inside else [(edge.arguments[index], 1)]
            if terms is None or (inside and any(self.is_inside(term, loop) for term, _ in terms)):
                return None
            increments.append(Increment(block, edge, terms, inside))
        return increments


def _added(values: Definitions, counter: Value, after: Value) -> list[Term] | None:
    """The terms of `after` besides `counter`; None if it is not a sum with it."""
    terms = values.terms(after)
    if (counter, 1) not in terms:
        return None
    terms.remove((counter, 1))
    return terms


def _pointer(op: Op, counter: Counter, sign: int, far: list[Term], constant: int) -> Value:
    """Creates a pointer induction variable."""
    reference = op.operands[0]
    pointer = Value(reference.type, hint="pointer")
    for increment in counter.increments:
        build = _builder(op)
        terms = [(value, sign * times) for value, times in increment.terms]
        begin = pointer if increment.inside else reference
        if not increment.inside:
            terms = [*far, *terms, *([(build.number(INT64, constant), 1)] if constant else [])]
        increment.edge.arguments.append(build.op(ops.ELEMENT, reference.type, begin, total(build, terms), outside=True))
        increment.block.ops[-1:-1] = build.block.ops
    counter.loop.header.params.append(pointer)
    return pointer


def _builder(op: Op) -> Lowering:
    build = Lowering(Block())
    build.location = op.location
    return build


# LLVM's loop strength reduction
#
#     for d in range(…):
#         for i in range(d, n):          i begins with d: no strength reduction
#             … x[i] …
#
# LLVM creates induction variables for the addresses of an innermost loop. If the initial value of one changes in the outer loop,
# LLVM creates one for the outer loop as well, which makes that longer by more than it makes the inner one shorter; with few
# registers left, ptxas reads `%tid.x` in each iteration. Needleman-Wunsch takes 1.22 times as long with it; other nests take
# 0.97 to 1.05 times as long without it.


def wants_strength_reduction(module: Module) -> bool:
    """Whether LLVM shall apply loop strength reduction to a module of the device level."""
    return not has_many_loops(module) and not any(map(_has_dependent_nest, module.functions))


def _has_dependent_nest(function: Function) -> bool:
    loops = {loop.header: loop for loop in natural_loops(function.blocks)}
    if len(loops) < 2:
        return False
    invariants = Invariants(Definitions(function))
    return any(
        block is not outer.header and _begins_with_what_changes(loops[block], outer, invariants)
        for outer in loops.values()
        for block in loops.keys() & outer.blocks
    )


def _begins_with_what_changes(inner: Loop, outer: Loop, invariants: Invariants) -> bool:
    return any(
        bool(invariants.split(edge.arguments[index], outer)[1])
        for index, param in enumerate(inner.header.params)
        if _is_counter(param, index, inner, invariants)
        for _, edge in inner.entries
    )


def _is_counter(param: Value, index: int, loop: Loop, invariants: Invariants) -> bool:
    """Whether a loop adds a loop-invariant sum to an integer on each back edge."""
    if not (isinstance(param.type, Number) and param.type.is_integer):
        return False
    for _, edge in loop.backs:
        terms = _added(invariants.definitions, param, edge.arguments[index])
        if terms is None or any(invariants.split(value, loop)[1] for value, _ in terms):
            return False
    return True


# Modules with many loops
#
# For each loop that LLVM unrolls, and for each one to which it applies strength reduction, it looks at the guards of all loops
# before that one: 400 loops took it 3 times as long as 200. Many loops therefore keep their form, unless LLVM knows how often
# they run. The assembler unrolls them.


_MANY = 128


def has_many_loops(module: Module) -> bool:
    """Whether a module of the device level has so many loops that LLVM's time for them grows with the square of their number."""
    if sum([len(function.blocks) for function in module.functions]) <= _MANY:
        return False
    headers = [{edge.block for _, edge in back_edges(function.blocks)} for function in module.functions]
    return sum(map(len, headers)) > _MANY
