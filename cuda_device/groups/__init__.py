"""Many GPUs in one process: groups of devices, arrays with a part on each, launches on all."""
