"""`prepare`: the arguments of a launch, checked and compiled for once, for loops that start a kernel many times.

    step = device.prepare(update, x, y, 0.1, grid=64, block=256, stream=stream)
    for i in range(1000):
        step()                       # as it was prepared
    step(rate=0.05)                  # one launch with another argument
    step = step.replace(y, x)        # another prepared launch, with some arguments exchanged

Each call is a call of `launch`, which knows all that there is to know of repeated launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuda_device.device.functions import Kernel
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import Error, LaunchError
from cuda_device.runtime.gpu.grid import Shape, shape_of
from cuda_device.runtime.gpu.streams import Stream, as_stream
from cuda_device.runtime.launch.binding import argument_of, bind, parameters_of
from cuda_device.runtime.launch.launcher import check_kernel, check_positions, launch, users_traceback, variant_of


@users_traceback
def prepare(
    f: Kernel, /, *args: Any, grid: Any, block: Any, stream: Any = None, shared: int = 0, **kwargs: Any
) -> PreparedLaunch:
    """Makes a launch ready: what it returns starts the kernel when called, as often as wanted.

    The parameters are those of `launch`, and so are the errors, which are raised here instead of at the first start. Arrays
    are kept alive; they are read anew at each start.
    """
    check_kernel(f)
    shape = shape_of(grid, block, shared, f.options.build.max_threads)
    values = bind(f.underlying, args, kwargs, defaults_of(f.underlying))
    return PreparedLaunch(f, values, as_stream(stream), shape)


class PreparedLaunch:
    """What `prepare` returns. It never changes: several threads may start it at once.

    Called with arguments, positional or by name, it starts the kernel with those in the places of its own. `replace` makes
    another prepared launch in the same way.
    """

    __slots__ = ("__weakref__", "_places", "_positional", "_shape", "_values", "kernel", "stream")

    def __init__(self, kernel: Kernel, values: Sequence[Any], stream: Stream, shape: Shape) -> None:
        self.kernel, self.stream = kernel, stream
        self._values, self._shape = tuple(values), shape
        function = kernel.underlying
        names, self._positional, *_ = parameters_of(function)
        hidden = function.__code__.co_posonlyargcount
        self._places = {name: place for place, name in enumerate(names) if place >= hidden}
        arguments = tuple(argument_of(function, i, value, stream) for i, value in enumerate(values))
        variant = variant_of(kernel, arguments, stream)
        check_positions(variant, shape)
        variant.pack(arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Starts the kernel; arguments that are given take the places of the prepared ones, this time only.

        Raises what `launch` raises.
        """
        try:
            values = self._exchanged(args, kwargs) if args or kwargs else self._values
            shape, count = self._shape, self._positional
            where: dict[str, Any] = {
                "grid": shape.grid,
                "block": shape.block,
                "stream": self.stream,
                "shared": shape.dynamic,
            }
            if count < len(values):  # some can only be given by name
                by_name = {name: values[place] for name, place in self._places.items() if place >= count}
                launch(self.kernel, *values[:count], **where, **by_name)
            else:
                launch(self.kernel, *values, **where)
        except Error as error:
            raise error.with_traceback(None) from error.__cause__

    @users_traceback
    def replace(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """Another prepared launch, with some arguments exchanged. Raises what `prepare` raises."""
        return PreparedLaunch(self.kernel, self._exchanged(args, kwargs), self.stream, self._shape)

    @property
    def grid(self) -> tuple[int, int, int]:
        """How many blocks there are along x, y and z."""
        return self._shape.grid

    @property
    def block(self) -> tuple[int, int, int]:
        """How many threads a block has along x, y and z."""
        return self._shape.block

    @property
    def shared(self) -> int:
        """The bytes of dynamic shared memory of a block."""
        return self._shape.dynamic

    def _exchanged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The values of all parameters, the given ones instead of those that were prepared."""
        given, places = len(args), self._places
        values = [*args, *self._values[given:]]
        if given > self._positional or any(places.get(name, -1) < given for name in kwargs):
            return self._bound(args, kwargs)
        for name, value in kwargs.items():
            values[places[name]] = value
        return values

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """As `_exchanged`, for arguments that do not fit. Raises `CallError`."""
        function = self.kernel.underlying
        names = parameters_of(function).names
        if len(names) != len(self._values):
            raise LaunchError(
                f"{function.__qualname__} has other parameters than when it was prepared: prepare it again"
            )
        return bind(function, args, kwargs, dict(zip(names, self._values, strict=True)))

    def __repr__(self) -> str:
        return f"<prepared launch of {self.kernel.underlying.__qualname__}, grid={self.grid}, block={self.block}>"
