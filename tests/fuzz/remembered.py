"""Programs that were compiled before: from the cache on disk comes what the program is now, and only if nothing changed.

Of each of `changed_programs` and `changed_objects` both texts are run in some order, some of them again: each time the results
are those of the text, and what has not changed comes from the cache.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import changed_objects
import changed_programs
import numpy as np
from changed_programs import HEAD, Change

import cuda_device as device
from fuzz.cases import Case, due

CHANGES = (*changed_programs.CHANGES, *changed_objects.CHANGES)
POISON = -7.0


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """There is a cache, with nothing in it, meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"CUDA_DEVICE_CACHE": folder, "CUDA_DEVICE_VERIFY": "0"}
        with mock.patch.dict(os.environ, settings):
            yield


@contextlib.contextmanager
def kernel_of(text: str) -> Iterator[Any]:
    """The kernel of a program's text, as in a new process: all its objects are new."""
    other, _, main = text.rpartition("-----\n")
    module, before = types.ModuleType("other"), sys.modules.get("other")
    sys.modules["other"] = module
    try:
        exec(compile(HEAD + other, "other.py", "exec", dont_inherit=True), module.__dict__)
        names = types.ModuleType("program").__dict__
        exec(compile(HEAD + main, "program.py", "exec", dont_inherit=True), names)
        yield names["k"]
    finally:
        del sys.modules["other"]
        if before is not None:
            sys.modules["other"] = before


class Remembered(Case):
    """One change."""

    kind = "remembered"
    at_once = 5

    def __init__(self, number: int) -> None:
        super().__init__(number)
        choose = random.Random(f"remembered {number}")
        self.change: Change = due(number, CHANGES, 1)[0]
        first, second = choose.sample((False, True), 2)
        self.order = (first, first, second, second, choose.choice((first, second)))

    def source(self) -> str:
        return (
            f"{self.change.text}\n# {self.change.name}: {self.change.old!r} becomes {self.change.new!r}: {self.order}\n"
        )

    def attempt(self, stream: device.Stream) -> str | None:
        with cached():
            before: tuple[bool, ...] = ()
            for is_new in self.order:
                wrong = self._run(is_new, is_new in before)
                if wrong is not None:
                    return f"{self.change.name}, {'new' if is_new else 'old'} after {before}: {wrong}"
                before += (is_new,)
        return None

    def _run(self, is_new: bool, known: bool) -> str | None:
        text = self.change.text.replace(self.change.old, self.change.new) if is_new else self.change.text
        expected, out = self.change.after if is_new else self.change.before, np.full(4, POISON)
        start = device.cache_info()
        with kernel_of(text) as kernel:
            device.launch(kernel, out, grid=1, block=4, stream=device.cpu_stream(target="sm_90"))
        end = device.cache_info()
        if out.tolist() != expected:
            return f"the results are {out.tolist()}, not {expected}"
        if known and end.misses > start.misses:
            return "it is not in the cache"
        return None
