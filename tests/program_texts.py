"""Programs of tests as texts: each is a program, what it gets, and what comes out or why it is refused.

    Nested functions.                      the subject of the file

    === with                               what the programs below share, and the arguments of those that name none
    X = np.arange(8.0)
    >>> x=X, b=2.5
    !!! x=int
    === captured                           with `return`: a function of i in each of 8 threads, compared with Python
    limit = b * 2
    return (lambda v: v > limit)(x[i])
    === negative indices                   without: a kernel that writes `out`, which is float64 or as what is expected
    out[0] = y[-1] + n
    >>> [5.0], y=np.int32([3, 4]), n=1
    >>> np.int8([9]), y=np.int8([3, 9]), n=0, block=1
    === of two types                       refused: the line of the program, the reason and the help
    return (1 if x > 0 else None) + 2
    !!! 1: the value is None on one path here and int 1 on another; ...
    help: use a value that cannot occur, ...

A program is the body of `k`, or else defines `k`. `grid`, `block` and `shared` are those of the launch, and `rtol` says how far
the result may be off. `becomes(A, B)` is an array A that holds B after the launch. With neither, Python runs the body of a
kernel, too, and all arrays have to be the same. `poison(shape, dtype)` is an array that each kernel overwrites, and `each(A)` one
of which thread i gets item i. `fails("...")` expects a `KernelError` on a CPU stream. A line `*** name in values` above the cases
runs them for each value, which the program can use. All cases of a program launch one kernel object, or one for each value that
it uses. `!!! x=int` asks for other types than those above; the message follows. `--> tuple<int, bool>: x=int, y=bool` is the type
of what is returned. Words in brackets behind a name are `long`, `unchecked` (no checks on CPU streams) or `needs NAME`. Messages
show lines of the text file. `--update-golden` writes the messages; `{{...}}` in them is a regular expression.
"""

from __future__ import annotations

import ast
import cmath
import enum
import functools
import linecache
import math
import operator
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest import mock

import numpy as np
import pytest
from against_python import check
from conftest import poison

import cuda_device as device

LAUNCH = ("grid", "block", "shared")
_MODULES = {module.__name__: module for module in (cmath, enum, functools, math, operator)}
_TYPES = {name: getattr(device, name) for name in dir(device) if re.match(r"(u?int|b?float|complex)\d", name)}
_SCOPE = {"__name__": "program", "device": device, "np": np, **_MODULES, **_TYPES}
_MESSAGE = re.compile(r"(with )?(\d+|\{\{[\d|]+\}\}): ")


@dataclass(frozen=True)
class Fails:
    """The expectation that a kernel reports an error."""

    match: str


@dataclass(frozen=True)
class Each:
    """An array of which each thread gets one element."""

    underlying: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Becomes:
    """An array, and what it holds after the launch."""

    before: np.ndarray[Any, Any]
    after: Any

    @property
    def expected(self) -> np.ndarray[Any, Any]:
        """The array that it has to be."""
        return self.after if _is_array(self.after) else np.array(self.after, self.before.dtype)


_WORDS = {"array": device.ArrayType, "fails": Fails, "each": Each, "becomes": Becomes, "poison": poison}
"""What the cases of all files can use."""


