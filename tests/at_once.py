"""Threads of the host that tests start.

at_once(partial(work, number) for number in range(8))       # each in a thread of its own, and all begin together
restless(…, "cuda_device", seed=1)                          # they disturb each other wherever they can
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any


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


def restless(calls: Iterable[Callable[[], object]], package: str, seed: int, share: float = 0.05) -> None:
    """`at_once`, but that each thread lets the others run at many places in the middle of the lines of a package.

    Where there is a global lock, threads change places seldom, and at a few kinds of instructions only. Here they do at any, as
    where there is none. Which places these are is decided anew for each `seed`; `share` says how many of all.
    """
    folder = os.path.dirname(importlib.import_module(package).__file__) + os.sep

    def run(call: Callable[[], object], chance: random.Random) -> None:
        def step(frame: FrameType, event: str, argument: object) -> Any:
            if event == "opcode" and chance.random() < share:
                time.sleep(0)
            return step

        def enter(frame: FrameType, event: str, argument: object) -> Any:
            if not frame.f_code.co_filename.startswith(folder):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return step

        sys.settrace(enter)
        try:
            call()
        finally:
            sys.settrace(None)

    at_once([partial(run, call, random.Random(f"{seed} {number}")) for number, call in enumerate(calls)])
