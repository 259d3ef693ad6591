"""The names of `numba.cuda`, for kernels that were written for it: a thin layer over ours.

    from cuda_device import numba_compat as cuda

    @cuda.jit
    def increment(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    increment[x.size // 32 + 1, 32](x)              on the GPU if there is one, else on the CPU, compiled

Scalars become int64, float64 and complex128, or what a signature says; positions are int64; atomic operations are relaxed. A
literal has the type of what it meets, as in all device code here: `x * 0.5` of a float32 is a float32, and numba's a float64.
Streams are all the default one. There is no `random`, no dynamic shared memory by `shared.array(0, …)` (use
`cuda_device.dynamic_shared_array`), and no slicing of device arrays on the host.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from numpy import int64

from cuda_device.device import machine_functions, numeric, positioning, sync
from cuda_device.device.atomics import atomic_ref
from cuda_device.device.atomics import threadfence as fence
from cuda_device.device.functions import func
from cuda_device.device.functions import kernel as make_kernel
from cuda_device.device.memory import local_array, shared_array
from cuda_device.library.grid_barrier import grid_sync
from cuda_device.runtime.arrays import device_array as arrays
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import CpuStream, Stream, as_stream
from cuda_device.runtime.launch import launcher

# In kernels

threadIdx, blockIdx, blockDim, gridDim = positioning.SIGNED  # noqa: N816
laneid, warpsize = sync.lane_id, sync.warp_size
syncthreads, syncthreads_count = sync.syncthreads, sync.syncthreads_count
syncthreads_and, syncthreads_or = sync.syncthreads_and, sync.syncthreads_or
all_sync, any_sync, eq_sync, ballot_sync = sync.all_sync, sync.any_sync, sync.eq_sync, sync.ballot_sync
shfl_sync, shfl_up_sync = sync.shfl_sync, sync.shfl_up_sync
shfl_down_sync, shfl_xor_sync = sync.shfl_down_sync, sync.shfl_xor_sync
match_any_sync, match_all_sync = sync.match_any_sync, sync.match_all_sync
activemask, lanemask_lt, nanosleep = sync.activemask, sync.lanemask_lt, machine_functions.nanosleep
popc, brev, clz, ffs, cbrt, fma = numeric.popc, numeric.brev, numeric.clz, numeric.ffs, numeric.cbrt, numeric.fma

_GRID = SimpleNamespace(sync=grid_sync)
cg = SimpleNamespace(this_grid=func(lambda: _GRID))
"""Cooperative groups: `cg.this_grid().sync()`, which makes the launch cooperative."""


@func
def grid(ndim: Any) -> Any:
    """The thread's position in the grid: an int64, or a tuple of two or three."""
    if ndim == 1:
        return int64(positioning.tid(1))
    return tuple(int64(each) for each in positioning.tid(ndim))


@func
def gridsize(ndim: Any) -> Any:
    """The number of threads of the grid along each axis, as `grid`."""
    if ndim == 1:
        return int64(positioning.grid_size(1))
    return tuple(int64(each) for each in positioning.grid_size(ndim))


@func
def syncwarp(mask: Any = 0xFFFFFFFF) -> None:
    """Waits for the lanes of a mask."""
    sync.syncwarp(mask)


@func
def threadfence() -> None:
    """Orders accesses for all threads of the device."""
    fence("seq_cst", "device")


@func
def threadfence_block() -> None:
    """Orders accesses for the threads of the block."""
    fence("seq_cst", "block")


@func
def threadfence_system() -> None:
    """Orders accesses for all threads, of the host too."""
    fence("seq_cst", "system")


@func
def selp(a: Any, b: Any, c: Any) -> Any:
    """`b` if `a` else `c`."""
    return b if a else c


@func
def _array_like(ary: Any) -> Any:
    """The array itself: what a kernel captures is constant."""
    return ary


shared = SimpleNamespace(array=shared_array)
local = SimpleNamespace(array=local_array)
const = SimpleNamespace(array_like=_array_like)


@func
def _add(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).add(val, "relaxed", "device")


