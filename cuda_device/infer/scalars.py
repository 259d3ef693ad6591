"""Rules of type inference for what numbers are beside numbers: 0-d arrays, as NumPy's scalars are on the host.

x.dtype, x.ndim, x.shape          float32, 0, ()            of a float32
x.astype(T, copy=False)           T(x)
x.view(uint32)                    the bits of x as a uint32
x.item()                          a builtin number
x[()], x.T, x.reshape(())         x
x[None]                           an array of it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuda_device.device.packing import reinterpret
from cuda_device.device.rows import constant_of
from cuda_device.errors import CompileError
from cuda_device.infer import remedies
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import complexes
from cuda_device.infer.meanings import Method
from cuda_device.library import standard
from cuda_device.types.dtypes import element_of
from cuda_device.types.host import host_type_of
from cuda_device.types.known import known_as, of_type
from cuda_device.types.layout import machine, size_of
from cuda_device.types.model import BOOL, COMPLEX, FLOAT, INDEX, INT, NONE, Number, Subarray, Tuple, Vector
from cuda_device.types.vectors import host_vector

_SAME = ("T", "real")
_NUMBERS_ALONE = ("real", "imag", "conjugate", "dtype")
"""What Python's numbers have, too (and `dtype`, to ask for a number's type)."""


def attribute(frame: Frame, cell: Cell, number: Number, name: str) -> Cell:
    """`x.name` of a number."""
    _check_name(cell, number, name)
    if name in METHODS:
        return frame.bundle(Method(name), [cell])
    if number.is_complex and name in ("real", "imag"):
        return frame.field(cell, ("real", "imag").index(name))
    if name in _SAME:
        return cell
    if name == "imag":
        return Cell(of_type(number, True), frame.build.const(number, 0))
    constants = {
        "dtype": host_type_of(number), "shape": (), "strides": (), "ndim": 0, "size": 1, "itemsize": size_of(number),
        "nbytes": size_of(number),
    }  # fmt: skip
    if name in constants:
        return frame.literal(constants[name])
    raise AssertionError(name)


_CONSTANTS = ("dtype", "shape", "strides", "ndim", "size", "itemsize", "nbytes")


def _check_name(cell: Cell, number: Number, name: str) -> None:
    """Refuses what a number does not have, and what Python's own numbers do not have."""
    everything = (*_CONSTANTS, *_SAME, "imag", *METHODS, *_of_python(number))
    is_python = number.builtin and number != BOOL
    if name in (_NUMBERS_ALONE if is_python else everything):
        return
    if name in everything:
        raise CompileError(
            f"{cell.known} has no attribute {name!r} in device code: a Python number has no more than "
            f"{', '.join((*_NUMBERS_ALONE, *_of_python(number)))}",
            help=f"make it a fixed-format number first: {machine(number)}(…).{name}",
        )
    known = (*_NUMBERS_ALONE, *_of_python(number)) if is_python else everything
    close = remedies.nearest(name, known)
    raise CompileError(
        f"{cell.known} has no attribute {name!r} in device code",
        help=f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}",
    )


def _of_python(number: Number) -> tuple[str, ...]:
    """What Python itself can express."""
    return tuple(standard.NUMBER_METHODS) if number.is_integer else ("is_integer",)


def call_method(frame: Frame, owner: Cell, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`x.astype(T, copy=False)` and the like, of a number."""
    return METHODS[name](frame, owner, positional, named)


def item(frame: Frame, owner: Cell, number: Number, index: Cell) -> Cell | None:
    """`x[()]` and `x[...]`, the number itself, and `x[None]`, an array of it with so many axes; None for another index."""
    parts = index.known.items if isinstance(index.known.type, Tuple) else (index.known,)
    axes = [part for part in parts if part.type == NONE]
    others = [part for part in parts if part.type != NONE]
    if (number.builtin and number != BOOL) or len(others) > 1 or any(part.value is not Ellipsis for part in others):
        return None
    return frame.composite(Subarray(number, (1,) * len(axes)), [owner]) if axes else owner


def _dtype(name: str, positional: Sequence[Cell], named: Mapping[str, Cell], others: Sequence[str] = ()) -> Cell:
    given = [*positional, *(cell for key, cell in named.items() if key == "dtype")]
    if len(given) != 1 or any(key not in ("dtype", *others) for key in named):
        raise CompileError(f"{name} takes a dtype", help=f"write x.{name}(T)")
    return given[0]


def _astype(frame: Frame, owner: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    try:
        target = element_of(constant_of(_dtype("astype", positional, named, ["copy"]).known, "the dtype of astype"))
    except TypeError as error:
        raise CompileError(f"dtype: {error}", help="name a type: float32, x.dtype, …") from None
    if not isinstance(target, Number):
        vector = host_vector(target) if isinstance(target, Vector) else None
        name = vector.__name__ if vector else getattr(target, "name", str(target))
        raise CompileError(f"{owner.known} cannot become a {name}", help=f"make one: {name}(…)")
    return frame.call(frame.literal(host_type_of(target)), [owner], {})


def _view(frame: Frame, owner: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    return frame.call(frame.literal(reinterpret), [owner, _dtype("view", positional, named)], {})


def _reshape(frame: Frame, owner: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    shape = positional[0].known if len(positional) == 1 else None
    if named or (positional and (shape is None or not isinstance(shape.type, Tuple) or shape.items)):
        raise CompileError(f"{owner.known} is a number: its only shape is ()", help="write x.reshape(())")
    return owner


def _conjugate(frame: Frame, owner: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    _no_arguments("conjugate", positional, named)
    return complexes.conjugate(frame, owner) if complexes.is_complex(owner) else owner


def _item(frame: Frame, owner: Cell, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """A builtin number, where one has room for every value of the type: float64 and uint64 stay what they are."""
    _no_arguments("item", positional, named)
    number = owner.known.type
    assert isinstance(number, Number)
    builtin = (
        (COMPLEX,)
        if number.is_complex
        else (FLOAT,)
        if number.is_float
        else (INT, INDEX)
        if number != BOOL
        else (BOOL,)
    )
    target = next((each for each in builtin if _most(each) >= _most(number)), number)
    return Cell(known_as(owner.known, target), frame.materialise(owner, target))


def _most(number: Number) -> int:
    return number.bits if number.is_float or number.is_complex else number.high


def _no_arguments(name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> None:
    if positional or named:
        raise CompileError(f"{name} of a number takes no arguments", help=f"write x.{name}()")


METHODS: dict[str, Callable[[Frame, Cell, Sequence[Cell], Mapping[str, Cell]], Cell]] = {
    "astype": _astype,
    "view": _view,
    "reshape": _reshape,
    "conjugate": _conjugate,
    "conj": _conjugate,
    "item": _item,
}
