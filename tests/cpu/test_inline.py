"""Inlining for the CPU stream, of all functions that may wait for other threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_pages
import numpy as np
import pytest
from ir_helpers import checked, define, operations, read, text_of, written

import cuda_device as device
from cuda_device.cpu import cpu_passes

CASES = golden_pages.texts_in(Path(__file__).with_name("inlined.txt"))


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_inline(text: str) -> None:
    """A text is IR and what it becomes, behind an arrow; without one it stays as it is."""
    before, arrow, after = text.partition("-->\n")
    module = checked(cpu_passes.inline_suspending(read(before)))
    assert text_of(module) == written(after if arrow else before)
    callees = [module[op.attributes["callee"]] for op in operations(module, "call")]
    assert not any(effect.name == "SUSPENDS" for callee in callees for effect in callee.effects)


def test_functions_with_loops_that_the_kernel_calls_once_are_inlined() -> None:
    text = """
        func @k -> none kernel device {
        ^0(%n: int32):
          %1: int32 = call {callee="once"} %n
          %2: int32 = call {callee="twice"} %1
          %3: int32 = call {callee="twice"} %2
          %4: int32 = call {callee="straight"} %3
          return
        }
        """
    loop = """
        func @NAME -> int32 device {
        ^0(%a: int32):
          %one: int32 = const {value=1}
          jump ^1(%a)
        ^1(%b: int32):
          %less: int32 = sub %b %one
          %more: bool = compare {op=">"} %less %one
          branch %more ^1(%less) ^2()
        ^2():
          return %less
        }
        """
    straight = """
        func @straight -> int32 device {
        ^0(%a: int32):
          return %a
        }
        """
    module = cpu_passes.inline_loops(
        read(text + loop.replace("NAME", "once") + loop.replace("NAME", "twice") + straight)
    )
    assert [function.name for function in checked(module).functions] == ["k", "twice", "straight"]


@pytest.mark.parametrize(
    "callees",
    [
        "func @a -> none device {\n^0():\n  barrier {place=1}\n  %1: none = call {callee='a'}\n  return\n}",
        (
            "func @a -> none device {\n^0():\n  %1: none = call {callee='b'}\n  return\n}\n"
            "func @b -> none device {\n^0():\n  barrier {place=1}\n  %1: none = call {callee='a'}\n  return\n}"
        ),
    ],
    ids=["direct", "mutual"],
)
def test_recursion_that_waits_is_refused(callees: str) -> None:
    kernel = "func @k -> none kernel device {\n^0():\n  %1: none = call {callee='a'}\n  return\n}\n"
    module = read((kernel + callees + "\n").replace("'", '"'))
    with pytest.raises(device.CompileError, match="calls itself") as caught:
        cpu_passes.inline_suspending(module)
    assert caught.value.help


def test_recursion_that_waits_is_refused_with_its_place() -> None:
    kernel = define(
        """
        def down(n):
            device.syncthreads()
            return down(n - 1) if n > 0 else n

        @device.kernel
        def k(x):
            x[0] = down(x[0])
        """
    )
    with pytest.raises(device.CompileError, match="down calls itself") as caught:
        device.launch(kernel, np.zeros(1, np.int32), grid=1, block=1, stream=device.cpu_stream())
    assert caught.value.location.line == 3


def test_inlined_code_runs_as_the_call_would(stream: Any) -> None:
    """Two calls of a function that waits, in a branch that all threads take, with results that are used."""
    kernel = define(
        """
        def turn(shared, i, n, by):
            device.syncthreads()
            value = shared[(i + by) % n]
            device.syncthreads()
            if by > 1:
                return value * 10
            return value

        @device.kernel
        def k(x, by):
            shared = device.shared_array(32, device.int32)
            i = device.thread_idx.x
            shared[i] = x[i]
            if by > 0:
                a = turn(shared, i, 32, 1)
                x[i] = a + turn(shared, i, 32, by)
        """
    )
    x = stream.array(np.arange(32, dtype=np.int32))
    stream.launch(kernel, x, 3, grid=1, block=32)
    i = np.arange(32)
    assert stream.numpy(x).tolist() == ((i + 1) % 32 + (i + 3) % 32 * 10).tolist()
