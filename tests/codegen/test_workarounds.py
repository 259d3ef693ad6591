"""Workarounds for bugs of assemblers and of LLVM: the rewritten PTX, and the results of kernels on each stream."""

import numpy as np
import pytest
from conftest import can_assemble

import cuda_device as device
from cuda_device import bfloat16, float32
from cuda_device.codegen.gpu.peephole import avoid_faults

LEAST = """.visible .entry k(
)
{
	neg.s32 	%r2, %r1;
	min.s32 	%r4, %r3, %r2;
	min.s32 	%r5, %r6, %r4;
	ret;
}
"""


def test_negated_numbers_of_which_the_least_is_wanted():
    assert "\tnot.b32 \t%r2, %r1;\n\tadd.s32 \t%r2, %r2, 1;\n\tmin.s32" in avoid_faults(LEAST)
    assert "neg" not in avoid_faults(LEAST.replace("min", "max"))


@pytest.mark.parametrize("harmless", ["min.u32", "min.s64", "add.s32"])
def test_other_negations_stay(harmless):
    for text in (LEAST.replace("min.s32", harmless), LEAST.replace("min.s32 \t%r5", "add.s32 \t%r5")):
        assert avoid_faults(text) == text


def test_each_function_is_looked_at_alone():
    other = LEAST.replace("entry k", "func f").replace("min.s32", "add.s32")
    assert avoid_faults(LEAST + other) == avoid_faults(LEAST) + other


@pytest.mark.parametrize("place", ["[f_param_0]", "[retval0]", "[f_param_0+1]"])
def test_signed_bytes(place):
    text = f".func f(\n)\n{{\n\tld.param.s8 \t%rs2, {place};\n\tld.param.s8 \t%r2, {place};\n\tret;\n}}\n"
    assert f"\tld.param.b8 \t%rs2, {place};\n\tcvt.s16.s8 \t%rs2, %rs2;\n\tld.param.s8 \t%r2, {place};" in avoid_faults(
        text
    )


@pytest.mark.parametrize(
    "flushing",
    [
        *("setp.gt.ftz.bf16", "setp.gt.ftz.bf16x2", "set.gt.ftz.bf16.bf16", "min.ftz.bf16", "max.ftz.bf16x2"),
        *("add.rn.ftz.bf16", "sub.ftz.bf16", "mul.rn.ftz.bf16x2", "fma.rn.ftz.bf16", "neg.ftz.bf16", "abs.ftz.bf16"),
    ],
)
def test_subnormal_numbers_of_bfloat16_are_kept(flushing):
    assert avoid_faults(f"\t{flushing} \t%rs1, %rs2;\n") == f"\t{flushing.replace('.ftz', '')} \t%rs1, %rs2;\n"


@pytest.mark.parametrize(
    "instruction",
    ["ex2.approx.ftz.bf16", "cvt.ftz.f32.bf16", "cvt.rn.ftz.bf16.f32", "setp.gt.ftz.f32", "max.ftz.f16x2"],
)
def test_other_subnormal_numbers_are_flushed(instruction):
    text = f"\t{instruction} \t%rs1, %rs2;\n"
    assert avoid_faults(text) == text


@device.kernel(fastmath=True)
def chosen(x, y, out):
    """LLVM compares the numbers as bfloat16, because their conversions are exact."""
    i = device.tid(1)
    out[i, 0] = x[i] if float32(x[i]) > float32(y[i]) else y[i]
    out[i, 1] = x[i] if float32(x[i]) < float32(y[i]) else y[i]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_comparisons_of_bfloat16_can_be_assembled(target):
    arguments = device.ArrayType(bfloat16, 1), device.ArrayType(bfloat16, 1), device.ArrayType(bfloat16, 2)
    text = device.compile(chosen, *arguments, target=target, output="ptx").code
    assert "\tsetp.gt.bf16 " in text and "\tsetp.lt.bf16 " in text
    if can_assemble(target):
        device.compile(chosen, *arguments, target=target)


def test_the_larger_and_the_smaller_of_bfloat16(stream):
    dtype = device.numpy_dtype(bfloat16)
    x, y = (np.random.default_rng(seed).normal(size=128).astype(dtype) for seed in (1, 2))
    out = stream.run(chosen, x, y, np.zeros((128, 2), dtype), block=128)[-1]
    assert np.array_equal(out, np.stack([np.maximum(x, y), np.minimum(x, y)], axis=-1))


