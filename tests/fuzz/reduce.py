"""Makes a program that fails small: leaves out statements and parts of expressions as long as it still fails in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from fuzz.cases import Case
from fuzz.programs import Open, Program
from fuzz.run import Mismatch, check, tried


def reduce(failed: Mismatch, given: dict[str, list[Any]], streams: Any, seconds: float = 60) -> Mismatch:
    """The smallest failure that is found in some time."""
    end = time.monotonic() + seconds
    kind = kind_of(failed)

    def fails(program: Program | Case) -> Mismatch | None:
        if isinstance(program, Case):
            return next((each for each in tried(program, streams) if kind_of(each) == kind), None)
        if not program.is_consistent():
            return None
        try:
            program.expected()
        except (Open, LookupError, TypeError, ValueError, OverflowError, AttributeError, AssertionError):
            return None
        return next((each for each in check([program], given, streams) if kind_of(each) == kind), None)

    return smallest(failed, fails, end)


def smallest(failed: Mismatch, fails: Callable[[Any], Mismatch | None], end: float) -> Mismatch:
    """Goes from failure to smaller failure until none is left, or the time is over."""
    going = True
    while going:
        going = False
        for less in failed.program.smaller():
            if time.monotonic() > end:
                return failed
            found = fails(less)
            if found is not None:
                failed, going = found, True
                break
    return failed


def kind_of(mismatch: Mismatch) -> str:
    """A wrong value, or the name of an error."""
    error = re.search(r"\w+(Error|Bug)(?=:)", mismatch.where)
    return error[0] if error and mismatch.slot < 0 else "value"
