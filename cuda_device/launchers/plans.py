"""Which launches machine code makes: after some by Python's way, the next ones like them.

    note(kernel, variant, stream, args, kwargs)     when Python has made so many launches: makes a launcher for such arguments
    ready(prepared)                                 the same for a prepared launch
    CUDA_DEVICE_NATIVE_LAUNCHER=0                   turns it off

A kernel keeps up to eight launchers, the newest first, in its attribute `native`: a tuple of a record for machine code, and of
what the record speaks of. A launch holds the tuple while it is under way, and a new launcher means a new tuple: so nothing is
freed under a launch's feet, in whatever thread it is. Wherever something stands in the way (another Python, a free-threaded one,
no machine code) launches are made by Python, as before.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cuda_device import logs
from cuda_device.codegen.cpu import machine_code
from cuda_device.device.options import CHECKED_VARIABLE
from cuda_device.device.parameters import defaults_of
from cuda_device.launchers import memory_layout, name_checks, process
from cuda_device.launchers.c_functions import SHARED, symbol_of
from cuda_device.launchers.cpu_running import MOST_SHARED, runner
from cuda_device.launchers.memory_layout import CALL, LAUNCH, MOST_PARAMETERS, MOST_PLANS, PLAN, PREPARED, START, Word
from cuda_device.launchers.shared_code import Support, python_functions, support
from cuda_device.launchers.signature import NAME, Signature, Unsupported, launcher
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.runtime.gpu import driver, launch_log, mailbox
from cuda_device.runtime.gpu.streams import CpuStream, GpuStream, Stream
from cuda_device.runtime.launch.binding import bind, parameters_of
from cuda_device.runtime.launch.grid import MOST_IN_BLOCK, Shape

if TYPE_CHECKING:
    from cuda_device.device.functions import Kernel
    from cuda_device.runtime.launch.launcher import Variant
    from cuda_device.runtime.launch.prepared import PreparedLaunch

VARIABLE = "CUDA_DEVICE_NATIVE_LAUNCHER"
_lock = threading.Lock()


@functools.cache
def is_wanted() -> bool:
    """Whether launchers are made: not where the environment, or this Python, is against it."""
    return os.environ.get(VARIABLE, "1") not in ("", "0") and memory_layout.is_usable()


@dataclass(frozen=True)
class Plan:
    """A launcher, and what must live as long as it does."""

    variant: Variant
    key: object
    function: int
    state: Any
    keep: tuple[object, ...]


def note(kernel: Kernel, variant: Variant, stream: Stream, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Makes a launcher for launches like one that Python has just made. Never raises."""
    with _Attempt(f"a launcher for {kernel!r}") as possible:
        if possible:
            _add(kernel, _plan(kernel, variant, stream, args, kwargs))


def ready(prepared: PreparedLaunch, variant: Variant, shape: Shape, parameters: Any, arguments: Any) -> None:
    """Lets machine code start a prepared launch from now on, if it can. `parameters` are the addresses in packed `arguments`."""
    stream = prepared.stream
    assert isinstance(stream, GpuStream)
    with _Attempt(f"machine code for {prepared!r}") as possible:
        if possible:
            start = _start_of(variant, stream, [])
            launch = memory_layout.buffer(_launch_record(stream, shape))
            record = memory_layout.pack(
                PREPARED,
                start=ctypes.addressof(start.record),
                launch=ctypes.addressof(launch),
                parameters=ctypes.addressof(parameters),
            )
            prepared.native = (record, start, launch, parameters, arguments)


