"""Where the objects of frameworks keep their fields, which machine code reads instead of calling their attributes.

    cupy_layout(cupy.ndarray)           the offsets of dtype, data, shape and strides
    torch_layout(torch.Tensor)          the offsets of the storage, sizes, strides, …
    core_stream_open(cuda.core.Stream)  the offset of a word that is 0 once the stream is closed

The offsets are determined from samples whose fields have known values. If a version of a framework has another layout, torch's
tensors are read by DLPack's C exchange API, launches of CuPy's arrays are made by Python, and streams of cuda.core are asked for
their handle at each launch.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from cuda_device.plugins.launchers.memory_layout import offsets_in, offsets_of, offsets_of_number, word_at

# An address and a device number that no other field of an object has by chance. The address is never accessed.
_ADDRESS, _DEVICE = 0x5EED_0123_4500, 0x5EED_67
_SHAPES = (3,), (5, 7), (2, 3, 4)


@functools.cache
def cupy_layout(kind: Any) -> Mapping[str, int] | None:
    """The offsets of the fields of CuPy's arrays, determined from samples; None if this type has another layout.

    `address` and `device` are fields of `data`. `shape` and `strides` are C++ vectors, which begin with the addresses of the
    first number and of the end.
    """
    cuda, dtype = sys.modules["cupy"].cuda, np.dtype(np.float32)
    try:
        data = cuda.MemoryPointer(cuda.UnownedMemory(_ADDRESS, 1 << 10, None, _DEVICE), 0)
        samples = [kind(shape, dtype, data) for shape in _SHAPES]
        vectors = set.intersection(*(_vectors(sample, 8 * sample.ndim) for sample in samples))
        return {
            "dtype": _common(offsets_of(sample, dtype) for sample in samples),
            "data": _common(offsets_of(sample, data) for sample in samples),
            "shape": _common(_holding(sample, vectors, sample.shape) for sample in samples),
            "strides": _common(_holding(sample, vectors, sample.strides) for sample in samples),
            "address": _common([offsets_of_number(data, _ADDRESS)]),
            "device": _common([offsets_of_number(data, _DEVICE, ctypes.c_uint32)]),
        }
    except Exception:  # whatever another version of CuPy raises
        return None


MOST_TORCH_AXES = 5
"""Torch keeps the lengths and strides of more axes elsewhere."""
_TORCH_BYTES, _STORAGE_BYTES = 184, 40  # of the implementation of a tensor, and of a storage, which are larger
_NO_INDEX = 255
_TORCH_SAMPLES = (
    ((3,), (2,), 11),
    ((5, 7), (8, 1), 13),
    ((2, 3, 4), (50, 11, 6), 17),
    ((2, 3, 4, 5, 6), (400, 130, 30, 7, 9), 19),
)


@functools.cache
def torch_layout(kind: Any) -> Mapping[str, int] | None:
    """The offsets of the fields of torch's tensors, determined from samples; None if this type has another layout.

    They are those of the implementation in a tensor, of its fields, and of the data in its `storage`, which the function that
    frees the data follows. `autograd` is 0 if the tensor has no gradient and is no view. `kind` is the dtype and the device,
    `offset` counts elements. `shape` and `strides` are the first numbers.
    """
    torch: Any = sys.modules.get(kind.__module__)
    try:
        base = torch.empty(10_000, dtype=torch.float32, device="cpu")
        samples = [base.as_strided(*sample).detach() for sample in _TORCH_SAMPLES]
        integers, absent = torch.empty(3, dtype=torch.int32, device="cpu"), torch.empty(3, device="meta")
        graded, borrowed = torch.empty(3, device="cpu", requires_grad=True), torch.from_numpy(np.zeros(3))
        if any(type(sample) is not kind for sample in samples):
            return None

        def common(numbers: Callable[[Any], tuple[int, ...]]) -> int:
            return _common(offsets_in(sample._cdata, _TORCH_BYTES, *numbers(sample)) for sample in samples)

        kinds = (
            set.intersection(*(_kinds(sample, 0) for sample in samples)) & _kinds(integers, 0) & _kinds(absent, None)
        )
        tensors = *samples, integers, absent
        kinds = {offset for offset in kinds if len({_kind(tensor, offset) for tensor in tensors}) == 3}
        zeros = set.intersection(*(set(offsets_in(sample._cdata, _TORCH_BYTES, 0)) for sample in samples))
        storages = [tensor.untyped_storage() for tensor in (base, integers, borrowed)]
        offsets = {
            "impl": _common(offsets_of_number(sample, sample._cdata) for sample in samples),
            "autograd": _common([zeros - set(offsets_in(graded._cdata, _TORCH_BYTES, 0))]),
            "keys": common(lambda sample: (torch._C._dispatch_keys(sample).raw_repr(),)),
            "kind": _common([kinds]),
            "ndim": common(lambda sample: (sample.dim(),)),
            "shape": common(lambda sample: sample.shape),
            "strides": common(lambda sample: sample.stride()),
            "offset": common(lambda sample: (sample.storage_offset(),)),
            "storage": common(lambda sample: (sample.untyped_storage()._cdata,)),
            "data": _common(offsets_in(tensor._cdata, _STORAGE_BYTES - 8, tensor.data_ptr()) for tensor in storages),
        }
        freed = [word_at(tensor._cdata + offsets["data"] + 8) for tensor in storages]
        if not freed[0] == freed[1] != freed[2]:
            return None
        return offsets
    except Exception:  # whatever another version of torch raises
        return None


def torch_words(offsets: Mapping[str, int], tensor: Any) -> tuple[int, int, int] | None:
    """The keys and the kind of a tensor, and the function that frees its data; None if the fields do not describe it."""
    impl = word_at(id(tensor) + offsets["impl"])
    storage, kind = word_at(impl + offsets["storage"]), _kind(tensor, offsets["kind"])
    if word_at(impl + offsets["autograd"]) or not storage:
        return None
    data = word_at(storage + offsets["data"]) + word_at(impl + offsets["offset"]) * tensor.element_size()
    if data != tensor.data_ptr() or kind >> 24 != (_NO_INDEX if tensor.device.index is None else tensor.device.index):
        return None
    return word_at(impl + offsets["keys"]), kind, word_at(storage + offsets["data"] + 8)


@functools.cache
def core_stream_open(kind: Any) -> int:
    """The offset of a word in a stream of cuda.core that becomes 0 when the stream is closed; 0 if it is unknown."""
    try:
        sample = kind.from_handle(_ADDRESS)  # such a stream does not own the handle
        offsets = range(0, object.__sizeof__(sample), 8)
        held = [offset for offset in offsets if word_at(id(sample) + offset)]
        sample.close()
        return next(offset for offset in held if not word_at(id(sample) + offset))
    except Exception:  # whatever another version of cuda.core raises
        return 0


def _kind(tensor: Any, offset: int) -> int:
    return ctypes.c_uint32.from_address(tensor._cdata + offset).value


def _kinds(tensor: Any, device: int | None) -> set[int]:
    """The offsets at which there may be the dtype, the type of the device, and its number, of which the sample has none."""
    kinds = ((offset, _kind(tensor, offset)) for offset in range(0, _TORCH_BYTES, 4))
    without_number = ((offset, kind >> 16 & 255) for offset, kind in kinds if kind >> 24 == _NO_INDEX)
    return {offset for offset, device_type in without_number if device is None or device_type == device}


def _common(offsets: Iterable[Iterable[int]]) -> int:
    """The only offset that all samples have in common. Raises `ValueError` if there is none, or several."""
    (offset,) = set.intersection(*map(set, offsets))
    return offset


def _vectors(owner: object, nbytes: int) -> set[int]:
    """The offsets in an object of words that are less than the next word by `nbytes`."""
    offsets = range(0, object.__sizeof__(owner) - 8, 8)
    return {offset for offset in offsets if word_at(id(owner) + offset + 8) - word_at(id(owner) + offset) == nbytes}


def _holding(owner: object, vectors: Iterable[int], numbers: tuple[int, ...]) -> list[int]:
    """The offsets of the vectors in an object that have these items."""
    kind = ctypes.c_int64 * len(numbers)
    return [offset for offset in vectors if tuple(kind.from_address(word_at(id(owner) + offset))) == numbers]
