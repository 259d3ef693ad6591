"""What the specification asks of programs ([User Requirement]): each with a program that violates it, and how that is found.

A program is run with `device`, `np`, `math`, `x` (64 float32), `n` (64 int32) and `run(kernel, *args, block=32)`, which
launches on the CPU stream. `docs/requirements.md` is made from this table (`test_requirements.py`, with `--update-golden`).
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import StrEnum

import cuda_device as device


class How(StrEnum):
    """When a violation is found."""

    COMPILING = "while compiling"
    DECORATING = "when a function or class is decorated, or an object is created"
    HOST = "when host code uses it"
    LAUNCH = "at launch"
    CHECKED = "in checked mode"


ERRORS: dict[How, tuple[type[Exception], ...]] = {
    How.COMPILING: (device.CompileError,),
    How.DECORATING: (TypeError, AttributeError),
    How.HOST: (device.DeviceOnlyError, AttributeError),
    How.LAUNCH: (device.LaunchError,),
    How.CHECKED: (device.KernelError,),
}


@dataclass(frozen=True)
class Requirement:
    """One requirement, in our words, and a program that violates it."""

    section: str
    rule: str
    how: How
    program: str


REQUIREMENTS: list[Requirement] = []
SECTION = ""


def section(title: str) -> None:
    """Begins a section of the specification."""
    global SECTION
    SECTION = title


def rule(text: str, how: How, program: str) -> None:
    """Adds a row."""
    REQUIREMENTS.append(Requirement(SECTION, text, how, textwrap.dedent(program).strip("\n") + "\n"))


def in_kernel(text: str, how: How, *statements: str, block: int = 1) -> None:
    """Adds a row whose program is a kernel of these statements."""
    body = "".join(f"    {line}\n" for statement in statements for line in statement.splitlines())
    checked = "(checked=True)" if how is How.CHECKED else ""
    call = "run(k, x, n)" if block == 1 else f"run(k, x, n, block={block})"
    rule(text, how, f"@device.kernel{checked}\ndef k(x, n):\n{body}\n{call}\n")


section("General Requirements")
in_kernel(
    "Arguments must have the types that the function's parameters require.", How.COMPILING, "x[0] = device.popc(x[1])"
)
in_kernel(
    "Parameters that require constant expressions must be given constant expressions.",
    How.COMPILING,
    "tile = device.shared_array(n[0], device.float32)",
)
rule(
    "Programs must not use names that the specification defines only for exposition; these names do not exist.",
    How.HOST,
    "device.Dim3Like",
)

section("Heterogeneous Functions")
rule(
    "A function decorated with `@func` must use only what exists both on the host and in device code.",
    How.COMPILING,
    """
    @device.func
    def f(v):
        return input(v)

    @device.kernel
    def k(x):
        f(1)

    run(k, x)
    """,
)
rule("`@func` must be given only the keywords that it documents.", How.DECORATING, "device.func(fast=True)")

section("Heterogeneous Types and Objects")
in_kernel(
    "Device code must not add attributes to types or objects.",
    How.COMPILING,
    "v = device.float32x2(1, 2)",
    "v.length = 3",
)

section("Vectors")
in_kernel(
    "The arguments of a vector's constructor must be convertible to its dtype.",
    How.COMPILING,
    "v = device.float32x2(1, x)",
)
rule("The same holds on the host.", How.DECORATING, "device.float32x2(1, {})")
in_kernel(
    "A vector's constructor must be given one argument for each element.", How.COMPILING, "v = device.float32x3(1, 2)"
)
rule("This, too, holds on the host.", How.DECORATING, "device.float32x3(1, 2)")
in_kernel(
    "A constant index of a vector must be less than its size.",
    How.COMPILING,
    "v = device.float32x2(1, 2)",
    "x[0] = v[2]",
)
in_kernel(
    "A run-time index of a vector must be less than its size.",
    How.CHECKED,
    "v = device.float32x2(1, 2)",
    "x[0] = v[n[0] + 2]",
)
in_kernel(
    "A value assigned to an element of a vector must be convertible to its dtype.",
    How.COMPILING,
    "v = device.float32x2(1, 2)",
    "v[0] = x",
)
in_kernel(
    "When an element of a vector is assigned to, its index must be less than the size.",
    How.CHECKED,
    "v = device.float32x2(1, 2)",
    "v[n[0] + 2] = 1",
    "x[0] = v.x",
)

section("User-Defined Types")
rule(
    "The type hints of a struct's members must name types of device code.",
    How.DECORATING,
    """
    @device.struct
    class Thing:
        name: str
    """,
)
rule(
    "The arguments of a struct's constructor must match the type hints of its members.",
    How.DECORATING,
    """
    @device.struct
    class Thing:
        count: int

    Thing(2.5)
    """,
)
rule(
    "Programs must not add attributes to a struct.",
    How.DECORATING,
    """
    @device.struct
    class Thing:
        count: int

    Thing(2).name = "two"
    """,
)

section("Arrays")
rule(
    "An array argument must implement DLPack or the CUDA Array Interface.",
    How.LAUNCH,
    """
    @device.kernel
    def k(x):
        x[0] = 1

    run(k, [1.0, 2.0])
    """,
)
in_kernel("An index of an array must be within the bounds of its axis.", How.CHECKED, "x[len(x) + n[0]] = 1")
in_kernel("`reshape` must keep the number of elements.", How.CHECKED, "x[0] = x.reshape(8, n[9])[0, 0]")
in_kernel("`astype` in device code must not need new memory.", How.COMPILING, "y = x.astype(device.int32)")

section("Device Only Entities")
rule("Host code must not call device-only functions.", How.HOST, "device.syncthreads()")
rule("Host code must not use device-only values.", How.HOST, "device.thread_idx.x + 1")
rule("Host code must not use device-only types.", How.HOST, "device.WarpMask(-1)")

section("Kernel Functions")
in_kernel("A kernel must return None.", How.COMPILING, "return x[0]")
rule(
    "Host code must launch a kernel, not call it.",
    How.HOST,
    """
    @device.kernel
    def k(x):
        x[0] = 1

    k(x)
    """,
)
rule(
    "A function must not be both a kernel and a `@func`.",
    How.DECORATING,
    """
    @device.kernel
    @device.func
    def k(x):
        x[0] = 1
    """,
)
rule("`@kernel` must be given only the keywords that it documents.", How.DECORATING, "device.kernel(fast=True)")
rule("The first argument of `launch` must be a kernel.", How.LAUNCH, "run(math.sqrt, x)")
rule(
    "The arguments of a kernel must have types of device code.",
    How.LAUNCH,
    """
    @device.kernel
    def k(x, name):
        x[0] = 1

    run(k, x, object())
    """,
)

section("Thread Positioning")
for name in ("tid", "grid_size"):
    in_kernel(f"The argument of `{name}` must be 1, 2 or 3.", How.COMPILING, f"p = device.{name}(4)")

section("Local, Shared, and Const Memory")
for name in ("local_array", "shared_array"):
    in_kernel(
        f"The shape of `{name}` must be an integer or a tuple of integers.",
        How.COMPILING,
        f"t = device.{name}(2.5, device.float32)",
    )

section("Memory Orderings")
in_kernel("`memory` must be one of the six orders.", How.COMPILING, 'device.threadfence("strong")')
in_kernel(
    "`memory` must be an order that C++ allows for the operation.",
    How.COMPILING,
    'device.atomic_ref(n, 0).load("release")',
)

section("Thread Scopes")
in_kernel("`scope` must be one of the four scopes.", How.COMPILING, 'device.atomic_ref(n, 0).add(1, scope="grid")')

section("Atomics")
LARGE = """\
@device.struct
class Large:
    a: device.float64
    b: device.float64
    c: device.float64

