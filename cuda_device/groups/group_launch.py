"""`launch_group`: launches a kernel once on each device of a group.

    launch_group(group, kernel, g, [x0, x1], 0.5, grid=64, block=256)

gives the kernel on rank 1 `g.on(1)`, `x1` and 0.5.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from cuda_device.device.functions import Kernel
from cuda_device.errors import LaunchError
from cuda_device.groups.device_group import DeviceArrayGroup, DeviceGroup
from cuda_device.runtime.gpu.grid import clustered, shape_of
from cuda_device.runtime.gpu.streams import GpuStream
from cuda_device.runtime.launch.arguments import arguments_of, parameters_of
from cuda_device.runtime.launch.launcher import check_kernel, is_sized, load, sized, start, users_traceback, variant_of
from cuda_device.runtime.launch.prepared import sizes_for


@users_traceback
def launch_group(
    group: DeviceGroup,
    f: Kernel,
    /,
    *args: Any,
    grid: Any = None,
    block: Any = None,
    shared: Any = 0,
    threads: Any = None,
    **kwargs: Any,
) -> None:
    """Launches `f(*args, **kwargs)` once on each device of `group`; the launches run concurrently.

    A list has one item for each rank, an array or a number. A `DeviceArrayGroup` gives each kernel the view of its device. All
    other arguments are passed to all devices. `grid`, `block`, `shared` and `threads` are what `launch` takes, or functions of
    the kernel's arguments, as for `kernel.bind`.

    On GPUs the launches are asynchronous. They wait for the earlier work of all streams of the group, and later work of each
    stream waits for all of them. On CPU streams the launches have finished when this function returns.

    The kernel is compiled and the arguments are checked for all devices before anything starts. Raises `LaunchError`, which names
    the rank, and `CompileError`. Errors of running launches are raised as a `GroupError`, which contains a `TimeoutError` for
    each device that did not return in time. The group remains usable.
    """
    check_kernel(f)
    if threads is not None and "threads" in parameters_of(f.underlying).names:
        kwargs["threads"], threads = threads, None
    group.join()
    stopped = threading.Event()
    sizes = {"grid": grid, "block": block, "shared": shared, "threads": threads}
    calls = [_prepared(group, rank, f, args, kwargs, sizes, stopped) for rank in range(len(group))]
    try:
        group.run(calls, f"launching {f.underlying.__name__}", stop=stopped.set)
    finally:
        group.join()


def _prepared(
    group: DeviceGroup, rank: int, kernel: Kernel, args: Any, kwargs: Any, sizes: Any, stopped: threading.Event
) -> Callable[[], None]:
    """Prepares the launch of one rank. The code is loaded here, because loading can wait for kernels that run."""
    stream = group.streams[rank]
    try:
        if any(map(callable, sizes.values())):
            sizes = sizes_for(kernel, *_values(group, rank, args, kwargs, DeviceArrayGroup.on), sizes)
        _, _, constants, numbers = parameters_of(kernel.underlying)
        # What hints say is about the value itself.
        take = DeviceArrayGroup.on if constants or numbers else DeviceArrayGroup._argument
        arguments = arguments_of(kernel.underlying, *_values(group, rank, args, kwargs, take), stream)
        variant = variant_of(kernel, arguments, stream)
        if is_sized(sizes["grid"], sizes["block"], sizes["threads"]):
            shape = shape_of(sizes["grid"], sizes["block"], sizes["shared"], kernel.options.build.max_threads)
        else:
            shape = sized(variant, stream, **sizes)
        shape = clustered(shape, None, kernel.options.build.cluster)
        buffer = variant.pack(arguments)
        if isinstance(stream, GpuStream):
            with stream.using():
                load(variant, stream, variant.dynamic(shape))
    except LaunchError as error:
        raise LaunchError(f"{group.name(rank)}: {error.reason}", error.help) from None
    return partial(start, variant, stream, shape, buffer, arguments, stopped.is_set)


Take = Callable[[DeviceArrayGroup, int], Any]


def _values(group: DeviceGroup, rank: int, args: Any, kwargs: Any, take: Take) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments of a rank; `take` says what stands for a group of arrays."""
    positional = [_of_rank(value, group, rank, f"argument {i}", take) for i, value in enumerate(args)]
    return positional, {
        name: _of_rank(value, group, rank, f"argument {name!r}", take) for name, value in kwargs.items()
    }


def _of_rank(value: Any, group: DeviceGroup, rank: int, name: str, take: Take) -> Any:
    """The argument that the kernel of a rank gets for `value`."""
    if isinstance(value, DeviceArrayGroup):
        if value.group.streams != group.streams:
            raise LaunchError(
                f"{name} belongs to {value.group}, not to {group}", "create the arrays with group.arrays(…)"
            )
        return take(value, rank)
    if isinstance(value, list):
        if len(value) != len(group):
            raise LaunchError(
                f"{name} is a list of {len(value)} items for {len(group)} devices",
                "give one for each rank, or pass a tuple, which all of them get",
            )
        return _of_rank(value[rank], group, rank, f"{name}[{rank}]", take)
    if type(value) is tuple:
        return tuple(_of_rank(item, group, rank, f"{name}[{i}]", take) for i, item in enumerate(value))
    return value
