"""The machine code of the benchmark suite's kernels, without a GPU: instructions, registers and spills as they are recorded.

`pytest --update-golden tests/codegen/test_code_quality.py` records what there is now, in
tests/golden/test_code_quality.json: first with Python 3.12, then with each other release, for which only what
differs is recorded.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import thinned

import cuda_device as device

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "test_code_quality.json"
TARGET = "sm_90"
SLACK = 0.05
FIRST = "3.12"
"""The release of Python that is recorded first, and for all others that do not differ from it."""
# And they lose no digits that nobody means to lose.
pytestmark = pytest.mark.filterwarnings("error::cuda_device.PrecisionWarning")
RELEASE = f"{sys.version_info.major}.{sys.version_info.minor}"
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]
suite, assembly, nvrtc = (importlib.import_module(name) for name in ("suite", "assembly", "nvrtc"))
ROWS = {row.name: row for row in suite.SUITE}


def assembler() -> str:
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
    try:
        major, minor = nvjitlink.version()
    except Exception as error:
        pytest.skip(f"nvJitLink cannot be used: {error}")
    return f"nvJitLink {major}.{minor}"


def measure(row) -> "assembly.Code":
    code = device.compile(row.kernel, *row.problem(0).ours, target=TARGET, launch_facts=True).code
    return assembly.measure(code, row.kernel.underlying.__name__)


def of_this_release(counts: dict) -> dict:
    """What is recorded for this release of Python: its bytecode may be another, and what becomes of a loop with it."""
    return counts.get("releases", {}).get(RELEASE, counts)


def record(counts: dict, now: dict) -> None:
    """Records what is found now: of all releases that are not recorded otherwise, or, beside those, of this one alone."""
    releases = counts.pop("releases", {})
    releases.pop(RELEASE, None)
    if RELEASE == FIRST or not counts:
        counts.update(now)
    elif any(differs(count, value, counts[count]) for count, value in now.items()):
        releases[RELEASE] = now
    if releases:
        counts["releases"] = releases


def differs(name: str, now: int, recorded: int) -> str:
    """In words, by how much a count is off; one more or less counts as the same."""
    if abs(now - recorded) <= max(1, SLACK * recorded):
        return ""
    change = "worse" if now > recorded else "better"
    return f"{name}: {now}, recorded are {recorded} ({change})"


@pytest.fixture
def nvjitlink(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ASSEMBLER", "nvJitLink")
    return assembler()


@pytest.mark.needs("random")
def test_the_code_is_as_good_as_recorded(nvjitlink, update_golden):
    recorded = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"assembler": "", "kernels": {}}
    if not update_golden and recorded["assembler"] != nvjitlink:
        pytest.skip(f"recorded with {recorded['assembler']}, here is {nvjitlink}")
    now = {name: measure(row) for name, row in ROWS.items()}
    kernels = {
        name: {"instructions": code.instructions, "registers": code.registers, "spills": code.spills}
        for name, code in now.items()
    }
    if update_golden:
        recorded["kernels"] = {name: recorded["kernels"].get(name, {}) for name in kernels}
        for name, counts in kernels.items():
            record(recorded["kernels"][name], counts)
        lines = ",\n".join(f'    "{name}": {json.dumps(counts)}' for name, counts in recorded["kernels"].items())
        GOLDEN.write_text(
            f'{{\n  "assembler": "{nvjitlink}",\n  "target": "{TARGET}",\n  "kernels": {{\n{lines}\n  }}\n}}\n'
        )
        return
    assert recorded["kernels"].keys() == kernels.keys()
    complaints = [
        f"{name}: {said}"
        for name, counts in kernels.items()
        for count, value in counts.items()
        if (said := differs(count, value, of_this_release(recorded["kernels"][name])[count]))
    ]
    assert not complaints, "\n".join([*complaints, "If this is meant: pytest --update-golden"])


def test_counts_that_differ_are_noticed():
    assert not differs("registers", 10, 11)
    assert not differs("instructions", 105, 100)
    assert "worse" in differs("instructions", 106, 100)
    assert "better" in differs("instructions", 94, 100)
    assert "worse" in differs("spills", 2, 0)


@pytest.mark.parametrize("name", ["n-body", "stream triad", "softmax"])
def test_what_is_measured(name, nvjitlink):
    """Registers that a kernel may use at most show in its code."""
    row = ROWS[name]
    free = measure(row)
    assert free.spills == 0
    assert 0 < free.registers <= 255
    few = device.compile(row.kernel, *row.problem(0).ours, target=TARGET, max_registers=free.registers + 8).code
    assert assembly.measure(few, row.kernel.underlying.__name__).registers <= free.registers + 8
    with pytest.raises(ValueError, match="no kernel"):
        assembly.measure(few, "nothing")


def test_spills_are_counted(nvjitlink):
    @device.kernel
    def kernel(x, y):
        few = device.local_array(64, device.float32)
        for i in range(64):
            few[i] = x[i]
        for i in range(64):
            y[i] = few[int(x[i])]

    array = device.ArrayType(device.float32, 1)
    assert assembly.measure(device.compile(kernel, array, array, target=TARGET).code, "kernel").spills >= 4


@pytest.mark.parametrize(("name", "flags"), thinned(ROWS, [(), ("-use_fast_math",)], one_in=2))
def test_the_peers_compile(name, flags):
    """CUDA C++ of every kernel, by NVRTC, with and without fast mathematics."""
    pytest.importorskip("cuda.bindings.nvrtc")
    row = ROWS[name]
    try:
        nvrtc.version()
    except Exception as error:
        pytest.skip(f"NVRTC cannot be used: {error}")
    code = assembly.measure(nvrtc.compile_cubin(row.cuda_source(), TARGET, *flags), row.cuda_symbol)
    assert code.instructions > 5


@pytest.mark.long
@pytest.mark.parametrize("name", ROWS)
def test_problems_fit_their_kernels(name):
    """Each kernel runs on its smallest problem; C++ gets the arrays of ours, and a number for each length."""
    row = ROWS[name]
    problem = row.problem(0)
    shape = {"grid": problem.grid, "block": problem.block, "shared": problem.shared}
    device.launch(row.kernel, *problem.ours, **shape, stream=device.cpu_stream())
    flat = [x for part in problem.ours for x in (part if isinstance(part, tuple) else (part,))]
    arrays = [x for x in flat if hasattr(x, "shape") and x.shape]
    assert [id(x) for x in problem.cuda if getattr(x, "shape", ())] == [id(x) for x in arrays]
    assert all(any(output is x for x in arrays) for output in problem.outputs)
    assert row.cuda_symbol in row.cuda_source()


@pytest.mark.parametrize("name", ["matmul float16", "tiled matmul float16", "copy, strided", "copy, gathered"])
def test_problems_are_right(name):
    """Those whose kernels the tests of the programs do not run on such data; `numpy` computes the same."""
    problem = ROWS[name].problem(0)
    poison = [np.full_like(output, 77) for output in problem.outputs]
    for output, filling in zip(problem.outputs, poison, strict=True):
        output[...] = filling
    shape = {"grid": problem.grid, "block": problem.block, "shared": problem.shared}
    device.launch(ROWS[name].kernel, *problem.ours, **shape, stream=device.cpu_stream())
    found = [output.copy() for output in problem.outputs]
    for output, filling in zip(problem.outputs, poison, strict=True):
        output[...] = filling
    problem.numpy()
    for one, other, filling in zip(found, problem.outputs, poison, strict=True):
        np.testing.assert_allclose(one, other, problem.tolerance, problem.tolerance)
        assert not np.array_equal(one, filling)
