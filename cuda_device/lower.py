"""Lowers typed IR to device IR, whose values are numbers and addresses and whose operations are machine operations.

Tuples, arrays, ranges and None are divided into their leaves (`device.lowering.Tree`), also as parameters of functions and
blocks. Python's operators become sequences of machine operations. Rows of the device tables lower themselves.

    %2: float32 = py.getitem %x %i       →     %3: int64 = convert %i
                                               %4: ref<global, float32> = element %x %3
                                               %5: float32 = load %4
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from cuda_device.device import numeric, rows
from cuda_device.device.lowering import ArrayTree, Lowering, Sums, Tree, address_of, flatten, grow, number_in
from cuda_device.device.rows import Typed
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Builder, Edge, Function, Module, Op, Value
from cuda_device.ir.ops import Effect, Level
from cuda_device.ir.simplify import join_back_edges, simplify
from cuda_device.lazy_dataclasses import replace
from cuda_device.types import model
from cuda_device.types.known import of_type
from cuda_device.types.layout import MOST_NUMBERS, known_alignment, leaves, pointee_of


class Lowerer:
    """Lowers one function; `trees` maps typed values to their trees."""

    def __init__(self, source: Function, checked: bool, in_place: Mapping[str, Function], traced: bool = False) -> None:
        self.source, self.checked, self.in_place, self.traced = source, checked, in_place, traced
        self.trees: dict[Value, Tree] = {}
        self.blocks = {id(block): Block() for block in source.blocks}
        self.constants: dict[Value, object] = {}
        self.falling: set[Value] = set()
        """See `Function.falling`."""
        self.sums = Sums()
        self.build = Lowering(Block(), checked=checked, sums=self.sums, traced=traced)

    def parameter(self, block: Block, param: Value) -> Tree:
        """Gives a block the leaves of a parameter; returns their tree."""
        assert param.type is not None
        parts = [Value(leaf, param.hint) for leaf in leaves(param.type)]
        if isinstance(param.type, model.Number):
            parts[0].nonneg = param.nonneg
        if isinstance(param.type, model.Array):
            for extent in parts[1 : 1 + param.type.ndim]:
                extent.nonneg = True
        block.params += parts
        return grow(param.type, iter(parts))

    def value(self, value: Value) -> Value:
        """The lowered number."""
        tree = self.trees[value]
        assert isinstance(tree, Value)
        return tree

    def values(self, op: Op) -> list[Value]:
        """The lowered operands of an operation, which are numbers."""
        return [self.value(operand) for operand in op.operands]

    def leaves(self, op: Op) -> list[Value]:
        """The leaves of an operation's operands."""
        return [leaf for operand in op.operands for leaf in flatten(self.trees[operand])]

    def array(self, value: Value) -> tuple[ArrayTree, model.Array]:
        """The tree of an array."""
        tree = self.trees[value]
        assert isinstance(tree, ArrayTree) and isinstance(value.type, model.Array)
        return tree, value.type

    def lower(self, operations: Iterable[Op]) -> None:
        """Lowers operations of typed IR at the end of the current block."""
        for op in operations:
            self.build.location = op.location
            tree = RULES[op.code](self, op)
            if tree is not None:
                self.define(op, tree)

    def call_in_place(self, function: Function, arguments: Iterable[Tree]) -> Tree:
        """Lowers the blocks of a function at its call; returns its result, which is known in the block of its only return."""
        entry, *others = function.blocks
        (last,) = (block for block in function.blocks if block.terminator.code is ops.RETURN)
        build, blocks_of_caller = self.build, self.blocks
        behind = build.block
        self.trees.update(zip(entry.params, arguments, strict=True))
        self.blocks = {id(entry): build.block} | {id(block): Block() for block in others}
        for block in others:
            target = self.blocks[id(block)]
            build.opened.append(target)
            self.trees.update((param, self.parameter(target, param)) for param in block.params)
        for block in function.blocks:
            build.block = self.blocks[id(block)]
            self.lower(block.ops[:-1] if block is last else block.ops)
            behind = build.block if block is last else behind
        build.block, self.blocks = behind, blocks_of_caller
        return self.trees[last.terminator.operands[0]] if last.terminator.operands else ()

    def define(self, op: Op, tree: Tree) -> None:
        """Sets the tree of the operation's only result, and keeps whether inference found it nonnegative."""
        (result,) = op.results
        if isinstance(tree, Value) and result.nonneg and not tree.nonneg:
            tree.nonneg = True
        self.trees[result] = tree


