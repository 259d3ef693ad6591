"""More of the grammar of `pythonic`: functions and methods of Python's library that device code has, named tuples, enumerations.

Each row is an expression that device code and CPython print alike.
"""

from __future__ import annotations

import collections
import enum
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from fuzz import pythonic
from fuzz.grammar import rows

Pair = collections.namedtuple("Pair", "first second third", defaults=(3,))  # noqa: PYI024 - as older programs do


class Entry(NamedTuple):
    """A named tuple with a default."""

    key: int
    value: float = 0.5


class Color(enum.IntEnum):
    """Numbers with names."""

    RED = 1
    GREEN = 2
    BLUE = 4


class Shade(enum.Enum):
    """Names with values."""

    DARK = "dark"
    PALE = 2
    DIM = 2  # noqa: PIE796 - another name

    @property
    def is_dark(self) -> bool:
        """Whether it is that."""
        return self is Shade.DARK

    @property
    def rank(self) -> int:
        """A number for each."""
        return 3 if self is Shade.PALE else 8

    def among(self, first: int, other: int) -> int:
        """One of two numbers."""
        return first if self is Shade.DARK else other


class Settings:
    """Constants in a class."""

    width = 3
    names = ("u", "v")
    nested: ClassVar = {"deep": (1, 2)}


