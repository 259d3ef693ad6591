"""Which launches a GPU may still be running: what an error names that broke the GPU's context, long after its cause.

    launched("saxpy", (4, 1, 1), (256, 1, 1), context, stream)
    ended(context, stream)                  # a stream has been waited for
    describe()                              # "saxpy, a grid of (4, 1, 1) blocks of (256, 1, 1) threads"

The newest launches are kept, and of those only the ones that nobody has waited for since. To note one takes 0.1 µs.
"""

from __future__ import annotations

import threading
from collections import Counter, deque

Index = tuple[int, int, int]

_MOST = 256
_MOST_SHOWN = 8
_PER_THREAD_STREAM = 2

# Kernel, grid, block, and the queue it is in: context, stream, and the thread, where each has a stream of its own.
_Launch = tuple[str, Index, Index, tuple[int, int, int]]
_launches: deque[_Launch] = deque(maxlen=_MOST)


def _queue(context: int, stream: int) -> tuple[int, int, int]:
    return context, stream, threading.get_ident() if stream == _PER_THREAD_STREAM else 0


def launched(kernel: str, grid: Index, block: Index, context: int, stream: int) -> None:
    """Notes a launch."""
    _launches.append((kernel, grid, block, _queue(context, stream)))


def ended(context: int, stream: int | None = None) -> None:
    """Notes that the launches of a stream, or of all streams of a context, have ended."""
    queue = None if stream is None else _queue(context, stream)
    for launch in list(_launches):
        if launch[3] == queue or (queue is None and launch[3][0] == context):
            try:
                _launches.remove(launch)
            except ValueError:  # another thread was faster
                continue


def describe() -> str:
    """The launches that may be running, the newest first, equal ones counted; empty if there are none."""
    counts = Counter(launch[:3] for launch in reversed(list(_launches)))
    shown = [
        f"{kernel}, a grid of {grid} blocks of {block} threads" + (f" ({count} times)" if count > 1 else "")
        for (kernel, grid, block), count in counts.items()
    ]
    more = len(shown) - _MOST_SHOWN
    return "; ".join(shown[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def forget() -> None:
    """Forgets all launches."""
    _launches.clear()
