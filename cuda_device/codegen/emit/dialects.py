"""What differs between the backends when device IR becomes LLVM IR: one object for each, with the same methods.

`to_llvm` asks its dialect how pointers, functions, special registers, barriers and shared memory are spelled, and knows
nothing else of the machine. Each method returns text; names that it invents begin with the name of its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from cuda_device.codegen.cpu import kernel_text, runner
from cuda_device.codegen.cpu.records import Status
from cuda_device.codegen.emit import constants, print_emitter
from cuda_device.codegen.emit.atomic_emitters import (
    Update,
    Wide,
    cpu_update,
    cpu_wide,
    nvptx_scope,
    nvptx_update,
    nvptx_wide,
)
from cuda_device.codegen.emit.convergent import Meeting, on_cpu, on_gpu
from cuda_device.codegen.emit.shared_memory import shared_arrays, shared_offsets, shared_size
from cuda_device.codegen.gpu import kernel_attributes, report_text
from cuda_device.device import math as device_math
from cuda_device.device.options import DEFAULTS, Options
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module
from cuda_device.ir.ops import Effect
from cuda_device.ir.ordering import Scope
from cuda_device.types.architectures import (
    DATA_LAYOUT,
    TRIPLE,
    Architecture,
)
from cuda_device.types.model import Number, Space


class Dialect(ABC):
    """How one backend spells things. `module` is the device module that is being written."""

    has_lines: ClassVar[bool] = False
    """Whether there can be a table of lines."""
    has_texts: ClassVar[bool] = False
    """Whether texts are in the code; else the host knows them."""
    frame_alignment: ClassVar[int]
    """What the memory that functions have of their own can be aligned to."""
    has_float8 = False
    """Whether the machine has instructions that convert floats of 8 bits."""
    same_bits: ClassVar[str]
    """A text of the assembler's that gives the 16 bits that it is given."""
    truncates_halves: ClassVar[bool] = True
    """Whether LLVM makes integers of float16 as it says it does."""
    called: ClassVar[str] = ""
    """What calls of functions are marked with, beside what their definitions are."""

    def __init__(self, module: Module, options: Options = DEFAULTS) -> None:
        self.module, self.options = module, options
        self.offsets, self.shared_bytes = shared_offsets(module)

    @abstractmethod
    def preamble(self, text: str) -> str:
        """What stands before the first function, where `text` is all that follows."""

    def module_flags(self) -> tuple[str, ...]:
        """What the module says of itself: nodes of metadata."""
        return ()

    @abstractmethod
    def pointer(self, space: Space) -> str:
        """The type of an address."""

    @abstractmethod
    def symbol(self, function: Function) -> str:
        """The name of a function, without `@`."""

    @abstractmethod
    def open(self, function: Function, result: str, parameters: Sequence[str], allocas: str) -> tuple[str, str]:
        """The text before a function's first block's operations, and the label of the block that it opens.

        `allocas` are the lines that make the function's memory of its own.
        """

    @abstractmethod
    def close(self, function: Function) -> str:
        """The text behind a function's last block."""

    @abstractmethod
    def leave(self, function: Function) -> str:
        """How a function that returns nothing ends."""

    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """What every call passes first."""

    @abstractmethod
    def register(self, name: str, result: str) -> str:
        """Reads a special register."""

    @abstractmethod
    def barrier(self, place: int, label: str) -> tuple[str, str]:
        """Waits for the block's threads; with the label of the block that goes on, or "" if it is the same one."""

    @abstractmethod
    def meet(self, meeting: Meeting) -> tuple[str, str]:
        """Any other operation at which threads meet; as `barrier`."""

    @abstractmethod
    def shared(self, number: int, result: str) -> tuple[str, str]:
        """Text, and the operand, that give the address of a shared array."""

    @abstractmethod
    def dynamic_shared(self, result: str) -> tuple[str, str]:
        """Text, and the operand, that give the address of the launch's shared memory."""

    @abstractmethod
    def written(self, address: str, size: int, result: str, distance: int) -> str:
        """Makes `result` whether so many bytes of memory have been written. `distance`: see `ops.LOCAL`; 0 if it is shared."""

    @abstractmethod
    def mark(self, address: str, size: int, label: str, distance: int) -> str:
        """Says that so many bytes of memory have been written; names begin with `label`."""

    @abstractmethod
    def sync_scope(self, scope: Scope) -> str:
        """What an atomic instruction says of its scope."""

    @abstractmethod
    def update(self, update: Update, result: str) -> str:
        """A read-modify-write."""

    @abstractmethod
    def wide(self, wide: Wide, result: str) -> str:
        """An atomic access to 16 bytes."""

    @abstractmethod
    def pause(self, nanoseconds: str) -> str:
        """Waits for a short while."""

    @abstractmethod
    def report(self, status: Status, place: int, values: Sequence[str]) -> str:
        """Tells the host that this thread failed, with two integers of 64 bits at most."""

    @abstractmethod
    def trace(self, place: int, value: str, done: str) -> str:
        """Tells the race detector what this thread does; an address in shared memory counts from where that begins."""

    @abstractmethod
    def exit(self, function: Function) -> str:
        """Ends the thread."""

    @abstractmethod
    def math(self, function: device_math.Function) -> str:
        """The name of a function: `llvm.…`, or the stem of a library's."""

    @abstractmethod
    def library(self, stem: str, type: Number) -> str:
        """The symbol of a library function for a float type."""

    def definition(self, function: Function) -> str:
        """Attributes of a function's definition, and of calls of it."""
        return " convergent" if Effect.CONVERGENT in function.effects else ""


