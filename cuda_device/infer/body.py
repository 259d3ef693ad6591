"""Infers one function's body: a worklist of blocks, which are visited until no fact changes.

Each block of the python level has a *version*. Inside a loop over a tuple it has one version for each position, which unrolls the
loop. `visit` applies the rules to the operations of a version and writes typed operations into a new block. `propagate` joins the
state at an edge into that of its target, and puts the target on the worklist if the state changed. `export` does the same with
values that blocks use and others define. `seal` completes the blocks once all types are final, and converts the arguments of
their edges.

If versions of a block differ, or a value that may change in place outlives its block, the function is read again in the form in
which blocks share no values (`to_ir.read` with `pass_all`).
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from types import FunctionType
from typing import TYPE_CHECKING

from cuda_device.bytecode.scopes import OF_KNOWN_LENGTH
from cuda_device.bytecode.to_ir import read
from cuda_device.device import rows
from cuda_device.errors import NOWHERE, CompileError, Location, too_deep
from cuda_device.infer import objects, policies
from cuda_device.infer.frame import (
    CallContext,
    Cell,
    Follows,
    Frame,
    NeverReturns,
    Program,
    is_static,
)
from cuda_device.infer.intervals import proofs, twins, widened
from cuda_device.infer.joins import join, join_all, join_objects
from cuda_device.infer.rules import RULES
from cuda_device.ir import ops
from cuda_device.ir.dominance import SharedValues, drop_unused, natural_loops
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.ir.ops import Effect, Level
from cuda_device.ir.simplify import simplify
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.lazy_imports import import_lazily
from cuda_device.library import NAMES, STANDARD
from cuda_device.types.known import (
    FAILED,
    Identity,
    Known,
    State,
    Undefined,
    Unset,
    constant,
    identities,
    part,
    state_of,
)
from cuda_device.types.layout import leaves
from cuda_device.types.model import NONE, Array, NoneType, Number, Range, Ref, Space, Static, Tuple
from cuda_device.types.promote import is_narrow_number

if TYPE_CHECKING:
    from cuda_device.infer import closures, composites, references, remedies, unrolling
    from cuda_device.types import sealed
else:
    import_lazily(globals(), "cuda_device.infer", "closures", "composites", "references", "remedies", "unrolling")
    import_lazily(globals(), "cuda_device.types", "sealed")


_READING = frozenset(
    (
        ops.VARIABLE,
        ops.PY_UNDEFINED,
        ops.PY_CELLS,
        ops.PY_AT,
        ops.PY_STEP,
        ops.PY_GETITEM,
        ops.PY_GETATTR,
        ops.PY_GLOBAL,
        ops.PY_CELL,
        ops.PY_CONST,
        ops.PY_BINARY,
        ops.PY_UNARY,
        ops.PY_TUPLE,
    )
)
"""Operations that do not write to memory."""
_OF_VARIABLES = frozenset(
    (ops.PY_BOX, ops.PY_SET_BOX, ops.PY_SET_CELL, ops.PY_CELLS, ops.PY_AT, ops.PY_STEP, ops.VARIABLE)
)
"""Operations that also accept a variable without a value."""
_ENDS = frozenset((ops.JUMP, ops.BRANCH, ops.RETURN, ops.UNREACHABLE))
"""Operations that end a block; the others have `RULES`."""
_OF_OWNERS = frozenset((ops.PY_GETATTR, ops.PY_SETATTR, ops.PY_SETITEM))
"""Operations that take their first operand by reference, so that methods change the struct behind `self`."""
_PASSING_ON = frozenset((ops.PY_CALL, ops.PY_COPY))
"""Operations that do not read references to records if the policy has such."""
_OPERATORS = frozenset((ops.PY_BINARY, ops.PY_COMPARE, ops.PY_UNARY))
_FEW = 4
"""To select one of so many items is no reason to unroll a loop."""
# Functions with more block versions are refused, because their compilation would hardly end.
_VERSIONS = 20_000


# The state of a block is the join of the last states of the edges to it. If the type on an entry edge of a loop changes, the
# states of the loop are dropped and inferred again:
#
# entry uint32, back edge float32     first visit: `x` is uint32, so `x = x / y` makes it a float32
# entry int64,  back edge ?           an earlier loop has made it an int64, so the back edge is inferred again
# entry int64,  back edge float64     the result, instead of the join of int64 and float32


WIDENING_DELAY = 8
"""After this many changes, the facts about a block can only become weaker."""


EdgeKey = tuple[tuple[int, ...], int]
"""An edge: the key of the block version that it leaves, and which of the terminator's successors it is."""


