"""Decides which launches machine code makes, and when a plan is made for them.

    note(kernel, variant, stream, values, launch)   makes a plan for launches like one that Python has made
    CUDA_DEVICE_NATIVE_LAUNCHER=0                   turns it off

A kernel keeps up to eight plans, the newest first, in its attribute `native`: a tuple of a record for machine code and of the
objects to which the record refers. A launch holds this tuple while it runs, and a new plan creates a new tuple, so nothing is
freed while any thread still uses it. If machine code cannot be used (another Python, a free-threaded Python, no CPU target),
Python makes all launches.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from cuda_device import DeviceArray, GpuStream, Kernel, logs
from cuda_device.device.options import CHECKED_VARIABLE
from cuda_device.device.parameters import parameter_names
from cuda_device.extend import architectures, dataclass, driver
from cuda_device.plugins.launchers import c_api, dependency_table, framework_fields, memory_layout
from cuda_device.plugins.launchers.memory_layout import (
    MOST_PARAMETERS,
    MOST_PLANS,
    MOST_STREAM_TYPES,
    Call,
    OwnedRecord,
    Prepared,
    SeenStream,
    Start,
    StreamType,
    Word,
)
from cuda_device.plugins.launchers.signature import UnsupportedSignature, plan_of
from cuda_device.runtime.gpu import launch_log, report_message, streams

if TYPE_CHECKING:
    from cuda_device.extend import CompiledKernel

# The machine code, the data of the process that it needs, and how calls of `launch` reach it.
#
# Python 3.12 and later can replace the C function behind the calls of a Python function: a call of `launch` runs machine code,
# which calls the Python function if it gives up. In Python 3.11, `launch` calls machine code first.


_CALLED = "cuda_device.called"


@dataclass(frozen=True)
class Support:
    """The machine code in this process: the address of `entry.called`, and the table of words."""

    called: int
    words: ctypes.Array[ctypes.c_uint64]


def _text() -> str:
    from cuda_device.plugins.launchers import entry  # not needed if the machine code is in the cache

    return c_api.entry_text(entry.called, _CALLED, entry.RARE, entry.HOT)


@functools.cache
def support() -> Support:
    """Loads the machine code, from the cache if it is there. All words are zero."""
    from cuda_device.cpu import machine_code  # the CPU target may be missing

    exports = _CALLED, c_api.TABLE
    name = f"launchers {memory_layout.offsets()}"
    addresses = machine_code.shared_functions(name, _text, exports, c_api.python_functions())
    table: Any = ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses[c_api.TABLE])()
    return Support(addresses[_CALLED], (ctypes.c_uint64 * len(Word)).from_address(table))


_OBJECTS = {
    Word.NONE: None,
    Word.TRUE: True,
    Word.FALSE: False,
    Word.CAPTURED: streams.captured,
    Word.BOOL: bool,
    Word.INT: int,
    Word.FLOAT: float,
    Word.STR: str,
    Word.TUPLE: tuple,
    Word.BYTES: bytes,
    Word.KERNEL: Kernel,
    Word.GPU_STREAM: GpuStream,
    Word.DEVICE_ARRAY: DeviceArray,
    **{word: sys.intern(word.name.lower()) for word in Word if Word.GRID <= word <= Word.APPEND},
    Word.CUDA_STREAM: "__cuda_stream__",
}
"""Objects that machine code compares by address or passes to Python. This table keeps them alive."""

_DRIVER = {
    Word.LAUNCH_KERNEL: "cuLaunchKernel",
    Word.LAUNCH_WITH_ATTRIBUTES: "cuLaunchKernelEx",
    Word.GET_CONTEXT: "cuCtxGetCurrent",
    Word.CAPTURE_STATE: "cuStreamIsCapturing",
    Word.CAPTURE_INFO: "cuStreamGetCaptureInfo",
    Word.CONTEXT_OF_STREAM: "cuStreamGetCtx",
    Word.CREATE_EVENT: "cuEventCreate",
    Word.DESTROY_EVENT: "cuEventDestroy",
    Word.RECORD_EVENT: "cuEventRecord",
    Word.WAIT_EVENT: "cuStreamWaitEvent",
}
_FASTCALL_WITH_KEYWORDS = 0x0080 | 0x0002

_vector_call_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyVectorcall_Function", ctypes.pythonapi))


def _set_driver(support: Support) -> None:
    """Sets the words that depend on the driver."""
    for word, name in _DRIVER.items():
        support.words[word] = driver.entry_point(name)
    support.words[Word.RING] = ctypes.addressof(launch_log.RING)
    support.words[Word.SEVERAL_DEVICES] = driver.device_count() > 1


def learn_streams() -> None:
    """Enters the stream types of the frameworks that have been imported so far."""
    for row, (module, path, name) in enumerate(_STREAMS):
        kind: Any = sys.modules.get(module)
        for part in path.split("."):
            kind = getattr(kind, part, None)
        here = row * len(StreamType)
        if isinstance(kind, type) and not _stream_types[here]:
            _kept.append(kind)
            open_at = memory_layout.TYPE if name else framework_fields.core_stream_open(kind)
            _stream_types[here : here + 3] = [id(kind), id(name) if name else 0, open_at]


_STREAMS = (
    ("torch", "cuda.Stream", "cuda_stream"),
    ("cupy", "cuda.Stream", "ptr"),
    ("cupy", "cuda.ExternalStream", "ptr"),
    ("cuda.core", "Stream", None),
)
_stream_types = (ctypes.c_uint64 * ((MOST_STREAM_TYPES + 1) * len(StreamType)))()
_seen_streams = {word: (ctypes.c_uint64 * len(SeenStream))() for word in (Word.STREAM_OF_LAUNCH, Word.STREAM_OF_CUPY)}
_kept: list[object] = []  # the types whose addresses are in `_stream_types`
_release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", ctypes.pythonapi))


def _hook(support: Support, launch: Callable[..., Any]) -> bool:
    """Lets calls of `launch` run machine code first. Returns False if this Python cannot do that."""
    if not hasattr(ctypes.pythonapi, "PyFunction_SetVectorcall"):
        return False
    support.words[Word.LAUNCH] = _vector_call_of(launch)
    set_call = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)(
        ("PyFunction_SetVectorcall", ctypes.pythonapi)
    )
    set_call(launch, support.called)
    return True


class MethodDefinition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def method(name: str, address: int) -> MethodDefinition:
    """The definition of a built-in function with machine code at `address`, which takes a vector call's arguments."""
    return MethodDefinition(name.encode(), address, _FASTCALL_WITH_KEYWORDS, None)


