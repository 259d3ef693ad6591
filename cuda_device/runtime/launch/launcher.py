"""`launch`: finds or compiles the variant of a kernel for the arguments, checks the launch, and starts it.

A kernel stores its variants by the target and by the facts about the arguments that the compiler may use. Before each launch, the
values of the global and closure variables that a variant read are compared with the current ones, and so are the contents of
arrays, lists and dicts among them; if one has changed, the kernel is compiled again.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
from _thread import RLock
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from cuda_device import hooks, logs
from cuda_device.codegen.gpu import elf
from cuda_device.codegen.gpu.elf import registers
from cuda_device.device.hints import parameters_of, with_hints
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import CallError, CompileError, Error, LaunchError, Location, too_deep
from cuda_device.instrument.outline import ReportPlace
from cuda_device.jobs import Job, Target, Work
from cuda_device.lazy_dataclasses import dataclass, field, replace
from cuda_device.runtime.arrays.array_view import ArrayView
from cuda_device.runtime.arrays.buffers import is_freed_behind
from cuda_device.runtime.gpu import driver, launch_log
from cuda_device.runtime.gpu.grid import MOST_POSITIONS, LaunchSizes, Shape, block_for, shape_of, sizes_of_config
from cuda_device.runtime.gpu.streams import CpuStream, GpuStream, Stream, as_stream
from cuda_device.runtime.launch.arguments import (
    Argument,
    arguments_of,
    bind,
    describe,
)
from cuda_device.types.architectures import MAXIMUM_STATIC_SHARED, moved_bytes, of_gpu, parse
from cuda_device.types.argument_packing import Packing, boundary_packing, packing
from cuda_device.types.known import runtime_types
from cuda_device.types.model import SMALL

if TYPE_CHECKING:
    from typing import Protocol

    from cuda_device.device.functions import Kernel
    from cuda_device.infer.contents import Content
    from cuda_device.types.known import Known

    class LaunchCompleter(Protocol):
        """What `launch` takes in place of a kernel, such as a `BoundKernel`: it fills in what launches leave out."""

        @property
        def underlying(self) -> Any:
            """The Python function of the kernel."""

        def completed(
            self, args: Sequence[Any], kwargs: dict[str, Any], sizes: LaunchSizes, stream: Stream
        ) -> tuple[Kernel, dict[str, Any], LaunchSizes]:
            """The kernel, its named arguments and the sizes of a launch."""

# Facts about the arrays of a launch, on which the compiler may rely.
#
#     small      every array has at most 2**30 - 2**16 elements along each axis and in all: indices and their sums fit 32 bits
#     disjoint   no array that the kernel writes shares memory with another one
#
# For each signature, a kernel has at most two variants: one for arrays with all of these properties, and one for all arrays.


def small(views: Sequence[ArrayView]) -> bool:
    """Whether 32 bits are enough for all lengths and indices, and for the sum of two of them."""
    for view in views:
        shape = view.shape
        if math.prod(shape) > SMALL or (0 in shape and max(shape) > SMALL):
            return False
    return True


def disjoint(views: Sequence[ArrayView], written: Collection[int]) -> bool:
    """Whether no array whose index is in `written` shares a byte with another one."""
    if len(views) < 2 or not written:
        return True
    spans = [view.span or view.find_span() for view in views]
    for i in written:
        low, high = spans[i]
        for j, (start, end) in enumerate(spans):
            if start < high and low < end and i != j and start < end and low < high:
                return False
    return True


def _check_facts(kernel: CompiledKernel, arguments: Sequence[Argument]) -> None:
    """Raises `LaunchError` for a kernel that relies on these facts, if they are not those of the arguments."""
    if not kernel.work.job.options.launch_facts:
        return
    views = [view for argument in arguments for view in argument.views]
    if not small(views) or not disjoint(views, kernel.work.outline.written):
        raise LaunchError(
            "the kernel was compiled with launch_facts=True, and its arrays are too large or share memory",
            "compile it without launch_facts, or copy the arrays",
        )


RECURSION = 32 * 1024
"""The stack of a thread in bytes for recursive kernels without the option `stack_size`."""
_PART = 8
"""The stacks of such kernels, for all threads that a GPU can hold at once, take at most an eighth of its memory."""


def provide(work: Work, ordinal: int) -> None:
    """Raises the stack limit of the current context, on device `ordinal`, for kernels with recursion or a `stack_size`.

    Raises `LaunchError` if the GPU does not have enough memory for the stacks.
    """
    properties = driver.properties(ordinal)
    share = properties.memory // _PART // (properties.multiprocessors * properties.resident_threads)
    stack = work.job.options.stack_size or (min(RECURSION, share) if has_recursion(work) else 0)
    if not stack:
        return
    try:
        driver.raise_stack_limit(stack)
    except LaunchError as error:
        raise LaunchError(
            f"{work.job.name} needs {stack} bytes of stack for each thread, which this GPU cannot provide ({error.reason})",
            "free memory of the GPU, or give the kernel a smaller stack_size",
        ) from None


def has_recursion(work: Work) -> bool:
    """Whether the machine code of a kernel is recursive."""
    code, symbol = work["cubin"].code, work.outline.symbol
    if elf.stacks(code).get(symbol) == elf.UNBOUNDED:
        return True
    # If LLVM has turned the recursion into a loop, there is only one function.
    return work.outline.recursive and elf.functions(code) != {symbol}


_LOCK = RLock()
_USUAL_BLOCK = 256
_MOST_RECENT = 64
_MANY_CHANGES = 16
FIRST_LAUNCHER = 8
"""The number of launches by Python before a launcher is compiled, which takes some milliseconds."""


@dataclass
class Loaded:
    """A kernel in a context: its handle, the largest block, and the largest dynamic shared memory that has been enabled."""

    handle: int
    most_threads: int
    dynamic_shared: int = MAXIMUM_STATIC_SHARED
    best_blocks: dict[int, int] = field(default_factory=dict)
    """The block sizes for "auto", by the dynamic shared memory."""


@dataclass
class CompiledKernel:
    """A compiled kernel: the compiler's work, the packing of its arguments, and the contexts in which it is loaded."""

    work: Work
    packing: Packing
    described: bool = False
    """Whether the arguments are passed as to a C++ kernel."""
    contents: tuple[Content, ...] = ()
    """The contents of arrays, lists and dicts that are arguments of `ConstExpr` parameters, when the kernel was compiled."""
    loaded: dict[int, Loaded] = field(default_factory=dict)
    launches: int = 0
    """The number of launches that Python has made."""
    next_launcher: int = FIRST_LAUNCHER
    """The number of launches at which the next launcher is compiled."""
    nvtx: bool = field(default_factory=lambda: os.environ.get("CUDA_DEVICE_NVTX", "") not in ("", "0"))
    """Whether each launch is an NVTX range. Python makes such launches."""
    executions: dict[tuple[int, int | None], Callable[..., None]] = field(default_factory=dict)
    """The kernel for launches on CPU streams, by the identity of their size and by their schedule."""

    @staticmethod
    def of(work: Work) -> CompiledKernel:
        """The kernel of finished work."""
        job = work.job
        described = job.interop and job.target.machine != "cpu"
        types = runtime_types(job.known)
        pack = boundary_packing(tuple(k.type for k in job.known)) if described else packing(types)
        return CompiledKernel(work, pack, described)

    def dynamic(self, shape: Shape) -> int:
        """The dynamic shared memory of a launch in bytes, including shared arrays that are too large for static memory."""
        return shape.dynamic + moved_bytes(self.work.shared_bytes)

    def load(self, stream: GpuStream, shape: Shape) -> None:
        """Loads the kernel into the context of a GPU stream, which may wait for kernels that run. Raises what `launch` does."""
        with stream.using():
            load(self, stream, self.dynamic(shape))

    def pack(self, arguments: Sequence[Argument]) -> Any:
        """Packs the arguments. Raises `LaunchError` for arrays that an interoperable kernel cannot take."""
        if self.work.job.interop:  # the same arrays are refused on the CPU
            described = describe(arguments, parameters_of(self.work.job.function).names)
            arguments = described if self.described else arguments
        return self.packing.pack([leaf for argument in arguments for leaf in argument.leaves])

    @functools.cached_property
    def reports(self) -> dict[int, ReportPlace]:
        """The places in the kernel that can report an error, including its barriers in checked mode."""
        barriers = {}
        if self.work.job.options.checked:
            from cuda_device.runtime.gpu.report_message import barrier_place

            waits = self.work.outline.waits.items()
            barriers = {n: barrier_place(place.location) for n, place in waits if not place.message}
        return {**barriers, **self.work.outline.reports}

    @functools.cached_property
    def places(self) -> dict[int, ReportPlace]:
        """The places where threads wait for each other, and those that can report an error."""
        return {**self.work.outline.waits, **self.reports}

    def __str__(self) -> str:
        """The argument types, the target, registers and shared memory."""
        job, target = self.work.job, self.work.job.target
        kinds = f"({', '.join(map(str, job.arguments))})"
        shared = self.work.shared_bytes
        memory = f", {shared} bytes of shared memory" if shared else ""
        if target.on_cpu:
            return f"{kinds} on the CPU as {target.architecture}{memory}"
        used = registers(self.work["cubin"].code).get(self.work.outline.symbol)
        return f"{kinds} on {target.architecture}" + (f", {used} registers" if used else "") + memory

    @functools.cached_property
    def current(self) -> Callable[[], bool]:
        """Returns whether all names that the compiler looked up still have the same values, with the same contents."""
        from cuda_device.infer.contents import unchanged  # kernels that are loaded from files have none

        return unchanged(self.work.dependencies, self.contents)


