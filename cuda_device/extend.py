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
    "device.parameters": "defaults_of",
    "runtime.launch.arguments": "Argument bind parameters_of",
    "types.host": "type_of_hint",
    "types.layout": "Placement align_of placement size_of",
    "device.entities": "DeviceValue",
    # inference
    "infer.policies": "Policy",
    "infer.frame": "Cell Frame",
    "types.known": "Known",
    # launches
    "runtime.gpu.grid": "Shape",
    "runtime.launch.launcher": "CompiledKernel check_kernel planned start users_traceback",
    # streams and the driver
    "runtime.gpu.streams": "as_stream join",
    "runtime.gpu.created_streams": "current_device",
    "runtime.gpu": "driver",
    # arrays
    "runtime.arrays.device_array": "host_layout with_layout",
    # types
    "types": "model",
    # compilation
    "compiler": "Stage",
    "jobs": "Job Target Work",
    "codegen.gpu": "libdevice",
    # data classes
    "lazy_dataclasses": "dataclass field replace",
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
