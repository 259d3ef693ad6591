"""Atomics: what each operation does, alone and under contention, and the PTX of every operation, type, order and scope."""

import itertools
import math
import operator
import re

import numpy as np
import pytest
from conftest import long, thinned
from ir_helpers import define

import cuda_device as device

INTEGERS = ["int32", "uint32", "int64", "uint64"]
NUMBERS = [*INTEGERS, "float32", "float64"]
NARROW = ["int8", "uint8", "int16", "uint16", "float16", "bool"]
EVERY = [*NUMBERS, *NARROW]
ORDERS = ["relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"]
LOADS = ["relaxed", "consume", "acquire", "seq_cst"]
STORES = ["relaxed", "release", "seq_cst"]
TYPES = {
    **dict.fromkeys(("load", "store", "exch", "cas", "wait"), EVERY),
    **dict.fromkeys(("add", "sub", "max", "min", "nanmax", "nanmin"), NUMBERS),
    **dict.fromkeys(("and_", "or_", "xor"), INTEGERS),
}
CHANGES = ["exch", "add", "sub", "and_", "or_", "xor", "max", "nanmax", "min", "nanmin"]


def compiled(function, *arguments, output="ptx", **options):
    return str(device.compile(function, *arguments, output=output, **options))


def array(dtype, ndim=1):
    return device.ArrayType(dtype, ndim)


# What each operation does


def wrap(value, name):
    return (
        np.array(value).astype(name).item()
        if "float" in name
        else int(np.array(value & (2**64 - 1), "uint64").astype(name))
    )


def extreme(name, greater):
    """The operation on Python numbers: `name` is max, nanmax, min or nanmin."""

    def choose(a, b):
        if math.isnan(a) or math.isnan(b):
            either = (a, b) if math.isnan(a) != name.startswith("nan") else (b, a)
            return either[0] if not (math.isnan(a) and math.isnan(b)) else math.nan
        key = lambda x: (x, math.copysign(1, x))  # noqa: E731
        return max(a, b, key=key) if greater else min(a, b, key=key)

    return choose


MEANINGS = {
    "exch": lambda _, b: b,
    "add": operator.add,
    "sub": operator.sub,
    "and_": operator.and_,
    "or_": operator.or_,
    "xor": operator.xor,
    **{name: extreme(name, name.endswith("max")) for name in ("max", "nanmax", "min", "nanmin")},
}


def values_of(name):
    if name == "bool":
        return [False, True]
    if "float" in name:
        edges = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan]
        return edges if name == "float16" else [*edges, 1e30, -1e-30]
    info = np.iinfo(name)
    return [*sorted({int(info.min), int(info.max), 0, 1, 5, max(int(info.min), -7)})]


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


MAKE = {
    "global": "device.atomic_ref(cells, (i, 1))",
    "shared": "device.atomic_ref(shared, i % 32)",
    "local": "device.atomic_ref(local, -2)",
    "own": "device.Atomic(local.dtype)",
}


