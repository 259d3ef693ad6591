"""Files that the compiler reads and writes: the cache under faults, ELF files that C's layout makes.

store.get(key)              what was put there, or None where a bit, the end, the owner or the kind of the file is another
symbols(file)               what was written there
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from cuda_device import logs
from cuda_device.cache.store import Store
from cuda_device.codegen.gpu import elf, linking, occupancy
from cuda_device.errors import CompileError
from cuda_device.types.architectures import ARCHITECTURES

# The cache


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _file(store: Store, key: bytes) -> Path:
    return store.folder / f"{key.hex()}.bin"


def faults(choose: random.Random) -> str | None:
    """What was put is found, whole; and nothing else is, whatever has become of the files."""
    with _folder() as top, mock.patch.object(logs, "say"):
        store = Store(top / "a" / "b")
        keys = [hashlib.sha256(choose.randbytes(4)).digest() for _ in range(4)]
        expected = {key: choose.randbytes(choose.randint(0, 40)) for key in keys}
        if store.get(keys[0]) is not None or store.usage() != (0, 0):
            return "there is something in a folder that is not there"
        if not all(store.put(key, data) for key, data in expected.items()):
            return "it cannot be written"
        sizes = sum(_file(store, key).stat().st_size for key in keys)
        if store.usage() != (4, sizes) or any(_file(store, key).stat().st_mode & 0o777 != 0o600 for key in keys):
            return f"there are {store.usage()}, not 4 of {sizes} bytes, or others can read them"
        for _ in range(4):
            key, other = choose.sample(keys, 2)
            file = _file(store, key)
            wrong = _damaged(choose, store, file, key, other, expected)
            if wrong:
                return wrong
        for key, data in expected.items():
            if store.get(key) != data:
                return f"{data!r} became {store.get(key)!r}"
        store.folder.chmod(choose.choice((0o770, 0o702)))
        said: list[int] = []
        with mock.patch.object(logs, "say", lambda level, *_: said.append(level)):
            if store.get(keys[0]) is not None or store.put(keys[0], b"") or store.usage() != (0, 0):
                return "a folder that others can write is used"
        if said != [logs.WARNING]:
            return f"of a folder that others can write it is told {len(said)} times"
    return None


def _damaged(
    choose: random.Random, store: Store, file: Path, key: bytes, other: bytes, expected: dict[bytes, bytes]
) -> str | None:
    """One fault, after which there is nothing; and what is put then is there."""
    content, data = file.read_bytes(), expected[key]
    fault = choose.choice(("bit", "end", "more", "other", "mode", "link", "pipe", "folder", "removed", "empty"))
    gone = True
    match fault:
        case "bit":
            place = choose.randrange(len(content))
            file.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << choose.randrange(8)]) + content[place + 1 :]
            )
        case "end":
            file.write_bytes(content[: choose.randrange(len(content))])
        case "more":
            file.write_bytes(content + choose.randbytes(choose.randint(1, 3)))
        case "empty":
            file.write_bytes(b"")
        case "other":
            file.write_bytes(_file(store, other).read_bytes())
        case "mode":
            file.chmod(0o666)
        case "link":
            file.rename(file.with_suffix(".elsewhere"))
            file.symlink_to(file.with_suffix(".elsewhere"))
            gone = False
        case "pipe":
            file.unlink()
            os.mkfifo(file, 0o600)
        case "folder":
            file.unlink()
            file.mkdir()
            gone = False
        case "removed":
            store.remove(key)
    found = store.get(key)
    if found is not None:
        return f"after the fault {fault!r} there is {found!r}"
    if gone and (file.exists() or file.is_symlink()):
        return f"after the fault {fault!r} the file stays"
    if fault == "folder":
        file.rmdir()
    elif fault == "link":
        file.unlink()
    return None if store.put(key, data) and store.get(key) == data else f"after the fault {fault!r} nothing can be kept"


def room(choose: random.Random) -> str | None:
    """A folder has a bound: what was not read for longest goes first; what processes left goes, too, but nothing else's."""
    with _folder() as top:
        size = choose.randint(60, 100)
        store = Store(top, most_bytes=10 * (size + 80))
        keys = [hashlib.sha256(bytes([k])).digest() for k in range(10)]
        whole = 0
        for k, key in enumerate(keys):
            store.put(key, bytes(size))
            whole = _file(store, key).stat().st_size
            os.utime(_file(store, key), (k, k))
        store = Store(top, most_bytes=10 * whole)
        read = keys[choose.randrange(5)]
        store.get(read)
        old, new, foreign = (top / f"{'0' * 64}.{'1' * 16}.tmp", top / f"{'0' * 64}.{'2' * 16}.tmp", top / "mine.bin")
        for path in (old, new, foreign):
            path.write_bytes(bytes(4000))
        os.utime(old, (1, 1))
        store.put(hashlib.sha256(b"last").digest(), bytes(size))
        left = [key for key in keys if _file(store, key).exists()]
        most = int(10 * whole * 0.75) // whole - 1
        wanted = [key for key in keys if key != read][-(most - 1) :]
        if left != sorted([*wanted, read], key=keys.index):
            return f"of 10 entries {[keys.index(key) for key in left]} are left, {keys.index(read)} was read"
        if old.exists() or not new.exists() or not foreign.exists():
            return "unfinished files stay, or others' go"
        if store.put(keys[0], bytes(10 * whole)):
            return "there is more than can be"
    return None


