"""What to write instead: the `help` of errors about Python constructs and builtins that device code does not have."""

from __future__ import annotations

import numpy as np

CONSTRUCTS = {
    "a list": "use a tuple, or shared_array for memory",
    "a set": "use a tuple",
    "a dict": "use a tuple, or pass arrays",
    "a comprehension": "write a for loop",
    "a slice": "index the elements in a loop",
    "a nested function or lambda": "define it outside of the kernel",
    "an f-string": "device code has no strings: store numbers in an array and format them on the host",
    "try": "there are no exceptions to catch in device code: test with if",
    "with": "device code has no context managers",
    "yield": "return the values in a tuple, or write them to an array",
    "import": "import at the top of the module",
    "assignment to a global variable": "write to an array that the kernel takes as an argument",
    "del of a global variable": "device code cannot change globals",
    "class": "define it outside of the kernel",
    "in": "compare with == in a loop",
    "a call with *args or **kwargs": "write the arguments one by one",
    "del of an item": "arrays keep their size",
    "an assignment to an attribute": "only elements of arrays are assigned to",
    "unpacking with a star": "unpack into a name for each element",
    "raise": "write a mark to an array and raise on the host",
    "assert": "write a mark to an array and check it on the host",
    "a variable that a nested function captures": "pass it to the function as an argument",
}

_CALLS: dict[object, str] = {
    print: "store values in an array and print them on the host",
    pow: "write a ** b",
    sum: "add in a loop",
    sorted: "sort on the host, or write the algorithm",
    enumerate: "write for i in range(len(x))",
    zip: "write for i in range(len(x))",
    reversed: "write for i in range(n - 1, -1, -1)",
    isinstance: "types are known while compiling: use x.dtype == float32",
    open: "read the file on the host",
    input: "pass the value to the kernel as an argument",
}


def of_call(function: object) -> str:
    """What to do instead of calling `function`."""
    try:
        known = _CALLS.get(function)
    except TypeError:
        known = None
    if known:
        return known
    if isinstance(function, np.ufunc):
        return f"use math.{function.__name__}, if there is one"
    return "write it as a Python function, or compute it on the host"
