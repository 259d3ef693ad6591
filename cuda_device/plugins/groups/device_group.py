"""Groups of GPUs of one process: `DeviceGroup`, arrays that all of them can access, and launches on all of them.

group = DeviceGroup([0, 1])                         # GPUs 0 and 1, which can access each other's memory from now on
group = DeviceGroup([cpu_stream(), cpu_stream()])   # two CPU streams in place of GPUs
g = group.arrays((1024,), float32)                  # an array on each
g = DeviceArrayGroup.of([x0, x1], group)            # arrays of torch, CuPy or NumPy, which share their memory
launch_group(group, kernel, g, [y0, y1], 0.5, grid=4, block=256)
g.local(0).numpy()                                  # one of them on the host

The kernel on rank 1 gets `g.on(1)`, `y1` and 0.5.
"""

from __future__ import annotations

import math
import operator
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

import cuda_device as device
from cuda_device import (
    ArrayType,
    CallError,
    DeviceArray,
    GpuStream,
    GroupError,
    Kernel,
    LaunchError,
    Stream,
    array,
    as_array,
    launch,
    zeros,
)
from cuda_device.extend import (
    CompiledKernel,
    LaunchSizes,
    array_view,
    as_stream,
    check_kernel,
    count_launches,
    driver,
    join,
    machine_launches,
    parameters_of,
    planned,
    replace,
    start,
    struct_model,
    users_traceback,
)
from cuda_device.plugins.groups.group_barriers import array_group

if TYPE_CHECKING:
    from cuda_device import BoundKernel


_ALREADY_ENABLED = 704  # of CUresult: CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
_ALIGNMENT = 64
"""The alignment of arrays of CPU streams, as everywhere in the package: a cache line."""


