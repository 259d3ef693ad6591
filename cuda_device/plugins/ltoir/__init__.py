"""LTO-IR, an output of `compile`: libNVVM generates it, so that nvJitLink inlines calls between kernels and CUDA C++.

make(llvm, parse("sm_90"), Options())       bytes that begin with b"\\xedCN\\x7f"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cuda_device import CompileError
from cuda_device.extend import CompilerBug, Output, Work, libdevice, toolkit
from cuda_device.plugins.ltoir import cpp_signatures
from cuda_device.plugins.ltoir.translation import translate


def _ltoir(work: Work) -> bytes:
    functions = cpp_signatures.prototypes(work["typed"], work.job.by_address)
    return make(work["llvm"], work.job.target.architecture, work.job.options, functions)


OUTPUT = Output("ltoir", "llvm", _ltoir, has_object_code=True)


def identity() -> str:
    """libNVVM's version, for cache keys; empty if it is missing."""
    try:
        from cuda.bindings import nvvm

        return "libNVVM {}.{}".format(*nvvm.version())
    except (ImportError, RuntimeError):
        return ""


def make(llvm: Any, architecture: Any, options: Any, functions: Mapping[str, cpp_signatures.CppPrototype]) -> bytes:
    """The LTO-IR of a module; `functions` are those that C++ defines or calls.

    Raises `CompileError` if libNVVM is missing or does not support an operation.
    """
    if not identity():
        raise CompileError(
            "LTO-IR needs libNVVM, which is not on this machine",
            help=f"{toolkit.pip_install()}, or install a CUDA toolkit and set CUDA_HOME",
        )
    from cuda.bindings import nvvm

    text = translate(cpp_signatures.with_cpp_types(llvm.text, functions))
    if architecture.number >= 100:  # for which libNVVM requires the type of a copy in `byval`, too
        text = re.sub(r"(%cpp\.\d+|\[\d+ x i8\])\* byval ", r"\1* byval(\1) ", text)
    program = nvvm.create_program()
    try:
        data = text.encode()
        nvvm.add_module_to_program(program, data, len(data), "cuda_device")
        if llvm.library:
            library = libdevice.file().read_bytes()
            nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        words = [
            f"-arch={architecture.name.replace('sm_', 'compute_')}",
            "-gen-lto",
            f"-opt={3 if options.level else 0}",
        ]
        words += floating_point(options)
        try:
            nvvm.compile_program(program, len(words), words)
        except nvvm.nvvmError as error:
            raise CompilerBug(f"libNVVM rejects the module: {_log(program)}") from error
        code = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, code)
        return bytes(code)
    finally:
        nvvm.destroy_program(program)


def floating_point(options: Any) -> list[str]:
    """The floating-point options of libNVVM and nvJitLink."""
    approximate = "afn" in options.fastmath
    return [
        f"-fma={int(options.contract)}",
        f"-ftz={int('ftz' in options.fastmath)}",
        f"-prec-div={int(not approximate)}",
        f"-prec-sqrt={int(not approximate)}",
    ]


def _log(program: int) -> str:
    from cuda.bindings import nvvm

    log = bytearray(nvvm.get_program_log_size(program))
    nvvm.get_program_log(program, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()
