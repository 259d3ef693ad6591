"""What a launcher starts in each of its processes: a kernel reads the part of the next one; the result goes to a file.

torchrun --nproc-per-node 2 tests/launched_job.py torch FOLDER
mpiexec -n 2 python tests/launched_job.py mpi FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from test_symmetric_arrays import pull, where

import cuda_device as device
from cuda_device import SymmetricArray, float32


def ring(ranks, rank, wait):
    """The sums of the own numbers and the next process's, and the GPU."""
    stream = where(rank)
    with SymmetricArray(3, float32, ranks, stream=stream) as x:
        x.local()[...] = np.arange(3) + 1000 * rank
        stream.synchronize()
        wait()
        out = device.zeros(3, stream=stream)
        device.launch(pull, x.part, out, grid=1, block=32, stream=stream)
        return out.numpy().tolist(), getattr(stream, "ordinal", None)


def by_torch():
    import torch.distributed as distributed

    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    found = [ring(ranks, rank, distributed.barrier) for ranks in (distributed, distributed.group.WORLD)]
    distributed.destroy_process_group()
    return rank, found


def by_mpi():
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD
    return ranks.rank, [ring(ranks, ranks.rank, ranks.Barrier)]


if __name__ == "__main__":
    rank, found = {"torch": by_torch, "mpi": by_mpi}[sys.argv[1]]()
    Path(sys.argv[2], f"{rank}.json").write_text(json.dumps(found))
