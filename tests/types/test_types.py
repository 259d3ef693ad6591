"""Types: their text, promotion, what is known of values, and how values fall apart into leaves."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cuda_device as device
from cuda_device.infer.joins import join, join_all
from cuda_device.types import layout
from cuda_device.types.known import Conflict, Known, State, Undefined, between, constant, of_type, tuple_of
from cuda_device.types.model import (
    BOOL,
    FLOAT,
    FLOAT32,
    FLOAT64,
    INDEX,
    INT,
    INT8,
    INT32,
    INT64,
    NONE,
    NUMBERS,
    STATIC,
    UINT8,
    UINT32,
    UINT64,
    Array,
    Layout,
    Number,
    Pointer,
    Range,
    RangeIterator,
    Ref,
    Space,
    Struct,
    Tuple,
    Type,
    Vector,
)
from cuda_device.types.type_text import parse_type

numbers = st.sampled_from(list(NUMBERS.values()))
vectors = st.builds(Vector, numbers, st.integers(1, 4))


def _grow(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    tuples = st.builds(Tuple, st.lists(inner, max_size=3).map(tuple))
    return st.one_of(
        tuples,
        st.builds(
            Array,
            inner,
            st.integers(0, 9),
            st.sampled_from(Layout),
            st.booleans(),
            st.sampled_from(Space),
            aligns,
            st.booleans(),
        ),
        st.builds(Ref, st.sampled_from(Space), inner, st.booleans(), aligns),
    )


aligns = st.sampled_from((0, 1, 2, 4, 8))
leaves = st.one_of(
    numbers,
    vectors,
    st.just(NONE),
    st.just(STATIC),
    st.builds(Range, numbers),
    st.builds(RangeIterator, numbers),
    st.builds(Pointer, st.one_of(numbers, vectors, st.just(NONE)), st.booleans()),
)
types: st.SearchStrategy[Type] = st.recursive(leaves, _grow, max_leaves=6)

# Text


@given(types)
def test_text_of_a_type_is_the_type(type: Type) -> None:
    assert parse_type(str(type)) == type
    assert parse_type(f"  {type} ") == type
    assert str(parse_type(str(type).replace(" ", ""))) == str(type)


def test_the_order_of_three_ways_is_no_matter() -> None:
    ways = of_type(INT8), of_type(FLOAT), of_type(UINT64)
    joined = [join_all(order) for order in itertools.permutations(ways)]
    assert all(each == of_type(FLOAT64) for each in joined)


@given(types, types)
def test_different_types_have_different_texts(a: Type, b: Type) -> None:
    assert (str(a) == str(b)) == (a == b)


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (INDEX, "index"),
        (Array(FLOAT32, 2), "array<float32, 2, C>"),
        (
            Array(INT8, 0, Layout.STRIDED, readonly=True, space=Space.SHARED),
            "array<int8, 0, strided, readonly, shared>",
        ),
        (Array(INT8, 2, space=Space.LOCAL, small=True, lengths=(3, 4)), "array<int8, 2, C, local, small, 3x4>"),
        (Tuple(()), "tuple<>"),
        (Tuple((INT, Tuple((NONE,)))), "tuple<int, tuple<none>>"),
        (Ref(Space.GLOBAL, Vector(FLOAT64, 2)), "ref<global, vector<float64, 2>>"),
        (Tuple((Struct("nothing", ()), Struct("few", (), 8))), "tuple<struct<nothing>, struct<few align 8>>"),
    ],
)
def test_text(type: Type, text: str) -> None:
    assert str(type) == text
    assert parse_type(text) == type


# What is known

constants = st.one_of(
    st.booleans(),
    st.integers(-300, 300),
    st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, math.nan]),
    st.none(),
    st.just("s"),
)
values: st.SearchStrategy[Known] = st.one_of(
    constants.map(constant), numbers.map(of_type), st.just(of_type(Array(FLOAT32, 1))), st.just(of_type(Range(INT)))
)
known = st.one_of(values, st.lists(values, max_size=3).map(lambda items: tuple_of(tuple(items))))
states: st.SearchStrategy[State] = st.one_of(known, st.just(Undefined("v")))


@given(states)
def test_joining_with_itself_changes_nothing(a: State) -> None:
    assert join(a, a) == a


@given(states, states)
def test_joining_is_symmetric(a: State, b: State) -> None:
    ab, ba = join(a, b), join(b, a)
    if isinstance(ab, Conflict):
        assert isinstance(ba, Conflict)
    else:
        assert ab == ba


@given(states, states)
def test_joining_the_result_again_changes_nothing(a: State, b: State) -> None:
    """What makes the analysis end: a join is a fixed point of joining its parts."""
    joined = join(a, b)
    if not isinstance(joined, Conflict):
        assert join(joined, a) == joined
        assert join(joined, b) == joined


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (constant(0), of_type(FLOAT32), of_type(FLOAT32)),
        (constant(0), constant(1), between(INT, 0, 1)),
        (constant(0), constant(-1), between(INT, -1, 0)),
        (of_type(INT, nonneg=True), constant(5), of_type(INT, nonneg=True)),
        (between(INT, -9, 7), between(INT, 3, 8), between(INT, -9, 8)),
        (between(INT, -9, 7), of_type(UINT32), of_type(UINT32)),
        (between(INT, 2, 7), of_type(UINT8), of_type(UINT8)),
        (between(INT, 2, 7), between(UINT8, 7, 9), between(UINT8, 2, 9)),
        (constant(2), constant(2), constant(2)),
        (constant(1), constant(True), between(INT, 1, 1)),
        (constant(1), constant(1.0), of_type(FLOAT, nonneg=True)),
        (constant(True), constant(False), of_type(BOOL)),
        (constant(200), of_type(UINT8), of_type(UINT8)),
        (of_type(INT), of_type(INDEX), of_type(INDEX)),
        (constant((1, 2.5)), constant((1, 2)), None),
        (Undefined("v"), constant(3), constant(3)),
        (constant(None), constant(None), constant(None)),
    ],
)
def test_join(a: State, b: State, joined: State | None) -> None:
    if joined is None:
        joined = tuple_of((constant(1), of_type(FLOAT, nonneg=True)))
    result = join(a, b)
    assert result == joined
    assert isinstance(result, Known)
    assert isinstance(joined, Known)
    assert result.constant == joined.constant


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (constant(300), of_type(UINT8)),
        (constant(-1), of_type(UINT8)),
        (of_type(UINT64), of_type(INT64)),
        (constant(None), constant(1)),
        (constant((1,)), constant((1, 2))),
        (constant("a"), constant("b")),
        (constant(math.sin), constant(math.cos)),
        (of_type(Array(FLOAT32, 1)), of_type(Array(FLOAT32, 2))),
    ],
)
def test_conflicts(a: Known, b: Known) -> None:
    assert isinstance(join(a, b), Conflict)
    assert isinstance(join(join(a, b), a), Conflict)


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (1, True), (1, 1.0), (0, False)])
def test_equal_constants_of_python_can_be_different_constants_here(a: object, b: object) -> None:
    assert constant(a) != constant(b)
    assert constant((a,)) != constant((b,))
    joined = join(constant(a), constant(b))
    assert isinstance(joined, Known)
    assert not joined.constant


def test_nan_is_one_constant() -> None:
    """Else no analysis of a loop that computes one would end."""
    a, b = constant(float("nan")), constant(float("nan"))
    assert a == b
    assert hash(a) == hash(b)


def test_objects_are_known_by_identity() -> None:
    """Whatever their `==` does, and whether they hash."""
    array: Any = np.ones(3)
    assert constant(array) == constant(array)
    assert constant(array) != constant(np.ones(3))
    assert len({constant(array), constant([1]), constant([1])}) == 3
    assert isinstance(join(constant(array), constant(np.ones(3))), Conflict)


# Layout and the host's types


@given(types)
def test_leaves_are_what_fits_a_register(type: Type) -> None:
    for leaf in layout.leaves(type):
        assert isinstance(leaf, Number | Ref)
        assert layout.leaves(leaf) == (leaf,)


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (INT, (INT32,)),
        (INDEX, (INT64,)),
        (FLOAT, (FLOAT32,)),
        (BOOL, (BOOL,)),
        (NONE, ()),
        (STATIC, ()),
        (Tuple((INT, NONE, Tuple((BOOL,)))), (INT32, BOOL)),
        (Vector(UINT8, 3), (UINT8,) * 3),
        (Range(INDEX), (INT64,) * 3),
        (Array(UINT8, 2), (Ref(Space.GLOBAL, UINT8), INT64, INT64)),
        (Array(UINT8, 1, Layout.STRIDED, space=Space.SHARED), (Ref(Space.SHARED, UINT8), INT64, INT64)),
        (Array(FLOAT32, 0), (Ref(Space.GLOBAL, FLOAT32),)),
    ],
)
def test_leaves(type: Type, expected: tuple[Type, ...]) -> None:
    assert layout.leaves(type) == expected


def test_array_type() -> None:
    assert device.ArrayType(device.float32, 2) == Array(FLOAT32, 2)
    assert device.ArrayType("uint8", 1, "strided", readonly=True) == Array(UINT8, 1, Layout.STRIDED, True)
    assert device.ArrayType(float, 0, "F") == Array(FLOAT32, 0, Layout.F)
    fortran = device.ArrayType(np.dtype("f4"), 2, layout="F")
    assert (fortran.ndim, fortran.layout, fortran.readonly) == (2, "F", False)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((device.float32, 1, "K"), TypeError, "layout='K'"),
        ((device.float32, -1), ValueError, "ndim=-1"),
        ((device.float32, 1.0), ValueError, "ndim=1.0"),
        ((device.float32, True), TypeError, "ndim=True"),
        ((device.float32, 1, "C", 3), TypeError, "readonly=3"),
        ((device.float32, 1, "L"), ValueError, "layout='L'"),
        ((object, 1), TypeError, "object"),
        (("complex64x", 1), TypeError, "complex64x"),
    ],
)
def test_array_type_refuses(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        device.ArrayType(*arguments)
