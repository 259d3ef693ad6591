"""What the tests compare with CPython, expect to be refused or to fail, as rows of tables.

    compared()      Row("test_match.test_match_is_pythons 0", constants, (2.5,))
    refused()       Refusal("test_closures.test_what_cannot_be_is_refused 1", function, (int,), "no common type", {})
    failing()       the same of kernels that end with a KernelError, with the arguments of their launch
    launched()      Launch("test_views.test_slices 0", kernel, (array, 3), {"grid": 1, "block": 8})

Each such test is called once, with each of its parameters, and what it would check is written down in place of being done: what
tests are added is found here, too.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import numpy as np
import pytest
from against_python import THREADS
from ir_helpers import define

import cuda_device as device
from cuda_device import compiler

CHECKS = ("check", "check_body", "refused")
_WANTED = re.compile(
    r"against_python import|raises\(device\.(Compile|Kernel)Error, match|(stream|device)\.(launch|compile)\("
)
_NOT_THESE = re.compile(
    "test_(fuzz|mutation|gpu|ptx_machine|repository|cache|examples|programs|evidence|benchmarks|repl|lifetimes|linking|cubin|ltoir)"
)
_FEW = 3
T = TypeVar("T")


class Row(NamedTuple):
    """A function of a thread's number and these arguments, whose results are CPython's; without `exact`, nearly."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    exact: bool = True


class Refusal(NamedTuple):
    """A function or kernel of such arguments, and a pattern of the error; `options` are those of `device.compile` or `launch`."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    match: str
    options: dict[str, Any]


class Failure(Refusal):
    """The same of a kernel that fails when it runs."""


class Launch(NamedTuple):
    """A kernel that tests launch, or compile; then `options` are those of `device.compile`."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]


Rows = list[Row | Refusal | Launch]


@functools.cache
def compared() -> tuple[Row, ...]:
    """What the tests compare with CPython, and does not fail there."""
    with np.errstate(all="ignore"):
        return tuple(row for row in _collected() if isinstance(row, Row) and _has_results(row))


@functools.cache
def refused() -> tuple[Refusal, ...]:
    """What the tests expect to be refused."""
    return tuple(row for row in _collected() if type(row) is Refusal)


@functools.cache
def failing() -> tuple[Failure, ...]:
    """What the tests expect to fail."""
    return tuple(row for row in _collected() if isinstance(row, Failure))


@functools.cache
def launched() -> tuple[Launch, ...]:
    """What the tests launch or compile."""
    return tuple(row for row in _collected() if isinstance(row, Launch))


@functools.cache
def _collected() -> tuple[Row | Refusal | Launch, ...]:
    paths = sorted(Path(__file__).parents[1].glob("test_*.py"))
    names = [path.stem for path in paths if _WANTED.search(path.read_text()) and not _NOT_THESE.match(path.stem)]
    return tuple(row for name in names for row in _rows(importlib.import_module(name)))


def _has_results(row: Row) -> bool:
    try:
        for thread in range(THREADS):
            float(row.function(thread, *copy.deepcopy(row.arguments)))
    except (ArithmeticError, AssertionError, LookupError, StopIteration, TypeError, ValueError):
        return False
    return True


# Tests, and what they are called with


def _rows(module: ModuleType) -> Iterator[Row | Refusal | Launch]:
    """What the tests of a module would check."""
    for name, test in list(vars(module).items()):
        if name.startswith("test_") and isinstance(getattr(test, "__code__", None), CodeType):
            names = _names(test.__code__)
            if "Thread" in names or names.isdisjoint({*CHECKS, "launch", "compile", "match"}):
                continue
            found: Rows = []
            calls = list(_parameters(test))
            for given in few(calls) if names.isdisjoint({*CHECKS, "match"}) else calls:
                found += _of_a_call(module, f"{module.__name__}.{name} {len(found)}", test, given)
            yield from (row for row in found if not isinstance(row, Launch))
            yield from few([row for row in found if isinstance(row, Launch) and "refused" not in name])


