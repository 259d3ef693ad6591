"""`CUDA_DEVICE_DUMP` writes every stage, and the same program gives the same bytes in every process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_helpers import job, stage, written
from ir_programs import PROGRAMS, block_sum, fibonacci, saxpy
from processes import python

import cuda_device as device
from cuda_device import ArrayType, compiler

F32 = ArrayType(device.float32, 1)
ARGUMENTS = (device.float32, F32, F32, F32)
TESTS = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where stages are dumped; it does not exist yet."""
    path = tmp_path / "dumps" / "of kernels"
    monkeypatch.setenv("CUDA_DEVICE_DUMP", str(path))
    return path


def stages(folder: Path) -> dict[str, Path]:
    """The files by stage, in the order of their numbers."""
    found = {}
    for path in sorted(folder.iterdir()):
        _, _, stage, suffix = path.name.rsplit(".", 3)
        found[f"{stage}.{suffix}"] = path
    return found


def test_every_stage_for_a_gpu(folder: Path) -> None:
    work = compiler.run(job(saxpy, *ARGUMENTS))
    found = stages(folder)
    assert list(found) == ["python.ir", "typed.ir", "device.ir", "llvm.ll", "optimised.ll", "ptx.ptx", "cubin.cubin"]
    assert [f"{stage.name}.{stage.suffix}" for stage in compiler.GPU] == list(found)
    assert found["ptx.ptx"].read_text() == work["ptx"]
    assert found["cubin.cubin"].read_bytes() == work["cubin"].code
    assert found["cubin.cubin"].read_bytes().startswith(b"\x7fELF")
    assert "define ptx_kernel void @saxpy" in found["llvm.ll"].read_text()
    assert "target triple" in found["optimised.ll"].read_text()
    assert all(path.name.startswith("saxpy-") for path in found.values())


@pytest.mark.needs("cpu")
def test_every_stage_for_the_cpu(folder: Path) -> None:
    work = compiler.run(job(block_sum, F32, F32, on_cpu=True))
    found = stages(folder)
    assert list(found) == ["python.ir", "typed.ir", "device.ir", "inlined.ir", "llvm.ll", "native.s"]
    assert [f"{stage.name}.{stage.suffix}" for stage in compiler.stages_of(work.job)] == list(found)
    assert ".text" in found["native.s"].read_text()
    assert "switch i32 %place" in found["llvm.ll"].read_text()


def test_a_launch_dumps_too(folder: Path) -> None:
    x = np.zeros(4, np.float32)

    @device.kernel
    def dumped_by_launch(x):
        x[device.tid(1)] = 3

    device.launch(dumped_by_launch, x, grid=1, block=4, stream=device.cpu_stream())
    assert "native.s" in stages(folder)
    device.launch(dumped_by_launch, x, grid=1, block=4, stream=device.cpu_stream())
    assert len(list(folder.iterdir())) == len(stages(folder)) == 6


def test_dumped_ir_can_be_read_back(folder: Path) -> None:
    compiler.run(job(block_sum, F32, F32))
    for name, path in stages(folder).items():
        if name.endswith(".ir"):
            text = path.read_text()
            assert written(text) == text


def test_stages_before_a_mistake_are_there(folder: Path) -> None:
    @device.kernel
    def broken(x):
        x[0] = not_there  # noqa: F821

    with pytest.raises(device.CompileError):
        compiler.run(job(broken, F32))
    assert list(stages(folder)) == ["python.ir"]


def test_each_variant_has_files_of_its_own(folder: Path) -> None:
    for types in (ARGUMENTS, (*ARGUMENTS[:3], ArrayType(device.float64, 1))):
        for target in ("sm_80", "sm_90"):
            stage("python", saxpy, *types, target=target)
    stage("python", saxpy, *ARGUMENTS, contract=False)
    assert len(list(folder.iterdir())) == 5


def test_nothing_is_written_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_DEVICE_DUMP", raising=False)
    monkeypatch.chdir(tmp_path)
    compiler.run(job(saxpy, *ARGUMENTS))
    monkeypatch.setenv("CUDA_DEVICE_DUMP", "")
    compiler.run(job(saxpy, *ARGUMENTS))
    assert not list(tmp_path.iterdir())


