"""`graph`: CUDA graphs, which record launches and start all of them with one call.

    with device.graph(stream) as steps:
        device.launch(predict, x, y, grid=64, block=256, stream=steps.stream)
        device.launch(correct, y, x, grid=64, block=256, stream=steps.stream)
    for _ in range(1000):
        steps.launch()

    with steps.update():                                    # the same launches, with other arguments
        device.launch(predict, u, v, grid=32, block=256, stream=steps.stream)
        device.launch(correct, v, u, grid=32, block=256, stream=steps.stream)

On a GPU, the graph captures its stream, so it also contains the work that other libraries submit to that stream. On a CPU stream,
it stores the launches and runs them when it is launched.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

from cuda_device import CpuStream, GpuStream, LaunchError, Stream
from cuda_device.extend import (
    Argument,
    CompiledKernel,
    Location,
    Shape,
    as_stream,
    dataclass,
    driver,
    start,
    start_together,
    users_location,
    users_traceback,
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A launch of a graph: the kernel and its arguments, the location in the user's program, and the graph's node."""

    variant: CompiledKernel
    shape: Shape
    buffer: Any
    arguments: Sequence[Argument]
    location: Location
    node: int = 0

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.variant.work.job.name


class _CpuRecorder(CpuStream):
    """A CPU stream whose launches are recorded instead of run."""

    __slots__ = ("recorded",)
    recorded: list[Recorded]
    is_captured = True

    def record_launch(self, variant: Any, shape: Any, buffer: Any, arguments: Any) -> bool:
        self.recorded.append(Recorded(variant, shape, buffer, arguments, users_location()))
        return True


class _GpuRecorder(GpuStream):
    """A stream that is being captured. The graph keeps the arguments of its launches and orders them with other streams."""

    __slots__ = ("recorded",)
    recorded: list[Recorded]

    def record_launch(self, variant: Any, shape: Any, buffer: Any, arguments: Any) -> bool:
        node = newest_node(self.handle)
        self.recorded.append(Recorded(variant, shape, buffer, arguments, users_location(), node))
        return True


class Graph:
    """A sequence of launches that are started together; created by `graph` and recorded in a `with` block."""

    __slots__ = ("__weakref__", "_executable", "_launches", "_recorder", "_where")

    def __init__(self, stream: Any) -> None:
        self._where: Stream = as_stream(stream)
        self._launches: Sequence[Recorded] | None = None
        self._recorder: _CpuRecorder | _GpuRecorder | None = None
        self._executable = 0

    @property
    def stream(self) -> Stream:
        """The stream whose launches are recorded within the `with` block. Raises `LaunchError` outside of it."""
        if self._recorder is None:
            raise LaunchError(
                "the graph is not being built", "launch on graph.stream within `with graph:` or `with graph.update():`"
            )
        return self._recorder

    @users_traceback
    def __enter__(self) -> Self:
        if self._recorder is not None:
            raise LaunchError("the graph is being built already", "end the `with` block first")
        where = self._where
        if isinstance(where, CpuStream):
            recorder: _CpuRecorder | _GpuRecorder = _CpuRecorder(where.target, where.races, where.schedule)
        else:
            assert isinstance(where, GpuStream)
            with where.using():
                handle = driver.begin_capture(where.handle)
            recorder = _GpuRecorder(handle, where.ordinal, where.owner, context=where.context, ordered=False)
        object.__setattr__(recorder, "recorded", [])
        self._recorder = recorder
        return self

    @users_traceback
    def __exit__(self, kind: object, *_: object) -> None:
        recorder, self._recorder = self._recorder, None
        if isinstance(recorder, CpuStream):
            if kind is None:
                self._check_count(recorder.recorded)
                self._launches = recorder.recorded
            return
        where = self._where
        assert isinstance(recorder, GpuStream) and isinstance(where, GpuStream)
        with recorder.using(), contextlib.suppress(*([] if kind is None else [LaunchError])):
            captured = driver.end_capture(recorder.handle, where.handle)
            try:
                if kind is None:
                    self._take(captured, recorder.recorded)
            finally:
                driver.check(driver.bindings().cuGraphDestroy(captured), "destroying a graph")

    def _take(self, captured: int, launches: Sequence[Recorded]) -> None:
        """Creates or updates the executable graph. Raises `LaunchError` if it cannot be updated, and leaves it unchanged."""
        if not self._executable:
            self._executable = _instantiate(captured)
            weakref.finalize(self, _destroy, self._executable).atexit = False
        else:
            self._check_count(launches)
            failure = _update(self._executable, captured)
            if failure is not None:
                why, node = failure
                culprits = [launch for launch in launches if launch.node == node]
                described = f"with the launch of {culprits[0].name} at {culprits[0].location}" if culprits else "so"
                raise LaunchError(f"the graph cannot be updated {described}: the driver says {why}", _AS_BEFORE)
        self._launches = launches

    def _check_count(self, launches: Sequence[Recorded]) -> None:
        """Raises `LaunchError` if an update has more or fewer launches than the graph."""
        if self._launches is None or len(self._launches) == len(launches):
            return
        had, has = len(self._launches), len(launches)
        odd = launches[had] if has > had else self._launches[has]
        said = "is extra" if has > had else "is missing"
        raise LaunchError(
            f"the graph has {had} launch{'es' * (had != 1)} but its update has {has}: the launch of {odd.name} at "
            f"{odd.location} {said}",
            _AS_BEFORE,
        )

    @users_traceback
    def update(self) -> Graph:
        """Use `with graph.update():` to record the same launches again with other arguments, sizes or kernels.

        At the end of the block they replace the old ones; earlier launches of the graph are not affected. If the driver cannot
        make this update (`cuGraphExecUpdate`), the end of the block raises `LaunchError` and leaves the graph unchanged. This
        happens if there are more or fewer launches, or if they depend on each other in another way.
        """
        self._built()
        return self

    @users_traceback
    def launch(self, stream: Any = None) -> None:
        """Starts everything in the graph, in order, on `stream`, by default the stream that the graph was created for.

        The graph waits for the streams on which, when it was recorded, the arrays of its launches were produced; these streams
        wait for the graph. Raises `LaunchError`, and, on a CPU stream, a `KernelError` if a kernel reports an error.
        """
        launches = self._built()
        where = self._where if stream is None else as_stream(stream)
        if isinstance(where, CpuStream) != isinstance(self._where, CpuStream):
            raise LaunchError(
                f"the graph was built for {self._where}, and cannot be launched on {where}", "build one for that stream"
            )
        if isinstance(where, CpuStream):
            for recorded in launches:
                start(recorded.variant, where, recorded.shape, recorded.buffer, recorded.arguments)
            return
        assert isinstance(where, GpuStream)
        with where.using():
            begin = partial(_launch, self._executable, where.handle)
            starts = [(recorded.variant, recorded.shape, recorded.arguments) for recorded in launches]
            start_together(where, begin, starts)
            where.retain(self, launches)

    def _built(self) -> Sequence[Recorded]:
        if self._launches is None:
            raise LaunchError("the graph has not been built", "make its launches within `with graph:`")
        return self._launches

    def __repr__(self) -> str:
        names = [recorded.name for recorded in self._launches or ()]
        count = f"{len(names)} launch{'es' * (len(names) != 1)}"
        return f"<graph of {count}: {', '.join(names)}>" if names else "<graph without launches>"


