"""Programmatic dependent launch: a kernel starts while the previous one in its stream still runs.

    launch(first, x, y, grid=132, block=256)
    launch(second, y, z, grid=132, block=256, dependent=True)

    in `first`:     launch_dependents()      # when it no longer needs the GPU for itself: blocks of `second` may start
    in `second`:    wait_dependencies()      # before it reads y: `first` has ended

On CPU streams, a launch has ended before the next one starts, so both do nothing.
"""

from __future__ import annotations

from cuda_device import DeviceOnlyError, sm90
from cuda_device.plugins.tensor_cores.single_instructions import single


def launch_dependents() -> None:
    """Lets the next launch in the stream start early, if it is one with `dependent=True`.

    It may start when each block of this launch has called `launch_dependents` or ended, as far as there is room for its blocks.
    Without a call, it starts when this launch ends. Nothing is said about this launch's writes: the next kernel calls
    `wait_dependencies` before it reads them. Device code only, for sm_90 and later. PTX: griddepcontrol.launch_dependents.
    """
    raise DeviceOnlyError.of("launch_dependents")


def wait_dependencies() -> None:
    """Waits until the previous launch in the stream has ended, and sees all that it wrote.

    In a launch with `dependent=True`, every thread that uses what earlier launches write, or that writes what they use, calls it
    first. At least one thread must call it even if there is no such use, because later launches wait for this one alone. In
    other launches it does not wait. Device code only, for sm_90 and later. PTX: griddepcontrol.wait.
    """
    raise DeviceOnlyError.of("wait_dependencies")


# The launches of a CPU stream run one after the other.
single(launch_dependents, "griddepcontrol.launch_dependents;", sm90)
single(wait_dependencies, "griddepcontrol.wait;", sm90)
