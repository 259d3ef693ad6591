"""A thin layer over the CUDA driver's library, which is loaded on first use.

Handles (streams, events, kernels, contexts) are plain integers here, and every failure raises an error of this package. The
module neither loads the driver nor starts the GPU before `available()` or another function is called, so it can be imported on a
machine without a driver; there, `available()` returns False.

    if driver.available():
        with driver.using(driver.ensure_context()):
            address = driver.allocate(1024, stream=1, ordinal=0)
            driver.free(address, stream=1, ordinal=0)
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
from _thread import RLock  # `threading` takes as long to import as this module
from collections.abc import Callable, Collection
from typing import Any

from cuda_device import hooks
from cuda_device.codegen.gpu import libcuda
from cuda_device.errors import KernelError, LaunchError
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.runtime.gpu import launch_log

LEGACY_STREAM = 1
PER_THREAD_STREAM = 2
SUCCESS = 0
_OUT_OF_MEMORY = 2
_NOT_READY = 600
_ON_DEVICE, _READ_WRITE = 1, 3  # of CUmemLocationType and CUmemAccess_flags
_CUDA_VERSION = 12000  # of the driver's functions that we call by their addresses
_CAPTURE_IMPLICIT = 906
WORD = 4  # bytes: what atomic operations on a single byte read and exchange

# Errors after which every call of the driver in this process fails with the same error (CUresult).
STICKY = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})
_primary: dict[int, int] = {}
"""The primary contexts that are retained until the process ends, by device."""
_primary_lock = RLock()  # reentrant, because destructors may run at any point
MOST_SPARE_EVENTS = 256
_spare_events: dict[int, list[int]] = {}
"""Events that can be reused, by context."""
_reason = ""


def bindings() -> Any:
    """The functions of the driver's library. Raises `OSError` if there is none."""
    return libcuda.load_driver()


def cuda_core() -> Any:
    """The package `cuda.core`, which takes 120 ms to import. Raises `LaunchError` if it cannot be imported."""
    try:
        import cuda.core as core
    except ImportError as error:
        raise LaunchError(f"cuda.core cannot be imported: {error}", "pip install 'cuda-core>=1.2'") from None
    return core


@functools.cache
def available() -> bool:
    """Whether this process can use a GPU. Never raises; `unavailable_reason()` returns the reason."""
    global _reason
    try:
        check(bindings().cuInit(0), "starting the driver")
        _reason = "" if device_count() else "the driver sees no GPU"
    except Exception as error:
        _reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return not _reason


def device_count() -> int:
    """The number of GPUs that this process sees."""
    return int(check(bindings().cuDeviceGetCount(), "counting the GPUs"))


def unavailable_reason() -> str:
    """Why `available()` is false, in one line; empty if a GPU is usable."""
    return "" if available() else _reason


def require() -> None:
    """Raises `LaunchError` with the reason if no GPU is usable."""
    if not available():
        raise LaunchError(f"no GPU is usable here: {_reason}", "pass stream=cpu_stream() to run on the CPU")


class OutOfMemory(LaunchError):
    """The GPU's memory does not suffice."""


def check(result: Any, doing: str = "") -> Any:
    """The outputs of a call of the driver: None, a value, or a tuple of values.

    If the call failed, raises `KernelError` for errors that make the GPU unusable for this process, else `LaunchError`. The
    message has the driver's name and description of the error, and what was being done (`doing`).
    """
    status, *values = result
    if status != SUCCESS:
        raise error_of(int(status), doing)
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def error_of(status: int, doing: str = "") -> LaunchError | KernelError:
    """The exception for the driver's error number `status`."""
    name, description = _describe(status)
    message = f"{name} ({status}): {description}" + (f", while {doing}" if doing else "")
    if status in STICKY:
        suspects = launch_log.describe()
        return KernelError(
            f"{message}\n  A kernel that ran earlier caused this, and the GPU is lost to this process until it is started anew."
            + (f"\n  in flight: {suspects}" if suspects else "")
            + "\n  help: run the kernel with @kernel(checked=True), or under compute-sanitizer"
        )
    if status == _OUT_OF_MEMORY:
        return OutOfMemory(message, "delete arrays, or let frameworks release the memory that they cache")
    return LaunchError(message, "")


