"""docs/language.md: the part of Python that device code can use, as the compiler's tables have it.

`pytest tests/repository/test_language_document.py --update-golden` writes it.
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
from test_reference import family

import cuda_device as device
from cuda_device.bytecode.versions import UNSUPPORTED
from cuda_device.infer import builtin_calls, constants, remedies
from cuda_device.infer.kinds import arrays, dicts, scalars, tuples
from cuda_device.library import numbers, standard, table

WRITTEN = ("library.", "plugins.groups.group_barriers", "plugins.random")
"""The homes of public names that are written in the language."""
DOCUMENT = Path(__file__).parents[2] / "docs" / "language.md"
BEGINNING = """# The Python of device code

This page describes the subset of Python that you can use in kernels and in the functions that they call. Anything else raises a
`CompileError` that shows the line and says what to write instead. The lists are generated from the compiler's tables (`pytest
tests/repository/test_language_document.py --update-golden`), and a test checks that they are up to date.

## Statements

Device code can use every statement except those listed under [What is missing](#what-is-missing): control flow nested in
any way, functions, closures, lambdas, recursion, comprehensions, `match`, unpacking, `assert` and `raise`. The compiler infers
types, evaluates constant expressions, and removes branches that a constant condition excludes.

**Lists and dicts** exist at compile time. At every point of the program the compiler knows the length of a list and the keys
of a dict; the items may be run-time values. You can append to lists and assign to the items of both, also through another name.
A run-time index can read or set an item of a list if the list has at most 64 items, all of the same type. A loop over a constant
range in which a list or tuple grows is unrolled.

**Ranges** support loops, `in`, `len` and `reversed`. You cannot index, slice or compare them, but a range of the host, such as a
global `STEPS = range(0, 8, 2)`, takes constant indices and slices. A slice must be written inside the index, as in `x[a:b]`.

**Strings** are constants. f-strings may contain run-time values in `print`, `assert` and `raise`.

**Enumerations:** members are constants. Members of `enum.IntEnum` and `enum.IntFlag` are also numbers.

**Iterators** (`iter`, `zip`, `map`, and generators with `yield` and `yield from`) can be stored, passed to functions and
advanced with `next`. As in Python, you can consume an iterator only once. The number of values it yields may depend on
run-time values. Where control flow joins, an iterator over a tuple or list must have reached the same position on every path.
So a generator cannot filter the items of a tuple or list.
"""


def listed(names: Iterable[str]) -> str:
    """Names in a line."""
    return " ".join(f"`{name}`" for name in sorted(set(names)))


def of_module(module: object, prefix: str, entities: Iterable[object]) -> str:
    """The names that a module has for some of the entities."""
    wanted = {id(entity) for entity in entities}
    return listed(f"{prefix}{name}" for name, value in vars(module).items() if id(value) in wanted and name[0] != "_")


def entities() -> list[object]:
    """Everything that device code can call by name, also of plugins, which add their rows when a name of theirs is used."""
    for name in device.__all__:
        getattr(device, name)
    return [*(row.entity for row in table.all_rows()), *builtin_calls.BUILTINS]


def document() -> str:
    """The page."""
    everything = entities()
    rows = {
        "Operators": listed([*constants.FOLDS, *constants.UNARY, "and", "or", "is", "in", "if else", ":="]),
        "Builtins": of_module(builtins, "", everything),
        "`math`": of_module(math, "math.", everything),
        "`cmath`": of_module(cmath, "cmath.", everything),
        "`operator`": of_module(operator, "operator.", everything),
        "NumPy, on numbers": of_module(np, "np.", everything),
        "`cuda_device`": listed(family(name)[0] for name in device.__all__ if is_in_device_code(name, everything)),
        "Methods of arrays": listed(arrays.METHODS),
        "Methods of numbers": listed([*scalars.METHODS, *numbers.METHODS]),
        "Methods of tuples and lists": listed(standard.TUPLE_METHODS),
        "Methods of lists": listed(tuples.LIST.methods.keys() - tuples.KIND.methods.keys()),
        "Methods of dicts": listed(dicts.KIND.methods),
    }
    found = "\n".join(f"### {name}\n\n{names}\n" for name, names in rows.items())
    return f"{BEGINNING}\n## Operators, functions and methods\n\n{found}\n{missing()}"


def is_in_device_code(name: str, everything: Iterable[object]) -> bool:
    """Whether kernels can use a public name: it is in the tables, describes a target, or is written in the language."""
    value = getattr(device, name)
    described = isinstance(value, (device.SMSelector, device.TargetDescription))
    written = device._HOMES[name][0].startswith(WRITTEN) or value is device.replace
    return described or written or any(value is entity for entity in everything)


def missing() -> str:
    """What device code does not have, and what to write instead."""
    lines = [f"| {what} | {remedies.CONSTRUCTS.get(what, '')} |" for what in sorted(set(UNSUPPORTED.values()))]
    return "## What is missing\n\n| construct | what to write instead |\n|---|---|\n" + "\n".join(lines) + "\n"


@pytest.mark.skipif(sys.version_info[:2] != (3, 12), reason="other versions of Python have other names")
def test_the_page_is_what_the_tables_say(update_golden: bool) -> None:
    if update_golden:
        DOCUMENT.write_text(document(), encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == document()


@pytest.mark.parametrize(
    "name",
    """math.frexp np.clip shared_array bit_count cluster_sync grid_sync group_barrier signal wait_until philox philox4x32
    philox4x64 replace is_host is_device any_target no_target smXX float32xN""".split(),
)
def test_the_page_names(name: str) -> None:
    assert f"`{name}`" in DOCUMENT.read_text(encoding="utf-8")
