"""The compiler driver: the stages of a job (`jobs`), and the loop that runs them.

    function ─ python ─ typed ─ device ─┬─ llvm ─ optimised ─ ptx ─ cubin          for a GPU
                                        ├─ …                                       another output for a GPU (`hooks.OUTPUTS`)
                                        └─ …                                       for another machine (`hooks.TARGETS`)

Each stage is a function that adds one artifact to the work. The artifact is named after the stage in this table, in
`compile(output=…)`, in timings, and in the files that `CUDA_DEVICE_DUMP=dir` writes. `CUDA_DEVICE_VERIFY=1` verifies the IR after
each stage that produces IR.

The machine code of a job that has been compiled before comes from the cache on disk. If nothing that the compiler read has
changed, no stage runs (`hooks.RECALL`). Otherwise the stages up to LLVM IR run, and the LLVM IR is the key to the machine
code (`cache/disk`). Modules are therefore imported by the stage that needs them. With `CUDA_DEVICE_DUMP`, every stage runs.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from cuda_device import hooks, logs
from cuda_device.cache import disk, sha256
from cuda_device.cache.entries import CacheEntry, Kept
from cuda_device.device.options import Options
from cuda_device.errors import (
    NOWHERE,
    Call,
    CompileError,
    CompilerBug,
    Location,
    Loss,
    PerformanceWarning,
    PluginError,
    PrecisionWarning,
    too_deep,
)
from cuda_device.instrument.outline import packed, unpacked
from cuda_device.jobs import KEY, Job, Target, Work
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.outputs import CompilerOutput, find_output

if TYPE_CHECKING:
    from cuda_device.codegen.emit import to_llvm
    from cuda_device.codegen.gpu import elf
    from cuda_device.codegen.llvm import LlvmModule
    from cuda_device.ir.nodes import Function, Module


def _python(work: Work) -> Module:
    from cuda_device.bytecode import to_ir
    from cuda_device.ir.nodes import Module

    return Module([to_ir.read(work.job.function.__code__, debug=work.job.options.debug)])


def _typed(work: Work) -> Module:
    from cuda_device.device.target import selector
    from cuda_device.infer import engine, policies

    job = work.job
    module, work.dependencies = engine.infer_module(
        job.function,
        job.known,
        job.kernel,
        None if job.target.is_host else selector(job.target.architecture.name),
        job.options,
        job.interop,
        on_cpu=job.target.on_cpu,
        policy=policies.named(job.options.policy),
    )
    return module


def _device(work: Work) -> Module:
    from cuda_device import lower

    job, typed = work.job, work["typed"]
    traced = "races" in job.target.options
    module = lower.lower_module(typed, bool(job.options.checked), job.options.debug, traced)
    if [op for op in module.ops() if "aligned" in op.attributes]:
        from cuda_device.ir import alignment

        lower.number_places(module)
        alignment.align_shared(module)
    target = _code_generator(job)
    _optimise(module, target.PASSES if target else None)
    if job.options.checked:
        from cuda_device.optimise import inlining

        module = inlining.inline_ours(module)
    if typed.main.prototype is not None and job.target.machine != "cpu":
        from cuda_device.device import cpp_calls

        module.functions.insert(0, cpp_calls.wrapper_for_cpp(module, typed.main.prototype, job.by_address))
    lower.number_places(module)
    return module


def _optimise(module: Module, of_target: Sequence[Callable[[Module], None]] | None) -> None:
    """The optimisations of device IR, in their order. Those of a target other than a GPU follow those that learn facts.

    LLVM's own follow in the stage `optimised`, and those of `codegen/gpu/peephole` in the stage `ptx`. What each gains stands in
    `docs/optimisations.md`: one that gains less than 2 % on every kernel is removed.
    """
    from cuda_device.ir import dominance, ops

    has_loops, codes = dominance.has_loops(module), module.codes()
    changes: list[Callable[[Function], None]] = []
    if not codes.isdisjoint(ops.ATOMICS):
        from cuda_device.optimise import atomic_orders

        atomic_orders.relax_atomics(module)
    if ops.SELECT in codes or ops.REPORT in codes:
        from cuda_device.optimise import symbolic_bounds

        for function in module.functions:
            symbolic_bounds.remove_proven_checks(function)
    for change_module in of_target or ():
        change_module(module)
    if has_loops:
        from cuda_device.optimise import loop_addresses

        changes += [loop_addresses.add_pointer_variables, loop_addresses.hoist_addresses]
    if has_loops and of_target is None:
        from cuda_device.optimise import trip_counts

        changes.append(trip_counts.count_down_loops)
    for change in changes:
        for function in module.functions:
            change(function)


def _llvm_gpu(work: Work) -> to_llvm.Llvm:
    from cuda_device.codegen.emit import to_llvm
    from cuda_device.codegen.gpu.nvptx_dialect import Nvptx

    options, module = work.job.options, work["device"]
    most_shared = most_shared_of(work)
    return to_llvm.run(module, Nvptx(module, work.job.target.architecture, options, most_shared), options)


def most_shared_of(work: Work) -> int:
    """The bytes that shared arrays can take: all of a block's if only our launches start the kernel and it calls no C++.

    C++ may have dynamic shared memory of its own, which must not overlap our arrays.
    """
    from cuda_device.ir import ops
    from cuda_device.types.architectures import MAXIMUM_STATIC_SHARED

    job = work.job
    if not job.kernel or job.interop or work.links or work["device"].has(ops.EXTERN):
        return MAXIMUM_STATIC_SHARED
    return job.target.architecture.most_shared


def _optimised(work: Work) -> LlvmModule:
    from cuda_device.codegen.gpu import nvptx

    check_declared(work)
    llvm: to_llvm.Llvm = work["llvm"]
    module = nvptx.parse(llvm.text)
    with _culprits(work):
        for item in {item.digest: item for item in work.bitcode}.values():  # several stubs may name one file
            nvptx.link_bitcode(module, item, len(work.bitcode) == len(work.links))
    nvptx.link_libdevice(module, llvm.library)
    nvptx.optimise(module, work.job.target.architecture, work.job.options.level)
    return module


def _ptx(work: Work) -> str:
    from cuda_device.codegen.gpu import nvptx
    from cuda_device.optimise import loop_addresses

    reduces = loop_addresses.wants_strength_reduction(work["device"])
    return nvptx.emit(work["optimised"], work.job.target.architecture, work.job.options.level, reduces)


def check_declared(work: Work) -> None:
    """Raises `CompileError` for intrinsics that LLVM cannot compile, and for functions that libdevice does not have."""
    from cuda_device.ir import ops

    for op in work["device"].ops():
        name = str(op.attributes.get("instruction", op.attributes.get("symbol", "")))
        if not name.startswith(("llvm.", "__nv_")):
            continue
        from cuda_device.device.machine_functions import INTRINSICS

        if name in INTRINSICS:
            continue
        declared = re.search(rf"(?m)^declare (.*?(\w+) @{re.escape(name)}\(([^()]*)\))", work["llvm"].text)
        if declared is None:
            continue
        if op.code in (ops.MACHINE, ops.PTX):
            from cuda_device.codegen.gpu import nvptx

            kind, documents = "intrinsic", "LLVM's documentation of its intrinsics"
            reason = nvptx.refusal(declared[1], work.job.target.architecture)
        else:
            from cuda_device.codegen.gpu import libdevice

            kind, documents = "function of libdevice", "NVIDIA's libdevice User's Guide"
            types = libdevice.types_of(name)
            if types is None:
                reason = "there is none of this name"
            elif types != (declared[2], *filter(None, declared[3].split(", "))):
                reason = f"its types are {', '.join(types)}"
            else:
                reason = ""
        if reason:
            raise CompileError(
                f"there is no {kind} {name} for this call: {reason}",
                op.location,
                f"compare its declaration with {documents}",
            )


def _cubin(work: Work) -> elf.Cubin:
    from cuda_device.codegen.gpu import cubin

    job = work.job
    # A function without a kernel is input for a linker.
    options = {"line_info": job.options.lineinfo, "relocatable": not job.kernel, "debug": job.options.debug}
    with _culprits(work):
        inlines = job.kernel and not (job.options.lineinfo or job.options.debug or work.bitcode)
        ltoir = _ltoir_of_links(work) if inlines else None
        if ltoir is not None:
            try:
                return _optimised_with_links(work, ltoir)
            except (CompileError, CompilerBug) as error:  # assembling below raises the error if the program is wrong
                logs.say(logs.INFO, "%s calls linked code without inlining it: %s", job.name, error)
        return cubin.assemble(work["ptx"], job.target.architecture, work.inputs, **options)


@contextlib.contextmanager
def _culprits(work: Work) -> Iterator[None]:
    """Gives a `CompileError` of an assembler or linker the location of the operation that causes it."""
    try:
        yield
    except CompileError as error:
        if error.location is NOWHERE:
            error.location = _culprit(work["device"], error.reason, bool(work.links))
        _end_chain(error, work.job)
        raise


def _ltoir_of_links(work: Work) -> Any | None:
    """The module that generates LTO-IR, if it is installed and the links contain LTO-IR, which can then be inlined."""
    return hooks.installed(hooks.OUTPUTS["ltoir"]) if any(item.is_lto for item in work.inputs) else None


def _optimised_with_links(work: Work, ltoir: Any) -> elf.Cubin:
    """The cubin of a kernel that is optimised together with the LTO-IR that it calls."""
    from cuda_device.codegen.gpu import assemblers, cubin, peephole

    job = work.job
    mine = assemblers.Input(job.name, work["ltoir"])
    theirs = tuple(item for item in work.inputs if item.is_lto)
    options = ltoir.floating_point(job.options)
    text = assemblers.optimised((mine, *theirs), job.target.architecture, *options)
    others = tuple(item for item in work.inputs if not item.is_lto)
    return cubin.assemble(peephole.align_shared(peephole.avoid_faults(text)), job.target.architecture, others)


def _culprit(module: Module, reason: str, links: bool) -> Location:
    """The location of the inline PTX that an assembler refused, or of the C++ call that a linker or NVRTC refused."""
    from cuda_device.ir import ops

    operations = module.ops()
    for op in operations:
        if op.code in (ops.PTX, ops.MACHINE):
            words = re.findall(r"(?:^|;|\n)\s*([a-z][\w.:]*)", op.attributes["instruction"])
            if any(f" '{word} " in reason for word in words):
                return op.location
    calls = [op for op in operations if op.code is ops.EXTERN and (links or op.attributes["symbol"] in reason)]
    named = [op for op in calls if re.search(rf"(?<!\w){re.escape(op.attributes['symbol'])}(?!\w)", reason)]
    return next((op.location for op in (*named, *calls)), NOWHERE)


def show(module: Module) -> str:
    """The text of an IR module, for `Stage`."""
    from cuda_device.ir.text import show_module

    return show_module(module)


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of compilation. `show` gives the artifact, by default IR, as text or bytes, for a file with this suffix."""

    name: str
    run: Callable[[Work], Any]
    suffix: str = "ir"
    show: Callable[[Any], str | bytes] = field(default=show)


