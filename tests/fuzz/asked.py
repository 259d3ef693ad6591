"""Which assembler is asked, by stand-ins, and what becomes of what it says; which folder the cache is in, and its keys.

ASSEMBLERS              rows that refuse, or are too old, or are missing
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any
from unittest import mock

from cuda_device.cache import disk
from cuda_device.codegen.gpu import cubin
from cuda_device.codegen.gpu.assemblers import Assembler, Options, Rejection, Request
from cuda_device.codegen.gpu.linking import Input
from cuda_device.errors import CompileError, CompilerBug
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.architectures import Architecture
from fuzz.files import made_elf
from fuzz.tools import an_architecture, some_options, world

_SAID = {
    "old": ("Unsupported .version 9.0; current is 8.5", None),
    "name": ("Value 'sm_121' is not defined for option 'gpu-name'", None),
    "architecture": ("ERROR_UNRECOGNIZED_ARCH", None),
    "shared": (
        "Entry function 'k' uses too much shared data (0x12000 bytes, 0xc000 max)",
        (CompileError, "k has 73728 bytes of static shared memory, at most 49152"),
    ),
    "arguments": (
        "Entry function 'k' uses too much parameter space (0x1200 bytes, 0x1100 max)",
        (CompileError, "k has 4608 bytes of arguments, at most 4352"),
    ),
    "missing": (
        "Undefined reference to 'f' in 'x'\nUnresolved extern function 'g'\nUndefined reference to 'f'",
        (CompileError, "nothing defines f, g"),
    ),
    "wrong": ("ptxas x, line 2; error   : bad\nx, line 99; fatal : worse", (CompilerBug, "    2 | .target")),
}
_LOG = """ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used {registers} registers, used {barriers} barriers, {shared} bytes smem, 360 bytes cmem[0]
"""


def choices(choose: random.Random) -> str | None:
    """Assemblers are asked in turn, those that are too old but once; what they refuse is somebody's mistake, and whose."""
    architecture = an_architecture(choose)
    calls = choose.random() < 0.4
    body = (
        choose.choice(("\\tdiv.rn.f32 %f1;", "\\tcall foo;", "\\trem.u64 %r;", "\\tsqrt.rn.f64 x;"))
        if calls
        else "\\tadd.f32 x; recall"
    )
    ptx = f".version {choose.choice(('8.8', '9.0'))}\n.target {architecture}\n" + body.replace("\\t", "\t")
    said, answers = [], {}
    rows = []
    for name in ("driver", "nvJitLink", "ptxas"):
        answers[name] = choose.choice(("", "", "missing here", *_SAID))

        def run(request: Request, name: str = name) -> tuple[bytes, str]:
            said.append(name)
            if answers[name]:
                raise Rejection(_SAID[answers[name]][0])
            return f"code of {name}".encode(), _LOG.format(**numbers)

        there = answers[name] != "missing here"
        rows.append(
            Assembler(
                name,
                lambda _, there=there: there,
                run,
                lambda name=name: f"{name} 1",
                f"get {name}",
                lambda there=there: there,
                relocates=name != "driver",
                links=name == "nvJitLink",
            )
        )
    numbers = {key: choose.randint(0, 99) for key in ("stack", "stores", "loads", "registers", "barriers", "shared")}
    options, forced = (
        replace(some_options(choose), report_usage=True),
        choose.choice(("", "", "PTXAS", "nvjitlink", "nobody")),
    )
    inputs = (Input("f.ptx", b".func f"),) if choose.random() < 0.2 else ()
    able = [row.name for row in rows if (row.links or not inputs) and (row.relocates or not options.relocatable)]
    order = able[::-1] if calls and not inputs and not options.relocatable else able
    if forced:
        own = [name for name in order if name.lower() == forced.lower()]
        order = own or order
    asked: list[str] = []
    expected: Any = CompileError, "there is no assembler for"
    for name in order:
        if answers[name] == "missing here":
            continue
        asked.append(name)
        if not answers[name]:
            expected = f"code of {name}".encode()
            break
        if _SAID[answers[name]][1] is not None:
            expected = _SAID[answers[name]][1]
            if answers[name] == "wrong" and inputs:
                expected = CompileError, f"{name} cannot link the kernel to f.ptx"
            break
    if forced == "nobody":
        asked, expected = [], (CompileError, "which is no assembler")
    with (
        world(**({"CUDA_DEVICE_ASSEMBLER": forced} if forced else {})),
        mock.patch.object(cubin, "ASSEMBLERS", tuple(rows)),
        mock.patch.object(cubin, "_unusable", {}),
        mock.patch.object(cubin, "loads", return_value=True),
    ):
        outcomes = [_outcome(ptx, architecture, options, inputs) for _ in range(2)]
        identity = _identity(architecture)
    shown = f"{answers}, {forced!r}, {order}"
    old = [name for name in asked if answers[name] in ("old", "name", "architecture")]
    if said != [*asked, *(name for name in asked if name not in old)]:
        return f"of {shown} it asks {said}, not {asked}, and then all but {old}"
    for found in outcomes:
        if isinstance(expected, tuple):
            if not isinstance(found, expected[0]) or expected[1] not in str(found):
                return f"of {shown} comes {found!r}, not {expected}"
        elif found.code != expected or found.assembler != asked[-1]:
            return f"of {shown} comes {found!r}, not {expected}"
        else:
            usage = found.usage["k"]
            mine = {
                "stack": usage.stack,
                "stores": usage.spill_stores,
                "loads": usage.spill_loads,
                "registers": usage.registers,
                "barriers": usage.barriers,
                "shared": usage.shared,
            }
            if mine != numbers:
                return f"{found.log} says {usage}"
    there = [
        row.name
        for row in rows
        if answers[row.name] != "missing here" and (not forced or row.name.lower() == forced.lower())
    ]
    wanted = ", ".join(f"{name} 1" for name in there)
    if forced != "nobody" and identity != (wanted or CompileError):
        return f"the assemblers are {identity}, not {wanted}"
    return None


