"""`autotune`: which configuration runs, on CPU streams and with a driver that says how long each one takes."""

from __future__ import annotations

import inspect
import logging
import pickle

import numpy as np
import pytest
from fake_driver import installed

import cuda_device as device
from cuda_device import ConstExpr, float32, hooks, int32

if not (hooks.installed("plugins.benchmarking") and hooks.installed("plugins.bound_kernels")):
    pytest.skip("autotuning is built on the plugins benchmarking and bound_kernels", allow_module_level=True)

pytestmark = pytest.mark.needs("bound_kernels")


@device.kernel
def note(x, n: int32, step: ConstExpr = 7, extra: ConstExpr = 0):
    """Writes what it was compiled for, and how it was launched."""
    if device.tid(1) == 0:
        x[0], x[1], x[2], x[3] = step, extra, device.block_dim.x, device.grid_dim.x
        x[4] += 1


CONFIGS = [{"step": 2, "block": 32}, {"step": 4, "block": 64, "grid": 3}, {"step": 8, "extra": 1, "block": 128}]
tuned = device.autotune(CONFIGS, key=["n"])(note)


@device.autotune([{"step": 1}, {"step": 3}], key=["x"], restore=["x"])
def fill(x, value, *, step, stream=None):
    """Launches twice, and says with what."""
    for _ in range(2):
        device.launch(note, x, value, step, grid=1, block=32, stream=stream)
    return step


# On CPU streams, which run the first configuration


def test_the_first_config_fills_what_a_launch_leaves_out():
    stream, x = device.cpu_stream(), np.zeros(5, np.int32)
    device.launch(tuned, x, 5, grid=2, stream=stream)
    assert x.tolist() == [2, 0, 32, 2, 1]
    tuned(x, 5, grid=1, stream=stream)
    device.launch(tuned, x, n=5, threads=256, block=64, step=9, stream=stream)
    assert x.tolist() == [9, 0, 64, 4, 3]
    device.prepare(tuned, x, 5, grid=1, stream=stream)()
    assert x.tolist() == [2, 0, 32, 1, 4]
    assert tuned.best(x, 5, stream=stream) == CONFIGS[0]
    with pytest.raises(TypeError, match="a launch needs grid or threads"):
        device.launch(tuned, x, 5, stream=stream)
    with pytest.raises(TypeError, match="missing an argument for 'n'"):
        device.launch(tuned, x, grid=1, stream=stream)


def test_sizes_may_be_functions_and_bound():
    stream, x = device.cpu_stream(), np.zeros(5, np.int32)
    bound = note.bind(grid=lambda x, n, step, extra: step + n, block=64)
    device.autotune([{"step": 2}, {"step": 4}], key=["n"])(bound)(x, 1, stream=stream)
    assert x.tolist() == [2, 0, 64, 3, 1]
    configs = [{"step": 5, "threads": lambda x, n, step, extra: 32 * step, "block": 32}]
    device.launch(device.autotune(configs, key=[])(bound), x, 1, stream=stream)
    assert x.tolist() == [5, 0, 32, 5, 2]
    device.launch(bound, x, 1, block=32, stream=stream)
    assert x.tolist() == [7, 0, 32, 8, 3]
    device.prepare(bound, x, 1, threads=70, stream=stream)(n=3)
    assert x.tolist() == [7, 0, 64, 2, 4]


def test_a_function_is_called_with_the_first_config():
    x = np.zeros(5, np.int32)
    assert fill(x, 5, stream=device.cpu_stream()) == 1 == x[0]
    assert fill(x, 5, step=6, stream=device.cpu_stream()) == 6 == x[0]
    assert fill.best(x, 5) == {"step": 1} and inspect.signature(fill) == inspect.signature(fill.underlying)
    assert x[4] == 4


