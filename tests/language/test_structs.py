"""Structs: `@struct` on the host, layout, and members, methods, operators and arrays of them in device code."""

from __future__ import annotations

import inspect
import math
import pickle
from typing import ClassVar

import numpy as np
import pytest
from conftest import poison

import cuda_device as device
from cuda_device import float32, float64, int32, int64, uint8


@device.struct
class Point:
    x: float32
    y: float32 = 2.5

    @device.func
    def dot(self, other):
        return self.x * other.x + self.y * other.y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __rmul__(self, factor):
        return Point(factor * self.x, factor * self.y)

    def __neg__(self):
        return Point(-self.x, -self.y)


@device.struct
class Other:
    """As large as a point, and no point."""

    x: float32
    y: float32


@device.struct(align=32)
class Particle:
    kind: uint8
    place: Point
    velocity: device.float32x3
    mass: float64
    ids: tuple[int32, int64]


@device.struct
class Aligned:
    a: uint8
    b: device.align(int32, 16)
    c: bool
    d: int
    e: float


# On the host


def test_a_struct_is_made_of_its_members():
    p = Point(1)
    assert (p.x, p.y) == (1, 2.5) and type(p.x) is np.float32
    assert repr(p) == "Point(x=1.0, y=2.5)" and p == Point(1, 2.5) and p != Point(1, 3) and hash(p) == hash(Point(1))
    assert p != Other(1, 2.5) and not p == Other(1, 2.5) and p != (1, 2.5) and len({p, Other(1, 2.5)}) == 2  # noqa: SIM201
    assert Point(y=1, x=2) == Point(2, 1) and Point.underlying.__name__ == "Point"
    assert pickle.loads(pickle.dumps(p)) == p
    assert p.dot(Point(2, 2)) == 7 and p + p == Point(2, 5) and 2 * p == Point(2, 5)


def test_a_struct_says_what_it_is_made_of():
    signature = inspect.signature(Point)
    assert str(signature) == "(x: numpy.float32, y: numpy.float32 = 2.5)"
    assert Point.__replace__(Point(1, 2), y=3) == Point(1, 3)  # copy.replace
    assert device.float32x2(1, 2).__replace__(x=5) == device.float32x2(5, 2)
    nan = math.nan
    assert Nan(nan, (nan,)) != Nan(nan, (nan,)) and Nan(1.0, (2.0,)) == Nan(1.0, (2.0,))
    with pytest.raises(TypeError, match="the base class of all vectors"):
        device.Vector(1, 2)


@device.struct
class Nan:
    x: float
    t: tuple[float]


@device.struct
class WithConstant:
    self: int
    scale: ClassVar[int] = 3
    other: ClassVar = 4


def test_class_variables_are_constants_of_the_class(stream):
    assert WithConstant(self=5) == WithConstant(5) and device.sizeof(WithConstant) == 4

    @device.kernel
    def use(out, s):
        out[0], out[1], out[2] = s.self, s.scale, WithConstant.other

    out = stream.empty(3, np.int32)
    stream.launch(use, out, WithConstant(5), grid=1, block=1)
    assert stream.numpy(out).tolist() == [5, 3, 4]


def test_structs_are_immutable_values():
    p = Point(1)
    with pytest.raises(TypeError, match="replace"):
        p.x = 3
    with pytest.raises(TypeError, match="replace"):
        p.z = 3
    assert device.replace(p, x=3) == Point(3, 2.5) and p.x == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "is missing a value for 'x'"),
        ((1, 2, 3), "2 members, not 3"),
        (("a",), "Point.x is of type float32"),
        ((1, 2, {"x": 3}), "got two values for 'x'"),
        ((1, {"z": 3}), "has no member 'z'"),
        ((np.float64(1),), "float32"),
    ],
    ids=str,
)
def test_wrong_arguments_are_type_errors(arguments, message):
    words = arguments[-1] if arguments and isinstance(arguments[-1], dict) else {}
    with pytest.raises(TypeError, match=message):
        Point(*arguments[: len(arguments) - bool(words)], **words)


@device.struct
class Parts:
    pair: tuple[device.int32, device.float64]
    point: Point
    vector: device.float32x2


