"""Instructions of PTX in device code: operands and results in registers of their types, and a function of the host instead."""

import re

import ml_dtypes
import numpy as np
import pytest
from conftest import poison

import cuda_device as device
from cuda_device import CompileError


def ptx_of(kernel, *arguments, **options):
    text = device.compile(kernel, *arguments, output="ptx", **options).code
    assert device.compile(kernel, *arguments, **options).code[:4] == b"\x7fELF"
    return re.sub(r"[ \t]+", " ", text)


@device.func
def add(a, b):
    return device.ptx("add.s32 $0, $1, $2;", a, b, result=device.int32, host=lambda a, b: a + b, volatile=False)


@device.func
def divide(a, b):
    return device.ptx(
        "div.u32 $0, $2, $3;\nrem.u32 $1, $2, $3;", a, b, result=(device.uint32, device.uint32), host=divmod
    )


@device.kernel
def computes(x, y, out):
    i = device.tid(1)
    out[i, 0] = add(x[i], y[i])
    quotient, remainder = divide(device.uint32(x[i]), device.uint32(y[i]))
    out[i, 1] = device.int32(quotient)
    out[i, 2] = device.int32(remainder)


def test_each_stream_computes_what_the_host_computes(stream):
    x, y = np.arange(64, dtype=np.int32) * 1000, np.arange(1, 65, dtype=np.int32)
    out = stream.run(computes, x, y, np.zeros((64, 3), np.int32), grid=2, block=32)[-1]
    assert (out == np.stack([x + y, *divmod(x, y)], axis=1)).all()
    assert add(np.int32(2), np.int32(3)) == 5
    assert divide(np.uint32(7), np.uint32(2)) == (3, 1)
    assert {type(each) for each in divide(np.uint32(7), np.uint32(2))} == {np.uint32}


def test_a_gpu_executes_the_instructions():
    x = np.zeros(64, np.int32)
    text = ptx_of(computes, x, x, np.zeros((64, 3), np.int32))
    assert len(re.findall(r"add\.s32 %r\d+, %r\d+, %r\d+;", text)) >= 1
    assert len(re.findall(r"div\.u32 (%r\d+), (%r\d+), (%r\d+);\s*rem\.u32 %r\d+, \2, \3;", text)) == 1


TYPES = {
    "b16": (np.int16, np.uint16, np.float16, ml_dtypes.bfloat16), "b32": (np.int32, np.uint32, np.float32),
    "b64": (np.int64, np.uint64, np.float64),
}  # fmt: skip
VECTORS = {
    "b32": (
        device.int8x4, device.float8e4m3x4, device.uint16x2, device.float16x2, device.bfloat16x2, device.int32x1,
        device.float32x1,
    ),
    "b64": (device.int16x4, device.float16x4, device.bfloat16x4, device.uint32x2, device.float32x2, device.float64x1),
}  # fmt: skip


def mover(word, dtype):
    @device.kernel
    def k(x, out):
        i = device.tid(1)
        out[i] = device.ptx(f"mov.{word} $0, $1;", x[i], result=dtype, host=lambda x: x)

    return k


@pytest.mark.parametrize(("word", "dtype"), [(word, dtype) for word in TYPES for dtype in TYPES[word]])
def test_registers_hold_numbers_of_each_type(stream, word, dtype):
    x = np.arange(-4, 28).astype(dtype)
    assert (stream.run(mover(word, dtype), x, np.zeros(32, dtype), block=32)[-1] == x).all()


@pytest.mark.parametrize(("word", "dtype"), [(word, dtype) for word in TYPES for dtype in TYPES[word]])
def test_a_gpu_has_registers_for_each_type(word, dtype):
    x = np.zeros(32, dtype)
    assert len(re.findall(rf"mov\.{word} (%\w+), (%\w+);", ptx_of(mover(word, dtype), x, x))) >= 1


@pytest.mark.parametrize(("word", "dtype"), [(word, dtype) for word in VECTORS for dtype in VECTORS[word]])
def test_registers_hold_vectors(stream, word, dtype):
    x = np.random.default_rng(5).integers(0, 100, 256, np.uint8).view(device.numpy_dtype(dtype))
    kernel = mover(word, dtype)
    out = stream.run(kernel, x, np.zeros(32, x.dtype), block=32)[-1]
    assert np.array_equal(out.view(np.uint8), x[:32].view(np.uint8))
    assert len(re.findall(rf"mov\.{word} (%r{'d' * (word == 'b64')}\d+), (%rd?\d+);", ptx_of(kernel, x, x))) >= 1


