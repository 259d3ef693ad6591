"""python -m tests.fuzz --programs 200000 --seed 1 [--first N] [--jobs 4] [--stream machine] [--state FILE]

Runs programs `seed * 10**9 + first` and on, in several processes if asked. With `--state` it writes how far it has come to a file
(one for each process), and goes on from there when it is started again; a batch that ended the process counts as a failure.
Failures are made small and printed. The last lines say what was run, and how often each construct was in it. The exit status is 1
if there was a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

os.environ.setdefault("CUDA_DEVICE_CACHE", "0")
os.environ.setdefault("CUDA_DEVICE_VERIFY", "0")

import llvmlite.binding  # noqa: E402
from emulated_gpu import installed  # noqa: E402

import cuda_device as device  # noqa: E402
from fuzz.care import BATCH  # noqa: E402
from fuzz.generate import RUN, inputs, program  # noqa: E402
from fuzz.run import check, reduce  # noqa: E402


@dataclass
class State:
    """How far a run has come. `begun` is where a batch began that has not ended."""

    done: int = 0
    failures: list[int] = field(default_factory=list)
    seconds: float = 0.0
    begun: int = -1
    constructs: dict[str, int] = field(default_factory=dict)

    def add(self, other: State) -> None:
        """Adds what another process did."""
        self.done += other.done
        self.failures += other.failures
        self.seconds += other.seconds
        self.constructs = dict(Counter(self.constructs) + Counter(other.constructs))


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first program, counted from the seed's")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--batch", type=int, default=BATCH, help="programs in one kernel")
    parser.add_argument(
        "--stream",
        choices=("cpu", "gpu", "all", "machine"),
        default="all",
        help="all: those that there are; machine: the one of ptx_machine, which executes PTX",
    )
    parser.add_argument("--state", type=Path, default=None, help="a file that remembers how far the run has come")
    parser.add_argument("--reduce", type=float, default=60, help="seconds for making a failure small")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so much time")
    return parser.parse_args()


def has_gpu() -> bool:
    """Whether there is a GPU."""
    return isinstance(device.default_stream(), device.GpuStream)


def streams(which: str) -> list[device.Stream]:
    """The streams to run on."""
    found = [] if which in ("gpu", "machine") else [device.cpu_stream()]
    if which in ("gpu", "machine") or (which == "all" and has_gpu()):
        found.append(device.default_stream())
    return found


def load(path: Path | None) -> State:
    """The state in a file, or a new one."""
    return State(**json.loads(path.read_text())) if path and path.exists() else State()


def save(path: Path | None, state: State) -> None:
    """Writes a state, whole or not at all."""
    if path:
        new = path.with_name(f"{path.name}.new")
        new.write_text(json.dumps(asdict(state)))
        new.replace(path)


def run(given: argparse.Namespace) -> State:
    """Runs programs in this process."""
    state, used = load(given.state), streams(given.stream)
    if state.begun == state.done:
        print(f"the batch at {given.first + state.done} ended the process", flush=True)
        state.failures.append(given.seed * 10**9 + given.first + state.done)
        state.done += _size(given, state)
    start = last = time.monotonic()
    before = state.done
    while state.done < given.programs and time.monotonic() - start < given.seconds:
        state.begun = state.done
        save(given.state, state)
        try:
            _batch(given, state, used)
        except (KeyboardInterrupt, SystemExit):  # somebody stopped the run
            state.begun = -1
            save(given.state, state)
            raise
        state.seconds += time.monotonic() - last
        if int(last - start) // 60 != int(time.monotonic() - start) // 60:
            rate = (state.done - before) / (time.monotonic() - start)
            print(f"{state.done} programs, {len(state.failures)} failures, {rate:.0f} a second", flush=True)
        if state.begun == 0:  # what is there for good need not be looked at again and again
            gc.collect()
            gc.freeze()
            gc.set_threshold(1_000_000, 20, 100)
        last = time.monotonic()
    state.begun = -1
    save(given.state, state)
    return state


def _size(given: argparse.Namespace, state: State) -> int:
    """How many programs are in the next batch: none of another sort than the others."""
    at = given.first + state.done
    return int(min(given.batch, given.programs - state.done, RUN - at % RUN))


def _batch(given: argparse.Namespace, state: State, used: Sequence[device.Stream]) -> None:
    begin, size = given.seed * 10**9 + given.first + state.done, _size(given, state)
    values = inputs(begin)
    batch = [program(begin + k, values) for k in range(size)]
    failures = list(check(batch, values, used))
    for number in dict.fromkeys(failure.program.number for failure in failures):
        failure = next(each for each in failures if each.program.number == number)
        print(f"inputs({begin}): {reduce(failure, values, used, given.reduce)}", flush=True)
        state.failures.append(number)
    counted = Counter(state.constructs)
    for each in batch:
        counted += each.constructs()
    state.constructs = dict(counted)
    state.done += size


def run_all(given: argparse.Namespace) -> State:
    """Runs programs in several processes, each a part of them."""
    share, rest = divmod(-(-given.programs // RUN), given.jobs)
    parts, first = [], 0
    for job in range(given.jobs):
        count = min((share + (job < rest)) * RUN, given.programs - first)
        path = Path(f"{given.state or Path(tempfile.gettempdir(), f'fuzz-{os.getpid()}')}.{job}")
        command = [sys.executable, "-m", "tests.fuzz", "--jobs", "1", "--state", str(path), "--programs", str(count)]
        command += ["--first", str(given.first + first)]
        for name in ("seed", "batch", "stream", "reduce", "seconds"):
            command += [f"--{name}", str(getattr(given, name))]
        parts.append((path, subprocess.Popen(command)))
        first += count
    state = State()
    for path, process in parts:
        process.wait()
        part = load(path)
        if part.begun == part.done:
            part.failures.append(given.seed * 10**9 + part.done)
        state.add(part)
        if not given.state:
            path.unlink(missing_ok=True)
    return state


def main() -> int:
    """Runs, and returns the exit status."""
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.stream == "gpu" and not has_gpu():
        print("there is no GPU")
        return 2
    with installed() if given.stream == "machine" and given.jobs == 1 else contextlib.nullcontext():
        state = run_all(given) if given.jobs > 1 else run(given)
    counted = sorted(state.constructs.items(), key=lambda item: -item[1])
    print(", ".join(f"{name} {count}" for name, count in counted))
    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    print(
        f"{state.done} programs of seed {given.seed} from {given.first} on, {len(state.failures)} failures, "
        f"{state.seconds:.0f} s, stream {given.stream}, CPython {sys.version.split()[0]}, LLVM {llvm}"
    )
    return 1 if state.failures else 0


if __name__ == "__main__":
    sys.exit(main())
