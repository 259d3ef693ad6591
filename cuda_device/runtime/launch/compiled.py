"""Compiled code: what `compile` returns, its files, and launches of kernels that were compiled ahead of time.

    made = device.compile(saxpy, float32, floats, floats, target="sm_90")
    made.registers, made.parameters[1]         16, Parameter("x", "array<float32, 1, C>", offset=8, size=16)
    made.save("saxpy.cubin")                   and saxpy.cubin.json
    device.load("saxpy.cubin").launch(2.0, x, y, grid=4, block=256)

The record of a kernel is JSON with its parameters, its options, and the data that the cache on disk stores for a program
(`plugins/starts/programs`). A launch creates from it the same `CompiledKernel` as a compilation does, without loading LLVM.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from cuda_device.cache import sha256
from cuda_device.codegen.gpu import elf
from cuda_device.codegen.gpu.elf import Cubin
from cuda_device.device.options import Options
from cuda_device.errors import CallError, CompileError, LaunchError, Location
from cuda_device.instrument.outline import unpacked
from cuda_device.jobs import Job, Target, Work
from cuda_device.lazy_dataclasses import dataclass, field, fields_of, replace
from cuda_device.runtime.gpu import driver
from cuda_device.runtime.gpu.grid import LaunchSizes
from cuda_device.runtime.gpu.streams import GpuStream, Stream, as_stream
from cuda_device.runtime.launch.arguments import (
    Argument,
    Parameters,
    argument_of,
    bind,
    parameters_of,
    pointer_to,
    read,
)
from cuda_device.runtime.launch.launcher import (
    CompiledKernel,
    disjoint,
    sized,
    small,
    start,
    users_traceback,
)
from cuda_device.types.abi import exchanged
from cuda_device.types.architectures import parse
from cuda_device.types.host import convert_number
from cuda_device.types.model import NONE, NUMBERS, Array, NoneType, Number, Pointer, Space, Type

_CONSTANTS = ".nv.constant3"
"""The section of a cubin with the constants that a program declares: constant bank 3."""


class Parameter(NamedTuple):
    """A parameter of a compiled kernel or function.

    `offset` and `size` are its position and size in bytes in the kernel's parameter memory. Both are 0 for the parameters of a
    function, and for a constant, whose value is `constant`. `default` is the default value. Values are in Python notation.
    """

    name: str
    type: str
    offset: int = 0
    size: int = 0
    constant: str | None = None
    default: str | None = None


@dataclass(frozen=True)
class Compiled:
    """The result of `compile`: `code` is a str for "ir", "llvm" and "ptx", and bytes for all other outputs.

    `target` is the architecture; for "fatbin", several may be separated by commas.
    """

    code: str | bytes = field(repr=False)
    symbol: str
    target: str
    output: str
    entry: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The data for launches and for the properties below, as read from JSON."""
    _job: Job | None = field(default=None, repr=False, compare=False)
    """The job of `compile`; None if the object was loaded or unpickled, and for a fatbin."""

    def __hash__(self) -> int:
        return hash((self.code, self.symbol, self.target, self.output))

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self.code, self.symbol, self.target, self.output, self.entry)

    def _repr_html_(self) -> str:
        """For notebooks: resources, parameters, and the stages of the compiler, folded."""
        from cuda_device.plugins import notebook as notebook_html

        facts = {
            "target": self.target,
            "output": f"{self.output}, {len(self.code)} {'bytes' if isinstance(self.code, bytes) else 'characters'}",
            "registers of a thread": self.registers,
            "stack of a thread": None if self.local is None else f"{self.local} bytes",
            "shared memory of a block": None if self.shared is None else f"{self.shared} bytes",
            "constant memory": None if self.constant is None else f"{self.constant} bytes",
        }
        parameters = [(each.name, each.type if each.constant is None else each.constant) for each in self.parameters]
        return "".join(
            (
                notebook_html.table(
                    [self.symbol, ""], [(name, fact) for name, fact in facts.items() if fact is not None]
                ),
                notebook_html.folded("parameters", notebook_html.table(["", ""], parameters)) if parameters else "",
                *(notebook_html.folded(name, notebook_html.text(code)) for name, code in self._stages()),
            )
        )

    def _stages(self) -> list[tuple[str, str]]:
        """The name and text of each stage up to the output, if the function still compiles to this code."""
        from cuda_device import compiler

        last = {"ir": "typed"}.get(self.output, self.output)
        if self._job is not None:
            with contextlib.suppress(CompileError):
                work = compiler.run(self._job, last)
                stages = compiler.stages_of(self._job, last)
                names = [stage.name for stage in stages]
                shown = {stage.name: stage.show(work[stage.name]) for stage in stages[: names.index(last) + 1]}
                if shown[last] == self.code:
                    return [(name, text) for name, text in shown.items() if isinstance(text, str)]
        return [(self.output, self.code)] if isinstance(self.code, str) else []

    def __str__(self) -> str:
        if isinstance(self.code, bytes):
            return f"<{len(self.code)} bytes of {self.output} with {self.symbol!r} for {self.target}>"
        return self.code

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order, with types as in typed IR, such as `array<float32, 1, C>`."""
        return tuple(Parameter(*each) for each in self.entry["parameters"])

    @property
    def result(self) -> str:
        """The type of the result; "none" for kernels."""
        return str(self.entry["result"])

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The names of the globals, captured variables and attributes whose values were compiled into the program."""
        return tuple(self.entry["dependencies"])

    @property
    def registers(self) -> int | None:
        """The number of registers that a thread uses; None unless the output is a cubin."""
        return elf.registers(self.code).get(self.symbol) if isinstance(self.code, bytes) else None

    @property
    def shared(self) -> int | None:
        """The shared memory that the code declares, in bytes; None for typed IR."""
        found: int | None = self.entry["shared"]
        return found

    @property
    def local(self) -> int | None:
        """The stack of a thread in bytes; None unless the output is a cubin, or if recursion is unbounded."""
        found = elf.stacks(self.code).get(self.symbol) if isinstance(self.code, bytes) else None
        return None if found == elf.UNBOUNDED else found

    @property
    def constant(self) -> int | None:
        """The constant memory that the code declares, in bytes; None unless the output is a cubin."""
        if self.output != "cubin" or not isinstance(self.code, bytes):
            return None
        return sum(section.size for section in elf.sections(self.code) if section.name == _CONSTANTS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the code to a file, and the data that `device.load` needs to a second file with `.json` added to its name."""
        path = os.fspath(path)
        with open(path, "wb") as file:
            file.write(_bytes(self))
        write_index(f"{path}.json", [(os.path.basename(path), self)])

    def object_code(self) -> Any:
        """Returns the code as a `cuda.core.ObjectCode`, for its `Linker` and `launch`. Needs no GPU.

        `get_kernel` takes `symbol` and the name of the Python function. `cuda.core.launch` takes the arguments as `parameters`
        lists them, in their C++ layout. A failed `assert` or a `raise` ends such a launch with a trap. Raises `ValueError`
        unless the output is "cubin", "fatbin", "ptx" or "ltoir", and `LaunchError` if cuda-core is not installed.
        """
        if self.output not in _OBJECT_CODES:
            raise ValueError(
                f"output={self.output!r} is not code for GPUs: compile to one of {', '.join(_OBJECT_CODES)}"
            )
        make = getattr(driver.cuda_core().ObjectCode, f"from_{self.output}")
        # `get_kernel` takes the symbols of the mapping as bytes, although their hint is str (cuda-core 1.2).
        names = {self.entry.get("function", self.symbol): self.symbol.encode()}
        return make(_bytes(self), name=self.symbol, symbol_mapping=names)

    def launch(self, /, *args: Any, **keywords: Any) -> None:
        """Launches the kernel: see `LoadedKernel.launch`."""
        self._kernel.launch(*args, **keywords)

    @cached_property
    def _kernel(self) -> LoadedKernel:
        return LoadedKernel(self.entry.get("function", self.symbol), (self,))

    @cached_property
    def _constants(self) -> frozenset[str]:
        """The names of the parameters that are constants."""
        return frozenset(each.name for each in self.parameters if each.constant is not None and each.type != "none")

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """The values of parameters without an argument."""
        given = {each.name: _value(each.default) for each in self.parameters if each.default is not None}
        given |= {each.name: None for each in self.parameters if each.type == "none"}
        return given | dict.fromkeys(self._constants, _AS_COMPILED)

    @cached_property
    def _stub(self) -> Any:
        """A function with the parameters of the kernel, of which numbers and pointers have type hints, for reading arguments."""
        names, positional = [each.name for each in self.parameters], self.entry["positional"]
        listed = [*names[:positional], *["*"] * (positional < len(names)), *names[positional:]]
        made = eval(f"lambda {', '.join(listed)}: None", {})
        made.__qualname__ = made.__name__ = str(self.entry["function"])
        made.__annotations__ = {each.name: hint for each in self.parameters if (hint := _hint_of(each.type))}
        return made


_AS_COMPILED: Any = object()
"""The value of a constant parameter without an argument."""


def notation(value: Any) -> str:
    """A value in Python notation: NumPy's numbers as those of Python, and functions and types by their names."""
    if isinstance(value, tuple):
        return f"({', '.join(map(notation, value))}{',' * (len(value) == 1)})"
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.generic):
        return repr(value.item())
    return repr(int(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def literal_notation(value: Any) -> str | None:
    """The notation of a value that consists of Python's literals; None for others."""
    with contextlib.suppress(ValueError, SyntaxError):
        text = notation(value)
        _value(text)
        return text
    return None


def _value(text: str) -> Any:
    return float(text) if text in ("inf", "-inf", "nan") else ast.literal_eval(text)


_FORM = 4
"""The version of the format of an index."""


def write_index(path: str, files: Sequence[tuple[str, Compiled]]) -> None:
    """Writes the index of files at `path`."""
    kernels = [
        {
            "file": name,
            "digest": sha256(_bytes(each)).hexdigest(),
            "symbol": each.symbol,
            "target": each.target,
            "output": each.output,
            **each.entry,
        }
        for name, each in files
    ]
    import json

    with open(path, "w", encoding="utf-8") as file:
        json.dump({"cuda_device": _FORM, "kernels": kernels}, file, indent=1, ensure_ascii=False)


def _bytes(compiled: Compiled) -> bytes:
    return compiled.code if isinstance(compiled.code, bytes) else compiled.code.encode()


def load(path: str | os.PathLike[str]) -> Any:
    """Loads a file written by `Compiled.save`, or a folder written by `python -m cuda_device build`.

    Returns a `Compiled` for a file, and a dict of `LoadedKernel` by name for a folder, without loading the compiler or LLVM.
    Raises `LaunchError` for anything else, for files that have changed, and for files in another version of the format.
    """
    path = os.fspath(path)
    is_folder = os.path.isdir(path)
    index = os.path.join(path, "index.json") if is_folder else f"{path}.json"
    try:
        found = _read_index(index)
        if not is_folder:
            return found[0]
    except OSError as error:
        help = "load the output of Compiled.save(path) or of python -m cuda_device build, with its index in the same folder"
        raise LaunchError(f"{path} cannot be loaded: {error.filename}: {error.strerror}", help) from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise LaunchError(f"{index} is not an index of compiled kernels ({error})", "build it again") from None
    kernels: dict[str, list[Compiled]] = {}
    for each in found:
        if each.output in _LOADABLE and each.entry["kernel"]:
            kernels.setdefault(each.entry["function"], []).append(each)
    return {name: LoadedKernel(name, tuple(variants)) for name, variants in kernels.items()}


def _read_index(index: str) -> list[Compiled]:
    import json

    with open(index, encoding="utf-8") as file:
        data = json.load(file)
    if data["cuda_device"] != _FORM:
        raise ValueError(f"of format {data['cuda_device']}, and not {_FORM}")
    found = []
    for entry in data["kernels"]:
        path = os.path.join(os.path.dirname(index), entry.pop("file"))
        with open(path, "rb") as file:
            code = file.read()
        if sha256(code).hexdigest() != entry.pop("digest"):
            raise ValueError(f"{path} has changed since, or is another file")
        symbol, target, output = (entry.pop(name) for name in ("symbol", "target", "output"))
        text = code if output in ("cubin", "fatbin", "ltoir", "object") else code.decode()
        found.append(Compiled(text, symbol, target, output, entry))
    return found


# Launches


_LOADABLE = ("cubin", "fatbin", "ptx")
_OBJECT_CODES = (*_LOADABLE, "ltoir")
"""The outputs that `cuda.core.ObjectCode` holds."""


class LoadedKernel:
    """A kernel compiled ahead of time; `variants` lists its architectures and argument types."""

    def __init__(self, name: str, variants: tuple[Compiled, ...]) -> None:
        self.name, self.variants = name, variants
        self._made: dict[object, CompiledKernel] = {}
        self._fits: dict[tuple[int, int], list[tuple[Compiled, str]]] = {}

    def __repr__(self) -> str:
        found = "; ".join(
            f"({', '.join(p.type for p in each.parameters)}) on {each.target} as {each.output}"
            for each in self.variants
        )
        return f"<loaded kernel {self.name}: {found}>"

    @users_traceback
    def launch(
        self,
        /,
        *args: Any,
        grid: Any = None,
        block: Any = None,
        stream: Any = None,
        shared: int = 0,
        threads: Any = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        """Launches the variant for the stream's GPU and these arguments, with the keywords of `device.launch`.

        Python numbers are converted to the types that the variant was compiled for. Raises `LaunchError` if there is no variant
        for the GPU, or if no variant takes the arguments; in the second case, the error is a `TypeError` as well.
        """
        where = as_stream(stream)
        refused: list[LaunchError] = []
        for variant, target in self._for(where):
            assert isinstance(where, GpuStream)
            try:
                arguments = arguments_for(variant, args, kwargs, where)
            except LaunchError as error:
                refused.append(error)
                continue
            kernel = self._kernel(variant, target, arguments)
            shape = sized(kernel, where, LaunchSizes(grid, block, shared, threads, cluster))
            if kernel.work.job.options.launch_facts:
                _check_facts(kernel, arguments)
            start(kernel, where, shape, kernel.pack(arguments), arguments)
            return
        if len(refused) == 1:
            raise refused[0]
        reasons = "; ".join(dict.fromkeys(error.reason for error in refused))
        raise CallError(
            f"no variant of {self.name} takes these arguments: {reasons}", "build the kernel for these types as well"
        )

    def _for(self, stream: Stream) -> Sequence[tuple[Compiled, str]]:
        """The variants for a stream's GPU with their targets: machine code of the nearest architecture, or else PTX."""
        known = self._fits.get(driver.properties(stream.ordinal).capability) if isinstance(stream, GpuStream) else None
        if known is not None:
            return known
        if any(not each.entry.get("kernel") or each.output not in _LOADABLE for each in self.variants):
            raise LaunchError(
                f"{self.name} ({self.variants[0].output}) is not a kernel that a GPU can load",
                "compile a kernel to 'cubin', 'fatbin' or 'ptx'",
            )
        targets = ", ".join(dict.fromkeys(f"{each.target} ({each.output})" for each in self.variants))
        if not isinstance(stream, GpuStream):
            raise LaunchError(
                f"{self.name} was compiled for {targets}, but the stream is a CPU stream",
                "launch on a GPU stream; on the CPU, launch the original kernel with device.launch",
            )
        major, minor = driver.properties(stream.ordinal).capability
        here = 10 * major + minor
        fits = [(rank, each) for each in self.variants if (rank := _rank(each, here)) is not None]
        if not fits:
            raise LaunchError(
                f"{self.name} was compiled for {targets}, but this GPU is sm_{here}",
                f"build it for sm_{here}, or as PTX",
            )
        best = max(rank for rank, _ in fits)
        self._fits[major, minor] = found = [(each, rank[-1]) for rank, each in fits if rank == best]
        return found

    def _kernel(self, variant: Compiled, target: str, arguments: Sequence[Argument]) -> CompiledKernel:
        key = (variant, *(argument.known for argument in arguments))
        kernel = self._made.get(key)
        if kernel is None:
            record, known = variant.entry, tuple(argument.known for argument in arguments)
            settings = {name: value for name, value in record["options"].items() if name in fields_of(Options)}
            settings |= {name: tuple(value) for name, value in settings.items() if isinstance(value, list)}
            where = Target(parse(target))
            job = Job(variant._stub, known, True, where, Options(**settings), record["interop"])
            program = unpacked(record["programs"][target].encode())
            work = Work(job, {"cubin": Cubin(_bytes(variant), variant.output)}, program=program)
            kernel = self._made[key] = CompiledKernel.of(work)
        return kernel


def _rank(compiled: Compiled, here: int) -> tuple[int, int, str] | None:
    """The rank of code for a GPU, with the target that fits; None if the GPU cannot run it."""
    ranks = []
    for name in compiled.target.split(", "):
        made_for = parse(name)
        exact = made_for.number == here
        is_plain = name == f"sm_{made_for.number}"
        if compiled.output == "ptx":
            if exact or (is_plain and made_for.number <= here):
                ranks.append((0, made_for.number, name))
        elif exact or (
            (is_plain or name.endswith("f")) and made_for.number // 10 == here // 10 and made_for.number <= here
        ):
            ranks.append((1, made_for.number, name))
        elif name == compiled.entry.get("ptx") and is_plain and made_for.number <= here:
            ranks.append((0, made_for.number, name))  # by the PTX in the fatbin
    return max(ranks, default=None)


def arguments_for(
    variant: Compiled, args: Sequence[Any], kwargs: Mapping[str, Any], stream: Stream
) -> tuple[Argument, ...]:
    """Reads the arguments of a launch. Raises `LaunchError` if their types are not those of the variant."""
    record = variant.entry
    space = (Space.GLOBAL if record["kernel"] else Space.GENERIC) if record["interop"] else None
    hinted, found = parameters_of(variant._stub), []
    for parameter, value in zip(variant.parameters, bind(variant._stub, args, kwargs, variant._defaults), strict=True):
        is_constant = parameter.name in variant._constants
        name, compiled_for = parameter.name, parameter.constant if is_constant else parameter.type
        if is_constant:
            with contextlib.suppress(TypeError, OverflowError, KeyError):
                value = convert_number(value, NUMBERS[parameter.type], name)  # noqa: PLW2901
            given = parameter.constant if value is _AS_COMPILED else notation(value)
            fits = given == compiled_for
        else:
            found.append(_argument(hinted, name, value, stream))
            given = f"of type {found[-1].known.type}"
            fits = compiled_for in _forms(found[-1].known.type, space)
        if not fits:
            raise CallError(
                f"the argument {name!r} is {given}, but the kernel was compiled for {compiled_for}",
                "pass what it was compiled for, or build the kernel for this argument as well",
            )
    return tuple(found)


def _argument(parameters: Parameters, name: str, value: Any, stream: Stream) -> Argument:
    """Reads an argument. The index has no classes, so a pointer to structs has the class of the array that it points to."""
    wanted = parameters.hints.get(name)
    is_address = isinstance(value, (int, np.integer))
    if not is_address and isinstance(wanted, Pointer) and not isinstance(wanted.dtype, (Number, NoneType)):
        given = read(value, name, stream).known.type
        if isinstance(given, Array) and str(given.dtype) == str(wanted.dtype):
            return pointer_to(value, replace(wanted, dtype=given.dtype), name, stream)
    return argument_of(parameters, name, value, stream)


@lru_cache(maxsize=4096)
def _forms(given: Type, space: Space | None) -> tuple[str, ...]:
    """The types of parameters that take an argument of this type: also read-only arrays, and for C++ arrays in a space."""
    types = [given]
    if isinstance(given, Array) and not given.readonly:
        types.append(replace(given, readonly=True))
    return tuple(str(each if space is None else exchanged(each, space)) for each in types)


def _hint_of(type: str) -> Number | Pointer | None:
    """The type of a parameter that is a number or a pointer."""
    if not type.startswith("pointer<"):
        return NUMBERS.get(type)
    to, _, flag = type.removeprefix("pointer<").removesuffix(">").partition(", ")
    pointees: dict[str, Number | NoneType] = {"none": NONE, **NUMBERS}
    if to in pointees:
        return Pointer(pointees[to], flag == "readonly")
    from cuda_device.ir.text import parse_type  # few kernels need it

    found = parse_type(type)
    assert isinstance(found, Pointer)
    return found


def _check_facts(kernel: CompiledKernel, arguments: Sequence[Argument]) -> None:
    """Raises `LaunchError` if the arrays do not have the properties of `launch_facts`."""
    views = [view for argument in arguments for view in argument.views]
    if small(views) and disjoint(views, kernel.work.outline.written):
        return
    raise LaunchError(
        "the kernel was compiled with launch_facts=True, and its arrays are too large or share memory",
        "compile it without launch_facts, or copy the arrays",
    )


__all__ = ["Compiled", "LoadedKernel", "Parameter", "load"]


def ir_lines(compiled: Compiled) -> Iterator[tuple[Location | None, str]]:
    """The lines of the typed IR of what `compile` returned, each with the location of the user's code that it comes from."""
    from cuda_device import compiler
    from cuda_device.ir.text import show

    assert compiled._job is not None
    for function in compiler.run(compiled._job, "typed")["typed"].functions:
        operations = iter(function.ops())
        for line in show(function).splitlines():
            location = next(operations).location if line.startswith("  ") else None
            yield location if location and location.line > 0 else None, line
