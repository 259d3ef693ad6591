"""Messages: what a person is told whose program cannot be compiled, and that nothing else is ever told.

The golden texts are programs with the messages in them (`refusals`), for a human to judge. Columns, and with them the carets, are
compared on the versions of Python on which they were written; the rest on all.
"""

from __future__ import annotations

import array
import ast
import functools
import importlib
import inspect
import linecache
import pickle
import re
import signal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import golden_pages
import ir_programs
import numpy as np
import pytest
import refusals
from conftest import long
from generated_programs import TYPES, mutated, program
from golden_pages import Golden
from ir_helpers import define, job
from processes import python

import cuda_device as device
from cuda_device import ArrayType, compiler
from cuda_device.errors import NOWHERE, Call, CompilerBug, Location
from cuda_device.infer import remedies
from cuda_device.library import NAMES

LOOK = "test_errors/the_look_of_the_source"
HOST_PAGE = "test_errors/on_the_host"
LAUNCH_PAGE = "test_errors/at_launch"
PAGES = sorted(f"test_errors/{path.stem}" for path in (golden_pages.GOLDEN / "test_errors").glob("*.txt"))
PROGRAMS = {
    name: program
    for page in PAGES
    if page not in (HOST_PAGE, LAUNCH_PAGE)
    for name, program in refusals.programs(page).items()
}
CPU = device.cpu_stream()
PACKAGE = Path(compiler.__file__).parent


TYPES_BY_NAME = {name: getattr(device, name) for name in ("ArrayType", "float32", "float32x4")}


def argument(text: str) -> Any:
    """An argument of `device.compile`: `float32`, `uint8[2]`, `readonly float32[1]`, `strided float32[2]`."""
    written = re.fullmatch(r"(readonly |strided )?(\w+)\[(\d)\]", text)
    if not written:
        return eval(text, TYPES_BY_NAME)
    word, dtype, ndim = written.groups()
    return ArrayType(dtype, int(ndim), "strided" if word == "strided " else "C", readonly=word == "readonly ")


def compile_it(kernel: Any, types: Any, on_cpu: bool = False, until: str = "llvm") -> compiler.Work:
    """Compiles a kernel up to LLVM IR, which is where the last mistakes are found."""
    arguments = [argument(text.strip()) for text in types.split(";")] if isinstance(types, str) else types
    return compiler.run(job(kernel, *arguments, on_cpu=on_cpu), until)


@functools.cache
def error_of(name: str, on_cpu: bool = False) -> device.CompileError:
    """The error of one of the bad programs."""
    program = PROGRAMS[name]
    with pytest.raises(device.CompileError) as caught:
        compile_it(define(program.source, file=f"{name}.py"), program.types, on_cpu)
    return caught.value


def without_columns(text: str) -> str:
    """The text without what positions within a line say; versions of Python differ in them."""
    return re.sub(r"(\.py:\d+):\d+", r"\1", re.sub(r"^#\s*\^+", "#", text, flags=re.M))


