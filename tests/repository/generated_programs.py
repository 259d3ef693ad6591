"""Programs made at random, most of them sensible, some with something in them that device code has not.

    source = program(seed=7)        the source of a kernel `k` and the functions that it calls; the same for the same seed

`mutated` changes a few words of a given source.
"""

from __future__ import annotations

import io
import random
import tokenize

from fuzz.grammar import Grammar, rows

PARAMETERS = "x, y, z, f64, u8, s, n"
TYPES = "float32[1]; int32[1]; strided float32[2]; float64[1]; uint8[1]; float32; int"

ROWS = {
    "number": rows("<integer>  <real>  <real>"),
    "real": rows("""
        a  b  c  x[0]  x[i]  z[i,j]  f64[1]  s  1.5  0.0  -0.0  math.pi  math.inf  1e10  math.nan  device.float16(1.5)
        (<number> <arithmetic> <real>)  (<number> <arithmetic> <real>)  (<real> if <condition> else <number>)
        <function>(<real>)  <function>(<real>)  <functions>(<real>, <number>)  <functions>(<real>, <number>)  x[<integer>]
        <pair>[<end>]  (<real> and <real>)  (<real> or <real>)  (<real> ** <power>)  (<real> ** <power>)
    """),
    "integer": rows("""
        i  j  m  n  len(x)  x.shape[0]  z.shape[1]  device.tid(1)  device.thread_idx.x  y[i]  u8[j]  0  1  -1  7  100
        device.uint8(3)  device.int64(5)  x.size  z.ndim  2147483647  device.uint64(9)  (<integer> <operator> <integer>)
        (<integer> <operator> <integer>)  (<integer> <operator> <integer>)  (<integer> if <condition> else <integer>)
        <whole>(<integer>)  <whole>(<integer>)  <rounded>(<real>)  <rounded>(<real>)  <wholes>(<integer>, <integer>)
        <wholes>(<integer>, <integer>)  <type>(<number>)  <type>(<number>)  y[<integer>]  y[<integer>]
        divmod(<integer>, <integer>)[1]  (<integer> ** <power>)
    """),
    "condition": rows("""
        p  q  True  False  i < n  a > 0  n is None  x is not None  (<number> <comparison> <number>)  (not <condition>)
        (<number> <comparison> <number>)  (<condition> and <condition>)  (<condition> or <condition>)
        (<number> < <number> <= <number>)  bool(<number>)  math.isnan(<real>)  (<pair> == <pair>)  (<pair> != <pair>)
    """),
    "pair": rows("t  u  (<real>, <real>)"),
    "end": rows("0  1  -1"),
    "power": rows("2  3  0  0.5  i  a"),
    "arithmetic": rows("+  -  *  /  //  %"),
    "operator": rows("+  -  *  //  %  &  |  ^  <<  >>"),
    "comparison": rows("<  <=  ==  !=  >  >="),
    "function": rows("math.sqrt  math.sin  abs  float  math.exp  -  device.float32  device.float64  increment"),
    "functions": rows("min  max  math.atan2  math.fmod  clamp"),
    "whole": rows("abs  int  -  +  ~  fibonacci  increment  even"),
    "wholes": rows("min  max  clamp  divisor"),
    "rounded": rows("int  math.floor  round  math.ceil"),
    "type": rows("device.uint8  device.int32  device.int64  device.uint32  device.int16"),
    "float": rows("a  b  c"),
    "int": rows("i  j  m"),
    "assign": rows("=  =  +=  -=  *="),
    "array": rows("x  f64  u8  y"),
    "statement": rows("""
        <float> <assign> <number>  <float> <assign> <number>  <float> /= <number>  <int> <assign> <integer>  p = <condition>
        <int> <assign> <integer>  <int> //= <integer>  <int> >>= <integer>  <array>[<integer>] = <number>  q = <condition>
        <array>[<integer>] = <number>  t = (<real>, <real>)  u = (<real>, <real>)  a, b = <pair>  a, b = b, a
        z[<integer>, <integer>] += <number>
    """),
    "loop": rows("""
        while <condition>:  while <condition>:  for <int> in range(<integer>):  for <int> in range(<integer>, <integer>):
        for <int> in range(<integer>, <integer>, <step>):  for <float> in <items>:
    """),
    "step": rows("1  -1  3  -2  n  i"),
    "items": rows("(1, 2, 3)  (1, 2.5, n)  (<real>, <real>)  t"),
}
ODD_EXPRESSIONS = (
    """
's'; b''; (); None; 1j; ...; TABLE; NAMES; NUMBER; int; math; helper; x; 10**20; 1e400; [1, 2]; {1: 2}; {1}; f'{a}';
(lambda w: w); [w for w in t]; x[1:2]; device.thread_idx; device; abs; range(3); (w for w in t); device.syncthreads();
x.sum(); a.real; not_there; 's' * 3; clamp(*t); clamp(1, k=2); clamp(); clamp(1, 2, 3); other_kernel; other_kernel(x);
print(a); math.sqroot(a); x[0, 1]; x[1.5]; t[5]; t[i]; t[-1]; PAIR; max; device.float32; never(1); for_ever(1);
constant(i); constant(3); range(0, 1, 0); i in t; -x; ~a; x @ x; device.shared_array(i, device.float32);
device.shared_array(4, device.float32)[0]; (a, *t); (w := a); t + (1,); NAMES + NAMES; [a, b][i]; [a, *t]; sum(t); x[::-1];
sum(x[w] for w in range(3)); x.T; z.T[0, 0]; x.reshape(2, 2); x[None]; z[0]; z[0, ...]; z[:, i]; device.float32x2(a, b);
device.float32x2(a, b).x; device.float32x3(1, 2, 3) + 1; device.int32x2(i, j)[i]; device.float32x2(t); Point(1, 2); Point(a, i).x;
Point(1, 2).z; device.shfl_sync(-1, a, 0); device.shfl_sync(-1, x, 0); device.atomic_ref(x, 0).add(1);
device.atomic_ref(y, i).max(j); device.ballot_sync(-1, p); device.all_sync(-1, lambda: i > 0); device.activemask();
device.syncthreads_count(p); device.lane_id; device.popc(i); device.fma(a, b, c); device.target(device.is_device);
device.local_array(3, device.float32)[0]; (lambda: a)(); (lambda w: w * a)(b); max(t); min(*t, a); all(w > 0 for w in t);
any([p, q]); enumerate(t); zip(t, u); list(t); tuple(x); reversed(t); np.sqrt(a); np.float32(i); np.maximum(a, b);
x[i:j].size; len(x[1:]); x[1:][0]; f"{NUMBER}"; i in (1, 2, 3); "a" in NAMES; t is u; device.uint8(i) in t; complex(a)
""".strip()
    .replace("\n", " ")
    .split("; ")
)
ODD_STATEMENTS = (
    """
import os; assert a; raise ValueError(a); x.foo = a; x[1:2] = a; del x[0]; print(a); a, *b = t; return a; t[0] = a; del a;
a, b, c = t; a = b = not_there; x[0] += t; from math import pi; x @= x; return; x[0] = x; x[0] = None; u8[0] = 300;
u8[0] += 300; i += 'a'; a: int = 3; a: float; global NUMBER2; t = t + t; t = (t, t); a, b = t, t; i = j = x; x = y; n = x;
pass; lambda: a; a; (a, b); 1
""".strip()
    .replace("\n", " ")
    .split("; ")
)
ODD_BLOCKS = [
    ["try:", "    a = 1.0", "except ValueError:", "    pass"],
    ["try:", "    a = 1.0", "finally:", "    b = 1.0"],
    ["with a:", "    pass"],
    ["match i:", "    case 1: a = 2.0", "    case 2 | 3: a = 3.0", "    case _: pass"],
    ["match t:", "    case (c, 2): pass", "    case {'a': 3}: pass"],
    ["for w in range(3):", "    def inner(): return w"],
    ["def inner(w): return w + a", "a = inner(b)"],
    ["class K: pass"],
    ["for w, v in ((1, 2), (3, 4)): a = w"],
    ["for w, v in (1, 2): a = w"],
    ["for w in x: a = w"],
    ["for w in 3: pass"],
    ["while x: pass"],
    ["if t: a = 1.0"],
    ["async def inner(): pass"],
    ["for w in x[1:3]: a += w"],
    ["for w, v in zip(t, u): a += w * v"],
    ["for w, v in enumerate(t): a += v"],
    ["x[1:3] = x[2:4]"],
    ["x[:] = 0"],
    ["v = device.float32x2(a, b)", "v.x = c", "w = v", "w[1] = a", "b = v.y"],
    ["v = Point(a, i)", "while v.x < 3: v.x += 1", "a = v.x"],
    ["device.atomic_ref(x, 0).add(a)"],
    ["s1 = device.shared_array(32, device.float32)", "s1[i] = a", "device.syncthreads()", "a = s1[j]"],
    ["assert a > 0, 'no'"],
    ["raise ValueError('no')"],
    ["items = [w * 2 for w in t]", "a = items[1]"],
    ["def inner(w): return w * b", "b = 2.5", "a = inner(a)"],
    ["def inner():", "    return a + inner2()", "def inner2(): return b", "a = inner()"],
]
FUNCTIONS = """
@device.func
def increment(w):
    return w + 1


def clamp(v, w=2):
    if v > w:
        return v
    return w


def helper(v):
    return v


def constant(w: device.ConstExpr):
    return w * 2


def fibonacci(w):
    return w if w < 2 else fibonacci(w - 1) + fibonacci(w - 2)


def divisor(v, w):
    while w != 0:
        v, w = w, v % w
    return v


def even(w):
    return odd(w - 1) if w > 0 else 0


def odd(w):
    return even(w - 1) if w > 0 else 1


def never(w):
    return never(w)


def for_ever(w):
    while True:
        w += 1


@device.kernel
def other_kernel(x):
    pass


PAIR = (1, 2)


@device.struct
class Point:
    x: device.float32
    y: device.int32
"""
BEGINNING = "a = 0; b = s; c = x[0]; i = 0; j = n; m = len(x); p = True; q = s > n; t = (1, 2.0); u = (s, n)".split(
    "; "
)


