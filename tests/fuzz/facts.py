"""What the compiler has to find out of integers: an index that is never negative costs no comparison, however it is computed.

x[(w % 5 + len(y) // 2) & 31] = 1           IR for machines without `compare` and `select`
for v in [n, 2, w]: …                       as many of them as `for v in (n, 2, w): …` has

What a branch says of an index is for `shown`, and which arrays a kernel changes for `touched`.
"""

from __future__ import annotations

import random
import re

import cuda_device as device
from cuda_device import compiler
from cuda_device.ir import text
from cuda_device.types.architectures import parse
from cuda_device.types.known import of_type
from cuda_device.types.parse import parse as parse_type
from fuzz import shown, touched
from fuzz.cases import Case, defined, due
from fuzz.grammar import statements

ARGUMENTS = {
    "x": "array<float32, 1, C>", "m": "array<float32, 2, C>", "u": "array<uint8, 1, C>", "n": "int", "b": "uint8", "w": "uint32",
    "h": "uint16", "p": "bool", "t": "array<uint16, 1, strided>",
}  # fmt: skip
LEAVES = (
    "len(x)", "len(u)", "m.shape[0]", "m.shape[1]", "x.size", "m.ndim", "b", "h", "w", "u[0]", "t[1]", "int(p)", "3",
    "device.tid(1)", "device.tid(2)[1]", "device.lane_id", "device.grid_size(1)", "device.thread_idx.x",
    "device.block_idx.y", "device.block_dim.z", "device.grid_dim.x", "device.warp_size", "device.popc(n)",
    "device.clz(n)", "device.syncthreads_count(p)", "(n & 7)", "(n & b)", "round(abs(m[0, 0]))", "ord('a')",
    "len((1, 2))", "device.int32(b)", "device.int64(w)", "device.uint16(n)", "int(h)", "i", "len(m)",
    "device.block_dim.x", "t.shape[0]", "m.size",
)  # fmt: skip
SUMS = (
    "({0} // 2)", "({0} % 5)", "({0} >> 1)", "({0} & 31)", "(b // 3 + {1})", "(b * 2 + {1})", "({1} + i)",
    "({1} * 3 + 1)", "({1} ^ 5)", "({1} | 8)", "(h % 100 + {1})", "(i * 4 + {1})", "({1} // 2 + {1} % 3)",
)  # fmt: skip
SMALL = ("b", "h", "i", "u[0]", "t[1]", "int(p)", "(n & 7)", "device.thread_idx.y", "m.ndim", "3")
_WALKS = statements("""
for v in {a}: x[0] = v ~ for j in range(len({a})): x[0] = {a}[j]

for j, v in enumerate({a}): x[j] = v ~ for j in range(len({a})): x[j] = {a}[j]

for j, v in enumerate({a}, 3): x[j] = v ~ for j in range(len({a})): x[j + 3] = {a}[j]

x[0] = sum({a}) ~ for j in range(len({a})): x[0] += {a}[j]

x[0] = sum(v for v in {a}) ~ for j in range(len({a})): x[0] += {a}[j]

for v, y in zip({a}, {b}): x[0] = v + y ~ for j, (v, y) in enumerate(zip({a}, {b})): x[j] = v + y

for v in map(lambda y: y + 1, {a}): x[0] = v ~ for v in {a}: x[0] = v + 1

for v in odd([n, 2, w]): x[0] = v ~ for v in odd((n, 2, w)): x[0] = v

for j, v in enumerate(odd([n, w, 2])): x[j] = v ~ for j, v in enumerate(odd((n, w, 2))): x[j] = v

for v in odd([n, w, 2]): x[0] = v ~ for v in odd((n, w, 2)): x[0] = v

for v in numbered([h, n, w]): x[v] = 1 ~ for v in numbered((h, n, w)): x[v] = 1
""")
_ARRAYS = ("x", "u", "t")
WALKS = tuple(
    dict.fromkeys(row.replace("{a}", a).replace("{b}", b) for row in _WALKS for a in _ARRAYS for b in ("u", "x"))
)
"""Two ways through the same items, of which none knows less than the other."""
GENERATORS = """\
def odd(items):
    for each in items:
        if each == b:
            continue
        yield each

def numbered(items):
    for number, each in enumerate(items):
        if each != b:
            yield number
"""


class Facts(Case):
    """Some indices, and ways through items."""

    kind = "facts"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        choose = random.Random(f"facts {number}")
        self.on_cpu = choose.random() < 0.5
        self.indices = [*choose.sample(LEAVES, 12)]
        self.indices += [choose.choice(SUMS).format(choose.choice(LEAVES), choose.choice(SMALL)) for _ in range(8)]
        self.walks = due(number, WALKS, 5)

    def source(self) -> str:
        lines = [
            f"def k({', '.join(ARGUMENTS)}):",
            "    for i in range(10):",
            *(f"        x[{each}] = {k}" for k, each in enumerate(self.indices)),
            *(f"    {each.partition(' ~ ')[0]}" for each in self.walks),
        ]
        return "\n".join(lines) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        plain = self._compared(["0"])
        if self._compared(self.indices) != plain:
            costly = [each for each in self.indices if self._compared([each]) != plain]
            return f"an index that is never negative is compared: {costly}"
        return (
            next(filter(None, map(self._walked, self.walks)), None)
            or shown.wrong(self.number)
            or touched.wrong(self.number)
        )

    def _walked(self, walk: str) -> str | None:
        one, other = walk.split(" ~ ")
        found, expected = self._costs([one]), self._costs([other])
        return None if found == expected else f"{one!r} compares {found} times, {other!r} {expected} times"

    def _compared(self, indices: list[str]) -> int:
        """How many comparisons and selections there are with some of them."""
        return self._costs(["for i in range(10):", *(f"    x[{each}] = 1" for each in indices)])

    def _costs(self, body: list[str]) -> int:
        """How many there are in a function."""
        lines = [f"def k({', '.join(ARGUMENTS)}):", *(f"    {line}" for line in (*GENERATORS.splitlines(), *body))]
        function = defined("\n".join(lines) + "\n", "k", {"device": device}, f"<facts {self.number}>")
        known = tuple(of_type(parse_type(each)) for each in ARGUMENTS.values())
        target = compiler.Target(parse("sm_90"), self.on_cpu)
        job = compiler.Job(device.kernel(function).underlying, known, True, target, compiler.Options(checked=False))
        module = compiler.run(job, "device")["device"]
        return sum(len(re.findall(r"= (?:compare|select)\b", text.show(each, []))) for each in module.functions)