def check_message(name: str) -> None:
    """What every message has."""
    source, error = PROGRAMS[name].source, error_of(name)
    lines = source.splitlines()
    assert isinstance(error, device.Error)
    # A reason in one line that is no novel.
    assert error.reason == error.args[0] == error.reason.strip()
    assert "\n" not in error.reason
    assert 10 <= len(error.reason) <= 250
    assert not error.reason.endswith(".")
    # A place in the source.
    assert 1 <= error.location.line <= len(lines)
    assert error.location.function
    shown = str(error).splitlines()
    assert shown[0] == error.reason
    assert re.fullmatch(r"  at \w+\.py:\d+(:\d+)?, in .+", shown[1])
    assert shown[2].endswith(lines[error.location.line - 1].rstrip())
    assert f" {error.location.line} | " in shown[2]
    # A caret under something, if the column is known.
    if error.location.column >= 0:
        assert re.fullmatch(r"\s*\^+", shown[3])
        marked = "".join(c for c, mark in zip(shown[2], shown[3], strict=False) if mark == "^")
        assert marked.strip()
        assert marked == marked.strip()
    # The way there, the innermost call first; a remedy last.
    calls = [line for line in shown if line.startswith("  in ")]
    assert calls if error.chain else not calls
    if not any(line.startswith("  …") for line in shown):
        assert [line.split("(")[0].removeprefix("  in ") for line in calls] == [call.function for call in error.chain]
    for line in calls[:-1]:
        assert re.fullmatch(r"  in .+\(.*\), called from \w+\.py:\d+(:\d+)?", line)
    assert re.fullmatch(r"  in .+\(.*\)", calls[-1])
    assert error.help and error.help == error.help.strip()
    assert shown[-1] == f"  help: {error.help}"
    # Nothing too long, nothing that only this compiler's authors understand.
    assert len(shown) <= 20
    assert max(len(line) for line in shown if line not in (shown[2], shown[3:4])) <= 300
    internal = r"intrinsic| py\.|specialisation|0x7f|<function|<class|object at|Known\(|None:|cuda_device\."
    assert not re.search(internal, "\n".join([error.reason, error.help, *calls]))
    assert not re.search(r"\ba [aeiou]", error.reason)
    # No exception of ours stands behind it: Python would print it first, "During handling of the above exception …".
    if "RuntimeError" in source or "a == b" in source:  # what the user's own code raised
        assert error.__cause__ is not None
    else:
        assert error.__cause__ is None
        assert error.__context__ is None or error.__suppress_context__
    # It can be sent to another process.
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.location, copy.help, copy.chain) == (error.location, error.help, error.chain)
    # It is the same on the CPU.
    assert str(error_of(name, on_cpu=True)) == str(error)


NEEDS = {"method_without_arguments": "random"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(NEEDS[name]) if name in NEEDS else ()) for name in PROGRAMS]
)
def test_message(name: str, golden: Golden, update_golden: bool) -> None:
    """To the letter where it is recorded so; other releases of Python may have other columns."""
    check_message(name)
    program = PROGRAMS[name]
    text = refusals.text_of(program, error_of(name), whole=program.page == LOOK)
    if golden_pages.RELEASE in golden_pages.RECORDED or update_golden:
        golden(program.head, text, program.page)
    else:
        assert without_columns(text) == without_columns(golden_pages.text_of(program.page, program.head))


def test_programs_have_names_of_their_own() -> None:
    assert len(PROGRAMS) == sum(len(refusals.programs(page)) for page in PAGES if page not in (HOST_PAGE, LAUNCH_PAGE))


def test_errors_without_a_place_can_be_sent_too() -> None:
    for kind in (device.Error, device.CompileError, device.LaunchError, device.KernelError, device.DeviceOnlyError):
        assert str(pickle.loads(pickle.dumps(kind("what is wrong")))) == "what is wrong"


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("tid(1)", "write device.tid, or import it: from cuda_device import tid"),
        ("threadIdx.x", "write device.thread_idx, or import it"),
        ("sqrt(x[0])", "write math.sqrt"),
        ("array", "define it, or import it"),
        ("device.tid.x", "write tid(1), tid(2) or tid(3); the position in the block is thread_idx.x"),
    ],
)
def test_names_that_newcomers_write(written: str, advice: str) -> None:
    with pytest.raises(device.CompileError) as caught:
        compile_it(define(f"@device.kernel\ndef k(x): x[0] = {written}"), "float32[1]")
    assert caught.value.help.startswith(advice)


def test_a_kernel_is_no_static_method() -> None:
    for kind in (staticmethod, classmethod):
        with pytest.raises(TypeError, match="write @staticmethod above @kernel"):
            device.kernel(kind(_plain))


