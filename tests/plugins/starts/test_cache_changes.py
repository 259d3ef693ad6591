"""A kernel's machine code comes from the cache only if nothing that it depends on has changed."""

from __future__ import annotations

import errno
import os
import random
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import changed_objects
import changed_programs
import numpy as np
import pytest
from changed_programs import HEAD, Change, body
from conftest import thinned
from ir_helpers import job
from processes import ROOT, python

import cuda_device as device
from cuda_device.cache.disk import Store, key_of
from cuda_device.cache.entries import Kept
from cuda_device.codegen.gpu import cubin
from cuda_device.instrument.outline import Outline, ProgramSummary

machine_code = pytest.importorskip("cuda_device.cpu.machine_code")
POISON = -7.0
CHANGES = (*changed_programs.CHANGES, *changed_objects.CHANGES)
# What comes as an argument is not in the machine code.
SAME_CODE = ("the kernel's default",)
# What has no fingerprint is compiled as far as LLVM IR.
INDIRECT = re.compile(
    r".*\b(enum|named tuple|partial)\b|a flag|.*property of|an object|a class with a metaclass|what is got|which \w+ is got"
    r"|which method is called|a method of an? (string|array)|a set$|the types of a check|the object of"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(folder))
    monkeypatch.delenv("CUDA_DEVICE_VERIFY", raising=False)  # which would look again at what is known
    return folder


