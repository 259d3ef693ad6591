"""Launchers: machine code that makes repeated launches in place of the Python code of `launch`.

    for _ in range(8):
        device.launch(scale, 2.0, x, y, 32, grid=1, block=32)       # by Python, 20 µs each
    device.launch(scale, 3.0, x, y, 7, grid=4, block=256)           # by machine code, 0.3 µs plus the driver's time

After a few launches by Python, a kernel gets a *plan* for the types of the arguments: a table with a row for each of them.
Machine code checks whether the arguments of a launch have exactly these types, layouts and devices, reads them, and calls the
driver. It checks everything that a launch in Python checks: changed variables, reports of kernels, captures, contexts, sizes. If
a check fails, machine code gives up without launching anything, and Python makes the launch or raises the error. Machine code
orders the launch with the other streams on which its arrays are produced: the launch waits once for each of them, and each waits
once for the launch.

The machine code is the same for all plans. It is written in Python, like the block scheduler of the CPU target, whose
`host_code` compiles it once on each machine.

    plans             decides when to make a plan; the machine code, the data of the process, and the hook into `launch`
    signature         describes the arguments of a plan by rows
    memory_layout     records that machine code and Python share, such as rows; the layout of Python's objects
    dependency_table  the names and contents that machine code compares before each launch
    framework_fields  where the arrays of CuPy and torch keep their fields

    entry             machine code: the path from a call of `launch` to a plan, and to the driver
    argument_reading  machine code that reads arguments by the rows of a plan
    object_reading    machine code that reads numbers, sizes and streams
    c_api             the functions of C that machine code calls

Machine code reads an object only after it has compared its type. `memory_layout.is_usable` checks the layout of Python's objects
and that there is a global lock. In other Pythons, such as free-threaded ones, and without the CPU target, Python makes all
launches.
"""
