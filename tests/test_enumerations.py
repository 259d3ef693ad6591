"""Enumerations in device code: members that only run time knows, what they have, and how they are shown."""

from __future__ import annotations

import enum
import typing

import numpy as np
import pytest
from against_python import check

import cuda_device as device


class State(enum.Enum):
    IDLE = enum.auto()
    RUN = enum.auto()
    STOP = enum.auto()

    @property
    def cost(self):
        return 2.5 if self is State.RUN else 1.5

    def after(self, k):
        match self:
            case State.IDLE:
                return State.RUN
            case State.RUN:
                return State.STOP if k % 3 == 0 else State.RUN
        return State.first()

    @classmethod
    def first(cls):
        return cls.IDLE

    @staticmethod
    def weight(k):
        return k * 2


class Planet(enum.Enum):
    NEAR = (1.5, 2)
    FAR = (3.25, 4)

    def __init__(self, mass, moons):
        self.mass = mass
        self.moons = moons

    def pull(self, distance):
        return self.mass / distance


class Letter(str, enum.Enum):  # noqa: UP042
    A = "a"
    B = "b"


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 4


WEIGHTS = [State.IDLE, State.STOP, State.RUN]


NEXT = {State.IDLE: State.RUN, State.RUN: State.STOP, State.STOP: State.IDLE}
STEPS = {(State.IDLE, 0): State.IDLE, (State.IDLE, 1): State.RUN, (State.RUN, 0): State.RUN, (State.RUN, 1): State.IDLE}


class Token(typing.NamedTuple):
    state: State
    value: float


@pytest.mark.parametrize("function", [])
def test_members_of_run_time_are_pythons(stream, function):
    check(stream, function, np.arange(8) * 1.5 - 4)


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
