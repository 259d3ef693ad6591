"""Calls that take functions, or names: `min(key=…)`, `sorted`, `functools.reduce`, `map`, `getattr`.

sorted((a, b, c))       →   exchanges of neighbours, until all are in order
map(f, x)               →   a bundle that `for` knows; f is called when the loop comes to an item
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuda_device.errors import CompileError
from cuda_device.infer import generators, hosted, operators
from cuda_device.infer.calls import call
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.generators import check_count, no_keywords
from cuda_device.infer.kinds import lists, sequences
from cuda_device.infer.meanings import Thing, means
from cuda_device.ir import ops
from cuda_device.ir.nodes import Op
from cuda_device.library import iterators, standard
from cuda_device.types.known import constant
from cuda_device.types.model import Array, Bundle, Number, Range, Subarray, Tuple, Vector


def extreme(frame: Frame, function: object, name: str, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`min` and `max` of what one argument holds, or with a `key`."""
    _check_keywords(name, named)
    if len(positional) != 1 and "default" in named:
        raise CompileError(f"{name} takes a default with one argument only", help=f"write {name}((a, b, …), default=c)")
    items = positional[0] if len(positional) == 1 else frame.tuple(positional)
    if isinstance(items.known.type, Number):
        raise CompileError(
            f"{name} of one argument takes a tuple, a range or an array, not {items.known}",
            help=f"write {name}(a, b, …)",
        )
    if isinstance(items.known.type, Tuple) and not items.known.items and "default" not in named:
        raise CompileError(f"{name}() of nothing has no value", help=f"write {name}(…, default=0)")
    return frame.program.call(frame, standard.ONE_ARGUMENT[function], [items], named)


def _check_keywords(name: str, named: Mapping[str, Cell]) -> None:
    for word in named:
        if word not in ("key", "default"):
            raise CompileError(f"{name} has no keyword parameter {word!r}", help="its keywords are key and default")


def extreme_of_generator(frame: Frame, name: str, generator: Cell, named: Mapping[str, Cell]) -> Cell:
    """`min` and `max` of a generator, perhaps with a `key`, a `default` or both."""
    _check_keywords(name, named)
    if not named:
        return generators.reduce(frame, generator, name)
    key = named.get("key")
    if key is None or key.known.value is None:
        key = frame.literal(standard.itself)
    better = frame.literal(standard.lesser if name == "min" else standard.greater)
    if "default" in named:
        return generators.reduce(frame, generator, f"{name} key default", better, key, named["default"])
    return generators.reduce(frame, generator, f"{name} key", better, key)


