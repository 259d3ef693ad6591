"""Where the core meets the CPU target and the plugins. It knows them by these tables alone.

A value is a module, named relative to this package, which is imported when it is needed. The core works without these modules;
what needs one that is not installed raises a `PluginError` that says which.

    hooks.TARGETS["cpu"]                       "cpu.cpu_target"
    hooks.plugin("plugins.graphs")             the module
    hooks.installed("plugins.starts.programs") the module, or None
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, cast

TARGETS = {"cpu": "cpu.cpu_target", "host": "plugins.cpp.host_target"}
"""Code generators for other machines than GPUs, by `Target.machine`: modules with

- `STAGES` (`compiler.Stage`), which follow the stage `device`, and `PASSES`, functions that optimise its module
- `kept()`: how the cache on disk keeps the last artifact (`cache.entries.Kept`), or None
- for the CPU, what launches need: `execution`, `most_resident` and `worker_count`
"""

OUTPUTS = {"ltoir": "plugins.ltoir", "fatbin": "plugins.saved.fatbin"}
"""Outputs of `compile` for GPUs beside those of the core: modules with `OUTPUT` (`outputs.CompilerOutput`)."""

GENERATED = "plugins.generated"
"""Makes functions of text and code objects for `compile`: a module with `function_of(source, globals)`."""

SAVED = "plugins.saved"
"""Writes compiled code to files and launches it: a module with `save(compiled, path)` and `LoadedKernel`."""

LINK_KINDS = dict.fromkeys((".cu", ".cuh", ".cpp", ".cc", ".cxx", ".hpp", ".h"), "plugins.cpp.sources")
"""Suffixes of files that `link=` compiles: modules with `source_of(path)`, which returns a source (`codegen.gpu.linking`)."""

LAUNCHERS = "plugins.launchers.plans"
"""Makes repeated launches in place of Python."""

RECALL = "plugins.starts.programs"
"""Finds the program of a kernel without compiling it."""

COMMAND_LINE = "plugins.command_line"
"""`python -m cuda_device`: a module with `main()`."""

REWRITTEN = dict.fromkeys(("@pytest_ar", "@py_builtins"), "plugins.rewritten_asserts")
"""Global names in functions whose asserts a tool has rewritten: modules with `original(code)`."""

EXTERNS = {"nvshmem_": "plugins.nvshmem", "nvshmemx_": "plugins.nvshmem"}
"""Prefixes of functions that are declared without a definition to link: modules with `declare(stub, name)`."""

LOADED = {b"nvshmemi_device_state_d": "plugins.nvshmem"}
"""Symbols of cubins whose libraries are initialised when a cubin is loaded: modules with `begin(library)`."""

POLICIES = {"wide": "plugins.numba.wide"}
"""Rules of inference in place of Python's (`Options.policy`): modules with `POLICY`, an `infer.policies.Policy`."""

LIBRARIES = {
    "plugins": "tiles",
    "plugins.numba": "compat device_functions xoroshiro",
    "plugins.tensor_cores": (
        "async_copies box_copies bulk_copies elections emulated_products fragments matrix_moves mbarriers named_barriers "
        "packed_elements reductions registers single_instructions swizzling tensor_memory tensor_moves tensor_products "
        "tma warp_matrices warpgroup_matrices"
    ),
}
"""Modules, by their packages, whose functions are compiled like those of `library`: messages show where the user called them."""

DEVICE_CODE = ("cpu.", "plugins.groups.", "plugins.launchers.", "plugins.tensor_cores.", "plugins.tiles")
"""Packages of which plain functions may be compiled, beside those of the core that consist of device code."""

