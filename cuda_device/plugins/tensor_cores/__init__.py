"""Tensor cores, asynchronous copies and barriers in memory: the instructions of Hopper and later GPUs as device functions."""