FRONT = (
    Stage("python", _python),
    Stage("typed", _typed),
    Stage("device", _device),
)
LLVM = Stage("llvm", _llvm_gpu, "ll", lambda artifact: artifact.text)
"""LLVM IR for a GPU."""
GPU = (
    *FRONT,
    LLVM,
    Stage("optimised", _optimised, "ll", str),
    Stage("ptx", _ptx, "ptx", str),
    Stage("cubin", _cubin, "cubin", lambda artifact: artifact.code),
)


def run(job: Job, until: str = "", *, afresh: bool = False, typed: Module | None = None) -> Work:
    """Compiles a job, up to the stage or output `until` if it is named. Raises `CompileError` for the user's mistakes.

    `typed` is typed IR that replaces the bytecode of the function. Machine code comes from the cache on disk if possible;
    `afresh` compiles it again, because the cached code is unusable.
    """
    work = Work(job, make=_make)
    if typed is not None:
        work.artifacts = {"python": typed, "typed": typed}
    last = until or stages_of(job)[-1].name
    if disk.current() is None or os.environ.get("CUDA_DEVICE_DUMP") or _kept(job, last) is None:
        _make(work, last)
    elif afresh or not ((typed is None and _recall(work, last)) or _find(work, last)):
        _make(work, last)
        _entry(work, last).fill(work[last])
        disk.count(hits=-afresh, misses=1)
    work.asked = None  # a fingerprint holds references to the objects that it was made of
    _warn(work)
    for observer in _OBSERVERS:
        observer(job)
    return work


