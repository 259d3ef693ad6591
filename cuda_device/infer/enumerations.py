"""Members of an enumeration of which only run time knows which one it is, and what they have.

    state = State.IDLE                 a constant
    if x[i] > 0: state = State.RUN     from here on `state` is a number, which says which member it is
    if state is State.RUN: …           a comparison of numbers
    state.value, state.cost()          the value of each member, among which the number selects; a call of the class's function

Members that are integers (of `enum.IntEnum`) are those integers instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType

from cuda_device.errors import CompileError
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.generators import check_count, no_keywords
from cuda_device.infer.joins import common
from cuda_device.infer.meanings import Method
from cuda_device.infer.varying import Options, as_option
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.library import prelude, standard
from cuda_device.types.known import Known, constant, of_type
from cuda_device.types.model import BOOL, INT, Bundle


def is_option(known: Known) -> bool:
    """Whether it is a member of which only run time knows which one, or what such a one has."""
    return isinstance(known.type, Bundle) and isinstance(known.value, Options)


def holds(frame: Frame, cell: Cell, test: Callable[[object], bool]) -> Cell:
    """Whether what it is passes a test, which is made of each while compiling."""
    meaning = cell.known.value
    assert isinstance(meaning, Options)
    passing = [place for place, each in enumerate(meaning.objects) if test(each)]
    if len(passing) in (0, len(meaning.objects)):
        return Cell(constant(bool(passing)))
    return frame.program.call(frame, prelude.is_one_of, [frame.field(cell, 0), frame.literal(tuple(passing))], {})


def equal(frame: Frame, cells: Sequence[Cell], is_same: bool) -> Cell | None:
    """`a == b`, or with `is_same` `a is b`, where one at least is a member that run time knows; None for anything else."""
    option, other = cells if is_option(cells[0].known) else cells[::-1]
    if not is_option(option.known):
        return None
    alike = as_option(other.known)
    if alike is not None and alike.value == option.known.value and not other.known.constant:
        return _same_number(frame, option, other)
    if not other.known.constant:
        return Cell(constant(False))
    value = other.known.python
    return holds(frame, option, lambda each: each is value if is_same else bool(each == value))


def _same_number(frame: Frame, a: Cell, b: Cell) -> Cell:
    numbers = [frame.materialise(frame.field(cell, 0), INT) for cell in (a, b)]
    return frame.emit(ops.PY_COMPARE, of_type(BOOL), *numbers, op="==")


def attribute(frame: Frame, cell: Cell, name: str) -> Cell:
    """What the member has: its value, its name, or what the class defines."""
    meaning = cell.known.value
    assert isinstance(meaning, Options)
    if meaning.attribute:
        raise CompileError(
            f"{meaning} has no attribute {name!r} in device code", help="which text it is, only run time knows"
        )
    found = inspect.getattr_static(meaning.owner, name, None)
    if isinstance(found, property) and found.fget is not None:
        return frame.program.call(frame, found.fget, [cell], {})
    if isinstance(found, FunctionType):
        return frame.bundle(Method(name), [cell])
    try:
        values = [getattr(each, name) for each in meaning.objects]
    except AttributeError:
        raise CompileError(
            f"not all members of {meaning.owner.__name__} have an attribute {name!r}",
            help="there are value, name, and what the class defines",
        ) from None
    if all(value is values[0] for value in values):
        return frame.literal(values[0])
    if all(isinstance(value, str) for value in values):
        return frame.bundle(Options(meaning.owner, name), [frame.field(cell, 0)])
    return _selected(frame, cell, [frame.literal(value) for value in values], name)


def _selected(frame: Frame, cell: Cell, items: list[Cell], name: str) -> Cell:
    if common([item.known for item in items]) is None:
        raise CompileError(
            f"the members of {cell.known.value.owner.__name__} differ in the type of their {name}",  # type: ignore[attr-defined]
            help="match the member, and use what each has; or give them values of one type",
        )
    return frame.program.call(frame, prelude.element, [frame.tuple(items), frame.field(cell, 0)], {})


def length(frame: Frame, cell: Cell) -> Cell:
    """`len(state.name)`: of texts alone."""
    meaning = cell.known.value
    assert isinstance(meaning, Options)
    if not all(isinstance(each, str) for each in meaning.objects):
        raise CompileError(f"{meaning} has no length", help="len is of arrays, tuples, ranges and vectors")
    return _selected(frame, cell, [frame.literal(len(each)) for each in meaning.objects], "length")


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """Calls a method of the enumeration."""
    meaning = owner.known.value
    assert isinstance(meaning, Options)
    return frame.program.call(frame, getattr(meaning.owner, name), [owner, *positional], named)


def member(cls: object, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`Color(n)` with a value that run time knows: the thread reports one that no member has."""
    name = getattr(cls, "__name__", "")
    no_keywords(name, named)
    check_count(name, positional, 1, 1)
    if is_option(positional[0].known) and positional[0].known.value == Options(cls):  # type: ignore[arg-type]
        return positional[0]
    return frame.program.call(frame, standard.member_of, [frame.literal(cls), positional[0]], {})


def operator_of(frame: Frame, op: Op, cells: Sequence[Cell]) -> Cell | None:
    """`==` and `!=`, or `is` and `is not`, of such members; None for anything else."""
    sign = op.attributes.get("op", "is")
    if sign not in ("==", "!=", "is"):
        return None
    found = equal(frame, cells, sign == "is")
    if found is None or not (sign == "!=" or op.attributes.get("inverted")):
        return found
    if found.known.constant:
        return Cell(constant(not found.known.value))
    return frame.emit(ops.PY_UNARY, of_type(BOOL), frame.materialise(found, BOOL), op="not")
