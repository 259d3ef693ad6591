"""The files of the cache: what was put comes back whole, or not at all, whatever happens to the disk meanwhile."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import cuda_device as device
from cuda_device.cache.disk import MAGIC, Store, loaded

KEY = hashlib.sha256(b"key").digest()
DATA = bytes(range(256)) * 8
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
not_for_root = pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")


def key(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache" / "kernels")


def file_of(store: Store, wanted: bytes = KEY) -> Path:
    return store.folder / f"{wanted.hex()}.bin"


def test_what_was_put_comes_back(store: Store) -> None:
    assert store.get(KEY) is None
    assert store.put(KEY, DATA)
    assert store.get(KEY) == DATA
    assert Store(store.folder).get(KEY) == DATA
    assert store.get(key(1)) is None
    assert store.put(KEY, b"")
    assert store.get(KEY) == b""
    store.remove(KEY)
    store.remove(KEY)
    assert store.get(KEY) is None


def test_files_are_private(store: Store) -> None:
    old = os.umask(0)
    try:
        store.put(KEY, DATA)
    finally:
        os.umask(old)
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert file_of(store).stat().st_mode & 0o777 == 0o600
    assert os.listdir(store.folder) == [file_of(store).name]


def test_every_flipped_bit_and_every_length_is_noticed(store: Store) -> None:
    store.put(KEY, DATA)
    whole = file_of(store).read_bytes()
    chance = random.Random(7)
    injected = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 1, 2, 64))):
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        injected += _is_refused(store, bytes(damaged), whole)
    for _ in range(500):
        injected += _is_refused(store, whole[: chance.randrange(len(whole))], whole)
    for extra in (b"\0", b"x" * 100, whole):
        injected += _is_refused(store, whole + extra, whole)
    for start in range(0, len(whole), 16):
        zeros = whole[:start] + bytes(16) + whole[start + 16 :]
        injected += zeros == whole or _is_refused(store, zeros, whole)
    assert injected >= 2000


def _is_refused(store: Store, damaged: bytes, whole: bytes) -> bool:
    """Whether a damaged file gives nothing, is gone, and can be put again."""
    if damaged == whole:
        return True
    path = file_of(store)
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_bytes(damaged)
    assert store.get(KEY) is None
    assert not path.exists()
    assert store.put(KEY, DATA)
    assert store.get(KEY) == DATA
    return True


def test_a_file_under_another_name_is_refused(store: Store) -> None:
    store.put(KEY, DATA)
    file_of(store).rename(file_of(store, key(1)))
    assert store.get(key(1)) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_is_not_used(store: Store, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    store.put(KEY, DATA)
    store.folder.chmod(mode)
    with caplog.at_level(logging.WARNING, "cuda_device"):
        assert store.get(KEY) is None
        assert not store.put(key(1), DATA)
    assert caplog.text.count("other users can write to it") == 1
    store.folder.chmod(0o755)
    assert store.get(KEY) == DATA


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_not_used(store: Store, mode: int) -> None:
    store.put(KEY, DATA)
    file_of(store).chmod(mode)
    assert store.get(KEY) is None


@root_only
def test_what_belongs_to_somebody_else_is_not_used(store: Store) -> None:
    store.put(KEY, DATA)
    os.chown(file_of(store), 12345, 12345)
    assert store.get(KEY) is None
    store.put(KEY, DATA)
    os.chown(store.folder, 12345, 12345)
    assert store.get(KEY) is None
    assert not store.put(key(1), DATA)


@not_for_root
def test_a_folder_that_cannot_be_written_can_be_read(store: Store) -> None:
    store.put(KEY, DATA)
    store.folder.chmod(0o500)
    assert store.get(KEY) == DATA
    assert not store.put(key(1), DATA)


def test_links_pipes_and_folders_are_no_files(store: Store, tmp_path: Path) -> None:
    store.put(KEY, DATA)
    path, other = file_of(store), tmp_path / "other.bin"
    path.rename(other)
    path.symlink_to(other)
    assert store.get(KEY) is None
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert store.get(KEY) is None
    path.unlink(missing_ok=True)
    path.mkdir()
    assert store.get(KEY) is None
    assert not store.put(KEY, DATA)
    assert other.exists()


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "cache"):
        assert not Store(folder).put(KEY, DATA)
        assert Store(folder).get(KEY) is None
        assert Store(folder).usage() == (0, 0)


CALLS = ("open", "write", "rename", "close", "unlink", "utime", "scandir", "fstat")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EMFILE, errno.ENOENT, errno.ESTALE)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_a_disk_that_fails(store: Store, call: str, error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = getattr(os, call)
    for failing in range(4):
        store.put(KEY, DATA)
        count = 0

        def fail(*args: Any, failing: int = failing, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == failing + 1:
                if call == "close":
                    genuine(*args)
                raise OSError(error, os.strerror(error))
            return genuine(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            store.put(key(1), b"other" * 100)
            count = 0
            assert store.get(KEY) in (DATA, None)
        assert store.get(key(1)) in (b"other" * 100, None)
        assert store.put(KEY, DATA)
        assert store.get(KEY) == DATA


def test_a_disk_that_takes_a_part_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = os.write
    monkeypatch.setattr(os, "write", lambda file, data: genuine(file, bytes(data[:7])))
    assert store.put(KEY, DATA)
    assert store.get(KEY) == DATA


def test_an_interrupt_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(key(1), DATA)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.put(KEY, DATA)
    assert os.listdir(store.folder) == [file_of(store, key(1)).name]


def test_what_was_not_read_for_longest_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", most_bytes=10_000)
    for number in range(8):
        store.put(key(number), bytes(1000))
        os.utime(file_of(store, key(number)), (number, number))
    assert store.get(key(0)) == bytes(1000)  # which makes it the newest
    store.put(key(8), bytes(1900))
    kept = [number for number in range(9) if file_of(store, key(number)).exists()]
    assert kept == [0, 4, 5, 6, 7, 8]
    assert store.usage()[1] <= 10_000
    for number in range(1000):
        store.put(key(number), bytes(900))
    assert 3 <= store.usage()[0] <= 10
    assert not store.put(key(1), bytes(10_000))


def test_only_its_own_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    (tmp_path / "abc.bin").write_bytes(bytes(1 << 16))
    tmp_path.chmod(0o700)
    store = Store(tmp_path, most_bytes=5000)
    for number in range(20):
        store.put(key(number), bytes(1000))
    assert (tmp_path / "letter.txt").exists()
    assert (tmp_path / "abc.bin").exists()


def test_what_a_killed_process_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", most_bytes=5000)
    store.put(KEY, DATA)
    names = [f"{KEY.hex()}.{number:016x}.tmp" for number in (1, 2)]
    for name in names:
        (store.folder / name).write_bytes(b"half")
    os.utime(store.folder / names[0], (time.time() - 4000,) * 2)
    store.put(key(1), DATA)
    assert [(store.folder / name).exists() for name in names] == [False, True]


WORKER = """
import sys, hashlib, random
from pathlib import Path
from cuda_device.cache.disk import Store
store, chance = Store(Path(sys.argv[1]), most_bytes=200_000), random.Random(int(sys.argv[2]))
print("ready", flush=True)
while True:
    number = chance.randrange(60)
    key = hashlib.sha256(b"%d" % number).digest()
    data = b"%d," % number * 3000
    found = store.get(key)
    if found not in (None, data):
        print("WRONG", number, flush=True)
        break
    if found is None and not store.put(key, data):
        print("LOST", number, flush=True)
        break
