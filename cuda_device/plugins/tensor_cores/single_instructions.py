"""What entities share that are instructions: those without operands, groups of copies, indices that may be tuples, a help."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import CompileError, ballot_sync, ptx
from cuda_device.extend import Known, constant_of, copies, model, specialised


def nothing(*_: Any) -> None:
    """What instructions do on CPU streams that only order what happens in order there."""


def single(entity: Callable[[], None], text: str, since: Any, on_cpu: Callable[..., Any] = nothing) -> None:
    """Makes an entity without arguments one instruction, in place of which CPU streams call `on_cpu`."""

    def instruction() -> None:
        ptx(text, host=on_cpu)

    specialised(entity, since=since)(lambda: instruction)


def groups(commit: Callable[[], None], wait: Callable[..., None], name: str, kind: str, since: Any) -> None:
    """Makes two entities the instructions of PTX that end a group of copies, and wait for all but the last groups.

    `kind` is what the race detector calls the copies.
    """

    def commit_on_cpu() -> None:
        copies.commit_copies(kind)

    single(commit, f"{name}.commit_group;", since, commit_on_cpu)

    @specialised(wait, since=since)
    def _(pending: Known, read: Known | None = None) -> Callable[..., Any]:
        count = constant_of(pending, "pending")
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            help = f"write {wait.__name__}() to wait for all"
            raise CompileError(f"pending={count!r} is not a number of groups", help=help)
        return _waiter(name, kind, count, read is not None and bool(constant_of(read, "read")))


@functools.cache
def _waiter(name: str, kind: str, pending: int, read: bool) -> Callable[..., Any]:
    def wait(*_: Any) -> None:
        ptx(f"{name}.wait_group{'.read' * read} {pending};", host=on_cpu)

    def on_cpu() -> None:
        copies.await_copies(kind, pending, read)

    return wait


@functools.cache
def whole_warp(name: str) -> Callable[[], None]:
    """Returns the device function by which CPU streams report an instruction that only some lanes of a warp have reached."""

    def check() -> None:
        if ballot_sync(-1, True) != 0xFFFFFFFF:
            raise RuntimeError(
                f"only some lanes of the warp call {name}", "let all 32 lanes call it together, and none return before"
            )

    return check


def as_tuple(items: Any) -> Any:
    """A tuple as itself, and anything else as a tuple of one item."""
    return items if isinstance(items, tuple) else (items,)


def help_for_captured(known: Known, help: str) -> str:
    """The help for an operand that is not in device memory, which differs if the kernel captures a Python object."""
    return "pass it to the kernel as an argument" if isinstance(known.type, model.Static) else help