NAMES: dict[str, Any] = {"Pair": Pair, "Entry": Entry, "Color": Color, "Shade": Shade, "Settings": Settings}
LIBRARY = {
    "operated": rows(r"""
        operator.add(<int>, <part>)  operator.and_(<int>, <int>)
        operator.eq(<int>, <int>)  operator.floordiv(<int>, <positive>)  operator.ge(<int>, <int>)
        operator.gt(<part>, <int>)  operator.invert(<int>)  operator.le(<int>, <part>)  operator.lshift(<small>, <#4>)
        operator.lt(<int>, <int>)  operator.mod(<int>, <positive>)  operator.mul(<small>, <small>)
        operator.ne(<int>, <int>)  operator.neg(<part>)  operator.not_(<int>)  operator.or_(<int>, <int>)
        operator.pos(<part>)  operator.pow(<small>, <#4>)  operator.rshift(<int>, <#4>)  operator.sub(<part>, <int>)
        operator.truediv(<part>, 2)  operator.xor(<int>, <int>)
        operator.matmul is None
        list(map(operator.mul, <three>, <three>))
    """),
    "calculated": rows(r"""
        math.ceil(<part>)  math.comb(<#6>, <#4>)  math.copysign(<part>, <int>)  math.fabs(<int>)  math.factorial(<#6>)
        math.floor(<part>)  math.fmod(<int>, <positive>)  math.frexp(<part>)  math.fsum((<part>, <int>, <part>))
        math.gcd(<int>, <int>, <int>)  math.gcd(<int>)  math.gcd()  math.lcm(<small>, 4, <positive>)
        math.lcm(<small>)  math.isclose(<part>, <part>, rel_tol=0.5)  math.isclose(<part>, <part>, abs_tol=1.0)
        math.isclose(<part>, <int>, rel_tol=0.0, abs_tol=0.75)  math.isfinite(<part>)  math.isinf(<int>)
        math.isnan(<part>)  math.isqrt(<positive> * 9)  math.ldexp(<part>, <#4>)  math.ldexp(<part>, -<#3>)
        math.modf(<part>)  math.perm(<#6>, <#3>)  math.perm(<#6>)  math.pow(<part>, 2)  math.prod(<three>)
        math.prod((<part>, 2), start=3)  math.prod([])  math.remainder(<int>, <positive>)  math.sqrt(<#9> * 0 + 2.25)
        math.trunc(<part>)  math.hypot(3 * <small>, 4 * <small>, 0)  math.dist((<int>, 0), (<int>, 0))
        math.log2(8.0) + <int>  math.exp2(<#4>)  math.cbrt(8.0) * 0 + 1  math.nextafter(<part>, <part>) == <part>
        round(<part>)  round(<part>, <#2>)  round(<int>)
        pow(<int>, <#3>)  pow(<int>, <#4>, 7)  pow(<positive>, <#5>, 1 + <positive>)  pow(3, -1, 7)
        divmod(<int>, -<positive>)  divmod(<part>, <half>)  abs(<cplx>) >= 0  complex(<part>, <int>) * 1j
        complex('1+2j')  (<cplx> - <int>)  (<cplx> * <cplx>)  (<cplx> != <int>)  <cplx>.imag  <int>.real  <int>.imag
        <int>.conjugate()  <part>.imag  <int>.bit_length()  int('<#9>', 16)
        int('0x1<#9>', 16)  int('-1<#9>')  float('-<#9>.25')  float('1e2')  int(True)  float(<bool>)  bool(<part>)
        hash(<#9>)  (<int>).is_integer()  int(<part> * 3)  max([<int>, 3], default=1)  max([], default=<int>)
        min((), default=None)  max(w for w in <three>)  min((w for w in <three>), key=lambda w: -w)
        max(<three>, key=lambda w: (w % 3, w))  sum([])  sum(<three>, 0.5)  sum([<part>, <int>, <bool>])  any([])
        all(())  any(w % 2 for w in <three>)
    """),
    "numbered": rows(r"""
        np.abs(<int>)  np.absolute(<part>)  np.add(<int>, <part>)  np.bitwise_and(<int>, <int>)
        np.bitwise_or(<int>, 3)  np.bitwise_xor(<int>, <int>)  np.bitwise_count(<int>)  np.bitwise_not(<int>)
        np.bitwise_invert(<int>)  np.bitwise_left_shift(<small>, 2)  np.bitwise_right_shift(<int>, 2)  np.ceil(<part>)
        np.clip(<part>, -1, 1.5)  np.clip(<int>, <small>, 9)  np.conj(<cplx>)  np.conjugate(<part>)
        np.copysign(<part>, <part>)  np.divide(<part>, 2)  np.true_divide(<part>, 4)  np.equal(<int>, <int>)
        np.fabs(<part>)  np.floor(<part>)  np.floor_divide(<int>, <positive>)  np.fmax(<part>, <part>)
        np.fmod(<part>, <half>)  np.gcd(<int>, <int>)  np.lcm(<small>, <small>)  np.greater(<int>, <int>)
        np.greater_equal(<part>, <part>)  np.heaviside(<part>, 0.5)  np.imag(<cplx>)  np.real(<cplx>)
        np.invert(<int>)  np.isclose(<part>, <part>)  np.isfinite(<part>)  np.isinf(<part>)  np.isnan(<part>)
        np.ldexp(<part>, <#3>)  np.left_shift(<small>, <#3>)  np.less(<int>, <part>)  np.less_equal(<int>, <int>)
        np.logical_and(<int>, <bool>)  np.logical_not(<int>)  np.logical_or(<bool>, <bool>)
        np.logical_xor(<bool>, <int>)  np.maximum(<part>, <int>)  np.minimum(<int>, <int>)  np.mod(<int>, <positive>)
        np.multiply(<small>, <part>)  np.negative(<part>)  np.not_equal(<int>, <int>)  np.positive(<part>)
        np.power(<small>, 2)  np.power(<part>, 2)  np.reciprocal(2.0)  np.remainder(<part>, <half>)
        np.right_shift(<int>, <#3>)  np.rint(<part>)  np.round(<part>)  np.around(<part>, 1)  np.sign(<part>)
        np.signbit(<part>)  np.square(<part>)  np.subtract(<int>, <part>)  np.trunc(<part>)
        np.where(<bool>, <int>, <int>)  np.float_power(<small>, 2)  np.float32(<part>)
        np.int8(<small>) * 2  np.uint8(<positive>)  np.float64(<part>) + <int>  np.int64(<int>)
        np.int16(<small>) // 2  np.bool_(<int>)  np.divmod(<int>, <positive>)[1]  np.modf(<part>)[0]
        np.frexp(<part>)[1]  np.hypot(0.0, <part>)  np.deg2rad(0.0) + <part>  np.sqrt(2.25)  np.cbrt(0.0)
        np.exp2(1.0)  np.log2(4.0)
    """),
    "typed": rows(r"""
        int(device.int16(<small>).item())  device.float32(<part>).is_integer()  device.uint8(<positive>).bit_count()
        device.int32(<int>).astype(device.int8) * 1  device.int8(<small>).real
        device.float32(<part>).view(device.int32) & 7  device.float32(<part>).conjugate()  device.float64(<part>).imag
        device.int64(<int>).item()  device.int16(<small>).astype(int)  device.uint16(<positive>).size
        device.int8(<small>).ndim  device.float32(<part>).shape  device.float32(<part>).itemsize
        device.int64(<int>).nbytes  device.int32(<int>).reshape(())  device.int8(<small>).dtype == device.int8
        isinstance(device.int8(1), device.int8)  isinstance(<int>, (float, int))
        isinstance(device.float32(<part>), float)  isinstance(<three>, tuple)  isinstance(<ints>, list)
        isinstance(<str>, str)  isinstance(<point>, Point)  isinstance(<dict>, dict)  isinstance(<bool>, int)
        type(<int>) is int  type(<part>) is float  type(<bool>) == bool  type(device.int8(1)) is device.int8
        type(<three>) is tuple  type(<point>) is Point  device.sizeof(device.int16)  device.sizeof(Point)
        device.alignof(device.float32x4)  device.alignof(device.int8)  device.sizeof(device.complex64)
        device.popc(<int>)  device.clz(<positive>)  device.ffs(<positive>)
        device.brev(device.uint32(<positive>)) >> 28  device.clz(device.uint64(<positive>))
        device.ffs(device.int64(<int>))  device.popc(device.uint64(<positive>))  device.fma(<part>, 2.0, 1.0)
        device.int8(<small>) + device.int16(<small>)  device.uint8(<positive>) - 1  device.int32(<int>) / 4
        device.float16(<part>) * 2  device.uint32(<positive>) // device.uint32(<positive>)  -device.int16(<small>)
        ~device.uint8(<positive>)  device.int64(<int>) << 33 >> 30  device.uint16(<positive>) ** 2
        device.int16(<small>) % device.int16(<positive>)  device.int8(<small>) == <small>
        device.uint8(<positive>) < <int>  device.int64(<int>) ^ <int>
        divmod(device.int16(<small>), device.int16(<positive>))[<#2>]  round(device.float32(<part>))
        abs(device.int64(<int>))  max(device.int8(<small>), device.int8(<small>))  float(device.float16(<part>))
        int(device.float64(<part>))  complex(device.float32(<part>), 1)  bool(device.uint8(<positive>))
    """),
    "sequenced": rows(r"""
        <three>.count(<int>)  (<int>, 5, <int>).index(5)  [<int>, 6].index(6)
        [<int>, <int>, 3].count(3)  list(<three>)[-2:]  <three>[::2]  <three>[-1:0:-1]
        <three>[1:][0]  len(<three>[<#3>:])  (<three> + <three>)[3:5]  2 * (<int>,)  [<int>] * 0  <three> * 1
        <three> != <three>  <three> >= (<int>, 0)  [<int>, 1] < [<int>, 2]  (1, <int>) == [1, <int>]  () == ()
        list(zip(<three>, 'ab', strict=False))  list(zip(<three>, (1, 2, 3), strict=True))  tuple(zip())
        list(enumerate(<three>, start=<int>))  list(reversed([<int>, 2]))  list(reversed(range(<#5>)))
        list(range(5, <#4>, -2))  len(range(9, -2, -4))
        range(3, 9).start  range(1, 7, 2).step  range(<#6>).stop  5 in range(1, 9, 2)  <int> in range(-9, 9, 3)
        sum(range(<int>, 9))  list(range(4))[1:3]  list(map(max, <three>, (2, 3, 4)))
        list(map(str, (1, 2)))  list(filter(None, TABLE))  list(filter(lambda w: w % 2, TABLE))
        next(iter(<ints>), <int>)  next(iter(()), <int>)
        <ints> is <ints>  <three> is None
        functools.partial(max, <int>)(<int>)
        [w for w in 'abc' if w != '<letter>']
        [[a * b for a in <three>] for b in (1, 2)]  {a: b for a, b in zip('ab', <three>)}  [*<three>, *<ints>]
        (*'ab', <int>)  [w if w > 0 else -w for w in <three>]  tuple([w, w + 1] for w in (1, <int>))
        {'a': <int>, 'b': <bool>}  list({1: <int>, 'x': 2}.items())  {1: <int>}.get(2)
        len({})  'b' in {'b': <int>}  {**<dict>, 'z': <int>}['z']
        PAIRS['two'][-1]
    """),
    "objects": rows(r"""
        Pair(<int>, <int>)  Pair(<int>, second=<part>)  Pair(1, <int>).second  Pair(<int>, 2)[0]  Pair(*<three>)
        len(Pair(1, 2))  Pair(<int>, 2) == Pair(<int>, 2)  Pair._fields
        tuple(Pair(<int>, <int>, 4))  [w for w in Pair(<int>, 2)]
        Entry(<int>)  Entry(<int>, <part>).value  Entry(value=<part>, key=<int>)  Entry(<int>) < Entry(<int>, 2)
        Entry(2)[1]  isinstance(Entry(<int>), tuple)  Entry._field_defaults['value']
        max(Entry(<int>), Entry(3, 0.25))  Color.RED + <int>  Color.GREEN == <int>  Color.BLUE * 2
        Color.RED < Color.GREEN  Color.RED is Color.RED  Color.RED is Color.BLUE  int(Color.BLUE)
        Color(2) is Color.GREEN  Color.BLUE.value  Color.GREEN.name  (Color.RED, 1)[0] == 1  Shade.DARK is Shade.DARK
        Shade.DARK == Shade.PALE  Shade.PALE is Shade.DIM  Shade.DARK.value  Shade.PALE.name  Shade.DIM.name
        len(Color)  [w.value for w in Color]  Color['RED'].value  isinstance(Color.RED, int)
        {Color.RED: <int>}[Color.RED]  Shade.DARK in (Shade.PALE, <int>)  Settings.width + <int>  Settings.names[<#2>]
        Settings.nested['deep'][1]  getattr(Settings, 'width')  hasattr(Settings, 'depth')
        getattr(Settings, 'depth', <int>)  getattr(<point>, 'b')  <point>.total()  Point.total(<point>)
        <point> == Point(<int>, <part>)  device.replace(<point>, b=<part>).b  (<point>,)[0].a  [<point>, <point>][1].a
        {'k': <point>}['k'].total()  <vector>[0]  <vector>[<int> % 2]  len(<vector>)  sum(<triple>)  max(<triple>)
        [w * 2 for w in <triple>]  tuple(<vector>)  <triple>.x  <triple>.size  <triple>.dtype == device.int32
        <vector> == <vector>  <vector> != <vector>  (<vector>.x, <vector>.y)  abs(<triple>)  -<vector>  <triple> * 2
        3 - <triple>  <triple> ** 2  <triple> << 1  <triple> >> 1  <triple> ^ 5  <triple> | <triple>  ~<triple>
        7 // device.int32x2(<positive>, 3)  <triple> // 2  2 * <vector>  1 / device.float32x2(2, 4)  <vector> / <half>
        <int> in <triple>  list(reversed(<triple>))  list(enumerate(<vector>))  list(zip(<triple>, <three>))
        device.int8x4(1, 2, 3, <small>)  device.float64x2(<part>, 1)  device.uint8x2(<positive>, 4)
        device.int64x3(<int>, 2, 3).z  device.float16x2(<part>, 2)  device.int16x2(1, <small>) + device.int16x2(3, 4)
    """),
    "worded": rows(r"""
        '<word>' * 2  '<word>'[1]  '<word>'[-1]  '<word>'[::-1]  '<word>' < '<word>'  '<word>' == 'b'
        min('<word>')  list('<word>')  len('<word>')  ord('<word>'[0])  chr(ord('<letter>') + 1)
        '<letter>' in '<word>'  str(<#9>) + 'x'  str(None)  str((1, 'a'))  repr('it\'s')
        ascii('é')  bin(<#9>)  oct(<#9> * 8)  hex(255)  format(<#9>, '>5')  format(2.5, '.3f')
        format('<word>', '^7')
        '%%'
        f'{"<word>"!r:>8}'  f'{<#9>:#04x}'  f'{1e10:g}'  f'{-0.0:.0f}'  f'{<#9>:{2}}'  bool('')  bool('<word>')
        int('12') + <int>
    """),
}  # fmt: skip
EXPRESSIONS = pythonic.EXPRESSIONS | LIBRARY
EXPRESSIONS["any"] = [
    *EXPRESSIONS["any"],
    *(f"<{symbol}>" for symbol in LIBRARY if symbol not in ("typed", "numbered")),
]
WRAPPED = {
    "ispec": "print(f'{<int>:{}}')",
    "fspec": "print(f'{<float>:{}}')",
    "word": "print('{}')",
    "letter": "print('{}')",
    "augment": "<new a> = <int>\n<new a> {}= <small>\nprint(<new a>)",
    "iterable": "for <new w> in {}:\n    print(<new w>)",
    "pairs": "for <new w>, <new v> in {}:\n    print(<new w>, <new v>)",
    "edit": "<new a> = [<int>, *<three>, <int>]\n{}\nprint(<new a>)",
    "change": "<new a> = <dict>\n{}\nprint(<new a>)",
}
"""How rows are shown that are no expressions."""


def shown(tables: Mapping[str, Sequence[str]]) -> list[str]:
    """Statements that show each row of some tables, in an order in which the tables take turns."""
    found = []
    for symbol, each in tables.items():
        for row in each:
            if symbol in ("edit", "change"):
                row = re.sub(r"(?<!{){}", "<new a>", row).replace("{{", "{").replace("}}", "}")
            found.append(WRAPPED.get(symbol, "print({})").replace("{}", row))
    random.Random(1).shuffle(found)
    return found