def few(rows: list[T]) -> list[T]:
    """A few of them, evenly."""
    return rows[:: -(-len(rows) // _FEW) or 1]


def _names(code: CodeType) -> set[str]:
    """The names in a function, of keyword arguments, too."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
        elif isinstance(constant, tuple):
            found.update(each for each in constant if isinstance(each, str))
    return found


def _parameters(test: Any) -> Iterator[dict[str, Any]]:
    """The arguments of each call that pytest would make; of none that needs other fixtures than `_FIXTURES`."""
    axes = []
    for each in getattr(test, "pytestmark", ()):
        if each.name == "parametrize":
            names, rows = each.args[:2]
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
            axes.append([dict(zip(names, _values(row, len(names)), strict=True)) for row in rows])
    wanted = set(test.__code__.co_varnames[: test.__code__.co_argcount])
    for chosen in itertools.product(*axes):
        given = {name: value for part in chosen for name, value in part.items()}
        given |= {name: fixture() for name, fixture in _FIXTURES.items() if name in wanted}
        if given.keys() == wanted:
            yield given


def _values(row: Any, count: int) -> tuple[Any, ...]:
    if isinstance(row, type(pytest.param())):
        return tuple(row.values)
    return (row,) if count == 1 else tuple(row)


# What stands for the compiler meanwhile


class _Left(BaseException):
    """The test has told what it would do."""


class _Stream:
    """Stands for the fixture of that name: arrays stay where they are."""

    kind, emulated = "cpu", False
    stream = property(lambda _: device.cpu_stream())

    def array(self, given: Any, *_: Any, **__: Any) -> Any:
        return given

    def empty(self, shape: Any, dtype: Any = np.float32) -> Any:
        return np.full(shape, 7, dtype)

    def launch(self, kernel: Any, *arguments: Any, **options: Any) -> None:
        device.launch(kernel, *arguments, **options)


class _Printed:
    """Stands for the fixture `capfd`: nothing is printed."""

    def readouterr(self) -> Any:
        return SimpleNamespace(out="", err="")


_FIXTURES: dict[str, Callable[[], Any]] = {"stream": _Stream, "capfd": _Printed}


class _Recorder:
    """Writes down what one call of a test would check."""

    def __init__(self, name: str) -> None:
        self.name, self.rows = name, Rows()
        self.error: Any = None
        self.match = ""

    def check(self, _: Any, function: Callable[..., Any], *arguments: Any, exact: bool = True) -> None:
        self.rows.append(Row(f"{self.name} {len(self.rows)}", function, arguments, exact))

    def check_body(self, _: Any, text: str, x: Any, a: Any, **names: Any) -> None:
        lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
        body = define(f"def body(i, n, v, x, a):\n{lines}", "body", **names)
        self.check(_, lambda i, x, a: body(i, a[i], x[i], x, a), x, a)

    def refused(self, function: Callable[..., Any], *types: Any, match: str) -> None:
        self.rows.append(Refusal(f"{self.name} {len(self.rows)}", device.func(function), types, match, {}))

    @contextlib.contextmanager
    def raises(self, error: Any, match: str = "") -> Iterator[None]:
        """Stands for `pytest.raises`."""
        self.error, self.match = error, match
        with contextlib.suppress(_Left):
            yield
        self.error = None

    def compile(self, function: Any, *types: Any, **options: Any) -> None:
        """Stands for `device.compile` and, as to what is refused, for `device.launch`."""
        if self.error is device.CompileError and self.match:
            if options.get("output") == "ir":
                del options["output"]
            self.rows.append(Refusal(f"{self.name} {len(self.rows)}", function, types, self.match, options))
        elif self.error is None:
            self.rows.append(Launch(f"{self.name} {len(self.rows)}", function, types, options))
        raise _Left

    def launch(self, kernel: Any, *arguments: Any, **options: Any) -> None:
        """Stands for `device.launch`."""
        if self.error is device.KernelError and self.match:
            self.rows.append(Failure(f"{self.name} {len(self.rows)}", kernel, arguments, self.match, options))
        elif self.error is device.CompileError and self.match:
            self.rows.append(Refusal(f"{self.name} {len(self.rows)}", kernel, arguments, self.match, options))
        elif self.error is None:
            self.rows.append(Launch(f"{self.name} {len(self.rows)}", kernel, arguments, options))
            return
        raise _Left


def _of_a_call(module: ModuleType, name: str, test: Any, given: dict[str, Any]) -> Rows:
    """What one call of a test would check; a test that does more than that is left where it does."""
    recorder = _Recorder(name)
    there = {each: getattr(recorder, each) for each in CHECKS if hasattr(module, each)}
    with (
        mock.patch.multiple(module, **there) if there else contextlib.nullcontext(),
        mock.patch.multiple(device, compile=recorder.compile, launch=recorder.launch),
        mock.patch.object(compiler, "run", side_effect=_Left),
        mock.patch.object(pytest, "raises", recorder.raises),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(Exception, _Left, pytest.fail.Exception, pytest.skip.Exception),
    ):
        test(**given)
    return recorder.rows
