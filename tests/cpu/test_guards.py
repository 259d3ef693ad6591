"""Threads on the CPU that ask first whether there is something to do: those along x that have nothing are not run."""

import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device import int64
from cuda_device.cpu import uniform

STREAM = device.cpu_stream()
SHAPE = 20, 70
LIMITS = (-5, 0, 1, 31, 32, 33, 64, 70, 1000, 2**31 - 1)


def kernel_of(text, checked):
    body = "\n".join(f"    {line}" for line in text.split("\n"))
    return device.kernel(define(f"def k(x, n):\n    i, j = device.tid(2)\n{body}\n", "k", int64=int64), checked=checked)


def written(kernel, n):
    """What threads that pass the guard count, and whether those that do not are left out."""
    x = np.zeros(SHAPE, np.int32)
    device.launch(kernel, x, n, grid=(3, 5), block=(32, 4), stream=STREAM)
    ((variant),) = kernel.variants.values()
    return x, uniform.split_guard(variant.work["inlined"])[1] is not None


ROOM = "i < x.shape[1] and j < x.shape[0]"


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (f"if i < n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i < n),
        (f"if n > i and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i < n),
        (f"if i >= n:\n    return\nif {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i < n),
        (f"if n <= i:\n    return\nif {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i < n),
        (f"if j < n and i < n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: (j < n) & (i < n)),
        (f"if i < int64(n) * 2 and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i < 2 * n),
        (f"if i + 3 < n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i + 3 < n),
        (f"if i <= n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i <= n),
        (f"if i > n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i > n),
        (f"if i < n:\n    if {ROOM}:\n        x[j, i] += 1\nelif {ROOM}:\n    x[j, i] += 2", None),
        (f"if i < j + n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i < j + n),
        (f"if 100 - i < n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: 100 - i < n),
        (f"if i < n - i and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i < n - i),
        (f"if 2 * i < n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: 2 * i < n),
        (f"if device.lane_id < n and {ROOM}:\n    x[j, i] += 1", lambda i, j, n: i % 32 < n),
    ],
)
def test_the_threads_that_pass_are_the_same(text, inside, checked):
    j, i = np.indices(SHAPE)
    kernel = kernel_of(text, checked)
    for n in LIMITS:
        if "n - i" in text or "j + n" in text or "2 * n" in text:
            n = min(n, 1000)
        found, _ = written(kernel, n)
        expected = 2 - (i < n) if inside is None else inside(i, j, n).astype(np.int32)
        assert np.array_equal(found, expected), n


def test_which_guards_are_left_out():
    for text, are_left_out in (
        (f"if i < n and {ROOM}:\n    x[j, i] += 1", True),
        (f"if j < n and i < n and {ROOM}:\n    x[j, i] += 1", True),
        ("x[0, 0] = n\nif i < n:\n    x[1, 1] = 1", False),
    ):
        assert written(kernel_of(text, False), 8)[1] is are_left_out