@dataclass(slots=True, eq=False)
class BlockVersion:
    """A block at given positions of the tuple loops that contain it.

    `states` are the facts about its parameters: the join of `incoming`, the last state of each edge. `outgoing` are the edges
    that leave it.
    """

    source: Block
    key: tuple[int, ...]
    states: list[State] = field(default_factory=list)
    incoming: dict[EdgeKey, list[State]] = field(default_factory=dict)
    is_new: bool = True
    """Whether it has no state yet, or its state was dropped."""
    changes: int = 0
    restarts: int = 0
    block: Block = field(default_factory=Block)
    end: Op | None = None
    outgoing: list[tuple[BlockVersion, EdgeKey, list[Cell]]] = field(default_factory=list, repr=False)
    returned: Cell | None = None
    frame: Frame | None = None
    error: CompileError | None = None
    exports: dict[Value, Cell] = field(default_factory=dict)
    """The values of the block that other blocks use."""
    changed: set[Value] = field(default_factory=set)
    """The values with a part that the block assigned to."""

    def receive(self, edge: EdgeKey, states: list[State]) -> bool:
        """Records the state at an edge. Returns whether the states of this block and later ones must be dropped: see above."""
        before, self.incoming[edge] = self.incoming.get(edge), states
        if (
            before is None
            or edge[0] >= self.key
            or self.restarts >= WIDENING_DELAY
            or all(other[0] < self.key for other in self.incoming)
            or not any(map(_is_another, before, states))
        ):
            return False
        self.restarts += 1
        return True

    def forget(self, first: tuple[int, ...]) -> None:
        """Drops the states on edges from the loop header `first` and from later blocks, which are visited again."""
        for edge in [edge for edge in self.incoming if edge[0] >= first]:
            del self.incoming[edge]
        self.is_new = True


@dataclass(slots=True, eq=False)
class Specialisation:
    """A function for given arguments. While its body is inferred, `result` and the `changed` objects rise in the lattice.

    `used_early` says that a recursive call used the result before it was final.
    """

    name: str
    source: FunctionType
    arguments: tuple[Known, ...]
    variant: CallContext
    result: State = field(default_factory=Undefined)
    function: Function | None = None
    error: CompileError | None = None
    changed: frozenset[Identity] = frozenset()
    kernel: bool = False
    outermost: bool = False
    used_early: bool = False


class _MustPassAll(Exception):
    """Blocks must not share values in this function."""


class _MustUnroll(Exception):
    """A loop over a constant range must be unrolled, because its body needs constants."""


_shared_values = lru_cache(maxsize=256)(SharedValues)
_twins = lru_cache(maxsize=256)(twins)


@lru_cache(maxsize=256)
def _positions(python: Function) -> dict[int, int]:
    """The positions of a function's blocks, by their `id`, in an order in which each loop stands directly behind its header.

    What follows a loop thus comes after all of it, and is inferred once its types are final. Loops that another block than the
    header enters stay where they are.
    """
    first = python.blocks[0]
    loops = natural_loops(python.blocks) if len(python.blocks) > 2 else ()
    number = {id(block): position for position, block in enumerate(python.blocks)}
    inside: dict[int, tuple[int, ...]] = {block: (position,) for block, position in number.items()} if loops else {}
    for loop in sorted(loops, key=lambda loop: number[id(loop.header)], reverse=True):
        for block in loop.blocks if loop.header is first or first not in loop.blocks else ():
            inside[id(block)] = (number[id(loop.header)], *inside[id(block)])
    return {block: position for position, block in enumerate(sorted(inside, key=inside.__getitem__))} or number


def _is_another(old: State, new: State) -> bool:
    """Whether the type of a state changed."""
    return (
        old is not new
        and old is not FAILED
        and isinstance(new, Known)
        and not (isinstance(old, Known) and old.type == new.type)
    )


