"""Producers of GPU arrays that tests make up: one with DLPack's C exchange API, as torch, and one like CuPy."""

from __future__ import annotations

import ctypes
import struct
import types
from typing import Any, Self

import numpy as np

from cuda_device.runtime.arrays import dlpack

new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
LEND = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(dlpack.DLTensor))
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Described:
    """An array with the CUDA Array Interface, and nothing else."""

    def __init__(self, **description: Any) -> None:
        self.__cuda_array_interface__ = {"version": 3} | description


# A table and its functions live as long as the process, as DLPack demands.
_frameworks: list[Torch] = []


class Torch:
    """A framework with a table of C functions, and a current stream, of which it notes who `asked`."""

    def __init__(
        self, stream: int = 0x77, module: str = "torch", major: int = 1, previous: int = 0, managed: bool = True
    ) -> None:
        self.stream, self.lent, self.failing, self.asked = stream, 0, False, list[tuple[int, int]]()
        self.alive: dict[int, Any] = {}
        self._callbacks = FROM_OBJECT(self.give), LEND(self._lend), STREAM(self._tell), DELETER(self.alive.pop)
        give, lend, tell, self._delete = (ctypes.cast(c, ctypes.c_void_p).value for c in self._callbacks)
        self.table = (ctypes.c_uint64 * 7)(major | 3 << 32, previous, 0, give if managed else 0, 0, lend, tell)
        self.Tensor = _tensor_type(new_capsule(ctypes.addressof(self.table), b"dlpack_exchange_api", None), module)
        _frameworks.append(self)

    def tensor(self, address: int, shape: tuple[int, ...] = (8,), dtype: str = "f4", **fields: Any) -> Any:
        """A tensor in C order; `fields` are strides in elements, a device, reservations."""
        return self.Tensor(address, shape, dtype, fields)

    def give(self, tensor: Any, out: Any) -> int:
        managed = dlpack.DLManagedTensorVersioned()
        managed.major, managed.minor, managed.flags = 1, 3, tensor.flags
        managed.deleter = self._delete
        managed.dl_tensor = tensor.tensor
        self.alive[ctypes.addressof(managed)] = managed, tensor
        out[0] = ctypes.addressof(managed)
        return 0

    def _lend(self, tensor: Any, out: Any) -> int:
        self.lent += 1
        if self.failing:
            return -1
        out[0] = tensor.tensor
        return 0

    def _tell(self, kind: int, ordinal: int, out: Any) -> int:
        self.asked.append((kind, ordinal))
        out[0] = self.stream
        return 0


def _tensor_type(capsule: Any, module: str) -> Any:
    class Tensor:
        __dlpack_c_exchange_api__ = capsule
        requires_grad = False
        flags = 0

        def __init__(self, address: int, shape: tuple[int, ...], dtype: str, fields: dict[str, Any]) -> None:
            self.negative = self.conjugated = False
            strides = fields.pop("strides", None)
            kind, device = fields.pop("kind", 2), fields.pop("device", 0)
            offset = fields.pop("offset", 0)
            vars(self).update(fields)
            self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
            if strides is None:
                strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
            self.strides = (ctypes.c_int64 * max(1, len(shape)))(*strides)
            bits = 8 * int(dtype[1:])
            self.tensor = dlpack.DLTensor(
                address - offset, kind, device, len(shape), CODES[dtype[0]], bits, 1, self.shape, self.strides, offset
            )

        def is_neg(self) -> bool:
            return self.negative

        def is_conj(self) -> bool:
            return self.conjugated

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.tensor.device_type, self.tensor.device_id

        def __dlpack__(self, **arguments: Any) -> Any:
            raise BufferError("the slow way")

    Tensor.__module__ = module
    return Tensor


# CuPy's objects have C fields. The bytes of these stand for them.


class UnownedMemory:
    """Memory by its address."""

    def __init__(self, address: int, nbytes: int, owner: object, device: int) -> None:
        self.address, self.device = address, device


class Memory(bytes):
    """What CuPy has under `data`."""

    ptr: int
    device_id: int

    def __new__(cls, memory: UnownedMemory, offset: int) -> Self:
        made = super().__new__(cls, struct.pack("=Qi4x", memory.address + offset, memory.device))
        made.ptr, made.device_id = memory.address + offset, memory.device
        return made


class Array(bytes):
    """As much of CuPy's array as others see."""

    working = 1  # the stream that CuPy works on

    def __new__(cls, shape: tuple[int, ...], dtype: Any, memory: Memory, strides: Any = None) -> Any:
        whole = np.empty(shape, dtype)
        if strides:
            whole = np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, strides)
        vectors = [(ctypes.c_int64 * len(numbers))(*numbers) for numbers in (whole.shape, whole.strides)]
        ends = [ctypes.addressof(vector) + part * ctypes.sizeof(vector) for vector in vectors for part in (0, 1, 1)]
        made = super().__new__(cls, struct.pack("=9Q", whole.size, *ends, id(whole.dtype), id(memory)))
        made.data, made.dtype, made._vectors = memory, whole.dtype, vectors
        made.shape, made.strides, made.ndim, made.size = whole.shape, whole.strides, whole.ndim, whole.size
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "version": 3,
            "stream": self.working,
        }


Array.__module__, Array.__name__ = "cupy", "ndarray"


class Cupy(types.ModuleType):
    """A module for `sys.modules` that has CuPy's current stream."""

    def __init__(self, stream: int = 0x77) -> None:
        super().__init__("cupy")
        self.stream = stream
        self.cuda = types.SimpleNamespace(
            get_current_stream=lambda device: types.SimpleNamespace(ptr=self.stream),
            MemoryPointer=Memory,
            UnownedMemory=UnownedMemory,
        )

    def array(
        self, address: int, shape: tuple[int, ...] = (8,), dtype: Any = "f4", strides: Any = None, device: int = 0
    ) -> Any:
        made = Array(shape, dtype, Memory(UnownedMemory(address, 0, None, device), 0), strides)
        made.working = self.stream or 1
        return made
