"""`assert` and `raise`: what a thread reports reaches the host, and everything works on after it.

Here an `assert` is what Python makes of it, not what pytest does: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import poison

import cuda_device as device


@device.func
def root(x):
    assert x >= 0, "negative"
    return math.sqrt(x)


@device.func
def value_and_root(x):
    if x > 100:
        raise ValueError("too large")
    return x, root(x)


@device.func
def factorial(n):
    if n < 0:
        raise ArithmeticError
    return 1 if n <= 1 else n * factorial(n - 1)


@device.func
def fail():
    raise RuntimeError(f"number {3:02d}")


@device.func
def wait_and_check(x):
    device.syncthreads()
    assert x < 5
    return x


@device.kernel
def roots(x, out):
    i = device.tid(1)
    if i < len(x):
        a, b = value_and_root(x[i])
        out[i] = a + b


@device.kernel
def factorials(x, out):
    i = device.tid(1)
    assert i < len(x)
    out[i] = factorial(int(x[i]))


@device.kernel
def fails_before_a_barrier(x, out):
    i = device.thread_idx.x
    if x[i] < 0:
        fail()
    device.syncthreads()
    out[i] = x[i]


@device.kernel
def fails_behind_a_barrier(x, out):
    i = device.thread_idx.x
    out[i] = wait_and_check(x[i])


@device.kernel
def always_fails(x, out):
    raise NotImplementedError


@device.kernel
def grid_of_blocks(x, out):
    b, t = device.block_idx, device.thread_idx
    if b.y == 2:
        if t.z == 1:
            raise ValueError("that one")
    out[0] = 1


@device.kernel
def nested_function_fails(x, out):
    def check(v):
        assert v > 0, "not positive"
        return v

    i = device.tid(1)
    out[i] = sum(check(v) for v in (x[i], 1.0))


def run(stream, kernel, values, block=None, grid=1):
    x = np.asarray(values, np.float64)
    return stream.run(kernel, x, poison(len(x), np.float64), grid=grid, block=block or len(x))[-1].tolist()


def test_what_holds_costs_nothing_but_a_branch(stream):
    assert run(stream, roots, [1, 4, 9]) == [2, 6, 12]
    assert run(stream, factorials, [1, 4, 5]) == [1, 24, 120]
    assert run(stream, fails_before_a_barrier, [1, 2]) == [1, 2]
    assert run(stream, fails_behind_a_barrier, [1, 2]) == [1, 2]
    assert run(stream, nested_function_fails, [1, 2]) == [2, 3]


FAILURES = [
    (roots, [1, -4, 9], "AssertionError: negative", 1, "assert x >= 0"),
    (roots, [1, 4, 900], "ValueError: too large", 2, "raise ValueError"),
    (factorials, [1, 4, -5], "ArithmeticError", 2, "raise ArithmeticError"),
    (fails_before_a_barrier, [1, 2, 3, -1], "RuntimeError: number 03", 3, "raise RuntimeError"),
    (fails_behind_a_barrier, [1, 2, 3, 7], "the assertion does not hold", 3, "assert x < 5"),
    (always_fails, [1], "NotImplementedError", 0, "raise NotImplementedError"),
    (nested_function_fails, [1, 0], "AssertionError: not positive", 1, "assert v > 0"),
]


@pytest.mark.parametrize(("kernel", "values", "message", "thread", "source"), FAILURES)
def test_a_failure_is_reported_and_the_next_launch_works(stream, kernel, values, message, thread, source):
    for _ in range(2):
        with pytest.raises(device.KernelError) as caught:
            run(stream, kernel, values)
        text = str(caught.value)
        assert text.startswith(message + "\n")
        assert f"thread ({thread}, 0, 0) of block (0, 0, 0)" in text
        assert __file__ in text
        assert source in text
        assert run(stream, roots, [1, 4, 9]) == [2, 6, 12]


@device.kernel
def tells_numbers(x, out):
    i = device.tid(1)
    assert i != 1 or x[0] < 2, f"thread {i} of {{all}} has {int(x[i]):04d}"
    if x[0] < 1:
        raise IndexError(f"no element {i - 7}")
    out[i] = i


@device.kernel
def tells_braces(x, out):
    if x[0] > 0:
        raise ValueError("{0} {curly}")
    assert x[0] < 0, "{1}"
    out[0] = 1


def test_messages_have_integers_of_run_time(stream):
    assert run(stream, tells_numbers, [1, 2]) == [0, 1]
    with pytest.raises(device.KernelError, match=r"^AssertionError: thread 1 of \{all\} has -017\n"):
        run(stream, tells_numbers, [2, -17])
    with pytest.raises(device.KernelError, match="^IndexError: no element -7\n"):
        run(stream, tells_numbers, [0])
    assert device.compile(tells_numbers, *(device.ArrayType(device.float64, 1),) * 2).code


SHOWN = [
    ("raise ValueError(n)", "ValueError: 7"),
    ("raise ValueError(x[0] / 3)", "ValueError: 0.5"),
    ("raise ValueError('bad', n)", "ValueError: ('bad', 7)"),
    ("raise ValueError('{0}', n)", "ValueError: ('{0}', 7)"),
    ("raise ValueError(np.float32(x[0]) / np.float32(15))", "ValueError: 0.1"),
    ("raise ValueError(np.float16(x[0]) / np.float16(15))", "ValueError: 0.1"),
    ("raise ValueError(np.uint64(n) << np.uint64(63))", "ValueError: 9223372036854775808"),
    ("raise ValueError(n > 2, n < 2)", "ValueError: (True, False)"),
    ("raise ValueError(device.float32x2(n, -n))", "ValueError: float32x2(7.0, -7.0)"),
    ("raise ValueError([n, 'a', 2.5])", "ValueError: [7, 'a', 2.5]"),
    ("raise ValueError(f'{x[0]:.3f} of {n:>5}')", "ValueError: 1.500 of     7"),
    ("raise ValueError(f'{x[0]:e} {n:_}')", "ValueError: 1.500000e+00 7"),
    ("raise ValueError(x)", "ValueError: array<float64, 1, C, small>"),
    ("raise ValueError(n, n, n)", "ValueError: (7, 7, int)"),
    ("raise KeyError('k')", "KeyError: 'k'"),
    ("raise KeyError(n)", "KeyError: 7"),
    ("assert n < 0, n", "AssertionError: 7"),
    ("assert n < 0, (n, x[0])", "AssertionError: (7, 1.5)"),
    ("assert n < 0, f'too {{small}}'", "AssertionError: too {small}"),
    ("assert n < 0, f'{n} {{x}} {x[0]:.3f}'", "AssertionError: 7 {x} 1.500"),
    ("assert n < 0, ValueError('why')", "AssertionError: the exception ValueError"),
]


@pytest.mark.parametrize(("statement", "message"), SHOWN)
def test_messages_are_those_of_python(stream, statement, message):
    scope = {"np": np, "device": device}
    exec(f"def f(x, n):\n    {statement}\n    return n", scope)
    function = scope["f"]

    @device.kernel
    def fails(x, n):
        x[0] = function(x, n)

    x = stream.array(np.array([1.5]))
    with pytest.raises(device.KernelError) as caught:
        stream.launch(fails, x, 7, grid=1, block=1)
    assert str(caught.value).splitlines()[0] == message


def test_braces_of_a_message_stay(stream):
    with pytest.raises(device.KernelError, match=r"^ValueError: \{0\} \{curly\}\n"):
        run(stream, tells_braces, [1])
    with pytest.raises(device.KernelError, match=r"^AssertionError: \{1\}\n"):
        run(stream, tells_braces, [0])


def test_blocks_and_threads_are_named(stream):
    with pytest.raises(device.KernelError, match=r"in thread \(0, 0, 1\) of block \(0, 2, 0\)"):
        run(stream, grid_of_blocks, [0], block=(1, 1, 2), grid=(1, 3))


def test_threads_that_do_not_fail_go_on(stream):
    x = np.array([1.0, -1.0, 4.0])
    out = stream.empty(3, np.float64)
    with pytest.raises(device.KernelError):
        stream.launch(roots, stream.array(x), out, grid=1, block=3)
    found = stream.numpy(out)
    assert found[[0, 2]].tolist() == [2, 6]
    assert math.isnan(found[1])


def test_the_next_launch_reports_if_nobody_asked(stream):
    if stream.kind == "cpu":
        pytest.skip("the CPU stream reports at once")
    x, out = stream.array(np.array([-1.0])), stream.empty(1, np.float64)
    device.launch(roots, x, out, grid=1, block=1, stream=stream.stream)
    with pytest.raises(device.KernelError, match="negative"):  # noqa: PT012
        for _ in range(10_000):
            device.launch(factorials, out, out, grid=1, block=1, stream=stream.stream)
    device.synchronize(stream.stream)
    assert run(stream, roots, [1, 4, 9]) == [2, 6, 12]


def test_many_failures_are_one_report(stream):
    with pytest.raises(device.KernelError, match="negative"):
        run(stream, roots, [-1.0] * 256, grid=4)
    assert run(stream, roots, [1, 4, 9]) == [2, 6, 12]


def test_a_constant_that_fails_is_reported_when_it_runs(stream):
    @device.kernel
    def k(x, out):
        if x[0] > 0:
            assert False, "reached"  # noqa: B011, PT015
        out[0] = 1

    assert run(stream, k, [-1]) == [1]
    with pytest.raises(device.KernelError, match="reached"):
        run(stream, k, [1])


@pytest.mark.parametrize("kernel", [roots, factorials, fails_before_a_barrier, fails_behind_a_barrier, always_fails])
def test_asserts_assemble(kernel):
    a = device.ArrayType(device.float64, 1)
    ptx = str(device.compile(kernel, a, a, output="ptx"))
    assert "exit;" in ptx
    assert device.compile(kernel, a, a).code


def test_a_kernel_without_asserts_has_no_record():
    @device.kernel
    def k(out):
        out[0] = 1

    assert "record" not in str(device.compile(k, device.ArrayType(device.float64, 1), output="ptx"))


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("raise", "raise without an exception"),
        ("raise x", "raise takes an exception, not int"),
    ],
)
def test_what_cannot_be_raised(source, match):
    scope: dict[str, object] = {}
    exec(f"def f(x):\n    {source}", scope)
    with pytest.raises(device.CompileError, match=match) as caught:
        device.compile(device.func(scope["f"]), int, output="ir")
    assert caught.value.help