PARTS = {"pair": (1, 2.5), "point": Point(3, 4), "vector": device.float32x2(5, 6)}


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("pair", 3, "Parts.pair is a tuple of 2 elements, not 3"),
        ("pair", (1, 2.5, 3), r"Parts.pair is a tuple of 2 elements, not \(1, 2.5, 3\)"),
        ("pair", (1, "2"), r"Parts.pair\[1\] is of type float64"),
        ("pair", (1 << 31, 2.5), r"Parts.pair\[0\] is of type int32, which 2147483648 does not fit"),
        ("point", (3, 4), r"Parts.point is of type Point, not \(3, 4\)"),
        ("vector", device.float64x2(5, 6), r"Parts.vector is of type float32x2, not float64x2\(5.0, 6.0\)"),
    ],
    ids=str,
)
def test_members_with_parts_have_their_type(member, value, message):
    parts = Parts(**PARTS)
    assert (parts.pair, parts.point, parts.vector) == tuple(PARTS.values())
    with pytest.raises(TypeError, match=message):
        Parts(**PARTS | {member: value})
    with pytest.raises(TypeError, match="replace takes a struct or a vector, not 3"):
        device.replace(3, **{member: value})


def test_aligned_types_show_themselves():
    assert repr(device.align(int32, 16)) == "align(int32, 16)"


def test_members_take_lower_kinds_of_builtin_numbers_only():
    assert Point(True).x == 1.0
    with pytest.raises(TypeError, match=r"Aligned.d is of type int"):
        Aligned(1, 2, True, 1.5, 2.0)
    with pytest.raises(TypeError, match="is not a type of device code"):
        device.struct(type("Bad", (), {"__annotations__": {"s": str}}))
    for hint in (device.Vector, tuple[int, ...], int | None):
        with pytest.raises(TypeError, match=r"Bad\.s: "):
            device.struct(type("Bad", (), {"__annotations__": {"s": hint}}))
    with pytest.raises(TypeError, match="decorates a class"):
        device.struct(3)
    for wrong in (3, 0, -4, 1 << 17, 4.0, True, "4"):
        for error in (TypeError, ValueError):
            with pytest.raises(error, match="power of two"):
                device.struct(align=wrong or 3)  # 0, the default, is as in alignas(0)
            with pytest.raises(error, match="power of two"):
                device.align(device.int32, wrong)


@device.struct
class Formats:
    i: int
    f: float
    t: tuple[complex, int]


@device.kernel
def formats(out, x):
    i = device.tid(1)
    out[i] = Formats(i, x[i], (device.complex64(1j), len(x)))
    out[i].i += i + 1
    out["f"][i] *= out["i"][i]


def test_members_take_numbers_of_their_own_format(stream):
    made = Formats(np.int32(3), np.float32(1.5), (np.complex64(1), 2))
    assert made == Formats(3, 1.5, (1, 2)) and [type(made.i), type(made.f), type(made.t[0])] == [int, float, complex]
    out, x = stream.array(np.zeros(3, device.numpy_dtype(Formats))), np.array([0.5, 1.5, 2.5], np.float32)
    stream.launch(formats, out, stream.array(x), grid=1, block=3)
    assert stream.numpy(out).tolist() == [(2 * i + 1, (i + 0.5) * (2 * i + 1), (1j, 3)) for i in range(3)]
    for wrong in (np.int64(3), np.float32(3), np.int16(3), np.uint32(3)):
        with pytest.raises(TypeError, match=r"Formats.i is of type int"):
            Formats(wrong, 1.5, (1, 2))


def test_a_struct_keeps_its_own_hash_and_texts():
    @device.struct
    class Own:
        x: int

        def __hash__(self):
            return 7

        def __repr__(self):
            return f"<{self.x}>"

    assert hash(Own(1)) == 7 and repr(Own(1)) == str(Own(1)) == "<1>" and Own(1) == Own(1) != Own(2)


# Layout