@func
def _sub(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).sub(val, "relaxed", "device")


@func
def _and(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).and_(val, "relaxed", "device")


@func
def _or(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).or_(val, "relaxed", "device")


@func
def _xor(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).xor(val, "relaxed", "device")


@func
def _max(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).max(val, "relaxed", "device")


@func
def _min(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).min(val, "relaxed", "device")


@func
def _nanmax(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).nanmax(val, "relaxed", "device")


@func
def _nanmin(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).nanmin(val, "relaxed", "device")


@func
def _exch(ary: Any, idx: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).exch(val, "relaxed", "device")


@func
def _cas(ary: Any, idx: Any, old: Any, val: Any) -> Any:
    return atomic_ref(ary, idx).cas(old, val, "relaxed", "device")


@func
def _compare_and_swap(ary: Any, old: Any, val: Any) -> Any:
    return _cas(ary, 0, old, val)


@func
def _inc(ary: Any, idx: Any, val: Any) -> Any:
    """One more, or 0 from `val` on."""
    place = atomic_ref(ary, idx)
    old = place.load("relaxed", "device")
    while True:
        seen = place.cas(old, 0 if old >= val else old + 1, "relaxed", "device")
        if seen == old:
            return old
        old = seen


@func
def _dec(ary: Any, idx: Any, val: Any) -> Any:
    """One less, or `val` from 0, and from what is above it."""
    place = atomic_ref(ary, idx)
    old = place.load("relaxed", "device")
    while True:
        seen = place.cas(old, val if old == 0 or old > val else old - 1, "relaxed", "device")
        if seen == old:
            return old
        old = seen


atomic = SimpleNamespace(
    add=_add, sub=_sub, and_=_and, or_=_or, xor=_xor, max=_max, min=_min, nanmax=_nanmax, nanmin=_nanmin, exch=_exch, cas=_cas,
    compare_and_swap=_compare_and_swap, inc=_inc, dec=_dec,
)  # fmt: skip

# Kernels


def jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """Makes a function a kernel, or with `device` a function that kernels call. Takes a signature in quotes, too.

    Of numba's options `fastmath`, `max_registers`, `lineinfo`, `link`, `debug` and `launch_bounds` mean something here; others
    are ignored.
    """
    if not isinstance(func_or_sig, FunctionType):
        return functools.partial(_decorated, signature=func_or_sig, device=device, options=options)
    return _decorated(func_or_sig, None, device, options)


def _decorated(function: FunctionType, signature: Any, device: bool, options: dict[str, Any]) -> Any:
    if device:
        return func(function)
    ours = {name: options[name] for name in ("fastmath", "max_registers", "lineinfo", "link") if options.get(name)}
    if options.get("debug"):
        ours["checked"] = True
    if bounds := options.get("launch_bounds"):
        threads, *blocks = bounds if isinstance(bounds, tuple) else (bounds,)
        ours |= {"max_threads": threads} | ({"min_blocks": blocks[0]} if blocks else {})
    return Dispatcher(make_kernel(**ours)(function), _scalars(signature))


def _scalars(signature: Any) -> list[type | None]:
    """The types that a signature in quotes gives to parameters that are no arrays: `void(int32, float32[:])`."""
    text = signature[0] if isinstance(signature, (list, tuple)) and len(signature) == 1 else signature
    if not isinstance(text, str):
        return []
    inner = re.sub(r"\[[^]]*\]", "[]", text[text.find("(") + 1 : text.rfind(")")])
    names = [name.strip().replace("boolean", "bool") for name in inner.split(",") if name.strip()]
    return [None if "[" in name else np.dtype(name).type for name in names]


