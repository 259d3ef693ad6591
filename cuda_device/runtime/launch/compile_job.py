"""The `Job` of a call of `compile`: its function, and its arguments, which are examples or types.

job_of(saxpy, (float32, floats, floats), "sm_90")      Job(saxpy.underlying, (Known(float32), …), True, Target(sm_90))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

from cuda_device.device.functions import Func, Kernel, with_options
from cuda_device.device.hints import Parameters, parameters_of, type_as, type_named, with_hints
from cuda_device.device.options import Options
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import CompileError
from cuda_device.jobs import Job, Target
from cuda_device.lazy_dataclasses import replace
from cuda_device.types import model
from cuda_device.types.abi import exchanged
from cuda_device.types.architectures import Architecture, parse
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import has_identity

HOST = "host"
"""The target of functions that a program on the host calls."""


def job_of(
    f: Kernel | Func,
    args: Sequence[Any],
    target: str = "sm_90",
    options: Mapping[str, Any] = MappingProxyType({}),
    link: tuple[object, ...] = (),
    *,
    launch_facts: bool = False,
    by_address: bool = False,
) -> Job:
    """The job of a call of `compile`."""
    _check_function(f)
    is_host, is_kernel = target == HOST, isinstance(f, Kernel)
    if is_host and (is_kernel or not f.options.interop):
        raise TypeError(f"target='host' is for functions with @func(interop=True), not {f!r}")
    if not isinstance(target, str):
        raise ValueError(f"target={target!r}: give the name of an architecture, as in 'sm_90'")
    architecture = parse("sm_90" if is_host else target)
    settings = _settings(f, options, architecture, launch_facts)
    known = _known(f, args)
    return Job(
        f.underlying,
        known,
        is_kernel,
        Target(architecture, HOST if is_host else "gpu"),
        settings,
        f.options.interop,
        (*f.options.link, *link),
        by_address,
    )


def _check_function(f: object) -> None:
    if isinstance(f, (Kernel, Func)):
        return
    shown = f"the plain function {f.__name__}: decorate it with @func" if isinstance(f, FunctionType) else repr(f)
    raise TypeError(f"compile takes a @kernel or a @func, not {shown}")


def _settings(f: Kernel | Func, options: Mapping[str, Any], architecture: Architecture, launch_facts: bool) -> Options:
    settings = with_options(f.options.build, dict(options), "compile", kernel=isinstance(f, Kernel))
    if settings.cluster is not None and architecture.number < 90:
        raise CompileError(
            f"{f.underlying.__qualname__} has cluster={settings.cluster}, and {architecture} has no clusters",
            help="leave cluster out, or compile for sm_90 or later",
        )
    return replace(settings, checked=settings.is_checked(on_cpu=False), launch_facts=launch_facts)


def _known(f: Kernel | Func, args: Sequence[Any]) -> tuple[Known, ...]:
    """`Known` for each parameter, from its argument, type hint or default."""
    parameters, code = parameters_of(f.underlying), f.underlying.__code__
    names, shown = parameters.names, f.underlying.__qualname__
    if len(names) > code.co_argcount + code.co_kwonlyargcount:
        raise TypeError(f"{shown} cannot be compiled by itself with *args or **kwargs: name each parameter")
    defaults: dict[str, Any] = {**defaults_of(f.underlying), **parameters.hints}
    if len(args) > len(names) or not defaults.keys() >= {*names[len(args) :]}:
        count = f"{len(names)} argument{'s' * (len(names) != 1)}"
        raise TypeError(f"{shown} takes {count}, not {len(args)}: {', '.join(names)}")
    examples = [*args, *map(defaults.__getitem__, names[len(args) :])]
    known = tuple([_example(f, parameters, i, example) for i, example in enumerate(examples)])
    if isinstance(f, Kernel):
        known = with_hints(f.underlying, known)
    if f.options.interop:
        known = tuple(_from_cpp(argument, isinstance(f, Kernel)) for argument in known)
    return known


def _from_cpp(known: Known, kernel: bool) -> Known:
    """`Known` for an argument that comes from C++: arrays have any strides, and in functions any address space."""
    space = model.Space.GLOBAL if kernel else model.Space.GENERIC
    return known if known.constant else of_type(exchanged(known.type, space))


def _example(f: Kernel | Func, parameters: Parameters, index: int, value: Any) -> Known:
    """`Known` for an argument that is given as a type or an example. Hints of numbers and pointers apply to kernels only."""
    name, hint = parameters.names[index], None
    is_constant = name in parameters.constants
    if not is_constant:
        type, hint = type_named(value), parameters.hints.get(name) if isinstance(f, Kernel) else None
        hint = hint if isinstance(hint, (model.Number, model.Pointer)) else None
        if type is not None and has_identity(type):
            raise CompileError(
                f"the parameter {name!r} cannot be of a type with atomic members, which exists only in arrays",
                help="pass an array: ArrayType(T, 1)",
            )
        if type is not None:
            return of_type(type if hint is None else type_as(type, hint, name))
    from cuda_device.runtime.gpu.streams import CpuStream
    from cuda_device.runtime.launch import arguments

    if is_constant or hint is not None:
        return arguments.argument_of(parameters, name, value, CpuStream()).known
    return arguments.read(value, name, CpuStream()).known
