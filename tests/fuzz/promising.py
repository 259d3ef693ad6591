"""Programs that are full of integers, whose machine code checks what was promised to LLVM (`promises`, `said`).

    x[(w % 5 + len(u) // 2) % len(x)] += n >> (b & 7)       with the least and the largest numbers of each type

On the CPU they run; of what is made for a GPU, the text is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

import cuda_device as device
from cuda_device.codegen.emit import to_llvm
from fuzz import facts
from fuzz.cases import Case, defined
from fuzz.lanes import Lanes
from fuzz.promises import Notes
from fuzz.proved import borders

SIZE = 24
"""The elements of an array."""
NUMBERS = {
    "n": np.int32, "b": np.uint8, "w": np.uint32, "h": np.uint16, "q": np.int64, "z": np.uint64, "a": np.int8,
}  # fmt: skip
OPERATORS = ("+", "-", "*", "//", "%", "&", "|", "^", ">>", "<<")
# `{e}` is an index that may be anything, `{s}` a number, `{k}` a number of its own.
STATEMENTS = (
    "x[{e} % len(x)] = {s}",
    "x[{e} % len(x)] += {s}",
    "m[{e} % m.shape[0], {e} % m.shape[1]] = {s}",
    "t[{e} % len(t)] = device.uint16({s})",
    "for j{k} in range({e} % 5):\n        x[(j{k} + {e} % 3) % len(x)] += {s}",
    "for j{k} in range(n % 7, b % 9, 2):\n        x[abs(j{k}) % len(x)] += j{k} * {s}",
    "for j{k} in range(len(x) - 1, {e} % 4, -3):\n        x[j{k}] -= {s}",
    "for j{k}, v{k} in enumerate(u):\n        x[j{k} % len(x)] += v{k} // 3",
    "for j{k} in range(len(t)):\n        for i{k} in range(j{k}):\n            x[j{k} - i{k} - 1] += t[i{k}] >> 2",
    "while n > 100:\n        n = n // 2 - 1",
    "s{k} = x[{e} % 5 : len(x) - {e} % 3 : 2]\n    s{k}[len(s{k}) // 2] = {s}\n    s{k}[-1] = 2",
    "s{k} = m[{e} % m.shape[0]]\n    s{k}[len(s{k}) - 1] += {s}",
    "s{k} = m[:, {e} % m.shape[1]]\n    s{k}[0] = len(s{k}) * {s}",
    "s{k} = x[::-1]\n    s{k}[{e} % len(s{k})] = {s}",
    "s{k} = x.reshape(4, 6)\n    s{k}[{e} % 4, {e} % 6] = {s}",
    "s{k} = device.local_array(5, device.{t})\n    s{k}[{e} % 5] = 1\n    x[{e} % len(x)] += s{k}[{e} % 5] * 0",
    "s{k} = device.shared_array((3, 4), device.{t})\n    s{k}[{e} % 3, {e} % 4] = 1\n    device.syncthreads()",
    "x[{e} % len(x)] = device.int32(n) // device.{i}(b) + device.{i}(w) % (a or 3)",
    "x[{e} % len(x)] = n // b + q % h - a // n",
    "x[{e} % len(x)] = (n << (b & 7)) + (w >> (h & 15)) - (q >> (b % 40))",
    "x[{e} % len(x)] = device.clz(n) + device.popc(z) * device.ffs(w) - device.brev(b)",
    "device.atomic_ref(x, {e} % len(x)).add(1)",
    "x[{e} % len(x)] = device.shfl_down_sync(-1, w, {e} % 32)",
    "if {e} < len(x):\n        x[{e} % len(x)] = min({s}, n, 5)",
    "t{k} = ({s}, {e}, 4)\n    x[t{k}[{e} % 3] % len(x)] = max(t{k}[0], 1)",
)


@contextlib.contextmanager
def checking() -> Iterator[Notes]:
    """Modules for the CPU check themselves meanwhile."""
    notes, run = Notes(), to_llvm.run

    def checked(module: Any, dialect: Any, *more: Any) -> Any:
        made = run(module, dialect, *more)
        return dataclasses.replace(made, text=notes.checking(made.text))

    with mock.patch.object(to_llvm, "run", checked):
        yield notes


class Promising(Case):
    """Some statements, or a kernel of `lanes`."""

    kind = "promises"

    def __init__(self, number: int, rows: int = 9) -> None:
        super().__init__(number)
        self.random = choose = random.Random(f"promises {number}")
        self.lanes = Lanes(number) if choose.random() < 0.2 else None
        self.options = {"level": choose.choice((0, 1, 3)), "checked": choose.random() < 0.2}
        self.block = choose.choice(((32, 1, 1), (8, 2, 2), (32, 2, 1)))
        self.rows = [self._row(place) for place in range(rows)]
        self.values = [_extreme(choose, type) for type in NUMBERS.values()]

    def _row(self, place: int) -> str:
        choose = self.random
        text = choose.choice(STATEMENTS).replace("{k}", str(place))
        while "{" in text:
            text = text.replace("{e}", self._index(), 1).replace("{s}", self._number(), 1)
            text = text.replace("{t}", choose.choice(("int32", "float32", "uint8", "float64", "int64")), 1)
            text = text.replace("{i}", choose.choice(("int16", "int32", "int64", "uint32")), 1)
        return text

    def _index(self) -> str:
        choose = self.random
        leaves = [each for each in facts.LEAVES if each != "i"]
        leaf = choose.choice(leaves)
        if choose.random() < 0.5:
            return leaf
        small = choose.choice([each for each in facts.SMALL if each != "i"])
        return choose.choice([each for each in facts.SUMS if "i *" not in each and "+ i)" not in each]).format(
            leaf, small
        )

    def _number(self) -> str:
        choose = self.random
        left, right = choose.choice([*NUMBERS, "u[0]", "t[1]"]), choose.choice([*NUMBERS, "3", "len(x)"])
        sign = choose.choice(OPERATORS)
        if "z" in (left, right):
            left, right = left if left in "zwhb" else "z", right if right in "zwhb" else "z"
        text = f"({left} {sign} {f'({right} & 7)' if sign in ('>>', '<<') else right})"
        return f"device.int64{text}" if "z" in text else text

    def source(self) -> str:
        if self.lanes:
            return self.lanes.source()
        lines = [f"def k(x, m, u, t, p, {', '.join(NUMBERS)}):", *(f"    {row}" for row in self.rows)]
        return "\n".join(lines) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        with checking() as notes:
            wrong = self.lanes.attempt(stream) if self.lanes else self._run(stream)
            wrong = wrong or borders(self.number, stream)
        return wrong or (f"a promise is broken: {notes.broken}" if notes.broken else None)

    def _run(self, stream: device.Stream) -> None:
        function = defined(self.source(), "k", {"device": device}, f"<promises {self.number}>")
        kernel = device.kernel(**self.options)(function)
        x, m = np.zeros(SIZE, np.int32), np.zeros((3, 4), np.float32)
        u = np.array([_extreme(self.random, np.uint8) for _ in range(5)])
        t = np.array([_extreme(self.random, np.uint16) for _ in range(12)])[::2]
        values = [type(value) for type, value in zip(NUMBERS.values(), self.values, strict=True)]
        with contextlib.suppress(device.KernelError):  # where it is checked: a division by zero
            device.launch(kernel, x, m, u, t, True, *values, grid=(2, 1, 2), block=self.block, stream=stream)
            device.synchronize(stream)


def _extreme(choose: random.Random, type: Any) -> Any:
    """The least, the largest, a small number, or any."""
    info = np.iinfo(type)
    few = (info.min, info.max, info.max - 1, 0, 1, 2, 3, choose.randint(int(info.min), int(info.max)))
    return type(choose.choice(few))
