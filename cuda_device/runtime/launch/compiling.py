"""`compile`: compiles a kernel or function for any GPU, or a function for this machine.

device.compile(saxpy, float, x, y, target="sm_90", output="ptx").code
device.compile("def f(x): return 2 * x", float32, output="llvm").code          generated code
device.compile(device.compile(saxpy, float, x, y, output="ir").code)           typed IR as text
"""

from __future__ import annotations

import builtins
import ctypes
import json
import re
import struct
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from cuda_device.cache import sha256
from cuda_device.device.functions import Func, Kernel, fixed, func, kernel, links_of, with_options
from cuda_device.device.options import Options
from cuda_device.device.parameters import defaults_of
from cuda_device.errors import CompileError, CompilerBug, LaunchError, Location, refused_if_deep, too_deep
from cuda_device.instrument.outline import packed
from cuda_device.jobs import Job, Target, Work
from cuda_device.lazy_dataclasses import fields_of, replace
from cuda_device.runtime.gpu import report_message
from cuda_device.runtime.gpu.streams import CpuStream
from cuda_device.runtime.launch.arguments import (
    Parameters,
    argument_of,
    describe,
    parameters_of,
    read,
    runtime_types,
    type_as,
    type_named,
    with_hints,
)
from cuda_device.runtime.launch.compiled import Compiled, Parameter, arguments_for, literal_notation, notation
from cuda_device.runtime.launch.launcher import users_traceback
from cuda_device.types import model
from cuda_device.types.abi import boundary_packing, exchanged, packing, representation
from cuda_device.types.architectures import latest, parse
from cuda_device.types.host import dtype_of_type, type_of_hint
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import align_of, has_arrays, has_identity, size_of
from cuda_device.types.model import NONE
from cuda_device.types.vector_classes import value_of

if TYPE_CHECKING:
    from cuda_device.ir.nodes import Function, Module, Prototype

OUTPUTS = ("ir", "llvm", "ptx", "cubin", "ltoir", "fatbin")
HOST, HOST_OUTPUTS = "host", ("ir", "llvm", "object", "callable")


@overload
def compile(
    f: Func, /, *args: Any, target: Literal["host"], output: Literal["callable"], **options: Any
) -> NativeFunction: ...
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
    from cuda_device import compiler

    typed, source = None, f
    if not isinstance(f, (Kernel, Func)):
        if isinstance(f, str) and f.lstrip().startswith("func @"):
            typed = _typed_ir(f)
            f = _declared(typed.main)
        else:
            source = f = generated(f, globals)
    output = _output_of(target, output)
    if output == "fatbin":
        targets = (target,) if isinstance(target, str) else tuple(dict.fromkeys(target))
        if not targets or isinstance(f, Func):
            raise ValueError("output='fatbin' takes a kernel and at least one target")
        again = {"link": link, "launch_facts": launch_facts, **options}
        cubins = [compile(source, *args, target=each, **again) for each in targets]
        linked = link or f.options.link
        return _fatbin(
            cubins, None if linked else compile(source, *args, target=latest(targets), output="ptx", **again)
        )
    if not isinstance(target, str) and isinstance(target, Sequence):
        raise ValueError(f"output={output!r} takes one target: only 'fatbin' takes several")
    with refused_if_deep("the arguments are", LaunchError):
        job = job_of(f, args, target, options, links_of(link, "compile"))
    is_host = job.target.is_host
    if launch_facts and job.interop:
        raise TypeError(f"{f!r} is interoperable, so it cannot be compiled with launch_facts")
    if by_address and (job.kernel or not job.interop):
        raise TypeError(f"by_address=True is for functions with @func(interop=True), not {f!r}")
    job = replace(job, options=replace(job.options, launch_facts=launch_facts), by_address=by_address or is_host)
    stage = {"ir": "typed", "callable": "object"}.get(output, output)
    try:
        work = compiler.run(job, stage, typed=typed)
    except CompilerBug as error:
        if typed is None:
            raise
        raise CompileError(f"the IR cannot be compiled: {error.message}", help=_IR) from error
    shown = next(s for s in compiler.stages_of(job, stage) if s.name == stage).show(work[stage])
    symbol = work["typed"].main.name if stage == "typed" or is_host else work.outline.symbol
    with refused_if_deep("the arguments are", LaunchError):
        record = _record_of(work, defaults_of(f.underlying), has_program=stage != "typed" and not is_host)
    made = Compiled(
        shown, symbol, HOST if is_host else str(job.target.architecture), stage if is_host else output, record, job
    )
    if result is not None and (wanted := str(fixed(type_of_hint(result)))) != made.result:
        text = f"{f.underlying.__qualname__} returns {made.result}, not {wanted}"
        raise CompileError(text, work["typed"].main.location, f"convert what it returns: {wanted}(…)")
    return NativeFunction(made, work) if output == "callable" else made


