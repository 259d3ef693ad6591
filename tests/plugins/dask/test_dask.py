"""Kernels on a cluster of Dask: arrays in blocks, one task a worker, and workers that die."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from contextlib import suppress

import numpy as np
import pytest

import cuda_device as device
from cuda_device import dask, float32, int32

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def client():
    import dask

    with (
        # A cluster gives a worker up that is away so long after another one was: two tests let one die.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


@device.kernel
def scale(a, x, y):
    i, j = device.tid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = a * x[i, j]


@device.kernel
def split(x, whole, rest):
    i = device.tid(1)
    if i < len(x):
        whole[i] = int32(x[i])
        rest[i] = x[i] - whole[i]


@device.kernel
def fail(x, y):
    assert x[0] < 3


def test_a_kernel_runs_on_each_block(client):
    numbers = np.arange(35, dtype=np.float32).reshape(5, 7)
    x = da.from_array(numbers, chunks=(2, 3))
    y = dask.launch(client, scale, 2.5, x, dask.output(float32))
    assert (y.shape, y.dtype, y.chunks) == (x.shape, np.float32, x.chunks)
    assert (y.compute() == 2.5 * numbers).all()
    assert (dask.launch(None, scale, 1.0, y, dask.output(float32)).compute() == 2.5 * numbers).all()


def test_several_outputs_and_sizes_by_functions(client):
    numbers = np.arange(100, dtype=np.float32) / 8
    x = da.from_array(numbers, chunks=30)
    sizes = {"grid": lambda x, whole, rest: len(x), "block": 1}
    whole, rest = dask.launch(client, split, x, dask.output(int32), dask.output(float32), **sizes)
    assert (whole.compute() == numbers.astype(int)).all()
    assert (rest.compute() == numbers % 1).all()


def test_map_blocks_of_a_plain_function(client):
    def tripled(block):
        x, y = device.array(block), device.zeros(block.shape)
        device.launch(scale, 3.0, x, y, threads=block.shape)
        return y.numpy()

    numbers = np.arange(20, dtype=np.float32).reshape(4, 5)
    x = da.from_array(numbers, chunks=(3, 3))
    assert (x.map_blocks(tripled, dtype=np.float32, meta=numbers[:0]).compute() == 3 * numbers).all()


def test_a_kernel_that_no_module_has(client):
    factor = 7

    @device.func
    def times(v):
        return factor * v

    @device.kernel
    def inner(x, y):
        i = device.tid(1)
        if i < len(x):
            y[i] = times(x[i])

    x = da.from_array(np.arange(4, dtype=np.int32), chunks=2)
    assert dask.launch(client, inner, x, dask.output(int32)).compute().tolist() == [0, 7, 14, 21]


def test_what_a_kernel_reports_is_raised(client):
    x = da.from_array(np.array([1, 2, 3, 4], np.float32), chunks=2)
    y = dask.launch(client, fail, x, dask.output(float32))
    with pytest.raises(device.KernelError, match="x\\[0\\] < 3"):
        y.compute()
    assert dask.spmd(client, lambda ranks: ranks.rank) == [0, 1]


@pytest.mark.needs("groups")
def test_arguments_are_checked(client):
    x, z = da.zeros((4, 4), chunks=2, dtype=np.float32), da.zeros((4, 4), chunks=4, dtype=np.float32)
    for args, reason in (
        ((1.0, np.zeros(3), dask.output(float32)), "the arguments of scale do not include a Dask array"),
        ((1.0, x, x), "the arguments of scale do not include an output"),
        ((z, x, dask.output(float32)), "argument 1 has the chunks .* and argument 0 has"),
    ):
        with pytest.raises(device.LaunchError, match=reason):
            dask.launch(client, scale, *args)
    with pytest.raises(device.LaunchError, match="launch needs a kernel, not"):
        dask.launch(client, print, x, dask.output(float32))
    with pytest.raises(device.LaunchError, match="scale is missing an argument for 'y'"):
        dask.launch(client, scale, 1.0, x)
    for call in (lambda: dask.launch("c", scale, 1.0, x, dask.output(float32)), lambda: dask.spmd(None, _sum, 0)):
        with pytest.raises(TypeError, match="is not the client of a cluster\n  help: pass a distributed.Client"):
            call()


@device.kernel
def shift(x, *, by, out):
    i = device.tid(1)
    if i < len(x):
        out[i] = x[i] + by


def test_arguments_by_name(client):
    x = da.arange(10, chunks=4, dtype=np.int32)
    y = dask.launch(client, shift, x, out=dask.output(int32), by=5)
    assert y.compute().tolist() == list(range(5, 15))
    y = dask.launch(client, scale, y=dask.output(float32), a=2.0, x=da.ones((2, 2), chunks=1, dtype=np.float32))
    assert (y.compute() == 2).all()


def test_blocks_without_elements(client):
    x = da.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), chunks=((0, 2, 0), (3, 0)))
    y = dask.launch(client, scale, 2.0, x, dask.output(float32))
    assert y.compute().tolist() == [[0, 2, 4], [6, 8, 10]]


def _ptx(ranks):
    array = device.ArrayType(float32, 2)
    text = device.compile(scale, float32, array, array, target="sm_90", output="ptx").code
    return hashlib.sha256(text.encode()).hexdigest(), os.getpid()


def test_workers_compile_to_identical_code(client):
    (first, here), (second, there) = dask.spmd(client, _ptx)
    assert first == second == _ptx(None)[0]
    assert here != there


@device.kernel
def pull(x, out):
    out[0] = 0
    for rank in range(x.n_devices):
        out[0] += x[rank][0]


@device.kernel
def only_here(x):
    """No worker has it in its memory."""
    x[device.tid(1)] = 3


def _compile_in_turn(ranks, folder):
    """What the cache did for each worker, of which the second compiles when the first has."""
    before = os.environ.get("CUDA_DEVICE_CACHE")
    os.environ["CUDA_DEVICE_CACHE"] = folder
    os.environ.pop("CUDA_DEVICE_VERIFY", None)
    try:
        if ranks.rank:
            ranks.allgather(None)
        x, start = device.zeros(4), device.cache_info()
        device.launch(only_here, x, grid=1, block=4)
        now = device.cache_info()
        if not ranks.rank:
            ranks.allgather(None)
    finally:
        os.environ["CUDA_DEVICE_CACHE"] = before
    return now.hits - start.hits, now.misses - start.misses


def test_workers_share_the_cache(client, tmp_path):
    (hits, misses), (later, none) = dask.spmd(client, _compile_in_turn, str(tmp_path / "cache"))
    assert hits == none == 0 and misses and later


def _sum(ranks, start):
    stream = device.default_stream()
    assert ranks.allgather(ranks.rank) == list(range(ranks.size))
    with device.SymmetricArray(1, int32, ranks, stream=stream) as x:
        x.local()[...] = start + ranks.rank
        ranks.allgather(None)
        out = device.zeros(1, int32, stream=stream)
        device.launch(pull, x.part, out, grid=1, block=1, stream=stream)
        return out.item()


@pytest.mark.needs("groups")
def test_workers_share_memory(client):
    assert dask.spmd(client, _sum, 10) == [21, 21]


def _raise(ranks):
    if ranks.rank == 1:
        raise ValueError("no such number")
    ranks.allgather(None)


@pytest.mark.needs("groups")
def test_a_rank_that_raises(client):
    with pytest.raises(ValueError, match="no such number") as caught:
        dask.spmd(client, _raise, timeout=20)
    assert any(note.startswith("on rank 1 (tcp://") for note in caught.value.__notes__)
    assert dask.spmd(client, _sum, 1) == [3, 3]


def _absent(ranks):
    if ranks.rank == 0:
        ranks.allgather(None)


def test_a_rank_that_does_not_come(client):
    with pytest.raises(TimeoutError, match=r"the ranks \[1\] have not reached the point where rank 0 waits"):
        dask.spmd(client, _absent, timeout=5)


def _die(ranks, marker):
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)


@pytest.mark.needs("groups")
def test_a_worker_that_dies_in_a_task(client):
    with pytest.raises(device.LaunchError, match=r"rank 1 \(tcp://.*\) was lost while its task ran"):
        dask.spmd(client, _die, 0)
    client.wait_for_workers(2, timeout=30)  # the cluster starts another one
    assert dask.spmd(client, _sum, 5) == [11, 11]


class _DieOnce:
    """The grid of a launch, in the middle of which its worker is killed the first time."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, x, whole, rest):
        if x[0] == 30:
            with suppress(FileExistsError):
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return len(x)


