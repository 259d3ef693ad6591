"""The cache of compiled kernels on disk: which folder, what makes a key, what was found and what was not.

LLVM IR says all that the program read: constants, globals, what closures captured, callees in whatever module, layouts of
structs. So the key to machine code is a hash of it, with what turns it into machine code: options, our own sources, LLVM, the
assembler, libdevice, and the processor. Which LLVM IR a kernel has is on disk, too (`cache/programs`); where that does not know
it, the compiler makes it.

    CUDA_DEVICE_CACHE=folder python program.py      another folder
    CUDA_DEVICE_CACHE=0      python program.py      no cache

The folder is otherwise `cuda_device` in the user's cache folder (`XDG_CACHE_HOME`, or `~/.cache`).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, TypeVar

from cuda_device.cache.store import Store, sha256
from cuda_device.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
VARIABLE = "CUDA_DEVICE_CACHE"
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_OFF = ("", "0")


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What this process found in the cache, and what the cache holds.

    `folder` is None where there is no cache. `hits` and `misses` count kernels, and `direct` those hits for which nothing was
    compiled at all, not even to see that they are hits; `nbytes` is the size of all `entries`, which other processes share.
    """

    folder: Path | None
    hits: int
    misses: int
    entries: int
    nbytes: int
    direct: int = 0


class _Counts:
    """How many kernels were found, and how many were not."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.hits = self.misses = self.direct = 0


_counts = _Counts()


def count(*, hits: int = 0, misses: int = 0, direct: int = 0) -> None:
    """Counts a kernel that was looked for."""
    with _counts.lock:
        _counts.hits += hits
        _counts.misses += misses
        _counts.direct += direct


def cache_info() -> CacheInfo:
    """What this process found in the cache of compiled kernels, and what that holds.

    `CUDA_DEVICE_CACHE` names another folder for it; set to `0` it turns the cache off.
    """
    from pathlib import Path  # which takes a while to import

    found = current()
    entries, nbytes = found.usage() if found else (0, 0)
    return CacheInfo(
        Path(found.folder) if found else None, _counts.hits, _counts.misses, entries, nbytes, _counts.direct
    )


def current() -> Store | None:
    """The store in the folder that the environment names now; None if it is turned off."""
    folder = _folder(*map(os.environ.get, (VARIABLE, "XDG_CACHE_HOME", "HOME")))
    return _store(os.path.abspath(folder)) if folder else None


@functools.lru_cache(maxsize=16)
def _folder(chosen: str | None, base: str | None, home: str | None) -> str | None:
    """The folder that is chosen, or `cuda_device` in the one that the XDG Base Directory Specification says."""
    if chosen in _OFF:
        return None
    default = base if base and os.path.isabs(base) else os.path.join("~", ".cache")
    folder = os.path.expanduser(chosen or os.path.join(default, "cuda_device"))
    return None if folder.startswith("~") else folder  # there is no home


@functools.lru_cache(maxsize=16)
def _store(folder: str) -> Store:
    return Store(folder)


def find(key: bytes) -> bytes | None:
    """What was kept under a key, or None."""
    found = current()
    return found.get(key) if found else None


def keep(key: bytes, data: bytes) -> None:
    """Keeps it, if that is possible."""
    found = current()
    if found:
        found.put(key, data)


def discard(key: bytes) -> None:
    """Forgets what was found and cannot be used."""
    found = current()
    if found:
        found.remove(key)


class Pieces(MutableMapping[str, bytes]):
    """The cache as a mapping, for what serves many kernels: pieces of libdevice, the scheduler's machine code.

    A name says all that its bytes depend on, but for our own sources and LLVM. These are not counted.
    """

    def __getitem__(self, name: str) -> bytes:
        data = find(key_of("piece", name))
        if data is None:
            raise KeyError(name)
        return data

    def __setitem__(self, name: str, data: bytes) -> None:
        keep(key_of("piece", name), data)

    def __delitem__(self, name: str) -> None:
        discard(key_of("piece", name))

    def __iter__(self) -> Iterator[str]:
        raise TypeError("the cache does not know its names, only their hashes")

    def __len__(self) -> int:
        return cache_info().entries


def loaded(name: str, make: Callable[[], bytes], load: Callable[[bytes], T]) -> T:
    """What `load` makes of the piece `name`. A piece that is not there, or does not load, is made again and kept."""
    pieces = Pieces()
    if (data := pieces.get(name)) is not None:
        try:
            return load(data)
        except Exception:  # whatever is wrong with what was kept, no launch fails for it
            del pieces[name]
    pieces[name] = data = make()
    return load(data)


# Keys


def key_of(*parts: str | bytes) -> bytes:
    """The key for something that depends on `parts`, on our own sources, and on LLVM."""
    digest = sha256()
    for part in (package(), llvm(), *parts):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


@functools.cache
def package() -> str:
    """Which sources of ours there are: how many files, their size, and the newest change. In an archive, the archive's."""
    if os.path.isdir(_PACKAGE):
        return _look(_sources(_PACKAGE))
    return _look([os.stat(_archive(_PACKAGE))])


@functools.cache
def llvm() -> str:
    """Which LLVM there is: llvmlite's version, and how its libraries look."""
    spec = importlib.util.find_spec("llvmlite")
    folder = os.path.dirname(spec.origin) if spec and spec.origin else ""
    text, version, libraries = "", os.path.join(folder, "_version.py"), os.path.join(folder, "binding")
    if os.path.exists(version):
        with open(version, encoding="utf-8") as file:
            text = file.read()
    if not os.path.isdir(libraries):
        return text
    with os.scandir(libraries) as found:
        return f"{text} {_look(item.stat() for item in found if 'llvmlite' in item.name)}"


def _look(files: Iterable[os.stat_result]) -> str:
    """Tells files from changed ones without reading them.

    What counts is the newest change of a file's entry: programs that unpack or copy files cannot set that, as they can set the
    time of its contents.
    """
    statuses = list(files)
    newest = max((status.st_ctime_ns for status in statuses), default=0)
    return f"{len(statuses)} {sum(status.st_size for status in statuses)} {newest}"


def _sources(folder: str) -> Iterator[os.stat_result]:
    """Every module in a folder; a package that is installed without its sources has its bytecode there."""
    with os.scandir(folder) as found:
        for item in found:
            if item.name.endswith((".py", ".pyc")):
                yield item.stat()
            elif item.name != "__pycache__" and item.is_dir():
                yield from _sources(item.path)


def _archive(path: str) -> str:
    """The file that a path within an archive leads through."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    return path or os.sep
