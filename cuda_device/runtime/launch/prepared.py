"""`prepare` and `kernel.bind`: launches whose arguments or sizes are given once and used many times.

    step = device.prepare(update, x, y, 0.1, grid=64, block=256, stream=stream)
    for i in range(1000):
        step()                       # as it was prepared
    step(rate=0.05)                  # one launch with another argument
    step = step.replace(y, x)        # another prepared launch, with some arguments replaced

Each call makes a launch, at first in Python, later in machine code.

    add = kernel.bind(grid=lambda x, y: (len(x) + 255) // 256, block=256)
    add(x, y)                        # launch(kernel, x, y, grid=…, block=256)
    add(x, y, stream=stream)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FunctionType
from typing import Any, Self, cast
from weakref import ref

from cuda_device.device.functions import Kernel
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import Index, LaunchError
from cuda_device.runtime.gpu.grid import Shape, has_block
from cuda_device.runtime.gpu.streams import Stream, as_stream
from cuda_device.runtime.launch.arguments import as_struct, bind, parameters_of
from cuda_device.runtime.launch.launcher import (
    check_kernel,
    check_positions,
    launch,
    of_launch,
    planned,
    users_traceback,
)
from cuda_device.types.model import Struct


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
    cluster: Any = None,
    **kwargs: Any,
) -> PreparedLaunch:
    """Prepares a launch: returns an object that launches the kernel whenever it is called.

    The parameters and errors are those of `launch`; errors are raised here instead of at the first launch. The object keeps its
    arrays alive, and each launch reads their current contents.
    """
    check_kernel(f)
    threads, cluster = of_launch(f, kwargs, threads, cluster)
    values = bind(f.underlying, args, kwargs, defaults_of(f.underlying))
    return PreparedLaunch(f, values, as_stream(stream), (grid, block, shared, threads, cluster))


class PreparedLaunch(partial[None]):
    """The result of `prepare`; calling it launches the kernel. It is immutable, so several threads may call it at once.

    Arguments of the call, by position or by name, replace the prepared ones for this launch. `replace` makes another prepared
    launch in the same way. A call raises what `launch` raises.
    """

    # Calling a `partial` calls its function without a Python frame and without packing the arguments.

    __slots__ = ("_shape", "_values", "kernel", "stream")

    kernel: Kernel
    stream: Stream
    _values: tuple[Any, ...]
    _shape: Shape

    def __new__(cls, kernel: Kernel, values: Sequence[Any], stream: Stream, sizes: Sequence[Any]) -> Self:
        """Raises what the first launch would raise."""
        variant, _, shape, *_ = planned(kernel, *_call_of(kernel, values), stream, *sizes)
        check_positions(variant, shape)
        self = super().__new__(cls, launch)
        self.kernel, self.stream = kernel, stream
        self._values, self._shape = tuple(values), shape
        self._start_by(_start_of(self))
        return self

    def _start_by(self, function: Callable[..., None]) -> None:
        """Replaces the function that calls run by one that does the same."""
        cast("Any", self).__setstate__((function, (), {}, None))

    @users_traceback
    def replace(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """Returns another prepared launch, with some arguments replaced. Raises what `prepare` raises."""
        shape, values = self._shape, _exchanged(self.kernel, self._values, args, kwargs)
        grid, threads = (None, shape.grid) if 0 in shape.grid else (shape.grid, None)
        sizes = grid, shape.block, shape.dynamic, threads, _cluster_of(shape)
        return PreparedLaunch(self.kernel, values, self.stream, sizes)

    @property
    def grid(self) -> tuple[int, int, int]:
        """The number of blocks along x, y and z."""
        return self._shape.grid

    @property
    def block(self) -> tuple[int, int, int]:
        """The number of threads in a block along x, y and z."""
        return self._shape.block

    @property
    def shared(self) -> int:
        """The dynamic shared memory of a block in bytes."""
        return self._shape.dynamic

    def __reduce__(self) -> Any:
        raise TypeError("a prepared launch belongs to the process that made it: pickle the kernel, or kernel.bind(…)")

    def __repr__(self) -> str:
        return f"<prepared launch of {self.kernel.underlying.__qualname__}, grid={self.grid}, block={self.block}>"


def _call_of(kernel: Kernel, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The positional and named arguments of a launch with one value for each parameter."""
    parameters = parameters_of(kernel.underlying)
    count = parameters.positional
    return values[:count], dict(zip(parameters.names[count:], values[count:], strict=True))


