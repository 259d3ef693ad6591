"""Run-time checks that rules of type inference emit in checked mode.

    x // n      →   py.check (n != 0) {message="integer division by zero"}

Most of these functions emit nothing in other modes. The conditions are functions of `library/prelude`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cuda_device.device.lowering import shown_index, within
from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.lazy_imports import import_lazily
from cuda_device.types.known import constant
from cuda_device.types.layout import size_of
from cuda_device.types.model import Array, Layout, Space, Tuple

if TYPE_CHECKING:
    from cuda_device.library import prelude
else:
    import_lazily(globals(), "cuda_device.library", "prelude")


def _require(
    frame: Frame,
    condition: str | Callable[..., Any],
    cells: Sequence[Cell],
    message: str,
    *values: Cell,
    help: str,
    always: bool = False,
) -> None:
    """Checks a condition of cells, an operator or a function. In the message, `{0}` and `{1}` stand for `values`."""
    if frame.program.checked or always:
        holds = frame.operate(condition, *cells) if isinstance(condition, str) else frame.run(condition, *cells)
        frame.check(holds, message, *values, help=help, always=always)


_PRODUCT = "give lengths whose product is the number of elements"


def divisor(frame: Frame, b: Cell) -> None:
    """Checks the divisor of an integer division."""
    if frame.program.checked:
        frame.check(frame.truth(b), "integer division by zero", help="divide only where the divisor is not 0")


def power(frame: Frame, base: Cell, exponent: Cell) -> None:
    """Checks the exponent of an integer power: only 1 and -1 have integer powers with negative exponents."""
    help = "make the base a float: float32(x) ** n"
    value = exponent.known.value
    if isinstance(value, int) and value < 0 and base.known.value not in (1, -1):
        raise CompileError(f"an integer cannot be raised to the power {value}", help=help)
    message = "an integer cannot be raised to the power {0}"
    _require(frame, prelude.has_power, (base, exponent), message, exponent, help=help)


def shift(frame: Frame, count: Cell) -> None:
    """Checks the count of a shift; raises `CompileError` for a negative constant."""
    help = "shift in the other direction"
    value = count.known.value
    if isinstance(value, int) and value < 0:
        raise CompileError(f"the count of a shift cannot be negative: {value}", help=help)
    if not count.known.nonneg:
        message = "the count of a shift cannot be negative: {0}"
        _require(frame, ">=", (count, Cell(constant(0))), message, count, help=help)


def step(frame: Frame, cell: Cell) -> None:
    """Checks the step of a slice."""
    if frame.program.checked:
        frame.check(frame.truth(cell), "the step of a slice cannot be 0", help="give a step of 1 or more, or below 0")


def element(frame: Frame, index: Cell, size: int, container: str = "vector") -> None:
    """Checks the index of a vector or tuple."""
    message = f"index {{0}} is out of bounds for a {container} of size {size}"
    cells = index, Cell(constant(size))
    _require(frame, prelude.is_within, cells, message, index, help=f"its elements are 0 to {size - 1}")


def axis_index(frame: Frame, index: Cell, axis: str, length: Cell) -> None:
    """Checks an index of an axis that an indexing operation removes."""
    message = f"{shown_index(index.known.type)} is out of bounds for {axis} of size {{1}}"
    _require(frame, prelude.is_within, (index, length), message, index, length, help=within(index.known.type))


def unpacked(frame: Frame, length: Cell, count: int) -> None:
    """Checks the length of an array that is unpacked into `count` names."""
    message = f"an array of length {{0}} cannot be unpacked into {count} names"
    cells = length, Cell(constant(count))
    _require(frame, "==", cells, message, length, help="unpack a slice of it: x[:n]")


def lane(frame: Frame, index: Cell) -> None:
    """Checks the index of a lane in a mask."""
    message = "the lanes of a mask must be integers from 0 to 31, not {0}"
    _require(frame, prelude.is_lane, (index,), message, index, help="write i & 31, or test it")


def viewed(frame: Frame, array: Cell[Array], step: Cell, size: Cell, old: int, new: int) -> None:
    """Checks that the last axis, of `size` bytes and with this `step`, can be viewed as elements of `new` bytes, not `old`."""
    if array.type.layout is Layout.STRIDED:
        message = f"the last axis has a step of {{0}} bytes, not of {old}: it cannot be viewed in this way"
        help = "make a view of an array whose last axis is contiguous"
        _require(frame, prelude.is_row, (array,), message, step, help=help)
    message = f"a last axis of {{0}} bytes cannot be divided into elements of {new} bytes"
    help = "make a view of a slice whose last axis can be divided"
    _require(frame, prelude.is_multiple, (size, Cell(constant(new))), message, size, help=help)


def reshaped(frame: Frame, type: Array, total: Cell, lengths: Sequence[Cell], rest: Cell, is_open: bool) -> None:
    """Checks that an array of `type` with `total` elements can get axes of these lengths, whose product is `rest`.

    If it `is_open`, one more axis has the length that remains.
    """
    for length in lengths:
        if not length.known.nonneg:
            message, help = "a length of a shape cannot be {0}", "use lengths of 0 or more, and -1 at most once"
            _require(frame, ">=", (length, Cell(constant(0))), message, length, help=help)
    condition = prelude.is_multiple if is_open else "=="
    message = "an array of {0} elements cannot be reshaped to one of {1} elements"
    if is_open:
        message = "an array of {0} elements cannot be reshaped: the lengths that are given have the product {1}"
    may_be_dynamic = type.space is Space.SHARED and not is_open
    help = f"{{0:reshaped {{1}} {size_of(type.dtype)}}}" if may_be_dynamic else _PRODUCT
    _require(frame, condition, (total, rest), message, total, rest, help=help)


def stays(frame: Frame, shape: Cell, steps: Cell, lengths: Cell) -> None:
    """Checks, in all modes, that an array that is not contiguous can be reshaped without a copy."""
    message, help = (
        "the array cannot be reshaped without a copy: it is not contiguous",
        "reshape an array that is contiguous",
    )
    _require(frame, prelude.is_reshapeable, (shape, steps, lengths), message, help=help, always=True)


def describable(frame: Frame, cell: Cell) -> None:
    """Checks, in all modes, the strides of arrays passed to C++, where strides are multiples of the size of an element."""
    match cell.known.type:
        case Array(dtype, _, Layout.STRIDED):
            message = "CUDA C++ takes arrays only if their strides are multiples of the size of an element"
            cells = cell, Cell(constant(size_of(dtype)))
            _require(frame, prelude.has_whole_strides, cells, message, help="copy the array (.copy())", always=True)
        case Tuple():
            for part in frame.fields(cell):
                describable(frame, part)


def broadcast(frame: Frame, length: Cell, other: Cell) -> None:
    """Checks that an axis can be assigned to an axis of the length `other`."""
    message = "an axis of length {0} cannot be assigned to one of length {1}"
    _require(frame, prelude.fits, (length, other), message, length, other, help="assign slices of the same lengths")
