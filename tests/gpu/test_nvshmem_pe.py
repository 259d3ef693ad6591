"""NVSHMEM with one processing element: kernels that write to themselves, and atomics, signals and copies of blocks."""

import numpy as np
import pytest
from conftest import has_nvshmem

import cuda_device as device
from cuda_device import nvshmem

FLOATS, INTS, SIGNALS = map(device.pointer, (device.float32, device.int32, device.uint64))


@pytest.fixture(scope="module")
def host():
    host, torch = pytest.importorskip("nvshmem.core"), pytest.importorskip("torch")
    if not has_nvshmem():
        pytest.skip("NVSHMEM's headers are missing, or too old")
    from cuda.core import Device

    gpu = Device()
    gpu.set_current()
    torch.cuda.init()
    host.init(device=gpu, uid=host.get_unique_id(), rank=0, nranks=1, initializer_method="uid")
    yield host
    host.finalize()


@device.kernel
def send(target: FLOATS, source: FLOATS, counter: INTS, signal: SIGNALS, seen):
    i = device.tid(1)
    if i == 0:
        seen[0] = nvshmem.my_pe()
        seen[1] = nvshmem.n_pes()
        nvshmem.float_p(target, 2.5, 0)
        nvshmem.quiet()
    device.syncthreads()
    nvshmem.float_put_block(target + 1, source, device.uint64(64), 0)
    nvshmem.int32_atomic_add(counter, 3, 0)
    device.syncthreads()
    if i == 0:
        nvshmem.quiet()
        nvshmem.signal_op(signal, device.uint64(7), nvshmem.SIGNAL_SET, 0)
        nvshmem.signal_wait_until(signal, nvshmem.CMP_EQ, device.uint64(7))
        seen[2] = nvshmem.int32_atomic_fetch(counter, 0)


def test_one_processing_element(host):
    import torch

    target, source = host.tensor((65,), dtype=torch.float32), host.tensor((64,), dtype=torch.float32)
    counter, signal = host.tensor((1,), dtype=torch.int32), host.tensor((1,), dtype=torch.int64)
    source.copy_(torch.arange(64.0))
    counter.zero_()
    signal.zero_()
    seen = torch.zeros(3, dtype=torch.int32, device="cuda")
    stream = torch.cuda.current_stream()
    unsigned = signal.view(torch.uint64)
    device.launch(send, target, source, counter, unsigned, seen, grid=1, block=128, stream=stream)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(target.cpu().numpy(), [2.5, *range(64)])
    assert seen.tolist() == [0, 1, 3 * 128]
    for each in (target, source, counter, signal):
        host.free_tensor(each)
