"""`launch_group`: launches a kernel once on each device of a group.

    launch_group(group, kernel, g, [x0, x1], 0.5, grid=64, block=256)

gives the kernel on rank 1 `g.on(1)`, `x1` and 0.5.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from cuda_device.device.functions import Kernel
from cuda_device.errors import CallError, LaunchError
from cuda_device.groups.device_group import DeviceArrayGroup, DeviceGroup, Take, of_rank
from cuda_device.runtime.gpu.streams import GpuStream
from cuda_device.runtime.launch.arguments import arguments_of, parameters_of
from cuda_device.runtime.launch.launcher import (
    CompiledKernel,
    check_kernel,
    is_due,
    launch,
    load,
    make_launcher,
    of_launch,
    sized,
    start,
    users_traceback,
    variant_of,
)
from cuda_device.runtime.launch.prepared import BoundKernel, sizes_for


@users_traceback
def launch_group(
    group: DeviceGroup,
    f: Kernel | BoundKernel,
    /,
    *args: Any,
    grid: Any = None,
    block: Any = None,
    shared: Any = 0,
    threads: Any = None,
    cluster: Any = None,
    **kwargs: Any,
) -> None:
    """Launches `f(*args, **kwargs)` once on each device of `group`; the launches run concurrently.

    A list has one item for each rank, an array or a number. A `DeviceArrayGroup` gives each kernel the view of its device. All
    other arguments are passed to all devices. `grid`, `block`, `shared`, `threads` and `cluster` are what `launch` takes, lists
    with one item for each rank, or functions of the kernel's arguments, as for `kernel.bind`, whose result `f` can be, too.

    On GPUs the launches are asynchronous. They wait for the earlier work of all streams of the group, and later work of each
    stream waits for all of them. On CPU streams the launches have finished when this function returns.

    The kernel is compiled and the arguments are checked for all devices before anything starts. Raises `LaunchError`, which names
    the rank, and `CompileError`. Errors of running launches are raised as a `GroupError`, which contains a `TimeoutError` for
    each device that did not return in time. The group remains usable.
    """
    if not isinstance(group, DeviceGroup):
        raise CallError(f"launch_group takes a DeviceGroup, not {group!r}", "create one: DeviceGroup([0, 1])")
    sizes = {"grid": grid, "block": block, "shared": shared, "threads": threads, "cluster": cluster}
    if isinstance(f, BoundKernel):
        sizes |= {what: size for what, size in f.sizes.items() if not sizes[what]}
        f = f.kernel
    check_kernel(f)
    sizes["threads"], sizes["cluster"] = of_launch(f, kwargs, threads=sizes["threads"], cluster=sizes["cluster"])
    group.join()
    try:
        if not _launched_by_machine_code(group, f, args, kwargs, sizes):
            _launch_by_python(group, f, args, kwargs, sizes)
    finally:
        group.join()


def _launched_by_machine_code(group: DeviceGroup, kernel: Kernel, args: Any, kwargs: Any, sizes: Any) -> bool:
    """Launches on all devices if machine code can do so on each of them, and otherwise on none. Returns whether it did.

    Such a launch takes less time than waking a thread, so the calling thread makes it.
    """
    streams = [stream for stream in group.streams if isinstance(stream, GpuStream)]
    is_open = sizes["threads"] is not None or sizes["cluster"] is not None
    if kernel.native is None or is_open or group.timeout is not None or len(streams) < len(group):
        return False
    from cuda_device.launchers import plans

    can_launch, launched = plans.methods()
    calls = []
    for rank, stream in enumerate(streams):
        try:
            positional, named = _values(group, rank, args, kwargs, DeviceArrayGroup.on)
            given = _sizes(group, rank, kernel, args, kwargs, sizes)
        except Exception:  # `_launch_by_python` raises it again
            return False
        keywords = {what: given[what] for what in ("grid", "block", "shared")} | named | {"stream": stream}
        with stream.using():
            if not can_launch(kernel, *positional, **keywords):
                return False
        calls.append((stream, positional, keywords))
    rest: list[Callable[[], object]] = []
    with group.lock:  # the launches of several threads have the same order on all devices
        for stream, positional, keywords in calls:
            with stream.using():
                made = launched(kernel, *positional, **keywords)
            rest.append(bool if made else partial(launch, kernel, *positional, **keywords))
    if any(call is not bool for call in rest):  # the driver has refused a launch, and Python raises the error
        group.run(rest, f"launching {kernel.underlying.__name__}")
    return True


def _launch_by_python(group: DeviceGroup, kernel: Kernel, args: Any, kwargs: Any, sizes: Any) -> None:
    """Prepares the launches on all devices, and then starts them on the threads of the group."""
    stopped = threading.Event()
    prepared = [_prepared(group, rank, kernel, args, kwargs, sizes, stopped) for rank in range(len(group))]
    group.run([call for _, call in prepared], f"launching {kernel.underlying.__name__}", stop=stopped.set)
    if isinstance(group.streams[0], GpuStream) and is_due([variant for variant, _ in prepared]):
        for rank, (variant, _) in enumerate(prepared):
            values = _values(group, rank, args, kwargs, DeviceArrayGroup.on)
            make_launcher(kernel, variant, cast("GpuStream", group.streams[rank]), *values)


def _sizes(group: DeviceGroup, rank: int, kernel: Kernel, args: Any, kwargs: Any, sizes: Any) -> dict[str, Any]:
    """The sizes of the launch of one rank."""
    given = {what: of_rank(size, group, rank, what, DeviceArrayGroup.on) for what, size in sizes.items()}
    if any(map(callable, given.values())):
        return sizes_for(kernel, *_values(group, rank, args, kwargs, DeviceArrayGroup.on), given)
    return given


def _prepared(
    group: DeviceGroup, rank: int, kernel: Kernel, args: Any, kwargs: Any, sizes: Any, stopped: threading.Event
) -> tuple[CompiledKernel, Callable[[], None]]:
    """Prepares the launch of one rank. The code is loaded here, because loading can wait for kernels that run."""
    stream = group.streams[rank]
    try:
        sizes = _sizes(group, rank, kernel, args, kwargs, sizes)
        _, _, *hinted, _ = parameters_of(kernel.underlying)
        take = DeviceArrayGroup.on if any(hinted) else DeviceArrayGroup._argument  # hints convert the value itself
        arguments = arguments_of(kernel.underlying, *_values(group, rank, args, kwargs, take), stream)
        variant = variant_of(kernel, arguments, stream)
        shape = sized(variant, stream, **sizes)
        buffer = variant.pack(arguments)
        if isinstance(stream, GpuStream):
            with stream.using():
                load(variant, stream, variant.dynamic(shape))
    except LaunchError as error:
        raise LaunchError(f"{group.name(rank)}: {error.reason}", error.help) from None
    except Exception as error:
        error.add_note(f"on {group.name(rank)}")
        raise
    return variant, partial(start, variant, stream, shape, buffer, arguments, stopped.is_set)


def _values(group: DeviceGroup, rank: int, args: Any, kwargs: Any, take: Take) -> tuple[list[Any], dict[str, Any]]:
    """The positional and named arguments of a rank; `take` converts a group of arrays."""
    positional = [of_rank(value, group, rank, f"argument {i}", take) for i, value in enumerate(args)]
    return positional, {name: of_rank(value, group, rank, f"argument {name!r}", take) for name, value in kwargs.items()}
