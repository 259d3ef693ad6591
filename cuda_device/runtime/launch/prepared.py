"""`prepare`: the arguments of a launch, checked and compiled for once; `kernel.bind`: a kernel with the size of its launches.

    step = device.prepare(update, x, y, 0.1, grid=64, block=256, stream=stream)
    for i in range(1000):
        step()                       # as it was prepared
    step(rate=0.05)                  # one launch with another argument
    step = step.replace(y, x)        # another prepared launch, with some arguments exchanged

Each call is a call of `launch`, which knows all that there is to know of repeated launches.

    add = kernel.bind(grid=lambda x, y: (len(x) + 255) // 256, block=256)
    add(x, y)                        # launch(kernel, x, y, grid=…, block=256)
    add(x, y, stream=stream)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from cuda_device.device.functions import Kernel
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import Error, LaunchError
from cuda_device.runtime.gpu.grid import Shape, shape_of
from cuda_device.runtime.gpu.streams import Stream, as_stream
from cuda_device.runtime.launch.binding import argument_of, bind, parameters_of
from cuda_device.runtime.launch.launcher import (
    check_kernel,
    check_positions,
    is_sized,
    launch,
    sized,
    users_traceback,
    variant_of,
)


@users_traceback
def prepare(
    f: Kernel,
    /,
    *args: Any,
    grid: Any = None,
    block: Any = None,
    stream: Any = None,
    shared: int = 0,
    threads: Any = None,
    **kwargs: Any,
) -> PreparedLaunch:
    """Prepares a launch: returns an object that starts the kernel whenever it is called.

    The parameters are those of `launch`, and so are the errors, which are raised here instead of at the first start. The
    object keeps its arrays alive and reads them again at each start.
    """
    check_kernel(f)
    function, where = f.underlying, as_stream(stream)
    if threads is not None and "threads" in parameters_of(function).names:
        kwargs["threads"], threads = threads, None
    says_all = is_sized(grid, block, threads)
    if says_all:
        shape = shape_of(grid, block, shared, f.options.build.max_threads)
    values = bind(function, args, kwargs, defaults_of(function))
    if not says_all:
        arguments = tuple(argument_of(function, i, value, where) for i, value in enumerate(values))
        shape = sized(variant_of(f, arguments, where), where, grid, block, shared, threads)
    return PreparedLaunch(f, values, where, shape)


class PreparedLaunch:
    """The result of `prepare`: called, it starts the kernel. It is immutable, so several threads may start it at once.

    Arguments of the call, by position or by name, replace its own for this start. `replace` makes another prepared launch in
    the same way.
    """

    __slots__ = ("__weakref__", "_shape", "_start", "_values", "kernel", "stream")

    def __init__(self, kernel: Kernel, values: Sequence[Any], stream: Stream, shape: Shape) -> None:
        self.kernel, self.stream = kernel, stream
        self._values, self._shape = tuple(values), shape
        function = kernel.underlying
        arguments = tuple(argument_of(function, i, value, stream) for i, value in enumerate(values))
        variant = variant_of(kernel, arguments, stream)
        check_positions(variant, shape)
        variant.pack(arguments)
        names, positional, *_ = parameters_of(function)
        code, prefix = _start_code(names, function.__code__.co_posonlyargcount, positional)
        where = {"grid": shape.grid, "block": shape.block, "stream": stream, "shared": shape.dynamic}
        outside = {prefix + name: value for name, value in {"launch": launch, "kernel": kernel, **where}.items()}
        self._start = FunctionType(code, outside, "start", self._values[:positional])
        self._start.__kwdefaults__ = dict(zip(names[positional:], self._values[positional:], strict=True))

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Starts the kernel; arguments that are given take the places of the prepared ones, this time only.

        Raises what `launch` raises.
        """
        try:
            self._start(*args, **kwargs)
        except Error as error:
            self._check(args, kwargs)
            raise error.with_traceback(None) from error.__cause__
        except TypeError:
            self._check(args, kwargs)
            raise

    def _check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises `CallError` for arguments that do not fit the parameters, or if these have changed."""
        try:
            self._exchanged(args, kwargs)
        except Error as error:
            raise error.with_traceback(None) from None

    @users_traceback
    def replace(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """Returns another prepared launch, with some arguments replaced. Raises what `prepare` raises."""
        return PreparedLaunch(self.kernel, self._exchanged(args, kwargs), self.stream, self._shape)

    @property
    def grid(self) -> tuple[int, int, int]:
        """The number of blocks along x, y and z."""
        return self._shape.grid

    @property
    def block(self) -> tuple[int, int, int]:
        """The number of threads of a block along x, y and z."""
        return self._shape.block

    @property
    def shared(self) -> int:
        """The dynamic shared memory of a block in bytes."""
        return self._shape.dynamic

    def _exchanged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The values of all parameters, the given ones instead of those that were prepared. Raises `CallError`."""
        function = self.kernel.underlying
        names = parameters_of(function).names
        if len(names) != len(self._values):
            raise LaunchError(
                f"{function.__qualname__} has other parameters than when it was prepared", "prepare it again"
            )
        return bind(function, args, kwargs, dict(zip(names, self._values, strict=True)))

    def __repr__(self) -> str:
        return f"<prepared launch of {self.kernel.underlying.__qualname__}, grid={self.grid}, block={self.block}>"


