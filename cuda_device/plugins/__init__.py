"""Plugins: what is built on `cuda_device` and `cuda_device.extend` alone. Deleting one leaves everything else working."""
