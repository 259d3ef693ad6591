"""Instructions that programs must come to: what the memory model, warps and barriers ask for is in the PTX, in its order.

    device.atomic_ref(x, 1).add(v, "seq_cst", "block")      fence.sc.cta, atom.acquire.cta.global.add.u32

The tables are those of 'PTX ISA': its mapping from the memory model of C++, and its names.
"""

from __future__ import annotations

import math
import random
import re

import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_120")
VERSIONS = {target: "8.8" for target in TARGETS} | {"sm_110": "9.0"}
SCOPES = {"system": "sys", "device": "gpu", "block": "cta"}
ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
LOADS, STORES = ("relaxed", "consume", "acquire", "seq_cst"), ("relaxed", "release", "seq_cst")
INTEGERS = ("int32", "uint32", "int64", "uint64")
UPDATES = {
    "exch": "exch.b",
    "cas": "cas.b",
    "and_": "and.b",
    "or_": "or.b",
    "xor": "xor.b",
    "add": "add.",
    "sub": "add.",
}
UPDATES |= {"max": "max.", "min": "min."}
OTHERS = {
    "device.syncthreads()": r"(bar\.sync|barrier\.sync(\.aligned)?|barrier\.cta\.sync(\.aligned)?)",
    "out[0] = device.syncthreads_count(v > 2)": r"(bar|barrier(\.cta)?)\.red\.popc(\.aligned)?\.u32",
    "out[0] = device.syncthreads_and(v > 2)": r"(bar|barrier(\.cta)?)\.red\.and(\.aligned)?\.pred",
    "out[0] = device.syncthreads_or(v > 2)": r"(bar|barrier(\.cta)?)\.red\.or(\.aligned)?\.pred",
    "device.syncwarp(-1)": r"bar\.warp\.sync",
    "out[0] = device.shfl_sync(-1, v, 3)": r"shfl\.sync\.idx\.b32",
    "out[0] = device.shfl_up_sync(-1, v, 3)": r"shfl\.sync\.up\.b32",
    "out[0] = device.shfl_down_sync(-1, v, 3)": r"shfl\.sync\.down\.b32",
    "out[0] = device.shfl_xor_sync(-1, v, 3)": r"shfl\.sync\.bfly\.b32",
    "out[0] = int(device.ballot_sync(-1, v > 1))": r"vote\.sync\.ballot\.b32",
    "out[0] = device.all_sync(-1, v > 1)": r"vote\.sync\.all\.pred",
    "out[0] = device.any_sync(-1, v > 1)": r"vote\.sync\.any\.pred",
    "out[0] = device.eq_sync(-1, v > 1)": r"vote\.sync\.uni\.pred",
    "out[0] = int(device.activemask())": r"activemask\.b32",
    "out[0] = int(device.match_any_sync(-1, v))": r"match\.any\.sync\.b(32|64)",
    "out[0] = device.match_all_sync(-1, v)[1]": r"match\.all\.sync\.b(32|64)",
    "out[0] = device.lane_id": r"mov\.u32\s+%r\d+, %laneid",
    "out[0] = int(device.lanemask_lt())": r"mov\.u32\s+%r\d+, %lanemask_lt",
    "out[0] = device.popc(v)": r"popc\.b(32|64)",
    "out[0] = device.clz(v)": r"(clz|bfind\.shiftamt)\.[bu](32|64)",
    "out[0] = device.brev(v)": r"brev\.b(32|64)",
    "out[0] = device.fma(f, f, f)": r"fma\.rn\.f32",
    "out[0] = math.sqrt(f)": r"sqrt\.rn\.f32",
    "out[0] = f / v": r"div\.rn\.f32",
    **{f"out[0] = device.thread_idx.{axis}": rf"mov\.u32\s+%r\d+, %tid\.{axis}" for axis in "xyz"},
    **{f"out[0] = device.block_idx.{axis}": rf"mov\.u32\s+%r\d+, %ctaid\.{axis}" for axis in "xyz"},
    **{f"out[0] = device.block_dim.{axis}": rf"mov\.u32\s+%r\d+, %ntid\.{axis}" for axis in "xyz"},
    **{f"out[0] = device.grid_dim.{axis}": rf"mov\.u32\s+%r\d+, %nctaid\.{axis}" for axis in "xyz"},
}  # fmt: skip
"""Statements, and the instruction that each of them is."""
FUNCTIONS = ("sin", "cos", "tan", "lgamma", "gamma", "exp", "log", "erf", "sinh", "fabs")
"""Those of libdevice's are nobody else's; some bring functions of their own."""
_FENCES = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")


