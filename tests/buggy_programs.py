"""Kernels with a mistake that checked mode has to find: each is right where its last argument is 0, and wrong where it is 1.

Every kernel gets `x`, the int32 numbers from 0 to 63, `m`, the same as 8 rows of 8, `out`, 64 int32, and `bug`. The line with
the mistake is marked: a report shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cuda_device as device


@dataclass(frozen=True)
class Program:
    """A program: what it reports, by which thread (None: the block), how it is launched, and whether a GPU can find it, too."""

    function: Callable[..., Any]
    message: str
    thread: int | None
    block: int
    shared: int
    on_gpu: bool


PROGRAMS: list[Program] = []


def reports(message: str, thread: int | None = 0, block: int = 32, shared: int = 0, on_gpu: bool = True) -> Any:
    """Adds a program to the table."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(Program(function, message, thread, block, shared, on_gpu))
        return function

    return add


@device.struct
class Cell:
    """A struct with an element of each size."""

    small: device.int8
    large: device.int64


# Bounds


@reports("index 64 is out of bounds for axis 0 of size 64", thread=31)
def load_behind_the_end(x, m, out, bug):
    i = device.tid(1)
    out[i] = x[i + 32 + bug]  # here


@reports("index 64 is out of bounds for axis 0 of size 64", thread=31)
def store_behind_the_end(x, m, out, bug):
    i = device.tid(1)
    out[i + 32 + bug] = x[i]  # here


@reports("index -65 is out of bounds for axis 0 of size 64", thread=0)
def load_before_the_start(x, m, out, bug):
    i = device.tid(1)
    out[i] = x[i - 64 - bug]  # here


@reports("index 8 is out of bounds for axis 0 of size 8", thread=7, block=8)
def load_below_the_last_row(x, m, out, bug):
    i = device.tid(1)
    out[i] = m[i + bug, 0]  # here


@reports("index 8 is out of bounds for axis 1 of size 8", thread=7, block=8)
def load_beside_a_row(x, m, out, bug):
    i = device.tid(1)
    out[i] = m[0, i + bug]  # here


@reports("index 8 is out of bounds for axis 0 of size 8", thread=0, block=1)
def row_that_is_not_there(x, m, out, bug):
    row = m[7 + bug]  # here
    out[0] = row[0]


@reports("index 4 is out of bounds for axis 0 of size 4", thread=0, block=1)
def element_of_a_slice(x, m, out, bug):
    few = x[10:30:5]
    out[0] = few[3 + bug]  # here


@reports("index 0 is out of bounds for axis 0 of size 0", thread=0, block=1)
def element_of_an_empty_slice(x, m, out, bug):
    out[0] = x[bug * 70 :][0]  # here


@reports("index 8 is out of bounds for axis 0 of size 8", thread=0, block=1)
def element_of_a_transposed_array(x, m, out, bug):
    out[0] = m.T[7 + bug, 3]  # here


@reports("index 3 is out of bounds for a vector of size 3", thread=0, block=1)
def element_of_a_vector(x, m, out, bug):
    v = device.int32x3(x[0], x[1], x[2])
    out[0] = v[x[2] + bug]  # here


@reports("index 3 is out of bounds for a tuple of size 3", thread=0, block=1)
def element_of_a_tuple(x, m, out, bug):
    out[0] = (7, x[1], 9)[x[2] + bug]  # here


@reports("index -5 is out of bounds for a vector of size 4", thread=0, block=1)
def assignment_to_an_element_of_a_vector(x, m, out, bug):
    v = device.int32x4(x[0], x[1], x[2], x[3])
    v[-4 - bug] = 7  # here
    out[0] = v.x


@reports("index 32 is out of bounds for axis 0 of size 32", thread=31)
def store_to_shared_memory(x, m, out, bug):
    tile = device.shared_array(32, device.int32)
    i = device.thread_idx.x
    tile[i] = x[i]
    tile[i + bug] = x[i]  # here
    out[i] = tile[i]


@reports("index 5 is out of bounds for axis 0 of size 5", thread=0, block=1)
def element_of_local_memory(x, m, out, bug):
    few = device.local_array(5, device.int32)
    few[4 + bug] = 1  # here
    out[0] = few[4]


@reports("index 16 is out of bounds for axis 0 of size 16", thread=0, block=1, shared=64)
def element_of_dynamic_shared_memory(x, m, out, bug):
    words = device.dynamic_shared_array().view(device.int32)
    words[15 + bug] = 1  # here
    out[0] = words[15]


