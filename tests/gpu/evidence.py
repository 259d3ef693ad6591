"""What has run on a GPU: runs the tests, examples, sanitizers and benchmarks there, piece by piece, and keeps a record.

    python -m tests.gpu.evidence                 the pieces, and what the record says of each
    python -m tests.gpu.evidence programs litmus      runs these two
    python -m tests.gpu.evidence all             runs all that have not passed at this commit
    python -m tests.gpu.evidence all --logs DIR  keeps what each of them prints, whole

A piece takes less than eight minutes on an H200 with 16 processors; one that takes longer is stopped, and the record says so. The
record is `evidence.json`, beside this file; docs/evidence.md is made from it
(`pytest --update-golden tests/repository/test_evidence.py`). Without a GPU nothing runs, and nothing is recorded.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("evidence.json")
SECONDS = 8 * 60
SHARDS = 4
# Those that put threads, memory and synchronisation to the test, and make no mistakes on purpose.
SANITIZED = ("memory", "simt", "sync", "warp", "atomics", "atomic_values", "views", "wide_accesses")
TWO_GPUS = ("test_two_gpus.py", "test_groups.py", "test_processes.py")
ALONE = {"test_litmus.py", "test_two_gpus.py", "test_processes.py"}  # which are no part of the tests on one GPU
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")

Record = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Piece:
    """One run: `what` is for people, `words` are the command's. `tests`: it is pytest, whose results are kept test by test.

    `all` leaves out what needs more `gpus` than there are.
    """

    name: str
    what: str
    words: tuple[str, ...]
    tests: bool = False
    gpus: int = 1


def test_files() -> list[str]:
    """The modules with tests that the `stream` fixture runs on a GPU, and those that are about GPUs only."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"), key=lambda path: path.name)
    return [path.relative_to(ROOT).as_posix() for path in paths if path.name not in ALONE]


def _pytest(files: Sequence[str], which: str = "gpu", processes: int = 16) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-q", "-k", which, "-n", str(processes), "-p", "no:cacheprovider", *files)


def _sanitized(tool: str, *words: str) -> tuple[str, ...]:
    # Atomic operations on a byte read the word around it, whose other bytes other threads write: racecheck warns of that.
    level = ("--print-level", "error") if tool == "racecheck" else ()
    return ("compute-sanitizer", "--tool", tool, *level, "--target-processes", "all", "--error-exitcode", "9", *words)


def pieces() -> list[Piece]:
    """All there is to run."""
    files = test_files()
    shards = [files[number::SHARDS] for number in range(SHARDS)]
    two = [f"tests/gpu/{name}" for name in TWO_GPUS]
    programs = (sys.executable, "examples/programs")
    # The tools look at each block: at two thousand million of them for minutes.
    slow = [file for file in files if Path(file).stem.removeprefix("test_") in SANITIZED]
    sanitized = _pytest(slow, "gpu and not largest_grids", processes=4)
    return [
        *(
            Piece(f"tests-{number}", f"the tests on a GPU, part {number} of {SHARDS}", _pytest(shard), tests=True)
            for number, shard in enumerate(shards, 1)
        ),
        Piece("litmus", "the memory model and locks", _pytest(["tests/gpu/test_litmus.py"], processes=1), tests=True),
        Piece("two-gpus", "two GPUs at once", _pytest(two, processes=1), tests=True, gpus=2),
        Piece("groups", "groups of GPUs, compared with copies", (sys.executable, "benchmarks/groups.py"), gpus=2),
        Piece("programs", "examples/programs, compared with NumPy", programs),
        Piece("photo", "examples/photo.py", (sys.executable, "examples/photo.py")),
        *(Piece(f"{tool}-programs", f"the programs under {tool}", _sanitized(tool, *programs)) for tool in TOOLS),
        *(Piece(f"{tool}-tests", f"tests under {tool}", _sanitized(tool, *sanitized), tests=True) for tool in TOOLS),
        Piece("kernels", "the suite's kernels, compared with CUDA C++", (sys.executable, "benchmarks/kernels.py")),
        Piece("interop", "calls between Python and CUDA C++", (sys.executable, "benchmarks/interop.py")),
        Piece("cub", "CUB in Python and Python in CUB, compared with CUDA C++", (sys.executable, "benchmarks/cub.py")),
        Piece("launch", "launch overhead", (sys.executable, "benchmarks/launch.py")),
        Piece("start", "start-up time", (sys.executable, "benchmarks/start.py")),
        Piece("lifetimes", "a million launches that drop their arguments", (sys.executable, "benchmarks/lifetimes.py")),
    ]


