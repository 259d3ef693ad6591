"""`autotune`: a kernel that runs with the fastest of several configurations, which is measured once for each kind of call.

@autotune([{"TILE": 64, "block": 128}, {"TILE": 128, "block": 256}], key=["n"])
@kernel
def update(x, y, n: int32, TILE: ConstExpr): ...

launch(update, x, y, n, grid=…)      # measures, unless a result for this n is on disk
update.best(x, y, n)                 # {"TILE": 128, "block": 256}
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from cuda_device import (
    BoundKernel,
    CallError,
    CompileError,
    CpuStream,
    DeviceArray,
    GpuStream,
    Kernel,
    LaunchError,
    Stream,
    as_array,
    benchmark,
    launch,
)
from cuda_device.extend import (
    DecoratedFunction,
    LaunchSizes,
    as_stream,
    bind,
    const_parameters,
    defaults_of,
    disk,
    driver,
    parameters_of,
    users_traceback,
)

_log = logging.getLogger("cuda_device")
_WARMUP, _DURATION = 0.005, 0.03
"""The seconds for which each configuration runs."""

Config = Mapping[str, Any]


class _Tuned(DecoratedFunction):
    """A function with configurations: what kernels and host functions have in common."""

    def __init__(
        self, underlying: FunctionType, configs: Sequence[Config], key: Sequence[str], restore: Sequence[str]
    ) -> None:
        super().__init__(underlying)
        self.configs = tuple(dict(config) for config in configs)
        """The configurations, as they were given."""
        self._key, self._restore = tuple(key), tuple(restore)
        self._known: dict[tuple[Any, ...], dict[tuple[Any, ...], int]] = {}
        """The numbers of the fastest configurations, by device and key, and by the options that the launch itself gave."""
        self._differing: dict[frozenset[str], bool] = {}
        self._lock = RLock()
        self.__signature__ = inspect.signature(underlying)

    def _chosen(
        self,
        given: Iterable[str],
        values: Mapping[str, Any],
        stream: Stream,
        start: Callable[[int], object],
        is_question: bool,
    ) -> int:
        """The number of the configuration for a launch, which is measured if it is not known.

        `given` names what the launch itself gives, `values` are those of all parameters, and `start` launches with the
        configuration of a number. If it `is_question`, there is no launch.
        """
        fixed_names = self._tunable.intersection(given)
        if not isinstance(stream, GpuStream) or not self._is_open(fixed_names):
            return 0
        key = stream.ordinal, *(_description(values[name]) for name in self._key)
        fixed = tuple((name, _description(values.get(name))) for name in sorted(fixed_names))
        known = self._known.get(key, {})
        if fixed in known:
            return known[fixed]
        if is_question and known:  # measured for launches that give other options
            return next(iter(known.values()))
        return self._looked_up_or_measured(key, fixed, stream, values, start)

    def _looked_up_or_measured(
        self,
        key: tuple[Any, ...],
        fixed: tuple[Any, ...],
        stream: GpuStream,
        values: Mapping[str, Any],
        start: Callable[[int], object],
    ) -> int:
        properties = driver.properties(stream.ordinal)
        machine = properties.name, properties.capability, properties.multiprocessors
        on_disk = disk.key_of("autotune 2", self._identity, repr((machine, key[1:], fixed)))
        with self._lock:
            known = self._known.setdefault(key, {})
            if fixed not in known:
                kept = disk.find(on_disk)
                if kept is not None and kept.isdigit() and int(kept) < len(self.configs):
                    known[fixed] = int(kept)
                elif stream.is_captured:
                    _log.warning("%s is captured before it was measured: with its first config", self.__qualname__)
                    return 0
                else:
                    known[fixed] = self._measured(stream, values, start)
                    disk.keep(on_disk, str(known[fixed]).encode())
            return known[fixed]

    def _measured(self, stream: GpuStream, values: Mapping[str, Any], start: Callable[[int], object]) -> int:
        """The number of the fastest configuration. Raises the error of the first one if none can be launched."""
        arrays = [as_array(values[name], order="strided", stream=stream) for name in self._restore]
        saved = [(array, array.copy()) for array in arrays]

        def restore() -> None:
            for array, copy in saved:
                array[...] = copy

        calls: dict[int, Callable[[], object]] = {}
        errors: list[Exception] = []
        for number, config in enumerate(self.configs):
            restore()
            try:
                start(number)
                calls[number] = partial(start, number)
            except CallError:
                raise
            except (CompileError, LaunchError) as error:
                errors.append(error)
                reason = str(error).partition("\n")[0]
                _log.info("%s cannot run with the config %s: %s", self.__qualname__, config, reason)
        if not calls:
            errors[0].add_note(f"No config of {self.__qualname__} can be launched; this is the error of the first one.")
            raise errors[0]
        timings = benchmark(
            [*calls.values()], stream=stream, warmup=_WARMUP, duration=_DURATION, setup=restore if saved else None
        )
        restore()
        medians = {number: timing.median for number, timing in zip(calls, timings, strict=True)}
        best = min(medians, key=medians.__getitem__)
        fastest = f"{medians[best] * 1e6:.1f} µs"
        _log.info("%s takes %s with the config %s", self.__qualname__, fastest, self.configs[best])
        return best

    def _is_open(self, fixed: frozenset[str]) -> bool:
        """Whether the configurations differ in what a launch leaves out that gives the names `fixed` itself."""
        if fixed not in self._differing:
            first, *rest = [{name: config[name] for name in config if name not in fixed} for config in self.configs]
            self._differing[fixed] = any(config != first for config in rest)
        return self._differing[fixed]

    @cached_property
    def _tunable(self) -> frozenset[str]:
        """The names in configurations."""
        return frozenset(name for config in self.configs for name in config)

    @cached_property
    def _identity(self) -> str:
        """What a result on disk depends on beside the call and the device."""
        configs = [sorted((name, _description(value)) for name, value in config.items()) for config in self.configs]
        function = self.underlying
        return repr((function.__module__, function.__qualname__, _code(function.__code__), configs, self._key))

    def __repr__(self) -> str:
        return f"<{self.__qualname__} with {len(self.configs)} configs>"


class TunedKernel(_Tuned):
    """A kernel with several configurations, made by `autotune`; `launch` and `prepare` take it in place of the kernel."""

    def __init__(
        self, base: Kernel | BoundKernel, configs: Sequence[Config], key: Sequence[str], restore: Sequence[str]
    ) -> None:
        self._base = base
        self._kernel: Kernel = base if isinstance(base, Kernel) else base.kernel
        super().__init__(self._kernel.underlying, configs, key, restore)

    @users_traceback
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launches the kernel: `launch(self, *args, **kwargs)`."""
        launch(self, *args, **kwargs)

    @users_traceback
    def best(self, *args: Any, stream: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns the configuration with which `launch` runs the kernel for these arguments, and measures it if need be.

        The arguments are those of the launch; its sizes are needed if the configuration has not been measured yet.
        """
        names = parameters_of(self.underlying).names
        sizes = {name: kwargs.pop(name) for name in LaunchSizes._fields if name in kwargs and name not in names}
        number = self._number(args, kwargs, LaunchSizes(**sizes), as_stream(stream), is_question=True)
        return dict(self.configs[number])

    def completed(
        self, args: Sequence[Any], kwargs: dict[str, Any], sizes: LaunchSizes, stream: Stream
    ) -> tuple[Kernel, dict[str, Any], LaunchSizes]:
        """The kernel, its named arguments and the sizes of a launch, with the configuration that `stream` asks for."""
        return self._with(self.configs[self._number(args, kwargs, sizes, stream)], args, kwargs, sizes)

    def _number(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        sizes: LaunchSizes,
        stream: Stream,
        is_question: bool = False,
    ) -> int:
        """The number of the configuration for a launch."""

        def start(number: int) -> None:
            kernel, named, size = self._with(self.configs[number], args, kwargs, sizes)
            launch(kernel, *args, **named, **size.given(), stream=stream)

        names, given = parameters_of(self.underlying).names, _given(sizes)
        named = set(names[: len(args)]).union(kwargs)
        rest = {name: value for name, value in self.configs[0].items() if name in names and name not in named}
        values = bind(self.underlying, args, {**kwargs, **rest}, defaults_of(self.underlying))
        by_name = dict(zip(names, values, strict=True)) | given
        return self._chosen(named | _excluded(given), by_name, stream, start, is_question)

    def _with(
        self, config: Config, args: Sequence[Any], kwargs: Mapping[str, Any], sizes: LaunchSizes
    ) -> tuple[Kernel, dict[str, Any], LaunchSizes]:
        """The kernel, the named arguments and the sizes of a launch, with `config` in place of what it leaves out."""
        names, given = parameters_of(self.underlying).names, _given(sizes)
        named = set(names[: len(args)]).union(kwargs)
        constants = {name: value for name, value in config.items() if name in names and name not in named}
        own = {name: value for name, value in config.items() if name not in names and name not in _excluded(given)}
        bound = {} if isinstance(self._base, Kernel) else self._base.sizes
        bound = {name: value for name, value in bound.items() if name not in _excluded(own | given)}
        together, arguments = bound | own | given, {**kwargs, **constants}
        if any(map(callable, together.values())):
            together = BoundKernel.sizes_for(self._kernel, args, arguments, together)
        return self._kernel, arguments, LaunchSizes(**together)

    def _parts(self) -> tuple[Any, ...]:
        return self._base, self.configs, self._key, self._restore


class TunedFunction(_Tuned):
    """A host function with several configurations, made by `autotune`. It is called without the parameters of these."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with the fastest configuration, and returns its result."""
        named, values = self._bound(args, kwargs)
        number = self._number(args, kwargs, named, values)
        return self.underlying(*args, **kwargs, **self._open(number, named))

    def best(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the configuration with which a call with these arguments runs, and measures it if need be."""
        return dict(self.configs[self._number(args, kwargs, *self._bound(args, kwargs), is_question=True)])

    def _number(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        named: set[str],
        values: Mapping[str, Any],
        is_question: bool = False,
    ) -> int:
        def start(number: int) -> None:
            self.underlying(*args, **kwargs, **self._open(number, named))

        return self._chosen(named, values, _stream_of(values), start, is_question)

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[set[str], Mapping[str, Any]]:
        """The parameters that a call gives, and the values of all, with the first configuration. Raises `TypeError`."""
        names = self._names[: len(args)]
        named = {*names, *kwargs}
        values = {**self._defaults, **self._open(0, named), **dict(zip(names, args, strict=False)), **kwargs}
        if len(named) != len(args) + len(kwargs) or values.keys() != self._parameters:  # *args, **kwargs, or a mistake
            named = set(self.__signature__.bind_partial(*args, **kwargs).arguments)
            bound = self.__signature__.bind(*args, **kwargs, **self._open(0, named))
            bound.apply_defaults()
            values = bound.arguments
        return named, values

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The parameters that a call may give by position."""
        return self.underlying.__code__.co_varnames[: self.underlying.__code__.co_argcount]

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return defaults_of(self.underlying)

    @cached_property
    def _parameters(self) -> set[str]:
        return set(self.__signature__.parameters)

    def _open(self, number: int, named: set[str]) -> dict[str, Any]:
        """What a configuration gives to a call that gives the parameters `named`."""
        return {name: value for name, value in self.configs[number].items() if name not in named}

    def _parts(self) -> tuple[Any, ...]:
        return self.underlying, self.configs, self._key, self._restore


def _given(sizes: LaunchSizes) -> dict[str, Any]:
    """The sizes that a launch gives."""
    return {name: size for name, size in sizes.given().items() if (name, size) != ("shared", 0)}


def _excluded(sizes: Mapping[str, Any]) -> set[str]:
    """The names of sizes that others must not give beside these: the same ones, and `grid` beside `threads`."""
    return {*sizes, *({"grid", "threads"} if {"grid", "threads"} & sizes.keys() else ())}


def _stream_of(values: Mapping[str, Any]) -> Stream:
    """The stream on which a function launches: its argument `stream`, or the one of its arrays, or the default stream."""
    if values.get("stream") is not None:
        return as_stream(values["stream"])
    for value in values.values():
        if isinstance(value, DeviceArray):
            return value.stream
    is_on_host = any(isinstance(value, np.ndarray) for value in values.values())
    return CpuStream() if is_on_host else as_stream(None)


def _description(value: Any) -> str:
    """A text that is the same for arguments that are measured together: the value of a number, dtype and shape of an array."""
    if isinstance(value, (bool, int, float, complex, str, type, type(None), np.generic)):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_description, value))})"
    if isinstance(value, FunctionType):
        return f"{value.__qualname__} {_code(value.__code__)}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        try:
            array = as_array(value, order="strided")
        except (TypeError, ValueError):
            return repr(value)  # a struct, a type, …
        shape, dtype = array.shape, array.dtype
    return f"{dtype} {tuple(shape)}"


