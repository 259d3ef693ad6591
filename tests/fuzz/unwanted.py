"""What the tests expect to be refused or to fail, called from elsewhere, for other targets: with the same words."""

from __future__ import annotations

import copy
import linecache
import random
import re
from pathlib import Path
from typing import Any

import cuda_device as device
from cuda_device.device.functions import Func
from cuda_device.errors import NOWHERE
from fuzz.cases import Case, defined, due
from fuzz.collected import failing, refused
from fuzz.grammar import statements

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
# `f` is the function that is refused.
CALLERS = statements("""
return f({a})

for w in range(3):
    f({a})

def inner(*b):
    return f(*b)
return inner({a})

return (lambda *b: f(*b))({a})

while True:
    if device.tid(1) > 3:
        f({a})
    else:
        break

t = (1, f({a}))
return t[0]
""")


class RefusedThere(Case):
    """A function or kernel that device code cannot be."""

    kind = "refused there"
    at_once = 60

    def __init__(self, number: int) -> None:
        super().__init__(number)
        choose = random.Random(f"refused there {number}")
        (self.row,) = due(number, refused(), 1)
        self.caller = choose.choice(("", "", *CALLERS)) if _can_be_called(self.row.function) else ""
        self.target = self.row.options.get("target") or choose.choice(TARGETS)

    def source(self) -> str:
        a = ", ".join(f"a{k}" for k in range(len(self.row.arguments)))
        lines = [f"    {line}" for line in self.caller.format(a=a).splitlines()]
        return "\n".join([f"def outer({a}):", *lines, f"# f is {self.row.name}", ""])

    def attempt(self, stream: device.Stream) -> str | None:
        row, function = self.row, self.row.function
        if self.caller:
            names = {"f": function, "device": device}
            function = device.func(defined(self.source(), "outer", names, f"<refused there {self.number}>"))
        try:
            if "grid" in row.options:
                device.launch(function, *row.arguments, **{"stream": device.cpu_stream(), **row.options})
            else:
                usual = {} if "output" in row.options else {"target": self.target, "output": "llvm"}
                device.compile(function, *row.arguments, **(usual | row.options))
        except device.CompileError as error:
            return _wrong(error, row.match)
        return f"{row.name} is not refused"


def _can_be_called(function: Any) -> bool:
    return isinstance(function, Func) and not function.options.interop


def _wrong(error: device.CompileError, match: str) -> str | None:
    if not re.search(match, str(error)):
        return f"it is refused with {error.reason!r}, not {match!r}"
    if not error.help:
        return f"there is no help with {error.reason!r}"
    place = error.location
    if place is NOWHERE:  # said of the whole
        return None
    is_blank = Path(place.file).exists() and not linecache.getline(place.file, place.line).strip()
    if place.line < 1 or is_blank:
        return f"{error.reason!r} is said of {place}, where nothing stands"
    return None


class FailingThere(Case):
    """A kernel that ends with an error."""

    kind = "failing there"
    at_once = 8

    def __init__(self, number: int) -> None:
        super().__init__(number)
        (self.row,) = due(number, failing(), 1)

    def source(self) -> str:
        return f"# the kernel of {self.row.name}\n"

    def attempt(self, stream: device.Stream) -> str | None:
        row = self.row
        try:
            device.launch(row.function, *copy.deepcopy(row.arguments), **{"stream": stream, **row.options})
        except device.KernelError as error:
            found = re.search(row.match, str(error))
            return None if found else f"it reports {str(error).splitlines()[0]!r}, not {row.match!r}"
        return f"{row.name} reports nothing"
