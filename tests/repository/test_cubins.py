"""The kernels of the examples compile to machine code from sm_80 to sm_120a, or an error names what an architecture lacks."""

from collections import defaultdict
from pathlib import Path

import pytest
from conftest import can_assemble
from processes import python

TESTS = Path(__file__).parent
EXAMPLES = TESTS.parents[1] / "examples"
ARCHITECTURES = "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"
COMPILED_ONLY = {"products_sm100"}
"""What no CPU stream runs, and the tests of which assemble it."""


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.needs("tensor_cores")
@pytest.mark.needs("tiles")
def test_examples_are_assembled_for_every_architecture(tmp_path):
    """Runs the tests of the examples on the CPU stream, where each kernel that they compile is also assembled."""
    pytest.importorskip("scipy")
    if not all(map(can_assemble, ARCHITECTURES)):
        pytest.skip("no assembler")
    log = tmp_path / "log"
    tests = [file for file in TESTS.glob("test_*.py") if '"transformer"' in file.read_text() and file != Path(__file__)]
    environment = {"CUDA_DEVICE_TEST_CUBINS": " ".join(ARCHITECTURES), "CUDA_DEVICE_TEST_CUBINS_LOG": str(log)}
    options = "-q", "-x", "-p", "no:cacheprovider", "-k", "cpu and not nothing and not races and not ragged"
    files = TESTS / "test_programs.py", *tests
    python("-m", "pytest", *files, *options, cwd=TESTS.parents[1], timeout=850, **environment)
    compiled, lacking = defaultdict(set), defaultdict(set)
    for line in log.read_text().splitlines():
        module, _, architecture, reason = line.split(" ", 3)
        (lacking if reason else compiled)[module].add(architecture)
    files = [file for folder in ("programs", "transformer") for file in EXAMPLES.glob(f"{folder}/[a-z]*.py")]
    files = [file for file in files if "device.kernel" in file.read_text() and file.stem not in COMPILED_ONLY]
    modules = {f"programs.{file.stem}" if file.parent.name == "programs" else file.stem for file in files}
    assert {*compiled} == modules
    assert all(compiled[module] | lacking[module] == {*ARCHITECTURES} for module in modules)
    assert not any("sm_90a" in architectures for architectures in lacking.values())
    assert len({module for module in modules if not lacking[module]}) > 30
