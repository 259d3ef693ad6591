"""Bugs planted in the compiler one at a time, to see whether the tests notice: `python -m tests.mutation --help`."""