@functools.cache
def _definition() -> MethodDefinition:
    """The definition of our built-in functions, which Python uses until the process ends."""
    return method("launch", support().called)


def builtin(owner: object) -> Callable[..., Any]:
    """Returns a built-in function of Python that runs `entry.called` with `owner` as its `self`."""
    return builtin_of(_definition(), owner)


def builtin_of(definition: MethodDefinition, owner: object = None) -> Callable[..., Any]:
    """Returns the built-in function of a definition, which has to live as long, with `owner` as its `self`."""
    function: Callable[..., Any] = _new_builtin(ctypes.addressof(definition), owner, None)
    return function


_new_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


VARIABLE = "CUDA_DEVICE_NATIVE_LAUNCHER"
_lock = threading.Lock()


@functools.cache
def is_wanted() -> bool:
    """Whether launchers are used: neither the environment nor this Python prevents it."""
    return os.environ.get(VARIABLE, "1") not in ("", "0") and memory_layout.is_usable()


@dataclass(frozen=True)
class LaunchPlan:
    """A plan in memory, and the objects that it uses."""

    variant: CompiledKernel
    key: object
    memory: OwnedRecord


def note(
    kernel: Kernel, variant: CompiledKernel, stream: GpuStream, values: Sequence[Any], launch: Callable[..., None]
) -> None:
    """Makes a plan for launches like the one that Python has just made. Never raises.

    `values` holds an argument for each parameter; `launch` is the function whose calls run machine code first.
    """
    if not is_wanted() or not _lock.acquire(blocking=False):
        return
    try:
        _ready_support(launch)
        _add(kernel, _plan(kernel, variant, stream, tuple(values)))
    except Exception as error:
        logs.say(logs.DEBUG, "no launcher for %r", kernel, error=error)
    finally:
        _lock.release()


