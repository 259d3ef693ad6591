"""CUDA's programming model in Python, compiled from bytecode through LLVM: the names of the `cuda.device` specification.

    import cuda_device as device

    @device.kernel
    def add(x, y, z):
        i = device.tid(1)
        if i < len(z):
            z[i] = x[i] + y[i]

    device.launch(add, x, y, z, grid=4, block=256)

Each name is imported from its module on first use, which keeps the import fast. Type checkers read `__init__.pyi`, which is
generated from the table below (`pytest --update-golden tests/repository/test_repository.py`).
"""

from __future__ import annotations

import importlib
import sys

from cuda_device import hooks

__version__ = "0.1.0"

# The public names of the core by their modules; `a=b`: what the module calls b. Those of plugins are in `hooks`.
_MODULES = {
    "ml_dtypes": "bfloat16 float8e4m3=float8_e4m3fn float8e5m2=float8_e5m2",
    "numpy": "complex64 complex128 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "cache.disk": "CacheInfo cache_info",
    "device.atomics": "Atomic AtomicInterface atomic_ref threadfence",
    "device.functions": "Extern Func Kernel extern func kernel",
    "device.hints": "ConstExpr",
    "device.inline_ptx": "MachineInstruction intrinsic ptx",
    "device.machine_functions": (
        "byte_perm clock64 dp4a funnelshift_l funnelshift_lc funnelshift_r funnelshift_rc globaltimer mulhi nanosleep"
    ),
    "device.memory": "cache_load cache_store dynamic_shared_array local_array shared_array",
    "device.numeric": "brev cbrt clz ffs fma popc rsqrt",
    "device.positioning": (
        "block_dim block_idx block_rank cluster_dim cluster_idx cluster_shared grid_dim grid_size thread_idx tid"
    ),
    "device.target": (
        "SMSelector TargetDescription any_target is_device is_exactly is_host no_target provides sm20 sm21 sm30 "
        "sm32 sm35 sm37 sm50 sm52 sm53 sm60 sm61 sm62 sm70 sm72 sm75 sm80 sm86 sm87 sm88 sm89 sm90 sm90a sm100 "
        "sm100a sm100f sm101 sm101a sm101f sm103 sm103a sm103f sm110 sm110a sm110f sm120 sm120a sm120f sm121 sm121a "
        "sm121f target"
    ),
    "device.sync": (
        "WarpMask activemask all_sync any_sync ballot_sync eq_sync lane_id lanemask_lt match_all_sync "
        "match_any_sync reduce_add_sync reduce_and_sync reduce_max_sync reduce_min_sync reduce_or_sync reduce_xor_sync "
        "shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync syncthreads syncthreads_and syncthreads_count "
        "syncthreads_or syncwarp warp_size"
    ),
    "errors": "CallError CompileError DeviceOnlyError Error GroupError KernelError LaunchError PerformanceWarning PluginError "
    "PrecisionWarning",
    "library.barriers": "cluster_sync grid_sync",
    "runtime.launch.compiled": "Compiled",
    "runtime.launch.compiling": "compile",
    "runtime.launch.compiled_parameters": "Parameter",
    "runtime.arrays.device_array": "DeviceArray array as_array empty empty_like full zeros zeros_like",
    "runtime.arrays.host_arrays": "HostArray managed pinned",
    "runtime.launch.launcher": "launch synchronize",
    "runtime.launch.prepared": "PreparedLaunch prepare",
    "runtime.gpu.created_streams": "event stream",
    "runtime.gpu.streams": "CpuEvent CpuStream GpuStream Stream cpu_stream default_stream unordered",
    "types.host": "ArrayType alignof machine_representation numpy_dtype pointer sizeof",
    "types.extensions": "overload register",
    "types.struct_classes": "align replace struct",
    "types.vector_classes": (
        "Dim3 bfloat16x1 bfloat16x2 bfloat16x3 bfloat16x4 float8e4m3x1 float8e4m3x2 float8e4m3x3 float8e4m3x4 "
        "float8e5m2x1 float8e5m2x2 float8e5m2x3 float8e5m2x4 float16x1 float16x2 float16x3 float16x4 "
        "float32x1 float32x2 float32x3 float32x4 float64x1 float64x2 float64x3 float64x4 int8x1 int8x2 int8x3 "
        "int8x4 int16x1 int16x2 int16x3 int16x4 int32x1 int32x2 int32x3 int32x4 int64x1 int64x2 int64x3 "
        "int64x4 uint8x1 uint8x2 uint8x3 uint8x4 uint16x1 uint16x2 uint16x3 uint16x4 uint32x1 uint32x2 "
        "uint32x3 uint32x4 uint64x1 uint64x2 uint64x3 uint64x4 Vector=VectorValue"
    ),
}
_HOMES = {
    name.partition("=")[0]: (module, name.rpartition("=")[2])
    for modules in (_MODULES, hooks.NAMES)
    for module, names in modules.items()
    for name in names.split()
}
_FOREIGN = ("ml_dtypes", "numpy")


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_HOMES)
    if name in hooks.MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])  # so that Python suggests another
    module, attribute = _HOMES[name]
    home = importlib.import_module(module) if module in _FOREIGN else hooks.plugin(module)
    value = globals()[name] = getattr(home, attribute)
    return value


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
