"""Complex numbers that are printed: without their real part if it is zero, which only run time knows.

    print("at", z)     →     print("at", 2j) if there is no real part, else print("at", (1+2j))

Printf prints each of its numbers, so there are two calls of it, one of which is reached. A print of many complex numbers becomes
several; of those within one value the first few are shown so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.kinds import complexes
from cuda_device.infer.meanings import Field, Keywords, Named, Text, Thing, means
from cuda_device.library import standard
from cuda_device.types.known import Known
from cuda_device.types.model import Bundle, Number, Tuple

# Each of them doubles the calls.
_MOST = len(standard.PRINT_ONE)


def is_decided(known: Known) -> bool:
    """Whether it is a complex number of which it has been decided how it is shown: by its imaginary part, or by both."""
    return means(known, Thing.IMAGINARY) or means(known, Thing.CARTESIAN)


def print_one_of(frame: Frame, positional: Sequence[Cell], separator: str, end: str) -> bool:
    """Prints values with complex numbers of run time among them; False if there are none that have to be decided."""
    counts = [_count(cell.known, _is_open) for cell in positional]
    decided = sum(_count(cell.known, is_decided) for cell in positional)
    if not sum(counts) or decided >= _MOST:
        return False
    if not decided and sum(counts) > _MOST and len(positional) > 1:
        first = max(1, next(i for i in range(len(counts)) if sum(counts[: i + 1]) > _MOST))
        _print(frame, positional[:first], separator, separator)
        _print(frame, positional[first:], separator, end)
        return True
    place = next(i for i, count in enumerate(counts) if count)
    real, imaginary = complexes.parts(frame, _found(frame, positional[place]))
    ways = []
    for form, parts in ((Thing.IMAGINARY, [imaginary]), (Thing.CARTESIAN, [real, imaginary])):
        decided_one = _with(frame, positional[place], frame.bundle(form, parts))
        ways.append(frame.tuple([*positional[:place], decided_one, *positional[place + 1 :]]))
    bare = frame.program.call(frame, standard.is_plus_zero, [real], {})
    words = [frame.literal(word) for word in (separator, end)]
    frame.program.call(frame, standard.PRINT_ONE[decided], [bare, *ways, *words], {})
    return True


def _print(frame: Frame, cells: Sequence[Cell], separator: str, end: str) -> None:
    from cuda_device.infer import printing  # it asks this

    printing.print_(frame, cells, {"sep": frame.literal(separator), "end": frame.literal(end)})


def _is_open(known: Known) -> bool:
    return isinstance(known.type, Number) and known.type.is_complex and not known.constant


def _items(known: Known) -> tuple[Known, ...]:
    """What is shown of a value one after the other."""
    if isinstance(known.value, Text):
        fields = [piece for piece in known.value.pieces if isinstance(piece, Field)]
        if any(field.spec and _is_open(item) for field, item in zip(fields, known.items, strict=True)):
            return ()  # which is an error
    is_shown = means(known, Thing.LIST) or isinstance(known.value, Keywords | Named | Text)
    return known.items if isinstance(known.type, Tuple) or is_shown else ()


def _count(known: Known, test: Callable[[Known], bool]) -> int:
    return 1 if test(known) else sum(_count(item, test) for item in _items(known))


def _found(frame: Frame, cell: Cell) -> Cell:
    """The first complex number in a value."""
    if _is_open(cell.known):
        return cell
    return _found(frame, next(part for part in frame.fields(cell) if _count(part.known, _is_open)))


def _with(frame: Frame, cell: Cell, form: Cell) -> Cell:
    """The value where the first complex number in it is shown so."""
    if _is_open(cell.known):
        return form
    parts = frame.fields(cell)
    place = next(i for i, part in enumerate(parts) if _count(part.known, _is_open))
    parts[place] = _with(frame, parts[place], form)
    return frame.bundle(cell.known.value, parts) if isinstance(cell.known.type, Bundle) else frame.tuple(parts)
