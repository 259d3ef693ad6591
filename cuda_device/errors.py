"""The errors that users see, each with the source location, the reason and a remedy.

A user's mistake raises an `Error`. A mistake of the compiler raises a `CompilerBug`, which is not an `Error` and asks the user to
report it.

    CompileError: the constant 300 does not fit uint8
      at kernel.py:7:12, in brighten
         7 |     return pixel + 300
                        ^^^^^^^^^^^
      in brighten(pixel: uint8), called from kernel.py:12:12
      in k(image: array<uint8, 1, C>)
      help: use a constant from 0 to 255, or a wider type
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from cuda_device.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's program, whose lines count from 1 and columns from 0; unknown ones are 0 or -1.

    As text, it is `kernel.py:7:12`, or `Cell In[3], line 7` for a cell of a notebook, as IPython names it.
    """

    file: str
    line: int
    end_line: int = 0
    column: int = -1
    end_column: int = -1
    function: str = ""
    offset: int = -1

    def __str__(self) -> str:
        if self.line <= 0:
            return f"{self.shown_file}, bytecode offset {self.offset} of {self.function}"
        if (cell := self.shown_file) != self.file:
            return f"{cell}, line {self.line}"
        return f"{self.file}:{self.line}" + (f":{self.column + 1}" if self.column >= 0 else "")

    @property
    def shown_file(self) -> str:
        """The file, or IPython's name for a cell of a notebook: `Cell In[3]`."""
        get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
        compiler = getattr(get_ipython and get_ipython(), "compile", None)
        return " ".join((compiler and compiler.format_code_name(self.file)) or (self.file,))

    @property
    def is_ours(self) -> bool:
        """Whether this is in one of our own files, which implement library functions such as `AtomicInterface.wait` in Python."""
        return self.file.startswith(_PACKAGE)

    def excerpt(self) -> str:
        """The source line with carets under the culprit; empty if there is no source (a REPL, `exec`)."""
        source = linecache.getline(self.file, self.line).rstrip("\n") if self.line > 0 else ""
        if not source.strip():
            return ""
        gutter = f"{self.line:6} | "
        lines = [gutter + source]
        if self.column >= 0:
            # Columns count UTF-8 bytes; carets count characters.
            start = len(source.encode()[: self.column].decode(errors="replace"))
            stop = len(source)
            if self.end_line == self.line and self.end_column > self.column:
                stop = len(source.encode()[: self.end_column].decode(errors="replace"))
            padding = "".join("\t" if character == "\t" else " " for character in source[:start])
            lines.append(" " * len(gutter) + padding + "^" * max(1, stop - start))
        return "\n".join(lines)


_PACKAGE = __file__.removesuffix("errors.py")
NOWHERE = Location("<unknown>", 0)


@dataclass(frozen=True)
class Call:
    """One call of the chain that leads to an error: a function, the types of its arguments, and the place of the call.

    The last one is the kernel, which has no place of a call.
    """

    function: str
    arguments: str
    location: Location

    def __str__(self) -> str:
        where = "" if self.location == NOWHERE else f", called from {self.location}"
        return f"in {self.function}({self.arguments}){where}"


_SHOWN_CALLS = 3
"""The calls shown at each end of a long chain."""

Index = tuple[int, int, int]
"""The index of a thread or a block along x, y and z."""


class Error(Exception):
    """The base class of all errors that this package raises about a user's program."""


class PluginError(Error, ImportError):
    """Something needs a plugin, or the CPU target, that is not installed; the message names it."""


class ArgumentError(TypeError, ValueError):
    """A constructor or decorator on the host got an argument of a wrong type or with an invalid value."""


class CompileError(Error):
    """Device code cannot be compiled.

    `reason` says in one line what is wrong, `location` where, and `help` what to do. `chain` lists the calls that lead there,
    innermost first.
    """

    unrolls = False
    """Whether the loops over constant ranges around its place are unrolled, and the function is inferred again."""

    def __init__(self, reason: str, location: Location = NOWHERE, help: str = "", chain: Sequence[Call] = ()) -> None:
        super().__init__(reason)
        self.reason, self.location, self.help, self.chain = reason, location, help, tuple(chain)

    def __str__(self) -> str:
        lines = [self.reason if self.location == NOWHERE else f"{self.reason}\n  at {self.location}"]
        if self.location != NOWHERE:
            if self.location.function and self.location.line > 0:
                lines[0] += f", in {self.location.function}"
            lines += [self.location.excerpt()]
        lines += self._chain()
        lines += [f"  help: {self.help}"] if self.help else []
        return "\n".join(line for line in lines if line)

    def _chain(self) -> list[str]:
        lines = [f"  {call}" for call in self.chain]
        hidden = len(lines) - 2 * _SHOWN_CALLS
        if hidden <= 1:
            return lines
        return [*lines[:_SHOWN_CALLS], f"  … {hidden} more calls …", *lines[-_SHOWN_CALLS:]]


