"""Kernels on the workers of a Dask cluster: `launch` for arrays in blocks, and `spmd` for one task on each worker.

    from cuda_device import dask as cluster

    y = cluster.launch(client, scale, 2.0, x, cluster.output(float32))      # x, y: dask arrays
    sums = cluster.spmd(client, work, 1000)                                 # [work(ranks, 1000) of each worker]

Dask moves the blocks and reruns the tasks of lost workers. Workers run kernels on their default stream, which is that of a GPU
if there is one. Kernels, functions and structs that belong to a module are pickled by reference, others by cloudpickle. All
workers of a machine share the cache of compiled kernels. `dask.array.map_blocks` also works with a function that launches a
kernel.
"""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from cuda_device import CallError, GpuStream, Kernel, LaunchError, array, default_stream, numpy_dtype, zeros
from cuda_device.extend import bind, check_kernel, dataclass, defaults_of, parameters_of


@dataclass(frozen=True)
class _NewBlock:
    """See `output`."""

    dtype: np.dtype[Any]


def output(dtype: Any) -> _NewBlock:
    """Requests a new array as an argument of `launch`: zeros of this dtype, with the shape of the block."""
    return _NewBlock(numpy_dtype(dtype))


def launch(
    client: Any,
    f: Kernel,
    /,
    *args: Any,
    grid: Any = None,
    block: Any = None,
    threads: Any = None,
    shared: Any = 0,
    **kwargs: Any,
) -> Any:
    """Launches a kernel once for each block of Dask arrays, and returns the outputs as Dask arrays.

    The kernel gets the block of a Dask array in place of the array, and a new array like the first block in place of an
    `output`; other arguments are passed unchanged. It may only write to the outputs. Dask arrays must have the same chunks.
    `grid`, `block`, `threads` and `shared` are what `launch` takes, or functions of the kernel's arguments, as for
    `kernel.bind`; the default is a thread for each element of the block. If a worker has a GPU, NumPy blocks are copied to it
    and back; CuPy blocks stay there.

    `client` is a `distributed.Client`, whose workers start immediately; with None, nothing runs until the result is computed.
    Returns one Dask array if there is one output, and otherwise a tuple. Raises `LaunchError` for arrays that do not match.
    Errors of a launch are raised when the result is computed.
    """
    import dask.array as da

    check_kernel(f)
    if client is not None:
        _check_client(client)
    parameters = parameters_of(f.underlying)
    values = bind(f.underlying, args, kwargs, defaults_of(f.underlying))
    positions = [i for i, value in enumerate(values) if isinstance(value, da.Array)]
    output_positions = [i for i, value in enumerate(values) if isinstance(value, _NewBlock)]
    if not positions or not output_positions:
        missing = "a Dask array" if not positions else "an output"
        raise LaunchError(
            f"the arguments of {f.__name__} do not include {missing}",
            "pass a dask.array, and output(dtype) for what it writes",
        )
    first = values[positions[0]]
    for i in positions:
        if values[i].chunks != first.chunks:
            raise LaunchError(
                f"argument {i} has the chunks {values[i].chunks}, and argument {positions[0]} has {first.chunks}",
                "use x.rechunk(y.chunks)",
            )

    def one_for_each_element(*arguments: Any) -> Any:
        return arguments[positions[0]].shape

    if grid is None and threads is None:
        threads = one_for_each_element
    bound = f.bind(grid=grid, block=block, shared=shared, threads=threads)
    others = [None if i in positions else value for i, value in enumerate(values)]
    # A new name for the tasks, or Dask would take the results of an earlier call with the same arguments.
    run = partial(_on_block, bound, others, positions, parameters.names[parameters.positional :], uuid4().hex)
    signature = f"{','.join(['()'] * len(positions))}->{','.join(['()'] * len(output_positions))}"
    types = [values[i].dtype for i in output_positions]
    arrays = map(values.__getitem__, positions)
    results = da.apply_gufunc(run, signature, *arrays, output_dtypes=types if len(types) > 1 else types[0])
    outputs = results if isinstance(results, tuple) else (results,)
    if client is not None:
        outputs = tuple(client.persist(list(outputs)))
    return outputs if len(outputs) > 1 else outputs[0]