def prepared(kernel: Kernel, values: tuple[Any, ...], sizes: Mapping[str, Any], start: Callable[..., None]) -> Any:
    """Returns a built-in function that does the same as `start`, but tries the plans of the kernel first.

    Returns None if the kernel's parameters are not those of `values`. `sizes` holds the keywords of `launch`.
    """
    code = kernel.underlying.__code__
    names, named = _names(code)
    if not _is_ready or len(names) != len(values) or len(values) > MOST_PARAMETERS:
        return None
    keywords, objects = tuple(map(sys.intern, sizes)), (kernel, *values, *sizes.values())
    tables = named, _addresses(map(id, objects))
    record = memory_layout.pack(
        Prepared,
        parameters=len(names),
        positional=code.co_argcount,
        names=ctypes.addressof(tables[0]),
        values=ctypes.addressof(tables[1]),
        keywords=id(keywords),
    )
    return builtin((record, start, names, keywords, objects, tables))


def _names(code: CodeType) -> tuple[list[str], Any]:
    """The names of the parameters, and a table of their addresses: 0 for positional-only parameters."""
    names, hidden = list(map(sys.intern, parameter_names(code))), code.co_posonlyargcount
    return names, _addresses(0 if i < hidden else id(name) for i, name in enumerate(names))


def asked_first() -> Callable[..., bool] | None:
    """The function that `launch` calls first in Python 3.11; it returns whether the launch was made."""
    return _method


@functools.cache
def methods() -> tuple[Callable[..., bool], Callable[..., bool]]:
    """Two functions with the parameters of `launch`: whether machine code can make the launch, and whether it has made it."""
    return builtin(True), builtin(False)


def _plan(kernel: Kernel, variant: CompiledKernel, stream: GpuStream, values: tuple[Any, ...]) -> LaunchPlan:
    job = variant.work.job
    if len(values) > MOST_PARAMETERS:
        raise UnsupportedSignature(f"{len(values)} parameters")
    if not {"cluster", "dependent"}.isdisjoint(parameter_names(kernel.underlying.__code__)):
        raise UnsupportedSignature("a parameter that is named like a keyword of launch")
    asked = [dependency_table.environment(CHECKED_VARIABLE)] if kernel.options.build.checked is None else []
    start = _start_of(variant, stream, asked)
    facts = None if kernel.options.interop else job.options.launch_facts
    memory = plan_of(variant, values, facts, stream.ordinal, start)
    return LaunchPlan(variant, (variant, stream.context, _types_of(values)), memory)


def _types_of(value: Any) -> object:
    return tuple(map(_types_of, value)) if type(value) is tuple else type(value)


