"""Which arrays a kernel may change: by what it is checked which of them may overlap, and which are read past the other caches.

device.atomic_ref(x, i).add(1)        x
fill(y[1:], z)                        what `fill` changes of its parameters
print(z[0])                           nothing
"""

from __future__ import annotations

import random

import cuda_device as device
from cuda_device import compiler
from cuda_device.types.architectures import parse
from cuda_device.types.known import of_type
from cuda_device.types.parse import parse as parse_type
from fuzz.cases import defined
from fuzz.grammar import rows

CHANGES = rows("""
    {x}[i] = 1  {x}[i] += n  {x}[:] = 0  {x}[1:] = {o}[1:]  {x}[::2][i] = 2  {x}.reshape(2, 2)[0, i] = 1  {x}[::-1][i] -= 1
    device.atomic_ref({x}, i).add(1)  device.atomic_ref({x}, 0).store(n)  n += device.atomic_ref({x}, i).exch(2)
    n += device.atomic_ref({x}, 0).cas(0, 3)  device.atomic_ref({x}[1:], i).max(3, 'relaxed', 'block')
    n += device.atomic_ref({x}.reshape(2, 2), (0, 1)).sub(1)  put({x}, i)  count({x}, 1)  put({x}[1:], i)
    n += count({x}[::-1], {o}[i])  copy({x}, {o})  [put({x}, w) for w in (0, 1)]  (lambda w: put(w, 0))({x})
    for w in ({x},): w[i] = 1  ({x} if n > 3 else {o})[i]; {x}[0] = 1  {x}[i], n = n, {x}[0]  deep({x}, 2)
    r = device.atomic_ref({x}, i); r.or_(1)  r = device.atomic_ref({x}, i); n += r.min(-2)  {x}.view(device.uint32)[i] = 3
""")
READS = rows("""
    n += {x}[i]  n += device.atomic_ref({x}, i).load()  n += {x}[1:][0]  print({x}[0])  copy(own, {x})
    own[:] = {x}  own[0], n = {x}[0], {x}[1]
    n += {x}.reshape(2, 2)[1, i]  n += look({x}, i)  n += sum({x})  n += max(w for w in {x})  pass  n += {x}.shape[0] + {x}.ndim
    n += len({x})  w = {x}; n += w[i]  n += look({x}[::-1], i)  n += (lambda w: w[0])({x})  own[i] = {x}[i]
""")
HEAD = """\
def put(array, i):
    array[i] = 3

def look(array, i):
    return array[i]

def count(array, by):
    return device.atomic_ref(array, 0).add(by)

def copy(array, other):
    array[0] = other[1]

def deep(array, n):
    if n > 0:
        deep(array, n - 1)
    else:
        device.atomic_ref(array, n).and_(1)

"""
NAMES = tuple("abcdefgh")


def wrong(number: int) -> str | None:
    """What is wrong with one kernel of some arrays."""
    choose = random.Random(f"touched {number}")
    changed = choose.sample(NAMES, 4)
    others = [name for name in NAMES if name not in changed]
    some = [(each, choose.choice(CHANGES if each in changed else READS)) for each in NAMES]
    some += [(each, choose.choice(READS)) for each in choose.sample(NAMES, 2)]
    choose.shuffle(some)
    lines = [f"def k({', '.join(NAMES)}, n):", "    i = device.tid(1)", "    own = device.local_array(4, device.int32)"]
    lines += [f"    {row.format(x=x, o=choose.choice(others))}" for x, row in some]
    source = HEAD + "\n".join(lines) + "\n"
    kernel = device.kernel(defined(source, "k", {"device": device}, f"<touched {number}>"))
    known = (*[of_type(parse_type("array<int32, 1, C>"))] * len(NAMES), of_type(parse_type("int")))
    target = compiler.Target(parse("sm_90"), choose.random() < 0.5)
    work = compiler.run(compiler.Job(kernel.underlying, known, True, target, compiler.Options(checked=False)), "device")
    found = "".join(NAMES[k] for k in sorted(work.outline.written))
    expected = "".join(sorted(changed))
    return None if found == expected else f"it changes {expected}, not {found}:\n{source}"
