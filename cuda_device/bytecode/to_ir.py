"""Translates bytecode to IR of the python level by running the instructions on a symbolic stack.

A block takes the whole stack as parameters, and the variables that have more than one definition there (see `cfg`); the result is
in SSA form. This module neither infers types nor rejects code: a construct that device code does not support
becomes `py.unsupported`, which is an error only if inference reaches it.

    def f(n):                      ^1(%n):
        while n < 9:                 %1 = py.const {value=9}
            n = n + 1                %2 = py.compare {op="<"} %n %1
        return n                     %3 = py.truth %2
                                     branch %3 ^2(%n) ^3(%n)
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import lru_cache
from types import CodeType

from cuda_device import hooks
from cuda_device.bytecode.cfg import READS_CELLS, Span
from cuda_device.bytecode.constructs import HANDLERS
from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.reader import Reader, TooLittleKept
from cuda_device.bytecode.scopes import CELL, OF_KNOWN_LENGTH, is_of_comprehension, merge, scopes
from cuda_device.bytecode.suspension import OUTERMOST, STEP, STEP_UNROLLED, dispatch, yielding_loops
from cuda_device.device.parameters import parameter_names
from cuda_device.errors import CompileError, Location
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Builder, Function, Op, Value
from cuda_device.ir.ops import Level


def read(
    code: CodeType, reading: str = "", companions: bool = False, debug: bool = False, pass_all: bool = False
) -> Function:
    """The python-level IR of a function's code. The result is shared and must not be changed.

    `reading` is one of `suspension.STEPS` for the code of a generator, which becomes a function that computes the next value.
    With `companions`, the function checks uses of undefined variables; with `debug`, it records the values of variables.
    With `pass_all`, and if it is a step of a generator, blocks get all values through their parameters, and share none.
    """
    # Code objects compare equal if only their file and qualified name differ, which messages show.
    return _read(code, reading, companions, debug, pass_all, code.co_filename, code.co_qualname)


def _original(code: CodeType) -> CodeType:
    """The code without the changes of a tool that rewrites functions (`hooks.REWRITTEN`)."""
    module = _rewriter(code)
    plugin = hooks.installed(module) if module else None
    original: CodeType = plugin.original(code) if plugin else code
    return original


def _rewriter(code: CodeType) -> str | None:
    """The module of `hooks.REWRITTEN` for the tool that has rewritten a function, or one that is nested in it."""
    for name, module in hooks.REWRITTEN.items():
        if name in code.co_names:
            return module
    for nested in code.co_consts:
        if isinstance(nested, CodeType) and (inner := _rewriter(nested)):
            return inner
    return None


def slots(code: CodeType) -> tuple[str, ...]:
    """The names of the values that a generator keeps: its parameters and those of `suspension.slots`."""
    _, *kept = read(code, STEP).blocks[0].params
    return tuple(str(param.hint) for param in kept)


@lru_cache(maxsize=256)
def _read(
    code: CodeType, reading: str, companions: bool, debug: bool, pass_all: bool, _file: str, _name: str
) -> Function:
    code = _original(code)
    _refuse(code, reading)
    code_scopes = scopes(code, merge(decode(code)))
    kept: frozenset[tuple[int, int]] = frozenset()
    while True:
        reader = Reader(code, code_scopes, reading, kept, debug, pass_all)
        if reading == STEP_UNROLLED:
            reader.unrolled |= set(yielding_loops(reader.instructions, reader.spans))
        with suppress(TooLittleKept):
            function = _function(reader)
            if reader.needed <= kept:
                if companions:
                    add_companions(function)
                return function
        kept |= reader.needed


def _refuse(code: CodeType, reading: str) -> None:
    location = Location(code.co_filename, code.co_firstlineno, function=code.co_qualname)
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise CompileError("device code cannot be a coroutine", location, "remove the word async")
    if code.co_flags & inspect.CO_GENERATOR and not reading:
        raise CompileError(
            f"{code.co_qualname} is a generator, which cannot be compiled on its own",
            location,
            "call it in a for loop of a kernel or function",
        )


def _function(reader: Reader) -> Function:
    names = parameter_names(reader.code)
    first = Block([Value(hint=name) for name in names])
    _begin(reader, first, names)
    for start, span in reader.spans.items():
        block = reader.blocks.get(start)
        if block is None:
            continue
        reader.inside = span.inside
        if block is not first:
            _begin_span(reader, span, block)
        _instructions(reader, span)
    place = Location(reader.code.co_filename, reader.code.co_firstlineno, function=reader.code.co_qualname)
    blocks = [reader.blocks[start] for start in reader.spans if start in reader.blocks]
    if reader.reading:
        blocks = [*dispatch(reader, first), *blocks]
    elif blocks[0] is not first:
        blocks.insert(0, first)
    return Function(reader.code.co_name, blocks, Level.PYTHON, shown=reader.code.co_qualname, location=place)


def _begin(reader: Reader, block: Block, names: tuple[str, ...]) -> None:
    """Fills the entry block, which has the parameters. It continues with the first span, or jumps to it if others do, too."""
    reader.build = Builder(block, reader.instructions[0].location)
    for name, value in zip(names, block.params, strict=True):
        reader.assign(name, value)
        if name in reader.cells:
            reader.assign(f"{CELL}{name}", value)
        if reader.debug:
            reader.build.effect(ops.VARIABLE, value, name=name)
    for name in sorted(reader.boxed):
        if not is_of_comprehension(name):
            reader.begin_cell(name)
    if OUTERMOST in reader.unrolled or reader.code.co_name in OF_KNOWN_LENGTH:
        reader.unroll_outermost()
    if reader.reading or any(0 in span.successors for span in reader.spans.values()):
        reader.build.block.ops.append(Op(ops.JUMP, successors=[reader.edge(0)], location=reader.build.location))
    else:
        reader.blocks[0] = block


def _begin_span(reader: Reader, span: Span, block: Block) -> None:
    """Takes variables and the stack from the parameters of a span's block, which becomes the current one."""
    names = reader.params(span.start)
    depth = len(block.params) - len(names)
    reader.build, reader.ended = Builder(block, reader.instructions[span.start].location), False
    for name, value in zip(names, block.params[depth:], strict=True):
        reader.assign(name, value)
    params = iter(block.params[:depth])
    paths = reader.paths[span.start]
    reader.stack = [reader.restore(path, params, (span.start, i)) for i, path in enumerate(paths)]