def _add(kernel: Kernel, plan: LaunchPlan) -> None:
    """Puts a plan first among those of the kernel, and drops the one that it replaces and those of stale variants."""
    old: Sequence[LaunchPlan] = kernel.native[-1] if kernel.native else ()
    alive = set(map(id, kernel.variants.values()))
    others = [other for other in old if other.key != plan.key and id(other.variant) in alive]
    plans = (plan, *others)[:MOST_PLANS]
    function = kernel.underlying
    names, named = _names(function.__code__)
    positional, defaults = function.__code__.co_argcount, function.__defaults__ or ()
    values = [0] * (positional - len(defaults)) + [id(value) for value in defaults]
    tables = (
        named,
        _addresses(values + [0] * (len(names) - positional)),
        _addresses(candidate.memory.address for candidate in plans),
    )
    record = memory_layout.pack(
        Call,
        function=id(function),
        code=id(function.__code__),
        defaults=id(function.__defaults__) if function.__defaults__ is not None else 0,
        positional=positional,
        parameters=len(names),
        names=ctypes.addressof(tables[0]),
        values=ctypes.addressof(tables[1]),
        plans=len(plans),
        first_plan=ctypes.addressof(tables[2]),
    )
    kernel.native = (record, tables, names, function, function.__code__, function.__defaults__, plans)


def _addresses(values: Any) -> Any:
    addresses = list(values)
    return (ctypes.c_uint64 * max(1, len(addresses)))(*addresses)


def _start_of(
    variant: CompiledKernel, stream: GpuStream, more: Sequence[dependency_table.CheckRow | None]
) -> OwnedRecord:
    """The record of a variant in the stream's context, in which it has been launched; `more` are further names to check."""
    if stream.handle == driver.PER_THREAD_STREAM:
        raise UnsupportedSignature("the per-thread stream")
    rows = [*dependency_table.rows_of(variant.work.dependencies, variant.contents), *more]
    if None in rows:
        raise UnsupportedSignature("names that have changed, or have another value each time")
    table = dependency_table.table_of([row for row in rows if row is not None])
    loaded, job = variant.loaded[stream.context], variant.work.job
    moved = architectures.moved_bytes(variant.work.shared_bytes)
    most = driver.properties(stream.ordinal).max_shared_optin - (moved or variant.work.shared_bytes)
    cluster = job.options.cluster or (1, 1, 1)
    status, events = report_message.status_of(stream.context), driver.spare_events(stream.context)
    if not events:
        with stream.using():
            driver.give_event(driver.create_event(), stream.context)
    record = memory_layout.pack(
        Start,
        kernel=loaded.handle,
        context=stream.context,
        device=stream.ordinal,
        status=ctypes.addressof(status),
        names=table.address,
        count=len(table.keep),
        most_threads=min(loaded.most_threads, job.options.max_threads or loaded.most_threads),
        most_shared=min(loaded.dynamic_shared - moved, most),
        moved=moved,
        cluster_x=cluster[0],
        cluster_y=cluster[1],
        cluster_z=cluster[2],
        cooperative=variant.work.outline.cooperative,
        name=launch_log.number_of(job.name),
        events=id(events),
    )
    return OwnedRecord(memory_layout.buffer(record), (table, status, events, variant))


_is_ready = False  # whether the words are set
_method: Callable[..., bool] | None = None  # see `asked_first`
_bindings: Any = None  # the driver whose functions are in the words


def _ready_support(launch: Callable[..., None]) -> None:
    """Sets the words, and lets calls of `launch` run the shared code."""
    global _is_ready, _method, _bindings
    loaded = support()
    if not _is_ready:
        for word, obj in _OBJECTS.items():
            loaded.words[word] = id(obj)
        loaded.words[Word.COMPARE_BYTES] = dependency_table.compare_bytes()
        for word, memory in {Word.STREAM_TYPES: _stream_types, **_seen_streams}.items():
            loaded.words[word] = ctypes.addressof(memory)
        if not _hook(loaded, launch):
            _method = builtin(False)
        _is_ready = True
    if _bindings is not driver.bindings():
        _set_driver(loaded)
        _bindings = driver.bindings()
    learn_streams()


def forget() -> None:
    """Makes machine code give up, because the driver has been replaced."""
    global _bindings
    _bindings = None
    for word in _DRIVER if _is_ready else ():
        support().words[word] = 0
    for seen in _seen_streams.values():
        stream, seen[0] = seen[0], 0
        _release(stream)
