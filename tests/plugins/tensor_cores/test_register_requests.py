"""`set_max_registers`: what it asks for, and the sums that no block has."""

import warnings

import numpy as np
import pytest
from conftest import can_assemble

import cuda_device as device
from cuda_device import set_max_registers, shfl_sync, thread_idx

pytestmark = pytest.mark.needs("tensor_cores")
FLOATS = device.ArrayType(np.float32, 1)


def flat():
    return thread_idx.x // 128


def shifted():
    return thread_idx.x >> 7


def signed():
    return device.int32(thread_idx.x) // 128


def of_warps():
    return shfl_sync(0xFFFFFFFF, thread_idx.x // 32, 0) // 4


def produce(x, n):
    set_max_registers(n)
    x[0] = 1


def specialised(first, rest, warpgroup=flat, **options):
    """A kernel whose first warpgroup asks for `first` registers, the others for `rest`."""

    @device.kernel(**{"max_threads": 384, **options})
    def kernel(x):
        if warpgroup() == 0:
            produce(x, first)
        else:
            set_max_registers(rest)
            x[thread_idx.x] = 2

    return kernel


def directions(kernel):
    text = device.compile(kernel, FLOATS, target="sm_90a", output="ptx").code
    return [line.strip("\t;").removeprefix("setmaxnreg.") for line in text.splitlines() if "setmaxnreg" in line]


@pytest.mark.parametrize(
    "options, n, direction",
    [
        ({}, 168, "dec"), ({}, 176, "inc"), ({"max_threads": 256}, 256, "dec"), ({"max_threads": 1024}, 64, "dec"),
        ({"max_threads": 1024}, 72, "inc"), ({"max_threads": 128, "min_blocks": 4}, 136, "inc"),
        ({"max_registers": 128}, 136, "inc"),
    ],
)  # fmt: skip
def test_more_than_at_the_start_is_an_increase(options, n, direction):
    @device.kernel(**{"max_threads": 384, **options})
    def kernel(x):
        if thread_idx.x < x[0]:
            set_max_registers(n)

    assert directions(kernel) == [f"{direction}.sync.aligned.u32 {n}"]


@pytest.mark.skipif(not can_assemble("sm_90a", by="ptxas"), reason="no ptxas")
def test_the_assembler_honours_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = device.compile(specialised(24, 240), FLOATS, target="sm_90a")
    assert (compiled.registers, compiled.warnings, compiled.spills) == (168, (), 0)


def test_on_cpu_streams_it_has_no_effect():
    x = np.zeros(384, np.float32)
    device.launch(specialised(24, 240), x, grid=1, block=384, stream=device.cpu_stream())
    assert x.tolist() == [1] + [0] * 127 + [2] * 256


@pytest.mark.parametrize("warpgroup", [flat, shifted, signed, of_warps])
def test_a_sum_that_no_block_has(warpgroup):
    right = specialised(24, 240, warpgroup), specialised(240, 24, warpgroup), specialised(40, 232, warpgroup)
    for kernel in right:
        device.compile(kernel, FLOATS, target="sm_90a", output="ptx")
    wrong, x = specialised(40, 240, warpgroup), np.zeros(384, np.float32)
    ways = (
        lambda: device.compile(wrong, FLOATS, target="sm_90a", output="ptx"),
        lambda: device.launch(wrong, x, grid=1, block=384, stream=device.cpu_stream()),
    )
    for way in ways:
        with pytest.raises(device.CompileError) as caught:
            way()
        assert caught.value.reason == (
            "the warpgroups of this kernel ask for 40, 240, 240 registers a thread, 66560 in all, but a block of 384 threads has "
            "64512: some warpgroup would wait for ever"
        )
        assert caught.value.help == "let them ask for at most 504 together"
        assert "set_max_registers(rest)" in str(caught.value)


def rising(x):
    set_max_registers(40)
    for _ in range(int(x[0])):
        x[1] += 1
    set_max_registers(240)


def perhaps_in_a_call(x):
    if x[2] > 0:
        set_max_registers(232)


def rising_by_calls(x):
    set_max_registers(40)
    perhaps_in_a_call(x)
    produce(x, 240)
    x[3] = 1


def lowered_in_the_end(x):
    set_max_registers(240)
    perhaps_in_a_call(x)
    set_max_registers(40)


def by_a_flag(x):
    if x[0] > 0:
        set_max_registers(240)
    else:
        set_max_registers(24)


def along_y(x):
    if thread_idx.y == 0:
        set_max_registers(240)
    else:
        set_max_registers(24)


def of_one_warpgroup(x):
    if thread_idx.x // 128 == 1:
        set_max_registers(240)


def perhaps(x):
    for i in range(int(x[0])):
        if x[i] > 1:
            set_max_registers(240)


@pytest.mark.parametrize(
    "body, refused",
    [
        (rising, True),
        (rising_by_calls, True),
        (lowered_in_the_end, False),
        (perhaps_in_a_call, False),
        (by_a_flag, False),
        (along_y, False),
        (of_one_warpgroup, False),
        (perhaps, False),
    ],
)
def test_only_what_is_certain_is_refused(body, refused):
    """The last request of a warpgroup counts; one that may not be made does not, nor do blocks with two axes."""

    @device.kernel(max_threads=384)
    def kernel(x):
        body(x)

    if not refused:
        device.compile(kernel, FLOATS, target="sm_90a", output="ptx")
        return
    with pytest.raises(device.CompileError, match="ask for 240, 240, 240 registers a thread, 92160 in all"):
        device.compile(kernel, FLOATS, target="sm_90a", output="ptx")


@pytest.mark.parametrize("n", [0, 16, 28, 264, -8, 24.0, True])
def test_other_numbers_are_refused(n):
    with pytest.raises(
        device.CompileError, match="set_max_registers takes a multiple of 8 from 24 to 256, not"
    ) as caught:
        device.compile(specialised(n, 24), FLOATS, target="sm_90a", output="ptx")
    assert "set_max_registers(n)" in str(caught.value) and caught.value.help


def test_what_else_is_refused():
    @device.kernel
    def unlimited(x):
        set_max_registers(24)

    @device.kernel(max_threads=384)
    def unknown(x):
        set_max_registers(int(x[0]))

    with pytest.raises(device.CompileError, match="set_max_registers needs a kernel with max_threads") as caught:
        device.compile(unlimited, FLOATS, target="sm_90a")
    assert "@kernel(max_threads=384)" in caught.value.help
    with pytest.raises(device.CompileError, match="n must be a constant"):
        device.compile(unknown, FLOATS, target="sm_90a")
    for target in ("sm_90", "sm_80"):
        with pytest.raises(
            device.CompileError, match=f"set_max_registers needs sm_90a, and this is compiled for {target}"
        ):
            device.compile(specialised(24, 240), FLOATS, target=target)
    with pytest.raises(device.DeviceOnlyError):
        set_max_registers(24)


@pytest.mark.skipif(not can_assemble("sm_90a"), reason="no assembler for sm_90a")
def test_a_product_that_needs_more_registers_than_a_thread_may_use():
    @device.kernel(max_threads=512)
    def kernel(x):
        a, b = (device.shared_array((rows, 64), device.bfloat16) for rows in (64, 256))
        acc = device.wgmma(None, device.swizzled(a, 128), device.swizzled(b, 128))
        x[thread_idx.x] = device.wgmma_wait(0, acc)[0]

    with pytest.raises(device.CompileError, match=r"needs 15\d registers a thread, and a thread may use 128") as error:
        device.compile(kernel, FLOATS, target="sm_90a", output="cubin")
    assert "lower max_threads" in str(error.value)