def _output_of(target: str | Sequence[str], output: str) -> str:
    """The output, or the default one of the target. Raises `ValueError` if the target does not have it."""
    outputs = HOST_OUTPUTS if target == HOST else OUTPUTS
    found = ("object" if target == HOST else "cubin") if output == "default" else output
    if found not in outputs:
        raise ValueError(
            f"output={output!r} is not available for target={target!r}: choose one of {', '.join(outputs)}"
        )
    return found


def generated(source: Any, globals: Mapping[str, Any] | None = None) -> Kernel | Func:
    """The function of a code object, or the last function of a text, whose lines appear in messages."""
    names: dict[str, Any] = dict(globals or {})
    if isinstance(source, str):
        import linecache

        file = f"<generated {sha256(source.encode()).hexdigest()[:12]}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        try:
            code = builtins.compile(source, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            where = Location(file, error.lineno or 1)
            raise CompileError(
                f"the text is not valid Python: {error.msg}", where, "correct the code that generates it"
            ) from None
        except (RecursionError, MemoryError):  # CPython's parser raises either of them
            raise too_deep("the text has an expression that is", CompileError) from None
        exec(code, names)
        given = globals or {}
        found = [each for name, each in names.items() if each is not given.get(name)]
        functions = [each for each in found if isinstance(each, (Kernel, Func, FunctionType))]
        if not functions:
            raise TypeError("the text defines no function")
        last = functions[-1]
    elif isinstance(source, CodeType):
        if source.co_freevars:
            raise TypeError(f"{source.co_name} captures {', '.join(source.co_freevars)}: pass them as globals")
        last = FunctionType(source, names)
    else:
        return source  # type: ignore[no-any-return]  # `job_of` refuses it
    return func(last) if isinstance(last, FunctionType) else last


_IR = 'compare it with what compile(…, output="ir") prints'


def _typed_ir(text: str) -> Module:
    """Reads a module of typed IR."""
    from cuda_device.infer.body import effects_of
    from cuda_device.ir.dominance import propagate
    from cuda_device.ir.ops import Level
    from cuda_device.ir.text import read_module
    from cuda_device.ir.verify import verify

    try:
        module = read_module(text)
        for function in module.functions:
            if function.level is not Level.TYPED:
                raise ValueError(f"{function.name} is not typed")
            function.effects = effects_of(function.ops())
        verify(module)
    except (KeyError, ValueError, CompilerBug) as error:
        reason = error.message if isinstance(error, CompilerBug) else error
        reason = f"there is no intrinsic {error}" if isinstance(error, KeyError) else reason
        raise CompileError(f"the text is not typed IR: {reason}", help=_IR) from None
    propagate(module)
    return module


def _declared(main: Function) -> Kernel | Func:
    """A function with the parameters of a typed one and an empty body."""
    hints = [each.hint for each in main.params]
    names = [hint if hint.isidentifier() and hints.count(hint) == 1 else f"_{i}" for i, hint in enumerate(hints)]
    scope: dict[str, Any] = {}
    exec(f"def {main.name}({', '.join(names)}): ...", scope)
    made: FunctionType = scope[main.name]
    made.__annotations__ = dict(zip(names, main.signature, strict=True))
    return kernel(made) if main.kernel else func(made)


def _fatbin(cubins: Sequence[Compiled], ptx: Compiled | None) -> Compiled:
    """Combines the cubins of several targets, and PTX for later GPUs."""
    from cuda_device.codegen.gpu.toolkit import pip_install

    try:
        from cuda.bindings import nvfatbin

        handle = nvfatbin.create([], 0)
    except (ImportError, RuntimeError, OSError):
        raise CompileError(
            "fatbins need nvFatbin, which is not installed",
            help=f"{pip_install('nvidia-nvfatbin')}, or install a CUDA toolkit and set CUDA_HOME",
        ) from None
    try:
        for each in cubins:
            nvfatbin.add_cubin(handle, each.code, len(each.code), each.target.removeprefix("sm_"), each.symbol)
        later = None
        if ptx is not None and is_whole(ptx):
            later = ptx.target
            text = str(ptx).encode() + b"\0"
            nvfatbin.add_ptx(handle, text, len(text), ptx.target.removeprefix("sm_"), ptx.symbol, "")
        code = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, code)
    finally:
        nvfatbin.destroy(handle)
    targets = ", ".join(each.target for each in cubins)
    return Compiled(bytes(code), cubins[-1].symbol, targets, "fatbin", _joined(cubins) | {"ptx": later})


