"""The names of `numba.cuda`, for kernels that were written for it: a thin layer over `cuda_device`.

    from cuda_device import numba_compat as cuda

    @cuda.jit
    def increment(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    increment[x.size // 32 + 1, 32](x)              on the GPU if there is one, otherwise compiled for the CPU

Scalar arguments become int64, float64 or complex128, or the types of a signature; positions are int64; atomic operations are
relaxed. A literal takes the type of the number that it is combined with: for a float32 `x`, `x * 0.5` is a float32, whereas numba
gives a float64. Every stream is the default stream. Random numbers are in `cuda_device.numba_random`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any, Self

import numpy as np
from numpy import int64

from cuda_device.device import machine_functions, numeric, positioning, sync
from cuda_device.device.atomics import atomic_ref
from cuda_device.device.atomics import threadfence as fence
from cuda_device.device.functions import RESERVED, func
from cuda_device.device.functions import kernel as make_kernel
from cuda_device.device.memory import sized_local_array, sized_shared_array
from cuda_device.errors import KernelError
from cuda_device.lazy_dataclasses import replace
from cuda_device.library.grid_barrier import grid_sync
from cuda_device.runtime.arrays import device_array as arrays
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import CpuStream, Stream, as_stream, cpu_stream
from cuda_device.runtime.launch import launcher
from cuda_device.types import vector_classes

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

_C_NAMES = {
    "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32", "long": "int64",
    "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64", "float": "float32", "double": "float64",
}  # fmt: skip
# Vector types by the names of ours and of CUDA C++: float32x4 and float4.
globals().update(vector_classes.FAMILIES)
globals().update(
    {f"{c}{n}": vector_classes.FAMILIES[f"{ours}x{n}"] for c, ours in _C_NAMES.items() for n in (1, 2, 3, 4)}
)


@func
def grid(ndim: Any) -> Any:
    """Returns the thread's position in the grid: an int64, or a tuple of two or three."""
    if ndim == 1:
        return int64(positioning.tid(1))
    return tuple(int64(each) for each in positioning.tid(ndim))


@func
def gridsize(ndim: Any) -> Any:
    """Returns the number of threads of the grid along each axis, in the form of `grid`."""
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
    """Orders accesses for all threads, including those of the host."""
    fence("seq_cst", "system")


@func
def selp(a: Any, b: Any, c: Any) -> Any:
    """`b` if `a` else `c`."""
    return b if a else c


@func
def _array_like(ary: Any) -> Any:
    """Returns the array itself, because arrays that a kernel captures are constants."""
    return ary


def _module(name: str, **members: Any) -> ModuleType:
    """A namespace, as in numba.cuda."""
    found = ModuleType(f"{__name__}.{name}")
    vars(found).update(members)
    return found


shared = _module("shared", array=sized_shared_array)
local = _module("local", array=sized_local_array)
const = _module("const", array_like=_array_like)


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
    place = atomic_ref(ary, idx)
    return (
        place.max(val, "relaxed", "device") if val == val else place.load("relaxed", "device")
    )  # a NaN changes nothing


@func
def _min(ary: Any, idx: Any, val: Any) -> Any:
    place = atomic_ref(ary, idx)
    return place.min(val, "relaxed", "device") if val == val else place.load("relaxed", "device")


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
    """Adds 1 to an element, or sets it to 0 if it is at least `val`. Returns the previous value."""
    place = atomic_ref(ary, idx)
    old = place.load("relaxed", "device")
    while True:
        seen = place.cas(old, 0 if old >= val else old + 1, "relaxed", "device")
        if seen == old:
            return old
        old = seen


@func
def _dec(ary: Any, idx: Any, val: Any) -> Any:
    """Subtracts 1 from an element, or sets it to `val` if it is 0 or greater than `val`. Returns the previous value."""
    place = atomic_ref(ary, idx)
    old = place.load("relaxed", "device")
    while True:
        seen = place.cas(old, val if old == 0 or old > val else old - 1, "relaxed", "device")
        if seen == old:
            return old
        old = seen


atomic = _module(
    "atomic", add=_add, sub=_sub, and_=_and, or_=_or, xor=_xor, max=_max, min=_min, nanmax=_nanmax, nanmin=_nanmin, exch=_exch,
    cas=_cas, compare_and_swap=_compare_and_swap, inc=_inc, dec=_dec,
)  # fmt: skip

