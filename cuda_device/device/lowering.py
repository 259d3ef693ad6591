"""`Lowering`, which writes device operations for Python's arithmetic, conversions, comparisons and array accesses.

A value of the typed level becomes a `Tree` at the device level: a real number or address is one `Value`, a tuple, vector or
complex number is a Python tuple of trees, an array is an `ArrayTree`, and None is an empty tuple. Aggregates therefore cost
nothing, and LLVM sees only registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Builder, Edge, Op, Value
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types import model
from cuda_device.types.layout import Access, accesses, leaves, parts, size_of, usual_alignment
from cuda_device.types.model import INT32, INT64, UINT32, UINT64, Array, Layout, Number
from cuda_device.types.promote import promote

FAR = 1 << 12
"""The largest offset, in elements, that load instructions encode."""


def shown_index(index: model.Type | None) -> str:
    """The text of an index in a message, by its type."""
    return "index {0}" if isinstance(index, Number) and index.signed else "index {0.uint64}"


def within(index: model.Type | None, nbytes: int = 0, whole: int = 0) -> str:
    """The help for an index out of bounds, which `runtime.gpu.report_message` completes with the index and the length.

    In dynamic shared memory, `nbytes` is the size of an element, and `whole` is 1 if the array begins with the first byte.
    """
    bits = index.bits if isinstance(index, Number) and not index.signed and index.bits >= 32 else 0
    return f"{{0:within {{1}} {bits} {nbytes} {whole:d}}}"


@dataclass(slots=True, eq=False)
class Sums:
    """What is known about the values of one function. `opaque` values derive from memory or from other threads.

    Products that may wrap are opaque, too, because nothing follows from their factors.
    """

    opaque: set[Value] = field(default_factory=set)
    constants: dict[Value, int] = field(default_factory=dict)
    dynamic: dict[Value, bool] = field(default_factory=dict)
    """References to dynamic shared memory, and whether to its first byte."""
    _sources: dict[Value, Value] = field(default_factory=dict)
    _parts: dict[Value, tuple[Value, int]] = field(default_factory=dict)

    def flows(self, value: Value, result: Value) -> None:
        """Records that `result` is, or is computed from, `value`."""
        if value in self.opaque:
            self.opaque.add(result)

    def added(self, code: ops.OpDef, result: Value, a: Value, b: Value, exact: bool) -> None:
        """Records the sum, difference or product of two numbers, which may have wrapped unless it is `exact`."""
        if a in self.opaque or b in self.opaque or (code is ops.MUL and not exact):
            self.opaque.add(result)
        if a in self.constants and code is ops.ADD:
            a, b = b, a
        if exact and code is not ops.MUL and a.nonneg and b in self.constants:
            self._parts[result] = a, self.constants[b] if code is ops.ADD else -self.constants[b]

    def converted(self, result: Value, value: Value) -> None:
        """Records a conversion, which may lose information."""
        self.flows(value, result)
        source, target = value.type, result.type
        assert isinstance(source, model.Number) and isinstance(target, model.Number)
        has_room = (value.nonneg or target.low <= source.low) and target.high >= source.high
        if source.is_integer and target.is_integer and has_room:
            self._sources[result] = value

    def before(self, value: Value, type: model.Number) -> Value:
        """Returns the value of `type` from which this one was widened, if as much is known about it, or else this one."""
        source: Value | None = value
        while source is not None and source.type != type:
            source = self._sources.get(source)
        return source if source is not None and source.nonneg >= value.nonneg else value

    def split(self, value: Value) -> tuple[Value, int] | None:
        """Splits a sum into a non-negative number and a constant. Returns None if `value` is no such sum."""
        while value in self._sources:
            value = self._sources[value]
        terms = self._parts.get(value)
        return terms if terms is not None and 0 < abs(terms[1]) <= FAR else None


@dataclass(frozen=True, slots=True)
class ArrayTree:
    """The parts of an array: its address, its shape, and its strides in bytes if the layout does not imply them."""

    data: Value
    extents: tuple[Value, ...]
    strides: tuple[Value, ...] = ()


Tree = Value | ArrayTree | tuple["Tree", ...]


def flatten(tree: Tree) -> Iterator[Value]:
    """The leaves of a tree, in the order of `types.layout.leaves`."""
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, ArrayTree):
        yield from (tree.data, *tree.extents, *tree.strides)
    else:
        for item in tree:
            yield from flatten(item)


def value_of(tree: Tree) -> Value:
    """The value of a tree that is a number or a reference."""
    assert isinstance(tree, Value)
    return tree


def grow(type: model.Type, values: Iterator[Value]) -> Tree:
    """The tree of a value of `type` from its leaves: the inverse of `flatten`."""
    match type:
        case model.Array(_, ndim, layout):
            data = next(values)
            extents = tuple(islice(values, ndim))
            strides = tuple(islice(values, ndim)) if layout is model.Layout.STRIDED else ()
            return ArrayTree(data, extents, strides)
        case model.Number() if type.is_complex:
            return next(values), next(values)
        case model.Number() | model.Ref() | model.Pointer():
            return next(values)
    return tuple(grow(part, values) for part in parts(type))


@dataclass(slots=True, eq=False)
class Lowering(Builder):
    """A builder of device operations with Python's semantics. `opened` lists the blocks that checks have created.

    The builders of a function's blocks share `sums`. `traced` says whether the race detector follows the program.
    """

    checked: bool = False
    traced: bool = False
    sums: Sums = field(default_factory=Sums)
    opened: list[Block] = field(default_factory=list)

    def op(
        self, code: ops.OpDef, type: model.Type | None, *operands: Value, nonneg: bool = False, **attributes: object
    ) -> Value:
        """Appends an operation with one result, which is opaque if the operation has effects."""
        result = Value(type, nonneg=nonneg)
        self.block.ops.append(Op(code, list(operands), [result], attributes, [], self.location))
        if code.effects is not ops.Effect.PURE:
            self.sums.opaque.add(result)
        if code in (ops.ELEMENT, ops.BYTES) and operands[0] in self.sums.dynamic:
            base, offset = operands
            self.sums.dynamic[result] = self.sums.dynamic[base] and self.constant_of(offset) == 0
        return result

    # Checked mode

    def check(self, holds: Value, message: str, *values: Value, help: str) -> None:
        """Ends the thread with a report unless `holds` is true. `{0}` and `{1}` in the message stand for `values`, integers.

        Later operations go to a new block. Callers test `checked` first. A condition that is known to hold is not checked,
        so that it adds no exit to the control flow.
        """
        if self.constant_of(holds):
            return
        failed, after = Block(), Block()
        numbers = [self.convert(value, model.INT64) for value in values]
        self.branch(holds, Edge(after, []), Edge(failed, []))
        failed.ops.append(
            Op(ops.REPORT, numbers, [], {"status": "check", "message": message, "help": help}, [], self.location)
        )
        failed.ops.append(Op(ops.EXIT, location=self.location))
        self.opened += [failed, after]
        self.block = after

    def constant_of(self, value: Value) -> int | None:
        """Returns the value of a constant integer or bool, or None."""
        return self.sums.constants.get(value)

    def check_alignment(self, reference: Value, align: int, subject: str) -> None:
        """Checks the alignment of a reference; the report begins with `subject`, such as "a view begins"."""
        address = self.op(ops.ADDRESS, model.UINT64, reference)
        rest = self.binary(ops.AND, address, self.number(model.UINT64, align - 1))
        holds = self.compare("==", rest, self.number(model.UINT64, 0))
        self.check(
            holds,
            f"{subject} at the address {{0:#x}}, which is not a multiple of {align}",
            address,
            help=f"begin at a multiple of {align} bytes",
        )

    # Numbers

    def number(self, type: model.Type, value: object) -> Value:
        """A constant in the machine's representation of `type`."""
        assert isinstance(type, model.Number)
        constant = self.const(type.machine, value)
        if isinstance(value, int):
            self.sums.constants[constant] = value
        return constant

    def constant(self, type: model.Number, value: object) -> Tree:
        """A constant number, which may be complex."""
        if not type.is_complex:
            return self.number(type, value)
        assert isinstance(value, (int, float, complex))
        whole = complex(value)
        return self.number(type.part, whole.real), self.number(type.part, whole.imag)

    def convert_tree(self, tree: Tree, type: model.Number) -> Tree:
        """Converts a number, which may be complex, to a type, which must be complex if the number is."""
        if not type.is_complex:
            assert isinstance(tree, Value)
            return self.convert(tree, type)
        real, *imaginary = (self.convert(part, type.part) for part in flatten(tree))
        return real, *(imaginary or [self.number(type.part, 0.0)])

    def convert(self, value: Value, type: model.Number, exact: bool = False) -> Value:
        """Converts `value` like the constructor of `type`. `exact` promises that it fits a narrower integer type."""
        target = type.machine
        if value.type == target:
            return value
        value = self.sums.before(value, target)
        source = number_in(value)
        if source == target:
            return value
        if source.is_float8 or target.is_float8:
            return self._convert_float8(value, target)
        if (source.bfloat or target.bfloat) and not {source, target} & {model.FLOAT32, model.FLOAT64}:
            # Machines convert bfloat16 only to and from float32, which represents all other numbers of up to 16 bits.
            value = self._exact(value)
            source = number_in(value)
        keeps_sign = source.is_float or target.is_float or not target.signed or target.high >= source.high
        promise = {"exact": True} if exact and target.high < source.high else {}
        result = self.op(ops.CONVERT, target, value, nonneg=value.nonneg and (keeps_sign or exact), **promise)
        self.sums.converted(result, value)
        return result

    def _exact(self, value: Value) -> Value:
        """Converts a number to a float32 that rounds to the same bfloat16."""
        source = number_in(value)
        if source.is_float or source.bits <= 16:
            return self.convert(value, model.FLOAT32)
        if source.bits == 64:
            # float64 has too few bits: the twelve lowest are replaced by one sticky bit.
            low = self.binary(ops.AND, value, self.number(source, 0xFFF))
            lost = self.convert(self.truth(low), source)
            kept = self.binary(ops.XOR, value, low)
            short = self.binary(ops.OR, kept, self.op(ops.SHL, source, lost, self.number(source, 11)))
            top = self.op(ops.SHR, source, value, self.number(source, 52))
            few = self.compare("==", top, self.number(source, 0))
            if source.signed:
                few = self.binary(ops.OR, few, self.compare("==", top, self.number(source, -1)))
            value = self.select(few, value, short)
        return self._to_odd(self.convert(value, model.FLOAT64))

    def _convert_float8(self, value: Value, target: model.Number) -> Value:
        """Converts 8-bit floats, which machines convert only to and from float32, without double rounding.

        An integer that float32 rounds is out of the range of all 8-bit floats.
        """
        source = number_in(value)
        if source.is_float8 and target != model.FLOAT32:
            return self.convert(self.convert(value, model.FLOAT32), target)
        if source == model.FLOAT64:
            value = self._to_odd(value)
        elif not source.is_float8 and source != model.FLOAT32:
            value = self.convert(value, model.FLOAT32)
        return self.op(ops.CONVERT, target, value, nonneg=value.nonneg)

    def _to_odd(self, value: Value) -> Value:
        """Converts a float64 to float32 with round-to-odd, so that a second rounding gives the correctly rounded result."""
        near = self.op(ops.CONVERT, model.FLOAT32, value)
        back = self.op(ops.CONVERT, model.FLOAT64, near)
        sizes = (self.op(ops.MATH, model.FLOAT64, number, function="fabs") for number in (back, value))
        away, lost = self.compare(">", *sizes), self.compare("!=", back, value)
        bits = self.op(ops.BITS, model.UINT32, near)
        cut = self.sum(ops.SUB, bits, self.convert(away, model.UINT32))
        return self.op(ops.BITS, model.FLOAT32, self.binary(ops.OR, cut, self.convert(lost, model.UINT32)))

    def _widened(self, *values: Value) -> list[Value]:
        """Converts 8-bit floats to float32, in which machines compute; double rounding is harmless here."""
        return [self.convert(value, model.FLOAT32) for value in values]

    def binary(self, code: ops.OpDef, a: Value, b: Value) -> Value:
        """An operation on two values of one type."""
        number = number_in(a)
        if number.is_float8:
            return self.convert(self.binary(code, *self._widened(a, b)), number)
        return self.op(code, number, a, b)

    def negative(self, value: Value) -> Value:
        """The negative of a number."""
        number = number_in(value)
        if not number.is_float:
            return self.sum(ops.SUB, self.number(number, 0), value)
        if number.is_float8:
            bits = self.op(ops.BITS, model.UINT8, value)
            return self.op(ops.BITS, number, self.binary(ops.XOR, bits, self.number(model.UINT8, 0x80)))
        return self.op(ops.NEG, number, value)

    def sum(self, code: ops.OpDef, a: Value, b: Value, exact: bool = False) -> Value:
        """`add`, `sub` or `mul`. `exact` promises that an integer result does not wrap."""
        if number_in(a).is_float8:
            return self.binary(code, a, b)
        nonneg = exact and code is not ops.SUB and a.nonneg and b.nonneg
        result = self.op(code, a.type, a, b, nonneg=nonneg, **({"exact": True} if exact else {}))
        self.sums.added(code, result, a, b, exact)
        return result

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """A comparison of two values of one type."""
        if number_in(a).is_float8:
            a, b = self._widened(a, b)
        return self.op(ops.COMPARE, model.BOOL, a, b, op=op)

    def select(self, condition: Value, a: Value, b: Value, extreme: str = "") -> Value:
        """`a` if `condition` else `b`. `extreme` is "max" or "min" if this selects the greater or lesser one."""
        more = {"extreme": extreme} if extreme else {}
        return self.op(ops.SELECT, a.type, condition, a, b, nonneg=a.nonneg and b.nonneg, **more)

    def truth(self, value: Value) -> Value:
        """Returns whether a number is nonzero."""
        return value if value.type == model.BOOL else self.compare("!=", value, self.number(number_in(value), 0))

    def exact_compare(self, op: str, a: Value, b: Value) -> Value:
        """A comparison of numbers of any types that is mathematically exact for integers."""
        x, y = number_in(a), number_in(b)
        if x == y:
            return self.compare(op, a, b)
        if x.is_float or y.is_float:
            common = promote(x, y) or model.FLOAT64
            return self.compare(op, self.convert(a, common), self.convert(b, common))
        if model.Number(model.NumberKind.UINT, 64) not in (x, y):
            return self.compare(op, self.convert(a, model.INT64), self.convert(b, model.INT64))
        if x.signed == y.signed or (a.nonneg and b.nonneg):
            return self.compare(op, self.convert(a, model.UINT64), self.convert(b, model.UINT64))
        return self._compare_mixed(op, a, b)

    def _compare_mixed(self, op: str, a: Value, b: Value) -> Value:
        """Compares a uint64 with a signed integer, of which a negative one is less than any uint64."""
        negative_first = number_in(a).signed
        signed = a if negative_first else b
        below = self.compare("<", signed, self.number(number_in(signed), 0))
        unsigned = self.compare(op, self.convert(a, model.UINT64), self.convert(b, model.UINT64))
        answer = op == "!=" or ((op in ("<", "<=")) == negative_first and op != "==")
        return self.select(below, self.number(model.BOOL, answer), unsigned)

    def floor_divide(self, a: Value, b: Value) -> Value:
        """`a // b` of two integers of one type."""
        quotient = self.op(ops.QUOTIENT, a.type, a, b, nonneg=a.nonneg and b.nonneg)
        if not number_in(a).signed or (a.nonneg and b.nonneg):
            return quotient
        return self.sum(ops.SUB, quotient, self.convert(self._wrong_side(a, b), number_in(a)))

    def modulo(self, a: Value, b: Value) -> Value:
        """`a % b` of two integers of one type."""
        remainder = self.op(ops.REMAINDER, a.type, a, b, nonneg=a.nonneg and b.nonneg)
        if not number_in(a).signed or (a.nonneg and b.nonneg):
            return remainder
        moved = self.sum(ops.ADD, remainder, b)
        result = self.select(self._wrong_side(a, b), moved, remainder)
        result.nonneg = b.nonneg
        return result

    def _wrong_side(self, a: Value, b: Value) -> Value:
        """Returns whether truncation and floor differ: the remainder is nonzero and its sign is not the divisor's."""
        remainder = self.binary(ops.REMAINDER, a, b)
        zero = self.number(number_in(a), 0)
        differs = self.compare("<", self.binary(ops.XOR, remainder, b), zero)
        return self.binary(ops.AND, self.compare("!=", remainder, zero), differs)

    def shift(self, code: ops.OpDef, a: Value, count: Value, known: object) -> Value:
        """`a << count` or `a >> count`; counts of at least the width shift out all bits. `known` is a constant count."""
        type = number_in(a)
        nonneg = code is ops.SHR and a.nonneg
        if isinstance(known, int):
            if 0 <= known < type.bits:
                return self.op(code, type, a, self.number(type, known), nonneg=nonneg)
            return self._shifted_out(code, a)
        far = self.compare(">=", self.convert(count, model.UINT64), self.number(model.UINT64, type.bits))
        near = self.select(far, self.number(type, 0), self.convert(count, type))
        shifted = self.op(code, type, a, near, nonneg=nonneg)
        return self.select(far, self._shifted_out(code, a), shifted)

    def _shifted_out(self, code: ops.OpDef, a: Value) -> Value:
        type = number_in(a)
        if code is ops.SHR and type.signed:
            return self.op(ops.SHR, type, a, self.number(type, type.bits - 1), nonneg=a.nonneg)
        return self.number(type, 0)

    # Calls

    def call(self, callee: str, operands: Sequence[Value], type: model.Type, nonneg: bool = False) -> Tree:
        """Calls another function of the module. Returns the tree of its result, a value of `type`."""
        types = leaves(type)
        result = Value(types[0] if len(types) == 1 else model.Tuple(types))
        self.append(Op(ops.CALL, list(operands), [result], {"callee": callee}, [], self.location))
        if len(types) == 1:
            result.nonneg = nonneg
            return grow(type, iter([result]))
        return grow(type, iter([self.op(ops.FIELD, part, result, index=i) for i, part in enumerate(types)]))

    # Memory

    def refer(self, address: Value, reference: model.Ref, offset: int = 0) -> Value:
        """A reference of another type to an address plus `offset` bytes."""
        if address.type == reference and not offset:
            return address
        return self.op(ops.BYTES, reference, address, self.const(model.INT64, offset))

    def load(self, reference: Value, type: model.Type) -> Tree:
        """Reads a value of `type`: numbers and vectors by accesses as wide as the alignment allows, other values part by part."""
        align = _alignment(reference, type)
        if isinstance(type, model.Number) and not type.is_complex:
            if align:
                return self.op(ops.LOAD, type.machine, reference, align=align)
            return self.op(ops.LOAD, type.machine, reference)
        return grow(type, iter([leaf for access in accesses(type, align) for leaf in self._read(reference, access)]))

    def _read(self, reference: Value, access: Access) -> Sequence[Value]:
        address, part = self._part(reference, access)
        value = self.op(ops.LOAD, part, address, align=access.align)
        if not isinstance(part, model.Vector):
            return [value]
        return [self.op(ops.FIELD, part.dtype.machine, value, index=i) for i in range(part.size)]

    def _part(self, reference: Value, access: Access) -> tuple[Value, model.Type]:
        """The address of one access to a composite value, and its type."""
        assert isinstance(reference.type, model.Ref) and isinstance(access.type, (model.Number, model.Ref))
        leaf = access.type.machine if isinstance(access.type, model.Number) else access.type
        part = model.Vector(leaf, access.count) if access.count > 1 and isinstance(leaf, model.Number) else leaf
        target = model.Ref(reference.type.space, part)
        return self.op(ops.BYTES, target, reference, self.const(model.INT64, access.offset)), part

    def store(self, reference: Value, type: model.Type, tree: Tree) -> None:
        """Writes a value of `type`, as `load` reads it."""
        align = _alignment(reference, type)
        if isinstance(type, model.Number) and not type.is_complex:
            self.effect(ops.STORE, reference, value_of(tree), **({"align": align} if align else {}))
            return
        leaves = flatten(tree)
        for access in accesses(type, align):
            address, part = self._part(reference, access)
            values = [next(leaves) for _ in range(access.count)]
            value = self.op(ops.MAKE, part, *values) if isinstance(part, model.Vector) else values[0]
            self.effect(ops.STORE, address, value, align=access.align)

    # Arrays

    def strides(self, tree: ArrayTree, type: model.Array) -> tuple[Value, ...]:
        """The strides in bytes."""
        if type.layout is model.Layout.STRIDED:
            return tree.strides
        steps: list[Value] = [self.number(model.INT64, size_of(type.dtype))]
        extents = tree.extents[:0:-1] if type.layout is model.Layout.C else tree.extents[:-1]
        for extent in extents:
            steps.append(self.sum(ops.MUL, steps[-1], self.convert(extent, model.INT64), exact=True))
        steps = steps[: type.ndim]
        return tuple(reversed(steps)) if type.layout is model.Layout.C else tuple(steps)

    def length(self, value: Value) -> Value:
        """Converts a non-negative number that fits to an int32."""
        result = self.convert(value, model.INT32, exact=True)
        result.nonneg = True
        return result


