"""Philox: counter-based random numbers, which need no state and are the same on the host, the CPU stream and GPUs.

    rng = device.philox(seed, i)                a separate sequence for each thread
    for k in range(steps):
        x += rng.normal(k)                      any element of the sequence, in any order

J. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

import math
from typing import Any

from numpy import float32, float64, uint32, uint64

from cuda_device import float32x4, func, is_host, mulhi, struct, target, uint32x4, uint64x4

_ROUNDS = 10
_NARROW = (uint32(0xD2511F53), uint32(0xCD9E8D57)), (uint32(0x9E3779B9), uint32(0xBB67AE85))
_WIDE = (
    (uint64(0xD2E7470EE14C6C93), uint64(0xCA5A826395121157)),
    (uint64(0x9E3779B97F4A7C15), uint64(0xBB67AE8584CAA73B)),
)


@func
def philox4x32(counter: Any, key: Any) -> Any:
    """Returns four random uint32 for a counter of four words and a key of two: Philox4x32-10 of cuRAND and Random123.

    `counter` and `key` are vectors or tuples, the lowest word first; their elements become uint32. Works on host and device.
    """
    return uint32x4(*_philox(counter, key, uint32, *_NARROW))


@func
def philox4x64(counter: Any, key: Any) -> Any:
    """Returns four random uint64 for a counter of four words and a key of two: Philox4x64-10 of NumPy and Random123.

    `counter` and `key` are vectors or tuples, the lowest word first; their elements become uint64. NumPy increments the counter
    first: `np.random.Philox(counter=c, key=k).random_raw()` returns the elements of `philox4x64` for c + 1, then for c + 2, and
    so on. Works on host and device.
    """
    return uint64x4(*_philox(counter, key, uint64, *_WIDE))


@func
def _philox(counter: Any, key: Any, word: Any, factors: Any, steps: Any) -> Any:
    a, b, c, d = (word(part) for part in counter)
    first, second = word(key[0]), word(key[1])
    for _ in range(_ROUNDS):
        high_a, high_c = mulhi(factors[0], a), mulhi(factors[1], c)
        a, b, c, d = high_c ^ b ^ first, _times(factors[1], c), high_a ^ d ^ second, _times(factors[0], a)
        first, second = _plus(first, steps[0]), _plus(second, steps[1])
    return a, b, c, d


@func
def _times(a: Any, b: Any) -> Any:
    """A product that wraps, also on the host, and there without a warning."""
    if target(is_host):
        return type(a)(int(a) * int(b) % (1 << 8 * a.itemsize))
    return a * b


@func
def _plus(a: Any, b: Any) -> Any:
    if target(is_host):
        return type(a)((int(a) + int(b)) % (1 << 8 * a.itemsize))
    return a + b


@struct
class Philox:
    """A sequence of random numbers with random access, created by `philox`."""

    seed: uint64
    subsequence: uint64
    offset: uint64

    @func
    def bits(self, i: Any) -> Any:
        """Returns number `offset + i` of the sequence, a uint32, as the i-th call of cuRAND's `curand` does."""
        position = self.offset + uint64(i)
        return self._block(position >> uint64(2))[int(position & uint64(3))]

    @func
    def bits4(self, i: Any) -> Any:
        """Returns `bits(4 * i)` to `bits(4 * i + 3)`, for the cost of one of them if `offset` is a multiple of 4."""
        position = self.offset + uint64(4) * uint64(i)
        if position & uint64(3) == 0:
            return self._block(position >> uint64(2))
        first = 4 * uint64(i)
        return uint32x4(self.bits(first), self.bits(first + 1), self.bits(first + 2), self.bits(first + 3))

    @func
    def uniform(self, i: Any, dtype: Any = float32) -> Any:
        """Returns a number from 0 up to but not including 1, made from the upper bits of `bits(i)` as in NumPy.

        A float32 has 24 random bits; a float64 has 53, from `bits(2 * i + 1)` and `bits(2 * i)`. Host, CPU stream and GPU give
        the same numbers, bit for bit. (`curand_uniform` instead returns numbers greater than 0 up to 1: `x * 2**-32 + 2**-33`.)
        """
        if dtype is float64:
            return float64(self._wide(i) >> uint64(11)) * 2.0**-53
        return _unit(self.bits(i))

    @func
    def uniform4(self, i: Any) -> Any:
        """Returns `uniform(4 * i)` to `uniform(4 * i + 3)`, like `bits4`."""
        a, b, c, d = self.bits4(i)
        return float32x4(_unit(a), _unit(b), _unit(c), _unit(d))

    @func
    def normal(self, i: Any, dtype: Any = float32) -> Any:
        """Returns a normally distributed float32 or float64 with mean 0 and variance 1, by the Box-Muller transform.

        Numbers 2 * k and 2 * k + 1 are the sine and the cosine part for the same two numbers of the sequence, as in
        `curand_normal`. Results on host, CPU stream and GPU differ only by the rounding of logarithm, sine and cosine.
        """
        pair = uint64(i) >> uint64(1) << uint64(1)
        if dtype is float64:
            first = float64(self._wide(pair) >> uint64(11)) * 2.0**-53 + 2.0**-54
            second = float64(self._wide(pair + uint64(1)) >> uint64(11)) * 2.0**-53 + 2.0**-54
        else:
            first, second = _above_zero(self.bits(pair)), _above_zero(self.bits(pair + uint64(1)))
        both = _normal_pair(first, second)
        return both[int(uint64(i) & uint64(1))]

    @func
    def normal4(self, i: Any) -> Any:
        """Returns `normal(4 * i)` to `normal(4 * i + 3)`, like `bits4`."""
        a, b, c, d = self.bits4(i)
        return float32x4(*_normal_pair(_above_zero(a), _above_zero(b)), *_normal_pair(_above_zero(c), _above_zero(d)))

    @func
    def _block(self, position: Any) -> Any:
        counter = _low(position), _high(position), _low(self.subsequence), _high(self.subsequence)
        return philox4x32(counter, (_low(self.seed), _high(self.seed)))

    @func
    def _wide(self, i: Any) -> Any:
        first = uint64(2) * uint64(i)
        return uint64(self.bits(first + uint64(1))) << uint64(32) | uint64(self.bits(first))


