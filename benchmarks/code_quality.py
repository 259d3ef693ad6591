"""Our code beside that of CUDA C++ (NVRTC), for each kernel of the suite, without a GPU: instructions, registers, spills.

python benchmarks/code_quality.py [name …] [--target sm_90] [--sass folder]
"""

from __future__ import annotations

import argparse
import math
import subprocess
from pathlib import Path

import numpy as np
from assembly import Code, measure
from nvrtc import compile_cubin
from suite import SUITE, Row

import cuda_device as device


def ours(row: Row, target: str = "sm_90") -> bytes:
    """Our cubin."""
    code = device.compile(row.kernel, *row.problem(0).ours, target=target, launch_facts=True).code
    assert isinstance(code, bytes)
    return code


def theirs(row: Row, target: str = "sm_90") -> bytes:
    """The cubin of CUDA C++."""
    code: bytes = compile_cubin(row.cuda_source(), target)
    return code


def loops(text: str) -> list[int]:
    """The lengths of the innermost loops in nvdisasm's text, in instructions."""
    place, labels, spans = 0, {}, []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(".L_x_") and stripped.endswith(":"):
            labels[stripped[:-1]] = place
        elif stripped.startswith("/*"):
            place += 1
            if "BRA" in stripped and "`(" in stripped:
                target = stripped[stripped.index("`(") + 2 :].split(")")[0]
                if target in labels and labels[target] < place - 1:
                    spans.append((labels[target], place))
    inner = [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return [end - start for start, end in inner]


def disassemble(cubin: bytes, path: Path, nvdisasm: str) -> str:
    """The cubin's instructions, which are written beside it."""
    path.with_suffix(".cubin").write_bytes(cubin)
    text = subprocess.run(
        [nvdisasm, "-c", str(path.with_suffix(".cubin"))], capture_output=True, text=True, check=True
    ).stdout
    path.write_text(text)
    return text


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--sass", type=Path, help="a folder for the disassembled code; needs nvdisasm")
    parser.add_argument("--nvdisasm", default="nvdisasm", help="where nvdisasm is")
    options = parser.parse_args()
    rows = [row for row in SUITE if not options.names or any(name in row.name for name in options.names)]
    print(f"{'':24}{'instructions':>20}{'registers':>16}{'spills':>12}   innermost loops")
    ratios = []
    for row in rows:
        cubins = ours(row, options.target), theirs(row, options.target)
        symbols = row.kernel.underlying.__name__, row.cuda_symbol
        a, b = (measure(cubin, symbol) for cubin, symbol in zip(cubins, symbols, strict=True))
        ratios.append(a.instructions / b.instructions)
        shown = ""
        if options.sass:
            options.sass.mkdir(parents=True, exist_ok=True)
            stem = row.name.replace(" ", "_").replace(",", "")
            texts = [
                disassemble(cubin, options.sass / f"{stem}.{who}.sass", options.nvdisasm)
                for cubin, who in zip(cubins, ("ours", "cuda"), strict=True)
            ]
            symbol_texts = [text[text.index(f".text.{s}:") :] for text, s in zip(texts, symbols, strict=True)]
            symbol_texts = [t[: t.index(".section", 10)] if ".section" in t[10:] else t for t in symbol_texts]
            shown = "   {} | {}".format(*(" ".join(map(str, loops(text))) for text in symbol_texts))
        print(_line(row.name, a, b) + shown, flush=True)
    print(f"geometric mean of the ratios of instructions: {math.exp(np.mean(np.log(ratios))):.3f}")


def _line(name: str, a: Code, b: Code) -> str:
    return (
        f"{name:24}{a.instructions:6} {b.instructions:6} {a.instructions / b.instructions:6.2f}"
        f"{a.registers:8} {b.registers:6}{a.spills:6} {b.spills:5}"
    )


if __name__ == "__main__":
    main()
