"""What entities share that are instructions: those without operands, the counts of groups, and indices that may be tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, ptx
from cuda_device.extend import Known, constant_of, specialised


def nothing(*_: Any) -> None:
    """What instructions do on CPU streams that only order what happens in order there."""


def single(entity: Callable[[], None], text: str, since: Any, on_cpu: Callable[..., Any] = nothing) -> None:
    """Makes an entity without arguments one instruction, in place of which CPU streams call `on_cpu`."""

    def instruction() -> None:
        ptx(text, host=on_cpu)

    specialised(entity, since=since)(lambda: instruction)


def groups_of(pending: Known, entity: str) -> int:
    """The number of groups that may be in flight, a constant. Raises `CompileError` for others."""
    count = constant_of(pending, "pending")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise CompileError(f"pending={count!r} is not a number of groups", help=f"write {entity}() to wait for all")
    return count


def as_tuple(items: Any) -> Any:
    """A tuple as itself, and anything else as a tuple of one item."""
    return items if isinstance(items, tuple) else (items,)
