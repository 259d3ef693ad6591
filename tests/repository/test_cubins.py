"""The kernels of the examples compile to machine code from sm_80 to sm_120a, or an error names what an architecture lacks."""

import json
from collections import defaultdict
from pathlib import Path

import assembling
import pytest
from conftest import can_assemble
from processes import python

TESTS = Path(__file__).parent
EXAMPLES = TESTS.parents[1] / "examples"
COMPILED_ONLY = {"products_sm100"}
"""What no CPU stream runs, and the tests of which assemble it."""


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.needs("tensor_cores")
@pytest.mark.needs("tiles")
def test_examples_are_assembled_for_every_architecture(tmp_path):
    """The tests of the examples, which say how kernels are launched, run without executing these."""
    pytest.importorskip("scipy")
    if not all(can_assemble(architecture, "ptxas") for architecture in assembling.ARCHITECTURES):
        pytest.skip("no ptxas, without which requests for registers are ignored with a warning")
    tests = [file for file in TESTS.glob("test_*.py") if 'examples["' in file.read_text() and file != Path(__file__)]
    words = (
        "-m",
        "pytest",
        TESTS / "test_programs.py",
        *tests,
        "-q",
        "-p",
        "assembling",
        "-k",
        "not gpu and not nothing",
    )
    log = tmp_path / "log"
    python(*words, status=1, cwd=TESTS.parents[1], timeout=850, CUDA_DEVICE_ASSEMBLED=str(log))
    rows = list(map(json.loads, log.read_text().splitlines()))
    assert [row for row in rows if not row.get("lacking", True) or row.get("warnings")] == []
    lacking = defaultdict(set)
    for row in rows:
        lacking[row["module"]] |= {row["architecture"]} if row.get("lacking") else set()
    files = [file for folder in ("programs", "transformer") for file in EXAMPLES.glob(f"{folder}/[a-z]*.py")]
    files = [file for file in files if "device.kernel" in file.read_text() and file.stem not in COMPILED_ONLY]
    assert {*lacking} == {f"programs.{file.stem}" if file.parent.name == "programs" else file.stem for file in files}
    assert not any("sm_90a" in architectures for architectures in lacking.values())
    assert sum(not architectures for architectures in lacking.values()) > 30
