"""Threads that hand over values in shared or global memory, with what orders them and without it.

The race detector reports those without: the threads and the lines.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined
from fuzz.grammar import statements

SIZE = 64
# Each has a line that writes and one that reads, perhaps in a function, and `{order}` between them.
EXCHANGES = statements("""
tile = device.shared_array(64, device.{type})
tile[i] = i  # writes
{order}
x[i] = int(tile[63 - i])  # reads

x[i] = i  # writes
{order}
y[i] = x[(i + {k}) % 64]  # reads

tile = device.shared_array((8, 8), device.{type})
tile[i // 8, i % 8] = i  # writes
{order}
x[i] = int(tile[i % 8, i // 8])  # reads

words = device.dynamic_shared_array().view(device.{type})
words[i] = i  # writes
{order}
x[i] = int(words[i ^ {k}])  # reads

def put(a, v):
    a[i] = v  # writes
put(x, i * 2)
{order}
y[i] = x[63 - i]  # reads

tile = device.shared_array(64, device.{type}x2)
tile[i] = device.{type}x2(i, {k})  # writes
{order}
x[i] = int(tile[63 - i].x)  # reads

if i < 32:
    x[i] = {k}  # writes
{order}
y[i] = x[i % 32]  # reads

for step in range(2):
    x[(i + step) % 64] = step  # writes
    {order}
    y[i] = x[63 - i]  # reads
    device.syncthreads()
""")
ORDERS = (
    "device.syncthreads()",
    "device.syncthreads_count(i > 3)",
    "device.syncthreads_or(lambda: i < 9)",
    "device.syncthreads_and(True)",
)
NO_ORDERS = ("pass", "device.threadfence()", "device.syncwarp(-1)", "y[i] = 0")
TYPES = ("int32", "int64", "float32", "uint16", "float64")


class Racing(Case):
    """Threads of a block of two warps."""

    kind = "racing"
    at_once = 2

    def __init__(self, number: int) -> None:
        super().__init__(number)
        choose = random.Random(f"racing {number}")
        self.ordered = choose.random() < 0.4
        self.body = choose.choice(EXCHANGES).format(
            type=choose.choice(TYPES),
            k=choose.choice((32, 33, 40)),
            order=choose.choice(ORDERS if self.ordered else NO_ORDERS),
        )

    def source(self) -> str:
        lines = "\n".join(f"    {line}" for line in self.body.splitlines())
        return f"def k(x, y):\n    i = device.tid(1)\n{lines}\n"

    def attempt(self, stream: device.Stream) -> str | None:
        file = f"<racing {self.number}>"
        kernel: Any = device.kernel(defined(self.source(), "k", {"device": device}, file))
        x, y = np.zeros((2, SIZE), np.int32)
        try:
            device.launch(kernel, x, y, grid=1, block=SIZE, shared=16 * SIZE, stream=device.cpu_stream(races=True))
        except device.KernelError as error:
            text = str(error)
            if self.ordered:
                return f"it reports {text.splitlines()[0]!r}"
            lines = {int(line) for line in re.findall(rf"{re.escape(file)}:(\d+)", text)}
            source = self.source().splitlines()
            kinds = {source[line - 1].rpartition("# ")[2] for line in lines}
            places = re.findall(r"thread \((\d+), 0, 0\) of block \(0, 0, 0\)", text)
            if not kinds & {"writes", "reads"} or kinds - {"writes", "reads"} or len(set(places)) < 2:
                return f"it reports {text!r}"
            return None
        return None if self.ordered else "no race is reported"
