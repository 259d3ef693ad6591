"""Plants bugs in a copy of the compiler and runs the fuzzer and the tests on it.

    python -m tests.mutation --count 100 --seed 1           samples from every file of the compiler, the same for a seed
    python -m tests.mutation --count 20 --only passes/lower

For each bug it prints who noticed: `fuzzer`, `tests`, or nobody. A bug that makes no difference (another order of things that do
not depend on each other, a limit that is one higher) is for the reader to explain.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
FOLDERS = ("bytecode", "ir", "passes", "device", "codegen", "types")


def main() -> int:
    """Returns 0 if every bug was noticed."""
    arguments = _arguments()
    rng = random.Random(arguments.seed)
    files = [
        file
        for folder in FOLDERS
        for file in sorted((ROOT / "cuda_device" / folder).rglob("*.py"))
        if arguments.only in str(file)
    ]
    every = [(file, mutant) for file in files for mutant in mutants(file.read_text())]
    chosen = rng.sample(every, min(arguments.count, len(every)))
    print(
        f"{len(every)} bugs can be planted in {len(files)} files; {len(chosen)} are, seed {arguments.seed}", flush=True
    )
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("cuda_device", "cuda", "tests", "examples", "benchmarks", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / name, copy)
        for number, (file, mutant) in enumerate(chosen, 1):
            start = time.monotonic()
            who = _notice(copy, file, mutant, arguments)
            outcomes[who] += 1
            where = file.relative_to(ROOT)
            print(f"{number:4} {who:8} {time.monotonic() - start:4.0f} s  {where}: {mutant}", flush=True)
    print(", ".join(f"{who}: {count}" for who, count in sorted(outcomes.items())))
    return int(outcomes["nobody"] > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many bugs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the names of the files")
    parser.add_argument("--programs", type=int, default=300, help="how many programs of the fuzzer")
    parser.add_argument(
        "--limit", type=int, default=900, help="seconds for the tests; a run that is longer has noticed"
    )
    parser.add_argument("--processes", default="auto", help="of pytest")
    return parser.parse_args()


def _notice(copy: Path, file: Path, mutant: Mutant, arguments: argparse.Namespace) -> str:
    """Who notices a bug."""
    target = copy / file.relative_to(ROOT)
    target.write_text(mutant.text)
    try:
        fuzzer = [sys.executable, "-m", "tests.fuzz", "--programs", str(arguments.programs), "--seed", "1"]
        if arguments.programs and not _passes(copy, fuzzer, arguments.limit):
            return "fuzzer"
        # pytest imports the package of the copy: it is first on the path.
        tests = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-n",
            arguments.processes,
            "-p",
            "no:cacheprovider",
            "tests",
        ]
        return "nobody" if _passes(copy, tests, arguments.limit) else "tests"
    finally:
        target.write_text(file.read_text())


def _passes(folder: Path, command: list[str], limit: int) -> bool:
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "CUDA_DEVICE_CACHE": "0"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, timeout=limit, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
