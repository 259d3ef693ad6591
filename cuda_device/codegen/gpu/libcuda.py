"""ctypes bindings to the CUDA driver's library: one table row per function.

    api = libcuda.load_driver()                    # OSError if there is no driver
    status, count = api.cuDeviceGetCount()
    status, address = api.cuMemAlloc(1024)

A function takes the inputs of the C function, as numbers and bytes, and returns the status and the outputs; enumerations are
namespaces. This is the interface of `cuda.bindings.driver`, which is not used because importing it takes 51 ms of processor time
instead of 1 ms (cuda-bindings 13.5, CPython 3.11 on an AMD EPYC, best of 15 processes, 2026-11-26).
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from cuda_device.errors import CompileError

VARIABLE = "CUDA_DEVICE_DRIVER"
_LIBRARY = "libcuda.so.1"
_LONGEST_NAME = 256
_TYPES: dict[str, Any] = {
    "b": ctypes.c_uint8,
    "i": ctypes.c_int,  # enumerations, too
    "u": ctypes.c_uint,
    "l": ctypes.c_uint64,
    "z": ctypes.c_size_t,
    "f": ctypes.c_float,
    "p": ctypes.c_void_p,  # handles and addresses
    "s": ctypes.c_char_p,
    "n": ctypes.c_char * _LONGEST_NAME,
}

# The parameters by symbol, of functions that CUDA 12.0 has, or else of `OLDER`. `>` marks outputs, and `&` inputs that are
# replaced by outputs.
FUNCTIONS = {
    "cuInit": "u",
    "cuDriverGetVersion": ">i",
    "cuGetErrorName": "i >s",
    "cuGetErrorString": "i >s",
    "cuGetProcAddress_v2": "s >p i l >i",
    "cuDeviceCanAccessPeer": ">i i i",
    "cuDeviceGet": ">i i",
    "cuDeviceGetAttribute": ">i i i",
    "cuDeviceGetCount": ">i",
    "cuDeviceGetDefaultMemPool": ">p i",
    "cuDeviceGetName": ">n i i",
    "cuDeviceTotalMem_v2": ">z i",
    "cuDevicePrimaryCtxRelease_v2": "i",
    "cuDevicePrimaryCtxRetain": ">p i",
    "cuCtxEnablePeerAccess": "p u",
    "cuCtxGetCurrent": ">p",
    "cuCtxGetDevice": ">i",
    "cuCtxGetLimit": ">z i",
    "cuCtxPopCurrent_v2": ">p",
    "cuCtxPushCurrent_v2": "p",
    "cuCtxSetCurrent": "p",
    "cuCtxSetLimit": "i z",
    "cuCtxSynchronize": "",
    "cuGraphDestroy": "p",
    "cuGraphExecDestroy": "p",
    "cuGraphExecUpdate_v2": "p p p",
    "cuGraphInstantiateWithParams": ">p p p",
    "cuGraphLaunch": "p p",
    "cuLibraryGetGlobal": ">p >z p s",
    "cuLibraryGetKernel": ">p p s",
    "cuLibraryLoadData": ">p s p p u p p u",
    "cuLibraryUnload": "p",
    "cuKernelGetAttribute": ">i i p i",
    "cuKernelGetFunction": ">p p",
    "cuKernelSetAttribute": "i i p i",
    "cuLaunchCooperativeKernel": "p u u u u u u u p p",
    "cuLaunchHostFunc": "p p p",
    "cuLaunchKernel": "p u u u u u u u p p p",
    "cuLaunchKernelEx": "p p p p",
    "cuLinkCreate_v2": "u p p >p",
    "cuLinkAddData_v2": "p i s z s u p p",
    "cuLinkComplete": "p >p >z",
    "cuLinkDestroy": "p",
    "cuMemAlloc_v2": ">p z",
    "cuMemAllocAsync": ">p z p",
    "cuMemAllocManaged": ">p z u",
    "cuMemFree_v2": "p",
    "cuMemFreeAsync": "p p",
    "cuMemFreeHost": "p",
    "cuMemGetInfo_v2": ">z >z",
    "cuMemHostAlloc": ">p z u",
    "cuMemHostGetDevicePointer_v2": ">p p u",
    "cuMemPoolGetAttribute": "p i >l",  # for attributes of 64 bits
    "cuMemPoolSetAccess": "p p z",
    "cuMemPoolSetAttribute": "p i &l",
    "cuMemcpyAsync": "p p z p",
    "cuMemcpyHtoD_v2": "p p z",
    "cuMemsetD8_v2": "p b z",
    "cuMemsetD8Async": "p b z p",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": ">i p i z",
    "cuOccupancyMaxPotentialBlockSize": ">i >i p p z i",
    "cuPointerGetAttribute": ">i i p",  # for attributes of type int
    "cuStreamBeginCapture_v2": "p i",
    "cuStreamCreate": ">p u",
    "cuStreamDestroy_v2": "p",
    "cuStreamEndCapture": "p >p",
    "cuStreamGetCaptureInfo_v3": "p >i >l >p >p >p >z",
    "cuStreamGetCtx": "p >p",
    "cuStreamIsCapturing": "p >i",
    "cuStreamSynchronize": "p",
    "cuStreamWaitEvent": "p p u",
    "cuThreadExchangeStreamCaptureMode": "&i",
    "cuEventCreate": ">p u",
    "cuEventDestroy_v2": "p",
    "cuEventElapsedTime_v2": ">f p p",
    "cuEventQuery": "p",
    "cuEventRecord": "p p",
    "cuEventSynchronize": "p",
}

# The functions of CUDA 12.0 in place of newer ones. Newer ones may have further outputs at the end.
OLDER = {
    "cuEventElapsedTime_v2": ("cuEventElapsedTime", ">f p p"),  # 12.8
    "cuStreamGetCaptureInfo_v3": ("cuStreamGetCaptureInfo_v2", "p >i >l >p >p >z"),  # 12.3
}

# They return at once, so they keep the GIL: to get it back could take much longer.
QUICK = frozenset({
    "cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuCtxSetCurrent", "cuDeviceGet",
    "cuDeviceGetAttribute", "cuDeviceGetCount", "cuDeviceGetName", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
    "cuStreamGetCtx", "cuThreadExchangeStreamCaptureMode",
})  # fmt: skip

ENUMERATIONS = {
    "CUdevice_attribute": {
        "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 16,
        "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": 38,
        "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR": 39,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 75,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 76,
        "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS": 88,
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 97,
        "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED": 115,
    },
    "CUfunction_attribute": {
        "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": 0,
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 8,
    },
    "CUgraphExecUpdateResult": {
        "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED": 2,
        "CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED": 3,
        "CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED": 4,
        "CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED": 5,
        "CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED": 6,
        "CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE": 7,
        "CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED": 8,
    },
    "CUlaunchAttributeID": {
        "CU_LAUNCH_ATTRIBUTE_COOPERATIVE": 2,
        "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION": 4,
        "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": 6,
    },
    "CUlimit": {"CU_LIMIT_STACK_SIZE": 0},
    "CUmemAttach_flags": {"CU_MEM_ATTACH_GLOBAL": 1},
    "CUmemPool_attribute": {"CU_MEMPOOL_ATTR_RELEASE_THRESHOLD": 4},
    "CUpointer_attribute": {"CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL": 9},
    "CUevent_flags": {"CU_EVENT_DEFAULT": 0, "CU_EVENT_DISABLE_TIMING": 2},
    "CUstream_flags": {"CU_STREAM_NON_BLOCKING": 1},
    "CUstreamCaptureMode": {"CU_STREAM_CAPTURE_MODE_RELAXED": 2},
    "CUjitInputType": {"CU_JIT_INPUT_PTX": 1},
    "CUjit_option": {
        "CU_JIT_INFO_LOG_BUFFER": 3,
        "CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES": 4,
        "CU_JIT_ERROR_LOG_BUFFER": 5,
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": 6,
        "CU_JIT_OPTIMIZATION_LEVEL": 7,
        "CU_JIT_GENERATE_DEBUG_INFO": 11,
        "CU_JIT_LOG_VERBOSE": 12,
        "CU_JIT_GENERATE_LINE_INFO": 13,
    },
}


class DriverLibrary:
    """The driver's functions and enumerations, which are created on first use."""

    CU_MEMHOSTALLOC_PORTABLE = 1
    CU_MEMHOSTALLOC_DEVICEMAP = 2

    def __init__(self, name: str) -> None:
        self._free, self._locked = ctypes.CDLL(name), ctypes.PyDLL(name)  # without and with the GIL

    def __getattr__(self, name: str) -> Any:
        if name in ENUMERATIONS:
            attribute: Any = SimpleNamespace(**ENUMERATIONS[name])
        elif symbol := _symbols().get(name):
            library = self._locked if symbol in QUICK else self._free
            parameters = FUNCTIONS[symbol]
            if symbol in OLDER and not hasattr(library, symbol):
                symbol, parameters = OLDER[symbol]
            attribute = _function(library[symbol], parameters.split(), name)
        else:
            raise AttributeError(f"{name} is not in the table of the driver's functions")
        setattr(self, name, attribute)
        return attribute


