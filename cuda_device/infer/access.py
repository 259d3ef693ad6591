"""Rules of type inference for what values contain: items, unpacking, and assignment to elements.

py.getitem (array<float32, 2, C>, tuple<int32, int>)   →   py.getitem %x %i %j: float32
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import attributes, composites, conditions, hosted, indexing, scalars
from cuda_device.infer.frame import Cell, Frame, Place
from cuda_device.infer.joins import join
from cuda_device.infer.kinds import masks, references, sequences, subarrays, views
from cuda_device.infer.meanings import Named, Text, is_member, use_of
from cuda_device.infer.remedies import ON_THE_HOST
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.library import prelude, standard
from cuda_device.types.known import Known, State, Undefined, constant, describe, of_type
from cuda_device.types.layout import has_identity
from cuda_device.types.model import (
    MASK,
    Array,
    AtomicCell,
    Bundle,
    NoneType,
    Number,
    Range,
    Ref,
    Static,
    Struct,
    Subarray,
    Tuple,
    Type,
    Vector,
    is_index,
)


def getitem(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`x[i]`: an element of an array, tuple or vector."""
    owner, index = cells
    part = hosted.getitem(frame, owner, index)
    if part is not None:
        return [part]
    owner = hosted.as_array(frame, sequences_of_host(frame, owner))
    match owner.known.type:
        case Array() as array:
            return [_array_item(frame, owner, array, index)]
        case Tuple() as items:
            return [_tuple_item(frame, op, owner, items, index)]
        case Range():
            return [_range_item(frame, owner, index)]
        case Vector(_, size):
            return [_element(frame, owner, index, size)]
        case Number() if owner.known.type == MASK:
            return [masks.item(frame, owner, index)]
        case Number() as number if (found := scalars.item(frame, owner, number, index)) is not None:
            return [found]
        case Subarray() as subarray:
            return [subarrays.item(frame, owner, subarray, indexing.parts_of(frame, index))]
        case (Struct() as struct) | Ref(_, Struct() as struct) if member := attributes.item(
            frame, op, owner, struct, index
        ):
            return [member]
        case Static() if isinstance(owner.known.value, type) and index.known.constant:
            return [_static_item(frame, owner.known.value, index.known.python)]
    raise CompileError(f"{owner.known.shown} cannot be indexed in device code", help=_static_help(owner))


def sequences_of_host(frame: Frame, cell: Cell) -> Cell:
    """A list, tuple or bytes of the host as a tuple; anything else as it is."""
    is_sequence = isinstance(cell.known.type, Static) and isinstance(cell.known.value, (list, tuple, bytes))
    return hosted.as_items(frame, cell) if is_sequence else cell


def _tuple_item(frame: Frame, op: Op, owner: Cell, items: Tuple, index: Cell) -> Cell:
    if not index.known.constant and is_index(index.known.type):
        return _item(frame, owner, index)
    place = sequences.position(index, len(items.elements))
    if owner.place is None or "part" not in op.attributes:
        return frame.field(owner, place)
    return references.read_item(frame, references.of_place(frame, owner.place), items, place)


def _item(frame: Frame, owner: Cell, index: Cell) -> Cell:
    """`t[i]` of a tuple with an index that only run time knows: its items must have one type. Of lists it is a tuple."""
    parts = frame.fields(owner)
    classes = {part.known.value if isinstance(part.known.value, Named) else None for part in parts}
    if len(classes) == 1 and None not in classes:  # a named tuple stays one
        plain = frame.tuple([frame.tuple(frame.fields(part)) for part in parts])
        return frame.bundle(classes.pop(), frame.fields(_item(frame, plain, index)))
    if any(part.known.identity is not None for part in parts):
        raise CompileError(
            f"the index of {owner.known} must be a constant integer: its items are objects that change",
            help="make them tuples, or use local_array",
        )
    owner = frame.tuple([frame.as_tuple(sequences_of_host(frame, part)) for part in parts])
    rows = hosted.table_of_rows(frame, owner)
    if rows is not None and isinstance(rows.known.type, Array):
        return _array_item(frame, rows, rows.known.type, index)
    joined: State = Undefined()
    for item in owner.known.items:
        joined = join(joined, item.forget())
    no_type = not isinstance(joined, Known) or isinstance(joined.type, (Static, Bundle))
    if not isinstance(joined, Known) or no_type:
        raise CompileError(
            f"the index of {owner.known} must be a constant integer: its items have no common type",
            help="loop over the tuple with for",
        )
    conditions.element(frame, index, len(owner.known.items), "tuple")
    table = hosted.table_of(frame, owner)
    if table is not None:
        assert table.value is not None
        return frame.emit(ops.PY_GETITEM, of_type(joined.type), table.value, *indexing.values_of(frame, [index]))
    return frame.call(frame.literal(prelude.element), [owner, index], {})


def _range_item(frame: Frame, owner: Cell, index: Cell) -> Cell:
    """`r[i]` and `r[a:b]` of a range."""
    parts = [frame.field(owner, i) for i in range(3)]
    pieces = views.slice_parts(frame, index)
    if pieces is None:
        indexing.values_of(frame, [index])
        length = frame.program.call(frame, standard.length_of_range, parts, {})
        if index.known.constant and isinstance(length.known.value, int):
            sequences.position(index, int(length.known.value))
        conditions.place(frame, index, "a range", length)
        return frame.program.call(frame, standard.range_item, [index, parts[0], length, parts[2]], {})
    pieces[2] = Cell(constant(1)) if pieces[2].known.value is None else pieces[2]
    return frame.program.call(frame, standard.range_slice, [*pieces, *parts], {})


