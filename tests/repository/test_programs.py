"""Whole programs: those of examples/programs, right against NumPy and SciPy on poisoned memory."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ASSEMBLED, assemble, poison, with_capability
from processes import python

import cuda_device as device

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))
programs = importlib.import_module("programs")


@pytest.fixture
def poisoned(stream, name, monkeypatch):
    """Programs get memory full of poison, and their launches wait, so that errors appear where they belong.

    The program is loaded first, with the plugins that it uses, which keep the `launch` that they import.
    """
    pytest.importorskip("scipy")
    programs.load(name)

    def empty(shape, dtype=np.float32, *, stream):
        return device.array(poison(shape, np.dtype(dtype)), stream=stream)

    plain, under_test = device.launch, stream

    def launch(kernel, *args, stream, **options):
        plain(kernel, *args, stream=stream, **options)
        device.synchronize(stream)
        if ASSEMBLED and under_test.kind == "cpu":
            assemble(kernel)

    monkeypatch.setattr(device, "empty", empty)
    monkeypatch.setattr(device, "launch", launch)
    return under_test


@pytest.mark.filterwarnings("error::cuda_device.PrecisionWarning")
@pytest.mark.parametrize("name", programs.NAMES)
def test_programs(poisoned, name):
    program = programs.load(name)
    if hasattr(program, "CLUSTER") and poisoned.emulated:
        pytest.skip("no clusters")
    if hasattr(program, "CAPABILITY"):
        with_capability(poisoned, program.CAPABILITY, "copies of boxes")
    count = 0
    for case in program.cases(np.random.default_rng(7)):
        programs.check(program, program.run(poisoned.stream, *case), program.expect(*case))
        count += 1
    assert count >= 3


@pytest.mark.parametrize(
    ("name", "case"), [("attention", 2), ("implicit_gemm", 2), ("multicast", 1), ("persistent", 1)]
)
def test_programs_without_races(name, case):
    """Programs with asynchronous copies have no races, in a case whose ring goes round."""
    program = programs.load(name)
    inputs = list(program.cases(np.random.default_rng(7)))[case]
    result = program.run(device.cpu_stream(target="sm_90a", races=True), *inputs)
    programs.check(program, result, program.expect(*inputs))


@pytest.mark.parametrize("name", programs.NAMES)
def test_a_kernel_that_does_nothing_is_noticed(name, monkeypatch):
    """The checks of each program fail where its kernels do not run."""
    pytest.importorskip("scipy")

    def empty(shape, dtype=np.float32, *, stream):
        return device.array(poison(shape, np.dtype(dtype)), stream=stream)

    monkeypatch.setattr(device, "empty", empty)
    for owner, starts in ((device, "launch"), (device, "launch_group"), (device.BoundKernel, "__call__")):
        monkeypatch.setattr(owner, starts, lambda *_, **__: None)
    program = programs.load(name)
    noticed = 0
    for case in program.cases(np.random.default_rng(7)):
        try:
            programs.check(program, program.run(device.cpu_stream(), *case), program.expect(*case))
        except (AssertionError, IndexError, ValueError):
            noticed += 1
    assert noticed


@pytest.mark.long
def test_the_programs_run_as_a_script(tmp_path):
    pytest.importorskip("scipy")
    command = ROOT / "examples" / "programs", "scan", "stencil", "--cpu"
    said = python(*command, cwd=tmp_path).stdout
    assert re.findall(r"^(\w+) .* right$", said, re.M) == ["scan", "stencil"]
    assert "no program is called nothing" in python(*command, "nothing", cwd=tmp_path, status=2).stderr
