"""`ProgramSummary`: the properties of a program that launches and the cache need beside its code, and their form as bytes.

packed(program)                      b"(('saxpy', (1,), (0, 1), False, …), (), '5f0c3a1b…', (), 0)"
unpacked(packed(program)) == program
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from cuda_device.cache.disk import sha256
from cuda_device.errors import Location, Loss
from cuda_device.instrument.outline import Outline, Print, ReportPlace
from cuda_device.lazy_dataclasses import dataclass, fields_of


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """A program's outline, losses, hash of the LLVM IR, functions of libdevice, and bytes of shared memory."""

    outline: Outline
    losses: tuple[Loss, ...]
    digest: str
    library: frozenset[str]
    shared_bytes: int

    @staticmethod
    def of(
        outline: Outline, losses: tuple[Loss, ...], text: str, library: frozenset[str], shared_bytes: int
    ) -> ProgramSummary:
        """The summary of a program with the LLVM IR `text`."""
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return ProgramSummary(outline, losses, digest, library, shared_bytes)


def packed(program: ProgramSummary) -> bytes:
    """A summary as text for `ast.literal_eval`."""
    symbol, written, aligned, *rest = _plain(program.outline)
    plain = (
        (symbol, sorted(written), sorted(aligned), *rest),
        tuple(map(_plain, program.losses)),
        program.digest,
        sorted(program.library),
        program.shared_bytes,
    )
    return repr(plain).encode()


def _plain(value: Any) -> Any:
    """Records as tuples of their fields."""
    match value:
        case Outline() | ReportPlace() | Print() | Location() | Loss():
            return tuple(_plain(getattr(value, name)) for name in fields_of(type(value)))
        case Mapping():
            return {number: _plain(part) for number, part in value.items()}
        case _:
            return value


def unpacked(data: bytes) -> ProgramSummary:
    """The summary that `packed` wrote. Raises any exception for other text."""
    outline, losses, digest, library, shared_bytes = ast.literal_eval(data.decode())
    symbol, written, aligned, may_run_long, recursive, positions, cooperative, waits, reports, prints = outline
    if not (isinstance(symbol, str) and isinstance(digest, str) and type(shared_bytes) is int):
        raise ValueError("no program")
    return ProgramSummary(
        Outline(
            symbol,
            frozenset(written),
            frozenset(aligned),
            may_run_long,
            recursive,
            positions,
            cooperative,
            {number: Location(*place) for number, place in waits.items()},
            {number: ReportPlace(Location(*place), *rest) for number, (place, *rest) in reports.items()},
            {number: Print(*parts) for number, parts in prints.items()},
        ),
        tuple(Loss(Location(*place), *words) for place, *words in losses),
        digest,
        frozenset(library),
        shared_bytes,
    )
