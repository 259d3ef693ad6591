"""The facts that the compiler knows about a value: its type, and its constant value or bounds if they are known.

`Known` is the lattice of type inference. Where control flow joins, `join` computes the facts that hold on both edges:

    Known(INT, 0)      ⊔ Known(FLOAT32)   = Known(FLOAT32)       acc = 0, later acc += x[i]
    Known(INT, 0)      ⊔ Known(INT, 1)    = Known(INT, low=0, high=1)
    Known(STATIC, sin) ⊔ Known(STATIC, cos) = Conflict           an error if the variable is used later

Constants are exact Python values until they are combined with a typed value.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import TypeVar

import numpy as np

from cuda_device.errors import NOWHERE, Location
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types import model
from cuda_device.types.host import PYTHON, number_of
from cuda_device.types.layout import has_arrays, is_by_value, map_arrays, parts

T = TypeVar("T")


class _Unknown:
    """The mark of a value that is not known at compile time."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = _Unknown()
Meanings = frozenset[type]
_NO_MEANINGS: Meanings = frozenset()


@dataclass(frozen=True)
class Identity:
    """The identity of a mutable object, such as an iterator: all names for it see its changes.

    `site` is the place (or argument) that created it, and `age` the number of objects that the same place created later.
    """

    site: tuple[object, ...]
    age: int = 0


class Gaps:
    """The meaning of a bundle whose parts may have no value, and are joined separately where control flow joins.

    The first `strict` parts always have a value. If the parts stand `alone`, an object that a part lacks on one edge is not
    identified with an object of other parts.
    """

    strict = 0
    alone = False


class _Memo:
    """What was computed from the parts of a `Known`, of which there may be thousands. Each is set when it is first needed."""

    __slots__ = ("_constant", "_forgotten", "_hash", "_inner_objects", "_meanings", "_plain", "_settled")

    _constant: bool
    _forgotten: Known
    _hash: int
    _inner_objects: tuple[Known, ...]
    _meanings: Meanings
    _plain: Known
    _settled: Known