def test_layout_is_that_of_cpp():
    # struct alignas(32) { uint8_t; struct { float, float }; float3; double; struct { int32_t; int64_t } }
    dtype = device.numpy_dtype(Particle)
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 4, 12, 24, 32]
    assert (device.sizeof(Particle), device.alignof(Particle)) == (64, 32)
    assert dtype["ids"].names == ("_0", "_1") and dtype["ids"].fields["_1"][1] == 8
    dtype = device.numpy_dtype(Aligned)
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 16, 20, 24, 28]
    assert (device.sizeof(Aligned), device.alignof(Aligned)) == (32, 16)


def test_an_aligned_struct_is_larger():
    wide = device.align(Point, 32)
    assert wide is device.align(Point, 32) is device.align(wide, 16) and wide is not device.align(Point, 64)
    assert (device.sizeof(wide), device.alignof(wide)) == (32, 32) and wide(1).y == 2.5
    assert device.sizeof(tuple[int32, float64]) == 16 and device.sizeof(tuple[()]) == 1


def test_an_aligned_number_keeps_its_size():
    wide = device.align(device.align(device.float32, 4), 16)
    assert (device.sizeof(wide), device.alignof(wide)) == (4, 16)
    assert device.alignof(device.align(wide, 8)) == 16 and device.alignof(device.align(device.float64, 2)) == 8


WIDE = device.align(device.float32x3, 16)


@device.struct
class OfWide:
    n: device.int8
    v: WIDE


@device.kernel
def makes_wide(out):
    p = OfWide(5, WIDE(1, 2, 3))
    out[0], out[1] = p.v.z + p.n, device.align(int, 8)(2.5)


def test_an_aligned_type_makes_values_and_equals_itself(stream):
    assert WIDE == device.align(device.float32x3, 16) != device.align(device.float32x3, 32)
    assert hash(WIDE) == hash(device.align(device.float32x3, 16)) and WIDE(1, 2, 3) == device.float32x3(1, 2, 3)
    assert device.numpy_dtype(OfWide).itemsize == 32 and device.numpy_dtype(OfWide).fields["v"][1] == 16
    assert stream.run(makes_wide, poison(2, np.float32)).tolist() == [8, 2]


def test_numpy_dtypes_are_types():
    packed = np.dtype([("a", "u1"), ("b", "f8")])
    assert (device.sizeof(packed), device.alignof(packed), device.numpy_dtype(packed)) == (9, 1, packed)
    assert (device.sizeof(np.dtype("f8")), device.numpy_dtype(np.dtype("f2"))) == (8, np.float16)
    with pytest.raises(TypeError):
        device.sizeof(np.dtype("U3"))


# In device code


@device.kernel
def use(p, points, out):
    q = Point(3, points[0].y)
    out[0] = p.dot(q)
    s = p + 2 * q
    out[1] = s.x
    out[2] = s.y
    out[3] = (-s).x
    points[1] = s
    points[2] = device.replace(points[0], y=p.x)
    out[4] = 1 if points[1] == s else 0
    out[5] = Point(7).y


def test_members_methods_and_operators(stream):
    points = np.array([(1, 4), (0, 0), (0, 0)], device.numpy_dtype(Point))
    points, out = stream.array(points), stream.empty(6, np.float32)
    stream.launch(use, Point(1, 2), points, out, grid=1, block=1)
    assert stream.numpy(out).tolist() == [11, 7, 10, -7, 1, 2.5]
    assert stream.numpy(points).tolist() == [(1, 4), (7, 10), (1, 1)]


@device.kernel
def move(particles, dt):
    i = device.tid(1)
    if i < len(particles):
        p = particles[i]
        v = p.velocity
        where = Point(p.place.x + v.x * dt, p.place.y + v.y * dt)
        particles[i] = device.replace(p, place=where, mass=p.mass * 2, ids=(p.ids[0] + 1, p.ids[1] + i))


