"""Parts of arrays of complex numbers, of records and of constants of the host, as NumPy has them: the same text in both.

print(z[1:].imag[::-1][2], r['grid'][0].T.strides, H.cumsum()[3])
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import cuda_device as device
from fuzz.cases import defined, due, first_difference, printed
from fuzz.grammar import rows, statements
from fuzz.printing import OF_NUMPY, is_alike

RECORD = np.dtype([("a", "i4"), ("row", "f4", (3,)), ("v", "c8"), ("grid", "i2", (2, 2)), ("w", "f8")])
SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "z": ("c8", (6,)), "c": ("c16", (3, 4)), "r": ("", (4,)), "f": ("f2", (2, 3)), "u": ("u8", (5,)),
    "H": ("i2", (2, 3)), "G": ("f8", (4,)), "C": ("c16", (2, 2)), "K": ("u1", (3, 2)),
}  # fmt: skip
CONSTANTS = tuple(name for name in SHAPES if name.isupper())
"""Those that are no parameters, but known while compiling."""
PARTS = rows("""
    .real  .imag  .T  [::-1]  [1:]  [:-1]  [0]  [-1]  [1]  [n % 2]  [:, 1]  [..., 0]  [:, ::-1]  [None]  ['a']  ['row']
    ['v']  ['grid']  ['w']
""")
ENDS = rows("""
    .shape  .strides  .size  .nbytes  .itemsize  .ndim  .shape[0]  .real  .imag
""")
ELEMENTS = ("[0]", "[-1]", "[n % 2]")


def _made(choose: random.Random) -> dict[str, Any]:
    found = {}
    for name, (dtype, shape) in SHAPES.items():
        type = np.dtype(dtype) if dtype else RECORD
        array = np.zeros(shape, type)
        if name not in CONSTANTS and choose.random() < 0.5:
            array = np.zeros(tuple(2 * n for n in shape), type)[tuple(slice(None, None, 2) for _ in shape)]
        for part in [array[field] for field in type.names] if type.names else [array]:
            numbers = np.array([choose.randint(1, 9) for _ in range(part.size)]).reshape(part.shape)
            part[...] = numbers + numbers[::-1] * (1j if part.dtype.kind == "c" else 0)
        found[name] = array
    return found


def _value(text: str, names: dict[str, Any]) -> Any:
    """What NumPy has; None if that is nothing that device code has, too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = eval(text, names)
    except Exception:
        return None
    return None if isinstance(found, np.ndarray) and (found.ndim == 0 or found.size == 0) else found


def _shown(text: str, names: dict[str, Any]) -> str | None:
    """How it is printed; None if it is not printed alike. A constant array is copied, so its strides may be others."""
    if text.endswith(".strides") and text.startswith(CONSTANTS):
        return None
    value = _value(text, names)
    if isinstance(value, np.ndarray | np.void | None) or (
        isinstance(value, complex | np.complexfloating) and not value.real
    ):
        return None
    shown = OF_NUMPY.sub(r"\1", str(value))
    return shown if len(shown) < 30 and is_alike(shown) else None


_COMPLEX, _SCALAR = (".min", ".max", ".arg"), (".real", ".imag", ".size", ".ndim", ".itemsize", ".nbytes", ".shape")


def _fits(value: Any, part: str) -> bool:
    """Whether device code has a part of this."""
    if isinstance(value, np.void):
        return part.startswith("['")
    if not isinstance(value, np.ndarray):
        return part in _SCALAR
    if part == ".imag" or part.startswith(_COMPLEX):
        return np.iscomplexobj(value) == (part == ".imag")
    return value.dtype.names is None or not part.startswith((".real", ".sum", ".any", ".all"))


def _is_there(text: str, names: dict[str, Any]) -> bool:
    """Whether each part of a text fits what it is of."""
    pieces = re.findall(r"^\w+|\.\w+(?:\(.*?\))*|\[.*?\]", text)
    whole, before = "".join(pieces) == text, pieces[0]
    for piece in pieces[1:]:
        whole, before = whole and _fits(_value(before, names), piece), before + piece
    return whole and _shown(text, names) is not None


def _text(choose: random.Random, names: dict[str, Any]) -> str | None:
    text = choose.choice([*SHAPES, *"zzccrr"])
    for _ in range(choose.choice((1, 1, 1, 2, 3, 4))):
        part = choose.choice(PARTS if choose.random() < 0.7 else [".real", ".imag"])
        if _fits(_value(text, names), part) and _value(text + part, names) is not None:
            text += part
    end = choose.choice([*ENDS, *ELEMENTS * 4])
    text += end if _fits(_value(text, names), end) else ""
    return text if _shown(text, names) is not None else None


FIRST = tuple(f"{name}{part}" for name in SHAPES for part in PARTS if (name == "r") == part.startswith("['"))