def _describe(status: int) -> tuple[str, str]:
    try:
        api = bindings()
        (_, name), (_, text) = api.cuGetErrorName(status), api.cuGetErrorString(status)
        return name.decode(), text.decode() if text else "no description"
    except Exception:
        return "CUDA error", "no description"


def entry_point(name: str) -> int:
    """The address of a function of the driver, for machine code that calls it."""
    address, _ = check(bindings().cuGetProcAddress(name.encode(), _CUDA_VERSION, 0), f"looking for {name}")
    return int(address)


# Contexts and devices


def current_context() -> int:
    """The handle of this thread's current context, or 0."""
    require()
    return int(check(bindings().cuCtxGetCurrent(), "asking for the current context"))


def ensure_context() -> int:
    """Makes device 0's primary context current if this thread has no current context. Returns the current context's handle."""
    context = current_context()
    if not context:
        make_current(0)
        context = primary_context(0)
    return context


def primary_context(ordinal: int) -> int:
    """The handle of the primary context of device `ordinal`, which the CUDA runtime and all frameworks use."""
    require()
    with _primary_lock:
        if ordinal not in _primary:
            _primary[ordinal] = int(check(bindings().cuDevicePrimaryCtxRetain(ordinal), f"opening device {ordinal}"))
        return _primary[ordinal]


class Using:
    """Makes a context current in this thread for the duration of a `with` block."""

    # Not a generator, which takes three times as long: every launch uses this.
    __slots__ = ("_context", "_pushed")

    def __init__(self, context: int) -> None:
        self._context = context
        self._pushed = False

    def __enter__(self) -> None:
        if self._context != current_context():
            check(bindings().cuCtxPushCurrent(self._context), "switching to another context")
            self._pushed = True

    def __exit__(self, *_: object) -> None:
        if self._pushed:
            check(bindings().cuCtxPopCurrent(), "switching back from another context")


using = Using


def make_current(ordinal: int) -> None:
    """Makes the primary context of a device this thread's current one."""
    check(bindings().cuCtxSetCurrent(primary_context(ordinal)), f"making device {ordinal} current")


def current_ordinal() -> int:
    """The number of the current context's device; device 0 becomes current if there is no context."""
    ensure_context()
    return int(check(bindings().cuCtxGetDevice(), "asking for the current device"))


def context_of(ordinal: int) -> int:
    """A context on device `ordinal`: the current one if it is on that device, else the device's primary context."""
    return ensure_context() if current_ordinal() == ordinal else primary_context(ordinal)


@dataclass(frozen=True)
class Properties:
    """The properties of a device. Sizes are in bytes; `resident_threads` is the maximum of a multiprocessor."""

    ordinal: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    resident_threads: int
    memory: int
    l2_cache: int
    max_shared_optin: int
    memory_pools: bool
    pageable_access: bool


