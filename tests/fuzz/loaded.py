"""Object files of LLVM's in this process: what their functions give, and what memory they have.

load(object_code, find)     functions that give what LLVM's own linker makes them give
"""

from __future__ import annotations

import ctypes
import functools
import random
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from cuda_device.codegen.cpu import native, object_loader


def objects(choose: random.Random) -> str | None:
    """Machine code is loaded as LLVM's linker loads it: constants, variables, addresses, calls of C's functions."""
    numbers = [choose.randint(-99, 99) for _ in range(choose.randint(1, 40))]
    align, start, zeros = choose.choice((4, 8, 64, 4096)), choose.randint(-9, 9), choose.choice((1, 5000))
    count, few = len(numbers), ", ".join(f"i32 {n}" for n in numbers)
    text = f"""
@table = internal constant [{count} x i32] [{few}], align {align}
@state = internal global i32 {start}, align {choose.choice((4, 64))}
@zeros = internal global [{zeros} x i32] zeroinitializer, align 16
@both = internal constant [2 x ptr] [ptr @one, ptr @other]
@places = internal constant [4 x ptr] [ptr @one, ptr @table, ptr @state, ptr @zeros]
declare i64 @labs(i64)
declare i64 @llabs(i64)
define internal i32 @one(i32 %x) noinline {{
  %y = add i32 %x, {start}
  ret i32 %y
}}
define internal i32 @other(i32 %x) noinline {{
  %wide = sext i32 %x to i64
  %size = call i64 @{choose.choice(("labs", "llabs"))}(i64 %wide)
  %y = trunc i64 %size to i32
  ret i32 %y
}}
define i32 @read(i32 %i) {{
  %p = getelementptr i32, ptr @table, i32 %i
  %x = load i32, ptr %p
  ret i32 %x
}}
define i32 @choose(i32 %i, i32 %x) {{
  %p = getelementptr ptr, ptr @both, i32 %i
  %f = load ptr, ptr %p
  %y = call i32 %f(i32 %x)
  ret i32 %y
}}
define i32 @step(i32 %by) {{
  %x = load i32, ptr @state
  %y = add i32 %x, %by
  store i32 %y, ptr @state
  %last = getelementptr i32, ptr @zeros, i32 {zeros - 1}
  %z = load i32, ptr %last
  %w = add i32 %z, %y
  store i32 %y, ptr %last
  ret i32 %w
}}
define ptr @place(i32 %i) {{
  %p = getelementptr ptr, ptr @places, i32 %i
  %x = load ptr, ptr %p
  ret ptr %x
}}
"""
    code = _object(text)
    loaded = object_loader.load(code, object_loader.in_process)
    if set(loaded.addresses) != {"read", "choose", "step", "place"}:
        return f"the functions are {[*loaded.addresses]}"
    integer = ctypes.c_int32
    read, by, step = (
        ctypes.CFUNCTYPE(integer, *[integer] * n)(loaded.addresses[name])
        for name, n in (("read", 1), ("choose", 2), ("step", 1))
    )
    i, x = choose.randrange(count), choose.randint(-99, 99)
    found = [read(i), by(0, x), by(1, x), step(3), step(4)]
    wanted = [numbers[i], x + start, abs(x), start + 3, start + 7 + start + 3]
    if found != wanted:
        return f"it gives {found}, not {wanted}"
    place = ctypes.CFUNCTYPE(ctypes.c_void_p, integer)(loaded.addresses["place"])
    kinds = [_rights(address) for address in (*loaded.addresses.values(), *map(place, range(4)))]
    if kinds != ["r-x"] * (len(loaded.addresses) + 2) + ["rw-"] * 2:
        return f"its functions, constants and variables are where the process may {kinds}"
    return _unsupported(choose, code)


def _rights(address: int) -> str:
    """What the process may do at an address, as Linux tells it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_ = line.split()
        first, end = (int(each, 16) for each in span.split("-"))
        if first <= address < end:
            return rights[:3]
    return "nothing"


@functools.cache
def _target() -> Any:
    native._machine(1)  # which makes LLVM ready
    return llvm.Target.from_default_triple().create_target_machine(opt=1, reloc="pic", codemodel="small", jit=True)


def _object(text: str) -> bytes:
    return bytes(_target().emit_object(llvm.parse_assembly(text)))


def _unsupported(choose: random.Random, code: bytes) -> str | None:
    """What the loader leaves to LLVM."""
    other = bytearray(code)
    other[choose.choice((4, 16, 18))] ^= 3
    bad: dict[str, tuple[bytes, Any]] = {
        "another file": (bytes(other), object_loader.in_process),
        "no file": (b"", object_loader.in_process),
        "a name that nobody knows": (code, lambda name: None),
    }
    for what, (data, find) in bad.items():
        try:
            object_loader.load(data, find)
            return f"{what} is loaded"
        except object_loader.Unsupported:
            continue
    if object_loader.in_process("no_such_function_of_anybody") is not None or not object_loader.in_process("labs"):
        return "functions of the process are not found, or found where there are none"
    return None


CHECKS = (objects,)
