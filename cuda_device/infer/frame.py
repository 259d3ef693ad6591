"""Cells and frames: the rules of type inference read the facts in cells, and write typed operations through a frame.

A frame belongs to one block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, auto
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import numpy as np

from cuda_device.device.rows import Intrinsic, Typed
from cuda_device.errors import CompileError, Location
from cuda_device.infer.constants import REAL_REMEDY, fit
from cuda_device.infer.dependencies import HOLDERS, Dependency
from cuda_device.infer.joins import join
from cuda_device.infer.meanings import Named, NestedFunction, Origin, Resumed, Thing, check_apart, means
from cuda_device.ir import ops
from cuda_device.ir.nodes import Block, Builder, Op, Value
from cuda_device.ir.ops import Effect
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.lazy_imports import LazyMethod, import_lazily
from cuda_device.types.host import host_type_of, is_struct, model_of
from cuda_device.types.known import (
    UNKNOWN,
    Gaps,
    Identity,
    Known,
    Unset,
    bundle_of,
    constant,
    has_bounds_within,
    identities,
    known_as,
    literal,
    nameless,
    of_type,
    tuple_of,
)
from cuda_device.types.layout import has_arrays, has_leaves, parts
from cuda_device.types.model import (
    BOOL,
    INDEX,
    Array,
    Bundle,
    Number,
    Pointer,
    Range,
    RangeIterator,
    Ref,
    Static,
    Struct,
    Subarray,
    Tuple,
    Type,
    Vector,
)
from cuda_device.types.vector_classes import VectorValue

if TYPE_CHECKING:
    from typing_extensions import TypeIs, TypeVar

    T_co = TypeVar("T_co", bound=Type, default=Type, covariant=True)
    K = TypeVar("K", bound=Type, default=Any)
    C = TypeVar("C", bound=Type)
    from cuda_device.infer import contents
else:
    from typing import TypeVar

    import_lazily(globals(), "cuda_device.infer", "contents")

    T_co = TypeVar("T_co")
    K = TypeVar("K")


@dataclass(slots=True)
class Cell(Generic[T_co]):
    """The facts about a value of the python level, and the typed value that holds it at run time, if there is one.

    A `Cell[Array]` is a value whose type is an `Array`.
    """

    known: Known
    value: Value | None = None
    place: Place | None = None
    """Where the value was read, for a vector, a struct or a part of one in the memory of an array."""

    @property
    def type(self) -> T_co:
        """The type of the value."""
        return self.known.type  # type: ignore[return-value]


def is_of(cell: Cell, kind: type[C]) -> TypeIs[Cell[C]]:
    """Whether the type of a value is of this class."""
    return isinstance(cell.known.type, kind)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in memory, and the value that was read there. `base` is an array, with an `index`, or a reference."""

    value: Value
    base: Cell
    index: Cell | None = None
    writes: int = 0
    """`Frame.writes` at the time."""


class Follows(CompileError):
    """An error that is the consequence of another one. It is not reported."""


class NeverReturns(Exception):
    """A call does not return, according to the facts so far. The rest of its block is unreachable."""


def _forgets(known: Known, less: Known) -> bool:
    """Whether a part of a tuple is a constant in `known` and not in `less`."""
    if known is less:
        return False
    if is_static(known):
        return not is_static(less)
    return any(_forgets(a, b) for a, b in zip(known.items, less.items, strict=True))


def is_static(known: Known) -> bool:
    """Whether a value has no run-time part: a constant, a function, None, an empty tuple."""
    if isinstance(known.type, (Number, Array, Ref, Pointer)):  # most values
        return known.value is not UNKNOWN
    return isinstance(known.type, Static) or known.constant or not has_leaves(known.type)


Rule = Callable[["Frame", Op, Sequence[Cell]], Sequence[Cell]]
"""Infers an operation of the python level: takes the cells of its operands and returns those of its results."""


class Rank(IntEnum):
    """The order of kinds. If the operands of an operator are of two kinds, the rule of the higher one applies."""

    NUMBER = auto()
    MASK = auto()
    COMPLEX = auto()
    ARRAY = auto()
    VECTOR = auto()
    COMPOSITE = auto()
    OTHER = auto()
    SEQUENCE = auto()
    LIST = auto()
    STRUCT = auto()


