"""The GPU architectures that the compiler supports, one table row each.

`sm_90` code runs on every GPU of the same major generation with that number or a higher one. The variants can use instructions
that later generations may drop, and run on fewer GPUs: `a` code runs only on that architecture, `f` code only on its family.

    parse("sm_90a")  ->  Architecture("sm_90a", 90, Variant.EXACT, PtxVersion(8, 8))
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from cuda_device.lazy_dataclasses import dataclass

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
FLUSH_DENORMALS_FLAG = '!{i32 4, !"nvvm-reflect-ftz", i32 1}'
FLUSH_DENORMALS_ATTRIBUTE = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
"""What LLVM calls all of them, and how it lays out memory for them."""


class Variant(enum.Enum):
    """Where code for an architecture runs; the value is the letter at the end of its name."""

    PORTABLE = ""
    EXACT = "a"
    FAMILY = "f"


@dataclass(frozen=True, slots=True, order=True)
class PtxVersion:
    """A version of the PTX instruction set, as in `.version 8.8`."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def feature(self) -> str:
        """How LLVM's NVPTX target is asked for this version."""
        return f"+ptx{self.major}{self.minor}"


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture.

    `name` is what assemblers write, `number` the compute capability times ten, `ptx` the version to ask for.
    """

    name: str
    number: int
    variant: Variant
    ptx: PtxVersion

    def __str__(self) -> str:
        return self.name

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability: (9, 0) for sm_90."""
        return divmod(self.number, 10)

    @property
    def most_shared(self) -> int:
        """The bytes of shared memory that a block can ask for."""
        return 1024 * _MOST_SHARED.get(self.number, 227 if self.number < 120 else 99)


MAXIMUM_STATIC_SHARED = 48 * 1024
"""CUDA's limit. Shared arrays that take more are part of the dynamic shared memory, which launches see to."""


def moved_bytes(shared_bytes: int) -> int:
    """How much dynamic shared memory shared arrays of so many bytes take on a GPU: 0, or a multiple of 128."""
    return -(-shared_bytes // 128) * 128 if shared_bytes > MAXIMUM_STATIC_SHARED else 0


_MOST_SHARED = {75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99}
"""In KiB, by the compute capability times ten."""

# PTX 8.8 (CUDA 12.9) has the instructions of every architecture up to sm_121 and its assembler the `f` variants. sm_88
# and sm_110 came with PTX 9.0 (CUDA 13.0), which is also the newest that LLVM 22 writes and that driver 580 reads.
_COMMON = PtxVersion(8, 8)
_NEWEST = PtxVersion(9, 0)

# Number, PTX version, variants. sm_101 is missing on purpose: CUDA 13 renamed it to sm_110 and no longer assembles it.
_ROWS: tuple[tuple[int, PtxVersion, str], ...] = (
    (75, _COMMON, ""),
    (80, _COMMON, ""),
    (86, _COMMON, ""),
    (87, _COMMON, ""),
    (88, _NEWEST, ""),
    (89, _COMMON, ""),
    (90, _COMMON, "a"),
    (100, _COMMON, "af"),
    (103, _COMMON, "af"),
    (110, _NEWEST, "af"),
    (120, _COMMON, "af"),
    (121, _COMMON, "af"),
)

ARCHITECTURES: dict[str, Architecture] = {
    f"sm_{number}{variant.value}": Architecture(f"sm_{number}{variant.value}", number, variant, ptx)
    for number, ptx, letters in _ROWS
    for variant in Variant
    if variant.value in letters  # the portable variant's "" is in every string
}


def parse(name: str) -> Architecture:
    """The architecture called `name`, such as "sm_90" or "sm_100f". Raises `ValueError`, with all names, for others."""
    try:
        return ARCHITECTURES[name]
    except KeyError:
        raise ValueError(f"there is no architecture {name!r}: choose one of {', '.join(ARCHITECTURES)}") from None


def of_capability(major: int, minor: int) -> Architecture:
    """The portable architecture to compile for so that the code runs on a GPU of this compute capability.

    That is the newest of its generation that is not newer than the GPU. Raises `ValueError` where there is none.
    """
    number = 10 * major + minor
    fitting = [
        row
        for row in ARCHITECTURES.values()
        if row.variant is Variant.PORTABLE and row.number // 10 == major and row.number <= number
    ]
    if not fitting:
        raise ValueError(
            f"compute capability {major}.{minor} is not supported: choose one of {', '.join(ARCHITECTURES)}"
        )
    return max(fitting, key=lambda row: row.number)


def latest(names: Iterable[str]) -> str:
    """The highest of some architectures, of whose variants the most portable: PTX for it runs on all GPUs after them."""
    return max(names, key=lambda name: (parse(name).number, parse(name).variant is Variant.PORTABLE))
