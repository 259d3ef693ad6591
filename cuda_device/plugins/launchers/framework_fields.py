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
        kinds = {at for at in kinds if len({_kind(each, at) for each in (*samples, integers, absent)}) == 3}
        zeros = set.intersection(*(set(offsets_in(sample._cdata, _TORCH_BYTES, 0)) for sample in samples))
        storages = [tensor.untyped_storage() for tensor in (base, integers, borrowed)]
        found = {
            "impl": _common(offsets_of_number(sample, sample._cdata) for sample in samples),
            "autograd": _common([zeros - set(offsets_in(graded._cdata, _TORCH_BYTES, 0))]),
            "keys": common(lambda sample: (torch._C._dispatch_keys(sample).raw_repr(),)),
            "kind": _common([kinds]),
            "ndim": common(lambda sample: (sample.dim(),)),
            "shape": common(lambda sample: sample.shape),
            "strides": common(lambda sample: sample.stride()),
            "offset": common(lambda sample: (sample.storage_offset(),)),
            "storage": common(lambda sample: (sample.untyped_storage()._cdata,)),
            "data": _common(offsets_in(each._cdata, _STORAGE_BYTES - 8, each.data_ptr()) for each in storages),
        }
        freed = [word_at(each._cdata + found["data"] + 8) for each in storages]
        if not freed[0] == freed[1] != freed[2]:
            return None
        return found
    except Exception:  # whatever another version of torch raises
        return None


def torch_words(at: Mapping[str, int], tensor: Any) -> tuple[int, int, int] | None:
    """The keys and the kind of a tensor, and the function that frees its data; None if the fields do not describe it."""
    impl = word_at(id(tensor) + at["impl"])
    storage, kind = word_at(impl + at["storage"]), _kind(tensor, at["kind"])
    if word_at(impl + at["autograd"]) or not storage:
        return None
    data = word_at(storage + at["data"]) + word_at(impl + at["offset"]) * tensor.element_size()
    if data != tensor.data_ptr() or kind >> 24 != (_NO_INDEX if tensor.device.index is None else tensor.device.index):
        return None
    return word_at(impl + at["keys"]), kind, word_at(storage + at["data"] + 8)


@functools.cache
def core_stream_open(kind: Any) -> int:
    """The offset of a word in a stream of cuda.core that becomes 0 when the stream is closed; 0 if it is unknown."""
    try:
        sample = kind.from_handle(_ADDRESS)  # such a stream does not own the handle
        places = range(0, object.__sizeof__(sample), 8)
        held = [at for at in places if word_at(id(sample) + at)]
        sample.close()
        return next(at for at in held if not word_at(id(sample) + at))
    except Exception:  # whatever another version of cuda.core raises
        return 0


def _kind(tensor: Any, at: int) -> int:
    return ctypes.c_uint32.from_address(tensor._cdata + at).value


def _kinds(tensor: Any, device: int | None) -> set[int]:
    """The offsets at which there may be the dtype, the type of the device, and its number, of which the sample has none."""
    found = ((at, _kind(tensor, at)) for at in range(0, _TORCH_BYTES, 4))
    return {at for at, kind in found if kind >> 24 == _NO_INDEX and (kind >> 16 & 255 == device or device is None)}


def _common(places: Iterable[Iterable[int]]) -> int:
    """The only offset that all samples have in common. Raises `ValueError` if there is none, or several."""
    (place,) = set.intersection(*map(set, places))
    return place


def _vectors(owner: object, nbytes: int) -> set[int]:
    """The offsets in an object of words that are less than the next word by `nbytes`."""
    places = range(0, object.__sizeof__(owner) - 8, 8)
    return {at for at in places if word_at(id(owner) + at + 8) - word_at(id(owner) + at) == nbytes}


def _holding(owner: object, vectors: Iterable[int], numbers: tuple[int, ...]) -> list[int]:
    """The offsets of the vectors in an object that have these items."""
    kind = ctypes.c_int64 * len(numbers)
    return [at for at in vectors if tuple(kind.from_address(word_at(id(owner) + at))) == numbers]
