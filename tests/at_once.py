"""Threads of the host that tests start.

at_once(partial(work, number) for number in range(8))       # each in a thread of its own, and all begin together
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable


def at_once(calls: Iterable[Callable[[], object]]) -> None:
    """Makes each call in a thread of its own. What the first of them raises is raised when all have ended."""
    calls, failures = list(calls), []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        try:
            start.wait()
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