def test_a_worker_that_dies_in_a_launch(client, tmp_path):
    marker = tmp_path / "died"
    numbers = np.arange(100, dtype=np.float32) / 1
    x = da.from_array(numbers, chunks=30)
    sizes = {"grid": _DieOnce(str(marker)), "block": 1}
    whole, _ = dask.launch(client, split, x, dask.output(int32), dask.output(float32), **sizes)
    assert (whole.compute() == numbers.astype(int)).all() and marker.exists()
    client.wait_for_workers(2, timeout=30)


@pytest.mark.needs("groups")
def test_workers_that_are_not_there(client):
    with pytest.raises(device.LaunchError, match="help: start workers"):
        dask.spmd(client, _sum, 0, workers=["tcp://nowhere:1"])
    worker = next(iter(client.nthreads()))
    with pytest.raises(device.LaunchError, match="names a worker twice"):
        dask.spmd(client, _sum, 0, workers=[worker] * 2)
    with pytest.raises(TypeError, match=r"help: pass a list of addresses: \['tcp://"):
        dask.spmd(client, _sum, 0, workers=worker)


def _endless(ranks):
    ranks.allgather(None)
    if ranks.rank == 0:
        raise ValueError("this one fails")
    while True:
        time.sleep(0.1)


@pytest.mark.needs("groups")
@pytest.mark.long
def test_a_rank_that_does_not_end(client, monkeypatch):
    monkeypatch.setattr(dask, "_GRACE", 0.5)
    with pytest.raises(ValueError, match="this one fails") as caught:
        dask.spmd(client, _endless)
    (note,) = (note for note in caught.value.__notes__ if "restart_workers" in note)
    (busy,) = re.findall(r"tcp://[^']*", note)
    with pytest.raises(device.LaunchError, match=rf"rank 1 \({busy}\) has had no free thread for 1 seconds\n.*{busy}"):
        dask.spmd(client, _sum, 0, timeout=1)
    client.restart_workers([busy])
    assert dask.spmd(client, _sum, 5) == [11, 11]