machine_launch: Callable[..., bool] | None = None
"""In Python 3.11: makes a launch by machine code, and returns whether it did. Later versions need no such call."""


def users_location() -> Location:
    """The location at which the user's program called this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and Location(frame.f_code.co_filename, 1).is_ours:
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)


def launch(
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
) -> None:
    """Runs `f(*args, **kwargs)` in each thread of `grid` blocks of `block` threads, asynchronously on a GPU stream.

    Numbers are converted to the type hints of their parameters. `grid` and `block` are ints or tuples of one to three ints,
    along x, y and z. Instead of `grid`, you can give `threads`, the minimum number of threads along each axis, such as `(width,
    height)`; the grid is then as large as necessary, so there may be more threads. If one of these numbers is 0, the arguments
    are checked and nothing is launched. `block="auto"` is the size with which a GPU runs the most threads at once, according to
    the driver's occupancy calculator, and 256 on the CPU stream. Without `block`, blocks have this size; if all `threads` fit
    into one, it has exactly these threads. `cluster` is the number of blocks in a cluster along each axis, at most 8 in all;
    the grid must consist of whole clusters (sm_90 and later). With `dependent=True`, the kernel may start before the previous
    one in the stream has ended, and calls `wait_dependencies` before it uses what that one writes (sm_90 and later). (If the
    kernel itself has a parameter called `threads`, `cluster` or `dependent`, the argument is passed to the kernel.) `config`, a
    `LaunchConfig` of `cuda.core`, gives all sizes at once; its grid counts clusters, if it has some. `shared` is the dynamic
    shared memory of a block in bytes. `stream` is a stream of this package, `cuda.core`, torch or CuPy, a `GraphBuilder` of
    `cuda.core`, which records the launch while it is building, anything with `__cuda_stream__`, a handle, or None for
    `default_stream()`.

    Raises `LaunchError` if the launch is impossible, `CompileError` if the kernel cannot be compiled, and, on the CPU stream,
    `KernelError` if the kernel reports an error. Specification: 'Kernel Functions'.
    """
    if machine_launch and (
        machine_launch(f, *args, grid=grid, block=block, stream=stream, shared=shared, **kwargs)
        if cluster is None and dependent is None
        else machine_launch(
            f,
            *args,
            grid=grid,
            block=block,
            stream=stream,
            shared=shared,
            cluster=cluster,
            dependent=dependent,
            **kwargs,
        )
    ):
        return
    try:
        where, sizes = as_stream(stream), LaunchSizes(grid, block, shared, threads, cluster, dependent)
        if hasattr(f, "completed"):
            kernel, kwargs, sizes = completed(f, args, kwargs, sizes, where)
            launch(kernel, *args, **kwargs, **sizes.given(), stream=where)  # which machine code may do
            return
        check_kernel(f)
        if threads is not None or cluster is not None or dependent is not None:
            sizes = sizes.without(kwargs, parameters_of(f.underlying).names)
        if "config" in kwargs and "config" not in parameters_of(f.underlying).names:
            sizes = _with_config(sizes, kwargs.pop("config"))
        plan = planned(f, args, kwargs, where, sizes)
        start(*plan)
        if isinstance(where, GpuStream):
            count_launches(f, [(plan[0], where, args, kwargs)])
    except Error as error:  # as in `users_traceback`, without another call for each launch
        raise error.with_traceback(None) from error.__cause__


def completed(
    f: object, args: Sequence[Any], kwargs: dict[str, Any], sizes: LaunchSizes, stream: Stream
) -> tuple[Kernel, dict[str, Any], LaunchSizes]:
    """The kernel, the named arguments and the sizes of a launch of `f`: a kernel, or an object with a method `completed`.

    Raises `CallError` if `f` is neither.
    """
    complete = getattr(f, "completed", None)
    if complete is None:
        check_kernel(f)
    kernel = cast("Kernel", f)
    sizes = sizes.without(kwargs, parameters_of(kernel.underlying).names)
    return complete(args, kwargs, sizes, stream) if complete else (kernel, kwargs, sizes)


def _with_config(sizes: LaunchSizes, config: Any) -> LaunchSizes:
    """The sizes of a launch with `config=…`. Raises `LaunchError` if other sizes are given, too."""
    if sizes != LaunchSizes():
        raise LaunchError("a launch with config=… has its sizes from there", "leave grid, block and shared out")
    return sizes_of_config(config)


Planned = tuple[CompiledKernel, Stream, Shape, Any, Sequence[Argument]]
"""What `start` takes: the variant of a kernel, the stream, the size, and the arguments, packed and read."""


def planned(
    kernel: Kernel,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    stream: Stream,
    sizes: LaunchSizes,
) -> Planned:
    """Prepares a launch: checks its sizes, reads the arguments, and finds or compiles the variant. Raises what `launch` does.

    `kernel` is one for which `check_kernel` does not raise.
    """
    options = kernel.options.build
    # None if the block is chosen for the compiled kernel. Impossible sizes are refused before it is compiled.
    shape = shape_of(sizes, options.max_threads, options.cluster)
    try:
        arguments = arguments_of(kernel.underlying, args, kwargs, stream)
        variant = variant_of(kernel, arguments, stream)
    except RecursionError:
        raise too_deep("the arguments are", LaunchError) from None
    if shape is None:
        shape = sized(variant, stream, sizes)
    return variant, stream, shape, variant.pack(arguments), arguments


def sized(variant: CompiledKernel, stream: Stream, sizes: LaunchSizes) -> Shape:
    """The shape of a launch, whose block may be left open. Raises `LaunchError`."""
    options = variant.work.job.options
    limits = options.max_threads, options.cluster
    shape = shape_of(sizes, *limits)
    if shape is None:
        block, threads = _best_block(variant, stream, sizes.shared), sizes.threads
        if threads is not None:
            block = block_for(block, threads, may_shrink=sizes.block is None)
        shape = shape_of(sizes._replace(block=block), *limits)
        assert shape is not None
    return shape


def _best_block(variant: CompiledKernel, stream: Stream, shared: Any) -> int:
    """The number of threads of a block with which the device runs the most threads at once."""
    if not isinstance(stream, GpuStream):
        return min(_USUAL_BLOCK, variant.work.job.options.max_threads or _USUAL_BLOCK)
    shape = shape_of(LaunchSizes(1, 1, shared))
    assert shape is not None
    dynamic = variant.dynamic(shape)
    with stream.using():
        kernel = load(variant, stream, dynamic)
        if dynamic not in kernel.best_blocks:
            kernel.best_blocks[dynamic] = driver.best_block(kernel.handle, dynamic, kernel.most_threads)
        return kernel.best_blocks[dynamic]


def _make_launcher(
    kernel: Kernel, variant: CompiledKernel, stream: GpuStream, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Compiles a launcher for launches like one that Python has made, if the plugin for it is installed."""
    global machine_launch
    plans = hooks.installed(hooks.LAUNCHERS)
    if plans is None:
        return
    function = kernel.underlying
    plans.note(kernel, variant, stream, bind(function, args, kwargs, defaults_of(function)), launch)
    machine_launch = plans.asked_first()