def _instructions(reader: Reader, span: Span) -> None:
    """Reads the instructions of a span into the current block."""
    for reader.index in range(span.start, span.stop):
        instruction = reader.instructions[reader.index]
        reader.build.location = instruction.location
        if reader.cells and instruction.opcode in READS_CELLS:
            cells = tuple(sorted(reader.cells))
            reader.build.effect(ops.PY_CELLS, *(reader.variable(f"{CELL}{name}") for name in cells), names=cells)
        HANDLERS[instruction.opcode](reader, instruction, span)
        if reader.ended:
            return
    reader.end(ops.JUMP, [], [reader.edge(span.successors[0])])


# Companions, for checked mode: bools that say whether a variable that some edges leave undefined has a value.
#
# Where control flow joins, the companion is an additional parameter of the block, true or false on each edge; inference folds
# companions that are the same on all edges. A check precedes the first use in each block:
#
#     ^3(%v):                                ^3(%v, %6):
#       %5 = py.binary {op="+"} %v %v   →      py.defined {name="v"} %6
#                                              %5 = py.binary {op="+"} %v %v


# Operations that accept a variable without a value.
_NO_USE = (ops.PY_CELLS, ops.PY_STEP, ops.PY_AT, ops.PY_BOX, ops.PY_SET_BOX, ops.PY_SET_CELL)


def add_companions(function: Function) -> None:
    """Gives a function companions and checks, in place."""
    names = _open_parameters(function)
    undefined = {op.result for op in function.ops() if op.code is ops.PY_UNDEFINED}
    companions = {param: Value() for block in function.blocks for param in block.params if param in names}
    for block in function.blocks:
        changed: list[Op] = []
        asked: set[Value] = set()
        for op in block.ops:
            for operand in op.operands if op.code not in _NO_USE else ():
                if operand in names and operand not in asked:
                    asked.add(operand)
                    name = {"name": names[operand]}
                    changed.append(Op(ops.PY_DEFINED, [companions[operand]], [], name, [], op.location))
            for edge in op.successors:
                for argument in [
                    a for a, param in zip(edge.arguments, edge.block.params, strict=False) if param in names
                ]:
                    companion = companions.get(argument)
                    if companion is None:
                        companion, known = Value(), argument not in undefined
                        changed.append(Op(ops.PY_CONST, [], [companion], {"value": known}, [], op.location))
                    edge.arguments.append(companion)
            changed.append(op)
        block.ops = changed
    for block in function.blocks:
        block.params += [companions[param] for param in block.params if param in names]


def _open_parameters(function: Function) -> dict[Value, str]:
    """The parameters of blocks that are undefined on some edge, with the names of their variables."""
    names = {op.result: op.attributes["name"] for op in function.ops() if op.code is ops.PY_UNDEFINED}
    opened: dict[Value, str] = {}
    changed = bool(names)
    while changed:
        changed = False
        for block in function.blocks:
            for edge in block.successors:
                for argument, param in zip(edge.arguments, edge.block.params, strict=True):
                    name = names.get(argument)
                    if name is not None and param not in names:
                        opened[param] = names[param] = name
                        changed = True
    return opened
