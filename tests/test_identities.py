"""Which sources of ours, and which LLVM, there are: what the keys of the cache say of them."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from cuda_device.cache import identities
from cuda_device.cache.store import Store

PACKAGE = Path(identities.__file__).parent.parent


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "cuda_device"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(identities, "_PACKAGE", copy)
    return copy


def exchange(path: Path) -> None:
    """Changes a byte of a file and sets its times back."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.stat().st_mtime_ns == status.st_mtime_ns


@pytest.mark.parametrize("name", ["infer/engine.py", "library/prelude.py", "types/model.py", "codegen/emit/to_llvm.py"])
def test_a_changed_source_is_another_package(package: Path, name: str) -> None:
    before = identities.package()
    assert identities.package() == before
    exchange(package / name)
    assert identities.package() != before


def test_a_source_more_or_less_is_another_package(package: Path) -> None:
    looks = [identities.package()]
    (package / "infer" / "more.py").write_text("")
    looks.append(identities.package())
    (package / "infer" / "more.py").rename(package / "infer" / "most.py")
    looks.append(identities.package())
    assert len(set(looks)) == 3
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "more.cpython-311.pyc").write_bytes(b"")
    assert identities.package() == looks[2]


def test_the_generator_is_known_by_its_contents(package: Path, tmp_path: Path) -> None:
    kept = Store(tmp_path / "cache")
    first = identities.generator(kept)
    assert identities.generator(kept) == identities.generator(None) == first
    for path in package.rglob("*.py"):
        path.touch()
    (package / "infer" / "engine.py").write_text("")  # which makes LLVM IR, and no machine code of it
    assert identities.generator(kept) == first
    exchange(package / "codegen" / "cpu" / "native.py")
    assert identities.generator(kept) == identities.generator(None) != first


def test_sources_in_an_archive(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number in range(2):
        archive = tmp_path / f"package{number}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in package.rglob("*.py"):
                file.write(path, f"cuda_device/{path.relative_to(package)}")
        monkeypatch.setattr(identities, "_PACKAGE", archive / "cuda_device")
        found += [identities.package(), identities.generator(None)]
        with (package / "codegen" / "emit" / "to_llvm.py").open("a") as changed:
            changed.write("# more\n")
    assert len(set(found)) == 4


def test_a_library_that_was_exchanged_for_one_of_its_size_and_age(tmp_path: Path) -> None:
    library = tmp_path / "libllvmlite.so"
    library.write_bytes(b"machine code")

    def look() -> str:
        return identities._look([(library.name, str(library), library.stat())])

    before = look()
    assert look() == before
    exchange(library)
    assert look() != before


def test_llvm_is_there() -> None:
    assert "llvmlite." in identities.llvm()
    assert "version" in identities.llvm()
