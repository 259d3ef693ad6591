"""What `import cuda_device` costs over `import numpy`, and what of it most.

python benchmarks/import_time.py [--count 15]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys

GOAL = 50.0  # milliseconds over NumPy
SCRIPT = """
import time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import cuda_device
print(1000 * (middle - start), 1000 * (time.perf_counter() - middle))
"""
MODULE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


def once() -> tuple[float, float]:
    """Milliseconds for NumPy and for ours after it, in a new process."""
    output = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True).stdout
    numpy, ours = map(float, output.split())
    return numpy, ours


def by_module() -> dict[str, float]:
    """Milliseconds that each module takes by itself, those of NumPy left out."""
    command = [sys.executable, "-X", "importtime", "-c", "import numpy; import cuda_device"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stderr.splitlines()
    rows = [match for match in map(MODULE.match, lines) if match]
    start = next(i for i, row in enumerate(rows) if row[2] == "numpy") + 1
    return {row[2]: int(row[1]) / 1000 for row in rows[start:]}


def main() -> None:
    """Prints the costs."""
    parser = argparse.ArgumentParser(description="What importing costs.")
    parser.add_argument("--count", type=int, default=15, help="how many processes")
    options = parser.parse_args()
    once()  # writes the bytecode files
    runs = [once() for _ in range(options.count)]
    for name, times in zip(("numpy", "cuda_device after it"), zip(*runs, strict=True), strict=True):
        print(f"{name:<24}{statistics.median(times):7.1f} ms, at least {min(times):.1f}")
    print(f"goal: {GOAL:.0f} ms, {'met' if min(ours for _, ours in runs) <= GOAL else 'MISSED'}")
    print("the most of it:")
    for module, milliseconds in sorted(by_module().items(), key=lambda row: -row[1])[:15]:
        print(f"    {module:<40}{milliseconds:6.1f}")


if __name__ == "__main__":
    main()