def test_the_chain_has_the_types_of_arguments() -> None:
    error = error_of("error_in_a_chain_of_calls")
    assert [call.function for call in error.chain] == ["innermost", "middle", "outermost", "k"]
    assert error.chain[0].arguments == "value: float32, table: array<uint8, 2, C>"
    assert [call.location.line for call in error.chain] == [5, 9, 14, 0]
    assert error.chain[-1].location == NOWHERE
    assert str(error.chain[-1]).startswith("in k(x: array<float32, 1, C>, table: array<uint8, 2, C>")
    assert error.location.function == "innermost"


def test_the_caret_counts_characters_not_bytes() -> None:
    shown = str(error_of("letters_of_other_alphabets")).splitlines()
    assert shown[3].index("^") == shown[2].index("größe[1]")


def test_a_caret_stands_right_behind_tabs() -> None:
    shown = str(error_of("tabs")).splitlines()
    assert shown[3].expandtabs().index("^") == shown[2].expandtabs().index("weight")


def test_a_mistake_that_is_never_reached_is_none() -> None:
    source = """
        @device.kernel
        def k(x, n):
            if n is None:
                x[0] = weight
            if False:
                import os
            x[0] = 1
            return
            x[0] = [1, 2, weight]
    """
    compile_it(define(source), "float32[1]; int")


def test_the_first_mistake_of_the_text_is_told() -> None:
    with pytest.raises(device.CompileError, match="'a'"):
        compile_it(define("@device.kernel\ndef k(x):\n    x[0] = a\n    x[1] = b"), "float32[1]")


def test_after_a_mistake_the_next_program_compiles() -> None:
    scope = define("k = globals()\n@device.kernel\ndef kernel(x): x[0] = weight")
    with pytest.raises(device.CompileError, match="weight"):
        compile_it(scope["kernel"], "float32[1]")
    scope["weight"] = 3
    compile_it(scope["kernel"], "float32[1]")


# Where there is no source


NO_SOURCE = "@device.kernel\ndef k(x):\n    y = 1\n    x[0] = y + weight\n"


def test_without_source_the_line_and_the_function_are_told() -> None:
    scope: dict[str, Any] = {"device": device}
    exec(compile(NO_SOURCE, "<string>", "exec"), scope)
    with pytest.raises(device.CompileError) as caught:
        compile_it(scope["k"], "float32[1]")
    lines = str(caught.value).splitlines()
    assert lines[:2] == ["the name 'weight' is not defined", "  at <string>:4:16, in k"]
    assert lines[2:] == ["  in k(x: array<float32, 1, C>)", f"  help: {caught.value.help}"]


def test_without_lines_the_offset_in_the_bytecode_is_told() -> None:
    kernel = define(NO_SOURCE)
    function = kernel.underlying
    function.__code__ = function.__code__.replace(co_linetable=b"", co_filename="frozen.py")
    with pytest.raises(device.CompileError) as caught:
        compile_it(kernel, "float32[1]")
    assert re.fullmatch(r"  at frozen\.py, bytecode offset \d+ of k", str(caught.value).splitlines()[1])


def test_a_program_typed_into_python_is_compiled_and_told_of() -> None:
    """No source at all: what is on standard input is in no file."""
    source = f"""
        import cuda_device as device
        {textwrap.indent(NO_SOURCE, " " * 8).strip()}
        try:
            device.compile(k, device.ArrayType(device.float32, 1), output="ptx")
        except device.CompileError as error:
            print(error)
        weight = 2
        print(len(device.compile(k, device.ArrayType(device.float32, 1), output="ptx").code) > 100)
    """
    lines = python("-", input=textwrap.dedent(source)).stdout.splitlines()
    assert lines[0] == "the name 'weight' is not defined"
    assert lines[1].startswith("  at <stdin>:")
    assert lines[-1] == "True"


