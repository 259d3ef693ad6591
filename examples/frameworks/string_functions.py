"""Functions of users on columns of strings, as cuDF could offer them: the function is Python, the column lies in device memory.

    def shout(text):
        return len(text) > 3 and text.startswith("k")

    apply(shout, Strings.of(["kernel", "cpu", "kind"]))       # [True, False, True]

A column is the bytes of all strings (UTF-8) and where each begins. A string in device code is a struct with a window of these
bytes. It has methods as Python's strings have them, and overloads give builtins and operators their meaning.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

import numpy as np

import cuda_device as device

Bytes = Annotated[Any, device.ArrayType(device.uint8, 1, readonly=True)]


class Strings:
    """A column of strings on the host's side."""

    def __init__(self, offsets, chars):
        self.offsets, self.chars = offsets, chars

    @classmethod
    def of(cls, texts, stream=None):
        """A column with some texts, on the device of a stream."""
        encoded = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        chars = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        return cls(device.array(offsets, stream=stream), device.array(chars, stream=stream))

    def __len__(self):
        return len(self.offsets) - 1


@device.struct
class Text:
    """One string in device code; its length is that in bytes."""

    chars: Bytes

    def startswith(self, prefix):
        """Whether the string begins with a constant one, of ASCII."""
        if len(self.chars) < len(prefix):
            return False
        return all(self.chars[i] == ord(letter) for i, letter in enumerate(prefix))


@device.struct
class Column:
    """What kernels see of `Strings`."""

    offsets: Annotated[Any, device.ArrayType(device.int64, 1, readonly=True)]
    chars: Bytes

    def __getitem__(self, i):
        return Text(self.chars[self.offsets[i] : self.offsets[i + 1]])


device.register(Strings, Column)(lambda column: (column.offsets, column.chars))


@device.overload(len)
def _length(text: Text) -> int:
    return len(text.chars)


@device.overload(operator.eq)
def _equal(a: Text, b: Text) -> bool:
    if len(a.chars) != len(b.chars):
        return False
    return all(a.chars[i] == b.chars[i] for i in range(len(a.chars)))


def apply(function, *columns, stream=None):
    """What a function gives for the strings of each row, as bools."""

    @device.kernel
    def each(columns, out):
        i = device.tid(1)
        if i < len(out):
            out[i] = function(*[column[i] for column in columns])

    out = device.zeros(len(columns[0]), bool, stream=stream)
    device.launch(each, columns, out, grid=-(-len(out) // 128), block=128, stream=stream)
    return out.numpy()


def starts_with_k(text):
    """Whether a string has more than three bytes, of which the first is a k."""
    return len(text) > 3 and text.startswith("k")


def same(a, b):
    """Whether two strings are equal."""
    return a == b


if __name__ == "__main__":
    words = Strings.of(["kernel", "cpu", "kind", "größe"])
    print(apply(starts_with_k, words), apply(same, words, Strings.of(["kernel", "gpu", "kin", "größe"])))
