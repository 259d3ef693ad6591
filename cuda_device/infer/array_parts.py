"""Rules of type inference for parts of arrays: slices, rows, `.T`, one member of each element, and assignment to them.

x[2:n:3]   →   (first, count) = prelude.slice_bounds(2, n, 3, len(x))
               window x, first * stride, (count,), (3 * stride,)

x["a"]     →   an array of the members a, in the memory of x
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import composites, conditions, indexing, references
from cuda_device.infer.array_windows import extents, strides, window
from cuda_device.infer.frame import Cell, Frame, is_of
from cuda_device.infer.meanings import is_member
from cuda_device.ir import ops
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import copying, prelude
from cuda_device.types import model
from cuda_device.types.host import members_of
from cuda_device.types.known import constant
from cuda_device.types.layout import common_alignment, has_identity, known_alignment, placement, shortfall, size_of


def select(frame: Frame, owner: Cell[model.Array], parts: Sequence[Cell]) -> Cell:
    """`x[i]`, `x[a:b, ..., None]`: the array of the remaining axes."""
    array = owner.type
    parts = _without_ellipsis(frame, array, parts)
    lengths, steps = extents(frame, owner), strides(frame, owner)
    offset, shape, jumps = Cell(constant(0)), list[Cell](), list[Cell]()
    # A C-contiguous array stays so with integers, at most one slice with step 1, then whole axes.
    axis, is_contiguous, whole = 0, array.layout is model.Layout.C, True
    for part in parts:
        if part.known.type == model.NONE:
            shape.append(Cell(constant(1)))
            jumps.append(Cell(constant(0)))
            is_contiguous = False
            continue
        first, count, step = _select_axis(frame, part, axis, lengths[axis])
        offset = frame.operate("+", offset, frame.operate("*", first, steps[axis]))
        if count is None:
            is_contiguous &= not shape
        else:
            is_contiguous &= step.known.value == 1 and (not shape or count is lengths[axis])
            whole &= count is lengths[axis]
            shape.append(count)
            jumps.append(frame.operate("*", step, steps[axis]))
        axis += 1
    shape, jumps = shape + lengths[axis:], jumps + steps[axis:]
    type = replace(array, ndim=len(shape), layout=model.Layout.C if is_contiguous else model.Layout.STRIDED)
    return window(frame, owner, type, offset, shape, jumps, whole)


def _without_ellipsis(frame: Frame, array: model.Array, parts: Sequence[Cell]) -> list[Cell]:
    """The indices with `...` written out as full slices."""
    dots = [i for i, part in enumerate(parts) if part.known.value is Ellipsis]
    real = sum(part.known.type != model.NONE for part in parts) - len(dots)
    if len(dots) > 1:
        raise CompileError("an index can contain at most one ...", help="write : for each of the other axes")
    if real > array.ndim:
        few = f"{array.ndim} ax{'i' if array.ndim == 1 else 'e'}s"
        raise CompileError(
            f"{array} has {few}, but there are {real} indices",
            help="give at most one index for each axis; None adds an axis",
        )
    if not dots:
        return list(parts)
    full = frame.bundle(slice, [Cell(constant(None))] * 3)
    return [*parts[: dots[0]], *[full] * (array.ndim - real), *parts[dots[0] + 1 :]]


def _select_axis(frame: Frame, part: Cell, axis: int, length: Cell) -> tuple[Cell, Cell | None, Cell]:
    """The first position that an index selects, the number of positions (None for an integer), and the step."""
    pieces = indexing.slice_parts(frame, part)
    if pieces is None:
        type = part.known.type
        if not model.is_index(type):
            raise CompileError(
                f"an index must be an integer or a slice, not {part.known}", help=indexing.help_with(part.known)
            )
        conditions.axis_index(frame, part, f"axis {axis}", length)
        position = frame.run(prelude.position, part, length)
        return position, None, Cell(constant(1))
    for piece in pieces:
        type = piece.known.type
        if type != model.NONE and not model.is_index(type):
            raise CompileError(
                f"the bounds and the step of a slice must be integers, not {piece.known}", help="convert them: int(…)"
            )
    start, stop, step = pieces
    if step.known.constant and step.known.value == 0:
        raise CompileError("the step of a slice cannot be 0", help="use a positive or a negative step")
    if step.known.value is None:
        step = Cell(constant(1))
    conditions.step(frame, step)
    if all(piece.known.value is None for piece in (start, stop)) and step.known.value == 1:
        return Cell(constant(0)), length, step
    bounds = frame.run(prelude.slice_bounds, start, stop, step, length)
    return frame.field(bounds, 0), frame.field(bounds, 1), step


def transpose(frame: Frame, owner: Cell[model.Array]) -> Cell:
    """`x.T`: reverses the axes."""
    array = owner.type
    layout = {model.Layout.C: model.Layout.F, model.Layout.F: model.Layout.C}.get(array.layout, model.Layout.STRIDED)
    type = replace(array, layout=layout if array.ndim > 1 else array.layout)
    shape, steps = extents(frame, owner)[::-1], strides(frame, owner)[::-1]
    return window(frame, owner, type, Cell(constant(0)), shape, steps)


def of_each(frame: Frame, owner: Cell[model.Array], name: str) -> Cell:
    """`a["f"]` of an array of structs, vectors or tuples: the array of this member of each element."""
    element = owner.type.dtype
    members = members_of(element)
    if not members:
        raise CompileError(
            f"an index must be an integer or a slice, not {name!r}", help=indexing.help_with(constant(name))
        )
    if name not in members:
        raise composites.no_member(element, name)
    return column(frame, owner, members[name], placement(element).offsets[list(members).index(name)])


def column(frame: Frame, owner: Cell[model.Array], member: model.Type, offset: int) -> Cell:
    """The array of one part of each element, at `offset` bytes within the element."""
    array = owner.type
    align = shortfall(member, common_alignment(known_alignment(array), offset))
    inner = member.shape if isinstance(member, model.Subarray) else ()
    dtype = member.dtype if isinstance(member, model.Subarray) else member
    if isinstance(dtype, model.Number):
        dtype = dtype.machine  # arrays have no builtin numbers
    type = model.Array(dtype, array.ndim + len(inner), model.Layout.STRIDED, array.readonly, array.space, align)
    shape = [*extents(frame, owner), *(Cell(constant(length)) for length in inner)]
    steps = [size_of(dtype) * math.prod(inner[i + 1 :]) for i in range(len(inner))]
    jumps = [*strides(frame, owner), *(Cell(constant(step)) for step in steps)]
    return window(frame, owner, type, Cell(constant(offset)), shape, jumps)


def assign(frame: Frame, target: Cell[model.Array], value: Cell) -> None:
    """`a[i].m = v`, `a[i:j] = v`: assigns an array, a value with elements, or one value for all elements."""
    array = target.type
    parts = _elements(frame, value, array.dtype)
    if parts is None or array.ndim == 0:
        _assign_all(frame, target, value)
        return
    if frame.program.checked:
        conditions.broadcast(frame, Cell(constant(len(parts))), extents(frame, target)[0])
    if len(parts) == 1:
        frame.store(target, Cell(constant(slice(None))), parts[0])
        return
    for i, part in enumerate(parts):
        frame.store(target, Cell(constant(i)), part)


def _elements(frame: Frame, value: Cell, dtype: model.Type) -> list[Cell] | None:
    """The items of a value that are assigned one by one to an array of `dtype`; None if each element takes the whole value."""
    value = frame.as_tuple(value)
    is_row = isinstance(value.known.type, (model.Tuple, model.Vector)) and isinstance(dtype, model.Number)
    return frame.items_of(value, "=") if is_row or isinstance(value.known.type, model.Subarray) else None


def _assign_all(frame: Frame, target: Cell[model.Array], value: Cell) -> None:
    """`x[a:b] = v`: sets the elements of a view to a value, or to the elements of an array, which is broadcast.

    The two arrays may overlap (see `library/copying`).
    """
    array = target.type
    if is_of(value, model.Array):
        source = value.type
        if source.ndim > array.ndim:
            raise CompileError(
                f"{source} does not fit into {array}: it has more axes",
                help="use a part of it with as many axes, such as x[0]",
            )
        if frame.program.checked:
            for theirs, ours in zip(extents(frame, value)[::-1], extents(frame, target)[::-1], strict=False):
                conditions.broadcast(frame, theirs, ours)
        meet = array.space is source.space or model.Space.GENERIC in (array.space, source.space)
        if meet and frame.program.checked:
            frame.check(
                frame.run(copying.has_order, target, value),
                "the array is assigned to one that overlaps it in another order",
                help="copy it to a local_array or shared_array first",
            )
        frame.run(copying.move_elements if meet else copying.copy_elements, target, value)
    else:
        frame.run(copying.set_elements, target, value)


def store_composite(frame: Frame, owner: Cell[model.Array], parts: Sequence[Cell], value: Cell) -> None:
    """Writes an element that is not a number. Raises `CompileError` for a value that the element does not take."""
    array = owner.type
    element = array.dtype
    assert owner.value is not None
    if isinstance(element, model.Number):
        raise refused(array, value)
    if isinstance(element, model.Struct) and element.host is None:
        value = composites.as_record(frame, element, value)
    value = composites.as_aligned(frame, element, value)
    if has_identity(element):
        raise references.refusal(element)
    if not isinstance(value.known.type, (model.Vector, model.Struct, model.Tuple, model.Pointer)):
        raise refused(array, value)
    indices = indexing.values_of(frame, parts)
    if references.is_copied_in_memory(frame, value, element):
        references.store(frame, references.element(frame, owner, indices), value)
        return
    composites.check_member(value.known, element, f"an element of {array}")
    frame.build.effect(ops.PY_SETITEM, owner.value, *indices, frame.materialise(value, element))


def refused(array: model.Array, value: Cell) -> CompileError:
    """The error for a value of another kind than the elements."""
    loads = isinstance(value.known.type, model.Ref) and isinstance(value.known.type.pointee, model.AtomicCell)
    return CompileError(
        f"an element of {array} cannot be set to {value.known}",
        help="write x.load(), its value"
        if loads
        else "write its .value"
        if is_member(value.known)
        else f"write a {'number' if isinstance(array.dtype, model.Number) else array.dtype}",
    )
