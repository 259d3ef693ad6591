"""References to array elements: methods that change `self`, and structs with atomic members.

    points[i].move(1)        in `move`, `self` is a ref<global, struct<Point, …>>: `self.x += 1` loads and stores
    p = points[i]            p is a value: a copy
    m = locks[i]             m is a ref<global, struct<Lock, …>> again, because a Lock has atomic members: it has identity

    t = table                t is a ref<parameter, struct<Table, …>>: an argument of the kernel that is passed as its bytes

Only `self` can be a reference to a plain struct in memory that may change. Any other use of it (a second name, an argument, a
result, an operand) reads the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame, Place
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op, Value
from cuda_device.lazy_imports import import_lazily
from cuda_device.types.known import of_type
from cuda_device.types.layout import (
    MOST_NUMBERS,
    common_alignment,
    has_identity,
    known_alignment,
    leaves,
    placement,
    shortfall,
)
from cuda_device.types.model import INDEX, Array, AtomicCell, Layout, Ref, Space, Struct, Subarray, Tuple, Type, Vector

if TYPE_CHECKING:
    from cuda_device.infer import indexing
    from cuda_device.library import copying
else:
    import_lazily(globals(), "cuda_device.library", "copying")
    import_lazily(globals(), "cuda_device.infer", "indexing")


def element(frame: Frame, array: Cell, indices: Sequence[Value], **more: bool) -> Cell:
    """A reference to an element of an array. `more` are attributes of the operation `refer`."""
    type = array.known.type
    assert isinstance(type, Array) and array.value is not None
    known = of_type(Ref(type.space, type.dtype, type.readonly, type.align))
    return frame.emit(ops.REFER, known, array.value, *indices, **more)


def member(frame: Frame, owner: Cell, struct: Struct, index: int) -> Cell:
    """A reference to a member of the struct that `owner` refers to."""
    return behind(frame, owner, struct.fields[index].type, placement(struct).offsets[index])


def behind(frame: Frame, owner: Cell, type: Type, offset: int) -> Cell:
    """A reference to a value of `type`, `offset` bytes after the address that `owner` refers to."""
    reference = owner.known.type
    assert isinstance(reference, Ref) and owner.value is not None
    align = shortfall(type, common_alignment(known_alignment(reference), offset))
    known = of_type(Ref(reference.space, type, reference.readonly, align))
    return frame.emit(ops.MEMBER, known, owner.value, offset=offset)


def after(frame: Frame, owner: Cell, index: Cell) -> Cell:
    """A reference to the element `index` places after the one that `owner` refers to."""
    assert owner.value is not None
    return frame.emit(ops.ELEMENT, owner.known, owner.value, frame.materialise(index, INDEX))


def of_place(frame: Frame, place: Place | None) -> Cell:
    """A reference to the place where a value was read."""
    assert place is not None
    frame.passed_over.add(place.value)
    if isinstance(place.base.known.type, Ref):
        return place.base
    assert place.index is not None
    return element(frame, place.base, indexing.indices_of(frame, place.index))


def read_member(frame: Frame, owner: Cell, struct: Struct, index: int) -> Cell:
    """`x.f` of a reference `x`: the value of the member, or a reference to it if it has identity."""
    part = member(frame, owner, struct, index)
    if isinstance(struct.fields[index].type, Subarray):
        return view(frame, part)
    return part if are_referred_to(frame, struct.fields[index].type) else load(frame, part)


def read_item(frame: Frame, owner: Cell, items: Tuple, index: int) -> Cell:
    """`x[i]` of a reference `x` to a tuple."""
    return load(frame, behind(frame, owner, items.elements[index], placement(items).offsets[index]))


def view(frame: Frame, reference: Cell) -> Cell:
    """A subarray in memory as an array."""
    type = reference.known.type
    assert isinstance(type, Ref) and isinstance(type.pointee, Subarray) and reference.value is not None
    dtype, shape = type.pointee.dtype, type.pointee.shape
    align = shortfall(dtype, known_alignment(type))
    array = Array(dtype, len(shape), Layout.C, type.readonly, type.space, align)
    numbers = (frame.build.const(INDEX, number) for number in (0, *shape))
    return frame.emit(ops.WINDOW, of_type(array), reference.value, *numbers)


def load(frame: Frame, reference: Cell) -> Cell:
    """The value that a reference refers to. A value with parts records the place where it was read."""
    type = reference.known.type
    assert isinstance(type, Ref) and reference.value is not None
    known = of_type(type.pointee)
    if not leaves(type.pointee):
        return Cell(known)
    cell = frame.emit(ops.LOAD, known, reference.value)
    if isinstance(type.pointee, (Struct, Vector, Tuple)):
        assert cell.value is not None
        cell.place = Place(cell.value, reference, writes=frame.writes)
    return cell


def store(frame: Frame, reference: Cell, value: Cell) -> None:
    """Writes a value to the place that a reference refers to, converted to its type."""
    type = reference.known.type
    assert isinstance(type, Ref) and reference.value is not None
    if type.space is Space.PARAMETER:
        raise CompileError(
            "an argument that is passed by value is read-only", help="assign the new value to a variable"
        )
    if type.readonly:
        raise CompileError("the array is read-only", help="pass an array that can be written")
    if is_copied_in_memory(frame, value, type.pointee):
        _copy(frame, reference, of_place(frame, value.place))
        return
    item = frame.materialise(value, type.pointee)
    if leaves(type.pointee):
        frame.build.effect(ops.STORE, reference.value, item)


def is_copied_in_memory(frame: Frame, value: Cell, type: Type) -> bool:
    """Whether a value is too large to be loaded, and must be copied from the place where it was read, which still has it."""
    is_there = value.place is not None and value.place.writes == frame.writes
    return is_there and value.known.type == type and len(leaves(type)) > MOST_NUMBERS


def _copy(frame: Frame, target: Cell, source: Cell) -> None:
    """Copies the value that a reference refers to, part by part."""
    type = source.known.type
    assert isinstance(type, Ref)
    match type.pointee:
        case Struct(_, fields) as struct:
            for i in range(len(fields)):
                _copy(frame, member(frame, target, struct, i), member(frame, source, struct, i))
        case Subarray():
            frame.run(copying.copy_elements, view(frame, target), view(frame, source))
        case _:
            store(frame, target, load(frame, source))


def value_of(frame: Frame, cell: Cell) -> Cell:
    """Reads the value of a reference to a plain struct that may change. Returns other values unchanged."""
    type = cell.known.type
    if not isinstance(type, Ref) or type.space is Space.PARAMETER:
        return cell
    if isinstance(type.pointee, Struct) and not has_identity(type.pointee):
        cell = load(frame, cell)
        cell.place = None
    return cell


def is_record(type: Type) -> bool:
    """Whether a type is a struct from a structured NumPy dtype."""
    return isinstance(type, Struct) and type.host is None


def are_referred_to(frame: Frame, type: Type) -> bool:
    """Whether elements of a type are always used by reference: those with identity, and records if the policy says so."""
    return has_identity(type) or (frame.policy is not None and frame.policy.references and is_record(type))


def check_result(function: str, type: Type) -> None:
    """Raises `CompileError` for a result that has identity."""
    match type:
        case Ref(_, Struct(name) as struct) if has_identity(struct):
            raise CompileError(
                f"{function} returns a reference to {name}, which a function cannot return",
                help=f"index the array of {name} where it is used, or pass it to the function",
            )
        case Tuple(elements):
            for part in elements:
                check_result(function, part)


def refusal(type: Type) -> CompileError:
    """The error for copying, creating or replacing a value that has identity."""
    if isinstance(type, AtomicCell):
        return CompileError(
            "an atomic cannot be copied or assigned to", help="use its methods: x.load(), x.store(value), …"
        )
    name = type.name if isinstance(type, Struct) else str(type)
    return CompileError(
        f"{name} has atomic members, so it cannot be created, copied or replaced: it exists only as an element of an array",
        help=f"refer to it in its array, as in m = locks[i]; create the array with shared_array(n, {name}), or on the host",
    )


def is_variable(op: Op, owner: Cell, change: str) -> bool:
    """Whether an assignment changes a variable rather than memory. Raises `CompileError` if it would have no effect."""
    target = op.attributes.get("target")
    if target == "value" and owner.place is None:
        raise CompileError(
            "the assignment changes a value that no variable holds",
            help=f"assign to the variable: v = replace(v, {change})",
        )
    return target is None or owner.place is None
