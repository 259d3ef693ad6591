"""The GPU architectures that the compiler supports, one table row each.

`sm_90` code runs on every GPU of the same major generation with that number or a higher one. The variants can use instructions
that later generations may drop, and run on fewer GPUs: `a` code runs only on that architecture, `f` code only on its family.

    parse("sm_90a")  ->  Architecture("sm_90a", 90, "a", 80)
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from cuda_device.lazy_dataclasses import dataclass

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
FLUSH_DENORMALS_FLAG = '!{i32 4, !"nvvm-reflect-ftz", i32 1}'
FLUSH_DENORMALS_ATTRIBUTE = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
"""LLVM's target triple, data layout, and settings for flushing denormals, which are the same for all architectures."""


@dataclass(frozen=True)
class Architecture:
    """One architecture."""

    name: str
    """Its name in PTX."""
    number: int
    """The compute capability times ten."""
    variant: str
    """The suffix of its name."""
    ptx: int
    """The oldest PTX version to use, times ten. A program states a newer one if it needs it (`codegen/gpu/ptx_versions`)."""

    def __str__(self) -> str:
        return self.name

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability: (9, 0) for sm_90."""
        return divmod(self.number, 10)

    @property
    def most_shared(self) -> int:
        """The maximum shared memory of a block in bytes."""
        return 1024 * _MOST_SHARED.get(self.number, 227 if self.number < 120 else 99)


MAXIMUM_STATIC_SHARED = 48 * 1024
"""CUDA's limit in bytes. Larger shared arrays are moved to dynamic shared memory, which launches allocate."""


def moved_bytes(shared_bytes: int) -> int:
    """The dynamic shared memory that shared arrays of this size need on a GPU: 0, or a multiple of 128 bytes."""
    return -(-shared_bytes // 128) * 128 if shared_bytes > MAXIMUM_STATIC_SHARED else 0


_MOST_SHARED = {75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99}
"""In KiB, by the compute capability times ten."""

# Number, and the variants with the PTX version that introduced each; 80 (CUDA 12.0) for all that are older. sm_101 is omitted
# because CUDA 13 renamed it to sm_110 and no longer assembles it.
_ROWS = (
    (75, {"": 80}),
    (80, {"": 80}),
    (86, {"": 80}),
    (87, {"": 80}),
    (88, {"": 90}),
    (89, {"": 80}),
    (90, {"": 80, "a": 80}),
    (100, {"": 86, "a": 86, "f": 88}),
    (103, {"": 88, "a": 88, "f": 88}),
    (110, {"": 90, "a": 90, "f": 90}),
    (120, {"": 87, "a": 87, "f": 88}),
    (121, {"": 88, "a": 88, "f": 88}),
)

ARCHITECTURES = {
    f"sm_{number}{variant}": (number, variant, ptx) for number, variants in _ROWS for variant, ptx in variants.items()
}
"""The number, the variant and the PTX version of each architecture."""


@functools.cache
def parse(name: str) -> Architecture:
    """The architecture called `name`, such as "sm_90" or "sm_100f". Raises `ValueError`, with all names, for others."""
    if name not in ARCHITECTURES:
        raise ValueError(f"there is no architecture {name!r}: choose one of {', '.join(ARCHITECTURES)}")
    return Architecture(name, *ARCHITECTURES[name])


def of_capability(major: int, minor: int) -> Architecture:
    """The newest portable architecture whose code runs on a GPU of this compute capability.

    Raises `ValueError` if there is none.
    """
    fitting = [number for number, *_ in _ROWS if number // 10 == major and number <= 10 * major + minor]
    if not fitting:
        raise ValueError(
            f"compute capability {major}.{minor} is not supported: choose one of {', '.join(ARCHITECTURES)}"
        )
    return parse(f"sm_{max(fitting)}")


def of_gpu(major: int, minor: int) -> Architecture:
    """Like `of_capability`, for code that runs on no other GPU: the variant with all its features (sm_90a), if there is one."""
    portable, own = of_capability(major, minor), f"sm_{major}{minor}a"
    return parse(own) if own in ARCHITECTURES else portable


def latest(names: Iterable[str]) -> str:
    """The newest of some architectures, in its portable variant if it is among them: its PTX runs on all later GPUs."""
    return max(names, key=lambda name: (parse(name).number, not parse(name).variant))
