"""Which sources of ours, and which LLVM, there are: what the keys of the cache say of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cuda_device.cache import disk

PACKAGE = Path(disk.__file__).parent.parent


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "cuda_device"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(disk, "_PACKAGE", str(copy))
    return copy


def identity() -> str:
    return disk.package.__wrapped__()


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
    before = identity()
    assert identity() == before
    exchange(package / name)
    assert identity() != before


def test_a_source_more_or_less_is_another_package(package: Path) -> None:
    looks = [identity()]
    (package / "infer" / "more.py").write_text("")
    looks.append(identity())
    (package / "infer" / "more.py").rename(package / "infer" / "most.py")
    looks.append(identity())
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "more.cpython-311.pyc").write_bytes(b"")
    assert identity() == looks[2]
    (package / "infer" / "most.py").unlink()
    looks.append(identity())
    assert len(set(looks[:3])) == 3
    assert looks[3] not in looks[1:3]


def test_llvm_is_known_by_its_version_and_its_library() -> None:
    assert "version" in disk.llvm()
    assert disk.llvm() == disk.llvm.__wrapped__()
