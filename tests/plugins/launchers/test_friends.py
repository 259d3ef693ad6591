"""The private names of the core and of the CPU target that launchers use."""

import pytest

from cuda_device.errors import PluginError

rings = pytest.importorskip("test_rings", exc_type=PluginError, reason="looks at the stubs of all plugins")
NAMES = {
    "cuda_device": "logs",
    "cuda_device.cpu": "host_code machine_code",
    "cuda_device.device.memory": "array_at local_array",
    "cuda_device.device.options": "CHECKED_VARIABLE",
    "cuda_device.device.parameters": "parameter_names",
    "cuda_device.infer.contents": "Content",
    "cuda_device.infer.dependencies": "Dependency MISSING PASSING",
    "cuda_device.library.copying": "address",
    "cuda_device.runtime.arrays.dlpack": "Exchange exchange_of",
    "cuda_device.runtime.gpu": "grid launch_log report_message streams",
    "cuda_device.runtime.gpu.streams": "Retained",
    "cuda_device.types.argument_packing": "code_of",
    "cuda_device.types.exchange_formats": "dlpack_of_element",
    "cuda_device.types.host": "is_struct",
    "cuda_device.types.known": "of_type",
    "cuda_device.types.struct_classes": "REACHES_OTHERS",
}
"""The names by their modules. This list may only become shorter."""


def test_launchers_use_the_private_names_of_the_list():
    files = [path for path in rings.PLUGINS if rings.plugin_of(path) == "launchers"]
    used = {name for path in files for _, name in rings.private_names(path, "cuda_device.plugins.launchers")}
    assert used == {f"{module}.{name}" for module, names in NAMES.items() for name in names.split()}
