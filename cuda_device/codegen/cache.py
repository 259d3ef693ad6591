"""The cache of compiled kernels on disk: which folder, what makes a key, what was found and what was not.

The first part of the compiler, from bytecode to LLVM IR, runs anew in each process; it takes a millisecond or two. Its text says
all that the program read: constants, globals, what closures captured, callees in whatever module, layouts of structs. So the
key is that text, with what turns it into machine code: options, our own code generator, LLVM, the assembler, libdevice, and
the processor. There is no list of what a kernel depends on that could lack an item, and none that could be out of date.

    CUDA_DEVICE_CACHE=folder python program.py      another folder
    CUDA_DEVICE_CACHE=0      python program.py      no cache

The folder is otherwise `cuda_device` in the user's cache folder (`XDG_CACHE_HOME`, or `~/.cache`).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import marshal
import os
import pkgutil
import threading
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_device.codegen import store
from cuda_device.codegen.store import Store

VARIABLE = "CUDA_DEVICE_CACHE"
_OFF = ("", "0")


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What this process found in the cache, and what the cache holds.

    `folder` is None where there is no cache. `hits` and `misses` count kernels; `nbytes` is the size of all `entries`, which
    other processes share.
    """

    folder: Path | None
    hits: int
    misses: int
    entries: int
    nbytes: int


class _Counts:
    """How many kernels were found, and how many were not."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.hits = self.misses = 0

    def count(self, *, hit: bool) -> None:
        """One more kernel was looked for."""
        with self.lock:
            self.hits += hit
            self.misses += not hit


_counts = _Counts()


def cache_info() -> CacheInfo:
    """What this process found in the cache of compiled kernels, and what that holds.

    `CUDA_DEVICE_CACHE` names another folder for it; set to `0` it turns the cache off.
    """
    found = current()
    entries, nbytes = found.usage() if found else (0, 0)
    return CacheInfo(found.folder if found else None, _counts.hits, _counts.misses, entries, nbytes)


def current() -> Store | None:
    """The store in the folder that the environment names now; None if it is turned off."""
    chosen = os.environ.get(VARIABLE)
    if chosen in _OFF:
        return None
    try:
        return _store(Path(chosen).expanduser().absolute() if chosen else _default())
    except RuntimeError:  # there is no home
        return None


def _default() -> Path:
    """The user's cache folder, as the XDG Base Directory Specification says."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "cuda_device"


@functools.lru_cache(maxsize=16)
def _store(folder: Path) -> Store:
    return Store(folder)


def find(key: bytes) -> bytes | None:
    """A kernel's machine code; counts the hit or miss."""
    found = current()
    data = found.get(key) if found else None
    if found:
        _counts.count(hit=data is not None)
    return data


def keep(key: bytes, data: bytes) -> None:
    """Keeps a kernel's machine code, if that is possible."""
    found = current()
    if found:
        found.put(key, data)


def discard(key: bytes) -> None:
    """Forgets a kernel that was found and cannot be used: a miss after all."""
    found = current()
    if found:
        found.remove(key)
        with _counts.lock:
            _counts.hits -= 1
            _counts.misses += 1


class Pieces(MutableMapping[str, bytes]):
    """The cache as a mapping, for what serves many kernels: pieces of libdevice, the scheduler's machine code.

    A name says all that its bytes depend on, but for our own code generator and LLVM. These are not counted.
    """

    def __getitem__(self, name: str) -> bytes:
        found = current()
        data = found.get(_piece(name)) if found else None
        if data is None:
            raise KeyError(name)
        return data

    def __setitem__(self, name: str, data: bytes) -> None:
        keep(_piece(name), data)

    def __delitem__(self, name: str) -> None:
        found = current()
        if found:
            found.remove(_piece(name))

    def __iter__(self) -> Iterator[str]:
        raise TypeError("the cache does not know its names, only their hashes")

    def __len__(self) -> int:
        return cache_info().entries


def _piece(name: str) -> bytes:
    return key_of("piece", name)


def key_of(*parts: str | bytes) -> bytes:
    """The key for something that depends on `parts`, on our own code generator, and on LLVM."""
    digest = hashlib.sha256()
    for part in (generator(), llvm(), *parts):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


@functools.cache
def generator() -> str:
    """A hash of our own sources, from LLVM IR on."""
    digest = hashlib.sha256(store.MAGIC)
    for module in sorted(
        pkgutil.iter_modules([str(Path(__file__).parent)], "cuda_device.codegen."), key=lambda m: m.name
    ):
        spec = importlib.util.find_spec(module.name)
        assert spec is not None
        loader: Any = spec.loader
        # Installed without its source, a module still has its bytecode.
        source = loader.get_source(module.name) or repr(marshal.dumps(loader.get_code(module.name)))
        digest.update(f"{module.name}\n{source}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@functools.cache
def llvm() -> str:
    """Which LLVM there is, without loading it: the version of llvmlite, and size and time of its library."""
    spec = importlib.util.find_spec("llvmlite")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    stamps = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(folder.glob("binding/*llvmlite*"))
    ]
    version = folder / "_version.py"
    return f"{version.read_text() if version.exists() else ''} {stamps}"
