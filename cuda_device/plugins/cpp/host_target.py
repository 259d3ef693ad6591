"""The host as a target (`hooks.TARGETS`): functions that a program in C++ calls.

device ─ inlined ─ llvm ─ object
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda_device import hooks
from cuda_device.compiler import Stage, show

if TYPE_CHECKING:
    from cuda_device.codegen.emit import to_llvm
    from cuda_device.ir.nodes import Module
    from cuda_device.jobs import Work

_CPU: Any = hooks.plugin(hooks.TARGETS["cpu"])


def _inlined(work: Work) -> Module:
    from cuda_device.cpu import cpu_passes
    from cuda_device.plugins.cpp import c_functions

    c_functions.check(work["device"])
    return cpu_passes.return_exits(work["device"])


def _llvm(work: Work) -> to_llvm.Llvm:
    from cuda_device.codegen.emit import to_llvm
    from cuda_device.plugins.cpp.c_functions import HostDialect

    options, typed = work.job.options, work["typed"].main
    return to_llvm.run(work["inlined"], HostDialect(work["inlined"], typed.prototype, typed.name), options)


def _object(work: Work) -> bytes:
    from cuda_device.cpu import native

    return native.compile_module(work["llvm"].text, work.job.options.level)[1]


PASSES = _CPU.PASSES
"""Passes of the stage `device`."""
STAGES = (
    Stage("inlined", _inlined, "ir", show),
    Stage("llvm", _llvm, "ll", lambda artifact: artifact.text),
    Stage("object", _object, "o", bytes),
)
"""The stages that follow `device`."""


def kept() -> None:
    """The cache on disk does not keep object files."""
