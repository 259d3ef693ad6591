"""Chooses the PTX version of a program: the oldest one that its instructions and its architecture need.

    lowered(".version 8.8\n…\tst.global.b32 …", sm_90)     ".version 8.0\n…"
    lowered(".version 8.8\n…\tfence.acquire.gpu; …", sm_90)  ".version 8.6\n…"

A driver reads PTX up to the version of its release of CUDA, so a program of an older version runs on more drivers. LLVM writes
`WRITTEN`, or what the driver of this machine reads if that is older: it then uses older instructions (`fence.acq_rel` in place of
`fence.acquire`, which is faster). The instructions therefore depend on the driver only if it is older than CUDA 12.9.
"""

from __future__ import annotations

import re
from bisect import bisect
from functools import cache

from cuda_device.codegen.gpu import libcuda
from cuda_device.lazy_dataclasses import dataclass
from cuda_device.types.architectures import Architecture

WRITTEN = 88
"""The PTX version (times ten) that LLVM writes, or the architecture's if it is newer."""
_OLDEST_WRITTEN = 82
# The releases of CUDA 12 and 13, and the newest PTX version that each reads.
_RELEASES = (
    ((12, 0), 80), ((12, 1), 81), ((12, 2), 82), ((12, 3), 83), ((12, 4), 84), ((12, 5), 85), ((12, 7), 86), ((12, 8), 87),
    ((12, 9), 88), ((13, 0), 90),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of PTX and the version that introduced it, times ten, for architectures `since` a number and `before` another.

    A program has it if its text contains `word` and matches `pattern`, if there is one. The table has the features that LLVM
    and this compiler write, and those that programs may use with `ptx` and intrinsics. Instructions that came with their
    architecture, such as `tcgen05` with sm_100, need no row.
    """

    version: int
    word: str
    pattern: str = ""
    since: int = 0
    before: int = 1000


# From the release notes of NVIDIA's "PTX ISA". `tests/codegen/test_ptx_versions.py` compares each row to an assembler.
FEATURES = (
    Feature(81, "x2", r"\.e[45]m[23]x2\b", before=90),
    Feature(81, ".satfinite", r"\.satfinite(?:\.relu)?\.(?:b?f16(?:x2)?|tf32)\."),
    Feature(81, ".oob"),
    Feature(81, "red.", r"red\.[\w.:]*\.v[248]\."),
    Feature(81, "atom.", r"atom\.[\w.:]*\.v[248]\."),
    Feature(81, ".async.", r"(?:st|red)\.async\."),
    Feature(81, "%aggr_smem_size"),
    Feature(81, "multimem."),
    Feature(82, ".mmio"),
    Feature(82, ".acc::"),
    Feature(82, "lop3.", r"lop3\.(?:or|and)\b"),
    # Before CUDA 12.3 (PTX 8.3) assemblers did not know that `trap` ends a block, so LLVM writes an `exit` after it.
    Feature(83, "trap;", r"trap;(?!\s*(?://.*\s*)*exit;)"),
    Feature(83, "used_bytes_mask"),
    Feature(83, ".b128"),
    Feature(83, ".param::"),
    Feature(83, "tensormap", r"(?:tensormap\.|fence\.proxy\.tensormap)"),
    Feature(84, ".b128", r"\.sys\b[\w.:]*\.b128\b"),
    Feature(84, "mma.sync", r"(?<!g)mma\.sync[\w.:]*\.e[45]m[23]\b"),
    Feature(85, "::ordered_metadata"),
    Feature(86, "fence.", r"fence\.(?:acquire|release)\b"),
    Feature(86, ".sync_restrict"),
    Feature(86, "cp.async.bulk", r"cp\.async\.bulk\.(?:\w+\.)*shared::cta\.global\b"),
    Feature(88, ".v8.", r"\.v8\.[bfsu]32\b", since=100),
    Feature(88, ".v4.", r"\.v4\.[bfsu]64\b", since=100),
    Feature(88, "min.", r"min\.(?:\w+\.)*f32\s+[^,;]+,[^,;]+,[^,;]+,[^,;]+;", since=100),
    Feature(88, "max.", r"max\.(?:\w+\.)*f32\s+[^,;]+,[^,;]+,[^,;]+,[^,;]+;", since=100),
)

_DIRECTIVE = ".version "


def readable(cuda: tuple[int, int]) -> int:
    """The newest PTX version that a driver of this version of CUDA reads, times ten."""
    count = bisect([release for release, _ in _RELEASES], cuda)
    return _RELEASES[count - 1][1] if count else 0


def written(architecture: Architecture) -> int:
    """The PTX version that LLVM writes for an architecture and the driver of this machine, if there is one; times ten."""
    return written_for(architecture, libcuda.version())


@cache
def written_for(architecture: Architecture, cuda: tuple[int, int] | None) -> int:
    """The same for a version of CUDA."""
    limit = WRITTEN if cuda is None else max(readable(cuda), _OLDEST_WRITTEN)
    return max(architecture.ptx, min(WRITTEN, limit))


def needed(text: str, architecture: Architecture) -> int:
    """The oldest PTX version that a program needs, times ten."""
    version, number = architecture.ptx, architecture.number
    for row in FEATURES:
        counts = row.version > version and row.since <= number < row.before and row.word in text
        if counts and (not row.pattern or re.search(row.pattern, text)):
            version = row.version
    return version


def dotted(version: int) -> str:
    """A version as PTX writes it: 8.0 for 80."""
    return f"{version // 10}.{version % 10}"


def lowered(text: str, architecture: Architecture) -> str:
    """A program with the oldest version that it needs in its first directive."""
    return with_version(text, dotted(needed(text, architecture)))


def with_version(text: str, version: str) -> str:
    """A program with another version in its first directive."""
    before, directive, behind = text.partition(_DIRECTIVE)
    _, end, rest = behind.partition("\n")
    return f"{before}{directive}{version}{end}{rest}"
