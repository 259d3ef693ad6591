"""What another process would take for the same object: fingerprints, the names that a program read, and names of libraries.

    lambda: 1     made twice        one fingerprint
    lambda: 1     and lambda: 2     two, and so for all that holds them: a list, a default, an attribute of a class

Objects are made of texts, each as if it were alone in its file, and then put into the same things.
"""

from __future__ import annotations

import builtins
import cmath
import collections
import enum
import functools
import math
import operator
import random
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cuda_device as device
from cuda_device.cache import libraries
from cuda_device.cache.fingerprints import Fingerprint
from cuda_device.cache.numbered import Unfit
from cuda_device.infer import dependencies
from cuda_device.infer.dependencies import MISSING, Dependency
from cuda_device.types.known import UNKNOWN, constant, of_type
from cuda_device.types.model import FLOAT32, INT, INT8, Layout, Space
from cuda_device.types.structs import is_struct
from fuzz.cases import Case


def structure(*names: str, **parts: Any) -> Any:
    """A struct with members of these names."""
    return device.struct(
        type("S", (), {"__annotations__": dict.fromkeys(names, int), "__module__": "of_user", **parts})
    )


def function(text: str = "lambda v: v", **parts: Any) -> Any:
    """A function with these attributes."""
    made = eval(text, dict(SCOPE))
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def still(array: Any) -> Any:
    """The array, which can be read alone."""
    array.flags.writeable = False
    return array


