"""What the package says goes to the logger "cuda_device".

    logs.say(logs.WARNING, "%s has been compiled %d times", kernel, 16)

Python's `logging` takes 2 ms to import, and is imported when there is something to say. What is less than a warning nobody hears
in a program that has not imported it.
"""

from __future__ import annotations

import sys

DEBUG, INFO, WARNING = 10, 20, 30


def say(level: int, message: str, *values: object, error: BaseException | None = None) -> None:
    """Logs a message; the traceback of `error` stands below it."""
    if level < WARNING and "logging" not in sys.modules:
        return
    import logging

    logging.getLogger("cuda_device").log(level, message, *values, exc_info=error)
