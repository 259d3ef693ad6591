"""The files of the cache: the folder, the keys of machine code, and the statistics.

LLVM IR contains everything that the program read: constants, globals, captured variables, callees in all modules, and layouts of
structs. The key of machine code is therefore a hash of the LLVM IR and of everything that turns it into machine code: options,
the sources of this package, LLVM, the assembler, libdevice, and the processor. A summary of the LLVM IR of a kernel, with its
hash, is also cached (`plugins/starts/programs`); if it is not found there, the compiler generates the LLVM IR.

    CUDA_DEVICE_CACHE=folder python program.py      another folder
    CUDA_DEVICE_CACHE=0      python program.py      no cache

The folder is otherwise `cuda_device` in the user's cache folder (`XDG_CACHE_HOME`, or `~/.cache`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from cuda_device import logs
from cuda_device.cache import sha256
from cuda_device.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from pathlib import Path

# Each entry is a file. It is written under another name and then renamed, so that other processes see all of it or nothing. It
# begins with a checksum of the rest, which includes the key. A damaged file is removed. Nothing in a file is unpickled.
#
# A folder or file that belongs to another user, or that others can write to, is not used, because machine code is loaded from it.
# No method raises if the disk is full, missing or read-only: the caller then does the work again.


MOST_BYTES = 512 << 20
"""The size in bytes above which the least recently used entries are removed."""

# Increment the number when the format of the files changes; files of the old format are then removed as damaged.
MAGIC = b"cuda_device\0\0\0\0\1"
_DIGEST = 32
_HEADER = len(MAGIC) + _DIGEST
_ENTRY = r"[0-9a-f]{64}\.bin"
_UNFINISHED = r"[0-9a-f]{64}\.[0-9a-f]{16}\.tmp"
_ABANDONED = 3600 * 10**9
"""The age in nanoseconds of an unfinished file whose process has ended."""
_REMAINS = 0.75
"""The part of the allowed size that remains after old entries were removed."""


class Store:
    """Entries in the files of `folder`, which the first `put` creates, with at most `most_bytes` in total.

    store.put(key, b"machine code")         key: a SHA-256 digest of all that the bytes depend on
    store.get(key)                          b"machine code", or None
    """

    def __init__(self, folder: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> None:
        self.folder, self.most_bytes = folder, most_bytes
        self._unseen: float = most_bytes
        self._lock = threading.Lock()
        self._complaints: set[str] = set()

    def get(self, key: bytes) -> bytes | None:
        """The data of `key`, or None if it is missing or damaged."""
        try:
            with self._opened() as folder:
                return self._read(folder, key)
        except (FileNotFoundError, _NotPrivate):
            return None
        except OSError as error:
            self._complain(logs.INFO, f"cannot be read ({error.strerror})")
            return None

    def put(self, key: bytes, data: bytes) -> bool:
        """Stores `data` for `key`. Returns whether that was possible."""
        body = key + data
        content = MAGIC + sha256(body).digest() + body
        if len(content) > self.most_bytes:
            return False
        try:
            with self._opened(make=True) as folder:
                _write(folder, _name(key), content)
                self._make_room(folder, len(content))
            return True
        except _NotPrivate:
            return False
        except OSError as error:
            self._complain(logs.INFO, f"cannot be written ({error.strerror})")
            return False

    def remove(self, key: bytes) -> None:
        """Removes the entry of `key`."""
        with contextlib.suppress(OSError), self._opened() as folder:
            os.unlink(_name(key), dir_fd=folder)

    def usage(self) -> tuple[int, int]:
        """The number of entries and their size in bytes."""
        with contextlib.suppress(OSError), self._opened() as folder:
            sizes = [size for _, size, _ in _files(folder, _ENTRY)]
            return len(sizes), sum(sizes)
        return 0, 0

    def contents(self) -> Iterator[tuple[float, bytes]]:
        """The time of the last use, in seconds since 1970, and the data of each entry, the most recent first."""
        with contextlib.suppress(OSError), self._opened() as folder:
            for used, _, name in sorted(_files(folder, _ENTRY), reverse=True):
                with contextlib.suppress(OSError):
                    data = self._read(folder, bytes.fromhex(name.removesuffix(".bin")), is_use=False)
                    if data is not None:
                        yield used / 1e9, data

    def clear(self) -> int:
        """Removes all entries. Returns their number."""
        with contextlib.suppress(OSError), self._opened() as folder:
            names = [name for *_, name in _files(folder, _ENTRY)]
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
            return len(names)
        return 0

    @contextlib.contextmanager
    def _opened(self, make: bool = False) -> Iterator[int]:
        """The folder's descriptor. Raises `OSError` if there is no folder, or if it is not private."""
        # All other operations use the descriptor, so that the folder that was checked cannot be replaced by another one.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            folder = os.open(self.folder, flags)
        except FileNotFoundError:
            if not make:
                raise
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            folder = os.open(self.folder, flags)
        try:
            if not _is_private(os.fstat(folder)):
                self._complain(logs.WARNING, "belongs to another user, or other users can write to it (chmod go-w)")
                raise _NotPrivate
            yield folder
        finally:
            os.close(folder)

    def _read(self, folder: int, key: bytes, is_use: bool = True) -> bytes | None:
        """The data of a file, or None if it is damaged; it is then removed."""
        name = _name(key)
        # Neither wait for a pipe nor follow a link.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(file, "rb") as opened:
            status = os.fstat(file)
            usable = stat.S_ISREG(status.st_mode) and _is_private(status) and status.st_size <= self.most_bytes
            content = opened.read() if usable else b""
            data = _verified(content, key)
            with contextlib.suppress(OSError):
                if data is None:
                    os.unlink(name, dir_fd=folder)
                elif is_use:
                    os.utime(file)  # the least recently used entries are removed first
        return data

    def _make_room(self, folder: int, written: int) -> None:
        """Removes the least recently used entries if the folder is too large, which is checked only now and then."""
        with self._lock:
            self._unseen += written
            if self._unseen < self.most_bytes / 16:
                return
            self._unseen = 0
        abandoned = time.time_ns() - _ABANDONED
        for changed, _, name in list(_files(folder, _UNFINISHED)):
            if changed < abandoned:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)
        entries = sorted(_files(folder, _ENTRY))
        total = sum(size for _, size, _ in entries)
        if total <= self.most_bytes:
            return
        for _, size, name in entries:
            if total <= self.most_bytes * _REMAINS:
                break
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            total -= size

    def _complain(self, level: int, problem: str) -> None:
        """Logs a problem of the folder once."""
        if problem not in self._complaints:
            self._complaints.add(problem)
            logs.say(level, "the cache %s %s: compiled kernels are not stored there", self.folder, problem)


