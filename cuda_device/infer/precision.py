"""Finds the losses of precision that `PrecisionWarning` reports.

    img[i] * gain           uint8, and a Python int that is known only at run time: the product is a uint8
    y[i] + 0.1 * i          float64, and a product that was computed in float32 because a Python float is one
    total += half[i]        float16, also for a total that started as 0.0

The promotion rules allow these losses, but programs seldom intend them. The analysis runs on typed IR, in which an implicit
conversion is a `convert`. An integer may lose digits in an operation or where control flow joins, unless its bounds show that its
values fit. For floats, an abstract interpretation over three values determines where the digits of a float32 come from:

    EXACT < COMPUTED < GIVEN        exact constants and integers; results of arithmetic on these and on Python floats; numbers
                                    that the program itself made float32: elements of arrays, `float32(x)`

A `COMPUTED` number that becomes a float64 has fewer digits than a float64 suggests.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import reduce
from typing import TypeAlias

from cuda_device.errors import Location, Loss
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Builder, Function, Module, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.types.model import BOOL, COMPLEX128, INDEX, Bundle, Number, Struct, Tuple, Type
from cuda_device.types.promote import is_narrow_number, is_wide_float

_SHOWING = (ops.PRINT, ops.PY_RAISE, ops.PY_CHECK)
"""Operations that only show a number; converting it loses nothing that the program computes with."""
_STORES = (ops.PY_SETITEM, ops.PY_SETATTR, ops.STORE)
"""Stores convert an int to the type of the element or member. They are not reported, as programs usually store ints that fit."""
_NARROWING = ("float", "complex")
"""Calls of Python's types, which have the precision of float32 also for wider arguments."""
_COMPUTING = (ops.PY_BINARY, ops.CALL)
_GROWING = frozenset(("+", "-", "*", "<<", "**"))
_CHECKED = frozenset("+-*")
_WIDER = "start with a wider type, as in int32(0)"


class FloatOrigin(IntEnum):
    """Where the digits of a float come from. The origin of a result is the greatest of its operands."""

    EXACT = 0
    COMPUTED = 1
    GIVEN = 2


Origin: TypeAlias = "FloatOrigin | tuple[Origin, ...]"
"""A tuple has an origin for each element, or one for all."""


def _joined(a: Origin, b: Origin) -> Origin:
    """The origin of a value that comes from either of two."""
    if a == b:
        return a
    if isinstance(a, tuple):
        others = b if isinstance(b, tuple) else (b,) * len(a)
        return tuple(map(_joined, a, others))
    return _joined(b, a) if isinstance(b, tuple) else max(a, b)


def _greatest(origins: Iterable[Origin]) -> FloatOrigin:
    """The greatest of several origins and of their elements."""
    flat = (_greatest(origin) if isinstance(origin, tuple) else origin for origin in origins)
    return max(flat, default=FloatOrigin.EXACT)


def _of_type(type: Type | None) -> Origin:
    """The origin of an argument or a member of a type: a Python float is computed in float32."""
    match type:
        case Tuple(parts) | Bundle(parts):
            return tuple(map(_of_type, parts))
        case Number() if type.builtin and not type.is_integer:
            return FloatOrigin.COMPUTED
    return FloatOrigin.GIVEN


class _Losses:
    """The losses of a module. For `adopted` and `given` see `frame.Program`."""

    def __init__(self, module: Module, adopted: set[Value], given: set[Value]) -> None:
        self.module, self.adopted, self.given = module, adopted, given
        self.bodies: dict[tuple[str, tuple[Origin, ...], Location | None], _Body] = {}
        self.reported: dict[tuple[Location, str], Loss] = {}
        self.grown: dict[Value, tuple[Function, Op]] = {}
        """The operations in which variables that started as Python ints may wrap, by their results."""

    def report(self, location: Location, reason: str, help: str) -> None:
        """Adds a loss unless it is known."""
        self.reported.setdefault((location, reason), Loss(location, reason, help))

    def enter(self, function: Function, arguments: tuple[Origin, ...], where: Location | None = None) -> _Body:
        """Analyses a function for these arguments. Losses in the library are reported at `where`, the user's call."""
        key = function.name, arguments, where if function.location.is_ours else None
        if key not in self.bodies:
            self.bodies[key] = _Body(self, function, arguments, key[-1])
            self.bodies[key].find_origins()
        return self.bodies[key]


