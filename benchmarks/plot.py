"""A plot of what `kernels.py --json` or `compile_suite.py --json` has measured: each system's times over those of CUDA C++.

    python benchmarks/plot.py results.json --output results.svg

The same results give the same file. Needs matplotlib (`pip install '.[examples]'`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

REFERENCES = ("CUDA C++", "NVRTC")
"""What others are compared with: the first of these that is there."""
MARKS = {
    "cuda_device": ("o", "#d62728"),
    "cuda_device fast": ("x", "#d62728"),
    "CUDA C++ fast": ("|", "#7f7f7f"),
    "numba-cuda": ("s", "#1f77b4"),
    "Warp": ("^", "#2ca02c"),
    "Triton": ("D", "#9467bd"),
}


def reference_of(results: list[dict[str, Any]]) -> str:
    """What the results are compared with."""
    found = {result["contender"] for result in results}
    return next((name for name in REFERENCES if name in found), REFERENCES[0])


def ratios(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each contender, its time over the reference's, by kernel; wrong results are left out."""
    seconds = {(r["contender"], r["kernel"]): r["seconds"] for r in results if r["right"]}
    reference = reference_of(results)
    kernels = list(dict.fromkeys(r["kernel"] for r in results))
    return {
        contender: {
            kernel: seconds[contender, kernel] / seconds[reference, kernel]
            for kernel in kernels
            if (contender, kernel) in seconds and (reference, kernel) in seconds
        }
        for contender in MARKS
    }


def draw(measured: dict[str, Any], output: Path) -> None:
    """Draws the plot: a row for each kernel, a mark for each contender; to the left of 1 is faster than CUDA C++."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "cuda_device", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    found = ratios(measured["results"])
    kernels = list(dict.fromkeys(kernel for some in found.values() for kernel in some))
    places = {kernel: -i for i, kernel in enumerate(kernels)}
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.24 * len(kernels)), layout="constrained")
    for contender, some in found.items():
        if some:
            mark, colour = MARKS[contender]
            heights = [places[kernel] for kernel in some]
            axes.plot(list(some.values()), heights, mark, color=colour, label=contender, linestyle="none")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yticks([places[kernel] for kernel in kernels], kernels)
    axes.set_xlabel(f"time over that of {reference_of(measured['results'])} (less is faster)")
    axes.set_title(measured["machine"], fontsize="small")
    axes.grid(axis="x", linewidth=0.3)
    axes.legend(fontsize="small")
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)
    plt.close(figure)


def main() -> None:
    """Reads the results and draws them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the file of kernels.py --json")
    parser.add_argument("--output", type=Path, default=Path("results.svg"), help="an image: its suffix says which kind")
    options = parser.parse_args()
    draw(json.loads(options.results.read_text()), options.output)


if __name__ == "__main__":
    main()