@dataclass(frozen=True, slots=True)
class Kind(Generic[K]):
    """The operations that values of one kind support, as slots. A `Kind[Array]` is that of values whose type is an `Array`.

        x[i]        KINDS[kind of x].getitem(frame, op, x, i)
        a * b       the `binary` of the kind with the higher rank: for a vector and a number that of vectors

    A kind is defined in one file of `infer/kinds`. These files do not import each other; they reach the rules of other kinds
    through the frame. A slot is None if the kind does not support the operation. A rule returns None if it does not support
    the given index or name.
    """

    rank: Rank
    getitem: Callable[[Frame, Op, Cell[K], Cell], Cell | None] | None = None
    """`x[i]`."""
    setitem: Callable[[Frame, Op, Cell[K], Cell, Cell], Sequence[Cell] | None] | None = None
    """`x[i] = v`. The result is empty, or the new value of the variable."""
    getattr: Callable[[Frame, Op, Cell[K], str], Cell | None] | None = None
    """`x.name`."""
    setattr: Callable[[Frame, Op, Cell[K], str, Cell], Sequence[Cell] | None] | None = None
    """`x.name = v`. The result is empty, or the new value of the variable."""
    methods: Mapping[str, Callable[..., Cell]] = MappingProxyType({})
    """The rules of methods, by name. Their parameters are the frame, the owner, and those of the method."""
    names: Callable[[Known], Sequence[str]] | None = None
    """The attributes that error messages suggest. If it is None, they suggest the methods."""
    method: Callable[[Frame, Cell[K], str, Sequence[Cell], Mapping[str, Cell]], Cell] | None = None
    """Calls a method that `getattr` has bound and that is not in `methods`."""
    items: Callable[[Frame, Cell[K]], list[Cell] | None] | None = None
    """All items of a value whose length is known at compile time."""
    truth: Callable[[Frame, Cell[K]], Cell] | None = None
    """The truth value. It is not called for constants, except bundles."""
    unary: Callable[[Frame, str, Cell[K]], Cell] | None = None
    """`-x`, `+x`, `~x`."""
    binary: Callable[[Frame, str, Cell[Any], Cell[Any]], Cell | None] | None = None
    """`x + y` and the other binary operators."""
    compare: Callable[[Frame, str, Cell[Any], Cell[Any]], Cell] | None = None
    """`x < y` and the other comparisons, for numbers."""