def count_launches(
    kernel: Kernel, launches: Sequence[tuple[CompiledKernel, GpuStream, Sequence[Any], Mapping[str, Any]]]
) -> None:
    """Counts launches that `start` has made, and compiles launchers for more of them after 8, 16, 32, … launches.

    A launch is the variant, the stream, and the positional and named arguments.
    """
    is_due = False
    for variant, *_ in launches:
        variant.launches += 1
        if variant.launches >= variant.next_launcher and not variant.nvtx:
            variant.next_launcher *= 2
            is_due = True
    if is_due:
        for launch in launches:
            _make_launcher(kernel, *launch)


def machine_launches() -> tuple[Callable[..., bool], Callable[..., bool]] | None:
    """Two functions with the parameters of `launch`; None if the plugin for launches by machine code is not installed.

    The first one returns whether machine code can make a launch, the second one makes it and returns whether it did. The
    stream's context must be current.
    """
    plans = hooks.installed(hooks.LAUNCHERS)
    return plans.methods() if plans is not None else None


def check_kernel(f: object) -> None:
    """Raises `CallError` unless `f` is a kernel."""
    from cuda_device.device.functions import Func, Kernel  # kernels that are loaded from files have none

    if isinstance(f, Kernel):
        return
    if isinstance(f, (Func, FunctionType)):
        raise CallError(f"launch needs a kernel, not the function {f.__qualname__}", "decorate it with @kernel")
    described = f"an object of type {type(f).__name__}"
    remedy = "call its own launch(…)" if hasattr(f, "launch") else "write launch(kernel, …, grid=…, block=…)"
    raise CallError(f"launch needs a kernel, not {described}", remedy)


