"""Kernels that are compiled ahead of time: files, folders and fatbins of them, and their launches without the compiler.

device.compile(saxpy, float32, floats, floats).save("saxpy.cubin")             saxpy.cubin, saxpy.cubin.json
device.load("saxpy.cubin").launch(2.0, x, y, grid=4, block=256)
device.build([(saxpy, [(float32, floats, floats)])], ["sm_90"], "out")         out/saxpy-5f0c3a1b.sm_90.cubin, out/index.json
device.load("out")["saxpy"].launch(2.0, x, y, grid=4, block=256)
"""

from cuda_device.plugins.saved.files import load, save
from cuda_device.plugins.saved.loaded_kernel import LoadedKernel

__all__ = ["LoadedKernel", "load", "save"]