def is_whole(ptx: Compiled) -> bool:
    """Whether PTX calls no function that has to be linked; the driver provides vprintf."""
    return set(re.findall(r"(?m)^\.extern \.func\s*(?:\([^)]*\))?\s*([\w$]+)", str(ptx))) <= {"vprintf"}


def prototype(f: Kernel | Func, args: Sequence[Any]) -> Prototype:
    """The prototype in CUDA C++ of an interoperable function, for arguments as in `compile`."""
    from cuda_device import compiler

    found: Prototype = compiler.run(job_of(f, args), "typed")["typed"].main.prototype
    return found


def job_of(
    f: Kernel | Func,
    args: Sequence[Any],
    target: str = "sm_90",
    options: Mapping[str, Any] = MappingProxyType({}),
    link: tuple[object, ...] = (),
) -> Job:
    """The job of a call of `compile`."""
    other: object = f
    if not isinstance(other, (Kernel, Func)):
        plain = (
            f"the plain function {other.__name__}: decorate it with @func"
            if isinstance(other, FunctionType)
            else repr(other)
        )
        raise TypeError(f"compile takes a @kernel or a @func, not {plain}")
    is_host = target == HOST
    if is_host and not (isinstance(other, Func) and other.options.interop):
        raise TypeError(f"target='host' is for functions with @func(interop=True), not {f!r}")
    if not isinstance(target, str):
        raise ValueError(f"target={target!r}: give the name of an architecture, as in 'sm_90'")
    architecture = parse("sm_90" if is_host else target)
    settings = with_options(f.options.build, dict(options), "compile", kernel=isinstance(f, Kernel))
    settings = replace(settings, checked=settings.is_checked(on_cpu=False))
    if settings.cluster is not None and architecture.number < 90:
        raise CompileError(
            f"{f.underlying.__qualname__} has cluster={settings.cluster}, and {architecture} has no clusters",
            help="leave cluster out, or compile for sm_90 or later",
        )
    parameters = parameters_of(f.underlying)
    names, code = parameters.names, f.underlying.__code__
    if len(names) > code.co_argcount + code.co_kwonlyargcount:
        raise TypeError(
            f"{f.underlying.__qualname__} cannot be compiled by itself with *args or **kwargs: name each parameter"
        )
    defaults: dict[str, Any] = {**defaults_of(f.underlying), **parameters.hints}
    if len(args) > len(names) or not defaults.keys() >= {*names[len(args) :]}:
        count = f"{len(names)} argument{'s' * (len(names) != 1)}"
        raise TypeError(f"{f.underlying.__qualname__} takes {count}, not {len(args)}: {', '.join(names)}")
    values = [*args, *(defaults[name] for name in names[len(args) :])]
    known = tuple([_example(f, parameters, i, value) for i, value in enumerate(values)])
    if isinstance(f, Kernel):
        known = with_hints(f.underlying, known)
    if f.options.interop:
        known = tuple(_from_others(k, isinstance(f, Kernel)) for k in known)
    is_kernel, interop = isinstance(f, Kernel), f.options.interop
    link = (*f.options.link, *link)
    return Job(
        f.underlying, known, is_kernel, Target(architecture, HOST if is_host else "gpu"), settings, interop, link
    )


def _from_others(known: Known, kernel: bool) -> Known:
    """`Known` for an argument that comes from C++: arrays have any strides, and in functions any address space."""
    space = model.Space.GLOBAL if kernel else model.Space.GENERIC
    return known if known.constant else of_type(exchanged(known.type, space))


def _example(f: Kernel | Func, parameters: Parameters, index: int, value: Any) -> Known:
    """`Known` for an argument that is given as a type or an example. Hints of numbers and pointers apply to kernels only."""
    name = parameters.names[index]
    if name not in parameters.constants:
        found, wanted = type_named(value), parameters.hints.get(name) if isinstance(f, Kernel) else None
        wanted = wanted if isinstance(wanted, (model.Number, model.Pointer)) else None
        if found is not None and has_identity(found):
            raise CompileError(
                f"the parameter {name!r} cannot be of a type with atomic members, which exists only in arrays",
                help="pass an array: ArrayType(T, 1)",
            )
        if found is not None:
            return of_type(found if wanted is None else type_as(found, wanted, name))
        if wanted is None:
            return read(value, name, CpuStream()).known
    return argument_of(parameters, name, value, CpuStream()).known


# The data that launches of compiled code need


