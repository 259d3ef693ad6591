"""The contents of host objects that can change in place, as they were when the compiler read them: arrays, lists, sets and dicts.

    table = np.array([1, 2, 3])
    (content,) = contents_of(table)       Content(table, …)
    table[0] = 10
    content.current()                     False

A `Dependency` has the contents of its value, and each launch compares them, by the function that `unchanged` returns. Arrays of
more than `MOST_BYTES` are not compared: the kernel keeps what they were.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from cuda_device.infer.dependencies import HOLDERS, MISSING, Dependency, read
from cuda_device.lazy_dataclasses import dataclass

MOST_BYTES = 64 * 1024
"""The size of the largest array that launches compare."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an array, a list, a set or a dict: `state` is what `_state` returned."""

    owner: Any
    state: tuple[Any, ...]

    def current(self) -> bool:
        """Whether the object still has this content: equal bytes, or the same items in the same order."""
        now = _state(self.owner)
        if isinstance(self.owner, np.ndarray):
            return now == self.state
        return len(now) == len(self.state) and all(map(operator.is_, now, self.state))


def contents_of(value: object) -> tuple[Content, ...]:
    """The contents of an object and of everything in it: items, and arguments of a `functools.partial`."""
    return tuple(Content(owner, _state(owner)) for owner in _changeable(value)) if isinstance(value, HOLDERS) else ()


def dependency_on(owner: object, name: str) -> Dependency:
    """The dependency on the current value of a name. Raises what reading the name raises."""
    value = read(owner, name)
    return Dependency(owner, name, value, contents_of(value))


_DICTS = (dict, MappingProxyType)


def _state(owner: Any) -> tuple[Any, ...]:
    if isinstance(owner, np.ndarray):
        return _bytes_of(owner), owner.shape, owner.strides, owner.dtype
    return (*owner, *owner.values()) if isinstance(owner, _DICTS) else tuple(owner)


def _bytes_of(array: np.ndarray[Any, Any]) -> bytes:
    """The elements of an array. Those of records include the padding, which NumPy's `tobytes` may leave undefined."""
    plain, dtype = array.view(np.ndarray), array.dtype
    if dtype.names and not dtype.hasobject and dtype.itemsize:
        plain = plain.view(f"V{dtype.itemsize}")
    return plain.tobytes("A")


def _changeable(value: object) -> Iterator[object]:
    """The arrays, lists, sets and dicts in an object, each once."""
    seen, waiting = set[int](), [value]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, HOLDERS) or id(part) in seen:
            continue
        seen.add(id(part))
        is_small_array = isinstance(part, np.ndarray) and part.nbytes <= MOST_BYTES
        if is_small_array or isinstance(part, (list, set, *_DICTS)):
            yield part
        waiting += _parts(part)


def _parts(value: Any) -> tuple[object, ...]:
    if isinstance(value, partial):
        return value.args, value.keywords
    if isinstance(value, _DICTS):
        return tuple(value.values())
    return tuple(value) if isinstance(value, (list, tuple)) else ()


def unchanged(dependencies: Sequence[Dependency], contents: Sequence[Content] = ()) -> Callable[[], bool]:
    """A function that returns whether every name still has the same value, and all values and `contents` the same content."""
    names, others = [], []
    for dependency in dependencies:
        # The dict of a module answers in a fifth of the time that reading its attribute takes.
        holder, name, value = dependency.owner, dependency.name, dependency.value
        owner = vars(holder) if type(holder) is ModuleType else holder
        if isinstance(owner, dict) and (owner is holder or owner.get(name, MISSING) is value is not MISSING):
            names.append((owner, name, value))
        else:
            others.append(dependency)
    compared = (*contents, *(content for dependency in dependencies for content in dependency.contents))

    def check() -> bool:
        for owner, name, value in names:
            if owner.get(name, MISSING) is not value:
                return False
        return all(map(Dependency.has_value, others)) if others else True

    return (lambda: check() and all(map(Content.current, compared))) if compared else check
