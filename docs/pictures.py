"""Draws the pictures of the documentation: `python docs/pictures.py` writes docs/pictures/*.svg.

They have a light background of their own, so that they can be read on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "pictures"
BACKGROUND, LINE, INK, FAINT = "#f6f8fa", "#57606a", "#1f2328", "#57606a"
BLUE, GREEN, ORANGE, GREY, RED = "#cfe4ff", "#d2f2d9", "#ffe3c2", "#e4e7eb", "#ffd6d6"


class Picture:
    """An SVG that grows: boxes, texts and arrows; coordinates are pixels from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size, self.title, self.parts = (width, height), title, list[str]()

    def box(self, x: float, y: float, width: float, height: float, fill: str, text: str = "", small: str = "") -> None:
        """A box with a text in its middle, and a smaller one below it."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{LINE}"/>'
        )
        middle = y + height / 2 + 5 - 8 * bool(small)
        self.text(x + width / 2, middle, text)
        self.text(x + width / 2, middle + 17, small, size=12, fill=FAINT)

    def text(
        self, x: float, y: float, text: str, size: int = 14, anchor: str = "middle", fill: str = INK, bold: bool = False
    ) -> None:
        """A line of text; `y` is its baseline."""
        weight = ' font-weight="600"' * bold
        if text:
            self.parts.append(
                f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{weight}>{escape(text)}</text>'
            )

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """A line through the points, with a head at its end."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' * dashed
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.4"{dash} marker-end="url(#head)"/>'
        )

    def __str__(self) -> str:
        width, height = self.size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="Helvetica, Arial, sans-serif">\n<title>{escape(self.title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def pipeline() -> Picture:
    """The stages of the compiler."""
    made = Picture(860, 300, "The stages of the compiler, from a Python function to machine code")
    front = (
        ("Python function", "bytecode"),
        ("python", "untyped IR"),
        ("typed", "types inferred"),
        ("device", "machine operations"),
    )
    for i, (name, what) in enumerate(front):
        made.box(20 + 165 * i, 30, 140, 56, GREY if not i else BLUE, name, what)
        if i:
            made.arrow((165 * i - 5, 58), (20 + 165 * i, 58))
    for y, fill, stages, end in (
        (125, GREEN, (("llvm", "NVPTX"), ("optimised", "LLVM IR"), ("ptx", "text"), ("cubin", "assembled")), "GPU"),
        (215, ORANGE, (("inlined", "functions that wait"), ("llvm", "regions"), ("native", "machine code")), "CPU"),
    ):
        for i, (name, what) in enumerate(stages):
            made.box(140 + 150 * i, y, 125, 56, fill, name, what)
            if i:
                made.arrow((115 + 150 * i, y + 28), (140 + 150 * i, y + 28))
        made.arrow((115 + 150 * len(stages), y + 28), (765, y + 28))
        made.box(765, y, 75, 56, GREY, end)
    made.arrow((585, 86), (585, 106), (90, 106), (90, 153), (140, 153))
    made.arrow((90, 153), (90, 243), (140, 243))
    made.text(680, 54, "typed by the arguments of the", 12, "start", FAINT)
    made.text(680, 70, "launch; then for each target", 12, "start", FAINT)
    return made


def smooth() -> Picture:
    """The first program of README: each thread reads three elements and writes one."""
    x = np.float32([0, 0, 0, 9, 0, 0, 6, 0])
    y = np.convolve(x, [1 / 3] * 3, "same") * (np.arange(8) % 7 > 0)
    chart = Picture(640, 264, "Eight threads smooth eight numbers; thread 4 reads three elements and writes one")
    for top, name, numbers in ((24, "x", x), (200, "y", y)):
        chart.text(24, top + 26, name, 16, "start", bold=True)
        for i, number in enumerate(numbers):
            chart.box(75 + 66 * i, top, 60, 40, GREEN if top > 100 and 0 < i < 7 else GREY, f"{number:g}")
    chart.text(24, 137, "thread", 14, "start", bold=True)
    for i in range(8):
        chart.box(75 + 66 * i, 112, 60, 40, BLUE if 0 < i < 7 else "#ffffff", f"{i}")
        if 0 < i < 7:
            chart.arrow((105 + 66 * i, 152), (105 + 66 * i, 198), dashed=i != 4)
            for j in (i - 1, i, i + 1) if i == 4 else (i,):
                chart.arrow((105 + 66 * j, 64), (105 + 66 * i + 12 * (j - i), 110), dashed=i != 4)
    return chart


def threads() -> Picture:
    """The threads of the tutorial's first launch, and the elements that they compute."""
    made = Picture(860, 240, "Four blocks of 256 threads compute the 1000 elements of an array")
    made.text(20, 62, "grid", 14, "start", bold=True)
    made.text(20, 182, "array", 14, "start", bold=True)
    for block in range(4):
        x = 90 + 190 * block
        made.box(x, 30, 180, 60, BLUE, f"block {block}", "threads 0 … 255")
        made.text(x + 90, 112, f"tid(1) = {256 * block} … {256 * block + 255}", 13)
        made.arrow((x + 90, 120), (x + 90, 148))
    made.box(90, 150, 731, 50, GREEN, "elements 0 … 999")
    made.box(821, 150, 19, 50, RED)
    made.text(840, 222, "threads 1000 … 1023 have nothing to do", 12, "end", FAINT)
    return made


def memory() -> Picture:
    """The memory spaces of a GPU, and who reaches them."""
    made = Picture(860, 340, "Memory spaces: who shares what")
    for block in range(2):
        x = 20 + 320 * block
        made.box(x, 20, 300, 160, "#ffffff")
        made.text(x + 150, 40, f"block {block}", bold=True)
        for thread in range(3):
            made.box(x + 15 + 92 * thread, 52, 84, 52, GREY, ("thread 0", "thread 1", "…")[thread], "registers, local")
        made.box(x + 15, 122, 270, 44, GREEN, "shared memory: shared_array")
        made.arrow((x + 57, 104), (x + 57, 122))
        made.arrow((x + 149, 104), (x + 149, 122))
        made.arrow((x + 150, 180), (x + 150, 212))
    made.box(20, 214, 620, 46, BLUE, "global memory: arrays, accessible to all threads of all launches")
    made.box(20, 280, 620, 40, GREY, "host memory: NumPy arrays")
    made.arrow((330, 280), (330, 260))
    made.arrow((345, 260), (345, 280))
    made.text(360, 275, "device.array(x), x.numpy()", 12, "start", FAINT)
    for y, text in (
        (80, "of one thread: fastest"),
        (148, "of the threads of a block: fast"),
        (242, "of all threads: large and slow"),
    ):
        made.text(655, y, text, 12, "start", FAINT)
    return made


ROOMS: Sequence[tuple[str, str, Sequence[str]]] = (
    ("plugins", GREY, ("launchers, starts", "cpp, ltoir, saved", "groups, graphs", "numba", "and 12 more")),
    ("the CPU target", ORANGE, ("cpu: code for CPU streams, scheduler, race detector",)),
    ("launching", "#fff3c4", ("runtime: launches, arrays, streams", "hooks, extend: where the rings meet")),
    (
        "generating code",
        GREEN,
        ("codegen: LLVM IR, PTX", "cache: on disk", "instrument: outline", "optimise: passes"),
    ),
    ("understanding the program", BLUE, ("lower: machine operations", "infer: types", "bytecode: untyped IR")),
    (
        "the foundations",
        "#ffffff",
        ("library: in Python", "device: CUDA's model", "ir: operations", "types: layout", "errors: messages"),
    ),
)


def house() -> Picture:
    """The folders of the package. Each floor imports from itself and from the floors below."""
    made = Picture(860, 474, "The plugins, the CPU target, and the folders of the core down to the foundations")
    made.parts.append(f'<polygon points="430,12 845,60 15,60" fill="{GREY}" stroke="{LINE}"/>')
    made.text(430, 48, "cuda_device", 16, bold=True)
    for floor, (name, fill, rooms) in enumerate(ROOMS):
        y = 66 + 62 * floor
        made.text(20, y + 32, name, 13, "start", FAINT)
        width = 650 / len(rooms)
        for i, room in enumerate(rooms):
            made.box(195 + width * i, y, width - 6, 54, fill, *room.split(": "))
    made.text(
        20,
        460,
        "A folder imports from folders of its own floor and of the floors below; plugins import public names and extend. "
        "Tests enforce this.",
        12,
        "start",
        FAINT,
    )
    return made


PICTURES = {"smooth": smooth, "pipeline": pipeline, "threads": threads, "memory": memory, "house": house}


def main() -> None:
    """Writes the pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(str(draw()))


if __name__ == "__main__":
    main()
