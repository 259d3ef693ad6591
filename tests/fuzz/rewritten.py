"""What is done with LLVM's text changes no program: PTX of every form that is looked for, executed before and after.

    neg.s16 %rs1, %rs2;     →      not.b16 %rs1, %rs2; add.s16 %rs1, %rs1, 1;       the same in %rs1, for each of 32 threads

The machine of `tests/ptx_machine` executes both. Of the text afterwards is asked that forms which assemblers get wrong, or which
are slow, are gone, and that what nothing is said of has stayed.
"""

from __future__ import annotations

import functools
import random
import re
import struct

import numpy as np
from ptx_machine.machine import Machine, Module
from ptx_machine.memory import Arena
from ptx_machine.reader import read

from cuda_device.codegen.gpu import nvptx

_HEADER = ".version 8.8\n.target sm_90\n.address_size 64\n"
_THREADS, _NUMBERS = 32, 4
_FACTORS = (0, 1, 2, 5, 29, 30, 31, 33)
_REGISTERS = "\t.reg .pred \t%p<40>;\n\t.reg .b16 \t%rs<40>;\n\t.reg .b32 \t%r<90>;\n\t.reg .b64 \t%rd<90>;\n"


class _Text:
    """A kernel of random instructions, in LLVM's form; what they give is kept in registers, and stored at the end."""

    def __init__(self, choose: random.Random) -> None:
        self.choose, self.lines = choose, list[str]()
        self.counts = {"p": 0, "rs": 0, "r": 0, "rd": 0}
        self.kept: dict[str, list[str]] = {"r": [], "rs": [], "rd": []}
        self.depth = choose.choice((0, 0, 2))
        self.calls = choose.random() < 0.5
        self.labels = 0
        self.reads_only = choose.random() < 0.3
        self.start, self.into, self.apart = self.fresh("rd"), self.fresh("rd"), self.fresh("rd")
        self.thread = self.fresh("r")

    def fresh(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"%{kind}{self.counts[kind]}"

    def add(self, operation: str, *operands: str) -> None:
        self.lines.append(f"\t{operation} \t{', '.join(operands)};\n")

    def give(self, kind: str, operation: str, *operands: str) -> str:
        result = self.fresh(kind)
        self.add(operation, result, *operands)
        self.kept[kind].append(result)
        return result

    def some(self, kind: str) -> str:
        return self.choose.choice(self.kept[kind])

    def text(self) -> str:
        """The module."""
        for name, place in zip((self.start, self.into, self.apart), range(3), strict=True):
            self.add("ld.param.b64", name, f"[k_param_{place}]")
        self.add("mov.u32", self.thread, "%tid.x")
        offset = self.fresh("rd")
        self.add("mul.wide.u32", offset, self.thread, str(4 * _NUMBERS))
        where = self.fresh("rd")
        self.add("add.s64", where, self.start, offset)
        for place in range(_NUMBERS):
            number = self.give("r", "ld.global.nc.b32", f"[{where}+{4 * place}]")
            self.give("rs", "cvt.u16.u32", number)
        forms = [self.number, self.number, self.short, self.place, self.loop]
        forms += [] if self.reads_only else [self.update, self.update]
        forms += [self.call, self.together] if self.calls and not self.reads_only else []
        for _ in range(self.choose.randint(4, 14)):
            self.choose.choice(forms)()
        self.store()
        body = "".join(self.lines)
        head = ".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u64 k_param_1,\n\t.param .u64 k_param_2\n)\n"
        return f"{_HEADER}{self.function()}{head}{{\n{_REGISTERS}{body}\tret;\n}}\n"

    def number(self) -> None:
        operation = self.choose.choice(("neg.s32", "neg.s32", "min.s32", "max.s32", "add.s32", "min.u32", "not.b32"))
        operands = (self.some("r"),) if operation[:3] in ("neg", "not") else (self.some("r"), self.some("r"))
        self.give("r", operation, *operands)

    def short(self) -> None:
        self.give(
            "r", "cvt.s32.s16", self.give("rs", self.choose.choice(("neg.s16", "abs.s16", "not.b16")), self.some("rs"))
        )

    def place(self) -> None:
        narrow = self.some("r")
        wide = self.give("rd", self.choose.choice(("cvt.u64.u32", "cvt.s64.s32")), narrow)
        if self.choose.random() < 0.2:
            self.add("add.s32", narrow, narrow, "3")
        if self.choose.random() < 0.2:
            self.add("add.s64", wide, wide, "7")  # which is then not what it was made of
        self.give("rd", "shl.b64", wide, str(self.choose.choice(_FACTORS)))

    def loop(self) -> None:
        """Passes by a counter; LLVM leaves two branches at its end."""
        self.labels += 1
        first, behind = (f"$L__BB0_{2 * self.labels + i}" for i in range(2))
        counter, limit, condition = self.fresh("r"), self.choose.randint(1, 4), self.fresh("p")
        self.add("mov.b32", counter, "0")
        total = self.give("r", "mov.b32", "5")
        at, stores = self.fresh("rd"), self.choose.choice((0, 0, 3, 4, 6))
        self.add("mad.wide.u32", at, self.thread, "4", self.apart)
        self.lines.append(f"{first}:\n")
        self.add("add.s32", total, total, self.some("r"))
        for _ in range(stores):
            self.add("st.global.b32", f"[{at}]", self.some("r"))
        self.add("add.s32", counter, counter, "1")
        sign, limits = self.choose.choice((("eq.b32", limit), ("ge.s32", limit), ("gt.u32", limit)))
        self.add(f"setp.{sign}", condition, counter, str(limits))
        if self.choose.random() < 0.3:
            self.give("r", "selp.b32", "1", "2", condition)
        self.lines.append(f"\t@{condition} bra \t{behind};\n\tbra.uni \t{first};\n{behind}:\n")

    def update(self) -> None:
        order = self.choose.choice(("relaxed", "relaxed", "release", "acquire", "acq_rel"))
        result = self.fresh("r")
        operation = self.choose.choice(("add.u32", "max.s32", "and.b32", "xor.b32"))
        # A place of each thread's own: what is there before is then known.
        at = self.fresh("rd")
        self.add("mad.wide.u32", at, self.thread, "4", self.apart)
        self.add(f"atom.{order}.gpu.global.{operation}", result, f"[{at}]", self.some("r"))
        if self.choose.random() < 0.5:
            self.kept["r"].append(result)

    def call(self) -> None:
        result = self.fresh("r")
        self.lines.append("\t{\n\t.param .b32 param0;\n\t.param .b32 param1;\n\t.param .b32 retval0;\n")
        self.add("st.param.b32", "[param0]", self.some("r"))
        self.add("st.param.b32", "[param1]", str(self.depth))
        self.lines.append(f"\tcall.uni (retval0), f, (param0, param1);\n\tld.param.b32 \t{result}, [retval0];\n\t}}\n")
        self.kept["r"].append(result)

    def together(self) -> None:
        flag = self.fresh("p")
        self.add("setp.gt.s32", flag, self.some("r"), "3")
        self.give("r", "vote.sync.ballot.b32", flag, "-1")
        self.give("r", "shfl.sync.bfly.b32", self.some("r"), str(self.choose.randint(1, 31)), "31", "-1")

    def function(self) -> str:
        """A function of a signed byte, which calls itself."""
        if not self.calls:
            return ""
        again = (
            "\t{\n\t.param .b32 param0;\n\t.param .b32 param1;\n\t.param .b32 retval0;\n\tst.param.b32 \t[param0], %r1;\n"
            "\tsub.s32 \t%r4, %r2, 1;\n\tst.param.b32 \t[param1], %r4;\n"
            "\tcall.uni (retval0), f, (param0, param1);\n\tld.param.b32 \t%r5, [retval0];\n\t}\n\tadd.s32 \t%r3, %r3, %r5;\n"
        )
        return (
            ".func  (.param .b32 func_retval0) f(\n\t.param .b32 f_param_0,\n\t.param .b32 f_param_1\n)\n{\n"
            f"{_REGISTERS}\tld.param.s8 \t%rs1, [f_param_0];\n\tld.param.b32 \t%r2, [f_param_1];\n\tcvt.s32.s16 \t%r1, %rs1;\n"
            "\tneg.s32 \t%r6, %r1;\n\tmin.s32 \t%r3, %r6, 7;\n\tsetp.lt.s32 \t%p1, %r2, 1;\n\t@%p1 bra \t$L__BB1_2;\n"
            f"{again if self.depth else ''}$L__BB1_2:\n\tst.param.b32 \t[func_retval0], %r3;\n\tret;\n}}\n"
        )

    def store(self) -> None:
        at = self.fresh("rd")
        self.add("mad.wide.u32", at, self.thread, str(_SLOT), self.into)
        kept = [(name, "b32") for name in self.kept["r"]] + [(name, "b64") for name in self.kept["rd"]]
        for place, (name, kind) in enumerate(kept):
            self.add(f"st.global.{kind}", f"[{at}+{8 * place}]", name)


_SLOT = 1024


def same(choose: random.Random) -> str | None:
    """A module, as it is and as it is given to assemblers."""
    text = _Text(choose).text()
    changed = functools.reduce(lambda ptx, rewrite: rewrite(ptx), nvptx._REWRITES, text)
    numbers = np.array(
        [
            choose.choice((0, 1, -1, 7, -128, 127, -(2**15), 2**15 - 1, -(2**31), 2**31 - 1))
            for _ in range(_THREADS * _NUMBERS)
        ],
        np.int32,
    )
    seed = choose.randrange(1000)
    before, after = _executed(text, numbers, seed), _executed(changed, numbers, seed)
    if before != after:
        return f"another program:\n{text}\nbecomes\n{changed}"
    wrong = _left(changed) or _stayed(text, changed)
    return wrong and f"{wrong} of\n{text}\nin\n{changed}"


@functools.cache
def _arena() -> Arena:
    return Arena(1 << 20)


def _executed(text: str, numbers: np.ndarray, seed: int) -> bytes:
    """What a kernel leaves in memory."""
    arena = _arena()
    sizes = (numbers.nbytes, _THREADS * _SLOT, 4 * _THREADS, 24)
    source, into, apart, buffer = places = [arena.allocate(size) for size in sizes]
    try:
        arena.write(source, numbers.tobytes())
        arena.write(into, bytes(sizes[1]))
        arena.write(apart, numbers.tobytes()[: sizes[2]])
        arena.write(buffer, struct.pack("<3Q", source, into, apart))
        Machine(Module(read(text), arena), "k", (1, 1, 1), (_THREADS, 1, 1), buffer, 0, seed).run()
        return bytes(arena.read(into, sizes[1])) + bytes(arena.read(apart, sizes[2]))
    finally:
        for place in places:
            arena.free(place)


def _left(ptx: str) -> str | None:
    """A form that is to be gone."""
    for body in re.split(r"^(?=.*\.(?:entry|func)\b)", ptx, flags=re.M):
        gone = [r"\tneg\.s16 ", r"\tabs\.s16 ", r"\tld\.param\.s8 \t%rs"]
        gone += [r"\tneg\.s32 "] if len(re.findall(r"\t(?:min|max)\.s32 ", body)) > 1 else []
        for form in gone:
            if re.search(form, body):
                return f"{form!r} stays"
        for result in re.findall(r"\tatom\.(?:relaxed|release)\.\S+ \t(%\w+),", body):
            if len(re.findall(rf"{result}\b", body)) == 1:
                return f"an update whose result nobody wants, {result}, stays"
        for condition, label in re.findall(r"\t@(%p\d+) bra \t(\S+);\n\tbra\.uni \t\S+;\n\2:", body):
            if len(re.findall(rf"{condition}\b", body)) == 2:
                return f"the branch to {label} stays"
        for wide, count in re.findall(r"\tshl\.b64 \t%rd\d+, (%rd\d+), (\d+);", body):
            made = re.findall(rf"\t(\S+) \t{wide}, (%r\d+)?", body)
            once = len(made) == 1 and made[0][1] and len(re.findall(rf"\t\S+ \t{made[0][1]},", body)) == 1
            given = once and re.search(rf"\tst\.param\.b32 \t\[\w+\], {made[0][1]};", body)  # taken for written
            if int(count) <= 30 and once and not given and made[0][0].startswith("cvt."):
                return f"the product of {wide} stays"
        for _, label, inside in re.findall(r"^((\$\w+):\n)((?:\t.*\n)*?)\t@!?%p\d+ bra \t\2;", body, re.M):
            if (inside.count("\tst.global") >= 4) != inside.startswith('\t.pragma "nounroll";\n'):
                return f"the loop at {label} is {'not ' * ('.pragma' not in inside)}left alone"
    return None


def _stayed(text: str, changed: str) -> str | None:
    """Instructions that are to be as many as before, and where stores go."""
    recursive = "retval0), f, (" in text.split(".visible")[0]
    meetings, parted = len(re.findall(r"\t(?:vote|shfl)\.", changed)), len(re.findall(r"bra\s+\$L__behind;", changed))
    if len(re.findall(r"\t(?:vote|shfl)\.", text)) != meetings or parted != meetings * recursive:
        return (
            f"{meetings} meetings, {parted} with a branch around them, {'with' if recursive else 'without'} recursion"
        )
    reads = re.search(r"\t(?:atom|red|call|ld\.global\.(?!nc))", text)
    if (".L1::no_allocate" in changed) == bool(reads):
        return f"stores go {'past' if reads else 'into'} the cache"
    if len(re.findall(r"\tst\.global\.", text)) != len(re.findall(r"\tst\.global\.", changed)):
        return "stores are not as many"
    kept = re.findall(r"\tatom\.(?:acquire|acq_rel)\.[^;]*;", text)
    return (
        None
        if re.findall(r"\tatom\.(?:acquire|acq_rel)\.[^;]*;", changed) == kept
        else "updates that acquire are others"
    )


CHECKS = (same,) * 5