def _cluster_of(shape: Shape) -> Index | None:
    return None if shape.cluster == (1, 1, 1) else shape.cluster


def _start_of(prepared: PreparedLaunch) -> Callable[..., None]:
    """The function that calls of a prepared launch run until its kernel has a launcher."""
    kernel, values, shape = prepared.kernel, prepared._values, prepared._shape
    sizes: dict[str, Any] = {
        "threads" if 0 in shape.grid else "grid": _short(shape.grid),
        "block": _short(shape.block),
        "stream": prepared.stream,
        "shared": shape.dynamic,
    }
    if cluster := _cluster_of(shape):
        sizes["cluster"] = cluster
    code = kernel.underlying.__code__
    found = ref(prepared)  # a cycle would keep the arrays alive until the next garbage collection

    def launch_of(given: Sequence[Any]) -> Callable[[], None]:
        args, kwargs = _call_of(kernel, given)
        return partial(launch, kernel, *args, **kwargs, **sizes)

    as_prepared = launch_of(values)

    @users_traceback
    def start(*args: Any, **kwargs: Any) -> None:
        changed = args or kwargs or kernel.underlying.__code__ is not code
        (launch_of(_exchanged(kernel, values, args, kwargs)) if changed else as_prepared)()
        owner = found() if kernel.native is not None else None
        if cluster is None and owner is not None and isinstance(owner.func, FunctionType):
            from cuda_device.plugins.launchers import plans

            owner._start_by(plans.prepared(kernel, values, sizes, owner.func) or owner.func)

    return start


def _short(size: Index) -> Any:
    """A size along x alone as a number, which `launch` reads faster."""
    return size[0] if size[1:] == (1, 1) else size


def _exchanged(kernel: Kernel, prepared: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The values of all parameters: the given ones, and otherwise the prepared ones. Raises `CallError`."""
    function = kernel.underlying
    names = parameters_of(function).names
    if len(names) != len(prepared):
        raise LaunchError(f"{function.__qualname__} has other parameters than when it was prepared", "prepare it again")
    return bind(function, args, kwargs, dict(zip(names, prepared, strict=True)))


# `kernel.bind`


class BoundKernel:
    """The result of `kernel.bind`; calling it with the kernel's arguments launches the kernel.

    `sizes` holds the given `grid`, `block`, `shared`, `threads` and `cluster`: values that `launch` takes, or functions that
    return them. Such a function is called with all arguments of the kernel, including defaults, by position. If a struct is the
    only argument, it may be a method of the struct. Raises `TypeError` for a function with other parameters, and if neither
    `grid` nor `threads` is given.
    """

    __slots__ = ("kernel", "sizes")

    def __init__(
        self, kernel: Kernel, grid: Any, block: Any, shared: Any = 0, threads: Any = None, cluster: Any = None
    ) -> None:
        has_block(grid, block, threads)
        sizes = {"grid": grid, "block": block, "shared": shared, "threads": threads, "cluster": cluster}
        self.kernel, self.sizes = kernel, {what: size for what, size in sizes.items() if size is not None}
        names = parameters_of(kernel.underlying).names
        for what, size in self.sizes.items():
            with suppress(ValueError):  # from functions without a signature
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
    """The sizes of a launch with these arguments; functions among `sizes` are called with all arguments of the kernel."""
    if not any(map(callable, sizes.values())):
        return dict(sizes)
    parameters = parameters_of(kernel.underlying)
    values = bind(kernel.underlying, args, kwargs, defaults_of(kernel.underlying))
    for i, name in enumerate(parameters.names):
        if isinstance(wanted := parameters.hints.get(name), Struct):
            values[i] = as_struct(values[i], wanted, name)
    return {what: size(*values) if callable(size) else size for what, size in sizes.items()}


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Whether a function with this signature takes `count` positional arguments."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