@reports("index 64 is out of bounds for axis 0 of size 64", thread=0, block=1)
def atomic_behind_the_end(x, m, out, bug):
    device.atomic_ref(out, 63 + bug).add(1)  # here


@reports("index 2 is out of bounds for axis 0 of size 2", thread=0, block=1)
def member_of_a_struct_in_an_array(x, m, out, bug):
    cells = device.shared_array(2, Cell)
    cells[1 + bug].small = 3  # here
    out[0] = cells[1].small


@reports("index 9 is out of bounds for axis 0 of size 8", thread=0, block=1)
def bound_in_a_function(x, m, out, bug):
    out[0] = last_of(m[0], 7 + 2 * bug)


@device.func
def last_of(row, i):
    return row[i]  # here


# Arithmetic


@reports("integer division by zero", thread=0, block=1)
def floor_division(x, m, out, bug):
    out[0] = x[5] // (1 - bug)  # here


@reports("integer division by zero", thread=1)
def modulo(x, m, out, bug):
    i = device.tid(1)
    out[i] = 100 % (i - 1 if bug else 3)  # here


@reports("integer division by zero", thread=0, block=1)
def true_division_of_integers(x, m, out, bug):
    out[0] = int(x[6] / (1 - bug))  # here


@reports("integer division by zero", thread=0, block=1)
def divmod_of_integers(x, m, out, bug):
    q, r = divmod(x[7], device.int64(1 - bug))  # here
    out[0] = q + r


@reports("integer division by zero", thread=0, block=1)
def division_of_vectors(x, m, out, bug):
    v = device.int32x2(x[8], x[9]) // device.int32x2(2, 1 - bug)  # here
    out[0] = v.x


@reports("an integer cannot be raised to the power -1", thread=0, block=1)
def power_of_zero(x, m, out, bug):
    out[0] = x[1 - bug] ** (x[0] - 1)  # here


@reports("the step of a range cannot be 0", thread=0, block=1)
def step_of_a_range(x, m, out, bug):
    for i in range(0, 8, 2 - 2 * bug):  # here
        out[i] = i


@reports("the step of a slice cannot be 0", thread=0, block=1)
def step_of_a_slice(x, m, out, bug):
    out[0] = x[0 : 8 : 2 - 2 * bug][1]  # here


# Recursion


@device.func
def depth(n, x):
    return 0 if n == 0 else 1 + depth(n - 1, x) // (1 + x[0])  # here


@reports("the recursion is too deep: the stack is full", thread=0, block=1, on_gpu=False)
def recursion_without_an_end(x, m, out, bug):
    out[0] = depth(50 - 51 * bug, x)


# Shapes


@reports("an array of 64 elements cannot be reshaped to one of 72 elements", thread=0, block=1)
def reshape_to_more(x, m, out, bug):
    out[0] = x.reshape(8, 8 + bug)[7, 7]  # here


@reports("an array of length 8 cannot be unpacked into 9 names", thread=0, block=1)
def unpacking_a_row(x, m, out, bug):
    if bug:
        a, _, _, _, _, _, _, _, b = m[1]  # here
    else:
        a, _, _, _, _, _, _, b = m[1]
    out[0] = a + b


@reports("an array of 64 elements cannot be reshaped: the lengths that are given have the product 5", thread=0, block=1)
def reshape_with_an_unknown(x, m, out, bug):
    out[0] = x.reshape(4 + bug, -1)[3, 0]  # here


@reports("a last axis of 60 bytes cannot be divided into elements of 8 bytes", thread=0, block=1)
def view_of_too_few(x, m, out, bug):
    out[0] = x[0 : 16 - bug].view(device.int64)[0] >> 32  # here


@reports("which is not a multiple of 8", thread=0, block=1)
def view_in_between(x, m, out, bug):
    out[0] = x[bug : 8 + bug].view(device.int64)[0] >> 32  # here


@reports("the last axis has a step of 8 bytes, not of 4: it cannot be viewed in this way", thread=0, block=1)
def view_of_a_slice_with_steps(x, m, out, bug):
    out[0] = x[0 : 8 : 1 + bug].view(device.int8)[4]  # here


@reports("an axis of length 9 cannot be assigned to one of length 8", thread=0, block=1)
def assignment_of_too_many(x, m, out, bug):
    out[0:8] = x[0 : 8 + bug]  # here


# Variables


@reports("the variable 'v' is used before it has a value", thread=3)
def variable_of_one_branch(x, m, out, bug):
    i = device.tid(1)
    if i != 3 or not bug:
        v = x[i]
    out[i] = v  # here


