# ruff: isort: skip_file
# ruff: noqa: N801, PYI042
# `pytest --update-golden tests/repository/test_repository.py` makes it from the table in `__init__.py`.

from typing import TypeAlias

from cuda_device.cache.disk import CacheInfo as CacheInfo
from cuda_device.cache.disk import cache_info as cache_info
from cuda_device.device.atomics import Atomic as Atomic
from cuda_device.device.atomics import AtomicInterface as AtomicInterface
from cuda_device.device.atomics import atomic_ref as atomic_ref
from cuda_device.device.atomics import threadfence as threadfence
from cuda_device.device.functions import Extern as Extern
from cuda_device.device.functions import Func as Func
from cuda_device.device.functions import Kernel as Kernel
from cuda_device.device.functions import extern as extern
from cuda_device.device.functions import func as func
from cuda_device.device.functions import kernel as kernel
from cuda_device.device.hints import ConstExpr as ConstExpr
from cuda_device.device.inline_ptx import MachineInstruction as MachineInstruction
from cuda_device.device.inline_ptx import intrinsic as intrinsic
from cuda_device.device.inline_ptx import ptx as ptx
from cuda_device.device.machine_functions import byte_perm as byte_perm
from cuda_device.device.machine_functions import clock64 as clock64
from cuda_device.device.machine_functions import dp4a as dp4a
from cuda_device.device.machine_functions import funnelshift_l as funnelshift_l
from cuda_device.device.machine_functions import funnelshift_lc as funnelshift_lc
from cuda_device.device.machine_functions import funnelshift_r as funnelshift_r
from cuda_device.device.machine_functions import funnelshift_rc as funnelshift_rc
from cuda_device.device.machine_functions import globaltimer as globaltimer
from cuda_device.device.machine_functions import mulhi as mulhi
from cuda_device.device.machine_functions import nanosleep as nanosleep
from cuda_device.device.memory import cache_load as cache_load
from cuda_device.device.memory import cache_store as cache_store
from cuda_device.device.memory import dynamic_shared_array as dynamic_shared_array
from cuda_device.device.memory import local_array as local_array
from cuda_device.device.memory import shared_array as shared_array
from cuda_device.device.numeric import brev as brev
from cuda_device.device.numeric import cbrt as cbrt
from cuda_device.device.numeric import clz as clz
from cuda_device.device.numeric import ffs as ffs
from cuda_device.device.numeric import fma as fma
from cuda_device.device.numeric import popc as popc
from cuda_device.device.numeric import rsqrt as rsqrt
from cuda_device.device.positioning import block_dim as block_dim
from cuda_device.device.positioning import block_idx as block_idx
from cuda_device.device.positioning import block_rank as block_rank
from cuda_device.device.positioning import cluster_dim as cluster_dim
from cuda_device.device.positioning import cluster_idx as cluster_idx
from cuda_device.device.positioning import cluster_shared as cluster_shared
from cuda_device.device.positioning import grid_dim as grid_dim
from cuda_device.device.positioning import grid_size as grid_size
from cuda_device.device.positioning import thread_idx as thread_idx
from cuda_device.device.positioning import tid as tid
from cuda_device.device.sync import WarpMask as WarpMask
from cuda_device.device.sync import activemask as activemask
from cuda_device.device.sync import all_sync as all_sync
from cuda_device.device.sync import any_sync as any_sync
from cuda_device.device.sync import ballot_sync as ballot_sync
from cuda_device.device.sync import eq_sync as eq_sync
from cuda_device.device.sync import lane_id as lane_id
from cuda_device.device.sync import lanemask_lt as lanemask_lt
from cuda_device.device.sync import match_all_sync as match_all_sync
from cuda_device.device.sync import match_any_sync as match_any_sync
from cuda_device.device.sync import reduce_add_sync as reduce_add_sync
from cuda_device.device.sync import reduce_and_sync as reduce_and_sync
from cuda_device.device.sync import reduce_max_sync as reduce_max_sync
from cuda_device.device.sync import reduce_min_sync as reduce_min_sync
from cuda_device.device.sync import reduce_or_sync as reduce_or_sync
from cuda_device.device.sync import reduce_xor_sync as reduce_xor_sync
from cuda_device.device.sync import shfl_down_sync as shfl_down_sync
from cuda_device.device.sync import shfl_sync as shfl_sync
from cuda_device.device.sync import shfl_up_sync as shfl_up_sync
from cuda_device.device.sync import shfl_xor_sync as shfl_xor_sync
from cuda_device.device.sync import syncthreads as syncthreads
from cuda_device.device.sync import syncthreads_and as syncthreads_and
from cuda_device.device.sync import syncthreads_count as syncthreads_count
from cuda_device.device.sync import syncthreads_or as syncthreads_or
from cuda_device.device.sync import syncwarp as syncwarp
from cuda_device.device.sync import warp_size as warp_size
from cuda_device.device.target import SMSelector as SMSelector
from cuda_device.device.target import TargetDescription as TargetDescription
from cuda_device.device.target import any_target as any_target
from cuda_device.device.target import is_device as is_device
from cuda_device.device.target import is_exactly as is_exactly
from cuda_device.device.target import is_host as is_host
from cuda_device.device.target import no_target as no_target
from cuda_device.device.target import provides as provides
from cuda_device.device.target import sm100 as sm100
from cuda_device.device.target import sm100a as sm100a
from cuda_device.device.target import sm100f as sm100f
from cuda_device.device.target import sm101 as sm101
from cuda_device.device.target import sm101a as sm101a
from cuda_device.device.target import sm101f as sm101f
from cuda_device.device.target import sm103 as sm103
from cuda_device.device.target import sm103a as sm103a
from cuda_device.device.target import sm103f as sm103f
from cuda_device.device.target import sm110 as sm110
from cuda_device.device.target import sm110a as sm110a
from cuda_device.device.target import sm110f as sm110f
from cuda_device.device.target import sm120 as sm120
from cuda_device.device.target import sm120a as sm120a
from cuda_device.device.target import sm120f as sm120f
from cuda_device.device.target import sm121 as sm121
from cuda_device.device.target import sm121a as sm121a
from cuda_device.device.target import sm121f as sm121f
from cuda_device.device.target import sm20 as sm20
from cuda_device.device.target import sm21 as sm21
from cuda_device.device.target import sm30 as sm30
from cuda_device.device.target import sm32 as sm32
from cuda_device.device.target import sm35 as sm35
from cuda_device.device.target import sm37 as sm37
from cuda_device.device.target import sm50 as sm50
from cuda_device.device.target import sm52 as sm52
from cuda_device.device.target import sm53 as sm53
from cuda_device.device.target import sm60 as sm60
from cuda_device.device.target import sm61 as sm61
from cuda_device.device.target import sm62 as sm62
from cuda_device.device.target import sm70 as sm70
from cuda_device.device.target import sm72 as sm72
from cuda_device.device.target import sm75 as sm75
from cuda_device.device.target import sm80 as sm80
from cuda_device.device.target import sm86 as sm86
from cuda_device.device.target import sm87 as sm87
from cuda_device.device.target import sm88 as sm88
from cuda_device.device.target import sm89 as sm89
from cuda_device.device.target import sm90 as sm90
from cuda_device.device.target import sm90a as sm90a
from cuda_device.device.target import target as target
from cuda_device.errors import CallError as CallError
from cuda_device.errors import CompileError as CompileError
from cuda_device.errors import DeviceOnlyError as DeviceOnlyError
from cuda_device.errors import Error as Error
from cuda_device.errors import GroupError as GroupError
from cuda_device.errors import KernelError as KernelError
from cuda_device.errors import LaunchError as LaunchError
from cuda_device.errors import PerformanceWarning as PerformanceWarning
from cuda_device.errors import PluginError as PluginError
from cuda_device.errors import PrecisionWarning as PrecisionWarning
from cuda_device.library.barriers import cluster_arrive as cluster_arrive
from cuda_device.library.barriers import cluster_sync as cluster_sync
from cuda_device.library.barriers import cluster_wait as cluster_wait
from cuda_device.library.barriers import grid_sync as grid_sync
from cuda_device.plugins.autotuning import TunedFunction as TunedFunction
from cuda_device.plugins.autotuning import TunedKernel as TunedKernel
from cuda_device.plugins.autotuning import autotune as autotune
from cuda_device.plugins.benchmarking import Timing as Timing
from cuda_device.plugins.benchmarking import benchmark as benchmark
from cuda_device.plugins.bound_kernels import BoundKernel as BoundKernel
from cuda_device.plugins.cpp.bindings import Bindings as Bindings
from cuda_device.plugins.cpp.bindings import bindings as bindings
from cuda_device.plugins.cpp.headers import cpp_declaration as cpp_declaration
from cuda_device.plugins.cpp.headers import cpp_header as cpp_header
from cuda_device.plugins.cpp.headers import get_include as get_include
from cuda_device.plugins.cpp.native_functions import NativeFunction as NativeFunction
from cuda_device.plugins.cpp.sources import cuda_source as cuda_source
from cuda_device.plugins.framework_operators import jax_op as jax_op
from cuda_device.plugins.framework_operators import torch_op as torch_op
from cuda_device.plugins.framework_operators import tvm_ffi_function as tvm_ffi_function
from cuda_device.plugins.graphs import Graph as Graph
from cuda_device.plugins.graphs import graph as graph
from cuda_device.plugins.groups.device_group import DeviceArrayGroup as DeviceArrayGroup
from cuda_device.plugins.groups.device_group import DeviceGroup as DeviceGroup
from cuda_device.plugins.groups.device_group import launch_group as launch_group
from cuda_device.plugins.groups.group_barriers import group_barrier as group_barrier
from cuda_device.plugins.groups.group_barriers import signal as signal
from cuda_device.plugins.groups.group_barriers import wait_until as wait_until
from cuda_device.plugins.groups.symmetric_array import SymmetricArray as SymmetricArray
from cuda_device.plugins.host_functions import HostFunction as HostFunction
from cuda_device.plugins.host_functions import host_function as host_function
from cuda_device.plugins.random import Philox as Philox
from cuda_device.plugins.random import philox as philox
from cuda_device.plugins.random import philox4x32 as philox4x32
from cuda_device.plugins.random import philox4x64 as philox4x64
from cuda_device.plugins.saved import LoadedKernel as LoadedKernel
from cuda_device.plugins.saved import load as load
from cuda_device.plugins.saved.folders import build as build
from cuda_device.plugins.tensor_cores.async_copies import cp_async as cp_async
from cuda_device.plugins.tensor_cores.async_copies import cp_async_arrive as cp_async_arrive
from cuda_device.plugins.tensor_cores.async_copies import cp_async_commit as cp_async_commit
from cuda_device.plugins.tensor_cores.async_copies import cp_async_wait as cp_async_wait
from cuda_device.plugins.tensor_cores.bulk_copies import bulk_commit as bulk_commit
from cuda_device.plugins.tensor_cores.bulk_copies import bulk_load as bulk_load
from cuda_device.plugins.tensor_cores.bulk_copies import bulk_reduce as bulk_reduce
from cuda_device.plugins.tensor_cores.bulk_copies import bulk_store as bulk_store
from cuda_device.plugins.tensor_cores.bulk_copies import bulk_wait as bulk_wait
from cuda_device.plugins.tensor_cores.dependent_launches import launch_dependents as launch_dependents
from cuda_device.plugins.tensor_cores.dependent_launches import wait_dependencies as wait_dependencies
from cuda_device.plugins.tensor_cores.elections import elect_one as elect_one
from cuda_device.plugins.tensor_cores.fragments import fragment_place as fragment_place
from cuda_device.plugins.tensor_cores.matrix_moves import ldmatrix as ldmatrix
from cuda_device.plugins.tensor_cores.matrix_moves import movmatrix as movmatrix
from cuda_device.plugins.tensor_cores.matrix_moves import stmatrix as stmatrix
from cuda_device.plugins.tensor_cores.mbarriers import MBarrier as MBarrier
from cuda_device.plugins.tensor_cores.mbarriers import fence_mbarrier_init as fence_mbarrier_init
from cuda_device.plugins.tensor_cores.mbarriers import fence_proxy_async as fence_proxy_async
from cuda_device.plugins.tensor_cores.named_barriers import barrier_arrive as barrier_arrive
from cuda_device.plugins.tensor_cores.named_barriers import barrier_sync as barrier_sync
from cuda_device.plugins.tensor_cores.packed_elements import pack as pack
from cuda_device.plugins.tensor_cores.packed_elements import to_tf32 as to_tf32
from cuda_device.plugins.tensor_cores.packed_elements import unpack as unpack
from cuda_device.plugins.tensor_cores.reductions import red_add as red_add
from cuda_device.plugins.tensor_cores.registers import set_max_registers as set_max_registers
from cuda_device.plugins.tensor_cores.swizzling import rows as rows
from cuda_device.plugins.tensor_cores.swizzling import swizzled as swizzled
from cuda_device.plugins.tensor_cores.tensor_maps import TensorMap as TensorMap
from cuda_device.plugins.tensor_cores.tensor_maps import TensorMapType as TensorMapType
from cuda_device.plugins.tensor_cores.tensor_memory import TensorMemory as TensorMemory
from cuda_device.plugins.tensor_cores.tensor_memory import tcgen05_alloc as tcgen05_alloc
from cuda_device.plugins.tensor_cores.tensor_memory import tcgen05_dealloc as tcgen05_dealloc
from cuda_device.plugins.tensor_cores.tensor_memory import tcgen05_fence_after_sync as tcgen05_fence_after_sync
from cuda_device.plugins.tensor_cores.tensor_memory import tcgen05_fence_before_sync as tcgen05_fence_before_sync
from cuda_device.plugins.tensor_cores.tensor_memory import tcgen05_relinquish_permit as tcgen05_relinquish_permit
from cuda_device.plugins.tensor_cores.tensor_moves import tcgen05_ld as tcgen05_ld
from cuda_device.plugins.tensor_cores.tensor_moves import tcgen05_st as tcgen05_st
from cuda_device.plugins.tensor_cores.tensor_moves import tcgen05_wait_ld as tcgen05_wait_ld
from cuda_device.plugins.tensor_cores.tensor_moves import tcgen05_wait_st as tcgen05_wait_st
from cuda_device.plugins.tensor_cores.tensor_products import tcgen05_commit as tcgen05_commit
from cuda_device.plugins.tensor_cores.tensor_products import tcgen05_cp as tcgen05_cp
from cuda_device.plugins.tensor_cores.tensor_products import tcgen05_mma as tcgen05_mma
from cuda_device.plugins.tensor_cores.tma import tma_load as tma_load
from cuda_device.plugins.tensor_cores.tma import tma_prefetch as tma_prefetch
from cuda_device.plugins.tensor_cores.tma import tma_reduce as tma_reduce
from cuda_device.plugins.tensor_cores.tma import tma_store as tma_store
from cuda_device.plugins.tensor_cores.warp_matrices import mma_sync as mma_sync
from cuda_device.plugins.tensor_cores.warpgroup_matrices import wgmma as wgmma
from cuda_device.plugins.tensor_cores.warpgroup_matrices import wgmma_wait as wgmma_wait
from cuda_device.runtime.arrays.device_array import DeviceArray as DeviceArray
from cuda_device.runtime.arrays.device_array import array as array
from cuda_device.runtime.arrays.device_array import as_array as as_array
from cuda_device.runtime.arrays.device_array import empty as empty
from cuda_device.runtime.arrays.device_array import empty_like as empty_like
from cuda_device.runtime.arrays.device_array import full as full
from cuda_device.runtime.arrays.device_array import zeros as zeros
from cuda_device.runtime.arrays.device_array import zeros_like as zeros_like
from cuda_device.runtime.arrays.host_arrays import HostArray as HostArray
from cuda_device.runtime.arrays.host_arrays import managed as managed
from cuda_device.runtime.arrays.host_arrays import pinned as pinned
from cuda_device.runtime.gpu.created_streams import event as event
from cuda_device.runtime.gpu.created_streams import stream as stream
from cuda_device.runtime.gpu.streams import CpuEvent as CpuEvent
from cuda_device.runtime.gpu.streams import CpuStream as CpuStream
from cuda_device.runtime.gpu.streams import GpuStream as GpuStream
from cuda_device.runtime.gpu.streams import Stream as Stream
from cuda_device.runtime.gpu.streams import cpu_stream as cpu_stream
from cuda_device.runtime.gpu.streams import default_stream as default_stream
from cuda_device.runtime.gpu.streams import unordered as unordered
from cuda_device.runtime.launch.compiled import Compiled as Compiled
from cuda_device.runtime.launch.compiled_parameters import Parameter as Parameter
from cuda_device.runtime.launch.compiling import compile as compile
from cuda_device.runtime.launch.launcher import launch as launch
from cuda_device.runtime.launch.launcher import synchronize as synchronize
from cuda_device.runtime.launch.prepared import PreparedLaunch as PreparedLaunch
from cuda_device.runtime.launch.prepared import prepare as prepare
from cuda_device.types.extensions import overload as overload
from cuda_device.types.extensions import register as register
from cuda_device.types.host import ArrayType as ArrayType
from cuda_device.types.host import alignof as alignof
from cuda_device.types.host import machine_representation as machine_representation
from cuda_device.types.host import numpy_dtype as numpy_dtype
from cuda_device.types.host import pointer as pointer
from cuda_device.types.host import sizeof as sizeof
from cuda_device.types.struct_classes import align as align
from cuda_device.types.struct_classes import replace as replace
from cuda_device.types.struct_classes import struct as struct
from cuda_device.types.vector_classes import Dim3 as Dim3
from cuda_device.types.vector_classes import VectorValue

