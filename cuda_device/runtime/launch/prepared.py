"""`prepare`: a launch that was made ready once, for loops that start a kernel many times.

    step = device.prepare(update, x, y, 0.1, grid=64, block=256, stream=stream)
    for i in range(1000):
        step()                       # as it was prepared
    step(rate=0.05)                  # one launch with another argument
    step = step.replace(y, x)        # another prepared launch, with some arguments exchanged

The arguments are read, checked and packed in advance. Each start still notices what a launch has to notice: names that the
kernel read and that mean something else now, what kernels reported, and whether the stream is being captured into a graph.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuda_device.device.functions import Kernel
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import Error, LaunchError
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.streams import GpuStream, Stream, as_stream
from cuda_device.runtime.launch.arguments import Argument
from cuda_device.runtime.launch.binding import argument_of, bind, parameters_of
from cuda_device.runtime.launch.grid import Shape, shape_of
from cuda_device.runtime.launch.launcher import (
    FIRST_LAUNCHER,
    Variant,
    addresses_of,
    check_kernel,
    is_plain_on_cpu,
    keep,
    runner_on_cpu,
    start,
    start_on_gpu,
    users_traceback,
    variant_of,
)

machine_start: Callable[..., bool] | None = None
"""Starts a prepared launch by machine code, or says that it could not, where calls do not get there first."""


@users_traceback
def prepare(
    f: Kernel, /, *args: Any, grid: Any, block: Any, stream: Any = None, shared: int = 0, **kwargs: Any
) -> PreparedLaunch:
    """Makes a launch ready: what it returns starts the kernel when called, as often as wanted.

    The parameters are those of `launch`, and so are the errors, which are raised here instead of at the first start. Arrays
    are kept alive. Their addresses, shapes and strides are those of now, and what their producers have queued on other streams
    by now is waited for: later work on other streams is the caller's to put in order.
    """
    check_kernel(f)
    shape = shape_of(grid, block, shared, f.options.build.max_threads)
    where = as_stream(stream)
    values = bind(f.underlying, args, kwargs, defaults_of(f.underlying))
    arguments = tuple(argument_of(f.underlying, i, value, where) for i, value in enumerate(values))
    return PreparedLaunch(f, values, arguments, where, shape)


class PreparedLaunch:
    """What `prepare` returns. It never changes: several threads may start it at once.

    Called with arguments, positional or by name, it starts the kernel with those in the places of its own. `replace` makes
    another prepared launch in the same way.
    """

    __slots__ = (
        "__weakref__",
        "_arguments",
        "_ready",
        "_shape",
        "_started",
        "_starts",
        "_values",
        "_views",
        "kernel",
        "native",
        "stream",
    )

    def __init__(
        self, kernel: Kernel, values: Sequence[Any], arguments: tuple[Argument, ...], stream: Stream, shape: Shape
    ) -> None:
        self.kernel, self.stream = kernel, stream
        self._values, self._arguments, self._shape = tuple(values), arguments, shape
        self._ready = self._make_ready()
        self._views = [view for argument in arguments for view in argument.views]
        self._started = False
        self._starts = 0
        self.native: tuple[Any, ...] | None = None
        """What machine code needs to start it."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Starts the kernel; arguments that are given take the places of the prepared ones, this time only.

        Raises what `launch` raises.
        """
        if machine_start and machine_start(self, *args, **kwargs):
            return
        try:
            if args or kwargs:
                self._start_exchanged(args, kwargs)
            else:
                self._start()
        except Error as error:
            raise error.with_traceback(None) from error.__cause__

    def _start(self) -> None:
        variant, buffer, addresses, run = self._ready
        if not variant.current():
            variant, buffer, addresses, run = self._ready = self._make_ready()
            self._starts, self.native = 0, None
        if run is not None:
            run()
            return
        stream = self.stream
        if not isinstance(stream, GpuStream):
            start(variant, stream, self._shape, buffer, self._arguments)
            return
        self._started = True
        with stream.using():
            start_on_gpu(variant, stream, self._shape, addresses, self._views)
            if self._views and driver.is_capturing(stream.handle):
                keep(stream, self._views)  # for as long as the graph may run
        self._starts += 1
        if self._starts == FIRST_LAUNCHER and self._is_at_home():
            from cuda_device.launchers import plans

            plans.ready(self, variant, self._shape, addresses, buffer)

    def _is_at_home(self) -> bool:
        """Whether all arrays are used on the stream of the launch only: then no streams have to be put in order."""
        here = getattr(self.stream, "handle", None)
        return all(view.stream in (None, here) for view in self._views)

    def _make_ready(self) -> tuple[Variant, Any, Any, Callable[[], None] | None]:
        """The compiled kernel for the arguments, their buffer, the addresses in it; on the CPU all of a start, if it is plain."""
        variant = variant_of(self.kernel, self._arguments, self.stream)
        buffer = variant.pack(self._arguments)
        run = None
        if not isinstance(self.stream, GpuStream) and is_plain_on_cpu(variant, self._arguments):
            run = functools.partial(runner_on_cpu(variant, self._shape, buffer), keep=self._arguments)
        return variant, buffer, addresses_of(variant, buffer), run

    def _start_exchanged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        arguments = self._exchanged(self._exchange(args, kwargs))
        variant = variant_of(self.kernel, arguments, self.stream)
        start(variant, self.stream, self._shape, variant.pack(arguments), arguments)

    @users_traceback
    def replace(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """Another prepared launch, with some arguments exchanged. Raises what `prepare` raises."""
        values = self._exchange(args, kwargs)
        return PreparedLaunch(self.kernel, values, self._exchanged(values), self.stream, self._shape)

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

    def _exchange(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The values of all parameters, the given ones instead of those that were prepared."""
        function = self.kernel.underlying
        names = parameters_of(function).names
        if len(names) != len(self._values):
            raise LaunchError(
                f"{function.__qualname__} has other parameters than when it was prepared: prepare it again"
            )
        return bind(function, args, kwargs, dict(zip(names, self._values, strict=True)))

    def _exchanged(self, values: Sequence[Any]) -> tuple[Argument, ...]:
        """The arguments for `values`: those that are the same objects as before were read already."""
        function, old = self.kernel.underlying, zip(self._values, self._arguments, strict=True)
        return tuple(
            argument if value is before else argument_of(function, i, value, self.stream)
            for i, (value, (before, argument)) in enumerate(zip(values, old, strict=True))
        )

    def __repr__(self) -> str:
        return f"<prepared launch of {self.kernel.underlying.__qualname__}, grid={self.grid}, block={self.block}>"

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # The GPU may still be running what was started last. To note that once is cheaper than at each start. When the process
        # ends, this module's names are gone.
        if is_ending() or not getattr(self, "_started", False):
            return
        if self._views and isinstance(self.stream, GpuStream):
            with contextlib.suppress(Exception), self.stream.using():
                keep(self.stream, self._views)