def _due(number: int, choose: random.Random, names: dict[str, Any]) -> Iterator[str]:
    """An element of each first part, in turn."""
    for text in due(number, FIRST, 14):
        yield from _any_of(choose, [f"{text}{end}" for end in ("[0]", "[n % 2]", "['v'][1]", "[1, 1]", "[1]")], names)


def _any_of(choose: random.Random, texts: list[str], names: dict[str, Any]) -> list[str]:
    """One of those that can be printed, if there is any."""
    good = [text for text in texts if _is_there(text, names)]
    return [choose.choice(good)] if good else []


def views(number: int, stream: device.Stream) -> str | None:
    """Some parts."""
    choose = random.Random(f"views {number}")
    arrays, n = _made(choose), choose.randint(0, 5)
    names = {**arrays, "n": n}
    texts = ["z.real[1]", "z.imag[::-1][0]", "c.real[n % 2, 1]", "c.imag[1, 0]", *_due(number, choose, names)]
    texts += filter(None, (_text(choose, names) for _ in range(6)))
    return compared(texts, arrays, n, stream)


def compared(texts: list[str], arrays: dict[str, Any], n: int, stream: device.Stream) -> str | None:
    given = {name: array for name, array in arrays.items() if name not in CONSTANTS}
    source = "\n".join([f"def k({', '.join(given)}, n):", *(f"    print({text})" for text in texts)]) + "\n"
    scope = {name: array for name, array in arrays.items() if name in CONSTANTS}
    kernel = device.kernel(level=0)(defined(source, "k", scope, "<views>"))
    found = printed(lambda: device.launch(kernel, *given.values(), n, grid=1, block=1, stream=stream))
    expected = "".join(f"{_shown(text, {**arrays, 'n': n})}\n" for text in texts)
    wrong = first_difference(found, expected)
    return wrong and f"{wrong}, of\n{source}"


VECTORS = {"q": ("float32x4", "f4"), "w": ("int16x2", "i2")}
"""Arrays of three vectors, which NumPy has as rows."""
WRITES = statements("""
z.real[1] = {s}

z.imag[n % 6] += {s}

z.imag[::-1][:2] = {s}

z.real[:] = z.imag

z[1:3] = z[3:5].real

c.T[1, 2] = c[0, n % 4] * 2

c.imag[n % 3, ::2] = {s}

c.real[:, 1] = c[:, 2].imag

c[1] = c[2].real[::-1]

r['a'][n % 4] -= {s}

r['row'][n % 4, 1] = {s}

r['row'][1] = {s}

r['row'][:, n % 3] = {s}

r['grid'][2, n % 2, 1] = {s}

r['grid'][n % 4][1] = r['grid'][1][0]

r[1]['grid'][n % 2, 0] = {s}

r[n % 4]['row'][2] += {s}

r['v'].imag[n % 4] = {s}

r['v'][2] = r['v'][n % 4] * 2

r['w'][::2] = r['w'][1::2]

r[2] = r[n % 4]

r[::-1]['a'][0] = {s}

f.T[n % 3][1] = {s}

u[n % 5:][0] = {s}

q[1][n % 4] = {s}

q[n % 3][3] += {s}

q[n % 3][n % 4] -= {s}

q[2] = q[n % 3]

w[n % 3][n % 2] = {s}

w[0][1] = w[n % 3][n % 2] + {s}

w[n % 3][0], w[1][1] = {s}, w[2][n % 2]
""")


def writes(number: int, stream: device.Stream) -> str | None:
    """What assignments to parts leave behind."""
    choose = random.Random(f"writes {number}")
    arrays, n = _made(choose), choose.randint(0, 11)
    given = {name: array for name, array in arrays.items() if name not in CONSTANTS}
    layouts = {name: np.dtype(device.numpy_dtype(getattr(device, type))) for name, (type, _) in VECTORS.items()}
    for name, (_, dtype) in VECTORS.items():
        size = layouts[name].itemsize // np.dtype(dtype).itemsize
        given[name] = np.arange(3 * size).reshape(3, size).astype(dtype)
    texts = [row.replace("{s}", str(choose.randint(1, 9))) for row in due(number, WRITES, 14)]
    source = "\n".join([f"def k({', '.join(given)}, n):", *(f"    {text}" for text in texts)]) + "\n"
    left = {name: array.copy() for name, array in given.items()}
    defined(source, "k", {}, "<writes>")(*left.values(), n)
    found = [array.view(layouts[name])[:, 0] if name in layouts else array for name, array in given.items()]
    device.launch(
        device.kernel(level=0)(defined(source, "k", {}, "<writes>")), *found, n, grid=1, block=1, stream=stream
    )
    for name, array in given.items():
        if array.tobytes() != left[name].tobytes():
            return f"{name} is {array.tolist()}, not {left[name].tolist()}, of n = {n} and\n{source}"
    return None
