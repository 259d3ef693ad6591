"""`kernel.bind`: a kernel with its sizes, which may be functions of the arguments.

add = kernel.bind(grid=lambda x, y: (len(x) + 255) // 256, block=256)
add(x, y)                        # launch(kernel, x, y, grid=…, block=256)
add(x, y, stream=stream)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any

from cuda_device import CallError, Kernel, Stream, launch
from cuda_device.extend import LaunchSizes, as_type, bind, defaults_of, model, parameters_of, users_traceback


class BoundKernel:
    """The result of `kernel.bind`; calling it with the kernel's arguments launches the kernel.

    `sizes` holds the given `grid`, `block`, `shared`, `threads`, `cluster` and `dependent`: values that `launch` takes, or
    functions that return them. `launch` and `prepare` take it in place of the kernel, and their own sizes in place of its. Such
    a function is called with all arguments of the kernel, including defaults, by position. If a struct is the only argument, it
    may be a method of the struct. Raises `TypeError` for a function with other parameters, and if neither `grid` nor `threads`
    is given.
    """

    __slots__ = ("kernel", "sizes")

    def __init__(
        self,
        kernel: Kernel,
        grid: Any,
        block: Any,
        shared: Any = 0,
        threads: Any = None,
        cluster: Any = None,
        dependent: Any = None,
    ) -> None:
        sizes = LaunchSizes(grid, block, shared, threads, cluster, dependent)
        sizes.has_block()
        self.kernel, self.sizes = kernel, sizes.given()
        names = parameters_of(kernel.underlying).names
        for keyword, size in self.sizes.items():
            with suppress(ValueError):  # from functions without a signature
                if callable(size) and not _takes(inspect.signature(size), len(names)):
                    raise TypeError(
                        f"{keyword} is a function of the kernel's arguments: write lambda {', '.join(names)}: …"
                    )

    @users_traceback
    def __call__(self, *args: Any, stream: Any = None, **kwargs: Any) -> None:
        """Launches the kernel on `stream`. Raises what `launch` raises, and what the functions that tell the size do."""
        sizes = self.sizes_for(self.kernel, args, kwargs, self.sizes)
        launch(self.kernel, *args, stream=stream, **sizes, **kwargs)

    @property
    def underlying(self) -> FunctionType:
        """The Python function of the kernel."""
        return self.kernel.underlying

    def completed(
        self, args: Sequence[Any], kwargs: dict[str, Any], sizes: LaunchSizes, _: Stream
    ) -> tuple[Kernel, dict[str, Any], LaunchSizes]:
        """The kernel, its named arguments and the sizes of a launch, with these in place of those that it does not give."""
        given = {keyword: size for keyword, size in sizes.given().items() if (keyword, size) != ("shared", 0)}
        instead = {"grid": "threads", "threads": "grid"}
        own = {keyword: size for keyword, size in self.sizes.items() if instead.get(keyword) not in given}
        return self.kernel, kwargs, LaunchSizes(**self.sizes_for(self.kernel, args, kwargs, own | given))

    @staticmethod
    def sizes_for(
        kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], sizes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the sizes of a launch with these arguments: calls the functions among `sizes` with all of them."""
        if not any(map(callable, sizes.values())):
            return dict(sizes)
        parameters = parameters_of(kernel.underlying)
        values = bind(kernel.underlying, args, kwargs, defaults_of(kernel.underlying))
        for i, name in enumerate(parameters.names):
            hint = parameters.hints.get(name)
            if isinstance(hint, model.Struct) and isinstance(values[i], (tuple, dict)):
                try:
                    values[i] = as_type(values[i], hint, name)
                except TypeError as error:
                    remedy = f"pass a {hint.name}, or a tuple or dict of its members"
                    raise CallError(f"the argument {name!r}: {error}", remedy) from None
        return {keyword: size(*values) if callable(size) else size for keyword, size in sizes.items()}

    def __repr__(self) -> str:
        shown = (f"{keyword}={getattr(size, '__qualname__', size)}" for keyword, size in self.sizes.items())
        return f"<kernel {self.kernel.underlying.__qualname__} with {', '.join(shown)}>"


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Whether a function with this signature takes `count` positional arguments."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
