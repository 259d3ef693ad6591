"""Benchmarks that need no GPU still run: what they import of the package is there."""

import json
from pathlib import Path

import pytest
from conftest import HAS_GPU
from processes import python

import cuda_device as device

ROOT = Path(__file__).parents[2]


def run(script, *words, **environment):
    return python("-W", "error::UserWarning", ROOT / "benchmarks" / script, *words, **environment).stdout


@pytest.mark.long
@pytest.mark.parametrize("where", ["cpu", "fake"])
def test_starts(where, tmp_path):
    for state, found in (("apart", [0, 0, 2]), ("warm", [2, 2, 0])):
        told = json.loads(run("starts/with_ours.py", where, state, CUDA_DEVICE_CACHE=str(tmp_path)))
        assert set(told["parts"]) == {"import", "names", "arrays", "first", "next"} and told["found"] == found
        assert ("compiler" in told["stages"]) == (state == "apart") and "launch" in told["stages"]


@pytest.mark.long
def test_starts_are_written_for_the_chart(tmp_path):
    run("start.py", "--count", "1", "--at-once", "0", "--json", str(tmp_path / "start.json"))
    rows = json.loads((tmp_path / "start.json").read_text())["results"]
    states = {(row["where"], row["state"]) for row in rows if row["system"] == f"cuda_device {device.__version__}"}
    where = "gpu" if HAS_GPU else "fake"
    assert states == {(each, state) for each in ("cpu", where) for state in ("cold", "apart", "warm")} | {
        (where, "saved")
    }
    assert all(row["milliseconds"]["result"] > row["milliseconds"]["first"] > 0 for row in rows)


@pytest.mark.skipif(HAS_GPU, reason="takes long on a GPU")
def test_lifetimes():
    assert "2000 launches: all right" in run("lifetimes.py", "--launches", "2000")


@pytest.mark.long
def test_groups():
    lines = run("groups.py", "--cpu").splitlines()
    assert lines[0] == "2 devices" and [line.split()[0] for line in lines[1:]] == [
        "a", "copies", "exchange", "sum", "exchange", "sum", "stencil", "n-body"
    ]  # fmt: skip


@pytest.mark.long
def test_calls_between_languages():
    """With link-time optimisation none is left, whatever the rows say of PTX and cubins."""
    lines = run("interop.py", "--compile", "sm_90", "--only", "struct of vectors").splitlines()
    left = {line[:36].strip(): int(line.split()[-1]) for line in lines[1:] if line.startswith(" ")}
    assert {how: count for how, count in left.items() if "PTX" not in how and "cubin" not in how} == {
        "C++, C++": 0, "Python, Python": 0, "Python, C++ source": 0, "Python, C++ LTO-IR": 0, "C++, Python LTO-IR": 0
    }  # fmt: skip
    assert min(left["Python, C++ PTX"], left["Python, C++ cubin"], left["C++, Python PTX"]) > 0


def result(kernel, contender, seconds, size=0, right=True, alike=True):
    about = {"bytes": size, "flops": 0, "right": right, "alike": alike}
    return {"kernel": kernel, "contender": contender, "seconds": seconds} | about


RESULTS = [
    [
        result("copy", "cuda_device", 2.0, 190), result("copy", "cuda_device fast", 2.0, 190),
        result("copy", "CUDA C++", 1.9, 190), result("copy", "CUDA C++ fast", 1.0, 190),
        result("copy", "numba-cuda", 0.1, 190, right=False), result("copy", "Warp", 4.0, 190),
    ],
    [
        result("sum", "cuda_device", 3.0), result("sum", "CUDA C++", 6.0), result("sum", "Triton", 2.0),
        result("sum", "numba-cuda", 1.0, alike=False),
    ],
    [result("alone", "cuda_device", 3.0)],
]  # fmt: skip


def test_summary(monkeypatch):
    """Like is rated with like, wrong peers and other algorithms are no measure, and what lacks a peer has no ratio."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from summary import line, rate, summary

    for row in RESULTS:
        rate(row, copy=100.0)
    everything = [each for row in RESULTS for each in row]
    assert [each["ratio"] for each in everything] == pytest.approx(
        [2 / 1.9, 2, 1, 1, 0.1 / 1.9, 4 / 1.9, 1.5, 3, 1, 0.5, None]
    )
    assert [each["share"] for each in RESULTS[0][:3]] == pytest.approx([0.95, 0.95, 1])
    assert RESULTS[1][0]["share"] is None
    said = "\n".join(summary(everything))
    for mine, peer, mean, count in (
        ("cuda_device", "CUDA C++", (2 / 1.9 * 0.5) ** 0.5, 2),
        ("cuda_device", "Triton", 1.5, 1),
        ("cuda_device", "Warp", 0.5, 1),
        ("cuda_device fast", "CUDA C++ fast", 2, 1),
        ("cuda_device", "best peer", (2 / 1.9 * 1.5) ** 0.5, 2),
    ):
        assert f"{mine:20} {peer:16}{mean:8.3f}   of {count}" in said
    assert "numba" not in said
    assert "above 1.05: copy 1.05, sum 1.50" in said
    assert "in CUDA C++: copy" in said and "below that: copy 95%" not in said
    RESULTS[0][0]["share"] = 0.9
    assert "below that: copy 90%" in "\n".join(summary(everything))
    assert "another algorithm" in line(RESULTS[1][3]) and "another algorithm" not in line(RESULTS[1][2])
    assert "WRONG" in line(RESULTS[0][4]) and "WRONG" not in line(RESULTS[0][0]) and "1.500" in line(RESULTS[1][0])


def test_results_agree(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from types import SimpleNamespace

    import numpy as np
    from kernels import agree

    problem, a = SimpleNamespace(tolerance=1e-5), np.array([1.0, np.nan, 3.0])
    assert agree(problem, "Warp", [a], [a.copy()])
    assert agree(problem, "Warp", [a], [a * (1 + 1e-7)])
    assert not agree(problem, "Warp", [a], [a * (1 + 1e-3)])
    assert agree(problem, "CUDA C++ fast", [a], [a * (1 + 1e-3)])
    assert not agree(problem, "Warp", [a], [np.array([1.0, 2.0, 3.0])])
    structs = np.zeros(2, [("x", float), ("y", int)])
    other = structs.copy()
    assert agree(problem, "Warp", [structs], [other])
    other["y"][1] = 1
    assert not agree(problem, "Warp", [structs], [other])


@pytest.mark.long
def test_kernels_are_compiled_without_a_gpu():
    pytest.importorskip("cuda.bindings.nvrtc")
    try:
        said = run("kernels.py", "--compile-only", "--only", "stream copy", "strided", "natural")
    except AssertionError as error:
        if "nvrtc" in str(error).lower() or "no assembler" in str(error):
            pytest.skip(str(error)[-200:])
        raise
    assert said.count("stream copy") == said.count("copy, strided") == said.count("natural counter") == 4


@pytest.mark.long
def test_checks_cost_little():
    """Far above what `benchmarks/checked.py` finds, because other work may run at the same time."""
    assert float(run("checked.py").split()[-1]) < 1.6
