"""Policies: rules of inference in place of Python's."""

import sys
from types import ModuleType

import numpy as np
import pytest

import cuda_device as device
from cuda_device import hooks
from cuda_device.extend import model, policies, replace


@pytest.fixture
def with_policy(monkeypatch):
    """Returns a kernel like another, with a policy."""

    def change(kernel, policy):
        name = type(policy).__name__
        module = ModuleType("cuda_device.plugins.probe")
        module.POLICY = policy
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(hooks.POLICIES, name, "plugins.probe")
        other = device.kernel(kernel.underlying)
        other.options = replace(other.options, build=replace(other.options.build, policy=name))
        return other

    return change


def result_of(stream, kernel, *arguments):
    out = stream.array(np.zeros(5))
    stream.launch(kernel, out, *arguments, grid=1, block=1)
    return stream.numpy(out).tolist()


class Probe(policies.Policy):
    """Sums are float64, `abs` is `negated`, the text "two" is 2, and integers that meet another value are float32."""

    wraps = True

    def argument(self, frame, cell):
        return frame.operate("*", cell, frame.literal(2)) if cell.known.type == model.INT else cell

    def operands(self, frame, sign, cells):
        return [frame.convert(cell, model.FLOAT64) for cell in cells] if sign == "+" else cells

    def result(self, frame, cell):
        return frame.literal(2) if cell.known.value == "two" else cell

    def call(self, frame, function, positional, named):
        return frame.literal(negated) if function.known.value is abs else function, positional, named

    def joined(self, known):
        return replace(known, type=model.FLOAT32) if known.type == model.INT else known


def negated(x):
    return -x


@device.func
def half_of_next(n):
    return (n + 1) / 2


@device.kernel
def computing(out, n):
    out[0] = half_of_next(n)
    out[1] = abs(n)
    out[2] = "two" if n > 9 else 1
    step = 1 if n > 9 else 4
    out[3] = step // 3 * 0.5 + (step == 4)
    out[4] = device.uint32(-1)


def test_a_policy_is_asked_for_arguments_operands_results_calls_and_joins(stream, with_policy):
    probed = with_policy(computing, Probe())
    assert result_of(stream, probed, 1_000_000_000)[:2] == [1_000_000_000.5, -2e9]
    assert result_of(stream, probed, 2)[2:] == [1, 1.5, 4294967295]
    assert result_of(stream, probed, 5)[2:] == [2, 0, 4294967295]


@device.kernel
def rounding(out, x):
    out[0] = round(x, 2)


class Refusing(policies.Policy):
    """Functions that are not the user's compute."""

    def operands(self, frame, sign, cells):
        raise device.CompileError(f"{sign} is refused", help="leave it out")


def test_functions_of_the_package_have_python_s_rules(stream, with_policy):
    assert result_of(stream, with_policy(rounding, Refusing()), 1.239)[0] == pytest.approx(1.24)
    with pytest.raises(device.CompileError, match=r"^\+ is refused\n  at .*test_policies.py:\d+:\d+, in half_of_next"):
        result_of(stream, with_policy(computing, Refusing()), 1)


@device.kernel
def copying(records, out):
    first = records[0]
    first.x += 1
    out[0] = records[0].x


class Referring(policies.Policy):
    references = True


def test_a_policy_decides_whether_a_record_is_a_reference(stream, with_policy):
    records = np.zeros(1, [("x", np.float64)])
    for kernel, expected in ((copying, 0), (with_policy(copying, Referring()), 1)):
        out = stream.array(np.zeros(1))
        stream.launch(kernel, stream.array(records), out, grid=1, block=1)
        assert stream.numpy(out)[0] == expected


def test_a_policy_without_its_plugin(stream, with_policy, monkeypatch):
    kernel = with_policy(rounding, Refusing())
    monkeypatch.setitem(hooks.POLICIES, "Refusing", "plugins.missing")
    with pytest.raises(device.Error, match="the plugin 'missing'"):
        result_of(stream, kernel, 1.0)
