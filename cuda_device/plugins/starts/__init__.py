"""Warm starts: the program of a kernel is found in the cache on disk without compiling it."""
