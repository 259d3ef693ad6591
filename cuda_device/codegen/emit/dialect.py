"""`Dialect`: the interface between the emitters and the backends, which write LLVM IR for different machines.

The dialect writes pointers and functions, and has the emitters of the operations that each machine writes in its own way, such as
barriers and reads of special registers. The other emitters do not depend on the machine. The dialects are
`codegen/gpu/nvptx_dialect` and `cpu/cpu_dialect`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from cuda_device.device.options import DEFAULTS, Options
from cuda_device.errors import CompileError
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module, Op, Value
from cuda_device.ir.ops import Effect, OpDef, Order, Scope
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import MAXIMUM_STATIC_SHARED
from cuda_device.types.layout import WIDEST_ACCESS, size_of
from cuda_device.types.model import Number, Ref, Space

Emitter = Callable[[Any, Op], None]
"""Writes an operation with the writer of its function (`llvm_writer.FunctionWriter`)."""

# LLVM's names. Consume is acquire, as in all compilers.
LLVM_ORDERS = {
    Order.RELAXED: "monotonic",
    Order.CONSUME: "acquire",
    Order.ACQUIRE: "acquire",
    Order.RELEASE: "release",
    Order.ACQ_REL: "acq_rel",
    Order.SEQ_CST: "seq_cst",
}


PAIR = "<2 x i64>"


@dataclass(frozen=True, slots=True)
class AtomicAccess:
    """An atomic access, a read-modify-write or one to 16 bytes. `pointer` and `value` ("" for a load) include their types."""

    space: Space
    pointer: str
    value: str
    order: Order
    scope: Scope


# The layout of shared arrays


def shared_size(op: Op) -> tuple[int, int]:
    """The size and alignment of a shared array in bytes; arrays of 16 bytes or more are aligned for the widest accesses."""
    assert isinstance(op.result.type, Ref)
    size, align = op.attributes["count"] * size_of(op.result.type.pointee), op.attributes["align"]
    return size, max(align, WIDEST_ACCESS) if size >= WIDEST_ACCESS else align


def shared_offsets(arrays: Mapping[int, Op], most: int) -> tuple[dict[int, int], int]:
    """The offsets of the shared arrays, and their total size in bytes, which may be at most `most`."""
    offsets: dict[int, int] = {}
    end = 0
    for number, op in arrays.items():
        size, align = shared_size(op)
        offsets[number] = -(-end // align) * align
        end = offsets[number] + size
        if end > most:
            total = sum(shared_size(array)[0] for array in arrays.values())
            raise CompileError(
                f"the kernel's shared arrays take {total} bytes: the limit is {most}",
                op.location,
                "make the arrays smaller, or compile for an architecture with more shared memory"
                if most > MAXIMUM_STATIC_SHARED
                else "make the arrays smaller, or view dynamic_shared_array() as one and launch with shared=…",
            )
    return offsets, end


class Dialect(ABC):
    """A backend's dialect of LLVM IR for one `module`."""

    is_gpu: ClassVar[bool] = False
    """Whether the machine is a GPU, for which launches check alignment and aliasing, and whose code contains the texts."""
    dwarf: ClassVar[int] = 4
    """The version of DWARF."""
    has_float8 = False
    """Whether the machine has instructions that convert floats of 8 bits."""
    same_bits: ClassVar[str]
    """Inline assembly that copies 16 bits."""
    called: ClassVar[str] = ""
    """Attributes of calls."""

    def of_library(self, symbol: str, type: str, arity: int) -> tuple[str, list[str]]:
        """Attributes of calls of a library function, and other functions that they need declared."""
        return self.called, []

    def access(self, space: Space) -> str:
        """What loads and stores of a space are marked with."""
        return ""

    def __init__(self, module: Module, options: Options = DEFAULTS, most_shared: int = MAXIMUM_STATIC_SHARED) -> None:
        self.module, self.options, self.ops_by_code = module, options, module.by_code()
        shared = {op.attributes["number"]: op for op in self.ops_by_code.get(ops.SHARED, ())}
        self.shared_arrays = dict(sorted(shared.items()))
        """By their numbers: operations with the same number are the same array."""
        self.offsets, self.shared_bytes = shared_offsets(self.shared_arrays, most_shared)
        self.dynamic_align = 1
        """The alignment of dynamic shared memory, which follows the arrays. A launch rounds it up to 128."""
        for op in self.ops_by_code.get(ops.DYNAMIC_SHARED, ()):
            self.dynamic_align = max(self.dynamic_align, op.attributes.get("align", 1))
        self.shared_bytes = -(-self.shared_bytes // self.dynamic_align) * self.dynamic_align

    @abstractmethod
    def preamble(self) -> str:
        """The text before the first function."""

    def module_flags(self) -> tuple[str, ...]:
        """Metadata nodes of module flags."""
        return ()

    @abstractmethod
    def pointer(self, space: Space) -> str:
        """The type of an address."""

    @abstractmethod
    def symbol(self, function: Function) -> str:
        """The name of a function, without `@`."""

    @abstractmethod
    def begin_function(
        self, function: Function, result: str, parameters: Sequence[str], allocas: str
    ) -> tuple[str, str]:
        """The beginning of a function with the lines `allocas`, and the label of its first block."""

    def allocate_local(self, name: str, size: int, align: int, value: Value | None = None) -> str:
        """Allocates local memory, whose address is `value`."""
        return f"  {name} = alloca [{size} x i8], align {align}\n"

    def variable(self, function: Function, name: str, type: str, size: int) -> tuple[str, str, str]:
        """Allocates memory for a variable: the lines, the address for debuggers, and the DWARF expression."""
        return f"  {name} = alloca {type}, align 8\n", name, ""

    def end_function(self, function: Function) -> str:
        """The text after a function's last block."""
        return "}\n"

    def return_void(self, function: Function) -> str:
        """The end of a function without a result."""
        return "ret void"

    def hidden_arguments(self) -> tuple[str, ...]:
        """The first arguments of every call."""
        return ()

    @abstractmethod
    def emitters(self) -> dict[OpDef, Emitter]:
        """The emitters of the operations that depend on the machine."""

    def sync_scope(self, scope: Scope) -> str:
        """The scope of an atomic instruction."""
        return ""

    @abstractmethod
    def update(self, operation: str, number: Number, access: AtomicAccess, result: str, is_used: bool) -> str:
        """A read-modify-write of a number, whose previous value is the `result`, which may be unused."""

    @abstractmethod
    def wide(self, access: AtomicAccess, result: str) -> str:
        """An atomic access to 16 bytes."""

    @abstractmethod
    def report(self, status: int, place: int, values: Sequence[str]) -> str:
        """Reports to the host that this thread failed, with up to two integers of 64 bits."""

    @abstractmethod
    def library(self, stem: str, type: Number) -> str:
        """The name of a library function for a float type."""

    @abstractmethod
    def print(self, op: Op, buffer: str, result: str) -> str:
        """Prints the values of 8 bytes in a buffer by the format of an operation."""

    def text(self, text: str) -> str:
        """The address of a text in the code."""
        raise NotImplementedError(text)

    def runner(self, parameters: Sequence[str]) -> str:
        """The text after the functions, which runs a kernel with these parameters on the CPU."""
        return ""

    def definition(self, function: Function) -> str:
        """Attributes of a function's definition and of calls of it."""
        return " convergent" if Effect.CONVERGENT in function.effects else ""