def test_arrays_of_nested_structs(stream):
    n = 100
    before = np.zeros(n, device.numpy_dtype(Particle))
    before["kind"] = np.arange(n) % 7
    before["place"]["x"] = np.arange(n)
    before["velocity"]["x"], before["velocity"]["y"] = 2, np.arange(n)
    before["mass"] = np.linspace(0, 1, n)
    before["ids"]["_0"], before["ids"]["_1"] = 5, 1 << 40
    after = stream.run(move, before, 0.5, grid=4, block=32)
    assert (after["kind"] == before["kind"]).all() and (after["mass"] == 2 * before["mass"]).all()
    assert (after["place"]["x"] == before["place"]["x"] + 1).all()
    assert (after["place"]["y"] == before["velocity"]["y"] * 0.5).all()
    assert (after["ids"]["_0"] == 6).all() and (after["ids"]["_1"] == (1 << 40) + np.arange(n)).all()


def test_a_class_that_is_defined_anew_is_another_class():
    again = device.struct(type("Point", (), {"__annotations__": {"x": float32, "y": float32}}))

    @device.kernel
    def kernel(points):
        points[0] = again(1, 2)

    with pytest.raises(device.CompileError, match="of another class with that name(.|\n)*redefined"):
        device.compile(kernel, device.ArrayType(Point, 1), output="ir")


# Classes


def test_a_struct_neither_inherits_nor_is_inherited_from():
    class Base:
        def method(self):
            return 1

    for base in (Base, tuple):
        with pytest.raises(TypeError, match="no base classes"):
            device.struct(type("Derived", (base,), {"__annotations__": {"x": int}}))
    with pytest.raises(TypeError, match="no subclasses"):
        type("Derived", (Point,), {"__annotations__": {"z": int}})


@pytest.mark.parametrize("name", ["__init__", "__new__", "__setattr__", "__post_init__"])
def test_methods_and_members_that_would_be_lost_are_refused(name):
    with pytest.raises(TypeError, match=f"cannot define {name}"):
        device.struct(type("Own", (), {"__annotations__": {"x": int}, name: lambda self: None}))
    with pytest.raises(TypeError, match="cannot be called underlying"):
        device.struct(type("Hiding", (), {"__annotations__": {"underlying": int}}))


def test_hints_that_are_text_are_read_where_the_class_is_written():
    number = device.float16  # the annotations of this module are text

    @device.struct
    class Local:
        x: number
        y: tuple[number, bool]

    assert type(Local(1, (2, True)).x) is np.float16 and device.sizeof(Local) == 6
    assert device.sizeof(device.align(Local, 16)) == 16
    assert Local.__annotations__ == {"x": np.float16, "y": tuple[np.float16, bool]}


@device.struct
class Counter:
    n: int

    def __add__(self, other):
        return Counter(self.n + other)

    def __iadd__(self, other):
        return Counter(self.n + 100 * other)

    def __matmul__(self, other):
        return 10 * self.n + other

    def __rmatmul__(self, other):
        return 1000 * self.n + other

    def __mul__(self, v):
        return self.n * v.x

    def __rmul__(self, v):
        return self.n * v.y


@device.kernel
def special(out):
    c = Counter(2)
    out[0] = (c + 3).n
    c += 3
    out[1] = c.n
    d = Counter(2)
    out[2] = d @ 5
    out[3] = 5 @ d
    out[4] = d * device.float32x2(3, 4)
    out[5] = device.float32x2(3, 4) * d
    e = Point(1, 2)
    e += Point(3, 4)
    out[6] = e.x


def test_operators_in_place_of_matrices_and_beside_vectors(stream):
    assert stream.run(special, poison(7, np.float32)).tolist() == [5, 302, 25, 2005, 6, 8, 4]


@device.struct
class LastDigit:
    """Numbers that are equal where their last digits are."""

    n: int

    def __eq__(self, other):
        return self.n % 10 == other.n % 10

    __hash__ = None


def test_what_has_its_own_eq_differs_where_that_says_no(stream):
    @device.kernel
    def compare(out, a):
        out[0], out[1], out[2] = a == LastDigit(15), a != LastDigit(15), a != LastDigit(16)
        out[3], out[4] = (a, 1) != (LastDigit(25), 1), (a, 1) != (LastDigit(25), 2)

    out = stream.array(np.full(5, 7, np.int32))
    stream.launch(compare, out, LastDigit(5), grid=1, block=1)
    assert stream.numpy(out).tolist() == [1, 0, 1, 0, 1]
    assert LastDigit(5) == LastDigit(15) != LastDigit(16)


