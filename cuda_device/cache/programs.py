"""Finds a kernel's LLVM IR in the cache without compiling the kernel, and stores it with what it depends on.

    asked = programs.ask(question)                       None for a question that has no fingerprint
    programs.keep(asked, dependencies, program)          after a kernel was compiled
    programs.find(asked)                                 in another process: (program, dependencies), or None

The LLVM IR is the key to the machine code (`cache/disk`), and generating it takes longer than everything else that a cached
kernel needs. It depends on the kernel's function, on the `question` about it (types of arguments, target, options), on the
sources of this package, and on everything that the compiler read: globals, captured variables, attributes of modules and
classes. Each read is a `Dependency`, which launches in the same process check as well.

There are two kinds of entries. An entry of the first kind lists the names that were read for a function and a question; this
module reads these names again. The key of the second kind also contains the values of the names (`cache/fingerprints`), and the
entry has the result. If a value has no fingerprint, nothing is stored, and each process generates the kernel's LLVM IR.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from cuda_device.cache import disk
from cuda_device.cache.disk import sha256
from cuda_device.cache.fingerprints import Fingerprint, Unfit, name_of
from cuda_device.cache.summaries import ProgramSummary, packed, unpacked
from cuda_device.infer.dependencies import MISSING, Dependency, read
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import Architecture

_MOST_READINGS = 4
"""A function may read other names where the first have other values; the newest of so many lists of names are kept."""
_READINGS, _PROGRAM = "readings", "program"

Reading = tuple[str, int, str]
"""A name that is read: of which kind its owner is, the number of the object that has it, the name (see `Fingerprint`)."""


def ask(question: tuple[object, ...]) -> Fingerprint | None:
    """The fingerprint of a question, and of who is asked, if it has one."""
    fingerprint = Fingerprint()
    try:
        fingerprint.tag("versions", sys.version, np.__version__, ml_dtypes.__version__, disk.package())
        fingerprint.items("question", question)
    except Unfit:
        return None
    return fingerprint


def find(asked: Fingerprint) -> tuple[ProgramSummary, tuple[Dependency, ...]] | None:
    """The program that a question led to when all that it read was as it is now, and what it read."""
    for names in _readings(_key(_READINGS, asked)):
        with contextlib.suppress(Unfit):
            if found := _follow(asked.copy(), names):
                return found
    return None


def _readings(key: bytes) -> list[list[Reading]]:
    """The lists of names that were kept under a key."""
    kept = disk.find(key)
    try:
        lists = ast.literal_eval(kept.decode()) if kept else []
        return [[(str(kind), int(number), str(name)) for kind, number, name in names] for names in lists]
    except Exception:  # It is what was kept, and no text of ours.
        return []


def _follow(fingerprint: Fingerprint, names: Sequence[Reading]) -> tuple[ProgramSummary, tuple[Dependency, ...]] | None:
    dependencies = []
    for kind, number, name in names:
        try:
            owner = fingerprint.owner_at(kind, number)
            value = read(owner, name)
        except Exception:  # in a world that has changed, a name may be any code
            return None
        _add(fingerprint, value)
        dependencies.append(Dependency(owner, name, value))
    kept = disk.find(_key(_PROGRAM, fingerprint))
    try:
        return (unpacked(kept), tuple(dependencies)) if kept else None
    except Exception:  # as above
        return None


def keep(asked: Fingerprint, dependencies: Sequence[Dependency], program: ProgramSummary) -> None:
    """Keeps what a question led to, if all that it read has a fingerprint."""
    key, fingerprint, names = _key(_READINGS, asked), asked.copy(), []
    try:
        for dependency in dependencies:
            place = _place_of(fingerprint, dependency.owner)
            if place is not None:
                names.append((*place, dependency.name))
                _add(fingerprint, dependency.value)
    except Unfit:
        return
    disk.keep(_key(_PROGRAM, fingerprint), packed(program))
    others = _readings(key)
    if names not in others[:1]:
        disk.keep(key, repr([names, *(other for other in others if other != names)][:_MOST_READINGS]).encode())


def _add(fingerprint: Fingerprint, value: object) -> None:
    if value is MISSING:
        fingerprint.tag("missing")
    else:
        fingerprint.add(value)


def _place_of(fingerprint: Fingerprint, owner: object) -> tuple[str, int] | None:
    """How another process finds an owner; None where there is no need, since a version says what it has."""
    name = owner.get("__name__") if isinstance(owner, dict) else getattr(owner, "__name__", None)
    if isinstance(owner, (dict, ModuleType)) and isinstance(name, str) and name.startswith(_OURS):
        module = sys.modules.get(name)
        if module is not None and (owner is module or owner is vars(module)):
            return None
    try:
        return fingerprint.place_of(owner)
    except Unfit:
        if isinstance(owner, FunctionType) and name_of(owner) is not None:  # what the program calls in another guise
            return None
        raise


_OURS = f"{__name__.partition('.')[0]}."


def _key(kind: str, fingerprint: Fingerprint) -> bytes:
    return sha256(kind.encode() + fingerprint.digest()).digest()


# Artifacts in the cache on disk: what their key is made of, and their form as bytes.
#
# Each kind of artifact says where it is made how it is kept: a `Kept` stands in `codegen/gpu/cubin`, and one in
# `codegen/cpu/machine_code`.


@dataclass(frozen=True, slots=True)
class Kept:
    """How a kind of artifact is kept.

    `key` names all that it depends on, given the program, the architecture, and the options as text. `pack` gives None for an
    artifact that came about in another way than the key says. `unpack` may raise anything.
    """

    key: Callable[[ProgramSummary, Architecture, str], tuple[str, ...]]
    pack: Callable[[Any, tuple[str, ...]], bytes | None]
    unpack: Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """The place in the cache of one artifact."""

    kept: Kept
    parts: tuple[str, ...]
    key: bytes

    @staticmethod
    def of(kept: Kept, program: ProgramSummary, architecture: Architecture, options: str) -> CacheEntry:
        """Where the artifact of a program belongs."""
        parts = kept.key(program, architecture, options)
        return CacheEntry(kept, parts, disk.key_of(*parts))

    def take(self) -> Any:
        """The artifact, or None."""
        data = disk.find(self.key)
        if data is None:
            return None
        try:
            return self.kept.unpack(data)
        except Exception:  # It is what was kept, and yet of no use here: it is made again.
            disk.discard(self.key)
            return None

    def fill(self, artifact: Any) -> None:
        """Keeps the artifact."""
        data = self.kept.pack(artifact, self.parts)
        if data is not None:
            disk.keep(self.key, data)
