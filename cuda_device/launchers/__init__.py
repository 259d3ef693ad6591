"""Launchers: machine code that makes repeated launches in place of the Python code of `launch`.

    for _ in range(8):
        device.launch(scale, 2.0, x, y, 32, grid=1, block=32)       # by Python, 20 µs each
    device.launch(scale, 3.0, x, y, 7, grid=4, block=256)           # by machine code, 0.5 µs and what the driver takes

After a few launches by Python, a kernel gets a *launcher*: a function, compiled for the types of these arguments, that checks
whether the arguments have exactly these types, layouts and devices, reads them, and calls the driver. It checks everything that a
launch in Python checks: changed variables, reports of kernels, captures, contexts, sizes. If a check fails, the launcher gives up
without launching anything, and Python makes the launch or raises the error. The launcher itself orders the launch with the other
streams on which its arrays are computed: the launch waits once for each of them, and each waits once for the launch.

    plans             when a launcher is compiled, and the lifetimes of its parts; the code that all launchers share, the data of
                      the process that it needs, and the path from a call to it
    signature         the launcher of one signature: checks, leaves, facts
    entry             from a call of `launch` to a launcher, and to the driver; packs the parameters
    object_reading    reads numbers, arrays of torch, CuPy and this package; grid, block, shared memory and streams
    memory_layout     records that machine code and Python share
    guard_writer      the writer of LLVM IR, the functions that may be called, and the dependencies of a kernel, as a table

The machine code uses only pointers that it got from Python for an object whose type it has compared, and no function keeps a
reference. `memory_layout.is_usable` first checks that an object's second word is its type, and that there is a global lock. If
not, as in a free-threaded Python, Python makes all launches.
"""
