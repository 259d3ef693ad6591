"""The options of `@kernel`, `@func` and `compile`: which values they take, and what becomes of the code."""

from __future__ import annotations

import math
import pickle
import re

import fake_driver
import numpy as np
import pytest
from ir_helpers import define

import cuda_device as device
from cuda_device.codegen.gpu import assemblers, cubin, elf
from cuda_device.device.options import FASTMATH, LLVM_FLAGS

VECTOR = device.ArrayType(device.float32, 1)
WIDE = device.ArrayType(device.float64, 1)


@device.func
def inner(v):
    return math.sin(v) * 2


@device.kernel
def mixed(x, y):
    tile = device.shared_array(64, device.float32)
    i = device.tid(1)
    if i < len(x):
        tile[i] = x[i] / y[i]
        device.syncthreads()
        y[i] = inner(tile[63 - i]) + math.sqrt(x[i])


@device.kernel
def arithmetic(x, y):
    i = device.tid(1)
    a, b = x[i], y[i]
    y[i] = math.exp(a / b) + math.sqrt(a) * math.pow(a, b)


@device.kernel
def double_arithmetic(x, y):
    i = device.tid(1)
    y[i] = x[i] / y[i] + math.sqrt(x[i])


def ptx(kernel, *types, **options):
    return str(device.compile(kernel, *(types or (VECTOR, VECTOR)), output="ptx", **options))


def instructions(text):
    """The names of a kernel's instructions."""
    return re.findall(r"^\t(?:@!?%\w+ )?([a-z][\w.:]+)", text, re.M)


# Values

WRONG = {
    "max_threads": [0, 1025, 2.0, True, "256", None],
    "min_blocks": [0, 33, 1.0, True, None],
    "max_registers": [8, 256, 32.0, True, None],
    "stack_size": [0, -1, 512 * 1024 + 1, 4096.0, True, None],
    "level": [-1, 4, True, None, "3"],
    "contract": [1, None, "yes"],
    "checked": [1, "yes"],
    "lineinfo": [1, None],
    "fastmath": ["afn", {"fmad"}, {1}, 3, None, ("nnan", "slow")],
}
WRONG_VALUES = [(name, value) for name, values in WRONG.items() for value in values]
RIGHT = {
    "max_threads": [1, 256, 1024],
    "max_registers": [16, 64, 255],
    "stack_size": [1, 4096, 512 * 1024],
    "level": [0, 1, 2, 3],
    "contract": [True, False],
    "checked": [True, False, None],
    "lineinfo": [True, False],
    "fastmath": [True, False, (), {"nnan"}, ["ftz", "afn"], frozenset(FASTMATH), {"fast"}],
}


@pytest.mark.parametrize(("name", "value"), WRONG_VALUES)
def test_a_wrong_value_is_refused_at_decoration(name, value):
    more = {"max_threads": 128} if name == "min_blocks" else {}
    with pytest.raises(TypeError, match=f"^@kernel\\({name}=…\\) takes .*, not {re.escape(repr(value))}$"):
        device.kernel(**more, **{name: value})
    with pytest.raises(TypeError, match=f"^compile\\({name}=…\\) takes "):
        device.compile(mixed, VECTOR, VECTOR, **{name: value})


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in RIGHT.items() for value in values])
def test_right_values_are_taken_and_compile(name, value):
    kernel = device.kernel(**{name: value})(mixed.underlying)
    assert device.compile(kernel, VECTOR, VECTOR).code == device.compile(mixed, VECTOR, VECTOR, **{name: value}).code


def test_unknown_names_are_refused():
    for decorator in (device.kernel, device.func):
        with pytest.raises(TypeError, match="has no option 'max_thread'; the options are interop, .*level, contract, "):
            decorator(max_thread=3)
    with pytest.raises(TypeError, match="compile has no option 'fast_math'; the options are level, contract"):
        device.compile(mixed, VECTOR, VECTOR, fast_math=True)


@pytest.mark.parametrize("name", ["max_threads", "min_blocks", "max_registers", "stack_size"])
def test_functions_have_no_options_of_launches(name):
    with pytest.raises(TypeError, match=f"@func has no option {name!r}"):
        device.func(**{name: 32})
    with pytest.raises(TypeError, match=f"compile has no option {name!r}"):
        device.compile(inner, device.float32, **{name: 32})


def test_blocks_of_no_size_are_refused():
    with pytest.raises(TypeError, match="min_blocks=…\\) is the number of blocks of max_threads=… threads"):
        device.kernel(min_blocks=2)