class _NotPrivate(OSError):
    """A folder is not used, because other users can change it."""


def _name(key: bytes) -> str:
    return f"{key.hex()}.bin"


def _is_private(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and no other user can write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _verified(content: bytes, key: bytes) -> bytes | None:
    """The data in a file, or None if it is damaged or for another key."""
    if content[: len(MAGIC)] != MAGIC or content[_HEADER : _HEADER + len(key)] != key:
        return None
    if sha256(content[_HEADER:]).digest() != content[len(MAGIC) : _HEADER]:
        return None
    return content[_HEADER + len(key) :]


def _write(folder: int, name: str, content: bytes) -> None:
    """Creates a file atomically."""
    unfinished = f"{name.removesuffix('.bin')}.{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(unfinished, flags, 0o600, dir_fd=folder)
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
        finally:
            os.close(file)
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _files(folder: int, pattern: str) -> Iterator[tuple[int, int, str]]:
    """The time of the last use or change, the size and the name of the files whose names match a pattern."""
    with os.scandir(folder) as items:
        for item in items:
            if re.fullmatch(pattern, item.name):
                with contextlib.suppress(OSError):  # another process has removed it
                    status = item.stat(follow_symlinks=False)
                    yield status.st_mtime_ns, status.st_size, item.name


T = TypeVar("T")
VARIABLE = "CUDA_DEVICE_CACHE"
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_OFF = ("", "0")


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Statistics of the cache of compiled kernels: what this process found in it, and what it contains.

    `folder` is None if the cache is off. `hits` and `misses` count kernels. `direct` counts the hits that needed no compilation
    at all, not even to find the key. `nbytes` is the size of all `entries`, which other processes share.
    """

    folder: Path | None
    hits: int
    misses: int
    entries: int
    nbytes: int
    direct: int = 0


_counts = Counter[str]()
_counts_lock = threading.Lock()


def count(**changes: int) -> None:
    """Counts `hits`, `misses` or `direct` hits of kernels."""
    with _counts_lock:
        _counts.update(changes)


def cache_info() -> CacheInfo:
    """Returns statistics of the cache of compiled kernels, a `CacheInfo`.

    The environment variable `CUDA_DEVICE_CACHE` selects another folder for the cache, or turns the cache off if it is `0`.
    """
    from pathlib import Path  # slow to import

    store = current()
    entries, nbytes = store.usage() if store else (0, 0)
    return CacheInfo(
        Path(store.folder) if store else None, _counts["hits"], _counts["misses"], entries, nbytes, _counts["direct"]
    )


def current() -> Store | None:
    """The store in the folder that the environment selects; None if the cache is off."""
    folder = _folder(*map(os.environ.get, (VARIABLE, "XDG_CACHE_HOME", "HOME")))
    return _store(os.path.abspath(folder)) if folder else None


@functools.lru_cache(maxsize=16)
def _folder(chosen: str | None, base: str | None, home: str | None) -> str | None:
    """The selected folder, or `cuda_device` in the cache folder of the XDG Base Directory Specification."""
    if chosen in _OFF:
        return None
    default = base if base and os.path.isabs(base) else os.path.join("~", ".cache")
    folder = os.path.expanduser(chosen or os.path.join(default, "cuda_device"))
    return None if folder.startswith("~") else folder  # there is no home folder


@functools.lru_cache(maxsize=16)
def _store(folder: str) -> Store:
    return Store(folder)


def find(key: bytes) -> bytes | None:
    """The data of a key, or None."""
    store = current()
    return store.get(key) if store else None


def keep(key: bytes, data: bytes) -> None:
    """Stores data, if that is possible."""
    store = current()
    if store:
        store.put(key, data)


def discard(key: bytes) -> None:
    """Removes an entry that cannot be used."""
    store = current()
    if store:
        store.remove(key)


def loaded(name: str, make: Callable[[], bytes], load: Callable[[bytes], T]) -> T:
    """The result of `load` for cached data that many kernels use. If it is missing or does not load, `make` creates it.

    The name must contain everything that the data depends on, except the sources of this package and LLVM. The statistics do not
    count it.
    """
    key = key_of("piece", name)
    if (data := find(key)) is not None:
        with contextlib.suppress(Exception):  # a damaged entry must not make a launch fail
            return load(data)
    data = make()
    keep(key, data)
    return load(data)


# Keys


def key_of(*parts: str | bytes) -> bytes:
    """The key of data that depends on `parts`, the sources of this package, and LLVM."""
    digest = sha256()
    for part in (package(), llvm(), *parts):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


@functools.cache
def package() -> str:
    """Identifies the sources of this package."""
    return _look(_sources(_PACKAGE))


@functools.cache
def ml_dtypes() -> tuple[str, str]:
    """The folder of ml_dtypes, and a digest of the file that states its version: to import it takes 5 ms."""
    spec = importlib.util.find_spec("ml_dtypes")
    assert spec is not None and spec.origin is not None
    with open(spec.origin, "rb") as file:
        return os.path.dirname(spec.origin) + os.sep, sha256(file.read()).hexdigest()


@functools.cache
def llvm() -> str:
    """Identifies LLVM: llvmlite's version, and its libraries."""
    spec = importlib.util.find_spec("llvmlite")
    folder = os.path.dirname(spec.origin) if spec and spec.origin else ""
    text, version, libraries = "", os.path.join(folder, "_version.py"), os.path.join(folder, "binding")
    if os.path.exists(version):
        with open(version, encoding="utf-8") as file:
            text = file.read()
    if not os.path.isdir(libraries):
        return text
    with os.scandir(libraries) as items:
        return f"{text} {_look(item.stat() for item in items if 'llvmlite' in item.name)}"


def _look(files: Iterable[os.stat_result]) -> str:
    """The number, size and newest change of files, which identify them without reading them.

    The time is that of the inode, because programs that unpack or copy files set the time of the contents.
    """
    statuses = list(files)
    newest = max((status.st_ctime_ns for status in statuses), default=0)
    return f"{len(statuses)} {sum(status.st_size for status in statuses)} {newest}"


def _sources(folder: str) -> Iterator[os.stat_result]:
    """The modules in a folder, or their bytecode if a package is installed without sources."""
    with os.scandir(folder) as items:
        for item in items:
            if item.name.endswith((".py", ".pyc")):
                yield item.stat()
            elif item.name != "__pycache__" and item.is_dir():
                yield from _sources(item.path)
