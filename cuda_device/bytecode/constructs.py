"""What each instruction becomes at the python level: handlers, and the tables that name them.

Most instructions are one operation (`SIMPLE`). The others have a handler (`SPECIAL`), which gets the reader of the function,
the instruction and its span, and does to the reader's stack and variables what the instruction does to Python's.
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_device.bytecode.cfg import CELL, Span
from cuda_device.bytecode.instructions import Instruction, Opcode
from cuda_device.bytecode.reader import Reader
from cuda_device.bytecode.suspension import finish, suspend
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value

Handler = Callable[["Reader", Instruction, Span], None]


def _load(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.push(reader.variable(str(instruction.argument)))


def _constant(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.push(reader.build.op(ops.PY_CONST, None, value=instruction.argument))
    reader.constants[reader.stack[-1]] = instruction.argument


def _store(reader: Reader, instruction: Instruction, _: Span) -> None:
    value = reader.stack.pop()
    name = str(instruction.argument)
    if any(value is other for variable, other in reader.variables.items() if variable != name):
        value = reader.build.op(ops.PY_COPY, None, value)
    reader.variables[name] = value
    if reader.debug and name.isidentifier():
        reader.build.effect(ops.VARIABLE, value, name=name)


def _save_cell(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.push(reader.build.op(ops.PY_CONST, None, value=None))
    reader.begin_cell(str(instruction.argument))


def _load_cell(reader: Reader, instruction: Instruction, _: Span) -> None:
    name = str(instruction.argument)
    if name in reader.boxed:
        reader.push(reader.build.op(ops.PY_UNBOX, None, reader.variable(f"{CELL}{name}")))
    elif name in reader.cells:
        reader.push(reader.variable(f"{CELL}{name}"))
    else:
        reader.push(reader.build.op(ops.PY_CELL, None, name=name))


def _store_cell(reader: Reader, instruction: Instruction, span: Span) -> None:
    name = str(instruction.argument)
    if name in reader.boxed or name not in reader.cells:
        _assign(reader, name, reader.stack.pop())
    else:
        _store(reader, Instruction(Opcode.STORE, f"{CELL}{name}"), span)


def _delete_cell(reader: Reader, instruction: Instruction, span: Span) -> None:
    name = str(instruction.argument)
    if name in reader.boxed or name not in reader.cells:
        _assign(reader, name, reader.build.op(ops.PY_UNDEFINED, None, name=name))
    else:
        _delete(reader, Instruction(Opcode.DELETE, f"{CELL}{name}"), span)


def _assign(reader: Reader, name: str, value: Value) -> None:
    """To a variable that nested functions assign to, or, in one of them, to the variable of an enclosing function."""
    if name in reader.boxed:
        reader.build.effect(ops.PY_SET_BOX, reader.variable(f"{CELL}{name}"), value)
    else:
        reader.build.effect(ops.PY_SET_CELL, value, name=name)


def _closure(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.push(reader.build.op(ops.PY_CONST, None, value=None))
    reader.references[reader.stack[-1]] = (str(instruction.argument),)


def _make_function(reader: Reader, instruction: Instruction, _: Span) -> None:
    extras = instruction.argument
    assert isinstance(extras, tuple)
    *given, code_value = reader.pop(len(extras) + 1)
    code = reader.constants[code_value]
    found = dict(zip(extras, given, strict=True))
    operands: list[Value] = []
    keywords: tuple[object, ...] = ()
    if "defaults" in found:
        operands.append(found["defaults"])
    if "kwdefaults" in found:
        keywords, values = reader.dicts[found["kwdefaults"]]
        operands += values
    cells = reader.references[found["closure"]] if "closure" in found else ()
    attributes: dict[str, object] = {
        "function": code,
        "cells": cells,
        "defaults": "defaults" in found,
        "keywords": keywords,
    }
    reader.push(Value())
    reader.build.append(Op(ops.PY_FUNCTION, operands, reader.stack[-1:], attributes, [], reader.build.location))


def _delete(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.variables.pop(str(instruction.argument), None)


def _load_and_clear(reader: Reader, instruction: Instruction, span: Span) -> None:
    _load(reader, instruction, span)
    _delete(reader, instruction, span)


def _discard(reader: Reader, _: Instruction, __: Span) -> None:
    reader.stack.pop()


def _copy(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.push(reader.stack[-_count(instruction)])


def _swap(reader: Reader, instruction: Instruction, _: Span) -> None:
    depth = _count(instruction)
    reader.stack[-1], reader.stack[-depth] = reader.stack[-depth], reader.stack[-1]


def _binary(reader: Reader, instruction: Instruction, _: Span) -> None:
    operator = str(instruction.argument)
    in_place = {"inplace": True} if operator.endswith("=") else {}
    reader.push(reader.build.op(ops.PY_BINARY, None, *reader.pop(2), op=operator.removesuffix("="), **in_place))


def _build_display(reader: Reader, instruction: Instruction, _: Span) -> None:
    kind, count = _pair(instruction)
    number = int(str(count))
    if kind == "map":
        _build_map(reader, reader.pop(2 * number))
        return
    parts = reader.pop(number)
    reader.push(reader.build.op(_DISPLAYS[str(kind)], None, *parts))
    if parts and all(part in reader.references for part in parts):
        reader.references[reader.stack[-1]] = tuple(reader.references[part][0] for part in parts)


def _build_map(reader: Reader, parts: list[Value]) -> None:
    keys, values = parts[::2], parts[1::2]
    if all(key in reader.constants for key in keys):
        _keyed(reader, tuple(reader.constants[key] for key in keys), values)
        return
    made = reader.build.op(ops.PY_DICT, None, keys=())
    for key, value in zip(keys, values, strict=True):  # which may be constants that have come through a choice
        made = reader.build.op(ops.PY_MAP_ADD, None, made, key, value)
    reader.push(made)


def _build_keyed(reader: Reader, instruction: Instruction, _: Span) -> None:
    keys = instruction.argument
    assert isinstance(keys, tuple)
    _keyed(reader, keys, reader.pop(len(keys)))


def _keyed(reader: Reader, keys: tuple[object, ...], values: list[Value]) -> None:
    reader.push(reader.build.op(ops.PY_DICT, None, *values, keys=keys))
    reader.dicts[reader.stack[-1]] = keys, values


def _into_list(reader: Reader, instruction: Instruction, _: Span) -> None:
    """LIST_APPEND and LIST_EXTEND replace the list that they find in the stack: nothing else has it."""
    (value,) = reader.pop(1)
    at = -_count(instruction)
    code = ops.PY_APPEND if instruction.opcode is Opcode.LIST_APPEND else ops.PY_EXTEND
    reader.stack[at] = reader.build.op(code, None, reader.stack[at], value)


def _into_dict(reader: Reader, instruction: Instruction, _: Span) -> None:
    """MAP_ADD of a comprehension, as LIST_APPEND."""
    key, value = reader.pop(2)
    at = -_count(instruction)
    reader.stack[at] = reader.build.op(ops.PY_MAP_ADD, None, reader.stack[at], key, value)


def _merge(reader: Reader, instruction: Instruction, _: Span) -> None:
    """`f(*x, a=1, **more)` and `{**more}`."""
    (value,) = reader.pop(1)
    at = -_count(instruction)
    unique = instruction.opcode is Opcode.MAP_MERGE
    reader.stack[at] = reader.build.op(ops.PY_MERGE, None, reader.stack[at], value, unique=unique)


def _iterate(reader: Reader, _: Instruction, __: Span) -> None:
    attributes = {"unroll": True} if reader.index in reader.unrolled else {}
    if reader.index in reader.indexed:
        attributes = {"indexed": True}
    reader.push(reader.build.op(ops.PY_ITER, None, *reader.pop(1), **attributes))


def _yield(reader: Reader, _: Instruction, __: Span) -> None:
    suspend(reader, reader.stack.pop())


def _build_slice(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.push(reader.build.op(ops.PY_SLICE, None, *reader.pop(_count(instruction))))


def _format(reader: Reader, instruction: Instruction, _: Span) -> None:
    conversion, has_spec = _pair(instruction)
    reader.push(reader.build.op(ops.PY_FORMAT, None, *reader.pop(1 + bool(has_spec)), conversion=conversion))


def _get_length(reader: Reader, _: Instruction, __: Span) -> None:
    function = reader.build.op(ops.PY_CONST, None, value=len)
    reader.push(reader.build.op(ops.PY_CALL, None, function, reader.stack[-1]))


def _match_sequence(reader: Reader, _: Instruction, __: Span) -> None:
    reader.push(reader.build.op(ops.PY_IS_SEQUENCE, None, reader.stack[-1]))


def _raise(reader: Reader, instruction: Instruction, _: Span) -> None:
    failed = instruction.opcode is Opcode.ASSERT_FAIL
    if not failed and not instruction.argument:
        reader.unsupported("raise without an exception")
        return
    values = reader.pop(int(bool(instruction.argument)) if failed else _count(instruction))
    reader.build.effect(ops.PY_RAISE, *values[:1], kind="assert" if failed else "raise")
    reader.end(ops.UNREACHABLE, [], [])


def _unpack(reader: Reader, instruction: Instruction, _: Span) -> None:
    results = [Value() for _ in range(_count(instruction))]
    reader.build.append(Op(ops.PY_UNPACK, reader.pop(1), results, location=reader.build.location))
    reader.push(*reversed(results))


def _unpack_star(reader: Reader, instruction: Instruction, _: Span) -> None:
    before, after = (int(str(count)) for count in _pair(instruction))
    results = [Value() for _ in range(before + 1 + after)]
    attributes: dict[str, object] = {"before": before, "after": after}
    reader.build.append(Op(ops.PY_UNPACK_STAR, reader.pop(1), results, attributes, [], reader.build.location))
    reader.push(*reversed(results))


def _store_item(reader: Reader, _: Instruction, __: Span) -> None:
    value, container, index = reader.pop(3)
    reader.build.effect(ops.PY_SETITEM, container, index, value, **reader.target(container))
    reader.write_back(container)


def _store_attribute(reader: Reader, instruction: Instruction, _: Span) -> None:
    value, owner = reader.pop(2)
    reader.build.effect(ops.PY_SETATTR, owner, value, name=instruction.argument, **reader.target(owner))
    reader.write_back(owner)


def _call(reader: Reader, instruction: Instruction, _: Span) -> None:
    operands = reader.pop(_count(instruction) + 1)
    reader.push(reader.build.op(ops.PY_CALL, None, *operands))


def _call_star(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.push(reader.build.op(ops.PY_CALL_STAR, None, *reader.pop(2 + bool(instruction.argument))))


def _call_keywords(reader: Reader, instruction: Instruction, _: Span) -> None:
    count, names = _pair(instruction)
    reader.push(reader.build.op(ops.PY_CALL, None, *reader.pop(int(str(count)) + 1), names=names))


def _for_iter(reader: Reader, _: Instruction, span: Span) -> None:
    results = [Value(), Value(), Value()]
    reader.build.append(Op(ops.PY_NEXT, reader.pop(1), results, location=reader.build.location))
    more, item, iterator = results
    exit_ = reader.edge(span.successors[1])
    reader.push(iterator, item)
    reader.end(ops.BRANCH, [more], [reader.edge(span.successors[0]), exit_])


def _jump(reader: Reader, _: Instruction, span: Span) -> None:
    reader.end(ops.JUMP, [], [reader.edge(span.successors[0])])


def _jump_if(reader: Reader, instruction: Instruction, span: Span) -> None:
    condition = reader.build.op(ops.PY_TRUTH, None, *reader.pop(1))
    falls, jumps = (reader.edge(start) for start in span.successors)
    edges = [jumps, falls] if instruction.opcode is Opcode.JUMP_IF_TRUE else [falls, jumps]
    reader.end(ops.BRANCH, [condition], edges)


def _return(reader: Reader, _: Instruction, __: Span) -> None:
    value = reader.stack.pop()
    if reader.reading and reader.constants.get(value, value) is not None:
        reader.unsupported("a generator that returns a value")
    elif reader.reading:
        finish(reader)
    else:
        reader.end(ops.RETURN, [value], [])


def _count(instruction: Instruction) -> int:
    assert isinstance(instruction.argument, int)
    return instruction.argument


def _pair(instruction: Instruction) -> tuple[object, object]:
    assert isinstance(instruction.argument, tuple)
    first, second = instruction.argument
    return first, second


# Instructions that are one operation: its row, how many operands it pops, the attribute that takes the argument.
SIMPLE: dict[Opcode, tuple[ops.OpDef, int, str]] = {
    Opcode.GLOBAL: (ops.PY_GLOBAL, 0, "name"),
    Opcode.UNARY: (ops.PY_UNARY, 1, "op"),
    Opcode.COMPARE: (ops.PY_COMPARE, 2, "op"),
    Opcode.IS: (ops.PY_IS, 2, "inverted"),
    Opcode.SUBSCR: (ops.PY_GETITEM, 2, ""),
    Opcode.ATTR: (ops.PY_GETATTR, 1, "name"),
    Opcode.CONTAINS: (ops.PY_CONTAINS, 2, "inverted"),
    Opcode.LIST_TO_TUPLE: (ops.PY_TUPLE_OF, 1, ""),
}

SPECIAL: dict[Opcode, Handler] = {
    Opcode.CONST: _constant,
    Opcode.LOAD: _load,
    Opcode.LOAD_CELL: _load_cell,
    Opcode.SAVE_CELL: _save_cell,
    Opcode.STORE_CELL: _store_cell,
    Opcode.DELETE_CELL: _delete_cell,
    Opcode.CLOSURE: _closure,
    Opcode.MAKE_FUNCTION: _make_function,
    Opcode.BUILD_KEYED: _build_keyed,
    Opcode.LIST_APPEND: _into_list,
    Opcode.LIST_EXTEND: _into_list,
    Opcode.MAP_ADD: _into_dict,
    Opcode.MAP_MERGE: _merge,
    Opcode.MAP_UPDATE: _merge,
    Opcode.ITER: _iterate,
    Opcode.YIELD: _yield,
    Opcode.BUILD_SLICE: _build_slice,
    Opcode.FORMAT: _format,
    Opcode.GET_LEN: _get_length,
    Opcode.MATCH_SEQUENCE: _match_sequence,
    Opcode.UNPACK_EX: _unpack_star,
    Opcode.CALL_EX: _call_star,
    Opcode.RAISE: _raise,
    Opcode.ASSERT_FAIL: _raise,
    Opcode.STORE: _store,
    Opcode.DELETE: _delete,
    Opcode.LOAD_AND_CLEAR: _load_and_clear,
    Opcode.POP: _discard,
    Opcode.COPY: _copy,
    Opcode.SWAP: _swap,
    Opcode.BINARY: _binary,
    Opcode.BUILD: _build_display,
    Opcode.UNPACK: _unpack,
    Opcode.STORE_SUBSCR: _store_item,
    Opcode.STORE_ATTR: _store_attribute,
    Opcode.CALL: _call,
    Opcode.CALL_KW: _call_keywords,
    Opcode.FOR_ITER: _for_iter,
    Opcode.JUMP: _jump,
    Opcode.JUMP_IF_TRUE: _jump_if,
    Opcode.JUMP_IF_FALSE: _jump_if,
    Opcode.RETURN: _return,
}

_DISPLAYS = {"tuple": ops.PY_TUPLE, "list": ops.PY_LIST, "string": ops.PY_STRING}
