"""One of several lists, which one only run time knows: `rows[i]`, where each row is a list.

It is no copy. What is read from it is a selection among the items of all rows; an assignment to one of its items changes each
row, to what it was but for the one that it is.

    rows[i][j] = v      rows[0] becomes (v if i == 0 and j == 0 else rows[0][0], …), and rows[1] becomes …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType

from cuda_device.device.functions import Func
from cuda_device.errors import CompileError
from cuda_device.infer import closures, conditions
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.joins import join_all
from cuda_device.infer.kinds import sequences
from cuda_device.infer.meanings import Code, Method, Partial, Thing, means
from cuda_device.ir import ops
from cuda_device.library import prelude
from cuda_device.types.known import Known, constant
from cuda_device.types.model import Bundle, Static

_TAKES_IT = frozenset(
    (
        ops.PY_COPY,
        ops.PY_GETATTR,
        ops.PY_GETITEM,
        ops.PY_SETITEM,
        ops.PY_TUPLE,
        ops.PY_LIST,
        ops.PY_APPEND,
        ops.PY_CALL,
    )
)
"""Operations to which it is one of the lists; to others it is a list of the items that it has now."""


def choose(frame: Frame, lists: Sequence[Cell], index: Cell) -> Cell | None:
    """`lists[index]`; None if they are no lists that change."""
    if not all(means(each.known, Thing.LIST) and each.known.identity is not None for each in lists):
        return None
    return frame.bundle(Thing.ONE_OF, [index, *lists])


def choose_function(frame: Frame, functions: Sequence[Cell], index: Cell) -> Cell | None:
    """`functions[index]`; None if one of them is no function."""
    if not functions or not all(map(_is_function, functions)):
        return None
    return frame.bundle(Thing.ONE_FUNCTION, [index, *functions])


def _is_function(cell: Cell) -> bool:
    known = cell.known
    if isinstance(known.type, Bundle):
        return isinstance(known.value, Code | Partial | Method)
    return isinstance(known.type, Static) and callable(known.value)


def call_function(frame: Frame, function: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """A call of one of several functions."""
    index, *functions = frame.fields(closures.close(frame, function))
    if named:
        functions = [frame.bundle(Partial(tuple(named)), [each, *named.values()]) for each in functions]
    return frame.program.call(frame, prelude.call_one, [frame.tuple(functions), index, frame.tuple(positional)], {})


def item(frame: Frame, owner: Cell, index: Cell) -> Cell | None:
    """`rows[i][index]`, where the items of the rows are lists themselves; else None."""
    first, *lists = frame.fields(owner)
    rows = [frame.fields(each) for each in lists]
    size = len(rows[0])
    if not size or any(len(row) != size for row in rows):
        return None
    if isinstance(index.known.value, int):
        place = sequences.position(index, size)
        return choose(frame, [row[place] for row in rows], first)
    if choose(frame, [each for row in rows for each in row], first) is None:
        return None
    conditions.element(frame, index, size, "list")
    counts = [Cell(constant(len(rows))), Cell(constant(size))]
    place_in_all = frame.program.call(frame, prelude.place_in_rows, [first, index, *counts], {})
    return choose(frame, [each for row in rows for each in row], place_in_all)


def items(frame: Frame, owner: Cell) -> list[Cell]:
    """The items of a list, or of the one of several that it is."""
    if not means(owner.known, Thing.ONE_OF):
        return frame.fields(owner)
    index, *lists = frame.fields(owner)
    rows = [frame.tuple(frame.fields(each)) for each in lists]
    joined = join_all([row.known.forget() for row in rows])
    if not isinstance(joined, Known) or any(isinstance(item.type, (Static, Bundle)) for item in joined.items):
        raise CompileError(
            "the lists among which an index of run time chooses have no common type",
            help="give them one length, and items of one type; or use a constant index",
        )
    return frame.fields(frame.program.call(frame, prelude.element, [frame.tuple(rows), index], {}))


def as_list(frame: Frame, cell: Cell) -> Cell:
    """One of several lists as a list of the items that it has now; anything else as it is."""
    return frame.bundle(Thing.LIST, items(frame, cell)) if means(cell.known, Thing.ONE_OF) else cell


def operands_of(frame: Frame, code: ops.Opcode, cells: Sequence[Cell]) -> list[Cell]:
    """What an operation takes."""
    return list(cells) if code in _TAKES_IT else [as_list(frame, cell) for cell in cells]


def arguments_of(frame: Frame, function: Known, cells: Sequence[Cell]) -> list[Cell]:
    """What a call takes: functions that users write, and methods of lists, may change a list."""
    is_code = isinstance(function.type, Bundle) and isinstance(function.value, (Code, Partial, Method))
    if is_code or isinstance(function.value, (FunctionType, Func)):
        return list(cells)
    return [as_list(frame, cell) for cell in cells]


def changes(frame: Frame, owner: Cell, parts: Sequence[Cell]) -> Iterator[tuple[Cell, list[Cell]]]:
    """What becomes of each of the lists where the one that it is gets these items; two of them may be one object."""
    index, *lists = frame.fields(owner)
    if any(len(each.known.items) != len(parts) for each in lists):
        raise CompileError(
            "how many items each of these lists has would depend on run time",
            help="use a constant index, or keep the items in a local_array, and count them",
        )
    for place, each in enumerate(lists):
        ways = [index, Cell(constant(place)), Cell(constant(len(lists)))]
        rows = [frame.tuple(parts), frame.tuple(frame.fields(frame.now(each)))]
        yield each, frame.fields(frame.program.call(frame, prelude.one_if_at, [*ways, *rows], {}))
