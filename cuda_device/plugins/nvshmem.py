"""NVSHMEM in kernels: NVSHMEM's device functions, under their names without the prefix.

    import nvshmem.core                                   # NVSHMEM4Py: starts NVSHMEM, and allocates symmetric memory
    from cuda_device import nvshmem

    @device.kernel
    def shift(target: device.pointer(device.float32), value):
        nvshmem.float_p(target, value, (nvshmem.my_pe() + 1) % nvshmem.n_pes())
        nvshmem.barrier_all()

`nvshmem.NAME` is the C++ function `nvshmem_NAME` or `nvshmemx_NAME`; `dir(nvshmem)` lists them. Others can be declared with
`@extern`: `def nvshmem_team_my_pe(team: int32) -> int32: ...`. Pointers must point to elements of symmetric arrays. NVRTC
compiles NVSHMEM's headers with the functions that a kernel calls, which takes a few seconds the first time, and link-time
optimisation inlines them. The package registers a kernel with NVSHMEM when it loads the kernel, and unregisters it when the
process ends.

Functions that wait for other processing elements (`barrier_all`, `wait_until`) need all blocks of a launch to run at the same
time. Kernels that call NVSHMEM do not run on a CPU stream.
"""

from __future__ import annotations

import atexit
import re
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from cuda_device import Extern, LaunchError, cuda_source, extern, pointer

