"""Members of enumerations in device code, which are constants."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import cuda_device as device


class State(enum.Enum):
    IDLE = enum.auto()
    RUN = enum.auto()
    STOP = enum.auto()


def test_a_member_is_a_constant_argument(stream):
    @device.kernel
    def plain(x, state):
        x[0] = state.value

    @device.kernel
    def constant(x, state: device.ConstExpr):
        x[0] = state.value

    x = stream.array(np.zeros(1, np.int32))
    with pytest.raises(device.LaunchError, match="ConstExpr"):
        stream.launch(plain, x, State.RUN, grid=1, block=1)
    stream.launch(constant, x, State.RUN, grid=1, block=1)
    assert stream.numpy(x)[0] == 2


def test_a_constant_member_differs_from_numbers_of_run_time(stream):
    def kernel(x, out):
        state = State.STOP
        out[0] = (state == x[0]) + 2 * (state != x[0]) + 4 * (x[0] == state) + 8 * (x[0] != State.RUN)

    out = stream.empty(1, np.int32)
    stream.launch(device.kernel(kernel), stream.array(np.ones(1)), out, grid=1, block=1)
    assert stream.numpy(out)[0] == 10
