"""The GPU tests of a project with kernels of numba.cuda, unmodified, over `cuda_device.numba_compat`.

    pip install numba-cuda numba pytest stumpy pandas; pip download --no-deps --no-binary :all: stumpy && tar xf stumpy-*.tar.gz
    CUDA_DEVICE_CHECKED=0 python benchmarks/numba_projects.py stumpy-1.14.1/tests/test_gpu_*.py [more words for pytest]

Before the project is imported, the names of `numba.cuda` become this package's, as in `numba_tests`. Projects ask `is_available`
whether to test on a GPU: it says yes here, as numba's simulator does, and kernels run on the CPU where there is no GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__)


def pytest_configure(config: Any) -> None:
    """As a plugin of pytest."""
    from numba import cuda
    from numba_tests import replace_names  # type: ignore[import-not-found]

    replace_names()
    cuda.is_available = lambda: True


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(pytest.main(["-p", HERE.stem, "-p", "no:cacheprovider", "-q", *sys.argv[1:]]))