@dataclass
class Program:
    """One program of a file; `line` is that of its first line of code, and `shared` is the code before it that it can use."""

    path: Path
    name: str
    words: list[str]
    line: int
    shared: tuple[Program, ...]
    code: list[str] = field(default_factory=list)
    calls: list[tuple[int, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    types: str = ""
    variants: str = ""
    message: list[str] = field(default_factory=list)
    functions: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False)
    kernels: dict[Any, device.Kernel] = field(default_factory=dict, compare=False)

    @property
    def id(self) -> str:
        """What pytest calls it."""
        return f"{self.path.stem}-{self.name}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}, {self.name}"

    def run_cases(self, stream: Any) -> None:
        """Runs all its cases."""
        unchecked = {"CUDA_DEVICE_CHECKED": "0"} if "unchecked" in self.words else {}
        with mock.patch.dict(os.environ, unchecked):
            self._run_cases(stream)

    def _run_cases(self, stream: Any) -> None:
        for names in self._variants():
            for line, call in self.cases:
                expected, arguments = self._evaluate(call, names)
                try:
                    self._run(stream, expected, arguments, names)
                except Exception as error:
                    error.add_note(f"{self.path}:{line}: {call} {names or ''}")
                    raise

    @property
    def cases(self) -> list[tuple[int, str]]:
        """Its own cases, or those of the nearest shared part that has some."""
        return self.calls or next((part.calls for part in reversed(self.shared) if part.calls), [])

    def check_refusal(self) -> list[str]:
        """The lines of the message that says why it is refused."""
        types = self.types or next(part.types for part in reversed(self.shared) if part.types)
        with pytest.raises(device.CompileError) as caught:
            self._compile(types)
        error = caught.value
        assert error.help, str(error)
        assert error.location.file == str(self.path), str(error)
        reason = re.sub(r"(?<=\bline )\d+", lambda number: self._line(int(number[0])), error.reason)
        return [f"{self._line(error.location.line)}: {reason}", f"help: {error.help}"]

    def _line(self, number: int) -> str:
        """A line of the file, counted from the first one of the program, or of the shared part."""
        part = next(part for part in (self, *reversed(self.shared)) if part.line <= number)
        return f"{'' if part is self else 'with '}{number - part.line + 1}"

    def check_results(self) -> None:
        """Compares the types of results."""
        for expected in self.results:
            result, types = expected.split(": ", 1)
            assert str(self._compile(types).result) == result, f"{self}: {expected}"

    def _run(self, stream: Any, expected: Any, arguments: dict[str, Any], names: dict[str, Any]) -> None:
        if isinstance(expected, Fails):
            if stream.kind == "gpu":
                pytest.skip("an error ends the use of a GPU")
            with pytest.raises(device.KernelError, match=expected.match) as caught:
                self._run(stream, None, arguments, names)
            assert f"{self.path.name}:" in str(caught.value)
            return
        rtol = arguments.pop("rtol", 0)
        if expected is None and self._is_function:
            check(stream, self._of_thread(arguments, names), *map(_plain, arguments.values()), exact=not rtol)
            return
        launch = {"grid": 1, "block": 1, **{word: arguments.pop(word) for word in LAUNCH if word in arguments}}
        if expected is not None:
            expected = np.asarray(expected, None if isinstance(expected, np.ndarray) else np.float64)
            before = arguments.get("out", poison(expected.shape, expected.dtype))
            arguments["out"] = Becomes(before, expected)
        kernel = self._kernel([*arguments], names)
        changes = {name: value for name, value in arguments.items() if isinstance(value, Becomes)}
        arguments.update({name: change.before for name, change in changes.items()})
        given = {name: arguments[name] for name in _parameters(kernel) if name in arguments}
        passed = {name: stream.array(value) if _is_array(value) else value for name, value in given.items()}
        stream.launch(kernel, *passed.values(), **launch)
        if changes:
            wanted = {name: change.expected for name, change in changes.items()}
        else:
            wanted = {name: value.copy() if _is_array(value) else value for name, value in given.items()}
            kernel.underlying(*wanted.values())
        for name, right in wanted.items():
            if _is_array(right):
                _compare(stream.numpy(passed[name]), right, rtol, name)

    def _of_thread(self, arguments: dict[str, Any], names: dict[str, Any]) -> Any:
        """The function of i and the arguments. Those that are `each` give it their i-th elements."""
        function = self._function(["i", *arguments], names)
        if not any(isinstance(value, Each) for value in arguments.values()):
            return function
        scope = {"k": function}
        passed = [f"{name}[i]" if isinstance(value, Each) else name for name, value in arguments.items()]
        exec(f"def one({', '.join(['i', *arguments])}): return k({', '.join(['i', *passed])})", scope)
        return scope["one"]

    def _compile(self, call: str) -> Any:
        _, arguments = self._evaluate(call, {})
        function = self._function([*arguments], {})
        if isinstance(function, FunctionType):
            function = device.func(function)
        return device.compile(function, *(arguments[name] for name in _parameters(function)), output="ir")

    @property
    def _is_function(self) -> bool:
        """Whether it is a function, and no kernel."""
        return not self._is_whole and _has_return(ast.parse("\n".join(self._code([]))).body[0])

    @property
    def _is_whole(self) -> bool:
        return any(line.startswith("def k(") for line in self.code)

    def _variants(self) -> Iterator[dict[str, Any]]:
        name, _, values = self.variants.partition(" in ")
        names = name.split(", ")
        for value in eval(values, _scope_of(self.shared)) if name else [None]:
            yield dict(zip(names, value if len(names) > 1 else [value], strict=True)) if name else {}

    def _evaluate(self, call: str, names: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        scope = {**_WORDS, "case": _case, **_scope_of(self.shared), **names}
        result: tuple[Any, dict[str, Any]] = eval(f"case({call})", scope)
        return result

    def _kernel(self, parameters: list[str], names: dict[str, Any]) -> device.Kernel:
        """The kernel of a function, which is one object for all launches."""
        function = self._function(parameters, names)
        if isinstance(function, device.Kernel):
            return function
        if function not in self.kernels:
            self.kernels[function] = device.kernel(function)
        return self.kernels[function]

    def _function(self, parameters: list[str], names: dict[str, Any]) -> Any:
        """The function `k`, which is one object for the same parameters and values of the names that the code uses."""
        code = self._code(parameters)
        text = "\n".join(code)
        used = {name: value for name, value in names.items() if name in _names(text)}
        key = (text, *map(id, used.values()))  # the values live as long as the function, whose globals they are
        if key not in self.functions:
            scope = {**_scope_of(self.shared), **used}
            _execute(self.path, self.line - (not self._is_whole), code, scope)
            self.functions[key] = scope["k"]
        return self.functions[key]

    def _code(self, parameters: list[str]) -> list[str]:
        """The lines of a definition of `k`; its head takes the place of the line with the name."""
        if self._is_whole:
            return self.code
        return [f"def k({', '.join(parameters)}):", *(f"    {line}" for line in self.code)]


def _has_return(node: ast.AST) -> bool:
    inner = (ast.FunctionDef, ast.Lambda)
    return any(
        isinstance(child, ast.Return) or (not isinstance(child, inner) and _has_return(child))
        for child in ast.iter_child_nodes(node)
    )


@functools.cache
def _names(code: str) -> frozenset[str]:
    """The names of variables in code."""
    return frozenset(node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name))


def _compare(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], rtol: float, name: str) -> None:
    """Compares two arrays: all bits of integers count, while `assert_allclose` converts them to float64."""
    assert result.dtype == expected.dtype
    if rtol:
        np.testing.assert_allclose(result, expected, rtol, rtol, err_msg=name)
    else:
        np.testing.assert_array_equal(result, expected, err_msg=name, strict=True)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _plain(value: Any) -> Any:
    """The function of a kernel or device function; the array of what is `each`."""
    return getattr(value, "underlying", value)


