"""Statements that device code has not, made of `misused_calls` and `misused_values` as `breaks` has them, with patterns."""

from __future__ import annotations

import re

from fuzz.misused_calls import CALLS
from fuzz.misused_values import VALUES

FEW, TABLE = "device.local_array(4, device.float32)", "device.local_array((2, 3), device.int32)"


def _pattern(text: str) -> str:
    return "^" + re.escape(text).replace("…", ".*")


MISUSES = tuple(
    (body.replace("<few>", FEW).replace("<table>", TABLE), _pattern(reason), _pattern(remedy))
    for body, reason, remedy in (*CALLS, *VALUES)
)
