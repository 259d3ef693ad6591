"""Tensor cores, asynchronous copies, and the barriers in memory on which they complete."""