class _Attempt:
    """Whatever goes wrong in the `with` block, launches are made by Python. One thread at a time tries."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._possible = False

    def __enter__(self) -> bool:
        self._possible = is_wanted() and _lock.acquire(blocking=False)
        return self._possible

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self._possible:
            _lock.release()
        if isinstance(error, Unsupported):
            logs.say(logs.DEBUG, "no %s: %s", self._what, error)
        elif isinstance(error, Exception):
            logs.say(logs.DEBUG, "no %s", self._what, error=error)
        return isinstance(error, Exception)


def _plan(kernel: Kernel, variant: Variant, stream: Stream, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Plan:
    assert isinstance(stream, (CpuStream, GpuStream))
    function, job = kernel.underlying, variant.work.job
    values = tuple(bind(function, args, kwargs, defaults_of(function)))
    if len(values) > MOST_PARAMETERS:
        raise Unsupported(f"{len(values)} parameters")
    asked = [name_checks.environment(CHECKED_VARIABLE)] if kernel.options.build.checked is None else []
    start = _start_of(variant, stream, asked) if isinstance(stream, GpuStream) else _runner_of(variant, stream, asked)
    signature = Signature(
        known=job.known,
        values=values,
        written=variant.written,
        aligned=variant.aligned,
        facts=None if kernel.options.interop else job.options.launch_facts,
        packing=variant.packing,
        described=variant.described,
        device=stream.ordinal if isinstance(stream, GpuStream) else None,
        start=ctypes.addressof(start.record),
    )
    made = launcher(signature)
    code = _machine_code(made.text)
    state = (ctypes.c_uint64 * max(1, len(made.words)))(*made.words)
    where = stream.context if isinstance(stream, GpuStream) else stream.target
    key = variant, where, _types_of(values)
    return Plan(variant, key, code.addresses[symbol_of(NAME)], state, (code, made.keep, start))


@functools.lru_cache(maxsize=256)
def _machine_code(text: str) -> machine_code.Linked:
    """The machine code of a launcher, which may serve several kernels."""
    symbols = {symbol_of(name): support().address(name) for name in SHARED}
    return machine_code.piece(text, lambda: text, [symbol_of(NAME)], symbols | python_functions(), quick=True)


def _types_of(value: Any) -> object:
    return tuple(map(_types_of, value)) if type(value) is tuple else type(value)


def _add(kernel: Kernel, plan: Plan) -> None:
    """The kernel's launchers with a new one, without those that it replaces or that are for code that is gone."""
    old: Sequence[Plan] = kernel.native[-1] if kernel.native else ()
    alive = set(map(id, kernel.variants.values()))
    others = [other for other in old if other.key != plan.key and id(other.variant) in alive]
    plans = (plan, *others)[:MOST_PLANS]
    function = kernel.underlying
    parameters, positional, *_ = parameters_of(function)
    hidden = function.__code__.co_posonlyargcount
    known = [sys.intern(name) for name in parameters]
    defaults = function.__defaults__ or ()
    values = [0] * (positional - len(defaults)) + [id(value) for value in defaults]
    tables = (
        _addresses(0 if i < hidden else id(name) for i, name in enumerate(known)),
        _addresses(values + [0] * (len(parameters) - positional)),
        memory_layout.buffer(
            b"".join(memory_layout.pack(PLAN, function=p.function, state=ctypes.addressof(p.state)) for p in plans)
        ),
    )
    record = memory_layout.pack(
        CALL,
        function=id(function),
        code=id(function.__code__),
        defaults=id(function.__defaults__) if function.__defaults__ is not None else 0,
        positional=positional,
        parameters=len(parameters),
        names=ctypes.addressof(tables[0]),
        values=ctypes.addressof(tables[1]),
        plans=len(plans),
        plan=ctypes.addressof(tables[2]),
    )
    kernel.native = (record, tables, known, function, function.__code__, function.__defaults__, plans)


def _addresses(values: Any) -> Any:
    found = list(values)
    return (ctypes.c_uint64 * max(1, len(found)))(*found)


@dataclass(frozen=True)
class _Start:
    """The record of a kernel that is loaded in a context, and what it speaks of."""

    record: Any
    keep: tuple[object, ...]


