"""Stores bypass the L1 cache in kernels that read nothing that they write."""

import re

import numpy as np
import pytest

import cuda_device as device
from cuda_device.codegen.gpu.peephole import apply_peepholes

STORES = "\tst.global.b32 \t[%rd1], %r1;\n\t@%p1 st.global.v2.f32 \t[%rd1], {%f1, %f2};\n"
OWN = "\tld.param.b64 \t%rd1, [k_param_0];\n\tld.shared.b32 \t%r2, [%r3];\n\tld.local.b32 \t%r2, [%r3];\n"
NC = "\tld.global.nc.b32 \t%r1, [%rd2];\n"


def test_what_is_only_written():
    for text in (NC, OWN + NC):
        found = apply_peepholes(text + STORES)
        assert found.count("st.global.L1::no_allocate.") == 1 + STORES.count("@")
        assert found.replace("L1::no_allocate.", "") == text + STORES
        assert apply_peepholes(found) == found


@pytest.mark.parametrize(
    "reads",
    [
        "\tld.global.b32 \t%r1, [%rd1];\n",
        "\t@%p1 ld.global.b32 \t%r1, [%rd1];\n",
        "\tld.b32 \t%r1, [%rd1];\n",
        "\tld.volatile.global.b32 \t%r1, [%rd1];\n",
        "\tld.acquire.gpu.global.b32 \t%r1, [%rd1];\n",
        "\tatom.relaxed.gpu.global.add.u32 \t%r1, [%rd1], 1;\n",
        "\tred.relaxed.gpu.global.add.u32 \t[%rd1], 1;\n",
        "\tcall.uni (retval0), vprintf, (param0, param1);\n",
    ],
)
def test_what_may_be_read(reads):
    assert apply_peepholes(NC + reads + STORES) == NC + reads + STORES


def test_who_reads_nothing_needs_no_cache():
    assert apply_peepholes(OWN + STORES) == OWN + STORES


def test_ordered_stores_stay():
    text = "\tst.volatile.global.b32 \t[%rd1], %r1;\n\tst.release.gpu.global.b32 \t[%rd1], %r1;\n\tst.shared.b32 \t[%r1], %r2;\n"
    assert apply_peepholes(NC + text) == NC + text


def scaled(x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] = 2 * x[i]


def added(x, y):
    i = device.tid(1)
    if i < len(y):
        y[i] += 2 * x[i]


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("function", "past"), [(scaled, True), (added, False)])
def test_kernels(stream, function, past, dtype):
    """The arrays of these launches do not overlap."""
    kernel = device.kernel(function)
    x, y = np.arange(40).astype(dtype), np.arange(40)[::-1].astype(dtype)
    assert np.array_equal(stream.run(kernel, x, y, grid=2, block=32)[-1], 2 * x + (0 if past else y))
    text = device.compile(kernel, x, y, target="sm_90", output="ptx", launch_facts=True).code
    stores = re.findall(r"\tst\.global[\w.:]*", text)
    assert stores and all(("L1::no_allocate" in each) == past for each in stores)
    if past:
        device.compile(kernel, x, y, target="sm_75", launch_facts=True)  # the oldest, down to machine code
        device.compile(kernel, x, y, target="sm_120", launch_facts=True)
