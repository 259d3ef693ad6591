"""Threads of a warp: shuffles and matches of every type, and what is refused or reported.

See also programs/warps.txt.

Kernels are valid CUDA programs; what reports deadlock runs on the CPU alone.
"""

import re

import numpy as np
import pytest
from conftest import poison
from test_sync import report_of

import cuda_device as device
from cuda_device import CompileError

ALL = 0xFFFFFFFF
LANES = np.arange(32)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
DTYPES = (np.bool_, *INTEGERS, np.float16, np.float32, np.float64)


def sample(dtype, count, seed=0):
    """Numbers of a type with all of its bits in use."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(count).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)


def signed(bits):
    """The int32 with these bits."""
    return np.asarray(bits, np.uint64).astype(np.uint32).view(np.int32)


# Shuffles


@device.kernel
def shuffles(out, x, mask, lane):
    i = device.tid(1)
    out[0, i] = device.shfl_sync(mask, x[i], lane)
    out[1, i] = device.shfl_up_sync(mask, x[i], lane)
    out[2, i] = device.shfl_down_sync(mask, x[i], lane)
    out[3, i] = device.shfl_xor_sync(mask, x[i], lane)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shuffles_of_every_type(stream, dtype):
    x = sample(dtype, 96)
    for lane in (0, 1, 7, 16, 31):
        out, _ = stream.run(shuffles, poison((4, 96), dtype), x, np.uint32(ALL), lane, block=96)
        up, down = LANES - lane, LANES + lane
        sources = [np.full(32, lane), np.where(up < 0, LANES, up), np.where(down > 31, LANES, down), LANES ^ lane]
        for row, lanes in zip(out, sources, strict=True):
            assert row.tobytes() == x.reshape(3, 32)[:, lanes].tobytes()


def each_lane_asks_another(lane, x, sources):
    return (device.shfl_sync(-1, x[lane], sources[lane]),)


def builtin_numbers_and_constants(lane):
    number = 3
    for _ in range(lane):
        number = number + 2
    half = device.shfl_xor_sync(ALL, 0.5, 1)
    return (
        device.shfl_sync(ALL, number, 5),
        device.shfl_sync(ALL, 42, 5),
        half,
        device.shfl_down_sync(ALL, lane == 9, 3),
    )


def tuples(lane, x, y):
    (d, e), f = device.shfl_down_sync(ALL, ((y[lane], y[lane]), x[lane] > 0), 2)
    return (*device.shfl_xor_sync(ALL, (x[lane], lane == 3, y[lane]), 1), d + e, f)


def sixteen_bytes(lane, x):
    return (*device.shfl_up_sync(ALL, (x[lane], lane), 1), *device.shfl_sync(ALL, (x[lane], -x[lane]), 7))


def vectors(lane):
    a = device.shfl_xor_sync(ALL, device.int8x4(lane, -lane, lane + 1, 7), 1)
    b = device.shfl_sync(ALL, device.float32x2(lane * 0.5, -1.0), 9)
    c = device.shfl_down_sync(ALL, device.float64x2(lane, lane * 2), 1)
    same = device.match_any_sync(ALL, device.int32x2(lane // 16, 3)) == 0xFFFF0000
    return (a.x, a.y, a.z + a.w, b.x, b.y, c.x + c.y, same)


def masks_as_they_are_written(lane):
    full = device.ballot_sync(-1, True)
    half = device.WarpMask(0xFFFF0000) if lane >= 16 else device.WarpMask(0x0000FFFF)
    return (
        device.ballot_sync(0xFFFFFFFF, lane < 3),
        device.ballot_sync(-1, lane < 4),
        device.ballot_sync(device.uint32(0xFFFFFFFF), lane < 5),
        device.ballot_sync(device.WarpMask(0xFFFFFFFF), lane > 30),
        device.ballot_sync(~device.WarpMask(0), True),
        device.ballot_sync(full, lane == 31),
        device.ballot_sync(half, lane % 4 == 0),
    )


def operators_of_masks(lane, variable):
    m = device.WarpMask(variable[0])
    n = device.ballot_sync(ALL, lane % 2 == 0)
    masks = (~m, m & n, m | n, m ^ n, m & 0xF0000000, 0x80000001 | n, m ^ variable[0], n + 1)
    n_is_even = n == 0x55555555 and ~n == 0xAAAAAAAA
    return (*masks, m[lane], n[31] or n[1], n_is_even, m == variable[0], m != n, (~n)[31] and n[30])


def is_positive():
    return device.lane_id > 3


@device.func
def is_small():
    return device.lane_id < 7


@device.func
def below(limit):
    return device.lane_id < limit


def predicates(lane, limit):
    bound = lane + limit

    def nested():
        return lane == limit

    return (
        device.ballot_sync(ALL, is_positive),
        device.ballot_sync(ALL, is_small),
        device.ballot_sync(ALL, lambda: bound > 20),
        device.ballot_sync(pred=lambda: below(limit), mask=-1),
        device.ballot_sync(-1, nested),
        device.ballot_sync(-1, lambda: True),
        device.ballot_sync(-1, lambda: lane & 1),
    )


def bits_match(lane, x):
    return (device.match_any_sync(ALL, x[lane]),)


def sixteen_bytes_match(lane, x, y):
    return (device.match_any_sync(ALL, (x[lane], y[lane])),)


BITS, EVEN = 0xC0FFEE01, 0x55555555
OTHER, ABOVE, BELOW = LANES ^ 1, np.minimum(LANES + 1, 31), np.maximum(LANES - 1, 0)
BELOW_2 = np.where(LANES < 30, LANES + 2, LANES)
SOURCES = np.random.default_rng(3).integers(0, 32, 32, dtype=np.int32)
X, Y, Z = sample(np.float32, 32), sample(np.int8, 32) // 2, sample(np.float64, 32)
ZEROS = np.where((LANES >= 8) & (LANES < 16), np.nan, np.where(LANES % 2, -0.0, 0.0))
OF_ZEROS = np.where(np.isnan(ZEROS), 0xFF00, np.where(LANES % 2, 0xAAAA00AA, 0x55550055))
GROUPS, PARITY = LANES // 8 % 2 + 0.0, LANES % 2 + (1 << 40)
SAME = (GROUPS[:, None] == GROUPS) & (PARITY[:, None] == PARITY)
OF_MASKS = [~BITS & ALL, BITS & EVEN, BITS | EVEN, BITS ^ EVEN, BITS & 0xF0000000, 0x80000001 | EVEN, 0, EVEN + 1]
ONE_WARP = [
    (each_lane_asks_another, (Z, SOURCES), [Z[SOURCES]]),
    (builtin_numbers_and_constants, (), [13, 42, 0.5, LANES == 6]),
    (tuples, (X, Y), [X[OTHER], OTHER == 3, Y[OTHER], 2.0 * Y[BELOW_2], X[BELOW_2] > 0]),
    (sixteen_bytes, (Z,), [Z[BELOW], BELOW, Z[7], -Z[7]]),
    (vectors, (), [OTHER, -OTHER, OTHER + 8, 4.5, -1.0, 3.0 * ABOVE, LANES >= 16]),
    (masks_as_they_are_written, (), [7, 15, 31, 1 << 31, ALL, 1 << 31, np.where(LANES >= 16, 0x11110000, 0x1111)]),
    *(
        (operators_of_masks, (np.array([BITS], np.uint32).view(dtype),), [*OF_MASKS, BITS >> LANES & 1, 0, 1, 1, 1, 1])
        for dtype in (np.uint32, np.int32)
    ),
    (predicates, (5,), [~0b1111 & ALL, 0x7F, ALL << 16 & ALL, 0x1F, 1 << 5, ALL, 0xAAAAAAAA]),
    (bits_match, (ZEROS,), [OF_ZEROS]),
    (sixteen_bytes_match, (GROUPS, PARITY), [SAME @ (1 << LANES)]),
]
IS_MASK = (masks_as_they_are_written, operators_of_masks, predicates, bits_match, sixteen_bytes_match)


@pytest.mark.parametrize(
    ("function", "arguments", "columns"), ONE_WARP, ids=lambda value: getattr(value, "__name__", "")
)
def test_lanes(stream, function, arguments, columns):
    """Each lane computes a tuple; those of masks are compared as 32 bits."""

    @device.kernel
    def kernel(out, arguments):
        lane = device.lane_id
        for k, value in enumerate(function(lane, *arguments)):
            out[lane, k] = value

    out = stream.empty((32, len(columns)), np.int32 if function in IS_MASK else np.float64)
    given = tuple(stream.array(a) if isinstance(a, np.ndarray) else a for a in arguments)
    stream.launch(kernel, out, given, grid=1, block=32)
    expected = np.stack([np.broadcast_to(column, 32) for column in columns], axis=1)
    assert (stream.numpy(out) == (signed(expected) if function in IS_MASK else expected)).all()


# Matches


@device.kernel
def matches(out, x):
    i = device.tid(1)
    out[i, 0] = device.match_any_sync(ALL, x[i])
    lanes, same = device.match_all_sync(ALL, x[i])
    out[i, 1] = lanes
    out[i, 2] = same
    lanes, same = device.match_all_sync(ALL, x[i // 32 * 32], 0)
    out[i, 3] = lanes
    out[i, 4] = device.match_any_sync(ALL, x[i], flag=0)
    out[i, 5] = same


@pytest.mark.parametrize("dtype", DTYPES)
def test_matches_of_every_type(stream, dtype):
    rng = np.random.default_rng(5)
    values = sample(dtype, 5)[rng.integers(0, 5, 96)]
    values[64:] = values[64]
    found = stream.run(matches, poison((96, 6), np.int32), values, block=96)[0].view(np.uint32)
    for warp in range(3):
        mine = values[32 * warp : 32 * warp + 32]
        equal = (mine[:, None] == mine[None, :]).astype(np.uint64) @ (1 << LANES).astype(np.uint64)
        whole = ALL if (mine == mine[0]).all() else 0
        columns = [equal, np.full(32, whole), np.full(32, whole != 0), np.full(32, ALL), equal, np.full(32, 1)]
        assert (found[32 * warp : 32 * warp + 32] == np.stack(columns, axis=1)).all()


# Groups of lanes


@device.kernel
def partial_warp(out, x):
    i = device.tid(1)
    mask = device.uint32(ALL) if i < 32 else device.uint32(0x7F)
    value = x[i]
    for step in range(1, 3):
        value += device.shfl_down_sync(mask, value, step)
    out[i, 0] = value
    out[i, 1] = device.ballot_sync(mask, x[i] > 0)


@pytest.mark.usefixtures("unchecked")
def test_a_partial_warp(stream):
    x = sample(np.int32, 39)
    found = stream.run(partial_warp, poison((39, 2), np.int32), x, block=39)[0]
    with np.errstate(over="ignore"):
        for lanes in (slice(0, 32), slice(32, 39)):
            value = x[lanes].copy()
            size = len(value)
            # Lanes without one above are not in the mask: what they get is unspecified.
            for step in (1, 2):
                value[: size - step] += value[step:].copy()
            whole = slice(lanes.start, lanes.start + size - 3)
            assert (found[whole, 0] == value[: size - 3]).all()
            assert (found[lanes, 1] == signed(((x[lanes] > 0) << np.arange(size)).sum())).all()


@device.kernel
def active(out, limit):
    i = device.tid(1)
    out[i, 0] = device.activemask()
    if device.lane_id < limit:
        out[i, 1] = device.activemask()
    else:
        out[i, 1] = device.activemask()


@pytest.mark.parametrize("limit", [0, 5, 32])
def test_activemask_names_lanes_that_come_together(stream, limit):
    found = stream.run(active, poison((64, 2), np.int32), limit, block=64).view(np.uint32)
    low = (1 << limit) - 1
    for i, (whole, branch) in enumerate(found.tolist()):
        side = low if i % 32 < limit else ~low & ALL
        assert whole == ALL
        assert branch >> (i % 32) & 1
        assert branch & ~side == 0
        if stream.kind == "cpu":
            assert branch == side


# What is wrong


def reductions(mask, x):
    return (
        device.reduce_add_sync(mask, x),
        device.reduce_min_sync(mask, x),
        device.reduce_max_sync(mask, x),
        device.reduce_and_sync(mask, x),
        device.reduce_or_sync(mask, x),
        device.reduce_xor_sync(mask, x),
    )


@device.kernel
def reduced(whole, part, x):
    i = device.tid(1)
    whole[i] = reductions(-1, x[i])
    if device.lane_id < 8:
        part[i] = reductions(0xFF, x[i])
    elif device.lane_id % 3:
        part[i] = reductions(0xFFFFFF00, x[i])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32])
def test_reductions(stream, dtype):
    """Of a whole warp, and of the lanes on either side of a branch, of which some have returned."""
    functions = (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    x, word = sample(dtype, 64), np.int32 if np.dtype(dtype).kind == "i" else np.uint32
    zeros = np.zeros((64, len(functions)), word)
    whole, part, _ = stream.run(reduced, zeros, zeros, x, grid=2, block=32)
    for begin in (0, 32):
        values, expected = x[begin : begin + 32].astype(word), zeros[:32].copy()
        for lanes in (LANES < 8, (LANES >= 8) & (LANES % 3 != 0)):
            expected[lanes] = [function.reduce(values[lanes], dtype=word) for function in functions]
        assert (part[begin : begin + 32] == expected).all()
        assert (whole[begin : begin + 32] == [function.reduce(values, dtype=word) for function in functions]).all()


def test_reductions_need_sm_80():
    with pytest.raises(CompileError) as caught:
        device.compile(wrong("x[i] = device.reduce_max_sync(-1, i)"), np.zeros(32), target="sm_75", output="ptx")
    assert "reduce_max_sync needs sm_80 or later, and this is compiled for sm_75" in str(caught.value)
    assert (
        "test target(provides(sm80)) first, and exchange values with shfl_xor_sync on other targets"
        in caught.value.help
    )
    kernel = wrong("x[i] = device.reduce_max_sync(-1, x[i])")
    for type, instruction in ((np.int32, "redux.sync.max.s32"), (np.uint8, "redux.sync.max.u32")):
        text = device.compile(kernel, np.zeros(32, type), target="sm_80", output="ptx").code
        assert text.count(instruction) == 1


def test_warp_mask_is_an_int32():
    assert issubclass(device.WarpMask, device.int32)


def wrong(source):
    """A kernel with `source` as the only statement."""
    space = {"device": device, "noop": lambda: None, "one": lambda x: x}
    exec(f"def kernel(x):\n    i = device.tid(1)\n    {source}\n", space)
    return device.kernel(space["kernel"])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x[i] = device.shfl_sync(True, x[i], 0)", "a mask must be an integer"),
        ("device.syncwarp(x)", "a mask must be an integer"),
        ("x[i] = device.shfl_sync(-1, x[i], 32)", "src_lane must be an integer from 0 to 31, not 32"),
        ("x[i] = device.shfl_up_sync(-1, x[i], -1)", "delta must be an integer from 0 to 31, not -1"),
        ("x[i] = device.shfl_xor_sync(-1, x[i], 1.5)", "flag must be an integer from 0 to 31"),
        ("device.shfl_sync(-1, (), 0)", "lanes exchange numbers"),
        ("device.match_any_sync(-1, 'word')", "lanes exchange numbers"),
        ("device.shfl_sync(-1, (x[i], x[i], x[i]), 0)", "more than 16 bytes"),
        ("device.match_all_sync(-1, (x[i], 1.0, x[0]))", "more than 16 bytes"),
        ("device.any_sync(-1, noop)", "pred of any_sync returns None, not a bool"),
        ("device.any_sync(-1, one)", "missing a required argument: 'x'"),
        ("device.any_sync(-1, x)", "cannot be called"),
        ("x[i] = device.reduce_add_sync(-1, x[i])", "reduce_add_sync takes integers of 32 bits, not float64"),
        ("x[i] = device.reduce_or_sync(-1, len(x))", "reduce_or_sync takes integers of 32 bits"),
        ("x[i] = device.WarpMask(7)[32]", "the lanes of a mask must be integers from 0 to 31, not 32"),
        ("x[i] = device.WarpMask(1.5)", "a mask must be an integer"),
    ],
)
def test_misuse_is_a_compile_error(source, reason):
    with pytest.raises(CompileError, match=re.escape(reason)):
        device.launch(wrong(source), np.zeros(32), grid=1, block=32, stream=device.cpu_stream())


@device.kernel
def lane_not_in_its_mask(x):
    x[device.tid(1)] = device.shfl_sync(0x7FFF, 1, 0)


def test_a_lane_outside_of_its_mask_is_reported():
    report = report_of(lane_not_in_its_mask, 40, np.zeros(40, np.int32))
    assert "the mask 0x00007fff does not include the lane 15, which passes it" in report
    assert f"test_warp.py:{lane_not_in_its_mask.underlying.__code__.co_firstlineno + 2}" in report
    assert "in thread (15, 0, 0) of block (0, 0, 0)" in report


@device.kernel
def different_masks(x):
    i = device.tid(1)
    mask = 3 if i == 0 else 7
    x[i] = device.shfl_sync(mask, i, 0)


def test_lanes_with_different_masks_do_not_meet():
    report = report_of(different_masks, 3, np.zeros(3, np.int32))
    assert "deadlock in block (0, 0, 0): threads (0..2, 0, 0) wait at" in report


# PTX


@device.kernel
def everything(out, x):
    i = device.tid(1)
    mask = device.activemask()
    value = device.shfl_sync(mask, x[i], 1)
    value += device.shfl_up_sync(mask, value, 1)
    value += device.shfl_down_sync(mask, value, 1)
    value += device.shfl_xor_sync(mask, value, 1)
    out[i, 0] = device.all_sync(mask, value > 0)
    out[i, 1] = device.any_sync(mask, value > 1)
    out[i, 2] = device.eq_sync(mask, value > 2)
    out[i, 3] = device.ballot_sync(mask, value > 3)
    out[i, 4] = device.match_any_sync(mask, value)
    lanes, same = device.match_all_sync(mask, value)
    out[i, 5] = lanes if same else device.lanemask_lt()
    device.syncwarp(mask)
    out[i, 6] = device.lane_id


INSTRUCTIONS = (
    "activemask.b32", "shfl.sync.idx.b32", "shfl.sync.up.b32", "shfl.sync.down.b32", "shfl.sync.bfly.b32",
    "vote.sync.all.pred", "vote.sync.any.pred", "vote.sync.uni.pred", "vote.sync.ballot.b32", "match.any.sync.b{}",
    "match.all.sync.b{}", "bar.warp.sync", "%lanemask_lt", "%laneid",
)  # fmt: skip


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_ptx_has_one_instruction_for_each(target, dtype):
    x, out = np.zeros(32, dtype), np.zeros((32, 7), np.int32)
    text = str(device.compile(everything, out, x, target=target, output="ptx"))
    bits = np.dtype(dtype).itemsize * 8
    for instruction in INSTRUCTIONS:
        expected = bits // 32 if instruction.startswith("shfl") else 1
        assert text.count(instruction.format(bits)) == expected, instruction