class _Body:
    """One function, for the origins of its arguments."""

    def __init__(
        self, losses: _Losses, function: Function, arguments: Sequence[Origin], where: Location | None
    ) -> None:
        self.losses, self.function, self.where = losses, function, where
        self.result: Origin = FloatOrigin.EXACT
        """It is exact during its own computation, in recursive functions."""
        self.calls: dict[Value, _Body] = {}
        """The analyses of callees, by the results of the calls, for the current origins of the arguments."""
        self.origins: dict[Value, Origin] = dict(zip(function.params, arguments, strict=True))
        self.makers: dict[Value, Op] = {value: op for op in function.ops() for value in op.results}
        self.arrives: dict[Value, list[Value]] = {}
        for block in function.blocks:
            for edge in block.successors:
                for param, argument in zip(edge.block.params, edge.arguments, strict=True):
                    self.arrives.setdefault(param, []).append(argument)

    def find_origins(self) -> None:
        """Finds the origins."""
        changed = True
        while changed:
            changed = False
            for value, origin in self._step():
                before = self.origins.get(value, FloatOrigin.EXACT)
                if (after := _joined(before, origin)) != before:
                    self.origins[value], changed = after, True
        ends = [block.terminator for block in self.function.blocks if block.terminator.code is ops.RETURN]
        self.result = reduce(_joined, (self.origin_of(value) for end in ends for value in end.operands), self.result)

    def tell(self) -> None:
        """Reports the losses."""
        shown = {value for op in self.function.ops() if op.code in _SHOWING for value in op.operands}
        stored = {op.operands[-1] for op in self.function.ops() if op.code in _STORES}
        for op in self.function.ops():  # x[i] |= 1 << n keeps the bits that x[i] = 1 << n does
            if op.code is ops.PY_BINARY and op.attributes["op"] in ("&", "|", "^") and op.result in stored:
                stored.update(op.operands)
        for op in self.function.ops():
            if op.code is ops.CONVERT and op.result not in shown:
                self._float(op)
                if op.result not in stored:
                    self._integer(op)
            elif op.code in _COMPUTING:
                self._repeats(op)
        for param in self.losses.adopted.intersection(self.arrives):
            self._grows(param)

    def origin_of(self, value: Value) -> Origin:
        """The current origin of a value. Elements of arrays and other containers are `GIVEN`."""
        if _is_float(value) or isinstance(value.type, (Tuple, Bundle)):
            return self.origins.get(value, FloatOrigin.EXACT)
        return FloatOrigin.EXACT if isinstance(value.type, Number) else FloatOrigin.GIVEN

    def _step(self) -> Iterator[tuple[Value, Origin]]:
        for op in self.function.ops():
            if len(op.results) == 1 and (_is_float(op.result) or isinstance(op.result.type, (Tuple, Bundle))):
                yield op.result, self._result(op)
            elif op.code is ops.CALL:
                self._result(op)
        for param, arguments in self.arrives.items():
            yield param, reduce(_joined, map(self.origin_of, arguments))

    def _result(self, op: Op) -> Origin:
        parts = tuple(map(self.origin_of, op.operands))
        if op.code is ops.MAKE and not isinstance(op.result.type, Number):
            return parts
        if op.code is ops.EXTEND:
            own, *items = parts
            count = len(op.result.type.elements) - len(items) if isinstance(op.result.type, Bundle) else 0
            return (*(own if isinstance(own, tuple) else (own,) * count), *items)
        if op.code is ops.FIELD:
            return self._field(op, parts[0])
        if op.code is ops.CONST:
            if op.result in self.losses.given:
                return FloatOrigin.GIVEN
            return FloatOrigin.EXACT if _fits_float32(op.attributes["value"]) else FloatOrigin.COMPUTED
        if op.code in (ops.CONVERT, ops.PY_UNARY, ops.MAKE):
            return _greatest(parts)
        if op.code is ops.CALL:
            callee = self.losses.module[str(op.attributes["callee"])]
            self.calls[op.result] = self.losses.enter(callee, parts, self._location(op))
            return self.calls[op.result].result
        if op.code is ops.INTRINSIC and op.attributes["name"] in _NARROWING and _takes_wide_floats(op):
            return FloatOrigin.COMPUTED
        if op.code is ops.PY_BINARY or (op.code is ops.INTRINSIC and not _is_explicit(op)):
            return max(_greatest(parts), FloatOrigin.COMPUTED)
        return FloatOrigin.GIVEN

    def _field(self, op: Op, origin: Origin) -> Origin:
        """The origin of a field. That of a struct's member depends on its type only."""
        if isinstance(origin, tuple):
            return origin[int(str(op.attributes["index"]))]
        return _of_type(op.result.type) if isinstance(op.operands[0].type, Struct) else origin

    def _location(self, op: Op) -> Location:
        """The location of an operation in the user's program."""
        return (self.where if op.location.is_ours else None) or op.location

    def _named(self, value: Value) -> str:
        """The name of a value in messages; names in the library mean nothing to the user."""
        return repr(value.hint) if value.hint and not self.function.location.is_ours else "the value"

    def _integer(self, op: Op) -> None:
        (value,), target = op.operands, op.result.type
        source = value.type
        if not isinstance(source, Number) or not source.is_integer or not source.builtin or source == BOOL:
            return
        if not is_narrow_number(target) or _is_float(op.result) or op.attributes.get("exact"):
            return
        self.losses.report(
            self._location(op),
            f"{self._named(value)} is a Python int and takes the type {target} here: it wraps if it does not fit",
            f"convert the {target} to a wider type first, as in int32(x); or write {target}(…) if it fits",
        )

    def _float(self, op: Op) -> None:
        (value,), target = op.operands, op.result.type
        source = value.type
        if not is_wide_float(target) or is_wide_float(source) or not _is_float(value):
            return
        if self.origin_of(value) != FloatOrigin.COMPUTED:
            return
        maker = self.makers.get(value)
        if maker is not None and maker.code is ops.FIELD and _is_float(maker.operands[0]):
            (value,), target = maker.operands, COMPLEX128
        is_parameter = self.function is self.losses.module.main and self._source(value) in self.function.params
        self.losses.report(
            self._location(op),
            f"{self._named(value)} has the precision of float32, like all Python floats, and becomes {target} here",
            f"give the parameter a hint, {self._source(value).hint}: {target}, or pass numpy.{target}(…)"
            if is_parameter
            else f"start in {target}: write {target}(…) around the first number of the computation",
        )

    def _source(self, value: Value) -> Value:
        """The value, or the only value that is passed for a block parameter."""
        seen = set[Value]()
        while value in self.arrives and value not in seen:
            seen.add(value)
            others = set(self.arrives[value]) - seen
            if len(others) != 1:
                break
            (value,) = others
        return value

    def _grows(self, param: Value) -> None:
        """Reports the operation by which a variable that began as a Python int grows in a narrow type."""
        derived, size = {param}, 0
        sums = {op.result: op.operands for op in self.function.ops() if op.code is ops.PY_BINARY}
        while size != (size := len(derived)):
            derived |= {value for value, sources in (self.arrives | sums).items() if not derived.isdisjoint(sources)}
        seen, todo = set[Value](), list(self.arrives[param])
        while todo:
            value = todo.pop()
            if value in seen or value is param:
                continue
            seen.add(value)
            op = self.makers.get(value)
            if op is None:
                todo += self.arrives.get(value, ())
            elif terms := self._terms(op):
                if any(term in derived for term, _ in terms):
                    self._report_growth(op, param)
                else:
                    todo += [term for term, _ in terms]

    def _repeats(self, op: Op) -> None:
        """Reports the same in unrolled loops, where an earlier copy of the operation had a Python int as operand."""
        for number, (term, _) in enumerate(self._terms(op)):
            before = self.makers.get(term)
            if before is not None and before.location == op.location:
                terms = self._terms(before)
                if before.result in self.losses.grown or (number < len(terms) and terms[number][1]):
                    self._report_growth(op, term)

    def _report_growth(self, op: Op, value: Value) -> None:
        started = f"{self._named(value)} started as a Python"
        if _is_float(value):
            reason = f"{started} number and took the type {value.type}: each step is rounded to it"
            self.losses.report(
                self._location(op), reason, f"start with float32(0), or with {value.type}(0) if that is meant"
            )
            return
        reason = f"{started} int and took the type {value.type}: it wraps if it does not fit"
        self.losses.report(self._location(op), reason, _WIDER)
        if op.code is ops.PY_BINARY:
            self.losses.grown[op.result] = self.function, op

    def _terms(self, op: Op) -> list[tuple[Value, bool]]:
        """The operands of an operation that may exceed a narrow type, and whether each is a Python int. Looks into callees."""
        makers, names = self.makers, dict[Value, Value]()
        if op.code is ops.CALL:
            callee = self.losses.module[str(op.attributes["callee"])]
            makers = {value: inner for inner in callee.ops() for value in inner.results}
            names = dict(zip(callee.params, op.operands, strict=True))
            end = callee.blocks[-1].terminator
            op = makers.get(end.operands[0], op) if end.operands else op
        if op.code is not ops.PY_BINARY or op.attributes["op"] not in _GROWING or not is_narrow_number(op.result.type):
            return []
        ints = [v in makers and makers[v].code is ops.CONST and v not in self.losses.given for v in op.operands]
        return [(names.get(v, v), is_int) for v, is_int in zip(op.operands, ints, strict=True)]