def variant_of(kernel: Kernel, arguments: Sequence[Argument], stream: Stream) -> CompiledKernel:
    """The variant for these arguments: the one that relies on the facts about arrays, if they hold."""
    views = [view for argument in arguments for view in argument.views]
    if not kernel.options.interop and small(views):
        try:
            variant = _recent(kernel, arguments, stream, True)
        except CompileError:
            return _recent(kernel, arguments, stream, False)  # for the same error without the facts
        if disjoint(views, variant.work.outline.written):
            return variant
    return _recent(kernel, arguments, stream, False)


def _recent(kernel: Kernel, arguments: Sequence[Argument], stream: Stream, launch_facts: bool) -> CompiledKernel:
    """The variant with or without the facts, usually found by the identity of the `Known` objects of the arguments."""
    on_cpu = isinstance(stream, CpuStream)
    checked = kernel.options.build.is_checked(on_cpu)
    known = tuple([argument.known for argument in arguments])
    code = kernel.underlying.__code__
    queue = (stream.target, stream.races, stream.schedule is None) if on_cpu else stream.ordinal  # type: ignore[attr-defined]
    # Hashing and comparing `Known` objects would take some microseconds.
    key = checked, launch_facts, queue, id(code), *map(id, known)
    recent = kernel.recent.get(key)
    if recent is not None and recent[0].current():
        variant: CompiledKernel = recent[0]
        return variant
    variant = _compiled(kernel, known, stream, checked, launch_facts)
    if len(kernel.recent) >= _MOST_RECENT:
        kernel.recent.clear()
    kernel.recent[key] = variant, code, known  # the key contains the addresses of `code` and `known`
    return variant