def program(text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of a program that was run from its text, as in a new process: all its objects are new."""
    other, _, main = text.rpartition("-----\n")
    module = types.ModuleType("other")
    monkeypatch.setitem(sys.modules, "other", module)
    exec(compile(HEAD + other, "other.py", "exec", dont_inherit=True), module.__dict__)
    names = types.ModuleType("program").__dict__
    exec(compile(HEAD + main, "program.py", "exec", dont_inherit=True), names)
    return names


def results(kernel: device.Kernel, dtype: Any = np.float64, target: str = "sm_90") -> list[float]:
    out = np.full(4, POISON, dtype)
    device.launch(kernel, out, grid=1, block=4, stream=device.cpu_stream(target=target))
    return [float(x) for x in out]


def hits(before: device.CacheInfo) -> tuple[int, int]:
    now = device.cache_info()
    return now.hits - before.hits, now.misses - before.misses


def test_there_are_many_kinds() -> None:
    assert len({change.name for change in CHANGES}) == len(CHANGES) >= 140


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_what_has_changed_is_compiled_anew(change: Change, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = change.old, change.new
    start = device.cache_info()
    assert results(program(old, monkeypatch)["k"]) == change.before
    assert hits(start) == (0, 1)
    start = device.cache_info()
    assert results(program(new, monkeypatch)["k"]) == change.after
    assert hits(start) == (0, 1) or change.name in SAME_CODE
    start = device.cache_info()
    assert results(program(old, monkeypatch)["k"]) == change.before
    assert results(program(new, monkeypatch)["k"]) == change.after
    assert hits(start) == (2, 0)
    assert device.cache_info().direct - start.direct == 2 * (not INDIRECT.match(change.name))


SUM = "@kernel\ndef k(out, a, b):\n    i = tid(1)\n    out[i] = a[i] + b\n"
F64 = device.ArrayType(device.float64, 1)
FOUR = np.arange(4.0)
ARGUMENTS = {
    "floats": (np.float64, FOUR, 1.5, [1.5, 2.5, 3.5, 4.5]),
    "float32": (np.float32, FOUR.astype(np.float32), 1.5, [1.5, 2.5, 3.5, 4.5]),
    "another result": (np.int32, FOUR, 1.5, [1, 2, 3, 4]),
    "an int": (np.float64, FOUR, 1, [1, 2, 3, 4]),
    "int8 wraps": (np.float64, np.array([0, 1, 2, 127], np.int8), np.int8(1), [1, 2, 3, -128]),
    "uint8 does not": (np.float64, np.array([0, 1, 2, 127], np.uint8), np.uint8(1), [1, 2, 3, 128]),
    "strided": (np.float64, np.arange(8.0)[::2], 1.0, [1, 3, 5, 7]),
    "backwards": (np.float64, FOUR[::-1], 1.0, [4, 3, 2, 1]),
}


def test_arguments_of_other_types_are_other_code(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = device.cache_info()
    for _ in range(2):
        for dtype, a, b, expected in ARGUMENTS.values():
            kernel = program(SUM, monkeypatch)["k"]
            out = np.full(4, POISON, dtype)
            device.launch(kernel, out, a, b, grid=1, block=4, stream=device.cpu_stream())
            assert out.tolist() == expected
    # All are different but for "backwards", which has the code of "strided".
    assert hits(start) == (9, 7)


def test_targets_and_options_are_other_code(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = body("out[i] = out[i] * 3 + 1")
    codes = {}
    for _ in range(2):
        for target in ("sm_80", "sm_90", "sm_90a"):
            for options in ({}, {"level": 0}, {"contract": False}, {"level": 1, "contract": False}):
                found = device.compile(program(text, monkeypatch)["k"], F64, target=target, **options).code
                assert codes.setdefault((target, *options.items()), found) == found
    for target in ("sm_80", "sm_90"):
        plain, slow, rounded = (codes[target, *options] for options in ((), (("level", 0),), (("contract", False),)))
        assert len({plain, slow, rounded}) == 3
    assert codes[("sm_80",)] != codes[("sm_90",)]


def test_the_form_of_a_function_for_other_languages_is_other_code(cache: Path) -> None:
    @device.func(interop=True)
    def total(a: device.float64, b: device.float64) -> device.float64:
        return a + b

    plain, by_address = (device.compile(total, by_address=by_address).code for by_address in (False, True))
    assert plain != by_address
    assert device.compile(total, by_address=True).code == by_address


PARENT = """
import numpy as np, cuda_device as device
from child import f
@device.kernel
def k(out):
    i = device.tid(1)
    out[i] = f(i)
out = np.full(4, -7.0)
device.launch(k, out, grid=1, block=4, stream=device.cpu_stream())
info = device.cache_info()
print(*out, info.hits, info.direct, info.misses)
"""


def run(folder: Path, *command: str, **environment: str) -> str:
    return python(*command, cwd=folder, **{"CUDA_DEVICE_CACHE": str(folder / "cache"), **environment}).stdout.strip()


def test_processes_see_a_changed_file_and_share_the_rest_whatever_their_seeds(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    child = tmp_path / "child.py"
    for seed, text, expected in (
        ("1", "def f(v): return v + 1", "1.0 2.0 3.0 4.0 0 0 1"),
        ("2", "def f(v): return v + 1", "1.0 2.0 3.0 4.0 1 1 0"),
        ("3", "def f(v): return v + 12", "12.0 13.0 14.0 15.0 0 0 1"),
        ("1", "def f(v): return v + 12", "12.0 13.0 14.0 15.0 1 1 0"),
        ("random", "def f(v): return v + 1   # again", "1.0 2.0 3.0 4.0 1 1 0"),
    ):
        child.write_text(text)
        assert run(tmp_path, "parent.py", PYTHONHASHSEED=seed) == expected
    assert run(tmp_path, "parent.py", CUDA_DEVICE_CACHE="0").endswith(" 0 0 0")


COMPILE = """
import sys, hashlib, cuda_device as device
@device.kernel
def k(a, x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = math.sin(a) * x[i] + y[i]
import math
F32 = device.ArrayType(device.float32, 1)
code = device.compile(k, float, F32, F32).code
print(hashlib.sha256(code).hexdigest(), device.cache_info().hits, "cuda_device.codegen.llvm" in sys.modules)
"""


def test_known_machine_code_of_a_gpu_needs_no_llvm(tmp_path: Path) -> None:
    first = run(tmp_path, "-c", COMPILE).split()
    second = run(tmp_path, "-c", COMPILE).split()
    assert first[1:] == ["0", "True"]
    assert second == [first[0], "1", "False"]


def test_processes_that_start_at_once(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "child.py").write_text("def f(v): return v + 1")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_DEVICE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "parent.py"]
    started = [
        subprocess.Popen(command, env=variables, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in started:
        assert process.communicate()[0].startswith("1.0 2.0 3.0 4.0")
        assert process.returncode == 0
    assert run(tmp_path, "parent.py") == "1.0 2.0 3.0 4.0 1 1 0"
    assert not list((tmp_path / "cache").glob("*.tmp"))


FORGED = {
    "nothing": lambda data, chance: b"",
    "half of it": lambda data, chance: data[: len(data) // 2],
    "a head": lambda data, chance: data[:64],
    "anything": lambda data, chance: chance.randbytes(300),
    "the head of an object file": lambda data, chance: b"\x7fELF\2\1\1" + chance.randbytes(300),
    "a value of Python": lambda data, chance: b"[1, (2, 'three'), {}]",
    "a number": lambda data, chance: b"7",
    "no text": lambda data, chance: b"\xff\xfe",
    "deep": lambda data, chance: b"(" * 5000,
    "a line more": lambda data, chance: data + b"\n\0more",
}


@pytest.mark.parametrize("form, which", thinned(FORGED, range(8), one_in=8))
def test_what_was_forged_is_made_again(form: str, which: int, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content was changed together with its checksum. No launch fails for it."""
    text = body("out[i] = math.erf(out[i] * 0) + (i << 1) // 2")
    assert results(program(text, monkeypatch)["k"]) == [0, 1, 2, 3]
    chance = random.Random(which)
    for path in sorted(cache.iterdir()):
        store, key = Store(cache), bytes.fromhex(path.stem)
        data = store.get(key)
        assert data is not None
        if chance.randrange(2) or which == 0:
            store.put(key, FORGED[form](data, chance))
    machine_code._support.cache_clear()
    assert results(program(text, monkeypatch)["k"]) == [0, 1, 2, 3]
    assert results(program(text, monkeypatch)["k"]) == [0, 1, 2, 3]


def test_code_that_cannot_be_linked_is_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = body("out[i] = i * 2 + 3")
    results(program(text, monkeypatch)["k"])
    calls = []

    def refuse(*args: Any) -> Any:
        calls.append(args)
        raise RuntimeError("the linker says no")

    start = device.cache_info()
    kept = machine_code.KEPT
    monkeypatch.setattr(machine_code, "KEPT", Kept(kept.key, kept.pack, refuse))
    assert results(program(text, monkeypatch)["k"]) == [3, 5, 7, 9]
    assert len(calls) == 1
    assert hits(start) == (0, 1)
    monkeypatch.setattr(machine_code, "KEPT", kept)
    assert results(program(text, monkeypatch)["k"]) == [3, 5, 7, 9]
    assert hits(start) == (1, 1)


@pytest.mark.parametrize("call", ["open", "write", "rename", "mkdir"])
def test_a_full_disk_loses_no_launch(call: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    assert results(program(body("out[i] = i + 9"), monkeypatch)["k"]) == [9, 10, 11, 12]


def test_a_report_names_the_line_of_today(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = body("assert i < 2, 'too large'\nout[i] = 1")
    moved = "\n\n\n" + text.replace("too large", "too long")
    first = None
    for source in (text, moved, text):
        with pytest.raises(device.KernelError) as caught:
            results(program(source, monkeypatch)["k"])
        line = (HEAD + source).split("\n").index(next(x for x in source.split("\n") if "assert" in x)) + 1
        assert f"program.py:{line}" in str(caught.value)
        assert ("too long" if source is moved else "too large") in str(caught.value)
        first = first or device.cache_info()
    assert hits(first) == (2, 0)


def test_the_environment_moves_the_cache_and_turns_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = body("out[i] = 1")
    for name in ("one", "two"):
        monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path / name))
        results(program(text, monkeypatch)["k"])
        assert device.cache_info().folder == tmp_path / name
        assert device.cache_info().entries >= 1
        assert device.cache_info().nbytes > 1000
    for off in ("0", ""):
        monkeypatch.setenv("CUDA_DEVICE_CACHE", off)
        start = device.cache_info()
        assert start.folder is None
        results(program(text, monkeypatch)["k"])
        assert hits(start) == (0, 0)
    monkeypatch.delenv("CUDA_DEVICE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert device.cache_info().folder == tmp_path / "cuda_device"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert device.cache_info().folder == tmp_path / ".cache" / "cuda_device"


def test_timings_tell_a_hit(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [program(body("out[i] = 1"), monkeypatch)["k"] for _ in range(2)]
    for kernel in kernels:
        results(kernel)
    assert ["native" in kernel.timings() for kernel in kernels] == [True, False]
    assert ["cache" in kernel.timings() for kernel in kernels] == [False, True]


def test_other_tools_are_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key_of("text")]
    for name in ("package", "llvm"):
        with monkeypatch.context() as patch:
            patch.setattr(f"cuda_device.cache.disk.{name}", lambda: "another")
            keys.append(key_of("text"))
    keys += [key_of("te", "xt"), key_of("text", ""), key_of()]
    assert len(set(keys)) == len(keys)
    outline = Outline("k", frozenset(), False, False, False, False, {}, {}, {})
    llvm = ProgramSummary(outline, (), "text", frozenset(), 0)
    sm90, sm80 = (job(lambda: None, target=target).target.architecture for target in ("sm_90", "sm_80"))
    parts = [cubin.KEPT.key(llvm, sm90, "o"), cubin.KEPT.key(llvm, sm80, "o"), cubin.KEPT.key(llvm, sm90, "p")]
    parts.append(cubin.KEPT.key(ProgramSummary(outline, (), "text more", frozenset(), 0), sm90, "o"))
    parts.append(cubin.KEPT.key(ProgramSummary(outline, (), "text", frozenset(["__nv_sinf"]), 0), sm90, "o"))
    monkeypatch.setattr("cuda_device.codegen.gpu.libdevice.content_hash", lambda: "another")
    parts.append(cubin.KEPT.key(ProgramSummary(outline, (), "text", frozenset(["__nv_sinf"]), 0), sm90, "o"))
    monkeypatch.setattr("cuda_device.codegen.gpu.cubin.identity", lambda _: "another 2")
    parts.append(cubin.KEPT.key(llvm, sm90, "o"))
    native_parts = machine_code.KEPT.key(llvm, sm90, "o")
    monkeypatch.setattr("cuda_device.cpu.machine_code.identity", lambda: "another")
    parts += [native_parts, machine_code.KEPT.key(llvm, sm90, "o")]
    assert len(set(parts)) == len(parts)