def _iterate(lowerer: Lowerer, op: Op) -> Tree:
    """A range → the next item, the stop and the step, in the type of the counter."""
    build, type = lowerer.build, op.result.type
    tree = lowerer.trees[op.operands[0]]
    if isinstance(type, model.RangeIterator) and type.counter is not None:
        start, stop, step = flatten(tree)
        if not type.counter.signed and not stop.nonneg:
            zero = build.number(number_in(stop), 0)
            stop = build.select(build.compare("<", stop, zero), zero, stop)
        tree = tuple(build.convert(part, type.counter, exact=True) for part in (start, stop, step))
    return tree


def _advance(lowerer: Lowerer, op: Op) -> None:
    """One step of a range.

    A step that cannot overflow gives LLVM's canonical loop: a step of 1 or -1, a step up of an index or of an unsigned counter
    for signed numbers, and a step that is `roomy` by its bounds. Any other step might pass the end of the type, so the
    iterator moves to its stop if too little is left.
    """
    build = lowerer.build
    iterator = lowerer.trees[op.operands[0]]
    type = op.operands[0].type
    assert isinstance(iterator, tuple) and isinstance(type, model.RangeIterator)
    item, stop, step = iterator
    assert isinstance(item, Value) and isinstance(stop, Value) and isinstance(step, Value)
    known = op.attributes.get("step")
    number = type.counts_in
    if isinstance(known, int):
        step = build.number(number, known)
    up = bool(op.attributes.get("up")) or (isinstance(known, int) and known > 0) or not number.signed
    direction = True if up else False if isinstance(known, int) else None
    has_room = number == model.INDEX or (type.counter is not None and not number.signed)
    exact = (
        known == 1  # which stops at the stop itself
        or (known == -1 and number.signed)
        or (up and has_room)  # one step beyond the largest stop is still in the type
        or bool(op.attributes.get("roomy"))  # so are all steps, by their bounds
    )
    after = build.sum(ops.ADD, item, step, exact=True) if exact else _step(build, item, stop, step, direction)
    more, current = _has_more(build, item, stop, step, direction), build.convert(item, type.item, exact=True)
    if op.results[1].nonneg:
        # A counter that goes down may be negative behind the last item.
        if not up:
            lowerer.falling |= {item, current}
        item.nonneg = current.nonneg = True
    trees: tuple[Tree, ...] = (more, current, (after, stop, iterator[2]))
    lowerer.trees.update(zip(op.results, trees, strict=True))


RangeDirection = bool | None
"""Whether a range goes up; None if only run time knows."""


def _by_direction(
    build: Lowering, step: Value, direction: RangeDirection, up: Callable[[], Value], down: Callable[[], Value]
) -> Value:
    """`up()` for a positive step, `down()` for a negative one; a select between them if only run time knows."""
    if direction is not None:
        return up() if direction else down()
    return build.select(build.compare(">", step, build.number(number_in(step), 0)), up(), down())


def _has_more(build: Lowering, item: Value, stop: Value, step: Value, direction: RangeDirection) -> Value:
    return _by_direction(
        build, step, direction, lambda: build.compare("<", item, stop), lambda: build.compare(">", item, stop)
    )


def _step(build: Lowering, item: Value, stop: Value, step: Value, direction: RangeDirection) -> Value:
    """item + step, or stop if the sum would pass it. The distances are unsigned, so they do not overflow."""
    unsigned = model.Number(model.NumberKind.UINT, number_in(item).bits)

    def left(end: Value, start: Value, stride: Value) -> Value:
        distance = build.sum(ops.SUB, build.convert(end, unsigned), build.convert(start, unsigned))
        return build.compare(">", distance, build.convert(stride, unsigned))

    room = _by_direction(
        build,
        step,
        direction,
        lambda: left(stop, item, step),
        lambda: left(item, stop, build.sum(ops.SUB, build.number(number_in(step), 0), step)),
    )
    return build.select(room, build.sum(ops.ADD, item, step), stop)


Rule = Callable[[Lowerer, Op], "Tree | None"]
"""Lowers an operation: returns the tree of its only result; None if it has no result or the rule has set the trees."""


