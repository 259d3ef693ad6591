"""Tests in another process whether LLVM can compile a declared intrinsic, because a wrong one may end the process.

    refusal("float @llvm.nvvm.saturate.f(float)", sm_90)    ""
    refusal("i32 @llvm.nvvm.barrier0(i32)", sm_90)          "LLVM cannot compile it with these types for sm_90"

LLVM ends the process with an assertion if it has replaced an intrinsic and the types are not those of the old one, and if the
target has no instruction for it. The results are cached on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys

from cuda_device.cache import disk
from cuda_device.errors import CompilerBug
from cuda_device.types.architectures import Architecture, parse


def refusal(declared: str, architecture: Architecture) -> str:
    """Why there is no such intrinsic, in words; empty if there is one."""

    def tried() -> bytes:
        path = os.pathsep.join(filter(None, sys.path))
        given = [sys.executable, "-m", __name__, declared, architecture.name]
        made = subprocess.run(given, check=False, capture_output=True, env=os.environ | {"PYTHONPATH": path})
        if made.returncode == _UNKNOWN:
            return b"LLVM has none of this name with parameters and a result of these types"
        died = made.returncode and made.stdout.startswith(_BEGUN)
        return f"LLVM cannot compile it with these types for {architecture}".encode() if died else b""

    if not sys.executable or getattr(sys, "frozen", False):  # there is no other process of Python to be had
        return ""
    return disk.loaded(f"intrinsic {declared} {architecture}", tried, bytes.decode)


_UNKNOWN = 3
"""The status of the other process where LLVM does not know it."""
_BEGUN = b"begun"
"""What it says before it asks LLVM: without that, its end says nothing about LLVM."""


def _try(declared: str, architecture: Architecture) -> int:
    """What the other process does; its status."""
    from cuda_device.codegen.gpu import nvptx

    result, _, rest = declared.partition(" ")
    name, _, types = rest.removesuffix(")").partition("(")
    values = [f"{type} %p{i}" for i, type in enumerate(filter(None, types.split(", ")))]
    call = f"call {result} {name}({', '.join(values)})"
    body = f"{call}\nret void" if result == "void" else f"%r = {call}\nret {result} %r"
    os.write(1, _BEGUN)
    try:
        module = nvptx.parse(f"declare {declared}\ndefine {result} @f({', '.join(values)}) {{\n{body}\n}}\n")
        return _UNKNOWN * (".extern" in nvptx.emit(module, architecture).text)
    except CompilerBug:
        return _UNKNOWN


if __name__ == "__main__":
    sys.exit(_try(sys.argv[1], parse(sys.argv[2])))
