"""The machine that executes PTX, held against exact arithmetic and against what 'PTX ISA' says.

With `CUDA_DEVICE_TEST_PTX=1`, all tests with a `stream` run on it too, and compare what instructions give with NumPy and Python.
"""

import math
import random
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ptx_machine.machine import Machine, Module
from ptx_machine.memory import LAUNCH_FAILED, MISALIGNED, Arena, Fault
from ptx_machine.reader import Unsupported, read

ARENA = Arena(1 << 22)
HEADER = ".version 8.8\n.target sm_90\n.address_size 64\n"
REGISTERS = """
    .reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .b128 %q<4>;
"""


def launch(text, *parameters, grid=(1, 1, 1), block=(32, 1, 1), shared=0, seed=0, kernel="k"):
    """Runs a kernel of 64-bit parameters."""
    module = Module(read(HEADER + text), ARENA)
    buffer = ARENA.allocate(8 * len(parameters))
    ARENA.write(buffer, struct.pack(f"<{len(parameters)}Q", *(int(p) % (1 << 64) for p in parameters)))
    machine = Machine(module, kernel, grid, block, buffer, shared, seed)
    try:
        machine.run()
    finally:
        ARENA.free(buffer)
    return machine


class Buffer:
    """An array in the arena."""

    def __init__(self, values):
        values = np.ascontiguousarray(values)
        self.address, self.dtype, self.shape = ARENA.allocate(values.nbytes), values.dtype, values.shape
        ARENA.write(self.address, values.tobytes())

    def __int__(self):
        return self.address

    def numpy(self):
        nbytes = self.dtype.itemsize * math.prod(self.shape)
        return np.frombuffer(ARENA.read(self.address, nbytes), self.dtype).reshape(self.shape)


def entry(body, parameters=2):
    names = ", ".join(f".param .u64 p{i}" for i in range(parameters))
    loads = "".join(f"    ld.param.u64 %d{i}, [p{i}];\n" for i in range(parameters))
    return f".visible .entry k({names})\n{{{REGISTERS}{loads}{body}\n ret;\n}}\n"


KINDS = {"b16": ("h", 2), "b32": ("r", 4), "b64": ("d", 8)}


def compute(instruction, columns, result):
    """What `instruction` ({0} its result, {1}, {2}, … its operands) makes of each row of integers, as bits."""
    rows = list(zip(*columns, strict=True))
    count, inputs = len(columns), ""
    kinds = [KINDS[f"b{8 * column.dtype.itemsize}"] for column in map(np.asarray, columns)]
    letter, size = KINDS[result]
    memory = [Buffer(column) for column in columns]
    output = Buffer(np.full(len(rows), 0x5A, f"u{size}"))
    for i, (letter_in, size_in) in enumerate(kinds):
        inputs += f"ld.param.u64 %d15, [p{i}]; mad.wide.u32 %d15, %r39, {size_in}, %d15;"
        inputs += f"ld.global.b{8 * size_in} %{letter_in}{i + 1}, [%d15];\n"
    names = [f"%{letter}10", *(f"%{letter_in}{i + 1}" for i, (letter_in, _) in enumerate(kinds))]
    body = f"""
    mov.u32 %r39, %tid.x;
    {inputs}
    {instruction.format(*names)}
    ld.param.u64 %d15, [p{count}]; mad.wide.u32 %d15, %r39, {size}, %d15;
    st.global.b{8 * size} [%d15], %{letter}10;
    """
    parameters = ", ".join(f".param .u64 p{i}" for i in range(count + 1))
    assert len(rows) <= 1024
    text = f".visible .entry k({parameters}) {{ {REGISTERS} {body} ret; }}"
    launch(text, *memory, output, block=(len(rows), 1, 1))
    return [int(x) for x in output.numpy()]


