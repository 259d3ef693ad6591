"""The driver of a GPU that is not there: memory, modules and launches are real, on this machine.

with installed() as gpu:
    device.launch(kernel, x, grid=1, block=32)
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
from collections.abc import Iterator
from typing import Any

from fake_driver import FakeDriver, Result
from fake_driver import installed as installed_driver
from ptx_machine.machine import Machine, Module
from ptx_machine.memory import Arena, Fault
from ptx_machine.reader import read

import cuda_device
from cuda_device.codegen.gpu import assemblers, cubin

MOST_SHARED = 232448


class Gpu(FakeDriver):
    """As `FakeDriver`, but kernels run, one after the other, as soon as they are launched."""

    CU_MEMHOSTALLOC_PORTABLE = CU_MEMHOSTALLOC_DEVICEMAP = 1

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena()
        self.modules: dict[int, Module] = {}
        self.kernels: dict[int, tuple[Module, str]] = {}
        self.fault: Fault | None = None
        self.seed = 0
        self.attributes |= {
            "MAX_GRID_DIM_X": 2**31 - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535, "MAX_BLOCK_DIM_X": 1024,
            "MAX_BLOCK_DIM_Y": 1024, "MAX_SHARED_MEMORY_PER_BLOCK": 49152, "MULTIPROCESSOR_COUNT": 132, "WARP_SIZE": 32,
            "NUM_REGS": 32, "SHARED_SIZE_BYTES": 0, "LOCAL_SIZE_BYTES": 0, "MAX_DYNAMIC_SHARED_SIZE_BYTES": MOST_SHARED,
        }  # fmt: skip

    def _answer(self, name: str, *arguments: Any, value: Any = None) -> tuple[Any, ...]:
        """What went wrong in a kernel is the answer to every later call."""
        if self.fault is not None and name.startswith("cu"):
            return (self.fault.status, value)
        return (0,) if value is None else (0, value)

    def cuGetErrorName(self, status: int) -> tuple[int, bytes]:
        names = {int(value): name for name, value in Result.__members__.items()}
        return 0, names.get(status, f"CUDA_ERROR_{status}").encode()

    def cuGetErrorString(self, status: int) -> tuple[int, bytes]:
        return 0, str(self.fault or "an error").encode()

    # ---- Memory

    def _allocate(self, nbytes: int) -> tuple[Any, ...]:
        if nbytes > len(self.arena.memory) // 4:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        address = self.arena.allocate(nbytes)
        self.memory[address] = None
        return self._answer("cuMemAlloc", value=address)

    def cuMemAllocAsync(self, nbytes: int, stream: int) -> tuple[Any, ...]:
        return self._allocate(nbytes)

    def cuMemAlloc(self, nbytes: int) -> tuple[Any, ...]:
        return self._allocate(nbytes)

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> tuple[Any, ...]:
        return self._allocate(nbytes)

    def cuMemAllocManaged(self, nbytes: int, flags: int) -> tuple[Any, ...]:
        return self._allocate(nbytes)

    def cuMemFree(self, address: int) -> tuple[Any, ...]:
        return self.cuMemFreeAsync(address, 0)

    def cuMemFreeHost(self, address: int) -> tuple[Any, ...]:
        return self.cuMemFreeAsync(address, 0)

    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> tuple[Any, ...]:
        return 0, address

    def cuMemFreeAsync(self, address: int, stream: int) -> tuple[Any, ...]:
        del self.memory[address]
        self.arena.free(address)
        return self._answer("cuMemFreeAsync")

    def cuMemsetD8(self, address: int, byte: int, nbytes: int) -> tuple[Any, ...]:
        return self.cuMemsetD8Async(address, byte, nbytes, 0)

    def cuMemcpyHtoD(self, target: int, source: int, nbytes: int) -> tuple[Any, ...]:
        return self.cuMemcpyAsync(target, source, nbytes, 0)

    def cuPointerGetAttribute(self, which: str, address: int) -> tuple[Any, ...]:
        offset = address - self.arena.base
        known = 0 <= offset < len(self.arena.memory) and self.arena.live[offset]
        return (0, 0) if known else (Result.CUDA_ERROR_INVALID_VALUE, 0)

    # ---- Modules

    def cuLibraryLoadData(self, code: bytes, *options: Any) -> tuple[Any, ...]:
        number = next(self._numbers)
        self.modules[number] = Module(read(code.decode().replace("\0", "")), self.arena)
        return self._answer("cuLibraryLoadData", value=number)

    def cuLibraryUnload(self, library: int) -> tuple[Any, ...]:
        return self._answer("cuLibraryUnload")

    def cuLibraryGetKernel(self, library: int, symbol: bytes) -> tuple[Any, ...]:
        number = next(self._numbers)
        self.kernels[number] = (self.modules[library], symbol.decode())
        return self._answer("cuLibraryGetKernel", value=number)

    def cuLibraryGetGlobal(self, library: int, symbol: bytes) -> tuple[Any, ...]:
        module = self.modules[library]
        variable = module.program.variables[symbol.decode()]
        return 0, module.symbols[variable.name][1], variable.size

    def cuLaunchKernel(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        if self.fault is not None:
            return (self.fault.status,)
        module, symbol = self.kernels[kernel]
        parameters = module.program.functions[symbol].parameters
        end = max((module.scopes[symbol].symbols[p.name][1] + p.size for p in parameters), default=0)
        buffer = self.arena.allocate(end)
        pointers = (ctypes.c_void_p * len(parameters)).from_address(int(params)) if parameters else ()
        for parameter, pointer in zip(parameters, pointers, strict=True):
            ctypes.memmove(buffer + module.scopes[symbol].symbols[parameter.name][1], pointer, parameter.size)
        self.seed += 1
        machine = functools.partial(Machine, module, symbol, (gx, gy, gz), (bx, by, bz), buffer, shared, self.seed)
        if not self.captures(stream, lambda: self._run(machine())):
            self._run(machine())
            self.arena.free(buffer)
        return (0,)

    def _run(self, machine: Machine) -> None:
        try:
            machine.run()
        except Fault as fault:
            self.fault = fault  # which the next call tells


def _as_it_is(request: assemblers.Request) -> bytes:
    """An assembler that leaves PTX as it is, and puts what is linked behind it."""
    others = []
    for item in request.inputs:
        if b".version" not in item.data[:4096]:
            raise assemblers.Rejection(f"{item.name} is no PTX")
        others.append(item.data.decode())
    return "\n".join([request.ptx, *others]).encode()


ASSEMBLER = assemblers.Assembler(
    name="none",
    available=lambda architecture: True,
    run=_as_it_is,
    identity=lambda: "none",
    remedy=str,
    installed=lambda: True,
    relocates=lambda: True,
    links=True,
)
_gpu: list[Gpu] = []


@contextlib.contextmanager
def installed() -> Iterator[Gpu]:
    """Puts the GPU in the place of the real one; it is always the same, since kernels stay loaded."""
    if not _gpu:
        _gpu.append(Gpu())
    gpu = _gpu[0]
    before = cubin.ASSEMBLERS
    with installed_driver() as fake:
        del fake
        from cuda_device.runtime.gpu import driver

        driver.bindings = lambda: gpu
        if gpu.arena.is_half_full:  # what a test left behind is freed by the driver that it had
            gc.collect()
        cubin.ASSEMBLERS = (ASSEMBLER,)
        try:
            yield gpu
        finally:
            with contextlib.suppress(cuda_device.errors.Error):
                cuda_device.synchronize(cuda_device.default_stream())
            cubin.ASSEMBLERS = before
            gpu.fault = None