def _parameters(function: Any) -> tuple[str, ...]:
    code = _plain(function).__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names


def _case(expected: Any = None, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    return expected, arguments


def _execute(path: Path, line: int, code: list[str], scope: dict[str, Any]) -> None:
    """Runs code as if it stood in the file from that line on."""
    linecache.checkcache(str(path))
    exec(compile("\n" * (line - 1) + "\n".join(code) + "\n", str(path), "exec", dont_inherit=True), scope)


_SCOPES: dict[tuple[Path, int], dict[str, Any]] = {}


def _scope_of(shared: tuple[Program, ...]) -> dict[str, Any]:
    """The names that the shared parts of a file define; all programs below have the same objects."""
    if not shared:
        return _SCOPE
    last = shared[-1]
    key = (last.path, last.line)
    if key not in _SCOPES:
        scope = dict(_scope_of(shared[:-1]))
        _execute(last.path, last.line, last.code, scope)
        _SCOPES[key] = scope
    return _SCOPES[key]


def read(path: Path) -> list[Program]:
    """The programs of a file."""
    programs: list[Program] = []
    shared: tuple[Program, ...] = ()
    now: Program | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("=== "):
            name, *words = re.split(r" \[|\]", line[4:])
            now = Program(path, name, [word for word in words if word], number + 1, shared)
            if name == "with":
                shared = (*shared, now)
            else:
                programs.append(now)
        elif now is not None:
            _add(now, number, line)
    for program in programs:
        assert program.cases or program.results or program.types or program.message, f"{program} has no case"
    ids = [program.name for program in programs]
    assert len(ids) == len({*ids}), f"{path}: two programs are called {next(n for n in ids if ids.count(n) > 1)!r}"
    return programs


def _add(program: Program, number: int, line: str) -> None:
    """Adds a line of the file to a program."""
    if program.message or program.types:
        program.message.append(line)
    elif line.startswith(">>> "):
        program.calls.append((number, line[4:]))
    elif line.startswith("--> "):
        program.results.append(line[4:])
    elif line.startswith("!!!"):
        if _MESSAGE.match(line[4:]) or not line[4:]:
            program.message.append(line[4:])
        else:
            program.types = line[4:]
    elif line.startswith("*** "):
        program.variants = line[4:]
    else:
        program.code.append(line)


def parameters(programs: list[Program]) -> list[Any]:
    """The programs for `parametrize`, with their marks."""
    return [pytest.param(program, id=program.id, marks=_marks(program)) for program in programs]


def _marks(program: Program) -> list[Any]:
    words = [word for word in program.words if word != "unchecked"]
    return [pytest.mark.long if word == "long" else pytest.mark.needs(word.removeprefix("needs ")) for word in words]


def is_message(expected: list[str], message: list[str]) -> bool:
    """Whether a message is as expected, where `{{...}}` is a regular expression."""
    parts = re.split(r"\{\{(.*?)\}\}", "\n".join(expected))
    pattern = "".join(f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))
    return re.fullmatch(pattern, "\n".join(message)) is not None


def update(path: Path, name: str, message: list[str]) -> None:
    """Writes the message of a refused program."""
    lines: list[str] = []
    inside, done = False, False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            inside, done = re.split(r" \[", line[4:])[0] == name, False
        if inside and line.startswith("!!!"):
            done = True
            own = line[4:] and not _MESSAGE.match(line[4:])
            lines += [line, *message] if own else [f"!!! {message[0]}", *message[1:]]
        elif not done:
            lines.append(line)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