def _alignment(reference: Value, type: model.Type) -> int:
    """The alignment of a reference to a value of `type`, or 0 if it is that of the type."""
    assert isinstance(reference.type, model.Ref)
    return reference.type.align or (usual_alignment(type) if isinstance(type, (model.Struct, model.Tuple)) else 0)


def number_in(value: Value) -> model.Number:
    """The type of a value that is a number."""
    assert isinstance(value.type, model.Number), value.type
    return value.type


# Addresses of elements: indices become non-negative positions on their axes, and these an address.
#
#     x[i, j] of an array<float32, 2, C>            element x, position(i) * x.shape[1] + position(j)
#     x[i] of an array<float32, 1, strided>         x + position(i) * stride bytes
#
# For small arrays (see `types.model.Array`), this is computed in 32 bits, which is faster on a GPU.


def address_of(build: Lowering, tree: ArrayTree, type: Array, indices: Sequence[Value], behind: bool = False) -> Value:
    """Returns a reference to the element at `indices`, of which negative ones count from the end.

    With `behind`, an index may be out of bounds, because the reference is not accessed then.
    """
    if not indices:
        return tree.data
    # In a small array, an index that does not fit 32 bits is out of bounds, so checks need all of its bits.
    short = type.small and not build.checked
    order = _order(type)
    indices, beyond = _without_constants(build, type, order, indices, short)
    extents = tree.extents
    if type.small and build.checked:
        extents = tuple([build.convert(extent, INT64) for extent in extents])
    normalise = _small_place if short else _place
    positions = [normalise(build, i, extent) for i, extent in zip(indices, extents, strict=True)]
    if build.checked and not behind:
        is_dynamic = tree.data in build.sums.dynamic and type.ndim == 1
        memory = (size_of(type.dtype), build.sums.dynamic[tree.data]) if is_dynamic else ()
        _check_bounds(build, indices, positions, extents, memory)
    if type.layout is Layout.STRIDED:
        return _strided(build, tree, positions)
    offset = positions[order[0]]
    for axis in order[1:]:
        offset = build.sum(ops.ADD, build.sum(ops.MUL, offset, extents[axis], exact=True), positions[axis], exact=True)
    offset = build.convert(offset, INT64)
    if not any(beyond):
        return build.op(ops.ELEMENT, tree.data.type, tree.data, offset)
    element = build.op(ops.ELEMENT, tree.data.type, tree.data, offset, outside=True)
    return _moved(build, element, [(beyond[axis], extents[axis]) for axis in order])


