"""Arrays, lists and dicts of the host that change in place between two launches: the second launch sees the change."""

from __future__ import annotations

import functools
import operator
import types

import numpy as np
import pytest

import cuda_device as device
from cuda_device import ConstExpr
from cuda_device.infer import contents

GLOBAL = np.array([1, 2, 3])
FORTRAN = np.asfortranarray(np.arange(6.0).reshape(2, 3))
BASE = np.arange(10, dtype=np.int16)
VIEW = BASE[1::3]
SCALAR = np.array(2.5)
SHAPED = np.zeros((2, 3))
RECORDS = np.zeros(2, [("a", "i1"), ("b", "f4")])
PADDED = np.zeros(6, np.dtype([("a", "i1"), ("b", "f8")], align=True))[::2]
MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False] * 3)
SET = {1, 2}
LIST = [1, [2, np.array([3, 4])]]
DICT = {"a": 1, "b": {"c": np.array([5])}}
TUPLE = (np.array([6]), [7])
SETTINGS = types.SimpleNamespace(table=np.array([8, 9]), scale=2)


def with_default(i, table=np.array([1, 2])):  # noqa: B008
    return table[i % 2]


def with_keyword(i, *, table=[1, 2]):  # noqa: B006
    return table[0]


def reads_a_global(i):
    return GLOBAL[i]


def first_of(items):
    first, *_ = items.values()
    return first if not isinstance(first, dict) else 100


class Owner:
    __slots__ = ("_size", "slot")
    table = np.array([1, 2])
    size = property(operator.attrgetter("_size"))

    def __init__(self):
        self.slot, self._size = np.array([1, 2]), 3


OWNER = Owner()

PARTIAL = functools.partial(lambda table, i: table[i], np.array([1, 2, 3]))


CHANGES = {  # what a kernel reads, and what the program does between two launches
    "a global": ("GLOBAL[i]", "GLOBAL[1] += 10"),
    "a global of a called function": ("reads_a_global(i)", "GLOBAL[0] += 10"),
    "a constant element": ("GLOBAL[2]", "GLOBAL[2] += 10"),
    "a maximum at compile time": ("max(LIST[1][1])", "LIST[1][1][0] += 10"),
    "columns": ("FORTRAN[i % 2, 2]", "FORTRAN[1, 2] += 10"),
    "the base of a view": ("VIEW[i]", "BASE[4] += 10"),
    "no dimension": ("SCALAR[()] + i", "SCALAR[()] += 10"),
    "a member of a record": ("RECORDS[i % 2]['b']", "RECORDS['b'][1] += 3.5"),
    "a member of a record with padding": ("PADDED[i]['b']", "PADDED['b'][1] += 10"),
    "an array of a subclass": ("MASKED[i]", "MASKED[1] += 10"),
    "a set": ("10 if 5 in SET else 0", "SET.add(5)"),
    "a shape": ("SHAPED.shape[1]", "SHAPED.shape = SHAPED.shape[::-1]"),
    "an item of a list": ("LIST[0]", "LIST[0] += 10"),
    "another type of an item": ("LIST[0] // 2", "LIST[0] += 0.5"),
    "the length of a list": ("len(LIST)", "LIST.append(1)"),
    "a nested list": ("LIST[1][0]", "LIST[1][0] += 10"),
    "an array in a list": ("LIST[1][1][i % 2]", "LIST[1][1][1] += 10"),
    "a value of a dict": ("DICT['a']", "DICT['a'] += 10"),
    "the order of a dict": ("first_of(DICT)", "key = next(iter(DICT)); DICT[key] = DICT.pop(key)"),
    "an array in a dict": ("DICT['b']['c'][0]", "DICT['b']['c'][0] += 10"),
    "an array in a tuple": ("TUPLE[0][0]", "TUPLE[0][0] += 10"),
    "a list in a tuple": ("TUPLE[1][0]", "TUPLE[1][0] += 10"),
    "a default": ("with_default(i)", "with_default.__defaults__[0][0] += 10"),
    "a default of a keyword": ("with_keyword(i)", "with_keyword.__kwdefaults__['table'][0] += 10"),
    "an argument of a partial function": ("PARTIAL(i)", "PARTIAL.args[0][1] += 10"),
    "an attribute of a class": ("Owner.table[i % 2]", "Owner.table[0] += 10"),
    "an attribute of an object's class": ("OWNER.table[i % 2]", "Owner.table[1] += 10"),
    "another attribute of an object's class": ("OWNER.table[i % 2]", "Owner.table = np.array([5, 6])"),
    "an array in a slot": ("OWNER.slot[i % 2]", "OWNER.slot[1] += 10"),
    "a property": ("OWNER.size", "OWNER._size += 10"),
    "an array that is an attribute": ("SETTINGS.table[i % 2]", "SETTINGS.table[0] += 10"),
    "an attribute": ("SETTINGS.scale", "SETTINGS.scale += 10"),
}


