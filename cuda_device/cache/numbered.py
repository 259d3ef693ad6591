"""Objects by the numbers in which they first appear: the part of a fingerprint (`cache/fingerprints`) that is no contents.

numbered.is_new(f)                    True, and then False
numbered.place_of(f.__globals__)      ("global", 0): where another process that numbered the same objects finds it
numbered.owner_at("global", 0)        there: f.__globals__
"""

from __future__ import annotations

import builtins
import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import CellType, FunctionType, ModuleType
from typing import Self


class Unfit(Exception):
    """An object that has no fingerprint, or a namespace that another process could not find."""


class Numbered(ABC):
    """A sequence of words and bytes, among them the numbers of objects."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._objects: list[object] = []
        self._numbers: dict[int, int] = {}
        self._owners: dict[int, tuple[str, int]] = {id(namespace): (kind, 0) for kind, namespace in _COMMON.items()}

    def copy(self) -> Self:
        """Another one, to go on from here in another way."""
        made = type(self)()
        made._parts, made._objects = self._parts.copy(), self._objects.copy()
        made._numbers, made._owners = self._numbers.copy(), self._owners.copy()
        return made

    def digest(self) -> bytes:
        """What tells the objects by now from others: 32 bytes."""
        return hashlib.sha256(b"".join(self._parts)).digest()

    @abstractmethod
    def add(self, value: object) -> None:
        """Adds an object. Raises `Unfit` for one that has no fingerprint."""

    def tag(self, kind: str, *texts: object) -> None:
        """Adds a word, and texts that belong to it."""
        self.data(kind, *[str(text).encode("utf-8", "surrogatepass") for text in texts])

    def data(self, kind: str, *data: bytes) -> None:
        """Adds a word, and bytes that belong to it."""
        sizes = len(data[0]) if len(data) == 1 else ",".join([str(len(each)) for each in data])
        self._parts += (f"{kind}({sizes})".encode(), *data)

    def items(self, kind: str, values: Iterable[object]) -> None:
        """Adds several objects."""
        held = list(values)
        self.tag(kind, len(held))
        for value in held:
            self.add(value)

    def is_new(self, value: object) -> bool:
        """Numbers an object; if it has a number already, adds that and answers False."""
        number = self._numbers.get(id(value))
        if number is not None:
            self.tag("again", number)
            return False
        number = self._numbers[id(value)] = len(self._objects)
        self._objects.append(value)
        self._owners.setdefault(id(value), ("attribute", number))
        if isinstance(value, FunctionType):
            self._owners.setdefault(id(value.__globals__), ("global", number))
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                self._owners.setdefault(id(cell), (f"cell {name}", number))
        return True

    def place_of(self, owner: object) -> tuple[str, int]:
        """How another process finds a namespace, a cell, or an object with attributes. Raises `Unfit` if it could not."""
        if id(owner) not in self._owners:
            raise Unfit("it cannot be reached from the function")
        return self._owners[id(owner)]

    def owner_at(self, kind: str, number: int) -> object:
        """What `place_of` told. Raises `Unfit` if there is no such thing here."""
        if kind in _COMMON:
            return _COMMON[kind]
        found = self._objects[number] if 0 <= number < len(self._objects) else None
        if kind == "attribute" and isinstance(found, (ModuleType, type, FunctionType)):
            return found
        if isinstance(found, FunctionType):
            cells = zip(found.__code__.co_freevars, found.__closure__ or (), strict=True)
            owner = found.__globals__ if kind == "global" else dict(cells).get(kind.removeprefix("cell "))
            if isinstance(owner, (dict, CellType)):
                return owner
        raise Unfit("there is no such object")


_COMMON = {"builtin": vars(builtins), "module": sys.modules}
"""The namespaces that every process has."""