def test_captures_run_the_first_config_on_cpu_streams():
    x = np.zeros(5, np.int32)
    with device.graph(device.cpu_stream()) as graph:
        device.launch(tuned, x, 5, grid=1, stream=graph.stream)
    graph.launch()
    graph.launch()
    assert x.tolist() == [2, 0, 32, 1, 2]


def test_tuned_objects_are_pickled():
    again = pickle.loads(pickle.dumps(tuned))
    assert again.configs == tuned.configs and again.underlying is note.underlying
    assert pickle.loads(pickle.dumps(fill)) is fill


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (
            lambda: device.autotune([{"steps": 2}], key=[])(note),
            "a config of autotune names 'steps', which is none of step",
        ),
        (lambda: device.autotune([{"n": 2}], key=[])(note), "a config of autotune names 'n'"),
        (lambda: device.autotune([{"stream": 2}], key=[])(note), "a config of autotune names 'stream'"),
        (lambda: device.autotune([{"step": 2}], key=["m"])(note), "key of autotune names 'm', which is none of x, n"),
        (lambda: device.autotune([{"step": 2}], key=[], restore=["y"])(note), "restore of autotune names 'y'"),
        (lambda: device.autotune([{"block": 2}], key=[])(fill.underlying), "a config of autotune names 'block'"),
        (lambda: device.autotune([{"step": 2}], key="n")(note), "key is a list of names, not the str 'n'"),
        (lambda: device.autotune([], key=["n"])(note), "takes a list of configs"),
        (lambda: device.autotune({"step": 2}, key=["n"])(note), "takes a list of configs"),
        (lambda: device.autotune([2], key=["n"])(note), "a config is a dict"),
        (lambda: device.autotune([{}], key=[])(3), "autotune takes a kernel, .*, not 3"),
        (lambda: device.launch(fill, 1, grid=1, block=1), "launch needs a kernel, not an object of type TunedFunction"),
    ],
)
def test_mistakes_are_type_errors_at_once(decorate, message):
    with pytest.raises(TypeError, match=message):
        decorate()


# On GPUs


class Clock:
    """A driver whose events are as far apart as a table says for each configuration in turn."""

    def __init__(self, gpu, milliseconds):
        self.gpu, self.times, self.calls = gpu, milliseconds, 0
        gpu.cuEventElapsedTime = self.elapsed

    def elapsed(self, first, second):
        self.calls += 1
        return 0, self.times[(self.calls - 1) % len(self.times)]


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path))
    with installed() as fake:
        fake.attributes |= {"L2_CACHE_SIZE": 1 << 10, "MULTIPROCESSOR_COUNT": 132}
        yield fake


def again():
    return device.autotune(CONFIGS, key=["n"])(note)


def launches(gpu):
    return [entry for entry in gpu.log if entry[0] == "cuLaunchKernel"]


def block_of(gpu):
    """The threads in a block of the newest launch."""
    return launches(gpu)[-1][3][0]


def test_the_fastest_config_is_measured_once_for_each_key_and_kept_on_disk(gpu):
    clock, x = Clock(gpu, [3.0, 1.0, 2.0]), device.zeros(5, int32)
    first = again()
    device.launch(first, x, 5, grid=1)
    measured = clock.calls
    assert block_of(gpu) == 64 and measured >= 30
    assert first.best(x, 5) == CONFIGS[1]
    device.launch(first, x, 5, grid=1)
    count = len(launches(gpu))
    device.launch(again(), x, 5, grid=1)  # another process would find the result
    assert block_of(gpu) == 64 and clock.calls == measured and len(launches(gpu)) == count + 1
    clock.times, clock.calls = [2.0, 3.0, 1.0], 0
    device.launch(first, x, 6, grid=1)
    assert block_of(gpu) == 128 and clock.calls >= 30
    device.launch(first, x, 5, grid=1)
    assert block_of(gpu) == 64
    other = device.autotune(CONFIGS[:2], key=["n"])(note)
    clock.times, clock.calls = [1.0, 2.0], 0
    device.launch(other, x, 5, grid=1)
    assert block_of(gpu) == 32 and clock.calls >= 20


