"""How LLVM IR for the host's processors is spelled: see `codegen/cpu/kernel_text`."""

from __future__ import annotations

from collections.abc import Sequence

from cuda_device.codegen.cpu import kernel_text, runner, warp_exchange
from cuda_device.codegen.cpu.records import BLOCK, CONTROL, THREAD
from cuda_device.codegen.emit import llvm_writer
from cuda_device.codegen.emit.dialect import LLVM_ORDERS, PAIR, Dialect, Meeting, Status, Update, Wide
from cuda_device.device import math as device_math
from cuda_device.ir.nodes import Function, Module, Op
from cuda_device.ir.ops import Effect, Scope
from cuda_device.types.model import Number, Space


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
        lines = "".join(f"{line}\n" for line in llvm_writer.constant_definitions(self.module))
        return kernel_text.declarations() + lines

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

    def timer(self, name: str, result: str) -> str:
        """A clock of the C library, by its number on Linux."""
        return f"  {result} = call i64 @{runner.NANOSECONDS}(i32 {0 if name == 'globaltimer' else 1})\n"

    def barrier(self, place: int, label: str) -> tuple[str, str]:
        """A suspension."""
        return kernel_text.barrier(place, label), label

    def meet(self, meeting: Meeting) -> tuple[str, str]:
        """A suspension."""
        return warp_exchange.meet(meeting), meeting.label

    def shared(self, number: int, result: str) -> tuple[str, str]:
        """A part of the block's memory."""
        base = kernel_text.special_register("shared", f"{result}.base")
        offset = self.offsets[number]
        return base + f"  {result} = getelementptr inbounds i8, ptr {result}.base, i64 {offset}\n", result

    def dynamic_shared(self, result: str) -> tuple[str, str]:
        """What lies behind the static arrays."""
        return kernel_text.special_register("dynamic_shared", result), result

    def sync_scope(self, scope: Scope) -> str:
        """Every scope is the widest."""
        return ""

    def update(self, update: Update, result: str) -> str:
        """LLVM's instruction."""
        return _update(update, result)

    def wide(self, wide: Wide, result: str) -> str:
        """LLVM's instruction: processors of 64 bits have one that takes 16 bytes."""
        return _wide(wide, result)

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
        """The kernel's end: other functions have told their callers (see `instrument/host_limits`)."""
        assert function.kernel, function.name
        return self.leave(function)

    def math(self, function: device_math.MathFunction) -> str:
        """The CPU's column of the table."""
        return function.cpu

    def library(self, stem: str, type: Number) -> str:
        """The C library's names: `sinf`, `sin`."""
        return f"{stem}{'f' if type.bits == 32 else ''}"

    def runner(self, parameters: Sequence[str]) -> str:
        """What runs the kernel's threads."""
        return runner.runner(self.symbol(self.module.main), parameters, self.suspends, self.shared_bytes)

    def print(self, op: Op, buffer: str, result: str) -> str:
        """The launch knows a function of the host."""
        block, control, function = f"{result}.block", f"{result}.control", f"{result}.function"
        return (
            THREAD.load(block, "%thread", "block")
            + BLOCK.load(control, block, "control")
            + CONTROL.load(function, control, "print")
            + f"  call void {function}(i32 {op.attributes['place']}, ptr {buffer})\n"
        )

    def room(self, result: str) -> str:
        """How much of the host thread's stack is in use."""
        return kernel_text.room(result)


def _wide(wide: Wide, result: str) -> str:
    """Lines that store the value, or make `result` of what is there."""
    order = LLVM_ORDERS[wide.order]
    if wide.value:
        bits = f"{result}.bits"
        return (
            f"  {bits} = bitcast {wide.value} to i128\n  store atomic i128 {bits}, {wide.pointer} {order}, align 16\n"
        )
    load = f"  {result}.bits = load atomic i128, {wide.pointer} {order}, align 16\n"
    return f"{load}  {result} = bitcast i128 {result}.bits to {PAIR}\n"


def _update(update: Update, result: str) -> str:
    """A line that makes `result` of the number before."""
    operation = {"exch": "xchg"}.get(update.operation, update.operation)
    if update.number.is_float and operation == "add":
        operation = "fadd"
    if not update.number.signed and operation in ("max", "min"):
        operation = f"u{operation}"
    return f"  {result} = atomicrmw {operation} {update.pointer}, {update.value} {LLVM_ORDERS[update.order]}\n"
