"""What the cache knows of programs: a kernel that was compiled before is launched without its compiler, and nothing stale is."""

from __future__ import annotations

import random
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver, Result, installed
from processes import python

import cuda_device as device
from cuda_device import compiler
from cuda_device.cache import disk
from cuda_device.errors import CompilerBug, Location, Loss
from cuda_device.infer.dependencies import PASSING, Dependency
from cuda_device.instrument.outline import Outline, Print, ProgramSummary, ReportPlace, packed, unpacked
from cuda_device.plugins.starts import programs

POISON = -7.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CUDA_DEVICE_VERIFY", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with installed() as gpu:
        yield gpu


def names(text: str) -> dict[str, Any]:
    """The names of a program that was run from its text, as in a new process: all its objects are new."""
    made = types.ModuleType("program").__dict__
    exec(compile(f"import cuda_device as device\n{text}", "program.py", "exec", dont_inherit=True), made)
    return made


def launched(kernel: device.Kernel) -> list[float]:
    out = np.full(4, POISON)
    device.launch(kernel, out, grid=1, block=4, stream=device.cpu_stream())
    return [float(x) for x in out]


def counted(before: device.CacheInfo) -> tuple[int, int, int]:
    """Hits, those of them for which nothing was compiled, misses."""
    now = device.cache_info()
    return now.hits - before.hits, now.direct - before.direct, now.misses - before.misses


KERNEL = """
N = 3
@device.kernel
def k(out):
    i = device.tid(1)
    out[i] = i + N
"""


def test_cold_warm_moved_changed(folder: Path) -> None:
    story = [
        (KERNEL, 3, (0, 0, 1)),
        (KERNEL, 3, (1, 1, 0)),
        ("\n" + KERNEL, 3, (1, 0, 0)),  # on another line: a report would name it
        ("\n" + KERNEL, 3, (1, 1, 0)),
        (KERNEL.replace("3", "4"), 4, (0, 0, 1)),
        (KERNEL, 3, (1, 1, 0)),
        (KERNEL.replace("3", "4"), 4, (1, 1, 0)),
    ]
    for text, n, expected in story:
        before = device.cache_info()
        assert launched(names(text)["k"]) == [n, n + 1, n + 2, n + 3]
        assert counted(before) == expected


def test_names_are_still_watched_after_a_kernel_was_found(folder: Path) -> None:
    launched(names(KERNEL)["k"])
    found = names(KERNEL)
    before = device.cache_info()
    assert launched(found["k"]) == [3, 4, 5, 6]
    found["N"] = 10
    assert launched(found["k"]) == [10, 11, 12, 13]
    found["N"] = 3
    assert launched(found["k"]) == [3, 4, 5, 6]
    assert counted(before) == (2, 2, 1)


REPORTING = """
@device.kernel
def k(out):
    i = device.tid(1)
    assert i < 2, f"{i} is too large"
    out[i] = 1
"""
PRINTING = """
@device.kernel
def k(out):
    i = device.tid(1)
    print("thread", i, i < 2, i * 0.5)
    out[i] = 1
"""


def test_reports_and_prints_of_a_kernel_that_was_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = device.cache_info()
    texts = []
    for _ in range(2):
        with pytest.raises(device.KernelError, match=r"[23] is too large\n  at program.py:6:"):
            launched(names(REPORTING)["k"])
        launched(names(PRINTING)["k"])
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == "".join(f"thread {i} {i < 2} {i * 0.5}\n" for i in range(4))
    assert counted(before) == (2, 2, 2)


def test_a_deadlock_is_placed(folder: Path) -> None:
    text = KERNEL.replace("    out", "    if i < 2:\n        device.syncthreads()\n    out")
    checked = text.replace("@device.kernel", "@device.kernel(checked=True)")
    before = device.cache_info()
    for _ in range(2):
        with pytest.raises(device.KernelError, match=r"program.py:8:"):
            launched(names(checked)["k"])
    assert counted(before) == (1, 1, 1)


def run(folder: Path, program: str, **environment: str) -> str:
    return python("-c", program, CUDA_DEVICE_CACHE=folder, CUDA_DEVICE_VERIFY="", **environment).stdout.strip()


LIGHT = """
import sys
before = set(sys.modules)  # an editable installation loads pathlib when Python starts
import numpy as np, cuda_device as device
from fake_driver import installed
@device.kernel
def k(a, x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = a * x[i] + y[i]
with installed() as gpu:
    stream = device.default_stream()
    x, y = (device.zeros(8, device.float32, stream=stream) for _ in range(2))
    device.launch(k, 2.0, x, y, grid=1, block=8, stream=stream)
    assert len(gpu.launched) == 1
heavy = '''cuda_device.codegen.llvm pathlib shutil cuda_device.infer.engine
    cuda_device.codegen.emit.to_llvm cuda_device.bytecode.decode ml_dtypes'''
loaded = [name for name in heavy.split() if name in sys.modules and name not in before]
info = device.cache_info()
print(info.hits, info.direct, info.misses, *loaded)
"""