def library(function: Callable[..., object]) -> Callable[..., Cell]:
    """The rule of a method that is implemented by a function of the library."""
    return lambda frame, owner, *given, **named: frame.program.call(frame, function, [owner, *given], named)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a specialisation depends on besides its arguments.

    `code` is the meaning of a nested function, `reading` says how the code of a generator is read, and `where` is the place
    where the user called a library function that raises. `captured` names the variables of other functions, whose values
    follow the arguments.
    """

    code: NestedFunction | None = None
    reading: str = ""
    where: Location | None = None
    captured: tuple[Origin, ...] = ()


Pair = tuple[Cell, Cell]


class Program:
    """The interface between frames and the inference of the whole program, and the names that the program has read.

    What is only declared here is implemented in `engine.Inference`.

    `target` is an `SMSelector`, and `policy` a `policies.Policy`, or None for Python's rules. For each check of a row, `chosen`
    has the functions that are called in place of the entity.
    """

    def __init__(self, target: Any, options: Any, on_cpu: bool = False, policy: Any = None) -> None:
        self.target, self.options, self.on_cpu, self.policy = target, options, on_cpu, policy
        self.checked, self.debug = bool(options.checked), options.debug
        self.chosen: dict[Callable[..., None], set[Callable[..., object]]] = {}
        self.wraps = policy is not None and policy.wraps
        self.adopted: set[Value] = set()
        """Parameters of blocks at which a constant Python number took the type of the value on another edge."""
        self.given: set[Value] = set()
        """Constants with an explicit type, such as `float32(0.5)`."""
        self.dependencies: dict[tuple[int, str], Dependency] = {}
        self.made: dict[tuple[int, str, Known], tuple[object, object]] = {}

    def literal(self, value: object, where: Location) -> Known:
        """The facts about a Python object of the host. Raises `CompileError` if device code cannot hold it."""
        try:
            return literal(value, where)
        except TypeError as error:
            raise CompileError(
                str(error), help="use what device code can hold: numbers, tuples, structs, functions"
            ) from None

    def once(self, owner: object, name: str, arguments: tuple[object, ...], make: Callable[[], object]) -> object:
        """The result of `make`, which is called once for each owner, name and arguments, so that it is always the same object."""
        plain = tuple((slice, a.start, a.stop, a.step) if isinstance(a, slice) else a for a in arguments)
        key = (id(owner), name, constant(plain))
        if key not in self.made:
            self.made[key] = (owner, make())
        return self.made[key][1]

    def depend(self, owner: object, name: str, value: object) -> None:
        """Records that the program read `name` of `owner`. Later launches check that it is still `value`, unchanged."""
        if (id(owner), name) not in self.dependencies:
            changeable = contents.contents_of(value) if isinstance(value, HOLDERS) else ()
            self.dependencies[id(owner), name] = Dependency(owner, name, value, changeable)

    row: Callable[[object], Intrinsic | None]
    link: ClassVar[Callable[[Any, Any], None]]
    call: ClassVar[Callable[[Any, Frame, object, Sequence[Cell], Mapping[str, Cell]], Cell]]
    """Calls a Python function. Raises `NeverReturns` if it does not return according to the facts so far (recursion)."""
    enter: ClassVar[Callable[[Any, Frame, FunctionType, Sequence[Cell], CallContext, Mapping[Origin, Cell]], Cell]]


def _rule(path: str) -> Any:
    """A rule as a method of frames. Its module, which imports this one, is imported when it is first used."""
    return LazyMethod("cuda_device.infer", path)


class Frame:
    """Writes the typed operations of one block. `build.location` is the place of the current operation.

    Operations on values of any kind are declared here. They are rules of other modules, which describe them.
    """

    kind: ClassVar[Callable[[Frame, Known], Kind]] = _rule("rules.kind_of")
    call: ClassVar[Callable[[Frame, Cell, Sequence[Cell], Mapping[str, Cell]], Cell]] = _rule("rules.call")
    getattr: ClassVar[Rule] = _rule("rules.getattr_")
    getitem: ClassVar[Rule] = _rule("rules.getitem")
    store: ClassVar[Callable[[Frame, Cell[Any], Cell, Cell], None]] = _rule("kinds.arrays.store")
    assign: ClassVar[Callable[[Frame, Cell[Any], Cell], None]] = _rule("array_parts.assign")
    binary: ClassVar[Rule] = _rule("operators.binary")
    unary: ClassVar[Rule] = _rule("operators.unary")
    compare: ClassVar[Rule] = _rule("operators.compare")
    truth: ClassVar[Callable[[Frame, Cell], Cell]] = _rule("operators.truth_of")
    iterate: ClassVar[Callable[[Frame, Cell], Cell]] = _rule("loops.iterator_over")
    items_of_iterator: ClassVar[Callable[[Frame, Cell], list[Cell]]] = _rule("loops.items_of")
    as_iterable: ClassVar[Callable[[Frame, Cell], Cell]] = _rule("sequences.as_iterable")
    items_of: ClassVar[Callable[[Frame, Cell, str], list[Cell]]] = _rule("sequences.items_of")
    method_of: ClassVar[Callable[[Frame, Struct, str], FunctionType | None]] = _rule("composites.method_of")
    subarray: ClassVar[Callable[[Frame, Subarray, Cell], Cell]] = _rule("kinds.subarrays.made_of")
    select: ClassVar[Callable[[Frame, Cell[Any], Sequence[Cell]], Cell]] = _rule("array_parts.select")
    store_composite: ClassVar[Callable[[Frame, Cell[Any], Sequence[Cell], Cell], None]] = _rule(
        "array_parts.store_composite"
    )
    pointer: ClassVar[Callable[[Frame, Cell[Any], Sequence[Cell]], Cell]] = _rule("array_shapes.pointer")
    of_each: ClassVar[Callable[[Frame, Cell[Any], str], Cell]] = _rule("array_parts.of_each")
    column: ClassVar[Callable[[Frame, Cell[Any], Type, int], Cell]] = _rule("array_parts.column")
    transposed: ClassVar[Callable[[Frame, Cell[Any]], Cell]] = _rule("array_parts.transpose")
    viewed: ClassVar[Callable[[Frame, Cell[Any], Cell], Cell]] = _rule("array_shapes.view")
    reshaped: ClassVar[Callable[..., Cell]] = _rule("array_shapes.reshape")
    as_array_type: ClassVar[Callable[[Frame, Cell[Any], Array], Value]] = _rule("array_windows.as_type")
    constant_array: ClassVar[Callable[[Frame, Cell], Cell]] = _rule("kinds.arrays.in_constant_memory")
    record_constant: ClassVar[Callable[[Frame, np.void], Cell]] = _rule("kinds.structs.constant_of")

    def __init__(self, program: Program, function: FunctionType) -> None:
        self.program, self.function = program, function
        self.captured: Mapping[Origin, Cell] = {}
        """The variables of other functions that this one or its arguments read: the caller's, or those that it captured."""
        self.code: NestedFunction | None = None
        """The meaning of the nested function, which lists the variables that it reads."""
        self.activation = 0
        """The number that distinguishes the variables of this call from those of other calls of the function (see `Origin`)."""
        self.cells: Mapping[str, Cell] = {}
        """The current values of the function's own variables that nested functions capture."""
        self.heap: dict[Identity, Cell] = {}
        """The contents of the objects that changed in this block. Cells may still hold earlier contents."""
        self.changed: set[Identity] = set()
        self.exits: dict[Value, Mapping[Identity, Cell]] = {}
        """The contents of objects at the end of a loop, by the condition that the loop continues."""
        self.left: dict[Identity, Cell] = {}
        """The contents of objects after a step of an iterator that gave no item."""
        self.policy: Any = None
        """The policy of the function; None for Python's rules."""
        self.where: Location | None = None
        """In a library function, the place where the user called it, if it is known."""
        self.site: tuple[object, ...] = ()
        """The name of the block, which together with `made`, the number of its allocations, identifies objects."""
        self.made = 0
        self.writes = 0
        """The number of operations so far that may have changed memory."""
        self.sealed_values: list[Value] = []
        """The tuples that this block sealed, in their order, since it called a function that may have sealed some."""
        self.selected: Callable[[Op, int], None] = lambda *_: None  # `Body.selected`
        self.passed_over: set[Value] = set()
        """Values read from places that are then used by reference. Their loads are dropped if nothing else uses them."""
        self.shorter: dict[Value, Value] = {}
        """For indices that were converted from 32 bits: the number before the conversion."""
        self.build = Builder(Block())

    @property
    def location(self) -> Location:
        """The place of the current operation in the source."""
        return self.build.location

    def operate(self, sign: str, *cells: Cell) -> Cell:
        """Applies an operator, such as `a + b`, `a < b` or `not a`, as if the user had written it."""
        if len(cells) == 1:
            rule, code = self.unary, ops.PY_UNARY
        else:
            rule, code = (self.compare, ops.PY_COMPARE) if sign in ops.SWAPPED else (self.binary, ops.PY_BINARY)
        return rule(Op(code, attributes={"op": sign}, location=self.location), cells)[0]

    def run(self, function: object, *cells: Cell) -> Cell:
        """Calls a Python function, such as one of the library."""
        return self.program.call(self, function, cells, {})

    def item(self, owner: Cell, index: Cell) -> Cell:
        """`x[i]`."""
        return self.getitem(Op(ops.PY_GETITEM), (owner, index))[0]

    def scalar(self, cell: Cell) -> Cell:
        """Reads the number in a 0-d array of numbers. Returns other values unchanged."""
        array = cell.known.type
        if not isinstance(array, Array) or array.ndim or not isinstance(array.dtype, Number) or cell.value is None:
            return cell
        return self.emit(ops.PY_GETITEM, of_type(array.dtype), cell.value)

    def as_tuple(self, cell: Cell) -> Cell:
        """Converts a list or named tuple to a tuple. Returns other values unchanged."""
        is_tuple = means(cell.known, Thing.LIST) or isinstance(cell.known.value, Named)
        return self.tuple(self.fields(cell)) if is_tuple else cell

    def member(self, owner: Cell, name: str) -> Cell:
        """`x.name`."""
        return self.getattr(Op(ops.PY_GETATTR, attributes={"name": name}), [owner])[0]

    # Mutable objects. They are values like any others; `heap` has their current contents, by their identities.

    def as_object(self, cell: Cell, identity: Identity | None = None) -> Cell:
        """Makes a value the contents of a mutable object, a new one by default."""
        if isinstance(cell.known.value, Unset):
            return cell
        return Cell(replace(cell.known, identity=identity or self.new_identity()), cell.value)

    def new_identity(self) -> Identity:
        """The identity of an object that the current operation makes."""
        self.made += 1
        return Identity((*self.site, self.made))

    def change(self, identity: Identity, cell: Cell) -> Cell:
        """Sets the contents of an object."""
        check_apart(cell.known, identity)
        self.changed.add(identity)
        self.heap[identity] = self.as_object(cell, identity)
        return self.heap[identity]

    def now(self, cell: Cell) -> Cell:
        """The current version of a value, with the current contents of the objects in it."""
        if not self.heap:
            return cell
        identity = cell.known.identity
        if identity is not None and identity in self.heap:
            cell = self.heap[identity]
        parts = cell.known.inner_objects if cell.known.items else ()
        if not any(part.identity in self.heap for part in parts):
            return cell
        return self.rebuilt(cell.known, [self.now(part) for part in self.fields(cell)])

    def rebuilt(self, known: Known, parts: Sequence[Cell]) -> Cell:
        """A tuple or bundle like `known` with other parts."""
        cell = self.bundle(known.value, parts) if isinstance(known.type, Bundle) else self.tuple(parts)
        return cell if known.identity is None else self.as_object(cell, known.identity)

    def literal(self, value: object) -> Cell:
        """The value of a Python object of the host. For an entity such as `thread_idx`, this reads its value."""
        if type(value) is tuple:
            return self.tuple([self.literal(item) for item in value])
        row = self.program.row(value)
        if row is not None and row.is_value:
            return self.intrinsic(row, self.ask(row, ()), ())
        if isinstance(value, VectorValue):
            return self.composite(value.model, [self.literal(item) for item in value])
        if is_struct(type(value)):
            model = model_of(type(value))
            if has_arrays(model):
                raise CompileError(
                    f"{model.name} has array members, so it cannot be a constant",
                    help="pass it to the kernel as an argument",
                )
            return self.composite(model, [self.literal(getattr(value, field.name)) for field in model.fields])
        if isinstance(value, np.void):
            return self.record_constant(value)
        return Cell(self.program.literal(value, self.build.location))

    def composite(self, type: Vector | Struct | Subarray, cells: Sequence[Cell]) -> Cell:
        """A vector, struct or subarray of cells, which are converted to the types of its parts."""
        operands = [self.materialise(cell, part) for cell, part in zip(cells, parts(type), strict=True)]
        return self.emit(ops.MAKE, of_type(type), *operands)

    def emit(self, code: ops.OpDef, known: Known, *operands: Value, **attributes: object) -> Cell:
        """A typed operation with one result."""
        return Cell(known, self.build.op(code, known.type, *operands, nonneg=known.nonneg, **attributes))

    def ask(self, row: Intrinsic, arguments: Sequence[Cell]) -> Typed:
        """The types that a row of the device tables infers for arguments."""
        known = [cell.known for cell in arguments]
        if row.asks_target or row.asks_options:
            asked = [self.program.options] * row.asks_options + [self.program.target] * row.asks_target
            known += map(constant, asked)
        return row.infer(known)

    def intrinsic(self, row: Intrinsic, typed: Typed, arguments: Sequence[Cell]) -> Cell:
        """A call of a row of the device tables. If it has a static result and no effects, no operation is written."""
        static = is_static(typed.result)
        if static and row.effects is Effect.PURE:
            return Cell(typed.result)
        operands = [self.materialise(arguments[i], type) for i, type in typed.operands]
        result = Value(typed.result.type, nonneg=typed.result.nonneg)
        attributes: dict[str, object] = {"name": row.name}
        if typed.settings:
            attributes["settings"] = typed.settings
        place = (self.where if Effect.SUSPENDS in row.effects else None) or self.build.location
        self.build.append(Op(ops.INTRINSIC, operands, [result], attributes, [], place))
        return Cell(typed.result, None if static else result)

    def check(self, holds: Cell, message: str, *values: Cell, help: str, always: bool = False) -> None:
        """In checked mode, ends the thread with a report unless `holds`. `{0}` and `{1}` in the message stand for the values."""
        if not (self.program.checked or always) or (holds.known.constant and holds.known.value):
            return
        words = {"message": message, "help": help}
        operands = (self.materialise(value, INDEX) for value in values)
        self.build.effect(ops.PY_CHECK, self.materialise(holds, BOOL), *operands, **words)

    def field(self, cell: Cell, index: int) -> Cell:
        """One element of a tuple or vector, or one part of a complex number."""
        known = cell.known
        if isinstance(known.value, complex) and isinstance(known.type, Number):
            value = (known.value.real, known.value.imag)[index]
            return Cell(Known(known.type.part, value, where=self.location))
        if isinstance(known.type, Number):
            assert cell.value is not None
            return self.emit(ops.FIELD, of_type(known.type.part), cell.value, index=index)
        if isinstance(known.type, (Vector, Struct, Subarray)):
            assert cell.value is not None
            element = of_type(_type_of_part(known.type, index), high=known.high)
            return Cell(element) if is_static(element) else self.emit(ops.FIELD, element, cell.value, index=index)
        item = known.items[index]
        if is_static(item):
            return Cell(item)
        assert cell.value is not None
        return self.emit(ops.FIELD, item, cell.value, index=index)

    def tuple(self, cells: Sequence[Cell]) -> Cell:
        """A tuple of cells."""
        return self._make(tuple_of(tuple([cell.known for cell in cells]), self.location), cells)

    def bundle(self, meaning: object, cells: Sequence[Cell]) -> Cell:
        """A bundle: an object that exists at compile time, with cells as its run-time parts."""
        return self._make(bundle_of(meaning, tuple([cell.known for cell in cells]), self.location), cells)

    def new_list(self, cells: Sequence[Cell]) -> Cell:
        """A new list of cells."""
        return self.as_object(self.bundle(Thing.LIST, cells))

    def extended(self, cell: Cell, items: Sequence[Cell]) -> Cell:
        """The contents of a list with more items behind its own, which are not taken out of it."""
        own = cell.known
        if cell.value is None or not isinstance(own.type, Bundle) or cell.value.type != own.type:
            return self.bundle(Thing.LIST, [*self.fields(cell), *items])
        known = tuple([item.known for item in items])
        type = Bundle((*own.type.elements, *[item.type for item in known]))
        contents = Known(type, Thing.LIST, (*own.items, *known), where=self.location)
        return self.emit(ops.EXTEND, contents, cell.value, *[self.carry(item, item.known) for item in items])

    def as_value(self, cell: Cell) -> Cell:
        """Converts a vector or struct of the host, which a `ConstExpr` parameter may hold. Returns other values unchanged."""
        value = cell.known.value
        is_value = isinstance(cell.known.type, Static) and (isinstance(value, VectorValue) or is_struct(type(value)))
        return self.literal(value) if is_value else cell

    def as_stored(self, value: Cell, element: Number) -> Cell:
        """Converts a constant that is stored in memory like the constructor of the element type does."""
        known = value.known
        typed = isinstance(known.type, Number) and not known.type.builtin and known.type != element
        if known.constant and (typed or (isinstance(known.value, float) and not element.is_float)):
            return self.call(self.literal(host_type_of(element)), [value], {})
        return value

    def all_equal(self, sign: str, pairs: Sequence[Pair]) -> Cell:
        """Whether all pairs are equal; for `!=`, whether any pair differs."""
        result: Cell | None = None
        for pair in pairs:
            equal = self.operate(sign, *pair)
            joined = [cell for cell in (result, equal) if cell is not None]
            result = equal
            if len(joined) == 2:
                values = [self.materialise(cell, BOOL) for cell in joined]
                result = self.emit(ops.PY_BINARY, of_type(BOOL), *values, op="&" if sign == "==" else "|")
        return result or Cell(constant(sign == "=="))

    def fields(self, cell: Cell) -> list[Cell]:
        """Every part of a value."""
        return [self.field(cell, i) for i in range(len(parts(cell.known.type)))]

    def _make(self, known: Known, cells: Sequence[Cell]) -> Cell:
        if is_static(known):
            return Cell(known)
        return self.emit(ops.MAKE, known, *(self.carry(cell, cell.known) for cell in cells))

    def carry(self, cell: Cell, known: Known, objects: Mapping[Identity, Cell] | None = None) -> Value:
        """The value to pass to a place that has the facts `known`. Constants that are known there are not passed.

        In a tuple, zeros replace these constants, which may not fit their types yet. Parts without a value are also zero,
        except for objects that are in another part: `objects` has these, by their identities at the place.
        """
        if is_static(known):
            return self.build.const(known.type, 0 if isinstance(known.type, Number) else None)
        if isinstance(cell.known.value, Unset):
            return _value_of_nothing(self, known, objects or {})
        if objects is None and isinstance(known.value, Gaps):
            objects = objects_in(self, cell, known)
        if not isinstance(known.type, (Tuple, Bundle)):
            return self.materialise(cell, known.type)
        if cell.value is not None and cell.value.type == known.type and not _forgets(cell.known, known):
            return cell.value
        pairs = zip(self.fields(cell), known.items, strict=True)
        parts = [self.carry(part, item, _shared(known, part, objects)) for part, item in pairs]
        return self.build.op(ops.MAKE, known.type, *parts)

    def materialise(self, cell: Cell, type: Type) -> Value:
        """The run-time value of a cell as `type`: converts numbers, and writes constants."""
        known = cell.known
        match type:
            case Number():
                return self._number(cell, type)
            case Tuple(elements) | Bundle(elements):
                if cell.value is not None and cell.value.type == type and not _forgets(known, known.forget()):
                    return cell.value
                items = [self.materialise(self.field(cell, i), element) for i, element in enumerate(elements)]
                return self.build.op(ops.MAKE, type, *items)
            case Range() | RangeIterator() if cell.value is not None and cell.value.type != type:
                return self.build.op(ops.MAKE, type, *self._range_parts(cell, type.counts_in))
            case Struct() if cell.value is not None and isinstance(known.type, Ref):
                # Where control flow joins, `self` may be a value on the other edge.
                return self.build.op(ops.LOAD, type, cell.value)
            case Struct() if cell.value is not None and cell.value.type != type:
                # Where control flow joins, its arrays may have other types on the other edge.
                return self.build.op(ops.MAKE, type, *map(self.materialise, self.fields(cell), parts(type)))
            case Array() if cell.value is not None and cell.value.type != type:
                return self.as_array_type(cell, type)
            case Pointer() if cell.value is not None and cell.value.type != type:
                return self.build.op(ops.WINDOW, type, cell.value, self.build.const(INDEX, 0))
            case _ if cell.value is not None:
                assert cell.value.type == type, (str(cell.value.type), str(type))
                return cell.value
            case _:
                assert not has_leaves(type) or known.value is None, str(known)
                return self.build.const(type, None)

    def convert(self, cell: Cell, type: Number) -> Cell:
        """A number converted to `type`. A constant stays one, and raises `CompileError` if it does not fit."""
        if cell.known.type == type:
            return cell
        if cell.known.constant:
            return Cell(replace(cell.known, type=type, value=fit(cell.known, type, self.program.wraps)))
        return Cell(known_as(cell.known, type), self.materialise(cell, type))

    def _range_parts(self, cell: Cell, item: Number) -> list[Value]:
        """Start, stop and step of a range or its iterator, as numbers of another type."""
        assert cell.value is not None and isinstance(cell.value.type, (Range, RangeIterator))
        source = cell.value.type.counts_in
        known = (of_type(source, part.nonneg) for part in cell.known.items)
        parts = [self.emit(ops.FIELD, part, cell.value, index=i) for i, part in enumerate(known)]
        return [self.materialise(part, item) for part in parts]

    def index(self, cell: Cell, known: Known) -> Cell:
        """Converts a number of 32 bits to an index. Uses that need 32 bits get the original number."""
        assert cell.value is not None
        whole = self.materialise(cell, INDEX)
        self.shorter[whole] = cell.value
        return Cell(known, whole)

    def _number(self, cell: Cell, type: Number) -> Value:
        if cell.known.value is not UNKNOWN:
            value = self.build.const(type, fit(cell.known, type, self.program.wraps))
            if isinstance(cell.known.type, Number) and not cell.known.type.builtin:
                self.program.given.add(value)
            return value
        assert cell.value is not None and isinstance(cell.value.type, Number), str(cell.known)
        if cell.value.type == type:
            return cell.value
        shorter = self.shorter.get(cell.value)
        if shorter is not None and shorter.type == type:
            return shorter
        if cell.value.type.is_complex and not type.is_complex:
            raise CompileError(f"{cell.known} does not fit {type}", help=REAL_REMEDY)
        exact = {"exact": True} if has_bounds_within(cell.known, type) else {}
        if self.program.checked and not exact:
            self._check_room(cell, type)
        return self.build.op(ops.CONVERT, type, cell.value, nonneg=known_as(cell.known, type).nonneg, **exact)

    def _check_room(self, cell: Cell, type: Number) -> None:
        """Checks, in checked mode, that a Python int fits the integer type to which it is converted."""
        source = cell.known.type
        assert isinstance(source, Number) and cell.value is not None
        if not (source.is_integer and source.builtin and type.is_integer) or source == BOOL:
            return
        low, high = cell.known.bounds
        for sign, limit in [("<=", type.low)] * (low < type.low) + [(">=", type.high)] * (high > type.high):
            fits = self.emit(ops.PY_COMPARE, of_type(BOOL), self.build.const(source, limit), cell.value, op=sign)
            message = f"the int {{0}} does not fit {type}, the type that it takes here"
            instead = "signed type, as in int(x)" if limit == 0 else "wider type"
            self.check(fits, message, cell, help=f"convert the int, {type}(…), or use a {instead}")


