"""The GPU at run time: the CUDA driver, streams, and the reports of kernels."""
