"""Nested functions and generators: their creation, and the variables that they read.

In Python, a function shares its variables with the functions nested in it, which read them when they are called. A nested
function is therefore *open*: it only knows which variables it reads (`Origin`). A call passes the current values of the variables
that the called function and the open functions among the arguments read (`environment`), as additional arguments. Variables that
are assigned more than once are objects (`Box`), whose changes are visible everywhere.

    limit = 3.0
    above = lambda v: v > limit       above is open
    limit = x[i]
    count(above, x)                   count gets above, x, and the variable limit as it is here

A function is *closed* when it leaves the function whose variables it reads, as a result or in an object: it captures their
values. Functions that read each other are closed together, with a single set of captured values. Among these values, the
functions themselves stay open, so that each of them sees the current versions of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING

from cuda_device.errors import CompileError
from cuda_device.infer.constants import no_room
from cuda_device.infer.frame import Cell, Follows, Frame
from cuda_device.infer.meanings import Box, NestedFunction, Origin, check_apart, code_of, is_list
from cuda_device.ir.nodes import Op
from cuda_device.lazy_dataclasses import replace
from cuda_device.lazy_imports import import_lazily
from cuda_device.library import NAMES
from cuda_device.types.known import FAILED, UNKNOWN, Conflict, Known, Undefined, Unset, part, state_of
from cuda_device.types.model import Bundle, Tuple

if TYPE_CHECKING:
    from cuda_device.infer import joins, remedies
else:
    import_lazily(globals(), "cuda_device.infer", "joins", "remedies")


# The code objects are kept with their functions, so that no other gets their addresses.
_TEMPLATES: dict[tuple[int, int], FunctionType] = {}


def make(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """A `def` or `lambda` inside of a function."""
    code, names, keywords = op.attributes["function"], op.attributes["cells"], op.attributes["keywords"]
    assert isinstance(code, CodeType) and isinstance(names, tuple) and isinstance(keywords, tuple)
    values = list(cells)
    defaults: tuple[str, ...] = ()
    if op.attributes["defaults"]:
        packed = values.pop(0)
        count = len(packed.known.items)
        defaults = code.co_varnames[code.co_argcount - count : code.co_argcount]
        values = [*frame.fields(packed), *values]
    meaning = NestedFunction(
        template(code, frame.function.__globals__),
        defaults + keywords,
        tuple(_origin(frame, str(name)) for name in names),
    )
    return [frame.bundle(meaning, values)]


def template(code: CodeType, namespace: dict[str, object]) -> FunctionType:
    """A plain function of the code: one for each place in the program, so that its specialisations are found again."""
    key = id(code), id(namespace)
    function = _TEMPLATES.get(key)
    if function is None:
        cells = tuple(CellType() for _ in code.co_freevars)
        # Of threads that are here at once, all get the same.
        function = _TEMPLATES.setdefault(key, FunctionType(code, namespace, code.co_name, None, cells))
    return function


# What open functions read


def name_variables(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The current values of the variables that nested functions capture."""
    names = op.attributes["names"]
    assert isinstance(names, tuple)
    frame.cells = dict(zip(names, cells, strict=True))
    return []


def environment(frame: Frame, cells: Sequence[Cell], function: NestedFunction | None = None) -> dict[Origin, Cell]:
    """The variables that the open `function` and those in `cells` read, and in turn the open functions in these variables."""
    variables: dict[Origin, Cell] = {}
    todo = [origin for cell in cells for code in _functions(cell.known) for origin in code.cells]
    todo += function.cells if function is not None else ()
    while todo:
        origin = todo.pop()
        if origin not in variables:
            variables[origin] = cell = _variable(frame, origin)
            todo += [origin for code in _functions(cell.known) for origin in code.cells]
    there = {
        origin: settle(cell, origin.name)
        for origin, cell in variables.items()
        if not isinstance(state_of(cell.known), Undefined)
    }
    return dict(sorted(there.items(), key=lambda item: item[0].name))


def _variable(frame: Frame, origin: Origin) -> Cell:
    """A variable that an open function reads, as it is now."""
    if origin in frame.captured:
        return frame.now(frame.captured[origin])
    if _is_own(frame, origin):
        if origin.name in frame.cells:
            return frame.cells[origin.name]
        if origin.name in frame.function.__code__.co_freevars:
            return _load_of_host(frame, origin.name)
    return Cell(part(Undefined(origin.name)))


def _functions(known: Known) -> Iterator[NestedFunction]:
    """The open functions in a value."""
    if NestedFunction not in known.meanings:
        return
    code = code_of(known)
    if code is not None and code.captured is None:
        yield code
    for item in _visible(known):
        if item.items or item.value is not UNKNOWN:
            yield from _functions(item)


def _visible(known: Known) -> tuple[Known, ...]:
    """The parts of a value, without what closed functions captured."""
    code = code_of(known)
    if code is not None:
        return known.items[: len(code.defaults)]
    return known.items if isinstance(known.type, (Tuple, Bundle)) else ()


def close(frame: Frame, cell: Cell, everything: bool = False) -> Cell:
    """Closes the open functions in a value that read variables which the caller does not have, or `everything`.

    Functions in what they captured stay open, and find their variables there.
    """
    known = cell.known
    if not any(_functions(known)):
        return cell
    code, seen = code_of(known), len(_visible(known))
    parts = frame.fields(cell)
    parts = [*(close(frame, part, everything) for part in parts[:seen]), *parts[seen:]]
    if code is not None and code.captured is None and (everything or _reads_own(frame, code)):
        variables = environment(frame, [], code)
        return frame.bundle(replace(code, captured=tuple(variables)), [*parts, *variables.values()])
    rebuilt = frame.rebuilt(known, parts)
    if known.identity is not None:
        check_apart(rebuilt.known, known.identity)
    return rebuilt


