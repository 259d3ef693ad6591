"""A thread for each device of a group: a call that blocks on one device does not delay the others.

    workers = Workers(["rank 0 (GPU 0)", "rank 1 (GPU 1)"])
    workers.run([call_0, call_1], "synchronising", timeout=10)

A thread that does not come back is abandoned and replaced, so the group stays usable.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from cuda_device.errors import GroupError

if TYPE_CHECKING:
    from concurrent.futures import Future

Call = Callable[[], object]
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
        # Kernels wait for each other across devices: the calls of two runs must come in the same order everywhere.
        self._lock = threading.Lock()

    def run(
        self, calls: Sequence[Call], doing: str, timeout: float | None = None, stop: Callable[[], object] | None = None
    ) -> None:
        """Runs one call on each thread and returns when all have ended.

        If one raises, the others get a few more seconds. If a call has not ended then, or after `timeout` seconds, `stop` is
        called and the thread is abandoned. Raises a `GroupError` with the exceptions of the calls and a `TimeoutError` for each
        that has not come back.
        """
        with self._lock:
            self._run(calls, doing, timeout, stop)

    def _run(self, calls: Sequence[Call], doing: str, timeout: float | None, stop: Callable[[], object] | None) -> None:
        from concurrent.futures import Future

        futures = [Future[object]() for _ in calls]
        try:
            for rank, (future, call) in enumerate(zip(futures, calls, strict=True)):
                self._inbox(rank).put((future, call))
            _wait(futures, timeout, failing=True)
            failed = any(future.done() and future.exception() for future in futures)
            if failed:
                _wait(futures, _GRACE)
        finally:
            late = {rank for rank, future in enumerate(futures) if not future.done()}
            if late and stop is not None:
                stop()
                _wait(futures, _STOPPING)
            for rank, future in enumerate(futures):
                if not future.done():
                    self._threads.pop(rank)[1].put(None)  # it ends when it comes back
        self._raise(futures, late, doing, "another one had failed" if failed else f"{timeout} seconds")

    def _raise(self, futures: Sequence[Future[object]], late: Collection[int], doing: str, after: str) -> None:
        """Raises what went wrong, if anything did; `late` are the ranks that have not come back."""
        errors: dict[int, Exception] = {}
        for rank, future in enumerate(futures):
            if rank in late:
                errors[rank] = TimeoutError(f"{self._names[rank]} has not returned from {doing} after {after}")
            elif error := future.exception():
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
        if inbox is None or thread is None or not thread.is_alive():  # after a fork, none is
            inbox = SimpleQueue()
            name = f"cuda_device {self._names[rank]}"
            thread = threading.Thread(target=_serve, args=(inbox,), name=name, daemon=True)
            thread.start()
            self._threads[rank] = thread, inbox
        return inbox

    def __del__(self) -> None:
        for _, inbox in self._threads.values():
            inbox.put(None)


def _wait(futures: Sequence[Future[object]], timeout: float | None, *, failing: bool = False) -> None:
    """Waits until all have ended, or the time is over; with `failing`, or one has failed."""
    from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, wait

    end = math.inf if timeout is None else time.monotonic() + timeout
    while (left := end - time.monotonic()) > 0:
        found = wait(futures, min(left, _LOOK), FIRST_EXCEPTION if failing else ALL_COMPLETED)
        if not found.not_done or (failing and any(future.exception() for future in found.done)):
            break


def _serve(inbox: SimpleQueue[Any]) -> None:
    """Makes the calls that come, until there is none any more."""
    while (task := inbox.get()) is not None:
        future, call = task
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
        del task, future, call  # an idle thread keeps no arrays alive