_AS_BEFORE = "make the same launches in the same order, with other arguments or sizes, or build another graph"


# The driver's graphs


def newest_node(stream: int) -> int:
    """The newest graph node of `stream`, which is being captured."""
    answer = driver.bindings().cuStreamGetCaptureInfo(stream)
    _, _, _, nodes, *_, count = driver.check(answer, "asking for the newest node of a graph")
    return int(ctypes.c_uint64.from_address(nodes + 8 * (count - 1)).value) if count else 0


def _instantiate(graph: int) -> int:
    """Instantiates an executable graph."""
    settings = (ctypes.c_uint64 * 4)()  # CUDA_GRAPH_INSTANTIATE_PARAMS, all defaults
    answer = driver.bindings().cuGraphInstantiateWithParams(graph, ctypes.addressof(settings))
    return int(driver.check(answer, "making a graph executable"))


def _update(executable: int, graph: int) -> tuple[str, int] | None:
    """Updates an executable graph with the parameters of a graph. Returns None, or the reason for failure and the node."""
    api = driver.bindings()
    told = (ctypes.c_uint64 * 3)()  # CUgraphExecUpdateResultInfo: an enumeration, and two nodes
    (status,) = api.cuGraphExecUpdate(executable, graph, ctypes.addressof(told))
    if not (why := told[0] & 0xFFFF_FFFF):
        driver.check((status,), "updating a graph")
        return None
    names = {value: name for name, value in vars(api.CUgraphExecUpdateResult).items()}
    return names.get(why, f"CUgraphExecUpdateResult {why}"), int(told[1])


def _launch(executable: int, stream: int) -> None:
    driver.check(driver.bindings().cuGraphLaunch(executable, stream), "launching a graph")


def _destroy(executable: int) -> None:
    """Destroys an executable graph that can no longer be launched."""
    with contextlib.suppress(Exception), driver.BesideCaptures():
        driver.bindings().cuGraphExecDestroy(executable)


def graph(stream: Any = None) -> Graph:
    """Returns a graph, which records launches on its `stream` in a `with` block and is then launched as a whole.

    `stream` is a stream as for `launch`, on which the graph is launched by default. Nothing runs within the block. The graph
    keeps the arrays of its launches alive, and each launch of the graph uses their current contents. Create arrays before the
    block. Work that other libraries submit to `graph.stream` on a GPU becomes part of the graph, too, but the graph does not
    keep its arrays alive. Raises `LaunchError` for anything that is not a stream, and for a stream that cannot be captured.
    """
    return Graph(stream)
