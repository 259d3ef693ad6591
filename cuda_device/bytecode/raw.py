"""CPython's own instructions, and the stack on which they work, as far as their translation needs to know them.

`decode` makes `Raw` instructions of a code object and carries a stack of `Slot`s along; `Cursor` is what it shows to a
row of the table in `versions`: the instruction, its neighbours, and the stack, which the row changes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from types import CodeType

from cuda_device.bytecode.instructions import Opcode
from cuda_device.errors import CompilerBug, Location
from cuda_device.lazy_dataclasses import dataclass


@dataclass(slots=True)
class Raw:
    """One instruction of CPython."""

    name: str
    number: int
    """Its argument as it is; 0 if it has none."""
    value: object
    """What the argument stands for: a name, a constant."""
    text: str
    """How `dis` writes the argument: the one place where some operators are spelled out."""
    location: Location
    effect: int
    """By how many slots the raw stack grows if it does not jump."""
    protection: str = ""
    """The statement whose handler protects the instruction: "try", "try with finally", "with" or none."""
    target: int = -1
    """Where it jumps to: an index into the list of raw instructions."""


class Slot(Enum):
    """What the walk knows about one slot of the raw stack."""

    VALUE = auto()
    """An ordinary value."""
    NULL = auto()
    """Not a value: CPython's NULL, the second half of a method, or a constant that is part of the next instruction."""
    ASSERTION = auto()
    """AssertionError, as an `assert` loads it. Not a value either: ASSERT_FAIL says it all."""
    FAILURE = auto()
    """The message of an `assert`, where CPython has made the exception of it."""
    SAVED_CELL = auto()
    """The cell that SAVE_CELL pushed."""
    STR = auto()
    """A value that FORMAT shall convert by `str` first."""
    REPR = auto()
    """The same, by `repr`."""
    ASCII = auto()
    """The same, by `ascii`."""

    @property
    def is_value(self) -> bool:
        """Whether the slot is on our stack, too."""
        return self is not Slot.NULL and self is not Slot.ASSERTION


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction of ours whose target still counts raw ones; -1 if there is none."""

    opcode: Opcode
    argument: object = None
    target: int = -1


@dataclass(slots=True)
class Cursor:
    """Where the walk is."""

    code: CodeType
    raws: list[Raw]
    index: int
    slots: list[Slot]
    """The raw stack, its top last."""
    slots_at_target: list[Slot] | None = None
    """The stack if the instruction jumps; None if it is the same as if it does not."""

    @property
    def raw(self) -> Raw:
        """The instruction to translate."""
        return self.raws[self.index]

    def near(self, distance: int) -> Raw:
        """The raw instruction so far behind this one, or before it if the distance is negative."""
        return self.raws[self.index + distance]

    def is_near(self, distance: int, *names: str) -> bool:
        """Whether there is a raw instruction so far away that has one of the names."""
        index = self.index + distance
        return 0 <= index < len(self.raws) and self.raws[index].name in names

    def pop(self, count: int = 1) -> list[Slot]:
        """Takes slots off the stack; the last one of the result was on top."""
        cut = len(self.slots) - count
        if cut < 0:
            raise CompilerBug(f"{self.raw.name} at offset {self.raw.location.offset} finds too little on the stack")
        popped = self.slots[cut:]
        del self.slots[cut:]
        return popped

    def push(self, slot: Slot = Slot.VALUE) -> None:
        """Puts a slot on the stack."""
        self.slots.append(slot)

    def settle(self) -> None:
        """Shrinks or grows the stack as the instruction does; what is new is a value."""
        self.pop(max(0, -self.raw.effect))
        self.slots += [Slot.VALUE] * self.raw.effect

    def position(self, raw_position: int) -> int:
        """The position on our stack, counted from 1 at the top, of a value's position on the raw stack."""
        reached = self.slots[-raw_position:]
        if len(reached) < raw_position or not reached[0].is_value:
            raise CompilerBug(f"{self.raw.name} at offset {self.raw.location.offset} does not reach a value")
        return sum(slot.is_value for slot in reached)


Steps = tuple[Step, ...]
Row = Callable[[Cursor], Steps]
"""The translation of one raw instruction: returns ours, and changes the stack of the place."""
