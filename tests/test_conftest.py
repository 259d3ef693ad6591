"""A test that hangs fails, and says where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import threading, time

def test_hangs():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_comes_after():
    time.sleep(0.01)
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_waiting.py").write_text(TESTS)
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