def test_the_options_of_compile_come_first():
    kernel = device.kernel(fastmath=True, max_threads=64)(arithmetic.underlying)
    text = ptx(kernel, fastmath=False, max_threads=32)
    assert "div.rn.f32" in text
    assert "div.approx" not in text
    assert ".maxntid 32" in text


def test_options_survive_pickling():
    @device.kernel(max_threads=32, fastmath={"nsz"}, level=1)
    def k(x):
        x[0] = 1

    build = type(k.options)(*(getattr(k.options, name) for name in k.options.__match_args__))
    assert pickle.loads(pickle.dumps(k.options)) == build == k.options
    assert k.options.build.fastmath == ("nsz",)


def test_a_set_has_one_order():
    given = [device.kernel(fastmath=names)(mixed.underlying) for names in ({"ftz", "nnan"}, ["nnan", "ftz", "ftz"])]
    assert given[0].options == given[1].options


# Launches


def test_launch_bounds_are_in_the_ptx():
    kernel = device.kernel(max_threads=96, min_blocks=4, max_registers=40)(mixed.underlying)
    text = ptx(kernel)
    assert ".maxntid 96" in text
    assert ".minnctapersm 4" in text
    assert ".maxnreg 40" in text
    assert device.compile(kernel, VECTOR, VECTOR).registers <= 40
    assert not re.search("maxntid|minnctapersm|maxnreg", ptx(mixed))


def test_a_larger_block_is_a_launch_error(stream):
    kernel = device.kernel(max_threads=60)(mixed.underlying)
    x, y = stream.array(np.ones(60, np.float32)), stream.array(np.ones(60, np.float32))
    stream.launch(kernel, x, y, grid=1, block=(6, 5, 2))
    for block in (61, (8, 8), (6, 5, 3)):
        with pytest.raises(device.LaunchError, match="the kernel is compiled for blocks of at most 60 threads"):
            stream.launch(kernel, x, y, grid=1, block=block)
        with pytest.raises(device.LaunchError, match="max_threads"):
            device.prepare(kernel, x, y, grid=1, block=block, stream=stream.stream)


# Fast math


@pytest.mark.parametrize(
    ("fastmath", "wanted", "unwanted"),
    [
        (False, ["div.rn.f32", "sqrt.rn.f32"], ["div.approx", "sqrt.approx", "div.rn.ftz", "add.ftz"]),
        (True, ["div.approx.ftz.f32", "sqrt.approx.ftz.f32", "lg2.approx.ftz.f32"], ["div.rn", "sqrt.rn"]),
        ({"afn"}, ["div.approx.f32", "sqrt.approx.f32"], ["ftz", "div.rn", "sqrt.rn"]),
        ({"ftz"}, ["div.rn.ftz.f32", "sqrt.rn.ftz.f32"], ["div.approx", "sqrt.approx"]),
        ({"nnan", "nsz"}, ["div.rn.f32", "sqrt.rn.f32"], ["div.approx", "sqrt.approx", "div.rn.ftz", "add.ftz"]),
    ],
)
def test_parts_of_fast_math(fastmath, wanted, unwanted):
    found = " ".join(instructions(ptx(arithmetic, fastmath=fastmath)))
    assert all(name in found for name in wanted)
    assert not any(name in found for name in unwanted)


def test_fast_functions_are_short():
    """`exp` and `pow` are two and three instructions, as nvcc's intrinsics."""
    fast, exact = (instructions(ptx(arithmetic, fastmath=fastmath)) for fastmath in (True, False))
    assert len(fast) < 30 < 80 < len(exact)
    assert "call.uni" not in fast


@device.kernel
def extremes(x, y):
    y[0] = max(x[0], x[1], x[2])
    y[1] = min(x[0], x[1], x[2])


def test_extremes_are_one_instruction():
    """`max` and `min` are the hardware's, which do not care which argument comes first; not those of float64."""
    names = [
        name for name in instructions(ptx(extremes, VECTOR, VECTOR, fastmath=True)) if "max" in name or "min" in name
    ]
    assert sorted(names) == ["max.ftz.f32", "max.ftz.f32", "min.ftz.f32", "min.ftz.f32"]
    for arrays, fastmath in (((VECTOR, VECTOR), False), ((VECTOR, VECTOR), {"ftz"}), ((WIDE, WIDE), True)):
        found = " ".join(instructions(ptx(extremes, *arrays, fastmath=fastmath)))
        assert "max." not in found
        assert "min." not in found


