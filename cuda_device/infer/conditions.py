"""What checked mode asks while a program runs, as rules of type inference call it: each writes nothing in other modes.

    x // n      →   py.check (n != 0) {message="integer division by zero"}

The conditions that take more than a comparison are written in Python (`library/prelude`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cuda_device.device.lowering import WITHIN
from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.ir import ops
from cuda_device.library import prelude
from cuda_device.types.known import constant, of_type
from cuda_device.types.layout import size_of
from cuda_device.types.model import BOOL, Array, Layout, Number, Tuple


def _ask(frame: Frame, condition: Callable[..., Any], *cells: Cell) -> Cell:
    return frame.program.call(frame, condition, cells, {})


_PRODUCT = "give lengths whose product is the number of elements"


def _is_true(frame: Frame, cell: Cell) -> Cell:
    """Whether a number is not zero."""
    if cell.known.constant:
        return Cell(constant(bool(cell.known.value)))
    assert isinstance(cell.known.type, Number)
    return frame.emit(ops.PY_TRUTH, of_type(BOOL), frame.materialise(cell, cell.known.type))


def divisor(frame: Frame, b: Cell) -> None:
    """Of a division of integers."""
    if frame.program.checked:
        frame.check(_is_true(frame, b), "integer division by zero", help="divide only where the divisor is not 0")


def power(frame: Frame, base: Cell, exponent: Cell) -> None:
    """Of integers: with a negative exponent only 1 and -1 have one that is an integer. A constant exponent is an error."""
    help = "make the base a float: float32(x) ** n"
    value = exponent.known.value
    if isinstance(value, int) and value < 0 and base.known.value not in (1, -1):
        raise CompileError(f"an integer has no power with the exponent {value}", help=help)
    if frame.program.checked:
        holds = _ask(frame, prelude.has_power, base, exponent)
        frame.check(holds, "an integer has no power with the exponent {0}", exponent, help=help)


def step(frame: Frame, cell: Cell) -> None:
    """The step of a slice."""
    if frame.program.checked:
        frame.check(
            _is_true(frame, cell), "the step of a slice cannot be 0", help="give a step of 1 or more, or below 0"
        )


def element(frame: Frame, index: Cell, size: int, what: str = "vector") -> None:
    """The index of a vector or tuple."""
    if frame.program.checked:
        holds = _ask(frame, prelude.is_within, index, Cell(constant(size)))
        frame.check(
            holds,
            f"index {{0}} is out of bounds for a {what} of size {size}",
            index,
            help=f"its elements are 0 to {size - 1}",
        )


def place(frame: Frame, index: Cell, what: str, length: Cell) -> None:
    """An index of an axis, where an array with fewer axes is made, or of a range."""
    if frame.program.checked:
        holds = _ask(frame, prelude.is_within, index, length)
        frame.check(holds, f"index {{0}} is out of bounds for {what} of size {{1}}", index, length, help=WITHIN)


def unpacked(frame: Frame, length: Cell, count: int) -> None:
    """The length of an array whose elements, or rows, get one name each."""
    if frame.program.checked:
        holds = _ask(frame, prelude.is_equal, length, Cell(constant(count)))
        frame.check(
            holds,
            f"an array of length {{0}} cannot be unpacked into {count} names",
            length,
            help="unpack a slice of it: x[:n]",
        )


def lane(frame: Frame, index: Cell) -> None:
    """The index of a mask."""
    if frame.program.checked:
        holds = _ask(frame, prelude.is_lane, index)
        frame.check(
            holds, "the lanes of a mask are integers from 0 to 31, not {0}", index, help="write i & 31, or test it"
        )


def viewed(frame: Frame, size: Cell, new: int, step: Cell | None, old: int) -> None:
    """A view whose last axis, of `size` bytes and perhaps with a step, gets elements of `new` bytes for those of `old`."""
    if not frame.program.checked:
        return
    if step is not None:
        holds = _ask(frame, prelude.is_equal, step, Cell(constant(old)))
        help = "make a view of an array whose last axis is contiguous"
        frame.check(
            holds, f"the last axis has a step of {{0}} bytes, not of {old}: it has no such view", step, help=help
        )
    holds = _ask(frame, prelude.is_multiple, size, Cell(constant(new)))
    frame.check(
        holds,
        f"a last axis of {{0}} bytes is not made of elements of {new} bytes",
        size,
        help="make a view of a slice whose bytes are",
    )


def reshaped(frame: Frame, total: Cell, lengths: Sequence[Cell], rest: Cell, is_open: bool) -> None:
    """An array of `total` elements whose axes get these lengths, with the product `rest`, and perhaps one more."""
    for length in lengths:
        if not length.known.nonneg:
            holds = _ask(frame, prelude.is_length, length)
            frame.check(
                holds, "a length of a shape cannot be {0}", length, help="give lengths of 0 or more, and -1 once"
            )
    if is_open:
        frame.check(
            _ask(frame, prelude.is_multiple, total, rest),
            "an array of {0} elements cannot be reshaped: the lengths that are given have the product {1}",
            total,
            rest,
            help=_PRODUCT,
        )
    else:
        holds = _ask(frame, prelude.is_equal, total, rest)
        frame.check(
            holds, "an array of {0} elements cannot be reshaped to one of {1} elements", total, rest, help=_PRODUCT
        )


def stays(frame: Frame, shape: Cell, steps: Cell, lengths: Cell) -> None:
    """An array that gets other lengths of its axes though its elements do not lie one after the other; asked in all modes."""
    holds = _ask(frame, prelude.has_place, shape, steps, lengths)
    message = "the array cannot be reshaped without a copy: it is not contiguous"
    frame.check(holds, message, help="reshape an array that is contiguous", always=True)


def describable(frame: Frame, cell: Cell) -> None:
    """The arrays that an interoperable function takes: C++ counts their steps in elements. Asked in all modes."""
    match cell.known.type:
        case Array(dtype, _, Layout.STRIDED):
            holds = _ask(frame, prelude.has_whole_strides, cell, Cell(constant(size_of(dtype))))
            message = "CUDA C++ takes arrays only if their strides are multiples of the size of an element"
            frame.check(holds, message, help="copy the array (.copy())", always=True)
        case Tuple():
            for part in frame.fields(cell):
                describable(frame, part)


def broadcast(frame: Frame, length: Cell, other: Cell) -> None:
    """An axis that is assigned to an axis of the length `other`."""
    holds = _ask(frame, prelude.fits, length, other)
    frame.check(
        holds,
        "an axis of length {0} cannot be assigned to one of length {1}",
        length,
        other,
        help="assign slices of the same lengths",
    )