def _moved(build: Lowering, element: Value, axes: Sequence[tuple[int, Value]]) -> Value:
    """Returns the element that is offset from `element` by a constant along each axis; each axis also has its length."""
    jumps, step, size = list[Value](), None, None
    slowest = next((number for number, (distance, _) in enumerate(axes) if distance), len(axes))
    for distance, extent in reversed(axes[slowest:]):
        step = size if step is None or size is None else build.sum(ops.MUL, step, size, exact=True)
        if distance:
            jumps.append(_times(build, step, distance))
        size = extent
    for jump in reversed(jumps):  # loads have room for the last one if it is a constant
        element = build.op(ops.ELEMENT, element.type, element, build.convert(jump, INT64), outside=True)
    return element


def _times(build: Lowering, step: Value | None, count: int) -> Value:
    """Multiplies a step by a constant; None is a step of one element."""
    if step is None:
        return build.number(INT64, count)
    if count == -1:
        return build.sum(ops.SUB, build.number(step.type or INT64, 0), step, exact=True)
    return step if count == 1 else build.sum(ops.MUL, step, build.number(step.type or INT64, count), exact=True)


def _order(type: Array) -> Sequence[int]:
    """The axes of a contiguous array, from the one with the largest stride to the one with contiguous elements."""
    return range(type.ndim) if type.layout is Layout.C else range(type.ndim - 1, -1, -1)


