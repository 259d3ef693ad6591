"""A test that hangs fails, and says where; golden texts are compared, and written where that is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import golden_pages

TESTS = """
import threading, time

def test_hangs():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_comes_after():
    time.sleep(0.01)
"""


def run(folder: Path, *options: str, program: str = TESTS) -> subprocess.CompletedProcess[str]:
    (folder / "test_waiting.py").write_text(program)
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-c", "/dev/null", f"--rootdir={folder}", *options]
    environment = {"PYTHONPATH": f"{here}:{here.parent}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )


def test_a_test_that_hangs_ends(tmp_path: Path) -> None:
    done = run(tmp_path, "--most-seconds=1")
    assert done.returncode == 1
    assert 'test_waiting.py", line 7 in test_hangs' in done.stderr


def test_others_go_on_without_one_that_hangs(tmp_path: Path) -> None:
    done = run(tmp_path, "--most-seconds=1", "-n1")
    assert "crashed while running 'test_waiting.py::test_hangs'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


# Golden texts

GOLDEN_TESTS = """
import pathlib, sys, golden_pages, pytest
golden_pages.GOLDEN = pathlib.Path(__file__).parent / "golden"

def test_text(golden):
    golden("saxpy", "func @saxpy\\n")

@pytest.mark.skipif(sys.version_info >= (3,), reason="columns are CPython 2.7's")
def test_elsewhere(golden):
    golden("other", "text\\n")
"""


def golden_run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs them with a folder of golden texts of their own."""
    (folder / "golden").mkdir(exist_ok=True)
    return run(folder, *options, program=GOLDEN_TESTS)


def test_golden_texts_are_written_and_compared(tmp_path: Path) -> None:
    page = tmp_path / "golden" / "test_waiting.txt"
    golden_run(tmp_path, "--update-golden")
    assert page.read_text() == "=== saxpy\nfunc @saxpy\n"
    assert "1 passed, 1 skipped" in golden_run(tmp_path).stdout
    page.write_text("=== before\n1\n=== saxpy\nfunc @axpy\n")
    failed = golden_run(tmp_path).stdout
    assert "-func @axpy" in failed and "+func @saxpy" in failed and "1 failed, 1 skipped" in failed
    golden_run(tmp_path, "--update-golden")
    assert page.read_text() == "=== before\n1\n=== saxpy\nfunc @saxpy\n"


def test_update_golden_does_not_skip(tmp_path: Path) -> None:
    done = golden_run(tmp_path, "--update-golden")
    assert (
        "1 passed, 1 error" in done.stdout
        and "nothing is written here: Skipped: columns are CPython 2.7's" in done.stdout
    )


def test_a_release_may_have_a_text_of_its_own(tmp_path: Path) -> None:
    page, own = tmp_path / "golden" / "test_waiting.txt", f"=== saxpy ({golden_pages.RELEASE})\nfunc @saxpy\n"
    page.parent.mkdir()
    page.write_text("=== saxpy\nof others\n")
    golden_run(tmp_path, "--update-golden", "--apart")
    assert page.read_text() == f"=== saxpy\nof others\n{own}"
    assert "1 passed, 1 skipped" in golden_run(tmp_path).stdout
    page.write_text(page.read_text().replace("func", "fun"))
    golden_run(tmp_path, "--update-golden")
    assert page.read_text() == f"=== saxpy\nof others\n{own}"