def read_record(path: Path = RECORD) -> Record:
    """What is known of each piece that has run."""
    return json.loads(path.read_text()) if path.exists() else {}


def run(piece: Piece, seconds: float = SECONDS, logs: Path | None = None) -> dict[str, Any]:
    """Runs a piece; returns what there is to record of it. All that it prints goes to a file in `logs`."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        words = [*piece.words, f"--junitxml={results}"] if piece.tests else list(piece.words)
        start = time.monotonic()
        status, output = _execute(words, seconds)
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
            (logs / f"{piece.name}.txt").write_text(output)
        entry = {
            "status": "stopped" if status is None else "passed" if status == 0 else "failed",
            "seconds": round(time.monotonic() - start, 1),
            "command": " ".join("python" if word == sys.executable else word for word in piece.words),
            "end": output.replace(f"{ROOT}{os.sep}", "").strip().splitlines()[-12:],
        }
        if piece.tests:
            entry["tests"] = read_results(results.read_text()) if results.exists() else {}
            if entry["status"] == "passed" and not any(counts[0] for counts in entry["tests"].values()):
                entry["status"] = "failed"  # Everything was skipped: that is no evidence.
        return entry


def _execute(words: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """The exit status, None if it had to be stopped, and the output. All that the command has started ends with it."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        surroundings = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        process = subprocess.Popen(
            words, cwd=ROOT, env=surroundings, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return status, output.read()


def read_results(text: str) -> dict[str, list[int]]:
    """How many cases of each test function passed, failed and were skipped on a GPU, from pytest's XML."""
    counts: dict[str, list[int]] = {}
    for case in ET.fromstring(text).iter("testcase"):
        module, (name, _, parameters) = case.get("classname", ""), case.get("name", "").partition("[")
        if not module.startswith("tests.gpu.") and not re.search(r"\bgpu\b", parameters):
            continue
        kinds = {child.tag for child in case}
        place = 1 if kinds & {"failure", "error"} else 2 if "skipped" in kinds else 0
        counts.setdefault(f"{module}::{name}", [0, 0, 0])[place] += 1
    return {name: found for name, found in sorted(counts.items()) if found[0] or found[1]}


def place() -> dict[str, str]:
    """Where the pieces run: GPU, driver, versions, and the commit, with a mark where files differ from it."""
    import cuda_device as device
    from cuda_device.runtime.gpu import driver

    if not driver.available():
        raise SystemExit("no GPU here: nothing is run, and nothing is recorded")
    fields = "--query-gpu=name,driver_version,compute_cap"
    query = subprocess.run(["nvidia-smi", fields, "--format=csv,noheader"], capture_output=True, text=True, check=True)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "gpu": query.stdout.splitlines()[0],
        "gpus": str(driver.device_count()),
        "python": sys.version.split()[0],
        "commit": commit.stdout.strip(),
        "version": getattr(device, "__version__", ""),
        "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit status."""
    known = {piece.name: piece for piece in pieces()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*known, "all", []], metavar="name", help="a piece, or all")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="a folder for what the pieces print")
    parser.add_argument("--commit", help="what the files are, where git cannot tell: a copy of a checkout")
    options = parser.parse_args(arguments)
    names = options.names
    record = read_record()
    if not names:
        for piece in known.values():
            entry = record.get(piece.name, {})
            print(f"{piece.name:<20}{entry.get('status', 'not run'):<10}{entry.get('gpu', ''):<40}{piece.what}")
        return 0
    where = place() | ({"commit": options.commit} if options.commit else {})
    if "all" in names:
        done = {name for name, e in record.items() if (e["status"], e["commit"]) == ("passed", where["commit"])}
        names = [name for name, piece in known.items() if name not in done and piece.gpus <= int(where["gpus"])]
    for name in names:
        print(f"{name}: {known[name].what}", flush=True)
        record[name] = where | run(known[name], logs=options.logs)
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {record[name]['status']} in {record[name]['seconds']} s", *record[name]["end"], sep="\n  ")
    return 0 if all(record[name]["status"] == "passed" for name in names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
