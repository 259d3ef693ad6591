"""The handlers that translate instructions to operations of the python level, and the table of handlers.

A handler gets the reader of the function, the instruction and its span, and changes the reader's stack and variables as the
instruction changes Python's. For `BINARY '+'` it pops two values, appends `py.binary {op="+"}`, and pushes the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_device.bytecode.cfg import Span
from cuda_device.bytecode.instructions import Instruction, Opcode
from cuda_device.bytecode.reader import Reader
from cuda_device.bytecode.scopes import CELL
from cuda_device.bytecode.suspension import finish, suspend
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value

Handler = Callable[[Reader, Instruction, Span], object]


def _push(reader: Reader, code: ops.OpDef, *operands: Value, **attributes: Any) -> Value:
    """Appends an operation and pushes its result."""
    reader.stack.append(reader.build.op(code, None, *operands, **attributes))
    return reader.stack[-1]


def _constant(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.constants[_push(reader, ops.PY_CONST, value=instruction.argument)] = instruction.argument


def _store(reader: Reader, instruction: Instruction, _: Span) -> None:
    value = reader.stack.pop()
    name = instruction.argument
    if any(other != name and reader.current(other) is value for other in reader.names.get(value, ())):
        value = reader.build.op(ops.PY_COPY, None, value)
    reader.assign(name, value)
    if reader.debug and name.isidentifier():
        reader.build.effect(ops.VARIABLE, value, name=name)


def _save_cell(reader: Reader, instruction: Instruction, _: Span) -> None:
    _push(reader, ops.PY_CONST, value=None)
    reader.begin_cell(instruction.argument)


def _load_cell(reader: Reader, instruction: Instruction, _: Span) -> None:
    name = instruction.argument
    if name in reader.boxed:
        _push(reader, ops.PY_UNBOX, reader.variable(f"{CELL}{name}"))
    else:
        _push(reader, ops.PY_CELL, name=name)


def _store_cell(reader: Reader, instruction: Instruction, _: Span) -> None:
    _assign(reader, instruction.argument, reader.stack.pop())


def _delete_cell(reader: Reader, instruction: Instruction, _: Span) -> None:
    name = instruction.argument
    _assign(reader, name, reader.build.op(ops.PY_UNDEFINED, None, name=name))


def _assign(reader: Reader, name: str, value: Value) -> None:
    """Assigns to a variable that nested functions assign to, or to the variable of an enclosing function."""
    if name in reader.boxed:
        reader.build.effect(ops.PY_SET_BOX, reader.variable(f"{CELL}{name}"), value)
    else:
        reader.build.effect(ops.PY_SET_CELL, value, name=name)


def _maker(reader: Reader, value: Value) -> Op:
    """The operation of the current block that made a value."""
    return next(op for op in reversed(reader.build.block.ops) if value in op.results)


def _make_function(reader: Reader, instruction: Instruction, _: Span) -> None:
    extras = instruction.argument
    *pushed, code_value = reader.pop(len(extras) + 1)
    code = reader.constants[code_value]
    by_name = dict(zip(extras, pushed, strict=True))
    operands: list[Value] = []
    keywords: tuple[object, ...] = ()
    if "defaults" in by_name:
        operands.append(by_name["defaults"])
    if "kwdefaults" in by_name:
        mapping = _maker(reader, by_name["kwdefaults"])
        keywords = mapping.attributes["keys"]
        operands += mapping.operands
    closure = _maker(reader, by_name["closure"]).operands if "closure" in by_name else ()
    cells = tuple(reader.constants[cell] for cell in closure)
    _push(
        reader,
        ops.PY_FUNCTION,
        *operands,
        function=code,
        cells=cells,
        defaults="defaults" in by_name,
        keywords=keywords,
    )


def _delete(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.assign(instruction.argument, None)


def _load_and_clear(reader: Reader, instruction: Instruction, span: Span) -> None:
    reader.stack.append(reader.variable(instruction.argument))
    _delete(reader, instruction, span)


def _swap(reader: Reader, instruction: Instruction, _: Span) -> None:
    depth = instruction.argument
    reader.stack[-1], reader.stack[-depth] = reader.stack[-depth], reader.stack[-1]


def _binary(reader: Reader, instruction: Instruction, _: Span) -> None:
    operator = instruction.argument
    in_place = {"inplace": True} if operator.endswith("=") else {}
    _push(reader, ops.PY_BINARY, *reader.pop(2), op=operator.removesuffix("="), **in_place)


def _build_display(reader: Reader, instruction: Instruction, _: Span) -> None:
    kind, count = instruction.argument
    if kind == "map":
        _build_map(reader, reader.pop(2 * count))
        return
    _push(reader, _DISPLAYS[kind], *reader.pop(count))


def _build_map(reader: Reader, parts: list[Value]) -> None:
    keys, values = parts[::2], parts[1::2]
    if all(key in reader.constants for key in keys):
        _push(reader, ops.PY_DICT, *values, keys=tuple(reader.constants[key] for key in keys))
        return
    mapping = reader.build.op(ops.PY_DICT, None, keys=())
    for key, value in zip(keys, values, strict=True):  # inference may find that the keys are constant
        mapping = reader.build.op(ops.PY_MAP_ADD, None, mapping, key, value)
    reader.stack.append(mapping)


def _into(reader: Reader, instruction: Instruction, count: int, code: ops.OpDef, **attributes: Any) -> None:
    """Adds values to a list or dict further down the stack, which holds the only reference to it."""
    parts, position = reader.pop(count), -instruction.argument
    written = reader.build.block.ops
    index = next((i for i in reversed(range(len(written))) if reader.stack[position] in written[i].results), None)
    if code is ops.PY_APPEND and index is not None and written[index].code is ops.PY_LIST:
        # CPython appends the items of long displays one by one.
        written[index].operands += parts
        written.append(written.pop(index))
        return
    reader.stack[position] = reader.build.op(code, None, reader.stack[position], *parts, **attributes)


def _iterate(reader: Reader, _: Instruction, __: Span) -> None:
    _push(reader, ops.PY_ITER, *reader.pop(1), **({"unroll": True} if reader.index in reader.unrolled else {}))


def _format(reader: Reader, instruction: Instruction, _: Span) -> None:
    conversion, has_spec = instruction.argument
    _push(reader, ops.PY_FORMAT, *reader.pop(1 + bool(has_spec)), conversion=conversion)


def _get_length(reader: Reader, _: Instruction, __: Span) -> None:
    function = reader.build.op(ops.PY_CONST, None, value=len)
    _push(reader, ops.PY_CALL, function, reader.stack[-1])


def _raise(reader: Reader, instruction: Instruction, _: Span) -> None:
    failed = instruction.opcode is Opcode.ASSERT_FAIL
    if not failed and not instruction.argument:
        reader.unsupported("raise without an exception")
        return
    values = reader.pop(instruction.argument)
    reader.build.effect(ops.PY_RAISE, *values[:1], kind="assert" if failed else "raise")
    reader.end(ops.UNREACHABLE, [], [])


def _results(reader: Reader, code: ops.OpDef, count: int, **attributes: Any) -> list[Value]:
    """Appends an operation on the top of the stack that has several results."""
    results = [Value() for _ in range(count)]
    reader.build.append(Op(code, reader.pop(1), results, attributes, [], reader.build.location))
    return results


def _unpack(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.stack += reversed(_results(reader, ops.PY_UNPACK, instruction.argument))


def _unpack_star(reader: Reader, instruction: Instruction, _: Span) -> None:
    before, after = instruction.argument
    results = _results(reader, ops.PY_UNPACK_STAR, before + 1 + after, before=before, after=after)
    reader.stack += reversed(results)


def _store_item(reader: Reader, _: Instruction, __: Span) -> None:
    value, container, index = reader.pop(3)
    reader.store(ops.PY_SETITEM, container, index, value)


def _store_attribute(reader: Reader, instruction: Instruction, _: Span) -> None:
    value, owner = reader.pop(2)
    reader.store(ops.PY_SETATTR, owner, value, name=instruction.argument)


def _call_keywords(reader: Reader, instruction: Instruction, _: Span) -> None:
    count, names = instruction.argument
    _push(reader, ops.PY_CALL, *reader.pop(count + 1), names=names)


def _for_iter(reader: Reader, _: Instruction, span: Span) -> None:
    more, item, iterator = _results(reader, ops.PY_NEXT, 3)
    exit_ = reader.edge(span.successors[1])
    reader.stack += (iterator, item)
    reader.end(ops.BRANCH, [more], [reader.edge(span.successors[0]), exit_])


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


def _global(reader: Reader, instruction: Instruction, _: Span) -> None:
    reader.globals.add(_push(reader, ops.PY_GLOBAL, name=instruction.argument))


def _subscript(reader: Reader, _: Instruction, __: Span) -> None:
    container, index = reader.pop(2)
    is_part = isinstance(reader.constants.get(index), (str, int)) and reader.is_part(container)
    reader.read_part(ops.PY_GETITEM, container, index, **({"part": True} if is_part else {}))


def _attribute(reader: Reader, instruction: Instruction, _: Span) -> None:
    (owner,) = reader.pop(1)
    part = {"part": True} if reader.is_part(owner) else {}
    reader.read_part(ops.PY_GETATTR, owner, name=instruction.argument, **part)


def _operation(code: ops.OpDef, operands: int, attribute: str = "") -> Handler:
    """A handler for an instruction that is one operation; `attribute` takes the argument."""

    def handle(reader: Reader, instruction: Instruction, _: Span) -> None:
        attributes = {attribute: instruction.argument} if attribute else {}
        _push(reader, code, *reader.pop(operands), **attributes)

    return handle


HANDLERS: dict[Opcode, Handler] = {
    Opcode.GLOBAL: _global,
    Opcode.UNARY: _operation(ops.PY_UNARY, 1, "op"),
    Opcode.COMPARE: _operation(ops.PY_COMPARE, 2, "op"),
    Opcode.IS: _operation(ops.PY_IS, 2, "inverted"),
    Opcode.SUBSCR: _subscript,
    Opcode.ATTR: _attribute,
    Opcode.CONTAINS: _operation(ops.PY_CONTAINS, 2, "inverted"),
    Opcode.LIST_TO_TUPLE: _operation(ops.PY_TUPLE_OF, 1),
    Opcode.UNSUPPORTED: lambda reader, i, _: reader.unsupported(i.argument),
    Opcode.CONST: _constant,
    Opcode.LOAD: lambda reader, i, _: reader.stack.append(reader.variable(i.argument)),
    Opcode.STORE: _store,
    Opcode.DELETE: _delete,
    Opcode.LOAD_AND_CLEAR: _load_and_clear,
    Opcode.LOAD_CELL: _load_cell,
    Opcode.SAVE_CELL: _save_cell,
    Opcode.STORE_CELL: _store_cell,
    Opcode.DELETE_CELL: _delete_cell,
    Opcode.CLOSURE: lambda reader, i, _: reader.constants.update({_push(reader, ops.PY_CONST, value=None): i.argument}),
    Opcode.MAKE_FUNCTION: _make_function,
    Opcode.BUILD: _build_display,
    Opcode.BUILD_KEYED: lambda reader, i, _: _push(reader, ops.PY_DICT, *reader.pop(len(i.argument)), keys=i.argument),
    Opcode.BUILD_SLICE: lambda reader, i, _: _push(reader, ops.PY_SLICE, *reader.pop(i.argument)),
    Opcode.LIST_APPEND: lambda reader, i, _: _into(reader, i, 1, ops.PY_APPEND),
    Opcode.LIST_EXTEND: lambda reader, i, _: _into(reader, i, 1, ops.PY_EXTEND),
    Opcode.MAP_ADD: lambda reader, i, _: _into(reader, i, 2, ops.PY_MAP_ADD),
    Opcode.MAP_MERGE: lambda reader, i, _: _into(reader, i, 1, ops.PY_MERGE, unique=True),
    Opcode.MAP_UPDATE: lambda reader, i, _: _into(reader, i, 1, ops.PY_MERGE, unique=False),
    Opcode.FORMAT: _format,
    Opcode.BINARY: _binary,
    Opcode.STORE_SUBSCR: _store_item,
    Opcode.STORE_ATTR: _store_attribute,
    Opcode.CALL: lambda reader, i, _: _push(reader, ops.PY_CALL, *reader.pop(i.argument + 1)),
    Opcode.CALL_KW: _call_keywords,
    Opcode.CALL_EX: lambda reader, i, _: _push(reader, ops.PY_CALL_STAR, *reader.pop(2 + bool(i.argument))),
    Opcode.ITER: _iterate,
    Opcode.FOR_ITER: _for_iter,
    Opcode.UNPACK: _unpack,
    Opcode.UNPACK_EX: _unpack_star,
    Opcode.GET_LEN: _get_length,
    Opcode.MATCH_SEQUENCE: lambda reader, _, __: _push(reader, ops.PY_IS_SEQUENCE, reader.stack[-1]),
    Opcode.JUMP: lambda reader, _, span: reader.end(ops.JUMP, [], [reader.edge(span.successors[0])]),
    Opcode.JUMP_IF_TRUE: _jump_if,
    Opcode.JUMP_IF_FALSE: _jump_if,
    Opcode.RETURN: _return,
    Opcode.YIELD: lambda reader, _, __: suspend(reader, reader.stack.pop()),
    Opcode.RAISE: _raise,
    Opcode.ASSERT_FAIL: _raise,
    Opcode.POP: lambda reader, _, __: reader.stack.pop(),
    Opcode.COPY: lambda reader, i, _: reader.stack.append(reader.stack[-i.argument]),
    Opcode.SWAP: _swap,
}

_DISPLAYS = {"tuple": ops.PY_TUPLE, "list": ops.PY_LIST, "string": ops.PY_STRING}
