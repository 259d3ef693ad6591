"""Verifies the IR between passes. A violation raises a `CompilerBug` that shows the function.

1. Structure: a function has blocks; a block ends with a terminator and has no other; each operation has the operands,
   results, attributes and successors of its row.
2. Level: every operation is legal at the function's level; values have types, except at the python level, where they have none.
3. Single assignment: a value is defined once.
4. Dominance: a value is defined on every path to its use; at the python level, in the same block.
5. Edges: a jump passes as many arguments as the block has parameters, of the same types; none leads to the entry block.
6. Types (device level): the operands of arithmetic have one type, comparisons return bools, memory is accessed by references.
7. Calls: the callee exists, and its parameters and result have the types of the call; `return` has the type of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cuda_device.errors import CompilerBug
from cuda_device.ir import ops
from cuda_device.ir.dominance import Definitions, dominates, dominators
from cuda_device.ir.nodes import Block, Function, Module, Op, Value
from cuda_device.ir.ops import Effect, Level
from cuda_device.ir.text import show
from cuda_device.types.layout import size_of
from cuda_device.types.model import (
    BOOL,
    FLOAT64,
    INT32,
    INT64,
    NONE,
    UINT32,
    UINT64,
    AtomicCell,
    Number,
    Ref,
    Tuple,
    Type,
    Vector,
)

Complaint = tuple[Op | None, str]


def verify(module: Module) -> None:
    """Checks every function of a module. Raises `CompilerBug` with all violations in the first bad one."""
    for function in module.functions:
        complaints = list(violations_in(function, module))
        if complaints:
            raise CompilerBug(_report(function, complaints))


def violations_in(function: Function, module: Module | None = None) -> Iterator[Complaint]:
    """All violations in a function; calls are checked against `module` if it is given."""
    structure = list(_structure(function))
    yield from structure
    if structure:  # the other rules need a sound structure
        return
    edges = list(_edges(function))
    yield from (*edges, *_level(function), *_single_assignment(function))
    if not edges:  # dominance needs sound edges
        yield from _dominance(function)
    if function.level is Level.DEVICE:
        yield from _types(function)
    if function.level is not Level.PYTHON:
        yield from _calls(function, module)


def _report(function: Function, complaints: list[Complaint]) -> str:
    """The text of the function, with each complaint below its operation or below the head."""
    culprits = iter([None, *(op for block in function.blocks for op in (block, *block.ops))])
    shown = []
    for line, culprit in zip(show(function).splitlines(), culprits, strict=False):
        shown += [line, *(f"  ^^^ {text}" for op, text in complaints if op is culprit)]
    return f"the IR of {function.name} is wrong\n" + "\n".join([*shown, "}"])


def _structure(function: Function) -> Iterator[Complaint]:
    if not function.blocks:
        yield None, "the function has no blocks"
    for block in function.blocks:
        if not block.ops or Effect.TERMINATES not in block.ops[-1].code.effects:
            yield (block.ops[-1] if block.ops else None), "the block does not end with a terminator"
        for op in block.ops[:-1]:
            if Effect.TERMINATES in op.code.effects:
                yield op, "a terminator within the block"
        for op in block.ops:
            yield from _row(op)


def _row(op: Op) -> Iterator[Complaint]:
    row = op.code
    if row.operands not in (ops.MANY, len(op.operands)):
        yield op, f"{row.name} has {row.operands} operands, not {len(op.operands)}"
    if row.results not in (ops.MANY, len(op.results)):
        yield op, f"{row.name} has {row.results} results, not {len(op.results)}"
    if row.successors != len(op.successors):
        yield op, f"{row.name} has {row.successors} successors, not {len(op.successors)}"
    for name in op.attributes:
        if name not in row.attributes + row.optional:
            yield op, f"{row.name} has no attribute {name!r}"
    for name in row.attributes:
        if name not in op.attributes:
            yield op, f"{row.name} lacks the attribute {name!r}"


def _level(function: Function) -> Iterator[Complaint]:
    typed = function.level is not Level.PYTHON
    for block in function.blocks:
        for op in block.ops:
            if function.level not in op.code.levels:
                yield op, f"{op.code.name} is not legal at this level"
        for value in (*block.params, *(result for op in block.ops for result in op.results)):
            if (value.type is not None) != typed:
                yield None, "a value without a type" if typed else "a value with a type"


def _single_assignment(function: Function) -> Iterator[Complaint]:
    seen: set[Value] = set()
    for block in function.blocks:
        definitions = [(None, value) for value in block.params]
        definitions += [(op, value) for op in block.ops for value in op.results]  # type: ignore[misc]
        for op, value in definitions:
            if value in seen:
                yield op, "a value is defined twice"
            seen.add(value)


def _dominance(function: Function) -> Iterator[Complaint]:
    """A value is defined before its use in the block, or in a dominating block."""
    homes = Definitions(function).homes
    entry, above = function.blocks[0], dominators(function.blocks[0])

    def is_defined(value: Value, block: Block) -> bool:
        home = homes.get(value)
        if home is None or (block is not entry and block not in above):
            return home is not None
        return home is not block and dominates(home, block, above)

    for block in function.blocks:
        known = set(block.params)
        for op in block.ops:
            used = [*op.operands, *(value for edge in op.successors for value in edge.arguments)]
            if any(value not in known and not is_defined(value, block) for value in used):
                yield op, "a value is used before it is defined"
            known.update(op.results)


def _edges(function: Function) -> Iterator[Complaint]:
    blocks = set(function.blocks)
    for op in function.ops():
        for edge in op.successors:
            if edge.block not in blocks:
                yield op, "a jump out of the function"
            elif edge.block is function.blocks[0]:
                yield op, "a jump to the entry block"
            elif len(edge.arguments) != len(edge.block.params):
                yield op, f"{len(edge.arguments)} arguments for {len(edge.block.params)} parameters"
            else:
                for argument, param in zip(edge.arguments, edge.block.params, strict=True):
                    if argument.type != param.type:
                        yield op, f"an argument of {argument.type} for a parameter of {param.type}"
        if op.code is ops.BRANCH and function.level is not Level.PYTHON and op.operands[0].type != BOOL:
            yield op, f"a branch on {op.operands[0].type}"


# The result types of a function without a result, and of a call of it.
_NOTHING = {NONE, Tuple(())}


def _types(function: Function) -> Iterator[Complaint]:
    for op in function.ops():
        rule = _TYPE_RULES.get(op.code)
        if rule is not None and not rule(op):
            kinds = ", ".join(str(value.type) for value in op.operands)
            yield op, f"{op.code.name} cannot take ({kinds}) to {', '.join(str(r.type) for r in op.results)}"


def _arithmetic(allows: Callable[[Number], bool]) -> Callable[[Op], bool]:
    """The operands have the type of the result, which is a number of this kind."""
    return lambda op: (
        isinstance(op.result.type, Number)
        and allows(op.result.type)
        and all(operand.type == op.result.type for operand in op.operands)
    )


def _are_numbers(*values: Value) -> bool:
    return all(isinstance(value.type, Number) for value in values)


def _points_to(reference: Value, value: Value) -> bool:
    return isinstance(reference.type, Ref) and reference.type.pointee == value.type


def _is_step(op: Op) -> bool:
    reference, distance = (operand.type for operand in op.operands)
    return (
        isinstance(reference, Ref)
        and isinstance(distance, Number)
        and distance.is_integer
        and reference == op.result.type
    )


def _is_distance(op: Op) -> bool:
    start, distance = (operand.type for operand in op.operands)
    end = op.result.type
    integral = isinstance(distance, Number) and distance.is_integer
    return integral and isinstance(start, Ref) and isinstance(end, Ref) and start.space is end.space


def _is_print(op: Op) -> bool:
    """The operands are 64-bit numbers, and bools and integers that select one of two or of several texts."""
    choices = op.attributes["choices"]
    return len(choices) == len(op.operands) and all(
        operand.type == (BOOL if len(choice) == 2 else INT64) if choice else operand.type in (INT64, UINT64, FLOAT64)
        for operand, choice in zip(op.operands, choices, strict=True)
    )


def _is_atomic(op: Op) -> bool:
    """The result and the operands after the reference have the type of the atomic."""
    reference, *values = op.operands
    if not isinstance(reference.type, Ref) or not isinstance(reference.type.pointee, AtomicCell):
        return False
    return all(value.type == reference.type.pointee.dtype for value in (*values, *op.results))


_WORDS = (UINT32, UINT64)


def _is_same_size(a: Type | None, b: Type | None) -> bool:
    if not isinstance(a, (Number, Vector)) or not isinstance(b, (Number, Vector)):
        return False
    return BOOL not in (a, b) and size_of(a) == size_of(b)


def _meets(op: Op) -> bool:
    """The operands are a mask and a bool, or a mask, a word, and perhaps the number of a lane."""
    operands, results = [value.type for value in op.operands], [value.type for value in op.results]
    if op.code in (ops.BARRIER_REDUCE, ops.WARP_VOTE):
        lanes = [INT32] if op.code is ops.WARP_VOTE else []
        return operands == [*lanes, BOOL] and results == [
            INT32 if op.attributes["kind"] in ("count", "ballot") else BOOL
        ]
    if op.code is ops.WARP_SHUFFLE:
        return operands == [INT32, results[0], INT32] and results[0] in _WORDS
    if op.code is ops.WARP_MATCH:
        return operands[0] == INT32 and operands[1] in _WORDS and results == [INT32]
    if op.code is ops.WARP_REDUCE:
        return operands == [INT32, *results] and results[0] in (INT32, UINT32)
    return all(type == INT32 for type in (*operands, *results))


_TYPE_RULES: dict[ops.OpDef, Callable[[Op], bool]] = {
    **dict.fromkeys((ops.ADD, ops.SUB, ops.MUL), _arithmetic(lambda number: True)),
    **dict.fromkeys((ops.DIV, ops.NEG, ops.MATH), _arithmetic(lambda number: number.is_float)),
    **dict.fromkeys(
        (ops.QUOTIENT, ops.REMAINDER, ops.SHL, ops.SHR, ops.BITWISE), _arithmetic(lambda number: number.is_integer)
    ),
    **dict.fromkeys((ops.AND, ops.OR, ops.XOR), _arithmetic(lambda number: not number.is_float)),
    ops.CONVERT: lambda op: _are_numbers(*op.operands, op.result),
    ops.COMPARE: lambda op: (
        _are_numbers(*op.operands) and op.operands[0].type == op.operands[1].type and op.result.type == BOOL
    ),
    ops.SELECT: lambda op: op.operands[0].type == BOOL and op.operands[1].type == op.operands[2].type == op.result.type,
    ops.LOAD: lambda op: _points_to(op.operands[0], op.result),
    ops.STORE: lambda op: _points_to(*op.operands),
    ops.ELEMENT: _is_step,
    **dict.fromkeys((ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_CAS, ops.ATOMIC_UPDATE), _is_atomic),
    ops.BYTES: _is_distance,
    ops.ADDRESS: lambda op: isinstance(op.operands[0].type, Ref) and op.result.type == UINT64,
    ops.PRINT: _is_print,
    ops.BITS: lambda op: _is_same_size(op.operands[0].type, op.result.type),
    **dict.fromkeys((ops.BARRIER_REDUCE, ops.WARP_SYNC, ops.WARP_VOTE), _meets),
    **dict.fromkeys((ops.WARP_SHUFFLE, ops.WARP_MATCH, ops.WARP_REDUCE, ops.WARP_ACTIVE), _meets),
}


def _calls(function: Function, module: Module | None) -> Iterator[Complaint]:
    for op in function.ops():
        if op.code is ops.RETURN:
            returned = [value.type for value in op.operands]
            promised = [] if function.result in _NOTHING else [function.result]
            if returned != promised:
                yield op, f"returns {', '.join(map(str, returned)) or 'nothing'}, not {function.result}"
        if op.code is not ops.CALL or module is None:
            continue
        callee = next((f for f in module.functions if f.name == op.attributes["callee"]), None)
        if callee is None:
            yield op, f"no function is called {op.attributes['callee']}"
        elif [value.type for value in op.operands] != [value.type for value in callee.params]:
            yield op, f"the arguments are not those of {callee.name}"
        elif not {op.result.type, callee.result} <= _NOTHING and op.result.type != callee.result:
            yield op, f"the result is not that of {callee.name}"
