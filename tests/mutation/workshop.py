"""A copy of the repository, in which bugs are planted and processes run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .sample import ROOT, Mutant

IDLE_SECONDS = 120  # without any processor time: nothing will ever come


@dataclass(frozen=True, slots=True)
class Done:
    """A process that has ended: its exit status, what it wrote, and whether it had to be ended as it did nothing."""

    status: int
    output: str
    stuck: bool = False


class Workshop:
    """The copy. It is made anew, so that nothing of an earlier compiler is in it: no bytecode, no cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("cuda_device", "cuda", "tests", "examples", "benchmarks", "docs"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / name, self.folder)
        loaded = self.python("-c", "import cuda_device; print(cuda_device.__file__)").output.strip()
        assert loaded == str(self.folder / "cuda_device/__init__.py"), f"{loaded} is not the copy"

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """The bug is there meanwhile."""
        target = self.folder / "cuda_device" / mutant.file
        target.write_text(mutant.text())
        try:
            yield
        finally:
            shutil.copy(ROOT / "cuda_device" / mutant.file, target)
            self._forget_bytecode()

    def _forget_bytecode(self) -> None:
        """A test may start a process that writes some, which would hide the next bug if it came within the same second."""
        for path in (self.folder / "cuda_device").rglob("__pycache__"):
            shutil.rmtree(path)

    def python(self, *arguments: str) -> Done:
        """Runs Python on the copy, with the lowest priority."""
        settings = {
            "PYTHONPATH": os.pathsep.join([str(self.folder), *_others()]), "HOME": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1", "CUDA_DEVICE_CACHE": "0", "PYTHONHASHSEED": "0",
        }  # fmt: skip
        output = self.folder / "output.txt"
        with output.open("w") as out:
            process = subprocess.Popen(
                ["nice", "-n", "19", sys.executable, *arguments],
                cwd=self.folder,
                env=os.environ | settings,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_hear_interrupts,
            )
            stuck = _watch(process)
        return Done(process.returncode, output.read_text(errors="replace"), stuck)


def _others() -> list[str]:
    """Where Python finds what is not ours, if it is not installed."""
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [path for path in found if path and Path(path).resolve() != ROOT]


def _hear_interrupts() -> None:
    """A shell lets what it starts in the background ignore them, and tests send some to themselves."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _watch(process: subprocess.Popen[bytes]) -> bool:
    """Waits for a process and its children. Ends them, and returns True, if they use no processor time."""
    used, since = -1.0, time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
            return False
        now = _processor_seconds(process.pid)
        if now > used + 0.05:
            used, since = now, time.monotonic()
        elif time.monotonic() - since > IDLE_SECONDS:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True


def _processor_seconds(session: int) -> float:
    """What the processes of a session have used, the dead children of living ones included."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")
