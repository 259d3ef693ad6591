"""Rules of type inference for `x.view(T)`, `x.reshape(…)` and `aligned`: the same memory, seen in another way."""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.device.rows import constant_of, type_argument
from cuda_device.errors import CompileError
from cuda_device.infer import conditions, indexing, references
from cuda_device.infer.array_windows import extents, placed, product, strides, window
from cuda_device.infer.frame import Cell, Frame, is_of
from cuda_device.ir import ops
from cuda_device.lazy_dataclasses import replace
from cuda_device.library import prelude
from cuda_device.types import model
from cuda_device.types.host import check_alignment
from cuda_device.types.known import Known, constant, known_as, of_type
from cuda_device.types.layout import align_of, known_alignment, shortfall, size_of


def view(frame: Frame, owner: Cell[model.Array], dtype: Cell) -> Cell:
    """The same memory as elements of another type; the length of the last axis changes with the element size."""
    array, element = owner.type, type_argument(dtype.known, "the dtype of view")
    old, new = size_of(array.dtype), size_of(element)
    shape, steps = extents(frame, owner), strides(frame, owner)
    if old != new:
        if array.ndim == 0 or array.layout is model.Layout.F:
            why, instead = (
                ("its last axis is not contiguous", "an array whose last axis is contiguous, or of its .T")
                if array.ndim
                else ("it has no axis, and their sizes differ", "x.reshape(1), which has one")
            )
            raise CompileError(f"{array} cannot be viewed as {element}: {why}", help=f"make a view of {instead}")
        size = frame.operate("*", shape[-1], Cell(constant(old)))
        conditions.viewed(frame, owner, steps[-1], size, old, new)
        length = frame.operate("//", size, Cell(constant(new)))
        shape = [*shape[:-1], length]
        steps = [*steps[:-1], Cell(constant(new))]
    # Unless the type says that the array is less aligned, the program is trusted to view suitably aligned memory, as in C++.
    align = array.align or max(known_alignment(array), align_of(element))
    # With smaller elements there are more of them.
    small = array.small and (new >= old or array.space is not model.Space.GLOBAL)
    type = replace(array, dtype=element, small=small, align=shortfall(element, align))
    return window(frame, owner, type, Cell(constant(0)), shape, steps)


def reshape(
    frame: Frame, owner: Cell[model.Array], lengths: Sequence[Cell], shape: Cell | None, copy: Cell | None
) -> Cell:
    """The same elements in another shape; one length may be -1."""
    array, shapes = owner.type, [*lengths, *([] if shape is None else [shape])]
    if not shapes:
        raise CompileError("reshape takes the new shape", help="write x.reshape(n, m) or x.reshape((n, m))")
    if copy is not None and (not copy.known.constant or copy.known.value):
        raise CompileError(
            "reshape with copy=True needs memory, which device code cannot allocate", help="leave copy=True out"
        )
    first = frame.as_tuple(shapes[0])
    sizes = frame.fields(first) if isinstance(first.known.type, model.Tuple) else shapes
    for cell in sizes:
        if not isinstance(cell.known.type, model.Number) or not cell.known.type.is_integer:
            raise CompileError(f"the lengths of a shape must be integers, not {cell.known}", help="convert it: int(…)")
    axes = _lengths(frame, owner, sizes)
    layout, steps = array.layout, list[Cell]()
    if array.ndim < 2 and layout is not model.Layout.STRIDED:
        layout = model.Layout.C
    elif layout is model.Layout.F and len(axes) < 2:
        raise CompileError(f"{array} cannot be reshaped without a copy", help="reshape its .T, which is C-contiguous")
    elif layout is not model.Layout.C:
        layout, steps = model.Layout.STRIDED, _steps(frame, owner, axes)
    # The lengths of an array without elements can be of any size.
    small = array.small and all(_fits_32_bits(cell.known) for cell in sizes)
    type = replace(array, ndim=len(axes), layout=layout, small=small)
    return window(frame, owner, type, Cell(constant(0)), axes, steps)


