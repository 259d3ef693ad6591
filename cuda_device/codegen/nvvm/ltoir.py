"""LTO-IR: what libNVVM makes of LLVM IR for nvJitLink, which inlines it into CUDA C++, and CUDA C++ into it, when it links.

make(llvm, parse("sm_90"), Options())  ->  bytes that begin with b"\\xedCN\\x7f"

libNVVM has two languages: for compute capability 10.0 and up LLVM's present one, below that the one of LLVM 7.
"""

from __future__ import annotations

from cuda_device.codegen.emit.to_llvm import Llvm
from cuda_device.codegen.gpu import libdevice
from cuda_device.codegen.nvvm import translate_llvm7
from cuda_device.device.options import Options
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.types.architectures import Architecture

# The first architecture for which libNVVM reads LLVM's present language.
_MODERN = 100
MAGIC = b"\xedCN\x7f"


def make(llvm: Llvm, architecture: Architecture, options: Options) -> bytes:
    """The LTO-IR of a module. Raises `CompileError` where libNVVM is missing, or cannot say what the module says."""
    try:
        from cuda.bindings import nvvm

        nvvm.version()
    except (ImportError, RuntimeError) as error:
        raise CompileError(
            "LTO-IR is made by libNVVM, which is not on this machine",
            help="pip install cuda_device[cu13], or install a CUDA toolkit and set CUDA_HOME",
        ) from error
    text = translate_llvm7.marked(llvm.text) if architecture.number >= _MODERN else translate_llvm7.translate(llvm.text)
    program = nvvm.create_program()
    try:
        data = text.encode()
        nvvm.add_module_to_program(program, data, len(data), "cuda_device")
        if llvm.library:
            library = libdevice.file().read_bytes()
            nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        words = _options(architecture, options)
        try:
            nvvm.compile_program(program, len(words), words)
        except nvvm.nvvmError as error:
            raise CompilerBug(f"libNVVM refuses the module: {_log(program)}") from error
        code = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, code)
        return bytes(code)
    finally:
        nvvm.destroy_program(program)


def _options(architecture: Architecture, options: Options) -> list[str]:
    approximate = "afn" in options.fastmath
    return [
        f"-arch={architecture.name.replace('sm_', 'compute_')}",
        "-gen-lto",
        f"-opt={3 if options.level else 0}",
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
