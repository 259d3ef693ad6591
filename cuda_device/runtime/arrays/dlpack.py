"""DLPack 1.x: reads the arrays of other libraries and exports the package's own, without a copy.

`read` gets a capsule from an object's `__dlpack__` and takes ownership of its tensor, whose deleter is called when nothing refers
to the view any more. `export` creates a capsule from a view. The structures are those of dlpack.h, version 1. An older producer
returns the same tensor in a smaller structure without flags. Such a tensor is read-only, as in NumPy, unless its CUDA Array
Interface allows writing.

    view = read(torch.zeros(4))         # ArrayView(shape=(4,), strides=(4,), element=FLOAT32, …)
    capsule = export(view)              # for np.from_dlpack and its like, through a class with __dlpack__
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from cuda_device.errors import LaunchError
from cuda_device.lazy_dataclasses import replace
from cuda_device.runtime.arrays.array_view import ArrayView, Device, c_strides, described, numpy_over
from cuda_device.runtime.gpu import driver
from cuda_device.types.exchange_formats import dlpack_of_element, element_of_dlpack
from cuda_device.types.model import Number, NumberKind

VERSION = (1, 3)
FLAG_READONLY, FLAG_COPIED = 1, 2
DEVICES = {1: Device.HOST, 2: Device.CUDA, 3: Device.PINNED, 13: Device.MANAGED}
DEVICE_CODES = {device: code for code, device in DEVICES.items()}


class DLTensor(ctypes.Structure):
    """A tensor. `strides` are in elements, or NULL for C order; `byte_offset` is added to `data`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """The structure of a capsule named "dltensor"."""

    _fields_ = (
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class DLManagedTensorVersioned(ctypes.Structure):
    """The structure of a capsule named "dltensor_versioned". Other major versions only have the same deleter."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


# The type codes that NumPy exports: int, uint, float, complex, bool.
_NUMPYS = (0, 1, 2, 5, 6)
Managed = DLManagedTensor | DLManagedTensorVersioned

_CAPSULE_NAMES: dict[bytes, type[Managed]] = {
    b"dltensor_versioned": DLManagedTensorVersioned,
    b"dltensor": DLManagedTensor,
}
_USED_NAMES = {name: b"used_" + name for name in _CAPSULE_NAMES}
# A capsule contains the address of its name and may outlive this module, so the names are never freed.
for _name in _USED_NAMES.values():
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_name))

# Deleters are called without the GIL, because they may acquire it or wait for the GPU.
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python_api(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _python_api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_get_pointer = _python_api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _python_api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


class Owned:
    """A tensor whose ownership was taken from the producer. `release`, or the destructor, calls its deleter."""

    __slots__ = ("__weakref__", "_address", "_deleter")

    def __init__(self, managed: Managed) -> None:
        self._address = ctypes.addressof(managed)
        self._deleter = _DELETER(managed.deleter) if managed.deleter else None

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Calls the deleter once."""
        deleter, self._deleter = self._deleter, None
        if deleter is not None:
            deleter(self._address)


def read(obj: Any, stream: int | None = None) -> ArrayView | None:
    """A view of the array `obj`, or None if it has no `__dlpack__`.

    `stream` is the handle of the stream on which GPU memory will be used: None or 1 for the legacy default stream, 2 for the
    per-thread one, -1 for no ordering; 0 is ambiguous and rejected. The producer makes that stream wait for its own. Raises
    `LaunchError` with the producer's message if it refuses, and `TypeError` for an unknown element type.
    """
    # Looked up on the type, because a class with this method is not an array.
    if getattr(type(obj), "__dlpack__", None) is None:
        return None
    if stream == 0:
        raise LaunchError(
            "stream 0 is ambiguous in DLPack", "pass 1 for the legacy default stream, 2 for the per-thread one"
        )
    device, _ = _device_of(obj)
    if device not in (Device.CUDA, Device.MANAGED):
        return take(_request(obj, {}))
    if stream == driver.PER_THREAD_STREAM or (stream is None and device is Device.MANAGED):
        # Some producers do not know the per-thread stream (torch), and a consumer on the CPU has none. The producer orders the
        # legacy stream, for which the caller waits.
        view = take(_request(obj, {"stream": driver.LEGACY_STREAM}))
        return replace(view, stream=driver.LEGACY_STREAM)
    view = take(_request(obj, {"stream": stream}))
    return replace(view, readonly=False) if view.readonly and _is_writable(obj) else view


def _is_writable(obj: Any) -> bool:
    """Whether `obj` is writable by its CUDA Array Interface; DLPack before 1.0 has no flag for that."""
    description = getattr(obj, "__cuda_array_interface__", None)
    return isinstance(description, dict) and description.get("data", (0, True))[1] is False


_CONVERT = "copy it to a NumPy, CuPy or torch array, or by device.array(…), and pass that"


def take(capsule: Any) -> ArrayView:
    """A view of the tensor in `capsule`, which is consumed."""
    for name, frame in _CAPSULE_NAMES.items():
        if _is_valid(capsule, name):
            managed = frame.from_address(_get_pointer(capsule, name))
            _set_name(capsule, _USED_NAMES[name])
            return view_of_managed(managed)
    if any(_is_valid(capsule, name) for name in _USED_NAMES.values()):
        raise LaunchError("this DLPack capsule was used before", "request a new one from its array")
    raise LaunchError(f"__dlpack__ gave {capsule!r}, which is not a capsule with a tensor", _CONVERT)


def _device_of(obj: Any) -> tuple[Device, int]:
    """The memory kind and device number of `obj`."""
    code, ordinal = _ask(obj, obj.__dlpack_device__)
    device = DEVICES.get(int(code))
    if device is None:
        raise LaunchError(
            f"{described(obj)} is in the memory of a device (type {int(code)} of DLPack) that is neither a CUDA GPU nor the host",
            "copy it to a CUDA GPU or to the host, with its own framework",
        )
    return device, int(ordinal)


def _request(obj: Any, arguments: dict[str, Any]) -> Any:
    try:
        return _ask(obj, obj.__dlpack__, max_version=VERSION, **arguments)
    except TypeError:
        # Producers before DLPack 1.0 do not know max_version. Any other TypeError is raised again.
        return _ask(obj, obj.__dlpack__, **arguments)


def _ask(obj: Any, function: Callable[..., Any], **arguments: Any) -> Any:
    try:
        return function(**arguments)
    except (BufferError, RuntimeError, ValueError, NotImplementedError) as error:
        raise refusal(obj, error) from error


def refusal(obj: Any, error: Exception) -> LaunchError:
    """The error for a producer's exception, without the C++ stack that torch appends."""
    words = str(error).partition("\nException raised from")[0]
    return LaunchError(f"{described(obj)} refuses to share its memory: {words}", _CONVERT)


def view_of_managed(managed: Managed) -> ArrayView:
    """A view of a tensor, whose ownership is taken. A tensor that cannot be used is released at once."""
    owned = Owned(managed)
    try:
        return _view(managed, owned)
    except (LaunchError, TypeError):
        owned.release()
        raise


def _view(managed: Managed, owned: Owned) -> ArrayView:
    readonly = True  # without flags, as in NumPy, because the array may be immutable
    if isinstance(managed, DLManagedTensorVersioned):
        if managed.major != VERSION[0]:
            raise LaunchError(
                f"the array uses DLPack {managed.major}.{managed.minor}; only {VERSION[0]}.x is supported",
                _CONVERT,
            )
        readonly = bool(managed.flags & FLAG_READONLY)
    tensor = managed.dl_tensor
    device = DEVICES.get(tensor.device_type)
    if device is None:
        raise LaunchError(
            f"the array is in the memory of DLPack device type {tensor.device_type}, which is not supported", _CONVERT
        )
    element = element_of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    itemsize = tensor.bits // 8
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    if any(length < 0 for length in shape) or not (tensor.data or 0 in shape):
        raise LaunchError(f"the array claims to have the shape {shape} at the address {tensor.data or 0}", _CONVERT)
    if tensor.ndim and tensor.strides:
        # In 64 bits, because CuPy divides negative strides as unsigned numbers.
        strides = tuple(ctypes.c_int64(stride * itemsize).value for stride in tensor.strides[: tensor.ndim])
    else:
        strides = c_strides(shape, itemsize)
    return ArrayView(
        data=0 if 0 in shape else (tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        strides=strides,
        element=element,
        readonly=readonly,
        device=device,
        ordinal=tensor.device_id if device is not Device.HOST else 0,
        keep_alive=owned,
    )


def export(view: ArrayView, max_version: tuple[int, int] | None = None, *, copied: bool = False) -> Any:
    """A DLPack capsule of `view`, whose `keep_alive` lives until the deleter of the consumer, or of an unused capsule, has run.

    `max_version` is the newest version that the consumer supports; None is DLPack before 1.0. `copied` is the flag of memory that
    was allocated for the consumer. Raises `BufferError` if the format cannot express that the array is read-only, or its strides.
    """
    # NumPy creates the capsule for an address that it does not access; the device is corrected afterwards. NumPy's deleter and
    # destructor are machine code, which can run in any thread, during an exception, and after the interpreter has ended. A ctypes
    # callback cannot do the latter two.
    versioned = max_version is not None and max_version[0] >= 1
    try:
        code, bits = dlpack_of_element(view.element)
    except TypeError as error:
        raise BufferError(f"DLPack has no arrays of {view.element}") from error
    # NumPy only exports its own types; other types are corrected afterwards, too.
    plain = replace(view, element=Number(NumberKind.UINT, bits)) if code not in _NUMPYS else view
    capsule = numpy_over(plain).__dlpack__(max_version=max_version if versioned else None)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    managed = _CAPSULE_NAMES[name].from_address(_get_pointer(capsule, name))
    tensor = managed.dl_tensor
    # DLPack requires NULL for empty arrays, to which NumPy gives an address.
    tensor.data = view.data or None
    tensor.device_type, tensor.device_id = DEVICE_CODES[view.device], view.ordinal
    tensor.code, tensor.bits = code, bits
    if copied and isinstance(managed, DLManagedTensorVersioned):
        managed.flags |= FLAG_COPIED
    return capsule


# DLPack's C exchange API: a table of C functions that a framework publishes on its array type
#
# The functions return tensors as `__dlpack__` does, but do not order streams. Instead they return the framework's current stream,
# with which a launch on another stream is ordered before and after.


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


# They hold the GIL, and raise the Python exception that the function has set.
_MANAGED_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_CURRENT_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange:
    """The table of a framework, which lives as long as the process."""

    def __init__(self, table: Table) -> None:
        self.address = ctypes.addressof(table)
        self.lend: int = table.tensor_from_object or 0
        """The address of the function that returns a borrowed tensor, for launchers in machine code; 0 if there is none."""
        self.tell: int = table.current_stream
        """The address of the function that returns the current stream."""
        self._managed = _MANAGED_FROM_OBJECT(table.managed_from_object)
        self._current = _CURRENT_STREAM(table.current_stream)

    def read(self, obj: Any) -> ArrayView | None:
        """A view of `obj`, whose type has this table; None if its `__dlpack__` must be called."""
        if _has_reservations(obj):
            return None
        if _holds(obj, "is_neg"):
            raise LaunchError(
                f"{described(obj)} is a negated view, whose memory has the values before the negation",
                "pass x.resolve_neg()",
            )
        tensor = ctypes.c_void_p()
        try:
            failed = self._managed(obj, ctypes.byref(tensor))
        except (BufferError, RuntimeError, ValueError, NotImplementedError) as error:
            raise refusal(obj, error) from error
        if failed or not tensor.value:
            raise LaunchError(f"{described(obj)} refuses to share its memory, and gives no reason", "pass a copy of it")
        view = view_of_managed(DLManagedTensorVersioned.from_address(tensor.value))
        if view.device not in (Device.CUDA, Device.MANAGED):
            return view
        return replace(view, stream=self.current_stream(view.device, view.ordinal))

    def current_stream(self, device: Device, ordinal: int) -> int:
        """The handle of the framework's current stream on a GPU."""
        handle = ctypes.c_void_p()
        if self._current(DEVICE_CODES[device], ordinal, ctypes.byref(handle)):
            raise LaunchError(
                "the framework does not report its current stream", "synchronise it, and pass a copy of the array"
            )
        return handle.value or driver.LEGACY_STREAM


def _has_reservations(obj: Any) -> bool:
    """Whether `__dlpack__` of a torch tensor refuses with a reason, which the table does not check."""
    return getattr(obj, "requires_grad", False) or _holds(obj, "is_conj")


def _holds(obj: Any, name: str) -> bool:
    ask = getattr(obj, name, None)
    return ask is not None and bool(ask())


def exchange_of(kind: type[Any]) -> Exchange | None:
    """The table that a type publishes, if its version is known."""
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
