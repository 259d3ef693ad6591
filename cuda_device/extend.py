"""What plugins are built on, beside the public names of `cuda_device`. Our own plugins use nothing else.

    from cuda_device import extend

    stream = extend.as_stream(torch_stream)
    values = extend.bind(kernel.underlying, args, kwargs, extend.defaults_of(kernel.underlying))

Each name is imported from its module on first use.
"""

from __future__ import annotations

import importlib
import sys

# The names by their modules, in the order of the documentation. A name that is a module is a namespace.
_MODULES = {
    # functions and kernels
    "device.functions": "CPP_WORDS links_of",
    "device.options": "Options",
    "device.parameters": "defaults_of",
    "runtime.launch.arguments": "Argument bind describe parameters_of",
    "types.host": "type_of_hint",
    "types.layout": "Placement accesses align_of has_arrays placement size_of",
    # launches
    "runtime.gpu.grid": "Shape",
    "runtime.launch.launcher": "CompiledKernel check_facts check_kernel planned sized start users_traceback",
    "runtime.launch.compiled": "Record kernel_of",
    # streams and the driver
    "runtime.gpu.streams": "as_stream join",
    "runtime.gpu": "driver",
    # types, and how C++ passes their values
    "types": "architectures model",
    "types.abi": "exchanged passing representation",
    "types.packing": "boundary_packing",
    "types.vector_classes": "value_of",
    # compilation
    "codegen.emit": "to_llvm",
    "compiler": "Stage show",
    "hooks": "target",
    "ir": "ops",
    "jobs": "Job Target Work",
    "outputs": "Output add_output find_output",
    "runtime.launch.compiling": "typed_ir",
    "codegen.llvm_text": "LLVM_TYPE split_list",
    # errors
    "errors": "CompilerBug Location too_deep",
    "runtime.gpu.report_message": "failure",
    # files, and NVIDIA's libraries
    "cache": "disk sha256",
    "codegen.gpu": "libdevice toolkit",
    # data classes
    "lazy_dataclasses": "dataclass field fields_of replace",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - a list of names


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    home = f"{__package__}.{_HOMES[name]}"
    module = importlib.import_module(home)
    value = globals()[name] = (
        getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{home}.{name}")
    )
    return value


def __dir__() -> list[str]:
    return __all__
