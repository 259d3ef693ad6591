"""Several GPUs in one process: exchange around a ring, a sum over all GPUs, a stencil and n-body, and NCCL's sum beside ours.

    python benchmarks/groups.py                     on all GPUs that reach each other; torch for NCCL, if it is there
    python benchmarks/groups.py --devices 0 1
    python benchmarks/groups.py --cpu               small sizes on two CPU streams: the results alone

Bandwidths are bytes that leave each GPU, over those of the driver's copies between the same GPUs in the same run (both directions
at once). The stencil's efficiency is the time of one GPU over that of all, with as many cells on each; that of n-body is the same
with as many bodies in all, over the number of GPUs. Each result is compared with NumPy's on a part of the data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import cuda_device as device

BLOCK, ROUNDS, REPEATS = 256, 20, 5
RATE, SOFTENING = 0.2, 0.01


@device.kernel
def send(x: Any, y: Any) -> None:
    """Each GPU writes its array to that of the next one."""
    target = y[(x.rank + 1) % x.n_devices]
    for i in range(device.tid(1), x.shape[0], device.grid_size(1)):
        target[i] = x.own[i]


@device.kernel
def all_reduce(x: Any, total: Any) -> None:
    """Each GPU reads its share of all arrays, and writes the sums to all."""
    share = x.shape[0] // x.n_devices
    for i in range(x.rank * share + device.tid(1), (x.rank + 1) * share, device.grid_size(1)):
        value = x[0][i]
        for rank in range(1, x.n_devices):
            value += x[rank][i]
        for rank in range(x.n_devices):
            total[rank][i] = value


@device.kernel
def diffuse(old: Any, new: Any) -> None:
    """A step of diffusion in a plane that is cut into bands; the rows at the borders are read from the neighbours."""
    column, row = device.tid(2)
    rows, columns = old.shape
    if row < rows and column < columns:
        above = (
            old[(old.rank - 1 + old.n_devices) % old.n_devices][rows - 1, column]
            if row == 0
            else old.own[row - 1, column]
        )
        below = old[(old.rank + 1) % old.n_devices][0, column] if row == rows - 1 else old.own[row + 1, column]
        left = old.own[row, column - 1] if column > 0 else old.own[row, columns - 1]
        right = old.own[row, column + 1] if column < columns - 1 else old.own[row, 0]
        here = old.own[row, column]
        new.own[row, column] = here + RATE * (above + below + left + right - 4 * here)


@device.kernel
def accelerate(bodies: Any, out: Any) -> None:
    """The acceleration of each body: x, y, z and the mass, of which all GPUs read all."""
    tile = device.shared_array(BLOCK, device.float32x4)
    t, i = device.thread_idx.x, device.tid(1)
    count = bodies.shape[0]
    own = bodies.own[min(i, count - 1)]
    ax, ay, az = device.float32(0), device.float32(0), device.float32(0)
    for k in range(bodies.n_devices):
        others = bodies[(bodies.rank + k) % bodies.n_devices]
        for first in range(0, count, BLOCK):
            tile[t] = others[first + t]
            device.syncthreads()
            for j in range(BLOCK):
                other = tile[j]
                x, y, z = other.x - own.x, other.y - own.y, other.z - own.z
                near = device.rsqrt(x * x + y * y + z * z + SOFTENING)
                force = other.w * near * near * near
                ax, ay, az = ax + x * force, ay + y * force, az + z * force
            device.syncthreads()
    if i < count:
        out.own[i] = device.float32x4(ax, ay, az, 0)


def seconds(group: Any, run: Callable[[], None]) -> float:
    """The time of a call, the least of some means."""
    run()
    best = float("inf")
    for _ in range(REPEATS):
        group.synchronize()
        start = time.perf_counter()
        for _ in range(ROUNDS):
            run()
        group.synchronize()
        best = min(best, (time.perf_counter() - start) / ROUNDS)
    return best


def filled(group: Any, shape: Any, dtype: Any = np.float32, seed: int = 1) -> Any:
    """An array of random numbers on each device."""
    random = np.random.default_rng(seed)
    made = group.arrays(shape, dtype)
    for rank in range(len(group)):
        plain = np.empty(shape, dtype)
        plain.view(np.float32)[...] = random.random(plain.view(np.float32).shape, dtype=np.float32)
        made.local(rank)[...] = plain
    return made


def close(what: str, found: Any, expected: Any) -> None:
    """Ends the program if results differ."""
    if not np.allclose(found, expected, rtol=1e-3, atol=1e-3):
        raise SystemExit(f"{what}: results differ")


def nccl(group: Any, count: int) -> float | None:
    """The time of NCCL's sum, by torch in this process."""
    try:
        import torch
        from torch.cuda import nccl as api
    except ImportError:
        return None
    tensors = [torch.ones(count, device=f"cuda:{stream.ordinal}") for stream in group.streams]

    def wait() -> None:
        for each in tensors:
            torch.cuda.synchronize(each.device)

    best = float("inf")
    for _ in range(REPEATS):
        wait()
        start = time.perf_counter()
        for _ in range(ROUNDS):
            api.all_reduce(tensors)
        wait()
        best = min(best, (time.perf_counter() - start) / ROUNDS)
    return best


