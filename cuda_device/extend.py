"""What plugins are built on, beside the public names of `cuda_device`. Our own plugins use nothing else.

    from cuda_device import extend

    stream = extend.as_stream(torch_stream)
    values = extend.bind(kernel.underlying, args, kwargs, extend.defaults_of(kernel.underlying))

Each name is imported from its module on first use.
"""

from __future__ import annotations

import importlib
import sys

# The names by their modules, in the order of the documentation; `a=b`: what the module calls b. A name may be a module.
_MODULES = {
    # functions and kernels
    "device": "copies",
    "device.functions": "DecoratedFunction links_of",
    "device.hints": "const_parameters parameters_of",
    "device.atomics": "await_change",
    "device.memory": "aligned block_words displaced",
    "device.options": "Options",
    "device.parameters": "defaults_of",
    "runtime.launch.arguments": "Argument bind",
    "runtime.launch.by_value": "ByValue",
    "types.host": "host_type=host_type_of struct_model type_of_hint",
    "types.struct_classes": "as_type",
    "device.entities": "DeviceValue",
    "device.rows": "constant_of type_argument",
    "device.specialised": "specialised",
    # inference
    "infer": "policies",
    "infer.contents": "dependency_on",
    "types.known": "Known",
    # launches
    "runtime.gpu.grid": "LaunchSizes Shape",
    "instrument.outline": "pack_summary=packed unpack_summary=unpacked",
    "runtime.launch.compiled": "CodeRecord kernel_of",
    "runtime.launch.launcher": (
        "CompiledKernel check_kernel count_launches machine_launches planned start start_together start_variant "
        "users_location"
    ),
    # arrays
    "runtime.arrays.device_array": "array_view with_layout",
    # streams and the driver
    "runtime.gpu.streams": "as_stream join",
    "runtime.gpu.created_streams": "current_device",
    "runtime.gpu": "driver",
    # types, and how C++ passes their values
    "types": "abi architectures layout model",
    "types.vector_classes": "host_value=value_of",
    # compilation
    "codegen.emit": "to_llvm",
    "codegen.gpu": "elf libdevice toolkit",
    "codegen.gpu.assemblers": "toolchain",
    "codegen": "llvm_text",
    "compiler": "Stage compile_job=run observe_compilations show",
    "hooks": "target",
    "ir": "ops",
    "jobs": "Job Target Work",
    "outputs": "Output=CompilerOutput add_output",
    "runtime.launch.compile_job": "job_of",
    # errors and the cache
    "errors": "CompilerBug Location users_traceback",
    "runtime.gpu.report_message": "kernel_error=failure",
    "cache": "disk sha256",
    # data classes
    "lazy_dataclasses": "dataclass field replace",
}
_HOMES = {
    name.partition("=")[0]: (module, name.rpartition("=")[2])
    for module, names in _MODULES.items()
    for name in names.split()
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - a list of names


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    home, attribute = _HOMES[name]
    module = importlib.import_module(f"{__package__}.{home}")
    is_module = not hasattr(module, attribute)
    value = importlib.import_module(f"{module.__name__}.{attribute}") if is_module else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