def _outcome(ptx: str, architecture: Architecture, options: Options, inputs: tuple[Input, ...]) -> Any:
    try:
        return cubin.assemble(ptx, architecture, options, inputs)
    except (CompileError, CompilerBug) as error:
        return error


def _identity(architecture: Architecture) -> Any:
    try:
        return cubin.identity(architecture)
    except CompileError:
        return CompileError


def tighter(choose: random.Random) -> str | None:
    """A kernel that uses a register too many is assembled once more, if nobody has said how many, and the better one is taken."""
    first, second = choose.choice((97, 98, 99, 41, 33, 64, 100)), choose.choice((96, 95, 98, 40, 32))
    longer, bound = (
        choose.choice((0, 0, 50)),
        choose.choice(("", "", ".maxntid 128\n", ".maxnreg 100\n", ".minnctapersm 2\n")),
    )
    options = replace(some_options(choose), relocatable=False, level=choose.choice((0, 3)))
    asked: list[int] = []

    def run(request: Request) -> tuple[bytes, str]:
        asked.append(request.options.max_registers)
        again = len(asked) > 1
        info = b"\x04\x2f\x08\0" + (1).to_bytes(4, "little") + (second if again else first).to_bytes(4, "little")
        code = bytes(16 * (100 + longer * again))
        file = made_elf(
            [{"name": ".nv.info", "kind": 1, "data": info}, {"name": ".text.k", "kind": 1, "data": code}],
            [("k", 2, 1, 2, 0)],
        )
        return file, f"run {len(asked)}"

    row = Assembler("ptxas", lambda _: True, run, lambda: "ptxas 1", "", links=True)
    with world(), mock.patch.object(cubin, "ASSEMBLERS", (row,)), mock.patch.object(cubin, "_unusable", {}):
        found = cubin.assemble(f".version 8.8\n{bound}", an_architecture(choose), options)
    least = (first - 1) // 8 * 8
    tries = options.level > 0 and not options.max_registers and not bound and first - least <= 2 and first != 64
    tries = tries and 16384 // (least * 32) > 16384 // ((least + 8) * 32)
    wanted = [options.max_registers, *([least] if tries else [])]
    better = tries and second <= least and not longer
    if asked != wanted or found.log != f"run {1 + better}":
        shown = f"with {first} registers, then {second}, {bound!r} and {options}"
        return f"{shown} it asks for {asked}, not {wanted}, and takes {found.log}"
    return None


# The cache's folder and keys


def folders(choose: random.Random) -> str | None:
    """Which folder the environment names, and which keys differ."""
    disk.generator()  # which keeps something once
    with world() as top:
        chosen = choose.choice((None, "", "0", str(top / "x"), "~/y", "relative"))
        base = choose.choice((None, "", "also/relative", str(top / "base")))
        environment = (
            {"HOME": str(top)}
            | ({} if chosen is None else {"CUDA_DEVICE_CACHE": chosen})
            | ({} if base is None else {"XDG_CACHE_HOME": base})
        )
        with mock.patch.dict(os.environ, environment):
            found = disk.current()
            folder = Path(found.folder) if found else None
            wanted: Path | None = (
                Path(base) / "cuda_device" if base and Path(base).is_absolute() else top / ".cache/cuda_device"
            )
            if chosen is not None:
                wanted = None if chosen in ("", "0") else top / "y" if chosen == "~/y" else Path(chosen).absolute()
            if folder != wanted:
                return f"of {environment} the cache is {folder}, not {wanted}"
            if chosen != "relative" and (wrong := _kept(wanted is not None)):
                return wrong
    a, b = choose.sample(("a", "b", "ab", "", b"ab", "a\0"), 2)
    same = (a if isinstance(a, bytes) else a.encode()) == (b if isinstance(b, bytes) else b.encode())
    keys = disk.key_of(a), disk.key_of(b)
    if (
        (keys[0] == keys[1]) != same
        or disk.key_of("a", "b") == disk.key_of("ab")
        or disk.key_of("a", "b") == disk.key_of("b", "a")
    ):
        return f"the keys of {a!r} and {b!r} are {keys}"
    for which in (disk.generator, disk.llvm):
        name = which.__name__
        with mock.patch.object(disk, name, return_value="another"):
            if disk.key_of(a) == keys[0]:
                return f"with another {name} the key is the same"
    return None


def _kept(is_on: bool) -> str | None:
    """What is kept is found."""
    pieces = disk.Pieces()
    before = disk.cache_info()
    pieces["a"] = b"1"
    disk.keep(bytes(32), b"2")
    disk.count(hits=2, misses=3, direct=1)
    after = disk.cache_info()
    if (pieces.get("a"), disk.find(bytes(32)), len(pieces)) != ((b"1", b"2", 2) if is_on else (None, None, 0)):
        return "what was kept is not found"
    if (after.hits - before.hits, after.misses - before.misses, after.direct - before.direct) != (2, 3, 1):
        return f"{before} became {after}"
    if (after.entries, after.nbytes > 0, after.folder is not None) != ((2, True, True) if is_on else (0, False, False)):
        return f"the cache is {after}"
    del pieces["a"]
    disk.discard(bytes(32))
    if "a" in pieces or disk.find(bytes(32)) is not None or not re.fullmatch(r"\w+", disk.key_of("a").hex()):
        return "what is gone is found"
    return None


CHECKS = (choices, choices, choices, choices, tighter, tighter, folders, folders)
