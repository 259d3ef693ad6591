"""The host as a target (`hooks.TARGETS`): functions that a program in C++ calls.

    device ─ inlined ─ llvm ─ object

It is built on the target for CPUs.
"""

from __future__ import annotations

from typing import Any

from cuda_device.extend import Output, Stage, Work, target, to_llvm
from cuda_device.plugins.cpp import c_functions
from cuda_device.plugins.cpp.native_functions import NativeFunction

_CPU: Any = target("cpu")


def _inlined(work: Work) -> Any:
    c_functions.check_host_code(work["device"])
    return _CPU.return_exits(work["device"])


def _llvm(work: Work) -> Any:
    options, typed = work.job.options, work["typed"].main
    dialect = c_functions.HostDialect(work["inlined"], typed.prototype, typed.name)
    return to_llvm.run(work["inlined"], dialect, options)


def _object(work: Work) -> bytes:
    code: bytes = _CPU.compile_module(work["llvm"].text, work.job.options.level)[1]
    return code


PASSES = _CPU.PASSES
"""Passes of the stage `device`."""
STAGES = (
    Stage("inlined", _inlined),
    Stage("llvm", _llvm, "ll", lambda artifact: artifact.text),
    Stage("object", _object, "o", bytes),
)
"""The stages that follow `device`."""
OUTPUTS = {
    "object": Output("object", "object"),
    "callable": Output("callable", "object", finish=NativeFunction),
    "ir": Output("ir", "typed"),
    "llvm": Output("llvm", "llvm"),
}
"""The outputs of `compile`, the default one first."""


def kept() -> None:
    """The cache on disk does not keep object files."""
