"""Launches by machine code: what `launch` does in Python, done in LLVM for arguments like those of launches before.

    for _ in range(8):
        device.launch(scale, 2.0, x, y, 32, grid=1, block=32)       # by Python, 20 µs each
    device.launch(scale, 3.0, x, y, 7, grid=4, block=256)           # by machine code, 0.5 µs and what the driver takes

After some launches by Python a kernel gets a *launcher*: a function, compiled for the types of these arguments, that looks
whether the arguments are of just these types, layouts and devices, reads them, and calls the driver. All that a launch in Python
notices, it notices: names that changed, reports of kernels, captures, contexts, sizes. At the first surprise it gives up, having
launched nothing, and Python makes the launch, or raises the error. Other streams that its arrays are made on it puts in order by
itself: each is waited for once, and waits once for the launch.

    plans             when a launcher is made, and what of it lives how long; the code that all launchers share, what it has to
                      know of this process, and how calls get to it
    signature         the launcher of one signature: checks, leaves, facts
    entry             from a call of `launch` to a launcher, and to the driver; parameters, packed
    object_reading    numbers, arrays of torch, CuPy and our own; grid, block, shared memory and streams
    memory_layout     records that both sides know
    guard_writer      the writer of LLVM IR, what may be called, and what a kernel read of the world, as a table

Nothing here trusts a pointer that it has not got from Python for an object whose type it has compared, and no function keeps a
reference. That a type stands in an object's second word, and that there is a global lock, is looked at before anything else
(`memory_layout.is_usable`); where it is not so, as in a free-threaded Python, all launches are Python's.
"""