SCOPE: dict[str, Any] = {
    "__name__": "of_user", "np": np, "math": math, "cmath": cmath, "operator": operator, "functools": functools,
    "device": device, "enum": enum, "collections": collections, "structure": structure, "function": function, "still": still,
    "types": types, "of_type": of_type, "constant": constant, "UNKNOWN": UNKNOWN, "INT": INT, "INT8": INT8, "FLOAT32": FLOAT32,
    "NamedTuple": NamedTuple, "Space": Space, "Layout": Layout,
}  # fmt: skip
VALUES = """
0|1|-1|True|False|0.0|-0.0|1.0|5e-324|1j|complex(0.0, -0.0)|complex(-0.0, 0.0)|complex(1, 0)|2**70|-2**70|'a'|'ab'|''|b'a'
b''|'\\ud800'|None|...|NotImplemented|UNKNOWN|()|(1,)|(True,)|(1, 2)|(2, 1)|((1,), 2)|(1, (2,))|('a', 'b')|('ab',)
frozenset((1,))|frozenset((1, 2))|frozenset(('a', 'b', 'c'))|frozenset()|frozenset((True, 'a'))|range(3)|range(1, 3)
range(0, 3, 2)|slice(3)|slice(3, None)|slice(None, 3, 2)|np.float32(1)|np.float64(1)|np.float32(-0.0)|np.int8(1)|np.uint8(1)
np.bool_(1)|np.complex64(1)|np.str_('a')|np.dtype('i4')|np.dtype('f4')|np.dtype('>i4')|np.dtype([('a', 'i4')])
np.dtype([('b', 'i4')])|np.dtype([('a', 'i4'), ('b', 'i4')])|np.dtype([('a', 'i2'), ('b', 'i4')])
np.dtype([('a', 'i2'), ('b', 'i4')], align=True)|np.dtype([('a', 'i4', 2)])|np.dtype([('a', 'i4', (2, 1))])
np.dtype(('i4', 3))|np.dtype({'names': ['a'], 'formats': ['i4'], 'offsets': [4]})
np.dtype({'names': ['a'], 'formats': ['i4'], 'itemsize': 8})|int|float|bool|str|list|np.float32|np.int8|np.ndarray|len|max
min|abs|math.sin|math.cos|cmath.sin|np.sin|np.cos|np.add|np.sum|operator.add|'ab'.upper|'ab'.lower|'a'.upper|b'ab'.upper
(1).bit_length|(2).bit_length|str.upper|str.lower|bytes.upper|int.__add__|float.__add__|dict.fromkeys|int.from_bytes
int.real|float.real|type(np.float32(1)).real|math|cmath|types.FunctionType.__code__|type|object|enum.Enum|list[int]
list[float]|tuple[int]|tuple[int, ...]|dict[str, int]|int | str|int | float|str | None|types.SimpleNamespace
device.float32x2|device.float32x2(1, 2)|device.float32x2(1, 3)|device.int32x2(1, 2)|device.float32x3(1, 2, 3)
device.thread_idx|device.block_idx|device.tid|device.ArrayType(device.float32, 1)|device.ArrayType(device.float32, 2)
device.ArrayType(device.int8, 1)|of_type(INT)|of_type(INT8)|of_type(FLOAT32)|of_type(INT, True)|constant(3)|constant(4)
constant(3.0)|constant('a')|INT|INT8|FLOAT32
'0'|b'0'|'1'|b'1'|'0x0'|b'0x0'|'0x1'|b'0x1'|'-0x1'|'True'|b'True'|'False'|b'None'|'None'|b'1.0'|'1.0'|'0.0'|b'-0.0'|'0x1.0p+0'
b'0x1.0p+0'|'1j'|'3'|b'3'|b'ab'|'()'|b'()'|'2'|b'2'|frozenset(('0',))|('0',)|(b'0',)|(0,)|frozenset((b'0',))|frozenset((0,))
Space.GLOBAL|Space.SHARED|Space.LOCAL|Layout.C|Layout.F|(Space.GLOBAL,)|Space|Layout|'C'|'global'|device.sm90|device.sm90a
"""
"""What is the same wherever it has the same value."""
OBJECTS = """
[]|[1]|[True]|[1, 2]|[[1], 2]|[1, [2]]|{}|{'a': 1}|{'a': 2}|{'b': 1}|{1: 'a'}|{'a': 1, 'b': 2}|{'b': 2, 'a': 1}
types.MappingProxyType({'a': 5})|np.array([1, 2], np.int8)|np.array([1, 3], np.int8)|np.array([1, 2], np.int16)
np.array([[1, 2]], np.int8)|np.array([[1], [2]], np.int8)|np.array([[1, 2], [3, 4]], np.int8)
np.array([[1, 3], [2, 4]], np.int8).T|np.array([1, 2], np.uint8)|still(np.array([1, 2], np.int8))
np.array([1, 0, 2, 0], np.int8)[::2]|np.array(1, np.int8)|np.array([(1,)], [('a', 'i4')])|np.array([(1,)], [('b', 'i4')])
np.zeros((0, 2))|lambda: 1|lambda: 2|lambda: True|lambda: 1.0|lambda: 'a'|lambda a: a|lambda b: b|lambda a, /: a
lambda *, a: a|lambda *a: a|lambda **a: a|lambda a=1: a|lambda a=2: a|lambda a=True: a|lambda *, a=1: a|lambda *, a=2: a
lambda: x|lambda: y|lambda a: a.x|lambda a: a.y|lambda a: -a|lambda a: +a|lambda a: a + 1|lambda a: a - 1|lambda: (yield)
lambda: (lambda: 1)|lambda: (lambda: 2)|lambda a: (lambda: a)|lambda: (1, 2)|function(__doc__='a')|function(__doc__='b')
function(__name__='g')|function(__module__='another')|function(__qualname__='g')|function(tag=1)|function(tag=2)
function(other=1)|function()|function(__annotations__={'v': device.ConstExpr[int]})
function(__annotations__={'v': device.ConstExpr})|function(__annotations__={'v': device.ConstExpr[float]})
device.func(function())|device.func(function('lambda w: w'))
device.func(interop=True)(function('lambda v: v', __name__='v'))|functools.partial(max, 1)|functools.partial(max, 2)
functools.partial(min, 1)|functools.partial(max, key=abs)|functools.partial(max, 1, key=abs)
functools.partial(function(), 1)|operator.itemgetter(1)|operator.itemgetter(2)|operator.itemgetter(1, 2)
operator.attrgetter('a')|operator.attrgetter('b')|operator.attrgetter('a.b')|operator.methodcaller('a')
operator.methodcaller('b')|operator.methodcaller('a', 1)|operator.methodcaller('a', b=1)|operator.methodcaller('a', b=2)
operator.methodcaller('a', 1, b=1)|staticmethod(function())|classmethod(function())|staticmethod(function('lambda w: w'))
property(function())|property(None, function())|property(None, None, function())|property(function('lambda w: w'))
type('A', (), {})|type('B', (), {})|type('A', (), {'a': 1})|type('A', (), {'a': 2})|type('A', (), {'b': 1})
type('A', (int,), {})|type('A', (), {'__slots__': ()})|type('A', (), {'__slots__': ('a',)})
type('A', (), {'__slots__': ('b',)})|type('A', (), {'f': function()})|type('A', (), {'f': staticmethod(function())})
type('A', (), {'__module__': 'another'})|type('A', (), {'__doc__': 'a'})|type('A', (type('B', (), {}),), {})
type('A', (type('B', (), {'a': 1}),), {})|structure('a')|structure('b')|structure('a', 'b')|structure('b', 'a')
structure('a', a=1)|structure('a', a=2)|structure('a', c=1)|structure('a')(1)|structure('a')(2)|structure('b')(1)
structure('a', f=function())|structure('a', f=device.func(function()))|structure('a', align=8)|enum.Enum('E', 'A B')
enum.Enum('E', 'B A')|enum.Enum('F', 'A B')|enum.Enum('E', {'A': 1, 'B': 3})|enum.IntEnum('E', 'A B')|enum.Flag('E', 'A B')
enum.Enum('E', {'A': 1, 'B': 1})|enum.Enum('E', 'A B').A|enum.Enum('E', 'A B').B|enum.IntEnum('E', 'A B').A
enum.Enum('E', {'A': 2}).A|collections.namedtuple('P', 'a b')|collections.namedtuple('P', 'b a')
collections.namedtuple('Q', 'a b')|collections.namedtuple('P', 'a b', defaults=(1,))
collections.namedtuple('P', 'a b')(1, 2)|collections.namedtuple('P', 'a b')(2, 1)|collections.namedtuple('Q', 'a b')(1, 2)
types.MethodType(function(), 1)|types.MethodType(function(), 2)|types.MethodType(function('lambda w: w'), 1)
(lambda a: (lambda: a))(1)
"""
"""What is itself and nothing else."""
UNFIT = """
device.kernel(function())|object()|hash|id|frozenset((1, (2,)))|frozenset((len,))|(n for n in ())|iter(())
type('M', (type,), {})('A', (), {})|types.SimpleNamespace(a=1)|[object()]|{'a': object()}|lambda a=object(): a
functools.partial(max, object())|np.array([object()])|np.dtype('i4', metadata={'a': 1})|type('A', (), {'a': object()})
function(tag=object())|type('A', (), {})()|np.dtype([('a', object)])|memoryview(b'a')|bytearray(b'a')|super(int, 1)
"""
"""What has no fingerprint."""