def _compiled(
    kernel: Kernel, known: tuple[Known, ...], stream: Stream, checked: bool, launch_facts: bool
) -> CompiledKernel:
    """The variant, which is compiled if there is none, or if a name has changed."""
    function = kernel.underlying
    target = _target(stream)
    key = (function.__code__, known, target, checked, launch_facts)
    variant: CompiledKernel | None = kernel.variants.get(key)
    if variant is not None and variant.current():
        return variant
    with _LOCK:
        variant = kernel.variants.get(key)
        if variant is None or not variant.current():
            if variant is not None:
                _warn_of_changes(kernel, variant)
            options = replace(kernel.options.build, checked=checked, launch_facts=launch_facts)
            job = Job(
                function,
                with_hints(function, known),
                True,
                target,
                options,
                kernel.options.interop,
                kernel.options.link,
            )
            from cuda_device import compiler
            from cuda_device.infer.contents import contents_of

            contents = contents_of(tuple(argument.python for argument in known))
            variant = CompiledKernel.of(compiler.run(job))
            variant.contents = contents
            variant.nvtx |= kernel.options.nvtx
            kernel.variants[key] = variant
    return variant


def _warn_of_changes(kernel: Kernel, stale: CompiledKernel) -> None:
    """Logs, once for each kernel, that it is compiled again and again because of changing variables."""
    kernel.changes += 1
    if kernel.changes == _MANY_CHANGES:
        names = sorted({dependency.name for dependency in stale.work.dependencies if not dependency.current()})
        logs.say(
            logs.WARNING,
            "%r has been compiled %d times because global or closure variables that it reads changed between "
            "launches (%s): pass them as arguments",
            kernel,
            kernel.changes,
            ", ".join(names),
        )


