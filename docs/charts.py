"""Draws the charts of README and of the benchmarks: `python docs/charts.py` writes docs/pictures/*.svg.

The figures are those that the scripts of benchmarks/ have written: kernels.json (`kernels.py --json`), launch.json
(`launch.py --json`), start.json (`start.py --json`) and compile_suite.json (`compile_suite.py --json`). Systems that have
not been measured are labelled so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pictures import FAINT, FOLDER, GREY, LINE, Picture

MEASURED = Path(__file__).parents[1] / "benchmarks"
OURS = "cuda_device"
PEERS = ("CUDA C++", "numba-cuda", "Triton", "Warp")
DOT, MARK = "#4a7ab5", "#b3261e"
# The width of a chart, the ends of its axis, the height of a row, and that of a panel's heading.
WIDTH, LEFT, RIGHT, ROW, TOP = 640, 165, 575, 32, 72


def measured(name: str) -> Any:
    """The results that a benchmark has written."""
    return json.loads((MEASURED / f"{name}.json").read_text())


def ratios(results: Sequence[dict[str, Any]], peer: str) -> list[float]:
    """The time of ours over a peer's, for each kernel whose algorithm is the same in both."""
    seconds = {(r["contender"], r["kernel"]): r["seconds"] for r in results if r["right"] and r.get("alike", True)}
    return [seconds[OURS, kernel] / time for (name, kernel), time in seconds.items() if name == peer]


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios."""
    return math.exp(sum(map(math.log, values)) / len(values))


def heading(chart: Picture, y: float, title: str, note: str, source: str) -> None:
    """The title of a panel, and below it what its numbers mean and where they are from."""
    chart.text(16, y + 17, title, 17, "start", bold=True)
    chart.text(16, y + 38, note, 13, "start", FAINT)
    chart.text(16, y + 56, source, 13, "start", FAINT)


def across(ratio: float) -> float:
    """The x coordinate of a ratio on the logarithmic axis of `compare`. Ratios beyond an end are drawn at the end."""
    low, high = math.log2(0.2), math.log2(2.5)
    return LEFT + (RIGHT - LEFT) * (min(max(math.log2(ratio), low), high) - low) / (high - low)


def compare(chart: Picture, y: float, title: str, script: str, data: dict[str, Any], peers: Sequence[str]) -> None:
    """A row for each peer: a dot for each kernel at the ratio of the times, and a line at their geometric mean."""
    count = len({result["kernel"] for result in data["results"]})
    note = f"A dot for each of up to {count} kernels, a line at the geometric mean. Below 1, {OURS} is faster."
    machine = data["machine"].removesuffix(", scale 1.0").removeprefix("Compiling for ").replace("(R)", "")
    heading(chart, y, title, note, f"{machine}, benchmarks/{script}")
    top, bottom = y + TOP, y + TOP + ROW * len(peers)
    for ratio in (0.25, 0.5, 1, 2):
        chart.parts.append(
            f'<path d="M{across(ratio):.1f},{top:g} V{bottom:g}" stroke="{LINE if ratio == 1 else GREY}"/>'
        )
        chart.text(across(ratio), bottom + 16, f"{ratio:g}", 13, fill=FAINT)
    for row, peer in enumerate(peers):
        middle = top + ROW * (row + 0.5)
        chart.text(LEFT - 12, middle + 5, peer, 15, "end")
        relative = ratios(data["results"], peer)
        if not relative:
            chart.text(LEFT + 6, middle + 5, "not measured", 13, "start", FAINT)
            continue
        for ratio in relative:
            chart.parts.append(f'<circle cx="{across(ratio):.1f}" cy="{middle:g}" r="4.5" fill="{DOT}" opacity="0.5"/>')
        mean = geometric_mean(relative)
        chart.parts.append(f'<path d="M{across(mean):.1f},{middle - 12:g} v24" stroke="{MARK}" stroke-width="3"/>')
        chart.text(RIGHT + 14, middle + 5, f"{mean:.2f}", 15, "start", bold=True)


def bars(
    chart: Picture, y: float, words: tuple[str, str, str], rows: Sequence[tuple[str, float | None]], unit: str
) -> None:
    """A bar for each row, as long as its number; None has not been measured. `words` are those of the heading."""
    heading(chart, y, *words)
    most = max(number for _, number in rows if number is not None)
    for row, (name, number) in enumerate(rows):
        middle, is_ours = y + TOP + ROW * (row + 0.5), name.startswith(OURS)
        chart.text(LEFT - 12, middle + 5, name, 15, "end", bold=is_ours)
        if number is None:
            chart.text(LEFT + 6, middle + 5, "not measured", 13, "start", FAINT)
            continue
        length = (RIGHT - 30 - LEFT) * number / most
        chart.box(LEFT, middle - 11, length, 22, DOT if is_ours else GREY)
        chart.text(LEFT + length + 8, middle + 5, f"{number:.{int(number < 100)}f} {unit}", 14, "start")


def overview() -> Picture:
    """Kernels and launches, beside other systems."""
    kernels, launches = measured("kernels"), measured("launch")
    chart = Picture(WIDTH, 584, "Times of kernels and of launches, compared with other systems")
    compare(chart, 16, f"Kernels: the time of {OURS} relative to others", "kernels.py", kernels, PEERS)
    times = launches["microseconds"]
    rows = [("bare loop", times["bare loop"]), (OURS, times[f"3 {OURS} arrays, int"])]
    rows += [(name, times.get(name)) for name in ("cuda.core", "CuPy", "Triton", "Warp", "numba-cuda")]
    note = "Three arrays and a number. The bare loop calls the driver from machine code, the others from Python."
    source = f"{launches['machine']}, benchmarks/launch.py"
    bars(chart, 276, ("Launches: microseconds from the call to its return", note, source), rows, "µs")
    return chart


def starts() -> Picture:
    """The first result of a new process, and the compiler, beside other systems."""
    measurements, compiling = measured("start"), measured("compile_suite")
    chart = Picture(WIDTH, 480, "Times of starts and of compiling, compared with other systems")
    rows = [
        (result["system"], result["milliseconds"]["result"])
        for result in measurements["results"]
        if (result["where"], result["state"]) == ("gpu", "cold")
    ]
    note = "Saxpy in a new process with empty caches, NumPy and a CUDA context."
    source = f"{measurements['machine']}, benchmarks/start.py"
    bars(chart, 16, ("Starts: milliseconds from the import to the first result", note, source), rows, "ms")
    title = f"Compiling: the time of {OURS} relative to others"
    compare(chart, 276, title, "compile_suite.py", compiling, ("NVRTC", "numba-cuda", "Triton"))
    return chart


CHARTS = {"overview": overview, "starts": starts}


def main() -> None:
    """Writes the charts."""
    for name, draw in CHARTS.items():
        (FOLDER / f"{name}.svg").write_text(str(draw()))


if __name__ == "__main__":
    main()