def not_constant(reason: str, help: str) -> CompileError:
    """The error for a value that must be a constant: loops over constant ranges around it are then unrolled."""
    error = CompileError(reason, help=help)
    error.unrolls = True
    return error


@dataclass(frozen=True)
class Loss:
    """A place where the rules of promotion lose digits, or where a kernel loses time, with the reason and a remedy."""

    location: Location
    reason: str
    help: str

    def __str__(self) -> str:
        return str(CompileError(self.reason, self.location, self.help))


class PrecisionWarning(UserWarning):
    """A kernel loses digits in a way that is probably unintended.

    Either a Python int takes a type of 8 or 16 bits, or a value that was computed in float32, as for Python floats, becomes a
    float64 or complex128. The compiler warns once for each place and specialisation. Exact constants never warn. To turn it
    off, use Python's warning filters. Checked mode reports Python ints that do not fit the type that they take.
    """


class PerformanceWarning(UserWarning):
    """The assembler generated slower code for a kernel than the program asks for.

    Registers are spilled, a request for registers was ignored, or products of matrices are serialised. The compiler warns once
    for each kernel and message, at the line where the kernel is defined, also if the code comes from the cache on disk. See
    `Compiled.spills` and `Compiled.warnings`. To turn it off, use Python's warning filters.
    """


class LaunchError(Error, ValueError):
    """The launch is impossible because of its grid, block, shared memory, stream or arguments. Nothing was started.

    `reason` is one line; `help` says what to do.
    """

    def __init__(self, reason: str, help: str = "") -> None:
        super().__init__(reason)
        self.reason, self.help = reason, help

    def __str__(self) -> str:
        return f"{self.reason}\n  help: {self.help}" if self.help else self.reason


class CallError(LaunchError, TypeError):
    """The launched object is not a kernel, or the arguments do not match its parameters or their type hints.

    It is a `LaunchError` and also a `TypeError`, which Python raises for such calls.
    """


def too_deep(subject: str, kind: Any) -> Any:
    """The error of this kind for nesting that exceeds Python's recursion limit; its message begins with `subject`."""
    reason = f"{subject} nested too deeply: Python's recursion limit is {sys.getrecursionlimit()}"
    help = "use an array, or variables for the parts"
    return kind(reason, help=help) if issubclass(kind, Error) else kind(f"{reason}\n  help: {help}")


@contextlib.contextmanager
def refused_if_deep(subject: str, kind: type[Exception]) -> Iterator[None]:
    """Raises an error of this kind instead of a `RecursionError`."""
    try:
        yield
    except RecursionError:
        raise too_deep(subject, kind) from None


class UnalignedError(CompileError, LaunchError):
    """The code needs memory that is more aligned than an argument of the launch."""


class KernelError(Error):
    """A running kernel reported an error: a failed assertion, an exception, a deadlock, or an error found by checked mode.

    `block`, `thread` and `location` identify the thread and the place. They are None and `NOWHERE` if the error does not belong
    to a single thread or place.
    """

    def __init__(
        self, message: str, block: Index | None = None, thread: Index | None = None, location: Location = NOWHERE
    ) -> None:
        self.block, self.thread, self.location = block, thread, location
        super().__init__(message)


class GroupError(Error, ExceptionGroup[Exception]):
    """The errors of the devices of a group, an `ExceptionGroup`; a note on each exception names the rank and the device.

    `ranks` are the ranks of the exceptions, in the same order. A `TimeoutError` means that the device did not return in time.
    """

    ranks: Sequence[int] = ()


class DeviceOnlyError(Error):
    """A device-only entity was used in host code. Specification: 'Device Only Entities'."""

    @classmethod
    def of(cls, name: str) -> DeviceOnlyError:
        """The error for the entity called `name`."""
        return cls(f"{name} can only be used in device code, that is, in a kernel or a function that a kernel calls")


class CompilerBug(Exception):
    """This compiler, or another `package` that adds to it, broke one of its own invariants. Not the user's fault."""

    def __init__(self, message: str, package: str = "cuda_device") -> None:
        self.message = message
        where = "your program" if package == "cuda_device" else "the kernel"
        super().__init__(f"{message}\nThis is a bug in {package}, not in {where}: please report it with the kernel.")


F = TypeVar("F", bound=Callable[..., Any])


def users_traceback(function: F) -> F:
    """Removes the frames of this package from the traceback of an `Error`."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Error as error:
            raise error.with_traceback(None) from error.__cause__

    return cast("F", wrapper)