def texts(table: str) -> tuple[str, ...]:
    """The rows of a table."""
    return tuple(re.split(r"(?<! )\|(?! )|\n", table.strip()))


def made(text: str) -> Any:
    """The object of a text, anew."""
    return eval(text, dict(SCOPE))


HOLDERS: tuple[Callable[[Any], Any], ...] = (
    lambda held: held,
    lambda held: [held],
    lambda held: (1, held),
    lambda held: {"k": held, 2: 3},
    lambda held: slice(held, 1),
    lambda held: slice(1, 2, held),
    lambda held: functools.partial(max, held),
    lambda held: functools.partial(max, key=held),
    lambda held: operator.methodcaller("m", held),
    lambda held: operator.itemgetter(held),
    lambda held: function("lambda v=1: v", __defaults__=(held,)),
    lambda held: function("lambda *, v=1: v", __kwdefaults__={"v": held}),
    lambda held: function(tag=held),
    lambda held: device.func(function("lambda v=1: v", __defaults__=(held,))),
    lambda held: type("H", (), {"held": held, "__module__": "of_user"}),
    lambda held: property(function("lambda v=1: v", __defaults__=(held,))),
    lambda held: staticmethod(function("lambda v=1: v", __defaults__=(held,))),
    lambda held: types.MethodType(function(), held) if held is not None else [[held]],
    lambda held: types.MappingProxyType({"k": held}),
    lambda held: collections.namedtuple("H", "held", module="of_user")(held),  # noqa: PYI024
    lambda held: types.GenericAlias(list, (held,)),
)
"""What an object is put into: of two that differ, what holds them differs."""


