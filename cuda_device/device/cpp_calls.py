"""Functions that CUDA C++ calls, and calls of functions that C++ defines.

In our code, a value is a tree of leaves; C++ passes bytes (`types/abi`). C++ therefore calls a wrapper that converts the
parameters and the result. A value that C++ copies is a `local` reference, a value that it passes by address a `generic` one.

    func @norm(%v: struct<pair, x: float32, y: float32>) -> float32 typed

    func @norm -> float32 interop device {
    ^0(%v: ref<local, struct<pair, x: float32, y: float32>>):
      %1: float32 = load %v …
      %2: float32 = load …
      %3: float32 = call {callee="norm_2"} %1 %2
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from cuda_device.device.lowering import ArrayTree, Lowering, Tree, flatten
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Function, Module, Prototype, Value
from cuda_device.lazy_dataclasses import replace
from cuda_device.types import model
from cuda_device.types.abi import exchanged, passing, representation
from cuda_device.types.layout import leaves, parts, reference_of_cpp, size_of, usual_alignment


def wrapper_for_cpp(module: Module, prototype: Prototype, by_address: bool) -> Function:
    """The wrapper around the module's main function, whose name it takes.

    If `by_address`, its parameters are the addresses of the arguments and, last, the address for the result.
    """
    inner = module.main
    taken = {function.name for function in module.functions}
    name = inner.name
    inner.name = next(n for n in (f"{name}_{i}" for i in itertools.count(2)) if n not in taken)
    for op in module.ops():
        if op.code is ops.CALL and op.attributes["callee"] == name:
            op.attributes["callee"] = inner.name
    build = Lowering(Block())
    build.location = inner.location
    result, kernel = exchanged(prototype.result), inner.kernel
    # The first parameter may be the address for the result.
    has_place = not by_address and result != model.NONE and passing(result, kernel=False) == "address"
    target = _address(build, result) if has_place else None
    trees = [_take(build, type, kernel, by_address) for type in prototype.arguments]
    if by_address and result != model.NONE:
        target = _address(build, result)
    tree = build.call(inner.name, [leaf for tree in trees for leaf in flatten(tree)], prototype.result)
    returned = _give(build, prototype.result, result, tree, target)
    build.return_(*returned)
    inner.kernel = False
    result_type = (returned[0].type if returned else None) or model.NONE
    return replace(inner, name=name, blocks=[build.block], result=result_type, kernel=kernel, interop=True, family="")


def call_extern(build: Lowering, symbol: str, arguments: Sequence[tuple[Tree, model.Type]], type: model.Type) -> Tree:
    """A call of the C++ function `symbol`; its result has `type`."""
    operands = [_pass(build, tree, source) for tree, source in arguments]
    if type == model.NONE:
        build.effect(ops.EXTERN, *operands, symbol=symbol)
        return ()
    form, how = representation(type), passing(type, kernel=False)
    if how == "value":
        return unpack(build, build.op(ops.EXTERN, form, *operands, symbol=symbol), type)
    target = allocate_local(build, form)
    if how == "address":
        address = _generic(build, target, reference_of_cpp(model.Space.GENERIC, form))
        build.effect(ops.EXTERN, address, *operands, symbol=symbol)
    else:
        build.effect(ops.EXTERN, target, *operands, symbol=symbol, into=True)
    return unpack(build, build.load(target, form), type)


def _pass(build: Lowering, tree: Tree, type: model.Type) -> Value:
    """An argument in the form in which C++ takes it."""
    packed, how = pack(build, tree, type), passing(type, kernel=False)
    if how == "value":
        assert isinstance(packed, Value)
        return packed
    form = representation(exchanged(type))
    copy = allocate_local(build, form)
    build.store(copy, form, packed)
    return _generic(build, copy, reference_of_cpp(model.Space.GENERIC, form)) if how == "address" else copy


def _address(build: Lowering, type: model.Type) -> Value:
    """Adds a parameter: the address of a value in C++."""
    parameter = Value(reference_of_cpp(model.Space.GENERIC, representation(type)))
    build.block.params.append(parameter)
    return parameter


def _take(build: Lowering, type: model.Type, kernel: bool, by_address: bool) -> Tree:
    """Adds a parameter of `type`; returns its value."""
    form = representation(type)
    if by_address:
        return unpack(build, build.load(_address(build, exchanged(type)), form), type)
    how = passing(type, kernel)
    space = model.Space.GENERIC if how == "address" else model.Space.LOCAL
    parameter = Value(form if how == "value" else reference_of_cpp(space, form))
    build.block.params.append(parameter)
    tree: Tree = parameter if how == "value" else build.load(parameter, form)
    return unpack(build, tree, type)


def _give(build: Lowering, source: model.Type, type: model.Type, tree: Tree, address: Value | None) -> list[Value]:
    """The operands of the return for a result of the type `source`."""
    if type == model.NONE:
        return []
    form = representation(type)
    packed = pack(build, tree, source)
    if address is None and passing(type, kernel=False) == "value":
        assert isinstance(packed, Value)
        return [packed]
    target = address or allocate_local(build, form)
    build.store(target, form, packed)
    return [] if address else [target]


# Between a value and its representation


def unpack(build: Lowering, tree: Tree, type: model.Type) -> Tree:
    """The tree of a value of `type` from that of its representation."""
    if type == model.NONE:
        return ()
    if isinstance(type, model.Array):
        return _unpack_array(build, tree, type)
    return _by_parts(lambda tree, type: unpack(build, tree, type), tree, type)


def pack(build: Lowering, tree: Tree, type: model.Type) -> Tree:
    """The tree of the representation of a value of `type`."""
    if type == model.NONE:
        return build.const(model.UINT64, 0)
    if isinstance(tree, ArrayTree) and isinstance(type, model.Array):
        return _pack_array(build, tree, type)
    return _by_parts(lambda tree, type: pack(build, tree, type), tree, type)


def _by_parts(function: Callable[[Tree, model.Type], Tree], tree: Tree, type: model.Type) -> Tree:
    """Applies `function` to the parts of a composite value; returns any other tree."""
    types = parts(type)
    return tuple(map(function, tree, types)) if types and isinstance(tree, tuple) else tree


def _unpack_array(build: Lowering, tree: Tree, type: model.Array) -> ArrayTree:
    """An array from its descriptor, whose strides count elements."""
    data, *lengths = flatten(tree)
    extents, strides = lengths[: type.ndim], lengths[type.ndim :]
    for extent in extents:
        extent.nonneg = True
    if type.layout is not model.Layout.STRIDED:
        return ArrayTree(data, tuple(extents))
    size = build.number(model.INT64, size_of(type.dtype))
    return ArrayTree(data, tuple(extents), tuple(build.sum(ops.MUL, s, size, exact=True) for s in strides))


def _pack_array(build: Lowering, tree: ArrayTree, type: model.Array) -> Tree:
    """The descriptor of an array. The caller has checked that its strides in bytes are multiples of the size of an element."""
    size = build.number(model.INT64, size_of(type.dtype))
    # Small arrays have shorter lengths.
    extents = tuple(build.convert(extent, model.INT64) for extent in tree.extents)
    steps = (build.convert(stride, model.INT64) for stride in build.strides(tree, type))
    strides = tuple(build.op(ops.QUOTIENT, model.INT64, step, size) for step in steps)
    data = _generic(build, tree.data, leaves(exchanged(type))[0])
    return (data, extents, strides) if type.ndim else (data,)


def _generic(build: Lowering, reference: Value, type: model.Type) -> Value:
    return reference if reference.type == type else build.op(ops.GENERIC, type, reference)


def allocate_local(build: Lowering, form: model.Type) -> Value:
    """Local memory for one value."""
    return build.op(ops.LOCAL, model.Ref(model.Space.LOCAL, form), count=1, align=usual_alignment(form))
