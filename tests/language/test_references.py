"""Structs in memory: methods that change array elements, and structs with atomic members, which have identity."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import poison
from ir_helpers import define

import cuda_device as device
from cuda_device import float32, float32x2, int32, int64, uint8

# Methods of elements


@device.struct
class Inner:
    a: float32
    v: float32x2

    @device.func
    def bump(self, k=1):
        self.a += k
        self.v.x = self.a * 2
        self.v[-1] = 7


@device.struct
class Point:
    tag: uint8
    x: int32
    inner: Inner
    total: int64 = 0

    def move(self, by):
        self.x = self.x + by
        self.inner.bump()
        if by > 3:
            self.twice(by)
        return self.x

    def twice(this, by):  # noqa: N805
        for _ in range(2):
            this.x += by
        this["total"] += 1

    def before_and_after(self):
        old = self
        self.x += 100
        return old.x, self.x, self

    def swap_parts(self):
        part = self.inner
        part.a = 99
        self.inner = Inner(part.a + 1, float32x2(1, 2))
        nested = lambda k: self.x * k  # noqa: E731
        self.x += 1
        return nested(10)

    def moved(self, by):
        if by > 0:
            self = device.replace(self, x=self.x + by)
        return self

    def __add__(self, other):
        return Point(self.tag, self.x + other.x, self.inner)


def points(*xs):
    array = np.zeros(len(xs), device.numpy_dtype(Point))
    array["x"], array["tag"], array["total"] = xs, 0xA5, -1
    return array


@device.kernel
def call_methods(points, out):
    i = device.tid(1)
    out[0] = points[i].move(2)
    out[1] = points[-1].move(5)
    copy = points[i]
    points[i].move(1)
    out[2], out[3] = copy.x, points[i].x
    move = points[i].move
    move(3)
    out[4] = points[i].x


def test_methods_of_elements_change_memory(stream):
    array, out = stream.run(call_methods, points(0, 10, 20), poison(5, np.int32))
    assert out.tolist() == [2, 35, 2, 3, 6]
    after = array
    assert after["x"].tolist() == [6, 10, 35] and after["total"].tolist() == [-1, -1, 0]
    assert after["inner"].tolist() == [(3, (6, 7)), (0, (0, 0)), (1, (2, 7))]
    assert after["tag"].tolist() == [0xA5] * 3


@device.kernel
def values_of_self(points, out):
    old, new, whole = points[0].before_and_after()
    points[0].x = 7
    out[0], out[1], out[2], out[3] = old, new, whole.x, points[0].x
    out[4] = points[1].swap_parts()
    out[5], out[6] = points[1].inner.a, points[1].inner.v.y
    out[7], out[8] = points[2].moved(4).x, points[2].moved(-4).x
    s = points[0] + points[1]
    out[9] = s.x
    other = points[0]
    for j in range(2):
        points[j].twice(1)
    out[10], out[11] = other.x, points[2].x


def test_self_is_copied_where_it_becomes_a_value(stream):
    array, out = stream.run(values_of_self, points(1, 10, 20), poison(12, np.int32))
    assert out.tolist() == [1, 101, 101, 7, 110, 100, 2, 24, 20, 18, 7, 20]
    assert array["x"].tolist() == [9, 13, 20]


def test_methods_of_elements_of_shared_and_local_arrays_and_views(stream):
    @device.struct
    class Pair:
        one: Point
        n: int32

    @device.kernel
    def k(pairs, out):
        shared = device.shared_array(2, Point)
        local = device.local_array((2, 2), Inner)
        i = device.thread_idx.x
        if i == 0:
            shared[1] = Point(1, 5, Inner(1, float32x2(0, 0)))
        device.syncthreads()
        local[1, i] = Inner(float32(i), float32x2(0, 0))
        local[1, i].bump(10)
        if i == 1:
            shared[1].move(1)
            pairs[::-1][0].one.inner.bump(4)
            pairs["one"][0].move(2)
            pairs["one"]["inner"][0].bump(5)
        device.syncthreads()
        out[i] = shared[1].x * 100 + int32(local[1, i].a)

    pairs, out = stream.array(np.zeros(3, device.numpy_dtype(Pair))), stream.empty(2, np.int32)
    stream.launch(k, pairs, out, grid=1, block=2)
    assert stream.numpy(out).tolist() == [610, 611]
    after = stream.numpy(pairs)
    assert after["one"]["inner"]["a"].tolist() == [6, 0, 4] and after["one"]["x"].tolist() == [2, 0, 0]


def test_methods_of_elements_load_only_what_they_read():
    @device.struct
    class Wide:
        many: tuple[float64x4, float64x4, float64x4]
        n: int32

        def count(self):
            self.n += 1

    @device.kernel
    def k(array):
        array[device.tid(1)].count()

    text = str(device.compile(k, device.ArrayType(Wide, 1), output="ptx"))
    assert text.count("ld.global") == 1 and text.count("st.global") == 1


float64x4 = device.float64x4


@pytest.mark.parametrize(
    "body, message, remedy",
    [
        ("p = points[0]; p.move(1)", "a method cannot change its struct", r"points\[i\].move"),
        ("for p in points: p.twice(1)", "a method cannot change its struct", r"points\[i\].twice"),
        ("Point(1, 2, points[0].inner).twice(1)", "a method cannot change its struct", r"points\[i\].twice"),
        ("p = points[0]; p.inner.bump()", "a method cannot change its struct", "points"),
        ("fixed[0].move(1)", "the array is read-only", "can be written"),
        ("fixed[0].x = 1", "the array is read-only", "can be written"),
        ("points[0].twice(points)", "not defined", "index the array"),
    ],
)
def test_what_methods_cannot_change(body, message, remedy):
    kernel = define(
        "@device.kernel\ndef k(points, fixed):\n" + "".join(f"    {line}\n" for line in body.split("; ")),
        file=f"<{body}>",
        Point=Point,
    )
    types = device.ArrayType(Point, 1), device.ArrayType(Point, 1, readonly=True)
    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(kernel, *types, output="ir")
    assert caught.match(f"help: .*{remedy}")


# Structs with atomic members


@device.struct
class ticket_mutex:  # noqa: N801
    line: device.Atomic(int, align=16)
    current: device.Atomic(int, align=16)

    @device.func
    def lock(self):
        my = self.line.add(1)
        while True:
            now = self.current.load()
            if (now == my): break  # noqa: E701, UP034 # fmt: skip
            self.current.wait(now)

    @device.func
    def unlock(self):
        self.current.add(1)
        self.current.notify_all()


@device.kernel
def count_under_a_mutex(mutexes, counters, log):
    if device.thread_idx.x == 0:
        mutex = mutexes[0]
        for _ in range(3):
            mutex.lock()
            for i in range(len(counters)):
                counters[i] += i + 1
            log[counters[0] - 1] = device.block_idx.x
            mutex.unlock()


def test_the_ticket_mutex_of_the_specification(stream):
    blocks = 200
    mutexes = stream.array(np.zeros(2, device.numpy_dtype(ticket_mutex)))
    counters, log = stream.array(np.zeros(5, np.int64)), stream.empty(3 * blocks, np.int32)
    stream.launch(count_under_a_mutex, mutexes, counters, log, grid=blocks, block=32)
    assert stream.numpy(counters).tolist() == [3 * blocks * (i + 1) for i in range(5)]
    assert sorted(stream.numpy(log).tolist()) == sorted([*range(blocks)] * 3)
    assert stream.numpy(mutexes).tolist() == [(3 * blocks, 3 * blocks), (0, 0)]


def test_the_layout_of_atomic_members():
    dtype = device.numpy_dtype(ticket_mutex)
    assert (device.sizeof(ticket_mutex), device.alignof(ticket_mutex)) == (32, 16)
    assert dtype["line"] == np.int32 and [dtype.fields[name][1] for name in dtype.names] == [0, 16]

    @device.struct
    class Mixed:
        a: uint8
        b: device.Atomic(uint8)
        c: device.Atomic(float32x2)
        d: device.Atomic(tuple[int32, int32])
        e: bool
        f: device.align(device.Atomic(int64), 32)
        g: device.Atomic(device.int32x4)

    dtype = device.numpy_dtype(Mixed)
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 1, 8, 16, 24, 32, 48]
    assert (device.sizeof(Mixed), device.alignof(Mixed)) == (64, 32)
    assert np.zeros(3, dtype)[0].tolist() == (0, 0, (0, 0), (0, 0), False, 0, (0, 0, 0, 0))
    made = device.Atomic(np.int32, align=16)
    assert (device.sizeof(made), device.alignof(made), device.numpy_dtype(made)) == (4, 16, np.int32)
    assert (
        made.dtype is np.int32 and repr(made) == "Atomic(int32, align=16)" and repr(device.Atomic(int)) == "Atomic(int)"
    )
    # As in C++, what is accessed at once does not straddle two aligned words.
    assert device.alignof(device.Atomic(tuple[int32, int32])) == 8


@device.struct
class Lock:
    n: device.Atomic(int32)
    extra: float32x2
    data: int32

    def take(self, more=1):
        self.data += more
        return self.n.add(more)


@device.struct
class Two:
    a: Lock
    b: Lock


@device.func
def take_often(lock, times):
    again = lambda: lock.n.add(1)  # noqa: E731
    for _ in range(times):
        again()


@device.kernel
def reach(locks, twos, out):
    for lock in locks:
        lock.take()
    for i, lock in enumerate(locks):
        lock.extra.x = i + 0.5
        lock.extra[1] += 2
    for lock, factor in zip(reversed(locks), (10, 20), strict=False):
        lock.take(factor)
    lock = locks[0]
    if len(out) > 3:
        lock = locks[-1]
    lock.take(100)
    take_often(lock=locks[0], times=3)
    for lock in (locks[0], locks[1]):
        lock.n.add(1000)
    two = twos[1]
    part = two.b
    part.take()
    two.b.take()
    twos[1].a.data += 3
    part.data += 10
    take, column = locks[0].take, locks["n"]
    take(10000)
    out[0] = locks[0].n.load()
    out[1] = column[1].add(5)
    out[2] = device.atomic_ref(column, 1).load()
    extra = locks[1].extra
    extra.x = 77
    out[3] = locks[1].extra.x * 2
    out[4] = isinstance(lock, Lock) and isinstance(lock.n, device.AtomicInterface)
    out[5] = lock.n.dtype(7.5)


def test_structs_with_identity_are_reached_by_reference(stream):
    locks = stream.array(np.zeros(2, device.numpy_dtype(Lock)))
    twos, out = stream.array(np.zeros(2, device.numpy_dtype(Two))), stream.empty(6, np.int32)
    stream.launch(reach, locks, twos, out, grid=1, block=1)
    first, second = 1 + 20 + 3 + 1000 + 10000, 1 + 10 + 100 + 1000
    assert stream.numpy(out).tolist() == [first, second, second + 5, 3, 1, 7]
    assert stream.numpy(locks).tolist() == [(first, (0.5, 2), 10021), (second + 5, (1.5, 2), 111)]
    assert stream.numpy(twos).tolist() == [((0, (0, 0), 0),) * 2, ((0, (0, 0), 3), (2, (0, 0), 12))]


def test_structs_with_identity_in_shared_memory(stream):
    @device.kernel
    def k(out):
        locks, counts = device.shared_array(3, Lock), device.shared_array(2, COUNT)
        i = device.thread_idx.x
        if i < 3:
            locks[i].n.store(0, "relaxed", "block")
            locks[i].data = 0
        if i < 2:
            counts[i].store(i)
        device.syncthreads()
        locks[i % 3].n.add(i, "relaxed", "block")
        counts[1].add(1, scope="block")
        device.syncthreads()
        if i < 3:
            out[i] = locks[i].n.load() + locks[i].data
        if i < 2:
            out[3 + i] = device.atomic_ref(counts, i).load()

    COUNT = device.Atomic(np.uint32)  # noqa: N806
    out = stream.empty(5, np.int32)
    stream.launch(k, out, grid=1, block=64)
    assert stream.numpy(out).tolist() == [*(sum(range(j, 64, 3)) for j in range(3)), 0, 65]


def test_references_join_where_control_flow_does(stream):
    @device.kernel
    def k(locks, out):
        i = device.tid(1)
        mine = locks[0] if i % 2 else locks[1]
        mine.n.add(1, "relaxed", "device")
        count = mine.n
        while count.load() < 0:
            count = locks[0].n if count.load() else device.atomic_ref(out, 0)
        other = device.atomic_ref(out, i % 3)
        for step in range(2):
            if step:
                other = device.atomic_ref(out, 3)
            other.add(1)

    locks, out = stream.array(np.zeros(2, device.numpy_dtype(Lock))), stream.array(np.zeros(4, np.int32))
    stream.launch(k, locks, out, grid=3, block=32)
    assert stream.numpy(locks)["n"].tolist() == [48, 48] and stream.numpy(out).tolist() == [32, 32, 32, 96]


# On the host


def test_what_has_identity_is_made_in_arrays_only():
    with pytest.raises(TypeError, match=r"Lock has atomic members, so it needs an array: .*numpy_dtype\(Lock\)"):
        Lock(1, float32x2(1, 2), 3)
    assert device.zeros(2, Lock, stream=device.cpu_stream()).numpy()["data"].tolist() == [0, 0]
    with pytest.raises(device.CompileError, match="cannot be of a type with atomic members") as caught:
        device.compile(reach, Lock, 1, 2)
    assert caught.match("help: pass an array")
    locks, out = np.zeros(2, device.numpy_dtype(Lock)), np.zeros(1, np.int32)
    for argument in (locks[0], (1, locks[0])):
        with pytest.raises(device.LaunchError, match="'locks.*' has atomic members"):
            device.launch(reach, argument, locks, out, grid=1, block=1, stream=device.cpu_stream())


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: device.Atomic(device.float64x4), TypeError, "at most 16 bytes, but .* has 32"),
        (lambda: device.Atomic(device.float32x3), TypeError, "has 12 bytes"),
        (lambda: device.Atomic(Lock), TypeError, "Lock has atomic members"),
        (lambda: device.Atomic("number"), TypeError, "not a dtype"),
        (lambda: device.Atomic(tuple[()]), TypeError, "machines access 1, 2, 4, 8 or 16"),
        (lambda: device.Atomic(int, align=3), TypeError, "power of two"),
        (
            lambda: device.struct(type("T", (), {"n": 1, "__annotations__": {"n": device.Atomic(int)}})),
            TypeError,
            "default",
        ),
        (
            lambda: device.struct(type("T", (), {"__annotations__": {"t": tuple[device.Atomic(int)]}})),
            TypeError,
            "tuple",
        ),
    ],
)
def test_what_no_atomic_can_hold(make, error, message):
    with pytest.raises(error, match=message):
        make()


# Errors in device code

ERRORS = [
    ("locks[0] = locks[1]", "Lock has atomic members, so it cannot be created, copied or replaced", "m = locks"),
    ("m = locks[0]; locks[1] = m", "cannot be created, copied", "m = locks"),
    ("locks[:1] = locks[1:]", "cannot be created, copied", "m = locks"),
    ("Lock(1, 2, 3)", "cannot be created, copied", r"shared_array\(n, Lock\)"),
    ("device.replace(locks[0], data=1)", "cannot be created, copied", "m = locks"),
    ("m = get(locks)", "get returns a reference to Lock, which a function cannot return", "index the array of Lock"),
    ("m = pair(locks)", "pair returns a reference to Lock", "index the array of Lock"),
    ("out[0] = locks[0]", "cannot be set to a reference to Lock in global memory", "number"),
    ("out[0] = locks[0].n", "cannot be set to an atomic of int32", r"x.load\(\)"),
    ("locks[0].n = 3", "an atomic cannot be copied or assigned to", r"x.store\(value\)"),
    ("locks[0].n += 3", "an atomic of int32 .* is not defined", r"x.add\(value\)"),
    ("out[0] = -locks[0].n", "the operator - is not defined for an atomic of int32", r"x.load\(\)"),
    ("locks['n'][0] = 3", "an atomic cannot be copied or assigned to", r"x.store\(value\)"),
    ("locks[0].data.load()", "no attribute 'load'", ""),
    ("locks[0].m.load()", "no member 'm'", "its members are n, extra, data"),
    (
        "o = 'acquire'; if out[0]: o = 'relaxed'; locks[0].n.add(1, o)",
        "the variable 'o' is 'acquire' on one path here and 'relaxed' on another",
        "",
    ),
    ("locks[0].n.add(1, out[0])", "memory must be a constant expression", "a literal"),
    ("locks[0].n.add(1, scope=out[0])", "scope must be a constant expression", "a literal"),
    ("locks[0].n.increment()", "has no attribute 'increment'", ""),
    ("device.atomic_ref(locks, 0)", "Lock has atomic members, so it cannot be the content of an atomic", ""),
    ("fixed[0].n.load()", "the array is read-only", "can be written"),
    ("fixed[0].data = 1", "the array is read-only", "can be written"),
    ("fixed[0].take()", "the array is read-only", "can be written"),
    (
        "s = device.shared_array(1, Lock)[0]; m = locks[0] if out[0] else s; m.take()",
        "in shared memory on one path",
        "",
    ),
    (
        "a = device.Atomic(np.int32); b = a if out[0] else locks[0].n; b.load()",
        "an atomic of int32 in local memory",
        "",
    ),
    ("if locks[0]: pass", "has no truth value", ""),
]


@pytest.mark.parametrize("body, message, remedy", ERRORS, ids=[row[0] for row in ERRORS])
def test_errors_say_where_and_how_to_mend(body, message, remedy):
    def get(locks):
        return locks[0]

    def pair(locks):
        return 1, locks[0]

    lines = "".join(f"    {line}\n" for line in body.split("; "))
    names = {"Lock": Lock, "get": get, "pair": pair}
    kernel = define(f"@device.kernel\ndef k(locks, fixed, out):\n{lines}", file=f"<{body}>", **names)
    types = device.ArrayType(Lock, 1), device.ArrayType(Lock, 1, readonly=True), device.ArrayType(int32, 1)
    with pytest.raises(device.CompileError, match=message) as caught:
        device.compile(kernel, *types, output="ir")
    assert f"<{body}>" in str(caught.value)
    if remedy:
        assert caught.match(f"help: .*{remedy}")


def test_references_assemble_for_every_architecture():
    types = device.ArrayType(Lock, 1), device.ArrayType(Two, 1), device.ArrayType(int32, 1)
    for target in ("sm_75", "sm_90", "sm_120"):
        assert device.compile(reach, *types, target=target, output="cubin").code
        mutex = device.ArrayType(ticket_mutex, 1), device.ArrayType(int64, 1), device.ArrayType(int32, 1)
        assert device.compile(count_under_a_mutex, *mutex, target=target, output="cubin").code


def test_what_is_only_referred_to_is_not_read():
    @device.kernel
    def k(points):
        points[0].x = 1
        points[1].inner.v.y = 2
        points[2].inner.bump()

    text = str(device.compile(k, device.ArrayType(Point, 1), output="ir"))
    main = text.split("func @bump")[0]
    assert "getitem" not in main and "load" not in main and main.count("refer") == 3


def test_members_that_threads_share_out_do_not_race():
    @device.kernel
    def k(points):
        i = device.tid(1)
        if i % 2:
            points[i // 2].x = i
        else:
            points[i // 2].inner.bump()

    array = points(*range(8))
    device.launch(k, array, grid=1, block=16, stream=device.cpu_stream(races=True))
    assert array["x"].tolist() == [*range(1, 16, 2)] and array["inner"]["a"].tolist() == [1] * 8


@pytest.mark.parametrize(
    "line, message",
    [
        ("points[i + 1].twice(1)", "index 8 is out of bounds for axis 0 of size 8"),
        ("points[device.int32(i) - 9].inner.v.x = 1", "index -9 is out of bounds for axis 0 of size 8"),
        ("locks[i + 1].take()", "index 8 is out of bounds for axis 0 of size 8"),
        ("lock = locks[8 - i]; lock.data = 1", "index 8 is out of bounds for axis 0 of size 8"),
        ("device.atomic_ref(locks['n'], 8 + i).add(1)", "out of bounds for axis 0 of size 8"),
    ],
)
def test_checked_mode_finds_references_out_of_bounds(stream, line, message):
    body = "".join(f"    {each}\n" for each in line.split("; "))
    source = f"@device.kernel(checked=True)\ndef k(points, locks):\n    i = device.thread_idx.x\n{body}"
    kernel = define(source, file=f"<checked {line}>")
    array, locks = stream.array(points(*range(8))), stream.array(np.zeros(8, device.numpy_dtype(Lock)))
    with pytest.raises(device.KernelError, match=message) as caught:
        stream.launch(kernel, array, locks, grid=1, block=8)
    assert f"<checked {line}>" in str(caught.value)


def test_checked_mode_finds_nothing_where_nothing_is_wrong(stream):
    @device.kernel(checked=True)
    def k(points, locks, none):
        for lock in locks:
            lock.take()
        for lock in reversed(locks):
            lock.take()
        for lock in none:
            lock.take()
        for i in range(len(points)):
            points[i].move(1)
            points[i - len(points)].inner.bump()
            device.atomic_ref(points["x"], i).load()

    array, locks = stream.array(points(*range(8))), stream.array(np.zeros(8, device.numpy_dtype(Lock)))
    none = stream.array(np.zeros(0, device.numpy_dtype(Lock)))
    stream.launch(k, array, locks, none, grid=1, block=1)
    assert stream.numpy(locks)["n"].tolist() == [2] * 8 and stream.numpy(array)["inner"]["a"].tolist() == [2] * 8