LOAD_IF = "{ .reg .pred p; setp.ne.s32 p, $2, 0; @p ld.global.v4.f32 $0, [$1]; }"


@device.kernel
def of_large_vectors(x, out):
    """Vectors of more than 8 bytes are in a register for each element; the template names these in braces."""
    i = device.tid(1)
    v = device.float32x4(1, 2, 3, 4)
    v = device.ptx(LOAD_IF, x.pointer(i), i % 2, inout=v, host=lambda v, p, flag: p[0] if flag != 0 else v)
    device.ptx("st.global.v2.f64 [$0], $1;", out.pointer(i), v.view(device.float64x2), host=stored)


def stored(pointer, value):
    pointer[0] = value


def test_templates_name_the_elements_of_large_vectors(stream):
    x = np.random.default_rng(0).random(128, np.float32).view(device.numpy_dtype(device.float32x4))
    out = stream.run(of_large_vectors, x, np.zeros(32, device.numpy_dtype(device.float64x2)), block=32)[-1]
    right = x.view(np.float32).reshape(32, 4).copy()
    right[::2] = 1, 2, 3, 4
    assert (out.view(np.float32).reshape(32, 4) == right).all()
    text = ptx_of(of_large_vectors, x, out)
    assert re.search(r"ld\.global\.v4\.f32 \{(%r\d+(, )?){4}\}, \[%rd\d+\]", text)
    assert re.search(r"st\.global\.v2\.f64 \[%rd\d+\], \{%rd\d+, %rd\d+\}", text)


@device.func
def step(state, scale, word):
    """Three registers that change, a result, and two operands."""
    return device.ptx(
        "fma.rn.f32 $0, $4, $4, $0;\nadd.f16x2 $1, $1, $5;\nxor.b64 $2, $2, -1;\nadd.u32 $3, $5, 1;",
        scale,
        word,
        inout=state,
        result=device.uint32,
        host=changed,
    )


def changed(state, scale, word):
    total, pair, bits = state
    return (total + scale * scale, pair + word, ~bits), word.view(device.uint32) + device.uint32(1)


@device.kernel
def steps(x, out, words):
    i = device.tid(1)
    state, last = (0.0, device.float16x2(1, 2), device.uint64(5)), device.uint32(0)
    for j in range(3):
        state, last = step(state, x[i] + j, device.float16x2(j, 0.5))
    out[i] = state[0] + float(state[1].x) + float(state[1].y)
    words[i] = state[2] ^ device.uint64(last)


def test_registers_change_in_place(stream):
    x = np.arange(32, dtype=np.float32)
    _, out, words = stream.run(steps, x, np.zeros(32, np.float32), np.zeros(32, np.uint64), block=32)
    assert (out == x**2 + (x + 1) ** 2 + (x + 2) ** 2 + (1 + 3) + (2 + 1.5)).all()
    last = int(np.array([2, 0.5], np.float16).view(np.uint32)[0]) + 1
    assert (words == (~np.uint64(5) ^ np.uint64(last))).all()
    state = (np.float32(1), device.float16x2(1, 2), np.uint64(5))
    (total, pair, bits), _ = step(state, np.float32(3), device.float16x2(1, 1))
    assert (total, pair, bits) == (10, device.float16x2(2, 3), ~np.uint64(5))
    assert (type(total), type(pair), type(bits)) == (np.float32, device.float16x2, np.uint64)


COUNT = 128


@device.kernel
def accumulates(x, out, n):
    sums = (0.0,) * COUNT
    for i in range(n):
        sums = device.ptx(f"fma.rn.f32 $0, ${COUNT}, ${COUNT}, $0; fma.rn.f32 $127, $1, $2, $127;", x[i], inout=sums)
    sums = device.ptx("// fence", inout=sums)
    out[0] = device.ptx("neg.f32 $0, $0;", inout=sums[127])


