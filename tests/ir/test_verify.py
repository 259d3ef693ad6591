"""The verifier: an example of bad IR for each rule, and good IR."""

from __future__ import annotations

import re
from typing import Any

import pytest
from golden_pages import Golden
from ir_helpers import job, read
from ir_programs import IDS, PROGRAMS

import cuda_device as device
from cuda_device import compiler
from cuda_device.errors import CompilerBug
from cuda_device.ir.verify import verify, violations_in

GOOD_PYTHON = """
func @f -> none python {
^0(%n):
  %1 = py.const {value=1}
  jump ^1(%n, %1)
^1(%m, %i):
  %2 = py.binary {op="+"} %m %i
  %3 = py.truth %2
  branch %3 ^1(%2, %i) ^2(%m)
^2(%r):
  return %r
}
"""
GOOD_TYPED = """
func @f -> float32 typed {
^0(%x: array<float32, 1, C>, %n: int):
  %1: float32 = py.getitem %x %n
  %2: bool = py.compare {op="<"} %1 %1
  branch %2 ^1(%1) ^2()
^1(%y: float32):
  %3: float32 = call {callee="g"} %y
  return %3
^2():
  return %1
}
func @g -> float32 typed {
^0(%x: float32):
  return %x
}
"""
GOOD_DEVICE = """
func @f -> float32 device {
^0(%x: ref<global, float32>, %n: int64, %c: bool):
  %1: ref<global, float32> = element %x %n
  %2: float32 = load %1
  %3: float32 = add %2 %2
  %4: bool = compare {op="<"} %2 %3
  %5: float32 = select %4 %2 %3
  store %1 %5
  branch %c ^1(%5) ^2()
^1(%y: float32):
  %6: float32 = math {function="sqrt"} %y
  return %6
^2():
  %7: float32 = call {callee="g"} %3
  return %7
}
func @g -> float32 device {
^0(%x: float32):
  return %x
}
"""


@pytest.mark.parametrize("text", [GOOD_PYTHON, GOOD_TYPED, GOOD_DEVICE], ids=["python", "typed", "device"])
def test_good_ir_passes(text: str) -> None:
    verify(read(text, verified=False))


@pytest.mark.parametrize(("program", "types"), PROGRAMS, ids=IDS)
@pytest.mark.parametrize("on_cpu", [False, pytest.param(True, marks=pytest.mark.needs("cpu"))], ids=["gpu", "cpu"])
def test_programs_pass_at_every_stage(program: Any, types: tuple[Any, ...], on_cpu: bool) -> None:
    work = compiler.run(job(program, *types, on_cpu=on_cpu), "inlined" if on_cpu else "device")
    for module in work.artifacts.values():
        verify(module)


def refused(module: Any) -> list[str]:
    """The lines of the verifier's report."""
    with pytest.raises(CompilerBug) as caught:
        verify(module)
    assert not isinstance(caught.value, device.Error)
    return str(caught.value).splitlines()


def _changed(text: str, old: str, new: str) -> Any:
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    return read(text.replace(old, new), verified=False)