# The functions of float32 that libdevice has in an approximate form, too.
_APPROXIMATE = frozenset(("sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"))


class Nvptx(Dialect):
    """A GPU."""

    has_lines = has_texts = True
    same_bits = 'asm "mov.b16 $0, $1;", "=h,h"'
    frame_alignment = 1 << 30
    # Where a call's argument is known on one way to it, LLVM's call site splitting copies the call into each way, and all
    # that stands before it in its block, barriers and shuffles too. It leaves convergent calls alone; that a callee is not
    # convergent LLVM finds later by itself.
    called = " convergent"
    _REGISTERS: ClassVar = {"thread_idx": "tid", "block_idx": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}
    # What the hardware promises of a register: the half-open range of its values along x, y and z.
    _RANGES: ClassVar = {
        "thread_idx": ((0, 1024), (0, 1024), (0, 64)),
        "block_dim": ((1, 1025), (1, 1025), (1, 65)),
        "block_idx": ((0, 2147483647), (0, 65535), (0, 65535)),
        "grid_dim": ((1, 2147483648), (1, 65536), (1, 65536)),
    }
    _LANE_REGISTERS: ClassVar = {"lane_id": ("laneid", "range(i32 0, 32) "), "lanemask_lt": ("lanemask.lt", "")}
    _SPACES: ClassVar = {
        Space.GENERIC: "ptr",
        Space.GLOBAL: "ptr addrspace(1)",
        Space.SHARED: "ptr addrspace(3)",
        Space.LOCAL: "ptr",
        Space.CONSTANT: "ptr addrspace(4)",
    }

    def __init__(self, module: Module, architecture: Architecture, options: Options = DEFAULTS) -> None:
        super().__init__(module, options)
        self.has_float8 = architecture.capability >= (8, 9)
        self.constants_fit = constants.fit(module)

    def preamble(self, text: str) -> str:
        """Triple, data layout, shared arrays, what reports, and the intrinsics that all of it calls."""
        lines = [f'target datalayout = "{DATA_LAYOUT}"', f'target triple = "{TRIPLE}"']
        for number, op in sorted(shared_arrays(self.module).items()):
            size, align = shared_size(op)
            lines.append(f"@shared_{number} = internal addrspace(3) global [{size} x i8] undef, align {align}")
        lines += constants.definitions(self.module, self.pointer(Space.CONSTANT).removeprefix("ptr ") + " ")
        lines.append(print_emitter.texts_on_gpu(self.module))
        if any(op.code is ops.DYNAMIC_SHARED for f in self.module.functions for op in f.ops()):
            lines.append("@dynamic_shared = external addrspace(3) global [0 x i8], align 128")
        reports = [op for f in self.module.functions for op in f.ops() if op.code is ops.REPORT]
        places = kernel_attributes.checked_barriers(self.options, self.module)
        if places or (reports and self.module.main.kernel):
            has_values = any(op.operands for op in reports)
            lines.append(report_text.definitions(self.module.main.name, has_values))
        if places:
            lines.append(report_text.meeting(places))
        lines += kernel_attributes.declarations("".join((*lines, text)))
        return "\n".join(lines) + "\n"

    def module_flags(self) -> tuple[str, ...]:
        """What libdevice asks."""
        return kernel_attributes.flags(self.options)

    def pointer(self, space: Space) -> str:
        """Each space has its number; constants that are too many for their own memory lie in global memory."""
        if space is Space.CONSTANT and not self.constants_fit:
            space = Space.GLOBAL
        return self._SPACES[space]

    def symbol(self, function: Function) -> str:
        """The main function keeps its name; PTX has no dots in names."""
        return function.name if function is self.module.main else f"device_{function.name}"

    def open(self, function: Function, result: str, parameters: Sequence[str], allocas: str) -> tuple[str, str]:
        """Kernels are marked by their calling convention."""
        linkage = "ptx_kernel " if function.kernel else "" if function is self.module.main else "internal "
        head = f"define {linkage}{result} @{self.symbol(function)}({', '.join(parameters)})"
        more = self.definition(function) + kernel_attributes.attributes(self.options, function.kernel)
        return f"{head} nounwind{more} {{\nb0:\n{allocas}", "b0"

    def close(self, _: Function) -> str:
        """Nothing follows."""
        return "}\n"

    def leave(self, _: Function) -> str:
        """A plain return."""
        return "ret void"

    def arguments(self) -> tuple[str, ...]:
        """Nothing is hidden."""
        return ()

    def register(self, name: str, result: str) -> str:
        """A call of the intrinsic, with the range that the hardware promises."""
        if name in kernel_attributes.REGISTERS:
            return f"  {result} = call i32 {kernel_attributes.REGISTERS[name]}()\n"
        if name in self._LANE_REGISTERS:
            intrinsic, promise = self._LANE_REGISTERS[name]
            return f"  {result} = call {promise}i32 @llvm.nvvm.read.ptx.sreg.{intrinsic}()\n"
        group, _, axis = name.partition(".")
        low, high = self._RANGES[group]["xyz".index(axis)]
        high = high - (1 << 32) if high >= 1 << 31 else high
        intrinsic = f"llvm.nvvm.read.ptx.sreg.{self._REGISTERS[group]}.{axis}"
        return f"  {result} = call range(i32 {low}, {high}) i32 @{intrinsic}()\n"

    def barrier(self, place: int, label: str) -> tuple[str, str]:
        """`bar.sync 0`."""
        check = report_text.meet(place) if self.options.checked else ""
        return f"{check}  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) convergent\n", ""

    def meet(self, meeting: Meeting) -> tuple[str, str]:
        """An intrinsic."""
        check = report_text.meet(meeting.place) if self.options.checked and meeting.code is ops.BARRIER_REDUCE else ""
        return check + on_gpu(meeting), ""

    def shared(self, number: int, result: str) -> tuple[str, str]:
        """A global variable of the shared space."""
        return "", f"@shared_{number}"

    def dynamic_shared(self, result: str) -> tuple[str, str]:
        """A variable without a size, which begins where the static arrays end."""
        return "", "@dynamic_shared"

    def written(self, address: str, size: int, result: str, distance: int) -> str:
        """Nobody keeps account."""
        return f"  {result} = icmp eq i32 0, 0\n"

    def mark(self, address: str, size: int, label: str, distance: int) -> str:
        """Nobody keeps account."""
        return ""

    def sync_scope(self, scope: Scope) -> str:
        """LLVM's words."""
        return nvptx_scope(scope)

    def update(self, update: Update, result: str) -> str:
        """Inline PTX."""
        return nvptx_update(update, result)

    def wide(self, wide: Wide, result: str) -> str:
        """Inline PTX."""
        return nvptx_wide(wide, result)

    def pause(self, nanoseconds: str) -> str:
        """`nanosleep`."""
        return f"  call void @llvm.nvvm.nanosleep({nanoseconds})\n"

    def report(self, status: Status, place: int, values: Sequence[str]) -> str:
        """A call; a function that is compiled for others has nobody to report to."""
        return report_text.report(status, place, values) if self.module.main.kernel else report_text.TRAP

    def trace(self, place: int, value: str, done: str) -> str:
        """Nothing: races are looked for on the CPU."""
        return ""

    def exit(self, function: Function) -> str:
        """`exit`."""
        return report_text.leave()

    def math(self, function: device_math.Function) -> str:
        """The GPU's column of the table."""
        return function.gpu

    def library(self, stem: str, type: Number) -> str:
        """libdevice's names: `__nv_sinf`, `__nv_sin`, and `__nv_fast_sinf` where it may be approximate."""
        if type.bits == 32 and stem in _APPROXIMATE and "afn" in self.options.fastmath:
            return f"__nv_fast_{stem}f"
        return f"__nv_{stem}{'f' if type.bits == 32 else ''}"