fp16 = _module(
    "fp16",
    hadd=func(lambda a, b: np.float16(a) + np.float16(b)),
    hsub=func(lambda a, b: np.float16(a) - np.float16(b)),
    hmul=func(lambda a, b: np.float16(a) * np.float16(b)),
    hdiv=func(lambda a, b: np.float16(a) / np.float16(b)),
    hfma=func(lambda a, b, c: numeric.fma(np.float16(a), np.float16(b), np.float16(c))),
    hneg=func(lambda a: -np.float16(a)),
    habs=func(lambda a: abs(np.float16(a))),
    hmax=func(lambda a, b: max(np.float16(a), np.float16(b))),
    hmin=func(lambda a, b: min(np.float16(a), np.float16(b))),
    heq=func(lambda a, b: np.float16(a) == np.float16(b)),
    hne=func(lambda a, b: np.float16(a) != np.float16(b)),
    hge=func(lambda a, b: np.float16(a) >= np.float16(b)),
    hgt=func(lambda a, b: np.float16(a) > np.float16(b)),
    hle=func(lambda a, b: np.float16(a) <= np.float16(b)),
    hlt=func(lambda a, b: np.float16(a) < np.float16(b)),
    hsin=func(lambda a: math.sin(np.float16(a))),
    hcos=func(lambda a: math.cos(np.float16(a))),
    hlog=func(lambda a: math.log(np.float16(a))),
    hlog2=func(lambda a: math.log2(np.float16(a))),
    hlog10=func(lambda a: math.log10(np.float16(a))),
    hexp=func(lambda a: math.exp(np.float16(a))),
    hexp2=func(lambda a: math.exp2(np.float16(a))),
    hexp10=func(lambda a: np.float16(10.0 ** np.float32(a))),
    hsqrt=func(lambda a: math.sqrt(np.float16(a))),
    hrsqrt=func(lambda a: np.float16(numeric.rsqrt(np.float32(a)))),
    hceil=func(lambda a: np.ceil(np.float16(a))),
    hfloor=func(lambda a: np.floor(np.float16(a))),
    htrunc=func(lambda a: np.trunc(np.float16(a))),
    hrint=func(lambda a: np.rint(np.float16(a))),
    hrcp=func(lambda a: np.float16(1.0) / np.float16(a)),
)
"""Functions of float16."""

_ONE = """acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 fabs frexp lgamma log log10 log1p log2 modf
    sin sinh sqrt tan tanh"""
_TWO = "atan2 copysign fmod hypot nextafter pow remainder"


def _of_floats(function: Any, arity: int, real: Any) -> Any:
    """Returns a function that converts its arguments to the types of libdevice's parameters."""
    if arity == 1:
        return func(lambda x: function(real(x)))
    if arity == 2:
        return func(lambda x, y: function(real(x), real(y)))
    return func(lambda x, y, z: function(real(x), real(y), real(z)))


@func
def _sincos(x: Any) -> Any:
    return math.sin(x), math.cos(x)


_REAL = [(name, getattr(math, name), arity) for names, arity in ((_ONE, 1), (_TWO, 2)) for name in names.split()]
_REAL += [
    ("tgamma", math.gamma, 1),
    ("cbrt", cbrt, 1),
    ("rsqrt", numeric.rsqrt, 1),
    ("sincos", _sincos, 1),
    ("fma", fma, 3),
]
_REAL += [("ceil", np.ceil, 1), ("floor", np.floor, 1), ("trunc", np.trunc, 1), ("rint", np.rint, 1)]
libdevice = _module(
    "libdevice",
    **{name: _of_floats(function, arity, np.float64) for name, function, arity in _REAL},
    **{f"{name}f": _of_floats(function, arity, np.float32) for name, function, arity in _REAL},
    sad=func(lambda x, y, z: abs(np.int32(x) - np.int32(y)) + np.int32(z)),
    popc=func(lambda x: popc(np.int32(x))),
    popcll=func(lambda x: popc(int64(x))),
    clz=func(lambda x: clz(np.int32(x))),
    clzll=func(lambda x: clz(int64(x))),
    brev=func(lambda x: brev(np.int32(x))),
    brevll=func(lambda x: brev(int64(x))),
    ffs=func(lambda x: ffs(np.int32(x))),
    ffsll=func(lambda x: ffs(int64(x))),
)
"""The functions of libdevice that `math` has, and those of bits: `libdevice.sinf(x)` of a float32, `sin` of a float64."""

