"""numba's names: `cuda_device.numba_compat` and `cuda_device.numba_random`."""
