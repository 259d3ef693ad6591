"""`kernel.bind`: a kernel with the size of its launches, which may depend on the arguments.

add = kernel.bind(grid=lambda x, y: (len(x) + 255) // 256, block=256)
add(x, y)                                   # launch(kernel, x, y, grid=…, block=256)
add(x, y, stream=stream)
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

from cuda_device.device.functions import Kernel
from cuda_device.device.parameters import defaults_of
from cuda_device.runtime.launch.binding import bind, parameters_of
from cuda_device.runtime.launch.launcher import launch, users_traceback


class BoundKernel:
    """What `kernel.bind` returns: called with the kernel's arguments, it launches the kernel.

    `grid`, `block` and `shared` are what `launch` takes, or functions of all arguments of the kernel, by position in the order of
    its parameters, defaults included: methods of a struct, where that is the only argument. Raises `TypeError` for a function of
    other parameters.
    """

    __slots__ = ("block", "grid", "kernel", "shared")

    def __init__(self, kernel: Kernel, grid: Any, block: Any, shared: Any = 0) -> None:
        names = parameters_of(kernel.underlying).names
        for what, size in (("grid", grid), ("block", block), ("shared", shared)):
            with suppress(ValueError):  # of a function that does not tell its parameters
                if callable(size) and not _takes(inspect.signature(size), len(names)):
                    raise TypeError(
                        f"{what} is a function of the kernel's arguments: write lambda {', '.join(names)}: …"
                    )
        self.kernel, self.grid, self.block, self.shared = kernel, grid, block, shared

    @users_traceback
    def __call__(self, *args: Any, stream: Any = None, **kwargs: Any) -> None:
        """Launches the kernel on `stream`. Raises what `launch` raises, and what the functions that tell the size do."""
        function = self.kernel.underlying
        sizes = {"grid": self.grid, "block": self.block, "shared": self.shared}
        if any(map(callable, sizes.values())):
            values = bind(function, args, kwargs, defaults_of(function))
            sizes = {what: size(*values) if callable(size) else size for what, size in sizes.items()}
        launch(self.kernel, *args, stream=stream, **sizes, **kwargs)

    def __repr__(self) -> str:
        sizes = {"grid": self.grid, "block": self.block, "shared": self.shared}
        shown = (f"{what}={getattr(size, '__qualname__', size)}" for what, size in sizes.items())
        return f"<kernel {self.kernel.underlying.__qualname__} with {', '.join(shown)}>"


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Whether a function of this signature can be called with so many arguments, by position."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
