"""Finds the summary of a kernel's LLVM IR in the cache without compiling the kernel, and stores it with its dependencies.

    asked = programs.ask(question)                       None for a question that has no fingerprint
    programs.keep(asked, dependencies, program)          after a kernel was compiled
    programs.find(asked)                                 in another process: (program, dependencies), or None

The hash of the LLVM IR is a part of the key of the machine code (`cache/disk`), and generating the LLVM IR takes longer than
everything else that a cached kernel needs. It depends on the kernel's function, the `question` about it (types of arguments,
target, options), the sources of this package, and everything that the compiler read: globals, captured variables, and attributes
of modules and classes. Each read is a `Dependency`, which launches in the same process check as well.

There are two kinds of entries. An entry of the first kind lists the names that were read for a function and a question; this
module reads these names again. The key of the second kind also contains the values of the names (`fingerprints`), and the
entry has the result. If a value has no fingerprint, nothing is stored, and each process generates the kernel's LLVM IR.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from cuda_device.extend import dependency_on, disk, sha256
from cuda_device.plugins.starts.fingerprints import Fingerprint, Unfit, name_of

_MOST_READINGS = 4
"""The number of lists of names that are kept. A function may read other names if the first ones have other values."""
_READINGS, _PROGRAM = "readings", "program"

Reading = tuple[str, int, str]
"""A name that is read: the kind of its owner, the number of the object that has the owner, and the name (`Fingerprint`)."""


def ask(question: tuple[object, ...]) -> Fingerprint | None:
    """The fingerprint of a question and of the versions of the packages; None if the question has none."""
    fingerprint = Fingerprint()
    try:
        fingerprint.tag("versions", sys.version, np.__version__, disk.ml_dtypes()[1], disk.package())
        fingerprint.items("question", question)
    except Unfit:
        return None
    return fingerprint


def find(asked: Fingerprint) -> tuple[bytes, tuple[Any, ...]] | None:
    """The cached program of a question, if everything that it read has the same value now, and what it read."""
    for names in _readings(_key(_READINGS, asked)):
        with contextlib.suppress(Unfit):
            if record := _follow(asked.copy(), names):
                return record
    return None


def _readings(key: bytes) -> list[list[Reading]]:
    """The lists of names of a key."""
    kept = disk.find(key)
    try:
        lists = ast.literal_eval(kept.decode()) if kept else []
        return [[(str(kind), int(number), str(name)) for kind, number, name in names] for names in lists]
    except Exception:  # the entry is not valid
        return []


def _follow(fingerprint: Fingerprint, names: Sequence[Reading]) -> tuple[bytes, tuple[Any, ...]] | None:
    dependencies = []
    for kind, number, name in names:
        try:
            dependency = dependency_on(fingerprint.owner_at(kind, number), name)
        except Exception:  # reading a name can run any code
            return None
        dependencies.append(dependency)
        _add(fingerprint, dependency)
    program = disk.find(_key(_PROGRAM, fingerprint))
    return (program, tuple(dependencies)) if program else None


def keep(asked: Fingerprint, dependencies: Sequence[Any], program: bytes) -> None:
    """Stores a program, if everything that the compiler read has a fingerprint and has not changed since."""
    if not all(dependency.current() for dependency in dependencies):
        return
    key, fingerprint, names = _key(_READINGS, asked), asked.copy(), []
    try:
        for dependency in dependencies:
            path = _path_of(fingerprint, dependency.owner)
            if path is not None:
                names.append((*path, dependency.name))
                _add(fingerprint, dependency)
    except Unfit:
        return
    disk.keep(_key(_PROGRAM, fingerprint), program)
    others = _readings(key)
    if names not in others[:1]:
        disk.keep(key, repr([names, *(other for other in others if other != names)][:_MOST_READINGS]).encode())


def _add(fingerprint: Fingerprint, dependency: Any) -> None:
    if dependency.is_missing:
        fingerprint.tag("missing")
    else:
        fingerprint.add(dependency.value)


def _path_of(fingerprint: Fingerprint, owner: object) -> tuple[str, int] | None:
    """Describes how another process finds an owner; None if the owner belongs to this package."""
    name = owner.get("__name__") if isinstance(owner, dict) else getattr(owner, "__name__", None)
    if isinstance(owner, (dict, ModuleType)) and isinstance(name, str) and name.startswith(_OURS):
        module = sys.modules.get(name)
        if module is not None and (owner is module or owner is vars(module)):
            return None
    try:
        return fingerprint.path_of(owner)
    except Unfit:
        if isinstance(owner, FunctionType) and name_of(owner) is not None:
            return None
        if isinstance(owner, type) and owner.__module__.startswith(_OURS):  # a class for types, which are known
            return None
        raise


_OURS = f"{__name__.partition('.')[0]}."


def _key(kind: str, fingerprint: Fingerprint) -> bytes:
    return sha256(kind.encode() + fingerprint.digest()).digest()
