"""Enumerations in device code: members that only run time knows, what they have, and how they are shown."""

from __future__ import annotations

import enum
import sys
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


def machine(i, x):
    state = State.first()
    total = 0.0
    for k in range(3 + i):
        match state:
            case State.IDLE:
                total += 1
                state = State.RUN
            case State.RUN:
                total += 10
                state = State.STOP if k % 3 == i % 3 else State.RUN
            case State.STOP:
                total += 100
                state = State.IDLE
        total = total / 2 + state.cost * 1000 + state.value * state.weight(k)
    return total


def stepped(i, x):
    state = State.IDLE
    seen = 0
    while state is not State.STOP and seen < 50:
        state = state.after(i + seen)
        seen += 1
    return seen


def compared(i, x):
    a = State.RUN if x[i] > 0 else State.STOP
    b = State(i % 3 + 1)
    result = (
        (a is State.RUN) + 2 * (a == b) + 4 * (a != State.STOP) + 8 * (b in (State.RUN, State.STOP)) + 16 * (a is b)
    )
    result += (
        32 * (a is not None) + 64 * (a == 2) + 128 * bool(b) + 256 * isinstance(b, State) + 512 * (type(b) is State)
    )
    return result + 1024 * (a is State.IDLE) + 2048 * (a not in WEIGHTS[1:]) + 4096 * (b is not a)


def attributes(i, x):
    planet = Planet.NEAR if i % 2 else Planet.FAR
    mass, moons = planet.value
    return planet.mass + planet.moons * 2 + planet.pull(2.0) * 4 + mass * 8 + moons * 16 + (planet.name == "FAR") * 64


def unlike(i, x):
    """Members of other enumerations and numbers are other objects; a member of a class is its own."""
    state, planet = State(i % 3 + 1), Planet.NEAR if i % 2 else Planet.FAR
    again = State(state)
    return (state == planet) + 2 * (state != planet) + 4 * (state == i) + 8 * (state != x[i]) + 16 * again.value


def texts(i, x):
    letter = Letter.A if x[i] > 0 else Letter.B
    return (letter == "a") + 2 * (letter == "c") + 4 * (letter is Letter.B) + 8 * (letter.value == "b")


def kept(i, x):
    """In tuples, lists, closures, functions, and by an index."""
    states = [State.IDLE] * 3
    states[i % 3] = State.RUN
    second, (third, _) = State.STOP, (WEIGHTS[i % 3], 1)

    def change():
        nonlocal second
        second = third if i > 4 else State.RUN

    change()
    chosen = (State.RUN, State.IDLE, second)[i % 3]
    return sum(s.value * 4**k for k, s in enumerate((*states, second, third, chosen)))


NEXT = {State.IDLE: State.RUN, State.RUN: State.STOP, State.STOP: State.IDLE}
STEPS = {(State.IDLE, 0): State.IDLE, (State.IDLE, 1): State.RUN, (State.RUN, 0): State.RUN, (State.RUN, 1): State.IDLE}


class Token(typing.NamedTuple):
    state: State
    value: float


def in_tables(i, x):
    """As keys and values of dicts, in named tuples, and by index."""
    state, total = State.IDLE, 0.0
    for k in range(i + 2):
        state = NEXT[state] if (k + i) % 3 else state
        total += {State.IDLE: 0.5, State.RUN: 2.0}.get(state, -1.0) * (k + 1)
    other = State.IDLE
    for k in range(i):
        other = STEPS[other, k % 2]
    tokens = [Token(state, x[i]), Token(State.STOP, 2.0), Token(other, 1.5)]
    token = tokens[i % 3]
    total += token.state.value * 10 + token.value + len(token.state.name) * 100
    return total + 1000 * sum(t.value for t in tokens if t.state is State.STOP)


def of_numbers(i, x):
    level = Level(3 + i % 2)
    return level * 10 + (level == Level.HIGH) + Level(level) + sum(s.value for s in State if s is not State(1 + i % 3))


@pytest.mark.parametrize(
    "function", [machine, stepped, compared, attributes, unlike, texts, kept, in_tables, of_numbers]
)
def test_members_of_run_time_are_pythons(stream, function):
    check(stream, function, np.arange(8) * 1.5 - 4)


def test_members_are_shown(stream, capfd):
    @device.kernel
    def shows(n):
        state = State.RUN if n > 0 else State.STOP
        print(state, state.name, state.value, [state, n], (state,))
        print(f"{state} {state.name} {state!r} {state.name!r}")

    expected = ""
    for n, state in ((1, State.RUN), (-1, State.STOP)):
        expected += f"{state} {state.name} {state.value} {[state, n]} {(state,)}\n"
        expected += f"{state} {state.name} {state!r} {state.name!r}\n"
    capfd.readouterr()
    for n in (1, -1):
        stream.launch(shows, n, grid=1, block=1)
    assert capfd.readouterr().out == expected


def test_one_of_two_members_is_shown(stream, capfd):
    class Side(enum.Enum):
        LEFT = 3
        RIGHT = 4

    @device.kernel
    def kernel(n):
        print(Side(n), Side(n).name, [Side(n)])

    capfd.readouterr()
    for n in (3, 4):
        stream.launch(kernel, n, grid=1, block=1)
    sys.stdout.flush()
    assert capfd.readouterr().out == "Side.LEFT LEFT [<Side.LEFT: 3>]\nSide.RIGHT RIGHT [<Side.RIGHT: 4>]\n"


def test_a_number_that_no_member_has_is_reported(stream):
    @device.kernel
    def picks(x, n):
        x[0] = State(n).value

    x = stream.array(np.zeros(1, np.int32))
    stream.launch(picks, x, 2, grid=1, block=1)
    assert stream.numpy(x)[0] == 2
    with pytest.raises(device.KernelError, match="ValueError: 7 is not a valid State"):
        stream.launch(picks, x, 7, grid=1, block=1)


def test_messages_tell_the_member(stream):
    @device.kernel
    def fails(n):
        state = State.RUN if n > 0 else State.STOP
        assert state is State.RUN, f"{n}: {state}"
        raise ValueError(state.name)

    for n, message in ((1, "ValueError: RUN"), (-1, "AssertionError: -1: State.STOP")):
        with pytest.raises(device.KernelError, match=message):
            stream.launch(fails, n, grid=1, block=1)


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