def run_each(stream, space, calls, name, pairs):
    """What each call gave, and what was there then: each thread makes all calls on the first of its two values, in a cell."""
    lines = [
        f"cell.store(a[i], 'relaxed', 'block'); old[{k}, i] = cell.{call}; new[{k}, i] = cell.load('relaxed', 'block')"
        for k, call in enumerate(calls)
    ]
    source = f"""
        @device.kernel
        def k(cells, a, b, old, new):
            i = device.tid(1)
            shared = device.shared_array(32, cells.dtype)
            local = device.local_array(3, cells.dtype)
            if i < len(a):
                cell = {MAKE[space]}
                {(chr(10) + 16 * " ").join(lines)}
        """
    a, b = (np.array(column, name) for column in zip(*pairs, strict=True))
    cells, (old, new) = stream.empty((len(a), 3), name), (stream.empty((len(calls), len(a)), name) for _ in range(2))
    kernel, grid = define(source, file=f"<{space} {calls}>"), -(-len(a) // 32)
    stream.launch(kernel, cells, *map(stream.array, (a, b)), old, new, grid=grid, block=32)
    if space == "global":  # the neighbours
        poison = stream.numpy(stream.empty(1, name))
        assert stream.numpy(cells)[:, [0, 2]].tobytes() == np.repeat(poison, 2 * len(a)).tobytes()
    return a.tolist(), b.tolist(), stream.numpy(old).tolist(), stream.numpy(new).tolist()


# Bits are compared: a NaN is itself and 0.0 is not -0.0.
CAS = {"cas(b[i], b[i])": lambda a, b: a, "cas(a[i], b[i])": lambda a, b: b}


ALL = [pytest.param(space, 1, marks=long(n)) for n, space in enumerate(MAKE)]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("space, one_in", [*((space, 3) for space in MAKE), *ALL])
def test_what_operations_do(stream, space, one_in):
    """With one in three types, which are others for the next kind of memory."""
    for name in EVERY[[*MAKE].index(space) % one_in :: one_in]:
        scope = "thread" if space in ("shared", "global") and name == "int64" else "device"
        calls = {f"{m}(b[i], 'acq_rel', '{scope}')": MEANINGS[m] for m in CHANGES if name in TYPES[m]} | CAS
        a, b, *found = run_each(stream, space, calls, name, [*itertools.product(values_of(name), repeat=2)])
        for (call, meaning), old, new in zip(calls.items(), *found, strict=True):
            for before, operand, was, now in zip(a, b, old, new, strict=True):
                with np.errstate(all="ignore"):
                    right = meaning(np.dtype(name).type(before) if "float" in name else before, operand)
                assert same(was, before), (name, call, before, operand, was)
                assert same(now, right if call in CAS else wrap(right, name)), (name, call, before, operand, now, right)


def test_references_to_strided_arrays(stream):
    if stream.kind == "gpu":
        pytest.skip("a strided array of the host")

    @device.kernel
    def k(cells):
        device.atomic_ref(cells, (device.tid(1), -1)).add(device.tid(1) + 1)

    memory = np.zeros((8, 6), np.int32)
    device.launch(k, memory[::-2, ::3].T[::-1].T, grid=1, block=4, stream=stream.stream)
    right = np.zeros((8, 6), np.int32)
    right[::-2, ::3][:, 0] = [1, 2, 3, 4]
    assert np.array_equal(memory, right)


# Under contention

GRID, BLOCK = 40, 128
THREADS = GRID * BLOCK


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("memory", ["relaxed", "seq_cst"])
def test_old_values_of_sums_are_a_permutation(stream, name, memory):
    @device.kernel
    def k(cells, old):
        i = device.tid(1)
        old[i] = device.atomic_ref(cells, i % 3).add(1, memory)

    cells, old = stream.array(np.zeros(3, name)), stream.empty(THREADS, name)
    stream.launch(k, cells, old, grid=GRID, block=BLOCK)
    counts = [len(range(j, THREADS, 3)) for j in range(3)]
    assert stream.numpy(cells).tolist() == counts
    for j, count in enumerate(counts):
        assert sorted(stream.numpy(old)[j::3].tolist()) == [*range(count)]


@pytest.mark.parametrize("name", EVERY)
def test_exchanges_form_a_chain(stream, name):
    @device.kernel
    def k(cells, values, old):
        i = device.tid(1)
        old[i] = device.atomic_ref(cells, 1).exch(values[i], "acq_rel", "device")

    top = 2 if name == "bool" else 100
    values = (np.arange(THREADS) % top).astype(name)
    cells, old = stream.array(np.zeros(4, name)), stream.empty(THREADS, name)
    stream.launch(k, cells, stream.array(values), old, grid=GRID, block=BLOCK)
    left = stream.numpy(cells)
    assert left[[0, 2, 3]].tolist() == [0, 0, 0]
    assert sorted([*stream.numpy(old).tolist(), left[1].item()]) == sorted([0, *values.tolist()])


@pytest.mark.parametrize("name", INTEGERS)
def test_bits_extremes_and_differences(stream, name):
    @device.kernel
    def k(cells, values):
        i = device.tid(1)
        value = values[i]
        device.atomic_ref(cells, 0).max(value, "relaxed")
        device.atomic_ref(cells, 1).min(value, "acquire", "device")
        device.atomic_ref(cells, 2).xor(value, "release")
        device.atomic_ref(cells, 3).or_(value & 0x5555, "acq_rel", "device")
        device.atomic_ref(cells, 4).and_(value | 0xF0, "consume")
        device.atomic_ref(cells, 5).sub(value)
        device.atomic_ref(cells, 6).nanmax(value)
        device.atomic_ref(cells, 7).nanmin(value)

    info = np.iinfo(name)
    values = np.random.default_rng(1).integers(info.min, info.max, THREADS, name, endpoint=True)
    start = np.zeros(8, name)
    start[[0, 1, 6, 7]] = values[0]
    start[4] = ~start[4]
    cells = stream.array(start)
    stream.launch(k, cells, stream.array(values), grid=GRID, block=BLOCK)
    high, low = values.max(), values.min()
    some, all_but = np.array(0x5555, name), np.array(0xF0, name)
    xor, bits = np.bitwise_xor.reduce(values), np.bitwise_or.reduce(values & some)
    both = np.bitwise_and.reduce(values | all_but)
    with np.errstate(all="ignore"):
        difference = (-values.astype("uint64").sum()).astype(name)
    assert stream.numpy(cells).tolist() == [x.item() for x in (high, low, xor, bits, both, difference, high, low)]


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_extremes_of_floats(stream, name):
    @device.kernel
    def k(cells, values, old):
        i = device.tid(1)
        value = values[i]
        old[i] = device.atomic_ref(cells, 0).max(value)
        device.atomic_ref(cells, 1).min(value, "relaxed", "device")
        odd = math.nan if i % 5 == 2 else value
        device.atomic_ref(cells, 2).nanmax(odd, "acq_rel")
        device.atomic_ref(cells, 3).nanmin(odd, "release")
        device.atomic_ref(cells, 4).max(odd, "relaxed")
        device.atomic_ref(cells, 5).min(odd, "acquire")

    values = np.random.default_rng(2).normal(size=THREADS).astype(name)
    kept = values[np.arange(THREADS) % 5 != 2]
    start = [-math.inf, math.inf, math.nan, math.nan, 0, 0]
    cells, old = stream.array(np.array(start, name)), stream.empty(THREADS, name)
    stream.launch(k, cells, stream.array(values), old, grid=GRID, block=BLOCK)
    right = np.array([values.max(), values.min(), kept.max(), kept.min(), math.nan, math.nan], name)
    assert np.array_equal(stream.numpy(cells), right, equal_nan=True)
    # The old values rise: each is the start or one of the values, and the largest was never seen as old by its own thread.
    before = stream.numpy(old)
    assert set(before.tolist()) <= {-math.inf, *values.tolist()}
    assert before[values.argmax()] < values.max()


# Waiting for others


@device.kernel
def under_a_spin_lock(lock, counters):
    # One thread of a block at a time: a lane that holds a lock must not wait for its warp.
    for turn in range(3):
        if device.thread_idx.x == turn:
            mutex = device.atomic_ref(lock, 0)
            while mutex.cas(0, 1, "acquire", "device") != 0:
                pass
            for i in range(len(counters)):
                counters[i] += i + 1
            mutex.store(0, "release", "device")
        device.syncthreads()


def test_a_spin_lock_guards_plain_data(stream):
    lock, counters = stream.run(under_a_spin_lock, np.zeros(1, np.int32), np.zeros(5, np.int64), grid=50, block=32)
    assert counters.tolist() == [150 * (i + 1) for i in range(5)]
    assert lock.tolist() == [0]


@device.kernel
def hand_on(data, flags, out):
    """Each block waits for the one before it, whose data it reads."""
    here = device.block_idx.x
    if device.thread_idx.x == 0:
        value = device.int64(1)
        if here > 0:
            device.atomic_ref(flags, here - 1).wait(0, "relaxed", "device")
            device.threadfence("acquire", "device")
            value = data[here - 1] * 3 % 1000003
        data[here] = value
        device.threadfence("release", "device")
        device.atomic_ref(flags, here).store(1, "relaxed", "device")
        out[here] = value


def test_fences_hand_data_on(stream):
    blocks = 60
    data, flags = stream.empty(blocks, np.int64), stream.array(np.zeros(blocks, np.int8))
    out = stream.empty(blocks, np.int64)
    stream.launch(hand_on, data, flags, out, grid=blocks, block=32)
    assert stream.numpy(out).tolist() == [pow(3, i, 1000003) for i in range(blocks)]


# PTX

ACCESS = re.compile(
    r"^\s*(fence\.\S+|(?:atom|red)\.\S+|membar\.\S+|(?:ld|st)\.(?:relaxed|acquire|release)\S*|nanosleep\S*)", re.M
)
PTX_SCOPES = {"system": "sys", "device": "gpu", "block": "cta"}
PTX_ORDERS = {
    "relaxed": "relaxed",
    "consume": "acquire",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
PTX_NAMES = {"and_": "and", "or_": "or", "nanmax": "max", "nanmin": "min", "sub": "add"}
SPACES = {"global": "cells", "shared": "device.shared_array(4, cells.dtype)"}


def accesses(text):
    return [found.rstrip(";") for found in ACCESS.findall(text)]


def letter(method, name):
    if method in ("exch", "cas", "and_", "or_", "xor", "load", "store"):
        return "b"
    if method in ("add", "sub"):
        return "f" if "float" in name else "u"
    return "s" if name.startswith("i") else "u"


def instructions(method, name, order, scope, space):
    """What the PTX memory model's mapping from C++ says of one operation on so many bits as the type's name ends in."""
    bits, where = re.search(r"\d+$", name)[0], PTX_SCOPES["block" if space == "shared" else scope]
    fence = [f"fence.sc.{where}"] if order == "seq_cst" else []
    if method in ("load", "store"):
        strong = {"load": "acquire", "store": "release"}[method]
        sem = "relaxed" if order == "relaxed" else strong
        return [*fence, f"{method[0]}{'d' if method == 'load' else 't'}.{sem}.{where}.{space}.b{bits}"]
    sem = PTX_ORDERS.get(order, "acquire")
    return [*fence, f"atom.{sem}.{where}.{space}.{PTX_NAMES.get(method, method)}.{letter(method, name)}{bits}"]


def orders_of(method):
    return {"load": LOADS, "wait": LOADS, "store": STORES}.get(method, ORDERS)


def calls(methods, scopes):
    for method in methods:
        for order in orders_of(method):
            for scope in scopes:
                operands = {"load": "", "cas": "v, v, ", "store": "v, "}.get(method, "v, ")
                yield method, order, scope, f"a.{method}({operands}{order!r}, {scope!r})"


def kernel_of(lines, space, name, wanted=True):
    given = ("" if not wanted or ".store" in line or ".wait" in line else "out[0] = " for line in lines)
    body = "\n".join(f"    {target}{line}" for target, line in zip(given, lines, strict=True))
    # Plain accesses before and after: LLVM drops what is only read, or only written.
    head = f"    x = {SPACES[space]}\n    x[1] = out[2]\n    a = device.atomic_ref(x, 1)\n"
    # Of a function alone nobody knows who can see its orders: they stay (see test_atomic_orders).
    kind = "func" if space == "shared" else "kernel"
    source = f"@device.{kind}\ndef k(cells, out, v):\n{head}{body}\n    device.syncthreads()\n    out[1] = x[1]\n"
    return define(source, file=f"<ptx {space} {name}>")


def ptx_of(lines, space, name, wanted=True, **options):
    return compiled(kernel_of(lines, space, name, wanted), array(name), array(name), getattr(np, name), **options)


NATIVE = {name: [m for m in ("load", "store", "cas", *CHANGES) if name in TYPES[m]] for name in INTEGERS} | {
    name: ["load", "store", "cas", "exch", "add", "sub"] for name in ("float32", "float64")
}


@pytest.mark.parametrize("space", [*SPACES])
@pytest.mark.parametrize("name", NUMBERS)
def test_ptx_of_every_order_and_scope(name, space):
    listed = [*calls(NATIVE[name], PTX_SCOPES)]
    right = [i for method, order, scope, _ in listed for i in instructions(method, name, order, scope, space)]
    assert accesses(ptx_of([line for *_, line in listed], space, name)) == right


@pytest.mark.parametrize("name, space", thinned(NUMBERS, SPACES, one_in=2))
def test_ptx_of_updates_whose_result_nobody_wants(name, space):
    """They do not wait for it, unless what follows waits for them; every assembler takes them."""
    listed = [*calls([m for m in NATIVE[name] if m in CHANGES], PTX_SCOPES)]
    right = []
    for method, order, scope, _ in listed:
        *fence, atom = instructions(method, name, order, scope, space)
        waits = method == "exch" or order not in ("relaxed", "release")
        right += [*fence, atom if waits else atom.replace("atom", "red")]
    lines = [line for *_, line in listed]
    assert accesses(ptx_of(lines, space, name, wanted=False)) == right
    assert ptx_of(lines, space, name, wanted=False, output="cubin")


@pytest.mark.parametrize("space", [*SPACES])
@pytest.mark.parametrize("name", ["int8", "uint16", "float16", "bool"])
def test_ptx_of_narrow_loads_and_stores(name, space):
    bits = np.dtype(name if name != "bool" else "int8").itemsize * 8
    listed = [*calls(["load", "store"], PTX_SCOPES)]
    right = [i for method, order, scope, _ in listed for i in instructions(method, str(bits), order, scope, space)]
    assert accesses(ptx_of([line for *_, line in listed], space, name if name != "bool" else "bool_")) == right


def released(order):
    return order in ("release", "acq_rel", "seq_cst")


def acquired(order):
    return order in ("consume", "acquire", "acq_rel", "seq_cst")


@pytest.mark.parametrize("space", [*SPACES])
@pytest.mark.parametrize("name", ["uint8", "float16"])
def test_ptx_of_narrow_compare_and_swap(name, space):
    """A loop over the word that the number lies in, between the fences of its order."""
    listed = [*calls(["cas", "exch"], ["device", "block"])]
    text = ptx_of([f"{line}; device.nanosleep(1)" for *_, line in listed], space, name)
    *loops, last = " ".join(accesses(text)).split("nanosleep.u32")
    assert not last
    for (_, order, scope, _), loop in zip(listed, loops, strict=True):
        where, found = PTX_SCOPES["block" if space == "shared" else scope], loop.split()
        assert f"atom.relaxed.{where}.{space}.cas.b32" in found
        fences = {each for each in found if each.startswith("fence")}
        before = {"seq_cst": "sc"}.get(order, "release") if released(order) else None
        right = {f"fence.{before}.{where}"} if before else set()
        right |= {f"fence.acquire.{where}"} if acquired(order) else set()
        assert fences == right, (order, scope)


@pytest.mark.parametrize("space", [*SPACES])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_ptx_of_the_extremes_of_floats(name, space):
    """They are one loop, whatever their order."""
    orders = {"max": ORDERS}
    listed = [
        (order, scope, line)
        for method, order, scope, line in calls(["max", "min", "nanmax", "nanmin"], PTX_SCOPES)
        if order in orders.get(method, ("release", "seq_cst"))
    ]
    right = []
    for order, scope, _ in listed:
        right += instructions("load", name, "relaxed", scope, space) + instructions("cas", name, order, scope, space)
    assert accesses(ptx_of([line for *_, line in listed], space, name)) == right


@pytest.mark.parametrize("space", [*SPACES])
def test_ptx_of_wait(space):
    listed = [*calls(["wait"], PTX_SCOPES)]
    looks = [instructions("load", "int32", order, scope, space) for _, order, scope, _ in listed]
    right = [each for look in looks for each in (*look, "nanosleep.u32", *look)]
    assert accesses(ptx_of([line for *_, line in listed], space, "int32")) == right


def test_the_scope_of_one_thread_costs_nothing():
    for name in ("int32", "uint64", "float32", "float64", "int8", "float16", "bool"):
        for space in SPACES:
            methods = [method for method, types in TYPES.items() if name in types and method != "wait"]
            lines = [line for *_, line in calls(methods, ["thread"])]
            lines += [f"device.threadfence({order!r}, 'thread')" for order in ORDERS]
            lines = [line if "fence" not in line else f"a.store(v, 'relaxed', 'thread'); {line}" for line in lines]
            assert accesses(ptx_of(lines, space, name if name != "bool" else "bool_")) == [], name


def test_local_arrays_need_no_atomics():
    source = """
        @device.kernel
        def k(out, v):
            a = device.atomic_ref(device.local_array(3, np.float64), v % 3)
            own = device.Atomic(np.int32)
            a.store(1.5)
            out[0] = a.add(2.0) + a.cas(3.5, 4.0) + a.max(0.5) + own.add(v) + own.exch(3)
    """
    assert accesses(compiled(define(source, file="<local>"), array("float64"), np.int32)) == []


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_ptx_of_fences(target):
    one_way = target not in ("sm_75", "sm_80")
    lines, right = ["device.threadfence()"], ["fence.sc.sys"]
    for order in ORDERS:
        for scope, where in PTX_SCOPES.items():
            kind = {"seq_cst": "sc", "relaxed": None, "consume": "acquire"}.get(order, order)
            kind = kind if one_way or kind in ("sc", None) else "acq_rel"
            lines.append(f"device.threadfence({order!r}, {scope!r})")
            right += [f"fence.{kind}.{where}"] if kind else []
    body = "".join(f"    x[{i}] = {i}\n    {line}\n" for i, line in enumerate(lines))
    kernel = define(f"@device.kernel\ndef k(x):\n{body}    x[0] = 1\n", file="<fence>")
    assert accesses(compiled(kernel, array("int32"), target=target)) == right


@pytest.mark.parametrize(
    "target",
    ["sm_75", "sm_90", "sm_120", *(pytest.param(each, marks=pytest.mark.long) for each in ("sm_80", "sm_100"))],
)
def test_assemblers_take_all_of_it(target):
    for name in ("int32", "uint64", "float32", "float64", "int8", "float16"):
        methods = [method for method, types in TYPES.items() if name in types]
        for space in SPACES:
            scopes = ["system", "block"] if name == "int32" else ["device"]
            lines = [line for _, order, _, line in calls(methods, scopes) if order in ("relaxed", "acquire", "seq_cst")]
            kernel = kernel_of(lines, space, name)
            found = device.compile(kernel, array(name), array(name), getattr(np, name), target=target, output="cubin")
            assert len(found.code) > 100


def test_the_defaults_are_the_strongest():
    lines = ["a.load()", "a.store(v)", "a.add(v)", "a.cas(v, v)"]
    full = [*map("a.{}, 'seq_cst', 'system')".format, ("store(v", "add(v", "cas(v, v"))]
    assert accesses(ptx_of(lines, "global", "int32")) == accesses(
        ptx_of(["a.load('seq_cst', 'system')", *full], "global", "int32")
    )


def test_the_ir_says_that_loops_may_wait_for_others():
    text = compiled(under_a_spin_lock, array("int32"), array("int64"), output="llvm")
    assert "cmpxchg" in text
    assert 'syncscope("device")' in text


# Errors


def refusal(body, cells="int32", **names):
    source = "@device.kernel\ndef k(cells, i):\n" + "".join(f"    {line}\n" for line in body.split("; "))
    kernel = define(source, file="<atomics>", **names)
    with pytest.raises(device.CompileError) as caught:
        compiled(kernel, cells if not isinstance(cells, str) else array(cells), np.int32, output="ir")
    return str(caught.value)


A = "a = device.atomic_ref(cells, 0); "


@pytest.mark.parametrize("method", [*TYPES])
def test_types_that_an_operation_is_not_for(method):
    for name in EVERY:
        call = f"a.{method}({'' if method == 'load' else 'cells[0], cells[0]' if method == 'cas' else 'cells[0]'})"
        if name in TYPES[method]:
            kernel = define(f"@device.kernel\ndef k(cells):\n    a = device.atomic_ref(cells, 0)\n    {call}\n")
            compiled(kernel, array(name), output="llvm")
        else:
            text = refusal(A + call, name)
            assert f"atomic {method} does not support {name}" in text
            assert f"help: it supports {', '.join(TYPES[method])}" in text


@pytest.mark.parametrize("method", [*TYPES, "threadfence"])
def test_orders_and_scopes_that_there_are_not(method):
    operands = {"load": "", "threadfence": "", "cas": "1, 1, "}.get(method, "1, ")
    call = f"{'device' if method == 'threadfence' else 'a'}.{method}({operands}"
    for order in ORDERS:
        if order not in orders_of(method):
            text = refusal(A + f"{call}{order!r})")
            assert f"memory={order!r} is not a memory order for " in text
            assert f"help: write one of {', '.join(map(repr, orders_of(method)))}" in text
    for wrong in ("'strong'", "5", "None", "'seq-cst'"):
        text = refusal(A + f"{call}{wrong})")
        assert f"memory={wrong} is not a memory order" in text
        assert "help: write one of 'relaxed', 'consume', 'acquire', 'release', 'acq_rel', 'seq_cst'" in text
    text = refusal(A + f"{call}scope='warp')")
    assert "scope='warp' is not a thread scope" in text
    assert "help: write one of 'system', 'device', 'block', 'thread'" in text
    assert "is not a memory order" in refusal(A + f"{call}memory=ARRAY)", ARRAY=np.zeros(3))
    assert "memory must be a constant expression" in refusal(A + f"{call}memory=i)")
    assert "scope must be a constant expression" in refusal(A + f"{call}scope=i)")


def test_orders_may_be_any_constant_expressions(stream):
    @device.func
    def bump(cell, how: device.ConstExpr[str]):
        cell.add(1, how, scope="block" if how == "relaxed" else "device")

    @device.kernel
    def k(cells):
        for order in ("relaxed", "acq_" + "rel"):
            bump(device.atomic_ref(cells, 0), order)

    cells = stream.array(np.zeros(1, np.int32))
    stream.launch(k, cells, grid=1, block=32)
    assert stream.numpy(cells).tolist() == [64]
    found = accesses(compiled(k, array("int32")))
    assert found == ["red.relaxed.cta.global.add.u32", "atom.acq_rel.gpu.global.add.u32"]


@pytest.mark.parametrize(
    "body, message",
    [
        ("device.atomic_ref(i, 0)", "atomic_ref takes an array, not int32"),
        ("device.atomic_ref(cells, 1.5)", "an index must be an integer or a tuple of integers, not float 1.5"),
        ("device.atomic_ref(cells, (0, 1))", "1 axes, but there are 2 indices"),
        (A + "a.add()", "missing a required argument: 'val'"),
        (A + "a.add(1, order='relaxed')", "got an unexpected keyword argument 'order'"),
        (A + "a.add(cells)", "takes a number, not array<int32, 1, C>"),
        (A + "a.add(1 << 31)", "the constant 2147483648 does not fit int32"),
        (A + "a.add(1.5)", "1.5 is not an integer"),
        (A + "a.increment(1)", "has no attribute 'increment'"),
        (A + "cells[0] = a", "cannot be set to"),
        ("device.Atomic(7)", "dtype:"),
        ("device.Atomic(i)", "dtype must be a constant expression"),
    ],
)
def test_mistakes(body, message):
    assert message in refusal(body)


def test_an_atomic_of_ones_own_cannot_leave_its_function():
    def make():
        return device.Atomic(np.int32)

    assert "its local arrays do not exist after it returns" in refusal("a = make(); a.add(1)", make=make)


def test_an_atomic_is_an_interface():
    assert issubclass(device.Atomic, device.AtomicInterface)
    with pytest.raises(device.DeviceOnlyError):
        device.Atomic(np.int32).load()