def interesting(bits, count, rng):
    """Integers of so many bits: the ends, single bits, anything."""
    found = [0, 1, 2, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, bits, bits - 1]
    while len(found) < count:
        found.append(rng.getrandbits(bits) >> rng.randrange(bits) if rng.random() < 0.5 else rng.getrandbits(bits))
    rng.shuffle(found)
    return np.array(found[:count], f"u{bits // 8}")


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def truncated(a, b, bits):
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER = {
    "add.{s}": lambda a, b, bits: a + b,
    "sub.{s}": lambda a, b, bits: a - b,
    "mul.lo.{s}": lambda a, b, bits: a * b,
    "mul.hi.{s}": lambda a, b, bits: (a * b) >> bits,
    "mul.hi.{u}": lambda a, b, bits: (a % (1 << bits)) * (b % (1 << bits)) >> bits,
    "div.{s}": truncated,
    "div.{u}": lambda a, b, bits: truncated(a % (1 << bits), b % (1 << bits), bits),
    "rem.{s}": lambda a, b, bits: a - truncated(a, b, bits) * b,
    "min.{s}": lambda a, b, bits: min(a, b),
    "max.{u}": lambda a, b, bits: max(a % (1 << bits), b % (1 << bits)),
    "and.{b}": lambda a, b, bits: a & b,
    "xor.{b}": lambda a, b, bits: a ^ b,
}


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("opcode", INTEGER)
def test_integers(opcode, bits):
    rng = random.Random(bits)
    a, b = interesting(bits, 300, rng), interesting(bits, 300, rng)
    name = opcode.format(s=f"s{bits}", u=f"u{bits}", b=f"b{bits}")
    found = compute(name + " {0}, {1}, {2};", [a, b], f"b{bits}")
    for x, y, result in zip(a, b, found, strict=True):
        expected = INTEGER[opcode](signed(int(x), bits), signed(int(y), bits), bits)
        assert result == expected % (1 << bits), (opcode, x, y)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_beyond_the_width_give_zeros_or_signs(bits):
    rng = random.Random(bits)
    a = interesting(bits, 200, rng)
    by = np.array(
        [rng.choice([0, 1, bits - 1, bits, bits + 1, 200, 2**32 - 1, rng.randrange(bits)]) for _ in a], np.uint32
    )
    left = compute(f"shl.b{bits} {{0}}, {{1}}, {{2}};", [a, by], f"b{bits}")
    right = compute(f"shr.u{bits} {{0}}, {{1}}, {{2}};", [a, by], f"b{bits}")
    arithmetic = compute(f"shr.s{bits} {{0}}, {{1}}, {{2}};", [a, by], f"b{bits}")
    for x, n, one, two, three in zip(a.tolist(), by.tolist(), left, right, arithmetic, strict=True):
        n = min(n, bits)
        assert one == (x << n) % (1 << bits)
        assert two == x >> n
        assert three == (signed(x, bits) >> n) % (1 << bits)


def test_bits():
    rng = random.Random(1)
    a, b, c = (interesting(32, 400, rng) for _ in range(3))
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    assert compute("popc.b32 {0}, {1};", [a], "b32") == [x.bit_count() for x in a.tolist()]
    assert compute("clz.b32 {0}, {1};", [a], "b32") == [32 - x.bit_length() for x in a.tolist()]
    assert compute("brev.b32 {0}, {1};", [a], "b32") == [int(f"{x:032b}"[::-1], 2) for x in a.tolist()]
    assert compute("bfind.u32 {0}, {1};", [a], "b32") == [(x.bit_length() - 1) % 2**32 for x in a.tolist()]
    wrap = compute("shf.l.wrap.b32 {0}, {1}, {2}, {3};", [a, b, c], "b32")
    assert wrap == [(y << 32 | x) << (z & 31) >> 32 & 0xFFFFFFFF for x, y, z in rows]
    clamp = compute("shf.r.clamp.b32 {0}, {1}, {2}, {3};", [a, b, c], "b32")
    assert clamp == [(y << 32 | x) >> min(z, 32) & 0xFFFFFFFF for x, y, z in rows]
    third = compute("lop3.b32 {0}, {1}, {2}, {3}, 0xE8;", [a, b, c], "b32")
    assert third == [(x & y) | (y & z) | (x & z) for x, y, z in rows]
    prmt = compute("prmt.b32 {0}, {1}, {2}, {3};", [a, b, c], "b32")
    for (x, y, z), result in zip(rows, prmt, strict=True):
        octets = (y << 32 | x).to_bytes(8, "little")
        chosen = [octets[z >> 4 * i & 7] for i in range(4)]
        signs = [(255 if octet & 128 else 0) if z >> 4 * i & 8 else octet for i, octet in enumerate(chosen)]
        assert result == int.from_bytes(bytes(signs), "little")