def _type_of_part(type: Vector | Struct | Subarray, index: int) -> Type:
    """The type of a part."""
    return type.fields[index].type if isinstance(type, Struct) else type.dtype


# Values for parts that a value does not have on this edge. A generator, for example, has parts for each of its `yield`s:
#
#     on this edge    at `yield` 1, which keeps (xs, i); no parts for `yield` 2
#     in the target   at `yield` 1 or 2, with parts for both; `yield` 2 keeps (xs,)
#
# The edge passes the list `xs` for both, because each part that may hold a mutable object must have its current contents.


def _value_of_nothing(frame: Frame, known: Known, objects: Mapping[Identity, Cell]) -> Value:
    """The value for a part that has none on this edge: zeros, and those `objects` in it that other parts have."""
    held = objects.get(known.identity) if known.identity is not None else None
    if held is not None:
        if join(nameless(held.known), nameless(known)) != nameless(known):
            raise CompileError(
                f"the generator changes {known} between `yield`s in a way that the compiler cannot follow",
                help="change it in the loop over the generator, or give the generator a copy: [*x]",
            )
        return frame.carry(held, known, objects)
    if known.inner_objects:
        return frame.build.op(ops.MAKE, known.type, *(_value_of_nothing(frame, item, objects) for item in known.items))
    return frame.build.const(known.type, 0 if isinstance(known.type, Number) else None)


def _shared(known: Known, part: Cell, objects: Mapping[Identity, Cell] | None) -> Mapping[Identity, Cell] | None:
    """The objects that a part of a value may hold; None for parts that nothing reads."""
    if not isinstance(known.value, Gaps) or not known.value.alone:
        return objects
    ended = isinstance(part.known.value, Resumed) and part.known.items[0].value is False
    return None if ended or isinstance(part.known.value, Unset) else objects


def objects_in(frame: Frame, cell: Cell, known: Known) -> dict[Identity, Cell]:
    """The objects in a value, by their identities in `known`."""
    by_identity: dict[Identity, Cell] = {}
    if isinstance(cell.known.value, Unset):
        return by_identity
    is_alike = known.inner_objects and len(known.items) == len(cell.known.items)
    for i, item in enumerate(known.items if is_alike else ()):
        if identities(item):
            by_identity = objects_in(frame, frame.field(cell, i), item) | by_identity
    if known.identity is not None:
        by_identity[known.identity] = cell
    return by_identity
