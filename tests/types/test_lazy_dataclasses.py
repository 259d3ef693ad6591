"""Our data classes against those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import operator as op
import pickle
import subprocess
import sys
import threading
from typing import ClassVar

import pytest

from cuda_device import lazy_dataclasses as lazy

BOTH = pytest.mark.parametrize("library", [dataclasses, lazy], ids=["standard", "lazy"])
OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (True, False)
]


def point_of(library, **options):
    """A class with all kinds of fields."""

    @library.dataclass(**options)
    class Point:
        """A point."""

        count: ClassVar[int] = 3
        x: float
        y: float = 2.0
        tags: list[int] = library.field(default_factory=list)
        secret: int = library.field(default=7, repr=False)
        seen: dict[int, int] = library.field(default_factory=dict, init=False, repr=False)

    return Point


@lazy.dataclass(frozen=True, slots=True)
class Kept:
    x: int
    others: tuple[int, ...] = ()


def is_refused(made):
    """Whether an attribute that is no field is refused. (With slots the standard library's error is a mistaken TypeError.)"""
    try:
        made.other = 3.0
    except (AttributeError, TypeError):
        return True
    return False


def answers(cls):
    """What there is to see of a class and its objects: values, or the type of the error."""

    def ask(question):
        try:
            return question()
        except Exception as error:
            return type(error)

    made = cls(1.0), cls(1.0, tags=[1]), cls(0.5, 3.0, [2], secret=8), cls(float("nan")), cls("text")
    questions = [
        *(lambda a=a, b=b, sign=sign: sign(a, b) for a in made for b in made for sign in (op.eq, op.lt)),
        *(lambda a=a: repr(a).rpartition(".")[2] for a in made),
        *(lambda a=a: hash(a) == hash(a) for a in made),
        lambda: made[0] == (1.0, 2.0, [], 7, {}),
        lambda: cls(),
        lambda: cls(1.0, 2.0, [], 7, {}),
        lambda: cls(1.0, z=3),
        lambda: setattr(made[0], "x", 3.0),
        lambda: made[0].x,
        lambda: is_refused(made[0]),
        lambda: delattr(made[0], "y"),
        lambda: hasattr(made[0], "__dict__"),
        lambda: made[1].tags is not made[2].tags,
        lambda: cls(1.0).seen is not cls(1.0).seen,
        lambda: cls.__match_args__,
        lambda: cls.count,
        lambda: cls.__hash__ is None,
        lambda: cls.__doc__,
        lambda: copy.copy(made[1]).tags is made[1].tags,
    ]
    return [ask(question) for question in questions]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_is_like_the_standard_librarys(options):
    assert answers(point_of(lazy, **options)) == answers(point_of(dataclasses, **options))


@BOTH
def test_fields_are_inherited(library):
    @library.dataclass(frozen=True, slots=True)
    class Base:
        x: int
        y: int = 1

    @library.dataclass(frozen=True, slots=True)
    class Derived(Base):
        z: int = 2

        def __repr__(self) -> str:
            return "its own"

    made = Derived(5, z=9)
    assert (made.x, made.y, made.z, str(made)) == (5, 1, 9, "its own")
    assert Base(5) != Derived(5) and Derived(5) == Derived(5, 1, 2) and hash(Derived(5)) == hash(Derived(5))
    assert Base(3).x == 3


@BOTH
def test_methods_of_a_class_stay(library):
    @library.dataclass(frozen=True)
    class Equal:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

    @library.dataclass(frozen=True)
    class Own(Equal):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert Own(1) == Own(2) and hash(Own(1)) == 5
    assert Equal(1) == Equal(2) and hash(Equal(1)) == hash((1,))


def test_objects_that_contain_themselves_can_be_shown():
    Point = point_of(lazy)
    made = Point(1.0)
    made.tags.append(made)
    assert repr(made).endswith("Point(x=1.0, y=2.0, tags=[...])")


def test_objects_can_be_copied_and_pickled():
    made = Kept(1, (2, 3))
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert lazy.replace(made, x=4) == Kept(4, (2, 3))
    assert [lazy.is_frozen(cls) for cls in (Kept, point_of(lazy), int)] == [True, False, False]
    with pytest.raises(TypeError):
        lazy.replace(made, z=4)


def test_threads_may_be_the_first_to_use_a_class():
    for _ in range(50):
        point, found, start = point_of(lazy, frozen=True), [], threading.Barrier(4)

        def make(point=point, found=found, start=start):
            start.wait()
            found.append((point(1.0), point(1.0) == point(1.0)))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [equal for _, equal in found] == [True] * 4
        assert all(made == found[0][0] for made, _ in found)


def test_methods_are_written_when_they_are_needed():
    Point = point_of(lazy)
    later, equal = vars(Point)["__init__"], vars(Point)["__eq__"]
    first = [Point(1.0, y=3.0) for _ in range(4)]
    assert vars(Point)["__init__"] is later and vars(Point)["__eq__"] is equal
    first.append(Point(1.0, y=3.0))
    assert vars(Point)["__init__"].__qualname__.endswith("Point.__init__")
    assert all(made == first[0] for made in first) and vars(Point)["__eq__"] is not equal


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((), {"y": 1.0}), ((1.0,), {"x": 1.0}), ((1.0,), {"z": 1}), ((1.0,), {"seen": {}}), ((1,) * 5, {})],
    ids=str,
)
@BOTH
def test_wrong_arguments_of_a_first_object_are_refused(library, values, named):
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        point_of(library)(*values, **named)


def test_the_standard_librarys_are_not_imported():
    script = (
        "import sys, numpy, ml_dtypes; before = 'dataclasses' in sys.modules; import cuda_device; cuda_device.launch; "
    )
    script += "assert before or 'dataclasses' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
