"""The names of `numba.cuda.random`: xoroshiro128+ with a state for each thread, and the same numbers as numba's.

    states = create_xoroshiro128p_states(blocks * threads, seed=1)

    @cuda.jit
    def fill(states, out):
        i = cuda.grid(1)
        out[i] = xoroshiro128p_uniform_float32(states, i)

For new kernels, `cuda_device.philox` is faster and needs no state in memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import float32, float64, uint64

from cuda_device import cpu_stream, func, kernel, launch
from cuda_device.plugins.numba.host_api import DeviceNDArray, to_device

xoroshiro128p_dtype = xoroshiro128p_type = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)
_JUMP = 0xBEAC0467EBA5FACB, 0xD86B048B86AA9922


@func
def _rotated(x: Any, k: Any) -> Any:
    return x << k | x >> (64 - k)


@func
def init_xoroshiro128p_state(states: Any, index: Any, seed: Any) -> None:
    """Initialises the state `states[index]` with SplitMix64 from the seed."""
    z = uint64(seed) + uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> 30) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> 27) * uint64(0x94D049BB133111EB)
    z ^= z >> 31
    states[index].s0 = z
    states[index].s1 = z


@func
def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """Returns the next uint64 of `states[index]`, and advances the state by one number."""
    s0, s1 = states[index].s0, states[index].s1
    mixed = s0 ^ s1
    states[index].s0 = _rotated(s0, 55) ^ mixed ^ mixed << 14
    states[index].s1 = _rotated(mixed, 36)
    return s0 + s1


@func
def xoroshiro128p_jump(states: Any, index: Any) -> None:
    """Advances `states[index]` by `2**64` numbers."""
    s0, s1 = uint64(0), uint64(0)
    for word in range(2):
        bits = uint64(_JUMP[0]) if word == 0 else uint64(_JUMP[1])
        for bit in range(64):
            if bits >> bit & uint64(1):
                s0 ^= states[index].s0
                s1 ^= states[index].s1
            xoroshiro128p_next(states, index)
    states[index].s0 = s0
    states[index].s1 = s1


@func
def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """Returns a float64 in [0, 1), and advances `states[index]` by one number."""
    return float64(xoroshiro128p_next(states, index) >> 11) * float64(1 / (1 << 53))


@func
def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """Returns a float32 in [0, 1], and advances `states[index]` by one number."""
    return float32(xoroshiro128p_uniform_float64(states, index))


@func
def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """Returns a float32 of the standard normal distribution (Box-Muller), and advances `states[index]` by two numbers."""
    radius = math.sqrt(float32(-2.0) * math.log(xoroshiro128p_uniform_float32(states, index)))
    return radius * math.cos(float32(2 * math.pi) * xoroshiro128p_uniform_float32(states, index))


@func
def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """Returns a float64 of the standard normal distribution from uniform float32, as numba does; advances by two numbers."""
    radius = math.sqrt(float64(-2.0) * math.log(float64(xoroshiro128p_uniform_float32(states, index))))
    return radius * math.cos(float64(2 * math.pi) * float64(xoroshiro128p_uniform_float32(states, index)))


@kernel(checked=False)
def _initialise(states: Any, seed: uint64, start: uint64) -> None:
    init_xoroshiro128p_state(states, 0, seed)
    for _ in range(start):
        xoroshiro128p_jump(states, 0)
    for i in range(1, len(states)):
        states[i] = states[i - 1]
        xoroshiro128p_jump(states, i)


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: Any = 0) -> DeviceNDArray:
    """Returns states for `n` threads, on the device: each is `2**64` numbers ahead of the previous one.

    The first is `subsequence_start` such steps ahead of the state of `seed`.
    """
    states = np.zeros(n, xoroshiro128p_dtype)
    if n:
        launch(_initialise, states, seed & ~(~0 << 64), subsequence_start, grid=1, block=1, stream=cpu_stream())
    return to_device(states, stream)


def init_xoroshiro128p_states(states: Any, seed: int, subsequence_start: int = 0, stream: Any = 0) -> None:
    """Initialises all states of an array on the device, as `create_xoroshiro128p_states` does."""
    states.copy_to_device(create_xoroshiro128p_states(len(states), seed, subsequence_start), stream)