def _without_constants(
    build: Lowering, type: Array, order: Sequence[int], indices: Sequence[Value], short: bool
) -> tuple[list[Value], list[int]]:
    """Splits the indices into variable parts and added constants.

    The addresses of neighbouring elements then differ only by values that all threads share. The variable parts may be out of
    bounds; in 32 bits by at most one row, which cannot overflow.
    """
    parts, beyond = list(indices), [0] * len(indices)
    if build.checked or type.layout is Layout.STRIDED:
        return parts, beyond
    *rows, last = order
    room = 1 if short else FAR
    for axis in (last, *rows):
        terms = build.sums.split(parts[axis]) if parts[axis].nonneg else None
        if terms is not None and (axis == last or -terms[1] <= room):
            parts[axis], beyond[axis] = terms
            room += 0 if axis == last else min(0, beyond[axis])
    return parts, beyond


def _strided(build: Lowering, tree: ArrayTree, positions: Sequence[Value]) -> Value:
    wide = [build.convert(position, INT64) for position in positions]
    steps = [build.sum(ops.MUL, i, s, exact=True) for i, s in zip(wide, tree.strides, strict=True)]
    offset = steps[0]
    for step in steps[1:]:
        offset = build.sum(ops.ADD, offset, step, exact=True)
    return build.op(ops.BYTES, tree.data.type, tree.data, offset)


