"""`python -m cuda_device build`: compiles kernels to a folder for `device.load`, and for C++."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from cuda_device.plugins.saved.folders import build

HELP = "compile kernels to a folder for device.load, and for C++"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--target", default="sm_90", help="architectures, separated by commas (default: sm_90)")
    parser.add_argument(
        "--output", required=True, help="the folder for the files; files with the same names are replaced"
    )
    parser.add_argument("--fatbin", action="store_true", help="one file for all targets, made by nvFatbin")
    parser.add_argument("--ltoir", action="store_true", help="also write LTO-IR, for a linker")


def run(kernels: Sequence[tuple[Any, Sequence[tuple[Any, ...]]]], wanted: argparse.Namespace) -> list[str]:
    """Compiles kernels for their signatures. Returns the paths of the files."""
    targets = [target.strip() for target in wanted.target.split(",")]
    files = build(kernels, targets, wanted.output, fatbin=wanted.fatbin, ltoir=wanted.ltoir)
    return [os.path.join(wanted.output, file) for file in files]