def test_carries_go_from_one_instruction_to_the_next():
    rng = random.Random(2)
    a, b = interesting(64, 300, rng), interesting(64, 300, rng)
    halves = "mov.b64 {{%r1, %r2}}, {1}; mov.b64 {{%r3, %r4}}, {2};"
    join = "mov.b64 {0}, {{%r5, %r6}};"
    total = compute(halves + "add.cc.u32 %r5, %r1, %r3; addc.u32 %r6, %r2, %r4;" + join, [a, b], "b64")
    assert total == [(x + y) % 2**64 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    less = compute(halves + "sub.cc.u32 %r5, %r1, %r3; subc.u32 %r6, %r2, %r4;" + join, [a, b], "b64")
    assert less == [(x - y) % 2**64 for x, y in zip(a.tolist(), b.tolist(), strict=True)]


# ---- Floats


def exactly(value):
    return Fraction(value) if math.isfinite(value) else value


def nearest(exact, dtype):
    """The float that a rational number rounds to: the nearer neighbour, or the even one."""
    if exact == 0:
        return dtype.type(0)
    with np.errstate(over="ignore"):
        guess = dtype.type(float(exact))  # within one unit of the last place
    if not np.isfinite(guess):
        most = np.finfo(dtype).max if dtype.kind == "f" else ml_dtypes.finfo(dtype).max
        guess = dtype.type(math.copysign(float(most), exact))
    candidates = {}
    for direction in (-np.inf, None, np.inf):
        x = guess if direction is None else np.nextafter(guess, dtype.type(direction))
        candidates[float(x)] = x
    unit = abs(Fraction(float(np.nextafter(guess, dtype.type(0)))) - Fraction(float(guess)))

    def far(x):
        return (
            abs(Fraction(math.copysign(float(abs(guess)) + float(unit), x)) - exact)
            if math.isinf(x)
            else abs(Fraction(x) - exact)
        )

    least = min(far(x) for x in candidates)
    best = [x for x in candidates if far(x) == least]
    if len(best) == 1:
        return candidates[best[0]]
    word = np.dtype(f"u{dtype.itemsize}")
    return next(candidates[x] for x in best if int(np.asarray(candidates[x]).view(word)) % 2 == 0)


def floats(dtype, count, rng):
    bits = 8 * np.dtype(dtype).itemsize
    raw = np.array([rng.getrandbits(bits) for _ in range(4 * count)], f"u{bits // 8}").view(dtype)
    raw = raw[np.isfinite(raw.astype(np.float64))]
    near = np.array([rng.choice([1, -1]) * (1 + rng.getrandbits(8) / 256) for _ in range(count)]).astype(dtype)
    return np.where(np.arange(count) % 3 == 0, near, raw[:count]).astype(dtype)


FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


@pytest.mark.parametrize("kind", FLOATS)
def test_fused_products_round_once(kind):
    rng = random.Random(3)
    dtype = FLOATS[kind]
    word, bits = f"u{dtype.itemsize}", 8 * dtype.itemsize
    a, b, c = (floats(dtype, 900, rng) for _ in range(3))
    with np.errstate(all="ignore"):
        c[::2] = -(a[::2].astype(np.float64) * b[::2].astype(np.float64)).astype(
            dtype
        )  # what cancels shows a second rounding
    c = np.where(np.isfinite(c.astype(np.float64)), c, 1).astype(dtype)
    found = compute(f"fma.rn.{kind} {{0}}, {{1}}, {{2}}, {{3}};", [x.view(word) for x in (a, b, c)], f"b{bits}")
    for x, y, z, result in zip(a, b, c, np.array(found, word).view(dtype), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if abs(exact) < Fraction(float(np.finfo(np.float64).max)):
            assert float(result) == float(nearest(exact, dtype)), (x, y, z)


EXACT = {
    "add": lambda x, y, z: x + y,
    "mul": lambda x, y, z: x * y,
    "div": lambda x, y, z: x / y,
    "fma": lambda x, y, z: x * y + z,
}
DIRECTIONS = {
    "rz": lambda exact, x: abs(Fraction(x)) <= abs(exact),
    "rm": lambda exact, x: Fraction(x) <= exact,
    "rp": lambda exact, x: Fraction(x) >= exact,
}


@pytest.mark.parametrize("mode", DIRECTIONS)
@pytest.mark.parametrize("opcode", ["add", "mul", "div", "fma"])
def test_rounding_in_a_direction(opcode, mode):
    rng = random.Random(4)
    a, b, c = (floats(np.float32, 600, rng) for _ in range(3))
    columns = [x.view(np.uint32) for x in (a, b, c)][: 3 if opcode == "fma" else 2]
    operands = ", ".join(f"{{{i}}}" for i in range(len(columns) + 1))
    found = compute(f"{opcode}.{mode}.f32 {operands};", columns, "b32")
    for x, y, z, result in zip(
        a.tolist(), b.tolist(), c.tolist(), np.array(found, np.uint32).view(np.float32), strict=True
    ):
        x, y, z = map(Fraction, (x, y, z))
        if opcode == "div" and y == 0:
            continue
        exact = EXACT[opcode](x, y, z)
        if not np.isfinite(result):
            assert abs(exact) > Fraction(float(np.finfo(np.float32).max))
            continue
        assert DIRECTIONS[mode](exact, float(result)), (x, y, z)
        if Fraction(float(result)) != exact:  # and it is the nearest one on that side
            away = {"rz": math.copysign(math.inf, exact), "rm": math.inf, "rp": -math.inf}[mode]
            beyond = np.nextafter(result, np.float32(away))
            assert (
                not np.isfinite(beyond)
                or not DIRECTIONS[mode](exact, float(beyond))
                or Fraction(float(beyond)) == exact
            )


def test_conversions_to_integers_clip_and_say_what_nan_is():
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, 1e20, -1e20, np.nan, np.inf, -np.inf], np.float32)
    bits = [values.view(np.uint32)]
    near = [signed(x, 32) for x in compute("cvt.rni.s32.f32 {0}, {1};", bits, "b32")]
    assert near == [0, 2, 2, 0, -2, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]
    unsigned = compute("cvt.rzi.u32.f32 {0}, {1};", bits, "b32")
    assert unsigned == [0, 1, 2, 0, 0, 3 * 10**9, 0, 2**32 - 1, 0, 0, 2**32 - 1, 0]
    down = [signed(x, 64) for x in compute("cvt.rmi.s64.f32 {0}, {1};", bits, "b64")]
    exact = Fraction(float(np.float32(3e9)))
    assert down == [0, 1, 2, -1, -2, exact, -exact, 2**63 - 1, -(2**63), -(2**63), 2**63 - 1, -(2**63)]


