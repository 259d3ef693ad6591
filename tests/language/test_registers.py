"""What programs cost in PTX: lists stay in registers, and loops over generators are unrolled."""

from __future__ import annotations

import cuda_device as device


def test_a_short_list_stays_in_registers():
    @device.kernel
    def count(a, out):
        bins = [0] * 4
        for v in a:
            bins[v & 3] += 1
        for i, many in enumerate(bins):
            out[i] = many

    arrays = (device.ArrayType(device.int32, 1),) * 2
    text = device.compile(count, *arrays, output="ptx").code
    assert ".local" not in text


def test_a_loop_over_a_generator_is_unrolled_as_other_loops_are():
    """LLVM sees through the step of a generator: loads of several values wait for memory together."""

    @device.kernel
    def sums(x, y):
        i = device.tid(1)
        y[i] = sum(x[j] * x[j] for j in range(i))

    floats = device.ArrayType(device.float64, 1)
    ptx = device.compile(sums, floats, floats, output="ptx").code
    assert ptx.count("ld.global") > 4
    assert ptx.count("bra") < 9
