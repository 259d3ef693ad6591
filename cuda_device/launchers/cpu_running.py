"""How machine code has a kernel run on the CPU: a function of Python, for each kernel, that takes packed arguments.

runner(variant)(data, values)       data: the record of the launch, and the parameters; values: what they are in
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuda_device.errors import Error
from cuda_device.launchers.memory_layout import LAUNCH, RECORD_BYTES

if TYPE_CHECKING:
    from cuda_device.runtime.launch.launcher import Variant

MOST_SHARED = 227 * 1024
"""The bytes of shared memory that a block has on the CPU."""

_SIZES = struct.Struct("=7i")
_SIZES_AT = 8 * LAUNCH.index("grid.x")  # three words come before them


def runner(variant: Variant) -> Callable[[bytes, tuple[Any, ...]], None]:
    """The function that runs a variant. It raises what a launch raises."""
    from cuda_device.runtime.cpu.executor import execute

    native, places = variant.work["native"], variant.places
    checked, may_run_long = bool(variant.work.job.options.checked), variant.may_run_long

    def run(data: bytes, values: tuple[Any, ...]) -> None:
        gx, gy, gz, bx, by, bz, shared = _SIZES.unpack_from(data, _SIZES_AT)
        try:
            execute(
                native,
                (gx, gy, gz),
                (bx, by, bz),
                data[RECORD_BYTES:],
                dynamic_shared=shared,
                places=places,
                checked=checked,
                may_run_long=may_run_long,
                keep=values,
            )
        except Error as error:
            raise error.with_traceback(None) from error.__cause__

    return run
