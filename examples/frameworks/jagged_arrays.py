"""Jagged arrays, as a library such as awkward could give them to kernels: rows of any length, in one array and its offsets.

    rows = Jagged.of([[1, 2, 3], [], [4, 5]])
    totals(rows)                                     # [6, 0, 9]

`Jagged` is an ordinary class of the host. `register` says which struct a kernel gets in its place, and how. The struct has the
methods that device code calls, and `overload` gives functions of others, such as NumPy's, a meaning for it.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

import cuda_device as device


class Jagged:
    """Rows of different lengths: row i is `content[offsets[i] : offsets[i + 1]]`."""

    def __init__(self, offsets, content):
        self.offsets, self.content = offsets, content

    @classmethod
    def of(cls, rows, stream=None):
        """The rows of a list of lists, on the device of a stream."""
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        content = np.array([value for row in rows for value in row], np.float32)
        return cls(device.array(offsets, stream=stream), device.array(content, stream=stream))

    def __len__(self):
        return len(self.offsets) - 1


@device.struct
class JaggedView:
    """What kernels see of a `Jagged`."""

    offsets: Annotated[Any, device.ArrayType(device.int64, 1, readonly=True)]
    content: Annotated[Any, device.ArrayType(device.float32, 1, readonly=True)]

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, i):
        return self.content[self.offsets[i] : self.offsets[i + 1]]


@device.register(Jagged, JaggedView)
def _view(rows):
    return rows.offsets, rows.content


@device.overload(np.count_nonzero)
def _count_nonzero(rows: Jagged) -> int:
    count = 0
    for value in rows.content:
        if value != 0:
            count += 1
    return count


@device.kernel
def _totals(rows, out):
    i = device.tid(1)
    if i < len(rows):
        total = device.float32(0)
        for value in rows[i]:
            total += value
        out[i] = total


@device.kernel
def _nonzero(rows, out):
    out[0] = np.count_nonzero(rows)


def totals(rows, stream=None):
    """The sum of each row."""
    out = device.zeros(len(rows), stream=stream)
    device.launch(_totals, rows, out, grid=-(-len(rows) // 128), block=128, stream=stream)
    return out.numpy()


def nonzero(rows, stream=None):
    """How many elements are not zero."""
    out = device.zeros(1, device.int32, stream=stream)
    device.launch(_nonzero, rows, out, grid=1, block=1, stream=stream)
    return int(out.numpy()[0])


if __name__ == "__main__":
    example = Jagged.of([[1, 2, 3], [], [4, 0, 5]])
    print(totals(example), nonzero(example))
