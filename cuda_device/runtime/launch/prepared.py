"""`prepare`: a launch whose arguments and sizes are given once and used many times.

    step = device.prepare(update, x, y, 0.1, grid=64, block=256, stream=stream)
    for i in range(1000):
        step()                       # as it was prepared
    step(rate=0.05)                  # one launch with another argument
    step = step.replace(y, x)        # another prepared launch, with some arguments replaced

Each call makes a launch, at first in Python, later in machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import ref

from cuda_device import hooks
from cuda_device.device.functions import Kernel
from cuda_device.device.hints import parameters_of
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import LaunchError, users_traceback
from cuda_device.runtime.gpu.grid import LaunchSizes, Shape, sizes_of
from cuda_device.runtime.gpu.streams import Stream, as_stream
from cuda_device.runtime.launch.arguments import bind
from cuda_device.runtime.launch.launcher import check_positions, completed, launch, planned

if TYPE_CHECKING:
    from cuda_device.runtime.launch.launcher import LaunchCompleter


@users_traceback
def prepare(
    f: Kernel | LaunchCompleter,
    /,
    *args: Any,
    grid: Any = None,
    block: Any = None,
    stream: Any = None,
    shared: int = 0,
    threads: Any = None,
    cluster: Any = None,
    dependent: bool | None = None,
    **kwargs: Any,
) -> PreparedLaunch:
    """Prepares a launch: returns an object that launches the kernel whenever it is called.

    The parameters and errors are those of `launch`; errors are raised here instead of at the first launch. The object keeps its
    arrays alive, and each launch reads their current contents.
    """
    where, sizes = as_stream(stream), LaunchSizes(grid, block, shared, threads, cluster, dependent)
    kernel, kwargs, sizes = completed(f, args, kwargs, sizes, where)
    values = bind(kernel.underlying, args, kwargs, defaults_of(kernel.underlying))
    return PreparedLaunch(kernel, values, where, sizes)


class PreparedLaunch(partial[None]):
    """The result of `prepare`; calling it launches the kernel. It is immutable, so several threads may call it at once.

    Arguments of the call, by position or by name, replace the prepared ones for this launch. `replace` makes another prepared
    launch in the same way. A call raises what `launch` raises.
    """

    # Calling a `partial` calls its function without a Python frame and without packing the arguments.

    __slots__ = ("_shape", "_values", "kernel", "stream")

    kernel: Kernel
    stream: Stream
    _values: Sequence[Any]
    _shape: Shape

    def __new__(cls, kernel: Kernel, values: Sequence[Any], stream: Stream, sizes: LaunchSizes) -> Self:
        """Raises what the first launch would raise."""
        variant, _, shape, *_ = planned(kernel, *_call_of(kernel, values), stream, sizes)
        check_positions(variant, shape)
        self = super().__new__(cls, launch)
        self.kernel, self.stream, self._values, self._shape = kernel, stream, tuple(values), shape
        self._start_by(_start_of(self))
        return self

    def _start_by(self, function: Callable[..., None]) -> None:
        """Replaces the function that calls run by one that does the same."""
        cast("Any", self).__setstate__((function, (), {}, None))

    @users_traceback
    def replace(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """Returns another prepared launch, with some arguments replaced. Raises what `prepare` raises."""
        values = _exchanged(self.kernel, self._values, args, kwargs)
        return PreparedLaunch(self.kernel, values, self.stream, sizes_of(self._shape))

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


def _start_of(prepared: PreparedLaunch) -> Callable[..., None]:
    """The function that calls of a prepared launch run until its kernel has a launcher."""
    kernel, values, code = prepared.kernel, prepared._values, prepared.kernel.underlying.__code__
    sizes = sizes_of(prepared._shape).given() | {"stream": prepared.stream}
    reference = ref(prepared)  # a cycle would keep the arrays alive until the next garbage collection

    def launch_of(values: Sequence[Any]) -> Callable[[], None]:
        args, kwargs = _call_of(kernel, values)
        return partial(launch, kernel, *args, **kwargs, **sizes)

    as_prepared = launch_of(values)

    @users_traceback
    def start(*args: Any, **kwargs: Any) -> None:
        changed = args or kwargs or kernel.underlying.__code__ is not code
        (launch_of(_exchanged(kernel, values, args, kwargs)) if changed else as_prepared)()
        owner = reference() if kernel.native is not None else None
        if owner is not None and isinstance(owner.func, FunctionType):
            owner._start_by(hooks.plugin(hooks.LAUNCHERS).prepared(kernel, values, sizes, owner.func) or owner.func)

    return start


def _exchanged(kernel: Kernel, prepared: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The values of all parameters: the given ones, and otherwise the prepared ones. Raises `CallError`."""
    function = kernel.underlying
    names = parameters_of(function).names
    if len(names) != len(prepared):
        raise LaunchError(f"{function.__qualname__} has other parameters than when it was prepared", "prepare it again")
    return bind(function, args, kwargs, dict(zip(names, prepared, strict=True)))