# ---- Threads


ROTATE = """
    .shared .align 4 .b8 tile[512];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3], %r1;
    {barrier}
    add.u32 %r4, %r1, 33;
    and.b32 %r4, %r4, 127;
    mad.lo.u32 %r5, %r4, 4, %r2;
    ld.shared.u32 %r6, [%r5];
    mov.u32 %r7, %ctaid.x;
    mad.lo.u32 %r7, %r7, 128, %r1;
    mad.wide.u32 %d3, %r7, 4, %d0;
    st.global.u32 [%d3], %r6;
"""


def test_barriers_order_shared_memory_and_what_lacks_one_shows():
    expected = [(i + 33) % 128 for i in range(128)] * 3
    wrong = 0
    for seed in range(12):
        out = Buffer(np.zeros(384, np.uint32))
        launch(entry(ROTATE.replace("{barrier}", "bar.sync 0;"), 1), out, grid=(3, 1, 1), block=(128, 1, 1), seed=seed)
        assert out.numpy().tolist() == expected
        launch(entry(ROTATE.replace("{barrier}", ""), 1), out, grid=(3, 1, 1), block=(128, 1, 1), seed=seed)
        wrong += out.numpy().tolist() != expected
    assert wrong  # some warps go ahead of others


def test_spinning_threads_do_not_keep_others_from_working():
    lock, count = Buffer(np.zeros(1, np.uint32)), Buffer(np.zeros(1, np.uint32))
    body = """
AGAIN:
    atom.acquire.gpu.global.cas.b32 %r1, [%d0], 0, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    ld.global.u32 %r2, [%d1];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%d1], %r2;
    atom.release.gpu.global.exch.b32 %r3, [%d0], 0;
    """
    launch(entry(body, 2), lock, count, grid=(3, 1, 1), block=(33, 1, 1))
    assert count.numpy().tolist() == [99]