def test_what_a_launch_gives_is_not_tuned(gpu):
    clock, x = Clock(gpu, [3.0, 1.0, 2.0]), device.zeros(5, int32)
    device.launch(again(), x, 5, step=1, extra=0, block=96, grid=1)
    assert block_of(gpu) == 96 and clock.calls == 0 and len(launches(gpu)) == 1


def test_configs_that_cannot_run_are_skipped(gpu, caplog):
    @device.kernel
    def shares(x, size: ConstExpr):
        tile = device.shared_array(size, float32)
        x[0] = tile[0]

    configs = [{"size": 100_000}, {"size": 16}, {"size": 32}]
    clock, x = Clock(gpu, [2.0, 1.0]), device.zeros(5, float32)
    with caplog.at_level(logging.INFO, "cuda_device"):
        picky = device.autotune(configs, key=["x"])(shares)
        device.launch(picky, x, grid=1, block=32)
    assert picky.best(x) == {"size": 32} and clock.calls >= 20
    assert "cannot run with the config {'size': 100000}" in caplog.text
    assert "takes 1000.0 µs with the config {'size': 32}" in caplog.text
    hopeless = device.autotune([{"size": 100_000}, {"size": 200_000}], key=["x"])(shares)
    with pytest.raises(device.Error, match="400000") as caught:
        device.launch(hopeless, x, grid=1, block=32)
    assert "No config of" in caught.value.__notes__[0]


def test_arrays_are_restored_before_each_run(gpu):
    contents = []

    @device.autotune([{"step": 1}, {"step": 3}], key=["x"], restore=["x"])
    def put(x, step):
        contents.append((step, int(x.numpy()[0])))
        x[0] = 100 * step

    Clock(gpu, [2.0, 1.0])
    x = device.full(4, 7, int32)
    put(x)
    assert contents[-1] == (3, 7) and x.numpy()[0] == 300
    assert len(contents) >= 2 * 10 + 1 and {value for _, value in contents} == {7}


def test_types_are_keys(gpu):
    calls = []

    @device.autotune([{"step": 1}, {"step": 3}], key=["dtype"])
    def put(x, dtype, step):
        calls.append((dtype, step))

    Clock(gpu, [2.0, 1.0])
    x = device.zeros(4, int32)
    for dtype in (np.float16, device.bfloat16):
        assert put.best(x, dtype) == {"step": 3}
    count = len(calls)
    put(x, np.float16)
    assert len(calls) == count + 1 and {dtype for dtype, _ in calls} == {np.float16, device.bfloat16}


def test_a_capture_uses_what_is_known(gpu, caplog):
    Clock(gpu, [3.0, 1.0, 2.0])
    x, stream = device.zeros(5, int32), device.default_stream()
    kernel = again()
    gpu.capturing.add(stream.handle)
    with caplog.at_level(logging.WARNING, "cuda_device"):
        device.launch(kernel, x, 5, grid=1)
    assert block_of(gpu) == 32 and "is captured before it was measured" in caplog.text
    gpu.capturing.clear()
    device.launch(kernel, x, 5, grid=1)
    gpu.capturing.add(stream.handle)
    device.launch(kernel, x, 5, grid=1)
    assert block_of(gpu) == 64


def test_configs_on_this_machine_give_the_same(stream):
    x = stream.array(np.zeros(5, np.int32))
    kernel = device.autotune(CONFIGS, key=["n"], restore=["x"])(note)
    for n in (5, 6):
        device.launch(kernel, x, n, grid=2, stream=stream.stream)
        best = kernel.best(x, n, stream=stream.stream)
        assert best in CONFIGS
        assert stream.numpy(x).tolist()[:4] == [best["step"], best.get("extra", 0), best["block"], 2]
    assert stream.numpy(x)[4] == 2
