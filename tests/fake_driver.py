"""A stand-in for the driver's library: host memory plays the GPU's, and events happen when a test says so.

with installed() as gpu:                # cuda_device.runtime.gpu.driver now talks to it
    x = zeros(4, stream=GpuStream(7, 0))
    gpu.log                             # [('cuMemAllocAsync', 16, 7), …]
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import functools
import gc
import itertools
import re
import struct
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from cuda_device.codegen.gpu import libcuda
from cuda_device.runtime.arrays import buffers
from cuda_device.runtime.gpu import driver, launch_log, streams

GENUINE = driver.available()
CONTEXT = 0xC0
MOST_BYTES = 1 << 40


class Result(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906


LAUNCH_KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_size_t, *[ctypes.c_uint] * 7, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t
)
LAUNCH_WITH_ATTRIBUTES = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_size_t] * 4)
CREATE_EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DESTROY_EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)
RECORD_EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t)
WAIT_EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint)
GET_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))
ASK_STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64))
CAPTURE_INFO = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_uint64), *[ctypes.c_void_p] * 3
)
ENCODE_TENSOR_MAP = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_uint64)] * 2,
    *[ctypes.POINTER(ctypes.c_uint)] * 2, *[ctypes.c_int] * 4,
)  # fmt: skip
ASK_STREAM_INT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int))


def _give(out, answer):
    status, value = answer
    out[0] = value
    return status


class _Names:
    """An enumeration that has every member: its own name."""

    def __getattr__(self, name: str) -> str:
        return name


ATTRIBUTES = {
    "MEMORY_POOLS_SUPPORTED": 1, "PAGEABLE_MEMORY_ACCESS": 0, "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
}  # fmt: skip


class FakeDriver:
    """Functions named and shaped as in `codegen/gpu/libcuda`; each call that changes something goes to `log`."""

    CUdevice_attribute = CUfunction_attribute = CUpointer_attribute = CUevent_flags = CUstreamCaptureMode = CUlimit = (
        _Names()
    )
    CUmemAttach_flags = CUmemPool_attribute = CUstream_flags = _Names()
    CU_MEMHOSTALLOC_PORTABLE = CU_MEMHOSTALLOC_DEVICEMAP = 1
    CUgraphExecUpdateResult = SimpleNamespace(**libcuda.ENUMERATIONS["CUgraphExecUpdateResult"])
    CUlaunchAttributeID = SimpleNamespace(**libcuda.ENUMERATIONS["CUlaunchAttributeID"])
    CUjit_option = SimpleNamespace(**libcuda.ENUMERATIONS["CUjit_option"])
    CUjitInputType = SimpleNamespace(**libcuda.ENUMERATIONS["CUjitInputType"])

    def __init__(self, devices: int = 1, cuda: tuple[int, int] = (13, 0)) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.devices = devices
        self.cuda = cuda
        self.assembled: list[str] = []  # The PTX that it was given, if it is one of CUDA 12.
        self.memory: dict[int, Any] = {}
        self.stack: list[int] = [0]
        self.capturing: set[int] = set()
        self.captures_apart: dict[int, int] = {}  # The numbers of captures; all others are 1.
        self.foreign_addresses: set[int] = set()
        self.stream_contexts: dict[int, int] = {}
        self.done = True  # Whether events happen at once.
        self.happened: dict[int, bool] = {}
        self.unreachable: set[tuple[int, int]] = set()  # pairs of devices
        self.peers: set[tuple[int, int]] = set()  # pairs of contexts
        self.host_functions: list[Any] = []  # which run at once, or when a test says so
        self.total_memory = 16 << 30
        self.blocks_at_once = 4  # on a multiprocessor
        self.pools: dict[tuple[int, str], int] = {}
        self.limits: dict[tuple[str, int], int] = {}
        self.most_stack = 1 << 19
        self.failing: dict[str, Result] = {}
        self.attributes = dict.fromkeys(["MAX_THREADS_PER_BLOCK"], 1024) | ATTRIBUTES
        self._numbers = itertools.count(0x1000)
        self.parameters = 0  # How many of a kernel's parameters are looked at.
        self.launched: list[list[int]] = []  # Their addresses at each launch,
        self.words: list[list[int]] = []  # and the eight bytes there.
        self.sizes: list[int] = []  # The bytes of each parameter, if they are to be read:
        self.bytes: list[list[bytes]] = []  # at each launch.
        self.by_address = 0  # How many launches were those of machine code.
        self.attributes_of_launches: list[list[tuple[int, ...]]] = []  # Numbers, and three words of their values.
        self.entries: dict[str, Any] = {}
        self.nodes: dict[int, list[tuple[int, Any]]] = {}  # What is captured, by stream: a number, and what it does.
        self.graphs: dict[int, list[tuple[int, Any]]] = {}  # Also the executable ones.
        self.refused: tuple[int, int] | None = None  # Why an update is, and the place of the node.

    def names(self) -> list[str]:
        return [entry[0] for entry in self.log]

    def _answer(self, name: str, *arguments: Any, value: Any = None) -> tuple[Any, ...]:
        self.log.append((name, *arguments))
        status = self.failing.get(name, Result.CUDA_SUCCESS)
        return (status,) if value is None and status == 0 else (status, value)

    def cuInit(self, flags):
        return self._answer("cuInit")

    def cuDeviceGetCount(self):
        return 0, self.devices

    def cuGetErrorString(self, code):
        return 0, f"the words for {Result(code).name}".encode()

    def cuGetErrorName(self, code):
        return 0, Result(code).name.encode()

    def cuCtxGetCurrent(self):
        return 0, self.stack[-1]

    def cuCtxSetCurrent(self, context):
        self.stack[-1] = context
        return (0,)

    def cuCtxPushCurrent(self, context):
        self.stack.append(context)
        return self._answer("push", context)

    def cuCtxPopCurrent(self):
        return self._answer("pop", value=self.stack.pop())

    def cuDevicePrimaryCtxRetain(self, ordinal):
        return self._answer("retain context", ordinal, value=CONTEXT + ordinal)

    def cuCtxGetDevice(self):
        return 0, self.stack[-1] - CONTEXT

    def cuDeviceCanAccessPeer(self, here, there):
        return 0, int((here, there) not in self.unreachable)

    def cuCtxEnablePeerAccess(self, context, flags):
        pair = self.stack[-1], context
        if pair in self.peers:
            return (Result.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,)
        self.peers.add(pair)
        return self._answer("cuCtxEnablePeerAccess", *pair)

    def cuMemPoolSetAccess(self, pool, description, count):
        return self._answer("cuMemPoolSetAccess", pool, *(ctypes.c_int * 3).from_address(description))

    def cuDeviceGetAttribute(self, which, ordinal):
        return 0, self.attributes.get(which.removeprefix("CU_DEVICE_ATTRIBUTE_"), 1)

    def cuDeviceGetName(self, length, ordinal):
        return 0, b"Fake GPU\0\0"

    def cuMemGetInfo(self):
        return 0, self.total_memory // 4, self.total_memory

    def cuDeviceTotalMem(self, ordinal):
        return 0, self.total_memory

    def cuCtxGetLimit(self, which):
        return 0, self.limits.get((which, self.stack[-1]), 1024)

    def cuCtxSetLimit(self, which, value):
        if value > self.most_stack:
            return (Result.CUDA_ERROR_OUT_OF_MEMORY,)
        self.limits[which, self.stack[-1]] = value
        return self._answer("cuCtxSetLimit", which, value)

    def cuMemAllocAsync(self, nbytes, stream):
        if nbytes > MOST_BYTES:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        block = (ctypes.c_char * nbytes)(*([b"\xaa"] * min(nbytes, 1 << 12)))
        address = ctypes.addressof(block)
        self.memory[address] = block
        return self._answer("cuMemAllocAsync", nbytes, stream, value=address)

    def cuMemAlloc(self, nbytes):
        if nbytes > MOST_BYTES:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        return self._shared("cuMemAlloc", nbytes)

    def _shared(self, name, nbytes):
        block = (ctypes.c_char * nbytes)()
        self.memory[ctypes.addressof(block)] = block
        return self._answer(name, nbytes, value=ctypes.addressof(block))

    def cuMemHostAlloc(self, nbytes, flags):
        return self._shared("cuMemHostAlloc", nbytes)

    def cuMemAllocManaged(self, nbytes, flags):
        return self._shared("cuMemAllocManaged", nbytes)

    def cuMemFreeHost(self, address):
        del self.memory[address]
        return self._answer("cuMemFreeHost")

    def cuMemFree(self, address):
        del self.memory[address]
        return self._answer("cuMemFree")

    def cuMemFreeAsync(self, address, stream):
        answer = self._answer("cuMemFreeAsync", address, stream)
        if answer[0] == 0:
            del self.memory[address]  # Freed twice: a KeyError.
        return answer

    def cuMemcpyAsync(self, target, source, nbytes, stream):
        ctypes.memmove(target, source, nbytes)
        return self._answer("cuMemcpyAsync", nbytes, stream)

    def cuMemsetD8Async(self, address, byte, nbytes, stream):
        ctypes.memset(address, byte, nbytes)
        return self._answer("cuMemsetD8Async", nbytes, stream)

    def cuDeviceGetDefaultMemPool(self, ordinal):
        return (self.failing.get("cuDeviceGetDefaultMemPool", 0), 0xB0 + ordinal)

    def cuMemPoolGetAttribute(self, pool, which):
        return 0, self.pools.get((pool, which), 0)

    def cuMemPoolSetAttribute(self, pool, which, value):
        self.pools[pool, which] = value
        return 0, value

    def cuPointerGetAttribute(self, which, address):
        known = address in self.foreign_addresses or address in self.memory
        return (Result.CUDA_SUCCESS, 0) if known else (Result.CUDA_ERROR_INVALID_VALUE, 0)

    def cuStreamSynchronize(self, stream):
        return self._answer("cuStreamSynchronize", stream)

    def cuCtxSynchronize(self):
        return self._answer("cuCtxSynchronize")

    def cuThreadExchangeStreamCaptureMode(self, mode):
        return 0, "CU_STREAM_CAPTURE_MODE_GLOBAL"

    def cuStreamIsCapturing(self, stream):
        return 0, int(stream in self.capturing)

    def cuStreamGetCtx(self, stream):
        return 0, self.stream_contexts.get(stream, CONTEXT)

    def cuStreamWaitEvent(self, stream, event, flags):
        return self._answer("cuStreamWaitEvent", stream, event)

    def cuEventCreate(self, flags):
        return self._answer("cuEventCreate", value=next(self._numbers))

    def cuEventRecord(self, event, stream):
        self.happened[event] = self.done
        return self._answer("cuEventRecord", event, stream)

    def cuEventQuery(self, event):
        if "cuEventQuery" in self.failing:
            return (self.failing["cuEventQuery"],)
        return (Result.CUDA_SUCCESS if self.happened[event] else Result.CUDA_ERROR_NOT_READY,)

    def cuEventSynchronize(self, event):
        self.happened[event] = True
        return self._answer("cuEventSynchronize", event)

    def cuEventElapsedTime(self, first, second):
        return self._answer("cuEventElapsedTime", first, second, value=2.5)

    def cuEventDestroy(self, event):
        return self._answer("cuEventDestroy", event)

    def cuLinkCreate(self, count, options, values):
        names = (ctypes.c_int * count).from_address(options)
        given = dict(zip(names, (ctypes.c_size_t * count).from_address(values), strict=True))
        self.words_of_assembler = given[self.CUjit_option.CU_JIT_ERROR_LOG_BUFFER]
        return 0, next(self._numbers)

    def cuLinkAddData(self, state, kind, data, size, name, *options):
        """Reads PTX, but none that is newer than CUDA."""
        from cuda_device.codegen.gpu import ptx_versions

        text = data.rstrip(b"\0").decode()
        major, minor = map(int, re.search(r"^\.version (\d+)\.(\d+)", text, re.M).groups())
        self.assembled.append(text)
        reads = ptx_versions.readable(self.cuda)
        if 10 * major + minor > reads:
            words = f"fatal : Unsupported .version {major}.{minor}; current version is '{reads / 10}'\0".encode()
            ctypes.memmove(self.words_of_assembler, words, len(words))
            return (Result.CUDA_ERROR_UNSUPPORTED_PTX_VERSION,)
        return (0,)

    def cuLinkComplete(self, state):
        from cuda_device.codegen.gpu import assemblers
        from cuda_device.types.architectures import parse

        text = self.assembled[-1]
        target = parse(re.search(r"^\.target (\w+)", text, re.M)[1])
        self.code = assemblers.ASSEMBLERS[1].run(assemblers.Request(text, target))
        return 0, ctypes.cast(self.code, ctypes.c_void_p).value, len(self.code)

    def cuLinkDestroy(self, state):
        return (0,)

    def cuLibraryLoadData(self, code, *options):
        return self._answer("cuLibraryLoadData", len(code), value=next(self._numbers))

    def cuLibraryGetKernel(self, library, symbol):
        return self._answer("cuLibraryGetKernel", library, symbol.decode(), value=next(self._numbers))

    def cuKernelGetFunction(self, kernel):
        return 0, kernel

    def cuKernelGetAttribute(self, which, kernel, ordinal):
        return 0, self.attributes.get(which.removeprefix("CU_FUNC_ATTRIBUTE_"), 1)

    def cuOccupancyMaxPotentialBlockSize(self, kernel, callback, shared, most):
        return (*self._answer("cuOccupancyMaxPotentialBlockSize", kernel, shared, most, value=132), min(most, 768))

    def cuKernelSetAttribute(self, which, value, kernel, ordinal):
        return self._answer("cuKernelSetAttribute", which, value, kernel)

    def cuStreamCreate(self, flags):
        return self._answer("cuStreamCreate", flags, value=next(self._numbers))

    def cuStreamDestroy(self, stream):
        return self._answer("cuStreamDestroy", stream)

    def cuStreamBeginCapture(self, stream, mode):
        self.capturing.add(stream)
        self.nodes[stream] = []
        return self._answer("cuStreamBeginCapture", stream, mode)

    def cuStreamGetCaptureInfo(self, stream):
        newest = [number for number, _ in self.nodes.get(stream, [])[-1:]]
        self.newest = (ctypes.c_uint64 * 1)(*newest)
        number = self.captures_apart.get(stream, 1)
        edges = (0,) if self.cuda >= (12, 3) else ()
        return 0, int(stream in self.capturing), number, 0, ctypes.addressof(self.newest), *edges, len(newest)

    def _capture_info(self, stream, state, number, *_):
        state[0], number[0] = self.cuStreamGetCaptureInfo(stream)[1:3]
        return 0

    def cuStreamEndCapture(self, stream):
        self.capturing.discard(stream)
        number = next(self._numbers)
        self.graphs[number] = self.nodes.pop(stream)
        return self._answer("cuStreamEndCapture", stream, value=number)

    def cuGraphInstantiateWithParams(self, graph, settings):
        number = next(self._numbers)
        self.graphs[number] = self.graphs[graph]
        return self._answer("cuGraphInstantiateWithParams", graph, value=number)

    def cuGraphExecUpdate(self, executable, graph, told):
        if self.refused:
            words = (ctypes.c_uint64 * 3).from_address(told)
            words[0], words[1] = self.refused[0], self.graphs[graph][self.refused[1]][0]
            return (910,)
        self.graphs[executable] = self.graphs[graph]
        return self._answer("cuGraphExecUpdate", executable, graph)

    def cuGraphLaunch(self, executable, stream):
        for _, work in self.graphs[executable]:
            work()
        return self._answer("cuGraphLaunch", executable, stream)

    def cuGraphDestroy(self, graph):
        del self.graphs[graph]
        return self._answer("cuGraphDestroy", graph)

    def cuGraphExecDestroy(self, executable):
        del self.graphs[executable]
        return self._answer("cuGraphExecDestroy", executable)

    def captures(self, stream, work):
        """Whether a stream is being captured into a graph, which gets the work."""
        if stream in self.nodes:
            self.nodes[stream].append((next(self._numbers), work))
        return stream in self.nodes

    def cuLaunchKernel(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        self.launched.append((ctypes.c_void_p * self.parameters).from_address(params)[:])
        addresses = (ctypes.c_void_p * len(self.sizes)).from_address(params)
        self.bytes.append(
            [ctypes.string_at(address, size) for address, size in zip(addresses, self.sizes, strict=True)]
        )
        self.captures(stream, lambda: None)
        self.words.append([ctypes.c_uint64.from_address(address).value for address in self.launched[-1]])
        return self._answer("cuLaunchKernel", kernel, (gx, gy, gz), (bx, by, bz), shared, stream)[:1]

    def cuLaunchKernelEx(self, config, kernel, params, extra):
        *sizes, stream, attributes, count = struct.unpack("=7I4xQQI4x", ctypes.string_at(config, 56))
        texts = (ctypes.string_at(attributes + 72 * i, 72) for i in range(count))
        self.attributes_of_launches.append([struct.unpack("=I4x3I52x", text) for text in texts])
        return self.cuLaunchKernel(kernel, *sizes, stream, params, extra)

    def cuLaunchCooperativeKernel(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, params):
        return self._answer("cuLaunchCooperativeKernel", kernel, (gx, gy, gz), (bx, by, bz), shared, stream)[:1]

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, kernel, threads, shared):
        return 0, self.blocks_at_once

    def cuLaunchHostFunc(self, stream, function, data):
        if not self.failing.get("cuLaunchHostFunc"):
            call = functools.partial(HOST_FUNCTION(function), data)
            call() if self.done else self.host_functions.append(call)
        return self._answer("cuLaunchHostFunc", stream)

    def _encode(self, out, kind, rank, address, lengths, strides, box, steps, *patterns):
        """Describes an array as the driver's tensor map does: here, by the address."""
        tables = (lengths[:rank], strides[: rank - 1], box[:rank], steps[:rank])
        ctypes.memset(out, 0x5A, 128)
        ctypes.c_uint64.from_address(out).value = address
        return self._answer("cuTensorMapEncodeTiled", out % 64, kind, address, *map(tuple, tables), patterns)[0]

    def _launch_by_address(self, *arguments):
        self.by_address += 1
        return self.cuLaunchKernel(*arguments)[0]

    def _launch_with_attributes(self, *arguments):
        self.by_address += 1
        return self.cuLaunchKernelEx(*arguments)[0]

    def cuGetProcAddress(self, symbol, version, flags):
        """The functions that machine code calls; what they do is what the methods here do."""
        if not self.entries:
            self.entries = {
                "cuLaunchKernel": LAUNCH_KERNEL(self._launch_by_address),
                "cuLaunchKernelEx": LAUNCH_WITH_ATTRIBUTES(self._launch_with_attributes),
                "cuCtxGetCurrent": GET_CONTEXT(lambda out: _give(out, self.cuCtxGetCurrent())),
                "cuStreamIsCapturing": ASK_STREAM_INT(lambda stream, out: _give(out, self.cuStreamIsCapturing(stream))),
                "cuStreamGetCaptureInfo": CAPTURE_INFO(self._capture_info),
                "cuEventCreate": CREATE_EVENT(lambda out, flags: _give(out, self.cuEventCreate(flags))),
                "cuEventDestroy": DESTROY_EVENT(lambda event: self.cuEventDestroy(event)[0]),
                "cuEventRecord": RECORD_EVENT(lambda event, stream: self.cuEventRecord(event, stream)[0]),
                "cuStreamWaitEvent": WAIT_EVENT(lambda *given: self.cuStreamWaitEvent(*given)[0]),
                "cuTensorMapEncodeTiled": ENCODE_TENSOR_MAP(self._encode),
                "cuStreamGetCtx": ASK_STREAM(lambda stream, out: _give(out, self.cuStreamGetCtx(stream))),
            }
        return 0, ctypes.cast(self.entries[symbol.decode()], ctypes.c_void_p).value, 0

    def finish(self) -> None:
        """Lets every event happen, and host functions run."""
        while self.host_functions:
            self.host_functions.pop(0)()
        self.happened = dict.fromkeys(self.happened, True)