_OBSERVERS: list[Callable[[Job], None]] = []


def observe_compilations(observer: Callable[[Job], None]) -> Callable[[], None]:
    """Calls `observer(job)` after each compilation of this process, also if the code comes from the cache.

    Returns a function that ends this. What the observer raises is raised where the code was needed, by `launch` for example.
    """
    _OBSERVERS.append(observer)
    return functools.partial(_OBSERVERS.remove, observer)


_WARNED: WeakKeyDictionary[FunctionType, set[Loss]] = WeakKeyDictionary()
"""The warnings that have been issued for each function."""


def _warn(work: Work) -> None:
    """Warns once for each place where promotion loses digits, and of what makes the machine code slow."""
    typed = work.artifacts.get("typed")
    losses = typed.losses if typed is not None else work.program.losses if work.program is not None else ()
    if losses:
        _tell(work.job.function, losses, PrecisionWarning)
    cubin = work.artifacts.get("cubin")
    if cubin is not None and (cubin.notes.spills or cubin.notes.warnings):
        from cuda_device.codegen.gpu import slow_code

        slow = slow_code.losses(
            cubin, work.outline.symbol, work.job.function, work.job.options, is_kernel=work.job.kernel
        )
        _tell(work.job.function, slow, PerformanceWarning)


def _tell(function: FunctionType, losses: Iterable[Loss], category: type[Warning]) -> None:
    """Issues the warnings that have not been issued for a function."""
    for loss in losses:
        told = _WARNED.setdefault(function, set())
        if loss not in told:
            location = loss.location
            module = function.__module__ if location.file == function.__code__.co_filename else None
            warnings.warn_explicit(str(loss), category, location.shown_file, location.line, module)
            told.add(loss)