def _check_bounds(
    build: Lowering,
    indices: Sequence[Value],
    positions: Sequence[Value],
    extents: Sequence[Value],
    memory: Sequence[int],
) -> None:
    """A position below the axis is still negative, and so very large as an unsigned number."""
    for axis, (index, position, extent) in enumerate(zip(indices, positions, extents, strict=True)):
        inside = build.compare("<", build.convert(position, UINT64), build.convert(extent, UINT64))
        message = f"{shown_index(index.type)} is out of bounds for axis {axis} of size {{1}}"
        build.check(inside, message, index, extent, help=within(index.type, *memory))


def _place(build: Lowering, index: Value, extent: Value) -> Value:
    """Converts an index to a position on its axis, in 64 bits."""
    wide = build.convert(index, INT64)
    return wide if wide.nonneg or not _is_signed(index) else _wrap(build, wide, extent)


def _small_place(build: Lowering, index: Value, extent: Value) -> Value:
    """The same in 32 bits, which hold all valid indices of a small array."""
    if index.nonneg or not _is_signed(index):
        return build.length(index)
    short = build.convert(index, INT32, exact=True)
    if index not in build.sums.opaque:
        return _wrap(build, short, extent)
    # As unsigned numbers, negative indices are the largest, so the position is the lesser of index and index + length, which
    # is one instruction from Hopper on. If LLVM may prove that an index is not negative, `_wrap` serves it better.
    low = build.convert(short, UINT32)
    high = build.sum(ops.ADD, low, build.convert(extent, UINT32))
    return build.length(build.select(build.compare("<", low, high), low, high))


def _wrap(build: Lowering, index: Value, extent: Value) -> Value:
    """Adds the length to a negative index."""
    zero = build.number(INT32 if index.type == INT32 else INT64, 0)
    position = build.select(build.compare("<", index, zero), build.sum(ops.ADD, index, extent, exact=True), index)
    position.nonneg = not build.checked  # if the index is in bounds
    return position


def _is_signed(value: Value) -> bool:
    return isinstance(value.type, Number) and value.type.signed