def kernel_of(function):
    @device.kernel
    def kernel(out):
        i = device.thread_idx.x
        out[i] = function(int(i))

    return kernel


def results(stream, launch):
    """What a launch writes for each of three threads."""
    out = stream.empty(3, np.float64)
    launch(out)
    return stream.numpy(out).tolist()


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # of NumPy 2.5
@pytest.mark.parametrize(("read", "change"), CHANGES.values(), ids=CHANGES)
def test_the_next_launch_sees(stream, read, change):
    function = eval(f"lambda i: {read}")
    kernel = kernel_of(function)
    launch = functools.partial(stream.launch, kernel, grid=1, block=3)
    assert results(stream, launch) == [function(i) for i in range(3)]
    (variant,) = kernel.variants.values()
    assert results(stream, launch) == [function(i) for i in range(3)]
    assert [*kernel.variants.values()] == [variant]  # nothing has changed
    exec(change)
    assert results(stream, launch) == [function(i) for i in range(3)]
    assert [*kernel.variants.values()] != [variant]


def captures():
    table = np.array([1.0, 2.0, 3.0])
    return table, kernel_of(lambda i: table[i])


def test_a_prepared_launch_sees(stream):
    table, kernel = captures()
    out = stream.empty(3, np.float64)
    prepared = device.prepare(kernel, out, grid=1, block=3, stream=stream.stream)
    table[1] = 7
    prepared()
    assert stream.numpy(out).tolist() == [1, 7, 3]


@pytest.mark.needs("bound_kernels")
def test_a_bound_kernel_sees(stream):
    table, kernel = captures()
    bound = kernel.bind(grid=1, block=3)
    launch = functools.partial(bound, stream=stream.stream)
    assert results(stream, launch) == [1, 2, 3]
    table[1] = 7
    assert results(stream, launch) == [1, 7, 3]


@pytest.mark.needs("graphs")
def test_a_graph_sees_when_it_is_updated(stream):
    table, kernel = captures()
    out = stream.empty(3, np.float64)
    with device.graph(stream.stream) as graph:
        device.launch(kernel, out, grid=1, block=3, stream=graph.stream)
    table[1] = 7
    graph.launch()
    assert stream.numpy(out).tolist() == [1, 2, 3]
    with graph.update():
        device.launch(kernel, out, grid=1, block=3, stream=graph.stream)
    graph.launch()
    assert stream.numpy(out).tolist() == [1, 7, 3]


def test_a_constant_argument_is_seen(stream):
    table = np.array([1, 2])

    @device.kernel
    def kernel(out, table: ConstExpr = table):
        out[device.thread_idx.x] = table[1]

    launch = functools.partial(stream.launch, kernel, grid=1, block=3)
    assert results(stream, launch) == [2] * 3
    table[1] = 7
    assert results(stream, launch) == [7] * 3


def test_an_earlier_content_is_recalled(stream, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_CACHE", str(tmp_path))
    table, kernel = captures()
    launch = functools.partial(stream.launch, kernel, grid=1, block=3)
    before = device.cache_info()
    for value in (1, 7, 1, 7, 1):
        table[0] = value
        assert results(stream, launch) == [value, 2, 3]
    now = device.cache_info()
    assert (now.hits - before.hits, now.misses - before.misses) == (3, 2)


@pytest.mark.parametrize("more", [0, 1])
def test_a_large_array_is_a_snapshot(stream, more):
    table = np.zeros(contents.MOST_BYTES + more, np.int8)
    kernel = kernel_of(lambda i: table[i])
    launch = functools.partial(stream.launch, kernel, grid=1, block=3)
    assert results(stream, launch) == [0] * 3
    table[1] = 7
    assert results(stream, launch) == [0, 0 if more else 7, 0]
    table = table.copy()
    assert results(stream, launch) == [0, 7, 0]


class ChangedByReading(np.ndarray):
    def __getitem__(self, index):
        found = super().__getitem__(index)
        self[1] = 7
        return found


def test_what_changed_during_compilation_is_seen(stream):
    table = np.array([1.0, 2.0]).view(ChangedByReading)
    launch = functools.partial(stream.launch, kernel_of(lambda i: table[1]), grid=1, block=3)
    for value in (2, 7, 2, 7):  # the cache has nothing of a launch that was compiled meanwhile
        np.asarray(table)[1] = value
        assert results(stream, launch) == [value] * 3


def test_names_alone_cost_nothing():
    kernel = kernel_of(lambda i: i + 1)
    device.launch(kernel, np.zeros(3), grid=1, block=3, stream=device.cpu_stream())
    (variant,) = kernel.variants.values()
    assert not variant.contents and not any(each.contents for each in variant.work.dependencies)
    assert variant.current.__name__ == "check"
