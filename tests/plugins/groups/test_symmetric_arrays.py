"""Arrays with a part in each process of a job: kernels of all of them reach all parts."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import traceback
import warnings
from pathlib import Path
from queue import Empty

import numpy as np
import pytest

import cuda_device as device
from cuda_device import SymmetricArray, float32, int32
from cuda_device.runtime.gpu import driver

SECONDS = 60


class PipeRanks:
    """The processes of a job that queues connect."""

    def __init__(self, rank, inboxes):
        self.rank, self.size, self._inboxes = rank, len(inboxes), inboxes
        self._turn, self._early = 0, {}

    def allgather(self, value):
        turn, self._turn = self._turn, self._turn + 1
        for inbox in self._inboxes:
            inbox.put((turn, self.rank, value))
        while len([key for key in self._early if key[0] == turn]) < self.size:
            found, rank, given = self._inboxes[self.rank].get(timeout=SECONDS)
            self._early[found, rank] = given
        return [self._early.pop((turn, rank)) for rank in range(self.size)]


def _run(job, rank, inboxes, results):
    try:
        results.put((rank, job(PipeRanks(rank, inboxes)), None))
    except BaseException as error:
        results.put((rank, None, (type(error).__name__, str(error), traceback.format_exc())))


def run(job, size=2):
    """What `job(ranks)` returns in each of `size` processes, by rank, and the errors."""
    spawn = multiprocessing.get_context("spawn")
    inboxes, results = [spawn.Queue() for _ in range(size)], spawn.Queue()
    processes = [spawn.Process(target=_run, args=(job, rank, inboxes, results)) for rank in range(size)]
    for process in processes:
        process.start()
    try:
        found = sorted((results.get(timeout=SECONDS) for _ in processes), key=lambda result: result[0])
    except Empty:
        pytest.fail("a process has not come back")
    finally:
        for process in processes:
            process.join(10)  # it has said what it found, or hangs
            process.kill()
    return [result for _, result, _ in found], [error for _, _, error in found]


class Alone:
    """A job of one process."""

    rank, size = 0, 1

    def allgather(self, value):
        return [value]


def where(rank):
    """The default stream of a process: of a GPU of its own as far as there are enough, and of the CPU where there is none."""
    if driver.available():
        driver.make_current(rank % driver.device_count())
    return device.default_stream()


@device.kernel
def pull(x, out):
    i = device.tid(1)
    if i < len(out):
        out[i] = x[(x.rank + 1) % x.n_devices][i] + x.own[i]


@device.kernel
def add_own(x):
    i = device.tid(1)
    if i < len(x.own):
        x.own[i] += x.own[i]


def ring(ranks):
    stream = where(ranks.rank)
    with SymmetricArray(100, float32, ranks, stream=stream) as x:
        x.local()[...] = np.arange(100) + 1000 * ranks.rank
        stream.synchronize()
        ranks.allgather(None)
        out = device.zeros(100, stream=stream)
        device.launch(pull, x.part, out, grid=1, block=128, stream=stream)
        text = repr(x)
        of_next = x.local((ranks.rank + 1) % ranks.size).numpy()
    return out.numpy().tolist(), text, of_next.tolist()


@device.kernel
def exchange(flags, x):
    """Each process writes to the others, and tells them so."""
    for rank in range(x.n_devices):
        x[rank][x.rank] = 10 * x.rank + rank
    for rank in range(x.n_devices):
        device.signal(flags, rank)
    for rank in range(x.n_devices):
        device.wait_until(flags, rank)


def signals(ranks):
    stream = where(ranks.rank)
    with (
        SymmetricArray((1, ranks.size), int32, ranks, stream=stream) as flags,
        SymmetricArray(ranks.size, int32, ranks, stream=stream) as x,
    ):
        device.launch(exchange, flags.part, x.part, grid=1, block=1, stream=stream)
        return x.local().numpy().tolist()


def unequal(ranks):
    stream = where(ranks.rank)
    found = []
    for shape, dtype in (((4, 1 + (ranks.rank == 1)), float32), (4, int32 if ranks.rank == 1 else float32)):
        try:
            SymmetricArray(shape, dtype, ranks, stream=stream)
        except device.LaunchError as error:
            found.append(str(error))
    shape = -1 if ranks.rank == 1 else 1  # one that cannot be made in one process
    with pytest.raises(device.LaunchError, match="rank 1 failed making its part: ValueError: the shape"):
        SymmetricArray(shape, float32, ranks, stream=stream)
    return found, ring(ranks)[0][:3]


def failing(ranks):
    """In one process, what no list of errors would have."""
    stream, make = where(ranks.rank), SymmetricArray._make
    found = []
    for error in (ImportError("no such module"), device.KernelError("the context is broken")):

        def fail(*_, error=error):
            raise error

        SymmetricArray._make = fail if ranks.rank == 1 else make
        with pytest.raises(device.LaunchError) as caught:
            SymmetricArray(3, float32, ranks, stream=stream)
        found.append(str(caught.value))
    SymmetricArray._make = make
    return found, ring(ranks)[0][:3]


def leaves(ranks):
    """One process raises in the block and frees its part; the other one still has its own."""
    stream = where(ranks.rank)
    x = SymmetricArray(3, float32, ranks, stream=stream)
    x.local()[...] = np.arange(3) + 1000 * ranks.rank
    stream.synchronize()
    ranks.allgather(None)
    if ranks.rank == 1:
        with pytest.raises(ZeroDivisionError), x:
            raise ZeroDivisionError
        assert x._own is None and not x._opened
    ranks.allgather(None)
    if ranks.rank == 1:
        return None
    device.launch(add_own, x.part, grid=1, block=32, stream=stream)
    own = x.local().numpy().tolist()
    with pytest.raises(ZeroDivisionError), x:
        raise ZeroDivisionError
    return own


JOBS = (ring, signals, unequal, failing, leaves)


def all_jobs(ranks):
    return {job.__name__: job(ranks) for job in JOBS}


@pytest.fixture(scope="module")
def found():
    """What each job finds, by rank, in the same three processes."""
    results, errors = run(all_jobs, 3)
    assert errors == [None] * 3
    return {job.__name__: [result[job.__name__] for result in results] for job in JOBS}


def test_kernels_reach_the_parts_of_all_processes(found):
    for rank, (out, text, of_next) in enumerate(found["ring"]):
        beyond = 1000 * ((rank + 1) % 3)
        assert out == (2 * np.arange(100) + 1000 * rank + beyond).tolist()
        assert of_next == (np.arange(100) + beyond).tolist()
        assert text == f"<SymmetricArray of 3 arrays, shape=(100,) dtype=float32, rank {rank}>"


def test_processes_signal_to_each_other(found):
    assert found["signals"] == [[0, 10, 20], [1, 11, 21], [2, 12, 22]]


def test_unequal_parts_are_refused_by_all_processes_which_go_on(found):
    for rank, (errors, after) in enumerate(found["unequal"]):
        assert "the part of rank 1 is (4, 2) of dtype('float32'), and that of rank 0 is (4, 1)" in errors[0]
        assert "the part of rank 1 is (4,) of dtype('int32')" in errors[1]
        assert "help: create the array with the same shape and dtype in every process" in errors[0]
        assert after == NEXT[rank]


NEXT = [[1000, 1002, 1004], [3000, 3002, 3004], [2000, 2002, 2004]]


def test_every_error_is_told_to_all_processes(found):
    for rank, (errors, after) in enumerate(found["failing"]):
        assert errors == [
            "rank 1 failed making its part: ImportError: no such module",
            "rank 1 failed making its part: KernelError: the context is broken",
        ]
        assert after == NEXT[rank]


def test_an_exception_frees_the_part_of_its_process(found):
    assert found["leaves"] == [[0, 2, 4], None, [4000, 4002, 4004]]


class Failing(Alone):
    """A job whose other processes have gone."""

    calls = 0

    def allgather(self, value):
        self.calls += 1
        if value is None:
            raise TimeoutError("nobody comes")
        return [value]


def test_closing_frees_the_memory_whatever_fails():
    ranks = Failing()
    x = SymmetricArray(3, float32, ranks, stream=device.cpu_stream())
    before = ranks.calls
    with pytest.raises(TimeoutError, match="nobody comes"):
        x.close()
    assert x._own is None and ranks.calls == before + 2


def test_closing_twice_and_not_at_all():
    x = SymmetricArray((2, 3), float32, Alone(), stream=device.cpu_stream())
    assert (x.shape, x.dtype, len(x), x.rank) == ((2, 3), np.dtype("f4"), 1, 0)
    x.close()
    x.close()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        SymmetricArray(3, float32, Alone(), stream=device.cpu_stream())
        gc.collect()
    assert ["was not closed" in str(each.message) for each in seen if each.category is ResourceWarning] == [True]


class Deserted(Alone):
    """A job whose other processes die before this one has made its part."""

    def allgather(self, value):
        raise TimeoutError("nobody comes")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no folder to look into")
def test_no_file_is_left_behind():
    def files():
        return {name for name in os.listdir("/dev/shm") if name.startswith("cuda_device_")}

    before = files()
    x = SymmetricArray(3, float32, Alone(), stream=device.cpu_stream())
    assert files() <= before
    x.close()
    with pytest.raises(TimeoutError, match="nobody comes"):
        SymmetricArray(3, float32, Deserted(), stream=device.cpu_stream())
    assert files() <= before


def test_a_stream_that_is_none_is_told_to_all_processes():
    told = []

    class Listening(Alone):
        def allgather(self, value):
            told.append(value)
            return [value]

    with pytest.raises(device.LaunchError, match="rank 0 failed making its part: 'x' is not a stream"):
        SymmetricArray(3, float32, Listening(), stream="x")
    assert len(told) == 1


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_it_belongs_to_its_process(copied):
    with SymmetricArray(3, float32, Alone(), stream=device.cpu_stream()) as x:
        with pytest.raises(TypeError, match="a SymmetricArray belongs to its process"):
            copied(x)
        with pytest.raises(TypeError, match="what a kernel takes of a group belongs to its process"):
            copied(x.part)
        with pytest.raises(device.LaunchError, match="help: pass the part of this process: x.part"):
            device.launch(add_own, x, grid=1, block=1, stream=device.cpu_stream())


class Elsewhere(Alone):
    size = 2

    def __init__(self, **changes):
        self.changes = changes

    def allgather(self, value):
        offer, reason = value
        if offer is None:
            return [value, value]
        fields = {name: getattr(offer, name) for name in type(offer).__annotations__}
        return [value, (type(offer)(**fields | self.changes), reason)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"machine": "other"}, "rank 1 is on another machine than rank 0"),
        ({"device": "00"}, "rank 1 is on GPU 00, and rank 0 on the CPU"),
        ({"handle": "/nowhere"}, "opening the parts of the others: FileNotFoundError"),
    ],
)
def test_parts_that_cannot_be_reached(changes, reason):
    with pytest.raises(device.LaunchError, match=reason):
        SymmetricArray(3, float32, Elsewhere(**changes), stream=device.cpu_stream())


def test_what_is_no_job():
    with pytest.raises(device.LaunchError, match="ranks= is of type int, which has no rank, size and allgather"):
        SymmetricArray(3, float32, 5, stream=device.cpu_stream())
