"""What tells one version of our sources, or of LLVM, from another, without reading much.

    package()       all of this package             generator()     what makes machine code of LLVM IR
    llvm()          llvmlite and LLVM

Files that look the same are the same: their names, sizes and times. The time of the last change to a file's entry is among them:
unlike that of its contents, programs that unpack or copy files cannot set it. So a library that was exchanged by one of the same
size and age is another one. To read LLVM's, to be sure, would take as long as a cold start does. The sources of the code
generator are read, once for each look of theirs: machine code that others have made of the same LLVM IR, in another
environment say, is as good.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
from collections.abc import Iterable, Iterator
from typing import Any

from cuda_device.cache.store import MAGIC, Store

File = tuple[str, str, os.stat_result]
"""The name that counts, the path, the status."""
_PACKAGE = os.path.dirname(os.path.dirname(__file__))


def _look(files: Iterable[File]) -> str:
    return repr([(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, _, s in files])


def package() -> str:
    """How this package's sources look; in an archive, what they say."""
    return _look(_files(_PACKAGE)) if os.path.isdir(_PACKAGE) else _contents_of_archive(_PACKAGE)


def generator(kept: Store | None) -> str:
    """A hash of our own sources, from LLVM IR on; `kept` if they looked so before."""
    folder = os.path.join(_PACKAGE, "codegen")
    if not os.path.isdir(folder):
        return _contents_of_archive(folder)
    files = _files(folder)
    key = hashlib.sha256(MAGIC + _look(files).encode("utf-8", "surrogatepass")).digest()
    known = kept.get(key) if kept else None
    if known is not None:
        return known.decode()
    digest = hashlib.sha256(MAGIC)
    for name, path, _ in files:
        with open(path, "rb") as file:
            content = file.read()
        digest.update(f"{name}\n{len(content)}\n".encode("utf-8", "surrogatepass") + content)
    if kept:
        kept.put(key, digest.hexdigest().encode())
    return digest.hexdigest()


def _files(folder: str) -> list[File]:
    return sorted(_sources(folder, ""), key=lambda file: file[0])


def _contents_of_archive(folder: str) -> str:
    digest = hashlib.sha256(MAGIC)
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


def _modules(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    import pkgutil  # which is for archives alone

    for module in pkgutil.iter_modules([folder], prefix):
        if module.ispkg:
            yield from _modules(os.path.join(folder, module.name.rpartition(".")[2]), f"{module.name}.")
        loader: Any = module.module_finder.find_spec(module.name, None).loader  # type: ignore[union-attr]
        yield module.name, loader.get_source(module.name) or repr(marshal.dumps(loader.get_code(module.name)))


def llvm() -> str:
    """The version of llvmlite, and how its libraries look."""
    spec = importlib.util.find_spec("llvmlite")
    folder = os.path.dirname(spec.origin) if spec and spec.origin else ""
    version = os.path.join(folder, "_version.py")
    text = ""
    if os.path.exists(version):
        with open(version, encoding="utf-8") as file:
            text = file.read()
    return f"{text} {_look(_libraries(os.path.join(folder, 'binding')))}"


def _libraries(folder: str) -> list[File]:
    if not os.path.isdir(folder):
        return []
    with os.scandir(folder) as found:
        return sorted((item.name, item.path, item.stat()) for item in found if "llvmlite" in item.name)