def _start_of(variant: Variant, stream: GpuStream, more: Sequence[name_checks.Row | None]) -> _Start:
    """The record of a variant in the stream's context, where it was launched before; `more` are names to be looked at, too."""
    _ready_support(on_gpu=True)
    if stream.handle == driver.PER_THREAD_STREAM:
        raise Unsupported("the per-thread stream")
    table = _names_of(variant, more)
    loaded, job = variant.loaded[stream.context], variant.work.job
    most = driver.properties(stream.ordinal).max_shared_optin - variant.work.shared_bytes
    status = mailbox.status_of(stream.context)
    record = memory_layout.pack(
        START,
        kernel=loaded.handle,
        context=stream.context,
        device=stream.ordinal,
        status=ctypes.addressof(status),
        names=table.address,
        count=table.count,
        most_threads=min(loaded.most_threads, job.options.max_threads or loaded.most_threads),
        most_shared=min(loaded.dynamic_shared, most),
        name=launch_log.number_of(job.name),
    )
    return _Start(memory_layout.buffer(record), (table, status, variant))


def _names_of(variant: Variant, more: Sequence[name_checks.Row | None]) -> name_checks.Names:
    rows = [*name_checks.rows_of(variant.work.dependencies), *more]
    if None in rows:
        raise Unsupported("names that only Python can compare")
    return name_checks.table_of([row for row in rows if row is not None])


def _runner_of(variant: Variant, stream: CpuStream, more: Sequence[name_checks.Row | None]) -> _Start:
    """The record of a variant that runs on the CPU: its kernel is a function of Python that runs it."""
    _ready_support(on_gpu=False)
    if stream.races or variant.prints:
        raise Unsupported("races are looked for, or the kernel prints")
    table, nothing = _names_of(variant, more), mailbox.status_of(0)
    run = runner(variant)
    record = memory_layout.pack(
        START,
        kernel=id(run),
        context=id(stream.target),
        device=-1,
        status=ctypes.addressof(nothing),
        names=table.address,
        count=table.count,
        most_threads=variant.work.job.options.max_threads or MOST_IN_BLOCK,
        most_shared=MOST_SHARED - variant.work.shared_bytes,
        name=0,
    )
    return _Start(memory_layout.buffer(record), (table, nothing, run, stream.target))


def _launch_record(stream: GpuStream, shape: Shape) -> bytes:
    x, y, z = shape.block
    sizes = zip((f"{name}_{axis}" for name in ("grid", "block") for axis in "xyz"), (*shape.grid, x, y, z), strict=True)
    where = {"stream": stream.handle, "context": stream.context, "device": stream.ordinal}
    return memory_layout.pack(LAUNCH, **where, **dict(sizes), shared=shape.dynamic, threads=x * y * z)


# Whether the words are set, and the driver whose functions they are.
_is_ready = False
_bindings: Any = None


def _ready_support(on_gpu: bool) -> Support:
    """The shared machine code, which knows this process and its driver, and is asked at each launch."""
    global _is_ready, _bindings
    found = support()
    if not _is_ready:
        from cuda_device.runtime.launch import launcher as launches
        from cuda_device.runtime.launch import prepared

        process.set_words(found)
        found.words[Word.PREPARED] = id(prepared.PreparedLaunch)
        if not process.hook(found, launches.launch, Word.LAUNCH, "launch_in_place"):
            launches.machine_launch = process.method(found, "launch_method")
        if not process.hook(found, prepared.PreparedLaunch.__call__, Word.START, "prepared_in_place"):
            prepared.machine_start = process.method(found, "prepared_method")
        _is_ready = True
    if on_gpu and _bindings is not driver.bindings():
        process.set_driver(found)
        _bindings = driver.bindings()
    # Whoever has launched on the default stream has asked for a GPU. Others are spared the driver.
    found.words[Word.NO_GPU] = driver.available.cache_info().currsize > 0 and not driver.available()
    process.learn_torch(found)
    return found


def forget() -> None:
    """Makes no use of what was made before: the driver is another one now."""
    global _bindings
    if _is_ready:
        _bindings = None
        process.clear_driver(support())
