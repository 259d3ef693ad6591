"""The face that an interoperable function shows to CUDA C++, and the calls of functions that C++ defines.

Inside of our code a value is its leaves; C++ passes bytes (`types/abi`). The function that C++ calls is a small one
around the other: it takes each parameter as C++ passes it, and gives the result as C++ returns it. A copy arrives and
leaves as a reference to it, which is `local`; what travels by its address has a `generic` one.

    func @norm(%v: struct<pair, x: float32, y: float32>) -> float32 typed

    func @norm -> float32 interop device {
    ^0(%v: ref<local, struct<pair, x: float32, y: float32>>):
      %1: float32 = load %v …
      %2: float32 = load …
      %3: float32 = call {callee="norm_2"} %1 %2
      return %3
    }
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cuda_device.device.lowering import ArrayTree, Lowering, Tree, flatten
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Function, Module, Prototype, Value
from cuda_device.ir.ops import Level
from cuda_device.types import model
from cuda_device.types.abi import Passing, exchanged, passing, representation
from cuda_device.types.layout import leaves, parts, reference_of_cpp, size_of, usual_alignment


def entry(module: Module, prototype: Prototype) -> Function:
    """The function around the module's main one, whose name it takes."""
    inner = module.main
    taken = {function.name for function in module.functions}
    name = inner.name
    inner.name = next(n for n in (f"{name}_{i}" for i in itertools.count(2)) if n not in taken)
    for function in module.functions:
        for op in function.ops():
            if op.code is ops.CALL and op.attributes["callee"] == name:
                op.attributes["callee"] = inner.name
    build = Lowering(Block())
    build.location = inner.location
    result, kernel = exchanged(prototype.result), inner.kernel
    place = _result_place(build, result)
    trees = [_take(build, type, kernel) for type in prototype.arguments]
    tree = build.call(inner.name, [leaf for tree in trees for leaf in flatten(tree)], prototype.result)
    returned = _give(build, prototype.result, result, tree, place)
    build.return_(*returned)
    inner.kernel = False
    made = Function(name, [build.block], Level.DEVICE, _returned_type(returned), kernel, True)
    made.signature, made.shown, made.location = inner.signature, inner.shown, inner.location
    made.effects = inner.effects
    return made


def extern(build: Lowering, symbol: str, arguments: Sequence[tuple[Tree, model.Type]], type: model.Type) -> Tree:
    """A call of the C++ function `symbol`; its result has `type`."""
    operands = [_pass(build, tree, given) for tree, given in arguments]
    if type == model.NONE:
        build.effect(ops.EXTERN, *operands, symbol=symbol)
        return ()
    form, how = representation(type), passing(type, kernel=False)
    if how is Passing.VALUE:
        return unpack(build, build.op(ops.EXTERN, form, *operands, symbol=symbol), type)
    place = local(build, form)
    if how is Passing.ADDRESS:
        address = _generic(build, place, reference_of_cpp(model.Space.GENERIC, form))
        build.effect(ops.EXTERN, address, *operands, symbol=symbol)
    else:
        build.effect(ops.EXTERN, place, *operands, symbol=symbol, into=True)
    return unpack(build, build.load(place, form), type)


def _pass(build: Lowering, tree: Tree, type: model.Type) -> Value:
    """An argument as C++ takes it."""
    packed, how = pack(build, tree, type), passing(type, kernel=False)
    if how is Passing.VALUE:
        assert isinstance(packed, Value)
        return packed
    form = representation(exchanged(type))
    place = local(build, form)
    build.store(place, form, packed)
    return _generic(build, place, reference_of_cpp(model.Space.GENERIC, form)) if how is Passing.ADDRESS else place


def _returned_type(returned: Sequence[Value]) -> model.Type:
    type = returned[0].type if returned else model.NONE
    assert type is not None
    return type


def _result_place(build: Lowering, type: model.Type) -> Value | None:
    """The first parameter, if it is the address of where the result goes."""
    if type == model.NONE or passing(type, kernel=False) is not Passing.ADDRESS:
        return None
    place = Value(reference_of_cpp(model.Space.GENERIC, representation(type)), "result")
    build.block.params.append(place)
    return place


def _take(build: Lowering, type: model.Type, kernel: bool) -> Tree:
    """Adds a parameter of `type`; its value."""
    form = representation(type)
    how = passing(type, kernel)
    space = model.Space.GENERIC if how is Passing.ADDRESS else model.Space.LOCAL
    parameter = Value(form if how is Passing.VALUE else reference_of_cpp(space, form))
    build.block.params.append(parameter)
    tree: Tree = parameter if how is Passing.VALUE else build.load(parameter, form)
    return unpack(build, tree, type)


def _give(build: Lowering, source: model.Type, type: model.Type, tree: Tree, place: Value | None) -> list[Value]:
    """What the function returns, if anything, for a result of the type `source`."""
    if type == model.NONE:
        return []
    form = representation(type)
    packed = pack(build, tree, source)
    if passing(type, kernel=False) is Passing.VALUE:
        assert isinstance(packed, Value)
        return [packed]
    target = place or local(build, form)
    build.store(target, form, packed)
    return [] if place else [target]


# Between a value and its representation


def unpack(build: Lowering, tree: Tree, type: model.Type) -> Tree:
    """The tree of a value of `type` from that of its representation."""
    match type:
        case model.NoneType():
            return ()
        case model.Tuple() | model.Struct() | model.Subarray():
            assert isinstance(tree, tuple)
            return tuple(unpack(build, part, each) for part, each in zip(tree, _parts(type), strict=True))
        case model.Array():
            return _unpack_array(build, tree, type)
    return tree


def pack(build: Lowering, tree: Tree, type: model.Type) -> Tree:
    """The tree of the representation of a value of `type`."""
    match type:
        case model.NoneType():
            return build.const(model.UINT64, 0)
        case model.Tuple() | model.Struct() | model.Subarray():
            assert isinstance(tree, tuple)
            return tuple(pack(build, part, each) for part, each in zip(tree, _parts(type), strict=True))
        case model.Array():
            assert isinstance(tree, ArrayTree)
            return _pack_array(build, tree, type)
    return tree


def _parts(type: model.Tuple | model.Struct | model.Subarray) -> tuple[model.Type, ...]:
    return (type.dtype,) * type.count if isinstance(type, model.Subarray) else parts(type)


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
    """The descriptor of an array. Its strides in bytes are multiples of the elements' size: who passes it has seen to it."""
    size = build.number(model.INT64, size_of(type.dtype))
    # Arrays that are known to be small have shorter lengths.
    extents = tuple(build.convert(extent, model.INT64) for extent in tree.extents)
    steps = (build.convert(stride, model.INT64) for stride in build.strides(tree, type))
    strides = tuple(build.op(ops.QUOTIENT, model.INT64, step, size) for step in steps)
    data = _generic(build, tree.data, leaves(exchanged(type))[0])
    return (data, extents, strides) if type.ndim else (data,)


def _generic(build: Lowering, reference: Value, type: model.Type) -> Value:
    return reference if reference.type == type else build.op(ops.GENERIC, type, reference)


def local(build: Lowering, form: model.Type) -> Value:
    """Memory of the function's own for one value."""
    return build.op(ops.LOCAL, model.Ref(model.Space.LOCAL, form), count=1, align=usual_alignment(form))