def test_a_kernel_that_is_found_needs_neither_the_compiler_nor_llvm(folder: Path) -> None:
    assert run(folder, LIGHT).startswith("0 0 1 cuda_device.codegen.llvm")
    assert run(folder, LIGHT) == "1 1 0"


HASH = """
import numpy as np, cuda_device as device
@device.kernel
def k(out):
    out[0] = hash("a") & 0xFFFF
out = np.full(1, -7)
device.launch(k, out, grid=1, block=1, stream=device.cpu_stream())
print(out[0] == hash("a") & 0xFFFF, device.cache_info().direct)
"""


LIGHT_ON_CPU = """
import sys, numpy as np, cuda_device as device
@device.kernel
def k(out):
    i = device.tid(1)
    device.syncthreads()
    out[i] = math.sin(out[i])
import math
out = np.ones(4)
device.launch(k, out, grid=1, block=4, stream=device.cpu_stream())
assert np.allclose(out, np.sin(1))
info = device.cache_info()
print(info.hits, info.direct, info.misses, "cuda_device.infer.engine" in sys.modules, "llvmlite" in sys.modules)
"""


def test_a_kernel_of_the_cpu_that_is_found_is_only_linked(folder: Path) -> None:
    assert run(folder, LIGHT_ON_CPU) == "0 0 1 True False"
    assert run(folder, LIGHT_ON_CPU) == "1 1 0 False False"


def test_what_is_another_in_each_process_is_not_kept(folder: Path) -> None:
    for seed in ("1", "2", "1"):
        assert run(folder, HASH, PYTHONHASHSEED=seed) == "True 0"


ADDRESS = """
def f(): pass
@device.kernel
def k(out):
    out[device.tid(1)] = len(repr(f)) > 1
"""


def test_texts_with_addresses_are_not_kept(folder: Path) -> None:
    before = device.cache_info()
    for _ in range(2):
        assert launched(names(ADDRESS)["k"]) == [1, 1, 1, 1]
    assert counted(before) == (1, 0, 1)