def lower_module(module: Module, checked: bool = False, debug: bool = False, traced: bool = False) -> Module:
    """The device-level module of a typed one, with the checks of checked mode if `checked`.

    Operations replace calls of functions that are `in_place` or pass many values, unless a debugger is to show them. A step of a
    generator takes and returns all that the generator keeps, such as the tuple that it goes through, so that without this a loop
    over n items would pass n times n values.
    """
    steps = [] if debug else list(filter(_may_be_in_place, module.functions[1:]))
    calls = Counter(op.attributes["callee"] for op in module.ops() if op.code is ops.CALL) if steps else {}
    in_place = {step.name: step for step in steps if _is_in_place(step, calls[step.name])}
    kept = [function for function in module.functions if function.name not in in_place]
    return Module([_function(Lowerer(function, checked, in_place, traced)) for function in kept])


_MANY = 32
"""LLVM compiles a call that passes more values in so much more time than the operations of the function in its place."""


def _may_be_in_place(function: Function) -> bool:
    """Whether a function is a step of a generator or a comprehension, or passes many values, such as a tile in registers."""
    if function.in_place:
        return True
    types = [function.result, *(param.type for param in function.params if param.type is not None)]
    return sum(map(_number_of_leaves, types)) > _MANY


@lru_cache(maxsize=1024)
def _number_of_leaves(type: model.Type) -> int:
    return len(leaves(type))


def _is_in_place(function: Function, calls: int) -> bool:
    """Whether a function returns once, and has no shared arrays, which all its specialisations share.

    If it has effects other than those of checks, it is called once: threads that call it at two places may meet in it.
    """
    if calls > 1 and (function.effects & ~Effect.EXITS or not function.in_place):
        return False
    operations = function.ops()
    made = (op.result.type for op in operations if op.code is ops.INTRINSIC)
    has_shared = any(isinstance(type, model.Array) and type.space is model.Space.SHARED for type in made)
    repeats = any(edge.block is function.blocks[0] for op in operations for edge in op.successors)
    return [op.code for op in operations].count(ops.RETURN) == 1 and not has_shared and not repeats


def number_places(module: Module) -> None:
    """Numbers the operations whose copies must remain one place or array: those that wait, report or print, and shared arrays."""
    places = 0
    numbers: dict[tuple[object, ...], int] = {}
    for function in module.functions:
        passes: Counter[tuple[object, ...]] = Counter()  # an unrolled loop has an array for each iteration
        for op in function.ops():
            if Effect.SUSPENDS in op.code.effects or op.code in (ops.REPORT, ops.PRINT):
                places += 1
                op.attributes["place"] = places
            elif op.code is ops.SHARED:
                array = op.location, op.result.type, op.attributes["count"], op.attributes["align"]
                key = function.family or function.name, passes[array], *array
                passes[array] += 1
                op.attributes["number"] = numbers.setdefault(key, len(numbers))


def _function(lowerer: Lowerer) -> Function:
    source = lowerer.source
    for block in source.blocks:
        target = lowerer.blocks[id(block)]
        for param in block.params:
            lowerer.trees[param] = lowerer.parameter(target, param)
    opened: list[Block] = []
    for block in source.blocks:
        block_of = lowerer.blocks[id(block)]
        lowerer.build = Lowering(block_of, checked=lowerer.checked, sums=lowerer.sums, traced=lowerer.traced)
        lowerer.lower(block.ops)
        opened += lowerer.build.opened
    result = leaves(source.result)
    lowered = replace(
        source,
        blocks=[*lowerer.blocks.values(), *opened],
        level=Level.DEVICE,
        result=result[0] if len(result) == 1 else model.Tuple(result) if result else source.result,
        interop=False,
        prototype=None,
        falling=lowerer.falling,
    )
    _join_returns(lowered)
    simplify(lowered)
    join_back_edges(lowered)
    return lowered


def _join_returns(function: Function) -> None:
    """Joins the returns of a function that returns several values.

    If LLVM inlines a function with several such returns, the aggregate becomes a phi, which hides the elements that are constant
    on an edge: a generator that continues returns true with its value, and the loop over it branches on that.

        ^1():  %3 = make %a %b; return %3            ^1():  jump ^3(%a, %b)
        ^2():  %4 = make %c %d; return %4      →     ^2():  jump ^3(%c, %d)
                                                     ^3(%5, %6):  %7 = make %5 %6; return %7
    """
    if not isinstance(function.result, model.Tuple) or len(function.result.elements) < 2:
        return
    ends = [block for block in function.blocks if block.terminator.code is ops.RETURN]
    if len(ends) < 2:
        return
    last = Block([Value(element) for element in function.result.elements])
    for block in ends:
        make, end = block.ops[-2:]
        assert make.code is ops.MAKE
        block.ops[-2:] = [Op(ops.JUMP, [], [], {}, [Edge(last, list(make.operands))], end.location)]
    build = Builder(last, ends[-1].terminator.location)
    build.return_(build.op(ops.MAKE, function.result, *last.params))
    function.blocks.append(last)


