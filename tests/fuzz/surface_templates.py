"""Templates of what a program can write with a value, or with two: `{0}.real`, `abs({0})`, `{0} + {1}`, statements.

`surface` puts operands of each kind into the holes.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.grammar import rows, statements

TABLES: dict[str, Sequence[str]] = {
    "attributes": tuple(
        "{0}." + name
        for name in """
        real imag conjugate conj numerator bit_count bit_length is_integer as_integer_ratio to_bytes hex item astype view
        reshape dtype shape strides size ndim nbytes T all max mean sort copy count index append extend insert pop reverse
        remove get items values setdefault update start step x z first total width name value upper join _fields _asdict
        __class__ __len__ __getitem__ __setitem__ __add__ __name__ sqrt load cas from_bytes tolist foo
        """.split()
    ),
    "builtins": tuple(
        f"{name}({{0}})"
        for name in """
        abs all any ascii bin bool callable chr complex dict enumerate filter float format hex int iter len list max min
        next oct ord repr reversed round set sorted str sum tuple type zip divmod frozenset id vars range slice print
        """.split()
    ),
    "prefixes": rows("""
        -{0}  +{0}  ~{0}  not {0}  {0} is None  {0} if n else {0}  [*{0}]  (*{0}, 1)  {{**{0}}}  f'{{{0}}}'
        f'{{{0}!r:>9}}'  f'{{{0}:5d}}'  f'{{{0}:.2f}}'  '%s' % ({0},)  '%d' % {0}  ({0},)  [{0}, {0}]  {{'k': {0}}}
        {{{0}: 1}}  (lambda v, *more: v)(*{0})  (lambda a, first=1: a)(**{0})  {0}()  {0}(1)  {0}(n, x)
        getattr({0}, 'real')  getattr({0}, 'foo', 3)  hasattr({0}, 'imag')  hasattr({0}, 'count')
        isinstance({0}, int)  isinstance({0}, (float, tuple))  issubclass({0}, int)  {0} == {0}  {0} is {0}
        {0} in (1, n)  1 in {0}  'a' in {0}  n in {0}  {0} and n  n or {0}  max({0}, 1)  min(n, {0})  sum({0}, 1.5)
        [w for w in {0}]  {{w: 1 for w in {0}}}  list(zip({0}, (1, 2)))  list(enumerate({0}))  list(map(abs, {0}))
        sorted({0}, reverse=True)  next(iter({0}), 5)  divmod({0}, 2)  pow({0}, 2)  pow(2, {0})  round({0}, 1)
        range({0}, 9)  range(1, 9, {0})  slice({0})  type({0})()  type({0}) is int  int({0}, 2)  str({0}, 'utf8')
        functools.partial({0}, 1)  functools.reduce(max, {0})  device.is_exactly({0}, int)  device.sizeof({0})
        device.alignof({0})  device.replace({0}, a=1)  device.fma({0}, n, 1)  device.popc({0})  device.clz({0})
        device.shfl_sync(-1, {0}, 0)  device.ballot_sync(-1, {0})  device.syncthreads_or({0})
        device.local_array({0}, int)  device.local_array(4, {0})  device.tid({0})  a[{0}]  m[{0}]  m[{0}, 0]
        m[1, {0}]  a[{0}:]  a[::{0}]  v[{0}]  (n, 1, n)[{0}]  (n, x)[{0}]  [n, 2][{0}]  'abc'[{0}]  TABLE[{0}]
        ARRAY[{0}]  R[{0}]  range(5)[{0}]  DICT[{0}]  a.reshape({0})  a.view({0})  operator.itemgetter(1)({0})
        operator.attrgetter('real')({0})  operator.methodcaller('count', 1)({0})  operator.index({0})
        operator.truth({0})  (lambda v=3: v)({0})  (lambda *v: v)({0})  int.bit_count({0})  float.is_integer({0})
        str.upper({0})  tuple.count({0}, 1)  (5).__add__({0})  Spot(1) + {0}  Spot({0})  Spot(n, b={0})  Pair({0})
        Pair(second={0}, first=1)  Color({0})  Bits({0})  {0} | 1  'a' + {0}  {0} * 2  2 * {0}  print({0}, end='')
        print(sep={0})  ','.join({0})  'a,b'.split({0})  '{{}}'.format({0})  {0}.__class__(1)  (n if p else {0})
        ({0} if p else 2.5)  np.dtype({0})  math.prod({0})  math.fsum({0})  math.hypot({0}, 3.0)  np.clip({0}, 1, 2)
        np.where({0}, 1, x)
    """),
    "items": rows("""
        {0}[0]  {0}[-1]  {0}[n]  {0}[p]  {0}[x]  {0}[1:]  {0}[::-1]  {0}[n:]  {0}[:, 0]  {0}[0, 1]  {0}[None]
        {0}[...]  {0}['a']  {0}[99]  {0}[()]  {0}[True]  {0}[u]  {0}[0][0]  {0}[1].real
    """),
    "statements": statements("""