@pytest.mark.parametrize("fastmath", [False, True])
def test_extremes_of_numbers(stream, fastmath):
    """Of numbers they are the same; of NaN fast math takes the number, if the other one is one, as CUDA C++ does."""
    kernel = device.kernel(fastmath=fastmath)(extremes.underlying)
    for values in ((1, 2, 3), (3, -2, 1), (-np.inf, 5, np.inf), (2, 2, -2)):
        x, y = stream.array(np.array(values, np.float32)), stream.array(np.zeros(2, np.float32))
        stream.launch(kernel, x, y, grid=1, block=1)
        assert stream.numpy(y).tolist() == [max(values), min(values)]
    if not fastmath:
        x, y = stream.array(np.array([np.nan, 1, 2], np.float32)), stream.array(np.zeros(2, np.float32))
        stream.launch(kernel, x, y, grid=1, block=1)
        assert np.isnan(stream.numpy(y)).all()


def test_doubles_stay_exact():
    found = instructions(ptx(double_arithmetic, WIDE, WIDE, fastmath=True))
    assert "div.rn.f64" in found
    assert "sqrt.rn.f64" in found


@pytest.mark.parametrize("flag", LLVM_FLAGS)
def test_flags_are_on_every_operation(flag):
    @device.kernel
    def k(x, y):
        a, b = x[0], y[0]
        x[1] = a + b
        x[2] = a - b
        x[3] = a * b
        x[4] = a / b
        x[5] = -a
        x[6] = 1.0 if a < b else 0.0
        x[7] = math.sqrt(a)

    llvm = str(device.compile(k, VECTOR, VECTOR, output="llvm", fastmath={flag}, contract=False))
    plain = str(device.compile(k, VECTOR, VECTOR, output="llvm", contract=False))
    for operation in ("fadd", "fsub", "fmul", "fdiv", "fneg", "fcmp", "call"):
        lines = [line for line in llvm.splitlines() if re.search(rf"= {operation}\b", line) and "float" in line]
        assert lines
        assert all(re.search(rf"= {operation} {flag} ", line) for line in lines)
        assert not re.search(rf"= {operation} {flag} ", plain)


def test_reassociation_does_something():
    @device.kernel
    def k(x):
        x[0] = x[0] + 1.0 + 2.0

    counts = [
        instructions(ptx(k, VECTOR, fastmath=fastmath)).count("add.rn.f32")
        + instructions(ptx(k, VECTOR, fastmath=fastmath)).count("add.f32")
        for fastmath in (False, {"reassoc", "nsz"})
    ]
    assert counts == [2, 1]


def test_contract_may_be_named():
    @device.kernel
    def k(x):
        x[0] = x[0] * x[1] + x[2]

    for fastmath, contract, fuses in ((False, True, 1), (False, False, 0), ({"contract"}, False, 1), (True, False, 0)):
        found = instructions(ptx(k, VECTOR, fastmath=fastmath, contract=contract))
        assert sum(name.startswith("fma") for name in found) == fuses


def test_fast_math_computes_about_the_same(stream):
    kernel = device.kernel(fastmath=True)(arithmetic.underlying)
    x, y = np.linspace(0.5, 4, 64, dtype=np.float32), np.linspace(1, 2, 64, dtype=np.float32)
    found = stream.run(kernel, x, y, block=64)[-1]
    expected = np.exp(x.astype(float) / y) + np.sqrt(x.astype(float)) * x.astype(float) ** y
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("kernel", [mixed, arithmetic])
def test_options_assemble(kernel, target):
    options = {"fastmath": True, "lineinfo": True, "max_threads": 128, "min_blocks": 2, "checked": True}
    assert device.compile(kernel, VECTOR, VECTOR, target=target, **options).code


# Lines

SOURCE = """
    @device.func
    def half(v):
        return v / 2.5

    @device.kernel
    def k(x, y):
        i = device.thread_idx.x
        a = x[i]
        device.syncthreads()
        y[i] = half(a)
    """


def lines_of(text, instruction):
    """The lines that stand before instructions that begin so, as (file, line)."""
    files = dict(re.findall(r'^\t\.file\t(\d+) "(.*)"$', text, re.M))
    found, here = [], None
    for line in text.splitlines():
        if place := re.match(r"\t\.loc\t(\d+) (\d+) ", line):
            here = files[place[1]], int(place[2])
        elif line.startswith(f"\t{instruction}"):
            found.append(here)
    return found


def test_each_instruction_has_its_line():
    kernel = define(SOURCE, file="/home/user/lines.py")
    text = ptx(kernel, lineinfo=True)
    assert lines_of(text, "ld.global") == [("/home/user/lines.py", 8)]
    assert lines_of(text, "bar.sync") == [("/home/user/lines.py", 9)]
    assert lines_of(text, "div.rn") == [("/home/user/lines.py", 3)]
    assert lines_of(text, "st.global") == [("/home/user/lines.py", 10)]