def _target(stream: Stream) -> Target:
    """The machine that runs the launches of a stream: for a GPU, the variant of its architecture that has all its features."""
    if isinstance(stream, CpuStream):
        return Target(parse(stream.target), "cpu", stream._options)
    assert isinstance(stream, GpuStream)
    return Target(of_gpu(*driver.properties(stream.ordinal).capability))


def start(
    variant: CompiledKernel,
    stream: Stream,
    shape: Shape,
    buffer: Any,
    arguments: Sequence[Argument],
    stopped: Callable[[], bool] | None = None,
) -> None:
    """Starts a compiled kernel with packed arguments, unless it has 0 threads.

    On a CPU stream it runs to its end, or until `stopped` returns True.
    """
    if 0 in shape.grid:
        return
    begin: Callable[..., None] = _start_on_gpu if isinstance(stream, GpuStream) else _start_on_cpu
    if variant.nvtx:
        with _range(variant.work.job.name):
            begin(variant, stream, shape, buffer, arguments, stopped)
    else:
        begin(variant, stream, shape, buffer, arguments, stopped)


def _range(name: str) -> AbstractContextManager[Any]:
    """An NVTX range. Raises `LaunchError` if the package is not installed."""
    try:
        import nvtx
    except ImportError:
        remedy = "pip install nvtx, or leave out @kernel(nvtx=True) and CUDA_DEVICE_NVTX=1"
        raise LaunchError("NVTX ranges need the package nvtx", remedy) from None
    return cast("AbstractContextManager[Any]", nvtx.annotate(name, domain="cuda_device"))


def _keep(stream: GpuStream, views: Sequence[ArrayView]) -> None:
    """Keeps arrays alive until the launches on the stream have ended, or forever if they are captured into a graph.

    This is not necessary for our own memory that is freed in the order of the stream.
    """
    owners = [view.keep_alive for view in views]
    if owners and not (
        all(is_freed_behind(owner, stream) for owner in owners) and not driver.is_capturing(stream.handle)
    ):
        stream.retain(*owners)


def _start_on_cpu(
    variant: CompiledKernel,
    stream: CpuStream,
    shape: Shape,
    buffer: Any,
    arguments: Sequence[Argument],
    stopped: Callable[[], bool] | None,
) -> None:
    key = id(shape), stream.schedule
    execution = variant.executions.get(key)  # which keeps the shape, and so its address
    if execution is None:
        if len(variant.executions) >= _MOST_RECENT:
            variant.executions.clear()
        execution = variant.executions[key] = _execution(variant, stream, shape)
    for argument in arguments:
        for view in argument.views:
            if view.stream is not None:  # managed memory, which a GPU may be writing
                with driver.using(driver.context_of(view.ordinal)):
                    driver.synchronize_stream(view.stream)
    if not stream.record_launch(variant, shape, buffer, arguments):
        execution(buffer, arguments, stopped)


def _execution(variant: CompiledKernel, stream: CpuStream, shape: Shape) -> Callable[..., None]:
    """The kernel for launches of this size on a CPU stream. Raises `LaunchError` if it cannot be launched so."""
    cpu, job = hooks.target("cpu"), variant.work.job
    _check_size(variant, shape, job.target.architecture.most_shared)
    if variant.work.outline.cooperative:
        _check_resident(variant, shape, cpu.most_resident(), "the CPU stream")
    return cpu.execution(variant, shape, stream.schedule)  # type: ignore[no-any-return]


