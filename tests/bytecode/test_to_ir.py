"""Bytecode → IR of the python level: what it means (by running it), and what must hold of it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from decoding import programs
from ir_helpers import checked, define, operations, underlying
from ir_interpreter import ROWS, Unsupported, run, run_steps
from ir_programs import IDS, PROGRAMS

import cuda_device as device
from cuda_device.bytecode.cfg import spans
from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.scopes import merge
from cuda_device.bytecode.to_ir import read
from cuda_device.device.parameters import parameter_names
from cuda_device.ir import ops


def straight(x):
    y = x + 1
    return y * -x


# What it means


def outcome(call: Any, function: Any, arguments: tuple[Any, ...]) -> Any:
    """As `programs.outcome`, without the details of an exception."""
    result = programs.outcome(call, function, arguments)
    return result[0] if isinstance(result[0], type) and issubclass(result[0], Exception) else result


# `a += b` of lists changes a list in place: device code has no value that could be changed so.
RUNNABLE = [(function, calls) for function, calls in programs.PROGRAMS if function.__name__ != "augmented"]


@pytest.mark.parametrize(("function", "calls"), RUNNABLE, ids=[f.__name__ for f, _ in RUNNABLE])
def test_programs_mean_what_cpython_says_or_are_unsupported(function: Any, calls: Any) -> None:
    for arguments in calls:
        try:
            found = outcome(run, function, arguments)
        except (Unsupported, device.CompileError):
            continue
        assert found == outcome(programs.native, function, arguments)


def up_to(n: int) -> Any:
    for i in range(n):
        if i % 3:
            yield i


def one_after_the_other(xs: Any, ys: Any) -> Any:
    yield from xs
    for y in ys:
        for x in xs:
            z = x, y
            yield z, (x + (0 if (yield y) is None else 1))
    while ys:
        *ys, last = ys
        if last == 2:
            continue
        yield last
    x = yield from ()
    yield x


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize(
    ("function", "arguments"),
    [(up_to, (8,)), (up_to, (0,)), (one_after_the_other, ((1, 2), (3, 2, 5))), (one_after_the_other, ((), ()))],
)
def test_generators_yield_what_cpythons_do(function: Any, arguments: Any, unrolled: bool) -> None:
    assert list(run_steps(function, *arguments, unrolled=unrolled)) == list(function(*arguments))


def test_the_interpreter_knows_every_operation() -> None:
    """Else programs would pass that nothing has run."""
    assert {*ROWS} | {"jump", "branch", "return", "unreachable"} == {
        row.name for row in ops.ALL if ops.Level.PYTHON in row.levels
    }


def test_most_plain_constructs_are_supported() -> None:
    """Else the test above proves nothing."""
    supported = set()
    for function, calls in programs.PROGRAMS:
        try:
            outcome(run, function, calls[0])
            supported.add(function.__name__)
        except (Unsupported, device.CompileError):
            pass
    assert supported >= {
        "arithmetic", "bits", "chained", "short_circuit", "truth", "none_tests", "ternaries",
        "ladder", "while_else", "nested_breaks", "early_returns", "tuple_loops", "maybe_undefined",
        "deleted", "tuple_keys", "keyword_calls", "constant_branches", "walrus", "match_values",
        "no_return",
    }  # fmt: skip


# What must hold

every = pytest.mark.parametrize("function", [underlying(program) for program, _ in PROGRAMS], ids=IDS)


@every
def test_is_python_level_ir(function: Any) -> None:
    python = read(function.__code__)
    assert python.level is ops.Level.PYTHON
    checked(python)
    assert [param.hint for param in python.params] == list(inspect.signature(function).parameters)
    assert python.shown == function.__qualname__


@every
def test_blocks_are_those_that_can_be_reached(function: Any) -> None:
    python = read(function.__code__)
    reached, todo = set(), [python.blocks[0]]
    while todo:
        block = todo.pop()
        if block not in reached:
            reached.add(block)
            todo += [edge.block for edge in block.successors]
    assert reached == set(python.blocks)


@every
@pytest.mark.parametrize("pass_all", [False, True])
def test_blocks_take_what_lives(function: Any, pass_all: bool) -> None:
    """A block's parameters are the stack and those live variables whose definitions meet, or all."""
    python = read(function.__code__, pass_all=pass_all)
    checked(python)
    found = list(spans(merge(decode(function.__code__)), pass_all=pass_all).values())
    known = set(function.__code__.co_varnames)
    assert [param.hint for param in python.blocks[0].params] == list(parameter_names(function.__code__))
    if not any(0 in span.successors for span in found):  # the entry block continues with the first span
        found = found[1:]
    for block, span in zip(python.blocks[1:], found, strict=True):
        hints = [param.hint for param in block.params if param.hint]
        assert set(hints) == span.params <= span.live <= known
        assert span.params == span.live or not pass_all
        assert len(hints) == len(set(hints))
        assert [param.hint for param in block.params][len(block.params) - len(hints) :] == hints


