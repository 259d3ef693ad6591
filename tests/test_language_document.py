"""docs/language.md: what of Python device code has, made from the compiler's tables, so that it says what there is.

`pytest tests/test_language_document.py --update-golden` writes it.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import cuda_device as device
from cuda_device.bytecode.versions import UNSUPPORTED
from cuda_device.infer import builtin_calls, joins, remedies
from cuda_device.infer.kinds import arrays, dicts, scalars, tuples
from cuda_device.library import numbers, standard, table
from cuda_device.library.table import ALL

DOCUMENT = Path(__file__).parents[1] / "docs" / "language.md"
BEGINNING = """# What device code has of Python

Made from the tables of the compiler (`pytest tests/test_language_document.py --update-golden`); a test compares them with it.
What is not here is a `CompileError` that says so.

Statements: all but those below. Control flow of any nesting, functions, closures, lambdas, recursion, comprehensions, `match`,
unpacking, `assert` and `raise` are there; types are found by inference, constants are folded, branches on constants pruned.
Lists and dicts exist while compiling: lengths and keys are known at each place of the program; what is in them may be of run
time. A list can be appended to, and items of both can be assigned to, also under other names; an index of run time reads or sets
one of up to 64 items of a list that have one type. Texts are constants; f-strings with values of run time are for `print`,
`assert` and `raise`. Members of enumerations are constants, those of `enum.IntEnum` and `enum.IntFlag` numbers.
Iterators (`iter`, `zip`, `map`, generators with `yield` and `yield from`) may be kept, passed on and stepped by `next`, and are
used up once, as in Python; they have as many values as there are at run time. How far one of a tuple or list has come is known at
each place; generators that choose among numbers of a tuple or list, with `if`, are loops of run time.
Import statements are done while compiling: of modules of Python, of this package, or that the program has imported.
"""


def listed(names: Iterable[str]) -> str:
    """Names in a line."""
    return " ".join(f"`{name}`" for name in sorted(set(names))).replace("|", "\\|")


def of_module(module: object, prefix: str, entities: Iterable[object]) -> str:
    """The names that a module has for some of the entities."""
    wanted = {id(entity) for entity in entities}
    return listed(f"{prefix}{name}" for name, value in vars(module).items() if id(value) in wanted and name[0] != "_")


def entities() -> list[object]:
    """Everything that device code can call by name."""
    own = [row.entity for row in ALL]
    return [
        *own,
        *table.REPLACEMENTS,
        *standard.ONE_ARGUMENT,
        *builtin_calls.BUILTINS,
    ]


def document() -> str:
    """The page."""
    everything = entities()
    public = [getattr(device, name) for name in device.__all__]
    rows = {
        "Operators": listed([*joins.FOLDS, *joins.UNARY, "and", "or", "is", "in", "if else", ":="]),
        "Builtins": of_module(builtins, "", everything),
        "`math`": of_module(math, "math.", everything),
        "`cmath`": of_module(cmath, "cmath.", everything),
        "`operator`": of_module(operator, "operator.", everything),
        "NumPy, of numbers": of_module(np, "np.", everything),
        "`cuda_device`": of_module(device_names(), "", [e for e in everything if any(e is p for p in public)]),
        "Methods of arrays": listed(arrays.METHODS),
        "Methods of numbers": listed([*scalars.METHODS, *numbers.METHODS]),
        "Methods of tuples and lists": listed(standard.TUPLE_METHODS),
        "Methods of lists": listed(tuples.LIST_METHODS),
        "Methods of dicts": listed(dicts.METHODS),
    }
    table = "\n".join(f"| {name} | {found} |" for name, found in rows.items())
    return f"{BEGINNING}\n| | |\n|---|---|\n{table}\n\n{missing()}"


def device_names() -> object:
    """The package as a namespace of all its public names."""
    return type("names", (), {name: getattr(device, name) for name in device.__all__})


def missing() -> str:
    """What device code does not have, and what to write instead."""
    lines = [f"| {what} | {remedies.CONSTRUCTS.get(what, '')} |" for what in sorted(set(UNSUPPORTED.values()))]
    return "## What it has not\n\n| | instead |\n|---|---|\n" + "\n".join(lines) + "\n"


@pytest.mark.skipif(sys.version_info[:2] != (3, 12), reason="other versions of Python have other names")
def test_the_page_is_what_the_tables_say(update_golden: bool) -> None:
    if update_golden:
        DOCUMENT.write_text(document(), encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("name", ["math.frexp", "np.clip", "shared_array", "bit_count"])
def test_the_page_names(name: str) -> None:
    assert f"`{name}`" in DOCUMENT.read_text(encoding="utf-8")
