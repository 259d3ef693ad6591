"""CUDA's programming model in Python, compiled straight to LLVM IR: the names of the `cuda.device` specification.

    import cuda_device as device

    @device.kernel
    def add(x, y, z):
        i = device.tid(1)
        if i < len(z):
            z[i] = x[i] + y[i]

    device.launch(add, x, y, z, grid=4, block=256)

The names are listed in `cuda_device.api`, which is imported when one of them is first used: a program that imports this
package and does not use it pays nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuda_device.api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Not `from cuda_device import api`, which would ask this function for it.
    api = importlib.import_module("cuda_device.api")
    if name != "__all__" and name not in api.__all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])  # so that Python suggests another
    globals().update({public: getattr(api, public) for public in api.__all__}, __all__=api.__all__)
    return globals()[name]


def __dir__() -> list[str]:
    return [*importlib.import_module("cuda_device.api").__all__, "__version__"]
