"""Programs that were compiled before: from the cache on disk comes what the program is now, and only if nothing changed.

Of each of `changed_programs` and `changed_objects` both texts are run in some order, some of them again: each time the results
are those of the text, and what has not changed comes from the cache. A kernel that stays, whose code, names and variables become
those of the other text, gives its results, too; what has not changed is not compiled again, and names that change at each
launch are warned of, once.
"""

from __future__ import annotations

import contextlib
import logging
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
MANY = 16
"""So many changes of names are warned of."""


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


def results(kernel: Any) -> list[float]:
    """What a kernel writes."""
    out = np.full(4, POISON)
    device.launch(kernel, out, grid=1, block=4, stream=device.cpu_stream(target="sm_90"))
    return [float(each) for each in out]


def exchange(kernel: Any, other: Any) -> None:
    """Gives a kernel what the other one is made of."""
    mine, new = kernel.underlying, other.underlying
    names = dict(new.__globals__)
    mine.__globals__.clear()
    mine.__globals__.update(names)
    if mine.__code__ != new.__code__:
        mine.__code__ = new.__code__
    mine.__defaults__, mine.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    for old, cell in zip(mine.__closure__ or (), new.__closure__ or (), strict=True):
        old.cell_contents = cell.cell_contents


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
            wrong = self._exchanged() or (self._warned() if self.number % 8 == 0 else None)
        return wrong and f"{self.change.name}, in one process: {wrong}"

    def _exchanged(self) -> str | None:
        """One kernel stays while its world changes."""
        first = self.order[0]
        with kernel_of(self._text(first)) as kernel:
            if wrong := self._stays(kernel, first):
                return wrong
            with kernel_of(self._text(not first)) as other:
                exchange(kernel, other)
                return self._stays(kernel, not first)

    def _stays(self, kernel: Any, is_new: bool) -> str | None:
        """Twice its results; the second time it is not even looked up."""
        for again in (False, True):
            start = device.cache_info()
            found = results(kernel)
            if found != self._expected(is_new):
                return f"the results are {found}, not {self._expected(is_new)}"
            if again and device.cache_info() != start:
                return "it is compiled again"
        return None

    def _warned(self) -> str | None:
        """A name stands for something else at each launch."""
        said: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger("cuda_device")
        logger.addHandler(handler)
        try:
            with kernel_of(changed_programs.world("N = 0", "i + N")) as kernel:
                for turn in range(MANY + 3):
                    kernel.underlying.__globals__["N"] = turn
                    if results(kernel) != [turn, turn + 1, turn + 2, turn + 3]:
                        return f"N is {turn}, and the results are {results(kernel)}"
                    if len(said) != (turn >= MANY):
                        return f"after {turn} changes it has said {said}"
        finally:
            logger.removeHandler(handler)
        words = (
            f"has been compiled {MANY} times because names that it reads stand for something else at each launch (N)"
        )
        return None if words in said[0] else f"it says {said}"

    def _text(self, is_new: bool) -> str:
        return self.change.text.replace(self.change.old, self.change.new) if is_new else self.change.text

    def _expected(self, is_new: bool) -> list[float]:
        return self.change.after if is_new else self.change.before

    def _run(self, is_new: bool, known: bool) -> str | None:
        expected = self._expected(is_new)
        start = device.cache_info()
        with kernel_of(self._text(is_new)) as kernel:
            found = results(kernel)
        end = device.cache_info()
        if found != expected:
            return f"the results are {found}, not {expected}"
        if known and end.misses > start.misses:
            return "it is not in the cache"
        return None
