"""Modules and functions that are imported when a program first needs them, as by `lazy import` of Python 3.15 (PEP 810).

    if TYPE_CHECKING:
        from cuda_device.infer import loops, printing
    else:
        import_lazily(globals(), "cuda_device.infer", "loops", "printing")

A kernel that prints nothing does not load `printing`. The first use of one of its names imports the module and binds it in the
importing module, so that later uses cost what they cost after an ordinary import. A `LazyTable` names functions of such modules.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _LazyModule:
    """Stands for a module until one of its names is used."""

    def __init__(self, namespace: dict[str, Any], package: str, name: str) -> None:
        self._namespace, self._package, self._name = namespace, package, name

    def __getattr__(self, attribute: str) -> Any:
        module = self._namespace[self._name] = importlib.import_module(f"{self._package}.{self._name}")
        return getattr(module, attribute)


def import_lazily(namespace: dict[str, Any], package: str, *modules: str) -> None:
    """Binds modules of a package in the namespace of the module that needs them."""
    for name in modules:
        namespace[name] = _LazyModule(namespace, package, name)


def import_named(package: str, path: str) -> Any:
    """What a path such as "loops.iterate" names in a package."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"{package}.{module}"), name)


class LazyTable(dict[K, V]):
    """A mapping with some values that are imported when `[]` first looks them up; `paths` names them as "module.name".

    Iterating over the table imports them all.
    """

    def __init__(self, package: str, values: Mapping[K, V], paths: Mapping[K, str]) -> None:
        super().__init__(values)
        self._package, self._paths = package, dict(paths)

    def __missing__(self, key: K) -> V:
        value: V = import_named(self._package, self._paths[key])
        self[key] = value
        return value

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._paths

    def __iter__(self) -> Iterator[K]:
        for key in self._paths:
            self[key]
        return super().__iter__()


class LazyMethod:
    """A method of a class that is a function of another module, which is imported when the method is first looked up."""

    def __init__(self, package: str, path: str) -> None:
        self._package, self._path = package, path

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        function = import_named(self._package, self._path)
        setattr(self._owner, self._name, function)
        return function.__get__(instance, owner)
