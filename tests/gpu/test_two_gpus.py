"""Two GPUs at once: a kernel is loaded in the context of each, streams decide where it runs, and arrays must be there."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from at_once import at_once
from conftest import GPUS, HAS_LAUNCHERS, LAUNCHES

import cuda_device as device
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import as_stream

pytestmark = pytest.mark.skipif(GPUS < 2, reason="not two GPUs")
N = 10_000


def new_kernel():
    @device.kernel
    def axpy(a, x, y):
        i = device.tid(1)
        if i < len(y):
            y[i] += a * x[i]

    return axpy


def launch(kernel, *args, stream):
    device.launch(kernel, *args, grid=(N + 255) // 256, block=256, stream=stream)


@pytest.fixture
def streams():
    """The default stream of each, and two more that are ordered with no other."""
    made = [device.GpuStream(driver.LEGACY_STREAM, ordinal) for ordinal in range(2)]
    for ordinal in range(2):
        with driver.using(driver.primary_context(ordinal)):
            flags = driver.bindings().CUstream_flags.CU_STREAM_NON_BLOCKING
            made.append(as_stream(int(driver.check(driver.bindings().cuStreamCreate(flags)))))
    assert [stream.ordinal for stream in made] == [0, 1, 0, 1]
    return made


def arrays_on(stream, value=1.0):
    return device.array(np.full(N, value, np.float32), stream=stream), device.zeros(N, stream=stream)


def test_a_kernel_runs_on_each(streams):
    kernel = new_kernel()
    arrays = [arrays_on(stream, 1.0 + number) for number, stream in enumerate(streams)]
    for _ in range(3 * LAUNCHES):
        for stream, (x, y) in zip(streams, arrays, strict=True):
            launch(kernel, 2.0, x, y, stream=stream)
    assert driver.current_ordinal() == 0
    for number, (_, y) in enumerate(arrays):
        assert (y.numpy() == 3 * LAUNCHES * 2 * (1 + number)).all()
    (variant,) = kernel.variants.values()
    assert set(variant.loaded) == {stream.context for stream in streams} and len(variant.loaded) == 2


@pytest.mark.parametrize("launches", [0, 2 * LAUNCHES], ids=["by Python", "by machine code"])
def test_arrays_of_the_other_are_refused(streams, launches):
    kernel = new_kernel()
    here, there = arrays_on(streams[0]), arrays_on(streams[1])
    for _ in range(launches):
        launch(kernel, 1.0, *here, stream=streams[0])
    for arguments in ((here[0], there[1]), (there[0], here[1]), there):
        with pytest.raises(device.LaunchError, match=r"'[xy]'.* GPU 1"):
            launch(kernel, 1.0, *arguments, stream=streams[0])
    with pytest.raises(device.LaunchError, match=r"'x'.* GPU 0"):
        launch(kernel, 1.0, *here, stream=streams[1])
    launch(kernel, 1.0, *there, stream=streams[1])
    assert (here[1].numpy() == launches).all() and (there[1].numpy() == 1).all()


def test_prepared_launches(streams):
    kernel, grid = new_kernel(), (N + 255) // 256
    arrays = [arrays_on(stream) for stream in streams]
    steps = [
        device.prepare(kernel, 1.0, x, y, grid=grid, block=256, stream=stream)
        for stream, (x, y) in zip(streams, arrays, strict=True)
    ]
    for _ in range(100):
        for step in steps:
            step()
    for _, y in arrays:
        assert (y.numpy() == 100).all()
    with pytest.raises(device.LaunchError, match="GPU 1"):
        steps[0](x=arrays[1][0])


def test_what_a_kernel_reports_comes_from_where_it_ran(streams):
    @device.kernel(checked=True)
    def past_the_end(x, i):
        x[i] = 1

    x, y = arrays_on(streams[0])[0], arrays_on(streams[1])[0]
    device.launch(past_the_end, y, N, grid=1, block=1, stream=streams[1])
    device.synchronize(streams[0])
    with pytest.raises(device.KernelError, match="index 10000 is out of bounds"):
        device.synchronize(streams[1])
    kernel = new_kernel()
    for stream, array in ((streams[0], x), (streams[1], y)):
        launch(kernel, 1.0, array, array, stream=stream)
        assert (array.numpy() == 2).all()


def test_eight_threads(streams):
    """All with one kernel and arrays of their own. Four stay on a GPU, as a thread of a framework does; four go to and fro."""
    kernel = new_kernel()

    def work(number):
        places = [streams[number % 4]] if number < 4 else [streams[number % 4], streams[(number + 1) % 4]]
        arrays = [arrays_on(stream, 1.0 + number) for stream in places]
        with driver.using(places[0].context):
            for _ in range(2000):
                for stream, (x, y) in zip(places, arrays, strict=True):
                    launch(kernel, 1.0, x, y, stream=stream)
        for _, y in arrays:
            assert (y.numpy() == 2000 * (1 + number)).all()

    at_once(partial(work, number) for number in range(8))


def test_tensors(streams):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("torch sees one GPU")
    kernel = new_kernel()
    for ordinal in (0, 1):
        for side in (torch.cuda.default_stream(ordinal), torch.cuda.Stream(ordinal)):
            x = torch.ones(N, device=f"cuda:{ordinal}")
            y = torch.zeros(N, device=f"cuda:{ordinal}")
            torch.cuda.synchronize(ordinal)
            with torch.cuda.device(ordinal), torch.cuda.stream(side):
                for _ in range(20):
                    launch(kernel, 2.0, x, y, stream=side)
                total = y.sum()
            assert total.item() == 40 * N
            if HAS_LAUNCHERS:
                launches = sum(variant.launches for variant in kernel.variants.values())
                assert launches < 20 * 4
            with pytest.raises(
                device.LaunchError, match=f"is on GPU {ordinal}, but the stream is on GPU {1 - ordinal}"
            ):
                launch(kernel, 2.0, x, y, stream=streams[1 - ordinal])
    assert torch.cuda.current_device() == 0


def test_cupy_arrays(streams):
    cupy = pytest.importorskip("cupy")
    kernel = new_kernel()
    for ordinal in (0, 1):
        with cupy.cuda.Device(ordinal):
            x, y = cupy.ones(N, "f4"), cupy.zeros(N, "f4")
            with cupy.cuda.Stream(non_blocking=True) as side:
                side.synchronize()
                cupy.cuda.Device(ordinal).synchronize()
                for _ in range(20):
                    launch(kernel, 2.0, x, y, stream=side)
                side.synchronize()
            assert (y == 40).all()
            with pytest.raises(device.LaunchError, match="GPU"):
                launch(kernel, 2.0, x, y, stream=streams[1 - ordinal])
