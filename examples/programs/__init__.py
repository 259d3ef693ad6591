"""Whole programs, one a file: kernels, the host code that drives them, and the same with NumPy or SciPy.

Each module has `run(stream, *inputs)`, `expect(*inputs)`, `cases(random)`, which yields inputs, and `TOLERANCE`. A result is an
array or a tuple of them. `CAPABILITY` is the least compute capability of a GPU that runs the program, if recent ones alone do.
`python examples/programs [name …] [--cpu]` runs the cases and compares.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

NAMES = tuple(sorted(file.stem for file in Path(__file__).parent.glob("[a-z]*.py")))


def load(name: str) -> ModuleType:
    """The module of a program."""
    return importlib.import_module(f"{__name__}.{name}")


def check(program: ModuleType, result: Any, expected: Any) -> None:
    """Raises `AssertionError` where a result is not what NumPy has, within the program's tolerance."""
    results = result if isinstance(result, tuple) else (result,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_allclose(one, other, **program.TOLERANCE, strict=False)
        assert np.shape(one) == np.shape(other)
