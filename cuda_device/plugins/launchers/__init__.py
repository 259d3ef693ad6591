"""Launchers: machine code that makes repeated launches in place of the Python code of `launch`.

    for _ in range(8):
        device.launch(scale, 2.0, x, y, 32, grid=1, block=32)       # by Python, 20 µs each
    device.launch(scale, 3.0, x, y, 7, grid=4, block=256)           # by machine code, 0.3 µs plus the driver's time

After a few launches by Python, a kernel gets a *launcher*: a function, compiled for the types of the arguments, that checks
whether the arguments have exactly these types, layouts and devices, reads them, and calls the driver. It checks everything that a
launch in Python checks: changed variables, reports of kernels, captures, contexts, sizes. If a check fails, the launcher gives up
without launching anything, and Python makes the launch or raises the error. The launcher orders the launch with the other streams
on which its arrays are produced: the launch waits once for each of them, and each waits once for the launch.

    plans             decides when to compile a launcher; the shared code, the data of the process, and the hook into `launch`
    signature         generates the launcher of one signature: checks, leaves, facts
    entry             the path from a call of `launch` to a launcher, and to the driver
    object_reading    reads numbers, arrays of torch, CuPy and this package, sizes and streams
    memory_layout     records that machine code and Python share; the layout of Python's objects
    framework_fields  where the arrays of CuPy and torch keep their fields
    guard_writer      the writer of LLVM IR, the functions that may be called, and the names of a kernel as a table

The machine code reads an object only after it has compared its type. `memory_layout.is_usable` checks the layout of Python's
objects and that there is a global lock. In other Pythons, such as free-threaded ones, Python makes all launches.
"""
