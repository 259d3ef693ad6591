"""Launches by machine code: what `launch` does in Python, done in LLVM for arguments like those of launches before.

    for _ in range(8):
        device.launch(scale, 2.0, x, y, 32, grid=1, block=32)       # by Python, 20 µs each
    device.launch(scale, 3.0, x, y, 7, grid=4, block=256)           # by machine code, 0.5 µs and what the driver takes

After some launches by Python a kernel gets a *launcher*: a function, compiled for the types of these arguments, that looks
whether the arguments are of just these types, layouts and devices, reads them, and calls the driver. All that a launch in Python
notices, it notices: names that changed, reports of kernels, streams to be put in order, captures, contexts, sizes. It deals with
none of that: at the first surprise it gives up, having done nothing, and Python makes the launch, or raises the error.

    plans       when a launcher is made, and what of it lives how long
    signature   the launcher of one signature: checks, leaves, facts, parameters
    packing     parameters, packed
    running     kernels on the CPU: their arguments are read in the same way, and a function of Python runs them
    entry       the way from a call of `launch`, or of a prepared launch, to a launcher and to the driver
    where       grid, block, shared memory and streams
    reading     numbers, and arrays of torch, CuPy and our own
    names       what a kernel read of the world, as a table
    support     the code that all launchers share, compiled once for a machine
    process     what that code has to know of this process, and how calls get to it
    layout      records that both sides know
    code        the writer of LLVM IR; `functions` lists what may be called

Nothing here trusts a pointer that it has not got from Python for an object whose type it has compared, and no function keeps a
reference. That a type stands in an object's second word, and that there is a global lock, is looked at before anything else
(`layout.is_usable`); where it is not so, as in a free-threaded Python, all launches are Python's.
"""
