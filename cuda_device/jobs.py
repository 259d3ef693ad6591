"""`Job`, the input of a compilation, and `Work`, its state. Launches use them as well; `compiler` has the stages.

    job = Job(saxpy.underlying, arguments, True, Target(parse("sm_90")))
    work = compiler.run(job)
    work["cubin"].code, work.outline.written

A kernel that was loaded from a file is a `Work` with all artifacts, for which neither the compiler nor LLVM is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cuda_device.cache import sha256
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.instrument.outline import Outline, ProgramSummary
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.architectures import Architecture
from cuda_device.types.known import Known, small

if TYPE_CHECKING:
    from cuda_device.cache.entries import CacheEntry
    from cuda_device.codegen.emit import to_llvm
    from cuda_device.codegen.gpu import assemblers
    from cuda_device.infer.dependencies import Dependency

KEY = "llvm"
"""The stage whose artifact is the key to the machine code."""


@dataclass(frozen=True)
class Target:
    """The machine to compile for, and the architecture of the GPU that it is or emulates.

    `machine` is "gpu", or a key of `hooks.TARGETS`: the "cpu" emulates a GPU; the "host" is for functions that a program on the
    host calls. `options` are those that a stream asks the target for, such as "races".
    """

    architecture: Architecture
    machine: str = "gpu"
    options: tuple[str, ...] = ()

    @property
    def on_cpu(self) -> bool:
        """Whether this machine's processor executes the code."""
        return self.machine != "gpu"

    @property
    def is_host(self) -> bool:
        """Whether the code is for programs on the host."""
        return self.machine == "host"


@dataclass(frozen=True)
class Job:
    """Everything that a compilation depends on, except the names that the program reads, which compilation finds."""

    function: FunctionType
    arguments: tuple[Known, ...]
    kernel: bool
    target: Target
    options: Options = DEFAULTS
    interop: bool = False
    link: tuple[Any, ...] = ()
    by_address: bool = False
    """Whether an interoperable function takes the addresses of its arguments and of the place for its result."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @cached_property
    def known(self) -> tuple[Known, ...]:
        """The arguments as inference sees them."""
        return tuple(map(small, self.arguments)) if self.options.launch_facts else self.arguments

    @property
    def question(self) -> tuple[object, ...]:
        """What determines the program, for `hooks.RECALL`."""
        return self.function, self.arguments, self.kernel, self.target, self.options, self.interop, self.by_address


@dataclass
class Work:
    """A job in progress: its artifacts and the seconds that each took, by the name of the stage."""

    job: Job
    artifacts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    dependencies: tuple[Dependency, ...] = ()
    program: ProgramSummary | None = None
    """The summary of the program in the cache on disk."""
    asked: Any = None
    """What `hooks.RECALL` knows `Job.question` by, such as a fingerprint; None if it cannot recall the program."""
    entry: CacheEntry | None = None
    """Where the last artifact belongs in the cache."""
    make: Callable[[Work, str], None] | None = None
    """Runs the stages up to one; None for a kernel that was loaded from a file."""

    def __getitem__(self, stage: str) -> Any:
        """The artifact of a stage, which is made now if machine code from the cache did not need it."""
        if stage not in self.artifacts:
            assert self.make is not None, stage
            self.make(self, stage)
        return self.artifacts[stage]

    @property
    def cached(self) -> bool:
        """Whether the machine code comes from the cache on disk."""
        return "cache" in self.seconds

    @property
    def links(self) -> tuple[Any, ...]:
        """What is linked to it: what the job says, and the code of the functions of CUDA C++ that it calls."""
        return (*self.job.link, *self["typed"].links)

    @cached_property
    def bitcode(self) -> tuple[assemblers.Input, ...]:
        """The LLVM bitcode among its links, which becomes part of its module."""
        if not self.links:
            return ()
        from cuda_device.codegen.gpu import linking

        return linking.bitcode(self.links)

    @cached_property
    def inputs(self) -> tuple[assemblers.Input, ...]:
        """The other links, which an assembler links to its machine code."""
        from cuda_device.codegen.gpu import linking

        return linking.read(self.links, self.job.target.architecture)

    @cached_property
    def outline(self) -> Outline:
        """The facts that a launch needs."""
        return self.program.outline if self.program is not None else Outline.of(self["device"])

    @property
    def shared_bytes(self) -> int:
        """The bytes of static shared memory."""
        return self.program.shared_bytes if self.program is not None else int(self["llvm"].shared_bytes)

    @property
    def summary(self) -> ProgramSummary:
        """The summary of the program, for launches and the cache on disk."""
        return self.program or self.summarised()

    def summarised(self) -> ProgramSummary:
        """The same, computed from the artifacts."""
        llvm: to_llvm.Llvm = self[KEY]
        digest = sha256(llvm.text.encode("utf-8", "surrogatepass")).hexdigest()
        return ProgramSummary(self.outline, self["typed"].losses, digest, llvm.library, llvm.shared_bytes)
