"""The names of `numba.cuda`, for kernels that were written for it: a thin layer over `cuda_device`.

    from cuda_device import numba_compat as cuda

    @cuda.jit
    def increment(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    increment[x.size // 32 + 1, 32](x)              on the GPU if there is one, otherwise compiled for the CPU

Numbers are numba's (`wide`): Python's have 64 bits, `x * 0.5` of a float32 is a float64, and integers compute in 64 bits. A
record in a variable is a reference. Positions are int64; atomic operations are relaxed. The host's part is in
`host_api`, the inspection of kernels in `overloads`, and random numbers, `cuda.random`, in `xoroshiro`.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import math
import operator
import os
import re
from collections.abc import Callable, Sequence
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy import int64

import cuda_device
from cuda_device import (
    CompileError,
    ConstExpr,
    CpuStream,
    Func,
    HostArray,
    KernelError,
    Stream,
    atomic_ref,
    extern,
    func,
)
from cuda_device import kernel as make_kernel
from cuda_device import threadfence as fence
from cuda_device.extend import libdevice as libdevice_code
from cuda_device.extend import replace
from cuda_device.plugins.numba import device_functions
from cuda_device.plugins.numba.host_api import *  # noqa: F403
from cuda_device.plugins.numba.host_api import (
    NAMES,
    DeviceNDArray,
    Signature,
    SignatureParameter,
    check_units,
    choose,
    counts_of,
    device_array,
    parse,
    result_of,
    stream_of,
    to_device,
)
from cuda_device.plugins.numba.overloads import Overload, Overloads, hint_of, parameter_of
from cuda_device.plugins.numba.types_of_numba import VECTORS

# In kernels

threadIdx, blockIdx = device_functions.threadIdx, device_functions.blockIdx  # noqa: N816
blockDim, gridDim = device_functions.blockDim, device_functions.gridDim  # noqa: N816
laneid, warpsize = cuda_device.lane_id, cuda_device.warp_size
_SAME_NAMES = """activemask all_sync any_sync ballot_sync brev cbrt clz eq_sync ffs fma lanemask_lt match_all_sync match_any_sync
    nanosleep popc rsqrt shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync syncthreads syncthreads_and syncthreads_count
    syncthreads_or""".split()  # noqa: SIM905
globals().update({name: getattr(cuda_device, name) for name in _SAME_NAMES})

_C_NAMES = {
    "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32", "long": "int64",
    "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64", "float": "float32", "double": "float64",
}  # fmt: skip
globals().update({name: np.dtype(ours).type for name, ours in NAMES.items()})
globals().update({each: np.dtype(each).type for each in NAMES.values()})
# Vector types by the names of ours and of CUDA C++: float32x4 and float4.
globals().update(VECTORS)
globals().update({f"{c}{n}": VECTORS[f"{ours}x{n}"] for c, ours in _C_NAMES.items() for n in (1, 2, 3, 4)})


def _in_int64(position: Any) -> Any:
    """`tid` or `grid_size` as an int64, or a tuple of two or three."""

    @func
    def converted(ndim: Any) -> Any:
        return int64(position(1)) if ndim == 1 else tuple(int64(index) for index in position(ndim))

    return converted


grid, gridsize = map(_in_int64, (cuda_device.tid, cuda_device.grid_size))


@func
def syncwarp(mask: Any = 0xFFFFFFFF) -> None:
    """Waits for the lanes of a mask."""
    cuda_device.syncwarp(mask)


def _fence(scope: str) -> Any:
    return func(lambda: fence("seq_cst", scope))


threadfence, threadfence_block, threadfence_system = map(_fence, ("device", "block", "system"))
selp = func(lambda a, b, c: b if a else c)


def _cached(cache: str) -> Any:
    return func(lambda ary, idx: cuda_device.cache_load(ary, idx, cache))


def _storing(cache: str) -> Any:
    return func(lambda ary, idx, val: cuda_device.cache_store(ary, idx, val, cache))


ldca, ldcg, ldcs, ldlu, ldcv = map(_cached, ("ca", "cg", "cs", "lu", "cv"))
stcg, stcs, stwb, stwt = map(_storing, ("cg", "cs", "wb", "wt"))


def _module(name: str, **members: Any) -> ModuleType:
    """A namespace, as in numba.cuda."""
    namespace = ModuleType(f"{__name__}.{name}")
    vars(namespace).update(members)
    return namespace


shared = _module(
    "shared", array=device_functions.shared_array, array_like=func(lambda a: cuda_device.shared_array(a.shape, a.dtype))
)
local = _module("local", array=device_functions.local_array)
const = _module("const", array_like=func(lambda ary: ary))  # arrays that a kernel captures are constants


def _relaxed(method: str) -> Any:
    """The function of an array, an index and operands that is this method of an atomic, relaxed."""
    if method == "cas":
        return func(lambda ary, idx, old, val: atomic_ref(ary, idx).cas(old, val, "relaxed", "device"))
    return func(lambda ary, idx, val: getattr(atomic_ref(ary, idx), method)(val, "relaxed", "device"))


def _extreme(method: str) -> Any:
    """`max` or `min`, where a NaN as the operand changes nothing."""

    @func
    def change(ary: Any, idx: Any, val: Any) -> Any:
        element = atomic_ref(ary, idx)
        return getattr(element, method)(val, "relaxed", "device") if val == val else element.load("relaxed", "device")

    return change


def _wrapping(following: Func) -> Any:
    """`inc` or `dec`: replaces an element by `following(element, val)` and returns the previous value."""

    @func
    def change(ary: Any, idx: Any, val: Any) -> Any:
        element = atomic_ref(ary, idx)
        old = element.load("relaxed", "device")
        while True:
            seen = element.cas(old, following(old, val), "relaxed", "device")
            if seen == old:
                return old
            old = seen

    return change


_SAME = ("add", "sub", "and_", "or_", "xor", "nanmax", "nanmin", "exch", "cas")
atomic = _module(
    "atomic",
    **{name: _relaxed(name) for name in _SAME},
    max=_extreme("max"),
    min=_extreme("min"),
    compare_and_swap=func(lambda ary, old, val: atomic_ref(ary, 0).cas(old, val, "relaxed", "device")),
    inc=_wrapping(func(lambda old, val: 0 if old >= val else old + 1)),
    dec=_wrapping(func(lambda old, val: val if old == 0 or old > val else old - 1)),
)


def _of(number: Any, function: Any) -> Any:
    """The function of arguments that are converted to a type first."""
    return func(lambda *args: function(*[number(arg) for arg in args]))


_HALF = {
    "hadd": operator.add,
    "hsub": operator.sub,
    "hmul": operator.mul,
    "hdiv": operator.truediv,
    "hmax": max,
    "hmin": min,
    **{f"h{name}": getattr(operator, name) for name in ("eq", "ne", "ge", "gt", "le", "lt", "neg")},
    **{f"h{name}": getattr(math, name) for name in ("sin", "cos", "log", "log2", "log10", "exp", "exp2", "sqrt")},
    "habs": abs,
    "hceil": np.ceil,
    "hfloor": np.floor,
    "htrunc": np.trunc,
    "hrint": np.rint,
    "hfma": cuda_device.fma,
    "hrcp": func(lambda a: np.float16(1.0) / a),
    "hexp10": func(lambda a: np.float16(10.0 ** np.float32(a))),
    "hrsqrt": func(lambda a: np.float16(cuda_device.rsqrt(np.float32(a)))),
}
fp16 = _module("fp16", **{name: _of(np.float16, function) for name, function in _HALF.items()})
"""Functions of float16."""


_OF_MATH = """acos acosh asin asinh atan atan2 atanh copysign cos cosh erf erfc exp exp2 expm1 fabs fmod frexp hypot lgamma log
    log10 log1p log2 modf nextafter pow remainder sin sinh sqrt tan tanh""".split()  # noqa: SIM905
_REAL = {
    **{name: getattr(math, name) for name in _OF_MATH},
    **{name: getattr(np, name) for name in ("ceil", "floor", "trunc", "rint")},
    "tgamma": math.gamma,
    **{name: getattr(cuda_device, name) for name in ("cbrt", "rsqrt", "fma")},
    "sincos": func(lambda x: (math.sin(x), math.cos(x))),
}
_BITS = {name: getattr(cuda_device, name) for name in ("popc", "clz", "brev", "ffs")}
libdevice = _module(
    "libdevice",
    **{name: _of(np.float64, function) for name, function in _REAL.items()},
    **{f"{name}f": _of(np.float32, function) for name, function in _REAL.items()},
    **{name: _of(np.int32, function) for name, function in _BITS.items()},
    **{f"{name}ll": _of(int64, function) for name, function in _BITS.items()},
    sad=_of(np.int32, func(lambda x, y, z: abs(x - y) + z)),
)
"""The functions of libdevice that `math` has, and those of bits: `libdevice.sinf(x)` of a float32, `sin` of a float64.