def _const(lowerer: Lowerer, op: Op) -> None:
    result, value = op.result, op.attributes["value"]
    assert result.type is not None
    lowerer.constants[result] = value
    if isinstance(result.type, model.Number):
        lowerer.trees[result] = lowerer.build.constant(result.type, value)
    else:  # None, or an undefined variable
        zeros = (lowerer.build.const(leaf, 0) for leaf in leaves(result.type))
        lowerer.trees[result] = grow(result.type, zeros)


def _convert(lowerer: Lowerer, op: Op) -> Tree:
    assert isinstance(op.result.type, model.Number)
    if op.attributes.get("exact"):
        return lowerer.build.convert(lowerer.value(op.operands[0]), op.result.type, exact=True)
    return lowerer.build.convert_tree(lowerer.trees[op.operands[0]], op.result.type)


def _field(lowerer: Lowerer, op: Op) -> Tree:
    tree = lowerer.trees[op.operands[0]]
    assert isinstance(tree, tuple)
    part: Tree = tree[op.attributes["index"]]
    return part


def _extent(lowerer: Lowerer, op: Op) -> Tree:
    tree, _ = lowerer.array(op.operands[0])
    return lowerer.build.convert(tree.extents[op.attributes["axis"]], model.INDEX)


def _stride(lowerer: Lowerer, op: Op) -> Tree:
    tree, array = lowerer.array(op.operands[0])
    stride: Value = lowerer.build.strides(tree, array)[op.attributes["axis"]]
    return stride


def _window(lowerer: Lowerer, op: Op) -> Tree:
    old, tree = op.operands[0].type, lowerer.trees[op.operands[0]]
    array = op.result.type
    assert isinstance(old, (model.Array, model.Ref, model.Pointer)) and isinstance(tree, (ArrayTree, Value))
    offset, *parts = (lowerer.value(operand) for operand in op.operands[1:])
    address = tree.data if isinstance(tree, ArrayTree) else tree
    if isinstance(array, model.Pointer):
        (leaf,) = leaves(array)
        assert isinstance(leaf, model.Ref) and isinstance(address.type, model.Ref)
        if address.type.space is not leaf.space:
            address = lowerer.build.op(ops.GENERIC, replace(address.type, space=leaf.space), address)
        return lowerer.build.op(ops.BYTES, leaf, address, offset)
    assert isinstance(array, model.Array)
    reference = model.Ref(array.space, pointee_of(array.dtype), align=array.align)
    aligned = {"aligned": op.attributes["aligned"]} if "aligned" in op.attributes else {}
    data = lowerer.build.op(ops.BYTES, reference, address, offset, **aligned)
    extents = parts[: array.ndim]
    if lowerer.checked and op.attributes.get("used"):
        _check_not_null(lowerer.build, address, extents)
    for extent in extents:
        extent.nonneg = True
    if lowerer.checked and (isinstance(old, model.Pointer) or known_alignment(array) > known_alignment(old)):
        lowerer.build.check_alignment(data, known_alignment(array), f"a view of {array.dtype} begins")
    if array.small:
        extents = [lowerer.build.length(extent) for extent in extents]
    return ArrayTree(data, tuple(extents), tuple(parts[array.ndim :]))


_FIRST_ADDRESS = 4096
"""No memory is below it."""


def _check_not_null(build: Lowering, pointer: Value, extents: Sequence[Value]) -> None:
    """Reports a pointer that is null or nearly null, unless the array has no elements."""
    address = build.op(ops.ADDRESS, model.UINT64, pointer)
    holds = build.compare(">=", address, build.number(model.UINT64, _FIRST_ADDRESS))
    for extent in extents:
        holds = build.binary(ops.OR, holds, build.compare("==", extent, build.number(model.INDEX, 0)))
    build.check(
        holds,
        "the pointer {0:#x} is null",
        address,
        help="pass the address of an array, or ask `if p` before p is used",
    )


