"""Messages to the logger "cuda_device", and the line that shows the progress of a long compilation in a terminal.

    logs.say(logs.WARNING, "%s has been compiled %d times", kernel, 16)
    with logs.Progress(lambda: "compiling saxpy"):
        ...code that may take long...

Python's `logging` takes 2 ms to import, so it is imported when there is something to log. Messages below WARNING are dropped
unless the program has imported `logging`.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

DEBUG, INFO, WARNING = 10, 20, 30


def say(level: int, message: str, *values: object, error: BaseException | None = None) -> None:
    """Logs a message, followed by the traceback of `error`."""
    if level < WARNING and "logging" not in sys.modules:
        return
    import logging

    logging.getLogger("cuda_device").log(level, message, *values, exc_info=error)


PATIENCE = 1.0
"""The seconds after which progress is shown."""
_INTERVAL = 0.2
_MOST_COLUMNS = 79


class Progress:
    """Shows in the last line of a terminal what is running and for how long, if it takes longer than a second.

    The line is erased at the end. Nothing is shown within another `Progress`, or if stderr is not a terminal.
    """

    _busy = allocate_lock()

    def __init__(self, description: Callable[[], str]) -> None:
        self._what = description
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        stderr = sys.stderr
        if not (stderr and stderr.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
            return
        if self._busy.acquire(blocking=False):
            import threading  # which takes longer to import than the launcher

            self._ended = threading.Event()
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._busy.release()

    def _show(self) -> None:
        start, wait = time.monotonic(), PATIENCE
        while not self._ended.wait(wait):
            wait = _INTERVAL
            line = f"cuda_device: {self._what()}, {time.monotonic() - start:.0f} s"
            self._replace(line[:_MOST_COLUMNS])
        if wait == _INTERVAL:
            self._replace("")

    def _replace(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
