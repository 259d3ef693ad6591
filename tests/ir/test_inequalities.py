"""Indices that comparisons with other values prove not to be negative do not count from the end, and all others do."""

import itertools
import sys

import numpy as np
import pytest
from ir_helpers import operations, stage

import cuda_device as device

# Up to 3.13, CPython compiles the test of a `while` twice: before the loop and at its end. Neither proves anything inside it.
TESTS_ONCE = sys.version_info >= (3, 14)

# Loops over `i`, what they read of `x`, and whether that cannot be negative. All are run with n from 0 to 5, m from 0 to 7.
LOOPS = {
    "for i in range(n + 1): use(n - i)": True,
    "for i in range(n + 2): use(n - i)": False,
    "for i in range(2 * n + 1): use(2 * n - i)": True,
    "for i in range(2 * n + 1): use(n - i)": False,
    "for i in range(2 * n, m): use(i - 2 * n)": True,
    "for i in range(n, m): use(i - n - 1)": False,
    "for i in range(min(n + 1, m)): use(n - i)": True,
    "for i in range(max(n + 1, m)): use(n - i)": False,
    "for i in range(max(n, 2), m): use(i - n)": True,
    "for i in range(min(n, 2), m): use(i - n)": False,
    "for i in range(m):\n        if i <= n: use(n - i)": True,
    "for i in range(m):\n        if not i <= n: use(n - i)": False,
    "for i in range(m):\n        if i > n: continue\n        use(n - i)": True,
    "for i in range(m):\n        if i == n: use(i - n)": True,
    "for i in range(n + 1):\n        if n - i != 0: use(n - i - 1)": True,
    "for i in range(n + 1):\n        if i == n or i == 0: continue\n        use(n - i - 1)": True,
    "for i in range(n + 1):\n        if i == n: use(n - i - 1)": False,
    "for i in range(m):\n        if n - i != 0: use(n - i - 1)": False,
    "for i in range(m):\n        if i <= n: pass\n        use(n - i)": False,
    "for i in range(n, -1, -1): use(n - i)": True,
    "for i in range(n, m, -1): use(i - m - 1)": True,
    "for i in range(n, m, -1): use(i - m - 2)": False,
    "for i in range(n, -1, -1): pass\n    j = m - m - 1\n    use(j)": False,  # behind the last item there are other ones
    "for i in range(n - 3, -1, -1): use(i)\n    use(min(n - 2, -1))": False,
    "i = n\n    while i <= m:\n        use(i - n)\n        i += 2": True,
    "i = n + 1\n    while i > m:\n        i -= 1\n        use(i - m)": TESTS_ONCE,
    "i = n\n    while i > m:\n        i -= 2\n        use(i - m)": False,
}


def kernel_of(loop):
    """A kernel that adds up the elements of `x` that a loop uses, each times one more than the one before; the length is 64."""
    text = f"def kernel(x, sums, n, m):\n    count = total = 0\n    {loop}\n    sums[0] = total\n".replace("; ", "\n")
    lines = []
    for line in text.splitlines():
        before, use, index = line.partition("use(")
        if use:
            pad = " " * (len(before) - len(before.lstrip()))
            if before.strip():
                lines.append(before)
                pad += "    "
            lines += [f"{pad}count += 1", f"{pad}total += count * x[{index[:-1]}]"]
        else:
            lines.append(line)
    names = {}
    exec("\n".join(lines), names)
    return names["kernel"]


def counts_from_the_end(kernel, *arguments):
    """Whether a kernel reads an element whose index it may have to add the length to."""
    main = stage("device", kernel, *arguments, launch_facts=True).main
    makers = {op.results[0]: op for op in main.ops() if op.results}
    return any(
        op.code.name == "select"
        and makers[op.operands[1]].code.name == "add"
        and op.operands[2] in makers[op.operands[1]].operands
        for op in main.ops()
        if op.code.name == "select" and op.operands[1] in makers
    )


