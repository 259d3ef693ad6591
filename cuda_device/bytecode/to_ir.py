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

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType

from cuda_device.bytecode.cfg import Span, spans
from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import Instruction, Opcode
from cuda_device.device.expressions import parameter_names
from cuda_device.errors import CompileError, CompilerBug, Location
from cuda_device.ir import ops
from cuda_device.ir.builder import Builder
from cuda_device.ir.model import Block, Edge, Function, Op, Value
from cuda_device.ir.ops import Level

_VARARGS, _VARKEYWORDS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200


def read(code: CodeType) -> Function:
    """The python-level IR of a function's code. The result is shared: nobody may change it."""
    # Code objects are equal without regard to their file and qualified name, which messages show.
    return _read(code, code.co_filename, code.co_qualname)


@lru_cache(maxsize=4096)
def _read(code: CodeType, _file: str, _name: str) -> Function:
    _refuse(code)
    instructions = decode(code)
    return _Reader(code, instructions).function()


def _refuse(code: CodeType) -> None:
    place = Location(code.co_filename, code.co_firstlineno, function=code.co_qualname)
    if code.co_flags & (_GENERATOR | _COROUTINE | _ASYNC_GENERATOR):
        raise CompileError("device code cannot be a generator or a coroutine", place, "return the values in a tuple")
    if code.co_flags & (_VARARGS | _VARKEYWORDS):
        raise CompileError("device code cannot take *args or **kwargs", place, "name each parameter")


