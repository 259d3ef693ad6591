"""The tests of bytecode and of what is read from it again, on CPython 3.14: compiled to WebAssembly, it runs wherever node does.

Needs `npm install pyodide` (release 314 or later) in some folder: that of the repository, or the one that the
environment variable CUDA_DEVICE_PYODIDE names.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]


def pyodide():
    """The folder of the npm package, and how to get it where it is missing."""
    root = pathlib.Path(os.environ.get("CUDA_DEVICE_PYODIDE") or REPOSITORY)
    folder = root / "node_modules" / "pyodide"
    if not (folder / "pyodide.mjs").exists():
        pytest.skip(f"no {folder}: run `npm install pyodide`, and set CUDA_DEVICE_PYODIDE to where you did")
    return folder


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this is CPython 3.14 already")
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_bytecode_is_read_on_cpython_314():
    script = REPOSITORY / "tests" / "decoding" / "cpython314.mjs"
    command = ["node", str(script), str(pyodide()), str(REPOSITORY), str(pathlib.Path(pytest.__file__).parents[1])]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]
    assert "Python 3.14" in result.stdout and ": passed" in result.stdout
