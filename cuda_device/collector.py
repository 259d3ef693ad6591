"""Python's garbage collector, which rests while the compiler is imported and runs for the first time.

    with collector.resting():       # the first time only
        import what_lives_for_good

Nearly all that is made then lives as long as the process. The collector would look through it a dozen times, for a twentieth of
a cold start.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

MANY = 100_000
"""It looks for garbage all the same when so many objects are new: other threads may make some."""
_FEW = 1000
"""Objects that CPython 3.12 freezes by itself; who freezes them to share their memory with processes that he forks has more."""
_used = threading.Lock()


@contextlib.contextmanager
def resting() -> Iterator[None]:
    """Lets the collector rest, once in a process, and counts what there is then as looked through.

    Whoever has turned it off, has frozen objects, or says meanwhile how often it is to look, is left alone.
    """
    usual = gc.get_threshold()
    rare = (MANY, *usual[1:])
    if not gc.isenabled() or not 0 < usual[0] < MANY or not _used.acquire(blocking=False):
        yield
        return
    gc.set_threshold(*rare)
    try:
        yield
    finally:
        if gc.get_freeze_count() < _FEW:
            gc.freeze()
            gc.unfreeze()  # to where the old ones are
        if gc.get_threshold() == rare:
            gc.set_threshold(*usual)
