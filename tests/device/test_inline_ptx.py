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
