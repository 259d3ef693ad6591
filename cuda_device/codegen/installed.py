"""Files of NVIDIA's packages on this machine, found by looking where pip and the toolkit's installer put them.

cuda-pathfinder knows more places, and takes 40 ms to import: ask it for what is not found here.

    find("nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "nvvm/libdevice/libdevice.10.bc")  ->  a path, or None
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def find(in_packages: str, in_toolkit: str) -> Path | None:
    """The first file that matches: in a folder that packages are imported from, or in the toolkit of the environment.

    A conda environment has a place of its own that comes before the toolkit: there only packages are looked at.
    """
    packages = [folder for folder in sys.path if folder.endswith("-packages")]
    toolkits = [] if os.environ.get("CONDA_PREFIX") else cuda_homes()
    places = [(folder, in_packages) for folder in packages] + [(folder, in_toolkit) for folder in toolkits]
    return next((file for folder, pattern in places for file in sorted(Path(folder).glob(pattern))), None)


def cuda_homes() -> list[str]:
    """The folders that the environment names as the toolkit's."""
    return [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