def program(seed: int) -> str:
    """The source of a kernel `k` of `PARAMETERS`."""
    make = _Maker(seed)
    local = ["    " + line for line in BEGINNING if line[0] not in "ai"]
    local += [*make.block(1, 2, in_loop=False, in_function=True), "    return a"]
    body = ["    " + line for line in BEGINNING if not make.is_odd()]
    body += make.block(1, 3, in_loop=False, in_function=False)
    if make.random.random() < 0.5:
        body.append("    x[1] = local(a, i, x, y, z, f64, u8, s, n)")
    first = [FUNCTIONS, "", "def local(a, i, x, y, z, f64, u8, s, n):", *local, ""]
    return "\n".join([*first, "@device.kernel", f"def k({PARAMETERS}):", *body, ""])


def mutated(source: str, seed: int) -> str:
    """The source with one to three of its words exchanged for other words of it, or left out."""
    choose = random.Random(seed)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    words = [
        i
        for i, t in enumerate(tokens)
        if t.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP) and t.string not in "()[]{}:"
    ]
    texts = [(token.type, token.string) for token in tokens]
    for _ in range(choose.randint(1, 3)):
        at = choose.choice(words)
        same_type = [texts[i] for i in words if texts[i][0] == texts[at][0]]
        texts[at] = choose.choice(same_type) if choose.random() < 0.8 else (tokenize.NAME, "")
    return tokenize.untokenize(texts)


