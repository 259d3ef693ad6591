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
from fuzz.grammar import rows
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
    .shape  .strides  .size  .nbytes  .itemsize  .ndim  .sum()  .max()  .min()  .any()  .all()  .shape[0]  .real  .imag
""")
ELEMENTS = ("[0]", "[-1]", "[n % 2]", ".sum()")
OF_CONSTANTS = rows("""
    .argmax()  .argmin()  .cumsum()[1]  .dot({0}.T).real  .flatten()[2]  .item(0)  .mean()  .prod()  .ravel()[-1]
    .reshape(-1)[1]  .squeeze().shape  .tolist()[0]  .tolist()  .swapaxes(0, -1).shape  .transpose().shape  .trace()
    .astype('i4').sum()  .astype('f4')[0]  .copy()[1:].sum()  .tobytes()[:2]  .var()  .std() * 0  .view('u1')[0]
    .max()  .min()  .sum()  .any()  .all()  .max(0)[1]  .sum(0)[0]  .argmax(0)[0]  .cumsum()
""")


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
    """How it is printed; None if it is not printed alike."""
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
    name = text = choose.choice([*SHAPES, *"zzccrr"])
    for _ in range(choose.choice((1, 1, 1, 2, 3, 4))):
        part = choose.choice(PARTS if choose.random() < 0.7 else [".real", ".imag"])
        if _fits(_value(text, names), part) and _value(text + part, names) is not None:
            text += part
    ends = [*ENDS, *ELEMENTS * 4] + (OF_CONSTANTS * 2 if name in CONSTANTS and "n" not in text else [])
    end = choose.choice(ends)
    text += end.replace("{0}", text) if _fits(_value(text, names), end) else ""
    return text if _shown(text, names) is not None else None


FIRST = tuple(f"{name}{part}" for name in SHAPES for part in PARTS if (name == "r") == part.startswith("['"))


def _due(number: int, choose: random.Random, names: dict[str, Any]) -> Iterator[str]:
    """An element of each first part, and of each method of a constant, in turn."""
    for text in due(number, FIRST, 14):
        yield from _any_of(
            choose, [f"{text}{end}" for end in (".sum()", "[n % 2]", "['v'][1]", "[1, 1]", "[1]")], names
        )
    for end in due(number, OF_CONSTANTS, 8):
        yield from _any_of(choose, [f"{name}{end.replace('{0}', name)}" for name in CONSTANTS], names)


def _any_of(choose: random.Random, texts: list[str], names: dict[str, Any]) -> list[str]:
    """One of those that can be printed, if there is any."""
    good = [text for text in texts if _is_there(text, names)]
    return [choose.choice(good)] if good else []


def views(number: int, stream: device.Stream) -> str | None:
    """Some parts."""
    choose = random.Random(f"views {number}")
    arrays, n = _made(choose), choose.randint(0, 5)
    names = {**arrays, "n": n}
    texts = ["z.real[1]", "z.imag[::-1][0]", "c.real[n % 2, 1]", "c.imag.sum()", *_due(number, choose, names)]
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