Others are declared when a kernel names them.
"""

_OF_LLVM = {"float": np.float32, "double": np.float64, "i32": np.int32, "i64": np.int64}
_STUBS = (lambda a: None, lambda a, b: None, lambda a, b, c: None)


def _of_libdevice(name: str) -> Any:
    """Declares another function of libdevice that takes and returns numbers. Only GPUs can call it.

    Raises `AttributeError` if there is no such function.
    """
    types = None if name.startswith("_") else libdevice_code.types_of(f"__nv_{name}")
    if types is None or not set(types) <= set(_OF_LLVM) or not 1 < len(types) <= len(_STUBS) + 1:
        raise AttributeError(f"libdevice has no function {name!r} of numbers")
    result, *parameters = (_OF_LLVM[type] for type in types)
    stub = FunctionType(_STUBS[len(parameters) - 1].__code__, {}, name)
    stub.__annotations__ = dict(zip("abc", parameters, strict=False)) | {"return": result}
    declared, numbers = extern(symbol=f"__nv_{name}")(stub), tuple(parameters)
    function = func(lambda *args: declared(*[number(arg) for number, arg in zip(numbers, args)]))  # noqa: B905
    setattr(libdevice, name, function)  # kernels that read the attribute are recompiled if it changes
    return function


libdevice.__getattr__ = _of_libdevice  # type: ignore[method-assign]

_GRID = _module("grid", sync=cuda_device.grid_sync)
cg = _module("cg", this_grid=func(lambda: _GRID))
"""Cooperative groups: `cg.this_grid().sync()`, which makes the launch cooperative."""

# Kernels


_OPTIONS = frozenset(
    """boundscheck cache debug extensions fastmath forceinline inline launch_bounds lineinfo link lto max_registers nopython opt
    shared_memory_carveout""".split()  # noqa: SIM905
)
_OF_LAUNCH = ("grid", "block", "stream", "shared")
"""Parameters of `launch`, which no kernel may have."""


def jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """Makes a function a kernel, or with `device` a function that kernels call. Signatures may be given (`host_api.parse`).

    The arguments and the result of a device function with one signature are converted to its number types, as in numba.
    Of numba's options, `fastmath`, `max_registers`, `lineinfo`, `link`, `debug` and `launch_bounds` have an effect; others are
    ignored. With `debug`, kernels are checked, divisions of floats by zero included, and not optimised; launches raise Python's
    exceptions. Raises `TypeError` for an option that numba does not have, an invalid signature, and anything that is
    not a function.
    """
    if unknown := sorted(set(options) - _OPTIONS):
        raise TypeError(f"cuda.jit has no option {unknown[0]!r}: there are {', '.join(sorted(_OPTIONS))}")
    function = getattr(func_or_sig, "py_func", func_or_sig)
    if isinstance(function, FunctionType):
        return _decorated(function, [], device, options)
    signatures = parse(func_or_sig)
    if device and len(signatures) == 1:
        signature = func_or_sig[0] if isinstance(func_or_sig, list) else func_or_sig
        return functools.partial(_of_signature, signatures[0], result_of(signature))
    return functools.partial(_decorated, signatures=signatures, device=device, options=options)


def _of_signature(parameters: Signature, result: Any, function: FunctionType) -> Any:
    inner, numbers = func(function), tuple(p.type if p.ndim is None else None for p in parameters)
    converted = func(lambda value, type: value if type is None else type(value))

    def call(*args: Any, **named: Any) -> Any:
        arguments = [converted(arg, number) for arg, number in zip(args, numbers)]  # noqa: B905
        return converted(inner(*arguments, *args[len(numbers) :], **named), result)

    call.__name__ = call.__qualname__ = function.__name__
    return func(call)


def _decorated(function: FunctionType, signatures: list[Signature], device: bool, options: dict[str, Any]) -> Any:
    if device:
        return func(function)
    link = options.get("link") or ()
    for item in link if isinstance(link, (list, tuple)) else (link,):
        if isinstance(item, (str, os.PathLike)) and not os.path.exists(item):
            raise FileNotFoundError(f"cuda.jit(link=…): there is no file {os.fspath(item)!r}")
    names = function.__code__.co_varnames
    if set(_OF_LAUNCH) & set(names):
        plain = function.__code__.replace(co_varnames=tuple(f"{n}_" if n in _OF_LAUNCH else n for n in names))
        function = FunctionType(plain, function.__globals__, None, function.__defaults__, function.__closure__)
    ours = {name: options[name] for name in ("fastmath", "max_registers", "lineinfo", "link") if options.get(name)}
    if options.get("debug"):
        ours["checked"] = ours["debug"] = True
    if bounds := options.get("launch_bounds"):
        threads, *blocks = bounds if isinstance(bounds, tuple) else (bounds,)
        ours |= {"max_threads": threads} | ({"min_blocks": blocks[0]} if blocks else {})
    kernel = make_kernel(**ours)(function)
    kernel.options = replace(kernel.options, build=replace(kernel.options.build, policy="wide"))
    return Dispatcher(kernel, signatures)


def _of_code(name: str) -> Any:
    """The method that returns an attribute of `Overload`: for a signature or a specialised kernel, or by argument types."""

    def get(self: Dispatcher, signature: Any = None) -> Any:
        return self._of_overloads(operator.attrgetter(name), signature)

    get.__name__, get.__doc__ = (
        f"get_{name}",
        f"Returns `{name}`: for a signature or a specialised kernel, or by argument types.",
    )
    return get


class Dispatcher:
    """A kernel. `kernel[grid, block, stream, shared](…)` launches it; `kernel.forall(n)(…)` launches at least n threads.

    Host arrays are copied to a GPU and back, as in numba; on the CPU, kernels work on the arrays themselves.
    """

    def __init__(self, kernel: Any, signatures: Sequence[Signature] = ()) -> None:
        functools.update_wrapper(self, kernel.underlying)
        self.kernel, self.py_func, self._signatures = kernel, kernel.underlying, signatures
        self.specialized = False
        """Whether this was made by `specialize`."""
        self.overloads = Overloads(
            {signature: Overload(kernel, [*map(hint_of, signature)]) for signature in signatures}
        )
        """The variants of the kernel: those of its signatures, or, without signatures, those that were launched."""
        self._specialized: dict[Signature, Dispatcher] = {}
        self._variants: dict[tuple[int, ...], Any] = {}
        """The kernel with constant parameters, by their positions."""
        self._recorded: set[tuple[Any, ...]] = set()
        """The Python types, dtypes and strides of recent launches, whose argument types are in `overloads`."""
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
        where = stream_of(stream)
        check_units(args)
        prepared = [self._prepared(arg, where) for arg in args]
        signature = choose(self._signatures, prepared, self.py_func.__name__)
        arguments: list[Any] = []
        copies: list[tuple[Any, Any]] = []
        members: tuple[int, ...] = ()
        for i, argument in enumerate(prepared):
            value = argument.array if isinstance(argument, DeviceNDArray) else argument
            if isinstance(value, np.ndarray) and not isinstance(where, CpuStream) and not isinstance(value, HostArray):
                value = cuda_device.array(value, stream=where)
                copies.append((argument, value))
            parameter = signature[i] if signature else SignatureParameter()
            if isinstance(value, Enum) and parameter.type is None:
                members += (i,)
                arguments.append(value)
            else:
                arguments.append(_typed(value, parameter))
        kernel = self._with_constants(members) if members else self.kernel
        try:
            cuda_device.launch(kernel, *arguments, stream=where, **sizes)
            self._record(kernel, signature, arguments)
            # With debug=True what the kernel raises is raised here; the host may look at its own memory afterwards.
            if self.kernel.options.build.checked or any(isinstance(value, HostArray) for value in arguments):
                where.synchronize()
        except CompileError as error:
            error.reason, error.help = _in_numbas_words(error.reason), _in_numbas_words(error.help)
            raise
        except KernelError as error:
            raise _as_python_raises(error, self.py_func.__globals__) from error
        for argument, value in copies:
            argument[...] = value.numpy()

    def _with_constants(self, positions: tuple[int, ...]) -> Any:
        """The kernel with parameters that are constants: those at the positions of members of enumerations."""
        if positions not in self._variants:
            plain = self.kernel.underlying
            names, code = plain.__code__.co_varnames, plain.__code__
            function = FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
            function.__annotations__ = plain.__annotations__ | {names[i]: ConstExpr for i in positions}
            variant = self._variants[positions] = make_kernel(function)
            variant.options = self.kernel.options
        return self._variants[positions]

    def _record(self, kernel: Any, signature: Signature, arguments: Sequence[Any]) -> None:
        """Records the types of a launch in `overloads`, unless they follow from the signatures."""
        key = tuple([(type(a), getattr(a, "dtype", None), getattr(a, "strides", None)) for a in arguments])
        if key in self._recorded:
            return
        if len(self._recorded) >= _MOST_RECORDED:
            self._recorded.clear()
        self._recorded.add(key)
        types = signature or tuple(map(parameter_of, arguments))
        overload = self.overloads.get(types)
        if overload is None or not overload.is_known:
            self.overloads[types] = Overload(kernel, [*map(hint_of, types, arguments)])

    @property
    def signatures(self) -> list[Signature]:
        """The argument types of `overloads`."""
        return [*self.overloads]

    def specialize(self, *args: Any) -> Dispatcher:
        """Returns the kernel for one combination of argument types: types, as text or objects, or examples of arguments."""
        types = tuple(parameter_of(argument) for argument in args)
        types = tuple(
            parameter if parameter.type else parse((arg,))[0][0] for parameter, arg in zip(types, args, strict=True)
        )
        dispatcher = self._specialized.setdefault(types, Dispatcher(self.kernel, [types]))
        dispatcher.specialized = True
        return dispatcher

    def _of_overloads(self, read: Callable[[Overload], Any], signature: Any) -> Any:
        if signature is not None:
            return read(self.overloads[signature])
        if self.specialized:
            return read(next(iter(self.overloads.values())))
        return {types: read(overload) for types, overload in self.overloads.items()}

    def inspect_llvm(self, signature: Any = None) -> Any:
        """Returns the LLVM IR for the current GPU: for a signature, or by argument types for all of `overloads`."""
        return self._of_overloads(Overload.inspect_llvm, signature)

    def inspect_asm(self, signature: Any = None) -> Any:
        """Returns the PTX for the current GPU: for a signature, or by argument types for all of `overloads`."""
        return self._of_overloads(Overload.inspect_asm, signature)

    def inspect_types(self, file: Any = None, signature: Any = None) -> None:
        """Writes the typed IR of one or all of `overloads`, with the type of each value, to `file` or the standard output."""
        self._of_overloads(lambda overload: overload.inspect_types(file), signature)

    get_regs_per_thread, get_local_mem_per_thread = map(_of_code, ("regs_per_thread", "local_mem_per_thread"))
    get_shared_mem_per_block, get_const_mem_size = map(_of_code, ("shared_mem_per_block", "const_mem_size"))
    get_max_threads_per_block = _of_code("max_threads_per_block")

    def _prepared(self, argument: Any, stream: Stream) -> Any:
        for extension in self.extensions:
            _, argument = extension.prepare_args(None, argument, stream=stream, retr=[])
        if isinstance(argument, np.void):
            return np.asarray(argument)  # the same memory
        if isinstance(argument, In):
            return counts_of(argument.value) if isinstance(argument, InOut) else to_device(argument.value, stream)
        return counts_of(argument)


_MOST_RECORDED = 256


class In:
    """An array argument that is copied to the device, but not back."""

    def __init__(self, value: Any) -> None:
        self.value = value


class InOut(In):
    """An array argument that is copied to the device and back, as without a hint."""


class Out(InOut):
    """Like `InOut`; elements that the kernel does not write are unchanged."""


_NUMBAS_WORDS = {
    "atomic_ref(x, i)": "cuda.atomic.add(x, i, v)",
    "atomic_ref(x, (i, j))": "cuda.atomic.add(x, (i, j), v)",
    "atomic_ref": "cuda.atomic",
    "tid(": "cuda.grid(",
    "shared_array": "cuda.shared.array",
    "local_array": "cuda.local.array",
    "pass the size of dynamic_shared_array() to launch as shared=…": "cuda.shared.array(0, T) has the size that the launch gives",
}
"""Names in messages, and numba's names for the same."""


