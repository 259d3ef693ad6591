"""Files of NVIDIA's packages on this machine, found by looking where pip and the toolkit's installer put them.

cuda-pathfinder knows more places, and takes 40 ms to import: ask it for what is not found here.

    find("nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "nvvm/libdevice/libdevice.10.bc")  ->  a path, or None

A start waits for it: `pathlib` and `shutil` would take longer to import than a known kernel to load.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable


def find(in_packages: str, in_toolkit: str) -> str | None:
    """The first file that matches: in a folder that packages are imported from, or in the toolkit of the environment.

    The name of the file may have one `*` in it.

    A conda environment has a place of its own that comes before the toolkit: there only packages are looked at.
    """
    packages = [folder for folder in sys.path if folder.endswith("-packages")]
    toolkits = [] if os.environ.get("CONDA_PREFIX") else cuda_homes()
    places = [(folder, in_packages) for folder in packages] + [(folder, in_toolkit) for folder in toolkits]
    return next((file for folder, pattern in places for file in _matches(os.path.join(folder, pattern))), None)


def _matches(pattern: str) -> list[str]:
    folder, name = os.path.split(pattern)
    start, star, end = name.partition("*")
    if not star:
        return [pattern] if os.path.exists(pattern) else []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    fit = [each for each in names if each.startswith(start) and each[len(start) :].endswith(end)]
    return [os.path.join(folder, each) for each in sorted(fit)]


def program(name: str, folders: Iterable[str]) -> str | None:
    """The first program of a name in these folders."""
    files = (os.path.join(folder, name) for folder in folders if folder)
    return next((file for file in files if os.path.isfile(file) and os.access(file, os.X_OK)), None)


def cuda_homes() -> list[str]:
    """The folders that the environment names as the toolkit's."""
    return [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
