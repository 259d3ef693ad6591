"""Two compilers, one program: the PTX that LLVM makes and that libNVVM and nvJitLink make of LTO-IR have the same instructions.

    out[3] = device.atomic_ref(x, 1).add(v, "seq_cst", "block")     both: fence.sc.cta, atom.acquire.cta.global.add.u32

Compared are those that neither may leave out or move: atomics, fences, barriers, what warps exchange; of conversions and special
registers, which there are. Libraries for GPUs below sm_100 read another language (`codegen/nvvm/translate_llvm7`).
"""

from __future__ import annotations

import random
import re

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined
from fuzz.machines import has_libnvvm, ptx_of

TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_120", "sm_121")
ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = ("system", "device", "block")
ARRAYS = ("int32", "uint32", "int64", "uint64", "float32", "float64", "complex64", "float16x2", "int32x2")
_KEPT = re.compile(
    r"\b((?:atom|red|fence|membar|bar|barrier|vote|shfl|match|activemask|nanosleep|exit|trap)(?:\.[\w:]+)+"
    r"|(?:ld|st)\.(?:relaxed|acquire|release|volatile)[\w.]*)"
)
_SOMEWHERE = re.compile(
    r"%(?:laneid|lanemask_\w+|c?tid\.[xyz]|nc?taid\.[xyz]|ntid\.[xyz]|dynamic_smem_size)\b|\bcvt\.rn\.(?:satfinite\.)?\w*\.?e\dm\dx2\S*"
)
_PLAIN = (
    "device.syncthreads()", "out[{o}] = device.syncthreads_count(v > {c})", "out[{o}] = int(device.syncthreads_and(v > {c}))",
    "out[{o}] = int(device.syncthreads_or(v > {c}))", "device.syncwarp(-1)", "device.syncwarp(device.WarpMask(15))",
    "out[{o}] = int(device.ballot_sync(-1, v > {c}))", "out[{o}] = int(device.all_sync(-1, v > {c}))",
    "out[{o}] = int(device.any_sync(-1, v > {c}))", "out[{o}] = int(device.eq_sync(-1, v > {c}))",
    "out[{o}] = device.shfl_sync(-1, v, {c})", "out[{o}] = device.shfl_up_sync(-1, v, {c})",
    "out[{o}] = device.shfl_down_sync(-1, v, {c})", "out[{o}] = device.shfl_xor_sync(-1, v, {c})",
    "out[{o}] = device.shfl_sync(-1, f, {c})", "out[{o}] = device.shfl_down_sync(-1, d, {c})",
    "out[{o}] = int(device.match_any_sync(-1, v))", "out[{o}] = int(device.match_any_sync(-1, d))",
    "out[{o}] = device.match_all_sync(-1, v)[1]", "out[{o}] = int(device.activemask())", "out[{o}] = device.lane_id",
    "out[{o}] = int(device.lanemask_lt())", "device.threadfence({order!r}, {scope!r})", "device.threadfence()",
    "device.threadfence(scope={scope!r})", "out[{o}] = device.block_idx.y", "out[{o}] = device.grid_dim.z",
    "out[{o}] = device.block_dim.x + device.thread_idx.z", "out[{o}] = device.tid(1)", "out[{o}] = device.grid_size(2)[1]",
    "out[{o}] = device.float32(device.float8e4m3(f)) + {c}", "out[{o}] = device.float32(device.float8e5m2(f)) + {c}",
    "out[{o}] = len(device.dynamic_shared_array())",
)  # fmt: skip
_STRONG = {"load": ("relaxed", "acquire", "seq_cst"), "store": ("relaxed", "release", "seq_cst")}