class _Reader:
    """Reads one function. `stack` and `variables` describe the span at hand."""

    def __init__(self, code: CodeType, instructions: Sequence[Instruction]) -> None:
        self.code = code
        self.instructions = instructions
        self.spans = spans(instructions)
        self.blocks: dict[int, Block] = {}
        self.depths: dict[int, int] = {}
        self.stack: list[Value] = []
        self.variables: dict[str, Value] = {}
        self.build = Builder(Block())

    def function(self) -> Function:
        entry = self.entry()
        for start, span in self.spans.items():
            if start in self.blocks:
                self.span(span, self.blocks[start])
        place = Location(self.code.co_filename, self.code.co_firstlineno, function=self.code.co_qualname)
        blocks = [entry, *(self.blocks[start] for start in self.spans if start in self.blocks)]
        return Function(self.code.co_name, blocks, Level.PYTHON, shown=self.code.co_qualname, location=place)

    def entry(self) -> Block:
        names = parameter_names(self.code)
        entry = Block([Value(hint=name) for name in names])
        self.build = Builder(entry, self.instructions[0].location)
        self.variables = dict(zip(names, entry.params, strict=True))
        self.build.block.ops.append(Op(ops.JUMP, successors=[self.edge(0)], location=self.build.location))
        return entry

    def edge(self, start: int) -> Edge:
        """A way to the span at `start` with the present stack and variables; makes its block at the first visit."""
        live = self.live(start)
        if start not in self.blocks:
            params = [Value() for _ in self.stack] + [Value(hint=name) for name in live]
            self.blocks[start], self.depths[start] = Block(params), len(self.stack)
        if self.depths[start] != len(self.stack):
            raise CompilerBug(f"{self.code.co_qualname}: the stack is uneven at instruction {start}")
        return Edge(self.blocks[start], self.stack + [self.variable(name) for name in live])

    def live(self, start: int) -> list[str]:
        span = self.spans[start]
        known = [name for name in self.code.co_varnames if name in span.live]
        return known + sorted(span.live.difference(known))

    def variable(self, name: str) -> Value:
        if name not in self.variables:
            self.variables[name] = self.build.op(ops.PY_UNDEFINED, None, name=name)
        return self.variables[name]

    def span(self, span: Span, block: Block) -> None:
        depth = self.depths[span.start]
        self.build = Builder(block)
        self.stack = list(block.params[:depth])
        self.variables = dict(zip(self.live(span.start), block.params[depth:], strict=True))
        for instruction in self.instructions[span.start : span.stop]:
            self.build.location = instruction.location
            self.instruction(instruction, span)
            if block.ops and ops.Effect.TERMINATES in block.terminator.code.effects:
                return
        self.end(ops.JUMP, [], [self.edge(span.successors[0])])

    def instruction(self, instruction: Instruction, span: Span) -> None:
        if instruction.opcode in _SIMPLE:
            code, taken, attribute = _SIMPLE[instruction.opcode]
            operands = self.pop(taken)
            op = Op(code, operands, [Value()], location=instruction.location)
            if attribute:
                op.attributes[attribute] = instruction.argument
            self.push(self.build.append(op).result)
        elif instruction.opcode in _SPECIAL:
            _SPECIAL[instruction.opcode](self, instruction, span)
        else:
            what = instruction.argument if instruction.opcode is Opcode.UNSUPPORTED else _describe(instruction)
            self.unsupported(str(what))

    def pop(self, count: int) -> list[Value]:
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def push(self, *values: Value) -> None:
        self.stack += values

    def end(self, code: ops.Opcode, operands: list[Value], successors: list[Edge]) -> None:
        self.build.append(Op(code, operands, [], {}, successors, self.build.location))

    def unsupported(self, what: str) -> None:
        """Ends the block; what follows in the span is never run."""
        self.build.effect(ops.PY_UNSUPPORTED, what=what)
        self.end(ops.UNREACHABLE, [], [])

    # What needs more than a row: each takes the instruction and its span.

    def load(self, instruction: Instruction, _: Span) -> None:
        self.push(self.variable(str(instruction.argument)))

    def store(self, instruction: Instruction, _: Span) -> None:
        self.variables[str(instruction.argument)] = self.stack.pop()

    def delete(self, instruction: Instruction, _: Span) -> None:
        self.variables.pop(str(instruction.argument), None)

    def load_and_clear(self, instruction: Instruction, span: Span) -> None:
        self.load(instruction, span)
        self.delete(instruction, span)

    def discard(self, _: Instruction, __: Span) -> None:
        self.stack.pop()

    def copy(self, instruction: Instruction, _: Span) -> None:
        self.push(self.stack[-_count(instruction)])

    def swap(self, instruction: Instruction, _: Span) -> None:
        depth = _count(instruction)
        self.stack[-1], self.stack[-depth] = self.stack[-depth], self.stack[-1]

    def binary(self, instruction: Instruction, _: Span) -> None:
        operator = str(instruction.argument).removesuffix("=")
        self.push(self.build.op(ops.PY_BINARY, None, *self.pop(2), op=operator))

    def build_display(self, instruction: Instruction, _: Span) -> None:
        kind, count = _pair(instruction)
        if kind != "tuple":
            self.unsupported({"map": "a dict", "string": "an f-string"}.get(str(kind), f"a {kind}"))
            return
        self.push(self.build.op(ops.PY_TUPLE, None, *self.pop(int(str(count)))))

    def unpack(self, instruction: Instruction, _: Span) -> None:
        results = [Value() for _ in range(_count(instruction))]
        self.build.append(Op(ops.PY_UNPACK, self.pop(1), results, location=self.build.location))
        self.push(*reversed(results))

    def store_item(self, _: Instruction, __: Span) -> None:
        value, container, index = self.pop(3)
        self.build.effect(ops.PY_SETITEM, container, index, value)

    def call(self, instruction: Instruction, _: Span) -> None:
        operands = self.pop(_count(instruction) + 1)
        self.push(self.build.op(ops.PY_CALL, None, *operands))

    def call_keywords(self, instruction: Instruction, _: Span) -> None:
        count, names = _pair(instruction)
        self.push(self.build.op(ops.PY_CALL, None, *self.pop(int(str(count)) + 1), names=names))

    def for_iter(self, _: Instruction, span: Span) -> None:
        results = [Value(), Value(), Value()]
        self.build.append(Op(ops.PY_NEXT, self.pop(1), results, location=self.build.location))
        more, item, iterator = results
        exit_ = self.edge(span.successors[1])
        self.push(iterator, item)
        self.end(ops.BRANCH, [more], [self.edge(span.successors[0]), exit_])

    def jump(self, _: Instruction, span: Span) -> None:
        self.end(ops.JUMP, [], [self.edge(span.successors[0])])

    def jump_if(self, instruction: Instruction, span: Span) -> None:
        condition = self.build.op(ops.PY_TRUTH, None, *self.pop(1))
        falls, jumps = (self.edge(start) for start in span.successors)
        ways = [jumps, falls] if instruction.opcode is Opcode.JUMP_IF_TRUE else [falls, jumps]
        self.end(ops.BRANCH, [condition], ways)

    def return_(self, _: Instruction, __: Span) -> None:
        self.end(ops.RETURN, self.pop(1), [])