def _code(code: CodeType) -> str:
    """What identifies the code of a function, without its position in the file."""
    constants = [_code(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts]
    return repr((code.co_code, constants, code.co_names, code.co_varnames))


def autotune(
    configs: Sequence[Config], key: Sequence[str], *, restore: Sequence[str] = ()
) -> Callable[[Any], TunedKernel | TunedFunction]:
    """Returns a decorator that selects the fastest of several configurations.

    It is for a kernel, a result of `kernel.bind`, or a host function that launches. A configuration is a dict. For a kernel, it
    has values of `ConstExpr` parameters, and launch options (`grid`, `block`, `shared`, `threads`, `cluster`, `dependent`),
    which may be functions of the kernel's arguments, as for `kernel.bind`. For a function, it has values of parameters. They
    fill in what a launch or call leaves out; what it gives itself is kept.

    `key` names the parameters on which the choice depends: on the values of numbers, and on the dtypes and shapes of arrays. The
    first launch with a new key measures all configurations in turn on its stream, and keeps the result in the cache on disk, for
    this kernel or function, its configurations, this GPU, and this version of the package. The kernel must therefore be one that
    can run several times with the same arguments. `restore` names arrays that it changes: their contents are restored before each
    run. A configuration that cannot be compiled or launched is skipped, and logged; if there is no other one, its error is
    raised.

    On CPU streams, the first configuration runs, and nothing is measured. A launch that is captured into a graph uses a result
    that is known, and otherwise the first configuration, which is logged. A function runs on the stream in its parameter
    `stream`, if it has one, or else on that of the arrays among its arguments.

    Raises `TypeError` for names that are neither parameters nor launch options, and if there is no configuration.
    """

    def decorate(f: Any) -> TunedKernel | TunedFunction:
        is_kernel = isinstance(f, (Kernel, BoundKernel))
        if not (is_kernel or isinstance(f, FunctionType)):
            raise TypeError(f"autotune takes a kernel, a result of kernel.bind, or a function that launches, not {f!r}")
        underlying = f.underlying if is_kernel else f
        parameters = inspect.signature(underlying).parameters
        _check_names("key", key, parameters)
        _check_names("restore", restore, parameters)
        allowed = [*const_parameters(underlying), *LaunchSizes._fields] if is_kernel else [*parameters]
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        if isinstance(configs, Mapping) or not [*configs]:
            raise TypeError("autotune takes a list of configs: dicts of ConstExpr parameters and launch options")
        for config in configs:
            if not isinstance(config, Mapping):
                raise TypeError(f"a config is a dict of ConstExpr parameters and launch options, not {config!r}")
            _check_names("a config", config, config if takes_all else allowed)
        return (TunedKernel if is_kernel else TunedFunction)(f, configs, key, restore)

    return decorate


def _check_names(where: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    """Raises `TypeError` for a name that is not allowed."""
    if isinstance(names, str):
        raise TypeError(f"{where} is a list of names, not the str {names!r}")
    for name in names:
        if name not in allowed:
            raise TypeError(f"{where} of autotune names {name!r}, which is none of {', '.join(map(str, allowed))}")
