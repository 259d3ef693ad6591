"""Several GPUs in one process: exchange around a ring, a sum over all GPUs, a stencil and n-body, and NCCL's sum beside ours.

    python benchmarks/groups.py                     on all GPUs that reach each other; torch for NCCL, if it is there
    python benchmarks/groups.py --devices 0 1
    python benchmarks/groups.py --cpu               small sizes on two CPU streams: the results alone

Bandwidths are bytes that leave each GPU, over those of the driver's copies between the same GPUs in the same run, all of them at
once. Exchange and sum move the elements one by one (float32) and in fours (float32x4). A launch on all is timed on the host, with
a kernel that does nothing, beside launches by `prepare`, one after the other. The stencil's efficiency is the time of one GPU
over that of all, with as many cells on each; that of n-body is the same with as many bodies in all, over the number of GPUs. Each
result is compared with NumPy's on a part of the data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import cuda_device as device
from cuda_device.runtime.gpu import driver

BLOCK, ROUNDS, REPEATS = 256, 20, 5
RATE, SOFTENING = 0.2, 0.01


@device.kernel
def send(x: Any, y: Any) -> None:
    """Each GPU writes its array to that of the next one."""
    target = y[(x.rank + 1) % x.n_devices]
    for i in range(device.tid(1), x.shape[0], device.grid_size(1)):
        target[i] = x.own[i]


@device.kernel
def all_reduce(x: Any, parts: Any, total: Any, flags: Any) -> None:
    """Each GPU receives the operands of its share of the elements from the others, and sends the sums to all.

    The GPUs only write to each other, because writes across NVLink are faster than reads.
    """
    share = x.shape[0] // x.n_devices
    for k in range(1, x.n_devices):
        rank = (x.rank + k) % x.n_devices
        received = parts[rank]
        for i in range(device.tid(1), share, device.grid_size(1)):
            received[x.rank, i] = x.own[rank * share + i]
    device.group_barrier(flags)
    for i in range(device.tid(1), share, device.grid_size(1)):
        value = x.own[x.rank * share + i]
        for k in range(1, x.n_devices):
            value += parts.own[(x.rank + k) % x.n_devices, i]
        for rank in range(x.n_devices):
            total[rank][x.rank * share + i] = value
    device.group_barrier(flags)


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


def on_gpu(group: Any) -> bool:
    """Whether the group consists of GPUs rather than CPU streams."""
    return isinstance(group.streams[0], device.GpuStream)


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


def copies(group: Any, x: Any, y: Any) -> Callable[[], None]:
    """What copies the array of each device to the next one, on the stream of the device that it leaves."""
    pairs = [(stream, x.local(rank), y.local((rank + 1) % len(group))) for rank, stream in enumerate(group.streams)]

    def by_host() -> None:
        for _, source, target in pairs:
            target[...] = source

    def by_driver() -> None:
        for (stream, source, _), (target, start) in zip(pairs, addresses, strict=True):
            with stream.using():
                driver.copy(target, start, source.nbytes, stream.handle)

    if not on_gpu(group):
        return by_host
    addresses = [tuple(each.__cuda_array_interface__["data"][0] for each in (y, x)) for _, x, y in pairs]
    return by_driver


def bandwidths(group: Any, count: int) -> None:
    """The rows of exchange and sum."""
    ranks, nbytes = len(group), 4 * count
    copied = seconds(group, copies(group, group.arrays(count), group.arrays(count)))
    print(f"copies by the driver             {nbytes / copied / 1e9:10.1f} GB/s")
    # Each GPU sends its share of the elements to each other one as operands, and the sums of its own share.
    moved = 2 * (ranks - 1) * nbytes / ranks
    for dtype, length in ((np.dtype(np.float32), count), (device.numpy_dtype(device.float32x4), count // 4)):
        x, y = filled(group, length, dtype), group.arrays(length, dtype)
        numbers = [x.local(rank)[:1000].numpy().view(np.float32) for rank in range(ranks)]
        name = "float32x4" if dtype.names else "float32"
        sizes: Any = {"grid": min(-(-length // BLOCK), 1024), "block": BLOCK}
        sent = seconds(group, partial(device.launch_group, group, send, x, y, **sizes))
        close("ring", y.local(1 % ranks)[:1000].numpy().view(np.float32), numbers[0])
        rate = nbytes / sent / 1e9
        print(f"exchange around a ring, {name:<9}{rate:10.1f} GB/s {copied / sent:8.3f} of copies")
        # All blocks must be resident at once: each multiprocessor holds two of 512 threads.
        blocks = 2 * driver.properties(group.streams[0].ordinal).multiprocessors if on_gpu(group) else 4
        parts, flags = group.arrays((ranks, length // ranks), dtype), group.arrays((blocks, ranks), np.int32)
        flags.fill(0)
        sizes = {"grid": blocks, "block": 512}
        summed = seconds(group, partial(device.launch_group, group, all_reduce, x, parts, y, flags, **sizes))
        found = y.local(ranks - 1)[:1000].numpy().view(np.float32)
        close("sum", found, sum(each.astype(float) for each in numbers))
        rate = moved / summed / 1e9
        print(f"sum over all, {name:<19}{rate:10.1f} GB/s {moved / summed * copied / nbytes:8.3f} of copies")
    other = nccl(group, count) if on_gpu(group) else None
    if other is not None:
        print(
            f"sum over all by NCCL             {moved / other / 1e9:10.1f} GB/s {summed / other:8.3f} our time over it"
        )


@device.kernel
def nothing(x: Any, y: Any, n: device.int32) -> None:
    """Does so little that the host's time is all there is."""
    if n < 0:
        y.own[0] = x.own[0]


