"""What a start costs: milliseconds from the import to the first result of saxpy, in new processes, cold and warm.

    python benchmarks/start.py [--count 5] [--at-once 64] [--json start.json]

Each program (`starts/`) begins with NumPy imported and a CUDA context, and ends its first launch with the result on the host; a
second specialisation follows, of float64. Those of CuPy (RawKernel, by NVRTC), numba-cuda and Triton do the same beside ours
where there is a GPU. They take turns, and each row is the median of its processes. `cold` is with an empty cache on disk,
NVIDIA's own switched off; `warm` is with one that holds both; `saved` loads a kernel that was compiled ahead of time. Where
there is no GPU, the tests' stand-in for the driver takes part in all but running the kernel. The parts of the first launch and
of the next one stand behind: the compiler's stages with the modules that they import (`cubin` is the assembler's), loading, and
what is left for the launch itself; `apart` has the imports of the compiler in a part of their own. At last so many processes
start at once on an empty cache.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SHARED = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
# Where a library keeps what it compiled; what keeps the driver from keeping anything.
FOLDERS = ("CUDA_DEVICE_CACHE", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR")
COLD = {"CUDA_CACHE_DISABLE": "1"}
COLUMNS = ("import", "names", "arrays", "first", "result", "next")
MOST_OF_CUPY = 0.7
NEXT = 15.0
WARM = 10.0
SAVED = 30.0
KEEPING = ("warm", "saved")
"""The states in which there is a cache."""

Run = dict[str, Any]


@dataclass
class Program:
    """A program in a state: cold, warm or saved."""

    script: str
    state: str
    words: tuple[str, ...] = ()
    most: int = 3
    """How many processes there are at most."""
    runs: list[Run] = field(default_factory=list)

    def run(self, kept: str) -> None:
        """Starts it once; `kept` is the folder of a warm cache."""
        with folder() as empty:
            keeps = self.state in KEEPING
            self.runs.append(once(self.script, *self.words, cache=kept if keeps else empty, cold=not keeps))

    def medians(self) -> dict[str, float]:
        """Milliseconds by part. All times but those of the next specialisation are on the way to the first result."""
        found = {
            part: 1000 * statistics.median(run["parts"][part] for run in self.runs) for part in self.runs[0]["parts"]
        }
        found["result"] = 1000 * statistics.median(
            sum(run["parts"].values()) - run["parts"]["next"] for run in self.runs
        )
        return found

    def show(self) -> dict[str, float]:
        """Prints and returns the medians."""
        found = self.medians()
        name = f"{self.runs[0]['version']}, {' '.join(self.words[:1])} {self.state}"
        print(f"{name:<34}" + "".join(f"{found[part]:8.1f}" for part in COLUMNS), end="   ")
        print(self.parts("stages"))
        if self.runs[0].get("next_stages"):
            print(f"{'':<{34 + 8 * len(COLUMNS)}}   of the next: {self.parts('next_stages')}")
        return found

    def parts(self, kind: str) -> str:
        """The medians of the parts of a launch that take a while."""
        found = {
            part: 1000 * statistics.median(run[kind].get(part, 0.0) for run in self.runs) for part in self.runs[0][kind]
        }
        return " ".join(f"{part} {time:.1f}" for part, time in found.items() if time >= 0.1)


def once(script: str, *words: str, cache: str, cold: bool = False) -> Run:
    """What one process measures."""
    environment = {**os.environ, **SHARED, **dict.fromkeys(FOLDERS, cache), **(COLD if cold else {})}
    command = [sys.executable, str(ROOT / "benchmarks" / "starts" / script), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    found: Run = json.loads(done.stdout.splitlines()[-1])
    return found


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A cache that is empty."""
    with tempfile.TemporaryDirectory() as made:
        yield made


def ours(where: str, count: int) -> list[Program]:
    """Our programs in a place."""
    counts = {"cold": count, "apart": 3, "warm": count}
    found = [Program("with_ours.py", state, (where, state), most) for state, most in counts.items()]
    return found + [Program("with_saved.py", "saved", (where,), count)] * (where != "cpu")