def test_registers_that_change_are_not_copied():
    text = ptx_of(accumulates, np.zeros(4, np.float32), np.zeros(4, np.float32), int)
    loop = text[text.index("$L__BB0_2:") : text.index("$L__BB0_3:")]
    assert re.search(r"fma\.rn\.f32 (%r\d+), (%r\d+), \2, \1; fma\.rn\.f32 (%r\d+), %r\d+, %r\d+, \3;", loop)
    assert loop.count("mov.") == 0
    assert re.search(r"neg\.f32 (%r\d+), \1;", text)


@device.kernel
def exchanges(x, out):
    tile = device.shared_array(64, device.float32)
    i = device.tid(1)
    device.ptx("st.shared.f32 [$0], $1;", tile[i:], x[i], host=store)
    device.syncthreads()
    out[i] = device.ptx("ld.shared.f32 $0, [$1];", tile[63 - i :], result=device.float32, host=lambda a: a[0])


def store(array, value):
    array[0] = value


def test_arrays_are_addresses(stream):
    x, out = np.arange(64, dtype=np.float32), stream.empty(64)
    stream.launch(exchanges, stream.array(x), out, grid=1, block=64)
    assert (stream.numpy(out) == x[::-1]).all()


@device.struct
class Counter:
    first: device.float32
    count: device.Atomic(device.uint32)


def increase(count, n):
    count.add(device.uint32(n))


POINTER = device.pointer(device.float32)


@device.kernel
def counts(p: POINTER, out):
    counters = device.shared_array(2, Counter)
    i = device.tid(1)
    if i == 0:
        counters[1].count.store(device.uint32(1))
        counters[1].first = 0.5
    device.syncthreads()
    counter = counters[1]
    device.ptx("red.shared.add.u32 [$0], $1;", counter.count, 3, host=increase)
    device.syncthreads()
    first = device.ptx("ld.shared.f32 $0, [$1];", counter, result=device.float32, host=lambda c: c.first)
    beyond = device.ptx("add.u64 $0, $1, 8;", p, result=POINTER, host=lambda p: p + 2)
    value = device.ptx("ld.f32 $0, [$1 + 4];", beyond, result=device.float32, host=lambda p: p[1])
    out[i] = first + value + beyond[i] + float(counter.count.load())


def test_pointers_and_references_are_addresses(stream):
    x = np.arange(66, dtype=np.float32)
    out = stream.run(counts, x, np.zeros(64, np.float32), block=64)[-1]
    assert (out == 0.5 + x[3] + x[2:] + (1 + 3 * 64)).all()


@device.kernel
def overtakes(x, out):
    first = x[0]
    device.ptx("st.global.f32 [$0], $1;", x, first + 1, host=store)
    out[0] = first + x[0]


def test_accesses_do_not_move_across(stream):
    assert stream.run(overtakes, np.array([1], np.float32), poison(1))[-1][0] == 3


def test_an_array_that_ptx_gets_is_not_read_only():
    text = ptx_of(overtakes, np.zeros(1, np.float32), np.zeros(1, np.float32), launch_facts=True)
    assert "ld.global.nc" not in text
    assert text.count("ld.global") == 2


@pytest.mark.needs("ltoir")
def test_what_is_volatile_stays():
    @device.kernel
    def k(out):
        for _ in range(3):
            device.ptx("{ .reg .b32 t; mov.u32 t, %smid; } // $$", host=lambda: None)
            device.ptx("mov.u32 $0, %smid;", result=device.uint32, volatile=False)

    text = ptx_of(k, np.zeros(1))
    assert "t, %smid; } // $\n" in text
    assert len(re.findall(r"mov\.u32 %r\d+, %smid", text)) == 0
    assert device.compile(k, np.zeros(1), output="ltoir").code


