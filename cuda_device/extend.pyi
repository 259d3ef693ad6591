# ruff: isort: skip_file
# `pytest --update-golden tests/repository/test_extend.py` makes it from `extend.py`.

from cuda_device.cache import disk as disk
from cuda_device.cache import sha256 as sha256
from cuda_device.codegen import llvm_text as llvm_text
from cuda_device.codegen.emit import to_llvm as to_llvm
from cuda_device.codegen.gpu import elf as elf
from cuda_device.codegen.gpu import libdevice as libdevice
from cuda_device.codegen.gpu import toolkit as toolkit
from cuda_device.codegen.gpu.assemblers import toolchain as toolchain
from cuda_device.compiler import Stage as Stage
from cuda_device.compiler import observe_compilations as observe_compilations
from cuda_device.compiler import run
from cuda_device.compiler import show as show
from cuda_device.device import copies as copies
from cuda_device.device.atomics import await_change as await_change
from cuda_device.device.entities import DeviceValue as DeviceValue
from cuda_device.device.functions import DecoratedFunction as DecoratedFunction
from cuda_device.device.functions import links_of as links_of
from cuda_device.device.hints import const_parameters as const_parameters
from cuda_device.device.hints import parameters_of as parameters_of
from cuda_device.device.memory import aligned as aligned
from cuda_device.device.memory import block_words as block_words
from cuda_device.device.memory import displaced as displaced
from cuda_device.device.options import Options as Options
from cuda_device.device.parameters import defaults_of as defaults_of
from cuda_device.device.rows import constant_of as constant_of
from cuda_device.device.rows import type_argument as type_argument
from cuda_device.device.specialised import specialised as specialised
from cuda_device.errors import CompilerBug as CompilerBug
from cuda_device.errors import Location as Location
from cuda_device.errors import users_traceback as users_traceback
from cuda_device.hooks import target as target
from cuda_device.infer import policies as policies
from cuda_device.infer.contents import dependency_on as dependency_on
from cuda_device.instrument.outline import packed
from cuda_device.instrument.outline import unpacked
from cuda_device.ir import ops as ops
from cuda_device.jobs import Job as Job
from cuda_device.jobs import Target as Target
from cuda_device.jobs import Work as Work
from cuda_device.lazy_dataclasses import dataclass as dataclass
from cuda_device.lazy_dataclasses import field as field
from cuda_device.lazy_dataclasses import replace as replace
from cuda_device.outputs import CompilerOutput
from cuda_device.outputs import add_output as add_output
from cuda_device.runtime.arrays.device_array import array_view as array_view
from cuda_device.runtime.arrays.device_array import with_layout as with_layout
from cuda_device.runtime.gpu import driver as driver
from cuda_device.runtime.gpu.created_streams import current_device as current_device
from cuda_device.runtime.gpu.grid import LaunchSizes as LaunchSizes
from cuda_device.runtime.gpu.grid import Shape as Shape
from cuda_device.runtime.gpu.report_message import failure
from cuda_device.runtime.gpu.streams import as_stream as as_stream
from cuda_device.runtime.gpu.streams import join as join
from cuda_device.runtime.launch.arguments import Argument as Argument
from cuda_device.runtime.launch.arguments import bind as bind
from cuda_device.runtime.launch.by_value import ByValue as ByValue
from cuda_device.runtime.launch.compile_job import job_of as job_of
from cuda_device.runtime.launch.compiled import CodeRecord as CodeRecord
from cuda_device.runtime.launch.compiled import kernel_of as kernel_of
from cuda_device.runtime.launch.launcher import CompiledKernel as CompiledKernel
from cuda_device.runtime.launch.launcher import check_kernel as check_kernel
from cuda_device.runtime.launch.launcher import count_launches as count_launches
from cuda_device.runtime.launch.launcher import machine_launches as machine_launches
from cuda_device.runtime.launch.launcher import planned as planned
from cuda_device.runtime.launch.launcher import start as start
from cuda_device.runtime.launch.launcher import start_together as start_together
from cuda_device.runtime.launch.launcher import start_variant as start_variant
from cuda_device.runtime.launch.launcher import users_location as users_location
from cuda_device.types import abi as abi
from cuda_device.types import architectures as architectures
from cuda_device.types import layout as layout
from cuda_device.types import model as model
from cuda_device.types.host import host_type_of
from cuda_device.types.host import struct_model as struct_model
from cuda_device.types.host import type_of_hint as type_of_hint
from cuda_device.types.known import Known as Known
from cuda_device.types.struct_classes import as_type as as_type
from cuda_device.types.vector_classes import value_of

compile_job = run
pack_summary = packed
unpack_summary = unpacked
Output = CompilerOutput
kernel_error = failure
host_type = host_type_of
host_value = value_of
