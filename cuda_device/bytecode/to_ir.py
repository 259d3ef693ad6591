"""Bytecode → IR of the python level, by running the instructions on a symbolic stack.

Every block takes the whole stack and its live variables as parameters, so blocks share no values: SSA falls out, with
no search for phis. Nothing is typed and nothing refused here: what device code cannot do becomes `py.unsupported`, an
error only if inference reaches it.

    def f(n):                      ^1(%n):
        while n < 9:                 %1 = py.const {value=9}
            n = n + 1                %2 = py.compare {op="<"} %n %1
        return n                     %3 = py.truth %2
                                     branch %3 ^2(%n) ^3(%n)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from types import CodeType

from cuda_device.bytecode.cfg import CELL, READS_CELLS, Span, spans
from cuda_device.bytecode.constructs import SIMPLE, SPECIAL, describe
from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import Instruction, Opcode
from cuda_device.bytecode.rewritten import original
from cuda_device.bytecode.scopes import GENERATOR, ITERATOR, OF_KNOWN_LENGTH, Scopes, is_of_comprehension, scopes
from cuda_device.bytecode.suspension import OUTERMOST, STEP, STEP_UNROLLED, Stop, dispatch, yielding_loops
from cuda_device.bytecode.tails import merge
from cuda_device.device.parameters import parameter_names
from cuda_device.errors import CompileError, CompilerBug, Location
from cuda_device.ir import ops
from cuda_device.ir.builder import Builder
from cuda_device.ir.nodes import Block, Edge, Function, Op, Value
from cuda_device.ir.ops import Level

_COROUTINE, _ASYNC_GENERATOR = 0x80, 0x200

Way = tuple[str, tuple[tuple[ops.Opcode, tuple[tuple[str, object], ...]], ...]]
"""How a value was read: from a variable, by these operations with these attributes."""


def read(code: CodeType, reading: str = "") -> Function:
    """The python-level IR of a function's code. The result is shared: nobody may change it.

    `reading` is one of `suspension.STEPS` for a generator's code: a function that goes from one value to the next.
    """
    # Code objects are equal without regard to their file and qualified name, which messages show.
    return _read(original(code), reading, code.co_filename, code.co_qualname)


def slots(code: CodeType) -> tuple[str, ...]:
    """What a generator keeps, by name: its parameters, and what `suspension.slots` adds."""
    _, *kept = read(code, STEP).blocks[0].params
    return tuple(str(param.hint) for param in kept)


@lru_cache(maxsize=256)
def _read(code: CodeType, reading: str, _file: str, _name: str) -> Function:
    _refuse(code, reading)
    found = scopes(code, merge(decode(code)))
    kept: frozenset[tuple[int, int]] = frozenset()
    while True:
        reader = Reader(code, found, reading, kept)
        with suppress(_TooLittleKept):
            function = reader.function()
            if reader.wanted <= kept:
                return function
        kept |= reader.wanted


def _refuse(code: CodeType, reading: str) -> None:
    place = Location(code.co_filename, code.co_firstlineno, function=code.co_qualname)
    if code.co_flags & (_COROUTINE | _ASYNC_GENERATOR):
        raise CompileError("device code cannot be a coroutine", place, "take away the word async")
    if code.co_flags & GENERATOR and not reading:
        raise CompileError(
            f"{code.co_qualname} is a generator, which cannot be compiled alone",
            place,
            "call it in a for loop of a kernel or function",
        )


class _TooLittleKept(Exception):
    """The function is read again, and what assignments want to know is kept."""


class Reader:
    """Reads one function. `stack` and `variables` describe the span at hand."""

    def __init__(self, code: CodeType, found: Scopes, reading: str, kept: frozenset[tuple[int, int]]) -> None:
        self.code, self.reading = code, reading
        self.kept, self.wanted = kept, set[tuple[int, int]]()
        """The places in the stack where an assignment needs to know how a value was read: those that keep it, and all."""
        self.instructions, self.cells, self.unrolled = found.instructions, found.cells, found.unrolled
        self.boxed = found.boxed
        self.spans = spans(self.instructions, self.cells, self.boxed)
        self.indexed: frozenset[int] = frozenset()
        """The ITERs whose loops, also over tuples, are loops at run time."""
        if reading:
            self.look_at_loops()
        self.stops: list[Stop] = []
        """Where a generator that is read as steps waits, and the blocks where it ends."""
        self.ends: list[Block] = []
        self.index = 0
        self.references: dict[Value, tuple[str, ...]] = {}
        """The names of cells, of what CLOSURE pushed and of tuples of that."""
        self.constants: dict[Value, object] = {}
        self.codes: dict[Value, CodeType] = {}
        self.dicts: dict[Value, tuple[tuple[object, ...], list[Value]]] = {}
        self.made: dict[Value, Op] = {}
        """The operations that gave items and attributes, those of global names left out."""
        self.carried: dict[Value, tuple[int, int]] = {}
        """Parameters of blocks that were in the stack: the span's start, and the place in the stack."""
        self.brought: dict[tuple[int, int], list[Value]] = {}
        """What is in the stack there on each way that leads to the span."""
        self.globals: set[Value] = set()
        """What globals name, and attributes and items of that."""
        self.blocks: dict[int, Block] = {}
        self.ways: dict[int, list[Way | None]] = {}
        """By span: for each value in the stack at its start, how it was read, if that is known."""
        self.stack: list[Value] = []
        self.variables: dict[str, Value] = {}
        self.build = Builder(Block())

    def function(self) -> Function:
        """The whole function."""
        first = Block([Value(hint=name) for name in parameter_names(self.code)])
        self.begin(first)
        for start, span in self.spans.items():
            if start in self.blocks:
                self.span(span, self.blocks[start])
        place = Location(self.code.co_filename, self.code.co_firstlineno, function=self.code.co_qualname)
        starts = [start for start in self.spans if start in self.blocks]
        head = dispatch(self, first) if self.reading else [first]
        blocks = [*head, *(self.blocks[start] for start in starts)]
        return Function(self.code.co_name, blocks, Level.PYTHON, shown=self.code.co_qualname, location=place)

    def look_at_loops(self) -> None:
        """Which loops of a generator are unrolled, or are not although they run over tuples."""
        loops = list(yielding_loops(self.instructions, self.spans))
        if self.reading == STEP_UNROLLED:
            self.unrolled |= {index for index, _ in loops}
        elif self.reading == STEP:
            self.indexed = frozenset(index for index, skips in loops if skips)

    def begin(self, block: Block) -> None:
        """Jumps from a block with the parameters to the first span."""
        self.build = Builder(block, self.instructions[0].location)
        names = parameter_names(self.code)
        self.variables = dict(zip(names, block.params, strict=True))
        self.variables |= {f"{CELL}{name}": self.variables[name] for name in names if name in self.cells}
        for name in sorted(self.boxed):
            if not is_of_comprehension(name):
                self.begin_cell(name)
        if OUTERMOST in self.unrolled or self.code.co_name in OF_KNOWN_LENGTH:
            self.take_iterator(unroll=True)
        elif OUTERMOST in self.indexed:
            self.take_iterator(indexed=True)
        self.build.block.ops.append(Op(ops.JUMP, successors=[self.edge(0)], location=self.build.location))

    def begin_cell(self, name: str) -> None:
        """A new cell variable, which is a parameter, or has no value yet."""
        if name not in self.boxed:
            return
        if is_of_comprehension(name):
            self.variables.pop(f"{CELL}{name}", None)
        content = self.variable(f"{CELL}{name}")
        self.variables[f"{CELL}{name}"] = self.build.op(ops.PY_BOX, None, content, name=name)

    def take_iterator(self, **how: bool) -> None:
        """Says how the iterator that a comprehension or generator expression is given is run through."""
        iterator = self.variables[ITERATOR]
        self.variables[ITERATOR] = self.build.op(ops.PY_ITER, None, iterator, **how)

    def edge(self, start: int) -> Edge:
        """A way to the span at `start` with the present stack and variables; makes its block at the first visit."""
        live = self.live(start)
        ways = [self.way(value, (start, i)) for i, value in enumerate(self.stack)]
        for i, value in enumerate(self.stack):
            self.brought.setdefault((start, i), []).append(value)
        stack = [each for value, way in zip(self.stack, ways, strict=True) for each in self.parts(value, way)]
        if start not in self.blocks:
            params = [Value() for _ in stack] + [Value(hint=name.removeprefix(CELL)) for name in live]
            self.blocks[start], self.ways[start] = Block(params), ways
        if len(self.ways[start]) != len(ways):
            raise CompilerBug(f"{self.code.co_qualname}: the stack is uneven at instruction {start}")
        if self.ways[start] != ways:
            if not self.wanted <= self.kept:
                raise _TooLittleKept
            help = "give the value a name first, and then assign it"
            raise CompileError("the value of the assignment changes what is assigned to", self.build.location, help)
        return Edge(self.blocks[start], stack + [self.variable(name) for name in live])

    def live(self, start: int) -> list[str]:
        """The variables that a span takes, in the order of its block's parameters."""
        span = self.spans[start]
        known = [name for name in self.code.co_varnames if name in span.live]
        return known + sorted(span.live.difference(known))

    def target(self, value: Value) -> dict[str, object]:
        """What an assignment to an item or attribute of `value` changes, where `value` is no variable."""
        path = self.path(value)
        return {} if path == [] else {"target": "value" if path is None else "part"}

    def path(self, value: Value) -> list[Op] | None:
        """How `value` was read from a variable, the last step first; None if it does not come from one."""
        path = []
        while not self.is_variable(value):
            made = self.made.get(value)
            if made is None:
                self.want(value)
                return None
            path.append(made)
            value = made.operands[0]
        return path

    def want(self, value: Value) -> None:
        """Asks for how a value in the stack was read, on the ways to this block and on those to the blocks before it."""
        values = [value]
        while values:
            value = values.pop()
            while value in self.made:
                value = self.made[value].operands[0]
            place = self.carried.get(value)
            if place is not None and place not in self.wanted:
                self.wanted.add(place)
                values += self.brought[place]

    def is_variable(self, value: Value) -> bool:
        """Whether this is the present value of a variable."""
        return any(value is other for other in self.variables.values())

    def write_back(self, value: Value) -> None:
        """After `x.part.y = v`: `x.part` has a new value, unless it lies in memory, and so has x."""
        for op in self.path(value) or ():
            owner, *index = op.operands
            code = ops.PY_SETITEM if index else ops.PY_SETATTR
            name = {} if index else {"name": op.attributes["name"]}
            self.build.effect(code, owner, *index, op.result, **name, **self.target(owner), back=True)

    # Blocks share no values, so `x[i]` in the middle of `x[i].y += v if c else w` would be a mere value. What such assignments
    # want to know where it was read travels as x and i, and is read anew in each block.

    def way(self, value: Value, place: tuple[int, int]) -> Way | None:
        """How a value was read, if an assignment wants to know it at this place in the stack."""
        path = self.path(value) if place in self.kept else None
        if path is None:
            return None
        root = path[-1].operands[0] if path else value
        name = next(name for name, other in self.variables.items() if other is root)
        return name, tuple((op.code, tuple(op.attributes.items())) for op in reversed(path))

    def parts(self, value: Value, way: Way | None) -> list[Value]:
        """What travels for a value in the stack: itself, or the variable and the indices that it is read with."""
        if way is None:
            return [value]
        path = self.path(value) or []
        indices = [index for op in reversed(path) for index in op.operands[1:]]
        return [self.variables[way[0]], *indices]

    def restore(self, way: Way | None, values: Iterator[Value], place: tuple[int, int]) -> Value:
        """The value in the stack that `parts` took apart."""
        value = next(values)
        if way is None:
            self.carried[value] = place
            return value
        name, steps = way
        value.hint = name.removeprefix(CELL)
        self.variables[name] = value
        for code, attributes in steps:
            operands = [value, next(values)] if code is ops.PY_GETITEM else [value]
            op = Op(code, operands, [Value()], dict(attributes), location=self.build.location)
            value = self.build.append(op).result
            self.made[value] = op
        return value

    def is_part(self, value: Value) -> bool:
        """Whether a value was read from an array or from another value, and no variable has it yet."""
        return value in self.made and not self.is_variable(value)

    def variable(self, name: str) -> Value:
        """The present value of a variable."""
        if name not in self.variables:
            self.variables[name] = self.build.op(ops.PY_UNDEFINED, None, name=name.removeprefix(CELL))
        return self.variables[name]

    def span(self, span: Span, block: Block) -> None:
        """Reads the instructions of a span into its block."""
        live = self.live(span.start)
        depth = len(block.params) - len(live)
        self.build = Builder(block, self.instructions[span.start].location)
        self.variables = dict(zip(live, block.params[depth:], strict=True))
        params = iter(block.params[:depth])
        ways = self.ways[span.start]
        self.stack = [self.restore(way, params, (span.start, i)) for i, way in enumerate(ways)]
        for self.index in range(span.start, span.stop):
            instruction = self.instructions[self.index]
            self.build.location = instruction.location
            self.instruction(instruction, span)
            here = self.build.block
            if here.ops and ops.Effect.TERMINATES in here.terminator.code.effects:
                return
        self.end(ops.JUMP, [], [self.edge(span.successors[0])])

    def instruction(self, instruction: Instruction, span: Span) -> None:
        """Reads one instruction."""
        if self.cells and instruction.opcode in READS_CELLS:
            names = tuple(sorted(self.cells))
            self.build.effect(ops.PY_CELLS, *(self.variable(f"{CELL}{name}") for name in names), names=names)
        if instruction.opcode in SIMPLE:
            code, taken, attribute = SIMPLE[instruction.opcode]
            operands = self.pop(taken)
            op = Op(code, operands, [Value()], location=instruction.location)
            if attribute:
                op.attributes[attribute] = instruction.argument
            by_name = code is ops.PY_GETATTR or (
                code is ops.PY_GETITEM and isinstance(self.constants.get(operands[1]), (str, int))
            )
            if by_name and self.is_part(operands[0]):
                op.attributes["part"] = True
            self.push(self.build.append(op).result)
            self.remember(op)
        elif instruction.opcode in SPECIAL:
            SPECIAL[instruction.opcode](self, instruction, span)
        else:
            what = instruction.argument if instruction.opcode is Opcode.UNSUPPORTED else describe(instruction)
            self.unsupported(str(what))

    def remember(self, op: Op) -> None:
        """Keeps in mind where an item or attribute came from."""
        if op.code is ops.PY_GLOBAL:
            self.globals.add(op.result)
        elif op.code in (ops.PY_GETITEM, ops.PY_GETATTR):
            if op.operands[0] in self.globals:
                self.globals.add(op.result)
            else:
                self.made[op.result] = op

    def pop(self, count: int) -> list[Value]:
        """Takes values off the stack; the last one was on top."""
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def push(self, *values: Value) -> None:
        """Puts values on the stack."""
        self.stack += values

    def end(self, code: ops.Opcode, operands: list[Value], successors: list[Edge]) -> None:
        """Ends the block."""
        self.build.append(Op(code, operands, [], {}, successors, self.build.location))

    def unsupported(self, what: str) -> None:
        """Ends the block; what follows in the span is never run."""
        self.build.effect(ops.PY_UNSUPPORTED, what=what)
        self.end(ops.UNREACHABLE, [], [])
