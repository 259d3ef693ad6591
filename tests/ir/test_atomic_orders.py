"""Orders and scopes of atomics on shared memory: narrowed and relaxed only where no thread can observe it.

Litmus tests: the PTX keeps the order of an atomic in programs that can observe it, and not in others.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from conftest import poison
from ir_helpers import define

import cuda_device as device
from cuda_device import ArrayType, compiler, int32, uint8, uint32

ACCESS = re.compile(r"^\s*(fence\.\S+|(?:atom|red)\.\S+|(?:ld|st)\.(?:relaxed|acquire|release)\S*)", re.M)
ARRAYS = ArrayType(int32, 1), ArrayType(int32, 1)
SHARED = """
    a = device.atomic_ref(device.shared_array(4, device.int32), 0)
    s = device.shared_array(4, device.int32)
    b = device.atomic_ref(s, 1)
    g = device.atomic_ref(x, 0)
    i = device.thread_idx.x
"""


def text(*lines):
    return "\n".join(lines)


def accesses(body, **names):
    """The atomics and fences in the PTX of a kernel with these statements, in their order."""
    source = "@device.kernel\ndef k(x, out):" + SHARED + "".join(f"    {line}\n" for line in body.split("\n"))
    kernel = define(source, file="<litmus>", **names)
    found = ACCESS.findall(device.compile(kernel, *ARRAYS, output="ptx").code)
    return [each.rstrip(";") for each in found]


def of_shared(found):
    return [each for each in found if ".shared" in each]


# What nobody can see is dropped

SILENT = {
    "counter": text("a.add(1)", "device.syncthreads()", "out[i] = s[0]"),
    "histogram": text(
        "for j in range(8):",
        "    device.atomic_ref(s, x[j] & 3).add(1)",
        "device.syncthreads()",
        "if i < 4:",
        "    device.atomic_ref(out, i).add(s[i])",
    ),
    "two objects": text("a.add(1)", "b.max(i)", "device.syncthreads()", "out[i] = s[1]"),
    "store": text("x[i] = 1", "b.store(i)", "device.syncthreads()", "out[i] = s[1]"),
    "exchange": text("a.exch(i)", "device.syncthreads()", "out[i] = s[0]"),
    "a relaxed one outside": text("a.add(1)", "g.add(1, 'relaxed')", "out[i] = s[0]"),
    "ordered ones behind a barrier": text(
        "a.add(1)", "device.syncthreads()", "g.add(1, 'release')", "device.threadfence()"
    ),
    "plain accesses": text("x[1] = i", "a.add(1)", "out[i] = x[2]"),
    "orders before it": text(
        "g.add(1)", "device.threadfence()", "device.syncthreads()", "a.add(1)", "device.syncthreads()", "out[i] = s[0]"
    ),
    "votes": text("a.add(1)", "out[i] = device.any_sync(-1, x[i] > 0)"),
}


@pytest.mark.parametrize("name", SILENT)
def test_orders_that_nobody_can_see(name):
    found = of_shared(accesses(SILENT[name]))
    assert found and all(re.match(r"(red|st|atom)\.relaxed\.cta\.shared", each) for each in found), found


# What somebody can see stays

OBSERVED = {
    "message passing": text(
        "if i == 0:",
        "    x[1] = 7",
        "    a.store(1, 'release')",
        "else:",
        "    while a.load('acquire') == 0:",
        "        pass",
        "    out[0] = x[1]",
    ),
    "message passing by updates": text(
        "if i == 0:",
        "    x[1] = 7",
        "    a.add(1)",
        "else:",
        "    while a.add(0) == 0:",
        "        pass",
        "    out[0] = x[1]",
    ),
    "store buffering": text(
        "if i == 0:", "    a.store(1)", "    out[0] = b.load()", "else:", "    b.store(1)", "    out[1] = a.load()"
    ),
    "load buffering": text(
        "if i == 0:",
        "    out[0] = a.load('acquire')",
        "    b.store(1, 'release')",
        "else:",
        "    out[1] = b.load('acquire')",
        "    a.store(1, 'release')",
    ),
    "independent reads": text(
        "if i == 0:",
        "    a.store(1)",
        "elif i == 1:",
        "    b.store(1)",
        "elif i == 2:",
        "    out[0] = a.load()",
        "    out[1] = b.load()",
        "else:",
        "    out[2] = b.load()",
        "    out[3] = a.load()",
    ),
    "a result": "out[i] = a.add(1)",
    "a result of another object": text("a.add(1)", "out[i] = b.add(1, 'relaxed')"),
    "a ticket": "out[a.add(1, 'acq_rel')] = i",
    "a lock": text("while a.cas(0, 1, 'acquire') != 0:", "    pass", "x[1] += 1", "a.store(0, 'release')"),
    "a fence behind it": text("a.add(1, 'release')", "device.threadfence()", "out[i] = x[1]"),
    "an ordered atomic outside": text("x[1] = i", "a.add(1)", "g.add(1, 'release')"),
    "an ordered atomic on one edge": text(
        "a.add(1)", "if x[2] > 0:", "    g.store(1)", "else:", "    device.syncthreads()", "out[i] = s[0]"
    ),
    "an ordered atomic in the next round": text(
        "for j in range(x[3]):", "    g.add(1)", "    a.add(1)", "device.syncthreads()", "out[i] = s[0]"
    ),
    "a load outside": text("a.add(1)", "out[i] = g.load('acquire')"),
    "one of two": text("a.add(1)", "device.syncthreads()", "b.add(1)", "device.threadfence()"),
    "a call": text("a.add(1)", "out[i] = helper(g)"),
}


@device.func
def helper(atomic):
    while atomic.load() == 3:
        pass
    return 1


@pytest.mark.parametrize("name", OBSERVED)
def test_orders_that_somebody_can_see(name):
    found = accesses(OBSERVED[name], helper=helper)
    inside = of_shared(found)
    ordered = [each for each in inside if not re.search(r"\.relaxed\.", each)]
    assert ordered or any(each.startswith("fence") for each in found), found
    # As many as the program asks for: relaxed ones are those that it names so.
    assert sum(".relaxed." in each for each in inside) == OBSERVED[name].count("b.add(1, 'relaxed')")
    assert all(".cta." in each for each in inside)


def test_functions_of_others_may_look():
    """A function that CUDA C++ calls, and one that calls CUDA C++, keep their orders; their scopes narrow."""

    @device.func
    def count(x, out):
        device.atomic_ref(device.shared_array(4, int32), 0).add(1)
        out[0] = 1

    ptx = device.compile(count, *ARRAYS, output="ptx").code
    assert re.search(r"(atom|red)\.acquire\.cta\.shared", ptx) and "fence.sc.cta" in ptx


def test_scopes_outside_of_shared_memory_stay():
    found = accesses("g.add(1)\ndevice.atomic_ref(out, 1).max(2, 'relaxed', 'device')\ng.store(2, 'release', 'block')")
    assert [each.split(".")[2] for each in found if not each.startswith("fence")] == ["sys", "gpu", "cta"]


def test_what_is_shared_through_a_function_is_narrow():
    """The scope also narrows in functions, if the reference is known to be one to shared memory."""

    @device.kernel
    def k(x):
        bins = device.shared_array(8, uint32)
        bins[device.thread_idx.x & 7] = 0
        device.syncthreads()
        counted(bins, x)
        device.syncthreads()
        x[0] = uint8(bins[0])

    found = ACCESS.findall(device.compile(k, ArrayType(uint8, 1), output="ptx").code)
    assert [each.rstrip(";") for each in found] == ["red.relaxed.cta.shared.add.u32"]


@device.func
def counted(bins, x):
    device.atomic_ref(bins, x[device.thread_idx.x] & 7).add(1)


def test_natural_histogram(stream):
    @device.kernel
    def k(x, total):
        mine = device.shared_array(64, np.uint32)
        i = device.thread_idx.x
        if i < 64:
            mine[i] = 0
        device.syncthreads()
        for j in range(device.tid(1), len(x), device.grid_size(1)):
            device.atomic_ref(mine, x[j]).add(1)
        device.syncthreads()
        if i < 64:
            device.atomic_ref(total, i).add(mine[i])

    x = np.random.default_rng(3).integers(0, 64, 50_000).astype(np.uint8)
    total = stream.array(np.zeros(64, np.uint32))
    stream.launch(k, stream.array(x), total, grid=6, block=96)
    assert np.array_equal(stream.numpy(total), np.bincount(x, minlength=64))
    ptx = device.compile(k, ArrayType(uint8, 1), ArrayType(uint32, 1), output="ptx").code
    found = [each.rstrip(";") for each in ACCESS.findall(ptx)]
    assert found == ["red.relaxed.cta.shared.add.u32", "fence.sc.sys", "atom.acquire.sys.global.add.u32"]


@pytest.mark.parametrize("memory", ["seq_cst", "acq_rel", "release", "relaxed"])
def test_messages_pass_through_shared_memory(stream, memory):
    """Data that is written before a flag is read after it, whatever the scopes."""

    @device.kernel
    def k(out):
        data = device.shared_array(64, int32)
        flag = device.atomic_ref(device.shared_array(1, int32), 0)
        i = device.thread_idx.x
        if i == 0:
            flag.store(0, "relaxed")
        device.syncthreads()
        if i == 0:
            for j in range(64):
                data[j] = j * j
            flag.add(1, memory if memory != "relaxed" else "seq_cst", "system")
        elif i == 32:
            while flag.load("acquire" if memory != "relaxed" else "seq_cst", "system") == 0:
                pass
            for j in range(64):
                out[j] = data[j]

    out = stream.empty(64, np.int32)
    stream.launch(k, out, grid=1, block=64)
    assert stream.numpy(out).tolist() == [j * j for j in range(64)]


@device.kernel
def of_each_operation(x, out):
    s = device.shared_array(7, device.int32)
    i = device.thread_idx.x
    if i < len(s):
        s[i] = -1 if i == 3 else 0
    device.syncthreads()
    v = x[i]
    device.atomic_ref(s, 0).add(v)
    device.atomic_ref(s, 1).max(v)
    device.atomic_ref(s, 2).min(v)
    device.atomic_ref(s, 3).and_(v)
    device.atomic_ref(s, 4).or_(v)
    device.atomic_ref(s, 5).xor(v)
    if i == 5:
        device.atomic_ref(s, 6).exch(v)
    device.syncthreads()
    if i < len(s):
        out[i] = s[i]


def test_the_cpu_locks_nothing_that_one_block_sees(stream):
    x = np.array([5, -3, 12, 7, -100, 99, 3, 2], np.int32)
    out = stream.run(of_each_operation, x, poison(7, np.int32), block=8)[-1]
    reductions = np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor
    expected = [f.reduce(x, initial=-1 if f is np.bitwise_and else 0) for f in reductions]
    assert out.tolist() == [*expected, 99]
    if stream.kind == "cpu":
        (variant,) = of_each_operation.variants.values()
        assert "atomicrmw" not in compiler.run(variant.work.job)["llvm"].text
