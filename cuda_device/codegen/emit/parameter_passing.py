"""How parameters and results of interoperable functions are written in LLVM IR, so that their PTX is what nvcc makes.

    int8, from a function       i32                                      .param .b32
    int8, to a kernel           i8                                       .param .u8
    a copy of 12 bytes          ptr byval([12 x i8]) align 4             .param .align 4 .b8 x[12]
    …, as a result              alignstack(4) [3 x i32]                  .param .align 4 .b8 x[12]
    an address                  ptr                                      .param .b64

What the values are is decided in `lower/interop_boundary`. Numbers of fewer than 32 bits cross in 32, extended; nobody relies on
the upper bits.
"""

from __future__ import annotations

from cuda_device.codegen.emit.llvm_writer import FunctionWriter
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.types.layout import align_of, size_of
from cuda_device.types.model import BOOL, NoneType, Number, Ref, Space, Type


def _is_narrow(type: Type | None) -> bool:
    return isinstance(type, Number) and not type.is_float and type.bits < 32


def _is_copy(type: Type | None) -> bool:
    return isinstance(type, Ref) and type.space is Space.LOCAL


def words(type: Type) -> str:
    """The bytes that a reference refers to as an aggregate: integers of the widest size that they are aligned to."""
    assert isinstance(type, Ref)
    width = min(align_of(type.pointee), 8)
    return f"[{size_of(type.pointee) // width} x i{8 * width}]"


def _alignment(type: Type) -> str:
    assert isinstance(type, Ref)
    return f"alignstack({align_of(type.pointee)})"


def parameter(to: FunctionWriter, value: Value) -> str:
    """A parameter of an interoperable function."""
    name, kernel = to.names[value], to.function.kernel
    assert value.type is not None
    if isinstance(value.type, Ref) and _is_copy(value.type):
        size, align = size_of(value.type.pointee), align_of(value.type.pointee)
        return f"ptr byval([{size} x i8]) align {align} {name}"
    if value.type == BOOL and kernel:
        return f"i8 {name}.wide"
    if _is_narrow(value.type) and not kernel:
        return f"i32 {name}.wide"
    return f"{to.module.type(value.type)} {name}"


def unpack(to: FunctionWriter, value: Value) -> None:
    """Makes the value of a parameter that came in more bits."""
    name = to.names[value]
    if value.type == BOOL:
        byte = f"{name}.wide" if to.function.kernel else to.temporary(f"trunc i32 {name}.wide to i8")
        to.line(f"{name} = icmp ne i8 {byte}, 0")
    elif _is_narrow(value.type) and not to.function.kernel:
        to.line(f"{name} = trunc i32 {name}.wide to {to.module.type(value.type)}")


def result(to: FunctionWriter, type: Type) -> str:
    """The type of what a function returns, with its alignment."""
    if isinstance(type, NoneType):
        return "void"
    if _is_copy(type):
        return f"{_alignment(type)} {words(type)}"
    return "i32" if _is_narrow(type) else to.module.type(type)


def returned(to: FunctionWriter, value: Value) -> str:
    """Widens or loads what a function returns: the operand of `ret`, or an argument, with its type."""
    if isinstance(value.type, Ref) and _is_copy(value.type):
        form = words(value.type)
        return f"{form} {to.temporary(f'load {form}, {to.typed(value)}, align {align_of(value.type.pointee)}')}"
    if _is_narrow(value.type):
        assert isinstance(value.type, Number)
        extend = "sext" if value.type.signed else "zext"
        return f"i32 {to.temporary(f'{extend} {to.typed(value)} to i32')}"
    return to.typed(value)


def extern(to: FunctionWriter, op: Op) -> None:
    """A call of a function that C++ defines."""
    into = op.operands[0] if op.attributes.get("into") else None
    operands = op.operands[1:] if into else op.operands
    types, arguments = [], []
    for operand in operands:
        type, _, name = returned(to, operand).rpartition(" ")
        if operand.type is not None and _is_copy(operand.type):
            type = f"{type} {_alignment(operand.type)}"
        types.append(type)
        arguments.append(f"{type} {name}")
    source = into.type if into else op.results[0].type if op.results else NoneType()
    assert source is not None
    kind, symbol = result(to, source), op.attributes["symbol"]
    to.module.declared.add(f"{kind} @{symbol}({', '.join(types)}) nobuiltin")
    call = f"call {kind} @{symbol}({', '.join(arguments)}) nobuiltin convergent"
    if into is not None:
        form = words(source)
        to.line(f"store {form} {to.temporary(call)}, {to.typed(into)}, align {align_of(source)}")
    elif kind == "void":
        to.line(call)
    elif source == BOOL:
        to.result(op, f"icmp ne i8 {to.temporary(f'trunc i32 {to.temporary(call)} to i8')}, 0")
    elif _is_narrow(source):
        to.result(op, f"trunc i32 {to.temporary(call)} to {to.module.type(source)}")
    else:
        to.result(op, call)


def _generic(to: FunctionWriter, op: Op) -> None:
    """Where a machine has one space, it is the same address."""
    (reference,) = op.operands
    source, target = to.module.type(reference.type), to.module.type(op.result.type)
    if source == target:
        to.names[op.result] = to.names[reference]
    else:
        to.result(op, f"addrspacecast {to.typed(reference)} to {target}")


def _return(to: FunctionWriter, op: Op) -> None:
    if not op.operands:
        to.line(to.dialect.leave(to.function))
    else:
        (value,) = op.operands
        to.line(f"ret {returned(to, value) if to.function.interop else to.typed(value)}")


EMITTERS = {ops.EXTERN: extern, ops.GENERIC: _generic, ops.RETURN: _return}