class _Maker(Grammar):
    """Makes the parts of a program. Some programs are sensible throughout; in the others, one choice in 100, 30 or 10 is odd."""

    def __init__(self, seed: int) -> None:
        super().__init__(ROWS, random.Random(seed))
        self.oddity = self.random.choice([0, 0.01, 0.03, 0.1])

    def is_odd(self) -> bool:
        return self.random.random() < self.oddity

    def make(self, symbol: str, depth: int) -> str:
        is_value = symbol in ("real", "integer", "condition", "pair")
        return self.random.choice(ODD_EXPRESSIONS) if is_value and self.is_odd() else super().make(symbol, depth)

    def block(self, indent: int, depth: int, in_loop: bool, in_function: bool) -> list[str]:
        lines = []
        for _ in range(self.random.randint(1, 3)):
            lines += self.statement(indent, depth, in_loop, in_function)
        return lines

    def statement(self, indent: int, depth: int, in_loop: bool, in_function: bool) -> list[str]:
        space, choice = "    " * indent, self.random.random()
        if self.is_odd():
            lines = [self.random.choice(ODD_STATEMENTS)] if choice < 0.7 else self.random.choice(ODD_BLOCKS)
            return [space + line for line in lines]
        if choice < 0.05:
            ends = ["break", "continue"] * in_loop + [self.fill("return <real>", 1) if in_function else "return"]
            return [space + self.random.choice([*ends, "device.syncthreads()" if not in_function else "pass"])]
        if depth <= 0 or choice < 0.45:
            return [space + self.make("statement", 3)]
        is_loop = choice > 0.65
        heads = [self.make("loop", 3)] if is_loop else [self.fill("if <condition>:", 2)]
        heads += [self.fill("elif <condition>:", 2)] * (not is_loop and self.random.random() < 0.3)
        heads += ["else:"] * (self.random.random() < (0.15 if is_loop else 0.5))
        lines = []
        for head in heads:
            inside = in_loop or (is_loop and head != "else:")
            lines += [space + head, *self.block(indent + 1, depth - 1, inside, in_function)]
        return lines