def _array_item(frame: Frame, owner: Cell, array: Array, index: Cell) -> Cell:
    """`x[i]` of an array: an element, an array of one member of each, or a view."""
    assert owner.value is not None
    parts = indexing.parts_of(frame, index)
    if len(parts) == 1 and isinstance(parts[0].known.value, str):
        return attributes.of_each(frame, owner, array, str(parts[0].known.value))
    if views.is_partial(array, parts):
        return views.select(frame, owner, array, parts)
    if has_identity(array.dtype):
        return references.element(frame, owner, indexing.values_of(frame, parts))
    element = frame.emit(ops.PY_GETITEM, of_type(array.dtype), owner.value, *indexing.values_of(frame, parts))
    if not isinstance(array.dtype, Number) and element.value is not None:
        element.place = Place(element.value, owner, index)
    return element


def _static_item(frame: Frame, owner: type, index: object) -> Cell:
    """`tuple[int, float32]`, or a member of an enum by its name."""
    try:
        return frame.literal(owner[index])  # type: ignore[index]
    except Exception as error:
        raise CompileError(
            f"{describe(owner)} cannot be indexed: {type(error).__name__}: {error}", help=ON_THE_HOST
        ) from None


def _element(frame: Frame, vector: Cell, index: Cell, size: int) -> Cell:
    """`v[i]` of a vector; an index that only run time knows selects."""
    if index.known.constant:
        return frame.field(vector, sequences.position(index, size))
    if not isinstance(index.known.type, Number) or not index.known.type.is_integer:
        raise CompileError(f"an index is an integer, not {index.known}", help="convert it: int(…)")
    conditions.element(frame, index, size)
    return frame.call(
        frame.literal(prelude.element), [frame.tuple([frame.field(vector, i) for i in range(size)]), index], {}
    )


def _static_help(cell: Cell) -> str:
    if isinstance(cell.known.type, Number | NoneType):
        return "index an array, a tuple or a vector"
    if isinstance(cell.known.type, Struct):
        return "name one of its members"
    if isinstance(cell.known.value, Text):
        return "text with values of run time can be joined with other texts, printed, and raised"
    if isinstance(cell.known.value, str):
        return "index a text by a constant, or pass the kernel an array of its bytes: np.frombuffer(text.encode(), np.uint8)"
    return use_of(cell.known) or ("pass it to the kernel as an argument" if isinstance(cell.known.type, Static) else "")


def store(frame: Frame, owner: Cell, index: Cell, value: Cell) -> None:
    """`x[i] = v` of an array: writes an element, converted as the element type's constructor would, or many of a view."""
    array = owner.known.type
    assert isinstance(array, Array)
    if array.readonly:
        raise CompileError(f"the array is read-only: {array}", help="pass an array that can be written")
    assert owner.value is not None
    parts = indexing.parts_of(frame, index)
    if views.is_partial(array, parts) or (parts and isinstance(parts[0].known.value, str)):
        (target,) = getitem(frame, Op(ops.PY_GETITEM), (owner, index))
        subarrays.assign(frame, target, value)
        return
    element = array.dtype
    value = frame.scalar(value)
    if isinstance(element, Struct) and element.host is None:
        value = composites.as_record(frame, element, value)
    value = composites.as_aligned(frame, element, value)
    if has_identity(element):
        raise references.refusal(element)
    if isinstance(value.known.type, Number) != isinstance(element, Number) or not isinstance(
        value.known.type, (Number, Vector, Struct, Tuple)
    ):
        loads = isinstance(value.known.type, Ref) and isinstance(value.known.type.pointee, AtomicCell)
        raise CompileError(
            f"an element of {array} cannot be set to {value.known}",
            help="write x.load(), its value"
            if loads
            else "write its .value"
            if is_member(value.known)
            else f"write a {_kind_of(element)}",
        )
    indices = indexing.values_of(frame, parts)
    if references.is_copied_in_memory(value, element):
        references.store(frame, references.element(frame, owner, indices), value)
        return
    if not isinstance(element, Number):
        composites.check_member(value.known, element, f"an element of {array}")
        item = frame.materialise(value, element)
    else:
        item = frame.materialise(composites.as_stored(frame, value, element), element)
    frame.build.effect(ops.PY_SETITEM, owner.value, *indices, item)


def _kind_of(element: Type) -> str:
    return "number" if isinstance(element, Number) else str(element)


def make_tuple(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`(x, y, …)`."""
    return [frame.tuple(cells)]


def unpack(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`a, b, … = x`."""
    (cell,) = cells
    count = len(op.results)
    type = cell.known.type
    if isinstance(type, Subarray):
        cell, type = (items := frame.tuple(subarrays.items(frame, cell, type))), items.known.type
    if isinstance(type, Array) and type.ndim:
        conditions.unpacked(frame, views.extents(frame, cell)[0], count)
        return [_array_item(frame, cell, type, Cell(constant(i))) for i in range(count)]
    if not isinstance(type, (Tuple, Vector)):
        raise CompileError(f"{cell.known} cannot be unpacked", help="a tuple, a vector or an array can be")
    size = len(type.elements) if isinstance(type, Tuple) else type.size
    if size != count:
        raise CompileError(f"{count} names for {size} values", help="give each value one name, or write a, *rest = …")
    return [frame.field(cell, i) for i in range(count)]