WidePoint = device.align(Point, 32)


@device.struct
class OfWidePoint:
    place: WidePoint
    n: int


def test_an_aligned_struct_is_as_good_as_the_struct(stream):
    """They differ in layout only, so each goes where the other is wanted."""
    p, wide = Point(1, 2), WidePoint(1, 2)
    assert wide == p and hash(wide) == hash(p) and wide != Point(1, 3)
    assert device.align(device.align(Point, 16), 32) is WidePoint is device.align(WidePoint, 8)
    assert type(OfWidePoint(p, 3).place) is WidePoint is type(device.replace(OfWidePoint(wide, 3), place=p).place)
    copied = pickle.loads(pickle.dumps(wide))
    assert copied == wide and type(copied) is WidePoint

    @device.kernel
    def mix(out, places, p, wide):
        out[0], out[1], out[2] = p == wide, wide != p, Point(1, 2) == WidePoint(1, 3)
        places[0].place = p
        places[1] = OfWidePoint(Point(5, 6), 2)
        plain = device.local_array(2, Point)
        plain[0] = places[0].place
        s = places[1]
        s.place = plain[0]
        out[3], out[4] = plain[0].y, s.place.y

    out, places = stream.array(np.full(5, 7, np.float32)), stream.array(np.zeros(2, device.numpy_dtype(OfWidePoint)))
    stream.launch(mix, out, places, p, wide, grid=1, block=1)
    assert stream.numpy(out).tolist() == [1, 0, 0, 2, 2]
    assert stream.numpy(places).tolist() == [((1, 2), 0), ((5, 6), 2)]


def test_numbers_in_tuples_are_printed_without_their_types():
    @device.struct
    class Nested:
        pair: tuple[int, float64]
        one: tuple[tuple[float32]]

    assert repr(Nested((1, 2.5), ((0.5,),))) == "Nested(pair=(1, 2.5), one=((0.5,),))"


def test_an_array_of_one_member_has_the_dtype_that_numpy_gives_it(stream):
    """Members may be builtin numbers, arrays have fixed-format ones: so atomics and `view` work on them."""

    @device.struct
    class Counter:
        name: device.int64
        n: int
        weight: float

    @device.kernel
    def count(counters, out):
        out[0] = counters["n"].dtype == int32 and counters["weight"].dtype == "float32"
        out[1] = type(counters["n"][0]) is int32 and type(counters[0].n) is int
        device.atomic_ref(counters["n"], 1).add(5)
        device.atomic_ref(counters["weight"], 1).max(2.5)

    out, counters = stream.array(np.full(2, 7, np.int32)), stream.array(np.zeros(2, device.numpy_dtype(Counter)))
    stream.launch(count, counters, out, grid=1, block=4)
    assert stream.numpy(out).tolist() == [1, 1]
    assert stream.numpy(counters).tolist() == [(0, 0, 0), (0, 20, 2.5)]


def test_elements_of_tuples_are_aligned_as_their_types_are():
    """C++ has no other ones: a hint that asks for more would be lost."""
    wide = device.align(uint8, 8)
    for use in (
        lambda: device.sizeof(tuple[wide, uint8]),
        lambda: device.numpy_dtype(tuple[uint8, tuple[wide]]),
        lambda: device.struct(type("Holder", (), {"__annotations__": {"t": tuple[wide, uint8]}})),
        lambda: device.compile(nothing, tuple[wide]),
    ):
        with pytest.raises(
            TypeError, match=r"align\(uint8, 8\): the elements of a tuple have the alignment of their types"
        ):
            use()

    @device.kernel
    def k(out):
        out[0] = device.local_array(2, tuple[device.align(uint8, 8), uint8]).size

    with pytest.raises(device.CompileError, match="the elements of a tuple have the alignment of their types"):
        device.compile(k, device.ArrayType(int32, 1), output="ir")
    assert device.sizeof(tuple[device.align(int32, 4), device.align(uint8, 1)]) == 8
    assert device.alignof(tuple[device.align(Point, 32), uint8]) == 32


@device.kernel
def nothing(x):
    pass
