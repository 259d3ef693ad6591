"""What threads of a launch on the CPU tell it, in our own Python, as `scheduler`: reports, and events for the race detector.

keep(control, …)        a report of a thread, of which a launch keeps the first, and stops
trace(thread, …)        what a thread does, for the race detector
stopped(control)        whether a worker is to stop
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint32

from cuda_device.codegen.cpu.host_code import call
from cuda_device.codegen.cpu.records import BLOCK, CONTROL, EVENT, LOG, THREAD
from cuda_device.codegen.emit.dialect import Status
from cuda_device.device.atomics import atomic_ref
from cuda_device.device.memory import array_at

Block, Control, Event, Log, Thread = (record.dtype for record in (BLOCK, CONTROL, EVENT, LOG, THREAD))


def stopped(control: Any) -> Any:
    """Whether the launch is to stop."""
    return atomic_ref(array_at(Control, control)["stop"], 0).load("relaxed") != 0


def claim(control: Any) -> Any:
    """Whether this is the first report of a launch: no other is written."""
    return atomic_ref(array_at(Control, control)["status"], 0).cas(uint32(0), uint32(Status.CLAIMED), "acq_rel") == 0


def publish(control: Any, status: Any) -> None:
    """The end of every report: the status last, then the flag that stops all workers."""
    atomic_ref(array_at(Control, control)["status"], 0).store(uint32(status), "release")
    atomic_ref(array_at(Control, control)["stop"], 0).store(uint32(1), "release")


def keep(
    control: Any,
    block_x: Any,
    block_y: Any,
    block_z: Any,
    thread_x: Any,
    thread_y: Any,
    thread_z: Any,
    status: Any,
    place: Any,
    first: Any,
    second: Any,
) -> None:
    """A report of one thread, with two numbers for its message."""
    if claim(control):
        to = array_at(Control, control)
        to[0].report_block_x, to[0].report_block_y, to[0].report_block_z = block_x, block_y, block_z
        to[0].report_thread_x, to[0].report_thread_y, to[0].report_thread_z = thread_x, thread_y, thread_z
        to[0].place, to[0].value_0, to[0].value_1 = place, first, second
        publish(control, status)


def trace(thread: Any, place: Any, value: Any, done: Any) -> None:
    """Tells the race detector what a thread does. Such a launch has one worker: nobody else writes.

    The blocks of the grid are numbered as they are taken, x fastest.
    """
    own = array_at(Thread, thread)
    of = array_at(Block, own[0].block)
    plane = int64(of[0].index_z) * of[0].grid_y + of[0].index_y
    address = array_at(Control, of[0].control)[0].log
    to = array_at(Log, address)
    events, at = array_at(Event, to[0].events), to[0].count
    events[at].block, events[at].thread, events[at].place = plane * of[0].grid_x + of[0].index_x, own[0].linear, place
    events[at].value, events[at].done = value, done
    to[0].count = at + 1
    if at + 1 == to[0].capacity:
        call(to[0].full, address)