def _next(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`next(iterator)`, perhaps with a default."""
    no_keywords("next", named)
    check_count("next", positional, 1, 2)
    if positional[0].known.identity is None or means(positional[0].known, Thing.LIST):
        raise CompileError(
            f"next takes an iterator, not {positional[0].known}", help="write next(iter(…)), or index it"
        )
    function = standard.next_of if len(positional) == 1 else standard.next_or
    return frame.program.call(frame, function, positional, {})


def _filter(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`filter(function, items)`."""
    no_keywords("filter", named)
    check_count("filter", positional, 2, 2)
    function, items = positional
    if function.known.value is None:
        function = frame.literal(bool)
    return frame.program.call(frame, standard.chosen, [function, _as_iterator(frame, items)], {})


def _as_iterator(frame: Frame, cell: Cell) -> Cell:
    from cuda_device.infer import loops  # which needs calls

    return loops.iterator_over(frame, cell)


def _reduce(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`functools.reduce(function, items)`, perhaps with a first result."""
    no_keywords("reduce", named)
    check_count("reduce", positional, 2, 3)
    function, items, *begin = positional
    if generators.is_generator(items.known):
        return generators.reduce(frame, items, "fold" if begin else "reduce", *begin, function)
    target = standard.reduce_from if begin else standard.reduce_all
    return frame.program.call(frame, target, [function, sequences.as_iterable(frame, items), *begin], {})


def _map(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`map(function, a, b, …)`: each item is computed when the loop comes to it."""
    no_keywords("map", named)
    check_count("map", positional, 2, 255)
    function, *items = positional
    both = frame.bundle(Thing.ZIP, [_as_iterator(frame, cell) for cell in items])
    return frame.as_object(frame.bundle(Thing.MAP, [function, both]))


def sort(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`sorted(items, key=…, reverse=…)` of a few items: neighbours change places until all are in order."""
    check_count("sorted", positional, 1, 1)
    for word in named:
        if word not in ("key", "reverse"):
            raise CompileError(f"sorted has no keyword parameter {word!r}", help="its keywords are key and reverse")
    items = frame.fields(sequences.as_tuple(frame, sequences.list_of(frame, positional[0], "sorted")))
    if len(items) > _MOST_SORTED:
        raise CompileError(
            f"sorted of {len(items)} items is too long for device code: {_MOST_SORTED} are the most",
            help="sort an array with an algorithm of your own",
        )
    key, descending = named.get("key"), named.get("reverse", Cell(constant(False)))
    if key is not None and key.known.value is None:
        key = None
    ranks = items if key is None else [call(frame, key, [item], {}) for item in items]
    pairs = [frame.tuple(pair) for pair in zip(ranks, items, strict=True)]
    for turn in range(len(pairs)):
        for i in range(turn % 2, len(pairs) - 1, 2):
            both = frame.program.call(frame, standard.in_order, [pairs[i], pairs[i + 1], descending], {})
            pairs[i : i + 2] = frame.fields(both)
    return frame.new_list([frame.field(pair, 1) for pair in pairs])


# The swaps grow with the square of it.
_MOST_SORTED = 32


def _of_pools(function: Any, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`itertools.combinations(pool, r)` and its like, which go through what they are given more than once.

    All that they give of tuples is known while compiling, as for `combinations((a, b, c), 2)`, which gives three pairs.
    """
    name = f"itertools.{function.__name__}"
    end = iterators.AGAIN[function]
    pools = [sequences.as_iterable(frame, cell) for cell in positional[:end]]
    for cell in pools:
        kept = isinstance(cell.known.type, (Tuple, Range, Array, Vector, Subarray)) or hosted.is_array(cell.known)
        if not kept:
            once = cell.known.identity is not None
            raise CompileError(
                f"{name} goes through what it is given more than once, and cannot through {cell.known}",
                help="make a tuple of it: tuple(…)" if once else "give it tuples, ranges or arrays",
            )
    others = [
        *([] if end is None else positional[end:]),
        *(cell for word, cell in named.items() if word != "fillvalue"),
    ]
    if (
        function in _KNOWN
        and all(isinstance(each.known.type, Tuple) for each in pools)
        and all(map(_is_constant, others))
    ):
        return _iter(frame, [frame.tuple(_all_of(function, frame, pools, positional[len(pools) :], named))], {})
    return frame.program.call(frame, iterators.REPLACEMENTS[function], [*pools, *positional[len(pools) :]], named)


def _is_constant(cell: Cell) -> bool:
    return cell.known.constant


def _all_of(
    function: Any, frame: Frame, pools: Sequence[Cell], others: Sequence[Cell], named: Mapping[str, Cell]
) -> list[Cell]:
    """What a function of `itertools` gives of tuples, each a tuple itself."""
    keywords = {word: cell if word == "fillvalue" else cell.known.python for word, cell in named.items()}
    if function is itertools.zip_longest:
        keywords.setdefault("fillvalue", Cell(constant(None)))
    try:
        found = function(*map(frame.fields, pools), *(cell.known.python for cell in others), **keywords)
        some = list(itertools.islice(found, _MOST_KNOWN + 1))
    except (TypeError, ValueError) as error:
        raise CompileError(f"itertools.{function.__name__}: {error}", help="call it as in Python") from None
    if len(some) > _MOST_KNOWN:
        raise CompileError(
            f"a loop over more than {_MOST_KNOWN} {function.__name__} is too long to be unrolled",
            help="give it a range or an array, over which the loop is one of run time",
        )
    return [frame.tuple(each) for each in some]


_KNOWN = (
    itertools.combinations,
    itertools.combinations_with_replacement,
    itertools.permutations,
    itertools.zip_longest,
)
_MOST_KNOWN = 1024


def _iter(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`iter(x)`: an iterator, which is its own."""
    no_keywords("iter", named)
    check_count("iter", positional, 1, 1)
    iterator = _as_iterator(frame, positional[0])
    return iterator if iterator.known.identity is not None else frame.as_object(iterator)


def get_attribute(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`getattr(x, "name")`, perhaps with a default."""
    no_keywords("getattr", named)
    check_count("getattr", positional, 2, 3)
    found = _attribute(frame, *positional[:2])
    if isinstance(found, Cell):
        return found
    if len(positional) < 3:
        raise found
    return positional[2]


def _hasattr(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    no_keywords("hasattr", named)
    check_count("hasattr", positional, 2, 2)
    return Cell(constant(isinstance(_attribute(frame, *positional), Cell)))


def _attribute(frame: Frame, owner: Cell, name: Cell) -> Cell | CompileError:
    from cuda_device.infer.attributes import getattr_

    if not isinstance(name.known.value, str):
        raise CompileError(f"the name of an attribute is a string, not {name.known}", help="write it in quotes")
    try:
        (cell,) = getattr_(frame, Op(ops.PY_GETATTR, attributes={"name": name.known.value}), [owner])
    except CompileError as error:
        return error
    return cell


def _setitem(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`operator.setitem(x, i, v)`, of what lies in memory or is an object: a value would be changed nowhere."""
    from cuda_device.infer.assignments import setitem  # it needs these

    no_keywords("setitem", named)
    check_count("setitem", positional, 3, 3)
    owner, index, value = positional
    if not isinstance(owner.known.type, Array | Bundle):
        help = "make a list of it: [*x]" if isinstance(owner.known.type, Tuple) else "write x[i] = v"
        raise CompileError(f"{owner.known} is a value: setitem would change nothing", help=help)
    setitem(frame, Op(ops.PY_SETITEM), [owner, index, value])
    return Cell(constant(None))


def _slice(frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`slice(stop)`, `slice(start, stop)`, `slice(start, stop, step)`."""
    no_keywords("slice", named)
    check_count("slice", positional, 1, 3)
    nothing = Cell(constant(None))
    parts = [nothing, *positional] if len(positional) == 1 else list(positional)
    return frame.bundle(slice, [*parts, nothing][:3])


def _augmented(sign: str, frame: Frame, positional: Sequence[Cell], named: Mapping[str, Cell]) -> Cell:
    """`operator.iadd(x, y)`: what `x += y` makes of x, which it changes if it is a list."""
    no_keywords("augmented assignment", named)
    check_count("augmented assignment", positional, 2, 2)
    op = Op(ops.PY_BINARY, attributes={"op": sign, "inplace": True}, location=frame.location)
    (result,) = operators.binary(frame, op, positional)
    return result


_AUGMENTED = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv, "//": operator.ifloordiv,
    "%": operator.imod, "**": operator.ipow, "<<": operator.ilshift, ">>": operator.irshift, "&": operator.iand,
    "|": operator.ior, "^": operator.ixor,
}  # fmt: skip
RULES: dict[object, Callable[[Frame, Sequence[Cell], Mapping[str, Cell]], Cell]] = {
    functools.reduce: _reduce,
    map: _map,
    filter: _filter,
    next: _next,
    sorted: sort,
    iter: _iter,
    getattr: get_attribute,
    hasattr: _hasattr,
    operator.delitem: lists.delete,
    operator.setitem: _setitem,
    **{function: functools.partial(_of_pools, function) for function in iterators.AGAIN},
    slice: _slice,
    **{function: functools.partial(_augmented, sign) for sign, function in _AUGMENTED.items()},
    operator.iconcat: functools.partial(_augmented, "+"),
}
