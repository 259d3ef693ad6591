"""The state while a function's instructions are translated: the symbolic stack and the variables.

`to_ir` runs the instructions on it, one handler of `constructs` for each. For `total[k] += x` the stack is

    LOAD total                    [%total]
    LOAD k                        [%total, %k]
    COPY, COPY, SUBSCR            [%total, %k, %1]       `made` has that %1 is an item of %total
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator
from types import CodeType
from typing import Any

from cuda_device.bytecode.cfg import ENTRY, spans
from cuda_device.bytecode.scopes import CELL, ITERATOR, Scopes, is_of_comprehension
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Builder, Edge, Op, Value
from cuda_device.lazy_dataclasses import dataclass

_EVERYWHERE = range(ENTRY, sys.maxsize)
"""The positions that the entry block dominates."""

AccessPath = tuple[str, tuple[tuple[ops.OpDef, tuple[tuple[str, object], ...]], ...]]
"""How a value was read: from a variable, by these operations with these attributes."""


class TooLittleKept(Exception):
    """The function must be read again with the access paths that assignments need."""


def mark(position: int) -> str:
    """The name of the compile-time flag that the generator may be at a position."""
    return f".at{position}"


@dataclass(frozen=True, slots=True)
class Stop:
    """A `yield`: the block that it ends, the instruction that follows, the depth of the stack, and the variables to keep."""

    block: Block
    target: int
    depth: int
    variables: tuple[str, ...]

    def slots(self, position: int) -> tuple[str, ...]:
        """The names of the values that the generator keeps there."""
        names = (*(f".stack{i}" for i in range(self.depth)), *self.variables)
        return mark(position), *(f"{name}@{position}" for name in names)


class Reader:
    """Reads one function. `stack` is that of the current span."""

    def __init__(
        self,
        code: CodeType,
        scopes: Scopes,
        reading: str,
        kept: frozenset[tuple[int, int]],
        debug: bool = False,
        pass_all: bool = False,
    ) -> None:
        self.code, self.reading, self.debug = code, reading, debug
        self.kept, self.needed = kept, set[tuple[int, int]]()
        """The slots of the stack where an assignment needs the access path of a value: those that have it, and all."""
        self.instructions, self.cells, self.unrolled = scopes.instructions, scopes.cells, scopes.unrolled
        self.boxed = scopes.boxed
        self.spans = spans(self.instructions, self.cells, pass_all or bool(reading or kept))
        self.stops: list[Stop] = []
        """The `yield`s of a generator that is read as steps, and the blocks in which it ends."""
        self.ends: list[Block] = []
        self.order = {name: number for number, name in enumerate(code.co_varnames)}
        self.index = 0
        self.constants: dict[Value, Any] = {}
        """The values of constants, and the names of the cells that CLOSURE pushed."""
        self.reads: dict[Value, Op] = {}
        """The operations that read items and attributes, except those of globals."""
        self.carried: dict[Value, tuple[int, int]] = {}
        """For a block parameter that was in the stack: the start of the span, and the slot of the stack."""
        self.globals: set[Value] = set()
        """The values of globals, and their attributes and items."""
        self.blocks: dict[int, Block] = {}
        self.paths: dict[int, list[AccessPath | None]] = {}
        """By span: the access paths of the values in the stack at its start, if they are known."""
        self.stack: list[Value] = []
        self.definitions: dict[str, list[tuple[int, range, Value | None]]] = {}
        """The last value of each variable in the spans that define it; None if it is deleted there.

        They are sorted by the span's position in the dominator tree, which is followed by the positions that it dominates.
        """
        self.inside = _EVERYWHERE
        """The positions in the dominator tree of the current span and those that it dominates."""
        self.names: dict[Value, list[str]] = {}
        """The variables to which each value was assigned."""
        self.build = Builder(Block())
        self.ended = False
        """Whether the current block has its terminator."""

    def begin_cell(self, name: str) -> None:
        """Creates the box of a cell variable, which is a parameter or has no value yet."""
        if name not in self.boxed:
            return
        if is_of_comprehension(name):
            self.assign(f"{CELL}{name}", None)
        content = self.variable(f"{CELL}{name}")
        self.assign(f"{CELL}{name}", self.build.op(ops.PY_BOX, None, content, name=name))

    def unroll_outermost(self) -> None:
        """Unrolls the loop over the outermost iterator of a comprehension or generator expression."""
        self.assign(ITERATOR, self.build.op(ops.PY_ITER, None, self.variable(ITERATOR), unroll=True))

    def edge(self, start: int) -> Edge:
        """An edge to the span at `start` with the current stack and variables. The first edge creates the block."""
        names = self.params(start)
        paths = [self.access_path(value, (start, i)) for i, value in enumerate(self.stack)]
        stack = [item for value, path in zip(self.stack, paths, strict=True) for item in self.parts(value, path)]
        if start not in self.blocks:
            params = [Value() for _ in stack] + [Value(hint=name.removeprefix(CELL)) for name in names]
            self.blocks[start], self.paths[start] = Block(params), paths
        if len(self.paths[start]) != len(paths):
            raise CompilerBug(f"{self.code.co_qualname}: the stack is uneven at instruction {start}")
        if self.paths[start] != paths:
            if not self.needed <= self.kept:
                raise TooLittleKept
            help = "assign the value to a variable first, and then assign that variable"
            raise CompileError("the value of the assignment changes its target", self.build.location, help)
        return Edge(self.blocks[start], stack + [self.variable(name) for name in names])

    def params(self, start: int) -> list[str]:
        """The variables that are parameters of a span, in their order."""
        order = self.order
        return sorted(self.spans[start].params, key=lambda name: (order.get(name, len(order)), name))

    def target(self, path: list[Op] | None) -> dict[str, object]:
        """The attribute that says what an assignment to a part of the value at `path` changes; none for a variable."""
        return {} if path == [] else {"target": "value" if path is None else "part"}

    def path(self, value: Value) -> list[Op] | None:
        """The operations that read `value` from a variable, the last one first; None if it comes from no variable."""
        path = []
        while not self.is_variable(value):
            reading = self.reads.get(value)
            if reading is None:
                if value in self.carried:  # the edges to this block must pass its access path
                    self.needed.add(self.carried[value])
                return None
            path.append(reading)
            value = reading.operands[0]
        return path

    def target_path(self, value: Value) -> list[Op] | None:
        """The `path` of what an assignment changes. The stack keeps the old value of the variable, as in `v.x, w = 1, v`."""
        path = self.path(value)
        root = path[-1].operands[0] if path else value
        if path is not None and root in self.stack:
            copy = self.build.op(ops.PY_COPY, None, root)
            self.stack = [copy if entry is root else entry for entry in self.stack]
        return path

    def is_variable(self, value: Value) -> bool:
        """Whether this is the current value of a variable."""
        return any(self.current(name) is value for name in self.names.get(value, ()))

    def store(self, code: ops.OpDef, owner: Value, *operands: Value, **attributes: Any) -> None:
        """Assigns to an item or attribute of `owner`.

        After `x.part.y = v`, assigns the new value of `x.part` to x. Inference drops that if `x.part` is in memory.
        """
        path = self.target_path(owner)
        self.build.effect(code, owner, *operands, **attributes, **self.target(path))
        for op in path or ():
            owner, *index = op.operands
            code = ops.PY_SETITEM if index else ops.PY_SETATTR
            name = {} if index else {"name": op.attributes["name"]}
            self.build.effect(code, owner, *index, op.result, **name, **self.target(self.path(owner)), back=True)

    # Blocks get the stack through parameters, so `x[i]` in the middle of `x[i].y += v if c else w` would lose its access path.
    # The edges for such assignments therefore pass x and i, and each block reads `x[i]` again.

    def access_path(self, value: Value, slot: tuple[int, int]) -> AccessPath | None:
        """The access path of a value, if an assignment needs it in this slot of the stack."""
        path = self.path(value) if slot in self.kept else None
        if path is None:
            return None
        root = path[-1].operands[0] if path else value
        name = next(name for name in self.names[root] if self.current(name) is root)
        return name, tuple((op.code, tuple(op.attributes.items())) for op in reversed(path))

    def parts(self, value: Value, access: AccessPath | None) -> list[Value]:
        """The arguments for a value in the stack: itself, or the variable and the indices of its access path."""
        if access is None:
            return [value]
        path = self.path(value) or []
        indices = [index for op in reversed(path) for index in op.operands[1:]]
        return [self.variable(access[0]), *indices]

    def restore(self, access: AccessPath | None, values: Iterator[Value], slot: tuple[int, int]) -> Value:
        """The value in the stack for which an edge passed `parts`."""
        value = next(values)
        if access is None:
            self.carried[value] = slot
            return value
        name, steps = access
        value.hint = name.removeprefix(CELL)
        self.assign(name, value)
        for code, attributes in steps:
            operands = [value, next(values)] if code is ops.PY_GETITEM else [value]
            op = Op(code, operands, [Value()], dict(attributes), location=self.build.location)
            value = self.build.append(op).result
            self.reads[value] = op
        return value

    def is_part(self, value: Value) -> bool:
        """Whether a value was read from an array or from another value, and no variable has it yet."""
        return value in self.reads and not self.is_variable(value)

    def assign(self, name: str, value: Value | None) -> None:
        """Sets the current value of a variable; None deletes it."""
        definitions, inside = self.definitions.setdefault(name, []), self.inside
        index = bisect_left(definitions, (inside.start,))
        is_defined = index < len(definitions) and definitions[index][0] == inside.start
        definitions[index : index + is_defined] = [(inside.start, inside, value)]
        if value is not None:
            self.names.setdefault(value, []).append(name)

    def current(self, name: str) -> Value | None:
        """The current value of a variable, from this span or the nearest one above that defines it; None if it has none."""
        definitions, position = self.definitions.get(name, []), self.inside.start
        for index in reversed(range(bisect_left(definitions, (position + 1,)))):
            _, inside, value = definitions[index]
            if position in inside:
                return value
        return None

    def variable(self, name: str) -> Value:
        """The current value of a variable."""
        value = self.current(name)
        if value is None:
            value = self.build.op(ops.PY_UNDEFINED, None, name=name.removeprefix(CELL))
            self.assign(name, value)
        return value

    def read_part(self, code: ops.OpDef, owner: Value, *index: Value, **attributes: Any) -> None:
        """Pushes an item or attribute, and records where it comes from."""
        value = self.build.op(code, None, owner, *index, **attributes)
        self.stack.append(value)
        if owner in self.globals:
            self.globals.add(value)
        else:
            self.reads[value] = self.build.block.ops[-1]

    def pop(self, count: int) -> list[Value]:
        """Pops values off the stack; the last one was on top."""
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def end(self, code: ops.OpDef, operands: list[Value], successors: list[Edge]) -> None:
        """Ends the block."""
        self.ended = True
        self.build.append(Op(code, operands, [], {}, successors, self.build.location))

    def unsupported(self, construct: str) -> None:
        """Ends the block; the rest of the span is unreachable."""
        self.build.effect(ops.PY_UNSUPPORTED, what=construct)
        self.end(ops.UNREACHABLE, [], [])
