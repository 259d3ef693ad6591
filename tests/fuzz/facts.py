"""What the compiler has to find out of integers: an index that is never negative costs no comparison, however it is computed.

x[(w % 5 + len(y) // 2) & 31] = 1           IR for machines without `compare` and `select`
"""

from __future__ import annotations

import random
import re

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.architectures import parse
from cuda_device.ir import text
from cuda_device.types.known import of_type
from cuda_device.types.parse import parse as parse_type
from fuzz.cases import Case, defined

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


class Facts(Case):
    """Some indices."""

    kind = "facts"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        choose = random.Random(f"facts {number}")
        self.on_cpu = choose.random() < 0.5
        self.indices = [*choose.sample(LEAVES, 12)]
        self.indices += [choose.choice(SUMS).format(choose.choice(LEAVES), choose.choice(SMALL)) for _ in range(8)]

    def source(self) -> str:
        lines = [
            f"def k({', '.join(ARGUMENTS)}):",
            "    for i in range(10):",
            *(f"        x[{each}] = {k}" for k, each in enumerate(self.indices)),
        ]
        return "\n".join(lines) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        plain = self._compared(["0"])
        if self._compared(self.indices) == plain:
            return None
        costly = [each for each in self.indices if self._compared([each]) != plain]
        return f"an index that is never negative is compared: {costly}"

    def _compared(self, indices: list[str]) -> int:
        """How many comparisons and selections there are with some of them."""
        lines = [
            f"def k({', '.join(ARGUMENTS)}):",
            "    for i in range(10):",
            *(f"        x[{each}] = 1" for each in indices),
        ]
        function = defined("\n".join(lines) + "\n", "k", {"device": device}, f"<facts {self.number}>")
        known = tuple(of_type(parse_type(each)) for each in ARGUMENTS.values())
        target = compiler.Target(parse("sm_90"), self.on_cpu)
        job = compiler.Job(device.kernel(function).underlying, known, True, target, compiler.Options(checked=False))
        module = compiler.run(job, "device")["device"]
        return sum(len(re.findall(r"= (?:compare|select)\b", text.show(each, []))) for each in module.functions)