def test_a_loop_at_the_beginning_has_an_entry_block() -> None:
    def loop(n):
        while True:
            n = n - 1
            if n < 0:
                return

    entry, *others = read(loop.__code__).blocks
    assert [op.code for op in entry.ops] == [ops.JUMP]
    assert any(edge.block is others[0] for block in others for edge in block.successors)


@every
def test_operations_know_where_they_come_from(function: Any) -> None:
    code = function.__code__
    for op in read(code).ops():
        assert op.location.file == code.co_filename
        assert op.location.function == function.__qualname__
        if op.code.name != "jump":  # some, CPython inserts without a place
            assert code.co_firstlineno <= op.location.line <= code.co_firstlineno + 40


def test_a_column_is_that_of_the_operator() -> None:
    (product,) = [op for op in read(straight.__code__).ops() if op.attributes.get("op") == "*"]
    assert (product.location.line, product.location.column) == (straight.__code__.co_firstlineno + 2, 11)


def test_the_same_code_is_read_once() -> None:
    assert read(straight.__code__) is read(straight.__code__)


def test_equal_code_of_another_file_is_another_function() -> None:
    """CPython's code objects are equal if all but their file is equal."""
    source = "def k(x): return x + 1"
    a, b = (read(define(source, file=file).__code__) for file in ("<a>", "<b>"))
    assert {op.location.file for op in a.ops()} == {"<a>"}
    assert {op.location.file for op in b.ops()} == {"<b>"}
    method = "class A:\n    def f(self): return self\nclass B:\n    def f(self): return self\nk = A.f, B.f"
    first, second = define(method)
    assert [read(f.__code__).shown for f in (first, second)] == ["A.f", "B.f"]


@pytest.mark.parametrize("brackets", ["()", "[]"])
def test_a_long_display_is_one_operation(brackets: str) -> None:
    """CPython appends its items one by one, which would take time that grows with the square of their number."""
    items = ", ".join(f"x + {i}" for i in range(50))
    function = define(f"def f(x): return {brackets[0]}{items}{brackets[1]}", "f")
    found = operations(checked(read(function.__code__)), "py.list", "py.append")
    assert [(op.code.name, len(op.operands)) for op in found] == [("py.list", 50)]


@pytest.mark.parametrize("body", ["{x}", "{x, *y}"])
def test_an_unsupported_construct_ends_its_block(body: str) -> None:
    """It is refused only if it is reached."""
    function = define(f"def k(x, y):\n    if y:\n        z = {body}\n        return z + 1\n    return 2")
    python = read(function.__code__)
    assert run(function, 1, 0) == 2
    (op,) = operations(checked(python), "py.unsupported")
    assert op.attributes["what"] == "a set"
    assert not operations(checked(python), "py.binary")
    with pytest.raises(Unsupported):
        run(function, (1,), 1)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def k(x): yield x", "generator"),
        ("async def k(x): pass", "coroutine"),
        ("async def k(x): yield x", "coroutine"),
    ],
)
def test_functions_that_cannot_be_read(source: str, reason: str) -> None:
    with pytest.raises(device.CompileError, match=reason) as caught:
        read(define(source).__code__)
    assert caught.value.location.line == 1
    assert caught.value.location.function == "k"


@pytest.mark.skipif(sys.platform == "emscripten", reason="no processes")
def test_bytecode_is_read_without_numpy() -> None:
    program = """
import sys
sys.modules["numpy"] = None
from cuda_device.bytecode.to_ir import read
from cuda_device.ir import nodes, text, verify
verify.verify(nodes.Module([read((lambda x: x[0] + 1).__code__)]))
print(text.show(read((lambda x: x[0] + 1).__code__)))
"""
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "py.binary" in result.stdout