def test_a_compilation_stops_where_it_is_told_to() -> None:
    work = compiler.run(job(saxpy, *ARGUMENTS), "device")
    assert list(work.artifacts) == list(work.seconds) == ["python", "typed", "device"]
    assert all(seconds >= 0 for seconds in work.seconds.values())


def test_the_symbol_is_the_kernel_s_name() -> None:
    work = compiler.run(job(saxpy, *ARGUMENTS), "ptx")
    assert work.outline.symbol == "saxpy"
    assert f".entry {work.outline.symbol}(" in work["ptx"]


def test_loops_are_those_that_may_run_for_long() -> None:
    assert compiler.run(job(block_sum, F32, F32), "device").outline.may_run_long
    assert not compiler.run(job(saxpy, *ARGUMENTS), "device").outline.may_run_long

    @device.kernel
    def recursive(x):
        x[0] = fibonacci(x[0])

    assert compiler.run(job(recursive, F32), "device").outline.may_run_long


def test_places_are_where_threads_wait() -> None:
    work = compiler.run(job(block_sum, F32, F32), "device")
    (place,) = work.outline.waits.values()
    source = block_sum.underlying.__code__.co_filename
    assert place.location.file == source
    assert "device.syncthreads()" in Path(source).read_text().splitlines()[place.location.line - 1]


# Determinism

SCRIPT = """
import hashlib, importlib.util, json, os, sys
sys.path.insert(0, sys.argv[1])
if sys.argv[2].endswith("after others"):  # what was compiled before must not matter
    import cuda_device as device
    device.compile(device.func(lambda x: x + 1), device.float32, output="cubin")
from ir_helpers import job
from ir_programs import IDS, PROGRAMS
from cuda_device import Kernel, compiler

found = {}
order = list(zip(IDS, PROGRAMS))
for name, (program, types) in order if sys.argv[2] == "forwards" else order[::-1]:
    for on_cpu in (False, True):
        if on_cpu and (not isinstance(program, Kernel) or importlib.util.find_spec("cuda_device.cpu") is None):
            continue
        work = compiler.run(job(program, *types, on_cpu=on_cpu))
        for stage in compiler.stages_of(work.job):
            shown = stage.show(work[stage.name])
            shown = shown if isinstance(shown, bytes) else shown.encode()
            found[f"{name} {'cpu' if on_cpu else 'gpu'} {stage.name}"] = hashlib.sha256(shown).hexdigest()
print(json.dumps(found))
"""


def digests_of_two_processes() -> list[dict[str, str]]:
    """The hash of every stage of every program."""
    runs = []
    for seed, order in (("0", "forwards"), ("random", "backwards after others")):
        environment: dict[str, Any] = {
            **os.environ,
            "CUDA_DEVICE_CACHE": "0",
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(TESTS.parent),
        }
        command = [sys.executable, "-c", SCRIPT, str(TESTS), order]
        runs.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [run.communicate(timeout=200)[0] for run in runs]
    assert all(run.returncode == 0 for run in runs)
    return [json.loads(output) for output in outputs]


HAS_CPU = importlib.util.find_spec("cuda_device.cpu") is not None
STAGES = ["python", "typed", "device", "llvm", "optimised", "ptx", "cubin", *["inlined", "native"] * HAS_CPU]


def test_the_same_program_gives_the_same_bytes_in_every_process() -> None:
    first, second = digests_of_two_processes()
    for name in STAGES:
        assert sum(key.endswith(f" {name}") for key in first) >= len(PROGRAMS) - 1
    assert second == first


def test_the_same_program_gives_the_same_bytes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "0")
    a, b = (compiler.run(job(block_sum, F32, F32)) for _ in range(2))
    for each in compiler.GPU:
        assert each.show(a[each.name]) == each.show(b[each.name])


def test_programs_with_the_same_text_are_one_dump(folder: Path) -> None:
    """The name of a file does not tell in which process it was written."""
    compiler.run(job(saxpy, *ARGUMENTS), "python")
    (first,) = folder.iterdir()
    use = "import test_dump as t; t.compiler.run(t.job(t.saxpy, *t.ARGUMENTS), 'python')"
    python("-c", use, PYTHONHASHSEED=7)
    assert list(folder.iterdir()) == [first]
