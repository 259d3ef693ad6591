"""The artifacts that the cache on disk keeps, one row each: what their key is made of, and their form as bytes.

kept = KEPT["cubin"]
key = kept.key(program, architecture, "level=3")
kept.unpack(kept.pack(cubin, key)) == cubin
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cuda_device.cache import disk
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import Architecture

if TYPE_CHECKING:
    from cuda_device.cache.programs import Program
    from cuda_device.codegen.cpu.machine_code import Native
    from cuda_device.codegen.gpu.cubin import Cubin


@dataclass(frozen=True, slots=True)
class Kept:
    """How a kind of artifact is kept.

    `key` names all that it depends on, given the program, the architecture, and the options as text. `pack` gives None for an
    artifact that came about in another way than the key says. `unpack` may raise `RuntimeError`.
    """

    key: Callable[[Program, Architecture, str], tuple[str, ...]]
    pack: Callable[[Any, tuple[str, ...]], bytes | None]
    unpack: Callable[[bytes], Any]


def _cubin_key(program: Program, architecture: Architecture, options: str) -> tuple[str, ...]:
    from cuda_device.codegen.gpu.cubin import identity

    library = ""
    if program.library:
        from cuda_device.codegen.gpu import libdevice

        library = f"{' '.join(sorted(program.library))} {libdevice.content_hash()}"
    return identity(architecture), "cubin", repr(architecture), options, library, program.digest


def _pack_cubin(cubin: Cubin, key: tuple[str, ...]) -> bytes | None:
    # The assembler that comes first may have turned out to be too old: the key does not name the one that did the work.
    if key[0].partition(" ")[0] != cubin.assembler:
        return None
    return b"\0".join((cubin.assembler.encode(), cubin.log.encode().replace(b"\0", b""), cubin.code))


def _unpack_cubin(data: bytes) -> Cubin:
    from cuda_device.codegen.gpu.cubin import Cubin, read_usage

    assembler, log, code = data.split(b"\0", 2)
    usage = read_usage(log.decode()) if log else {}
    return Cubin(code, assembler.decode(), log.decode(), MappingProxyType(usage))


def _native_key(program: Program, architecture: Architecture, options: str) -> tuple[str, ...]:
    from cuda_device.codegen.cpu.machine_code import host

    return "native", *host(), repr(architecture), options, program.digest


def _pack_native(native: Native, key: tuple[str, ...]) -> bytes:
    return native.object_code


def _unpack_native(data: bytes) -> Native:
    from cuda_device.codegen.cpu.machine_code import load_native

    return load_native(data)


KEPT = {
    "cubin": Kept(_cubin_key, _pack_cubin, _unpack_cubin),
    "native": Kept(_native_key, _pack_native, _unpack_native),
}
"""By the name of the stage that makes them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place in the cache of one artifact."""

    kept: Kept
    parts: tuple[str, ...]
    key: bytes

    def take(self) -> Any:
        """The artifact, or None."""
        data = disk.find(self.key)
        if data is None:
            return None
        try:
            return self.kept.unpack(data)
        except (RuntimeError, ValueError):  # It is what was kept, and yet of no use here: make it again.
            disk.discard(self.key)
            return None

    def fill(self, artifact: Any) -> None:
        """Keeps the artifact."""
        data = self.kept.pack(artifact, self.parts)
        if data is not None:
            disk.keep(self.key, data)


def slot(stage: str, program: Program, architecture: Architecture, options: str) -> Slot:
    """Where the artifact of a stage belongs."""
    kept = KEPT[stage]
    parts = kept.key(program, architecture, options)
    return Slot(kept, parts, disk.key_of(*parts))