@dataclass(frozen=True, slots=True, eq=False)
class Known(_Memo):
    """The type of a value, and what else is known about it."""

    type: model.Type
    value: object = UNKNOWN
    """The exact Python value of a constant, or the meaning of a bundle or of a named tuple."""
    items: tuple[Known, ...] = ()
    """The elements of a tuple, or start, stop and step of a range."""
    low: int | None = None
    """A bound of an integer, or of each element of a vector, that is tighter than that of its type.

    For a float, 0 means that it is never negative.
    """
    high: int | None = None
    """As `low`, but not for floats."""
    identity: Identity | None = None
    """The identity of a mutable object."""
    where: Location = NOWHERE
    """The source location for messages."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # Inference compares facts very often, so the cheap comparisons come first.
        return (
            isinstance(other, Known)
            and self.low == other.low
            and self.high == other.high
            and self.type == other.type
            and self.items == other.items
            and self.identity == other.identity
            and (self.value is other.value or self.constant_identity() == other.constant_identity())
        )

    def __hash__(self) -> int:
        # Every launch hashes the facts about its arguments, most of which are not constants.
        if self.value is UNKNOWN and not self.items:
            return hash(self.type)
        try:
            return self._hash
        except AttributeError:
            facts = (self.type, self.constant_identity(), self.items, self.low, self.high, self.identity)
            return self._remember("_hash", hash(facts))

    def _remember(self, name: str, result: T) -> T:
        object.__setattr__(self, name, result)
        return result

    def constant_identity(self) -> tuple[object, ...]:
        """The key by which constants are compared.

        0.0 and -0.0, or 1 and True, are different constants. Compile-time objects are compared by identity, not by `__eq__`.
        """
        value = self.value
        if isinstance(self.type, (model.Bundle, model.Tuple)) or isinstance(value, Unset):
            return type(self.type), value
        if isinstance(value, float):
            return float, value.hex()
        if isinstance(value, complex):
            return complex, value.real.hex(), value.imag.hex()
        return type(value), value if isinstance(value, (bool, int, str)) else id(value)

    @property
    def constant(self) -> bool:
        """Whether the whole value is known."""
        if isinstance(self.type, model.Number) or not isinstance(self.type, (model.Tuple, model.Bundle)):
            return self.value is not UNKNOWN
        try:
            return self._constant
        except AttributeError:
            # Most items of long tuples are numbers, for which this makes no call.
            unknown = any((item.value is UNKNOWN or item.items) and not item.constant for item in self.items)
            return self._remember("_constant", not unknown)

    @property
    def inner_objects(self) -> tuple[Known, ...]:
        """The mutable objects in the items."""
        try:
            return self._inner_objects
        except AttributeError:
            holders = [item for item in self.items if item.items or item.identity is not None]
            return self._remember("_inner_objects", tuple([part for item in holders for part in objects(item)]))

    @property
    def meanings(self) -> Meanings:
        """The classes of the meanings of all bundles in a value, at any depth."""
        is_bundle = isinstance(self.type, model.Bundle)
        if not self.items and not is_bundle:
            return _NO_MEANINGS
        try:
            return self._meanings
        except AttributeError:
            own = frozenset((self.value.__class__,)) if is_bundle else _NO_MEANINGS
            parts = (item.meanings for item in self.items if item.items or isinstance(item.type, model.Bundle))
            return self._remember("_meanings", own.union(*parts))

    @property
    def python(self) -> object:
        """The Python value of a constant."""
        return tuple(item.python for item in self.items) if isinstance(self.type, model.Tuple) else self.value

    @property
    def nonneg(self) -> bool:
        """Whether a number is never negative."""
        if self.value is not UNKNOWN:
            return isinstance(self.value, (bool, int, float)) and self.value >= 0
        return (isinstance(self.type, model.Number) and not self.type.signed) or (
            self.low is not None and self.low >= 0
        )

    @property
    def bounds(self) -> tuple[int, int]:
        """The minimum and the maximum of an integer or bool.

        If the bounds contradict each other, like those of an item of an empty range, they are those of the type.
        """
        if isinstance(self.value, int):
            return int(self.value), int(self.value)
        assert isinstance(self.type, model.Number)
        low = self.type.low if self.low is None else self.low
        high = self.type.high if self.high is None else self.high
        return (low, high) if low <= high else (self.type.low, self.type.high)

    def at(self, where: Location) -> Known:
        """The same facts with another source location."""
        return Known(self.type, self.value, self.items, self.low, self.high, self.identity, where)

    def forget(self) -> Known:
        """The type with the coarse bounds of `settled`, and without constants; static values are kept."""
        if not self.items:
            return self._coarse() if isinstance(self.type, model.Number) else self
        try:
            return self._forgotten
        except AttributeError:
            return self._remember("_forgotten", self._with_items([item.forget() for item in self.items]))

    def settled(self) -> Known:
        """With coarse bounds (non-negative, fits in 32 bits), so that functions have few specialisations."""
        if not self.items:
            return self._coarse() if isinstance(self.type, model.Number) and self.value is UNKNOWN else self
        try:
            return self._settled
        except AttributeError:
            return self._remember("_settled", self._with_items([item.settled() for item in self.items]))

    def _with_items(self, items: list[Known]) -> Known:
        """The same facts with other items; this object if they are its own."""
        return self if all(map(is_, items, self.items)) else replace(self, items=tuple(items))

    def _coarse(self) -> Known:
        if self.value is UNKNOWN and self.low is None and self.high is None:
            return self
        assert isinstance(self.type, model.Number)
        coarse = of_type(self.type, self.nonneg, model.INT.high if is_narrow(self) else None)
        return self if coarse == self else coarse.at(self.where)

    def plain(self) -> Known:
        """The type alone; static values are kept."""
        try:
            return self._plain
        except AttributeError:
            items = tuple([item.plain() for item in self.items])
            return self._remember("_plain", replace(self.forget(), items=items, low=None, high=None))

    @property
    def shown(self) -> str:
        """The value in a message that is not about its type."""
        return f"a value of type {self.type}" if isinstance(self.type, model.Number) else str(self)

    def __str__(self) -> str:
        if isinstance(self.type, model.Static):
            return describe(self.value)
        if isinstance(self.type, model.NoneType):
            return "None"
        if isinstance(self.type, model.RangeIterator):
            return "an iterator of a range"
        if is_by_value(self.type):
            return getattr(self.type.pointee, "name", str(self.type.pointee))
        if isinstance(self.type, model.Ref) and isinstance(self.type.pointee, model.Struct):
            return f"a reference to {self.type.pointee.name} in {self.type.space.value} memory"
        if isinstance(self.type, model.Ref) and isinstance(self.type.pointee, model.AtomicCell):
            where = "" if self.type.space is model.Space.GLOBAL else f" in {self.type.space.value} memory"
            return f"an atomic of {shorten(str(self.type.pointee.dtype), 60)}{where}"
        if isinstance(self.type, model.Bundle):
            return "a slice" if self.value is slice else str(self.value)
        if isinstance(self.type, model.Number) and self.value is not UNKNOWN:
            return f"{self.type} {show(self.value)}"
        if isinstance(self.type, model.Tuple) and any(isinstance(item.type, model.Bundle) for item in self.items):
            parts = (str(item if isinstance(item.type, model.Bundle) else item.type) for item in self.items)
            return shorten(f"tuple<{', '.join(parts)}>", 60)
        return shorten(str(self.type), 60)


def shorten(text: str, width: int) -> str:
    """The text, or its beginning and end if it is longer than `width` characters."""
    return text if len(text) <= width else f"{text[: width * 2 // 3]}…{text[-width // 3 :]}"


def show(value: object) -> str:
    """A constant number, shortened."""
    huge = isinstance(value, int) and value.bit_length() > 256
    return shorten(hex(value) if huge and isinstance(value, int) else str(value), 24)


def describe(value: object) -> str:
    """A short description of a Python object that has no representation in device code."""
    kind = type(value)
    if kind.__name__ == "ndarray":
        return "a NumPy array on the host"
    if isinstance(value, (list, dict, set, frozenset)):
        return f"a {kind.__name__}"
    if isinstance(value, (str, bytes)):
        return shorten(repr(value), 40)
    if value is Ellipsis or isinstance(value, slice):
        return "..." if value is Ellipsis else "a slice"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        return f"the type {name}" if isinstance(value, type) else name
    return f"an object of the class {kind.__name__}"


@dataclass(frozen=True)
class Undefined:
    """A variable before its first assignment: the bottom of the lattice. `why` explains why it has no value."""

    name: str = ""
    why: str = ""


FAILED = Undefined(".failed")
"""The result of an operation with an error that is not yet certain."""


@dataclass(frozen=True)
class Conflict:
    """A variable that is one thing on one edge and something else on another: an error if it is used."""

    first: Known
    second: Known


State = Known | Undefined | Conflict


@dataclass(frozen=True)
class Unset:
    """Stands for a part of a bundle that has no value, or conflicting ones."""

    state: Undefined | Conflict

    def __str__(self) -> str:
        return "nothing"


UNSET = Known(model.STATIC, Unset(Undefined()))


def part(state: State) -> Known:
    """The part of a bundle for the state of a variable."""
    return state if isinstance(state, Known) else Known(model.STATIC, Unset(state))


def state_of(known: Known) -> State:
    """The state of a variable for a part of a bundle."""
    return known.value.state if isinstance(known.value, Unset) else known


_BUILTIN: dict[type, model.Type] = {**PYTHON, type(None): model.NONE}


def constant(value: object, where: Location = NOWHERE) -> Known:
    """The facts about a literal or another compile-time object."""
    if type(value) is tuple:
        return tuple_of(tuple(constant(item, where) for item in value), where)
    return Known(_BUILTIN.get(type(value), model.STATIC), value, where=where)


def literal(value: object, where: Location = NOWHERE) -> Known:
    """Like `constant` for any host object: NumPy's scalars are constants of fixed-format types.

    Raises `TypeError` for scalars that device code does not support.
    """
    if isinstance(value, np.str_):
        return constant(str(value), where)
    if isinstance(value, np.generic):
        return Known(number_of(type(value)), value.item(), where=where)
    if isinstance(value, (enum.IntEnum, enum.IntFlag)):
        return Known(model.INT, value, where=where)
    if type(value) is tuple:
        return tuple_of(tuple(literal(item, where) for item in value), where)
    return constant(value, where)


def walk(known: Known) -> Iterator[Known]:
    """A value and all its parts, at any depth."""
    yield known
    for item in known.items:
        if item.items:
            yield from walk(item)
        else:  # most items of long tuples are numbers
            yield item


def objects(known: Known) -> tuple[Known, ...]:
    """The mutable objects in a value."""
    inner = known.inner_objects if known.items else ()
    return inner if known.identity is None else (known, *inner)


def identities(known: Known) -> tuple[Identity, ...]:
    """The identities of the mutable objects in a value."""
    if known.identity is None and not known.items:  # most values
        return ()
    return tuple([part.identity for part in objects(known) if part.identity is not None])


def renamed(
    known: Known, names: Mapping[Identity, Identity | None], only: Callable[[Known], bool] = lambda _: True
) -> Known:
    """The value with other identities for its objects, or none; only for objects that satisfy `only`."""
    if not names or not any(identity in names for identity in identities(known)):
        return known
    identity = known.identity
    if identity is not None and only(known):
        identity = names.get(identity, identity)
    items = [renamed(item, names, only) if item.items or item.identity else item for item in known.items]
    return replace(known, identity=identity, items=tuple(items))


def nameless(known: Known) -> Known:
    """The value without identities."""
    return renamed(known, dict.fromkeys(identities(known)))


def tuple_of(items: tuple[Known, ...], where: Location = NOWHERE) -> Known:
    """The facts about a tuple of `items`."""
    return Known(model.Tuple(tuple([item.type for item in items])), items=items, where=where)


def bundle_of(meaning: object, items: tuple[Known, ...], where: Location = NOWHERE) -> Known:
    """The facts about a compile-time object with `items` as its run-time parts."""
    return Known(model.Bundle(tuple([item.type for item in items])), meaning, items, where=where)


def has_bounds_within(known: Known, number: model.Number) -> bool:
    """Whether the narrower type `number` can represent an integer according to its bounds."""
    source = known.type
    if not (isinstance(source, model.Number) and source.is_integer and number.is_integer) or source.is_complex:
        return False
    low, high = known.bounds
    return number.low <= low and high <= number.high < source.high


def known_as(known: Known, number: model.Number) -> Known:
    """The facts about a value after its conversion to `number`, which may wrap."""
    source = known.type
    if source == number and known.value is UNKNOWN:
        return known
    if number.is_complex or not isinstance(source, model.Number) or source.is_complex:
        return of_type(number)
    if not number.is_integer or source.is_float:
        return of_type(number, known.nonneg)
    return wrapped(number, known.value) if isinstance(known.value, int) else between(number, *known.bounds)


def wrapped(number: model.Number, value: int) -> Known:
    """A constant `number` converted from an integer, which wraps around."""
    return Known(number, (int(value) - number.low) % (1 << number.bits) + number.low)


def is_narrow(known: Known) -> bool:
    """Whether an integer fits in a signed integer of 32 bits."""
    if not isinstance(known.type, model.Number) or known.type.is_float or known.type.is_complex:
        return False
    low, high = known.bounds
    return model.INT.low <= low and high <= model.INT.high


def between(number: model.Number, low: int, high: int, where: Location = NOWHERE) -> Known:
    """A `number` converted from an integer with these bounds; it may wrap if they do not fit."""
    least, most = number.low, number.high
    if low < least or high > most:
        return Known(number, where=where)
    return Known(number, low=low if low > least else None, high=high if high < most else None, where=where)


def of_type(type: model.Type, nonneg: bool = False, high: int | None = None) -> Known:
    """A run-time value of a type, optionally non-negative and with a maximum."""
    if isinstance(type, (model.Tuple, model.Range, model.RangeIterator)):
        return Known(type, items=tuple(map(of_type, parts(type))))
    if isinstance(type, model.NoneType):
        return Known(type, None)
    number = type.dtype if isinstance(type, model.Vector) else type
    has_room = isinstance(number, model.Number) and number.is_integer and high is not None and high < number.high
    signed = isinstance(number, model.Number) and number.signed
    return Known(type, low=0 if nonneg and signed else None, high=high if has_room else None)


def small(known: Known) -> Known:
    """An argument with all its arrays marked as small (see `model.Array`)."""
    if isinstance(known.type, model.Tuple):
        return replace(tuple_of(tuple(map(small, known.items))), value=known.value, where=known.where)
    if not has_arrays(known.type):
        return known
    return replace(known, type=map_arrays(known.type, lambda array: replace(array, small=True)))


def runtime_types(known: Iterable[Known]) -> tuple[model.Type, ...]:
    """The types of the arguments that are passed at run time."""
    return tuple([k.type for k in known if not k.constant and not isinstance(k.type, model.NoneType)])
