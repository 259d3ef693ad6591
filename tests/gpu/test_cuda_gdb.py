"""`debug=True` on a GPU: cuda-gdb, where it is installed, stops at a line of Python and shows variables."""

import os
import shutil
import subprocess
import sys

import pytest

import cuda_device as device

PROGRAM = """
import numpy as np
import cuda_device as device

@device.kernel(debug=True)
def saxpy(a, x, y):
    i = device.tid(1)
    if i < len(y):
        product = a * x[i]
        y[i] = product + y[i]  # line 10

x = device.array(np.arange(100, dtype=np.float32))
y = device.full(100, 1.0)
device.launch(saxpy, 2.0, x, y, grid=1, block=128)
print(y.numpy()[:3])
"""


@pytest.mark.skipif(shutil.which("cuda-gdb") is None, reason="there is no cuda-gdb")
def test_a_breakpoint_in_a_kernel(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    commands = ("set breakpoint pending on", "break program.py:10 if i == 5", "run", "info locals", "continue")
    words = [part for command in commands for part in ("-ex", command)]
    root = os.path.dirname(os.path.dirname(device.__file__))
    done = subprocess.run(
        ["cuda-gdb", "-q", "-nx", "-batch", *words, "--args", sys.executable, str(program)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": root, "CUDA_DEVICE_CACHE": "0"},
        timeout=120,
    )
    for expected in ("saxpy<<<(1,1,1),(128,1,1)>>> () at", "a = 2", "i = 5", "product = 10", "[1. 3. 5.]"):
        assert expected in done.stdout, (done.stdout, done.stderr)
