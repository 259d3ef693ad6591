"""The stack of GPU threads: kernels with recursion get more than a context starts with, once, and no other kernel does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import can_assemble
from fake_driver import CONTEXT, FakeDriver, installed
from ir_helpers import job

import cuda_device as device
from cuda_device.codegen.gpu import assemblers, cubin, elf

LIMIT = "CU_LIMIT_STACK_SIZE"
KIB = 1024
RECURSION = 32 * KIB  # what kernels with recursion get


def mixed(n, a, b):
    """Keeps eight numbers and what it was given while it calls itself."""
    kept = device.local_array(8, device.int32)
    for i in range(8):
        kept[i] = n * i + a
    if n == 0:
        return kept[b % 8] ^ b
    below = mixed(n - 1, b, kept[a % 8])
    return below % 1000 + kept[below % 8] % 1000 + a % 7


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def last(n, a):
    """A loop for LLVM."""
    return a if n <= 0 else last(n - 1, a + n)


def in_python(n, a, b):
    kept = [n * i + a for i in range(8)]
    if n == 0:
        return kept[b % 8] ^ b
    below = in_python(n - 1, b, kept[a % 8])
    return below % 1000 + kept[below % 8] % 1000 + a % 7


@pytest.mark.parametrize("level", [0, 3])
def test_recursion_of_two_hundred_calls(stream, level):
    """1 KiB of stack, which a context has at first, ends long before."""

    @device.kernel(level=level)
    def kernel(n, a, out):
        i = device.tid(1)
        out[i] = mixed(n + i % 3, a, i)

    out = stream.empty(256, np.int32)
    stream.launch(kernel, 200, 5, out, grid=2, block=128)
    assert stream.numpy(out).tolist() == [in_python(200 + i % 3, 5, i) for i in range(256)]


def test_what_a_kernel_asks_for_is_there(stream):
    @device.kernel(level=0, stack_size=96 * KIB)
    def kernel(n, a, out):
        out[device.tid(1)] = mixed(n, a, device.tid(1))

    if stream.kind == "gpu" and stream.emulated:
        pytest.skip("the emulated GPU is slow, and has stack without end")
    out = stream.empty(32, np.int32)
    stream.launch(kernel, 600, 5, out, grid=1, block=32)
    assert stream.numpy(out).tolist() == [in_python(600, 5, i) for i in range(32)]


# ---- What the driver is asked for


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    with installed(devices=2) as fake:
        fake.attributes |= {"MULTIPROCESSOR_COUNT": 128, "MAX_THREADS_PER_MULTIPROCESSOR": 2048}
        fake.total_memory = 128 << 30
        yield fake


def queue(ordinal: int = 0) -> device.GpuStream:
    return device.GpuStream(0x77 + ordinal, ordinal, context=CONTEXT + ordinal)


def launched(kernel: device.Kernel, ordinal: int = 0) -> None:
    stream = queue(ordinal)
    device.launch(kernel, 3, device.zeros(8, np.int32, stream=stream), grid=1, block=8, stream=stream)


def asked(gpu: FakeDriver) -> list[int]:
    return [entry[2] for entry in gpu.log if entry[:2] == ("cuCtxSetLimit", LIMIT)]


def kernel_of(expression: str, level: int = 3, **options: Any) -> device.Kernel:
    source = f"def kernel(n, out):\n    out[device.tid(1)] = {expression}\n"
    names: dict[str, Any] = {**globals()}
    exec(source, names)
    return device.kernel(level=level, **options)(names["kernel"])


@pytest.mark.parametrize(
    "expression, level, recursion",
    [
        ("fibonacci(n)", 0, True),
        ("fibonacci(n)", 3, True),
        ("mixed(n, 1, 2)", 3, True),
        ("even(n)", 0, True),
        ("last(n, 0)", 0, True),
        ("last(n, 0)", 3, False),
        ("n + 1", 0, False),
        ("max(n, min(n, 5)) // n", 0, False),
    ],
)
def test_who_gets_more(gpu, expression, level, recursion):
    launched(kernel_of(expression, level))
    assert asked(gpu) == [RECURSION] * recursion
    before_it = gpu.names().index("cuLaunchKernel")
    assert "cuCtxSetLimit" not in gpu.names()[before_it:]


def test_once_for_each_context(gpu):
    first, second = kernel_of("fibonacci(n)"), kernel_of("fibonacci(n + 1)")
    for kernel in (first, second, first):
        launched(kernel)
    assert asked(gpu) == [RECURSION]
    launched(first, ordinal=1)
    assert asked(gpu) == [RECURSION] * 2
    assert gpu.limits == {(LIMIT, CONTEXT): RECURSION, (LIMIT, CONTEXT + 1): RECURSION}


def test_it_is_never_lowered(gpu):
    gpu.limits[LIMIT, CONTEXT] = 40 * KIB
    launched(kernel_of("fibonacci(n)"))
    launched(kernel_of("n", stack_size=2 * KIB))
    assert asked(gpu) == []
    launched(kernel_of("n", stack_size=64 * KIB))
    launched(kernel_of("fibonacci(n)", stack_size=8 * KIB))
    assert asked(gpu) == [64 * KIB]


def test_an_option_counts_for_more_and_for_less(gpu):
    launched(kernel_of("fibonacci(n)", stack_size=8 * KIB))
    launched(kernel_of("n + 1", stack_size=128 * KIB))
    assert asked(gpu) == [8 * KIB, 128 * KIB]


def test_stacks_take_an_eighth_of_a_small_memory(gpu):
    gpu.total_memory = 16 << 30
    launched(kernel_of("fibonacci(n)"))
    assert asked(gpu) == [8 * KIB]
    assert 8 * KIB * 128 * 2048 == gpu.total_memory // 8


@pytest.mark.parametrize(("expression", "stack_size"), [("n", 64 * KIB), ("fibonacci(n)", None)])
def test_a_stack_for_which_there_is_no_memory_is_refused(gpu, expression, stack_size):
    gpu.most_stack = 10_000
    wanted = stack_size or RECURSION
    with pytest.raises(device.LaunchError, match=f"kernel needs {wanted} bytes of stack for each thread") as caught:
        launched(kernel_of(expression, **({"stack_size": stack_size} if stack_size else {})))
    assert "CUDA_ERROR_OUT_OF_MEMORY" in str(caught.value)
    assert "cuLaunchKernel" not in gpu.names()


def test_a_capture_is_not_spoilt(gpu, monkeypatch):
    modes, during = ["GLOBAL"], []

    def exchange(mode: str) -> tuple[int, str]:
        modes.append(mode)
        return 0, modes[-2]

    plain = gpu.cuCtxSetLimit
    monkeypatch.setattr(gpu, "cuThreadExchangeStreamCaptureMode", exchange)
    monkeypatch.setattr(gpu, "cuCtxSetLimit", lambda *limit: (during.append(modes[-1]), plain(*limit))[1])
    launched(kernel_of("fibonacci(n)"))
    assert during == ["CU_STREAM_CAPTURE_MODE_RELAXED"]
    assert modes[-1] == "GLOBAL"


# ---- What the assemblers say


@pytest.mark.parametrize("name", [row.name for row in assemblers.ASSEMBLERS if row.name != "driver"])
def test_what_cubins_say_of_stacks(name, monkeypatch):
    if not can_assemble(by=name):
        pytest.skip(f"no {name} on this machine")
    monkeypatch.setenv(cubin.VARIABLE, name)

    def code(kernel: device.Kernel, output: str = "cubin") -> Any:
        return device.compile(kernel, device.int32, np.zeros(1, np.int32), target="sm_90", level=0, output=output).code

    deep, flat = code(kernel_of("mixed(n, 1, 2)")), code(kernel_of("n + 1"))
    assert elf.stacks(flat) == {"kernel": 0}
    assert elf.functions(flat) == {"kernel"}
    assert len(elf.functions(deep)) > 1 and "kernel" in elf.functions(deep)
    if name == "nvJitLink":  # when it copies no functions; else it counts recursion as nothing, as ptxas does
        part = assemblers._link(
            assemblers.Request(
                code(kernel_of("mixed(n, 1, 2)"), "ptx"), job(in_python, int, int, int).target.architecture
            )
        )
        assert elf.stacks(part) == {"kernel": elf.UNBOUNDED}
    assert elf.stacks(b".version 8.8") == {} and elf.functions(b".version 8.8") == frozenset()