@functools.cache
def properties(ordinal: int) -> Properties:
    """The properties of device `ordinal`."""
    require()
    api = bindings()
    attribute = api.CUdevice_attribute

    def ask(name: str) -> int:
        which = getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(api.cuDeviceGetAttribute(which, ordinal), f"asking device {ordinal} for {name}"))

    return Properties(
        ordinal=ordinal,
        name=check(api.cuDeviceGetName(256, ordinal), "asking for the device's name").decode().split("\0")[0],
        capability=(ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")),
        multiprocessors=ask("MULTIPROCESSOR_COUNT"),
        resident_threads=ask("MAX_THREADS_PER_MULTIPROCESSOR"),
        memory=int(check(api.cuDeviceTotalMem(ordinal), "asking for the size of the device's memory")),
        l2_cache=ask("L2_CACHE_SIZE"),
        max_shared_optin=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        memory_pools=bool(ask("MEMORY_POOLS_SUPPORTED")),
        pageable_access=bool(ask("PAGEABLE_MEMORY_ACCESS")),
    )


def can_access_peer(here: int, there: int) -> bool:
    """Whether kernels on device `here` can be given access to the memory of device `there`."""
    return bool(check(bindings().cuDeviceCanAccessPeer(here, there), f"asking what device {here} reaches"))


def open_pool(owner: int, accessor: int) -> None:
    """Gives device `accessor` access to the memory pool of device `owner`."""
    if has_pool(owner):
        api = bindings()
        pool = check(api.cuDeviceGetDefaultMemPool(owner), "asking for a pool of memory")
        words = (ctypes.c_int * 3)(_ON_DEVICE, accessor, _READ_WRITE)  # CUmemAccessDesc
        result = api.cuMemPoolSetAccess(pool, ctypes.addressof(words), 1)
        check(result, f"giving device {accessor} access to the memory of device {owner}")


class BesideCaptures:
    """A `with` block whose calls do not invalidate a stream capture of this thread."""

    __slots__ = ("_mode",)

    def __enter__(self) -> None:
        api = bindings()
        relaxed = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._mode = check(api.cuThreadExchangeStreamCaptureMode(relaxed))

    def __exit__(self, *_: object) -> None:
        bindings().cuThreadExchangeStreamCaptureMode(self._mode)


# Memory, in the current context

MOST_KEPT = 64 << 20
"""The bytes of freed memory that the process keeps for its next arrays."""
FIRST = 8
"""The number of allocations of a process before it uses the memory pool, whose first use takes 7 ms."""
_allocations = itertools.count()


@functools.cache
def has_pool(ordinal: int) -> bool:
    """Whether a device has a memory pool, whose release threshold is then set.

    By default the pool returns all free memory to the system at each synchronisation, and the next allocation takes a hundred
    microseconds. A threshold that the program has set is kept.
    """
    if not properties(ordinal).memory_pools:
        return False
    api = bindings()
    bound = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    status, pool = api.cuDeviceGetDefaultMemPool(ordinal)
    if status == SUCCESS and tuple(api.cuMemPoolGetAttribute(pool, bound)) == (SUCCESS, 0):
        api.cuMemPoolSetAttribute(pool, bound, MOST_KEPT)
    return True


def allocate(nbytes: int, stream: int, ordinal: int) -> int:
    """Allocates `nbytes` of the current device's memory in the order of `stream`; returns the address, 0 for no bytes.

    The size is rounded up to whole words; the bytes that are added are zero.
    """
    if nbytes == 0:
        return 0
    api, rest = bindings(), -nbytes % WORD
    if next(_allocations) >= FIRST and has_pool(ordinal):
        result = api.cuMemAllocAsync(nbytes + rest, stream)
    else:  # the driver frees such memory in stream order as well
        with BesideCaptures():
            result = api.cuMemAlloc(nbytes + rest)
    address = int(check(result, f"allocating {nbytes + rest} bytes of GPU memory"))
    fill_zero(address + nbytes, rest, stream)
    return address


def free(address: int, stream: int, ordinal: int) -> None:
    """Frees memory of `allocate` in the order of `stream`."""
    if address == 0:
        return
    api = bindings()
    pooled = has_pool(ordinal)
    with BesideCaptures():
        check(api.cuMemFreeAsync(address, stream) if pooled else api.cuMemFree(address), "freeing GPU memory")


def copy(target: int, source: int, nbytes: int, stream: int) -> None:
    """Copies `nbytes` between addresses of the host or of GPUs in the order of `stream`, possibly asynchronously."""
    if nbytes:
        check(bindings().cuMemcpyAsync(target, source, nbytes, stream), f"copying {nbytes} bytes")


def allocate_mapped(nbytes: int) -> tuple[int, int]:
    """Allocates host memory that all GPUs can access and that is never freed; returns its addresses on the host and the GPU."""
    api = bindings()
    flags = api.CU_MEMHOSTALLOC_PORTABLE | api.CU_MEMHOSTALLOC_DEVICEMAP
    host = int(check(api.cuMemHostAlloc(nbytes, flags), f"allocating {nbytes} bytes of mapped memory"))
    return host, int(check(api.cuMemHostGetDevicePointer(host, 0), "mapping host memory"))


def allocate_shared(nbytes: int, managed: bool) -> int:
    """Allocates managed memory, or pinned host memory; returns the address."""
    api = bindings()
    if managed:
        result = api.cuMemAllocManaged(nbytes, api.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
    else:
        result = api.cuMemHostAlloc(nbytes, api.CU_MEMHOSTALLOC_PORTABLE | api.CU_MEMHOSTALLOC_DEVICEMAP)
    return int(check(result, f"allocating {nbytes} bytes of {'managed' if managed else 'pinned'} memory"))


def free_shared(address: int, managed: bool) -> None:
    """Frees memory of `allocate_shared` when the device has finished its work."""
    api = bindings()
    with BesideCaptures():
        check(api.cuMemFree(address) if managed else api.cuMemFreeHost(address), "freeing memory")


def allocate_for_good(nbytes: int) -> int:
    """Allocates zeroed GPU memory that is never freed; returns the address."""
    address = int(check(bindings().cuMemAlloc(nbytes), f"allocating {nbytes} bytes of GPU memory"))
    check(bindings().cuMemsetD8(address, 0, nbytes), f"clearing {nbytes} bytes")
    return address


def fill_zero(address: int, nbytes: int, stream: int) -> None:
    """Sets `nbytes` of GPU memory to 0, in the order of `stream`."""
    if nbytes:
        check(bindings().cuMemsetD8Async(address, 0, nbytes, stream), f"clearing {nbytes} bytes")


def ordinal_of(address: int) -> int | None:
    """The device whose memory contains `address`; None if the driver does not know the address."""
    ensure_context()
    api = bindings()
    status, value = api.cuPointerGetAttribute(api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
    return int(value) if status == SUCCESS else None


REPORTERS: dict[int, Callable[[int], None]] = {}
"""The functions that raise the errors which kernels report, by context (see `report_message`)."""


def raise_report(context: int) -> None:
    """Raises the `KernelError` that a kernel reported in `context`, which is current, if there is one."""
    if reporter := REPORTERS.get(context):
        reporter(context)


# Streams and events


def synchronize_stream(stream: int) -> None:
    """Waits until all work of `stream` is done. Raises `KernelError` if a kernel corrupted the context."""
    check(bindings().cuStreamSynchronize(stream), "waiting for a stream")
    launch_log.ended(current_context(), stream)


def synchronize_context() -> None:
    """Waits until all work of the current context is done."""
    check(bindings().cuCtxSynchronize(), "waiting for the device")
    launch_log.ended(current_context())


def is_capturing(stream: int) -> bool:
    """Whether launches on `stream` are captured into a graph, or would invalidate a capture."""
    status, state = bindings().cuStreamIsCapturing(stream)
    # The status of the legacy stream while a blocking stream captures, which work on the legacy stream would invalidate.
    return bool(status == _CAPTURE_IMPLICIT or (status == SUCCESS and int(state) != 0))


def capture_number(stream: int) -> int:
    """The driver's number of the capture that `stream` takes part in, which streams that are forked from it share; 0 if none."""
    status, state, number, *_ = bindings().cuStreamGetCaptureInfo(stream)
    return int(number) if status == SUCCESS and int(state) != 0 else 0


def stream_context(stream: int) -> int:
    """The context that `stream` belongs to; for the legacy and the per-thread stream, the current one."""
    context = ensure_context()
    if stream in (LEGACY_STREAM, PER_THREAD_STREAM):
        return context
    return int(check(bindings().cuStreamGetCtx(stream), f"looking up the stream {stream:#x}"))


def begin_capture(stream: int) -> int:
    """Begins to capture a stream in relaxed mode. Returns the stream; for the legacy stream, a new one."""
    api = bindings()
    if stream == LEGACY_STREAM:  # it cannot be captured
        stream = int(check(api.cuStreamCreate(api.CUstream_flags.CU_STREAM_NON_BLOCKING), "making a stream"))
    relaxed = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    check(api.cuStreamBeginCapture(stream, relaxed), "beginning to build a graph")
    return stream


def end_capture(captured: int, stream: int) -> int:
    """Ends the capture of the stream that `begin_capture(stream)` returned; returns the graph."""
    api = bindings()
    result = api.cuStreamEndCapture(captured)
    launch_log.ended(current_context(), captured)
    if captured != stream:
        api.cuStreamDestroy(captured)
    return int(check(result, "building a graph"))


# Events


def create_event(timing: bool = False) -> int:
    """Creates an event in the current context, with or without `timing`."""
    flags = bindings().CUevent_flags
    flag = flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING
    return int(check(bindings().cuEventCreate(flag), "creating an event"))


def seconds_between(first: int, second: int) -> float:
    """The seconds between two events with timing that have completed."""
    return float(check(bindings().cuEventElapsedTime(first, second), "reading the time between two events")) * 1e-3


def record_event(event: int, stream: int) -> None:
    """Records `event` on `stream`."""
    check(bindings().cuEventRecord(event, stream), "recording an event")


def event_done(event: int) -> bool:
    """Whether `event` has completed."""
    (status,) = bindings().cuEventQuery(event)
    if status == _NOT_READY:
        return False
    check((status,), "asking for an event")
    return True


def synchronize_event(event: int) -> None:
    """Waits until `event` has completed."""
    check(bindings().cuEventSynchronize(event), "waiting for an event")


def destroy_event(event: int) -> None:
    """Destroys `event` when it has completed."""
    check(bindings().cuEventDestroy(event), "destroying an event")


def wait_event(stream: int, event: int) -> None:
    """Makes later work of `stream` wait for `event`."""
    check(bindings().cuStreamWaitEvent(stream, event, 0), "ordering two streams")


def spare_events(context: int) -> list[int]:
    """The reusable events of a context. Launchers in machine code also take events from the list, and put them back."""
    return _spare_events.setdefault(context, [])


def take_event(context: int) -> int:
    """A reusable event of the current context, or a new one."""
    try:
        return spare_events(context).pop()
    except IndexError:
        return create_event()


def give_event(event: int, context: int) -> None:
    """Makes an event reusable."""
    spare = spare_events(context)
    if len(spare) < MOST_SPARE_EVENTS:
        spare.append(event)
    else:
        destroy_event(event)


def order(first: Collection[int], second: Collection[int]) -> None:
    """Makes later work of the streams `second` wait for the current work of the streams `first`, all in the current context."""
    if not first or not second or first == second:
        return
    context = current_context()
    # `wait_event` refers to the most recent `record_event`, so the event can be reused at once, unless it is part of a capture.
    captured = any(map(is_capturing, first))
    event = create_event() if captured else take_event(context)
    try:
        for producer in first:
            record_event(event, producer)
            for consumer in second:
                wait_event(consumer, event)
    except BaseException:
        destroy_event(event)
        raise
    if captured:
        destroy_event(event)
    else:
        give_event(event, context)


# Libraries, kernels and launches


def load_library(code: bytes) -> int:
    """Loads a cubin, fatbin or PTX for all contexts; returns the library's handle."""
    ensure_context()
    if not code.startswith(b"\x7fELF") and not code.endswith(b"\0"):
        code += b"\0"
    library = int(check(bindings().cuLibraryLoadData(code, None, None, 0, None, None, 0), "loading device code"))
    for symbol, module in hooks.LOADED.items():
        if symbol in code:
            hooks.plugin(module).begin(library)
    return library


def get_kernel(library: int, symbol: str) -> int:
    """The handle of the kernel `symbol`, for all contexts."""
    return int(check(bindings().cuLibraryGetKernel(library, symbol.encode()), f"looking for the kernel {symbol!r}"))


def most_threads(kernel: int, ordinal: int) -> int:
    """The maximum number of threads per block of `kernel` on device `ordinal`."""
    api = bindings()
    which = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    return int(check(api.cuKernelGetAttribute(which, kernel, ordinal), "asking a kernel for its largest block"))


def set_max_dynamic_shared(kernel: int, nbytes: int, ordinal: int) -> None:
    """Allows launches of `kernel` with up to `nbytes` of dynamic shared memory on device `ordinal` (beyond 48 KiB)."""
    api = bindings()
    which = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    check(api.cuKernelSetAttribute(which, nbytes, kernel, ordinal), f"asking for {nbytes} bytes of shared memory")


def _function(kernel: int) -> int:
    """The function of a kernel in the current context, which the occupancy calculator of CUDA 12 needs."""
    return int(check(bindings().cuKernelGetFunction(kernel), "asking for the function of a kernel"))


def best_block(kernel: int, dynamic_shared: int, most: int) -> int:
    """The block size, at most `most`, with the highest occupancy on the current device."""
    result = bindings().cuOccupancyMaxPotentialBlockSize(_function(kernel), None, dynamic_shared, most)
    _, threads = check(result, "asking for the best size of a block")
    return int(threads)


def raise_stack_limit(nbytes: int) -> None:
    """Raises the stack size of threads in the current context to at least `nbytes`.

    Raises `LaunchError` if the GPU does not have enough memory, or a thread cannot have so much.
    """
    api = bindings()
    which = api.CUlimit.CU_LIMIT_STACK_SIZE
    if int(check(api.cuCtxGetLimit(which), "asking for the size of stacks")) < nbytes:
        with BesideCaptures():
            check(api.cuCtxSetLimit(which, nbytes), f"asking for {nbytes} bytes of stack for each thread")


def write_global(library: int, symbol: str, source: int, nbytes: int) -> None:
    """Copies `nbytes` from the host address `source` to a global variable of a library in the current context."""
    api = bindings()
    address, size = check(api.cuLibraryGetGlobal(library, symbol.encode()), f"looking for the variable {symbol!r}")
    assert size == nbytes, (symbol, size, nbytes)
    check(api.cuMemcpyHtoD(address, source, nbytes), f"writing the variable {symbol!r}")


def resident_blocks(kernel: int, threads: int, dynamic_shared: int) -> int:
    """The number of blocks of `threads` that are resident on a multiprocessor of the current device."""
    result = bindings().cuOccupancyMaxActiveBlocksPerMultiprocessor(_function(kernel), threads, dynamic_shared)
    return int(check(result, "asking for the number of blocks that run at once"))


def launch(
    kernel: int,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    stream: int,
    params: int,
    cooperative: bool = False,
    cluster: tuple[int, int, int] = (1, 1, 1),
    dependent: bool = False,
) -> None:
    """Launches `kernel` in the current context; `params` is the address of a C array of pointers to the arguments.

    A `dependent` launch may start before the previous one in its stream has ended (programmatic dependent launch).
    """
    api = bindings()
    if cluster != (1, 1, 1) or dependent:
        ids = api.CUlaunchAttributeID
        attributes = []
        if cluster != (1, 1, 1):
            attributes.append(struct.pack("=I4x3I52x", ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, *cluster))
        if cooperative:
            attributes.append(struct.pack("=I4xI60x", ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, True))
        if dependent:
            serial = ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attributes.append(struct.pack("=I4xI60x", serial, True))
        attribute_array = ctypes.create_string_buffer(b"".join(attributes))
        place, count = ctypes.addressof(attribute_array), len(attributes)
        config = struct.pack("=7I4xQQI4x", *grid, *block, shared, stream, place, count)
        launch_config = ctypes.create_string_buffer(config)
        (status,) = api.cuLaunchKernelEx(ctypes.addressof(launch_config), kernel, params, 0)
    elif cooperative:
        (status,) = api.cuLaunchCooperativeKernel(kernel, *grid, *block, shared, stream, params)
    else:
        (status,) = api.cuLaunchKernel(kernel, *grid, *block, shared, stream, params, 0)
    if status != SUCCESS:
        clusters = "" if cluster == (1, 1, 1) else f" in clusters of {cluster}"
        raise error_of(int(status), f"launching a grid of {grid} blocks of {block} threads{clusters}")
