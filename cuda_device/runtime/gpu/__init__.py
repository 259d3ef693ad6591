"""The CUDA driver: streams, loaded kernels, reports of kernels."""