_GRID = _module("grid", sync=grid_sync)
cg = _module("cg", this_grid=func(lambda: _GRID))
"""Cooperative groups: `cg.this_grid().sync()`, which makes the launch cooperative."""

# Kernels


def jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """Makes a function a kernel, or with `device` a function that kernels call. A signature may be given as a string.

    Of numba's options, `fastmath`, `max_registers`, `lineinfo`, `link`, `debug` and `launch_bounds` have an effect; others are
    ignored.
    """
    if not isinstance(func_or_sig, FunctionType):
        return functools.partial(_decorated, signature=func_or_sig, device=device, options=options)
    return _decorated(func_or_sig, None, device, options)


def _decorated(function: FunctionType, signature: Any, device: bool, options: dict[str, Any]) -> Any:
    if device:
        return func(function)
    names = function.__code__.co_varnames
    if set(RESERVED) & set(names):  # parameters of `launch`
        plain = function.__code__.replace(co_varnames=tuple(f"{n}_" if n in RESERVED else n for n in names))
        function = FunctionType(plain, function.__globals__, None, function.__defaults__, function.__closure__)
    ours = {name: options[name] for name in ("fastmath", "max_registers", "lineinfo", "link") if options.get(name)}
    if options.get("debug"):
        ours["checked"] = True
    if bounds := options.get("launch_bounds"):
        threads, *blocks = bounds if isinstance(bounds, tuple) else (bounds,)
        ours |= {"max_threads": threads} | ({"min_blocks": blocks[0]} if blocks else {})
    made = make_kernel(**ours)(function)
    made.options = replace(made.options, build=replace(made.options.build, wide=True))
    return Dispatcher(made, _scalars(signature))


def _scalars(signature: Any) -> list[type | None]:
    """Returns the types of the parameters in a signature such as "void(int32, float32[:])" that are not arrays."""
    text = signature[0] if isinstance(signature, (list, tuple)) and len(signature) == 1 else signature
    if not isinstance(text, str):
        return []
    inner = re.sub(r"\[[^]]*\]", "[]", text[text.find("(") + 1 : text.rfind(")")])
    names = [name.strip().replace("boolean", "bool") for name in inner.split(",") if name.strip()]
    return [None if "[" in name else np.dtype(name).type for name in names]


class Dispatcher:
    """A kernel. `kernel[grid, block, stream, shared](…)` launches it; `kernel.forall(n)(…)` launches at least n threads.

    Host arrays are copied to a GPU and back, as in numba; on the CPU, kernels work on the arrays themselves.
    """

    def __init__(self, kernel: Any, scalars: Sequence[type | None]) -> None:
        functools.update_wrapper(self, kernel.underlying)
        self.kernel, self.py_func, self._scalars = kernel, kernel.underlying, scalars
        self.extensions: list[Any] = []
        """Objects whose `prepare_args(None, value, stream=…, retr=…)` returns a type and what takes the argument's place."""

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(parts) <= 4:
            raise ValueError(
                f"write {self.py_func.__name__}[grid, block](…), perhaps with a stream and bytes of shared memory"
            )
        for name, size in zip(("griddim", "blockdim"), parts, strict=False):
            lengths = list(size) if isinstance(size, (tuple, list)) else [size]
            if not 1 <= len(lengths) <= 3:
                raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {lengths}")
            if not all(isinstance(length, (int, np.integer)) for length in lengths):
                raise TypeError(f"{name} must be a sequence of integers, got {lengths}")
        sizes = dict(zip(("grid", "block", "stream", "shared"), parts, strict=False))
        return functools.partial(self._launch, **sizes)

    def __call__(self, *_: Any, **__: Any) -> None:
        """Raises an error, because a launch needs a size."""
        raise ValueError(f"launch configuration was not specified: write {self.py_func.__name__}[grid, block](…)")

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """Returns a launch of at least `ntasks` threads, in blocks of `tpb` threads, or of the best size.

        Raises `ValueError` for a negative number.
        """
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        if ntasks == 0:
            return lambda *_: None
        return functools.partial(self._launch, threads=ntasks, block=tpb or "auto", stream=stream, shared=sharedmem)

    def _launch(self, *args: Any, stream: Any = 0, **sizes: Any) -> None:
        where = _stream_of(stream)
        given, copies = [], []
        for i, argument in enumerate(self._prepared(arg, where) for arg in args):
            value = argument.array if isinstance(argument, DeviceNDArray) else argument
            if isinstance(value, np.ndarray) and not isinstance(where, CpuStream):
                value = arrays.array(value, stream=where)
                copies.append((argument, value))
            given.append(_typed(value, self._scalars[i] if i < len(self._scalars) else None))
        try:
            launcher.launch(self.kernel, *given, stream=where, **sizes)
            if self.kernel.options.build.checked:  # debug=True: what the kernel raises is raised here
                where.synchronize()
        except KernelError as error:
            raise _as_python_raises(error, self.py_func.__globals__) from error
        for argument, value in copies:
            argument[...] = value.numpy()

    def _prepared(self, argument: Any, stream: Stream) -> Any:
        for extension in self.extensions:
            _, argument = extension.prepare_args(None, argument, stream=stream, retr=[])
        if isinstance(argument, np.void):
            return np.asarray(argument)  # the same memory
        if isinstance(argument, In):
            return argument.value if isinstance(argument, InOut) else to_device(argument.value, stream)
        return argument


