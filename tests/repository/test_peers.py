"""The kernels of peers, held against ours where these are installed: in the simulator of numba, on the CPU device of Warp."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import python

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]
suite = importlib.import_module("suite")
ROWS = {row.name: row for row in suite.SUITE}
PROGRAM = """
import json, sys
import numpy as np
sys.path[:0] = [{benchmarks!r}]
{imports}
import suite
import cuda_device as device
right = {{}}
for row in suite.SUITE:
    if row.name not in {table} or row.name in {beyond!r}:
        continue
    problem = row.problem(0)
    before = [np.copy(x) for x in problem.cuda]
    shape = dict(grid=problem.grid, block=problem.block, shared=problem.shared)
    device.launch(row.kernel, *problem.ours, **shape, stream=device.cpu_stream())
    ours = [np.copy(x) for x in problem.outputs]
    for x, old in zip(problem.cuda, before):
        if x.shape:
            x[...] = old
    {run}
    tolerance = 1e-2 if "16" in row.name else 1e-4
    differ = sum(np.sum(~np.isclose(a, b, tolerance, tolerance)) for a, b in zip(ours, problem.outputs))
    right[row.name] = int(differ) <= (sum(a.size for a in ours) // 100 if row.name == "mandelbrot" else 0)
print(json.dumps(right))
"""


def outcome(imports: str, table: str, run: str, beyond: set[str], **environment: str) -> dict[str, bool]:
    program = PROGRAM.format(
        benchmarks=str(ROOT / "benchmarks"), imports=imports, table=table, run=run, beyond=sorted(beyond)
    )
    return json.loads(python("-c", program, **environment).stdout.splitlines()[-1])


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@pytest.mark.skipif(not installed("numba"), reason="numba-cuda is not installed")
def test_kernels_of_numba():
    run = "NUMBA[row.name][problem.grid, problem.block, 0, problem.shared](*problem.cuda)"
    imports = "from numba_kernels import NUMBA"
    beyond = importlib.import_module("numba_kernels").BEYOND_THE_SIMULATOR
    right = outcome(imports, "NUMBA", run, beyond, NUMBA_ENABLE_CUDASIM="1")
    assert len(right) >= 20
    assert all(right.values()), right


@pytest.mark.skipif(not installed("warp"), reason="Warp is not installed")
def test_kernels_of_warp():
    imports = "from warp_kernels import WARP, run"
    right = outcome(imports, "WARP", "run(WARP[row.name], problem)", set())
    assert len(right) >= 14
    assert all(right.values()), right


@pytest.mark.skipif(not installed("triton"), reason="Triton is not installed")
def test_kernels_of_triton_compile():
    triton_kernels = importlib.import_module("triton_kernels")
    assert len(triton_kernels.TRITON) >= 12
    for name, row in triton_kernels.TRITON.items():
        assert ".entry" in triton_kernels.compile(row, ROWS[name].problem(0), "sm_90")


@pytest.mark.parametrize("module", ["numba_kernels", "triton_kernels", "warp_kernels"])
def test_peers_that_are_not_installed_have_no_kernels(module):
    """The modules can be imported anywhere, and name kernels of the suite."""
    table = getattr(importlib.import_module(module), module.removesuffix("_kernels").upper())
    assert table.keys() <= ROWS.keys()


def test_problems_of_peers_are_those_of_cuda():
    """Peers take what CUDA C++ takes: arrays, and numbers of known types."""
    for row in suite.SUITE:
        assert all(isinstance(x, (np.ndarray, np.generic)) for x in row.problem(0).cuda), row.name
