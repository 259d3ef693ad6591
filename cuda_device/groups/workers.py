"""A worker thread for each device of a group, so that a call that blocks on one device does not delay the others.

    workers = Workers(["rank 0 (GPU 0)", "rank 1 (GPU 1)"])
    workers.run([call_0, call_1], "synchronising", timeout=10)

A thread that does not return is abandoned and replaced, so the group stays usable.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from cuda_device.errors import GroupError

Call = Callable[[], object]
Outcomes = dict[int, BaseException | None]
# After one device has failed, the others have this many seconds to end: they may be waiting for it. The second limit applies
# after `stop` was called.
_GRACE = 5.0
_STOPPING = 1.0
# How often a wait checks for an interrupt that is not a signal, such as `_thread.interrupt_main`.
_LOOK = 0.1


class Workers:
    """Threads by rank, started when first needed. `names` are the devices' names in messages."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._threads: dict[int, tuple[threading.Thread, SimpleQueue[Any]]] = {}
        # Kernels wait for each other across devices, so all threads must get the calls of two runs in the same order.
        self.lock = threading.Lock()

    def run(
        self, calls: Sequence[Call], doing: str, timeout: float | None = None, stop: Callable[[], object] | None = None
    ) -> None:
        """Runs one call on each thread and returns when all have ended.

        If one raises, the others get a few more seconds. If a call has not ended then, or after `timeout` seconds, `stop` is
        called and the thread is abandoned. Raises a `GroupError` with the exceptions of the calls and a `TimeoutError` for each
        that has not come back.
        """
        with self.lock:
            self._run(calls, doing, timeout, stop)

    def _run(self, calls: Sequence[Call], doing: str, timeout: float | None, stop: Callable[[], object] | None) -> None:
        ended: Outcomes = {}
        inbox: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()
        late: Collection[int] = ()
        failed = False
        try:
            for rank, call in enumerate(calls):
                self._inbox(rank).put((rank, call, inbox))
            failed = _wait(ended, inbox, len(calls), timeout, failing=True)
            if failed:
                _wait(ended, inbox, len(calls), _GRACE)
        finally:
            late = set(range(len(calls))) - set(ended)
            if late and stop is not None:
                stop()
                _wait(ended, inbox, len(calls), _STOPPING)
            for rank in set(range(len(calls))) - set(ended):
                self._threads.pop(rank)[1].put(None)  # the thread ends when its call returns
        self._raise(ended, late, doing, "another one had failed" if failed else f"{timeout} seconds")

    def _raise(self, ended: Outcomes, late: Collection[int], doing: str, after: str) -> None:
        """Raises the errors, if there are any; `late` are the ranks that have not returned."""
        errors: dict[int, Exception] = {}
        for rank in sorted({*ended, *late}):
            error = ended.get(rank)
            if rank in late:
                errors[rank] = TimeoutError(f"{self._names[rank]} has not returned from {doing} after {after}")
            elif error is not None:
                if not isinstance(error, Exception):
                    raise error
                error.add_note(f"on {self._names[rank]}")
                errors[rank] = error
        if errors:
            shown = ", ".join(self._names[rank] for rank in errors)
            raised = GroupError(f"{doing} failed on {shown}", list(errors.values()))
            raised.ranks = list(errors)
            raise raised

    def _inbox(self, rank: int) -> SimpleQueue[Any]:
        thread, inbox = self._threads.get(rank, (None, None))
        if inbox is None or thread is None or not thread.is_alive():  # after a fork, no thread is
            inbox = SimpleQueue()
            name = f"cuda_device {self._names[rank]}"
            thread = threading.Thread(target=_serve, args=(inbox,), name=name, daemon=True)
            thread.start()
            self._threads[rank] = thread, inbox
        return inbox

    def __del__(self) -> None:
        for _, inbox in self._threads.values():
            inbox.put(None)


def _wait(
    ended: Outcomes, inbox: SimpleQueue[Any], count: int, timeout: float | None, *, failing: bool = False
) -> bool:
    """Waits until `count` calls have ended, the time is over, or with `failing`, one has failed. Returns whether one has."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while len(ended) < count and (left := end - time.monotonic()) > 0:
        with suppress(Empty):
            rank, error = inbox.get(timeout=min(left, _LOOK))
            ended[rank] = error
            if failing and error is not None:
                break
    return any(error is not None for error in ended.values())


def _serve(inbox: SimpleQueue[Any]) -> None:
    """Runs the calls from the inbox until it gets None."""
    while (task := inbox.get()) is not None:
        rank, call, outbox = task
        error = None
        try:
            call()
        except BaseException as raised:
            error = raised
        del task, call  # so that an idle thread keeps no arrays alive
        outbox.put((rank, error))
        del outbox, error
