"""Artifacts in the cache on disk: their keys, and their form as bytes.

    entry = CacheEntry.of(cubin.KEPT, program, architecture, options)
    entry.take()                                            the artifact, or None
    entry.fill(artifact)

There is a `Kept` in `codegen/gpu/cubin`, and one in each target whose machine code is kept (`hooks.TARGETS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_device.cache import disk
from cuda_device.instrument.outline import ProgramSummary
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import Architecture


@dataclass(frozen=True, slots=True)
class Kept:
    """How a kind of artifact is stored.

    `key` takes the program, the architecture, and the options as text, and names everything that the artifact depends on. `pack`
    returns None for an artifact that the key does not describe. `unpack` may raise any exception.
    """

    key: Callable[[ProgramSummary, Architecture, str], tuple[str, ...]]
    pack: Callable[[Any, tuple[str, ...]], bytes | None]
    unpack: Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """The cache entry of one artifact."""

    kept: Kept
    parts: tuple[str, ...]
    key: bytes

    @staticmethod
    def of(kept: Kept, program: ProgramSummary, architecture: Architecture, options: str) -> CacheEntry:
        """The entry of a program's artifact."""
        parts = kept.key(program, architecture, options)
        return CacheEntry(kept, parts, disk.key_of(*parts))

    def take(self) -> Any:
        """The artifact, or None."""
        data = disk.find(self.key)
        if data is None:
            return None
        try:
            return self.kept.unpack(data)
        except Exception:  # the artifact is generated again
            disk.discard(self.key)
            return None

    def fill(self, artifact: Any) -> None:
        """Stores the artifact."""
        data = self.kept.pack(artifact, self.parts)
        if data is not None:
            disk.keep(self.key, data)