class DeviceGroup:
    """A set of devices that work together. The position of a device in the group is its rank.

    `devices` is a list of GPU numbers, or of streams (of this package, cuda.core, torch or CuPy). `streams` can assign a stream
    to each GPU number; the default is the legacy default stream. CPU streams can take the place of GPUs. `synchronize` and
    `launch_group` wait at most `timeout` seconds for a device. None sets no limit, except that after another device has failed
    they wait only a few seconds. Ctrl-C ends the wait.

    Each GPU gets access to the memory of all others, including memory from pools. Creating several groups of the same devices
    is harmless. Raises `LaunchError` if a device or stream does not exist, if the group mixes GPUs and CPUs, and if a GPU
    cannot access the memory of another one.
    """

    def __init__(
        self, devices: Sequence[Any], streams: Sequence[Any] | None = None, *, timeout: float | None = None
    ) -> None:
        if timeout is not None and not (isinstance(timeout, (int, float, np.number)) and timeout >= 0):
            raise CallError(f"timeout={timeout!r} is not a number of seconds", "give a number, or None for no limit")
        self.timeout = timeout
        self.streams: tuple[Stream, ...] = _streams_of(devices, streams)
        """The stream of each device, by rank."""
        on_gpu = [isinstance(stream, GpuStream) for stream in self.streams]
        if any(on_gpu) and not all(on_gpu):
            shown = ", ".join(map(self.name, range(len(self))))
            raise LaunchError(f"a group consists of GPUs or of CPU streams, not of both: {shown}", "make two groups")
        self.reachable: tuple[tuple[bool, ...], ...] = tuple(
            tuple(_reaches(here, there) for there in self.streams) for here in self.streams
        )
        """`reachable[i][j]` says whether the device of rank i can access the memory of the device of rank j."""
        self._give_access()
        # Kernels wait for each other across devices, so all devices must get two launches in the same order.
        self.lock = threading.Lock()
        self._threads: dict[int, tuple[threading.Thread, SimpleQueue[Any]]] = {}

    def __len__(self) -> int:
        return len(self.streams)

    def name(self, rank: int) -> str:
        """Returns the rank and the device, as messages show them."""
        stream = self.streams[rank]
        return f"rank {rank} ({f'GPU {stream.ordinal}' if isinstance(stream, GpuStream) else 'CPU'})"

    def arrays(self, shape: Any, dtype: Any = float) -> DeviceArrayGroup:
        """Creates an array of zeros on each device, which all devices can access; otherwise like `zeros`."""
        first = zeros(shape, dtype, stream=self.streams[0])
        if isinstance(self.streams[0], GpuStream):
            rest = [zeros(shape, dtype, stream=stream) for stream in self.streams[1:]]
            return DeviceArrayGroup(self, [first, *rest])
        # One allocation: launches compare its extent with those of other arguments to see whether they overlap.
        rows = zeros((len(self), -(-first.nbytes // _ALIGNMENT) * _ALIGNMENT), np.uint8, stream=self.streams[0])
        views = (
            replace(array_view(first), data=array_view(row).data, keep_alive=rows)
            for row in map(rows.__getitem__, range(len(self)))
        )
        return DeviceArrayGroup(
            self,
            [DeviceArray.over(view, stream, first.dtype) for view, stream in zip(views, self.streams, strict=True)],
        )

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits until all launches on the streams have ended, at most `timeout` seconds (None: the timeout of the group).

        Raises `GroupError`, an `ExceptionGroup` with a `KernelError` for each device on which a kernel failed and a
        `TimeoutError` for each device that did not return in time. The group remains usable.
        """
        self.run([stream.synchronize for stream in self.streams], "waiting", timeout)

    def run(
        self,
        calls: Sequence[Callable[[], object]],
        doing: str,
        timeout: float | None = None,
        stop: Callable[[], object] | None = None,
    ) -> None:
        """Runs `calls[rank]` on the thread of each device, and returns when all have ended; messages say `doing`.

        If a call raises, the others get a few more seconds. If a call has not ended then, or after `timeout` seconds, `stop`
        is called, and its thread is abandoned. Raises the errors of `synchronize`.
        """
        limit, count = self.timeout if timeout is None else timeout, len(calls)
        outcomes: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()
        ended: Outcomes = {}
        with self.lock:
            try:
                for rank, call in enumerate(calls):
                    self._inbox(rank).put((rank, call, outcomes))
                failed = _wait(ended, outcomes, count, limit, failing=True)
                if failed:
                    _wait(ended, outcomes, count, _GRACE)
            finally:
                late = set(range(count)) - set(ended)
                if late and stop is not None:
                    stop()
                    _wait(ended, outcomes, count, _STOPPING)
                for rank in set(range(count)) - set(ended):
                    self._threads.pop(rank)[1].put(None)  # the thread ends when its call returns
        self._raise(ended, late, doing, "another one had failed" if failed else f"{limit} seconds")

    def _raise(self, ended: Outcomes, late: set[int], doing: str, after: str) -> None:
        """Raises the errors, if there are any; `late` are the ranks that have not returned."""
        errors: dict[int, Exception] = {}
        for rank in sorted({*ended, *late}):
            error = ended.get(rank)
            if rank in late:
                errors[rank] = TimeoutError(f"{self.name(rank)} has not returned from {doing} after {after}")
            elif error is not None:
                if not isinstance(error, Exception):
                    raise error
                error.add_note(f"on {self.name(rank)}")
                errors[rank] = error
        if errors:
            raised = GroupError(f"{doing} failed on {', '.join(map(self.name, errors))}", list(errors.values()))
            raised.ranks = list(errors)
            raise raised

    def _inbox(self, rank: int) -> SimpleQueue[Any]:
        """The inbox of a device's thread, which is started when first needed."""
        thread, inbox = self._threads.get(rank, (None, None))
        if inbox is None or thread is None or not thread.is_alive():  # after a fork, no thread is
            inbox = SimpleQueue()
            name = f"cuda_device {self.name(rank)}"
            thread = threading.Thread(target=_serve, args=(inbox,), name=name, daemon=True)
            thread.start()
            self._threads[rank] = thread, inbox
        return inbox

    def __del__(self) -> None:
        for _, inbox in getattr(self, "_threads", {}).values():
            inbox.put(None)

    def join(self) -> None:
        """Makes later work of each stream wait for the present work of all streams. Does not block."""
        join(self.streams)

    def _give_access(self) -> None:
        """Gives each GPU access to the memory of all others."""
        streams = [stream for stream in self.streams if isinstance(stream, GpuStream)]
        for i, here in enumerate(streams):
            for j, there in enumerate(streams):
                if not self.reachable[i][j]:
                    raise LaunchError(
                        f"GPU {here.ordinal} cannot reach the memory of GPU {there.ordinal}: {self.name(i)}, {self.name(j)}",
                        "make groups of GPUs that can reach each other: `nvidia-smi topo -p2p r` shows which can",
                    )
                if here.context != there.context:
                    with here.using():
                        (status,) = driver.bindings().cuCtxEnablePeerAccess(there.context, 0)
                        if status != _ALREADY_ENABLED:
                            driver.check((status,), "giving a GPU access to the memory of another one")
                        driver.open_pool(there.ordinal, here.ordinal)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a DeviceGroup belongs to its process: create one in each, or use SymmetricArray between processes"
        )

    def __repr__(self) -> str:
        return f"<DeviceGroup of {', '.join(map(self.name, range(len(self))))}>"


# Each device has a thread, so that a call that blocks on one device does not delay the others. A thread that does not return is
# abandoned and replaced, so the group stays usable.

Outcomes = dict[int, BaseException | None]
# After one device has failed, the others have this many seconds to end: they may be waiting for it. The second limit applies
# after `stop` was called.
_GRACE = 5.0
_STOPPING = 1.0
# How often a wait checks for an interrupt that is not a signal, such as `_thread.interrupt_main`.
_LOOK = 0.1


def _serve(inbox: SimpleQueue[Any]) -> None:
    """Runs the calls from the inbox until it gets None."""
    while (task := inbox.get()) is not None:
        rank, call, outcomes = task
        error = None
        try:
            call()
        except BaseException as raised:
            error = raised
        del task, call  # so that an idle thread keeps no arrays alive
        outcomes.put((rank, error))
        del outcomes, error


def _wait(
    ended: Outcomes, outcomes: SimpleQueue[Any], count: int, timeout: float | None, *, failing: bool = False
) -> bool:
    """Waits until `count` calls have ended, the time is over, or with `failing`, one has failed. Returns whether one has."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while len(ended) < count and (left := end - time.monotonic()) > 0:
        with suppress(Empty):
            rank, error = outcomes.get(timeout=min(left, _LOOK))
            ended[rank] = error
            if failing and error is not None:
                break
    return any(error is not None for error in ended.values())


def _streams_of(devices: Sequence[Any], streams: Sequence[Any] | None) -> tuple[Stream, ...]:
    if isinstance(devices, str) or not isinstance(devices, Iterable):
        raise CallError(f"a group is made of a list of devices, not of {devices!r}", "write DeviceGroup([0, 1])")
    devices = list(devices)
    if not devices:
        raise LaunchError("a group needs at least one device", "name GPUs by their numbers, or give streams")
    if streams is None:
        return tuple(map(_stream_of, devices))
    converted = tuple(map(as_stream, streams))
    ordinals = [stream.ordinal if isinstance(stream, GpuStream) else "the CPU" for stream in converted]
    if ordinals != devices:
        raise LaunchError(
            f"streams= are on {ordinals}, not on the devices {devices}",
            "give each GPU one of its streams, in order",
        )
    return converted


def _stream_of(device: Any) -> Stream:
    if not hasattr(type(device), "__index__") or isinstance(device, bool):
        return as_stream(device)
    driver.require()
    ordinal, count = operator.index(device), driver.device_count()
    if not 0 <= ordinal < count:
        raise LaunchError(f"there is no GPU {ordinal}", f"GPUs 0 to {count - 1} exist")
    return GpuStream(driver.LEGACY_STREAM, ordinal)


def _reaches(here: Stream, there: Stream) -> bool:
    if not isinstance(here, GpuStream) or not isinstance(there, GpuStream) or here.ordinal == there.ordinal:
        return type(here) is type(there)
    return driver.can_access_peer(here.ordinal, there.ordinal)


class DeviceArrayGroup:
    """One array on each device of `group`. All are C-contiguous and have the same shape and dtype.

    `group.arrays` and `DeviceArrayGroup.of` create it. A kernel gets it as a struct: `g[rank]` is the array on the device of
    that rank, `g.own` the array on its own device, `g.rank` its rank, `g.n_devices` the number of devices, and `g.shape` the
    shape.
    """

    __launch_help__ = "start the kernel with launch_group(group, …), or pass what one device takes: g.on(rank)"

    def __init__(self, group: DeviceGroup, arrays: Sequence[DeviceArray]) -> None:
        self.group = group
        self._arrays = tuple(arrays)
        self._parts = tuple(part_of(self._arrays, rank, stream) for rank, stream in enumerate(group.streams))
        group.join()  # because a device may read what another one's stream has yet to write

    @classmethod
    def of(cls, arrays: Iterable[Any], group: DeviceGroup) -> DeviceArrayGroup:
        """Groups existing arrays, one for each device in the order of ranks. Their memory is shared.

        Raises `LaunchError` if there is not one array for each device or if shapes or dtypes differ; see also `as_array`.
        """
        arrays = list(arrays)
        if len(arrays) != len(group):
            raise LaunchError(f"{len(arrays)} arrays for {len(group)} devices", "give one array for each rank")
        members = [as_array(x, stream=group.streams[i], name=f"arrays[{i}]") for i, x in enumerate(arrays)]
        first = members[0]
        for rank, member in enumerate(members):
            types = array_view(first).type, array_view(member).type
            if (member.shape, types[1]) != (first.shape, types[0]):
                shown = f"{first.shape} of {types[0]}", f"{member.shape} of {types[1]}"
                raise LaunchError(
                    f"arrays[{rank}] for {group.name(rank)} is {shown[1]}, and arrays[0] is {shown[0]}",
                    "give all the same shape and dtype: make the largest on each device, or several groups",
                )
        return cls(group, members)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each array."""
        return self._arrays[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._arrays[0].dtype

    def local(self, rank: int) -> DeviceArray:
        """Returns the array on the device with that rank. Raises `IndexError` if there is none."""
        return nth(self._arrays, rank)

    def fill(self, value: Any) -> None:
        """Sets all elements of all arrays to `value`, as `DeviceArray.fill` does."""
        for member in self._arrays:
            member.fill(value)
        self.group.join()

    def on(self, rank: int) -> Any:
        """Returns the struct that a kernel on the device with that rank takes, for use with `launch`."""
        return nth(self._parts, rank)

    @staticmethod
    def part(dtype: Any, ndim: int = 1) -> Any:
        """Returns the type of what kernels take: the type hint of a member of a struct, or of a parameter."""
        return array_group(ArrayType(dtype, ndim).dtype, ndim)

    def _by_rank(self, make: Callable[..., Any], values: Mapping[str, Any]) -> list[Any]:
        """Calls `make` with the values of each rank."""
        return [
            make(**{name: of_rank(value, self.group, rank, name) for name, value in values.items()})
            for rank in range(len(self))
        ]

    def __len__(self) -> int:
        return len(self._arrays)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError("a DeviceArrayGroup has an array on each device: use np.asarray(g.local(rank))")

    def __reduce__(self) -> Any:
        raise TypeError("a DeviceArrayGroup belongs to its process: pickle its arrays, g.local(rank)")

    def __repr__(self) -> str:
        return f"<DeviceArrayGroup of {len(self)} arrays, shape={self.shape} dtype={self.dtype}>"


T = TypeVar("T")


def of_rank(value: Any, group: DeviceGroup, rank: int, name: str) -> Any:
    """The argument for the kernel of a rank."""
    if isinstance(value, DeviceArrayGroup):
        if value.group.streams != group.streams:
            raise LaunchError(
                f"{name} belongs to {value.group}, not to {group}", "create the arrays with group.arrays(…)"
            )
        return value.on(rank)
    if isinstance(value, list):
        if len(value) != len(group):
            raise LaunchError(
                f"{name} is a list of {len(value)} items for {len(group)} devices",
                "give one for each rank, or pass a tuple, which all of them get",
            )
        item = value[rank]  # a list within a list is not for ranks
        return item if isinstance(item, list) else of_rank(item, group, rank, f"{name}[{rank}]")
    if type(value) is tuple:
        return tuple(of_rank(item, group, rank, f"{name}[{i}]") for i, item in enumerate(value))
    return value


def nth(parts: Sequence[T], rank: int) -> T:
    """The part of a rank; negative ranks count from the last."""
    if not -len(parts) <= rank < len(parts):
        raise IndexError(f"there is no rank {rank} among {len(parts)}: the last one is {len(parts) - 1}")
    return parts[rank]


def part_of(arrays: Sequence[DeviceArray], rank: int, stream: Stream) -> Any:
    """The struct that a kernel on the device of a rank takes: the rank's own array and the distances to the others."""
    views = [array_view(member) for member in arrays]
    own_view = views[rank]
    # The arrays of all devices are kept alive while a kernel runs on any of them.
    mine = replace(own_view, keep_alive=tuple(view.keep_alive for view in views))
    shared = [view for view in views if (view.device, view.ordinal) == (own_view.device, own_view.ordinal)]
    ends = [view.extent for view in shared]
    object.__setattr__(mine, "span", (min(low for low, _ in ends), max(high for _, high in ends)))
    offsets = array(np.array([view.data - own_view.data for view in views], np.int64), stream=stream)
    kind = array_group(own_view.element, own_view.ndim)
    return kind(DeviceArray.over(mine, stream, arrays[rank].dtype), offsets, rank)


# Launches on all devices


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
    dependent: Any = None,
    **kwargs: Any,
) -> None:
    """Launches `f(*args, **kwargs)` once on each device of `group`; the launches run concurrently.

    A list has one item for each rank, an array or a number. A `DeviceArrayGroup` gives each kernel the view of its device. All
    other arguments are passed to all devices. `grid`, `block`, `shared`, `threads`, `cluster` and `dependent` are what `launch`
    takes, lists with one item for each rank, or functions of the kernel's arguments, as for `kernel.bind`, whose result `f` can
    be, too.

    On GPUs the launches are asynchronous. They wait for the earlier work of all streams of the group, and later work of each
    stream waits for all of them. On CPU streams the launches have finished when this function returns.

    The kernel is compiled and the arguments are checked for all devices before anything starts. Raises `LaunchError`, which names
    the rank, and `CompileError`. Errors of running launches are raised as a `GroupError`, which contains a `TimeoutError` for
    each device that did not return in time. The group remains usable.
    """
    if not isinstance(group, DeviceGroup):
        raise CallError(f"launch_group takes a DeviceGroup, not {group!r}", "create one: DeviceGroup([0, 1])")
    sizes = LaunchSizes(grid, block, shared, threads, cluster, dependent)
    if isinstance(getattr(f, "kernel", None), Kernel):  # a `BoundKernel`, whose plugin need not be installed
        bound = cast("BoundKernel", f)
        sizes = LaunchSizes(**bound.sizes | {keyword: size for keyword, size in sizes.given().items() if size})
        f = bound.kernel
    check_kernel(f)
    kernel = cast("Kernel", f)
    sizes = sizes.without(kwargs, parameters_of(kernel.underlying).names)
    # Kernels access the arrays of other devices, too, so they are ordered with the streams of all arrays' libraries.
    arrays = _arrays_of((args, list(kwargs.values())))
    for member in arrays:
        member.join_producer()
    group.join()
    try:
        if not _launched_by_machine_code(group, kernel, args, kwargs, sizes):
            _launch_by_python(group, kernel, args, kwargs, sizes)
    finally:
        group.join()
        for member in arrays:
            member.join_producer()


def _arrays_of(value: Any) -> Sequence[DeviceArray]:
    """The arrays of the groups in an argument of all ranks."""
    kind = type(value)
    if kind is DeviceArrayGroup:
        return cast("Sequence[DeviceArray]", value._arrays)
    if "__reaches_others__" in kind.__dict__:
        return (value.own,)
    if struct_model(kind):
        value = [getattr(value, name) for name in kind.__slots__]
    elif kind is not list and kind is not tuple:
        return ()
    return [array for item in value for array in _arrays_of(item)]


def _launched_by_machine_code(group: DeviceGroup, kernel: Kernel, args: Any, kwargs: Any, sizes: LaunchSizes) -> bool:
    """Launches on all devices if machine code can do so on each of them, and otherwise on none. Returns whether it did.

    Such a launch takes less time than waking a thread, so the calling thread makes it.
    """
    streams = [stream for stream in group.streams if isinstance(stream, GpuStream)]
    is_open = (sizes.threads, sizes.cluster, sizes.dependent) != (None, None, None)
    if kernel.native is None or is_open or group.timeout is not None or len(streams) < len(group):
        return False
    methods = machine_launches()
    if methods is None:
        return False
    can_launch, launched = methods
    calls = []
    for rank, stream in enumerate(streams):
        try:
            positional, named = _values(group, rank, args, kwargs)
            grid, block, shared, *_ = _sizes(group, rank, kernel, args, kwargs, sizes)
        except Exception:  # `_launch_by_python` raises it again
            return False
        keywords = {"grid": grid, "block": block, "shared": shared, **named, "stream": stream}
        with stream.using():
            if not can_launch(kernel, *positional, **keywords):
                return False
        calls.append((stream, positional, keywords))
    rest: list[Callable[[], object]] = []
    with group.lock:  # the launches of several threads have the same order on all devices
        for stream, positional, keywords in calls:
            with stream.using():
                is_made = launched(kernel, *positional, **keywords)
            rest.append(bool if is_made else partial(launch, kernel, *positional, **keywords))
    if any(call is not bool for call in rest):  # the driver has refused a launch, and Python raises the error
        group.run(rest, f"launching {kernel.underlying.__name__}")
    return True


def _launch_by_python(group: DeviceGroup, kernel: Kernel, args: Any, kwargs: Any, sizes: LaunchSizes) -> None:
    """Prepares the launches on all devices, and then starts them on the threads of the group."""
    stopped = threading.Event()
    prepared = [_prepared(group, rank, kernel, args, kwargs, sizes, stopped) for rank in range(len(group))]
    group.run([call for _, call in prepared], f"launching {kernel.underlying.__name__}", stop=stopped.set)
    if isinstance(group.streams[0], GpuStream):
        ranks = zip(prepared, cast("Sequence[GpuStream]", group.streams), strict=True)
        launches = [
            (variant, stream, *_values(group, rank, args, kwargs)) for rank, ((variant, _), stream) in enumerate(ranks)
        ]
        count_launches(kernel, launches)


def _sizes(group: DeviceGroup, rank: int, kernel: Kernel, args: Any, kwargs: Any, sizes: LaunchSizes) -> LaunchSizes:
    """The sizes of the launch of one rank."""
    pairs = zip(sizes._fields, sizes, strict=True)
    sizes = LaunchSizes(*(of_rank(size, group, rank, keyword) for keyword, size in pairs))
    if any(map(callable, sizes)):
        return LaunchSizes(**device.BoundKernel.sizes_for(kernel, *_values(group, rank, args, kwargs), sizes.given()))
    return sizes


def _prepared(
    group: DeviceGroup, rank: int, kernel: Kernel, args: Any, kwargs: Any, sizes: LaunchSizes, stopped: threading.Event
) -> tuple[CompiledKernel, Callable[[], None]]:
    """Prepares the launch of one rank. The code is loaded here, because loading can wait for kernels that run."""
    stream = group.streams[rank]
    try:
        sizes = _sizes(group, rank, kernel, args, kwargs, sizes)
        plan = variant, _, shape, *_ = planned(kernel, *_values(group, rank, args, kwargs), stream, sizes)
        if isinstance(stream, GpuStream):
            variant.load(stream, shape)
    except LaunchError as error:
        raise LaunchError(f"{group.name(rank)}: {error.reason}", error.help) from None
    except Exception as error:
        error.add_note(f"on {group.name(rank)}")
        raise
    return variant, partial(start, *plan, stopped.is_set)


def _values(group: DeviceGroup, rank: int, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional and named arguments of a rank."""
    positional = [of_rank(value, group, rank, f"argument {i}") for i, value in enumerate(args)]
    return positional, {name: of_rank(value, group, rank, f"argument {name!r}") for name, value in kwargs.items()}