"""
rule("The value of an `Atomic` must have at most 16 bytes.", How.DECORATING, LARGE + "device.Atomic(Large)\n")
for name, arguments in (("load", ""), ("store", "larges[1]"), ("exch", "larges[1]"), ("cas", "larges[1], larges[1]")):
    rule(
        f"`{name}` takes values of at most 16 bytes. (`exch` and `cas` on values of more than 8 bytes are an extension.)",
        How.COMPILING,
        LARGE
        + "@device.kernel\ndef k(x):\n    larges = device.shared_array(2, Large)\n"
        + f"    device.atomic_ref(larges, 0).{name}({arguments})\n\n"
        "run(k, x)\n",
    )
for name in ("add", "sub", "max", "nanmax", "min", "nanmin"):
    in_kernel(
        f"`{name}` takes integers and floats of 32 and 64 bits.",
        How.COMPILING,
        "few = device.shared_array(2, device.int16)",
        f"device.atomic_ref(few, 0).{name}(1)",
    )
for name in ("and_", "or_", "xor"):
    in_kernel(f"`{name}` takes integers of 32 and 64 bits.", How.COMPILING, f"device.atomic_ref(x, 0).{name}(1)")
in_kernel(
    "The index of `atomic_ref` must be within the bounds of the array.",
    How.CHECKED,
    "device.atomic_ref(n, len(n)).add(1)",
)

section("Thread Block Synchronization")
in_kernel(
    "Every thread of the block must reach the barrier; none may return before it.",
    How.CHECKED,
    "if device.thread_idx.x > 3:\n    return",
    "device.syncthreads()",
    block=32,
)
in_kernel(
    "All threads of the block must reach the same barrier.",
    How.CHECKED,
    "if device.thread_idx.x < 32:\n    device.syncthreads()\nelse:\n    device.syncthreads_count(True)",
    block=64,
)
for name in ("syncthreads_count", "syncthreads_and", "syncthreads_or"):
    in_kernel(
        f"The predicate of `{name}` must take no arguments.", How.COMPILING, f"device.{name}(lambda i: i > 0)", block=32
    )

section("Thread Warp Synchronization")
for name in ("all_sync", "any_sync", "eq_sync", "ballot_sync"):
    in_kernel(
        f"The predicate of `{name}` must take no arguments.",
        How.COMPILING,
        f"device.{name}(-1, lambda i: i > 0)",
        block=32,
    )
in_kernel(
    "A constant index of a mask must be a lane from 0 to 31.", How.COMPILING, "x[0] = device.WarpMask(-1)[32]", block=32
)
in_kernel(
    "A run-time index of a mask must be a lane from 0 to 31.",
    How.CHECKED,
    "x[0] = device.WarpMask(-1)[n[0] + 32]",
    block=32,
)
in_kernel(
    "A lane that is set in a mask must be from 0 to 31.",
    How.CHECKED,
    "m = device.WarpMask(-1)",
    "m[n[0] - 1] = True",
    "n[0] = m",
    block=32,
)
in_kernel("A thread that passes a mask must itself be in the mask.", How.CHECKED, "device.syncwarp(0xFF)", block=32)
for name, outside, beyond in (
    ("shfl_sync", "20", "n[0] + 32"),
    ("shfl_up_sync", "n[0] + 1", "n[0] - 1"),
    ("shfl_down_sync", "n[0] + 1", "n[0] + 32"),
    ("shfl_xor_sync", "n[0] + 16", "n[0] + 99"),
):
    low = "0xFFFF" if name != "shfl_up_sync" else "0xFFFF0000"
    half = "device.lane_id < 16" if name != "shfl_up_sync" else "device.lane_id >= 16"
    in_kernel(
        f"`{name}` must read the value of a lane that is in the mask.",
        How.CHECKED,
        f"if {half}:\n    x[0] = device.{name}({low}, x[0], {outside})",
        block=32,
    )
    in_kernel(
        f"The lane or distance passed to `{name}` must be from 0 to 31.",
        How.CHECKED,
        f"x[0] = device.{name}(-1, x[0], {beyond})",
        block=32,
    )
    rule(
        f"`{name}` takes values of at most 8 bytes. (Values of up to 16 bytes are an extension.)",
        How.COMPILING,
        LARGE
        + f"@device.kernel\ndef k(x):\n    v = device.{name}(-1, Large(1.0, 2.0, 3.0), 1)\n\nrun(k, x, block=32)\n",
    )

section("Numeric Intrinsics")
for name in ("popc", "brev", "clz", "ffs"):
    in_kernel(f"`{name}` takes an integer.", How.COMPILING, f"x[0] = device.{name}(x[1])")
in_kernel("`cbrt` takes a float.", How.COMPILING, "x[0] = device.cbrt(n[1])")
in_kernel("`fma` takes floats.", How.COMPILING, "x[0] = device.fma(n[1], n[2], n[3])")
