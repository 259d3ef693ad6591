"""Work that a thread of its own does while another one is busy without Python's lock.

    task = Aside(write_files)
    task.start()                # at once
    code = assembler.run(ptx)   # the files are written meanwhile
    task.finish()               # waits for it; without `start` it is done here

`threading.Thread.start` waits until the thread runs, and then for Python's lock, which that has: half a millisecond.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable


class Aside:
    """A task that is done once."""

    def __init__(self, task: Callable[[], object]) -> None:
        self._task = task
        self._done: _thread.LockType | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begins it in a thread of its own."""
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._run, (self._done,))
        except RuntimeError:  # there can be no more threads: `finish` does it
            self._done = None

    def finish(self) -> None:
        """Returns when it is done; raises what it raised."""
        if self._done is None:
            self._task()
        else:
            self._done.acquire()
        if self._error is not None:
            raise self._error

    def _run(self, done: _thread.LockType) -> None:
        try:
            self._task()
        except BaseException as error:
            self._error = error
        finally:
            done.release()
