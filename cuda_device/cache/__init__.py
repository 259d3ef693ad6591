"""The cache of compiled kernels on disk: its keys, its files, and the search for valid entries."""
