"""`Outline` and `ProgramSummary`: the facts about a program, besides its code, that launches and the cache need.

Outline.of(module).written           frozenset({1}): the kernel may write to the second of its arrays
Outline.of(module).reports[7]        ReportPlace(kernel.py:12, "index {0} is out of bounds …")
packed(summary)                      b"(('saxpy', [1], [0], False, …), (), '5f0c3a1b…', [], 0)"
unpacked(packed(summary)) == summary
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cuda_device.errors import Location, Loss
from cuda_device.lazy_dataclasses import dataclass, fields_of
from cuda_device.types.argument_packing import code_of
from cuda_device.types.model import INT32, NONE

if TYPE_CHECKING:
    from cuda_device.ir.nodes import Module, Op


class Status:
    """The status of a launch. The first report of a thread wins; the status is `CLAIMED` while that thread writes the report."""

    CLAIMED = 1
    ASSERTION = 2
    EXCEPTION = 3
    CHECK = 4
    DEADLOCK = 5
    DIVERGENT_BARRIER = 6
    OUT_OF_MEMORY = 7
    OUTSIDE_MASK = 8


@dataclass(frozen=True)
class ReportPlace:
    """A place in a kernel that may report an error.

    If `has_values`, `{0}` and `{1}` in `message` stand for the two numbers of a report, which are integers by default (see
    `runtime.gpu.report_message.ReportedNumber`). Of a place where threads wait for a number in memory, `message` describes that
    number, `{0}`.
    """

    location: Location
    message: str = ""
    help: str = ""
    has_values: bool = False


@dataclass(frozen=True)
class Print:
    """A `print`: its format and, for each 64-bit value, its format character in `struct`, or the texts that it selects from.

    A bool selects the first of two texts if it is true; an integer is the index of one of several.
    """

    format: str
    values: tuple[str | tuple[str, ...], ...]


@dataclass(frozen=True)
class Outline:
    """The symbol of a kernel, its properties, and its places that wait, report or print, by their numbers in the machine code.

    `written` lists the arrays that the kernel may write. `may_run_long` is false if there are no loops and no recursion. If
    `positions`, the kernel computes the position of a thread along x, or the number of threads, as an int32 (`tid`, `grid_size`).
    All blocks of a `cooperative` kernel must run at the same time (`grid_sync`).
    """

    symbol: str
    written: frozenset[int]
    may_run_long: bool
    recursive: bool
    positions: bool
    cooperative: bool
    waits: Mapping[int, ReportPlace]
    reports: Mapping[int, ReportPlace]
    prints: Mapping[int, Print]

    @staticmethod
    def of(module: Module) -> Outline:
        """The outline of a module of the device level."""
        from cuda_device.ir import dominance, ops
        from cuda_device.ir.ops import Effect
        from cuda_device.optimise import points_to

        positions = cooperative = calls = False
        waits: dict[int, ReportPlace] = {}
        reports: dict[int, ReportPlace] = {}
        prints: dict[int, Print] = {}
        for op in module.ops():
            if op.code is ops.REPORT:
                reports[op.attributes["place"]] = _place(op)
            elif op.code is ops.PRINT:
                prints[op.attributes["place"]] = _print(op)
            elif "place" in op.attributes and Effect.SUSPENDS in op.code.effects:
                waits[op.attributes["place"]] = ReportPlace(op.location, op.attributes.get("state", ""))
            elif op.code is ops.REGISTER:
                positions |= op.attributes["name"] == "block_dim.x" and op.result.type == INT32
            calls |= op.code is ops.CALL
            cooperative |= op.code is ops.GRID_WORD and not {"cluster", "block"} & op.attributes.keys()
        return Outline(
            symbol=module.main.name,
            written=points_to.written(module),
            may_run_long=dominance.has_loops(module) or any(map(dominance.callees, module.functions[1:])),
            recursive=calls and bool(dominance.in_recursion(module)),
            positions=positions,
            cooperative=cooperative,
            waits=waits,
            reports=reports,
            prints=prints,
        )


def _place(op: Op) -> ReportPlace:
    text = op.attributes
    return ReportPlace(op.location, text["message"], text.get("help", ""), bool(op.operands))


def _print(op: Op) -> Print:
    pairs = zip(op.operands, op.attributes["choices"], strict=True)
    return Print(op.attributes["format"], tuple(choice or code_of(operand.type or NONE) for operand, choice in pairs))


@dataclass(frozen=True)
class ProgramSummary:
    """A program's outline, losses, SHA-256 hash of the LLVM IR, functions of libdevice, and bytes of shared memory."""

    outline: Outline
    losses: tuple[Loss, ...]
    digest: str
    library: frozenset[str]
    shared_bytes: int


def packed(program: ProgramSummary) -> bytes:
    """A summary as text for `ast.literal_eval`."""
    return repr(_plain(program)).encode()


def _plain(value: Any) -> Any:
    """Records as tuples of their fields, and sets as sorted lists."""
    match value:
        case ProgramSummary() | Outline() | ReportPlace() | Print() | Location() | Loss():
            return tuple(map(_plain, map(value.__getattribute__, fields_of(type(value)))))
        case Mapping():
            return {number: _plain(part) for number, part in value.items()}
        case tuple():
            return tuple(map(_plain, value))
        case frozenset():
            return sorted(value)
    return value


def _report_places(places: Mapping[int, Any]) -> dict[int, ReportPlace]:
    return {number: ReportPlace(Location(*location), *rest) for number, (location, *rest) in places.items()}


def unpacked(data: bytes) -> ProgramSummary:
    """The summary that `packed` wrote (`extend.pack_summary`). Raises any exception for other text."""
    outline, losses, digest, library, shared_bytes = ast.literal_eval(data.decode())
    symbol, written, may_run_long, recursive, positions, cooperative, waits, reports, prints = outline
    if not (isinstance(symbol, str) and isinstance(digest, str) and type(shared_bytes) is int):
        raise ValueError("no program")
    return ProgramSummary(
        Outline(
            symbol,
            frozenset(written),
            may_run_long,
            recursive,
            positions,
            cooperative,
            _report_places(waits),
            _report_places(reports),
            {number: Print(*parts) for number, parts in prints.items()},
        ),
        tuple(Loss(Location(*location), *words) for location, *words in losses),
        digest,
        frozenset(library),
        shared_bytes,
    )
