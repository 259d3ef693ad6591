"""LLVM's library is loaded ahead of its use: in a thread, once, and only where LLVM is needed."""

import subprocess
import sys

START = """
import sys, threading
import cuda_device as device
from cuda_device.codegen.gpu import ahead

def threads():
    return [thread for thread in threading.enumerate() if thread.name == "load LLVM"]

def libraries():
    return [line.split()[-1] for line in open("/proc/self/maps") if "llvmlite" in line]

ahead.load()
ahead.load()
assert len(threads()) <= 1
for thread in threads():
    thread.join()
assert "llvmlite" not in sys.modules
loaded = set(libraries())
"""


def run(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_the_library_that_llvmlite_loads():
    run(START + "assert len(loaded) == 1\nimport llvmlite.binding\nassert set(libraries()) == loaded")


def test_without_llvmlite_nothing_happens():
    run("import importlib.util\n"
        "importlib.util.find_spec = lambda name: None\n" + START + "assert not loaded")  # fmt: skip


def test_the_package_does_not_load_it_before_a_kernel_is_compiled():
    run("import cuda_device as device; device.launch; device.kernel\n"
        "assert 'llvmlite' not in open('/proc/self/maps').read()")  # fmt: skip