def test_variables_have_their_initial_values():
    text = """
    .global .align 4 .b8 text[4] = {72, 105, 33};
    .const .align 8 .u64 table[2] = {generic(text), 0x2A};
    """
    out = Buffer(np.zeros(2, np.uint64))
    body = """
    ld.const.u64 %d3, [table];
    ld.u32 %r1, [%d3];
    ld.const.u64 %d4, [table+8];
    st.global.u32 [%d0], %r1;
    st.global.u64 [%d0+8], %d4;
    """
    launch(text + entry(body, 1), out, block=(1, 1, 1))
    assert out.numpy().tolist() == [int.from_bytes(b"Hi!\0", "little"), 42]


# ---- Faults


def fault(body, *parameters, **options):
    with pytest.raises(Fault) as caught:
        launch(entry(body, len(parameters)), *parameters, **options)
    return caught.value


def test_memory_that_is_not_allocated():
    out = Buffer(np.zeros(5, np.uint32))
    found = fault("mov.u32 %r1, %tid.x; mad.wide.u32 %d3, %r1, 4, %d0; st.global.u32 [%d3], %r1;", out, block=(6, 1, 1))
    assert found.status == 700
    assert "20 bytes from the start of one of 20" in str(found)
    assert "st.global.u32" in str(found)


def test_memory_that_was_freed():
    out = Buffer(np.zeros(500, np.uint32))
    ARENA.free(out.address)
    assert fault("ld.global.u32 %r1, [%d0];", out).status == 700


def test_misaligned_addresses():
    out = Buffer(np.zeros(5, np.uint32))
    assert fault("ld.global.u32 %r1, [%d0+2];", out).status == MISALIGNED
    assert fault("ld.global.v2.u32 {%r1, %r2}, [%d0+4];", out).status == MISALIGNED


def test_shared_memory_has_an_end():
    body = ".shared .align 4 .b8 tile[8]; mov.u32 %r1, tile; ld.shared.u32 %r2, [%r1+8];"
    assert "shared memory, which has 8" in str(fault(body))


def test_a_trap():
    assert fault("trap;").status == LAUNCH_FAILED


def test_a_barrier_that_tears_a_warp_apart():
    body = """
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 5;
    @%p1 bra LOW;
    bar.sync 0;
    bra END;
LOW:
    bar.sync 0;
END:
    """
    assert "torn apart" in str(fault(body))


def test_threads_that_wait_for_ever():
    body = """
    mov.u32 %r1, %laneid;
    setp.lt.u32 %p1, %r1, 5;
    @%p1 bra END;
WAIT:
    bar.warp.sync -1;
    bra WAIT;
END:
    bar.sync 0;
    """
    assert "nobody can go on" in str(fault(body))


def test_a_lane_outside_of_its_mask():
    assert "not in its own mask" in str(fault("mov.u32 %r1, 1; bar.warp.sync 7;"))


def test_what_the_machine_does_not_know_fails_where_it_is_reached():
    launch(entry("bra END; sparkle.u32 %r1, %r2;\nEND:", 0))
    with pytest.raises(Unsupported, match="sparkle"):
        launch(entry("sparkle.u32 %r1, %r2;", 0))