class In:
    """An array argument that is copied to the device, but not back."""

    def __init__(self, value: Any) -> None:
        self.value = value


class InOut(In):
    """An array argument that is copied to the device and back, as without a hint."""


class Out(InOut):
    """Like `InOut`; elements that the kernel does not write are unchanged."""


_DEFAULTS = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def _typed(value: Any, type_: type | None) -> Any:
    """Converts a number to the type that numba gives it; an integer that is too large wraps around."""
    if isinstance(value, tuple):
        items = [_typed(item, None) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not isinstance(value, (bool, int, float, complex, np.generic)) or isinstance(value, np.void):
        return value
    wanted = type_ or _DEFAULTS.get(type(value), type(value))
    return wanted(value) if isinstance(value, wanted) else np.asarray(value).astype(wanted)[()]


def _as_python_raises(error: KernelError, names: dict[str, Any]) -> Exception:
    """Returns the exception of a kernel, if Python or its module has it, or an `IndexError` for an index out of bounds."""
    text = str(error).partition("\n")[0]
    if text.startswith("index ") and "out of bounds" in text:
        return IndexError(f"{'tuple' if 'tuple' in text else 'array'} index out of range: {error}")
    name = text.partition(":")[0]
    found = names.get(name, getattr(builtins, name, None))
    return found(str(error)) if isinstance(found, type) and issubclass(found, Exception) else error


# Arrays and streams


class DeviceNDArray:
    """An array on the device, with the shape, dtype and protocols of the `DeviceArray` in `array`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __getitem__(self, key: Any) -> Any:
        """Returns a part, which shares the memory, or one element as a number."""
        part = self.array[key]
        return DeviceNDArray(part) if part.shape or key == () else part.numpy()[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copies an array or a number to a part."""
        self.array[key] = value.array if isinstance(value, DeviceNDArray) else value

    @property
    def T(self) -> DeviceNDArray:  # noqa: N802
        """The array with its axes reversed: the same memory, or a copy if the elements are not contiguous."""
        if not (self.flags["C_CONTIGUOUS"] or self.flags["F_CONTIGUOUS"]):
            return to_device(np.ascontiguousarray(self.array.numpy().T), self.array.stream)
        view = self.array._cuda_device_view_()
        turned = replace(view, shape=view.shape[::-1], strides=view.strides[::-1])
        return DeviceNDArray(arrays.DeviceArray.over(turned, self.array.stream, self.array.dtype))

    def transpose(self, axes: Any = None) -> DeviceNDArray:
        """`T`. Raises `NotImplementedError` for another order of the axes."""
        if axes is not None and tuple(axes) != tuple(range(self.array.ndim))[::-1]:
            raise NotImplementedError("transpose takes the axes in the other order only")
        return self.T

    @property
    def flags(self) -> Any:
        """The flags of NumPy for such an array: `flags["C_CONTIGUOUS"]`."""
        return np.lib.stride_tricks.as_strided(
            np.empty(0, self.array.dtype), self.array.shape, self.array.strides
        ).flags

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Returns a copy of the elements, in `ary` if it is given."""
        found = self.array.numpy().copy()
        if ary is None:
            return found
        ary[...] = found
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copies the elements of another array. Raises `ValueError` if its shape differs."""
        elements = ary.copy_to_host() if isinstance(ary, DeviceNDArray) else np.asarray(ary)
        if elements.shape != self.array.shape:
            raise ValueError(f"an array of shape {elements.shape} does not fit one of shape {self.array.shape}")
        self.array[...] = elements.astype(self.array.dtype)


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> DeviceNDArray:
    """Returns a copy of an array on the device, in `to` if it is given."""
    if to is not None:
        to.copy_to_device(obj)
        return to  # type: ignore[no-any-return]
    return DeviceNDArray(arrays.array(obj, stream=_stream_of(stream)))


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """Returns a new C-contiguous array on the device, whose elements are unspecified."""
    if strides is not None:
        raise NotImplementedError('device arrays have no strides of their own: give order="C" or order="F"')
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    made = DeviceNDArray(arrays.empty(lengths if order == "C" else lengths[::-1], dtype, stream=_stream_of(stream)))
    return made if order == "C" else made.T


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """Returns a new array with the shape, dtype and order of another."""
    return device_array(ary.shape, ary.dtype, order=_order_of(ary), stream=stream)


def _order_of(ary: Any) -> str:
    return "F" if not ary.flags["C_CONTIGUOUS"] and abs(ary.strides[0]) < abs(ary.strides[-1]) else "C"


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Any:
    """Returns a host array. Its memory is neither pinned nor mapped to a GPU: launches copy it there and back."""
    return np.empty(shape, dtype, order)  # type: ignore[call-overload]


def pinned_array_like(ary: Any) -> Any:
    """Returns a host array with the shape, dtype and order of another, like `pinned_array`."""
    return pinned_array(ary.shape, ary.dtype, order=_order_of(ary))


def mapped_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    portable: bool = False,
    wc: bool = False,
) -> Any:
    """Returns a host array, like `pinned_array`."""
    return pinned_array(shape, dtype, strides, order)