def _check_client(client: Any) -> None:
    from distributed import Client

    if not isinstance(client, Client):
        raise CallError(f"{client!r} is not the client of a cluster", "pass a distributed.Client")


def _on_block(
    bound: Callable[..., None],
    args: Sequence[Any],
    positions: Sequence[int],
    named: Sequence[str],
    _: str,
    /,
    *blocks: Any,
) -> Any:
    """Launches a kernel for one block, on a worker, and returns the outputs in the memory that blocks are in.

    The blocks take the `positions` among the arguments. `named` are the names of the last arguments, which are passed by name.
    """
    stream, shape = default_stream(), blocks[0].shape
    copied = isinstance(stream, GpuStream) and isinstance(blocks[0], np.ndarray)
    arguments = [zeros(shape, value.dtype, stream=stream) if isinstance(value, _NewBlock) else value for value in args]
    for i, block in zip(positions, blocks, strict=True):
        arguments[i] = array(block, stream=stream) if copied else block
    if 0 not in shape:
        positional = len(arguments) - len(named)
        bound(*arguments[:positional], **dict(zip(named, arguments[positional:], strict=True)), stream=stream)
    stream.synchronize()  # raises the errors of the kernel
    written = [arguments[i] for i, value in enumerate(args) if isinstance(value, _NewBlock)]
    if isinstance(stream, GpuStream) and not copied:
        import cupy

        outputs = tuple(map(cupy.asarray, written))
    else:
        outputs = tuple(output.numpy() for output in written)
    return outputs if len(outputs) > 1 else outputs[0]


def spmd(
    client: Any, function: Callable[..., Any], /, *args: Any, workers: Any = None, timeout: float = 60.0
) -> list[Any]:
    """Runs `function(ranks, *args)` once on each worker, all at the same time, and returns the results by rank.

    `ranks` has the `rank` of the worker, the number of workers as `size`, and `allgather(value)`, which returns the values of
    all workers and raises `TimeoutError` after `timeout` seconds. It can be passed to `SymmetricArray`. `workers` are
    addresses, by default those of all workers in the cluster. Each worker needs a free thread.

    Raises what the function raises, with a note that names the rank and the worker, and `LaunchError` if a worker is lost or has
    no free thread within `timeout` seconds. The other tasks are then cancelled, and the cluster remains usable. A task that does
    not end, such as an endless loop, keeps its thread until its worker is restarted; a note on the error says so.
    """
    from distributed import Queue, wait

    _check_client(client)
    known = sorted(client.nthreads())
    if isinstance(workers, str):
        raise CallError(f"workers={workers!r} is one address", f"pass a list of addresses: [{workers!r}]")
    chosen = known if workers is None else list(workers)
    if not chosen or not set(chosen) <= set(known):
        raise LaunchError(
            f"workers={chosen} for a cluster with the workers {known}", "start workers, or name running ones"
        )
    if len(set(chosen)) < len(chosen):
        raise LaunchError(f"workers={chosen} names a worker twice", "name each once: a worker has one rank")
    job = f"cuda_device-{uuid4().hex}"
    where = [f"rank {rank} ({worker})" for rank, worker in enumerate(chosen)]
    futures = [
        client.submit(
            function,
            WorkerRanks(job, rank, len(chosen), timeout),
            *args,
            workers=[worker],
            pure=False,
            retries=0,
        )
        for rank, worker in enumerate(chosen)
    ]
    inboxes = [Queue(_inbox(job, rank), client=client) for rank in range(len(chosen))]
    try:
        _watch(client, futures, chosen, where, timeout)
        return list(client.gather(futures))
    except BaseException as error:
        for inbox in inboxes:
            inbox.put(_STOP)
        with suppress(TimeoutError):
            wait([future for future in futures if future.status != "cancelled"], timeout=_GRACE)
        executing = _executing(client)
        late = [
            worker for worker, future in zip(chosen, futures, strict=True) if future.key in executing.get(worker, ())
        ]
        if late:
            error.add_note(f"tasks still run and keep a thread of their workers: client.restart_workers({late})")
        raise
    finally:
        client.cancel(futures, force=True)
        for inbox in inboxes:
            inbox.close()


