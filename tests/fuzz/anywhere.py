"""Values of any type at any address: what is read, moved through each kind of memory and written is what NumPy has.

    y[i] = s[(i + 3) % 8]       s in shared memory; float32 that begins a byte behind a multiple of 64

Bytes are compared, so that a number of any type may be any number; on GPUs also as libNVVM makes them.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import cuda_device as device
from fuzz.cases import Case, defined
from fuzz.machines import by_libnvvm, has_libnvvm, is_emulated

Move = Callable[[Any], Any]
COUNT = 8
INTERFACED = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
"""The types that arrays of a GPU may have by their interface, at any address."""
SPECIAL: dict[str, Any] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3": ml_dtypes.float8_e4m3fn,
    "float8e5m2": ml_dtypes.float8_e5m2,
}
NUMBERS = (*INTERFACED, "bfloat16", "float8e4m3", "float8e5m2")
VECTORS = (
    "float32x2",
    "float32x4",
    "float16x2",
    "bfloat16x2",
    "int16x4",
    "float64x2",
    "uint8x2",
    "int64x2",
    "float32x3",
)
# What becomes of `x[i]`, and of the elements of an array of NumPy. `{t}` is the type.
MOVES: dict[str, Move] = {
    "x[i]": lambda x: x,
    "x[7 - i]": lambda x: x[::-1],
    "x[::-1][i]": lambda x: x[::-1],
    "x[2:][i % 6]": lambda x: x[[2, 3, 4, 5, 6, 7, 2, 3]],
    "x.reshape(2, 4)[i % 2, i // 2]": lambda x: x.reshape(2, 4).T.ravel(),
    "s[(i + 3) % 8]": lambda x: np.roll(x, -3),
    "l[i % 2]": lambda x: x[[0, 1] * 4],
    "x[i] if i < n else x[0]": lambda x: np.where(np.arange(COUNT) < 5, x, x[0]),
    "(x[i], x[0])[i % 2]": lambda x: np.where(np.arange(COUNT) % 2 == 0, x, x[0]),
    "same(x[i])": lambda x: x,
    "x[i] if x[i] == x[i] else x[0]": lambda x: x,
}
REAL: dict[str, Move] = {
    "x[i] + x[i]": lambda x: x + x,
    "-x[i]": lambda x: -x,
    "x[i] * x[1]": lambda x: x * x[1],
    "max(x[i], x[2])": lambda x: np.where(x[2] > x, x[2], x),
    "device.{t}(float(x[i]) / 2)": lambda x: (x.astype(np.float32) / np.float32(2)).astype(x.dtype),
    "x[i] if x[i] < 0 else x[3]": lambda x: np.where(x < 0, x, x[3]),
    "device.shfl_xor_sync(255, x[i], 1)": lambda x: x[[1, 0, 3, 2, 5, 4, 7, 6]],
}


class At:
    """Elements of a GPU's array of bytes, from an offset on."""

    def __init__(self, memory: Any, offset: int, type: np.dtype[Any]) -> None:
        self.memory = memory
        given = memory.__cuda_array_interface__
        place = (given["data"][0] + offset, False)
        self.__cuda_array_interface__ = given | {"data": place, "shape": (COUNT,), "typestr": type.str}