def _record_of(work: Work, defaults: Mapping[str, Any], has_program: bool) -> dict[str, Any]:
    """The record of a compilation; `has_program` is False if it ended before LLVM IR."""
    job = work.job
    names = job.function.__code__.co_varnames
    parameters, at = [], 0
    known = job.known
    types = runtime_types(known)
    places = boundary_packing(tuple(k.type for k in known)).offsets if job.interop and job.kernel else ()
    leaves = packing(types) if job.kernel and not job.interop else None
    for i, (given, fact) in enumerate(zip(job.arguments, known, strict=True)):
        name, offset, size, constant = names[i], 0, 0, None
        if places:
            offset, size = places[i], size_of(representation(fact.type))
        elif fact.constant:
            constant = notation(given.python)
        elif leaves is not None and (here := packing(runtime_types([fact])).codes):
            offset, at = leaves.offsets[at], at + len(here)
            size = leaves.offsets[at - 1] + struct.calcsize(leaves.codes[at - 1]) - offset
        default = literal_notation(defaults[name]) if name in defaults else None
        parameters.append(Parameter(name, str(given.type), offset, size, constant, default))
    result = "none" if job.kernel else str(work["typed"].main.result)
    options = {name: getattr(job.options, name) for name in fields_of(Options)}
    record: dict[str, Any] = json.loads(
        json.dumps(
            {
                "function": job.function.__qualname__,
                "kernel": job.kernel,
                "interop": job.interop,
                "positional": job.function.__code__.co_argcount,
                "parameters": parameters,
                "result": result,
                "shared": work.shared_bytes if has_program else None,
                "dependencies": sorted({dependency.name for dependency in work.dependencies}),
                "options": options,
                "programs": {str(job.target.architecture): packed(work.summary).decode()} if has_program else {},
            }
        )
    )
    return record


def _joined(compiled: Sequence[Compiled]) -> dict[str, Any]:
    """The record of a kernel that was compiled for several targets."""
    found = [each.entry for each in compiled]
    known = {target: program for record in found for target, program in record["programs"].items()}
    return {**found[-1], "programs": known}


# Functions of the host


class NativeFunction:
    """A function compiled for this machine. A call checks the arguments like a launch, and returns the result.

    `address` is the address of the function for C++ on this machine, valid while this object exists. `compiled` has its object
    file and parameters.
    """

    def __init__(self, compiled: Compiled, work: Work) -> None:
        from cuda_device.cpu import machine_code
        from cuda_device.plugins.cpp import c_functions

        prototype = work["typed"].main.prototype
        self.compiled, self._result = compiled, prototype.result
        if has_arrays(prototype.result):
            raise CompileError(
                f"{compiled.symbol} returns {prototype.result}, whose memory would not be kept alive",
                work["typed"].main.location,
                "write to an array argument, or compile to an object for C++",
            )
        symbols = (compiled.symbol, compiled.symbol + c_functions.BY_ADDRESS)
        self._code = machine_code.link(work["object"], {}, symbols)
        self.address = self._code.addresses[symbols[0]]
        count = 1 + len(prototype.arguments) + (prototype.result != NONE)
        self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(self._code.addresses[symbols[1]])
        self._reports = work.outline.reports

    def __repr__(self) -> str:
        listed = ", ".join(f"{each.name}: {each.type}" for each in self.compiled.parameters)
        return f"<function for the host {self.compiled.symbol}({listed}) -> {self.compiled.result}>"

    @users_traceback
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the function. Raises `LaunchError` for arguments of other types, and `KernelError` for a failed assertion."""
        found = arguments_for(self.compiled, args, kwargs, CpuStream())
        names = [each.name for each in self.compiled.parameters if each.name not in self.compiled._constants]
        types = tuple(each.known.type for each in found)
        layout, record = boundary_packing(types), (ctypes.c_int64 * 3)()
        values = layout.pack([leaf for each in describe(found, names) for leaf in each.leaves])
        given = _aligned(len(values), [align_of(representation(type)) for type in types])
        given[:] = np.frombuffer(bytes(values), np.uint8)
        places = [given.ctypes.data + offset for offset in layout.offsets]
        result = None
        if self._result != NONE:
            form = representation(self._result)
            result = _aligned(size_of(form), [align_of(form)])
            places.append(result.ctypes.data)
        self._call(record, *places)
        if record[0]:
            raise report_message.failure(self._reports[record[0]], (record[1], record[2]))
        return None if result is None else value_of(self._result, result.view(dtype_of_type(form))[0])


def _aligned(nbytes: int, aligns: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Memory at a multiple of each of some alignments."""
    align = max(aligns, default=1)
    memory = np.empty(nbytes + align, np.uint8)
    start = -memory.ctypes.data % align
    return memory[start : start + nbytes]
