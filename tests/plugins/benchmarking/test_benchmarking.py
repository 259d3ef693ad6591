"""`benchmark`: what it counts, on the CPU and with a driver that records what it is told."""

import time

import fake_driver
import numpy as np
import pytest

import cuda_device as device


def test_calls_on_a_cpu_stream_are_timed():
    calls = []

    def sleeps():
        calls.append(None)
        time.sleep(0.002)

    timing = device.benchmark(sleeps, stream=device.cpu_stream(), warmup=0.01, duration=0.03)
    assert 0.002 <= timing.low <= timing.median <= timing.high < 0.1
    assert 10 <= timing.count <= len(calls) - 6


def test_a_kernel_on_a_cpu_stream():
    x = np.zeros(64, np.float32)
    stream = device.cpu_stream()

    @device.kernel
    def add_one(x):
        x[device.tid(1)] += 1

    timing = device.benchmark(
        lambda: device.launch(add_one, x, grid=1, block=64, stream=stream), stream=stream, warmup=0, duration=0.001
    )
    assert timing.count >= 10 and (x == timing.count + 6).all()


@pytest.mark.parametrize("cold", [True, False])
def test_events_on_the_stream_are_around_each_call(cold):
    with fake_driver.installed() as driver:
        driver.attributes["L2_CACHE_SIZE"] = 1 << 20
        where = device.default_stream()
        timing = device.benchmark(lambda: driver._answer("work"), stream=where, warmup=0, duration=1e-9, cold=cold)
        assert (timing.median, timing.low, timing.high, timing.count) == (0.0025, 0.0025, 0.0025, 10)
        one = ["cuLaunchKernel", "cuEventRecord", "work", "cuEventRecord"]
        order = [name for name in driver.names() if name in (*one, "cuMemsetD8Async")]
        first = order.index("cuEventRecord") - 1 - cold
        assert order[first:] == 10 * (["cuMemsetD8Async"] * cold + one)
        assert all(entry[2] == where.handle for entry in driver.log if entry[0] == "cuEventRecord")
        assert [entry[1:] for entry in driver.log if entry[0] == "cuMemsetD8Async"] == 10 * cold * [(2 << 20, 1)]
        assert driver.names().count("cuEventDestroy") == 20


def test_the_gpu_is_busy_until_the_host_has_submitted_a_call():
    with fake_driver.installed() as driver:
        driver.parameters, driver.sizes = 1, (8,)
        calls = [lambda: time.sleep(0.004), lambda: None]
        device.benchmark(calls, stream=device.default_stream(), warmup=0, duration=1e-9, cold=False)
        waits = [nanoseconds * 1e-9 for (nanoseconds,) in driver.words]
        assert len(waits) == 20 and len(set(waits)) == 2
        assert 20e-6 < waits[1] < 0.004 < waits[0] < 0.1


def test_what_the_function_raises_leaves_nothing_behind():
    with fake_driver.installed() as driver:
        driver.attributes["L2_CACHE_SIZE"] = 1 << 20
        calls = []

        def fails():
            calls.append(None)
            if len(calls) > 8:
                raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            device.benchmark(fails, stream=device.default_stream(), warmup=0, duration=1e-9)
        names = driver.names()
        assert names.count("cuEventDestroy") == 20
        assert sum("Alloc" in name for name in names) == sum("Free" in name for name in names) == 1


@pytest.mark.parametrize("wrong", [{"duration": 0}, {"warmup": -1}, {"duration": float("nan")}])
def test_times_are_positive(wrong):
    with pytest.raises(ValueError, match="give seconds"):
        device.benchmark(lambda: None, stream=device.cpu_stream(), **wrong)


def test_a_timing_is_shown_in_a_fitting_unit():
    assert str(device.Timing(1.432e-4, 1.429e-4, 1.438e-4, 698)) == "143.2 µs (142.9 to 143.8 µs), 698 calls"
    assert str(device.Timing(2.0, 1.5, 2.5, 10)) == "2.0 s (1.5 to 2.5 s), 10 calls"
