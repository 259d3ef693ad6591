"""`Outline`: the facts about a kernel, besides its machine code, that a launch needs.

Outline.of(module).written           frozenset({1}): the kernel may write to the second of its arrays
Outline.of(module, True).aligned     frozenset({0}): a launch must check that the memory of the first array is aligned
Outline.of(module).reports[7]        ReportPlace(kernel.py:12, "index {0} is out of bounds …")
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from cuda_device.errors import Location
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.model import INT32

if TYPE_CHECKING:
    from cuda_device.ir.nodes import Module, Op


class Status(IntEnum):
    """What a thread's report says, on a GPU and on the CPU. The first of a launch wins, `CLAIMED` while it is written."""

    NONE = 0
    CLAIMED = 1
    ASSERTION = 2
    EXCEPTION = 3
    CHECK = 4
    DEADLOCK = 5
    DIVERGENT_BARRIER = 6
    OUT_OF_MEMORY = 7
    OUTSIDE_MASK = 8


@dataclass(frozen=True, slots=True)
class ReportPlace:
    """A place in a kernel that may report.

    Where `has_values`, `{0}` and `{1}` in `message` stand for a report's two numbers: integers, if nothing else is said (see
    `runtime.gpu.report_message.ReportedNumber`).
    """

    location: Location
    message: str = ""
    help: str = ""
    has_values: bool = False


@dataclass(frozen=True, slots=True)
class Print:
    """A `print`: its format, and for each value of 64 bits a letter of `struct`, or the texts that it chooses from.

    Of two, a bool chooses the first if it is true; of more, an integer is the number of one.
    """

    format: str
    values: tuple[str | tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a kernel: its symbol, and by their numbers in the machine code what it does at certain places.

    `written` are the numbers of the arrays that it may write, `aligned` of those whose memory begins at a multiple of 16 bytes;
    `may_run_long` is false if there are no loops, and no recursion. Threads may wait for each other at `waits`. Where
    `positions`, the kernel computes the place of a thread along x, or the number of threads there, as an int32 (`tid`,
    `grid_size`). All blocks of a `cooperative` one have to run at once (`grid_sync`).
    """

    symbol: str
    written: frozenset[int]
    aligned: frozenset[int]
    may_run_long: bool
    recursive: bool
    positions: bool
    cooperative: bool
    waits: Mapping[int, Location]
    reports: Mapping[int, ReportPlace]
    prints: Mapping[int, Print]

    @staticmethod
    def of(module: Module, counts_on_alignment: bool = False) -> Outline:
        """The outline of a module of the device level."""
        from cuda_device.ir import dominance, ops
        from cuda_device.ir.dominance import back_edges
        from cuda_device.ir.ops import Effect
        from cuda_device.optimise import points_to

        found = [op for function in module.functions for op in function.ops()]
        placed = [(int(str(op.attributes["place"])), op) for op in found if "place" in op.attributes]
        return Outline(
            symbol=module.main.name,
            written=points_to.written(module),
            aligned=points_to.numbers(module) if counts_on_alignment else frozenset(),
            may_run_long=any(back_edges(function.blocks) for function in module.functions)
            or any(op.code is ops.CALL for function in module.functions[1:] for op in function.ops()),
            recursive=bool(dominance.in_recursion(module)),
            positions=any(
                op.code is ops.REGISTER and op.attributes["name"] == "block_dim.x" and op.result.type == INT32
                for op in found
            ),
            cooperative=any(op.code is ops.GRID_WORD and not op.attributes.get("cluster") for op in found),
            waits={place: op.location for place, op in placed if Effect.SUSPENDS in op.code.effects},
            reports={place: _place(op) for place, op in placed if op.code is ops.REPORT},
            prints={place: _print(op) for place, op in placed if op.code is ops.PRINT},
        )


def _place(op: Op) -> ReportPlace:
    text = op.attributes
    return ReportPlace(op.location, str(text["message"]), str(text.get("help", "")), bool(op.operands))


def _print(op: Op) -> Print:
    choices = op.attributes["choices"]
    assert isinstance(choices, tuple)
    values = (choice or _letter(operand.type) for operand, choice in zip(op.operands, choices, strict=True))
    return Print(str(op.attributes["format"]), tuple(values))


def _letter(type: Any) -> str:
    """How `struct` reads a number of 64 bits."""
    return "d" if type.is_float else "q" if type.signed else "Q"