@func
def philox(seed: Any, subsequence: Any = 0, offset: Any = 0) -> Philox:
    """Returns the random numbers of cuRAND's `curand_init(seed, subsequence, offset)` for `curandStatePhilox4_32_10_t`.

    The arguments become uint64. Sequences with the same seed and different `subsequence`, such as the index of a thread, are
    independent. The methods of the result take the position of a number, so there is no state to store: `bits(i)`, `uniform(i)`
    and `normal(i)`, and `bits4(i)`, `uniform4(i)` and `normal4(i)`, which return four numbers for the cost of one. Number i
    comes from `philox4x32` with `seed` as the key and a counter whose lower 64 bits are (offset + i) // 4 and whose upper 64
    bits are `subsequence`. Works on host and device.
    """
    return Philox(uint64(seed), uint64(subsequence), uint64(offset))


@func
def _low(word: Any) -> Any:
    return uint32(word & uint64(0xFFFFFFFF))


@func
def _high(word: Any) -> Any:
    return uint32(word >> uint64(32))


@func
def _unit(bits: Any) -> Any:
    return float32(bits >> uint32(8)) * 2.0**-24


@func
def _above_zero(bits: Any) -> Any:
    """A float32 above 0, and 1 at most."""
    return float32(bits) * 2.0**-32 + 2.0**-33


@func
def _normal_pair(first: Any, second: Any) -> Any:
    size, angle = math.sqrt(-2 * math.log(first)), 2 * math.pi * second
    return type(first)(size * math.sin(angle)), type(first)(size * math.cos(angle))