# From text: (good IR, a part of it, its replacement, the complaint).
BAD: list[tuple[str, str, str, str]] = [
    # 1. Structure
    (GOOD_DEVICE, "add %2 %2", "add %2", "add has 2 operands, not 1"),
    (GOOD_DEVICE, "add %2 %2", "add %2 %2 %2", "add has 2 operands, not 3"),
    (GOOD_DEVICE, "%3: float32 = add", "%3: float32, %8: float32 = add", "add has 1 results, not 2"),
    (GOOD_DEVICE, "  store %1 %5", "  %8: float32 = store %1 %5", "store has 0 results, not 1"),
    (GOOD_DEVICE, "^1(%5) ^2()", "^1(%5)", "branch has 2 successors, not 1"),
    (GOOD_DEVICE, "add %2 %2", "add %2 %2 ^2()", "add has 0 successors, not 1"),
    (GOOD_DEVICE, "add %2 %2", 'add {op="+"} %2 %2', "add has no attribute 'op'"),
    (GOOD_DEVICE, 'compare {op="<"}', "compare", "compare lacks the attribute 'op'"),
    (GOOD_DEVICE, 'math {function="sqrt"}', "math", "math lacks the attribute 'function'"),
    (GOOD_DEVICE, "  return %6\n", "", "the block does not end with a terminator"),
    (GOOD_DEVICE, "  store %1 %5", "  return %5", "a terminator within the block"),
    # 2. Level
    (GOOD_TYPED, "%2: bool = py.compare", "%2: bool = compare", "compare is not legal at this level"),
    (GOOD_DEVICE, "%2: float32 = load %1", "%2: float32 = py.getitem %1 %n", "py.getitem is not legal at this level"),
    (GOOD_PYTHON, "%1 = py.const {value=1}", "%1 = const {value=1}", "const is not legal at this level"),
    (GOOD_TYPED, "%1: float32 = py.getitem", "%1 = py.getitem", "a value without a type"),
    (GOOD_PYTHON, "%1 = py.const {value=1}", "%1: int = py.const {value=1}", "a value with a type"),
    (GOOD_PYTHON, "^1(%m, %i)", "^1(%m: int, %i)", "a value with a type"),
    # 3. Single assignment
    (GOOD_DEVICE, "%3: float32 = add", "%2: float32 = add", "a value is defined twice"),
    (GOOD_DEVICE, "^1(%y: float32)", "^1(%2: float32)", "a value is defined twice"),
    (GOOD_TYPED, "^0(%x: array<float32, 1, C>, %n: int)", "^0(%n: int, %n: int)", "a value is defined twice"),
    # 4. Dominance
    (GOOD_DEVICE, "add %2 %2", "add %2 %6", "a value is used before it is defined"),
    (GOOD_DEVICE, "add %2 %2", "add %2 %3", "a value is used before it is defined"),
    (GOOD_DEVICE, 'call {callee="g"} %3', 'call {callee="g"} %y', "a value is used before it is defined"),
    (GOOD_DEVICE, "^1(%5) ^2()", "^1(%y) ^2()", "a value is used before it is defined"),
    (GOOD_DEVICE, "return %7", "return %77", "a value is used before it is defined"),
    (GOOD_PYTHON, "^2(%m)", "^2(%r)", "a value is used before it is defined"),
    # 5. Edges
    (GOOD_DEVICE, "^1(%5) ^2()", "^1() ^2()", "0 arguments for 1 parameters"),
    (GOOD_DEVICE, "^1(%5) ^2()", "^1(%5) ^2(%5)", "1 arguments for 0 parameters"),
    (GOOD_DEVICE, "^1(%5) ^2()", "^1(%n) ^2()", "an argument of int64 for a parameter of float32"),
    (GOOD_PYTHON, "^1(%2, %i) ^2(%m)", "^0(%2) ^2(%m)", "a jump to the entry block"),
    (GOOD_DEVICE, "branch %c", "branch %n", "a branch on int64"),
    (GOOD_TYPED, "branch %2", "branch %n", "a branch on int"),
    # 6. Types
    (GOOD_DEVICE, "add %2 %2", "add %2 %n", "add cannot take (float32, int64) to float32"),
    (GOOD_DEVICE, "%3: float32 = add", "%3: int64 = add", "add cannot take (float32, float32) to int64"),
    (GOOD_DEVICE, "%3: float32 = add %2 %2", "%3: ref<global, float32> = add %1 %1", "add cannot take"),
    (GOOD_DEVICE, "%3: float32 = add", "%3: float32 = quotient", "quotient cannot take"),
    (GOOD_DEVICE, "%3: float32 = add", "%3: float32 = xor", "xor cannot take"),
    (GOOD_DEVICE, "%3: float32 = add", "%3: float32 = shl", "shl cannot take"),
    (GOOD_DEVICE, "%3: float32 = add %2 %2", "%3: int64 = div %n %n", "div cannot take (int64, int64) to int64"),
    (GOOD_DEVICE, "%3: float32 = add %2 %2", "%3: int64 = neg %n", "neg cannot take (int64) to int64"),
    (GOOD_DEVICE, 'compare {op="<"} %2 %3', 'compare {op="<"} %2 %n', "compare cannot take (float32, int64) to bool"),
    (GOOD_DEVICE, "%4: bool = compare", "%4: int32 = compare", "compare cannot take (float32, float32) to int32"),
    (GOOD_DEVICE, "select %4 %2 %3", "select %n %2 %3", "select cannot take (int64, float32, float32) to float32"),
    (GOOD_DEVICE, "select %4 %2 %3", "select %4 %2 %n", "select cannot take (bool, float32, int64) to float32"),
    (GOOD_DEVICE, 'math {function="sqrt"} %y', 'math {function="sqrt"} %n', "math cannot take (int64) to float32"),
    (GOOD_DEVICE, "%2: float32 = load", "%2: float64 = load", "load cannot take (ref<global, float32>) to float64"),
    (GOOD_DEVICE, "load %1", "load %n", "load cannot take (int64) to float32"),
    (GOOD_DEVICE, "store %1 %5", "store %1 %n", "store cannot take (ref<global, float32>, int64) to"),
    (GOOD_DEVICE, "store %1 %5", "store %n %5", "store cannot take (int64, float32) to"),
    (GOOD_DEVICE, "element %x %n", "element %n %n", "element cannot take (int64, int64) to ref<global, float32>"),
    (GOOD_DEVICE, "element %x %n", "element %x %c", "element cannot take (ref<global, float32>, bool) to"),
    (GOOD_DEVICE, "element %x %n", "bytes %n %n", "bytes cannot take (int64, int64) to ref<global, float32>"),
    (GOOD_DEVICE, "%3: float32 = add %2 %2", "%3: float32 = convert %x", "convert cannot take"),
    # 7. Calls
    (GOOD_DEVICE, '{callee="g"} %3', '{callee="h"} %3', "no function is called h"),
    (GOOD_DEVICE, '{callee="g"} %3', '{callee="g"}', "the arguments are not those of g"),
    (GOOD_DEVICE, '{callee="g"} %3', '{callee="g"} %n', "the arguments are not those of g"),
    (GOOD_DEVICE, "%7: float32 = call", "%7: int64 = call", "the result is not that of g"),
    (GOOD_TYPED, '{callee="g"} %y', '{callee="g"} %n', "the arguments are not those of g"),
    (GOOD_DEVICE, "return %6", "return", "returns nothing, not float32"),
    (GOOD_DEVICE, "return %6", "return %n", "returns int64, not float32"),
    (GOOD_TYPED, "return %1", "return %1 %1", "returns float32, float32, not float32"),
    (GOOD_TYPED, "func @f -> float32", "func @f -> none", "returns float32, not none"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new", "complaint"), BAD, ids=[f"{c}: {n.strip()}" for _, _, n, c in BAD])
def test_bad_ir_is_refused(text: str, old: str, new: str, complaint: str) -> None:
    lines = refused(_changed(text, old, new))
    assert lines[0] == "the IR of f is wrong"
    marks = [line for line in lines if line.startswith("  ^^^ ")]
    assert any(complaint in mark for mark in marks), marks
    if "=" in new and not re.search(r"[@^]", new) and "type" not in complaint:  # it stands below its operation
        at = next(i for i, line in enumerate(lines) if complaint in line)
        culprit = next(line for line in text.splitlines() if old in line).strip().split(" = ")
        code = (new.split(" = ")[-1] if " = " in new else culprit[-1].replace(old, new)).split()[0]
        above = next(line for line in reversed(lines[:at]) if not line.startswith("  ^^^"))
        assert f" {code} " in f"{above} "


def test_the_report_shows_the_function_with_the_errors_in_it(golden: Golden) -> None:
    text = (
        GOOD_DEVICE.replace("add %2 %2", "add %2 %n")
        .replace("^1(%5) ^2()", "^1() ^2(%5)")
        .replace("return %6", "return")
    )
    golden("report", "\n".join(refused(read(text, verified=False))) + "\n")


def test_only_the_first_bad_function_is_reported() -> None:
    text = GOOD_DEVICE.replace("add %2 %2", "add %2 %n") + GOOD_PYTHON.replace("return %r", "return %n")
    lines = refused(read(text, verified=False))
    assert not any("python" in line for line in lines)


# What text cannot say


def _complaints(function: Any) -> list[str]:
    return [text for _, text in violations_in(function)]


def _without_end(function: Any) -> None:
    function.blocks[-1].ops.clear()


def _jumps_out(function: Any) -> None:
    function.blocks[0].terminator.successors[0].block = read(GOOD_DEVICE).main.blocks[0]


def _returns_what_is_not_there(function: Any) -> None:
    function.blocks[-1].terminator.operands[:] = read(GOOD_DEVICE).main.params[:1]


@pytest.mark.parametrize(
    ("change", "complaint", "shown"),
    [
        (lambda function: function.blocks.clear(), "the function has no blocks", ""),
        (_without_end, "the block does not end with a terminator", ""),
        (_jumps_out, "a jump out of the function", "^?"),
        (_returns_what_is_not_there, "a value is used before it is defined", "%?"),
    ],
)
def test_what_text_cannot_say_is_refused(change: Any, complaint: str, shown: str) -> None:
    module = read("func @f -> int32 device {\n^0(%n: int32):\n  jump ^1()\n^1():\n  return %n\n}")
    change(module.main)
    assert _complaints(module.main)[0] == complaint
    assert shown in "\n".join(refused(module))


def test_a_value_of_a_loop_does_not_dominate_its_beginning() -> None:
    module = read(
        """
        func @f -> none device {
        ^0(%c: bool):
          jump ^1()
        ^1():
          %1: bool = xor %c %2
          %2: bool = xor %c %c
          branch %2 ^1() ^2()
        ^2():
          return
        }
        """,
        verified=False,
    )
    assert _complaints(module.main) == ["a value is used before it is defined"]


def test_unreachable_blocks_do_not_confuse_dominance() -> None:
    read(
        """
        func @f -> int32 device {
        ^0(%n: int32):
          %1: int32 = add %n %n
          jump ^2()
        ^1():
          jump ^2()
        ^2():
          return %1
        }
        """
    )


def test_a_function_without_a_module_may_call_anything() -> None:
    assert not list(violations_in(read(GOOD_DEVICE).main))


@pytest.mark.parametrize("result", ["none", "tuple<>"])
def test_nothing_is_returned_where_nothing_is_promised(result: str) -> None:
    read(f"func @f -> {result} device {{\n^0():\n  return\n}}\n")
