"""Which functions of the library are shown in reports at the place where the program calls them."""

from __future__ import annotations

from functools import lru_cache
from types import FunctionType

from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import Opcode
from cuda_device.ir.ops import Effect
from cuda_device.library import NAMES
from cuda_device.library.builtins import row_of_entity


@lru_cache(maxsize=256)
def reports(source: FunctionType) -> bool:
    """Whether a function raises exceptions, or waits, which reports of deadlocks show."""
    return any(instruction.opcode is Opcode.RAISE for instruction in decode(source.__code__)) or _waits(source, ())


def _waits(source: FunctionType, callers: tuple[FunctionType, ...]) -> bool:
    """Whether a function of the library names an entity that waits, or another such function."""
    captured = (cell.cell_contents for cell in source.__closure__ or ())
    for named in (*map(source.__globals__.get, source.__code__.co_names), *captured):
        row = row_of_entity(named)
        if row is not None and Effect.SUSPENDS in row.effects:
            return True
        if not isinstance(named, FunctionType) or named.__module__ not in NAMES or row is not None:
            continue
        if named not in callers and _waits(named, (*callers, source)):
            return True
    return False
