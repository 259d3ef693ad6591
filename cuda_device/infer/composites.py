"""Rules shared by values with parts (structs, vectors, tuples, lists): construction, members, `replace` and equality.

Point(1, y=2)     a `make` of the two members, converted to their types
p == q            p.x == q.x & p.y == q.y
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cuda_device.errors import CompileError
from cuda_device.infer.dependencies import MISSING
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.indexing import MOST_ITEMS
from cuda_device.infer.meanings import Keywords, Named, Thing
from cuda_device.lazy_dataclasses import replace as with_fields
from cuda_device.lazy_imports import import_lazily
from cuda_device.types.host import alike, becomes, given_members, host_of, members_of, overloads_key
from cuda_device.types.known import Known, constant
from cuda_device.types.layout import has_arrays, has_identity, parts, rebuilt, with_arrays
from cuda_device.types.model import NONE, Array, Number, Pointer, Ref, Struct, Subarray, Tuple, Type, Vector
from cuda_device.types.vector_classes import AXES

if TYPE_CHECKING:
    from cuda_device.infer import references
else:
    import_lazily(globals(), "cuda_device.infer", "references")


def construct(frame: Frame, model: Struct, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """A struct from the arguments of a call of its class."""
    if has_identity(model):
        raise references.refusal(model)
    names = [field.name for field in model.fields]
    host: Any = model.host
    cells = _bound(frame, model.name, names, host._defaults if host is not None else {}, positional, named)
    return composite(frame, model, [member(frame, model, i, cell) for i, cell in enumerate(cells)])


def _bound(
    frame: Frame,
    owner: str,
    names: Sequence[str],
    defaults: Mapping[str, object],
    positional: Sequence[Cell],
    named: Mapping[str, Cell],
) -> list[Cell]:
    """A cell for each member of a struct or named tuple."""
    try:
        members = given_members(owner, names, defaults, positional, named)
    except TypeError as error:
        raise CompileError(str(error), help=f"its members are {', '.join(names)}") from None
    return [members[name] if name in members else frame.literal(defaults[name]) for name in names]


def composite(frame: Frame, struct: Struct, cells: Sequence[Cell]) -> Cell:
    """A struct of its members, whose arrays keep their types."""
    if has_arrays(struct):
        struct = rebuilt(struct, map(with_arrays, parts(struct), (cell.known.type for cell in cells)))
    return frame.composite(struct, cells)


def member(frame: Frame, struct: Struct, index: int, cell: Cell) -> Cell:
    """Converts a value to the type of a member.

    A member of a class only takes values of its type; a member of a NumPy dtype converts values as elements of arrays do.
    """
    field = struct.fields[index]
    if struct.host is None and isinstance(field.type, Number) and isinstance(cell.known.type, Number):
        return frame.as_stored(cell, field.type)
    if isinstance(field.type, Subarray) and cell.known.type != field.type:
        return frame.subarray(field.type, cell)
    if struct.host is None and isinstance(field.type, Struct) and field.type.host is None:
        cell = as_record(frame, field.type, cell)
    type = with_arrays(field.type, cell.known.type)
    cell = as_aligned(frame, type, cell)
    check_member(cell.known, type, f"{struct.name}.{field.name}")
    return cell


def method_of(frame: Frame, struct: Struct, name: str) -> FunctionType | None:
    """A special method that the user's class of a struct defines, or None."""
    if struct.host is None:
        return None
    frame.program.depend(struct.host, name, getattr(struct.host, name, MISSING))
    method = vars(struct.host).get(name)
    method = getattr(method, "underlying", method)
    # `struct` adds methods such as `__eq__` to every class.
    is_own = isinstance(method, FunctionType) and not method.__module__.startswith("cuda_device.types.")
    return method if is_own else None


def overload_of(frame: Frame, entity: object, cells: Sequence[Cell]) -> FunctionType | None:
    """The overload of `entity` that a library has registered for these arguments, one of which is a struct; or None."""
    for host in {host_of(cell.known.type): None for cell in cells if isinstance(cell.known.type, Struct)}:
        if host is None:
            continue
        name = overloads_key(entity)
        overloads = vars(host).get(name, MISSING)
        frame.program.depend(host, name, overloads)
        for overloaded, function, parameters in overloads if isinstance(overloads, tuple) else ():
            if overloaded is entity and len(parameters) >= len(cells) and all(map(_fits, cells, parameters)):
                return function  # type: ignore[no-any-return]
    return None


