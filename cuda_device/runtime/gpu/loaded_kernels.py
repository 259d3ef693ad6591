"""Code on a GPU, as the driver knows it: libraries of kernels, what a kernel takes, launches.

    kernel = kernels.get_kernel(kernels.load_library(cubin), "saxpy")
    kernels.launch(kernel, (4, 1, 1), (256, 1, 1), 0, stream, addresses)

Handles are plain integers, and every failure is one of our errors, as in `driver`.
"""

from __future__ import annotations

from cuda_device.lazy_dataclasses import dataclass
from cuda_device.runtime.gpu import driver


@dataclass(frozen=True, slots=True)
class KernelAttributes:
    """What the assembler says of a kernel: limits and what each thread (local) and block (shared) takes, in bytes."""

    max_threads: int
    registers: int
    shared: int
    local: int
    max_dynamic_shared: int


def load_library(code: bytes) -> int:
    """Loads a cubin, fatbin or PTX (ending in a zero byte, added if missing) for all contexts; returns the library's handle."""
    driver.ensure_context()
    if not code.startswith(b"\x7fELF") and not code.endswith(b"\0"):
        code += b"\0"
    return int(
        driver.check(driver.bindings().cuLibraryLoadData(code, None, None, 0, None, None, 0), "loading device code")
    )


def unload_library(library: int) -> None:
    """Unloads what `load_library` gave. No kernel of it may be running."""
    driver.check(driver.bindings().cuLibraryUnload(library), "unloading device code")


def get_kernel(library: int, symbol: str) -> int:
    """The handle of the kernel `symbol`. `launch` takes it in every context."""
    return int(
        driver.check(
            driver.bindings().cuLibraryGetKernel(library, symbol.encode()), f"looking for the kernel {symbol!r}"
        )
    )


def kernel_attributes(kernel: int, ordinal: int) -> KernelAttributes:
    """The attributes of `kernel` on device `ordinal`."""
    api = driver.bindings()
    attribute = api.CUfunction_attribute

    def ask(name: str) -> int:
        which = getattr(attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(driver.check(api.cuKernelGetAttribute(which, kernel, ordinal), f"asking a kernel for {name}"))

    return KernelAttributes(
        max_threads=ask("MAX_THREADS_PER_BLOCK"),
        registers=ask("NUM_REGS"),
        shared=ask("SHARED_SIZE_BYTES"),
        local=ask("LOCAL_SIZE_BYTES"),
        max_dynamic_shared=ask("MAX_DYNAMIC_SHARED_SIZE_BYTES"),
    )


def set_max_dynamic_shared(kernel: int, nbytes: int, ordinal: int) -> None:
    """Allows `kernel` to be launched with up to `nbytes` of dynamic shared memory on device `ordinal` (beyond 48 KiB)."""
    api = driver.bindings()
    which = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.check(
        api.cuKernelSetAttribute(which, nbytes, kernel, ordinal), f"asking for {nbytes} bytes of shared memory"
    )


def raise_stack_limit(nbytes: int) -> None:
    """Gives the threads of all later launches in the current context `nbytes` of stack each; more stays more.

    Raises `LaunchError` if that is more than the GPU has, or than a thread can have.
    """
    api = driver.bindings()
    which = api.CUlimit.CU_LIMIT_STACK_SIZE
    if int(driver.check(api.cuCtxGetLimit(which), "asking for the size of stacks")) < nbytes:
        with driver.BesideCaptures():
            driver.check(api.cuCtxSetLimit(which, nbytes), f"asking for {nbytes} bytes of stack for each thread")


def write_global(library: int, symbol: str, source: int, nbytes: int) -> None:
    """Copies `nbytes` from the host address `source` into a variable of a library, in the current context."""
    api = driver.bindings()
    address, size = driver.check(
        api.cuLibraryGetGlobal(library, symbol.encode()), f"looking for the variable {symbol!r}"
    )
    assert size == nbytes, (symbol, size, nbytes)
    driver.check(api.cuMemcpyHtoD(address, source, nbytes), f"writing the variable {symbol!r}")


def launch(
    kernel: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, stream: int, params: int
) -> None:
    """Starts `kernel` in the current context; `params` is the address of a C array of pointers to the arguments."""
    (status,) = driver.bindings().cuLaunchKernel(kernel, *grid, *block, shared, stream, params, 0)
    if status != driver.SUCCESS:
        raise driver.error_of(int(status), f"launching a grid of {grid} blocks of {block} threads")
