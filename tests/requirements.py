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
    DECORATING = "when a function or class is decorated, or an object is made"
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
in_kernel("Arguments are of the types that the hints of parameters ask for.", How.COMPILING, "x[0] = device.popc(x[1])")
in_kernel(
    "So are those of functions with constant parameters.",
    How.COMPILING,
    "tile = device.shared_array(n[0], device.float32)",
)
rule("Names that only explain others are not used.", How.HOST, "device.Dim3Like")

section("Heterogeneous Functions")
rule(
    "What `@func` decorates can be called on the host and in device code.",
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
rule("Keywords that `@func` does not have are errors.", How.DECORATING, "device.func(fast=True)")

section("Heterogeneous Types and Objects")
in_kernel(
    "Device code adds no attributes to types and objects.", How.COMPILING, "v = device.float32x2(1, 2)", "v.length = 3"
)

section("Vectors")
in_kernel("A vector's elements are made of what its dtype can be made of.", How.COMPILING, "v = device.float32x2(1, x)")
rule("On the host, too.", How.DECORATING, "device.float32x2(1, {})")
in_kernel("A vector gets as many arguments as it has elements.", How.COMPILING, "v = device.float32x3(1, 2)")
rule("On the host, too.", How.DECORATING, "device.float32x3(1, 2)")
in_kernel("An index is below the size: a constant one …", How.COMPILING, "v = device.float32x2(1, 2)", "x[0] = v[2]")
in_kernel("… and one that only run time knows.", How.CHECKED, "v = device.float32x2(1, 2)", "x[0] = v[n[0] + 2]")
in_kernel(
    "What is assigned to an element can become its dtype.", How.COMPILING, "v = device.float32x2(1, 2)", "v[0] = x"
)
in_kernel(
    "The index of an assignment is below the size, too.",
    How.CHECKED,
    "v = device.float32x2(1, 2)",
    "v[n[0] + 2] = 1",
    "x[0] = v.x",
)

section("User-Defined Types")
rule(
    "The attributes of a struct have hints of types that device code knows.",
    How.DECORATING,
    """
    @device.struct
    class Thing:
        name: str
    """,
)
rule(
    "What a struct is made of matches its hints.",
    How.DECORATING,
    """
    @device.struct
    class Thing:
        count: int

    Thing(2.5)
    """,
)
rule(
    "No attributes are added to a struct.",
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
    "An array implements DLPack or the CUDA Array Interface.",
    How.LAUNCH,
    """
    @device.kernel
    def k(x):
        x[0] = 1

    run(k, [1.0, 2.0])
    """,
)
in_kernel("An index is within its axis, on every axis.", How.CHECKED, "x[len(x) + n[0]] = 1")
in_kernel("A shape has as many elements as the array.", How.CHECKED, "x[0] = x.reshape(8, n[9])[0, 0]")
in_kernel("`astype` does not allocate.", How.COMPILING, "y = x.astype(device.int32)")

section("Device Only Entities")
rule("Host code does not use what exists in device code only: functions, …", How.HOST, "device.syncthreads()")
rule("… values, …", How.HOST, "device.thread_idx.x + 1")
rule("… and types.", How.HOST, "device.WarpMask(-1)")

section("Kernel Functions")
in_kernel("A kernel returns None.", How.COMPILING, "return x[0]")
rule(
    "A kernel is for devices only: host code does not call it.",
    How.HOST,
    """
    @device.kernel
    def k(x):
        x[0] = 1

    k(x)
    """,
)
rule(
    "A kernel is no `@func`.",
    How.DECORATING,
    """
    @device.kernel
    @device.func
    def k(x):
        x[0] = 1
    """,
)
rule("Keywords that `@kernel` does not have are errors.", How.DECORATING, "device.kernel(fast=True)")
rule("`launch` starts kernels.", How.LAUNCH, "run(math.sqrt, x)")
rule(
    "The arguments of `launch` are of types that device code knows.",
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
    in_kernel(f"`{name}` takes 1, 2 or 3.", How.COMPILING, f"p = device.{name}(4)")

section("Local, Shared, and Const Memory")
for name in ("local_array", "shared_array"):
    in_kernel(
        f"The shape of `{name}` is an integer or a tuple of integers.",
        How.COMPILING,
        f"t = device.{name}(2.5, device.float32)",
    )

section("Memory Orderings")
in_kernel("`memory` is one of the six orders.", How.COMPILING, 'device.threadfence("strong")')
in_kernel("It is one that C++ has for the operation.", How.COMPILING, 'device.atomic_ref(n, 0).load("release")')

section("Thread Scopes")
in_kernel("`scope` is one of the four scopes.", How.COMPILING, 'device.atomic_ref(n, 0).add(1, scope="grid")')

section("Atomics")
LARGE = """\
@device.struct
class Large:
    a: device.float64
    b: device.float64
    c: device.float64

"""
rule("What `Atomic` owns has at most 16 bytes.", How.DECORATING, LARGE + "device.Atomic(Large)\n")
for name, arguments in (("load", ""), ("store", "larges[1]"), ("exch", "larges[1]"), ("cas", "larges[1], larges[1]")):
    rule(
        f"`{name}` is for what has at most 16 bytes (of these, `exch` and `cas` of more than 8 are an extension).",
        How.COMPILING,
        LARGE
        + "@device.kernel\ndef k(x):\n    larges = device.shared_array(2, Large)\n"
        + f"    device.atomic_ref(larges, 0).{name}({arguments})\n\n"
        "run(k, x)\n",
    )
for name in ("add", "sub", "max", "nanmax", "min", "nanmin"):
    in_kernel(
        f"`{name}` is for integers and floats of 32 and 64 bits.",
        How.COMPILING,
        "few = device.shared_array(2, device.int16)",
        f"device.atomic_ref(few, 0).{name}(1)",
    )
for name in ("and_", "or_", "xor"):
    in_kernel(f"`{name}` is for integers of 32 and 64 bits.", How.COMPILING, f"device.atomic_ref(x, 0).{name}(1)")
in_kernel("The index of `atomic_ref` is that of an element.", How.CHECKED, "device.atomic_ref(n, len(n)).add(1)")

section("Thread Block Synchronization")
in_kernel(
    "Every thread of the block reaches the barrier, also those that would return.",
    How.CHECKED,
    "if device.thread_idx.x > 3:\n    return",
    "device.syncthreads()",
    block=32,
)
in_kernel(
    "They all reach the same one.",
    How.CHECKED,
    "if device.thread_idx.x < 32:\n    device.syncthreads()\nelse:\n    device.syncthreads_count(True)",
    block=64,
)
for name in ("syncthreads_count", "syncthreads_and", "syncthreads_or"):
    in_kernel(
        f"The predicate of `{name}` takes no arguments.", How.COMPILING, f"device.{name}(lambda i: i > 0)", block=32
    )

section("Thread Warp Synchronization")
for name in ("all_sync", "any_sync", "eq_sync", "ballot_sync"):
    in_kernel(
        f"The predicate of `{name}` takes no arguments.", How.COMPILING, f"device.{name}(-1, lambda i: i > 0)", block=32
    )
in_kernel(
    "The lanes of a mask are 0 to 31: a constant one …", How.COMPILING, "x[0] = device.WarpMask(-1)[32]", block=32
)
in_kernel("… and one that only run time knows.", How.CHECKED, "x[0] = device.WarpMask(-1)[n[0] + 32]", block=32)
in_kernel(
    "So are those that are put into it.",
    How.CHECKED,
    "m = device.WarpMask(-1)",
    "m[n[0] - 1] = True",
    "n[0] = m",
    block=32,
)
in_kernel("A lane that passes a mask is in it.", How.CHECKED, "device.syncwarp(0xFF)", block=32)
for name, outside, beyond in (
    ("shfl_sync", "20", "n[0] + 32"),
    ("shfl_up_sync", "n[0] + 1", "n[0] - 1"),
    ("shfl_down_sync", "n[0] + 1", "n[0] + 32"),
    ("shfl_xor_sync", "n[0] + 16", "n[0] + 99"),
):
    low = "0xFFFF" if name != "shfl_up_sync" else "0xFFFF0000"
    half = "device.lane_id < 16" if name != "shfl_up_sync" else "device.lane_id >= 16"
    in_kernel(
        f"`{name}` reads a lane of its mask.",
        How.CHECKED,
        f"if {half}:\n    x[0] = device.{name}({low}, x[0], {outside})",
        block=32,
    )
    in_kernel(
        f"The number that `{name}` gets is 0 to 31.", How.CHECKED, f"x[0] = device.{name}(-1, x[0], {beyond})", block=32
    )
    rule(
        f"The value of `{name}` has at most 8 bytes (up to 16 are an extension).",
        How.COMPILING,
        LARGE
        + f"@device.kernel\ndef k(x):\n    v = device.{name}(-1, Large(1.0, 2.0, 3.0), 1)\n\nrun(k, x, block=32)\n",
    )

section("Numeric Intrinsics")
for name in ("popc", "brev", "clz", "ffs"):
    in_kernel(f"`{name}` is of integers.", How.COMPILING, f"x[0] = device.{name}(x[1])")
in_kernel("`cbrt` is of floats.", How.COMPILING, "x[0] = device.cbrt(n[1])")
in_kernel("`fma` is of floats.", How.COMPILING, "x[0] = device.fma(n[1], n[2], n[3])")