@contextlib.contextmanager
def installed(devices: int = 1, cuda: tuple[int, int] | None = None) -> Iterator[FakeDriver]:
    """Puts a fake driver in the place of the real one, and forgets all that was learnt from it afterwards.

    One with a version of CUDA assembles, too.
    """
    fake = FakeDriver(devices, cuda or (13, 0))
    genuine = driver.bindings
    _forget()
    driver.bindings = lambda: fake
    assembles = _assembling(fake) if cuda else contextlib.nullcontext()
    try:
        with assembles:
            yield fake
    finally:
        if GENUINE:  # It would crash over what is dropped later: addresses that it never gave.
            gc.collect()
            for each in gc.get_objects():
                if type(each) is buffers.GpuMemory and each.address in fake.memory:
                    each.address = 0
        _forget()
        driver.bindings = genuine


@contextlib.contextmanager
def _assembling(fake: FakeDriver) -> Iterator[None]:
    """Lets the compiler use a fake driver as an assembler."""
    from unittest import mock  # tests count what is imported

    from cuda_device.codegen.gpu import assemblers, cubin

    major, minor = fake.cuda
    assemblers._identify_driver.cache_clear()
    with (
        mock.patch.object(libcuda, "driver_version", return_value=1000 * major + 10 * minor),
        mock.patch.multiple(assemblers, _driver=lambda: fake, _is_loaded=lambda _: True),
        mock.patch.object(cubin, "_unusable", {}),
    ):
        yield
    assemblers._identify_driver.cache_clear()


@contextlib.contextmanager
def no_gpu() -> Iterator[None]:
    """Makes this machine one without a GPU."""
    with installed(devices=0):
        yield


def _forget() -> None:
    plans = sys.modules.get(
        "cuda_device.plugins.launchers.plans"
    )  # where there is no need for machine code, LLVM is not loaded
    if plans is not None:
        plans.forget()
    driver.available.cache_clear()
    driver.properties.cache_clear()
    driver.has_pool.cache_clear()
    driver._allocations = itertools.count(driver.FIRST)
    driver._primary.clear()
    driver._spare_events.clear()
    launch_log.RING[0] = 0
    launch_log._ended.clear()
    streams._retained.clear()
    streams._defaults.clear()
    streams._log_once.cache_clear()
    buffers._unfreed.clear()