def _watch(client: Any, futures: Sequence[Any], workers: Sequence[str], where: Sequence[str], timeout: float) -> None:
    """Waits for all tasks. Raises if one fails, loses its worker, or does not begin in time.

    Dask itself would wait until the worker returns, or has a free thread.
    """
    end, waiting = time.monotonic() + timeout, set(range(len(futures)))
    while not all(future.status == "finished" for future in futures):
        executing = _executing(client) if waiting else {}
        running = {key for keys in executing.values() for key in keys}
        waiting = {rank for rank in waiting if futures[rank].key not in running and not futures[rank].done()}
        for future, name in zip(futures, where, strict=True):
            if future.status == "error":
                error = future.exception()
                if waiting and isinstance(error, TimeoutError):
                    end = 0.0  # the task has waited for those that have not begun
                    break
                error.add_note(f"on {name}")
                raise error
        alive = client.nthreads()  # `scheduler_info` can lack workers while the client refreshes it
        lost = {f: name for f, w, name in zip(futures, workers, where, strict=True) if w not in alive and not f.done()}
        if lost:
            client.cancel(list(lost), force=True)
            raise LaunchError(
                f"{', '.join(lost.values())} was lost while its task ran",
                "look at the log of the worker, and start the job again",
            )
        # A worker that is merely slow has a free thread, and begins the task without help.
        busy = [rank for rank in sorted(waiting) if len(executing.get(workers[rank], ())) >= alive[workers[rank]]]
        if busy and time.monotonic() > end:
            raise LaunchError(
                f"{', '.join(where[rank] for rank in busy)} has had no free thread for {timeout:g} seconds",
                f"wait for its tasks, or end them: client.restart_workers({[workers[rank] for rank in busy]})",
            )
        time.sleep(_LOOK)


def _executing(client: Any) -> dict[str, set[str]]:
    """The keys of the tasks that each worker executes now."""
    with suppress(OSError):  # a worker has died
        return {worker: set(stacks) for worker, stacks in client.call_stack().items()}
    return {}


_LOOK = 0.1  # seconds between two checks of a job
_GRACE = 5.0  # seconds in which the other tasks can end after one has failed
_STOP = b""


def _inbox(job: str, rank: int) -> str:
    return f"{job}-{rank}"


class WorkerRanks:
    """The workers of an `spmd` job, from the view of one of them."""

    def __init__(self, job: str, rank: int, size: int, timeout: float) -> None:
        self.job, self.rank, self.size, self.timeout = job, rank, size, timeout
        self._turns = itertools.count()
        self._early: dict[tuple[int, int], Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerRanks, (self.job, self.rank, self.size, self.timeout)

    def allgather(self, value: Any, /) -> list[Any]:
        """Returns the values of all workers, by rank. Raises `TimeoutError` if not all have called it in time."""
        from distributed import Queue, get_client

        client, turn = get_client(), next(self._turns)
        data = pickle.dumps((turn, self.rank, value))
        for rank in range(self.size):
            Queue(_inbox(self.job, rank), client=client).put(data)
        inbox, end = Queue(_inbox(self.job, self.rank), client=client), time.monotonic() + self.timeout
        while missing := [rank for rank in range(self.size) if (turn, rank) not in self._early]:
            try:
                data = inbox.get(timeout=max(0.0, end - time.monotonic()))
            except TimeoutError:
                raise TimeoutError(
                    f"the ranks {missing} have not reached the point where rank {self.rank} waits"
                ) from None
            if data == _STOP:
                raise LaunchError(
                    f"rank {self.rank} waits for the ranks {missing}, one of which has failed",
                    "look at the error of that rank",
                )
            sent_turn, rank, sent_value = pickle.loads(data)
            self._early[sent_turn, rank] = sent_value
        return [self._early.pop((turn, rank)) for rank in range(self.size)]