class Dispatcher:
    """A kernel: `kernel[grid, block, stream, shared](…)` launches it, and `kernel.forall(n)(…)` with n threads or some more.

    Host arrays are copied to a GPU and back, as numba does it; on the CPU kernels work on the arrays themselves.
    """

    def __init__(self, kernel: Any, scalars: Sequence[type | None]) -> None:
        functools.update_wrapper(self, kernel.underlying)
        self.kernel, self.py_func, self._scalars = kernel, kernel.underlying, scalars

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(parts) <= 4:
            raise ValueError(
                f"write {self.py_func.__name__}[grid, block](…), perhaps with a stream and bytes of shared memory"
            )
        sizes = dict(zip(("grid", "block", "stream", "shared"), parts, strict=False))
        return functools.partial(self._launch, **sizes)

    def __call__(self, *_: Any, **__: Any) -> None:
        """Refuses: a launch has a size."""
        raise ValueError(f"write {self.py_func.__name__}[grid, block](…)")

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """A launch of `ntasks` threads or some more, in blocks of `tpb`, or of the best size."""
        return functools.partial(self._launch, threads=ntasks, block=tpb or "auto", stream=stream, shared=sharedmem)

    def _launch(self, *args: Any, stream: Any = 0, **sizes: Any) -> None:
        where = _stream_of(stream)
        given, copies = [], []
        for i, argument in enumerate(args):
            value = argument.array if isinstance(argument, DeviceNDArray) else argument
            if isinstance(value, np.ndarray) and not isinstance(where, CpuStream):
                value = arrays.array(value, stream=where)
                copies.append((argument, value))
            given.append(_typed(value, self._scalars[i] if i < len(self._scalars) else None))
        launcher.launch(self.kernel, *given, stream=where, **sizes)
        for argument, value in copies:
            argument[...] = value.numpy()


_DEFAULTS = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def _typed(value: Any, type_: type | None) -> Any:
    """A number as the type that numba gives it."""
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    return (type_ or _DEFAULTS.get(type(value), type(value)))(value)


# Arrays and streams


class DeviceNDArray:
    """An array on the device: `array` is ours. Its shape, dtype and protocols are those of that."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """A copy of the elements, in `ary` if it is given."""
        found = self.array.numpy().copy()
        if ary is None:
            return found
        ary[...] = found
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Takes the elements of another array. Raises `ValueError` for one of another shape."""
        elements = ary.copy_to_host() if isinstance(ary, DeviceNDArray) else np.asarray(ary)
        if elements.shape != self.array.shape:
            raise ValueError(f"an array of shape {elements.shape} does not fit one of shape {self.array.shape}")
        self.array = arrays.array(elements.astype(self.array.dtype), stream=self.array.stream)


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> DeviceNDArray:
    """A copy of an array on the device, in `to` if it is given."""
    if to is not None:
        to.copy_to_device(obj)
        return to  # type: ignore[no-any-return]
    return DeviceNDArray(arrays.array(obj, stream=_stream_of(stream)))


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """A new array on the device whose elements are unspecified; in the order of C."""
    if order != "C" or strides is not None:
        raise NotImplementedError(
            "device arrays are in the order of C: write to_device(np.asfortranarray(…)) for another"
        )
    return DeviceNDArray(arrays.empty(shape, dtype, stream=_stream_of(stream)))


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """A new array of the shape and dtype of another."""
    return device_array(ary.shape, ary.dtype, stream=stream)


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Any:
    """A host array; its memory is not pinned."""
    return np.empty(shape, dtype, order)  # type: ignore[call-overload]


def as_cuda_array(obj: Any) -> Any:
    """An array of another library, which launches take as it is."""
    return obj


class DefaultStream:
    """The default stream."""

    def __init__(self, ours: Stream) -> None:
        self.ours = ours

    def synchronize(self) -> None:
        """Waits for all that was launched."""
        self.ours.synchronize()

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[DefaultStream]:
        """Waits at its end."""
        yield self
        self.synchronize()


def stream() -> DefaultStream:
    """The default stream."""
    return DefaultStream(as_stream(None))


default_stream = stream


def _stream_of(stream: Any) -> Stream:
    if isinstance(stream, DefaultStream):
        return stream.ours
    return as_stream(None if stream is None or (type(stream) is int and stream == 0) else stream)


def synchronize() -> None:
    """Waits for all that was launched."""
    as_stream(None).synchronize()


def is_available() -> bool:
    """Whether there is a GPU; without one, kernels run on the CPU."""
    return driver.available()