def peers(count: int) -> list[Program]:
    """Those of other libraries."""
    most = {"with_cupy.py": count, "with_numba.py": 3, "with_triton.py": 3}
    return [Program(script, state, (), most[script]) for script in most for state in ("cold", "warm")]


def measure(programs: list[Program], count: int) -> dict[tuple[str, str], dict[str, float]]:
    """Runs the programs in turns and prints a row for each; those that cannot run are left out."""
    able = []
    with folder() as kept:
        for program in programs:
            try:
                once(program.script, *program.words, cache=kept)  # writes bytecode files, too
                able.append(program)
            except RuntimeError as error:
                print(f"{program.script} cannot be measured: {error}")
        for number in range(count):
            for program in able:
                if number < program.most:
                    program.run(kept)
    return {(program.script, program.state): program.show() for program in able}


def row_of(program: Program) -> dict[str, Any] | None:
    """The row of a program in the JSON file; None if the program cannot run."""
    if not program.runs:
        return None
    times = {part: round(time, 1) for part, time in program.medians().items()}
    where = program.words[0] if program.words else "gpu"
    return {"system": program.runs[0]["version"], "where": where, "state": program.state, "milliseconds": times}


def judge(what: str, milliseconds: float, most: float) -> None:
    """Prints whether a goal is met."""
    print(f"  {what}: {milliseconds:.1f} ms, goal {most:.1f}: {'met' if milliseconds <= most else 'MISSED'}")


def judge_ours(found: dict[tuple[str, str], dict[str, float]]) -> None:
    """Prints which goals are met."""
    cold, warm = found["with_ours.py", "cold"], found["with_ours.py", "warm"]
    judge("the next specialisation", cold["next"], NEXT)
    judge("warm, the first launch after the import", warm["first"], WARM)
    judge("saved, the first result", found["with_saved.py", "saved"]["result"], SAVED)
    cupy = found.get(("with_cupy.py", "cold"))
    if cupy:
        print(f"  from the import to the first result, over CuPy's: {cold['result'] / cupy['result']:.2f}")
        judge("cold, the first result", cold["result"], MOST_OF_CUPY * cupy["result"])


def at_once(count: int) -> None:
    """Starts `count` processes on one empty cache; each of them checks its result."""
    with folder() as cache:
        start = time.perf_counter()
        environment = {**os.environ, **SHARED, "CUDA_DEVICE_CACHE": cache}
        command = [sys.executable, str(ROOT / "benchmarks" / "starts" / "with_ours.py"), "cpu", "warm"]
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        found = [json.loads(process.communicate()[0])["found"] for process in running]
        assert all(process.returncode == 0 for process in running)
        seconds = time.perf_counter() - start
        assert once("with_ours.py", "cpu", "warm", cache=cache)["found"] == [2, 2, 0]
    hits = sum(hits for hits, _, _ in found)
    print(f"{count} at once: {seconds:.1f} s, all results right, {hits} found in the cache")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="What a start costs.")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--count", type=int, default=5, help="how many processes a row")
    parser.add_argument("--at-once", type=int, default=64, help="how many processes start at once")
    options = parser.parse_args()
    import cuda_device as device
    from cuda_device.runtime.gpu import driver

    print(f"{'milliseconds':<34}" + "".join(f"{part:>8}" for part in COLUMNS) + "   of the first: its parts")
    rows: list[dict[str, Any]] = []
    for where in ("cpu", "gpu" if driver.available() else "fake"):
        programs = ours(where, options.count)
        programs += peers(options.count) if where == "gpu" else []
        found = measure(programs, options.count)
        rows += [row for row in map(row_of, programs) if row]
        assert all(run["found"] == [0, 0, 2] for run in programs[0].runs)
        assert all(run["found"] == [2, 2, 0] for run in programs[2].runs)
        if where != "cpu":
            judge_ours(found)
    if options.json:
        machine = f"{getattr(device.default_stream(), 'device_name', 'no GPU')}, {datetime.now(UTC).date()}"
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        options.json.write_text(f'{{\n "machine": {json.dumps(machine)},\n "results": [\n{lines}\n ]\n}}\n')
    if options.at_once:
        at_once(options.at_once)


if __name__ == "__main__":
    main()
