"""The name `cuda.device` of the specification: `from cuda import device` gives what `import cuda_device` gives."""

import sys

import cuda_device

sys.modules[__name__] = cuda_device
