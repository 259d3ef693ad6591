"""Finds NVIDIA's libraries and tools in the wheels of CUDA 12 and 13 and in a CUDA toolkit.

    find("ptxas")  ->  "…/site-packages/nvidia/cu13/bin/ptxas"

CUDA 13's wheels share a folder; CUDA 12's have one for each component. The wheels of the driver's release come first.
"""

from __future__ import annotations

import os
import sys
from functools import cache

from cuda_device.codegen.gpu import libcuda

NEWEST = 13
"""The newest release of CUDA whose wheels are used."""
# The paths, as glob patterns, in CUDA 13's wheels, in CUDA 12's wheels, and in a toolkit.
_PATHS = {
    "nvJitLink": ("nvidia/cu13/lib/libnvJitLink.so.*", "nvidia/nvjitlink/lib/libnvJitLink.so.*", "lib64/libnvJitLink.so.*"),
    "nvrtc": ("nvidia/cu13/lib/libnvrtc.so.*", "nvidia/cuda_nvrtc/lib/libnvrtc.so.*", "lib64/libnvrtc.so.*"),
    "ptxas": ("nvidia/cu13/bin/ptxas*", "nvidia/cuda_nvcc/bin/ptxas*", "bin/ptxas*"),
    "libdevice": (
        "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
        "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
        "nvvm/libdevice/libdevice.10.bc",
    ),
    "cuda.h": ("nvidia/cu13/include/cuda.h", "nvidia/cuda_runtime/include/cuda.h", "include/cuda.h"),
}  # fmt: skip


def find(name: str) -> str | None:
    """The path of a library, a tool or a header in the folders of Python's packages or in the environment's toolkit.

    In a conda environment, whose own toolkit comes first, only packages are searched. None if it is in none of these places.
    """
    from glob import glob

    *wheels, toolkit = _PATHS[name]
    if release() < NEWEST:
        wheels.reverse()
    packages = [folder for folder in sys.path if folder.endswith("-packages")]
    toolkits = [] if os.environ.get("CONDA_PREFIX") else cuda_homes()
    patterns = [(folder, wheel) for wheel in wheels for folder in packages] + [(folder, toolkit) for folder in toolkits]
    files = (os.path.join(folder, file) for folder, path in patterns for file in sorted(glob(path, root_dir=folder)))
    return next(files, None)


@cache
def library_file(name: str) -> str | None:
    """The result of the first `find` for a library."""
    return find(name)


def cuda_homes() -> list[str]:
    """The folders of the toolkit that the environment names."""
    return [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]


def release() -> int:
    """The release of CUDA whose libraries fit the driver: 12 or 13."""
    cuda = libcuda.version()
    return NEWEST if cuda is None or cuda[0] >= NEWEST else 12


def pip_install(package: str = "") -> str:
    """The command that installs the libraries which fit the driver, or one of NVIDIA's packages for it."""
    if package:
        return f"pip install {package}{'-cu12' if release() == 12 else ''}"
    return f"pip install 'cuda-device[cu{release()}]'"


def stamp(file: str) -> str:
    """A file's path, size and time, which identify its version."""
    status = os.stat(file)
    return f"{file} {status.st_size} {status.st_mtime_ns}"
