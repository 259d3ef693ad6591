"""Dicts whose keys are constants, asked for a key that only run time knows: it is compared with all that there are.

    COST[op]             the value of the key that `op` is; the thread reports a KeyError if it is none
    COST.get(op, 0)      the same, or 0
    COST[op](x)          a call of the function of that key
    count[op] += 1       the items of `count`, of which the one for `op` is changed

There are 64 of them at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.errors import CompileError
from cuda_device.infer import choices, hosted
from cuda_device.infer.frame import Cell, Frame
from cuda_device.infer.joins import common
from cuda_device.infer.meanings import Keywords, is_list
from cuda_device.library import prelude
from cuda_device.types.known import Known, constant


def has_key(frame: Frame, mapping: Cell, key: Cell) -> Cell:
    """`key in d`."""
    keys = mapping.known.value
    assert isinstance(keys, Keywords)
    if key.known.constant or not keys.names:
        return Cell(constant(bool(keys.names) and hosted.position(keys, key) is not None))
    place = frame.program.call(frame, prelude.place_of_key, [keys_of(frame, mapping, key), key], {})
    return frame.program.call(frame, prelude.is_length, [place], {})


# A key of run time is compared with all that there are.
_MOST_KEYS = 64


def keys_of(frame: Frame, mapping: Cell, key: Cell) -> Cell:
    """The keys of a dict, as many as can be compared with one that only run time knows."""
    keys = mapping.known.value
    assert isinstance(keys, Keywords)
    if not 0 < len(keys.names) <= _MOST_KEYS:
        raise CompileError(
            f"the dict has {len(keys.names)} keys, and the key {key.known} is known at run time alone"
            if keys.names
            else f"the dict is empty, and the key {key.known} is known at run time alone",
            help=f"{_MOST_KEYS} keys are the most: sort them into an array, and search there"
            if keys.names
            else "give it its keys first: {k: 0 for k in range(4)}",
        )
    return frame.tuple([frame.literal(name) for name in keys.names])


def item(frame: Frame, mapping: Cell, key: Cell, default: Cell | None = None) -> Cell:
    """`d[key]` and `d.get(key, default)` with a key that only run time knows: without a default, a wrong one is reported."""
    names = keys_of(frame, mapping, key)
    find = prelude.place_of_known_key if default is None else prelude.place_of_key
    values = frame.fields(mapping)
    place = frame.program.call(frame, find, [names, key], {})
    if default is None:
        chosen = choices.choose(frame, values, place) or choices.choose_function(frame, values, place)
        if chosen is not None:
            return chosen
    values = [frame.tuple(frame.fields(each)) if is_list(each.known) else each for each in values]
    given = values if default is None else [*values, default]
    common_type(given, "the values of the dict")
    if default is None:
        return frame.program.call(frame, prelude.element, [frame.tuple(values), place], {})
    return frame.program.call(frame, prelude.element_or, [frame.tuple(values), place, default], {})


def common_type(cells: Sequence[Cell], what: str) -> Known:
    """What is known of one of a few values, of which only run time knows which one it is."""
    joined = common([cell.known for cell in cells])
    if joined is None:
        raise CompileError(
            f"{what} have no common type, and which one is meant only run time knows",
            help="give them values of one type, or use a constant",
        )
    return joined


def changed(frame: Frame, mapping: Cell, key: Cell, value: Cell) -> list[Cell]:
    """The values of a dict after `d[key] = value`, where the key is one of those that there are."""
    names, values = keys_of(frame, mapping, key), frame.fields(mapping)
    joined = common_type([*values, value], "the values of the dict")
    place = frame.program.call(frame, prelude.place_of_new_value, [names, key], {})
    items = [Cell(joined, frame.carry(cell, joined)) for cell in (*values, value)]
    return frame.fields(
        frame.program.call(frame, prelude.with_element, [frame.tuple(items[:-1]), place, items[-1]], {})
    )
