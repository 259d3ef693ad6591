"""Elections: one lane of a warp acts for all, as the instructions that start copies of tiles want it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_device import DeviceOnlyError, ballot_sync, ffs, lane_id, ptx, sm90, uint32
from cuda_device.extend import specialised


def elect_one() -> bool:
    """Returns True in one lane of the calling warp, the lowest that has not returned on CPU streams, and False in the others.

    All lanes of the warp that have not returned must call it together. Unlike `lane_id == 0`, it tells the assembler that a
    single thread goes on, for which it writes instructions such as those of `tma_load` without a loop over lanes. Device only,
    for sm_90 and later. PTX: elect.sync.
    """
    raise DeviceOnlyError.of("elect_one")


@specialised(elect_one, since=sm90, otherwise="compare lane_id")
def _() -> Callable[..., Any]:
    return _elected


def _elected() -> Any:
    return ptx(_ELECT, result=uint32, host=_lowest) != 0


_ELECT = "{ .reg .pred elected; elect.sync _|elected, 0xffffffff; selp.u32 $0, 1, 0, elected; }"


def _lowest() -> Any:
    return uint32(lane_id == ffs(ballot_sync(-1, True)) - 1)
