"""The CPU as a target (`hooks.TARGETS`): how kernels are compiled for it, and how launches start.

    device ─ inlined ─ llvm ─ native

The core uses the names of this module alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from cuda_device.compiler import most_shared_of
from cuda_device.cpu.processor import worker_count
from cuda_device.extend import Stage, show

if TYPE_CHECKING:
    from cuda_device.cache.entries import Kept
    from cuda_device.cpu import machine_code
    from cuda_device.extend import CompiledKernel, Shape, Work, to_llvm
    from cuda_device.ir.nodes import Module


def _check_early(module: Module) -> None:
    from cuda_device.cpu import early_checks

    early_checks.add_early_checks(module)


def _inlined(work: Work) -> Module:
    from cuda_device.cpu import cpu_passes, traces, uniform

    options, asked, module = work.job.options, work.job.target.options, work["device"]
    if options.checked:
        module = cpu_passes.guard_stack(module)
    if "races" in asked:
        module = cpu_passes.inline_traced(traces.add_events(module, options.launch_facts))
    module = cpu_passes.inline_suspending(cpu_passes.add_yields(module, "permuted" in asked))
    module = cpu_passes.return_exits(module if options.debug else cpu_passes.inline_loops(module))
    return traces.drop_waits(uniform.drop_ordered_reads(module)) if "races" in asked else module


def _llvm(work: Work) -> to_llvm.Llvm:
    from cuda_device.cpu import regions, uniform
    from cuda_device.cpu.cpu_dialect import Cpu
    from cuda_device.extend import to_llvm

    options, asked, module = work.job.options, work.job.target.options, work["inlined"]
    limit = None
    if not options.debug:
        module, limit = uniform.split_guard(module)
    module, divided = regions.split(module, options.debug, not asked)
    dialect = Cpu(module, options, most_shared_of(work), divided, limit)
    return to_llvm.run(module, dialect, options)


def _native(work: Work) -> machine_code.Native:
    from cuda_device.cpu import machine_code

    return machine_code.compile_native(work["llvm"].text, level=min(work.job.options.level, 2))


PASSES = (_check_early,)
"""Passes of the stage `device`."""
STAGES = (
    Stage("inlined", _inlined, "ir", show),
    Stage("llvm", _llvm, "ll", lambda artifact: artifact.text),
    Stage("native", _native, "s", lambda artifact: artifact.assembly),
)
"""The stages that follow `device`."""


def kept() -> Kept:
    """How the cache on disk keeps machine code."""
    from cuda_device.cpu import machine_code

    return machine_code.KEPT


def most_resident() -> int:
    """The number of blocks that run at the same time in a cooperative launch."""
    from cuda_device.cpu.records import INTERLEAVED

    return INTERLEAVED


def execution(variant: CompiledKernel, shape: Shape, schedule: int | None) -> Callable[..., None]:
    """A function that launches a kernel with this size: `launch(parameters, arguments, stopped)` (`cpu_executor.Execution`)."""
    from cuda_device.cpu.cpu_executor import Execution

    work, outline = variant.work, variant.work.outline
    launch = Execution(
        work["native"],
        shape,
        places=variant.places,
        prints=outline.prints,
        checked=bool(work.job.options.checked),
        may_run_long=outline.may_run_long,
        workers=1 if "races" in work.job.target.options else None,
        schedule=schedule,
    )
    if "races" not in work.job.target.options:
        return launch
    from cuda_device.cpu import races

    return races.watched(work, launch)


# For targets that are built on this one.

_MODULES = {"Cpu": "cpu_dialect", "compile_module": "native", "link": "machine_code", "return_exits": "cpu_passes"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(importlib.import_module(f"cuda_device.cpu.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["PASSES", "STAGES", "execution", "kept", "most_resident", "worker_count"]
