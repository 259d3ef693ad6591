"""What entities share that are instructions: those without operands, those of later architectures, groups of copies, operands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cuda_device import (
    CompileError,
    DeviceOnlyError,
    ballot_sync,
    provides,
    ptx,
    sm90,
    target,
    uint8,
    uint16,
    uint32,
    uint64,
)
from cuda_device.extend import Known, constant_of, copies, model, specialised

UNSIGNED: dict[int, Any] = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
"""The types of the bits of elements, by their sizes in bytes."""


def nothing(*_: Any) -> None:
    """What instructions do on CPU streams that only order what happens in order there."""


@functools.cache
def instruction(text: str, on_cpu: Callable[..., Any], *operands: Any, older: str = "") -> Callable[..., Any]:
    """Returns the device function that executes `text`, or before sm_90 `older`, and on CPU streams calls `on_cpu`.

    `operands` are functions of up to four first arguments, of which the first one may be None for the argument as it is. The
    other arguments are not used. Loops over operands would cost more of the compiler's time than the instructions.
    """
    count = len(operands)
    first, second, third, fourth = (*operands, None, None, None, None)[:4]

    def execute(*x: Any) -> None:
        template = older if older and not target(provides(sm90)) else text
        if count == 0:
            ptx(template, host=on_cpu)
            return
        a = x[0] if first is None else first(x[0])
        if count == 1:
            ptx(template, a, host=on_cpu)
        elif count == 2:
            ptx(template, a, second(x[1]), host=on_cpu)
        elif count == 3:
            ptx(template, a, second(x[1]), third(x[2]), host=on_cpu)
        else:
            ptx(template, a, second(x[1]), third(x[2]), fourth(x[3]), host=on_cpu)

    return execute


def single(entity: Callable[[], None], text: str, since: Any, on_cpu: Callable[..., Any] = nothing) -> None:
    """Makes an entity without arguments one instruction, in place of which CPU streams call `on_cpu`."""

    def execute() -> None:
        ptx(text, host=on_cpu)

    specialised(entity, since=since)(lambda: execute)


@functools.cache
def needing(since: Any, name: str, function: Callable[..., Any], otherwise: str = "") -> Callable[..., Any]:
    """The device function, which is refused below an architecture: a part of an entity that others have, by a name of its own."""

    def _part(*_: Any) -> Any:
        """A part of an entity."""
        raise DeviceOnlyError.of(name)

    _part.__qualname__ = name
    specialised(_part, since=since, otherwise=otherwise)(lambda *_: function)

    def checked(*arguments: Any) -> Any:
        return _part(*arguments)

    return checked


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


def vector(first: int, count: int) -> str:
    """A vector operand of PTX, which consists of the operands from `$first` on."""
    return f"{{{', '.join([f'${first + i}' for i in range(count)])}}}"


def check_integer(known: Known, name: str, bounds: tuple[int, int] | None = None, help: str = "") -> None:
    """Refuses an argument that is no integer, for which there may be help, and a constant outside of the bounds."""
    if not model.is_index(known.type):
        raise CompileError(f"{name} must be an integer, not {known}", help=help or "convert it, as in int(…)")
    if bounds is not None and isinstance(known.value, int) and not bounds[0] <= known.value <= bounds[1]:
        limits = f"from {bounds[0]} to {bounds[1]}"
        raise CompileError(f"{name} must be {limits}, not {known.value}", help=f"give one {limits}")


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