@lru_cache(maxsize=256)
def _start_code(names: tuple[str, ...], hidden: int, positional: int) -> tuple[CodeType, str]:
    """The code of a function with a kernel's parameters that launches it, and the prefix of the names that this reads.

        lambda x, y, n: __launch(__kernel, x, y, n, grid=__grid, block=__block, stream=__stream, shared=__shared)

    The prepared arguments become its defaults: so Python itself puts others in their places, in a tenth of a microsecond.
    """
    prefix = "_" * (1 + max(map(len, names), default=0))  # longer than any parameter's name
    given, by_name = list(names[:positional]), names[positional:]
    parameters = [*given[:hidden], *["/"] * bool(hidden), *given[hidden:], *["*"] * bool(by_name), *by_name]
    where = [f"{name}={prefix}{name}" for name in ("grid", "block", "stream", "shared")]
    operands = [f"{prefix}kernel", *given, *(f"{name}={name}" for name in by_name), *where]
    text = f"lambda {', '.join(parameters)}: {prefix}launch({', '.join(operands)})"
    made: FunctionType = eval(text, {})
    return made.__code__, prefix


# `kernel.bind`: the size may depend on the arguments.


class BoundKernel:
    """The result of `kernel.bind`: called with the kernel's arguments, it launches the kernel.

    `sizes` has the `grid`, `block`, `shared` and `threads` that were given: what `launch` takes, or functions that return it.
    Such a function is called with all arguments of the kernel, including defaults, by position; a method of a struct can serve
    if the struct is the only argument. Raises `TypeError` for a function with other parameters, and if neither `grid` nor
    `threads` is given.
    """

    __slots__ = ("kernel", "sizes")

    def __init__(self, kernel: Kernel, grid: Any, block: Any, shared: Any = 0, threads: Any = None) -> None:
        is_sized(grid, block, threads)
        sizes = {"grid": grid, "block": block, "shared": shared, "threads": threads}
        self.kernel, self.sizes = kernel, {what: size for what, size in sizes.items() if size is not None}
        names = parameters_of(kernel.underlying).names
        for what, size in self.sizes.items():
            with suppress(ValueError):  # of a function that does not tell its parameters
                if callable(size) and not _takes(inspect.signature(size), len(names)):
                    raise TypeError(
                        f"{what} is a function of the kernel's arguments: write lambda {', '.join(names)}: …"
                    )

    @users_traceback
    def __call__(self, *args: Any, stream: Any = None, **kwargs: Any) -> None:
        """Launches the kernel on `stream`. Raises what `launch` raises, and what the functions that tell the size do."""
        launch(self.kernel, *args, stream=stream, **sizes_for(self.kernel, args, kwargs, self.sizes), **kwargs)

    def __repr__(self) -> str:
        shown = (f"{what}={getattr(size, '__qualname__', size)}" for what, size in self.sizes.items())
        return f"<kernel {self.kernel.underlying.__qualname__} with {', '.join(shown)}>"


def sizes_for(
    kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], sizes: Mapping[str, Any]
) -> dict[str, Any]:
    """The sizes of a launch with these arguments, of which functions are called with all arguments of the kernel."""
    if not any(map(callable, sizes.values())):
        return dict(sizes)
    values = bind(kernel.underlying, args, kwargs, defaults_of(kernel.underlying))
    return {what: size(*values) if callable(size) else size for what, size in sizes.items()}


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Whether a function of this signature can be called with so many arguments, by position."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
