"""`Compiled`, the result of `compile`: the code, and the record of what launches and other languages need to call it.

    made = device.compile(saxpy, float32, floats, floats, target="sm_90")
    made.registers, made.parameters[1]         16, Parameter("x", "array<float32, 1, C>", offset=8, size=16)

The plugin `saved` writes it to files and launches it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cuda_device import hooks, outputs
from cuda_device.codegen.gpu import elf
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.instrument.outline import ProgramSummary
from cuda_device.jobs import Job, Target, Work
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.outputs import CompilerOutput
from cuda_device.runtime.launch.compiled_parameters import Parameter, literal_notation, notation
from cuda_device.types.abi import representation
from cuda_device.types.architectures import parse
from cuda_device.types.argument_packing import boundary_packing, packing
from cuda_device.types.known import Known, runtime_types
from cuda_device.types.layout import size_of
from cuda_device.types.model import Space

if TYPE_CHECKING:
    from cuda_device.runtime.launch.launcher import CompiledKernel
    from cuda_device.runtime.launch.signatures import CallSignature

_CONSTANTS = ".nv.constant3"
"""The section of a cubin with the constants that a program declares: constant bank 3."""


@dataclass(frozen=True)
class CodeRecord:
    """What is known of compiled code: its function, how it is called, and what it depends on."""

    function: str
    """The qualified name of the Python function."""
    parameters: tuple[Parameter, ...] = ()
    result: str = "none"
    positional: int = 0
    """The number of parameters that can be passed by position."""
    kernel: bool = False
    is_loadable: bool = False
    """Whether the driver loads it, so that it can be launched."""
    interop: bool = False
    shared: int | None = None
    """The shared memory that the code declares, in bytes; None for typed IR."""
    dependencies: tuple[str, ...] = ()
    options: Options = DEFAULTS
    programs: Mapping[str, ProgramSummary] = field(default_factory=dict)
    """The summary of the program for each architecture; empty if it ended before LLVM IR."""
    ptx: str | None = None
    """The architecture of the PTX in a fatbin."""
    warnings: tuple[str, ...] = ()
    spills: int | None = None

    @cached_property
    def signature(self) -> CallSignature:
        """The types of the arguments of a call."""
        from cuda_device.runtime.launch.signatures import CallSignature

        space = (Space.GLOBAL if self.kernel else Space.GENERIC) if self.interop else None
        return CallSignature(self.function, self.parameters, self.positional, space)


@dataclass(frozen=True)
class Compiled:
    """The result of `compile`: `code` is a str for "ir", "llvm" and "ptx", and bytes for all other outputs.

    `target` is the architecture; for "fatbin", several may be separated by commas.
    """

    code: str | bytes = field(repr=False)
    symbol: str
    target: str
    output: str
    record: CodeRecord = field(repr=False)
    """The data for launches and for the properties below."""
    job: Job | None = field(default=None, repr=False, compare=False)
    """The job of `compile`; None if the object was loaded or unpickled, and for a fatbin."""

    def __hash__(self) -> int:
        return hash((self.code, self.symbol, self.target, self.output))

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self.code, self.symbol, self.target, self.output, self.record)

    def __str__(self) -> str:
        if isinstance(self.code, bytes):
            return f"<{len(self.code)} bytes of {self.output} with {self.symbol!r} for {self.target}>"
        return self.code

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order, with types as in typed IR, such as `array<float32, 1, C>`."""
        return self.record.parameters

    @property
    def result(self) -> str:
        """The type of the result; "none" for kernels."""
        return self.record.result

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The names of the globals, captured variables and attributes whose values were compiled into the program."""
        return self.record.dependencies

    @property
    def registers(self) -> int | None:
        """The number of registers that a thread uses; None unless the output is a cubin."""
        return elf.registers(self.code).get(self.symbol) if isinstance(self.code, bytes) else None

    @property
    def spills(self) -> int | None:
        """The bytes of registers that a thread spills to local memory (spill stores); None unless the output is a cubin."""
        return self.record.spills if self.output == "cubin" else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings and advisories of the assembler; empty unless the output is a cubin or a fatbin."""
        return self.record.warnings

    @property
    def shared(self) -> int | None:
        """The shared memory that the code declares, in bytes; None for typed IR."""
        return self.record.shared

    @property
    def local(self) -> int | None:
        """The stack of a thread in bytes; None unless the output is a cubin, or if recursion is unbounded."""
        nbytes = elf.stacks(self.code).get(self.symbol) if isinstance(self.code, bytes) else None
        return None if nbytes == elf.UNBOUNDED else nbytes

    @property
    def constant(self) -> int | None:
        """The constant memory that the code declares, in bytes; None unless the output is a cubin."""
        if self.output != "cubin" or not isinstance(self.code, bytes):
            return None
        return sum(section.size for section in elf.sections(self.code) if section.name == _CONSTANTS)

    def object_code(self) -> Any:
        """Returns the code as a `cuda.core.ObjectCode`, for its `Linker` and `launch`. Needs no GPU.

        `get_kernel` takes `symbol` and the name of the Python function. `cuda.core.launch` takes the arguments as `parameters`
        lists them, in their C++ layout. A failed `assert` or a `raise` ends such a launch with a trap. Raises `ValueError`
        unless the output is "cubin", "fatbin", "ptx" or "ltoir", and `LaunchError` if cuda-core is not installed.
        """
        choices = [name for name in outputs.names() if (kind := outputs.find_output(name)) and kind.has_object_code]
        if self.output not in choices:
            raise ValueError(f"output={self.output!r} is not code for GPUs: compile to one of {', '.join(choices)}")
        from cuda_device.runtime.gpu import driver

        make = getattr(driver.cuda_core().ObjectCode, f"from_{self.output}")
        code = self.code if isinstance(self.code, bytes) else self.code.encode()
        # `get_kernel` takes the symbols of the mapping as bytes, although their hint is str (cuda-core 1.2).
        return make(code, name=self.symbol, symbol_mapping={self.record.function: self.symbol.encode()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the code to a file, and the data that `device.load` needs to a second file with `.json` added to its name."""
        hooks.plugin(hooks.SAVED).save(self, path)

    def launch(self, /, *args: Any, **keywords: Any) -> None:
        """Launches the kernel: see `LoadedKernel.launch`."""
        self._kernel.launch(*args, **keywords)

    @cached_property
    def _kernel(self) -> Any:
        return hooks.plugin(hooks.SAVED).LoadedKernel(self.record.function, (self,))


def kernel_of(compiled: Compiled, target: str, known: tuple[Known, ...]) -> CompiledKernel:
    """The kernel in compiled code for one of its architectures, and for arguments of which this is `known`."""
    from cuda_device.runtime.launch.launcher import CompiledKernel

    record = compiled.record
    job = Job(record.signature.stub, known, True, Target(parse(target)), record.options, record.interop)
    code = compiled.code if isinstance(compiled.code, bytes) else compiled.code.encode()
    work = Work(job, {"cubin": elf.Cubin(code, compiled.output)}, program=record.programs[target])
    return CompiledKernel.of(work)


def record_of(work: Work, form: CompilerOutput, defaults: Mapping[str, Any]) -> CodeRecord:
    """The record of a compilation to an output, which may end before LLVM IR; `defaults` are those of the parameters."""
    job = work.job
    has_program = form.stage != "typed" and job.target.machine == "gpu"
    notes = work["cubin"].notes if form.stage == "cubin" else None
    return CodeRecord(
        function=job.function.__qualname__,
        parameters=tuple(_parameters(job, defaults)),
        result="none" if job.kernel else str(work["typed"].main.result),
        positional=job.function.__code__.co_argcount,
        kernel=job.kernel,
        is_loadable=job.kernel and form.is_loadable,
        interop=job.interop,
        shared=work.shared_bytes if has_program else None,
        dependencies=tuple(sorted({dependency.name for dependency in work.dependencies})),
        options=job.options,
        programs={str(job.target.architecture): work.summary} if has_program else {},
        warnings=notes.warnings if notes else (),
        spills=notes.spills if notes else None,
    )


def _parameters(job: Job, defaults: Mapping[str, Any]) -> Iterator[Parameter]:
    """The parameters with their positions in memory."""
    is_described, is_packed = job.interop and job.kernel, job.kernel and not job.interop
    places = boundary_packing(tuple(known.type for known in job.known)).offsets if is_described else ()
    leaves, leaf = packing(runtime_types(job.known)), 0
    for i, (example, known) in enumerate(zip(job.arguments, job.known, strict=True)):
        name, offset, size, constant = job.function.__code__.co_varnames[i], 0, 0, None
        if places:
            offset, size = places[i], size_of(representation(known.type))
        elif known.constant:
            constant = notation(example.python)
        elif is_packed and (codes := packing(runtime_types([known])).codes):
            offset, leaf = leaves.offsets[leaf], leaf + len(codes)
            size = leaves.offsets[leaf - 1] + struct.calcsize(leaves.codes[leaf - 1]) - offset
        default = literal_notation(defaults[name]) if name in defaults else None
        yield Parameter(name, str(example.type), offset, size, constant, default)
