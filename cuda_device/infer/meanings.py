"""The meanings of bundles: objects that exist at compile time and whose parts exist at run time.

    lambda: x[i] > limit          NestedFunction(<lambda>, captured=("x", "i", "limit")), its parts are the captured values
    enumerate(t)                  Loop.ENUMERATE, its parts are the number and the iterator of t
    [a, b]                        LIST, its parts are a and b

A meaning is the `value` of a bundle's `Known`. It prints as in error messages.
"""

from __future__ import annotations

import enum
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.known import Gaps, Identity, Known
from cuda_device.types.model import NONE, Bundle, RangeIterator, Static


class Meaning:
    """The base of meanings: `shown` is the text in messages, in which `{0}` is the meaning."""

    __slots__ = ()
    shown = ""

    def __str__(self) -> str:
        return self.shown.format(self)


@dataclass(frozen=True, slots=True)
class Origin:
    """A captured variable: its name, and the code (by its `id`) of the function that owns it.

    `call` distinguishes the variables of several calls of that function, as in recursion.
    """

    code: int
    call: int
    name: str


@dataclass(frozen=True, slots=True)
class NestedFunction(Meaning):
    """A nested function. Parts: the values of `defaults`, then of `captured`.

    `function` has its code and globals, `cells` are the variables that it reads. An open function has captured None: it reads
    the variables where they are.
    """

    shown = "the function {0.function.__name__}"
    function: FunctionType
    defaults: tuple[str, ...]
    cells: tuple[Origin, ...]
    captured: tuple[Origin, ...] | None = None


@dataclass(frozen=True, slots=True)
class Box(Meaning, Gaps):
    """A captured variable that is assigned more than once: a mutable object whose part is the value, if it has one."""

    shown = "the variable {0.name!r}"
    name: str


@dataclass(frozen=True, slots=True)
class Generator(Gaps):
    """A generator. Parts: its function, the number of the current `yield`, and the values that it keeps.

    `bytecode.suspension.slots` names the kept values. `unrolled` says that its loops are unrolled.
    """

    strict = 1
    code: CodeType
    unrolled: bool = False

    def __str__(self) -> str:
        return "a generator expression" if self.code.co_name == "<genexpr>" else f"the generator {self.code.co_name}"


@dataclass(frozen=True, slots=True)
class Resumed(Meaning, Gaps):
    """The result of a step of a generator. Parts: whether there is a value, the value, then those of `Generator`."""

    shown = "a step of a generator"
    strict = 1


@dataclass(frozen=True, slots=True)
class Returned(Meaning, Gaps):
    """The result of a function that takes mutable objects. Parts: its result, and the contents of each object."""

    shown = "a result"
    strict = 1
    alone = True


@dataclass(frozen=True, slots=True)
class Method(Meaning):
    """A bound method. Its only part is the value that it is bound to."""

    shown = "the method {0.name}"
    name: str


@dataclass(frozen=True, slots=True)
class Partial(Meaning):
    """`functools.partial`. Parts: the function, positional arguments, and those of `names`."""

    shown = "a partial function"
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keywords(Meaning):
    """A dict whose keys are constants. Parts: a value for each of `names`."""

    shown = "a dict"
    names: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class DictView(Meaning):
    """`d.items()`, `d.keys()` or `d.values()`. Part: the dict."""

    shown = "the {0.name} of a dict"
    name: str


@dataclass(frozen=True, slots=True)
class Named:
    """A named tuple. Parts: its items."""

    cls: Any

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the items."""
        return tuple(self.cls._fields)

    def __str__(self) -> str:
        name = self.cls.__name__
        return f"a{'n' * (name[0] in 'AEIOUaeio')} {name}"


@dataclass(frozen=True, slots=True)
class TextField:
    """A value in a run-time string, with its format."""

    spec: str = ""
    is_repr: bool = False


@dataclass(frozen=True, slots=True)
class Text(Meaning):
    """A run-time string, which can only be printed: a sequence of texts, and of fields for its parts."""

    shown = "a string that is known at run time"
    pieces: tuple[str | TextField, ...]


@dataclass(frozen=True, slots=True)
class Raised(Meaning):
    """An exception object with its message. Exceptions of the library also have a help."""

    shown = "the exception {0.kind}"
    kind: str
    message: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class ListIterator(Meaning):
    """An iterator over a tuple, list or dict, its part, at a position that is known at compile time. Its loops are unrolled."""

    shown = "an iterator of a tuple or list"
    position: int


class Thing(enum.Enum):
    """Meanings without further properties."""

    LIST = "a list"
    ENUMERATE = "an enumerate"
    ZIP = "a zip"
    ARRAY_ITERATOR = "an iterator of an array"

    def __str__(self) -> str:
        return self.value


def use_of(known: Known) -> str:
    """The help for None, a function, an exception or an iterator that is used wrongly; "" for other values."""
    value = known.value
    if known.type == NONE:
        return "test for None with `is`"
    if isinstance(value, (NestedFunction, Method, Partial, FunctionType, BuiltinFunctionType, Raised)):
        return "raise it" if isinstance(value, Raised) else "call it"
    gives = isinstance(value, (Thing, Generator, DictView, ListIterator)) and value is not Thing.LIST
    if gives or isinstance(known.type, RangeIterator):
        return "loop over it, or make a list of it: [*x]"
    return ""


def class_of(known: Known) -> object:
    """The class of a bundle's meaning, by which tables have what applies to it; a `Thing` is a class of its own."""
    return known.value if isinstance(known.value, Thing) else type(known.value)


def means(known: Known, meaning: object) -> bool:
    """Whether `known` is a bundle with this meaning."""
    return isinstance(known.type, Bundle) and known.value is meaning


def is_member(known: Known) -> bool:
    """Whether a value is a member of an enumeration."""
    return isinstance(known.type, Static) and isinstance(known.value, enum.Enum)


def is_list(known: Known) -> bool:
    """Whether a value is a list."""
    return means(known, Thing.LIST)


def is_container(known: Known) -> bool:
    """Whether a value is a list or a dict."""
    return isinstance(known.type, Bundle) and (known.value is Thing.LIST or isinstance(known.value, Keywords))


def code_of(known: Known) -> NestedFunction | None:
    """The nested function that `known` is, or None."""
    return known.value if isinstance(known.type, Bundle) and isinstance(known.value, NestedFunction) else None


def check_apart(known: Known, identity: Identity) -> None:
    """Raises `CompileError` for an object that would contain itself."""
    if identity in [inner.identity for inner in known.inner_objects]:
        raise CompileError(
            f"{known} cannot contain itself or a function that captured it",
            help="let the function take it as an argument; functions made with def may call each other by name",
        )