@pytest.mark.parametrize(("loop", "shown"), LOOPS.items())
def test_what_is_shown(loop, shown):
    kernel = device.kernel(kernel_of(loop))
    assert counts_from_the_end(kernel, np.zeros(64, int), np.zeros(1, int), 3, 3) == (not shown)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_read(stream, loop):
    """Held against Python, which counts from the end itself."""
    python = kernel_of(loop)
    kernel = device.kernel(python)
    x = np.random.default_rng(1).integers(1, 1 << 20, 64)
    cells = stream.array(x)
    for n, m in itertools.product(range(6), range(8)):
        expected, found = [0], stream.empty(1, np.int64)
        python(x.tolist(), expected, n, m)
        stream.launch(kernel, cells, found, n, m, grid=1, block=1)
        assert stream.numpy(found)[0] == expected[0], (n, m)


# Loops of checked mode, and whether no check of the bound is left. All are run for arrays of 0 to 6 elements and n from -1 to 6.
BOUNDED = {
    "for i in range(len(x)): use(i)": True,
    "for i in range(len(x) + 1): use(i)": False,
    "for i in range(n): use(i)": False,
    "for i in range(n):\n        if i < len(x): use(i)": True,
    "for i in range(n):\n        if i <= len(x): use(i)": False,
    "for i in range(1, n):\n        if i + 1 < len(x): use(i + 1)": True,
    "for i in range(1, len(x) - 1): use(i + 1)": True,
    "for i in range(1, len(x) - 1): use(i + 2)": False,
    "for i in range(1, len(x)): use(i - 1)": True,
    "for i in range(len(x)): use(len(x) - 1 - i)": False,  # it could be
    "for i in range(len(x)): use(len(x) - i)": False,
    "i = 0\n    while i < len(x):\n        use(i)\n        i += 1": TESTS_ONCE,
    "i = 0\n    while True:\n        if i >= len(x): break\n        use(i)\n        i += 1": True,
    "i = 0\n    while True:\n        if i > len(x): break\n        use(i)\n        i += 1": False,
    "i = 0\n    while i < len(x):\n        i += 1\n        use(i)": False,
    "if -3 < n < len(x): use(n)": False,  # it may count from the end
    "if 0 <= n < len(x): use(n)": True,
    "if 0 <= n:\n        use(n)\n        use(n)": False,
}


@pytest.mark.parametrize(("loop", "proved"), BOUNDED.items())
def test_checks_that_hold_are_dropped(loop, proved):
    kernel = device.kernel(checked=True)(kernel_of(loop))
    module = stage("device", kernel, np.zeros(6, int), np.zeros(1, int), 3, 3, launch_facts=True)
    reports = [op for op in operations(module, "report") if "out of bounds" in op.attributes["message"]]
    assert len(reports) == 1 + (not proved)  # one is that of `sums[0]`; of two the same, one is left


@pytest.mark.parametrize("loop", BOUNDED)
def test_checks_that_may_fail_are_kept(stream, loop):
    """Held against Python, which raises where a check fails."""
    python = kernel_of(loop)
    kernel = device.kernel(checked=True)(python)
    for size, n in itertools.product(range(7), range(-1, 7)):
        x = np.arange(1, size + 1)
        expected, found = [0], stream.empty(1, np.int64)
        try:
            python(x.tolist(), expected, n, 0)
        except IndexError:
            with pytest.raises(device.KernelError, match="out of bounds"):
                stream.launch(kernel, stream.array(x), found, n, 0, grid=1, block=1)
            continue
        stream.launch(kernel, stream.array(x), found, n, 0, grid=1, block=1)
        assert stream.numpy(found)[0] == expected[0], (size, n)


def test_a_loop_with_the_stride_of_the_grid_needs_no_check():
    @device.kernel(checked=True)
    def kernel(x):
        for i in range(device.tid(1), len(x), device.grid_size(1)):
            x[i] += 1

    module = stage("device", kernel, np.zeros(6, int), launch_facts=True)
    assert not operations(module, "report")