def stages_of(job: Job, until: str = "") -> tuple[Stage, ...]:
    """The stages of a job, up to the last one or to the output `until`.

    Raises `PluginError` if they are not installed, and `ValueError` if `until` is neither a stage nor an output.
    """
    target = _code_generator(job)
    if target is not None:
        stages = (*FRONT, *target.STAGES)
    else:
        output = find_output(until)
        stages = GPU if output is None or output.make is None else _stages_of_output(output)
    names = tuple(map(attrgetter("name"), stages))
    if until and until not in names:
        raise ValueError(f"there is no stage {until!r} for {job.target.machine!r}: the stages are {', '.join(names)}")
    return stages


def _stages_of_output(output: CompilerOutput) -> tuple[Stage, ...]:
    """The stages up to one that follows the stage `output.after`."""
    translate = output.make
    assert translate is not None

    @functools.wraps(getattr(translate, "func", translate))  # a bug is attributed to its module
    def make(work: Work) -> str | bytes:
        if output.after == LLVM.name:
            check_declared(work)
        code = translate(work)
        if not isinstance(code, (str, bytes)):
            raise TypeError(f"an output is a str or bytes, not {type(code).__name__}")
        return code

    names = [stage.name for stage in GPU]
    if output.after not in names:
        raise ValueError(f"output {output.name!r} follows {output.after!r}, and the stages are {', '.join(names)}")
    return (*GPU[: names.index(output.after) + 1], Stage(output.name, make, output.name, lambda artifact: artifact))


def _code_generator(job: Job) -> Any | None:
    """The module of a target other than a GPU (`hooks.TARGETS`)."""
    return hooks.target(job.target.machine) if job.target.machine in hooks.TARGETS else None