def bandwidths(group: Any, count: int) -> None:
    """The rows of exchange and sum."""
    ranks = len(group)
    x, y = filled(group, count), group.arrays(count)

    def copy() -> None:
        for rank in range(ranks):
            y.local((rank + 1) % ranks)[...] = x.local(rank)

    copied = seconds(group, copy)
    print(f"copies by the driver        {x.local(0).nbytes / copied / 1e9:10.1f} GB/s")
    grid = min(-(-count // BLOCK), 1024)
    sent = seconds(group, partial(device.launch_group, group, send, x, y, grid=grid, block=BLOCK))
    close("ring", y.local(1 % ranks).numpy()[:1000], x.local(0).numpy()[:1000])
    print(f"exchange around the ring    {x.local(0).nbytes / sent / 1e9:10.1f} GB/s {copied / sent:8.3f} of copies")
    total = group.arrays(count)
    summed = seconds(group, partial(device.launch_group, group, all_reduce, x, total, grid=grid, block=BLOCK))
    expected = sum(x.local(rank).numpy()[:1000].astype(float) for rank in range(ranks))
    close("sum", total.local(ranks - 1).numpy()[:1000], expected)
    # Each GPU sends its share of the elements to each other one as operands, and the sums of its own share.
    moved = 2 * (ranks - 1) * x.local(0).nbytes / ranks
    ratio = moved / summed * copied / x.local(0).nbytes
    print(f"sum over all                {moved / summed / 1e9:10.1f} GB/s {ratio:8.3f} of copies")
    other = nccl(group, count) if isinstance(group.streams[0], device.GpuStream) else None
    if other is not None:
        print(f"the same by NCCL            {moved / other / 1e9:10.1f} GB/s {summed / other:8.3f} our time over it")


def stencil(one: Any, group: Any, rows: int, columns: int) -> None:
    """The row of the stencil."""
    took = []
    for each in (one, group):
        old, new = filled(each, (rows, columns)), each.arrays((rows, columns))
        plane = np.concatenate([old.local(rank).numpy() for rank in range(len(each))]).astype(float)
        grid = (-(-columns // 32), -(-rows // 8))
        took.append(seconds(each, partial(device.launch_group, each, diffuse, old, new, grid=grid, block=(32, 8))))
        around = sum(np.roll(plane, by, axis) for axis in (0, 1) for by in (1, -1))
        found = np.concatenate([new.local(rank).numpy() for rank in range(len(each))])
        close("stencil", found, plane + RATE * (around - 4 * plane))
    print(f"stencil                     {took[1] * 1e3:10.3f} ms   {took[0] / took[1]:8.3f} weak scaling")


def n_body(one: Any, group: Any, bodies: int) -> None:
    """The row of n-body."""
    took, vector = [], device.numpy_dtype(device.float32x4)
    for each in (one, group):
        count = bodies // len(each)
        places, out = filled(each, count, vector), each.arrays(count, vector)
        took.append(
            seconds(
                each, partial(device.launch_group, each, accelerate, places, out, grid=-(-count // BLOCK), block=BLOCK)
            )
        )
        plain = np.concatenate(
            [places.local(rank).numpy().view(np.float32).reshape(-1, 4) for rank in range(len(each))]
        )
        apart = plain[:, :3].astype(float) - plain[0, :3]
        force = plain[:, 3:] * ((apart**2).sum(1, keepdims=True) + SOFTENING) ** -1.5
        close("n-body", out.local(0).numpy().view(np.float32)[:3] / bodies, (apart * force).sum(0) / bodies)
    print(
        f"n-body                      {took[1] * 1e3:10.3f} ms   {took[0] / took[1] / len(group):8.3f} strong scaling"
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", help="the GPUs (default: all)")
    parser.add_argument("--cpu", action="store_true", help="two CPU streams, and small sizes")
    wanted = parser.parse_args()
    if wanted.cpu:
        global ROUNDS, REPEATS
        ROUNDS = REPEATS = 1
        streams = [device.cpu_stream(), device.cpu_stream()]
        one, group, large, rows, columns, bodies = (
            device.DeviceGroup(streams[:1]),
            device.DeviceGroup(streams),
            4096,
            16,
            64,
            1024,
        )
    else:
        from cuda_device.runtime.gpu import driver

        devices = wanted.devices or list(range(driver.device_count()))
        one, group = device.DeviceGroup(devices[:1]), device.DeviceGroup(devices)
        large, rows, columns, bodies = 1 << 27, 1 << 14, 1 << 14, 1 << 17
    print(f"{len(group)} devices")
    bandwidths(group, large)
    stencil(one, group, rows, columns)
    n_body(one, group, bodies)


if __name__ == "__main__":
    main()
