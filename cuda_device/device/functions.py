"""`@func`, `@kernel` and `@extern`, and their options ('Heterogeneous', 'Kernel' and 'Interoperable Functions').

@device.func                       callable on the host and from device code
def twice(x):
    return x + x

@device.kernel                     started by `launch`, by many threads at once
def double(x):
    i = device.tid(1)
    if i < len(x):
        x[i] = twice(x[i])

@device.extern(link="norms.ptx")   a function of CUDA C++
def norm(x: device.float32, y: device.float32) -> device.float32: ...
"""

from __future__ import annotations

import copyreg
import functools
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, overload

from cuda_device import hooks
from cuda_device.device.options import DEFAULTS, FASTMATH, LLVM_FLAGS, Options
from cuda_device.device.parameters import parameter_names
from cuda_device.errors import DeviceOnlyError
from cuda_device.lazy_dataclasses import dataclass, replace
from cuda_device.types.abi import CPP_WORDS, exchanged, representation
from cuda_device.types.host import type_of_hint
from cuda_device.types.model import Number, Tuple, Type

_NVCC = ("afn", "ftz")
"""The flags of `fastmath=True`, which are those of nvcc's `-use_fast_math`; products and sums fuse by default."""


_MOST_STACK = 512 * 1024
"""The largest stack of a thread on any GPU, in bytes."""


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_int(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _cluster(value: object) -> tuple[int, int, int] | None:
    """Returns the blocks of a cluster along x, y and z, or None for an invalid value."""
    sizes = (*value, 1, 1)[:3] if isinstance(value, tuple) and 0 < len(value) <= 3 else (value, 1, 1)
    fits = all(type(size) is int and size > 0 for size in sizes) and math.prod(sizes) <= 8
    return sizes if fits else None


def _is_fastmath(value: object) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, str) or not isinstance(value, Iterable):
        return False
    return all(name in (*FASTMATH, "fast") for name in value)


@dataclass(frozen=True)
class _Keyword:
    """The valid values of a keyword, also in words, and whether it is for kernels only."""

    fits: Callable[[object], bool]
    wanted: str
    for_kernels: bool = False