def module(**calls):
    """Functions that call others and synchronise."""
    return "".join(
        f".func  (.param .align 16 .b8 func_retval0[8]) {name}(\n\t.param .b32 x\n)\n{{\n"
        + "".join(f"\t{{\n\tcall.uni (retval0), {called}, (param0);\n\t}}\n" for called in sorted(names))
        + f"{MEETING}\tret;\n}}\n"
        for name, names in calls.items()
    )


MEETING = """\
	bar.warp.sync 	-1;
	shfl.sync.idx.b32 	%r29, %r129, %r28, 31, -1;
	vote.sync.ballot.b32 	%r30, %p2, -1;
	match.any.sync.b32 	%r31, %r29, -1;
	bar.sync 	0;
	barrier.cta.red.popc.aligned.u32 	%r32, 0, %p1;
	add.s32 	%r33, %r32, %r31;
"""


def test_meetings_in_programs_with_recursion():
    """In all functions: threads that diverge in one may synchronise in another."""
    without = module(leaf=(), other={"leaf"})
    assert avoid_faults(without) == without
    for calls in ({"f": {"f", "leaf"}}, {"even": {"odd"}, "odd": {"even", "leaf"}}):
        text = avoid_faults(module(leaf=(), caller={"leaf"}, **calls))
        for line in MEETING.splitlines(keepends=True)[:-1]:
            assert text.count(f"@%apart bra \t$L__behind;\n{line}$L__behind:\n") == 2 + len(calls)
        assert text.count("@%apart") == 6 * (2 + len(calls))


NUMBERS = np.array([0, 1, -1, 5, -5, 100, 2**31 - 1, -(2**31), -(2**31) + 1], np.int32)


