"""Checks that are decided at the beginning of a kernel: which ones are, and that reports stay what they were."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device.cpu import early_checks

# Bodies of kernels, and how many checks of an index each version of the code has: that of blocks where the conditions at the
# beginning hold, and that of other blocks. All have the arrays x, y (float32) and t (int32, of integers), and the integer n.
BODIES = {
    # The length of another array decides.
    "if i < len(x): y[i] = x[i]": (0, 1),
    "if i < n: y[i] = x[i]": (0, 2),
    "if i < n and i < len(y): y[i] = x[i]": (0, 1),
    "if i >= 1 and i < n - 1: y[i] = x[i - 1] + x[i + 1]": (0, 3),
    # The size of the block and of the grid.
    "y[i] = 1": (0, 1),
    "y[device.thread_idx.x] = 1": (0, 1),
    "s[device.thread_idx.x] = 1\n    device.syncthreads()\n    y[0] = s[3]": (0, 2),
    # Loops: each thread's, those of all threads, and those whose counter falls.
    "for k in range(n): y[k] = x[k]": (0, 2),
    "for k in range(i, n, device.grid_size(1)): y[k] = x[k]": (0, 2),
    "for k in range(n - 1, -1, -1): y[k] = 1": (0, 1),
    "for k in range(min(n, len(x))): y[k] = x[k]": (0, 1),
    "k = 32\n    while k > 0:\n        if device.thread_idx.x < k: s[device.thread_idx.x + k] = 1\n        k //= 2": (
        0,
        0,
    ),
    # Bounds that operations imply.
    "s[i & 63] = 1": (0, 0),
    "s[i % 64] = 1": (0, 0),
    "s[i & 127] = 1": (0, 1),
    "y[i // 2] = 1": (0, 1),
    "y[t8[0]] = 1": (0, 2),
    # Indices that are read, which the program may compare.
    "y[t[i]] = x[t[i]] if i < len(t) else 0": (2, 3),
    "k = t[0]\n    if k < len(x): y[k] = 1": (1, 2),
    "k = t[0]\n    if k >= 0 and k < n: y[k] = x[k]": (0, 3),
    # Sums that may be too large for 64 bits, or are too small for any array.
    "for k in range(n): y[k * 100_000] = 1": (1, 1),
    "for k in range(len(x)): y[k + len(x)] = 1": (0, 1),
    # The check of a pointer is an `or`, too.
    "z = x.pointer().array((n, 1))\n    for k in range(n): y[k] = z.shape[0]": (2, 3),
}
NEVER_FAIL = [body for body, (_, count) in BODIES.items() if not count]
SOURCE = """
def k(x, y, t, t8, n):
    i = device.tid(1)
    s = device.shared_array(64, device.float32)
    {}
"""


def outcomes(body, monkeypatch, decide, cases):
    """What launches report, or write, when `decide` decides checks."""
    monkeypatch.setenv("CUDA_DEVICE_CACHE", "")
    monkeypatch.setattr(early_checks, "add_early_checks", decide)
    kernel, found = device.kernel(checked=True)(define(SOURCE.format(body), device=device)), []
    for length, n, grid, block in cases:
        x, y = np.arange(1, 36, dtype=np.float32), np.zeros(length, np.float32)
        t = np.arange(33, -1, -1, dtype=np.int32)
        try:
            device.launch(kernel, x, y, t, t.astype(np.uint8), n, grid=grid, block=block, stream=device.cpu_stream())
            found.append(y.tolist())
        except device.KernelError as error:
            found.append((str(error), error.location.line, error.block, error.thread, y.tolist()) if grid == 1 else "")
    return found


def checks(module):
    """The places that check an index, and whether something at the beginning of the kernel decides them."""
    makers = {op.results[0]: op for op in module.ops() if op.results}
    ends = [block.terminator for block in module.main.blocks if block.terminator.code.name == "branch"]
    return [
        "early" in makers[end.operands[0]].attributes
        for end in ends
        if end.successors[1].block.ops[0].attributes.get("status") == "check"
    ]


@pytest.mark.parametrize("body", BODIES)
def test_checks_that_are_decided(body, monkeypatch):
    found, decide = [], early_checks.add_early_checks

    def run(module):
        decide(module)
        found.extend(checks(module))

    outcomes(body, monkeypatch, run, [(40, 30, 1, 8)])
    assert (found.count(False), len(found)) == BODIES[body]


@pytest.mark.parametrize("body", BODIES)
def test_reports_and_results_are_those_of_kernels_whose_checks_are_not_decided(body, monkeypatch):
    """Of several blocks that fail, any may be reported."""
    decide, cases = (
        early_checks.add_early_checks,
        [*itertools.product((40, 30, 3), (30, 41, 0), (1, 3), (8, (9, 5), 70))],
    )
    expected = outcomes(body, monkeypatch, lambda module: None, cases)
    assert outcomes(body, monkeypatch, decide, cases) == expected
    assert any(type(each) is tuple for each in expected) == (body not in NEVER_FAIL)


def test_gpu_kernels_have_one_version(monkeypatch):
    monkeypatch.setattr(early_checks, "add_early_checks", pytest.fail)
    kernel = device.kernel(checked=True)(define(SOURCE.format("y[i] = x[i]"), device=device))
    floats = device.ArrayType(device.float32, 1)
    arguments = floats, floats, device.ArrayType(device.int32, 1), device.ArrayType(device.uint8, 1), int
    device.compile(kernel, *arguments, target="sm_90", output="ptx")