def _count(instruction: Instruction) -> int:
    assert isinstance(instruction.argument, int)
    return instruction.argument


def _pair(instruction: Instruction) -> tuple[object, object]:
    assert isinstance(instruction.argument, tuple)
    first, second = instruction.argument
    return first, second


def _describe(instruction: Instruction) -> str:
    return _DESCRIPTIONS.get(instruction.opcode, f"the bytecode instruction {instruction.opcode.name}")


# Instructions that are one operation: its row, how many operands it pops, the attribute that takes the argument.
_SIMPLE: dict[Opcode, tuple[ops.Opcode, int, str]] = {
    Opcode.CONST: (ops.PY_CONST, 0, "value"),
    Opcode.GLOBAL: (ops.PY_GLOBAL, 0, "name"),
    Opcode.LOAD_CELL: (ops.PY_CELL, 0, "name"),
    Opcode.UNARY: (ops.PY_UNARY, 1, "op"),
    Opcode.COMPARE: (ops.PY_COMPARE, 2, "op"),
    Opcode.IS: (ops.PY_IS, 2, "inverted"),
    Opcode.SUBSCR: (ops.PY_GETITEM, 2, ""),
    Opcode.ATTR: (ops.PY_GETATTR, 1, "name"),
    Opcode.ITER: (ops.PY_ITER, 1, ""),
}

_SPECIAL: dict[Opcode, Callable[[_Reader, Instruction, Span], None]] = {
    Opcode.LOAD: _Reader.load,
    Opcode.STORE: _Reader.store,
    Opcode.DELETE: _Reader.delete,
    Opcode.LOAD_AND_CLEAR: _Reader.load_and_clear,
    Opcode.POP: _Reader.discard,
    Opcode.COPY: _Reader.copy,
    Opcode.SWAP: _Reader.swap,
    Opcode.BINARY: _Reader.binary,
    Opcode.BUILD: _Reader.build_display,
    Opcode.UNPACK: _Reader.unpack,
    Opcode.STORE_SUBSCR: _Reader.store_item,
    Opcode.CALL: _Reader.call,
    Opcode.CALL_KW: _Reader.call_keywords,
    Opcode.FOR_ITER: _Reader.for_iter,
    Opcode.JUMP: _Reader.jump,
    Opcode.JUMP_IF_TRUE: _Reader.jump_if,
    Opcode.JUMP_IF_FALSE: _Reader.jump_if,
    Opcode.RETURN: _Reader.return_,
}

_DESCRIPTIONS = {
    Opcode.BUILD_KEYED: "a dict",
    Opcode.LIST_APPEND: "a comprehension",
    Opcode.SET_ADD: "a comprehension",
    Opcode.MAP_ADD: "a comprehension",
    Opcode.LIST_EXTEND: "a list",
    Opcode.SET_UPDATE: "a set",
    Opcode.MAP_UPDATE: "a dict",
    Opcode.MAP_MERGE: "a call with *args or **kwargs",
    Opcode.GET_LEN: "a sequence pattern of match",
    Opcode.MATCH_SEQUENCE: "a sequence pattern of match",
    Opcode.MATCH_MAPPING: "a mapping pattern of match",
    Opcode.MATCH_KEYS: "a mapping pattern of match",
    Opcode.MATCH_CLASS: "a class pattern of match",
    Opcode.CLOSURE: "a nested function or lambda",
    Opcode.DELETE_ATTR: "del of an attribute",
    Opcode.DELETE_CELL: "a variable that a nested function captures",
    Opcode.BUILD_SLICE: "a slice",
    Opcode.RAISE: "raise",
    Opcode.ASSERT_FAIL: "assert",
    Opcode.MAKE_FUNCTION: "a nested function or lambda",
    Opcode.CONTAINS: "in",
    Opcode.CALL_EX: "a call with *args or **kwargs",
    Opcode.STORE_ATTR: "an assignment to an attribute",
    Opcode.STORE_CELL: "a variable that a nested function captures",
    Opcode.DELETE_SUBSCR: "del of an item",
    Opcode.UNPACK_EX: "unpacking with a star",
    Opcode.FORMAT: "an f-string",
}