@pytest.mark.parametrize("reduce", [min, max])
def test_three_numbers_and_one_of_them_negated(stream, reduce):
    @device.kernel
    def k(a, b, c, out):
        i = device.tid(1)
        if i < len(out):
            out[i] = reduce(a[i], reduce(b[i], -c[i]))

    a, b, c = (each.ravel().copy() for each in np.meshgrid(NUMBERS, NUMBERS, NUMBERS))
    out = stream.empty(a.size, np.int32)
    stream.launch(k, stream.array(a), stream.array(b), stream.array(c), out, grid=-(-a.size // 128), block=128)
    chosen = np.minimum if reduce is min else np.maximum
    assert np.array_equal(stream.numpy(out), chosen(a, chosen(b, -c)))


def test_every_short_number_negated_and_its_size(stream):
    @device.kernel
    def k(x, negated, size, below, least):
        i = device.tid(1)
        minus, absolute = -x[i], abs(x[i])
        negated[i] = device.int32(minus)
        size[i] = device.int64(absolute)
        below[i] = minus < 0 or absolute < 0
        least[i] = min(device.int32(minus), min(device.int32(absolute), 5))

    x = np.arange(-(2**15), 2**15).astype(np.int16)
    results = [stream.empty(x.size, dtype) for dtype in (np.int32, np.int64, np.bool_, np.int32)]
    stream.launch(k, stream.array(x), *results, grid=x.size // 128, block=128)
    negated, size, below, least = map(stream.numpy, results)
    assert np.array_equal(negated, (-x).astype(np.int32))
    assert np.array_equal(size, abs(x).astype(np.int64))
    assert np.array_equal(below, (-x < 0) | (abs(x) < 0))
    assert np.array_equal(least, np.minimum(np.minimum(-x, abs(x)), 5))


def compared(a, b):
    return a == b, np.uint8(a) > np.uint8(b), np.uint16(a), a // b if b else a


def as_it_is(a):
    return a


def test_signed_bytes_of_functions(stream):
    """At level 0, functions are called: each takes a pair of bytes, or returns a byte."""

    @device.kernel(level=0)
    def k(a, b, out):
        i = device.tid(1)
        for j in range(len(b)):
            same, above, wide, quotient = compared(a[i], b[j])
            returned = as_it_is(a[i])
            out[i, j, 0] = same
            out[i, j, 1] = above
            out[i, j, 2] = wide
            out[i, j, 3] = quotient
            out[i, j, 4] = returned == b[j]
            out[i, j, 5] = np.uint16(returned)

    a = np.arange(-128, 128).astype(np.int8)
    b = np.array([-128, -2, -1, 0, 1, 3, 127], np.int8)
    out = stream.empty((256, b.size, 6), np.int32)
    stream.launch(k, stream.array(a), stream.array(b), out, grid=2, block=128)
    x, y = np.meshgrid(a.astype(np.int32), b.astype(np.int32), indexing="ij")
    quotient = np.where(y == 0, x, x // np.where(y == 0, 1, y)).astype(np.int8)
    expected = [x == y, x % 256 > y % 256, x % 65536, quotient, x == y, x % 65536]
    assert np.array_equal(stream.numpy(out), np.stack(expected, axis=-1))


def fibonacci(n, start):
    if n < 2:
        return start
    before = fibonacci(n - 1, start + 1)
    return (before + fibonacci(n - 2, before)) % 1000


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def last(n, x):
    return x % 7 if n <= 0 else last(n - 1, x % 5 + n)


def together(depths, shuffled, votes, sums, mixed):
    lane = device.lane_id
    i = device.tid(1)
    found = device.uint32(fibonacci(depths[i], lane))
    shuffled[i] = device.shfl_sync(0xFFFFFFFF, found, (lane * 7 + 3) & 31)
    votes[i] = device.ballot_sync(0xFFFFFFFF, even(depths[i]))
    total = 0
    for k in range(depths[0], 5):
        total += device.shfl_xor_sync(0xFFFFFFFF, fibonacci(depths[i] + k, lane), k)
    sums[i] = total
    mine = device.shared_array(128, np.int32)
    mine[device.thread_idx.x] = last(depths[i], i)
    device.syncthreads()
    mixed[i] = mine[(device.thread_idx.x * 5 + 1) & 127]


@pytest.mark.parametrize("level", [0, 3])
def test_threads_are_together_after_recursion(stream, level):
    """The threads of a warp have different depths of recursion, and then exchange their results."""
    depths = np.random.default_rng(3).integers(0, 9, 256).astype(np.int32)
    depths[0] = 0
    results = [stream.empty(depths.size, dtype) for dtype in (np.uint32, np.uint32, np.int64, np.int32)]
    stream.launch(device.kernel(together, level=level), stream.array(depths), *results, grid=2, block=128)
    shuffled, votes, sums, mixed = map(stream.numpy, results)
    lanes, warps = np.arange(256) % 32, np.arange(256) // 32 * 32
    found = np.array([fibonacci(int(n), lane) for n, lane in zip(depths, lanes.tolist(), strict=True)])
    assert np.array_equal(shuffled, found[warps + (lanes * 7 + 3) % 32])
    bits = (depths.reshape(8, 32) % 2 == 0) @ (1 << np.arange(32))
    assert np.array_equal(votes, bits.repeat(32))
    expected = sum(
        np.array([fibonacci(int(depths[at]) + k, int(at) % 32) for at in warps + (lanes ^ k)]) for k in range(5)
    )
    assert np.array_equal(sums, expected)
    ends = np.array([last(int(n), i) for i, n in enumerate(depths)])
    blocks = np.arange(256) // 128 * 128
    assert np.array_equal(mixed, ends[blocks + (np.arange(256) % 128 * 5 + 1) % 128])


def deep(n, x):
    return x if n < 2 else deep(n - 1, deep(n - 2, x + 1)) % 1000


@pytest.mark.parametrize("level", [0, 3])
def test_shared_memory_after_recursion(stream, level):
    """Results of other threads are read from shared memory after barriers of the warp and of the block."""

    @device.kernel(level=level)
    def k(depths, out):
        i, me = device.tid(1), device.thread_idx.x
        found = device.shared_array(128, np.int32)
        found[me] = deep(depths[i], me)
        device.syncwarp(0xFFFFFFFF)
        neighbour = found[me ^ 1]
        device.syncwarp(0xFFFFFFFF)
        found[me] = deep((depths[i] + 1) % 9, neighbour)
        device.syncthreads()
        out[i] = found[127 - me]

    depths = np.random.default_rng(5).integers(0, 9, 256).astype(np.int32)
    out = stream.empty(depths.size, np.int32)
    stream.launch(k, stream.array(depths), out, grid=2, block=128)
    first = np.array([deep(n, i % 128) for i, n in enumerate(depths.tolist())])
    second = np.array([deep((n + 1) % 9, first[i ^ 1]) for i, n in enumerate(depths.tolist())])
    assert np.array_equal(stream.numpy(out), second.reshape(2, 128)[:, ::-1].ravel())