def _make(work: Work, until: str) -> None:
    """Runs the stages up to one of them that have not run yet.

    Python's cyclic garbage collector is disabled meanwhile. The objects of a compilation live until its end, and traversing them
    again and again would take a tenth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    job, current = work.job, ""
    try:
        with logs.Progress(lambda: f"compiling {job.name} for {job.target.architecture} ({current})"):
            for number, stage in enumerate(stages_of(job, until)):
                current = stage.name
                # `_cubin` requests the PTX of a kernel that links something, which may be linked as LTO-IR instead.
                may_be_unused = until == "cubin" and stage.name in ("optimised", "ptx") and job.kernel and work.links
                if stage.name not in work.artifacts and not may_be_unused:
                    _run(work, number, stage)
                if stage.name == until:
                    break
    finally:
        if collects:
            gc.enable()


def _recall(work: Work, last: str) -> bool:
    """Takes the last artifact from the cache if the program is known without compiling it."""
    start = time.perf_counter()
    programs = None if work.job.link else hooks.installed(hooks.RECALL)
    if programs is None:
        return False
    work.asked = programs.ask(work.job.question)
    record = programs.find(work.asked) if work.asked else None
    if record is None:
        return False
    summary, dependencies = record
    try:
        work.program, work.dependencies = unpacked(summary), dependencies
    except Exception:  # the entry is not valid
        return False
    if _verifies():
        _make(work, KEY)
        if work.summarised() != work.program:
            raise CompilerBug(f"the cached record of {work.job.name} differs from what the compiler generates")
    if not _take(work, last, start):
        return False
    disk.count(hits=1, direct=1)
    return True


def _find(work: Work, last: str) -> bool:
    """Compiles the program up to its key, records that for `_recall`, and takes the last artifact from the cache."""
    from cuda_device.codegen import llvm

    llvm.begin_to_load()
    _make(work, KEY)
    start = time.perf_counter()
    program = work.summarised()
    if work.program != program and work.asked and not work["typed"].links:
        hooks.plugin(hooks.RECALL).keep(work.asked, work.dependencies, packed(program))
    if work.program != program:
        work.program, work.entry = program, None
    if not _take(work, last, start):
        return False
    disk.count(hits=1)
    return True


def _entry(work: Work, last: str) -> CacheEntry:
    """Where the last artifact belongs in the cache."""
    if work.entry is None:
        job, program = work.job, work.program or work.summarised()
        links = last == "cubin" and (job.link or "typed" in work.artifacts)  # a program that is known links nothing
        with _culprits(work):
            linked = [item.digest for item in (*work.bitcode, *work.inputs)] if links else []
        ltoir = _ltoir_of_links(work) if links else None
        if ltoir is not None:  # the kernel becomes LTO-IR, too
            linked.append(ltoir.identity())
        options = " ".join((repr(job.options), *job.target.options, f"kernel={job.kernel}", *linked))
        kept = _kept(job, last)
        assert kept is not None
        work.entry = CacheEntry.of(kept, program, job.target.architecture, options)
    return work.entry


def _kept(job: Job, stage: str) -> Kept | None:
    """How the cache on disk keeps the artifact of a stage; None if it does not."""
    target = _code_generator(job)
    if target is not None:
        return target.kept() if stage == target.STAGES[-1].name else None
    if stage != GPU[-1].name:
        return None
    from cuda_device.codegen.gpu import cubin

    return cubin.KEPT


def _take(work: Work, last: str, start: float) -> bool:
    """Takes the last artifact from the cache, if it is there."""
    artifact = _entry(work, last).take()
    if artifact is None:
        return False
    work.artifacts[last] = artifact
    work.seconds["cache"] = time.perf_counter() - start
    return True


def _end_chain(error: CompileError, job: Job) -> None:
    """Adds the last entry to an error's chain of calls: the kernel, with the types of its arguments."""
    code = job.function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        shown = ", ".join(f"{name}: {known}" for name, known in zip(names, job.arguments, strict=False))
    except RecursionError:  # arguments that are nested deeply
        shown = "…"
    root = Call(job.function.__qualname__, shown, NOWHERE)
    if error.chain[-1:] != (root,):  # a stage may ask for another one
        error.chain = (*error.chain, root)


def _run(work: Work, number: int, stage: Stage) -> None:
    """Runs one stage; dumps and verifies its artifact."""
    job, start = work.job, time.perf_counter()
    try:
        work.artifacts[stage.name] = artifact = stage.run(work)
    except CompileError as error:
        _end_chain(error, job)
        raise
    except (CompilerBug, PluginError):
        raise
    except RecursionError:
        deep, code = too_deep("the function or an argument is", CompileError), job.function.__code__
        deep.location = Location(code.co_filename, code.co_firstlineno, function=code.co_qualname)
        _end_chain(deep, job)
        raise deep from None
    except Exception as error:
        message = f"{type(error).__name__} in the stage {stage.name!r} for {job.name}: {error}"
        raise CompilerBug(message, stage.run.__module__.partition(".")[0]) from error
    work.seconds[stage.name] = time.perf_counter() - start
    if dump := os.environ.get("CUDA_DEVICE_DUMP", ""):
        _dump(dump, job, number, stage, artifact)
    if stage.show is show and _verifies():
        from cuda_device.ir.verify import verify

        verify(artifact)


def _verifies() -> bool:
    """Whether the compiler checks its own results."""
    return os.environ.get("CUDA_DEVICE_VERIFY", "") not in ("", "0")


def _dump(folder: str, job: Job, number: int, stage: Stage, artifact: Any) -> None:
    """Writes an artifact to `folder`, in a file named after the function, a hash of its arguments and target, and the stage."""
    from pathlib import Path

    Path(folder).mkdir(parents=True, exist_ok=True)
    identity = f"{job.function.__qualname__} {job.arguments} {job.target} {job.options}"
    digest = sha256(identity.encode()).hexdigest()[:8]
    shown = stage.show(artifact)
    path = Path(folder, f"{job.name}-{digest}.{number}.{stage.name}.{stage.suffix}")
    path.write_bytes(shown if isinstance(shown, bytes) else shown.encode())


__all__ = ["Job", "Options", "Stage", "Target", "Work", "run", "stages_of"]