bfloat16: TypeAlias = float
float8e4m3: TypeAlias = float
float8e5m2: TypeAlias = float
complex128: TypeAlias = complex
complex64: TypeAlias = complex
float16: TypeAlias = float
float32: TypeAlias = float
float64: TypeAlias = float
int16: TypeAlias = int
int32: TypeAlias = int
int64: TypeAlias = int
int8: TypeAlias = int
uint16: TypeAlias = int
uint32: TypeAlias = int
uint64: TypeAlias = int
uint8: TypeAlias = int
Vector: TypeAlias = VectorValue

class bfloat16x1(VectorValue): ...
class bfloat16x2(VectorValue): ...
class bfloat16x3(VectorValue): ...
class bfloat16x4(VectorValue): ...
class float16x1(VectorValue): ...
class float16x2(VectorValue): ...
class float16x3(VectorValue): ...
class float16x4(VectorValue): ...
class float32x1(VectorValue): ...
class float32x2(VectorValue): ...
class float32x3(VectorValue): ...
class float32x4(VectorValue): ...
class float64x1(VectorValue): ...
class float64x2(VectorValue): ...
class float64x3(VectorValue): ...
class float64x4(VectorValue): ...
class float8e4m3x1(VectorValue): ...
class float8e4m3x2(VectorValue): ...
class float8e4m3x3(VectorValue): ...
class float8e4m3x4(VectorValue): ...
class float8e5m2x1(VectorValue): ...
class float8e5m2x2(VectorValue): ...
class float8e5m2x3(VectorValue): ...
class float8e5m2x4(VectorValue): ...
class int16x1(VectorValue): ...
class int16x2(VectorValue): ...
class int16x3(VectorValue): ...
class int16x4(VectorValue): ...
class int32x1(VectorValue): ...
class int32x2(VectorValue): ...
class int32x3(VectorValue): ...
class int32x4(VectorValue): ...
class int64x1(VectorValue): ...
class int64x2(VectorValue): ...
class int64x3(VectorValue): ...
class int64x4(VectorValue): ...
class int8x1(VectorValue): ...
class int8x2(VectorValue): ...
class int8x3(VectorValue): ...
class int8x4(VectorValue): ...
class uint16x1(VectorValue): ...
class uint16x2(VectorValue): ...
class uint16x3(VectorValue): ...
class uint16x4(VectorValue): ...
class uint32x1(VectorValue): ...
class uint32x2(VectorValue): ...
class uint32x3(VectorValue): ...
class uint32x4(VectorValue): ...
class uint64x1(VectorValue): ...
class uint64x2(VectorValue): ...
class uint64x3(VectorValue): ...
class uint64x4(VectorValue): ...
class uint8x1(VectorValue): ...
class uint8x2(VectorValue): ...
class uint8x3(VectorValue): ...
class uint8x4(VectorValue): ...

__version__: str
