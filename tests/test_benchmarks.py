"""Benchmarks that need no GPU still run: what they import of the package is there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_device.runtime import driver

ROOT = Path(__file__).parent.parent


def run(script, *words, **environment):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *words],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("where", ["cpu", "fake"])
def test_starts(where, tmp_path):
    for state, found in (("apart", [0, 0, 2]), ("warm", [2, 2, 0])):
        told = json.loads(run("starts/with_ours.py", where, state, CUDA_DEVICE_CACHE=str(tmp_path)))
        assert set(told["parts"]) == {"import", "names", "arrays", "first", "next"} and told["found"] == found
        assert ("compiler" in told["stages"]) == (state == "apart") and "launch" in told["stages"]


@pytest.mark.skipif(driver.available(), reason="takes long on a GPU")
def test_lifetimes():
    assert "2000 launches: all right" in run("lifetimes.py", "--launches", "2000")