def looks(choose: random.Random) -> str | None:
    """Many entries: the folder never holds more than its bound and a sixteenth, and is not looked through at each of them."""
    with _folder() as top:
        most = choose.choice((4000, 8000))
        store, written, looked = Store(top, most_bytes=most), 0, 0
        listed = os.scandir
        for k in range(choose.randint(15, 35)):
            key, data = hashlib.sha256(bytes([k])).digest(), bytes(choose.randint(0, most // 20))
            with mock.patch.object(os, "scandir", side_effect=listed) as scandir:
                store.put(key, data)
            looked += scandir.called
            written += _file(store, key).stat().st_size
            held = sum(each.stat().st_size for each in top.iterdir())
            if held > most + most // 16 or store.usage()[1] != held:
                return f"of at most {most} bytes it holds {held}, and says {store.usage()}"
            if store.get(key) != data:
                return "what was put last is gone"
            if looked > 1 + written * 16 // most:
                return f"after {written} bytes of {most} it has looked {looked} times"
    return None


# ELF files

Symbols = list[tuple[str, int, int, int, int]]


def made_elf(
    sections: list[dict[str, Any]],
    symbols: Symbols,
    kind: int = 1,
    version: int = 0,
    flags: int = 0,
    machine: int = 190,
) -> bytes:
    """A file with these sections (name, kind, flags, data, align, info), and symbols (name, kind, binding, section, value)."""
    names, strings, table = b"\0", b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, form, binding, section, value in symbols:
        table += struct.pack("<IBBHQQ", len(strings), binding << 4 | form, 0, section, value, 0)
        strings += name.encode() + b"\0"
    count = len(sections) + 1
    every = [
        {"name": "", "kind": 0},
        *sections,
        {"name": ".symtab", "kind": 2, "data": table, "link": count + 1, "align": 8},
        {"name": ".strtab", "kind": 3, "data": strings},
        {"name": ".shstrtab", "kind": 3},
    ]
    for each in every:
        each["at"] = len(names)
        names += each["name"].encode() + b"\0"
    every[-1]["data"] = names
    body, headers = b"", b""
    for each in every:
        body += bytes(-(64 + len(body)) % 16)
        data = each.get("data", b"")
        place = 64 + len(body)
        fields = (each["at"], each["kind"], each.get("flags", 0), 0, place, each.get("size", len(data)))
        headers += struct.pack(
            "<IIQQQQIIQQ", *fields, each.get("link", 0), each.get("info", 0), each.get("align", 1), 0
        )
        body += data
    head = (
        b"\x7fELF\2\1\1"
        + bytes([0, version])
        + bytes(7)
        + struct.pack(
            "<HHIQQQIHHHHHH", kind, machine, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, len(every), len(every) - 1
        )
    )
    return head + body + headers


def cubins(choose: random.Random) -> str | None:
    """What is read from an ELF file is what was written: sections, symbols, registers, stacks; and what can be linked."""
    kernels = choose.sample(("k", "saxpy", "norm", "π"), choose.randint(1, 3))
    counts = {name: (choose.randint(1, 255), choose.choice((0, 16, 2**32 - 1))) for name in kernels}
    symbols: Symbols = [("", 3, 0, 1, 0), ("elsewhere", 2, 1, 0, 0), ("table", 1, 1, 1, 8), ("static", 2, 0, 1, 4)]
    info = b"\x03\x1b" + struct.pack("<H", 7)
    for name, (registers, stack) in counts.items():
        number = len(symbols) + 1
        symbols.append((name, 2, 1, 2, 0))
        info += struct.pack("<BBHII", 4, 0x2F, 8, number, registers) + struct.pack("<BBHII", 4, 0x12, 8, number, stack)
        info += struct.pack("<BBHI", 4, 0x11, 4, 0) if choose.random() < 0.5 else b""
    code = b"".join(struct.pack("<QQ", choose.choice((0x983, 0x387, 0x7918)), 0) for _ in range(choose.randint(0, 40)))
    sections: list[dict[str, Any]] = [{"name": ".nv.info", "kind": 0x70000000, "data": info, "align": 4}]
    sections += [{"name": f".text.{kernels[0]}", "kind": 1, "flags": 6, "data": code, "align": 128, "info": 3}]
    kind, version = choose.choice((1, 2)), choose.choice((7, 8))
    made_for = choose.choice([*ARCHITECTURES.values()]).number
    file = made_elf(sections, symbols, kind, version, made_for << 8 * (version == 8) | 5 << 16)
    found = [(each.name, each.kind, each.flags, each.size, each.align, each.info) for each in elf.sections(file)][1:3]
    wanted = [
        (each["name"], each["kind"], each.get("flags", 0), len(each["data"]), each["align"], each.get("info", 0))
        for each in sections
    ]
    named = [tuple(symbol) for symbol in elf.symbols(file)][1:]
    rows: list[tuple[str, Any, Any]] = [
        ("sections", found, wanted),
        ("contents", [elf.content(file, each) for each in elf.sections(file)][1:3], [info, code]),
        (
            "symbols",
            named,
            [(name, form, binding == 1, section, value) for name, form, binding, section, value in symbols],
        ),
        ("registers", elf.registers(file), {name: pair[0] for name, pair in counts.items()}),
        ("stacks", elf.stacks(file), {name: pair[1] for name, pair in counts.items()}),
        ("functions", elf.functions(file), {"static", *kernels}),
        (
            "no cubin",
            (elf.registers(b""), elf.functions(b"text"), elf.stacks(file[:4] + b"\1" + file[5:])),
            ({}, frozenset(), {}),
        ),
        ("defined", linking.Input("x", file).functions, set(kernels)),
        ("lto", linking.Input("x", file).is_lto, False),
        ("architecture", linking.Input("x", file).architecture, made_for),
        (
            "none",
            [linking.Input("x", data).architecture for data in (file[:40], b"text", file[:18] + file[:60])],
            [None] * 3,
        ),
        ("as good", occupancy.is_as_good(file, file, kernels[0]), True),
    ]
    other = made_elf(
        [
            sections[0] | {},
            sections[1]
            | {
                "data": code
                + (more := struct.pack("<QQ", choose.choice((0x983, 0x387, 0x7918)), 0) * choose.randint(0, 9))
            },
        ],
        symbols,
        kind,
    )
    spilled = sum(more[at] | (more[at + 1] & 15) << 8 in (0x983, 0x387) for at in range(0, len(more), 16))
    before = len(code) // 16
    rows.append(
        (
            "not as good",
            occupancy.is_as_good(other, file, kernels[0]),
            spilled <= 4 and len(more) // 16 <= before // 32 + 4,
        )
    )
    for what, mine, theirs in rows:
        if mine != theirs:
            return f"{what} of {kernels} are {mine}, not {theirs}"
    return _linked(choose, file, kernels, kind) or _fits(choose, file, made_for)


def _fits(choose: random.Random, file: bytes, made_for: int) -> str | None:
    """A cubin is for its architecture and the later ones of its generation."""
    architecture = choose.choice([*ARCHITECTURES.values()])
    fits = architecture.capability[0] == made_for // 10 and architecture.capability[1] >= made_for % 10
    try:
        linking.check(linking.Input("the text", b""), (linking.Input("file", file),), architecture)
        return None if fits else f"what is for sm_{made_for} is linked for {architecture}"
    except CompileError as error:
        words = ("file", f"sm_{made_for}", str(architecture))
        return f"of sm_{made_for} it says {error}" if fits or not all(each in str(error) for each in words) else None


def _linked(choose: random.Random, file: bytes, kernels: list[str], kind: int) -> str | None:
    """Several inputs, some twice, some of which define the same."""
    name = choose.choice(kernels)
    text = choose.choice(
        (
            f".visible .func (.param .b32 r) {name} (.param .b32 x)\n{{\nret;\n}}",
            f".visible .entry {name}(\n.param .u64 p\n)\n.maxntid 32\n{{",
            f".visible .func {name} (.param .b32 x);",
            f".func {name}\n{{",
        )
    )
    defines = text.endswith(("}", "{")) and text.startswith(".visible") and name.isascii()
    ptx = linking.Input("the text", text.encode())
    same = next(each for each in ARCHITECTURES.values() if each.number == linking.Input("file", file).architecture)
    if (name in ptx.functions) != defines:
        return f"{text!r} defines {set(ptx.functions)}"
    try:
        linking.check(ptx, (linking.Input("file", file),), same)
        if defines:
            return f"{name} may be defined twice"
    except CompileError as error:
        if not defines or "the text" not in str(error) or "file" not in str(error):
            return f"of {text!r} it says {error}"
    with _folder() as top:
        (top / "a.ptx").write_text(text)
        lto = b"\xedCN\x7fabc"
        sources = [str(top / "a.ptx"), top / "a.ptx", text.encode(), lto, mock.Mock(symbol="s", code=text + " ")]
        found = linking.read(sources)
        if [(each.name, each.data, each.is_lto) for each in found] != [
            ("a.ptx", text.encode(), False),
            ("link 4", lto, True),
            ("s", (text + " ").encode(), False),
        ]:
            return f"{sources} are read as {found}"
        for bad in (top / "none", *([file] if kind == 2 else [])):
            try:
                linking.read([bad])
                return f"{str(bad)[:40]} is linked"
            except CompileError:
                continue
        if kind == 1 and len(linking.read([file, file, b"x"])) != 2:
            return "an object cannot be linked, or is linked twice"
    return None


CHECKS = (faults, faults, room, looks, cubins, cubins, cubins)
