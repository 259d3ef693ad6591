"""Functions that together use every construct, each with calls to make: CPython's results are the right ones.

They are texts in programs.txt: a name, the parameters, the body, and the arguments of calls.

    === bits: a, b
    return a << b, a >> b, a & b, a | b, a ^ b
    >>> (12, 3)

Those without calls are functions of integers, which device code runs, too. `PROGRAMS` lists (function, calls); a call is a tuple
of positional arguments, deep-copied for each run, since functions may change them.
"""

import copy
import textwrap
import types
from pathlib import Path

import golden_pages
from ir_helpers import define

SCALE = 3
INTEGERS = ((0, 0, 0), (3, 5, 2), (9, 4, 7), (-2, 12, 1), (27, 3, 13))


class Box:
    """Something with attributes, methods and matching."""

    __match_args__ = ("first", "second")

    def __init__(self, first=1, second=2):
        self.first, self.second = first, second

    def __eq__(self, other):
        return isinstance(other, Box) and vars(self) == vars(other)

    def __repr__(self):
        return f"Box({vars(self)})"

    @staticmethod
    def make(first):
        return Box(first)

    table = {"key": len}  # noqa: RUF012

    def copy(self, **options):
        return self.first, options

    def total(self, *more, scale=1):
        return (self.first + self.second + sum(more)) * scale


class Odd:
    """Compares to something that is not a bool."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return [self.value < other.value]

    def __bool__(self):
        return self.value % 2 == 1

    def __eq__(self, other):
        return type(other) is Odd and other.value == self.value

    __hash__ = None


def collect(*args, **kwargs):
    return args, kwargs


# The programs

NAMES = {"Box": Box, "Odd": Odd, "collect": collect, "SCALE": SCALE, "types": types}
PROGRAMS, INTEGER_FUNCTIONS = [], []
for head, text in golden_pages.texts_in(Path(__file__).with_suffix(".txt")).items():
    body, _, calls = text.partition(">>> ")
    name, _, parameters = head.partition(": ")
    function = define(f"def {name}({parameters}):\n{textwrap.indent(body, '    ')}", name, f"<{name}>", **NAMES)
    if not calls:
        INTEGER_FUNCTIONS.append(function)
    count = function.__code__.co_argcount
    PROGRAMS.append((function, eval(f"({calls},)", NAMES) if calls else tuple(call[:count] for call in INTEGERS)))


def _long_function():
    """A function whose constants, names and jumps need more than eight bits."""
    lines = ["def long(n, out):", "    for i in range(n):"]
    lines += [f"        v{k} = i * {1000 + k}" for k in range(300)]
    lines += [f"        if v{k} > 2001: out.append(v{k}, )" for k in range(300)]
    lines += ["    else:", "        out.append(n)", "    return out, collect(n, keyword=out)"]
    return define("\n".join(lines), "long", collect=collect)


PROGRAMS.append((_long_function(), ((3, []),)))


# The check


def outcome(call, function, arguments):
    """The result, the arguments afterwards, or the exception."""
    arguments = copy.deepcopy(arguments)
    try:
        return comparable((call(function, *arguments), arguments))
    except (ArithmeticError, AssertionError, LookupError, NameError, TypeError, ValueError) as error:
        detail = error.args if isinstance(error, AssertionError) else ()
        return type(error), detail, type(error.__cause__)


def comparable(value):
    """The value with its type all through, since 1 == 1.0 == True."""
    if isinstance(value, (list, tuple)):
        return type(value), [comparable(item) for item in value]
    if isinstance(value, dict):
        return dict, [(comparable(key), comparable(item)) for key, item in value.items()]
    return type(value), value


def native(function, *arguments):
    """Calls the function."""
    return function(*arguments)


def all_code(code):
    """The code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_code(constant)