def _unary(lowerer: Lowerer, op: Op) -> Tree:
    build, (value,) = lowerer.build, lowerer.values(op)
    number = number_in(value)
    match op.attributes["op"]:
        case "not":
            return build.binary(ops.XOR, value, build.number(model.BOOL, True))
        case "-":
            return build.negative(value)
        case "~":
            return build.binary(ops.XOR, value, build.number(number, -1 if number.signed else number.high))
        case other:
            raise CompilerBug(f"no unary operator {other}")


_SUMS = {"+": ops.ADD, "-": ops.SUB, "*": ops.MUL}
_PLAIN = {"/": ops.DIV, "&": ops.AND, "|": ops.OR, "^": ops.XOR}
_SHIFTS = {"<<": ops.SHL, ">>": ops.SHR}


def _binary(lowerer: Lowerer, op: Op) -> Tree:
    build, sign, (a, b) = lowerer.build, op.attributes["op"], lowerer.values(op)
    type = number_in(op.result)
    if sign in _SUMS:
        # The overflow of a builtin integer is undefined in the specification, so LLVM may widen it.
        exact = (type.builtin and type.is_integer) or bool(op.attributes.get("exact"))
        return build.sum(_SUMS[sign], a, b, exact=exact)
    if sign in _PLAIN:
        return build.binary(_PLAIN[sign], a, b)
    if sign in _SHIFTS:
        return build.shift(_SHIFTS[sign], a, b, lowerer.constants.get(op.operands[1]))
    if sign == "**":
        return numeric.call_math(build, "pow", a, b)
    return build.floor_divide(a, b) if sign == "//" else build.modulo(a, b)


def _getitem(lowerer: Lowerer, op: Op) -> Tree:
    owner, *indices = op.operands
    tree, array = lowerer.array(owner)
    address = address_of(lowerer.build, tree, array, [lowerer.value(index) for index in indices])
    if not isinstance(array.dtype, model.Number):
        _check_size(op, array.dtype)
    return lowerer.build.load(address, array.dtype)


def _check_size(op: Op, type: model.Type) -> None:
    """Refuses to load a struct with a large subarray."""
    count = len(leaves(type))
    if count > MOST_NUMBERS:
        raise CompileError(
            f"a value of {count} numbers is too large: the limit is {MOST_NUMBERS}",
            op.location,
            "use the needed parts in place, as in a[i].m[j], or copy its members: a[i].m = b[j].m",
        )


def _refer(lowerer: Lowerer, op: Op) -> Tree:
    owner, *indices = op.operands
    tree, array = lowerer.array(owner)
    places = [lowerer.value(index) for index in indices]
    address = address_of(lowerer.build, tree, array, places, behind=bool(op.attributes.get("behind")))
    assert isinstance(op.result.type, model.Ref)
    return lowerer.build.refer(address, op.result.type)


def _member(lowerer: Lowerer, op: Op) -> Tree:
    assert isinstance(op.result.type, model.Ref)
    reference = replace(op.result.type, pointee=pointee_of(op.result.type.pointee))
    return lowerer.build.refer(lowerer.value(op.operands[0]), reference, op.attributes["offset"])


def _element(lowerer: Lowerer, op: Op) -> Tree:
    reference, index = lowerer.values(op)
    return lowerer.build.op(ops.ELEMENT, reference.type, reference, index)


def _load(lowerer: Lowerer, op: Op) -> Tree:
    assert op.result.type is not None
    _check_size(op, op.result.type)
    return lowerer.build.load(lowerer.value(op.operands[0]), op.result.type)


def _store(lowerer: Lowerer, op: Op) -> None:
    reference, item = op.operands
    assert item.type is not None
    lowerer.build.store(lowerer.value(reference), item.type, lowerer.trees[item])


def _setitem(lowerer: Lowerer, op: Op) -> None:
    owner, *indices, item = op.operands
    tree, array = lowerer.array(owner)
    address = address_of(lowerer.build, tree, array, [lowerer.value(index) for index in indices])
    lowerer.build.store(address, array.dtype, lowerer.trees[item])


def _intrinsic(lowerer: Lowerer, op: Op) -> Tree:
    result, row = op.result, rows.BY_NAME[op.attributes["name"]]
    assert result.type is not None
    typed = Typed(of_type(result.type, result.nonneg), settings=op.attributes.get("settings", ()))
    return row.lower(lowerer.build, [lowerer.trees[operand] for operand in op.operands], typed)


