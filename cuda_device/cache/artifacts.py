"""Artifacts in the cache on disk: what their key is made of, and their form as bytes.

    entry = CacheEntry.of(cubin.KEPT, program, architecture, "level=3")
    entry.take()                # the artifact, or None
    entry.fill(artifact)        # keeps it

Each kind of artifact says where it is made how it is kept: a `Kept` stands in `codegen/gpu/cubin`, and one in
`codegen/cpu/machine_code`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_device.cache import disk
from cuda_device.cache.programs import ProgramSummary
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import Architecture


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