v = {0}
v[0] = 1
return v

v = {0}
v[n] = x
return v

v = {0}
v += 1
return v

v = {0}
v *= 2
return v

v = {0}
v.a = 2
return v

v = {0}
v.x = n
return v

v = {0}
del v[0]
return v

v, *others = {0}
return v, others

v, y = {0}
return v

v = 0
for v in {0}:
    pass
return v

v = 0
for v in {0}:
    if v == n:
        break
else:
    v = 5
return v

v = {0}
while n:
    v = v + v
return v

v = 1
while n:
    v = {0}
return v

if n:
    v = {0}
return v

match {0}:
    case 1 | 2:
        return 1
    case (first, *others):
        return first
    case Spot(a=3):
        return 3
    case int():
        return n
    case _:
        return 4

assert {0}, {0}
return 1

raise ValueError({0})

if n:
    raise {0}
return 2

a[0] = {0}
return None

m[0] = {0}
return None

a[:] = {0}
return None

v = device.local_array(2, Spot)
v[0] = {0}
return v

def inner(v):
    return v
return inner({0}), inner

def inner(v: float = {0}):
    return v
return inner()

def inner():
    yield {0}
    yield from {0}
return [*inner()]

def inner():
    nonlocal v
    v = {0}
v = 1
inner()
return v

global NUMBER
NUMBER = {0}

v = {0}
v.append(1)
return v

v = {0}
v.pop()
return v

v = {0}
v.update(b=n)
return v

with {0}:
    pass

try:
    return {0}
except ValueError:
    return 1

