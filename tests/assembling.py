"""A plugin of pytest that assembles the kernels of tests on CPU streams for GPUs, and does not execute them.

    CUDA_DEVICE_ASSEMBLED=log pytest -p assembling tests/repository/test_programs.py

Tests fail where they look at results. The file of the variable gets a line of JSON for each kernel and architecture: the module
and the name of the kernel, the architecture, and what the assembler warns of or why the kernel is refused.
"""

import json
import os
import re
import warnings

from cuda_device import CompileError, compiler
from cuda_device.cpu import cpu_target
from cuda_device.device.target import selector
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.architectures import Architecture, parse

ARCHITECTURES = "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"
_assembled = set()


def pytest_configure() -> None:
    """Makes launches on CPU streams do nothing but compile up to the IR that all targets share, and observes this."""
    cpu_target.execution = lambda *_: lambda *_: None
    compiler.observe_compilations(assemble)


def assemble(job: compiler.Job) -> None:
    """Assembles a kernel that has been compiled for a CPU stream, as launches on GPUs do."""
    key = job.function, job.arguments, job.options
    if not job.kernel or not job.target.on_cpu or key in _assembled:
        return
    _assembled.add(key)
    with open(os.environ["CUDA_DEVICE_ASSEMBLED"], "a") as log:
        for name in ARCHITECTURES:
            target, options = compiler.Target(parse(name)), replace(job.options, checked=False)
            row = {"module": job.function.__module__, "kernel": job.name, "architecture": name}
            log.write(json.dumps(row | _result(replace(job, target=target, options=options))) + "\n")


def _result(job: compiler.Job) -> dict[str, object]:
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        try:
            compiler.run(job, "cubin")
        except CompileError as error:
            return {"refused": str(error), "lacking": is_lacking(error, job.target.architecture)}
    return {"warnings": [str(warning.message) for warning in issued]}


def is_lacking(error: CompileError, architecture: Architecture) -> bool:
    """Whether an error says, with the user's line, what an architecture lacks."""
    needed = re.search(r"needs (sm_\d+[af]?)|shared arrays take (\d+) bytes", error.reason)
    if needed is None or error.location is None:
        return False
    if needed[2]:
        return int(needed[2]) > architecture.most_shared
    return not selector(architecture.name).provides(selector(needed[1]))