def _reads_own(frame: Frame, function: NestedFunction) -> bool:
    """Whether an open function reads variables of the current function, or of its closure."""
    is_closed = frame.code is not None and frame.code.captured is not None
    return is_closed or any(_is_own(frame, origin) for origin in function.cells)


# The functions and activations that own variables


def activation_number(code: CodeType, captured: Sequence[Origin]) -> int:
    """The number of an activation of a function, which differs from those of the activations whose variables it captured."""
    taken = {origin.call for origin in captured if origin.code == id(code)}
    free = set(range(len(taken) + 1)).difference(taken)
    return min(free)


def _origin(frame: Frame, name: str) -> Origin:
    """The variable that a name denotes in the current function."""
    code = frame.function.__code__
    if frame.code is not None and name in code.co_freevars:
        return frame.code.cells[code.co_freevars.index(name)]
    return Origin(id(code), frame.activation, name)


def _is_own(frame: Frame, origin: Origin) -> bool:
    return (origin.code, origin.call) == (id(frame.function.__code__), frame.activation)


# Inside of the nested function


def load(frame: Frame, name: str) -> Cell:
    """A variable of an enclosing function, which is device code that captured it, or of the host."""
    if frame.code is None:
        return _load_of_host(frame, name)
    origin = _origin(frame, name)
    if origin not in frame.captured:
        raise _no_value(name)
    return frame.now(frame.captured[origin])


def _no_value(name: str) -> CompileError:
    return CompileError(
        f"the variable {name!r} of the enclosing function has no value yet", help="assign it before the call"
    )


def _load_of_host(frame: Frame, name: str) -> Cell:
    function = frame.function
    cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
    try:
        value = cell.cell_contents
    except ValueError:
        raise _no_value(name) from None
    if function.__module__ not in NAMES:  # those of functions of the library never change
        frame.program.depend(cell, name, value)
    return frame.literal(value)


# Variables that are assigned more than once


def box(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The place of such a variable, an object that its function and the nested ones share."""
    return [frame.as_object(frame.bundle(Box(str(op.attributes["name"])), cells))]


def unbox(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The current value of the variable."""
    return [frame.field(frame.now(cells[0]), 0)]


def set_box(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """An assignment."""
    variable, value = cells
    assert variable.known.identity is not None
    frame.change(variable.known.identity, frame.bundle(variable.known.value, [value]))
    return []


def get_cell(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    """A variable of an enclosing function."""
    variable = load(frame, str(op.attributes["name"]))
    return unbox(frame, op, [variable]) if isinstance(variable.known.value, Box) else [variable]


def set_cell(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`nonlocal`: an assignment to such a variable."""
    name = str(op.attributes["name"])
    if frame.code is None:
        raise CompileError(
            f"device code cannot assign to {name!r}, a variable of a host function",
            help="write to an array that the kernel takes as an argument",
        )
    return set_box(frame, op, [load(frame, name), *cells])


# Calling


def parts(frame: Frame, cell: Cell) -> tuple[dict[str, Cell], dict[Origin, Cell]]:
    """A nested function's defaults, and what it captured, if it is closed."""
    code, cells = code_of(cell.known), frame.fields(cell)
    assert code is not None
    captured = dict(zip(code.captured or (), cells[len(code.defaults) :], strict=True))
    return dict(zip(code.defaults, cells, strict=False)), captured


# Variables


def settle(cell: Cell, label: str) -> Cell:
    """The value of a variable that is used; an error if it is undefined or in conflict."""
    if not isinstance(cell.known.value, Unset):
        return cell
    match cell.known.value.state:
        case state if state is FAILED:
            raise Follows("this value is unavailable because of an earlier error", help="correct that error first")
        case Undefined(_, why) if why:
            raise CompileError(why, help="use another name for the second value")
        case Undefined(name):
            raise CompileError(
                f"the variable {name or label!r} is used before it has a value",
                help="assign it on every path that leads here",
            )
        case Conflict(first, second):
            name = f"the variable {label!r}" if label else "the value"
            while (number := _item_in_conflict(first, second)) is not None:
                name, first, second = f"item {number} of {name}", first.items[number], second.items[number]
            places = "".join(f"; it is {k} from line {k.where.line}" for k in (first, second) if k.where.line > 0)
            one, other = remedies.with_length(first), remedies.with_length(second)
            differ = f"is {one} on one path here and {other} on another{places}"
            if one == other and remedies.are_iterators(first, second):
                differ = f"is {one}, in different states on the paths that meet here"
            error = CompileError(
                f"{name} {differ}",
                help=no_room(first, second)
                or no_room(second, first)
                or remedies.of_two_types(first, second, "give it the same type on every path, or use two names"),
            )
            # One that grows in each iteration of a constant range has a known length once the loop is unrolled.
            error.unrolls = all(is_list(k) or isinstance(k.type, Tuple) for k in (first, second))
            raise error


def _item_in_conflict(first: Known, second: Known) -> int | None:
    """The number of the first item whose types in two lists of one length cannot be joined."""
    if not (is_list(first) and is_list(second) and len(first.items) == len(second.items)):
        return None
    pairs = enumerate(zip(first.items, second.items, strict=True))
    return next((number for number, (a, b) in pairs if not isinstance(joins.join(a, b), Known)), None)