def _lengths(frame: Frame, owner: Cell[model.Array], shape: Sequence[Cell]) -> list[Cell]:
    """The lengths as indices, with -1 replaced by the length that remains."""
    open_axes = [i for i, cell in enumerate(shape) if cell.known.constant and cell.known.value == -1]
    if len(open_axes) > 1:
        raise CompileError("at most one length of a shape may be -1", help="write the other lengths")
    lengths = [
        cell
        if cell.known.constant and cell.known.type == model.INT
        else Cell(known_as(cell.known, model.INDEX), frame.materialise(cell, model.INDEX))
        for cell in shape
    ]
    fixed = [length for i, length in enumerate(lengths) if i not in open_axes]
    if frame.program.checked:
        total, rest = product(frame, extents(frame, owner)), product(frame, fixed)
        conditions.reshaped(frame, owner.type, total, fixed, rest, bool(open_axes))
    if open_axes:
        total = product(frame, extents(frame, owner))
        lengths[open_axes[0]] = frame.operate("//", total, product(frame, fixed))
    return lengths


def _steps(frame: Frame, owner: Cell[model.Array], lengths: Sequence[Cell]) -> list[Cell]:
    """The stride of each new axis in bytes."""
    if owner.type.ndim < 2:
        step = strides(frame, owner)[0] if owner.type.ndim else Cell(constant(0))
        return [frame.operate("*", step, product(frame, lengths[i + 1 :])) for i in range(len(lengths))]
    old = frame.tuple(extents(frame, owner)), frame.tuple(strides(frame, owner))
    conditions.stays(frame, *old, frame.tuple(lengths))
    indices = [product(frame, lengths[i + 1 :]) for i in range(len(lengths))]
    return [frame.run(prelude.bytes_before, index, *old) for index in indices]


def _fits_32_bits(length: Known) -> bool:
    if length.constant:
        return isinstance(length.value, int) and length.value <= model.SMALL
    return isinstance(length.type, model.Number) and length.type.high <= model.INT.high


def aligned(frame: Frame, array: Cell, bytes: Cell, /) -> Cell:
    """The same array. If its type does not guarantee the alignment, `ir/alignment` sees to it."""
    align = constant_of(bytes.known, "the alignment")
    try:
        check_alignment(align)
    except ValueError as error:
        raise CompileError(str(error), help="write 128, for example") from None
    assert isinstance(align, int)
    if not is_of(array, model.Array):
        raise CompileError(f"aligned takes an array, not {array.known}", help="pass an array in shared memory")
    least = known_alignment(array.type)
    if align <= least:
        return array
    if array.type.space is not model.Space.SHARED:
        raise CompileError(
            f"an array in {array.type.space.value} memory is aligned like its elements, to {least} bytes",
            help="copy it to a shared_array(…), or view it with larger elements: x.view(float32x4) has 16 bytes",
        )
    lengths, steps = extents(frame, array), strides(frame, array)
    return placed(frame, array, array.type, Cell(constant(0)), lengths, steps, aligned=align)


def pointer(frame: Frame, owner: Cell[model.Array], index: Sequence[Cell]) -> Cell:
    """`x.pointer(i, j)`: a pointer to an element; without indices to the beginning."""
    array = owner.type
    if len(index) not in (0, array.ndim):
        count = f"{array.ndim} ind{'ex' if array.ndim == 1 else 'ices'}"
        raise CompileError(
            f"pointer of {array} takes {count}, or none", help="give each axis its index, as in x.pointer(i, j)"
        )
    if array.align and array.align < align_of(array.dtype):
        raise CompileError(
            f"{array} is less aligned than C++ requires of the target of a pointer",
            help="copy the array on the host, or make its dtype with align=True",
        )
    target = references.element(frame, owner, indexing.values_of(frame, index)) if index else owner
    assert target.value is not None
    known = of_type(model.Pointer(array.dtype, array.readonly))
    return frame.emit(ops.WINDOW, known, target.value, frame.build.const(model.INDEX, 0))
