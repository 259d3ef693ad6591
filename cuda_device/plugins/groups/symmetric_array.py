"""`SymmetricArray`: an array in each process of a job on one machine, all of which every process's kernels can access.

    # torchrun --nproc-per-node 2 job.py
    torch.distributed.init_process_group("gloo")
    with SymmetricArray(1024, float32, torch.distributed, stream=stream) as x:
        launch(pull, x.part, out, grid=4, block=256, stream=stream)         # x[rank][i], x.rank, x.n_devices

A process shares its GPU memory with the others by a CUDA IPC handle. Memory of CPU streams, which take the place of GPUs, is a
shared mapping.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self, cast

import numpy as np

from cuda_device import DeviceArray, GpuStream, LaunchError, Stream, cpu_stream, empty
from cuda_device.extend import as_stream, dataclass, driver
from cuda_device.plugins.groups.device_group import nth, part_of


class Ranks(Protocol):
    """The processes of a job: an mpi4py communicator is one, and `cuda_device.dask.spmd` makes one."""

    @property
    def rank(self) -> int:
        """The number of this process."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def allgather(self, value: Any, /) -> list[Any]:
        """The values of all processes, by rank. Each process has to call it."""


@dataclass(frozen=True)
class _TorchRanks:
    """The processes of `torch.distributed`, or of one of its groups."""

    distributed: Any
    group: Any

    @property
    def rank(self) -> int:
        return int(self.distributed.get_rank(self.group))

    @property
    def size(self) -> int:
        return int(self.distributed.get_world_size(self.group))

    def allgather(self, value: Any, /) -> list[Any]:
        values: list[Any] = [None] * self.size
        self.distributed.all_gather_object(values, value, group=self.group)
        return values


def _ranks_of(ranks: Any) -> Ranks:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and ranks is distributed:
        return _TorchRanks(distributed, None)
    if distributed is not None and isinstance(ranks, getattr(distributed, "ProcessGroup", ())):
        return _TorchRanks(distributed, ranks)
    if not all(hasattr(ranks, name) for name in ("rank", "size", "allgather")):
        raise LaunchError(
            f"ranks= is of type {type(ranks).__name__}, which has no rank, size and allgather",
            "pass torch.distributed or one of its groups, an mpi4py communicator, or the ranks of cuda_device.dask.spmd",
        )
    checked: Ranks = ranks
    return checked


@dataclass(frozen=True)
class _Offer:
    """The description of a part that a process sends to the others."""

    machine: str
    device: str
    shape: tuple[int, ...]
    dtype: str
    handle: Any
    offset: int