_TYPES = {
    "float": np.float32, "double": np.float64, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip
_HINTS: dict[str, Any] = {
    "int": np.int32, "size_t": np.uint64, "uint64_t": np.uint64, "void": None, "void*": pointer(),
    **_TYPES, **{f"{name}*": pointer(type) for name, type in _TYPES.items()}, "uint64_t*": pointer(np.uint64),
}  # fmt: skip
_PLAIN = """
int my_pe()
int n_pes()
void* ptr(void* target, int pe)
void barrier_all()
void sync_all()
void fence()
void quiet()
uint64_t signal_fetch(uint64_t* signal)
uint64_t signal_wait_until(uint64_t* signal, int compare, uint64_t value)
void x_signal_op(uint64_t* signal, uint64_t value, int operation, int pe)
void x_barrier_all_block()
void x_barrier_all_warp()
void x_sync_all_block()
void x_sync_all_warp()
"""
_OF_TYPES = {
    """
void T_p(T* target, T value, int pe)
T T_g(T* source, int pe)
void T_put(T* target, T* source, size_t count, int pe)
void T_get(T* target, T* source, size_t count, int pe)
void T_put_nbi(T* target, T* source, size_t count, int pe)
void T_get_nbi(T* target, T* source, size_t count, int pe)
void x_T_put_block(T* target, T* source, size_t count, int pe)
void x_T_get_block(T* target, T* source, size_t count, int pe)
void x_T_put_nbi_block(T* target, T* source, size_t count, int pe)
void x_T_get_nbi_block(T* target, T* source, size_t count, int pe)
void x_T_put_warp(T* target, T* source, size_t count, int pe)
void x_T_get_warp(T* target, T* source, size_t count, int pe)
void T_put_signal(T* target, T* source, size_t count, uint64_t* signal, uint64_t value, int operation, int pe)
void T_put_signal_nbi(T* target, T* source, size_t count, uint64_t* signal, uint64_t value, int operation, int pe)
""": tuple(_TYPES),
    """
T T_atomic_fetch(T* source, int pe)
void T_atomic_set(T* target, T value, int pe)
T T_atomic_swap(T* target, T value, int pe)
""": ("float", "double", "int32", "int64", "uint32", "uint64"),
    """
T T_atomic_compare_swap(T* target, T expected, T value, int pe)
void T_wait_until(T* variable, int compare, T value)
int T_test(T* variable, int compare, T value)
""": ("int32", "int64", "uint32", "uint64"),
    """
T T_atomic_fetch_add(T* target, T value, int pe)
void T_atomic_add(T* target, T value, int pe)
""": ("int32", "uint32", "uint64"),
}
_CONSTANTS = {
    "CMP_EQ": 0, "CMP_NE": 1, "CMP_GT": 2, "CMP_LE": 3, "CMP_LT": 4, "CMP_GE": 5, "SIGNAL_SET": 9, "SIGNAL_ADD": 10,
}  # fmt: skip


@cache
def _prototypes() -> dict[str, tuple[str, str, str]]:
    """Maps the name of each function to its name, result and parameters in C++."""
    prototypes = {}
    for lines, kinds in ((_PLAIN, ("",)), *_OF_TYPES.items()):
        for kind in kinds:
            for result, symbol, parameters in re.findall(
                r"(\S+) (\w+)\((.*)\)", re.sub(r"(?<![a-z])T(?![a-z])", kind, lines)
            ):
                plain = symbol.removeprefix("x_")
                prototypes[plain] = (f"nvshmem{'_' if plain == symbol else 'x_'}{plain}", result, parameters)
    return prototypes


@cache
def _source() -> Any:
    """The source with NVSHMEM's headers, for programs that contain the state of the library."""
    package = find_spec("nvidia.nvshmem")
    folders = [Path(location, "include") for location in package.submodule_search_locations or ()] if package else []
    folder = next((candidate for candidate in folders if candidate.is_dir()), None)
    if folder is None:
        raise ImportError("kernels with NVSHMEM need its headers\n  help: pip install nvshmem4py-cu13")
    options = folder / "non_abi" / "nvshmem_build_options.h"
    # Earlier headers include those of InfiniBand's driver, which NVRTC cannot compile.
    if options.is_file() and "__has_include(<infiniband" not in options.read_text():
        raise ImportError("kernels cannot use this version of NVSHMEM\n  help: pip install 'nvidia-nvshmem-cu13>=3.8'")
    define = {"__NVSHMEM_NUMBA_SUPPORT__": None}
    return cuda_source(
        "#include <nvshmem.h>\n#include <nvshmemx.h>\n", name="nvshmem.cu", include=[folder], define=define
    )


@cache
def _declared(name: str) -> Extern:
    symbol, result, parameters = _prototypes()[name]
    hints = {parameter.split()[1]: _HINTS[parameter.split()[0]] for parameter in parameters.split(", ") if parameter}
    scope: dict[str, Any] = {}
    exec(f"def {name}({', '.join(hints)}): ...", scope)
    stub: FunctionType = scope[name]
    stub.__module__, stub.__doc__ = __name__, f"`{symbol}` of NVSHMEM: `{result} {name}({parameters})`."
    stub.__annotations__ = {**hints, "return": _HINTS[result]}
    return declare(stub, symbol)


def declare(stub: FunctionType, symbol: str) -> Extern:
    """Declares a function of NVSHMEM's headers by a stub."""
    return extern(cpp=symbol, link=_source())(stub)


def begin(library: int) -> None:
    """Registers a program with NVSHMEM, whose state it contains, until the process ends. `library` is the driver's handle.

    Raises `LaunchError` if NVSHMEM is not installed, or does not accept the program.
    """
    try:
        from nvshmem import core
    except ImportError as error:
        raise LaunchError(f"the kernel needs NVSHMEM: {error}", "pip install nvshmem4py-cu13") from None
    program = core.NvshmemKernelObject.from_handle(library)
    try:
        core.library_init(program)
    except Exception as error:  # NVSHMEM's exceptions or those of its bindings
        raise LaunchError(
            f"NVSHMEM does not accept the kernel: {error}", "start it before the first launch: nvshmem.core.init(…)"
        ) from None

    def end() -> None:
        with suppress(Exception):  # NVSHMEM may be finalised already
            core.library_finalize(program)

    atexit.register(end)


def __getattr__(name: str) -> Any:
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name in _prototypes():
        return _declared(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return [*_CONSTANTS, *_prototypes()]