def test_an_uncaught_error_ends_with_the_message(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    source = "import cuda_device as device, numpy as np\n\n" + NO_SOURCE
    path.write_text(
        source + "\ndevice.launch(k, np.zeros(1, np.float32), grid=1, block=1, stream=device.cpu_stream())\n"
    )
    done = python(path, status=1)
    lines = done.stderr.splitlines()
    assert "During handling" not in done.stderr
    assert "direct cause" not in done.stderr
    at = next(i for i, line in enumerate(lines) if "CompileError: the name 'weight' is not defined" in line)
    assert [line.strip().split(",")[0].split(" | ")[-1].strip() for line in lines[at + 1 : at + 3]] == [
        f"at {path}:6:16", "x[0] = y + weight",
    ]  # fmt: skip


# The parts


def test_a_location_is_written_as_editors_read_it() -> None:
    assert str(Location("a.py", 3, column=4)) == "a.py:3:5"
    assert str(Location("a.py", 3)) == "a.py:3"
    assert str(Location("a.py", 0, function="f", offset=12)) == "a.py, bytecode offset 12 of f"


@pytest.mark.parametrize(
    ("line", "start", "stop", "expected"),
    [
        ("x = abc + 1", 4, 7, "    ^^^"),
        ("x = abc", 4, 99, "    ^^^"),
        ("x = abc", 4, -1, "    ^^^"),
        ("x = ä + b", 4, 6, "    ^"),
        ("\tx = y", 5, 6, "\t    ^"),
        ("x", 40, 41, None),
    ],
)
def test_excerpts(line: str, start: int, stop: int, expected: str | None, tmp_path: Path) -> None:
    path = tmp_path / "excerpt.py"
    path.write_text(f"\n{line}\n", encoding="utf-8")
    shown = Location(str(path), 2, 2, start, stop).excerpt().splitlines()
    assert shown[0] == f"     2 | {line}"
    if expected is not None:
        assert shown[1] == " " * 9 + expected


def test_an_excerpt_of_what_is_not_there_is_empty(tmp_path: Path) -> None:
    assert Location(str(tmp_path / "missing.py"), 1).excerpt() == ""
    assert NOWHERE.excerpt() == ""
    assert str(device.CompileError("no place")) == "no place"
    assert str(device.CompileError("no place", help="none")).splitlines() == ["no place", "  help: none"]


def test_long_chains_are_shortened() -> None:
    place = Location("a.py", 1, column=0, function="f")
    chain = [Call(f"f{i}", "x: " + "int" * 100, place) for i in range(200)]
    lines = str(device.CompileError("reason", place, "remedy", chain)).splitlines()
    assert len(lines) < 20
    assert any("f0(" in line for line in lines)
    assert any("f199(" in line for line in lines)


def test_a_bug_of_ours_is_not_the_user_s_error() -> None:
    assert not issubclass(CompilerBug, device.Error)
    assert "report" in str(CompilerBug("broken"))


# Mistakes on the host, found before anything is compiled


@device.kernel
def doubled(x):
    x[0] = x[0] * 2


@device.func
def half(x):
    return x / 2


def _plain(x):
    return x


@pytest.mark.parametrize("code", golden_pages.read(HOST_PAGE))
def test_mistakes_on_the_host(code: str, golden: Golden) -> None:
    with pytest.raises((TypeError, ValueError, device.Error)) as caught:
        eval(code)
    golden(code, f"{caught.type.__name__}: {caught.value}\n", HOST_PAGE)


def launched(
    *arguments: Any, grid: Any = 1, block: Any = 1, stream: Any = CPU, kernel: Any = doubled, **others: Any
) -> Any:
    return lambda: device.launch(kernel, *arguments, grid=grid, block=block, stream=stream, **others)


class Plain:
    def __init__(self, weight: int) -> None:
        self.weight = weight

    @device.kernel
    def method(self, x):  # type: ignore[no-untyped-def]
        x[0] = 1


@device.kernel
def hinted(x: device.ArrayType(device.float64, 1), n: int):  # type: ignore[valid-type, no-untyped-def]
    x[0] = n


NUMBERS = array.array("f", [1])


@pytest.mark.parametrize("code", golden_pages.read(LAUNCH_PAGE))
def test_mistakes_at_a_launch(code: str, golden: Golden) -> None:
    with pytest.raises(device.LaunchError) as caught:
        eval(code)()
    error = caught.value
    assert "\n" not in error.reason and error.help
    assert str(error) == f"{error.reason}\n  help: {error.help}"
    assert pickle.loads(pickle.dumps(error)).help == error.help
    golden(code, re.sub(r" at 0x\w+", "", f"{error}\n"), LAUNCH_PAGE)


# What is nested too deeply for Python's recursion limit


def nested(levels: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


class Named(NamedTuple):
    a: Any


LEVELS = 2_000
DEEP_TUPLE = nested(LEVELS, lambda inner: (inner,), 1)
DEEP_TYPE = nested(LEVELS, lambda inner: tuple[inner], device.float32)  # type: ignore[valid-type]
DEEP_LIST = nested(LEVELS, lambda inner: [inner], 1)


@device.kernel
def takes(x, t):
    x[0] = 1


@device.kernel
def takes_constant(x, t: device.ConstExpr):
    x[0] = 1


@device.kernel
def captures(x):
    x[0] = 1 if DEEP_TUPLE[0] is None else 2


@pytest.mark.parametrize(
    ("kind", "what", "action"),
    [
        (device.LaunchError, "the arguments", launched(np.ones(1), DEEP_TUPLE, kernel=takes)),
        (device.LaunchError, "the arguments", launched(np.ones(1), nested(LEVELS, Named, 1), kernel=takes)),
        (device.LaunchError, "the arguments", launched(np.ones(1), DEEP_TUPLE, kernel=takes_constant)),
        (device.LaunchError, "the arguments", lambda: device.compile(takes, np.ones(1), DEEP_TYPE)),
        (TypeError, "the type", lambda: device.sizeof(DEEP_TYPE)),
        (TypeError, "the type", lambda: device.struct(type("P", (), {"__annotations__": {"a": DEEP_TYPE}}))),
        (device.CompileError, "the value", launched(np.ones(1), kernel=captures)),
        pytest.param(
            device.CompileError,
            "the value",
            lambda: device.compile("def f(t):\n" + " t = (t,)\n" * LEVELS, device.float32, output="ir"),
            marks=pytest.mark.needs("generated"),
        ),
    ],
)
def test_deep_nesting_is_refused(kind: type[Exception], what: str, action: Callable[[], object]) -> None:
    with pytest.raises(kind, match=f"^{what} (is|are) nested too deeply(.|\n)*  help: use an array") as caught:
        action()
    if what == "the value":
        assert caught.value.location.line > 1  # type: ignore[attr-defined]
    x = np.zeros(1)
    launched(x, (1,), kernel=takes)()
    assert x[0] == 1


@pytest.mark.parametrize("wrap", [lambda inner: (inner,), lambda inner: [inner]])
def test_what_is_nested_less_deeply_compiles(wrap: Callable[[Any], Any], stream: Any) -> None:
    constant = nested(100, wrap, 7)

    @device.kernel
    def kernel(x, t):
        u = constant
        x[0], x[1] = len(u), len(t)

    x = stream.array(np.zeros(2))
    stream.launch(kernel, x, nested(100, lambda inner: (inner,), 1), grid=1, block=1)
    assert stream.numpy(x).tolist() == [1, 1]


def test_lists_of_the_host_may_be_nested_deeply(stream: Any) -> None:
    @device.kernel
    def kernel(x):
        x[0] = len(DEEP_LIST)

    x = stream.array(np.zeros(1))
    stream.launch(kernel, x, grid=1, block=1)
    assert stream.numpy(x)[0] == 1


# Nothing but messages: whatever the program


class _Watch:
    """Fails where the compiler takes longer, of a processor's time, than anything that is no hang."""

    seconds = 10

    def __enter__(self) -> None:
        self.old = signal.signal(signal.SIGPROF, self.ring)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.old)

    def ring(self, *_: object) -> None:
        raise AssertionError(f"the compiler has not ended after {self.seconds} s")


def try_to_compile(source: str, types: Any, **names: Any) -> str:
    """Compiles for both targets; the reason if that is refused. Anything but a good message is raised."""
    try:
        kernel = define(source, file="generated.py", **names)
    except Exception:
        return "not Python, or not a kernel"
    with _Watch():
        try:
            for on_cpu in (False, True):
                compile_it(kernel, types, on_cpu)
        except device.CompileError as error:
            assert "\n" not in error.reason
            assert error.help, error.reason
            assert len(str(error).splitlines()) < 30
            return error.reason
    return ""


WORLD = {"TABLE": np.ones((2, 2)), "NAMES": ["a"], "NUMBER": 5}


LATER = [pytest.param(range(i, i + 50), marks=long(i, 500)) for i in range(50, 1000, 50)]


@pytest.mark.parametrize("seeds", [range(50), *LATER], ids=lambda seeds: f"{seeds[0]}")
def test_generated_programs_compile_or_are_refused(seeds: range) -> None:
    compiled = 0
    for seed in seeds:
        try:
            compiled += not try_to_compile(program(seed), TYPES, **WORLD)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{program(seed)}") from error
    assert compiled >= len(seeds) // 4  # else this proves nothing


SOURCES = [
    (
        textwrap.dedent(inspect.getsource(kernel.underlying)).replace(f"def {kernel.underlying.__name__}(", "def k("),
        types,
    )
    for kernel, types in ir_programs.PROGRAMS
    if isinstance(kernel, device.Kernel) and "." not in kernel.underlying.__qualname__
]


@pytest.mark.parametrize("number", range(len(SOURCES)))
def test_damaged_programs_compile_or_are_refused(number: int) -> None:
    source, types = SOURCES[number]
    names = {name: value for name, value in vars(ir_programs).items() if not name.startswith("__")}
    refused = set()
    for seed in range(15):
        damaged = mutated(source, seed)
        try:
            refused.add(try_to_compile(damaged, types, **names))
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{damaged}") from error
    assert len(refused) > 2


ODD_FUNCTIONS = {
    "a deeply nested expression": "    x[0] = " + "(" * 60 + "x[1]" + " + 1)" * 60,
    "a long chain of comparisons": "    x[0] = " + " < ".join(["x[1]"] * 100),
    "many variables": "\n".join(f"    v{i} = x[{i}]" for i in range(700)) + "\n    x[0] = v7",
    "many branches": "    n = 0\n" + "\n".join(f"    if x[{i}] > 0: n += {i}" for i in range(200)) + "\n    x[0] = n",
    "deep ifs": "\n".join("    " * i + f"if x[{i}] > 0:" for i in range(1, 19)) + "\n" + "    " * 19 + "x[0] = 1",
    "deep loops": "\n".join("    " * i + f"for i{i} in range(len(x)):" for i in range(1, 18)) + "\n" + "    " * 18 + "x[0] = 1",
    "a large tuple": "    t = (" + "x[0], " * 150 + ")\n    s = 0\n    for v in t: s += v\n    x[0] = s",
    "nested tuples": "    t = " + "(" * 40 + "x[0]" + ", 1)" * 40 + "\n    x[0] = t" + "[0]" * 40,
    "names that mean something in LLVM": "    define = ret = x[0]\n    i32 = label = define\n    x[0] = i32 + ret",
    "a name of another alphabet": "    größe = x[0]\n    变量 = größe\n    x[0] = 变量",
    "nothing": "    pass",
    "only a docstring": "    'Does nothing.'",
    "everything is unreachable": "    return\n    x[0] = foo",
    "an endless loop": "    while True: pass",
    "an endless loop with a barrier": "    while True: device.syncthreads()",
    "a constant condition": "    while 1:\n        x[0] += 1\n        if 0: break\n        if 1: return",
    "ternaries": "    x[0] = " + "1 if x[0] > 0 else " * 80 + "2",
    "both ways lead to one place": "    v = 0\n    while x[0] > 1 or (True or x[1] < 1):\n        v += x[1]\n        x[2] = v",
    "an expression without effect": "    x[0] == 1\n    x\n    (x, x[0])\n    None",
    "a huge constant": "    x[0] = 0x" + "f" * 5000,
    "a huge float": "    x[0] = 1e308 * 10 - 1e308 * 10",
    "a division by zero": "    x[0] = 1 // 0 + 1 % 0 + 1 / 0 + 1.0 // 0",
    "a shift by too much": "    x[0] = (1 << -1) + (1 << 64) + (1 >> 100000)",
    "not a number": "    v = 0.0\n    while x[0] > 0:\n        v = float('nan') if v == v else math.inf - math.inf\n    x[0] = v",
    "shadowed builtins": "    len = 3\n    range = x[0]\n    x[0] = len + range",
    "chained assignments": "    a = b = c = x[0] = x[1] = 3\n    x[2] = a + b + c",
    "swaps": "    a, b, c = x[0], x[1], x[2]\n    for i in range(len(x)): a, b, c = c, a, b\n    x[0], x[1], x[2] = a, b, c",
}  # fmt: skip


@pytest.mark.parametrize("body", ODD_FUNCTIONS.values(), ids=ODD_FUNCTIONS)
def test_odd_functions_compile_or_are_refused(body: str) -> None:
    try_to_compile(f"@device.kernel\ndef k(x):\n{body}\n", "float32[1]")


WRONG_USES = ("{}.foo", "{}[0]", "{}[0] = 1", "{} + 1", "x[0] = {}", "{} @ {}", "x[{}] = 1", "del {}[0]")


@pytest.mark.parametrize(
    "value",
    ["None", "[1].append", "ValueError('a')", "device.atomic_ref(x, 0)", "x.shape", "len", "print", "iter((1, 2))"],
)
def test_a_wrong_use_of_any_value_is_compiled_or_refused_with_help(value: str) -> None:
    refused = [
        try_to_compile(f"@device.kernel\ndef k(x):\n    {use.format(value, value)}\n", "float32[1]")
        for use in WRONG_USES
    ]
    assert sum(map(bool, refused)) > 4


def test_functions_of_libraries_of_arrays_get_loops(monkeypatch):
    """Such libraries have `from_dlpack`, which the array API standard asks for."""
    for name, members in (("arrays", {"from_dlpack": len}), ("others", {})):
        library = ModuleType(name)
        vars(library).update(members, sin=functools.partial(len))
        library.sin.__module__ = name
        monkeypatch.setitem(sys.modules, name, library)
        assert ("loops over the elements" in remedies.of_call(library.sin)) == (name == "arrays")


# What the modules of plugins and of `device` raise, the host raises.
@pytest.mark.parametrize("module", sorted(name for name in NAMES if ".library." in name))
def test_every_exception_of_the_library_has_a_remedy(module):
    file = importlib.import_module(module).__file__
    nodes = ast.walk(ast.parse(Path(file).read_text()))
    raised = [(node.lineno, node.exc) for node in nodes if isinstance(node, ast.Raise)]
    others = [
        line for line, error in raised if not isinstance(error, ast.Call) or len(error.args + error.keywords) != 2
    ]
    assert [line for line in others if "DeviceOnlyError" not in linecache.getline(file, line)] == []


# The number of positional arguments of each error with a remedy.
REMEDIED = {"LaunchError": 2, "CallError": 2, "OutOfMemory": 2, "CompileError": 3, "UnalignedError": 3}


def test_every_refusal_has_a_remedy():
    without = []
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    for path in (path for path, text in texts.items() if any(f"{name}(" in text for name in REMEDIED)):
        for call in ast.walk(ast.parse(texts[path])):
            needed = REMEDIED.get(getattr(call.func, "id", ""), 0) if isinstance(call, ast.Call) else 0
            if needed and len(call.args) < needed and "help" not in [word.arg for word in call.keywords]:
                without.append(f"{path}:{call.lineno}")
    assert without == []