class SymmetricArray:
    """One array of zeros in each process of a job. All have the same shape and dtype, and are on one machine.

    `ranks` represents the processes: `torch.distributed` or one of its process groups, an mpi4py communicator, the ranks that
    `cuda_device.dask.spmd` passes, or any object with `rank`, `size` and `allgather(value)`. The part of this process is on the
    GPU of `stream`. A kernel gets `x.part` and uses it like a `DeviceArrayGroup`.

    Creating it and `close` are collective: every process must call them. Raises `LaunchError` in every process if shapes or
    dtypes differ, if processes are on several machines or mix GPUs and CPUs, if a GPU cannot access the memory of another one,
    and if memory cannot be allocated or shared; the message names the rank. After `close` no kernel may use the array.

    A `with` block closes it. If the block raises, this process frees its part without waiting for the other ones, which may have
    failed, too: their kernels must not use it any more.
    """

    __launch_help__ = "pass the part of this process: x.part"

    def __init__(self, shape: Any, dtype: Any, ranks: Any, *, stream: Any = None) -> None:
        self._ranks = _ranks_of(ranks)
        self._opened: list[_Part] = []
        self._own: _Part | None = None
        try:
            offers = self._all(lambda: self._make(shape, dtype, stream), "making its part")
            self._all(lambda: self._compare(offers), "comparing the parts")
            self._all(lambda: self._open(offers), "opening the parts of the others")
        except BaseException:  # also of `allgather`, if a process has died
            with contextlib.suppress(Exception):
                self._give_back()
            raise
        self._opened[self.rank].conceal()
        self._arrays = tuple(map(self._array, self._opened))
        self.part = part_of(self._arrays, self.rank, self.stream)
        """The argument for kernels of this process: a struct like that of a `DeviceArrayGroup`."""

    def _all(self, step: Callable[[], Any], doing: str) -> list[Any]:
        """Runs a step in each process and gathers the results. If it fails in one, all processes raise."""
        try:
            result, reason = step(), None
        except LaunchError as error:
            result, reason = None, (error.reason, error.help)
        except Exception as error:  # of any kind, because the other processes wait
            result, reason = None, (f"{type(error).__name__}: {error}", "")
        every = self._ranks.allgather((result, reason))
        failed = [(rank, reason) for rank, (_, reason) in enumerate(every) if reason is not None]
        if failed:
            rank, (problem, remedy) = failed[0]
            raise LaunchError(f"rank {rank} failed {doing}: {problem}", remedy)
        return [result for result, _ in every]

    def _make(self, shape: Any, dtype: Any, stream: Any) -> _Offer:
        self.stream: Stream = as_stream(stream)
        self._like = empty(shape, dtype, stream=cpu_stream())
        nbytes = max(self._like.nbytes, 1)
        self._own = _GpuPart(nbytes, self.stream) if isinstance(self.stream, GpuStream) else _HostPart(nbytes)
        handle, offset = self._own.lend()
        return _Offer(_machine(), self._own.device, self.shape, repr(self.dtype), handle, offset)

    def _compare(self, offers: list[_Offer]) -> None:
        first = offers[0]
        for rank, offer in enumerate(offers):
            if (offer.shape, offer.dtype) != (first.shape, first.dtype):
                shown = f"{offer.shape} of {offer.dtype}", f"{first.shape} of {first.dtype}"
                raise LaunchError(
                    f"the part of rank {rank} is {shown[0]}, and that of rank 0 is {shown[1]}",
                    "create the array with the same shape and dtype in every process",
                )
            if offer.machine != first.machine:
                raise LaunchError(
                    f"rank {rank} is on another machine than rank 0",
                    "make arrays for the processes of one machine, and use NCCL, MPI or NVSHMEM between machines",
                )
            if (offer.device == _CPU) != (first.device == _CPU):
                raise LaunchError(
                    f"rank {rank} is on {_shown(offer.device)}, and rank 0 on {_shown(first.device)}",
                    "use GPUs in all processes, or CPU streams in all",
                )

    def _open(self, offers: list[_Offer]) -> None:
        assert self._own is not None
        for rank, offer in enumerate(offers):
            self._opened.append(
                self._own if rank == self.rank else self._own.open(offer.handle, offer.offset, offer.device)
            )

    def _array(self, memory: _Part) -> DeviceArray:
        """The array in a part. All parts count as memory of this process's device, whose kernels can access them."""
        return DeviceArray(cast("Any", memory), self.shape, self.dtype, self.stream)

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self._ranks.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each part."""
        return self._like.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._like.dtype

    def local(self, rank: int | None = None) -> DeviceArray:
        """Returns the part of a process, by default of this one, for copies from and to the host."""
        return nth(self._arrays, self.rank if rank is None else rank)

    def __len__(self) -> int:
        return self._ranks.size

    def close(self) -> None:
        """Frees the memory after all processes have called it and their streams have finished. Calling it twice is harmless."""
        if self._own is None:
            return
        with contextlib.ExitStack() as steps:  # runs them in reverse order even if some fail, because the others wait
            steps.callback(self._give_back)
            steps.callback(self._ranks.allgather, None)  # no process has the parts of others open
            steps.callback(self._detach)
            steps.callback(self._ranks.allgather, None)  # no kernel uses any part
            self.stream.synchronize()

    def _detach(self) -> None:
        """Closes the parts of the other processes."""
        opened, self._opened = self._opened, []
        for memory in opened:
            if memory is not self._own:
                memory.release()

    def _give_back(self) -> None:
        self._detach()
        part, self._own = self._own, None
        if part is not None:
            part.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        # The other processes may have failed, too, so nothing waits for them.
        with contextlib.suppress(Exception):
            self.stream.synchronize()
            self._give_back()

    def __reduce__(self) -> Any:
        raise TypeError("a SymmetricArray belongs to its process: create one in each, and pickle x.local().numpy()")

    def __del__(self) -> None:
        if getattr(self, "_own", None) is not None and not sys.is_finalizing():
            warnings.warn(
                f"{self!r} was not closed: its memory stays until the process ends",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __repr__(self) -> str:
        return f"<SymmetricArray of {len(self)} arrays, shape={self.shape} dtype={self.dtype}, rank {self.rank}>"


_CPU = "cpu"
_PEER_ACCESS = 1  # CUipcMem_flags: enabled when the memory is opened


def _shown(device: str) -> str:
    return "the CPU" if device == _CPU else f"GPU {device}"


def _machine() -> str:
    """An identifier of the machine."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    return platform.node()


