"""What instructions of numbers compute: a rule for each opcode, from its parts to a function of values.

rule(("fma", "rn", "f32"))  ->  Rule(sources=("f32", "f32", "f32"), result="f32", compute=…)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from ptx_machine.operands import TYPES
from ptx_machine.reader import Unsupported
from ptx_machine.rounding import (
    flushed,
    fused,
    narrowed,
    odd_fused,
    odd_quotient,
    odd_root,
    odd_sum,
    saturated,
)

Values = np.ndarray
Compute = Callable[..., Values]


@dataclass(frozen=True)
class Rule:
    sources: tuple[str, ...]
    result: str
    compute: Compute


RULES: dict[str, Callable[[tuple[str, ...], str], Rule]] = {}
"""By the first part of the opcode: from the parts between and the last, the type."""


def rule(opcode: tuple[str, ...]) -> Rule | None:
    """The rule for an opcode, if it is one of numbers."""
    make = RULES.get(opcode[0])
    return make(opcode[1:-1], opcode[-1]) if make else None


def _row(*names: str) -> Callable:
    def add(make: Callable[[tuple[str, ...], str], Rule]) -> Callable:
        for name in names:
            RULES[name] = partial(make, name)
        return make

    return add


def _is_float(kind: str) -> bool:
    return kind.lstrip("b").startswith("f")


def _bits(kind: str) -> int:
    return 8 * TYPES[kind].itemsize


def _wide(values: Values) -> Values:
    return np.asarray(values).astype(np.float64)


# ---- Floats


def _rounding(parts: tuple[str, ...]) -> str:
    return next((part for part in parts if part in ("rn", "rz", "rm", "rp")), "rn")


def _floating(parts: tuple[str, ...], kind: str, count: int, compute: Compute) -> Rule:
    """A rule of `count` floats; flushes and saturates as the opcode says."""
    if unknown := set(parts) - {"rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "NaN", "relu", "noftz"}:
        raise Unsupported(f"{sorted(unknown)} of floats")
    flush = "ftz" in parts and kind == "f32"

    def whole(*values: Values) -> Values:
        if flush:
            values = tuple(flushed(value) for value in values)
        result = compute(*values)
        if flush:
            result = flushed(result)
        if "sat" in parts:
            result = saturated(result)
        return np.maximum(result, 0) if "relu" in parts else result

    return Rule((kind,) * count, kind, whole)


def _once(odd: Compute, kind: str, mode: str) -> Compute:
    """Computes in float64, rounded to odd, and then rounds to the type."""
    dtype = TYPES[kind]
    return lambda *values: narrowed(odd(*map(_wide, values)), dtype, mode)


def _plain(name: str, parts: tuple[str, ...], kind: str, numpy: Compute, odd: Compute) -> Rule:
    mode = _rounding(parts)
    if mode == "rn":
        return _floating(parts, kind, 1 if name == "sqrt" else 2, numpy)
    if kind != "f32":
        raise Unsupported(f"{name}.{mode}.{kind}")
    return _floating(parts, kind, 1 if name == "sqrt" else 2, _once(odd, kind, mode))


@_row("add", "sub")
def _add(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    if _is_float(kind):
        sign = 1 if name == "add" else -1
        numpy = np.add if name == "add" else np.subtract
        return _plain(name, parts, kind, numpy, lambda a, b: odd_sum(a, sign * b))
    if parts not in ((), ("sat",)):
        raise Unsupported(f"{name}.{parts}")
    compute = np.add if name == "add" else np.subtract
    if parts:
        return _integer(kind, 2, lambda a, b: np.clip(compute(a.astype(np.int64), b), -(1 << 31), (1 << 31) - 1))
    return Rule((kind, kind), kind, compute)


@_row("mul")
def _mul(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    if _is_float(kind):
        return _plain(name, parts, kind, np.multiply, lambda a, b: a * b)
    return _product(parts, kind)


@_row("mad")
def _mad(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    if _is_float(kind):
        return _fma(name, parts, kind)
    product = _product(parts, kind)
    compute = product.compute
    return Rule((kind, kind, product.result), product.result, lambda a, b, c: compute(a, b) + c)


def _product(parts: tuple[str, ...], kind: str) -> Rule:
    (which,) = parts
    if which == "lo":
        return Rule((kind, kind), kind, np.multiply)
    if which == "wide":
        wide = f"{kind[0]}{2 * _bits(kind)}"
        return Rule(
            (kind, kind), wide, lambda a, b: np.asarray(a).astype(TYPES[wide]) * np.asarray(b).astype(TYPES[wide])
        )
    return _integer(kind, 2, lambda a, b: high(a, b, kind))


def high(a: Values, b: Values, kind: str) -> Values:
    """The upper half of a product."""
    bits = _bits(kind)
    if bits < 64:
        wide = TYPES[f"{kind[0]}{2 * bits}"]
        return ((np.asarray(a).astype(wide) * np.asarray(b).astype(wide)) >> wide.type(bits)).astype(TYPES[kind])
    product = np.asarray(a).astype(object) * np.asarray(b).astype(object)
    upper = np.asarray((product >> 64) & ((1 << 64) - 1), object)
    return upper.astype(np.uint64).view(TYPES[kind])


@_row("fma")
def _fma(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    mode, dtype = _rounding(parts), TYPES[kind]
    if kind == "f64":
        if mode != "rn":
            raise Unsupported(f"fma.{mode}.f64")
        return _floating(parts, kind, 3, fused)
    return _floating(parts, kind, 3, lambda a, b, c: narrowed(odd_fused(_wide(a), _wide(b), _wide(c)), dtype, mode))


@_row("div")
def _div(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    if _is_float(kind):
        return _plain(name, parts, kind, np.divide, odd_quotient)
    return _bare(parts, _integer(kind, 2, lambda a, b: _quotient(a, b, kind)))


@_row("rem")
def _rem(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    return _bare(parts, _integer(kind, 2, lambda a, b: np.asarray(a) - _quotient(a, b, kind) * np.asarray(b)))


def _quotient(a: Values, b: Values, kind: str) -> Values:
    """Toward zero; all bits of a quotient by zero are set."""
    a, b = np.asarray(a), np.asarray(b)
    zero = b == 0
    some = zero.any()
    if some:
        b = np.where(zero, b.dtype.type(1), b)
    quotient = a // b
    if kind[0] == "s":
        quotient += (quotient < 0) & (quotient * b != a)
    return np.where(zero, np.array(-1).astype(TYPES[kind]), quotient) if some else quotient


@_row("sqrt")
def _sqrt(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    return _plain(name, parts, kind, np.sqrt, odd_root)


@_row("rcp")
def _rcp(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    if kind == "f64" and "approx" in parts:
        return Rule((kind,), kind, _coarse(lambda x: 1 / x))
    one, mode = TYPES[kind].type(1), _rounding(parts)
    if mode == "rn":
        return _floating(parts, kind, 1, lambda a: one / a)
    return _floating(parts, kind, 1, _once(lambda a: odd_quotient(np.ones_like(a), a), kind, mode))


def _coarse(compute: Compute) -> Compute:
    """The approximations of float64 see and make the upper 32 bits only, and flush subnormal numbers."""
    mask = np.uint64(0xFFFFFFFF00000000)

    def whole(values: Values) -> Values:
        upper = (np.asarray(values).view(np.uint64) & mask).view(np.float64)
        tiny = np.finfo(np.float64).tiny
        upper = np.where(np.abs(upper) < tiny, np.copysign(0.0, upper), upper)
        result = np.asarray(compute(upper).view(np.uint64) & mask).view(np.float64)
        return np.where(np.abs(result) < tiny, np.copysign(0.0, result), result)

    return whole


_APPROXIMATE: dict[str, Compute] = {
    "rsqrt": lambda x: 1 / np.sqrt(x), "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
}  # fmt: skip


@_row(*_APPROXIMATE)
def _approximate(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    compute = _APPROXIMATE[name]
    if kind == "f64":
        return Rule((kind,), kind, _coarse(compute))
    dtype = TYPES[kind]
    return _floating(parts, kind, 1, lambda x: narrowed(compute(_wide(x)), dtype))


@_row("abs", "neg")
def _sign(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    if not _is_float(kind):
        return _bare(parts, _integer(kind, 1, np.abs if name == "abs" else np.negative))
    word = TYPES[f"b{_bits(kind)}"]
    top = word.type(1 << _bits(kind) - 1)
    if name == "abs":
        return _floating(parts, kind, 1, lambda a: (np.asarray(a).view(word) & ~top).view(TYPES[kind]))
    return _floating(parts, kind, 1, lambda a: (np.asarray(a).view(word) ^ top).view(TYPES[kind]))


@_row("min", "max")
def _extreme(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    least = name == "min"
    if not _is_float(kind):
        integers = np.minimum if least else np.maximum
        if parts == ("relu",):
            return Rule((kind, kind), kind, lambda a, b: np.maximum(integers(a, b), TYPES[kind].type(0)))
        return _bare(parts, Rule((kind, kind), kind, integers))
    word, nan = TYPES[f"b{_bits(kind)}"], "NaN" in parts

    def compute(a: Values, b: Values) -> Values:
        a, b = np.broadcast_arrays(a, b)
        smaller = np.where(np.isnan(b) | (a < b), a, b) if least else np.where(np.isnan(b) | (a > b), a, b)
        result = np.where(np.isnan(a), a if nan else b, smaller)
        result = np.where(np.isnan(b) & nan, b, result)
        zeros = (a == 0) & (b == 0)  # the negative one is the smaller
        a_bits, b_bits = np.ascontiguousarray(a).view(word), np.ascontiguousarray(b).view(word)
        signed = (a_bits | b_bits if least else a_bits & b_bits).view(TYPES[kind])
        return np.where(zeros, signed, result).astype(TYPES[kind])

    return _floating(parts, kind, 2, compute)


@_row("copysign")
def _copysign(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    return Rule((kind, kind), kind, lambda sign, magnitude: np.copysign(magnitude, sign))


@_row("testp")
def _testp(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    tiny = np.finfo(TYPES[kind]).tiny
    tests: dict[str, Compute] = {
        "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda x: ~np.isnan(x),
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= tiny), "subnormal": lambda x: (x != 0) & (np.abs(x) < tiny),
    }  # fmt: skip
    return Rule((kind,), "pred", tests[parts[0]])


# ---- Integers and bits


def _bare(parts: tuple[str, ...], found: Rule) -> Rule:
    """The rule, for an opcode that has nothing between its name and its type."""
    if parts:
        raise Unsupported(f"{parts}")
    return found


def _integer(kind: str, count: int, compute: Compute) -> Rule:
    dtype = TYPES[kind]
    return Rule((kind,) * count, kind, lambda *values: np.asarray(compute(*values)).astype(dtype))


@_row("and", "or", "xor")
def _logic(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    compute = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name]
    return _bare(parts, Rule((kind, kind), kind, compute))


@_row("not")
def _not(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    return _bare(parts, Rule((kind,), kind, np.invert))


@_row("shl", "shr")
def _shift(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    bits, dtype = _bits(kind), TYPES[kind]

    def compute(a: Values, by: Values) -> Values:
        within = np.minimum(by, bits - 1).astype(dtype)
        if name == "shr" and kind[0] == "s":
            return a >> within  # which repeats the sign
        shifted = a << within if name == "shl" else a >> within
        return shifted if np.all(by < bits) else np.where(by < bits, shifted, dtype.type(0))

    return _bare(parts, Rule((kind, "u32"), kind, compute))


@_row("shf")
def _funnel(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    left, wrap = parts[0] == "l", parts[1] == "wrap"

    def compute(low: Values, upper: Values, by: Values) -> Values:
        by = by & np.uint32(31) if wrap else np.minimum(by, 32)
        both = np.asarray(upper).astype(np.uint64) << np.uint64(32) | low
        if left:
            by = np.asarray(by).astype(np.uint64)
            # Two steps: a shift by 64 is not defined.
            return ((both << by) >> np.uint64(32)).astype(np.uint32) if np.max(by) < 32 else _far(both, by)
        return (both >> np.asarray(by).astype(np.uint64)).astype(np.uint32)

    def _far(both: Values, by: Values) -> Values:
        return np.where(by < 32, (both << by) >> np.uint64(32), both & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return Rule(("u32", "u32", "u32"), "u32", compute)


@_row("popc", "clz")
def _count(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    bits = _bits(kind)
    if name == "popc":
        return _bare(parts, Rule((kind,), "u32", lambda a: np.bitwise_count(a).astype(np.uint32)))
    return _bare(parts, Rule((kind,), "u32", lambda a: np.uint32(bits) - _length(a, bits)))


def _length(values: Values, bits: int) -> Values:
    """The position of the highest bit that is set, from 1; 0 if none is."""
    values = np.asarray(values).copy()
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            values |= values >> values.dtype.type(step)
    return np.bitwise_count(values).astype(np.uint32)


@_row("brev")
def _reverse(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    bits, dtype = _bits(kind), TYPES[kind]

    def compute(a: Values) -> Values:
        result = np.zeros(np.shape(a), dtype)
        for i in range(bits):
            result |= ((a >> dtype.type(i)) & dtype.type(1)) << dtype.type(bits - 1 - i)
        return result

    return Rule((kind,), kind, compute)


@_row("bfind")
def _highest(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    bits, word = _bits(kind), TYPES[f"b{_bits(kind)}"]

    def compute(a: Values) -> Values:
        a = np.where(a < 0, ~a, a).view(word) if kind[0] == "s" else a
        at = _length(a, bits) - np.uint32(1)
        return np.where(a == 0, at, np.uint32(bits - 1) - at) if "shiftamt" in parts else at

    return Rule((kind,), "u32", compute)


@_row("bfe")
def _extract(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    bits, word = _bits(kind), TYPES[f"b{_bits(kind)}"]

    def compute(a: Values, start: Values, length: Values) -> Values:
        signed = np.asarray(a).astype(object) if kind[0] == "s" else np.asarray(a).view(word).astype(object)
        start, length = (np.asarray(x & np.uint32(255)).astype(object) for x in (start, length))

        def one(value: int, start: int, length: int) -> int:
            if length == 0:
                return 0
            whole = value >> min(start, bits)  # Python's shift repeats the sign
            cut = whole & ((1 << length) - 1)
            if kind[0] == "s" and length < bits and cut >> (length - 1) & 1:
                cut -= 1 << length
            return cut & ((1 << bits) - 1)

        return np.frompyfunc(one, 3, 1)(signed, start, length).astype(word).view(TYPES[kind])

    return _bare(parts, Rule((kind, "u32", "u32"), kind, lambda *v: compute(*map(np.atleast_1d, v))))


@_row("bfi")
def _insert(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    bits, dtype = _bits(kind), TYPES[kind]

    def one(field: int, value: int, start: int, length: int) -> int:
        start, length = start & 255, length & 255
        mask = (((1 << length) - 1) << start) & ((1 << bits) - 1)
        return (value & ~mask) | ((field << start) & mask)

    def compute(*values: Values) -> Values:
        return np.frompyfunc(one, 4, 1)(*(np.atleast_1d(v).astype(object) for v in values)).astype(dtype)

    return _bare(parts, Rule((kind, kind, "u32", "u32"), kind, compute))


@_row("prmt")
def _permute(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    if parts:
        raise Unsupported(f"prmt.{parts}")

    def compute(a: Values, b: Values, selector: Values) -> Values:
        both = np.asarray(a).astype(np.uint64) | np.asarray(b).astype(np.uint64) << np.uint64(32)
        result = np.zeros(np.broadcast_shapes(np.shape(both), np.shape(selector)), np.uint32)
        for i in range(4):
            which = (np.asarray(selector) >> np.uint32(4 * i)) & np.uint32(15)
            byte = (both >> (np.uint64(8) * (which & np.uint32(7)).astype(np.uint64))) & np.uint64(255)
            sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
            result |= np.where(which & np.uint32(8), sign, byte).astype(np.uint32) << np.uint32(8 * i)
        return result

    return Rule(("u32", "u32", "u32"), "u32", compute)


@_row("dp4a")
def _dot(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    def compute(a: Values, b: Values, c: Values) -> Values:
        kinds = [TYPES[each[0] + "8"] for each in (*parts, kind)]
        left, right = (
            np.ascontiguousarray(np.broadcast_to(x, np.shape(a))).view(kind).reshape(-1, 4).astype(np.int64)
            for x, kind in zip((a, b), kinds, strict=True)
        )
        return ((left * right).sum(axis=1) + c).astype(TYPES[kind])

    return Rule((*parts, kind, kind), kind, compute)


@_row("lop3")
def _table(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    def compute(a: Values, b: Values, c: Values, table: Values) -> Values:
        result = np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c)), np.uint32)
        for i in range(8):
            if int(np.max(table)) >> i & 1:
                result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        return result

    return Rule(("u32",) * 4, "u32", compute)


@_row("sad")
def _distance(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    return _bare(parts, _integer(kind, 3, lambda a, b, c: c + np.where(a < b, b - a, a - b)))


# ---- Choice


@_row("selp")
def _select(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    kind = f"b{_bits(kind)}" if kind != "pred" else kind
    return _bare(parts, Rule((kind, kind, "pred"), kind, lambda a, b, which: np.where(which, a, b)))


_COMPARE: dict[str, Compute] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


@cache
def comparison(name: str, is_float: bool) -> Compute:
    """What a comparison's name means. Of floats, the names that end in u hold where one is NaN."""
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if is_float and name.endswith("u"):
        compute = _COMPARE[name[:-1]]
        return lambda a, b: compute(a, b) | np.isnan(a) | np.isnan(b)
    compute = _COMPARE[name]
    if is_float and name == "ne":
        return lambda a, b: compute(a, b) & ~(np.isnan(a) | np.isnan(b))
    return compute


@_row("setp")
def _compare(name: str, parts: tuple[str, ...], kind: str) -> Rule:
    compute = comparison(parts[0], _is_float(kind))
    flush = "ftz" in parts
    combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    if unknown := set(parts[1:]) - {"ftz", *combine}:
        raise Unsupported(f"setp with {sorted(unknown)}")
    joined = next((combine[part] for part in parts[1:] if part in combine), None)

    def whole(a: Values, b: Values, *others: Values) -> Values:
        if flush:
            a, b = flushed(a), flushed(b)
        result = compute(a, b)
        return joined(result, others[0]) if joined else result

    return Rule((kind, kind, *(("pred",) if joined else ())), "pred", whole)
