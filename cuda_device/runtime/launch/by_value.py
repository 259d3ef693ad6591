"""`ByValue`: objects that kernels take as a copy of some bytes, to which they have a reference.

    class Table(ByValue):                              # in device code a `Columns`, a struct of the same size
        def pack(self, on_gpu): return struct.pack("=2Q", …)

    launch(kernel, table, …)                           # .param .align 8 .b8 kernel_param_0[16]

In CUDA C++ such a parameter is a `const __grid_constant__ Columns`, of which the kernel may take the address.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cuda_device.types.host import model_of
from cuda_device.types.known import Known, of_type
from cuda_device.types.layout import size_of
from cuda_device.types.model import Ref, Space

if TYPE_CHECKING:
    from cuda_device.runtime.arrays.array_view import ArrayView


class ByValue:
    """An object that kernels take as a copy of some bytes. In device code it is a reference to a struct that nobody writes.

    `struct` is the class of the struct. The bytes refer to the memory of `array`, of which `view` is the present view: a launch
    is ordered with the streams of the array and keeps it alive, as if it were an argument. Subclasses define `pack`.
    """

    __slots__ = ("_address", "_array", "_known", "_on_cpu", "_on_gpu", "_view")  # machine code reads some of them

    _on_cpu: bytes | None
    _on_gpu: bytes | None

    def __init__(self, struct: type, array: Any, view: ArrayView) -> None:
        self._known, self._array, self._view, self._address = _known_of(struct), array, view, view.data
        self._on_cpu = self._on_gpu = None

    def pack(self, on_gpu: bool) -> bytes:
        """The bytes for launches on GPUs, or else on CPU streams, as many as the struct has. It is called once for each."""
        raise NotImplementedError

    def _cuda_device_bytes_(self, on_gpu: bool) -> bytes:
        data = self._on_gpu if on_gpu else self._on_cpu
        if data is None:
            data, struct = self.pack(on_gpu), self._known.type.pointee  # type: ignore[union-attr]
            if len(data) != size_of(struct):
                raise TypeError(
                    f"{struct} has {size_of(struct)} bytes, and {type(self).__name__}.pack returns {len(data)}"
                )
            setattr(self, "_on_gpu" if on_gpu else "_on_cpu", data)
        return data


@lru_cache(maxsize=4096)
def _known_of(struct: type) -> Known:
    """`Known` for an argument: the same object for the same class, because launches compare it by identity."""
    return of_type(Ref(Space.PARAMETER, model_of(struct), readonly=True))