def mapped_array_like(ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False) -> Any:
    """Returns a host array with the shape, dtype and order of another, like `pinned_array`."""
    return pinned_array_like(ary)


def as_cuda_array(obj: Any) -> Any:
    """Returns the array unchanged, because launches take arrays of other libraries."""
    return obj


class DefaultStream:
    """The default stream."""

    def __init__(self, ours: Stream) -> None:
        self.ours = ours

    def synchronize(self) -> None:
        """Waits until all launches have finished."""
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
    """Waits until all launches have finished."""
    as_stream(None).synchronize()


class GpuDevice:
    """A GPU, or the CPU in its place."""

    def __init__(self, id: int = 0) -> None:
        self.id = id
        self._before: list[GpuDevice] = []

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The compute capability; on the CPU, that of the architecture that the CPU stream emulates."""
        if driver.available():
            return driver.properties(self.id).capability
        return divmod(int(re.sub(r"\D", "", cpu_stream().target)), 10)

    @property
    def name(self) -> str:
        """The name of the GPU."""
        return driver.properties(self.id).name if driver.available() else "CPU"

    def reset(self) -> None:
        """Does nothing, because there are no resources to release."""

    def __enter__(self) -> Self:
        """Makes the device current within a `with` statement, and restores the previous one at its end."""
        self._before.append(get_current_device())
        select_device(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        select_device(self._before.pop().id)


def get_current_device() -> GpuDevice:
    """The device of the current context."""
    return GpuDevice(driver.current_ordinal() if driver.available() else 0)


def select_device(device_id: int) -> GpuDevice:
    """Makes a GPU the current one."""
    if driver.available():
        driver.make_current(device_id)
    return GpuDevice(device_id)


def list_devices() -> list[GpuDevice]:
    """Returns all devices; without a GPU there is only one, the CPU."""
    return [GpuDevice(i) for i in range(driver.device_count() if driver.available() else 1)]


class Devices:
    """All devices by their numbers: `with cuda.gpus[1]:`."""

    def __getitem__(self, device_id: int) -> GpuDevice:
        return list_devices()[device_id]

    def __iter__(self) -> Iterator[GpuDevice]:
        return iter(list_devices())

    def __len__(self) -> int:
        return len(list_devices())


gpus = Devices()


class GpuContext:
    """The context of a device."""

    def __init__(self) -> None:
        self.deallocations: list[Any] = []
        """Nothing waits to be freed: memory goes back to its pool at once."""


def current_context(devnum: int | None = None) -> GpuContext:
    """The context of the current device."""
    return GpuContext()


def close() -> None:
    """Does nothing: frameworks use the same context."""


def is_available() -> bool:
    """Returns whether there is a GPU; without one, kernels run on the CPU."""
    return driver.available()