def digest(*values: object) -> bytes:
    """The fingerprint of objects."""
    found = Fingerprint()
    for value in values:
        found.add(value)
    return found.digest()


class Alike(Case):
    """All objects, in something."""

    kind = "alike"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = random.Random(f"alike {number}")
        self.holders = self.random.choices(HOLDERS, k=self.random.choice((0, 1, 1, 2)))

    def source(self) -> str:
        return f"# objects of `alike`, in {[HOLDERS.index(each) for each in self.holders]}\n"

    def held(self, text: str) -> Any:
        """An object, anew, in what it is put into."""
        return functools.reduce(lambda value, holder: holder(value), self.holders, made(text))

    def attempt(self, stream: device.Stream) -> str | None:
        checks = (self.told_apart, self.unfit, self.shared, self.found_there, self.depended, self.named)
        return next(filter(None, (check() for check in checks)), None)

    def told_apart(self) -> str | None:
        """Of all objects there is one fingerprint for each, and the same of an object that is made again."""
        found: dict[bytes, str] = {}
        for text in (*texts(VALUES), *texts(OBJECTS)):
            value, again = digest(self.held(text)), digest(self.held(text))
            if value != again:
                return f"{text}, made again, has another fingerprint"
            if (other := found.setdefault(value, text)) != text:
                return f"{text} and {other} have one fingerprint"
        return None

    def unfit(self) -> str | None:
        """What has no fingerprint has none wherever it is."""
        for text in texts(UNFIT):
            try:
                digest(self.held(text))
            except Unfit:
                continue
            return f"{text} has a fingerprint"
        return None

    def shared(self) -> str | None:
        """Whether two are one object shows, of those that are themselves; and so does their order."""
        for text in self.random.sample(texts(OBJECTS), 12):
            one, two = made(text), made(text)
            if digest(one, one) == digest(one, two) and not is_value(one):
                return f"whether two are one {text} does not show"
        for text in self.random.sample(texts(VALUES), 12):
            one, other = made(text), made(self.random.choice(texts(OBJECTS)))
            if digest([one], [other]) == digest([other], [one]) or digest((one, other)) == digest(one, other):
                return f"the order of {text} and others does not show"
        return None

    def found_there(self) -> str | None:
        """What another process numbered is found by its place; a copy goes on by itself."""
        pairs = []
        for _ in range(2):
            scope = {**SCOPE, "w": 1}
            inner = eval("(lambda a: lambda: (a, w))(2)", scope)
            other = eval("lambda: w", {**SCOPE, "w": 2})
            pairs.append((inner, other, type("C", (), {"__module__": "of_user"}), scope))
        prints = [Fingerprint(), Fingerprint()]
        for into, (inner, other, cls, _) in zip(prints, pairs, strict=True):
            for value in (inner, cls, math, other):
                into.add(value)
        (inner, other, cls, scope), (there, other_there, cls_there, _) = pairs
        here, beyond = prints
        owners = ((inner.__globals__, there.__globals__), (inner.__closure__[0], there.__closure__[0]), (cls, cls_there),
                  (math, math), (other.__globals__, other_there.__globals__), (vars(builtins), vars(builtins)),
                  (sys.modules, sys.modules))  # fmt: skip
        for owner, expected in owners:
            if beyond.owner_at(*here.place_of(owner)) is not expected:
                return f"{here.place_of(owner)} is another owner there"
        for kind, place in (
            ("global", 99),
            ("global", -1),
            ("cell b", 0),
            ("cell a", 2),
            ("attribute", 99),
            ("global", 1),
        ):
            if (found := _fails(lambda kind=kind, place=place: beyond.owner_at(kind, place))) is not Unfit:
                return f"what is at {kind} {place} ends with {found}"
        if _fails(lambda: here.place_of({})) is not Unfit:
            return "what was not added has a place"
        before, more = here.digest(), here.copy()
        more.add([1])
        if (
            here.digest() != before
            or more.digest() == before
            or more.place_of(inner.__globals__) != here.place_of(inner.__globals__)
        ):
            return "a copy is not one"
        here.add([1])
        return (
            None if here.digest() == more.digest() and here.is_new([2]) and not more.is_new(inner) else "a copy differs"
        )

    def depended(self) -> str | None:
        """A name that means another object is seen, and nothing else is."""
        cell = (lambda value: lambda: value)(1).__closure__[0]  # type: ignore[index]
        space, module, cls = {"a": 1.5}, types.ModuleType("of_user"), type("C", (), {"a": [1]})
        cls.f = classmethod(lambda c: 1)  # type: ignore[attr-defined]
        module.a = 2.5  # type: ignore[attr-defined]
        read = dependencies.read
        known = [
            (space, "a"),
            (space, "b"),
            (module, "a"),
            (module, "b"),
            (cls, "a"),
            (cls, "f"),
            (cell, "value"),
            ("ab", "upper"),
        ]
        all_of = [Dependency(owner, name, read(owner, name)) for owner, name in known]
        if [each.value is MISSING for each in all_of] != [False, True, False, True, False, False, False, False]:
            return "what is missing is found"
        check = dependencies.unchanged(all_of)
        if not check() or not dependencies.unchanged([])() or not all(each.current() for each in all_of):
            return "what has not changed has"
        changes: list[tuple[int, Callable[[], object], Callable[[], object]]] = [
            (0, lambda: space.update(a=2.5), lambda: space.update(a=all_of[0].value)),
            (0, lambda: space.pop("a"), lambda: space.update(a=all_of[0].value)),
            (1, lambda: space.update(b=1), lambda: space.pop("b")),
            (2, lambda: setattr(module, "a", 3.5), lambda: setattr(module, "a", all_of[2].value)),
            (2, lambda: delattr(module, "a"), lambda: setattr(module, "a", all_of[2].value)),
            (3, lambda: setattr(module, "b", 1), lambda: delattr(module, "b")),
            (4, lambda: setattr(cls, "a", [1]), lambda: setattr(cls, "a", all_of[4].value)),
            (6, lambda: setattr(cell, "cell_contents", [2]), lambda: setattr(cell, "cell_contents", all_of[6].value)),
            (6, lambda: delattr(cell, "cell_contents"), lambda: setattr(cell, "cell_contents", all_of[6].value)),
        ]
        for place, change, back in changes:
            change()
            seen = [not each.current() for each in all_of], check()
            back()
            if seen != ([at == place for at in range(len(all_of))], False) or not check():
                return f"after a change of {known[place][1]} of a {type(known[place][0]).__name__} it is {seen}"
        return None

    def named(self) -> str | None:
        """What libraries define has a name, and nothing else has."""
        names = {
            "math:sin": math.sin, "builtins:int": int, "numpy:sin": np.sin, "numpy:float32": np.float32, "enum:Enum": enum.Enum,
            "builtins:len": len, "random:Random": random.Random, "cuda_device.types.known:constant": constant,
        }  # fmt: skip
        for name, value in names.items():
            if libraries.name_of(value) != name:
                return f"the name of {value} is {libraries.name_of(value)}, not {name}"
        nameless = (
            function(), function(__module__="math", __qualname__="sin"), made("type('A', (), {})"), 1, "a", None, Alike,
            function(__module__="nothing_there"), function(__module__=None), np.float32(1), math, Color,
        )  # fmt: skip
        return next(
            (f"{each} has the name {libraries.name_of(each)}" for each in nameless if libraries.name_of(each)), None
        )

    def smaller(self) -> Iterator[Case]:
        return iter(())


class Color(enum.Enum):
    """Of a user."""

    RED = 1


def is_value(value: object) -> bool:
    """Whether it has no identity that shows, as a member of an enumeration by its value."""
    return isinstance(value, enum.Enum | types.MappingProxyType | types.MethodType | tuple) or is_instance_of_struct(
        value
    )


def is_instance_of_struct(value: object) -> bool:
    """Whether it is one, which its members say."""
    return is_struct(type(value))


def _fails(run: Callable[[], object]) -> type[Exception] | None:
    try:
        run()
    except Exception as error:
        return type(error)
    return None