_KEYWORDS = {
    "level": _Keyword(_is_int(0, 3), "an optimisation level from 0 to 3"),
    "contract": _Keyword(_is_bool, "True or False"),
    "checked": _Keyword(lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "fastmath": _Keyword(_is_fastmath, f"True, False, or a set of names from {', '.join(FASTMATH)}"),
    "lineinfo": _Keyword(_is_bool, "True or False"),
    "debug": _Keyword(_is_bool, "True or False"),
    "max_threads": _Keyword(
        _is_int(1, 1024), "the maximum number of threads in a block, from 1 to 1024", for_kernels=True
    ),
    "min_blocks": _Keyword(_is_int(1, 32), "a number of blocks from 1 to 32", for_kernels=True),
    "max_registers": _Keyword(_is_int(16, 255), "a number of registers from 16 to 255", for_kernels=True),
    "stack_size": _Keyword(_is_int(1, _MOST_STACK), f"a number of bytes from 1 to {_MOST_STACK}", for_kernels=True),
    "cluster": _Keyword(
        lambda value: _cluster(value) is not None,
        "the number of blocks in a cluster, at most 8: an int or a tuple of one to three ints",
        for_kernels=True,
    ),
}


def with_options(
    options: Options, keywords: Mapping[str, object], caller: str, others: tuple[str, ...] = (), kernel: bool = True
) -> Options:
    """Returns `options` with changes by `keywords`; `others` are further keywords of `caller`.

    Raises `TypeError` for an unknown name, an invalid value, and `min_blocks` without `max_threads`.
    """
    names = [name for name, keyword in _KEYWORDS.items() if kernel or not keyword.for_kernels]
    changes = dict(keywords)
    for name, value in keywords.items():
        if name not in names:
            raise TypeError(f"{caller} has no option {name!r}; the options are {', '.join((*others, *names))}")
        if not _KEYWORDS[name].fits(value):
            raise TypeError(f"{caller}({name}=…) takes {_KEYWORDS[name].wanted}, not {value!r}")
        if name == "fastmath":
            changes[name] = _fastmath(value)
        if name == "cluster":
            changes[name] = _cluster(value)
    if changes.get("debug"):
        changes.setdefault("level", 0)
    changed = replace(options, **changes)  # type: ignore[arg-type]
    if changed.min_blocks and not changed.max_threads:
        raise TypeError(
            f"{caller}(min_blocks=…) is the number of blocks of max_threads=… threads: give max_threads, too"
        )
    return changed


def _fastmath(value: object) -> tuple[str, ...]:
    """Returns the flags that a value selects, in a fixed order."""
    if isinstance(value, bool):
        return _NVCC if value else ()
    assert isinstance(value, Iterable)
    flags = set(value)
    return tuple(name for name in FASTMATH if name in flags or ("fast" in flags and name in LLVM_FLAGS))


# Names with a meaning in PTX, and names that generated code uses.
RESERVED_SYMBOLS = r"_|WARP_SZ|dynamic_shared|shared_\d+|device_(meet|report(_values)?)|vprintf|(cuda_device|__nv)_\w+"


def check_symbol(name: str) -> None:
    """Raises `TypeError` for an invalid name of an interoperable function, which is also its symbol."""
    if name in CPP_WORDS or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or re.fullmatch(RESERVED_SYMBOLS, name):
        raise TypeError(f"{name!r} cannot be the name of an interoperable function: choose a name that CUDA C++ allows")


RESERVED = ("grid", "block", "stream", "shared")


@dataclass(frozen=True)
class FunctionOptions:
    """The keywords of `@func` and `@kernel`. `build` applies to a function only if it is compiled by itself."""

    interop: bool = False
    build: Options = DEFAULTS
    link: tuple[Any, ...] = ()
    nvtx: bool = False
    """Whether launches of a kernel are in NVTX ranges."""


class DecoratedFunction:
    """The base of decorated functions; `underlying` is the plain function."""

    __name__: str
    __qualname__: str

    def __init__(self, underlying: FunctionType) -> None:
        functools.update_wrapper(self, underlying)  # type: ignore[arg-type]
        self.underlying = underlying

    def _parts(self) -> tuple[Any, ...]:
        """The arguments of its constructor."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        return _reduced(self, self._parts())

    def __setstate__(self, parts: tuple[Any, ...]) -> None:
        type(self).__init__(self, *parts)


class Func(DecoratedFunction):
    """A heterogeneous function: it calls `underlying` on the host, and is compiled in device code."""

    def __init__(self, underlying: FunctionType, options: FunctionOptions) -> None:
        super().__init__(underlying)
        self.options = options

    def _parts(self) -> tuple[Any, ...]:
        return self.underlying, self.options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function on the host."""
        return self.underlying(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self.underlying.__get__(instance, owner)

    def __repr__(self) -> str:
        return f"<device function {self.underlying.__qualname__}>"


class Kernel(DecoratedFunction):
    """A kernel: a device function that `launch` starts. `underlying` is the decorated Python function."""

    # A slot, because machine code reads it at each launch.
    __slots__ = ("native",)

    def __init__(self, underlying: FunctionType, options: FunctionOptions) -> None:
        super().__init__(underlying)
        self.options = options
        self.variants: dict[object, Any] = {}  # what the launcher has compiled, by key
        self.recent: dict[object, Any] = {}
        """The same by the identities of the parts of the key, which are faster to look up."""
        self.native: tuple[Any, ...] | None = None
        """Its launchers in machine code and their data."""
        self.changes = 0
        """How many times it was recompiled because a name had changed."""

    if not TYPE_CHECKING:  # type checkers report a call or an index, instead of skipping what follows it

        def __call__(self, *_: Any, **__: Any) -> NoReturn:
            """Raises `DeviceOnlyError`: kernels are started by `launch`."""
            name = self.underlying.__name__
            raise DeviceOnlyError(f"{name} is a kernel: start it with launch({name}, …, grid=…, block=…)")

        def __getitem__(self, _: object) -> NoReturn:
            """Raises `TypeError` for the launch syntax of numba-cuda and Triton."""
            name = self.underlying.__name__
            raise TypeError(f"a kernel cannot be indexed: start it with launch({name}, …, grid=…, block=…)")

    def bind(
        self,
        *,
        grid: Any = None,
        block: Any = None,
        shared: Any = 0,
        threads: Any = None,
        cluster: Any = None,
        dependent: Any = None,
    ) -> Any:
        """Returns a `BoundKernel`: the kernel with its launch configuration, called as `bound(*args, stream=…)`.

        Each argument is a value that `launch` takes, or a function of the kernel's arguments that returns such a value. Raises
        `TypeError` if such a function takes other parameters, and if neither `grid` nor `threads` is given.
        """
        # This module cannot import it, because it is in a higher layer.
        return sys.modules["cuda_device"].BoundKernel(self, grid, block, shared, threads, cluster, dependent)

    def timings(self) -> dict[str, float]:
        """Returns the seconds that each compiler stage took for the newest variant; empty before the first launch.

        If the machine code was found in the cache on disk, the only entry is "cache".
        """
        variants = list(self.variants.values())
        return dict(variants[-1].work.seconds) if variants else {}

    def __repr__(self) -> str:
        """Shows the kernel and its compiled variants: arguments, target, and registers and shared memory if known."""
        # A copy, because another thread may compile meanwhile.
        compiled = "".join(f"; {variant}" for variant in list(self.variants.values())).removeprefix(";")
        return f"<kernel {self.underlying.__qualname__}{compiled and ':'}{compiled}>"

    def _parts(self) -> tuple[Any, ...]:
        return self.underlying, self.options


def _reduced(decorated: Any, parts: tuple[object, ...]) -> Any:
    """Pickles a decorated function by name, like a plain function, or, if no module has it by its name, by `parts`.

    The parts become the state of an empty object, because a function may refer to itself. cloudpickle pickles definitions of
    `__main__` by value, but only for functions and classes, so the caller is inspected to do the same here.
    """
    name = decorated.underlying.__qualname__
    attribute: object = sys.modules.get(decorated.underlying.__module__)
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    asking = str(sys._getframe(2).f_globals.get("__name__"))
    taken_along = decorated.underlying.__module__ == "__main__" and "cloudpickle" in asking
    if attribute is decorated and not taken_along:
        return name
    return copyreg.__newobj__, (type(decorated),), parts  # type: ignore[attr-defined]


def _options(decorator: str, keywords: dict[str, Any]) -> FunctionOptions:
    is_kernel = decorator == "kernel"
    defaults = {"interop": False, "nvtx": False} if is_kernel else {"interop": False}
    switches = {name: keywords.pop(name, default) for name, default in defaults.items()}
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"@{decorator}({name}=…) takes True or False, not {value!r}")
    link = links_of(keywords.pop("link", ()), f"@{decorator}")
    build = with_options(DEFAULTS, keywords, f"@{decorator}", (*defaults, "link"), is_kernel)
    return FunctionOptions(build=build, link=link, **switches)


@dataclass(frozen=True, slots=True)
class LinkedCode:
    """The contents of a `cuda.core.ObjectCode`, which can itself be hashed only with a GPU. `symbol` is its name."""

    code: bytes
    symbol: str


def _linkable(item: Any) -> Any:
    """The item of `link=` for an `ObjectCode`: its code, or the path of its file. Other items are returned unchanged."""
    if not (hasattr(item, "code_type") and hasattr(item, "code")):
        return item
    is_file = isinstance(item.code, str)  # cuda.core stores text as bytes
    return item.code if is_file else LinkedCode(bytes(item.code), item.name)


def is_source(item: Any) -> bool:
    """Whether an item of `link=` is a source, which a plugin compiles for the target (see `codegen.gpu.linking`)."""
    return callable(getattr(item, "compiled", None))


def links_of(links: Any, caller: str) -> tuple[Any, ...]:
    """Returns the value of `link=` as a tuple. Raises `TypeError` for an item that holds no code."""
    items = tuple(map(_linkable, links if isinstance(links, (tuple, list)) else (links,)))
    for item in items:
        if not isinstance(item, (str, bytes, os.PathLike)) and not hasattr(item, "code") and not is_source(item):
            raise TypeError(
                f"{caller}(link=…) takes files, bytes, cuda_source(…), or results of device.compile and cuda.core, not {item!r}"
            )
    return items


def _check_function(function: object, decorator: str, interop: bool) -> FunctionType:
    if isinstance(function, (Func, Kernel)):
        raise TypeError(f"{function!r} is already decorated; a function can be a @func or a @kernel, not both")
    if isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        remedy = f"write @staticmethod above @{decorator}" + (", and name the class" if kind == "classmethod" else "")
        raise TypeError(f"@{decorator} decorates a Python function, not a {kind}: {remedy}")
    if not isinstance(function, FunctionType):
        raise TypeError(f"@{decorator} decorates a Python function, not {function!r}")
    if interop:
        check_symbol(function.__name__)
    return function


@overload
def func(function: Callable[..., Any], /) -> Func: ...
@overload
def func(
    *,
    interop: bool = False,
    link: Any = (),
    level: int = 3,
    contract: bool = True,
    checked: bool | None = None,
    fastmath: bool | Iterable[str] = False,
    lineinfo: bool = False,
    debug: bool = False,
) -> Callable[[Callable[..., Any]], Func]: ...
def func(function: Callable[..., Any] | None = None, /, **keywords: Any) -> Func | Callable[[Callable[..., Any]], Func]:
    """Makes a function heterogeneous: callable on the host and in device code.

    With `interop=True`, CUDA C++ can call it: `compile` gives it the symbol and the calling convention of an `extern "C"`
    function of the same name. `link` is the code that defines the C++ functions that it calls, as in `extern`. The other
    keywords are the options with which `compile` compiles this function (see `Options`); when a kernel calls it, the kernel's
    options apply. Raises `TypeError` for an unknown keyword, an invalid value, or if `function` is not a plain function.
    Specification: 'Heterogeneous Functions'.
    """
    options = _options("func", keywords)

    def decorate(target: Callable[..., Any]) -> Func:
        return Func(_check_function(target, "func", options.interop), options)

    return decorate if function is None else decorate(function)


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    interop: bool = False,
    link: Any = (),
    level: int = 3,
    contract: bool = True,
    checked: bool | None = None,
    fastmath: bool | Iterable[str] = False,
    lineinfo: bool = False,
    debug: bool = False,
    max_threads: int = ...,
    min_blocks: int = ...,
    max_registers: int = ...,
    stack_size: int = ...,
    cluster: int | tuple[int, ...] = ...,
    nvtx: bool = False,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None, /, **keywords: Any
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Makes a function a kernel, which `launch` starts.

    `checked=True`, or the environment variable CUDA_DEVICE_CHECKED=1, makes the kernel report mistakes as a `KernelError`:
    indices out of bounds, integer division by zero, variables that were never assigned, Python ints, lanes and masks that do
    not fit, and barriers that some threads do not reach. This is the default on CPU streams; `checked=False` or
    CUDA_DEVICE_CHECKED=0 turns it off. `fastmath=True` has the effect of nvcc's `-use_fast_math`; a set selects single flags:
    nnan, ninf, nsz, arcp, contract, afn (approximate division, square roots and functions), reassoc, ftz. `max_threads` is the
    largest block size that may be launched (a larger one raises a `LaunchError`), `min_blocks` is the number of such blocks
    that should fit on a multiprocessor, and `max_registers` is the maximum number of registers for each thread. `stack_size` is
    the minimum stack size of a GPU thread in bytes; kernels with recursion get 32 KiB by default, or less if all stacks would
    take more than an eighth of the GPU's memory. `cluster` is the size of the clusters of every launch, as `launch` takes it
    (`__cluster_dims__` in CUDA C++). `lineinfo=True` adds line tables for profilers, `level` is LLVM's optimisation level, and
    `contract=False` prevents the fusion of products and sums. `debug=True` is for debuggers: it turns optimisation off, unless
    `level` is given, and adds lines and variables for gdb and cuda-gdb.

    With `interop=True`, the kernel has the symbol and the parameters of a `__global__` function of the same name in CUDA C++.
    `link` is the code to link to it, as in `extern`. `nvtx=True`, or the environment variable CUDA_DEVICE_NVTX=1, puts the
    host's part of each launch into an NVTX range with the kernel's name, for Nsight Systems (`pip install nvtx`).

    Raises `TypeError` for an unknown keyword or an invalid value, if `function` is not a plain function, and for a parameter
    called grid, block, stream or shared, which would be ambiguous in `launch`. Specification: 'Kernel Functions'.
    """
    options = _options("kernel", keywords)

    def decorate(target: Callable[..., Any]) -> Kernel:
        checked = _check_function(target, "kernel", options.interop)
        code = checked.__code__
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            raise TypeError("a kernel cannot take *args or **kwargs: name each parameter")
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if name in RESERVED:
                raise TypeError(f"a kernel parameter cannot be called {name!r}, which is a parameter of launch")
        return Kernel(checked, options)

    return decorate if function is None else decorate(function)


# Functions that CUDA C++ defines and device code calls.
#
# The hints correspond to the C++ declaration: `extern "C" __device__ float norm(float x, float y)`. The host and the CPU stream
# run the body; `...` means that there is none.


class Extern(DecoratedFunction):
    """A CUDA C++ function that device code can call. `underlying` is the decorated stub.

    `parameters` and `result` are its types; the result of a `void` function is the type of None. `link` holds the code that
    defines it. `cpp` is the name by which C++ calls it if that is not its symbol: a template with arguments, or an overloaded
    function. `header` is the path of one that declares it.
    """

    header = ""

    def __init__(
        self, underlying: FunctionType, symbol: str | None = None, link: Sequence[Any] = (), cpp: str | None = None
    ) -> None:
        super().__init__(underlying)
        self.cpp, self.link = cpp, tuple(link)
        if cpp is not None and symbol is not None:
            raise TypeError("@extern takes either symbol=… or cpp=…: with cpp=…, the symbol is generated")
        self.parameters, self.result = _types(underlying)
        if cpp is not None:
            if not isinstance(cpp, str) or not re.fullmatch(r"[\w:<>, *&()+-]+", cpp):
                raise TypeError(f'{cpp!r} cannot be how C++ calls a function: write "ns::norm<float, 3>"')
            text = " ".join(map(str, (cpp, self.result, *self.parameters)))
            symbol = "cuda_device_" + re.sub(r"\W", lambda letter: f"_{ord(letter[0]):x}", text, flags=re.ASCII)
        self.symbol = symbol or underlying.__name__
        # WARP_SZ and _ have a meaning in PTX.
        if not re.fullmatch(r"(?!WARP_SZ$|_$)[A-Za-z_$][\w$]*", self.symbol, re.ASCII):
            raise TypeError(f"{self.symbol!r} cannot be the symbol of a function of CUDA C++")

    @property
    def links(self) -> tuple[Any, ...]:
        """The code to link to kernels that call it. A C++ source gets a function with this symbol, or a check of its types."""
        return tuple(Instance(self, code) for code in self.link)

    @property
    def has_body(self) -> bool:
        """Whether the stub has a body that can replace the function on the host and on the CPU stream."""
        return self.underlying.__code__.co_code not in _EMPTY

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the body on the host. Raises `DeviceOnlyError` if there is none."""
        if not self.has_body:
            name = self.underlying.__name__
            raise DeviceOnlyError(f"{name} is a function of CUDA C++, and its stub has no body that the host could run")
        return self.underlying(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<C++ function {self.symbol}>"

    def _parts(self) -> tuple[Any, ...]:
        return self.underlying, None if self.cpp else self.symbol, self.link, self.cpp


@dataclass(frozen=True)
class Instance:
    """A C++ function and one of its links."""

    function: Extern
    link: Any


def _types(stub: FunctionType) -> tuple[tuple[Type, ...], Type]:
    """Returns the types of a stub's parameters and result from its hints."""
    shown = stub.__qualname__
    if stub.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        raise TypeError(f"{shown} cannot take *args or **kwargs: name each parameter")
    hints = inspect.get_annotations(stub, eval_str=True)
    types = []
    for name in (*parameter_names(stub.__code__), "return"):
        if name not in hints:
            missing = "type of its result (-> None for void)" if name == "return" else f"type of its parameter {name!r}"
            raise TypeError(f"{shown} is missing the {missing}: add a type hint")
        try:
            type = exchanged(type_of_hint(hints[name]))
            representation(type)
        except TypeError as error:
            raise TypeError(f"{shown}, {name}: {error}") from None
        types.append(type)
    return tuple(map(fixed, types[:-1])), types[-1]


def fixed(type: Type) -> Type:
    """Returns the C++ form of a type: builtin numbers become fixed formats."""
    match type:
        case Number():
            return type.machine
        case Tuple(elements):
            return Tuple(tuple(map(fixed, elements)))
    return type


def _nothing() -> None: ...


def _documented() -> None:
    """Does nothing, and has a docstring."""


# The bytecode of functions that do nothing, which does not depend on names and parameters.
_EMPTY = (_nothing.__code__.co_code, _documented.__code__.co_code)


@overload
def extern(function: Callable[..., Any], /) -> Extern: ...
@overload
def extern(
    *, symbol: str | None = None, link: Any = (), cpp: str | None = None
) -> Callable[[Callable[..., Any]], Extern]: ...
def extern(
    function: Callable[..., Any] | None = None, /, *, symbol: str | None = None, link: Any = (), cpp: str | None = None
) -> Any:
    """Declares a CUDA C++ function that device code can call: a stub with a type hint for each parameter and the result.

    `symbol` is its name for the linker, by default the name of the stub (`extern "C"`). `link` is the code that defines it,
    which is linked to every kernel that calls it: a file or bytes (LLVM bitcode, PTX, a cubin, LTO-IR, an object, a library), a
    C++ file, `cuda_source(…)`, a result of `device.compile`, a `cuda.core.ObjectCode`, or several of these. A function of
    libdevice, such as `symbol="__nv_sinf"`, needs no `link`. `cpp="ns::norm<float>"` names a function in C++ source that is not
    `extern "C"`: a template with its arguments, or an overloaded function, of which the type hints select one. Structs have the
    names of their classes in C++, which checks their layouts. The stub's body replaces the function on the host and on the CPU
    stream, unless it is `...`. Arguments are passed by value, arrays as `cuda::interoperable_array_descriptor`. A stub without
    `link` whose name begins with `nvshmem_` or `nvshmemx_` is a function of NVSHMEM's headers. Raises `TypeError` for a stub
    without hints, or with types that C++ does not have. Specification: 'Interoperable Functions'.
    """
    links = links_of(link, "@extern")

    def decorate(target: Callable[..., Any]) -> Extern:
        if not isinstance(target, FunctionType):
            raise TypeError(f"@extern decorates a stub, not {target!r}")
        name = str(cpp or symbol or target.__name__)
        plugin = next((plugin for prefix, plugin in hooks.EXTERNS.items() if name.startswith(prefix)), None)
        if plugin and not links:
            return hooks.plugin(plugin).declare(target, name)  # type: ignore[no-any-return]
        return Extern(target, symbol, links, cpp)

    return decorate if function is None else decorate(function)