def _check_size(variant: CompiledKernel, shape: Shape, most_shared: int) -> None:
    """Raises `LaunchError` for a size that the kernel does not allow, or a device with so much shared memory for a block."""
    check_positions(variant, shape)
    architecture = variant.work.job.target.architecture
    if architecture.number < 90:
        if shape.cluster != (1, 1, 1):
            raise LaunchError(
                f"cluster={shape.cluster}: {architecture} has no clusters", "leave cluster out, or use sm_90 or later"
            )
        if shape.dependent:
            raise LaunchError(
                f"dependent=True: {architecture} has no dependent launches",
                "leave dependent out, or use sm_90 or later",
            )
    static, most = variant.work.shared_bytes, max(MAXIMUM_STATIC_SHARED, most_shared)
    static = moved_bytes(static) or static
    if static + shape.dynamic > most:
        raise LaunchError(
            f"shared={shape.dynamic}: together with {static} bytes of shared arrays, this exceeds the limit of {most} bytes per "
            "block",
            f"request at most {max(0, most - static)} bytes, or make the shared arrays smaller",
        )


def check_positions(variant: CompiledKernel, shape: Shape) -> None:
    """Raises `LaunchError` if `tid` or `grid_size` of the kernel would overflow int32, which is only possible along x."""
    threads = shape.grid[0] * shape.block[0]
    if threads >= MOST_POSITIONS and variant.work.outline.positions:
        raise LaunchError(
            f"grid={shape.grid}, block={shape.block}: {threads} threads along x, but tid and grid_size are int32 and support "
            "fewer than 2**31",
            "launch fewer blocks and let each thread loop in steps of grid_size(1), or compute "
            "int64(block_idx.x) * block_dim.x + thread_idx.x instead",
        )


def _check_resident(variant: CompiledKernel, shape: Shape, most: int, where: str) -> None:
    """Raises `LaunchError` for a cooperative launch whose blocks cannot all run at once."""
    x, y, z = shape.grid
    if x * y * z > most:
        raise LaunchError(
            f"grid={shape.grid}: {variant.work.job.name} calls grid_sync, which needs all blocks to run at the same time, but "
            f"{where} can run only {most} blocks of block={shape.block}",
            f"launch at most {most} blocks, and let each thread loop in steps of grid_size(1)"
            if most
            else "launch smaller blocks",
        )


def _start_on_gpu(
    variant: CompiledKernel, stream: GpuStream, shape: Shape, buffer: Any, arguments: Sequence[Argument], _: object
) -> None:
    """Launches a kernel on a stream in order with the streams on which its arrays are produced, and keeps the arrays alive."""
    views = [view for argument in arguments for view in argument.views]
    with stream.using():
        _launch_by_driver(variant, stream, shape, buffer, views)
        if not stream.record_launch(variant, shape, buffer, arguments):
            _keep(stream, views)


def _launch_by_driver(
    variant: CompiledKernel, stream: GpuStream, shape: Shape, buffer: Any, views: Sequence[ArrayView]
) -> None:
    """Launches a kernel on a stream, whose context is current."""
    _check_size(variant, shape, driver.properties(stream.ordinal).max_shared_optin)
    driver.raise_report(stream.context)
    dynamic = variant.dynamic(shape)
    kernel = load(variant, stream, dynamic)
    x, y, z = shape.block
    if x * y * z > kernel.most_threads:
        raise LaunchError(
            f"block={shape.block}: {variant.work.job.name} allows at most "
            f"{kernel.most_threads} threads per block, because of its registers or limits",
            f"launch smaller blocks, or compile it for this size: @kernel(max_threads={x * y * z})",
        )
    cooperative = variant.work.outline.cooperative
    if cooperative:
        at_once = driver.resident_blocks(kernel.handle, x * y * z, dynamic)
        _check_resident(variant, shape, at_once * driver.properties(stream.ordinal).multiprocessors, "this GPU")
    offsets, base = variant.packing.offsets, ctypes.addressof(buffer)
    addresses = (ctypes.c_void_p * max(1, len(offsets)))(*(base + offset for offset in offsets))
    foreign = foreign_streams(stream, views)
    driver.order(foreign, (stream.handle,))
    # The driver knows the cluster size that a kernel was compiled for.
    cluster = shape.cluster if variant.work.job.options.cluster is None else (1, 1, 1)
    driver.launch(
        kernel.handle,
        shape.grid,
        shape.block,
        dynamic,
        stream.handle,
        ctypes.addressof(addresses),
        cooperative,
        cluster,
        shape.dependent,
    )
    launch_log.launched(variant.work.job.name, shape.grid, shape.block, stream.context, stream.handle)
    driver.order((stream.handle,), foreign)


