"""The garbage collector rests during the first compilation of a process, and is then as it was."""

import subprocess
import sys

import pytest

START = """
import gc, os
os.environ["CUDA_DEVICE_CACHE"] = "0"
import cuda_device as device
from cuda_device import collector

@device.kernel
def k(x):
    x[device.tid(1)] = value

value = 1
looks = []
gc.callbacks.append(lambda phase, info: looks.append(info["generation"]))

def compile():
    device.compile(k, device.ArrayType(device.float32, 1), output="ptx")

"""


def run(script):
    done = subprocess.run([sys.executable, "-c", START + script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_rests_once_and_is_then_as_it_was():
    run("""
device.compile, device.float32, device.ArrayType
usual = gc.get_threshold()
gc.collect()
looks.clear()
compile()
assert not looks, looks
assert gc.get_threshold() == usual and gc.isenabled()
assert gc.get_count()[0] < 100
with collector.resting():
    assert gc.get_threshold() == usual
""")


def test_garbage_is_found_afterwards():
    run("""
import weakref
class Object: pass
garbage = Object()
garbage.itself, gone = garbage, weakref.ref(garbage)
del garbage
with collector.resting():
    assert gc.get_threshold()[0] == collector.MANY
assert gone() is not None
gc.collect()
assert gone() is None
""")


def test_garbage_is_found_meanwhile_if_there_is_much():
    run("""
with collector.resting():
    for _ in range(3 * collector.MANY):
        cycle = []
        cycle.append(cycle)
assert looks
""")


@pytest.mark.parametrize("setting", ["gc.disable()", "gc.set_threshold(0)", "gc.freeze()"])
def test_what_others_set_stays(setting):
    run(f"""
{setting}
def state():
    return gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 1000
before = state()
compile()
assert state() == before
""")


def test_what_others_set_meanwhile_stays():
    run("""
with collector.resting():
    gc.set_threshold(321, 4, 5)
assert gc.get_threshold() == (321, 4, 5)
""")
