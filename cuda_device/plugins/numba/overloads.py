"""The variants of a kernel of `numba_compat` by argument types, which are compiled for the current GPU when they are inspected.

kernel.overloads                                {(float32[::1], int64): Overload}, one for each combination that was launched
kernel.inspect_asm("void(float32[:], int64)")   PTX
kernel.get_regs_per_thread()                    {(float32[::1], int64): 12}
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from cuda_device import ArrayType, compile
from cuda_device.plugins.numba.host_api import Signature, SignatureParameter, get_current_device, layout_of, parse

_REGISTERS, _UNIT, _PARTITIONS, _MOST_THREADS = 16384, 256, 4, 1024
"""Of a multiprocessor since sm_70: the registers of a partition, the unit in which a warp gets registers, the number of
partitions, and the largest number of threads of a block."""

_RESOURCES = {
    "regs_per_thread": "registers",
    "local_mem_per_thread": "local",
    "shared_mem_per_block": "shared",
    "const_mem_size": "constant",
}
"""The attributes of compiled code by numba's names: the registers of a thread, and bytes."""

UNKNOWN: Any = object()
"""The argument for a parameter before the first launch."""


class Overload:
    """A kernel for one combination of argument types.

    Its code is that for the current GPU; without a GPU, for the architecture that the CPU stream emulates. The attributes are
    those of numba: registers and bytes of local memory of a thread, bytes of shared and constant memory, and the number of
    threads that a block can have. Raises `ValueError` if the types are not known before a launch.
    """

    def __init__(self, kernel: Any, hints: Sequence[Any]) -> None:
        self._kernel, self._hints = kernel, hints

    def inspect_llvm(self) -> str:
        """Returns the LLVM IR, before LLVM optimises it."""
        return str(self._compiled("llvm").code)

    def inspect_asm(self, cc: tuple[int, int] | None = None) -> str:
        """Returns the PTX, by default for the current GPU."""
        return str(self._compiled("ptx", cc).code)

    def inspect_types(self, file: TextIO | None = None) -> None:
        """Writes the typed IR, with the type of each value, to `file` or to the standard output."""
        text, rule = self._compiled("ir").code, 80 * "-"
        (file or sys.stdout).write(f"{self._kernel.underlying.__name__}\n{rule}\n{text}\n{rule.replace('-', '=')}\n")

    def __getattr__(self, name: str) -> int:
        """A resource that a thread or a block needs, by numba's name."""
        if name not in _RESOURCES:
            raise AttributeError(f"an overload has no attribute {name!r}", name=name, obj=self)
        return int(getattr(self._compiled("cubin"), _RESOURCES[name]) or 0)

    @property
    def max_threads_per_block(self) -> int:
        """The number of threads that a block can have, which registers and `launch_bounds` limit."""
        return min(self.threads_with(self.regs_per_thread), self._kernel.options.build.max_threads or _MOST_THREADS)

    @staticmethod
    def threads_with(registers: int) -> int:
        """The largest number of threads of a block whose registers a multiprocessor has."""
        per_warp = max(-(-32 * registers // _UNIT), 1) * _UNIT
        return min(32 * _PARTITIONS * (_REGISTERS // per_warp), _MOST_THREADS)

    @property
    def is_known(self) -> bool:
        """Whether the types of all parameters are known: a signature has none for what is neither a number nor an array."""
        return not any(hint is UNKNOWN for hint in self._hints)

    def _compiled(self, output: str, cc: tuple[int, int] | None = None) -> Any:
        if not self.is_known:
            raise ValueError(
                f"the types of {self._kernel.underlying.__name__} are not known before its first launch: its signature has a "
                "parameter that is neither a number nor an array"
            )
        major, minor = cc or get_current_device().compute_capability
        target = f"sm_{major}{minor}"
        return compile(self._kernel, *self._hints, target=target, output=output, launch_facts=True)  # as launches do


class Overloads(dict[Signature, Overload]):
    """The variants of a kernel by argument types. The key may also be a signature, as text or an object of numba."""

    def __missing__(self, signature: Any) -> Overload:
        """Finds the variant for a signature, which names no layouts. Raises `KeyError` if there is none."""
        (parameters,) = parse(signature)
        for types, overload in self.items():
            if [(p.type, p.ndim) for p in types] == [(p.type, p.ndim) for p in parameters]:
                return overload
        raise KeyError(signature)


def parameter_of(value: Any) -> SignatureParameter:
    """The type of an argument; SignatureParameter() for one that is neither a number nor an array."""
    if isinstance(value, np.generic):
        return SignatureParameter(type(value))
    dtype = getattr(value, "dtype", None)
    if not isinstance(dtype, np.dtype):
        return SignatureParameter()
    return SignatureParameter(dtype if dtype.names else dtype.type, len(value.shape), layout_of(value))


def hint_of(parameter: SignatureParameter, value: Any = UNKNOWN) -> Any:
    """What `compile` takes for a parameter: a type, or the argument itself if the parameter has no type."""
    if type(value) is tuple:
        return tuple[tuple(hint_of(parameter_of(item), item) for item in value)]  # type: ignore[misc]
    if parameter.type is None:
        return value
    if parameter.ndim is None:
        return parameter.type
    return ArrayType(parameter.type, parameter.ndim, parameter.layout or ("C" if value is UNKNOWN else "strided"))