def _in_numbas_words(text: str) -> str:
    for ours, numbas in _NUMBAS_WORDS.items():
        text = re.sub(rf"(?<!\w){re.escape(ours)}", numbas, text)
    return text


_DEFAULTS = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def _typed(value: Any, parameter: SignatureParameter) -> Any:
    """Converts a number to the type that numba gives it; values that are too large for an integer type wrap."""
    if isinstance(value, tuple):
        items = [_typed(item, SignatureParameter()) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not isinstance(value, (bool, int, float, complex, np.generic)) or isinstance(value, np.void):
        return value
    number = (parameter.type if parameter.ndim is None else None) or _DEFAULTS.get(type(value), type(value))
    return number(value) if isinstance(value, number) else np.asarray(value).astype(number)[()]


def _as_python_raises(error: KernelError, names: dict[str, Any]) -> Exception:
    """Returns the exception that Python raises, if the kernel's module or Python has it, with the place as numba states it."""
    text, _, shown = str(error).partition("\n")
    name, _, detail = text.partition(": ")
    kind = names.get(name, getattr(builtins, name, None))
    if text.startswith("index ") and "out of bounds" in text:
        kind, detail = IndexError, f"{'tuple' if 'tuple' in text else 'array'} index out of range: {text}"
    elif text.endswith("division by zero"):
        kind, detail = ZeroDivisionError, text
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return error
    location, where = error.location, ""
    if error.thread and error.block:
        where = f"In function {location.function.rpartition('.')[2]!r}, file {location.file}, line {location.line}, "
        where += f"tid={[*error.thread]} ctaid={[*error.block]}"
    return kind(": ".join(filter(None, (where, detail))) + f"\n{shown}")


# Functions of arrays


class Vectorized:
    """A function of numbers, applied to the elements of arrays: `f(x, y)`, on the device. Made by `vectorize`."""

    def __init__(self, function: FunctionType, signatures: Sequence[Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.signatures = [([p.type for p in parse(signature)[0]], result_of(signature)) for signature in signatures]
        inner = func(function)

        def elementwise(out: Any, operands: Any) -> None:
            i = grid(1)
            if i < out.size:
                out[i] = inner(*[operand[i] for operand in operands])

        self._kernel = jit(elementwise)

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """Returns the results for arrays, which broadcast: on the device if one of them is there, otherwise on the host.

        With `out`, stores them there. Raises `TypeError` if no signature takes such arguments.
        """
        on_device = any(isinstance(arg, DeviceNDArray) for arg in args)
        plain = [arg.copy_to_host() if isinstance(arg, DeviceNDArray) else np.asarray(arg) for arg in args]
        types, result = self._signature(plain)
        shape = np.broadcast_shapes(*(operand.shape for operand in plain))
        converted = [operand.astype(type) for operand, type in zip(plain, types, strict=True)]
        flat = [to_device(np.broadcast_to(operand, shape).reshape(-1), stream) for operand in converted]
        results = device_array(math.prod(shape), result, stream=stream)
        self._kernel.forall(results.size, stream=stream)(results, tuple(operand.array for operand in flat))
        results = results.reshape(shape)
        if isinstance(out, DeviceNDArray):
            out.copy_to_device(results)
        elif out is not None:
            results.copy_to_host(out)
        if out is not None:
            return out
        return results if on_device else results.copy_to_host()

    def _signature(self, plain: Sequence[Any]) -> tuple[list[Any], Any]:
        dtypes = [operand.dtype for operand in plain]
        for types, result in self.signatures:
            if len(types) == len(dtypes) and all(map(np.can_cast, dtypes, types)):
                return types, result
        raise TypeError(f"{self.py_func.__name__} has no signature for {', '.join(map(str, dtypes))}")


def vectorize(signatures: Any, target: str = "cuda") -> Callable[[FunctionType], Vectorized]:
    """Makes a function of numbers one of arrays: `@cuda.vectorize(["float32(float32, float32)"])`."""
    return lambda function: Vectorized(function, signatures if isinstance(signatures, (list, tuple)) else [signatures])


_REDUCING = 128


class Reduce:
    """Reduces an array to one number by a function of two: `f(x)`. Made by `reduce`."""

    def __init__(self, functor: FunctionType) -> None:
        functools.update_wrapper(self, functor)
        self._function = functor
        inner = func(functor)

        def partial(x: Any, size: Any, out: Any) -> None:
            parts = cuda_device.shared_array(_REDUCING, x.dtype)
            first, t = grid(1), int64(cuda_device.thread_idx.x)
            if first < size:
                total = x[first]
                for i in range(first + gridsize(1), size, gridsize(1)):
                    total = x.dtype(inner(total, x[i]))
                parts[t] = total
            cuda_device.syncthreads()
            filled = min(size - (first - t), int64(_REDUCING))
            step = _REDUCING // 2
            while step > 0:
                if t < step and t + step < filled:
                    parts[t] = inner(parts[t], parts[t + step])
                cuda_device.syncthreads()
                step //= 2
            if t == 0:
                out[cuda_device.block_idx.x] = parts[0]

        self._kernel = jit(partial)

    def __call__(self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: Any = 0) -> Any:
        """Reduces `init` and the first `size` elements. Returns the result, or stores it in the first element of `res`.

        Raises `TypeError` unless the array has one axis.
        """
        if arr.ndim != 1:
            raise TypeError("only support 1D array")
        size, total = arr.size if size is None else size, arr.dtype.type(init)
        if size > 0:
            blocks = min(-(-size // _REDUCING), _REDUCING)
            parts = device_array(blocks, arr.dtype, stream=stream)
            self._kernel[blocks, _REDUCING, stream](arr, size, parts)
            if blocks > 1:
                self._kernel[1, _REDUCING, stream](parts, blocks, parts)
            total = arr.dtype.type(self._function(total, parts[0]))
        if res is None:
            return total
        res[0] = total
        return None


reduce = Reduce


def __getattr__(name: str) -> Any:
    """`random`, which is built on this module."""
    if name == "random":
        return importlib.import_module("cuda_device.plugins.numba.xoroshiro")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
