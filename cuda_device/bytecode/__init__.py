"""Reads a function's bytecode into IR. Only `decode` and its tables depend on the version of CPython."""