def _fits(cell: Cell, declared: Type | None) -> bool:
    """Whether an argument fits a parameter of an overload."""
    actual = cell.known.type
    if declared is None:
        return True
    if isinstance(declared, Array):
        return isinstance(actual, Array) and (actual.dtype, actual.ndim) == (declared.dtype, declared.ndim)
    if isinstance(declared, Struct):
        return host_of(actual) is host_of(declared)
    return _takes(declared, actual)


def as_record(frame: Frame, struct: Struct, cell: Cell) -> Cell:
    """Converts a tuple, or a struct with another layout, to a record of a NumPy dtype. Returns other values unchanged."""
    match cell.known.type:
        case Tuple():
            return construct(frame, struct, frame.fields(cell), {})
        case Struct(_, fields) as other if other != struct and len(fields) == len(struct.fields):
            return construct(frame, struct, frame.fields(cell), {})
    return cell


def as_aligned(frame: Frame, target: Type, cell: Cell) -> Cell:
    """Converts between a class and `align(class, n)`, which differ only in layout. Returns other values unchanged."""
    actual = cell.known.type
    if actual == target or not (isinstance(target, Struct) and isinstance(actual, Struct) and alike(actual, target)):
        return cell
    return composite(frame, target, frame.fields(cell))


def _takes(wanted: Type, actual: Type) -> bool:
    """Whether a member of type `wanted` takes one of type `actual`: its format, or a builtin number of its kind or a lower one.

    Pointers convert as in C++: to the same element type or `void*`, without dropping `const`.
    """
    match wanted, actual:
        case Number(), Number():
            return actual.machine == wanted.machine or (actual.builtin and becomes(actual, wanted))
        case Pointer(), Pointer():
            return wanted.dtype in (actual.dtype, NONE) and (wanted.readonly or not actual.readonly)
        case Array(), Array():
            return actual in (wanted, with_fields(wanted, readonly=False))
        case Tuple(elements), Tuple(others) if len(elements) == len(others):
            return all(map(_takes, elements, others))
    return actual == wanted


def check_member(known: Known, declared: Type, label: str) -> None:
    """Raises `CompileError` unless a value can be a member of type `declared`.

    An `int` member takes an int32, such as `tid(1)`, and a `float` member a float32.
    """
    actual = known.type
    if _takes(declared, actual):
        return
    if isinstance(declared, Tuple) and isinstance(actual, Tuple) and len(declared.elements) == len(actual.elements):
        for i, (item, element) in enumerate(zip(known.items, declared.elements, strict=True)):
            check_member(item, element, f"{label}[{i}]")
        return
    if isinstance(declared, Struct) and isinstance(actual, Struct) and declared.host and declared.name == actual.name:
        raise CompileError(
            f"{label} is of type {declared.name}, and this value is of another class with that name",
            help="use one class for both: if the class was redefined, create the array or the value again",
        )
    name = declared.name if isinstance(declared, Struct) else str(declared)
    if isinstance(declared, Pointer):
        raise CompileError(f"{label} is a {declared}, not {known}", help=_help_with_pointer(actual, declared))
    is_class = isinstance(declared, (Number, Struct))
    raise CompileError(
        f"{label} is of type {name}, not {known}",
        help=f"write {name}(…)" if is_class else f"give a value of type {name}",
    )


def _help_with_pointer(actual: Type, declared: Pointer) -> str:
    """The help for a value that is not such a pointer."""
    if isinstance(actual, Array):
        return "write x.pointer(), or x.pointer(i) for a later element"
    if isinstance(actual, Pointer) and actual.readonly and not declared.readonly:
        return "a read-only pointer stays read-only: declare pointer(T, readonly=True) where C++ has T const*"
    return "write p.cast(T)" if isinstance(actual, Pointer) else "pass a pointer, such as x.pointer()"