def _call(lowerer: Lowerer, op: Op) -> None:
    type = op.result.type
    assert type is not None
    callee = op.attributes["callee"]
    if callee in lowerer.in_place:
        arguments = [lowerer.trees[operand] for operand in op.operands]
        lowerer.trees[op.result] = lowerer.call_in_place(lowerer.in_place[callee], arguments)
        return
    lowerer.trees[op.result] = lowerer.build.call(callee, lowerer.leaves(op), type, op.result.nonneg)


def _extend(lowerer: Lowerer, op: Op) -> Tree:
    own, *items = (lowerer.trees[operand] for operand in op.operands)
    assert isinstance(own, tuple)
    return (*own, *items)


def _extern(lowerer: Lowerer, op: Op) -> None:
    from cuda_device.device import cpp_calls

    arguments = [(lowerer.trees[operand], operand.type) for operand in op.operands if operand.type is not None]
    tree = cpp_calls.call_extern(lowerer.build, op.attributes["symbol"], arguments, op.results[0].type or model.NONE)
    lowerer.trees[op.results[0]] = tree


def _edges(lowerer: Lowerer, op: Op) -> list[Edge]:
    edges = []
    for edge in op.successors:
        target = lowerer.blocks[id(edge.block)]
        leaves = [leaf for argument in edge.arguments for leaf in flatten(lowerer.trees[argument])]
        for leaf, param in zip(leaves, target.params, strict=True):
            lowerer.sums.flows(leaf, param)
        edges.append(Edge(target, leaves))
    return edges


def _end(lowerer: Lowerer, op: Op) -> None:
    operands = lowerer.leaves(op)
    if op.code is ops.RETURN and len(operands) > 1:
        operands = [lowerer.build.op(ops.MAKE, model.Tuple(leaves(lowerer.source.result)), *operands)]
    lowerer.build.append(Op(op.code, operands, [], {}, _edges(lowerer, op), op.location))


def _raise(lowerer: Lowerer, op: Op) -> None:
    words = {name: op.attributes[name] for name in ("message", "help")}
    lowerer.build.effect(ops.REPORT, *lowerer.values(op), status=op.attributes["kind"], **words)
    lowerer.build.append(Op(ops.EXIT, location=op.location))


def _check(lowerer: Lowerer, op: Op) -> None:
    holds, *values = lowerer.values(op)
    lowerer.build.check(holds, op.attributes["message"], *values, help=op.attributes.get("help", ""))


def _unreachable(lowerer: Lowerer, op: Op) -> None:
    """Ends the block, unless an exit has already ended it."""
    if not lowerer.build.block.ops or lowerer.build.block.terminator.code is not ops.EXIT:
        _end(lowerer, op)


def _variable(lowerer: Lowerer, op: Op) -> None:
    """A number, or the address of an array."""
    tree = lowerer.trees[op.operands[0]]
    value = tree.data if isinstance(tree, ArrayTree) else tree
    if isinstance(value, Value):
        lowerer.build.effect(ops.VARIABLE, value, **op.attributes)


RULES: dict[ops.OpDef, Rule] = {
    ops.VARIABLE: _variable,
    ops.PY_RAISE: _raise,
    ops.PY_CHECK: _check,
    ops.PRINT: lambda low, op: low.build.effect(ops.PRINT, *low.values(op), **op.attributes),
    ops.CONST: _const,
    ops.CONVERT: _convert,
    ops.MAKE: lambda low, op: tuple(low.trees[operand] for operand in op.operands),
    ops.EXTEND: _extend,
    ops.FIELD: _field,
    ops.EXTENT: _extent,
    ops.STRIDE: _stride,
    ops.WINDOW: _window,
    ops.PY_UNARY: _unary,
    ops.PY_BINARY: _binary,
    ops.PY_COMPARE: lambda low, op: low.build.exact_compare(op.attributes["op"], *low.values(op)),
    ops.PY_TRUTH: lambda low, op: low.build.truth(*low.values(op)),
    ops.PY_GETITEM: _getitem,
    ops.REFER: _refer,
    ops.MEMBER: _member,
    ops.ELEMENT: _element,
    ops.LOAD: _load,
    ops.STORE: _store,
    ops.PY_SETITEM: _setitem,
    ops.PY_ITER: _iterate,
    ops.PY_NEXT: _advance,
    ops.INTRINSIC: _intrinsic,
    ops.CALL: _call,
    ops.EXTERN: _extern,
    ops.JUMP: _end,
    ops.BRANCH: _end,
    ops.RETURN: _end,
    ops.UNREACHABLE: _unreachable,
}