@functools.cache
def load_driver() -> DriverLibrary:
    """The driver's library. Raises `OSError` if there is none."""
    return DriverLibrary(_LIBRARY)


def version() -> tuple[int, int] | None:
    """The version of CUDA to compile for: the one that `VARIABLE` names, or the driver's; None without a driver."""
    return version_of(os.environ.get(VARIABLE, ""), driver_version())


@functools.cache
def version_of(named: str, number: int) -> tuple[int, int] | None:
    """The version that `named` states, or else that of the driver's number. Raises `CompileError` for an invalid version."""
    if not named:
        return (number // 1000, number % 1000 // 10) if number else None
    major, point, minor = named.partition(".")
    if not (major.isdecimal() and (minor.isdecimal() or not point)):
        raise CompileError(
            f"{VARIABLE} is {named!r}, which is not a version of CUDA", help="set it to a version such as 12.2"
        )
    return int(major), int(minor or 0)


@functools.cache
def driver_version() -> int:
    """The newest version of CUDA that the driver supports, as 12020 for 12.2; 0 without a driver."""
    try:
        status, number = load_driver().cuDriverGetVersion()
    except OSError:
        return 0
    return int(number) if status == 0 else 0


@functools.cache
def _symbols() -> dict[str, str]:
    """The symbols by the names of the functions: `cuMemAlloc` has `cuMemAlloc_v2`."""
    return {symbol.partition("_v")[0]: symbol for symbol in FUNCTIONS}


def _function(foreign: Any, parameters: list[str], name: str) -> Callable[..., tuple[Any, ...]]:
    """The Python function for a C function."""
    slots = [(parameter[:-1], _TYPES[parameter[-1]]) for parameter in parameters]
    foreign.argtypes = [ctypes.POINTER(type) if mark else type for mark, type in slots]
    foreign.restype = ctypes.c_int
    outputs = [(i, mark, type) for i, (mark, type) in enumerate(slots) if mark]
    if not outputs:
        return lambda *inputs: (foreign(*inputs),)
    expected, (index, mark, kind) = sum(mark != ">" for mark, _ in slots), outputs[0]
    if len(outputs) == 1 and mark == ">":  # a quicker way for most of the functions that launches call

        def give(*inputs: Any) -> tuple[Any, ...]:
            value = kind()
            return foreign(*inputs[:index], ctypes.byref(value), *inputs[index:]), value.value or 0

        return give

    def call(*inputs: Any) -> tuple[Any, ...]:
        if len(inputs) != expected:
            raise TypeError(f"{name} takes {expected} arguments, not {len(inputs)}")
        passed, values = list(inputs), []
        for i, mark, type in outputs:
            values.append(type(passed.pop(i)) if mark == "&" else type())
            passed.insert(i, ctypes.byref(values[-1]))
        return foreign(*passed), *[value.value or 0 for value in values]

    return call