@reports("the variable 'last' is used before it has a value", thread=0, block=1)
def variable_of_a_loop(x, m, out, bug):
    for last in range(1 - bug):  # noqa: B007
        out[0] = 1
    out[1] = last  # here


# Warps


@reports("the lanes of a mask must be integers from 0 to 31, not 32", thread=0)
def lane_of_a_mask(x, m, out, bug):
    mask = device.WarpMask(0x80000001)
    out[device.lane_id] = mask[31 + bug]  # here


@reports("the lanes of a mask must be integers from 0 to 31, not -1", thread=0)
def lane_to_put_into_a_mask(x, m, out, bug):
    mask = device.WarpMask(0)
    mask[x[0] - bug] = True  # here
    out[device.lane_id] = mask


@reports("src_lane must be an integer from 0 to 31, not 32", thread=31)
def shuffle_from_no_lane(x, m, out, bug):
    lane = device.lane_id
    out[lane] = device.shfl_sync(-1, x[lane], lane + bug)  # here


@reports("the lane 0 asks for the value of the lane 16, which is not in the mask", thread=0)
def shuffle_from_outside_the_mask(x, m, out, bug):
    lane = device.lane_id
    if lane < 16:
        out[lane] = device.shfl_sync(0xFFFF, x[lane], 15 + bug)  # here


@reports("the lane 15 asks for the value of the lane 16, which is not in the mask", thread=15)
def shuffle_down_from_outside_the_mask(x, m, out, bug):
    lane = device.lane_id
    if lane < 16:
        out[lane] = device.shfl_down_sync(0xFFFF, x[lane], bug)  # here


@reports("the lane 0 asks for the value of the lane 16, which is not in the mask", thread=0)
def shuffle_across_the_mask(x, m, out, bug):
    lane = device.lane_id
    if lane < 16:
        out[lane] = device.shfl_xor_sync(0xFFFF, x[lane], 8 + 8 * bug)  # here


@reports("delta must be an integer from 0 to 31, not -1", thread=0)
def shuffle_by_a_negative_distance(x, m, out, bug):
    out[device.lane_id] = device.shfl_up_sync(-1, x[device.lane_id], x[0] - bug)  # here


@reports("the mask 0x7fffffff does not include the lane 31, which passes it", thread=31)
def vote_without_the_caller(x, m, out, bug):
    lane = device.lane_id
    if lane < 31 or bug:
        out[lane] = device.any_sync(0x7FFFFFFF, lane == 5)  # here


@reports("the mask 0x00000002 does not include the lane 0, which passes it", thread=0)
def match_without_the_caller(x, m, out, bug):
    lane = device.lane_id
    out[lane] = device.match_any_sync(1 << (lane + bug), x[lane])  # here


@reports("the mask 0x0000ffff does not include the lane 16, which passes it", thread=16)
def meeting_without_the_caller(x, m, out, bug):
    if device.lane_id < 16 + bug:
        device.syncwarp(0xFFFF)  # here
    out[device.lane_id] = 1


@reports("deadlock in block (0, 0, 0): threads (0..15, 0, 0) wait", thread=None, on_gpu=False)
def meeting_that_some_lanes_skip(x, m, out, bug):
    lane = device.lane_id
    if lane < 16 or not bug:
        device.syncwarp(-1)  # here
    device.syncthreads()
    out[lane] = 1


# Barriers


@reports("divergent barrier", thread=None, block=64)
def barrier_after_a_return(x, m, out, bug):
    i = device.thread_idx.x
    if i >= 64 - bug:
        return
    device.syncthreads()  # here
    out[i] = 1


@reports("divergent barrier", thread=None, block=64)
def barriers_of_two_branches(x, m, out, bug):
    i = device.thread_idx.x
    if i < 64 - 32 * bug:
        device.syncthreads()  # here
    else:
        device.syncthreads()
    out[i] = 1


@reports("divergent barrier", thread=None, block=64)
def barrier_with_a_count_after_a_return(x, m, out, bug):
    i = device.thread_idx.x
    if bug and i < 32:
        return
    out[i] = device.syncthreads_count(i < 40)  # here


@reports("in block (0, 0, 0): threads (0..7, 0, 0) wait", thread=None, on_gpu=False)
def barrier_in_a_part_of_a_warp(x, m, out, bug):
    i = device.thread_idx.x
    if i < 8 or not bug:
        device.syncthreads()  # here
        out[i] = 1
    else:
        device.syncwarp(0xFFFFFF00)
        device.syncthreads()