def wrong(source):
    space = {"device": device}
    source = source.replace("P,", "x.pointer(0),").replace("R,", "device.atomic_ref(x, 0),")
    exec(f"def kernel(x):\n    i = device.tid(1)\n    {source}\n", space)
    return device.kernel(space["kernel"])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("device.ptx('bar.sync $0;')", "the template of ptx has $0, but there are 0 results and operands"),
        ("device.ptx('$ x;')", "the template of ptx has a lone dollar sign"),
        ("device.ptx('mov.u32 $1, $1;', i, result=device.int32)", "does not set its result $0"),
        (
            "device.ptx('mov.u32 $0, 1;', result=device.int8)",
            "the result of ptx must be a number type of 16, 32 or 64 bits",
        ),
        ("device.ptx('mov.u32 $0, 1;', result=5)", "the result of ptx must be a number type of 16, 32 or 64 bits"),
        ("device.ptx('exit;', device.int8(1))", "the operand 0 of ptx is int8"),
        ("device.ptx('exit;', (1, 2))", "registers hold numbers of 16, 32 or 64 bits"),
        ("device.ptx('exit;', volatile=False)", "ptx without a result does nothing"),
        ("device.ptx('ld.f32 $0, [$1];', x, result=device.float32, volatile=False)", "an array, which is memory"),
        ("device.ptx('exit;', device.int8x3(1, 2, 3))", "the operand 0 of ptx is vector<int8, 3>"),
        ("device.ptx('exit;', i, inout=[1.0])", "the inout of ptx is a list"),
        ("device.ptx('exit;', inout=(1.0, device.int8(2)))", "the inout[1] of ptx is int8 2"),
        ("device.ptx('exit;', inout=(x,))", "the inout[0] of ptx is array"),
        ("device.ptx('mov.u32 $3, 1;', i, inout=(1.0, 2.0))", "has $3, but there are 3 results and operands"),
        ("device.ptx('mov.u32 $0, 1;', inout=i, result=device.int32)", "does not set its result $1"),
        ("device.ptx('mov.u64 $0, $1;', P, result=device.uint64, volatile=False)", "a pointer, which is memory"),
        ("device.ptx('mov.u64 $0, $1;', R, result=device.uint64, volatile=False)", "a reference, which is memory"),
        ("device.ptx('exit;', memory=True)", "ptx: got an unexpected keyword argument 'memory'"),
        ("device.ptx()", "ptx: missing a required argument: 'template'"),
        ("device.ptx(5)", "the template of ptx must be a string, not 5"),
    ],
)
def test_misuse_is_a_compile_error(source, reason):
    with pytest.raises(CompileError, match=re.escape(reason)) as caught:
        device.compile(wrong(source), np.zeros(4, np.float32), output="ptx")
    assert caught.value.help
    assert caught.value.location.line


def test_the_cpu_needs_a_function():
    with pytest.raises(CompileError, match="no host function for the CPU stream to call") as caught:
        device.launch(wrong("device.ptx('exit;')"), np.zeros(4), grid=1, block=1, stream=device.cpu_stream())
    assert "host=" in caught.value.help
    source = "device.ptx('mov.u32 $0, 1;', result=device.int32, host=lambda: x)"
    with pytest.raises(
        CompileError, match="the result of the host function is of type int32, not array<float64, 1, C>"
    ):
        device.launch(wrong(source), np.zeros(4), grid=1, block=1, stream=device.cpu_stream())
    with pytest.raises(device.DeviceOnlyError, match="host="):
        device.ptx("exit;")


def test_an_instruction_that_does_not_exist_is_the_programs_mistake():
    kernel = wrong("device.ptx('fly.u32 $0, $0;', i)")
    with pytest.raises(CompileError, match=r"does not accept the PTX 'fly\.u32 %r\d+, %r\d+;'") as caught:
        device.compile(kernel, np.zeros(4))
    assert caught.value.location.line == 3
    assert "PTX ISA" in caught.value.help


def test_multicast_addresses():
    """For addresses that another library provides: compiled only, since no multicast object is ever created here."""

    @device.kernel
    def all_reduce(multicast: device.uint64, count):
        for i in range(device.tid(1), count, device.grid_size(1)):
            address = multicast + device.uint64(4 * i)
            total = device.ptx(
                "multimem.ld_reduce.relaxed.sys.global.add.f32 $0, [$1];", address, result=device.float32
            )
            device.ptx("multimem.st.relaxed.sys.global.f32 [$0], $1;", address, total)

    text = ptx_of(all_reduce, device.uint64, int, target="sm_90")
    assert re.search(r"multimem\.ld_reduce\.relaxed\.sys\.global\.add\.f32 %\w+, \[%\w+\];", text)
    assert re.search(r"multimem\.st\.relaxed\.sys\.global\.f32 \[%\w+\], %\w+;", text)
