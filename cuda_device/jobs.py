"""What is to be compiled, and how far it is: `Job` and `Work`, which launches know too. `compiler` has the stages.

    job = Job(saxpy.underlying, arguments, True, Target(parse("sm_90")))
    work = compiler.run(job)
    work["cubin"].code, work.outline.written

A kernel that was loaded from a file is work, too, whose artifacts are all there: neither the compiler nor LLVM is loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cuda_device.cache.summaries import ProgramSummary
from cuda_device.device.functions import DEFAULTS, Options
from cuda_device.infer.dependencies import Dependency
from cuda_device.instrument.outline import Outline
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.architectures import Architecture
from cuda_device.types.known import Known, small

if TYPE_CHECKING:
    from cuda_device.cache.fingerprints import Fingerprint
    from cuda_device.cache.programs import CacheEntry
    from cuda_device.codegen.emit import to_llvm
    from cuda_device.codegen.gpu import assemblers
    from cuda_device.instrument import traces

KEY = "llvm"
"""The stage whose artifact tells one machine code from another."""


@dataclass(frozen=True, slots=True)
class Target:
    """The machine to compile for: a GPU's architecture; `on_cpu` emulates it on this machine's processors.

    `is_host` is for functions that a program on this machine calls.
    """

    architecture: Architecture
    on_cpu: bool = False
    is_host: bool = False


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
    by_address: bool = False
    """Whether an interoperable function gets addresses of its arguments, and of where its result goes."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def known(self) -> tuple[Known, ...]:
        """What inference may know of the arguments."""
        return tuple(map(small, self.arguments)) if self.options.launch_facts else self.arguments

    @property
    def counts_on_alignment(self) -> bool:
        """Whether it may count on what launches check of where the memory of arrays begins: CPUs do not care."""
        return self.options.launch_facts and not self.target.on_cpu

    @property
    def question(self) -> tuple[object, ...]:
        """What is asked about the function, for `cache/programs`."""
        return self.function, self.arguments, self.kernel, self.target, self.options, self.interop


@dataclass(slots=True)
class Work:
    """A job under way: its artifacts and the seconds that each took, by the name of the stage that made them."""

    job: Job
    artifacts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    dependencies: tuple[Dependency, ...] = ()
    read: tuple[assemblers.Input, ...] | None = None
    read_bitcode: tuple[assemblers.Input, ...] | None = None
    program: ProgramSummary | None = None
    """What the cache on disk knows of it, or could keep."""
    asked: Fingerprint | None = None
    """The question about its program, as the cache on disk knows it."""
    known: Outline | None = None
    entry: CacheEntry | None = None
    """Where the last artifact belongs in the cache."""
    make: Callable[[Work, str], None] | None = None
    """The compiler, which runs the stages up to one; None of what was loaded from a file."""

    def __getitem__(self, stage: str) -> Any:
        """The artifact of a stage. One that was not needed for machine code from the cache is made now."""
        if stage not in self.artifacts:
            assert self.make is not None, stage
            self.make(self, stage)
        return self.artifacts[stage]

    @property
    def cached(self) -> bool:
        """Whether its machine code comes from the cache on disk."""
        return "cache" in self.seconds

    @property
    def links(self) -> tuple[Any, ...]:
        """What is linked to it: what the job says, and the code of the functions of CUDA C++ that it calls."""
        return (*self.job.link, *self["typed"].links)

    @property
    def bitcode(self) -> tuple[assemblers.Input, ...]:
        """The LLVM bitcode among its links, which becomes part of its module."""
        if not self.links:
            return ()
        from cuda_device.codegen.gpu import linking

        if self.read_bitcode is None:
            self.read_bitcode = linking.bitcode(self.links)
        return self.read_bitcode

    @property
    def inputs(self) -> tuple[assemblers.Input, ...]:
        """The other links, which an assembler links to its machine code."""
        from cuda_device.codegen.gpu import linking

        if self.read is None:
            self.read = linking.read(self.links, self.job.target.architecture)
        return self.read

    @property
    def outline(self) -> Outline:
        """What a launch has to know of it."""
        if self.known is None:
            found = self.program.outline if self.program is not None else None
            self.known = found or Outline.of(self["device"], self.job.counts_on_alignment)
        return self.known

    @property
    def shared_bytes(self) -> int:
        """The bytes of shared memory that it declares."""
        return self.program.shared_bytes if self.program is not None else int(self["llvm"].shared_bytes)

    @property
    def summary(self) -> ProgramSummary:
        """What launches and the cache on disk have to know of its program."""
        return self.program or self.summarised()

    def summarised(self) -> ProgramSummary:
        """The same, made of the program."""
        llvm: to_llvm.Llvm = self[KEY]
        losses = self["typed"].losses
        return ProgramSummary.of(self.outline, losses, llvm.text, llvm.library, llvm.shared_bytes)

    @property
    def watched(self) -> dict[int, traces.TracePoint]:
        """The places that the race detector hears of, by their numbers."""
        from cuda_device.instrument import traces

        return traces.points(self["inlined"])
