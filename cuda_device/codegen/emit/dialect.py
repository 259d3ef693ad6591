"""`Dialect`: the methods in which the backends differ when device IR becomes LLVM IR.

Emitters get from the dialect the text for pointers, functions, special registers, barriers and shared memory, and do not depend
on the machine otherwise. Each method returns text, and the names that it creates begin with the name of its result. The dialects
are `codegen/gpu/nvptx_dialect` and `codegen/cpu/cpu_dialect`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from cuda_device.device.functions import DEFAULTS, Options
from cuda_device.errors import CompileError
from cuda_device.instrument.outline import Status
from cuda_device.ir import ops
from cuda_device.ir.nodes import Function, Module, Op, Value
from cuda_device.ir.ops import Effect, OpDef, Order, Scope
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import MAXIMUM_STATIC_SHARED
from cuda_device.types.layout import size_of
from cuda_device.types.model import Number, Ref, Space

# LLVM's names; consume is acquire, as in every compiler.
LLVM_ORDERS = {
    Order.RELAXED: "monotonic",
    Order.CONSUME: "acquire",
    Order.ACQUIRE: "acquire",
    Order.RELEASE: "release",
    Order.ACQ_REL: "acq_rel",
    Order.SEQ_CST: "seq_cst",
}


@dataclass(frozen=True, slots=True)
class Update:
    """A read-modify-write: `pointer` and `value` are operands with their types. `number` is the type of the number.

    `is_used` says whether anything reads the number that was there before.
    """

    operation: str
    number: Number
    space: Space
    pointer: str
    value: str
    order: Order
    scope: Scope
    is_used: bool = True


@dataclass(frozen=True, slots=True)
class Wide:
    """An access to 16 bytes: `pointer`, and the `value` to store ("" for a load), are operands with their types."""

    space: Space
    pointer: str
    value: str
    order: Order
    scope: Scope


PAIR = "<2 x i64>"


@dataclass(frozen=True, slots=True)
class Meeting:
    """A convergent operation, at which threads meet.

    `kind` and `place` are its attributes; `result` ("" if it has none) and `operands` come with their types.
    """

    code: OpDef
    kind: str
    place: int
    label: str
    result: str
    operands: tuple[str, ...]


# Where the shared arrays of a kernel lie

_WIDEST = 16


def shared_arrays(module: Module) -> dict[int, Op]:
    """The shared arrays of a module, by their numbers: copies of an operation stand for the same array."""
    return {int(str(op.attributes["number"])): op for f in module.functions for op in f.ops() if op.code is ops.SHARED}


def shared_size(op: Op) -> tuple[int, int]:
    """The bytes of a shared array, and the boundary that it begins at: one for the widest accesses, if it has room for any."""
    count, align, type = op.attributes["count"], op.attributes["align"], op.result.type
    assert isinstance(count, int) and isinstance(align, int) and isinstance(type, Ref)
    size = count * size_of(type.pointee)
    return size, max(align, _WIDEST) if size >= _WIDEST else align


def shared_offsets(module: Module, most: int) -> tuple[dict[int, int], int]:
    """Where each shared array begins, in bytes, and the size of all. More than `most` is a `CompileError`."""
    offsets: dict[int, int] = {}
    end = 0
    arrays = sorted(shared_arrays(module).items())
    for number, op in arrays:
        size, align = shared_size(op)
        offsets[number] = -(-end // align) * align
        end = offsets[number] + size
        if end > most:
            raise CompileError(
                f"the kernel's shared arrays take {sum(shared_size(each)[0] for _, each in arrays)} bytes: the limit is {most}",
                op.location,
                "make the arrays smaller, or compile for an architecture with more shared memory"
                if most > MAXIMUM_STATIC_SHARED
                else "make the arrays smaller, or view dynamic_shared_array() as one and launch with shared=…",
            )
    return offsets, end


class Dialect(ABC):
    """How one backend spells things. `module` is the device module that is being written."""

    is_gpu: ClassVar[bool] = False
    """Whether it is a GPU's: launches then see to what memory is like, NaN is what its instructions make of it, and texts are in
    the code, which else the host knows."""
    dwarf: ClassVar[int] = 4
    """The version of DWARF that debuggers get."""
    has_float8 = False
    """Whether the machine has instructions that convert floats of 8 bits."""
    same_bits: ClassVar[str]
    """A text of the assembler's that gives the 16 bits that it is given."""
    called: ClassVar[str] = ""
    """What calls of functions are marked with, beside what their definitions are."""

    def of_library(self, symbol: str, type: str, arity: int) -> tuple[str, list[str]]:
        """What calls of a library function of floats are marked with, and other functions that are declared for that."""
        return self.called, []

    def __init__(self, module: Module, options: Options = DEFAULTS, most_shared: int = MAXIMUM_STATIC_SHARED) -> None:
        self.module, self.options = module, options
        self.offsets, self.shared_bytes = shared_offsets(module, most_shared)

    @abstractmethod
    def preamble(self) -> str:
        """What stands before the first function."""

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

    def own(self, name: str, size: int, align: int, value: Value | None = None) -> str:
        """The lines that make memory of a thread's own, at the address `value`."""
        return f"  {name} = alloca [{size} x i8], align {align}\n"

    def variable(self, function: Function, name: str, type: str, size: int) -> tuple[str, str, str]:
        """The lines that make memory for what debuggers look at, what they are given, and DWARF for how that leads there."""
        return f"  {name} = alloca {type}, align 8\n", name, ""

    def close(self, function: Function) -> str:
        """The text behind a function's last block."""
        return "}\n"

    def leave(self, function: Function) -> str:
        """How a function that returns nothing ends."""
        return "ret void"

    def arguments(self) -> tuple[str, ...]:
        """What every call passes first."""
        return ()

    @abstractmethod
    def register(self, name: str, result: str) -> str:
        """Reads a special register."""

    @abstractmethod
    def timer(self, name: str, result: str) -> str:
        """Reads `clock64` or `globaltimer`."""

    @abstractmethod
    def meet(self, meeting: Meeting) -> tuple[str, str]:
        """An operation at which threads meet; with the label of the block that goes on, or "" if it is the same one."""

    @abstractmethod
    def shared(self, number: int | None, result: str) -> tuple[str, str]:
        """Text, and the operand, that give the address of a shared array, or (None) of the launch's shared memory."""

    @abstractmethod
    def grid_word(self, result: str, cluster: bool) -> str:
        """The address of the number that the barriers of a cooperative launch, or on the CPU of a cluster, count in."""

    @abstractmethod
    def in_cluster(self, address: str, rank: str, result: str) -> str:
        """The same place in the shared memory of another block of the cluster."""

    def sync_scope(self, scope: Scope) -> str:
        """What an atomic instruction says of its scope."""
        return ""

    @abstractmethod
    def update(self, update: Update, result: str) -> str:
        """A read-modify-write."""

    @abstractmethod
    def wide(self, wide: Wide, result: str) -> str:
        """An atomic access to 16 bytes."""

    def pause(self, nanoseconds: str) -> str:
        """Waits for a short while; where nothing can, the `yield` beside it lets other threads run."""
        return ""

    @abstractmethod
    def report(self, status: Status, place: int, values: Sequence[str]) -> str:
        """Tells the host that this thread failed, with two integers of 64 bits at most."""

    def trace(self, place: int, value: str, done: str, read: int, waits: bool) -> str:
        """Tells the race detector what this thread does; an address in shared memory counts from where that begins.

        `read` is how many bytes of shared memory are read, or 0. `waits`: it comes to a barrier of the block, or goes on.
        """
        return ""

    @abstractmethod
    def exit(self, function: Function) -> str:
        """Ends the thread."""

    @abstractmethod
    def library(self, stem: str, type: Number) -> str:
        """The symbol of a library function for a float type."""

    @abstractmethod
    def print(self, op: Op, buffer: str, result: str) -> str:
        """Prints by the format of an operation what is in a buffer, eight bytes each."""

    def text(self, text: str) -> str:
        """The address of a text that is in the code."""
        raise NotImplementedError(text)

    def room(self, result: str) -> str:
        """Makes `result` whether the stack has room for another call; a GPU's driver sees to that."""
        return f"  {result} = icmp eq i32 0, 0\n"

    def runner(self, parameters: Sequence[str]) -> str:
        """What stands behind the functions, and runs a kernel that takes such parameters."""
        return ""

    def definition(self, function: Function) -> str:
        """Attributes of a function's definition, and of calls of it."""
        return " convergent" if Effect.CONVERGENT in function.effects else ""
