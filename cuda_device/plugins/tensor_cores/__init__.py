"""Tensor cores, asynchronous copies, and the barriers that they complete on: entities of device code, a file for each subject."""
