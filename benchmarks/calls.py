"""How much of the compiler one line of a kernel runs: calls of functions, and changes of file, from bytecode to PTX.

    python benchmarks/calls.py            calls, files and changes of file of `i = tid(1); x[i] += 1`, in a warm process
    python benchmarks/calls.py --top 30   and the functions that are called most

Methods of data classes (`__init__`, `__eq__`, `__hash__`) do not count, because their code is in no file. They are generated
after a few uses, so another kernel is compiled several times first, each time as a new function: bytecode is read once.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import pathlib
import sys
from types import FrameType, FunctionType
from typing import Any

import cuda_device as device
from cuda_device import ArrayType, float32

PACKAGE = str(pathlib.Path(device.__file__).parent)


def warm(x: ArrayType(float32, 1)) -> None:  # type: ignore[valid-type]
    """The kernel that is compiled first."""
    i = device.tid(1)
    x[i] += 2


def copied(function: Any, line: int) -> FunctionType:
    """A copy of a function with another code object, which begins at `line`."""
    copy = FunctionType(function.__code__.replace(co_firstlineno=line), function.__globals__)
    copy.__annotations__, copy.__module__ = function.__annotations__, function.__module__
    return copy


@device.kernel
def increment(x: ArrayType(float32, 1)) -> None:  # type: ignore[valid-type]
    """The kernel whose calls are counted."""
    i = device.tid(1)
    x[i] += 1


def calls_of(kernel: Any) -> list[tuple[str, str]]:
    """The functions of the package that compiling a kernel calls, in order: file and name."""
    seen: list[tuple[str, str]] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            seen.append((code.co_filename.removeprefix(PACKAGE + "/"), code.co_qualname))

    sys.setprofile(record)
    try:
        device.compile(kernel, output="ptx")
    finally:
        sys.setprofile(None)
    return seen


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=0, help="show the functions that are called most")
    wanted = parser.parse_args()
    for line in range(1, 7):
        calls_of(device.kernel(copied(warm, line)))
    seen = calls_of(increment)
    changes = sum(a[0] != b[0] for a, b in itertools.pairwise(seen))
    print(f"{len(seen)} calls in {len({file for file, _ in seen})} files, {changes} changes of file")
    for (file, name), count in collections.Counter(seen).most_common(wanted.top):
        print(f"{count:6} {file}: {name}")


if __name__ == "__main__":
    main()
