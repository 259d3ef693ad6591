"""DLPack's C exchange API: arrays of frameworks that publish a table of C functions on their type, without a Python call.

    api = exchange_of(torch.Tensor)         # None for a type that has no table
    api.read(tensor)                        # ArrayView with .stream, the framework's current stream on that GPU

The table gives a tensor as `__dlpack__` does, with its flags, and keeps its memory alive; but it waits for nothing. Instead it
tells the stream that the framework works on: where ours is another one, the launch is put in order with it, before and after.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda_device.errors import LaunchError
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays import dlpack
from cuda_device.runtime.arrays.array_view import ArrayView, Device
from cuda_device.runtime.gpu import driver

ATTRIBUTE = "__dlpack_c_exchange_api__"
_CAPSULE = b"dlpack_exchange_api"
_MAJOR = 1


class Table(ctypes.Structure):
    """DLPackExchangeAPI, version 1. `previous` leads to tables of older major versions."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocator", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("managed_to_object", ctypes.c_void_p),
        ("tensor_from_object", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    )


# These hold the interpreter's lock, and raise the Python exception that the function has set.
_MANAGED_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_CURRENT_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))

_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


class Exchange:
    """The table of one framework. It lives as long as the process, as DLPack demands."""

    def __init__(self, table: Table) -> None:
        self.address = ctypes.addressof(table)
        self.lend: int = table.tensor_from_object or 0
        """The address of the function that lends a tensor without an owner, for machine code; 0 if there is none."""
        self.tell: int = table.current_stream
        """The address of the function that tells the current stream."""
        self._managed = _MANAGED_FROM_OBJECT(table.managed_from_object)
        self._current = _CURRENT_STREAM(table.current_stream)

    def read(self, obj: Any) -> ArrayView | None:
        """A view of `obj`, whose type has this table; None if its own `__dlpack__` has to be asked."""
        if _has_reservations(obj):
            return None
        if _holds(obj, "is_neg"):
            raise LaunchError(
                f"{dlpack.describe(obj)} is negated, and its memory does not know it yet", "pass x.resolve_neg()"
            )
        found = ctypes.c_void_p()
        try:
            failed = self._managed(obj, ctypes.byref(found))
        except (BufferError, RuntimeError, ValueError, NotImplementedError) as error:
            raise dlpack.refusal(obj, error) from error
        if failed or not found.value:
            raise LaunchError(
                f"{dlpack.describe(obj)} refuses to share its memory, and does not say why", "pass a copy of it"
            )
        view = dlpack.view_of_managed(dlpack.DLManagedTensorVersioned.from_address(found.value))
        if view.device not in (Device.CUDA, Device.MANAGED):
            return view
        return replace(view, stream=self.current_stream(view.device, view.ordinal))

    def current_stream(self, device: Device, ordinal: int) -> int:
        """The handle of the stream that the framework works on now, on this GPU."""
        found = ctypes.c_void_p()
        if self._current(dlpack.DEVICE_CODES[device], ordinal, ctypes.byref(found)):
            raise LaunchError(
                "a framework cannot tell its current stream", "synchronise it, and pass a copy of the array"
            )
        return found.value or driver.LEGACY_STREAM


def _has_reservations(obj: Any) -> bool:
    """Whether a torch tensor is one that torch does not give away, for reasons that it states in `__dlpack__` only."""
    return getattr(obj, "requires_grad", False) or _holds(obj, "is_conj")


def _holds(obj: Any, name: str) -> bool:
    ask = getattr(obj, name, None)
    return ask is not None and bool(ask())


def exchange_of(kind: type[Any]) -> Exchange | None:
    """The table that a type publishes, if it is one that we understand."""
    capsule = getattr(kind, ATTRIBUTE, None)
    if capsule is None or not _is_valid(capsule, _CAPSULE):
        return None
    address = _get_pointer(capsule, _CAPSULE)
    while address:
        table = Table.from_address(address)
        if table.major == _MAJOR:
            return Exchange(table) if table.managed_from_object and table.current_stream else None
        address = table.previous
    return None