import math as {0}
"""),
}
"""Of one operand of any kind."""
METHODS = {
    "npxzuwhdciCFJBNG": rows("""
        {0}.conjugate()  {0}.bit_count()  {0}.bit_length()  {0}.is_integer()  {0}.item()  {0}.astype(device.int8)
        {0}.astype(float)  {0}.view(device.float32)  {0}.view(device.int32)  {0}.view(np.uint8)  {0}.conjugate(1)
        {0}.hex()  {0}.as_integer_ratio()  {0}.to_bytes(2, 'little')  {0}.reshape(1)  {0}.__add__(1)  {0}.real.imag
        {0}.dtype(1)
    """),
    "tlTLjZZRrKIykqL": rows("""
        {0}.count(1)  {0}.count(n)  {0}.index(n)  {0}.index(5)  {0}.index(5, 1)  {0}.index(x, 0, 2)  {0}.count()
        {0}.index()  {0}.append(n)  {0}.extend((1, n))  {0}.extend({0})  {0}.insert(0, x)  {0}.insert(n, 1)
        {0}.pop()  {0}.pop(0)  {0}.pop(n)  {0}.reverse()  {0}.sort()  {0}.sort(reverse=True)  {0}.sort(key=abs)
        {0}.copy()  {0}.clear()  {0}.remove(5)  {0} + {0}  {0} < {0}  {0}._replace(first=2)  {0}._asdict()
        {0}.upper()  {0}.split()  {0}.replace('a', 'b')  {0}.find('b')  {0}.zfill(9)  {0}.startswith('a')
        {0}.encode()  {0}.decode()  {0}.center(9)  {0}.format(1)  {0}.join(('a', 'b'))  {0}.isdigit()
    """),
    "fDV": rows("""
        {0}.get('a')  {0}.get('z')  {0}.get('z', n)  {0}.get(n, 2)  {0}.keys()  {0}.values()  {0}.items()
        {0}.pop('a')  {0}.pop('z', 1)  {0}.pop('z')  {0}.popitem()  {0}.setdefault('z', n)  {0}.update(a=1)
        {0}.update({{'q': x}})  {0}.copy()  {0}.clear()  {0} | {{'a': 1}}  [*{0}]  {0}['a']  {0}['z']  {0}[n]
        'a' in {0}  [w for w in {0}.items()]  {0}.get()  {0}.update(1)  dict({0}, c=1)
    """),
    "amAXYsejEO1234567b89": rows("""
        {0}.sum()  {0}.max()  {0}.min()  {0}.mean()  {0}.prod()  {0}.any()  {0}.all()  {0}.sum(0)  {0}.sum(axis=0)
        {0}.reshape(-1)  {0}.reshape(2, n)  {0}.reshape((3, 2))  {0}.reshape(n, order='F')
        {0}.reshape(2, -1, copy=False)  {0}.reshape(x)  {0}.reshape()  {0}.view(device.uint8)
        {0}.view(device.int64)  {0}.view(device.float32x2)  {0}.astype(device.int32, copy=False)
        {0}.astype(device.float32)  {0}.copy()  {0}.tolist()  {0}.item()  {0}.T.shape  {0}.shape[0]  {0}.strides[0]
        {0}[0].T  {0}[1:, None]  {0}[..., 0]  {0}[::2].reshape(-1)  {0}.load()  {0}.store(1)  {0}.add(n)  {0}.max(x)
        {0}.cas(1, 2)  {0}.exchange(1.5)  {0}.sub(1)  {0}.add(1, memory='relaxed')  {0}.load(memory='acquire')
        {0}.store(n, scope='block')  {0}.total()  {0}.total(2)  {0}.total(more=n)  {0}.first  {0}.a + {0}.b
        {0}.name  {0}.value  {0}(1)  {0}(1, 2).a  {0}.total(1, 2)  {0}['a']  {0}.width
    """),
}
"""Methods with arguments, of the operands that may have them."""
FUNCTIONS = {
    "math": """
        acos acosh asin asinh atan atanh cbrt ceil cos cosh degrees erf erfc exp exp2 expm1 fabs factorial floor
        frexp gamma gcd isfinite isinf isnan isqrt lcm lgamma log log10 log1p log2 modf radians sin sinh sqrt
        tan tanh trunc ulp
    """,
    "np": """
        abs all amax amin angle any around arccos arcsinh bitwise_count bitwise_invert bool_ cbrt ceil conj cos
        deg2rad degrees dtype exp exp2 expm1 fabs finfo float16 floor frexp iinfo imag int8 invert isfinite
        isinf isnan log log1p logical_not max mean min modf ndim negative positive prod rad2deg real reciprocal
        rint round shape sign signbit sin size spacing sqrt square sum tan tanh trunc uint64 complex64 array
        zeros where
    """,
    "operator": """
        abs attrgetter index inv invert itemgetter neg not_ pos truth
    """,
    "device": """
        float16 bfloat16 float32 float64 float8e4m3 int8 uint8 int16 uint16 int32 uint32 int64 uint64 complex64
        complex128 int32x2 float32x3 uint8x4 brev cbrt clz ffs popc numpy_dtype machine_representation syncwarp
        match_any_sync all_sync activemask threadfence thread_idx func
    """,
}
"""Functions of one argument, of numbers and a few others: names in modules."""
SIGNS = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "^", "==", "!=", "<", ">=", "is", "in", "and", "or", "@")
PAIRS = (
    *(f"{{0}} {sign} {{1}}" for sign in SIGNS),
    "{0} if n else {1}", "max({0}, {1})", "[{0}, {1}][n]", "np.maximum({0}, {1})", "divmod({0}, {1})",
    "math.copysign({0}, {1})", "isinstance({0}, type({1}))", "device.float32x2({0}, {1})", "complex({0}, {1})",
    "math.gcd({0}, {1})", "np.logical_or({0}, {1})", "operator.add({0}, {1})", "math.pow({0}, {1})",
    "device.shfl_down_sync(-1, {0}, {1})", "({0}, {1}) < ({1}, {0})", "round({0}, {1})", "np.power({0}, {1})",
    "math.ldexp({0}, {1})", "math.isclose({0}, {1})", "operator.iadd({0}, {1})", "np.floor_divide({0}, {1})",
    "np.arctan2({0}, {1})", "math.fmod({0}, {1})", "v if ({0}) == ({1}) else 1", "(lambda v, w: w)({0}, w={1})",
)  # fmt: skip
"""Of two operands."""
