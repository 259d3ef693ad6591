"""Processes of Python that tests start, which import the package under test, and what tests import.

done = python("-c", script, CUDA_DEVICE_CACHE="0")
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cuda_device

ROOT = Path(cuda_device.__file__).parents[1]
TESTS = Path(__file__).parent


def python(*words: Any, status: int = 0, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs Python with these words, and fails where it does not end with `status`.

    Options in capital letters are variables of the environment, others those of `subprocess.run`.
    """
    variables = {name: str(options.pop(name)) for name in list(options) if name.isupper()}
    paths = os.pathsep.join(dict.fromkeys([str(ROOT), str(TESTS), *filter(None, sys.path)]))
    environment = os.environ | {"PYTHONPATH": paths} | variables
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, **{"timeout": 300} | options
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done