"""


def test_processes_that_are_killed_and_others_that_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    chance = random.Random(5)
    command = [sys.executable, "-c", WORKER, str(folder)]
    root = Path(__file__).parents[2]

    def start(number: int) -> subprocess.Popen[str]:
        return subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True, cwd=root)

    workers = [start(number) for number in range(4)]
    for number in range(4, 12):
        time.sleep(0.1 + 0.2 * chance.random())
        victim = workers.pop(0)
        victim.kill()
        assert victim.communicate()[0] in ("", "ready\n")
        workers.append(start(number))
    time.sleep(0.3)
    for worker in workers:
        assert worker.poll() is None
        worker.kill()
        assert worker.communicate()[0] in ("", "ready\n")
    store = Store(folder, most_bytes=200_000)
    for number in range(60):
        assert store.get(key(number)) in (None, b"%d," % number * 3000)


def test_the_form_of_a_file(store: Store) -> None:
    store.put(KEY, DATA)
    body = KEY + DATA
    assert file_of(store).read_bytes() == MAGIC + hashlib.sha256(body).digest() + body


def test_pieces_are_made_once_and_again_where_they_do_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path / "cache"))
    made = iter((b"first", b"second"))
    assert loaded("a", lambda: next(made), bytes.decode) == "first"
    assert loaded("a", lambda: next(made), bytes.decode) == "first"
    refused = [ValueError("damaged")]

    def load(data: bytes) -> str:
        if refused:
            raise refused.pop()
        return data.decode()

    assert loaded("a", lambda: next(made), load) == "second"
    assert loaded("a", lambda: next(made), bytes.decode) == "second"


def test_a_folder_of_nobody_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "~nobody_of_this_name/cache")
    assert device.cache_info().folder is None
