"""`compile`: compiles a kernel or function for any GPU, or for another target.

device.compile(saxpy, float, x, y, target="sm_90", output="ptx").code
device.compile("def f(x): return 2 * x", float32, output="llvm").code          generated code
device.compile(device.compile(saxpy, float, x, y, output="ir").code)           typed IR as text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal, overload

from cuda_device import hooks, outputs
from cuda_device.device.functions import Func, Kernel, fixed, links_of
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import CompileError, CompilerBug, LaunchError, refused_if_deep, users_traceback
from cuda_device.jobs import Job, Work
from cuda_device.outputs import CompilerOutput
from cuda_device.runtime.launch.compile_job import HOST, job_of
from cuda_device.runtime.launch.compiled import Compiled, record_of
from cuda_device.types.host import type_of_hint

if TYPE_CHECKING:
    from cuda_device.errors import Location
    from cuda_device.ir.nodes import Module


@overload
def compile(f: Func, /, *args: Any, target: Literal["host"], output: Literal["callable"], **options: Any) -> Any: ...
@overload
def compile(
    f: Kernel | Func | CodeType | str,
    /,
    *args: Any,
    target: str | Sequence[str] = "sm_90",
    output: str = "default",
    **options: Any,
) -> Compiled: ...
@users_traceback
def compile(
    f: Kernel | Func | CodeType | str,
    /,
    *args: Any,
    target: str | Sequence[str] = "sm_90",
    output: str = "default",
    link: Any = (),
    result: Any = None,
    globals: Any = None,
    launch_facts: bool = False,
    by_address: bool = False,
    **options: Any,
) -> Any:
    """Compiles a kernel or function; needs neither a GPU nor a driver.

    Arguments: each of `args` is an example value or a type: `float32`, `int`, `ArrayType(float32, 1)`, `tuple[int, float32]`.
    For a parameter without an argument, its type hint or default is used. `result` is the type that the result must have
    (None: any).

    Outputs: for a `target` from "sm_75" on, `output` is "ir", "llvm", "ptx", "cubin" (the default), "ltoir" or "fatbin". The
    result can be saved and launched (see `Compiled`). The cubin of a kernel is linked with `link` (as in `extern`) and can be
    loaded; that of a function is relocatable, for a linker. A "fatbin" contains cubins of a kernel for one or several targets,
    and, if nothing is linked to it, PTX for the highest target and later GPUs; nvFatbin creates it (`pip install
    nvidia-nvfatbin`). The target "host" compiles an interoperable function for this machine (Linux on x86-64). Its `output` is
    an "object" file for C++ (the default; `math` needs `-lm`, and a failed assertion ends the program), or a "callable" for
    Python.

    Generated code: instead of a function, `f` may be a code object, or the source text of a module, whose last function is
    compiled. `globals` defines the names that the code refers to. The function is a `@func` unless the text decorates it. The
    text may also be typed IR, as `output="ir"` prints it; its first function is compiled. Omit `args` in this case, because
    the text states the types.

    Options: those of `@kernel`, and two more. With `launch_facts=True`, the code relies on facts that `launch` checks: every
    array has at most `2**30 - 2**16` elements and, if the kernel writes to it, shares no memory with another array. Lengths
    are then parameters of 32 bits. Interoperable functions, whose parameters are those of C++, cannot be compiled in this way.
    With `by_address=True`, an interoperable function is `void f(void* a, void* b, void* result)` in C++: it takes the addresses
    of its arguments, followed by the address for its result, as operators of `cuda.compute` do.

    Raises: `CompileError` for code that cannot be compiled, and for a result of another type than `result`; `ValueError` for
    an unknown target or output, and for several targets with another output than "fatbin"; `TypeError` for an unknown option.
    """
    function, typed = _function_of(f, globals)
    form = outputs.output_of(target, output)
    if form.combine is not None:
        source = f if typed else function
        again = {"link": link, "result": result, "launch_facts": launch_facts, "by_address": by_address, **options}
        return form.combine(
            function,
            target,
            lambda architecture, kind: compile(source, *args, target=architecture, output=kind, **again),
            link,
        )
    if not isinstance(target, str) and isinstance(target, Sequence):
        raise ValueError(f"output={form.name!r} takes one target: only 'fatbin' takes several")
    with refused_if_deep("the arguments are", LaunchError):
        job = job_of(
            function,
            args,
            target,
            options,
            links_of(link, "compile"),
            launch_facts=launch_facts,
            by_address=by_address or target == HOST,
        )
    _check_interface(function, job, launch_facts, by_address)
    work = _work_of(job, form.stage, typed)
    with refused_if_deep("the arguments are", LaunchError):
        compiled = _compiled_of(work, form, defaults_of(function.underlying))
    if result is not None:
        _check_result(compiled, result, work["typed"].main.location)
    return compiled if form.finish is None else form.finish(compiled, work)


def _function_of(f: Any, globals: Mapping[str, Any] | None) -> tuple[Kernel | Func, Module | None]:
    """The function to compile, and its typed IR if that is given as text."""
    if isinstance(f, str) and f.lstrip().startswith("func @"):
        from cuda_device.runtime.launch.typed_text import declared, read_typed

        typed = read_typed(f)
        return declared(typed.main), typed
    if isinstance(f, (str, CodeType)):
        return hooks.plugin(hooks.GENERATED).function_of(f, globals), None
    return f, None  # `job_of` refuses other objects


def _check_interface(function: Kernel | Func, job: Job, launch_facts: bool, by_address: bool) -> None:
    if launch_facts and job.interop:
        raise TypeError(f"{function!r} is interoperable, so it cannot be compiled with launch_facts")
    if by_address and (job.kernel or not job.interop):
        raise TypeError(f"by_address=True is for functions with @func(interop=True), not {function!r}")


def _work_of(job: Job, stage: str, typed: Module | None) -> Work:
    """The work on a job up to a stage, which may begin with typed IR."""
    from cuda_device import compiler

    try:
        return compiler.run(job, stage, typed=typed)
    except CompilerBug as error:
        if typed is None:
            raise
        from cuda_device.runtime.launch.typed_text import HELP

        raise CompileError(f"the IR cannot be compiled: {error.message}", help=HELP) from error


def _compiled_of(work: Work, form: CompilerOutput, defaults: Mapping[str, Any]) -> Compiled:
    """The result of `compile` for finished work."""
    from cuda_device import compiler

    job, is_host, name = work.job, work.job.target.machine == HOST, form.stage
    (stage,) = (stage for stage in compiler.stages_of(job, name) if stage.name == name)
    symbol = work["typed"].main.name if name == "typed" or is_host else work.outline.symbol
    target = HOST if is_host else str(job.target.architecture)
    return Compiled(stage.show(work[name]), symbol, target, form.name, record_of(work, form, defaults), job)


def _check_result(compiled: Compiled, result: Any, where: Location) -> None:
    """Raises `CompileError` if the function returns another type than `result`."""
    expected = str(fixed(type_of_hint(result)))
    if expected != compiled.result:
        reason = f"{compiled.record.function} returns {compiled.result}, not {expected}"
        raise CompileError(reason, where, f"convert what it returns: {expected}(…)")
