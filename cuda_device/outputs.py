"""The outputs of `compile`: what each is made of, and what can be done with it.

    output_of("sm_90", "ptx")          CompilerOutput("ptx", "ptx", is_loadable=True, has_object_code=True)
    output_of("host", "cubin")         ValueError

The core has those of GPUs, `hooks.OUTPUTS` those of plugins, and a target that is not a GPU has its own. `add_output` adds one:

    def registers(work: extend.Work) -> str:
        return "\n".join(line for line in work["ptx"].splitlines() if ".reg" in line)

    extend.add_output(extend.Output("registers", "ptx", registers))
    device.compile(saxpy, float, x, y, output="registers").code
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cuda_device import hooks
from cuda_device.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from cuda_device.jobs import Work


@dataclass(frozen=True, slots=True)
class CompilerOutput:
    """An output of `compile`: a str or bytes.

    It is the artifact of the stage `after` of the compiler, or what `make` returns for the work up to this stage. The text of
    LLVM IR is `work["llvm"].text`, that of PTX `work["ptx"]`. A `CompileError` of `make` is one of the user's program.
    """

    name: str
    after: str
    make: Callable[[Work], str | bytes] | None = None
    is_loadable: bool = False
    """Whether the driver loads it, so that kernels can be launched."""
    has_object_code: bool = False
    """Whether a `cuda.core.ObjectCode` can hold it."""
    combine: Callable[..., Any] | None = None
    """For several targets: `combine(function, targets, compile, linked)` makes it of what `compile(target, output)` returns."""
    finish: Callable[..., Any] | None = None
    """Makes the result of `compile` from the `Compiled` object and the `Work`."""

    @property
    def stage(self) -> str:
        """The stage whose artifact it is."""
        return self.name if self.make is not None else self.after


_OF_GPUS = {
    "ir": CompilerOutput("ir", "typed"),
    "llvm": CompilerOutput("llvm", "llvm"),
    "ptx": CompilerOutput("ptx", "ptx", is_loadable=True, has_object_code=True),
    "cubin": CompilerOutput("cubin", "cubin", is_loadable=True, has_object_code=True),
}
_DEFAULT = "cubin"


def find_output(name: str) -> CompilerOutput | None:
    """The output for GPUs of this name; None if there is none, or if its plugin is not installed."""
    if name not in hooks.OUTPUTS:
        return _OF_GPUS.get(name)
    plugin = hooks.installed(hooks.OUTPUTS[name])
    return plugin and plugin.OUTPUT


def names() -> list[str]:
    """The names of the outputs for GPUs."""
    return [*_OF_GPUS, *hooks.OUTPUTS]


def output_of(target: str | Sequence[str], name: str) -> CompilerOutput:
    """The output of a target; "default" is the usual one. Raises `ValueError` if the target does not have it."""
    outputs = _of_target(target) if isinstance(target, str) else None
    if outputs is not None:
        output = outputs.get(next(iter(outputs)) if name == "default" else name)
    else:
        plugin = hooks.OUTPUTS.get(name)
        output = hooks.plugin(plugin).OUTPUT if plugin else _OF_GPUS.get(_DEFAULT if name == "default" else name)
    if output is None:
        choices, others = ", ".join(outputs or names()), "" if outputs else ", or import the plugin that adds it"
        raise ValueError(f"output={name!r} is not available for target={target!r}: choose one of {choices}{others}")
    return output


def _of_target(target: str) -> Mapping[str, CompilerOutput] | None:
    """The outputs of a target that is not a GPU, the default one first; None for others."""
    return getattr(hooks.target(target), "OUTPUTS", None) if target in hooks.TARGETS else None


def add_output(output: CompilerOutput) -> None:
    """Adds an output for GPUs to those of `compile`. Raises `ValueError` if there is another one of its name.

    A cell of a notebook that defines its `make` again, or a module that is loaded again, replaces it.
    """
    older = _OF_GPUS.get(output.name, output)
    if output.name in hooks.OUTPUTS or (older != output and not _is_redefined(older.make, output.make)):
        raise ValueError(f"there is an output {output.name!r} already: choose another name")
    _OF_GPUS[output.name] = output


def _is_redefined(older: object, newer: object) -> bool:
    """Whether a statement of a module that defines the function `older` has run again; other functions may share a name."""
    name, again = ((getattr(make, "__module__", None), getattr(make, "__qualname__", "<>")) for make in (older, newer))
    return name == again and "<" not in name[1]
