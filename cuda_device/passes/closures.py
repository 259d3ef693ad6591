"""Nested functions: how they come to be, and how they capture.

Python's functions share their variables with the functions inside them, and read them when they are called. While the outer
function runs, a nested function is therefore *open*: it knows the names of the variables that it will read. Whatever leaves
the outer function (an argument of a call, a result) is closed first: until it comes back, the outer function stands still
and its variables cannot change, so that to read them now is to read them then.

    limit = 3.0
    above = lambda v: v > limit       above is open
    limit = x[i]
    count(above, x)                   count gets the function with limit as it is here

Functions that capture each other are closed together: what one captured serves all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CellType, CodeType, FunctionType

from cuda_device.errors import CompileError
from cuda_device.ir.model import Op
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.passes.frame import Cell, Frame, Pending, settle
from cuda_device.passes.meanings import Box, Code, code_of
from cuda_device.types.known import Known, State, Undefined
from cuda_device.types.model import Bundle, Tuple, TupleIterator

# The code objects are kept with their functions, so that no other gets their addresses.
_TEMPLATES: dict[tuple[int, int], FunctionType] = {}


def make(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """A `def` or `lambda` inside of a function."""
    code, names, keywords = op.attributes["function"], op.attributes["cells"], op.attributes["keywords"]
    assert isinstance(code, CodeType) and isinstance(names, tuple) and isinstance(keywords, tuple)
    values = list(cells)
    defaults: tuple[str, ...] = ()
    if op.attributes["defaults"]:
        given = values.pop(0)
        count = len(given.known.items)
        defaults = code.co_varnames[code.co_argcount - count : code.co_argcount]
        values = [*frame.fields(given), *values]
    meaning = Code(template(code, frame.globals), defaults + keywords, names)
    return [frame.bundle(meaning, values)]


def template(code: CodeType, namespace: dict[str, object]) -> FunctionType:
    """A plain function of the code: one for each place in the program, so that its specialisations are found again."""
    key = id(code), id(namespace)
    found = _TEMPLATES.get(key)
    if found is None:
        cells = tuple(CellType() for _ in code.co_freevars)
        # Of threads that are here at once, all get the same.
        found = _TEMPLATES.setdefault(key, FunctionType(code, namespace, code.co_name, None, cells))
    return found


# Closing


def close(frame: Frame, cell: Cell) -> Cell:
    """The same value, with every nested function in it closed over the frame's variables as they are now."""
    if not _has_open(cell.known):
        return cell
    names = _needed(frame, cell.known)
    origins = tuple(_origin(frame, name) for name in names)
    return _close(frame, cell, _Environment(names, origins, tuple(_now(frame, name) for name in names)))


def _has_open(known: Known) -> bool:
    code = code_of(known)
    if code is not None and code.open:
        return True
    return any(map(_has_open, _visible(known)))


def _visible(known: Known) -> tuple[Known, ...]:
    """The parts of a value; what a closed function captured is its own affair."""
    code = code_of(known)
    if code is not None and not code.open:
        return known.items[: len(code.defaults)]
    return known.items if isinstance(known.type, (Tuple, TupleIterator, Bundle)) else ()


def _functions(known: Known) -> Iterator[Code]:
    """The open functions in a value."""
    code = code_of(known)
    if code is not None and code.open:
        yield code
    for item in _visible(known):
        yield from _functions(item)


def _needed(frame: Frame, known: Known) -> tuple[str, ...]:
    """The variables that the open functions in a value read, and those that are open functions read, and so on."""
    names: dict[str, None] = {}
    todo = [known]
    while todo:
        for code in _functions(todo.pop()):
            for name in code.cells:
                if name not in names:
                    names[name] = None
                    state = _state(frame, name)
                    if isinstance(state, Known):
                        todo.append(state)
    return tuple(sorted(name for name in names if not isinstance(_state(frame, name), Undefined)))


def _state(frame: Frame, name: str) -> State:
    found = frame.cells.get(name)
    if isinstance(found, Pending):
        return found.state
    return (found or load(frame, name)).known


def _now(frame: Frame, name: str) -> Cell:
    return settle(frame.cells.get(name) or load(frame, name), name)


@dataclass(frozen=True, slots=True)
class _Environment:
    """Variables: their names, whose they are, and what they hold."""

    names: tuple[str, ...]
    origins: tuple[object, ...]
    cells: tuple[Cell, ...]


