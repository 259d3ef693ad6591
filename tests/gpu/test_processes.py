"""A process for each of two GPUs: symmetric arrays in spawned processes and under launchers, workers of dask-cuda, NVSHMEM."""

from __future__ import annotations

import numpy as np
import pytest
import test_launchers
import test_symmetric_arrays
from conftest import GPUS, has_nvshmem
from test_group_barriers import rounds
from test_symmetric_arrays import run, where

import cuda_device as device
from cuda_device import SymmetricArray, float32, int32, nvshmem
from cuda_device.runtime.gpu import driver

pytestmark = pytest.mark.skipif(GPUS < 2, reason="not two GPUs")


def placed(ranks):
    """The GPU of a process, and what it reads of the next one."""
    return where(ranks.rank).ordinal, test_symmetric_arrays.ring(ranks)[0][:3]


def test_each_process_has_its_gpu_and_reads_the_others():
    results, errors = run(placed)
    assert errors == [None, None]
    assert results == [(rank, [1000, 1002, 1004]) for rank in (0, 1)]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (test_symmetric_arrays.signals, [[0, 10], [1, 11]]),
        (test_symmetric_arrays.leaves, [[0, 2, 4], None]),
        (test_symmetric_arrays.unequal, None),
    ],
)
def test_signals_and_errors(job, expected):
    results, errors = run(job)
    assert errors == [None, None], errors
    assert expected in (results, None)


def barriers(ranks):
    """Blocks of both processes wait for each other while they run."""
    stream, blocks = where(ranks.rank), 16
    with (
        SymmetricArray(256 * blocks, float32, ranks, stream=stream) as x,
        SymmetricArray((blocks, ranks.size), int32, ranks, stream=stream) as flags,
    ):
        x.local()[...] = np.full(256 * blocks, 1 + ranks.rank, np.float32)
        stream.synchronize()
        ranks.allgather(None)
        device.launch(rounds, x.part, flags.part, 3, grid=blocks, block=256, stream=stream)
        return set(x.local().numpy().tolist())


def test_a_barrier_across_processes():
    results, errors = run(barriers)
    assert errors == [None, None], errors
    assert results == [{12.0}, {12.0}]


@pytest.mark.parametrize("launcher", [test_launchers.torchrun, test_launchers.mpiexec])
def test_under_a_launcher(launcher, tmp_path):
    test_launchers.test_processes_of_a_launcher_share_memory(launcher, tmp_path)


# Dask


def test_workers_of_dask_cuda():
    cuda, distributed = pytest.importorskip("dask_cuda"), pytest.importorskip("distributed")
    import dask.array as da

    from cuda_device import dask

    @device.kernel
    def scale(a, x, y):
        i = device.tid(1)
        if i < len(x):
            y[i] = a * x[i]

    with (
        cuda.LocalCUDACluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        for sums, visible in dask.spmd(client, _seen):
            assert sums == [1000, 1002, 1004] and visible == 2
        numbers = np.arange(1000, dtype=np.float32)
        y = dask.launch(client, scale, 2.0, da.from_array(numbers, chunks=100), dask.output(float32))
        assert (y.compute() == 2 * numbers).all()


def _seen(ranks):
    """dask-cuda puts the worker's own GPU first among those that it sees: each takes number 0."""
    stream = device.default_stream()
    with SymmetricArray(3, float32, ranks, stream=stream) as x:
        x.local()[...] = np.arange(3) + 1000 * ranks.rank
        stream.synchronize()
        ranks.allgather(None)
        out = device.zeros(3, stream=stream)
        device.launch(test_symmetric_arrays.pull, x.part, out, grid=1, block=32, stream=stream)
        return out.numpy().tolist(), driver.device_count()


# NVSHMEM


def shifts(ranks):
    """Each processing element writes its number to the next one."""
    import nvshmem.core as host
    import torch
    from cuda.core import Device

    @device.kernel
    def shift(target: device.pointer(float32), value, seen):
        nvshmem.float_p(target, value, (nvshmem.my_pe() + 1) % nvshmem.n_pes())
        nvshmem.quiet()
        seen[0], seen[1] = nvshmem.my_pe(), nvshmem.n_pes()

    gpu = Device(ranks.rank)
    gpu.set_current()
    torch.cuda.set_device(ranks.rank)
    name = host.get_unique_id(empty=ranks.rank > 0)
    name._data.view(np.int8)[...] = ranks.allgather(np.array(name._data.view(np.int8)))[0]
    host.init(device=gpu, uid=name, rank=ranks.rank, nranks=ranks.size, initializer_method="uid")
    x = host.tensor((1,), dtype=torch.float32)
    x.zero_()
    seen = torch.zeros(2, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    ranks.allgather(None)
    device.launch(shift, x, 10.0 + ranks.rank, seen, grid=1, block=1, stream=torch.cuda.current_stream())
    torch.cuda.synchronize()
    ranks.allgather(None)
    found = x.item(), seen.tolist()
    host.free_tensor(x)
    host.finalize()
    return found


def test_two_processing_elements():
    pytest.importorskip("nvshmem.core")
    pytest.importorskip("torch")
    if not has_nvshmem():
        pytest.skip("NVSHMEM's headers are missing, or too old")
    results, errors = run(shifts)
    assert errors == [None, None], errors
    assert results == [(11.0, [0, 2]), (10.0, [1, 2])]