class Compilers(Case):
    """Some statements, one after the other, for a target."""

    kind = "both compilers"
    at_once = 2

    def __init__(self, number: int, rows: int = 9) -> None:
        super().__init__(number)
        self.random = choose = random.Random(f"compilers {number}")
        self.target = choose.choice(TARGETS)
        self.types = [choose.choice(ARRAYS), choose.choice(ARRAYS)]
        self.shared = choose.choice(("int32", "uint64", "float32"))
        self.options = {
            "level": choose.randint(0, 3),
            "lineinfo": choose.random() < 0.3,
            "contract": choose.random() < 0.5,
        }
        self.loops = False
        self.rows = [self._row(place) for place in range(rows)]

    def _row(self, place: int) -> str:
        choose = self.random
        if choose.random() < 0.5:
            text = choose.choice(_PLAIN)
            return text.format(
                o=place, c=choose.randint(1, 9), order=choose.choice(ORDERS), scope=choose.choice(SCOPES)
            )
        name = choose.choice(("a", "b", "s"))
        kind = {"a": self.types[0], "b": self.types[1], "s": self.shared}[name]
        update = choose.choice(self._updates(kind))
        self.loops = self.loops or (update in ("max", "min") and "float" in kind)
        order = choose.choice(_STRONG.get(update, ORDERS))
        given = choose.choice(
            (f"{order!r}, {choose.choice(SCOPES)!r}", repr(order), "", f"scope={choose.choice(SCOPES)!r}")
        )
        values = {"load": [], "cas": ["x", "y"]}.get(update, ["x"])
        values = [f"{value}{name}" for value in values]
        call = f"device.atomic_ref({name}, 1).{update}({', '.join([*values, *([given] if given else [])])})"
        return call if update == "store" else f"r{place} = {call}\n    {name}[{2 + place % 2}] = r{place}"

    def _updates(self, kind: str) -> tuple[str, ...]:
        whole = ("add", "sub", "and_", "or_", "xor", "max", "min") if "int" in kind and "x" not in kind else ()
        real = ("add", "max", "min") if kind in ("float32", "float64") else ()
        return ("load", "store", "exch", "cas", *whole, *real)

    def source(self) -> str:
        lines = [
            "def k(a, b, out, v, f, d):",
            f"    s = device.shared_array(4, device.{self.shared})",
            "    s[v % 4] = s[v % 3]",
        ]
        lines += [f"    x{name}, y{name} = {name}[0], {name}[3]" for name in "abs"]
        lines += [
            "    device.syncthreads()",
            *(f"    {row}" for row in self.rows),
            "    device.syncthreads()",
            "    b[2] = b[1]",
        ]
        return "\n".join(lines) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        if not has_libnvvm():
            return None
        function = defined(self.source(), "k", {"device": device}, f"<compilers {self.number}>")
        kernel = device.kernel(**self.options)(function)
        types = [device.ArrayType(getattr(device, each), 1) for each in (*self.types, "float64")]
        given = (*types, np.int32, np.float32, np.float64)
        text = str(device.compile(kernel, *given, target=self.target, output="ptx").code)
        linked = device.compile(kernel, *given, target=self.target, output="ltoir").code
        other = ptx_of(linked, self.target)
        mine, theirs = _shown(text), _shown(other)
        if self.loops:  # which compilers put where they like, and more than once
            mine, theirs = sorted({*mine}), sorted({*theirs})
        if mine != theirs:
            place = next(
                (i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
            )
            a, b = mine[place : place + 3], theirs[place : place + 3]
            return f"for {self.target}, LLVM makes {a}, libNVVM {b}, behind {mine[:place][-2:]}"
        found, there = {*_SOMEWHERE.findall(text)}, {*_SOMEWHERE.findall(other)}
        if found != there:
            return f"for {self.target}, only LLVM makes {found - there}, only libNVVM {there - found}"
        return None


def _shown(text: str) -> list[str]:
    """The instructions in their order, without what the compilers may choose."""
    found: list[str] = []
    for each in _KEPT.findall(text):
        one = re.sub(r"^((?:ld|st).*)\.[busf](\d+)$", r"\1.\2", each).replace("barrier.cta.sync.aligned", "bar.sync")
        one = re.sub(r"fence\.(acquire|release|acq_rel)\.", "fence.acq_rel.", one)
        one = re.sub(r"^barrier\.(cta\.)?(sync|red)\.aligned|^barrier\.(cta\.)?(sync|red)", "bar.x", one)
        one = re.sub(r"^bar\.(sync|red)", "bar.x", one)
        if not (one.startswith("fence") and found[-1:] == [one]):
            found.append(one)
    return found
