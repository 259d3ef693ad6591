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
from cuda_device.types.known import Gaps, Identity, Known, identities
from cuda_device.types.model import Bundle, RangeIterator, Static


@dataclass(frozen=True, slots=True)
class Origin:
    """Which variable a function captured: its name, and the code (by its `id`) whose variable it is.

    `call` tells calls of that code apart where variables of several come together, as in recursion.
    """

    code: int
    call: int
    name: str


@dataclass(frozen=True, slots=True)
class NestedFunction:
    """A nested function. Parts: the values of `defaults`, then of `captured`.

    `function` has its code and globals, `cells` are the variables that it reads. While those can still change, it is `open`: it
    has captured nothing yet.
    """

    function: FunctionType
    defaults: tuple[str, ...]
    cells: tuple[Origin, ...]
    captured: tuple[Origin, ...] = ()
    open: bool = True

    def __str__(self) -> str:
        return f"the function {self.function.__name__}"


@dataclass(frozen=True, slots=True)
class Box(Gaps):
    """A variable that nested functions assign to, an object that changes. Its part is the value, if it has one."""

    name: str

    def __str__(self) -> str:
        return f"the variable {self.name!r}"


@dataclass(frozen=True, slots=True)
class Generator(Gaps):
    """A generator. Parts: its function, the number of the `yield` where it stands, and what it keeps there.

    What it keeps is named by `bytecode.suspension.slots` of its code. If it is `unrolled`, its loops are.
    """

    strict = 1
    code: CodeType
    unrolled: bool = False

    def __str__(self) -> str:
        return "a generator expression" if self.code.co_name == "<genexpr>" else f"the generator {self.code.co_name}"


@dataclass(frozen=True, slots=True)
class Resumed(Gaps):
    """What a generator gives when it is asked for a value. Parts: whether there is one, the value, then as of `Generator`."""

    strict = 1

    def __str__(self) -> str:
        return "a step of a generator"


@dataclass(frozen=True, slots=True)
class Returned(Gaps):
    """What a function returns that was given objects that change. Parts: its result, and what became of each of them."""

    strict = 1
    alone = True

    def __str__(self) -> str:
        return "a result"


@dataclass(frozen=True, slots=True)
class Method:
    """What a bound method means; its only part is the value that it is bound to."""

    name: str

    def __str__(self) -> str:
        return f"the method {self.name}"


@dataclass(frozen=True, slots=True)
class Partial:
    """`functools.partial`. Parts: the function, positional arguments, and those of `names`."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "a partial function"


@dataclass(frozen=True, slots=True)
class Keywords:
    """A dict whose keys are constants. Parts: a value for each of `names`."""

    names: tuple[object, ...]

    def __str__(self) -> str:
        return "a dict"


@dataclass(frozen=True, slots=True)
class DictView:
    """`d.items()` and its like. Part: the dict."""

    name: str

    def __str__(self) -> str:
        return f"the {self.name} of a dict"


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
    """A value in a string of run time, and how an f-string formats it."""

    spec: str = ""
    is_repr: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A string of run time, which can only be printed: texts, and fields for its parts, one after the other."""

    pieces: tuple[str | TextField, ...]

    def __str__(self) -> str:
        return "a string that is known at run time"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that the program made, with its message; of the library, also with what to do."""

    kind: str
    message: str
    help: str = ""

    def __str__(self) -> str:
        return f"the exception {self.kind}"


@dataclass(frozen=True, slots=True)
class ListIterator:
    """An iterator that is known to stand at a position of a tuple, list or dict, its part: such loops are unrolled."""

    position: int

    def __str__(self) -> str:
        return "an iterator of a tuple or list"


class Thing(enum.Enum):
    """Meanings that say all by their names."""

    LIST = "a list"
    ENUMERATE = "an enumerate"
    ZIP = "a zip"
    ARRAY_ITERATOR = "an iterator of an array"
    INDEXED_ITERATOR = "an iterator that run time counts"

    def __str__(self) -> str:
        return self.value


def use_of(known: Known) -> str:
    """What is done with a function, or with what gives items one after the other; empty for anything else."""
    value = known.value
    if isinstance(value, (NestedFunction, Partial, FunctionType, BuiltinFunctionType)):
        return "call it"
    gives = isinstance(value, (Thing, Generator, DictView, ListIterator)) and value is not Thing.LIST
    if gives or isinstance(known.type, RangeIterator):
        return "loop over it, or make a list of it: [*x]"
    return ""


def means(known: Known, meaning: object) -> bool:
    """Whether `known` is a bundle of that meaning."""
    return isinstance(known.type, Bundle) and known.value is meaning


def is_member(known: Known) -> bool:
    """Whether it is a member of an enumeration."""
    return isinstance(known.type, Static) and isinstance(known.value, enum.Enum)


def is_list(known: Known) -> bool:
    """Whether it is a list."""
    return means(known, Thing.LIST)


def is_container(known: Known) -> bool:
    """Whether it is a list or a dict."""
    return is_list(known) or (isinstance(known.type, Bundle) and isinstance(known.value, Keywords))


def code_of(known: Known) -> NestedFunction | None:
    """The nested function that `known` is, or None."""
    return known.value if isinstance(known.type, Bundle) and isinstance(known.value, NestedFunction) else None


def check_apart(known: Known, identity: Identity) -> None:
    """Refuses an object that would be a part of itself."""
    if any(each == identity for item in known.items for each in identities(item)):
        raise CompileError(
            f"{known} cannot contain itself or a function that captured it",
            help="let the function take it as an argument; functions made with def may call each other by name",
        )
