"""Jobs of processes that torchrun and mpiexec start."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import GPUS

import cuda_device

TESTS = Path(__file__).parents[2]
SURROUNDINGS = {
    "GLOO_SOCKET_IFNAME": "lo",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI 4
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # Open MPI 5
}


def torchrun(count):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    where = "--master-addr=127.0.0.1", f"--master-port={port}"
    return [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", *where], "torch"


def mpiexec(count):
    found = shutil.which("mpiexec") or shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    works = [sys.executable, "-c", "from mpi4py import MPI"]
    if found is None or subprocess.run(works, capture_output=True, check=False).returncode:
        pytest.skip("mpi4py or an MPI is not installed")
    return [found, "-n", str(count), sys.executable], "mpi"


def run(launcher, folder, count=2):
    """What each process has found, by rank."""
    words, how = launcher(count)
    paths = os.pathsep.join([str(Path(cuda_device.__file__).parents[1]), str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*words, str(TESTS / "launched_job.py"), how, str(folder)],
        env=os.environ | SURROUNDINGS | {"PYTHONPATH": paths},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]


@pytest.mark.parametrize("launcher", [torchrun, mpiexec])
def test_processes_of_a_launcher_share_memory(launcher, tmp_path):
    for rank, found in enumerate(run(launcher, tmp_path)):
        assert found and found == [[[1000, 1002, 1004], rank % GPUS if GPUS else None]] * len(found)