class Cpu(Dialect):
    """The host's processors: see `codegen/cpu/kernel_text`."""

    # The frame of a coroutine is memory of ours, at the boundary of a cache line.
    frame_alignment = 64
    # With AVX512-FP16, LLVM 22 makes -32768 of NaN as an int16.
    truncates_halves = False
    same_bits = 'asm "", "=r,0"'

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.suspends = Effect.SUSPENDS in module.main.effects

    def preamble(self, text: str) -> str:
        """The records that threads and the scheduler share."""
        traced = any(op.code is ops.TRACE for function in self.module.functions for op in function.ops())
        lines = "".join(f"{line}\n" for line in constants.definitions(self.module))
        return kernel_text.declarations() + lines + (kernel_text.tracing() if traced else "")

    def pointer(self, space: Space) -> str:
        """One space."""
        return "ptr"

    def symbol(self, function: Function) -> str:
        """Never the name of a function of the C library."""
        return f"device.{function.name}"

    def open(self, function: Function, result: str, parameters: Sequence[str], allocas: str) -> tuple[str, str]:
        """Every function takes the thread first; a kernel that suspends is a coroutine."""
        if function.kernel:
            head = kernel_text.kernel_signature(self.symbol(function), ", ".join(parameters), self.suspends)
            if self.suspends:
                return head + kernel_text.prologue(allocas), "coro.start"
            return f"{head}b0:\n{allocas}", "b0"
        listed = ", ".join((kernel_text.THREAD_PARAMETER, *parameters))
        return f"define internal {result} @{self.symbol(function)}({listed}) nounwind {{\nb0:\n{allocas}", "b0"

    def close(self, function: Function) -> str:
        """A coroutine's end."""
        return (kernel_text.epilogue() if function.kernel and self.suspends else "") + "}\n"

    def leave(self, function: Function) -> str:
        """A thread of a coroutine leaves through its epilogue."""
        return f"br label %{kernel_text.RETURNED}" if function.kernel and self.suspends else "ret void"

    def arguments(self) -> tuple[str, ...]:
        """The thread."""
        return ("ptr %thread",)

    def register(self, name: str, result: str) -> str:
        """A field of the thread's or block's record."""
        return kernel_text.special_register(name, result)

    def barrier(self, place: int, label: str) -> tuple[str, str]:
        """A suspension."""
        return kernel_text.barrier(place, label), label

    def meet(self, meeting: Meeting) -> tuple[str, str]:
        """A suspension."""
        return on_cpu(meeting), meeting.label

    def shared(self, number: int, result: str) -> tuple[str, str]:
        """A part of the block's memory."""
        base = kernel_text.special_register("shared", f"{result}.base")
        offset = self.offsets[number]
        return base + f"  {result} = getelementptr inbounds i8, ptr {result}.base, i64 {offset}\n", result

    def dynamic_shared(self, result: str) -> tuple[str, str]:
        """What lies behind the static arrays."""
        return kernel_text.special_register("dynamic_shared", result), result

    def written(self, address: str, size: int, result: str, distance: int) -> str:
        """Each byte has its byte."""
        return kernel_text.written(address, size, result, distance)

    def mark(self, address: str, size: int, label: str, distance: int) -> str:
        """Each byte has its byte."""
        return kernel_text.mark(address, size, label, distance)

    def sync_scope(self, scope: Scope) -> str:
        """Every scope is the widest."""
        return ""

    def update(self, update: Update, result: str) -> str:
        """LLVM's instruction."""
        return cpu_update(update, result)

    def wide(self, wide: Wide, result: str) -> str:
        """LLVM's instruction: processors of 64 bits have one that takes 16 bytes."""
        return cpu_wide(wide, result)

    def pause(self, nanoseconds: str) -> str:
        """Nothing: the `yield` beside it lets other threads run."""
        return ""

    def report(self, status: Status, place: int, values: Sequence[str]) -> str:
        """A call."""
        return kernel_text.report(status, place, *values)

    def trace(self, place: int, value: str, done: str) -> str:
        """A call."""
        return kernel_text.trace(place, value, done)

    def exit(self, function: Function) -> str:
        """The kernel's end: other functions have told their callers (see `instrument/exits`)."""
        assert function.kernel, function.name
        return self.leave(function)

    def math(self, function: device_math.Function) -> str:
        """The CPU's column of the table."""
        return function.cpu

    def library(self, stem: str, type: Number) -> str:
        """The C library's names: `sinf`, `sin`."""
        return f"{stem}{'f' if type.bits == 32 else ''}"

    def runner(self, parameters: Sequence[str]) -> str:
        """What runs the kernel's threads."""
        return runner.runner(self.symbol(self.module.main), parameters, self.suspends, self.shared_bytes)
