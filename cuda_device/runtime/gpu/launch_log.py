"""A log of the launches that a GPU may still be running, for errors that are reported long after their cause.

    launched("saxpy", (4, 1, 1), (256, 1, 1), context, stream)
    ended(context, stream)                  # a stream has been waited for
    describe()                              # "saxpy, a grid of (4, 1, 1) blocks of (256, 1, 1) threads"

A ring buffer keeps the newest launches, and `describe` uses those that no one has waited for since. The buffer is native memory,
because launchers in machine code (`launchers`) also write to it.
"""

from __future__ import annotations

import ctypes
import struct
from _thread import RLock, get_ident
from collections import Counter
from collections.abc import Iterator

Index = tuple[int, int, int]
Queue = tuple[int, int, int]
"""Context, stream, and the thread for the per-thread stream."""

MOST = 256
_MOST_SHOWN = 8
_PER_THREAD_STREAM = 2

RECORD = struct.Struct("=QQQQ6I")
"""A launch: the number of the kernel's name, context, stream, thread, grid and block."""

RING = (ctypes.c_uint64 * (1 + MOST * RECORD.size // 8))()
"""The number of launches, and the newest ones: launch `n` is record `n % 256`."""

_records = memoryview(RING).cast("B")[8:]
_names: list[str] = []
_numbers: dict[str, int] = {}
# The number of launches when a queue, or all queues of a context (no stream), were synchronised.
_ended: dict[tuple[int, int | None, int], int] = {}
_lock = RLock()  # reentrant, because destructors may run at any point


def _queue(context: int, stream: int) -> Queue:
    return context, stream, get_ident() if stream == _PER_THREAD_STREAM else 0


def number_of(kernel: str) -> int:
    """The number of a kernel's name."""
    with _lock:
        number = _numbers.setdefault(kernel, len(_names))
        if number == len(_names):
            _names.append(kernel)
        return number


def launched(kernel: str, grid: Index, block: Index, context: int, stream: int) -> None:
    """Records a launch."""
    number = _numbers.get(kernel)
    if number is None:
        number = number_of(kernel)
    with _lock:
        count = RING[0]
        RECORD.pack_into(_records, count % MOST * RECORD.size, number, *_queue(context, stream), *grid, *block)
        RING[0] = count + 1


def ended(context: int, stream: int | None = None) -> None:
    """Records that the launches of a stream, or of all streams of a context, have ended."""
    with _lock:
        if len(_ended) >= MOST:
            oldest = RING[0] - MOST
            for key in [key for key, count in _ended.items() if count <= oldest]:
                del _ended[key]
        _ended[(context, None, 0) if stream is None else _queue(context, stream)] = RING[0]


def _under_way() -> Iterator[tuple[str, Index, Index]]:
    """The kernel, grid and block of the launches that have not been waited for, the newest first."""
    count = RING[0]
    for number in range(count - 1, max(count - MOST, 0) - 1, -1):
        name, *words = RECORD.unpack_from(_records, number % MOST * RECORD.size)
        context, stream, thread, *sizes = words
        waited = max(_ended.get((context, stream, thread), 0), _ended.get((context, None, 0), 0))
        if number >= waited:
            yield _names[name], (sizes[0], sizes[1], sizes[2]), (sizes[3], sizes[4], sizes[5])


def describe() -> str:
    """Describes the launches that may be running, the newest first; empty if there are none."""
    with _lock:
        counts = Counter(_under_way())
    shown = [
        f"{kernel}, a grid of {grid} blocks of {block} threads" + (f" ({count} times)" if count > 1 else "")
        for (kernel, grid, block), count in counts.items()
    ]
    more = len(shown) - _MOST_SHOWN
    return "; ".join(shown[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
