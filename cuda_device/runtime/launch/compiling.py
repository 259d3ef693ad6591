"""`compile`: a kernel or function for any GPU, on any machine, as text or machine code.

compile(saxpy, float, x, y, target="sm_90", output="ptx").code
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

from cuda_device import compiler
from cuda_device.device.expressions import constant_as
from cuda_device.device.functions import Func, Kernel, links_of
from cuda_device.device.options import with_options
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import CallError, CompileError
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.gpu.streams import CpuStream
from cuda_device.runtime.launch.arguments import pointer_to, read
from cuda_device.runtime.launch.binding import check_arrays, hints_of, number_as, parameters_of, type_as, type_named
from cuda_device.runtime.launch.launcher import users_traceback
from cuda_device.runtime.launch.saved import Compiled, joined, record_of
from cuda_device.types import model
from cuda_device.types.abi import exchanged
from cuda_device.types.architectures import Architecture, parse
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import has_identity

if TYPE_CHECKING:
    from cuda_device.ir.nodes import Prototype

OUTPUTS = ("ir", "llvm", "ptx", "cubin", "ltoir", "fatbin")


@users_traceback
def compile(
    f: Kernel | Func,
    /,
    *args: Any,
    target: str | Sequence[str] = "sm_90",
    output: str = "cubin",
    link: Any = (),
    launch_facts: bool = False,
    **options: Any,
) -> Compiled:
    """Compiles a kernel or function; needs no GPU and no driver.

    Each of `args` is an example value or a type: `float32`, `int`, `ArrayType(float32, 1)`, `tuple[int, float32]`. For a
    parameter without one, its type hint or default is used. `target` is an architecture from "sm_75" on. `output` is "ir",
    "llvm", "ptx", "cubin", "ltoir" or "fatbin". The cubin of a kernel is linked to `link` (as in `extern`) and can be loaded;
    that of a function is relocatable, for a linker. A "fatbin" has cubins of a kernel for one or several targets, and, if nothing
    is linked to it, PTX of the last one for later GPUs; nvFatbin makes it (`pip install nvidia-nvfatbin`). The result can be
    saved and launched (see `Compiled`). Raises `CompileError` for code that cannot be compiled, `ValueError` for an unknown
    target or output, or for several targets of another output, and `TypeError` for an unknown option.

    The options are those of `@kernel`. With `launch_facts=True` the code relies on what `launch` checks: every array has at
    most 2**30 - 2**16 elements, begins at a multiple of 16 bytes, and, if it is written, shares no memory with another.
    Lengths are then parameters of 32 bits. Interoperable functions, whose parameters are those of C++, cannot be compiled in
    this way.
    """
    if output not in OUTPUTS:
        raise ValueError(f"output={output!r}: there are {', '.join(OUTPUTS)}")
    if output == "fatbin":
        targets = (target,) if isinstance(target, str) else tuple(target)
        if not targets or isinstance(f, Func):
            raise ValueError("output='fatbin' is of a kernel, for at least one target")
        again = {"link": link, "launch_facts": launch_facts, **options}
        return _fatbin(f, args, [compile(f, *args, target=each, **again) for each in targets], again)
    if not isinstance(target, str) and isinstance(target, Sequence):
        raise ValueError(f"output={output!r} is for one target: several are for 'fatbin'")
    job = job_of(f, args, target, options, links_of(link, "compile"))
    if launch_facts and job.interop:
        raise TypeError(f"{f!r} is interoperable: launch_facts is not for it")
    job = replace(job, options=replace(job.options, launch_facts=launch_facts))
    stage = {"ir": "typed"}.get(output, output)
    work = compiler.run(job, stage)
    shown = next(s for s in (*compiler.GPU, *compiler.LINK_TIME) if s.name == stage).show(work[stage])
    symbol = work["typed"].main.name if stage == "typed" else work.outline.symbol
    record = record_of(work, defaults_of(f.underlying), has_program=stage != "typed")
    return Compiled(shown, symbol, str(job.target.architecture), output, record)


def _fatbin(f: Kernel | Func, args: Sequence[Any], cubins: Sequence[Compiled], again: dict[str, Any]) -> Compiled:
    """The cubins of several targets in one file, with PTX of the last one for later GPUs."""
    try:
        from cuda.bindings import nvfatbin

        handle = nvfatbin.create([], 0)
    except (ImportError, RuntimeError, OSError):
        raise CompileError(
            "fatbins are made by nvFatbin, which is not on this machine",
            help="pip install nvidia-nvfatbin, or install a CUDA toolkit and set CUDA_HOME",
        ) from None
    try:
        for each in cubins:
            nvfatbin.add_cubin(handle, each.code, len(each.code), each.target.removeprefix("sm_"), each.symbol)
        last = cubins[-1]
        ptx = compile(f, *args, target=last.target, output="ptx", **again)
        if is_whole(ptx) and not again["link"] and not f.options.link:
            text = str(ptx).encode() + b"\0"
            nvfatbin.add_ptx(handle, text, len(text), last.target.removeprefix("sm_"), last.symbol, "")
        code = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, code)
    finally:
        nvfatbin.destroy(handle)
    return Compiled(bytes(code), last.symbol, ", ".join(each.target for each in cubins), "fatbin", joined(cubins))


def is_whole(ptx: Compiled) -> bool:
    """Whether PTX calls nothing that has to be linked to it; the driver has vprintf."""
    return set(re.findall(r"(?m)^\.extern \.func\s*(?:\([^)]*\))?\s*([\w$]+)", str(ptx))) <= {"vprintf"}


def prototype(f: Kernel | Func, args: Sequence[Any]) -> Prototype:
    """What CUDA C++ sees of an interoperable function for arguments as `compile` takes them."""
    found: Prototype = compiler.run(job_of(f, args), "typed")["typed"].main.prototype
    return found


def job_of(
    f: Kernel | Func,
    args: Sequence[Any],
    target: str = "sm_90",
    options: Mapping[str, Any] = MappingProxyType({}),
    link: tuple[object, ...] = (),
) -> compiler.Job:
    """The job that `compile` means."""
    other: object = f
    if not isinstance(other, (Kernel, Func)):
        plain = (
            f"the plain function {other.__name__}: decorate it with @func"
            if isinstance(other, FunctionType)
            else repr(other)
        )
        raise TypeError(f"compile takes a @kernel or a @func, not {plain}")
    architecture = parse(target) if isinstance(target, str) else _not_a_target(target)
    settings = with_options(f.options.build, dict(options), "compile", kernel=isinstance(f, Kernel))
    settings = replace(settings, checked=settings.is_checked(on_cpu=False))
    names, _, constants, numbers = parameters_of(f.underlying)
    defaults = defaults_of(f.underlying) | hints_of(f.underlying)
    if len(args) > len(names) or any(name not in defaults for name in names[len(args) :]):
        count = f"{len(names)} argument{'s' * (len(names) != 1)}"
        raise TypeError(f"{f.underlying.__qualname__} takes {count}, not {len(args)}: {', '.join(names)}")
    values = [*args, *(defaults[name] for name in names[len(args) :])]
    for i, name in enumerate(names):
        if name in constants:
            values[i] = _constant(values[i], name, constants[name])
    hinted = numbers if isinstance(f, Kernel) else {}
    known = tuple(_example(v, n, n in constants, hinted.get(n)) for n, v in zip(names, values, strict=True))
    if isinstance(f, Kernel):
        check_arrays(f.underlying, known)
    if f.options.interop:
        known = tuple(_from_others(k, isinstance(f, Kernel)) for k in known)
    is_kernel, interop = isinstance(f, Kernel), f.options.interop
    link = (*f.options.link, *link)
    return compiler.Job(f.underlying, known, is_kernel, compiler.Target(architecture), settings, interop, link)


def _from_others(known: Known, kernel: bool) -> Known:
    """What is known of an argument when anybody may call: of arrays not that they are contiguous, nor, in functions, where."""
    space = model.Space.GLOBAL if kernel else model.Space.GENERIC
    return known if known.constant else of_type(exchanged(known.type, space))


def _not_a_target(target: object) -> Architecture:
    raise ValueError(f"target={target!r}: give the name of an architecture, as in 'sm_90'")


def _constant(value: Any, name: str, type: Any) -> Any:
    try:
        return constant_as(value, type)
    except TypeError:
        raise TypeError(f"the argument {name!r} is a constant {type.__name__}, not {value!r}") from None


def _example(value: Any, name: str, is_constant: bool, wanted: model.Number | model.Pointer | None) -> Known:
    """What is known of an argument from its type, or from an example of it; `wanted` is the number or pointer of its hint."""
    if not is_constant:
        found = type_named(value)
        if found is not None and has_identity(found):
            raise CompileError(
                f"the parameter {name!r} cannot be of a type with atomic members, which lies in arrays only",
                help="pass an array: ArrayType(T, 1)",
            )
        if isinstance(wanted, model.Pointer):
            return (
                pointer_to(value, wanted, name, CpuStream()).known
                if found is None
                else _is_pointer(found, wanted, name)
            )
        if found is not None:
            return of_type(found if wanted is None else type_as(found, wanted, name))
    if isinstance(wanted, model.Number):
        value = number_as(value, wanted, name)
    return read(value, name, CpuStream(), is_constant=is_constant).known


def _is_pointer(given: model.Type, wanted: model.Pointer, name: str) -> Known:
    if given != wanted:
        text = f"the argument {name!r} is of type {given}, but the hint of the parameter says {wanted}"
        raise CallError(text, "pass that type, or correct the hint")
    return of_type(given)


__all__ = ["compile"]