class _HostPart:
    """A mapping of a file, which is unlinked when all processes have opened it, so that a job that dies leaves no file behind."""

    device = _CPU

    def __init__(self, nbytes: int, path: str | None = None) -> None:
        folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
        if path is None:
            file, self._path = tempfile.mkstemp(prefix="cuda_device_", dir=folder)
            os.ftruncate(file, nbytes)
        else:
            file, self._path = os.open(path, os.O_RDWR), ""
        try:
            self._map = mmap.mmap(file, nbytes)
        except BaseException:
            self.conceal()
            raise
        finally:
            os.close(file)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.address = self._bytes.ctypes.data

    def lend(self) -> tuple[str, int]:
        return self._path, self._bytes.nbytes

    def conceal(self) -> None:
        if self._path:
            with contextlib.suppress(FileNotFoundError):
                Path(self._path).unlink()
            self._path = ""

    def open(self, handle: str, offset: int, device: str) -> _HostPart:
        return _HostPart(offset, handle)

    def release(self) -> None:
        self.conceal()  # the mapping is freed with the last view of it


class _GpuPart:
    """GPU memory that is not from a pool, so that CUDA IPC can share it, or memory that another process shares."""

    def __init__(self, nbytes: int, stream: GpuStream, address: int | None = None, base: int = 0) -> None:
        self._stream, self._base = stream, base
        self.device = _uuid(stream.ordinal)
        if address is not None:
            self.address = address
            return
        with stream.using():
            self.address = int(driver.check(_libcuda().cuMemAlloc(nbytes), f"allocating {nbytes} bytes of GPU memory"))
            driver.fill_zero(self.address, nbytes, stream.handle)
            stream.synchronize()

    def lend(self) -> tuple[bytes, int]:
        cuda = _libcuda()
        with self._stream.using():
            handle = driver.check(cuda.cuIpcGetMemHandle(self.address), "sharing GPU memory with other processes")
            base, _ = driver.check(cuda.cuMemGetAddressRange(self.address), "asking where memory begins")
        return bytes(handle.reserved), self.address - int(base)

    def conceal(self) -> None:
        """Does nothing: IPC handles have no name."""

    def open(self, handle: bytes, offset: int, device: str) -> _GpuPart:
        ordinals = {_uuid(ordinal): ordinal for ordinal in range(driver.device_count())}
        if device not in ordinals:
            raise LaunchError(
                f"GPU {device} of another process is not visible here",
                "list the GPUs of all processes in CUDA_VISIBLE_DEVICES, and select one with stream=",
            )
        if device != self.device and not driver.can_access_peer(self._stream.ordinal, ordinals[device]):
            raise LaunchError(
                f"GPU {self.device} cannot reach the memory of GPU {device}",
                "`nvidia-smi topo -p2p r` shows which GPUs can",
            )
        cuda = _libcuda()
        lent = cuda.CUipcMemHandle()
        lent.reserved = handle
        with self._stream.using():
            base = int(
                driver.check(cuda.cuIpcOpenMemHandle(lent, _PEER_ACCESS), "opening GPU memory of another process")
            )
        return _GpuPart(0, self._stream, base + offset, base)

    def release(self) -> None:
        cuda = _libcuda()
        with self._stream.using():
            if self._base:
                driver.check(cuda.cuIpcCloseMemHandle(self._base), "closing GPU memory of another process")
            else:
                driver.check(cuda.cuMemFree(self.address), "freeing GPU memory")


_Part = _HostPart | _GpuPart
"""The memory of a process, or that of another one, opened here."""


def _libcuda() -> Any:
    from cuda.bindings import driver as found  # slow to import, and only needed here

    return found


def _uuid(ordinal: int) -> str:
    """The identifier of a GPU, which is the same in all processes."""
    cuda = _libcuda()
    device = driver.check(cuda.cuDeviceGet(ordinal), "asking for a device")
    return bytes(driver.check(cuda.cuDeviceGetUuid(device), "asking for a device's UUID").bytes).hex()