NAMES = {
    "plugins.autotuning": "TunedFunction TunedKernel autotune",
    "plugins.benchmarking": "Timing benchmark",
    "plugins.bound_kernels": "BoundKernel",
    "plugins.cpp.bindings": "Bindings bindings",
    "plugins.cpp.headers": "cpp_declaration cpp_header get_include",
    "plugins.cpp.native_functions": "NativeFunction",
    "plugins.cpp.sources": "cuda_source",
    "plugins.framework_operators": "jax_op torch_op tvm_ffi_function",
    "plugins.graphs": "Graph graph",
    "plugins.groups.device_group": "DeviceArrayGroup DeviceGroup launch_group",
    "plugins.groups.group_barriers": "group_barrier signal wait_until",
    "plugins.groups.symmetric_array": "SymmetricArray",
    "plugins.host_functions": "HostFunction host_function",
    "plugins.random": "Philox philox philox4x32 philox4x64",
    "plugins.saved": "LoadedKernel load",
    "plugins.saved.folders": "build",
    "plugins.tensor_cores.async_copies": "cp_async cp_async_arrive cp_async_commit cp_async_wait",
    "plugins.tensor_cores.bulk_copies": "bulk_commit bulk_load bulk_reduce bulk_store bulk_wait",
    "plugins.tensor_cores.dependent_launches": "launch_dependents wait_dependencies",
    "plugins.tensor_cores.elections": "elect_one",
    "plugins.tensor_cores.fragments": "fragment_place",
    "plugins.tensor_cores.matrix_moves": "ldmatrix movmatrix stmatrix",
    "plugins.tensor_cores.mbarriers": "MBarrier fence_mbarrier_init fence_proxy_async",
    "plugins.tensor_cores.named_barriers": "barrier_arrive barrier_sync",
    "plugins.tensor_cores.packed_elements": "pack to_tf32 unpack",
    "plugins.tensor_cores.reductions": "red_add",
    "plugins.tensor_cores.registers": "set_max_registers",
    "plugins.tensor_cores.swizzling": "rows swizzled",
    "plugins.tensor_cores.tensor_maps": "TensorMap TensorMapType",
    "plugins.tensor_cores.tensor_memory": (
        "TensorMemory tcgen05_alloc tcgen05_dealloc tcgen05_fence_after_sync tcgen05_fence_before_sync "
        "tcgen05_relinquish_permit"
    ),
    "plugins.tensor_cores.tensor_moves": "tcgen05_ld tcgen05_st tcgen05_wait_ld tcgen05_wait_st",
    "plugins.tensor_cores.tensor_products": "tcgen05_commit tcgen05_cp tcgen05_mma",
    "plugins.tensor_cores.tma": "tma_load tma_prefetch tma_reduce tma_store",
    "plugins.tensor_cores.warp_matrices": "mma_sync",
    "plugins.tensor_cores.warpgroup_matrices": "wgmma wgmma_wait",
}
"""The public names of plugins, which `cuda_device` finds when they are used."""

MODULES = {
    "dask": "plugins.dask",
    "numba_compat": "plugins.numba.compat",
    "numba_random": "plugins.numba.xoroshiro",
    "nvshmem": "plugins.nvshmem",
    "pytest_plugin": "plugins.pytest_plugin",
    "tiles": "plugins.tiles",
}
"""Public modules, which are imported as `cuda_device.dask` and so on."""


def plugin(module: str) -> Any:
    """Imports a module of these tables. Raises `PluginError` if its plugin, or the CPU target, is not installed."""
    name = f"{__package__}.{module}"
    try:
        imported = importlib.import_module(name)  # which waits for another thread that is importing it
        if getattr(imported, "__file__", "") is not None:
            return imported
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
    from cuda_device.errors import PluginError  # which `import cuda_device` does not need

    # It does not exist, or it is a folder of which only bytecode is left.
    missing = "the CPU target" if module.startswith("cpu.") else f"the plugin {module.split('.')[1]!r}"
    raise PluginError(f"this needs {missing} of {__package__}, which is not installed")


def target(name: str) -> Any:
    """The module of a target (`TARGETS`), for others that are built on it: `target("cpu")`. Raises `PluginError`."""
    if name not in TARGETS:
        raise ValueError(f"there is no target {name!r}: choose one of {', '.join(TARGETS)}")
    return plugin(TARGETS[name])


def installed(module: str) -> Any | None:
    """The module, or None if its plugin is not installed."""
    from cuda_device.errors import PluginError

    try:
        return plugin(module)
    except PluginError:
        return None


class _PublicModules:
    """Finds and imports the modules of `MODULES` under their public names."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        return ModuleSpec(name, cast("Any", _PublicModules)) if package == __package__ and module in MODULES else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        module: ModuleType = plugin(MODULES[spec.name.rpartition(".")[2]])
        spec.loader_state = module.__spec__  # which is replaced meanwhile
        return module

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_PublicModules)  # asked after the finders of files


def __getattr__(name: str) -> Any:
    """`pytest_plugin`, which pytest loads in all its runs: nothing if it is not installed."""
    if name == "pytest_plugin":
        return installed(MODULES[name]) or SimpleNamespace()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
