"""Import statements in functions, against plain Python."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from against_python import check, refused
from ir_helpers import define

import cuda_device as device


def of_modules(i, x):
    import math
    import operator as op

    return math.floor(x[i] * math.pi) + op.mul(i, 3)


def of_names(i, x):
    from math import cos
    from math import sin as sine

    return sine(x[i]) * 2 + cos(x[i])


def of_submodules(i, x):
    import collections.abc as abc
    import os.path
    from importlib import machinery

    return (i + 1) * (isinstance(i, abc.Sequence) * 4 + (os.path.sep == "/") + (machinery is not None) * 2)


def on_one_way(i, x):
    if x[i] > 2:
        from math import sqrt

        return sqrt(x[i])
    return x[i]


def in_a_loop(i, x):
    total = 0.0
    for k in range(i):
        import math

        total += math.fabs(x[k] - 3)
    return total


def captured(i, x):
    from math import hypot

    def length(a):
        return hypot(a, i)

    return length(x[i]) + length(1.0)


@pytest.mark.parametrize(
    "function", [of_modules, of_names, of_submodules, on_one_way, in_a_loop, captured], ids=lambda f: f.__name__
)
def test_imports_in_functions(stream, function):
    check(stream, function, np.arange(8.0) * 0.75 + 0.25, exact=False)


def test_a_kernel_imports_the_package(stream):
    @device.kernel
    def positions(out):
        import cuda_device as cd
        from cuda_device import int64, tid

        i = tid(1)
        if i < out.size:
            out[i] = int64(i) * 2 + cd.block_dim.x

    out = stream.empty(8, np.int64)
    stream.launch(positions, out, grid=2, block=4)
    assert stream.numpy(out).tolist() == [2 * i + 4 for i in range(8)]


def test_a_module_that_the_program_has_imported(stream, monkeypatch):
    package = types.ModuleType("imported_package")
    package.__path__ = []
    package.part = types.ModuleType("imported_package.part")
    package.part.scale = 7
    package.scale = 3
    monkeypatch.setitem(sys.modules, "imported_package", package)
    monkeypatch.setitem(sys.modules, "imported_package.part", package.part)
    kernel = define(
        """
        @device.kernel
        def k(out):
            import imported_package
            import imported_package.part as part
            from .part import scale
            from . import scale as other
            out[0] = imported_package.scale
            out[1] = part.scale
            out[2] = scale
            out[3] = other
        """
    )
    kernel.underlying.__globals__["__package__"] = "imported_package"
    out = stream.empty(4, np.int32)
    stream.launch(kernel, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [3, 7, 7, 3]
    exchanged = types.ModuleType("imported_package.part")
    exchanged.scale = 11
    monkeypatch.setitem(sys.modules, "imported_package.part", exchanged)
    stream.launch(kernel, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [3, 7, 11, 3]  # as in Python: the package still has its part


def imports_what_nobody_has(x):
    import does_not_exist

    return does_not_exist.value


def imports_a_missing_name(x):
    from math import pie

    return pie


def imports_a_missing_module_of_python(x):
    import os.pathology

    return os.pathology.value


def imports_from_nowhere(x):
    from ...nowhere import value  # noqa: TID252

    return value


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (imports_what_nobody_has, "does_not_exist is not imported"),
        (imports_a_missing_name, "'pie' cannot be imported from math"),
        (imports_a_missing_module_of_python, "os.pathology cannot be imported"),
        (imports_from_nowhere, "leads nowhere"),
    ],
)
def test_imports_that_cannot_be_done(function, match):
    error = refused(function, float, match=match)
    assert error.location.line == function.__code__.co_firstlineno + 1


def test_compiling_runs_no_module_that_the_program_has_not(tmp_path, monkeypatch):
    (tmp_path / "bystander.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)

    def imports(x):
        import bystander

        return bystander.value

    refused(imports, float, match="bystander is not imported")