class Anywhere(Case):
    """A type, two addresses, and some moves."""

    kind = "anywhere"
    everywhere = True
    at_once = 4

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.random = choose = random.Random(f"anywhere {number}")
        self.type = choose.choice((*NUMBERS, *VECTORS))
        self.shift = [choose.choice((0, 0, 1, 2, 3, 4, 6, 8, 12)) for _ in range(2)]
        rows: dict[str, Any] = dict(MOVES)
        if self.type in ("float16", "bfloat16", "float32", "float64", "int16", "int32", "int64"):
            rows |= REAL
        if self.type in VECTORS:
            rows = {text: row for text, row in rows.items() if "==" not in text} | self._of_vectors()
        self.rows = [(text.replace("{t}", self.type), row) for text, row in choose.sample([*rows.items()], 4)]
        self.level = choose.choice((0, 3))

    @property
    def part(self) -> np.dtype[Any]:
        """The type of a number, or of the numbers of a vector."""
        name = self.type.rpartition("x")[0] if self.type in VECTORS else self.type
        return np.dtype(SPECIAL.get(name, name))

    def _of_vectors(self) -> dict[str, Any]:
        layout, part = self.layout, self.part
        return {
            "x[i] + x[i]": lambda x: (x.view(part) * part.type(2)).view(layout),
            "x[1] - x[i]": lambda x: (np.tile(x[1:2].view(part), COUNT) - x.view(part)).view(layout),
            "-x[i]": lambda x: (-x.view(part)).view(layout),
        }

    @property
    def layout(self) -> np.dtype[Any]:
        """The type as NumPy has it."""
        return np.dtype(bool) if self.type == "bool" else np.dtype(device.numpy_dtype(getattr(device, self.type)))

    def source(self) -> str:
        made = "bool" if self.type == "bool" else f"device.{self.type}"
        lines = ["def same(value):", "    return value", "def k(x, o0, o1, o2, o3, n):", "    i = device.thread_idx.x"]
        lines += [f"    s = device.shared_array(8, {made})", f"    l = device.local_array(2, {made})"]
        lines += ["    s[i] = x[i]", "    l[0] = x[0]", "    l[1] = x[1]", "    device.syncthreads()"]
        lines += [f"    o{place}[i] = {text}" for place, (text, _) in enumerate(self.rows)]
        return "\n".join(lines) + "\n"

    def _elements(self) -> Any:
        """Numbers that their type has exactly, and twice that and their product."""
        choose, layout, part = random.Random(self.number), self.layout, self.part
        least = 0 if part.kind in "ub" else -7
        numbers: list[Any] = [choose.randint(least, 7) for _ in range(COUNT * layout.itemsize // part.itemsize)]
        if part.kind == "c":
            numbers = [complex(each, choose.randint(-9, 9)) for each in numbers]
        made = np.array(numbers).astype(part)
        return made.view(layout) if self.type in VECTORS else made

    def attempt(self, stream: device.Stream) -> str | None:
        on_cpu = isinstance(stream, type(device.cpu_stream()))
        if not on_cpu and self.type not in INTERFACED:
            self.shift = [0, 0]
        function = defined(self.source(), "k", {"device": device}, f"<anywhere {self.number}>")
        ways: list[Any] = [contextlib.nullcontext]
        if not on_cpu and is_emulated() and has_libnvvm():
            ways.append(by_libnvvm)
        for made in ways:
            try:
                with made():
                    found = self._run(device.kernel(level=self.level)(function), stream, on_cpu)
            except device.CompileError as error:
                if made is by_libnvvm and "LTO-IR does not support" in str(error):
                    continue  # which has no words for all that there is
                raise
            elements = self._elements()
            for (text, row), got in zip(self.rows, found, strict=True):
                expected = np.ascontiguousarray(row(elements)).astype(self.layout)
                if got != expected.tobytes():
                    shown = np.frombuffer(got, self.layout)
                    return f"{text} of {self.type} at {self.shift} is {shown}, not {expected}, made by {made.__name__}"
        return None

    def _run(self, kernel: Any, stream: device.Stream, on_cpu: bool) -> list[bytes]:
        """The bytes of each result."""
        elements, layout = self._elements(), self.layout
        size = COUNT * layout.itemsize
        memory = [np.zeros(size + 128, np.uint8) for _ in range(5)]
        begins = [
            self.shift[place > 0] + (-each.ctypes.data % 64 if on_cpu else 0) for place, each in enumerate(memory)
        ]
        memory[0][begins[0] : begins[0] + size] = np.frombuffer(elements.tobytes(), np.uint8)
        if on_cpu:
            places = zip(memory, begins, strict=True)
            given: list[Any] = [np.ndarray(COUNT, layout, each.data, at) for each, at in places]
            device.launch(kernel, *given, 5, grid=1, block=COUNT, stream=stream)
            device.synchronize(stream)
            return [each[at : at + size].tobytes() for each, at in zip(memory[1:], begins[1:], strict=True)]
        if self.type in INTERFACED:
            arrays = [device.array(each, stream=stream) for each in memory]
            given = [At(each, at, layout) for each, at in zip(arrays, begins, strict=True)]
        else:
            given = [device.array(np.array(elements), stream=stream) for _ in memory]
        device.launch(kernel, *given, 5, grid=1, block=COUNT, stream=stream)
        device.synchronize(stream)
        if self.type not in INTERFACED:
            return [each.numpy().tobytes() for each in given[1:]]
        return [each.numpy()[at : at + size].tobytes() for each, at in zip(arrays[1:], begins[1:], strict=True)]