class Body:
    """The inference of one function's body."""

    def __init__(self, program: Program, spec: Specialisation) -> None:
        self.program, self.spec, self.variant = program, spec, spec.variant
        self.source = source = spec.source
        module = source.__module__ or ""
        is_ours = module.startswith("cuda_device.") and module != STANDARD
        self.policy = None if is_ours else program.policy
        names, arguments = spec.variant.captured, spec.arguments
        behind = len(arguments) - len(names)
        self.parameters = arguments[:behind]
        self.captured = {
            variable: Cell(known, None if is_static(known) else Value(known.type, variable.name, known.nonneg))
            for variable, known in zip(names, arguments[behind:], strict=True)
        }
        self.activation = closures.activation_number(source.__code__, names)
        self.objects = tuple(dict.fromkeys(chain.from_iterable(map(identities, arguments))))
        """The mutable objects among the arguments, whose contents the function returns in addition to its result."""
        self.unrolled = set[Location]()
        """The places of loops over constant ranges whose bodies need constants."""
        self.on_trial, self.kept = set[Location](), set[Location]()
        """Those that stay unrolled if indices become constants, and those where they did not."""
        self.read(pass_all=bool(self.objects or self.variant.reading))

    def read(self, pass_all: bool) -> None:
        """Reads the code, and begins the inference."""
        program, source = self.program, self.source
        checked = program.checked and source.__module__ not in NAMES
        self.pass_all = pass_all
        self.python = read(source.__code__, self.variant.reading, checked, program.debug, pass_all)
        self.uses, self.twins, self.rank = _shared_values(self.python), _twins(self.python), _positions(self.python)
        self.shared: dict[Value, Cell] = {}
        """The values that blocks use and others define, as their users see them."""
        self.versions: dict[tuple[int, ...], BlockVersion] = {}
        self.keys: list[tuple[int, ...]] = []
        """Those of the versions, in order."""
        self.worklist: list[tuple[int, ...]] = []
        self.effects = Effect.PURE
        self.constant_ranges: dict[Location, int] = {}
        """The places of loops over constant ranges, and their numbers of iterations."""
        self.walked = set[Location]()
        """Those among them that walk through tuples, and are to be unrolled on trial."""
        self.walks: unrolling.Walks | None = None

    def run(self) -> tuple[Function, State, frozenset[Identity]]:
        """Returns the typed function, the state of its result, and the objects that it changes."""
        while True:
            with suppress(_MustPassAll, _MustUnroll):
                return self.infer()
            self.read(pass_all=True)  # outside of a handler: errors of the next inference have no other context

    def infer(self) -> tuple[Function, State, frozenset[Identity]]:
        """Infers the blocks. Raises `_MustPassAll` if they share values that they must not share, or `_MustUnroll`."""
        entry = self.python.blocks[0]
        self.propagate(entry, [Cell(known) for known in self.parameters], ((), 0))
        while self.worklist:
            key = heapq.heappop(self.worklist)
            while self.worklist and self.worklist[0] == key:
                heapq.heappop(self.worklist)
            if self.versions[key].incoming:
                self.visit(self.versions[key])
        ordered = [self.versions[key] for key in self.keys if self.versions[key].incoming]
        errors = [version.error for version in ordered if version.error is not None]
        if errors:
            self.unroll(version for version in ordered if version.error is not None and version.error.unrolls)
            first = [error for error in errors if not isinstance(error, Follows)] or errors
            raise min(first, key=lambda error: (error.chain[-1] if error.chain else error).location.line)
        result = self.result(ordered)
        if self.spec.outermost and isinstance(result, Known):
            result = result.forget()  # no caller in device code knows the constant
        values: dict[Value, Value] = {}
        for version in ordered:
            self.seal(version, result, values)
        self.check_result(ordered, result)
        typed = Function(self.spec.name, [i.block for i in ordered], Level.TYPED, location=self.python.location)
        typed.shown = self.python.shown
        typed.result = result.type if isinstance(result, Known) and not is_static(result) else NONE
        typed.signature = tuple([k.type for k in self.spec.arguments if not is_static(k)])
        typed.effects = self.effects
        typed.in_place = bool(self.variant.reading) or self.source.__code__.co_name in OF_KNOWN_LENGTH
        simplify(typed, values)
        drop_unused(typed, {value for version in ordered if version.frame for value in version.frame.passed_over})
        changed = {identity for version in ordered if version.frame for identity in version.frame.changed}
        return typed, result, frozenset(changed.intersection(self.objects))

    def unroll(self, versions: Iterable[BlockVersion]) -> None:
        """Raises `_MustUnroll` if versions that need constants are in loops over constant ranges; the inner loops come first."""
        candidates = self.constant_ranges.keys() - self.unrolled
        if not candidates:
            return
        count = len(self.unrolled)
        self.on_trial |= self.walked - self.kept
        self.unrolled |= self.walked - self.kept
        self.unrolled.update(unrolling.innermost(self.python, [version.source for version in versions], candidates))
        if self.walked or len(self.unrolled) > count:
            raise _MustUnroll

    def selected(self, op: Op, count: int) -> None:
        """Raises `Follows` where one of `count` items is selected by an index that an unrolled loop makes a constant.

        Loops where it has not become one, because the index also depends on something else, stay as they are.
        """
        if count <= _FEW or not self.constant_ranges or not op.operands:
            return
        self.walks = self.walks or unrolling.Walks(self.python)
        walked, stay = self.walks.of(op.operands[1], count, self.constant_ranges, self.unrolled)
        self.kept |= stay
        walked -= self.kept
        if failed := walked & self.on_trial:
            self.kept |= failed
            self.unrolled -= failed
            raise _MustUnroll
        if walked := walked - self.unrolled:
            self.walked |= walked
            raise Follows("the index must be a constant")

    def iterated(self, op: Op, cells: Mapping[Value, Cell]) -> Op:
        """The operation `iter`, which is marked if the loop is unrolled."""
        if not isinstance(cells[op.operands[0]].known.type, Range):
            return op
        return unrolling.iterated(op, cells[op.operands[0]].known, self.unrolled, self.constant_ranges)

    def propagate(self, source: Block, cells: Sequence[Cell], edge: EdgeKey) -> BlockVersion:
        """Joins the state at an edge into the version of `source` that the state selects, and schedules it if that changed."""
        states = [state_of(cell.known) for cell in cells]
        key = (self.rank[id(source)], *objects.positions(states))
        if len(key) > 1 and not self.pass_all:
            raise _MustPassAll
        version = self.versions.get(key)
        if version is None:
            if len(self.versions) >= _VERSIONS:
                raise CompileError(
                    "the function is too large once its loops over tuples are unrolled",
                    self.python.location,
                    "loop over range(…), or over an array",
                )
            version = self.versions[key] = BlockVersion(source, key)
            bisect.insort(self.keys, key)
        if version.receive(edge, states):
            self.restart(key)
        self.update(version)
        return version

    def restart(self, first: tuple[int, ...]) -> None:
        """Drops the states on edges from the version `first` and later ones, which are visited again."""
        behind = [self.versions[key] for key in self.keys[bisect.bisect_left(self.keys, first) :]]
        for other in behind:
            other.forget(first)
        for other in behind:
            self.update(other)

    def update(self, version: BlockVersion) -> None:
        """Joins the states at all incoming edges, and schedules the version if the result is new.

        The join starts from the edges alone, so that wrong states of earlier visits leave no trace. After many changes it
        includes the version's old state, which ensures termination. Bounds are widened once the version has been visited.
        """
        incoming = [*version.incoming.values()]
        if version.changes > WIDENING_DELAY and not version.is_new:
            incoming.append(version.states)
        if not incoming:
            return
        if len(incoming) > 1:
            incoming = objects.join_identities(incoming, version.key, len(version.source.params))
            if self.policy is not None:
                incoming = policies.join_columns(self.policy, incoming)
        states = incoming[0] if len(incoming) == 1 else [join_all(column) for column in zip(*incoming, strict=True)]
        if not version.is_new and version.frame is not None:
            pairs = zip(version.states, states, strict=True)
            states = [new if old is new else widened(old, new) for old, new in pairs]
        if len(incoming) > 1:
            states = join_objects(states)
        if states != version.states or version.is_new:
            version.states, version.is_new = states, False
            version.changes += 1
            heapq.heappush(self.worklist, version.key)

    def visit(self, version: BlockVersion) -> None:
        """Infers a version's operations. Its first error counts only if it remains at the fixed point."""
        before = {edge: target for target, edge, _ in version.outgoing}
        cells = self.begin(version)
        frame = version.frame
        assert frame is not None
        for op in version.source.ops:
            frame.build.location = (op.code is ops.PY_RAISE and self.variant.where) or op.location
            try:
                self.step(version, frame, self.iterated(op, cells) if op.code is ops.PY_ITER else op, cells)
            except NeverReturns:
                version.end = Op(ops.UNREACHABLE, location=frame.location)
                break
            except (CompileError, RecursionError) as raised:
                error = raised if isinstance(raised, CompileError) else too_deep("the value is", CompileError)
                if error.location is NOWHERE:
                    error.location = frame.location
                for meaning in (cells[value].known.value for value in op.operands if value in cells):
                    if isinstance(meaning, sealed.Sealed):
                        meaning.explain(error)
                # The remaining operations are still inferred: their effect on a back edge may remove the error.
                if version.error is None or (isinstance(version.error, Follows) and not isinstance(error, Follows)):
                    version.error = error
                cells.update((result, Cell(part(FAILED))) for result in op.results)
        self.export(version, cells)
        for edge, target in before.items():
            if all(target is not now for now, same, _ in version.outgoing if same == edge):
                target.incoming.pop(edge, None)
                self.update(target)

    def export(self, version: BlockVersion, cells: dict[Value, Cell]) -> None:
        """Gives other blocks the values that they use, and schedules these blocks if the facts about a value changed.

        If a type changed, the states of loops behind the block are dropped, as if the value was on the edges that enter them.
        """
        is_another = False
        for value in self.uses.defined.get(version.source, ()):
            if value not in cells:  # a call before it does not return
                continue
            version.exports[value] = cells[value]
            state, before = state_of(cells[value].known), self.shared.get(value)
            if objects.may_hold(state) and (any(identities(state)) or objects.positions([state])):
                raise _MustPassAll
            if before is None or state_of(before.known) != state:
                self.shared[value] = self.parameter(Block(), value, state)
                is_another |= before is not None and _is_another(state_of(before.known), state)
                for block in self.uses.users[value] if before is not None else ():
                    if (key := (self.rank[id(block)],)) in self.versions:
                        heapq.heappush(self.worklist, key)
        if is_another and version.restarts < WIDENING_DELAY:
            version.restarts += 1
            self.restart((version.key[0] + 1,))

    def begin(self, version: BlockVersion) -> dict[Value, Cell]:
        """Gives a version a new frame; returns the cells of its parameters."""
        frame = Frame(self.program, self.source)
        version.frame, version.block = frame, frame.build.block
        version.end, version.outgoing, version.returned, version.error = None, [], None, None
        version.exports, version.changed = {}, set()
        frame.code, frame.captured, frame.activation = self.variant.code, self.captured, self.activation
        frame.site, frame.where, frame.policy = version.key, self.variant.where, self.policy
        frame.selected = self.selected
        cells = {value: self.shared[value] for value in self.uses.used[version.source]}
        count = len(version.source.params)
        for param, state in zip(version.source.params, version.states[:count], strict=True):
            if objects.may_hold(state):
                state = objects.rename_previous_iteration(state, version.key)  # noqa: PLW2901
            cells[param] = self.parameter(version.block, param, state)
        if version.source is self.python.blocks[0]:
            for param, cell in cells.items():
                if isinstance(cell.known.type, Tuple):
                    cells[param] = composites.named(frame, cell)
            version.block.params += [cell.value for cell in self.captured.values() if cell.value is not None]
            if self.policy is not None and self.spec.kernel:
                cells = {param: self.policy.argument(frame, cell) for param, cell in cells.items()}
            if self.objects:
                frame.heap = objects.objects_among(frame, [*cells.values(), *self.captured.values()])
        for identity, state in zip(self.objects, version.states[count:], strict=False):
            frame.heap[identity] = self.parameter(version.block, Value(), state)
        return cells

    def parameter(self, block: Block, param: Value, state: State) -> Cell:
        """The cell of a block's parameter. The typed block has a parameter only for run-time values."""
        if not isinstance(state, Known):
            return Cell(part(state))
        if is_static(state):
            return Cell(state)
        value = Value(state.type, param.hint, state.nonneg)
        block.params.append(value)
        return Cell(state, value)

    def step(self, version: BlockVersion, frame: Frame, op: Op, cells: dict[Value, Cell]) -> None:
        """Infers one operation by its rule, or ends the block."""
        if op.code in _ENDS:
            self.terminate(version, frame, op, cells)
            return
        operands = self.operands(frame, op, cells) if op.operands else []
        if "back" in op.attributes and op.operands[-1] not in version.changed:
            return
        if self.policy is not None and op.code in _OPERATORS:
            operands = self.policy.operands(frame, str(op.attributes["op"]), operands)
        results = RULES[op.code](frame, op, operands)
        if self.policy is not None:
            results = [self.policy.result(frame, cell) for cell in results]
        frame.writes += op.code not in _READING
        if op.code in (ops.PY_SETITEM, ops.PY_SETATTR):
            # Vectors and structs are values: the variable has a new one.
            if results and not self.pass_all:
                raise _MustPassAll
            cells.update(zip(op.operands, results, strict=False))
            version.changed.update(op.operands[: len(results)])
            return
        for value, cell in zip(op.results, results, strict=True):
            where, here = cell.known.where, op.location
            if where is not here and (where.file, where.function) != (here.file, here.function):
                cell = Cell(cell.known.at(here), cell.value, cell.place)  # noqa: PLW2901
            cells[value] = cell

    def operands(self, frame: Frame, op: Op, cells: dict[Value, Cell]) -> list[Cell]:
        """The operands of an operation: current values. References are loaded, unless the operation takes them."""
        operands: list[Cell] = []
        for number, value in enumerate(op.operands):
            cell = frame.now(cells[value]) if frame.heap else cells[value]
            if op.code in _OF_VARIABLES:
                operands.append(cell)
                continue
            if isinstance(cell.known.type, Static):
                cell = frame.as_value(closures.settle(cell, value.hint))
            elif isinstance(cell.known.type, Ref) and not (number == 0 and op.code in _OF_OWNERS):
                is_passed_on = op.code in _PASSING_ON and self.policy is not None and self.policy.references
                cell = cell if is_passed_on else references.value_of(frame, cell)
            operands.append(cell)
        return operands

    def terminate(self, version: BlockVersion, frame: Frame, op: Op, cells: dict[Value, Cell]) -> None:
        """Ends the block, and propagates its edges. A branch on a constant has one edge."""
        edges = op.successors
        operands = [closures.settle(frame.now(cells[value]), value.hint) for value in op.operands]
        version.end = Op(op.code, location=op.location)
        if op.code is ops.RETURN:
            returned = operands[0]
            if not isinstance(returned.known.type, (Number, NoneType)):
                returned = closures.close(frame, references.value_of(frame, returned))
                references.check_result(self.source.__qualname__, returned.known.type)
            version.returned = objects.return_value(frame, returned, self.objects) if self.objects else returned
        elif op.code is ops.BRANCH:
            condition = operands[0]
            if edges[0].block is edges[1].block and edges[0].arguments == edges[1].arguments:
                condition = Cell(constant(True))  # CPython folded the condition, so both edges are the same
            if condition.known.constant:
                edges = [edges[0] if condition.known.value else edges[1]]
                version.end.code = ops.JUMP
            else:
                assert condition.value is not None
                version.end.operands = [condition.value]
        proved = proofs(version.source, op.operands[0], cells, self.twins) if len(edges) > 1 else ({},) * len(edges)
        resumes = self.variant.reading and any(operation.code is ops.PY_AT for operation in version.source.ops)
        for edge, known in zip(edges, proved, strict=True):
            number = op.successors.index(edge)
            if number and op.operands[0] in frame.exits:
                frame.heap = {**frame.heap, **frame.exits[op.operands[0]]}
            arguments = [_proved(cells[value], known.get(value)) for value in edge.arguments]
            if resumes:
                kept = {} if number else objects.objects_among(frame, arguments)
                arguments += [kept.get(identity, frame.heap[identity]) for identity in self.objects]
            elif frame.heap:
                arguments = [frame.now(cell) for cell in arguments]
                arguments += [frame.now(frame.heap[identity]) for identity in self.objects]
            name = (version.key, number)
            version.outgoing.append((self.propagate(edge.block, arguments, name), name, arguments))

    def result(self, ordered: list[BlockVersion]) -> State:
        """The join of the states of all returns."""
        ends = [version for version in ordered if version.returned is not None]
        states = objects.return_states([i.returned.known for i in ends if i.returned is not None], bool(self.objects))
        result: State = Undefined()
        for version, (known, *_) in zip(ends, states, strict=True):
            assert version.returned is not None and version.end is not None
            if self.spec.kernel and version.returned.known.type != NONE:
                raise CompileError(
                    f"a kernel returns None, but {self.source.__qualname__} returns {version.returned.known} here",
                    version.end.location,
                    "write the result to an array",
                )
            if self.policy is not None and isinstance(result, Known) and isinstance(known, Known) and result != known:
                result, known = self.policy.joined(result), self.policy.joined(known)  # noqa: PLW2901
            joined = join(result, known)
            if not isinstance(joined, (Known, Undefined)):
                assert isinstance(result, Known) and isinstance(known, Known)
                raise CompileError(
                    f"{self.source.__qualname__} returns {result} on one path and {known} on another",
                    version.end.location,
                    remedies.of_two_types(result, known, "return the same type on every path"),
                )
            result = joined
        return objects.return_state(result, states, bool(self.variant.reading)) if self.objects else result

    def check_result(self, ordered: list[BlockVersion], result: State) -> None:
        """Raises `CompileError` for a function that returns its local memory."""
        if Effect.LOCAL not in self.effects or not isinstance(result, Known):
            return
        if any(isinstance(leaf, Ref) and leaf.space is Space.LOCAL for leaf in leaves(result.type)):
            ends = [version.end for version in ordered if version.returned is not None and version.end is not None]
            raise CompileError(
                f"{self.source.__qualname__} returns {result}, but its local arrays do not exist after it returns",
                ends[0].location,
                "make the array where it is used, and pass it to the function",
            )

    def seal(self, version: BlockVersion, result: State, values: dict[Value, Value]) -> None:
        """Completes a version's block after all types are final. `values` gets what the shared values of its users stand for."""
        frame, end = version.frame, version.end
        assert frame is not None and end is not None
        frame.build.location = end.location
        try:
            self.carry(version, frame, end, result)
            for value, cell in version.exports.items():
                shared = self.shared[value]
                if shared.value is not None:
                    values[shared.value] = _carried(frame, cell, shared.known)
        except CompileError as error:
            error.location = end.location if error.location is NOWHERE else error.location
            raise
        version.block.ops.append(end)
        self.effects |= effects_of(version.block.ops)

    def carry(self, version: BlockVersion, frame: Frame, end: Op, result: State) -> None:
        """Writes the operands of a terminator: the result, or the arguments of its edges."""
        if end.code is ops.RETURN and isinstance(result, Known) and not is_static(result):
            assert version.returned is not None
            end.operands = [frame.carry(version.returned, result)]
        for target, _, cells in version.outgoing:
            pairs = [*zip(cells, target.states, strict=True)]
            by_identity = objects.objects_on_edge(frame, pairs)
            arguments: list[Value] = []
            for cell, state in pairs:
                if not isinstance(state, Known) or is_static(state):
                    continue
                if _is_number(cell.known) and is_narrow_number(state.type):
                    self.program.adopted.add(target.block.params[len(arguments)])
                arguments.append(_carried(frame, cell, state, by_identity))
            end.successors.append(Edge(target.block, arguments))


def effects_of(operations: Iterable[Op]) -> Effect:
    """The effects of operations of typed IR, without those of the functions that they call."""
    effects = Effect.PURE
    for op in operations:
        if op.code is ops.INTRINSIC:
            effects |= rows.BY_NAME[str(op.attributes["name"])].effects
        elif op.code in (ops.PY_RAISE, ops.PY_CHECK):
            effects |= Effect.EXITS
    return effects


def _carried(frame: Frame, cell: Cell, known: Known, by_identity: Mapping[Identity, Cell] | None = None) -> Value:
    """A value as another block gets it. A variable without a value passes zero."""
    if cell.value is not None and cell.value.type is known.type and isinstance(known.type, (Number, Array)):
        return cell.value
    if isinstance(cell.known.value, Unset):
        return frame.build.const(known.type, 0 if isinstance(known.type, Number) else None)
    return frame.carry(cell, known, by_identity)


def _is_number(known: Known) -> bool:
    """Whether this is a constant number of Python."""
    return known.constant and isinstance(known.type, Number) and known.type.builtin


def _proved(cell: Cell, known: Known | None) -> Cell:
    """The cell with the facts that a branch proved."""
    return cell if known is None else Cell(known, cell.value, cell.place)
