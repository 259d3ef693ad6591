"""Kernels on this machine's processors."""