@pytest.mark.parametrize(
    ("what", "version"),
    [
        ("sys.version", "another"),
        ("numpy.__version__", "another"),
        ("cuda_device.cache.disk.ml_dtypes", lambda: ("folder", "another")),
    ],
)
def test_other_versions_are_other_programs(
    what: str, version: object, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(names(KERNEL)["k"])
    before = device.cache_info()
    monkeypatch.setattr(what, version)
    launched(names(KERNEL)["k"])
    assert counted(before) == (1, 0, 0)


def test_other_sources_of_ours_are_other_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(names(KERNEL)["k"])
    before = device.cache_info()
    monkeypatch.setattr(disk, "package", lambda: "another")
    launched(names(KERNEL)["k"])
    assert counted(before) == (0, 0, 1)


def test_verifying_finds_what_is_wrong(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(names(KERNEL)["k"])
    genuine = compiler.unpacked

    def wrong(data: bytes) -> ProgramSummary:
        program = genuine(data)
        return ProgramSummary(
            program.outline, program.losses, program.digest, program.library, program.shared_bytes + 1
        )

    monkeypatch.setenv("CUDA_DEVICE_VERIFY", "1")
    launched(names(KERNEL)["k"])
    monkeypatch.setattr(compiler, "unpacked", wrong)
    with pytest.raises(CompilerBug, match="differs from what the compiler generates"):
        launched(names(KERNEL)["k"])


def test_a_record_that_cannot_be_read_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(names(KERNEL)["k"])
    before = device.cache_info()
    monkeypatch.setattr(compiler, "unpacked", lambda data: data[len(data)])
    launched(names(KERNEL)["k"])
    assert counted(before) == (1, 0, 0)


@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetAttribute"])
def test_code_that_the_driver_refuses_is_made_again(
    call: str, folder: Path, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or code without the kernel, as of an entry of the cache that was forged."""
    genuine, refused = getattr(fake, call), []
    stream = device.GpuStream(7, 0)

    def once() -> None:
        x = device.zeros(4, stream=stream)
        device.launch(names(KERNEL)["k"], x, grid=1, block=4, stream=stream)

    def refuse(*arguments: Any) -> Any:
        if not refused:
            refused.append(arguments)
            return (Result.CUDA_ERROR_INVALID_VALUE, 0)
        return genuine(*arguments)

    once()
    before = device.cache_info()
    monkeypatch.setattr(fake, call, refuse)
    once()
    assert refused
    assert len(fake.launched) == 2
    assert counted(before)[::2] == (0, 1)  # a hit that was of no use is a miss
    before = device.cache_info()
    once()
    assert len(fake.launched) == 3
    assert counted(before) == (1, 1, 0)


def test_code_that_the_driver_refuses_twice_is_an_error(folder: Path, fake: FakeDriver) -> None:
    stream = device.GpuStream(7, 0)
    x = device.zeros(4, stream=stream)
    device.launch(names(KERNEL)["k"], x, grid=1, block=4, stream=stream)
    fake.failing["cuLibraryLoadData"] = Result.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(device.LaunchError, match="loading device code"):
        device.launch(names(KERNEL)["k"], x, grid=1, block=4, stream=stream)


# The files


def function(x: int) -> int:
    return x


NAMESPACE: dict[str, object] = {}
HERE = Location("/some/where.py", 3, 4, 5, 6, "f", 7)
PROGRAM = ProgramSummary(
    Outline(
        "k",
        frozenset({0, 2}),
        True,
        True,
        True,
        True,
        {1: ReportPlace(HERE, "a barrier in phase {0}")},
        {2: ReportPlace(HERE, "{0} < \u20ac", "help\n", True)},
        {3: Print("%d %s", ("q", ("a", "b")))},
    ),
    (Loss(HERE, "an int", "convert it"),),
    "text",
    frozenset({"__nv_sinf"}),
    16,
)
NOTHING = ProgramSummary(Outline("k", frozenset(), False, False, False, False, {}, {}, {}), (), "", frozenset(), 0)


def reads(**values: object) -> list[Dependency]:
    globals().update(values)
    return [Dependency(function.__globals__, name, value) for name, value in values.items()]


def test_what_was_kept_comes_back(folder: Path) -> None:
    for program in (PROGRAM, NOTHING):
        programs.keep(programs.ask((function, 1)), reads(A=1, B=(2, "x")), packed(program))
        found = programs.find(programs.ask((function, 1)))
        assert found is not None
        assert unpacked(found[0]) == program
        assert list(found[1]) == reads(A=1, B=(2, "x"))
    assert programs.find(programs.ask((function, 2))) is None
    reads(A=1.0)
    assert programs.find(programs.ask((function, 1))) is None
    del globals()["A"]
    assert programs.find(programs.ask((function, 1))) is None
    reads(A=1)
    assert programs.find(programs.ask((function, 1))) is not None


def test_a_function_that_reads_other_names_in_other_worlds(folder: Path) -> None:
    kept = []
    for number in range(6):
        others = {f"C{number}": number}
        programs.keep(
            programs.ask((function,)),
            reads(A=number, **others),
            str(number).encode(),
        )
        kept.append(number)
    found = []
    for number in kept:
        reads(A=number)
        answer = programs.find(programs.ask((function,)))
        found.append(answer and answer[0] == str(number).encode())
    assert found == [None, None, True, True, True, True]


def test_what_has_no_fingerprint_is_not_kept(folder: Path) -> None:
    class Mine:
        pass

    for value in (
        Mine(),
        object(),
        [Mine()],
        {"a": Mine()},
        (1, (Mine(),)),
        np.array([None]),
        {(1, 2)},
        partial(function, Mine()),
    ):
        programs.keep(programs.ask((function,)), reads(A=value), packed(PROGRAM))
        assert programs.find(programs.ask((function,))) is None, value
    # Whose namespace that is nobody knows.
    programs.keep(programs.ask((function,)), [Dependency({"A": 1}, "A", 1)], packed(PROGRAM))
    assert programs.find(programs.ask((function,))) is None
    programs.keep(programs.ask((function,)), [Dependency(PASSING, "hash", None)], packed(PROGRAM))
    assert programs.find(programs.ask((function,))) is None


def test_damage_is_noticed(folder: Path) -> None:
    question, dependencies = (function, "damage"), reads(A=1, B=2)
    chance = random.Random(11)
    programs.keep(programs.ask(question), dependencies, packed(PROGRAM))
    programs.keep(programs.ask((function, "other")), reads(A=1), packed(NOTHING))
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    lost = injected = 0
    while injected < 2000:
        for path, content in whole.items():
            damaged = bytearray(content)
            match chance.randrange(4):
                case 0:
                    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
                case 1:
                    del damaged[chance.randrange(len(damaged)) :]
                case 2:
                    damaged = bytearray(chance.choice([*whole.values()]))
                case 3 if chance.random() < 0.3:
                    path.unlink(missing_ok=True)
                    continue
            path.touch(0o600)
            path.write_bytes(damaged)
            injected += damaged != content
        found = programs.find(programs.ask(question))
        lost += found is None
        assert found is None or (found[0] == packed(PROGRAM) and list(found[1]) == dependencies)
        if found is None:
            programs.keep(programs.ask(question), dependencies, packed(PROGRAM))
            assert programs.find(programs.ask(question)) == (packed(PROGRAM), tuple(dependencies))
    assert lost > 200