def losses(module: Module, adopted: set[Value], given: set[Value], checked: bool) -> tuple[Loss, ...]:
    """The losses of a typed module, in program order. In checked mode, variables that may wrap are checked at run time."""
    analysis = _Losses(module, adopted, given)
    todo = [analysis.enter(module.main, tuple(_of_type(param.type) for param in module.main.params))]
    told = set[_Body]()
    while todo:
        body = todo.pop()
        if body not in told:
            told.add(body)
            body.tell()
            todo += body.calls.values()
    for function, op in analysis.grown.values() if checked else ():
        if op.attributes["op"] in _CHECKED:
            _check(function, op)
    return tuple(sorted(analysis.reported.values(), key=lambda loss: (loss.location.file, loss.location.line)))


def _check(function: Function, op: Op) -> None:
    """Adds a check, computed in 64 bits, that the result of an operation fits."""
    build, type = Builder(Block(), op.location), op.result.type
    assert isinstance(type, Number)
    operands = (build.op(ops.CONVERT, INDEX, operand, nonneg=operand.nonneg) for operand in op.operands)
    result = build.op(ops.PY_BINARY, INDEX, *operands, op=op.attributes["op"])
    for sign, limit in (("<=", type.high), (">=", type.low)):
        holds = build.op(ops.PY_COMPARE, BOOL, result, build.const(INDEX, limit), op=sign)
        build.effect(
            ops.PY_CHECK,
            holds,
            result,
            message=f"the int {{0}} does not fit {type}, the type that it took",
            help=_WIDER,
        )
    block = next(block for block in function.blocks if op in block.ops)
    index = block.ops.index(op)
    block.ops[index:index] = build.block.ops
    function.effects |= Effect.EXITS


def _takes_wide_floats(op: Op) -> bool:
    return any(is_wide_float(operand.type) for operand in op.operands)


def _is_float(value: Value) -> bool:
    return isinstance(value.type, Number) and (value.type.is_float or value.type.is_complex)


def _is_explicit(op: Op) -> bool:
    """Whether an operation is a call of a fixed-format type."""
    type = op.result.type
    return isinstance(type, Number) and not type.builtin and op.attributes["name"] == str(type)


def _fits_float32(value: object) -> bool:
    """Whether a float32 can represent a number exactly."""
    if isinstance(value, complex):
        return _fits_float32(value.real) and _fits_float32(value.imag)
    if not isinstance(value, (int, float)):
        return True
    try:
        (near,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return False
    return bool(near == value or value != value)