class Ordered(Case):
    """A kernel with some such statements, one after the other."""

    kind = "instructions"
    at_once = 2

    def __init__(self, number: int, rows: int = 6) -> None:
        super().__init__(number)
        self.random = choose = random.Random(f"ordered {number}")
        self.type, self.space = choose.choice(INTEGERS), choose.choice(("global", "shared"))
        self.target = choose.choice(TARGETS)
        self.function = choose.choice(FUNCTIONS)
        made = [self._row() for _ in range(rows)]
        self.rows = [(text.replace("out[0]", f"out[{3 + k}]"), patterns) for k, (text, patterns) in enumerate(made)]

    def _row(self) -> tuple[str, list[str]]:
        """A statement, and patterns of its instructions."""
        choose = self.random
        match choose.randrange(5):
            case 4:
                return self._wide()
            case 0:
                return choose.choice([(text, [pattern]) for text, pattern in OTHERS.items()])
            case 1:
                order, scope = choose.choice(_FENCES), choose.choice([*SCOPES])
                word = "sc" if order == "seq_cst" else "(sc|acq_rel|acquire|release)" if order != "relaxed" else None
                wanted = [] if word is None else [rf"fence\.{word}\.{SCOPES[scope]}"]
                return f"device.threadfence({order!r}, {scope!r})", wanted
        return self._atomic()

    def _wide(self) -> tuple[str, list[str]]:
        """An access of 16 bytes."""
        choose = self.random
        scope, loads = choose.choice([*SCOPES]), choose.random() < 0.5
        order = choose.choice(LOADS if loads else STORES)
        strong = "relaxed" if order == "relaxed" else "acquire" if loads else "release"
        access = rf"{'ld' if loads else 'st'}\.{strong}\.{SCOPES[scope]}(\.global)?\.b128"
        fence = [rf"fence\.sc\.{SCOPES[scope]}"] if order == "seq_cst" else []
        settings = f"{order!r}, {scope!r}"
        if loads:
            return f"w[3] = device.atomic_ref(w, 1).load({settings})", [*fence, access]
        return f"device.atomic_ref(w, 2).store(w[0], {settings})", [*fence, access]

    def _atomic(self) -> tuple[str, list[str]]:
        choose, bits = self.random, self.type[-2:]
        name, scope = choose.choice(("load", "store", *UPDATES)), choose.choice([*SCOPES])
        order = choose.choice({"load": LOADS, "store": STORES}.get(name, ORDERS))
        settings = choose.choice(
            (f"{order!r}, {scope!r}", f"{order!r}, {scope!r}", f"scope={scope!r}, memory={order!r}", "", repr(order))
        )
        if settings in ("", repr(order)):
            order, scope = order if settings else "seq_cst", "system"
        where = "cta" if self.space == "shared" else SCOPES[scope]
        fence = [rf"fence\.sc\.{where}"] if order == "seq_cst" else []
        if name in ("load", "store"):
            strong = "relaxed" if order == "relaxed" else {"load": "acquire", "store": "release"}[name]
            access = rf"{'ld' if name == 'load' else 'st'}\.{strong}\.{where}\.{self.space}\.b{bits}"
            return (
                f"out[0] = a.load({settings})"
                if name == "load"
                else f"a.store({', '.join(['v', settings][: 1 + bool(settings)])})"
            ), [*fence, access]
        strong = {"consume": "acquire", "seq_cst": "acquire"}.get(order, order)
        sign = "" if UPDATES[name].endswith("b") else "s" if name in ("max", "min") and self.type[0] == "i" else "u"
        operands = ", ".join(["v"] * (1 + (name == "cas")) + [settings] * bool(settings))
        pattern = rf"atom\.{strong}\.{where}\.{self.space}\.{UPDATES[name]}{sign}{bits}".replace("..", ".")
        return f"out[0] = a.{name}({operands})", [
            *fence,
            pattern.replace(".", r"\.").replace(r"\\.", r"\."),
        ]

    def source(self) -> str:
        array = "cells" if self.space == "global" else f"device.shared_array(4, device.{self.type})"
        head = [
            "def k(cells, out, w, v, f):",
            f"    x = {array}",
            "    x[1] = out[2]",
            "    a = device.atomic_ref(x, 1)",
        ]
        # Somebody who reads the object: no order goes because nobody could see it.
        told = ["    out[0] = device.atomic_ref(x, 0).load('relaxed', 'block')"] * (self.space == "shared")
        tail = [*told, "    device.syncthreads()", "    out[1] = x[1]", f"    out[2] = math.{self.function}(out[2])"]
        return "\n".join([*head, *(f"    {text}" for text, _ in self.rows), *tail]) + "\n"

    def attempt(self, stream: device.Stream) -> str | None:
        kernel = device.kernel(
            defined(self.source(), "k", {"device": device, "math": math}, f"<ordered {self.number}>")
        )
        array, results, wide = (device.ArrayType(each, 1) for each in (self.type, "float64", "complex128"))
        made = device.compile(
            kernel, array, results, wide, getattr(np, self.type), np.float32, target=self.target, output="ptx"
        )
        text = str(made)
        if not re.search(rf"(?m)^\.version {re.escape(VERSIONS[self.target])}$", text):
            return f"the version of PTX is not {VERSIONS[self.target]}"
        seen = re.findall(r"(?m)^\s*(\.(?:visible|weak|common) .*)", text)
        if len(seen) != 1 or ".visible .entry" not in seen[0]:
            return f"others see {seen}"
        place = 0
        for statement, patterns in self.rows:
            for pattern in patterns:
                if not re.search(pattern, text):
                    return f"{statement} is no {pattern} in the PTX"
                if pattern.startswith(("atom", "ld", "st")):  # fences that follow each other are one
                    found = re.compile(pattern).search(text, place)
                    if found is None:
                        return f"{statement} has no {pattern} behind what stands before it"
                    place = found.end()
        return None
