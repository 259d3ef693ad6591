"""`vprintf`: what kernels print."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ptx_machine.memory import LOCAL
from ptx_machine.reader import Unsupported

_SPECIFIER = re.compile(rb"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l)?([diouxXeEfFgGaAcsp%])")


def call(results: tuple[str, ...], arguments: tuple[str, ...]) -> Callable[[Any, int], int]:
    """A call with a format and the address of the values."""

    def run(group: Any, pc: int) -> int:
        machine = group.machine
        formats, values = (
            np.ascontiguousarray(group.frame.parameter(name)[group.index][:, :8]).view(np.uint64).reshape(-1)
            for name in arguments
        )
        for thread, at, where in zip(group.threads, formats, values, strict=True):
            machine.print(formatted(machine.arena.text(int(at)), _bytes(machine, int(where), int(thread)), machine))
        for name in results:
            group.frame.parameter(name)[group.index, :4] = 0
        return pc + 1

    return run


def _bytes(machine: Any, address: int, thread: int) -> bytes:
    """What lies at the address of the values, which are in the thread's own memory."""
    if not address:
        return b""
    start = address - LOCAL
    if start < 0:
        return machine.arena.read(address, 256)
    own = machine.local.bytes.of[1][thread * machine.local.each : (thread + 1) * machine.local.each]
    return own[start : start + 4096].tobytes()


def formatted(text: bytes, values: bytes, machine: Any) -> bytes:
    """As C's printf formats; values lie at multiples of their sizes."""
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at = -(-at // size) * size
        at += size
        return values[at - size : at]

    def one(match: re.Match[bytes]) -> bytes:
        flags, width, precision, length, kind = match.groups()
        if kind == b"%":
            return b"%"
        width, precision = (
            str(int.from_bytes(take(4), "little", signed=True)).encode() if part == b"*" else part
            for part in (width, precision)
        )
        raw = take(8 if length in (b"l", b"ll") or kind in b"eEfFgGaAsp" else 4)
        spec = b"%" + flags + (width or b"") + (b"." + precision if precision is not None else b"")
        if kind in b"di":
            return (spec + b"d") % int.from_bytes(raw, "little", signed=True)
        if kind in b"ouxX":
            spec = spec.replace(b"+", b"").replace(b" ", b"")  # signs are for signed numbers
            return (spec + (b"d" if kind == b"u" else kind)) % int.from_bytes(raw, "little")
        if kind in b"eEfFgG":
            return (spec + kind) % float(np.frombuffer(raw, np.float64)[0])
        if kind == b"s":
            return (spec + b"s") % machine.arena.text(int.from_bytes(raw, "little"))
        if kind == b"c":
            return (spec + b"c") % raw[0]
        if kind == b"p":
            return hex(int.from_bytes(raw, "little")).encode()
        raise Unsupported(match[0].decode())

    return _SPECIFIER.sub(one, text)
