"""What a program binds anew between two launches is seen by the second; what stays is not compiled again."""

from __future__ import annotations

import enum
import functools
import logging
import textwrap

import numpy as np
import pytest
from conftest import poison

import cuda_device as device


def results(stream, kernel):
    return stream.run(kernel, poison(4, np.float64), block=4).tolist()


def compiled(kernel):
    """The newest variant's work, which is another object when the kernel was compiled again."""
    return next(reversed(kernel.variants.values())).work


def kernel_of(value):
    """A kernel that writes what `value` gives for each thread's index."""

    @device.kernel
    def kernel(out):
        i = device.tid(1)
        out[i] = value(i)

    return kernel


SCALED = """
    scale = 2
    @device.kernel
    def kernel(out):
        out[device.tid(1)] = scale / 4
"""
CALLED = """
    limit = 100
    def inner(x): return x + 1
    def middle(x): return inner(x) * 2
    @device.func
    def outer(x): return middle(x)
    @device.kernel
    def kernel(out):
        out[device.tid(1)] = outer(3.0)
"""
CLOSED = """
    def make():
        scale = 2
        def helper(x): return x * scale
        @device.kernel
        def kernel(out):
            out[device.tid(1)] = helper(5.0) + scale
        def change(*to):
            nonlocal scale
            if to: scale, = to
            else: del scale
        return kernel, change
    kernel, change = make()
"""
ATTRIBUTES = """
    module = type(np)("some_module")
    module.offset = 10
    class Settings:
        scale = 2
    @device.kernel
    def kernel(out):
        out[device.tid(1)] = Settings.scale * module.offset
"""
BUILTINS = """
    @device.kernel
    def kernel(out):
        out[device.tid(1)] = abs(-3.0) + max(1, 2)
"""
OF_CODE = """
    def helper(v, a=1, *, b=10): return v + a + b
    def other(v, a=1, *, b=10): return v * 3
    @device.kernel
    def kernel(out):
        out[device.tid(1)] = helper(4)
    def another(result):
        result[device.tid(1)] = 2
"""
SEEN = {
    "global": (
        SCALED,
        *[(f"scale = {scale}", eval(scale) / 4) for scale in ("3", "2", "2.5", "True", "np.float64(0.1)", "1", "1.0")],
        ("scale = np.int64(2**40)", 2.0**38),
        ("scale = None", "/"),
        ("del scale", "scale"),
        ("scale = 8", 2),
    ),
    "callee": (
        CALLED,
        ("def inner(x): return x + 10", 26),
        ("@device.func\ndef outer(x): return middle(x) + limit", 126),
        ("limit = 200", 226),
        ("import math; middle = math.sqrt", 3**0.5 + 200),
    ),
    "closure variable": (
        CLOSED,
        ("change(3)", 18),
        ("change()", "'scale' of the enclosing function has no value"),
        ("change(2)", 12),
    ),
    "attribute": (ATTRIBUTES, ("Settings.scale = 3", 30), ("module.offset = 0.5", 1.5)),
    "hidden builtin": (BUILTINS, ("abs = lambda x: x * 10", -28), ("del abs", 5)),
    "code": (OF_CODE, ("helper.__code__ = other.__code__", 12)),
    "code of the kernel": (OF_CODE, ("kernel.underlying.__code__ = another.__code__", 2)),
    "defaults": (OF_CODE, ("helper.__defaults__ = (2,)", 16), ("helper.__kwdefaults__ = {'b': 20}", 26)),
}


@pytest.mark.parametrize("program", SEEN.values(), ids=SEEN)
def test_what_is_bound_anew_is_seen_by_the_next_launch(stream, program):
    text, *changes = program
    names = {"device": device, "np": np}
    exec(textwrap.dedent(text), names)
    results(stream, names["kernel"])
    for change, expected in changes:
        exec(change, names)
        if isinstance(expected, str):
            with pytest.raises(device.CompileError, match=expected):
                results(stream, names["kernel"])
        else:
            assert results(stream, names["kernel"]) == [expected] * 4, change
    if text is OF_CODE and "another" in changes[0][0]:
        out = stream.empty(4)
        stream.launch(names["kernel"], result=out, grid=1, block=4)
        assert stream.numpy(out).tolist() == [2] * 4


def test_defaults_that_a_call_does_not_use(stream):
    def helper(v, a=1, *, b=10):
        return v + a + b

    given = kernel_of(lambda i: helper(i, 1, b=10))
    assert results(stream, given) == [11, 12, 13, 14]
    before = compiled(given)
    helper.__defaults__, helper.__kwdefaults__ = (2,), {"b": 20}
    assert results(stream, given) == [11, 12, 13, 14]
    assert compiled(given) is before


@device.struct
class Pair:
    x: device.int32
    y: device.int32 = 5
    scale = 2

    @device.func
    def value(self):
        return self.x * self.scale

    def __add__(self, other):
        return Pair(self.x + other.x, 0)


@pytest.mark.parametrize(
    ("name", "use", "new", "before", "after"),
    [
        ("value", lambda i: Pair(i).value(), lambda self: self.y, [0, 2, 4, 6], [5] * 4),
        ("scale", lambda i: Pair(i).value(), 3, [0, 2, 4, 6], [0, 3, 6, 9]),
        ("scale", lambda i: Pair.scale, 3, [2] * 4, [3] * 4),
        ("__add__", lambda i: (Pair(i) + Pair(1)).x, lambda a, b: Pair(a.x - b.x), [1, 2, 3, 4], [-1, 0, 1, 2]),
        ("__sub__", lambda i: (Pair(i) - Pair(1)).x, lambda a, b: Pair(a.x - b.x), None, [-1, 0, 1, 2]),
        ("__eq__", lambda i: 1 if Pair(i) == Pair(1) else 0, lambda a, b: a.x > b.x, [0, 1, 0, 0], [0, 0, 1, 1]),
    ],
    ids=["method", "attribute by an object", "attribute by the class", "operator", "new operator", "comparison"],
)
def test_the_methods_of_a_struct(stream, monkeypatch, name, use, new, before, after):
    kernel = kernel_of(use)
    if before is None:
        with pytest.raises(device.CompileError):
            results(stream, kernel)
    else:
        assert results(stream, kernel) == before
    with monkeypatch.context() as patch:
        patch.setattr(Pair, name, new, raising=False)
        assert results(stream, kernel) == after
    if before is not None:
        assert results(stream, kernel) == before


def test_what_stays_is_not_compiled_again(stream):
    class Colour(enum.IntEnum):
        RED = 3

    class Tools:
        @staticmethod
        def plain(v):
            return v + 1

        class Inner:
            n = 7

    def helper(v, a=Tools.Inner.n):
        return v + a

    shifted = functools.partial(helper, a=2)

    def value(i):
        return (
            Tools.plain(i)
            + Tools.Inner.n
            + helper(i)
            + shifted(i)
            + Colour.RED
            + Pair(i).value()
            + (Pair(1) + Pair(i)).x
        )

    kernel = kernel_of(value)
    first = results(stream, kernel)
    work = compiled(kernel)
    assert results(stream, kernel) == first == [float(value(i)) for i in range(4)]
    assert compiled(kernel) is work


def test_names_that_change_all_the_time_are_warned_of_once(stream, caplog):
    limit = 0
    kernel = kernel_of(lambda i: i + limit)
    with caplog.at_level(logging.WARNING, "cuda_device"):
        for limit in range(40):  # noqa: B007
            assert results(stream, kernel) == [limit, limit + 1, limit + 2, limit + 3]
    assert caplog.text.count("pass them as arguments") == 1
    assert "(limit)" in caplog.text