def launches(group: Any) -> None:
    """The row of the host's time."""
    x, y = group.arrays(1), group.arrays(1)
    steps = [
        device.prepare(nothing, x.on(rank), y.on(rank), 0, grid=1, block=32, stream=stream)
        for rank, stream in enumerate(group.streams)
    ]

    def host(run: Callable[[], object]) -> float:
        """The least time of a call without waiting for the GPUs."""
        times = []
        for _ in range(10 * ROUNDS):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        group.synchronize()
        return float(np.median(times))

    together = host(partial(device.launch_group, group, nothing, x, y, 0, grid=1, block=32))
    each = host(lambda: [step() for step in steps])
    print(f"a launch on all                  {together * 1e6:10.1f} us   {each * 1e6:8.1f} us one by one")


def stencil(one: Any, group: Any, rows: int, columns: int) -> None:
    """The row of the stencil."""
    took = []
    for each in (one, group):
        old, new = filled(each, (rows, columns)), each.arrays((rows, columns))
        grid = (-(-columns // 32), -(-rows // 8))
        took.append(seconds(each, partial(device.launch_group, each, diffuse, old, new, grid=grid, block=(32, 8))))
        for rank in range(len(each)):
            before, after = old.local(rank - 1), old.local((rank + 1) % len(each))
            for above, own, below, found in (
                (before[-1:], old.local(rank)[:8], old.local(rank)[8:9], new.local(rank)[:8]),
                (old.local(rank)[-9:-8], old.local(rank)[-8:], after[:1], new.local(rank)[-8:]),
            ):
                plane = np.concatenate([above.numpy(), own.numpy(), below.numpy()]).astype(float)
                around = sum(np.roll(plane, by, axis) for axis in (0, 1) for by in (1, -1))
                close("stencil", found.numpy(), (plane + RATE * (around - 4 * plane))[1:-1])
    print(f"stencil                          {took[1] * 1e3:10.3f} ms   {took[0] / took[1]:8.3f} weak scaling")


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
        f"n-body                           {took[1] * 1e3:10.3f} ms   {took[0] / took[1] / len(group):8.3f} strong scaling"
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
        if not driver.available():
            raise SystemExit("there is no GPU here: --cpu checks the results on CPU streams")
        devices = wanted.devices or list(range(driver.device_count()))
        one, group = device.DeviceGroup(devices[:1]), device.DeviceGroup(devices)
        large, rows, columns, bodies = 1 << 27, 1 << 14, 1 << 14, 1 << 17
    print(f"{len(group)} devices")
    launches(group)
    bandwidths(group, large)
    stencil(one, group, rows, columns)
    n_body(one, group, bodies)


if __name__ == "__main__":
    main()