def replace(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`replace(s, member=value, …)`."""
    if len(positional) != 1:
        raise CompileError(
            f"replace takes one struct or vector, not {len(positional)}", help="write replace(s, member=value)"
        )
    (cell,) = positional
    type = cell.known.type
    if isinstance(type, Ref) and isinstance(type.pointee, Struct):
        raise references.refusal(type.pointee)
    if not isinstance(type, (Struct, Vector)):
        raise CompileError(
            f"replace takes a struct or a vector, not {cell.known}", help="write replace(s, member=value)"
        )
    names = list(AXES[: type.size]) if isinstance(type, Vector) else [field.name for field in type.fields]
    for name in named:
        if name not in names:
            raise CompileError(f"{cell.known} has no member {name!r}", help=f"its members are {', '.join(names)}")
    cells = [named[name] if name in named else frame.field(cell, i) for i, name in enumerate(names)]
    if isinstance(type, Struct):
        return composite(frame, type, [member(frame, type, i, part) for i, part in enumerate(cells)])
    return frame.composite(type, cells)


def named(frame: Frame, cell: Cell) -> Cell:
    """Converts the tuples in an argument of a launch that are named tuples on the host to named tuples."""
    if not _has_names(cell.known):
        return cell
    parts = [named(frame, part) for part in frame.fields(cell)]
    return frame.bundle(cell.known.value, parts) if isinstance(cell.known.value, Named) else frame.tuple(parts)


def _has_names(known: Known) -> bool:
    return isinstance(known.type, Tuple) and (isinstance(known.value, Named) or any(map(_has_names, known.items)))


# Named tuples


def make(cls: Any, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Makes a named tuple: `Point(x, y=2)`."""
    cells = _bound(frame, cls.__name__, cls._fields, cls._field_defaults, positional, named)
    return frame.bundle(Named(cls), cells)


def check_shape(shape: tuple[int, ...], value: Known) -> None:
    """Raises `CompileError` for nested tuples that cannot be broadcast to `shape`."""
    if isinstance(value.type, Tuple):
        if not shape or len(value.items) not in (1, shape[0]):
            count = shape[0] if shape else 1
            raise CompileError(
                f"cannot assign {len(value.items)} values to {count} element{'s' * (count != 1)}", help="give each one"
            )
        for item in value.items:
            check_shape(shape[1:], item)


def no_member(type: Type, name: str) -> CompileError:
    """The error for a member that a type does not have. Where all members are private, it names the attributes of the class."""
    members = [*members_of(type)]
    if isinstance(type, Struct) and all(member.startswith("_") for member in members):
        attributes = [attribute for attribute in vars(type.host or object) if attribute not in ("of", "underlying")]
        members = [attribute for attribute in attributes if not attribute.startswith("_")] or members
    shown = type.name if isinstance(type, Struct) else type
    return CompileError(f"{shown} has no member {name!r}", help=f"its members are {', '.join(members)}")


# Equality


def compare(frame: Frame, sign: str, a: Cell, b: Cell) -> Cell:
    """`==` and `!=` of tuples, vectors and structs, which compare all members."""
    x, y = (cell.known.type for cell in (a, b))
    is_same = alike(x, y) if isinstance(x, Struct) and isinstance(y, Struct) else type(x) is type(y)
    first, second = frame.fields(a), frame.fields(b)
    if not is_same or len(first) != len(second):
        return Cell(constant(sign == "!="))
    return frame.all_equal(sign, [*zip(first, second, strict=True)])


# Lists and dicts


def changed(frame: Frame, cell: Cell, parts: Sequence[Cell] | Mapping[object, Cell]) -> Cell:
    """A list or dict with other items. If it is a mutable object, this changes its contents."""
    if isinstance(parts, Mapping):
        after = frame.bundle(Keywords(tuple(parts)), list(parts.values()))
    else:
        after = frame.bundle(Thing.LIST, parts)
    return after if cell.known.identity is None else frame.change(cell.known.identity, after)


def extended(frame: Frame, cell: Cell, items: Sequence[Cell]) -> Cell:
    """A list with more items behind its own. If it is a mutable object, this changes its contents."""
    after = frame.extended(cell, items)
    return after if cell.known.identity is None else frame.change(cell.known.identity, after)


def change(frame: Frame, owner: Cell, parts: Sequence[Cell] | Mapping[object, Cell]) -> Cell:
    """Changes the items of a list or dict. Raises `CompileError` if it is not a single object, and if it gets too long."""
    check_change(owner, len(parts))
    return changed(frame, owner, parts)


def check_change(owner: Cell, count: int) -> None:
    """Raises `CompileError` if a list or dict is not a single object, and if `count` items are too many."""
    if owner.known.identity is None:
        raise CompileError(
            f"this {str(owner.known)[2:]} may be one of several, depending on the path taken, so it cannot be changed",
            help="use a separate name for each one, or make a copy",
        )
    if count > MOST_ITEMS:
        raise CompileError(
            f"{owner.known} of {count} items is too long for device code: the limit is {MOST_ITEMS}",
            help="use local_array",
        )
