"""What is only faster: PTX of kernels that were written to profit by it shows what the compiler promises, and only there.

    o[i] = x[i] + y[i]                  ld.global.nc, st.global.L1::no_allocate: nothing is read that the kernel writes
    device.atomic_ref(o, 0).add(…)      red, since nobody wants the number that was there
    v = x[i:i + 4] in a struct          one access of 16 bytes

The same kernels run, on whatever stream there is, and give what NumPy gives.
"""

from __future__ import annotations

import random
import re
from typing import Any
from unittest import mock

import numpy as np

import cuda_device as device
from cuda_device import compiler
from cuda_device.types.architectures import parse
from cuda_device.types.known import of_type, small
from cuda_device.types.parse import parse as parse_type
from fuzz.cases import Case, defined
from fuzz.walked import walk

TARGETS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
NUMBERS = ("int32", "uint32", "float32", "int64", "float64")
COUNT = 40
WALKS = 8
"""Loops in IR that the passes alone are given."""
_DETOUR = re.compile(r"\t@(%p\d+) bra \t(\$\w+);\n\tbra\.uni \t(\$\w+);\n\2:")
_LOADS, _STORES = re.compile(r"\bld\.global\.([\w.:]*)"), re.compile(r"\bst\.global\.([\w.:]*)")


class Optimised(Case):
    """A kernel of three arrays, with a loop, and perhaps with what forbids to optimise it."""

    kind = "optimised"
    everywhere = True

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = choose = random.Random(f"optimised {number}")
        self.type, self.target = choose.choice(NUMBERS), choose.choice(TARGETS)
        self.reads = choose.choice(("", "", "", "o[i]"))
        self.waits = choose.choice(("", "", "", "", "device.threadfence()"))
        self.atomic = choose.choice(("", "", "", "unused", "used"))
        self.order = choose.choice(("relaxed", "release", "acquire", "seq_cst"))
        self.loop = choose.choice(("while", "range", "straight"))
        self.factor, self.shift = choose.randint(2, 5), choose.choice((0, 0, 1, 2))
        self.sign = choose.choice(("+", "-", "*"))

    def source(self) -> str:
        value = f"x[i] * {self.factor} {self.sign} y[i + {self.shift}]" + (f" + {self.reads}" if self.reads else "")
        body = [f"o[i] = {value}"]
        if self.waits:
            body.append(self.waits)
        if self.atomic:
            call = f"device.atomic_ref(c, 0).add(c.dtype(1), {self.order!r}, 'device')"
            body.append(call if self.atomic == "unused" else f"w[i] = {call}")
        lines = ["def k(x, y, o, c, w, n):"]
        if self.loop == "straight":
            lines += ["    i = device.tid(1)", "    if i < n:", *(f"        {each}" for each in body)]
        elif self.loop == "range":
            lines += [
                "    for i in range(device.tid(1), n, device.grid_size(1)):",
                *(f"        {each}" for each in body),
            ]
        else:
            lines += [
                "    i = device.tid(1)",
                "    while i < n:",
                *(f"        {each}" for each in body),
                "        i += device.grid_size(1)",
            ]
        return "\n".join(lines).replace("c.dtype(1)", "int(1)").replace("int(1)", f"device.{self.type}(1)") + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        function = defined(self.source(), "k", {"device": device}, f"<optimised {self.number}>")
        wrong = self._runs(function, stream) or self._shows(function)
        return wrong or next(filter(None, (walk(self.random) for _ in range(WALKS))), None)

    def _runs(self, function: Any, stream: device.Stream) -> str | None:
        choose = random.Random(self.number)
        x, y, o = (np.array([choose.randint(0, 9) for _ in range(COUNT + 4)], self.type) for _ in range(3))
        with np.errstate(all="ignore"):
            left, right = x * np.array(self.factor, self.type), np.roll(y, -self.shift)
            expected = {"+": np.add, "-": np.subtract, "*": np.multiply}[self.sign](left, right)
            expected = expected + o if self.reads else expected
        end = 16 if self.loop == "straight" else COUNT  # there are so many threads
        expected[end:] = o[end:]
        given = [
            device.array(each, stream=stream)
            for each in (x, y, o, np.zeros(1, self.type), np.full(COUNT, 99, self.type))
        ]
        device.launch(device.kernel(function), *given, COUNT, grid=2, block=8, stream=stream)
        device.synchronize(stream)
        found, count, seen = (each.numpy() for each in given[2:])
        if not np.array_equal(found, expected):
            return f"it gives {found}, not {expected}"
        if count[0] != (end if self.atomic else 0):
            return f"it counts {count[0]}"
        if self.atomic == "used" and sorted(seen.tolist()[:end]) != list(range(end)):
            return f"it saw {seen}"
        return None

    def _shows(self, function: Any) -> str | None:
        """What the PTX has of a kernel whose arrays do not overlap."""
        array = of_type(parse_type(f"array<{self.type}, 1, C>"))
        known = (*(small(array) for _ in range(5)), of_type(parse_type("int")))
        options = compiler.Options(launch_facts=True, checked=False)
        job = compiler.Job(
            device.kernel(function).underlying, known, True, compiler.Target(parse(self.target)), options
        )
        with mock.patch.dict("os.environ", {"CUDA_DEVICE_CACHE": "0"}):
            ptx = compiler.run(job, "ptx")["ptx"].text
        loads, stores = _LOADS.findall(ptx), _STORES.findall(ptx)
        others = bool(self.waits or self.atomic)
        quick = [load.startswith("nc.") for load in loads]
        past = [store.startswith("L1::no_allocate.") for store in stores]
        if not loads or not stores:
            return "it reads or writes nothing"
        if others and any(quick):
            return f"what others may write is read by {loads}"
        if not others and not (all(quick) if not self.reads else any(quick) and not all(quick)):
            return f"what it does not write is read by {loads}"
        if all(past) != (not others and not self.reads) or (any(past) and not all(past)):
            return f"it is written by {stores}, and read by {loads}"
        if self.atomic:
            alone = self.atomic == "unused" and self.order in ("relaxed", "release")
            if bool(re.search(r"\bred\.", ptx)) != alone or bool(re.search(r"\batom\.", ptx)) == alone:
                return f"a {self.order} sum, {self.atomic}, is {re.findall(r'(?:red|atom)[.][^;]*', ptx)}"
        if _DETOUR.search(ptx):
            return f"a branch goes around another: {_DETOUR.search(ptx)}"
        return self._wide(ptx)

    def _wide(self, ptx: str) -> str | None:
        """Places of 32 bits are multiplied by sizes at once."""
        wide = dict(re.findall(r"\tcvt\.[us]64\.[us]32 \t(%rd\d+), (%r\d+);", ptx))
        for source in re.findall(r"\tshl\.b64 \t%rd\d+, (%rd\d+), \d+;", ptx):
            if source in wide and len(re.findall(rf"{re.escape(source)}\b", ptx)) == 2:
                return f"{wide[source]} is made wide, and then shifted"
        return None
