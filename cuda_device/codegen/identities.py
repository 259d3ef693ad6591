"""What tells one version of our sources, or of LLVM, from another: a hash of the contents of files.

    package()       all of this package             generator()     what makes machine code of LLVM IR
    llvm()          llvmlite and LLVM

To read LLVM takes a while, so the cache keeps the hash of files for as long as they look the same: by name, size, times, and
place on the disk. The time of the last change to a file's entry, unlike that of its contents, cannot be set by programs that
unpack or copy files; so a file that was exchanged by one of the same size and age is another one. And files that were copied
without a change, into another environment say, are still the same.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import marshal
import os
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cuda_device.codegen.store import MAGIC, Store

File = tuple[str, str, os.stat_result]
"""The name that counts, the path, the status."""
_PACKAGE = Path(__file__).parent.parent


def of_files(files: Sequence[File], kept: Store | None) -> str:
    """A hash of the names and contents of files, from `kept` if they were seen before."""
    stamp = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev) for name, _, s in files]
    key = hashlib.sha256(MAGIC + b"stamp" + repr(stamp).encode("utf-8", "surrogatepass")).digest()
    known = kept.get(key) if kept else None
    if known is not None:
        return known.decode()
    digest = hashlib.sha256()
    for name, path, status in files:
        digest.update(f"{name}\n{status.st_size}\n".encode("utf-8", "surrogatepass"))
        with Path(path).open("rb") as file:
            for piece in iter(functools.partial(file.read, 1 << 20), b""):
                digest.update(piece)
    if kept:
        kept.put(key, digest.hexdigest().encode())
    return digest.hexdigest()


def package(kept: Store | None) -> str:
    """A hash of this package."""
    return _of_sources(_PACKAGE, kept)


def generator(kept: Store | None) -> str:
    """A hash of our own sources, from LLVM IR on."""
    return _of_sources(_PACKAGE / "codegen", kept)


def _of_sources(folder: Path, kept: Store | None) -> str:
    if folder.is_dir():
        return of_files(sorted(_sources(str(folder), ""), key=lambda file: file[0]), kept)
    digest = hashlib.sha256()  # in an archive
    for name, text in sorted(_modules(folder, f"{__name__.partition('.')[0]}.")):
        digest.update(f"{name}\n{text}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _sources(folder: str, prefix: str) -> Iterator[File]:
    """Every module in a folder; installed without its source, it still has its bytecode there."""
    with os.scandir(folder) as found:
        for item in found:
            if item.name.endswith((".py", ".pyc")):
                yield prefix + item.name, item.path, item.stat()
            elif item.name != "__pycache__" and item.is_dir():
                yield from _sources(item.path, f"{prefix}{item.name}/")


def _modules(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    for module in pkgutil.iter_modules([str(folder)], prefix):
        if module.ispkg:
            yield from _modules(folder / module.name.rpartition(".")[2], f"{module.name}.")
        loader: Any = module.module_finder.find_spec(module.name, None).loader  # type: ignore[union-attr]
        yield module.name, loader.get_source(module.name) or repr(marshal.dumps(loader.get_code(module.name)))


def llvm(kept: Store | None) -> str:
    """A hash of llvmlite's libraries, and its version, without loading it."""
    spec = importlib.util.find_spec("llvmlite")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    binding = folder / "binding"
    libraries = sorted(path for path in binding.iterdir() if "llvmlite" in path.name) if binding.is_dir() else []
    paths = [path for path in (folder / "_version.py", *libraries) if path.is_file()]
    return of_files([(path.name, str(path), path.stat()) for path in paths], kept)