def test_functions_of_several_files():
    helper = define("@device.func\ndef twice(v):\n    return v * 3.5\n", "twice", file="/home/user/other.py")
    kernel = define("@device.kernel\ndef k(x):\n    x[0] = twice(x[1])\n", file="/home/user/main.py", twice=helper)
    text = ptx(kernel, VECTOR, lineinfo=True)
    assert lines_of(text, "mul") == [("/home/user/other.py", 3)]
    assert lines_of(text, "st.global") == [("/home/user/main.py", 3)]


@pytest.mark.parametrize("checked", [False, True])
def test_lines_change_no_instruction(checked):
    plain, lined = (ptx(mixed, lineinfo=lineinfo, checked=checked) for lineinfo in (False, True))
    assert "\t.loc\t" not in plain
    assert "\t.loc\t" in lined
    assert instructions(plain) == instructions(lined)


def test_the_cubin_knows_the_file():
    kernel = define(SOURCE, file="/home/user/lines.py")
    assert b"lines.py" in device.compile(kernel, VECTOR, VECTOR, lineinfo=True).code
    assert b"lines.py" not in device.compile(kernel, VECTOR, VECTOR).code


@pytest.mark.parametrize("file", ["<stdin>", '/tmp/a "quoted" name.py', "/tmp/back\\slash.py", "/tmp/größe.py", ""])
def test_names_of_files(file):
    kernel = define(SOURCE, file=file)
    assert device.compile(kernel, VECTOR, VECTOR, lineinfo=True).code
    assert "\t.loc\t" in ptx(kernel, lineinfo=True)


def test_lines_of_our_own_python_that_was_inlined():
    """Checked mode inlines our helpers: what they do stands on the user's line."""
    kernel = define("@device.kernel\ndef k(x, i):\n    x[0] = divmod(x[1], i)[0]\n", file="/home/user/own.py")
    text = ptx(kernel, device.ArrayType(device.int32, 1), int, lineinfo=True, checked=True)
    assert lines_of(text, "div.s32") == [("/home/user/own.py", 3)] * len(lines_of(text, "div.s32"))
    assert lines_of(text, "div.s32")


# What a kernel says of itself


def test_a_kernel_tells_what_was_compiled():
    kernel = device.kernel(mixed.underlying)
    assert repr(kernel) == "<kernel mixed>"
    x = np.ones(64, np.float32)
    device.launch(kernel, x, x.copy(), grid=1, block=64, stream=device.cpu_stream())
    shown = "(array<float32, 1, C>, array<float32, 1, C>) on the CPU as sm_90a, 256 bytes of shared memory"
    assert repr(kernel) == f"<kernel mixed: {shown}>"
    device.launch(kernel, x.astype(float), x.copy(), grid=1, block=64, stream=device.cpu_stream())
    assert repr(kernel).startswith(f"<kernel mixed: {shown}; (array<float64, 1, C>, ")


def counted(text, target):
    """The registers that nvJitLink says that it used, in the thread that may hold its lock."""
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
    apart = assemblers._apart
    return apart.submit(count, nvjitlink, text, target).result() if apart else count(nvjitlink, text, target)


def count(nvjitlink, text, target):
    options = [f"-arch={target}", "-O3", "-Xptxas=-v", "-no-cache"]  # what comes out of a cache comes without a log
    options += [f"-Xptxas=-{assemblers._COPIES}=true"] * assemblers._knows(assemblers._COPIES)
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text.encode(), len(text.encode()), "kernel.ptx")
    nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    nvjitlink.destroy(handle)
    return int(re.search(r"Used (\d+) registers", log.decode())[1])


def test_a_variant_for_a_gpu_knows_its_registers(monkeypatch):
    monkeypatch.setenv(cubin.VARIABLE, "nvJitLink")
    kernel = device.kernel(mixed.underlying)
    with fake_driver.installed():
        device.launch(kernel, device.zeros(64), device.zeros(64), grid=1, block=64)
    used = counted(ptx(mixed, launch_facts=True), "sm_90")
    assert repr(kernel) == (
        f"<kernel mixed: (array<float32, 1, C>, array<float32, 1, C>) on sm_90a, {used} registers, 256 bytes of shared memory>"
    )


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_121"])
def test_registers_are_those_that_the_assembler_counts(target, monkeypatch):
    monkeypatch.setenv(cubin.VARIABLE, "nvJitLink")
    made = device.compile(mixed, VECTOR, VECTOR, target=target)
    assert made.registers == counted(ptx(mixed, target=target), target)


def test_what_is_no_cubin_has_no_registers():
    assert elf.registers(b"") == elf.registers(b"\x7fELF\x01") == elf.registers(b"text") == {}
