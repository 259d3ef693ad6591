"""The whole compiler on one page: what is to be compiled (`Job`), the stages in their order, and the loop that runs them.

    function ─ python ─ typed ─ device ─┬─ llvm ─ optimised ─ ptx ─ cubin          for a GPU
                                        ├─ llvm ─ ltoir                            for a linker of CUDA C++
                                        └─ inlined ─ llvm ─ native                 for the CPU

Each stage is a function from the work so far to one more artifact, which has the stage's name everywhere: in this table, in
`compile(output=…)`, in timings, and in the files that `CUDA_DEVICE_DUMP=dir` makes it write (one for each stage).
`CUDA_DEVICE_VERIFY=1` verifies the IR after each stage that makes some.

A job whose machine code is in the cache on disk goes no further than LLVM IR, whose text is the cache's key (`codegen/cache`):
LLVM itself is not even loaded for a GPU's. With `CUDA_DEVICE_DUMP` every stage runs.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cuda_device.bytecode import to_ir
from cuda_device.codegen import artifacts, linking, to_llvm
from cuda_device.codegen.architectures import Architecture
from cuda_device.codegen.dialects import Cpu, Nvptx
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.device.target import selector
from cuda_device.errors import CompileError, CompilerBug, Location
from cuda_device.ir import ops
from cuda_device.ir.model import Module, Op
from cuda_device.ir.ops import Effect
from cuda_device.ir.text import show_module
from cuda_device.ir.verify import verify
from cuda_device.passes import exits, fuel, infer, initialised, inline, lower, roots, traces
from cuda_device.types.known import Known, small

if TYPE_CHECKING:
    from cuda_device.codegen import cubin, native, nvptx


@dataclass(frozen=True, slots=True)
class Target:
    """The machine to compile for: a GPU's architecture; `on_cpu` emulates it on this machine's processors."""

    architecture: Architecture
    on_cpu: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """All that a compilation depends on, but for the names that the program reads: those are found on the way."""

    function: FunctionType
    arguments: tuple[Known, ...]
    kernel: bool
    target: Target
    options: Options = DEFAULTS
    interop: bool = False
    link: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def known(self) -> tuple[Known, ...]:
        """What inference may know of the arguments."""
        return tuple(map(small, self.arguments)) if self.options.launch_facts else self.arguments


@dataclass(slots=True)
class Work:
    """A job under way: its artifacts and the seconds that each took, by the name of the stage that made them."""

    job: Job
    artifacts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    dependencies: tuple[infer.Dependency, ...] = ()
    read: tuple[linking.Input, ...] | None = None

    def __getitem__(self, stage: str) -> Any:
        return self.artifacts[stage]

    @property
    def cached(self) -> bool:
        """Whether its machine code comes from the cache on disk."""
        return "cache" in self.seconds

    @property
    def inputs(self) -> tuple[linking.Input, ...]:
        """What is linked to it: what the job says, and the functions of CUDA C++ that it calls."""
        if self.read is None:
            self.read = linking.read((*self.job.link, *self["typed"].links))
        return self.read

    @property
    def symbol(self) -> str:
        """The name of the compiled function."""
        module: Module = self["device"]
        return module.main.name

    @property
    def written(self) -> frozenset[int]:
        """The numbers of the arrays that the kernel may write."""
        return roots.written(self["device"])

    @property
    def places(self) -> dict[int, Location]:
        """Where threads may wait for each other, by the number that the machine code uses."""
        module: Module = self["device"]
        found = {}
        for function in module.functions:
            for op in function.ops():
                if Effect.SUSPENDS in op.code.effects and "place" in op.attributes:
                    found[int(str(op.attributes["place"]))] = op.location
        return found

    @property
    def reports(self) -> dict[int, Op]:
        """The `report` operations, by the numbers of their places."""
        module: Module = self["device"]
        found = (op for function in module.functions for op in function.ops() if op.code is ops.REPORT)
        return {int(str(op.attributes["place"])): op for op in found}

    @property
    def prints(self) -> dict[int, Op]:
        """The `print` operations, by the numbers of their places."""
        module: Module = self["device"]
        found = (op for function in module.functions for op in function.ops() if op.code is ops.PRINT)
        return {int(str(op.attributes["place"])): op for op in found}

    @property
    def watched(self) -> dict[int, traces.Point]:
        """The places that the race detector hears of, by their numbers."""
        return traces.points(self["inlined"])

    @property
    def loops(self) -> bool:
        """Whether a thread may run for long: there are loops, or recursion."""
        module: Module = self["device"]
        for function in module.functions:
            seen = set()
            for block in function.blocks:
                seen.add(block)
                if any(edge.block in seen for edge in block.successors):
                    return True
        return any(op.code is ops.CALL for function in module.functions[1:] for op in function.ops())


def _python(work: Work) -> Module:
    return Module([to_ir.read(work.job.function.__code__)])


def _typed(work: Work) -> Module:
    job = work.job
    module, work.dependencies = infer.run(
        job.function,
        job.known,
        job.kernel,
        selector(job.target.architecture.name),
        checked=bool(job.options.checked),
        interop=job.interop,
        on_cpu=job.target.on_cpu,
    )
    return module


def _device(work: Work) -> Module:
    checked = bool(work.job.options.checked)
    return lower.run(work["typed"], checked, export=not work.job.target.on_cpu)


def _inlined(work: Work) -> Module:
    options, module = work.job.options, work["device"]
    if options.checked:
        module = initialised.run(module)
    if options.races:
        module = traces.run(module)
    return exits.run(inline.run(fuel.run(module)))


def _llvm_gpu(work: Work) -> to_llvm.Llvm:
    options = work.job.options
    return to_llvm.run(work["device"], Nvptx(work["device"], work.job.target.architecture, options), options)


def _llvm_cpu(work: Work) -> to_llvm.Llvm:
    return to_llvm.run(work["inlined"], Cpu(work["inlined"]), work.job.options)


def _optimised(work: Work) -> nvptx.Module:
    from cuda_device.codegen import nvptx  # these load LLVM and NVIDIA's libraries, and a known kernel needs neither

    module = nvptx.parse(work["llvm"].text)
    nvptx.link_libdevice(module, work["llvm"].library)
    nvptx.optimise(module, work.job.target.architecture, work.job.options.level)
    return module


def _ptx(work: Work) -> nvptx.Ptx:
    from cuda_device.codegen import nvptx

    return nvptx.emit(work["optimised"], work.job.target.architecture, work.job.options.level)


def _cubin(work: Work) -> cubin.Cubin:
    from cuda_device.codegen import cubin

    # A function alone is of use to a linker only.
    options = cubin.Options(line_info=work.job.options.lineinfo, relocatable=not work.job.kernel)
    return cubin.assemble(work["ptx"].text, work.job.target.architecture, options, work.inputs)


def _ltoir(work: Work) -> bytes:
    from cuda_device.codegen import ltoir

    return ltoir.make(work["llvm"], work.job.target.architecture, work.job.options)


def _native(work: Work) -> native.Native:
    from cuda_device.codegen import native

    return native.compile_native(work["llvm"].text, level=min(work.job.options.level, 2))


@dataclass(frozen=True, slots=True)
class Stage:
    """One step: its name, what makes its artifact, and the artifact as text or bytes for a file with this suffix."""

    name: str
    run: Callable[[Work], Any]
    suffix: str
    show: Callable[[Any], str | bytes]


FRONT = (
    Stage("python", _python, "ir", show_module),
    Stage("typed", _typed, "ir", show_module),
    Stage("device", _device, "ir", show_module),
)
GPU = (
    *FRONT,
    Stage("llvm", _llvm_gpu, "ll", lambda artifact: artifact.text),
    Stage("optimised", _optimised, "ll", str),
    Stage("ptx", _ptx, "ptx", lambda artifact: artifact.text),
    Stage("cubin", _cubin, "cubin", lambda artifact: artifact.code),
)
CPU = (
    *FRONT,
    Stage("inlined", _inlined, "ir", show_module),
    Stage("llvm", _llvm_cpu, "ll", lambda artifact: artifact.text),
    Stage("native", _native, "s", lambda artifact: artifact.assembly),
)
LINK_TIME = (*GPU[: len(FRONT) + 1], Stage("ltoir", _ltoir, "ltoir", bytes))
"""For a linker that optimises: what ends in a kernel somewhere else."""
STAGES = {False: GPU, True: CPU}
"""The stages of each kind of target, by `Target.on_cpu`."""


KEY = "llvm"
"""The stage whose artifact tells one machine code from another."""


def run(job: Job, until: str = "", *, afresh: bool = False) -> Work:
    """Compiles a job, up to the stage `until` if it is named. Raises `CompileError` for the user's mistakes.

    Machine code comes from the cache on disk if it is there; `afresh` makes it again, and puts it there.
    """
    work = Work(job)
    stages = LINK_TIME if until == LINK_TIME[-1].name else STAGES[job.target.on_cpu]
    names = [stage.name for stage in stages]
    last = names.index(until) if until in names else len(names) - 1
    slot = None
    for number, stage in enumerate(stages[: last + 1]):
        _run(work, number, stage)
        if stage.name == KEY and not os.environ.get("CUDA_DEVICE_DUMP"):
            linked = [item.digest for item in work.inputs] if names[last] == "cubin" else []
            options = " ".join((repr(job.options), f"kernel={job.kernel}", *linked))
            slot = artifacts.slot(names[last], work[KEY], job.target.architecture, options)
            if slot is not None and not afresh and _take(work, slot, names[last]):
                return work
    if slot is not None:
        slot.fill(work[names[last]])
    return work


def _run(work: Work, number: int, stage: Stage) -> None:
    """Runs one stage, dumps and verifies what it makes."""
    job, start = work.job, time.perf_counter()
    try:
        work.artifacts[stage.name] = artifact = stage.run(work)
    except (CompileError, CompilerBug):
        raise
    except Exception as error:
        raise CompilerBug(f"{type(error).__name__} in the stage {stage.name!r} for {job.name}: {error}") from error
    work.seconds[stage.name] = time.perf_counter() - start
    if dump := os.environ.get("CUDA_DEVICE_DUMP", ""):
        _dump(Path(dump), job, number, stage, artifact)
    if isinstance(artifact, Module) and os.environ.get("CUDA_DEVICE_VERIFY", "") not in ("", "0"):
        verify(artifact)


def _take(work: Work, slot: artifacts.Slot, stage: str) -> bool:
    """Takes the artifact of the last stage from the cache, if it is there."""
    start = time.perf_counter()
    artifact = slot.take()
    if artifact is None:
        return False
    work.artifacts[stage] = artifact
    work.seconds["cache"] = time.perf_counter() - start
    return True


def _dump(folder: Path, job: Job, number: int, stage: Stage, artifact: Any) -> None:
    """Writes an artifact to `folder`; the name tells the function, its arguments and target (hashed), and the stage."""
    folder.mkdir(parents=True, exist_ok=True)
    identity = f"{job.function.__qualname__} {job.arguments} {job.target} {job.options}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    shown = stage.show(artifact)
    path = folder / f"{job.name}-{digest}.{number}.{stage.name}.{stage.suffix}"
    path.write_bytes(shown if isinstance(shown, bytes) else shown.encode())