def start_variant(variant: CompiledKernel, stream: Stream, sizes: LaunchSizes, arguments: Sequence[Argument]) -> None:
    """Starts a compiled kernel with arguments of its types. Raises `LaunchError` for impossible sizes."""
    shape = sized(variant, stream, sizes)
    _check_facts(variant, arguments)
    start(variant, stream, shape, variant.pack(arguments), arguments)


def start_together(
    stream: GpuStream, begin: Callable[[], object], launches: Sequence[tuple[CompiledKernel, Shape, Sequence[Argument]]]
) -> None:
    """Starts several launches on a GPU stream by calling `begin`, which submits all of them, as a CUDA graph does.

    The stream's context is current. They wait for the streams on which their arrays are produced, which then wait for them, and
    errors of kernels that are reported later name them. The caller keeps the arrays alive. Raises `KernelError` if a kernel has
    reported an error.
    """
    driver.raise_report(stream.context)
    foreign = foreign_streams(stream, [view for *_, arguments in launches for a in arguments for view in a.views])
    driver.order(foreign, (stream.handle,))
    begin()
    for variant, shape, _ in launches:
        launch_log.launched(variant.work.job.name, shape.grid, shape.block, stream.context, stream.handle)
    driver.order((stream.handle,), foreign)


def foreign_streams(stream: GpuStream, views: Sequence[ArrayView]) -> set[int]:
    """The streams with which a launch has to be ordered."""
    if not stream.ordered:
        return set()
    producers = {view.stream for view in views if view.stream is not None and view.stream != stream.handle}
    if producers and driver.is_capturing(stream.handle):
        # Only streams of the same capture can be ordered. (The body of a conditional node is a capture of its own.) Whoever
        # launches the graph orders it with other streams.
        capture = driver.capture_number(stream.handle)
        return {producer for producer in producers if capture and driver.capture_number(producer) == capture}
    return producers


def load(variant: CompiledKernel, stream: GpuStream, dynamic: int) -> Loaded:
    """The kernel in the stream's context, in which it is loaded once. Enables the dynamic shared memory of the launch."""
    kernel = variant.loaded.get(stream.context)
    if kernel is not None and dynamic <= kernel.dynamic_shared:
        return kernel
    with _LOCK:
        kernel = variant.loaded.get(stream.context)
        if kernel is None:
            kernel = variant.loaded[stream.context] = _loaded(variant, stream)
        if dynamic > kernel.dynamic_shared:  # another thread may have enabled more
            driver.set_max_dynamic_shared(kernel.handle, dynamic, stream.ordinal)
            kernel.dynamic_shared = dynamic
        return kernel


def _loaded(variant: CompiledKernel, stream: GpuStream) -> Loaded:
    """Loads the kernel in the current context. If code from the cache fails to load, it is compiled again."""
    try:
        return _load_here(variant, stream)
    except Exception:
        if not variant.work.cached:
            raise
        from cuda_device import compiler

        variant.work = compiler.run(variant.work.job, afresh=True)
        for learnt in ("reports", "places", "current"):
            vars(variant).pop(learnt, None)
        return _load_here(variant, stream)


def _load_here(variant: CompiledKernel, stream: GpuStream) -> Loaded:
    work = variant.work
    library = driver.load_library(work["cubin"].code)
    if variant.reports:
        from cuda_device.runtime.gpu import report_message

        report_message.attach(library, work.outline.symbol, variant.reports)
    handle = driver.get_kernel(library, work.outline.symbol)
    provide(work, stream.ordinal)
    return Loaded(handle, driver.most_threads(handle, stream.ordinal))


def synchronize(stream: Any = None) -> None:
    """Waits until all launches on `stream` have finished. Raises a `KernelError` if a kernel has reported an error."""
    as_stream(stream).synchronize()


__all__ = ["launch", "synchronize"]