def _close(frame: Frame, cell: Cell, environment: _Environment) -> Cell:
    """Puts the values of `environment` into every open function; those that it holds stay open, and find each other there."""
    known = cell.known
    if not _has_open(known):
        return cell
    code = code_of(known)
    seen = len(_visible(known))
    parts = frame.fields(cell)
    parts = [*(_close(frame, part, environment) for part in parts[:seen]), *parts[seen:]]
    if code is None or not code.open:
        return frame.rebuilt(known, parts)
    closed = replace(code, captured=environment.names, origins=environment.origins, open=False)
    return frame.bundle(closed, [*parts, *environment.cells])


def _origin(frame: Frame, name: str) -> object:
    """Whose variable it is that is captured: a function's code, and its name there."""
    if name in frame.cells or frame.code is None:
        return id(frame.function.__code__), name
    outer = frame.code.cells[frame.code.function.__code__.co_freevars.index(name)]
    return frame.code.origins[frame.code.captured.index(outer)]


def check_result(frame: Frame, known: Known) -> None:
    """Refuses a function that came back with an old value of a variable of this function that is assigned again."""
    if not frame.changing:
        return
    code = code_of(known)
    if code is not None and not code.open:
        for origin in code.origins:
            if isinstance(origin, tuple) and origin[0] == id(frame.function.__code__) and origin[1] in frame.changing:
                raise CompileError(
                    f"{code} captured {origin[1]!r}, which is assigned more than once, and came back from a call",
                    help="give the second value a name of its own",
                )
    for item in known.items:
        check_result(frame, item)


# Inside of the nested function


def load(frame: Frame, name: str) -> Cell:
    """A variable of an enclosing function, which is device code that captured it, or of the host."""
    code = frame.code
    if code is None:
        return _load_of_host(frame, name)
    outer = code.cells[code.function.__code__.co_freevars.index(name)]
    if outer not in frame.captured:
        raise _no_value(name)
    # A function among the captured variables was captured with all others.
    now = {each: frame.now(cell) for each, cell in frame.captured.items()}
    return _close(frame, now[outer], _Environment(code.captured, code.origins, tuple(now.values())))


def _no_value(name: str) -> CompileError:
    return CompileError(
        f"the variable {name!r} of the enclosing function has no value yet", help="assign it before the call"
    )


def _load_of_host(frame: Frame, name: str) -> Cell:
    cell = frame.closure[name]
    try:
        value = cell.cell_contents
    except ValueError:
        raise _no_value(name) from None
    frame.program.depend(cell, name, value)
    return frame.literal(value)


# Variables that nested functions assign to


def box(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The place of such a variable, an object that its function and the nested ones share."""
    return [frame.as_object(frame.bundle(Box(str(op.attributes["name"])), cells))]


def unbox(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """What the variable holds now."""
    return [frame.field(frame.now(cells[0]), 0)]


def set_box(frame: Frame, _: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """An assignment."""
    place, value = cells
    assert place.known.identity is not None
    frame.change(place.known.identity, frame.bundle(place.known.value, [value]))
    return []


def get_cell(frame: Frame, op: Op, _: Sequence[Cell]) -> Sequence[Cell]:
    """A variable of an enclosing function."""
    found = load(frame, str(op.attributes["name"]))
    return unbox(frame, op, [found]) if isinstance(found.known.value, Box) else [found]


def set_cell(frame: Frame, op: Op, cells: Sequence[Cell]) -> Sequence[Cell]:
    """`nonlocal`: an assignment to such a variable."""
    name = str(op.attributes["name"])
    if frame.code is None:
        raise CompileError(
            f"device code cannot assign to {name!r}, a variable of a function of the host",
            help="write to an array that the kernel takes as an argument",
        )
    return set_box(frame, op, [load(frame, name), *cells])


# Calling


def captured(frame: Frame, cell: Cell) -> dict[str, Cell]:
    """What a closed function captured."""
    code = code_of(cell.known)
    assert code is not None
    return dict(zip(code.captured, frame.fields(cell)[len(code.defaults) :], strict=True))


def defaults(frame: Frame, cell: Cell) -> dict[str, Cell]:
    """A nested function's defaults."""
    code = code_of(cell.known)
    assert code is not None
    return dict(zip(code.defaults, frame.fields(cell), strict=False))
