"""A kernel for a C++ program: `main.cpp` beside it launches it through the header that `build` writes.

    python -m cuda_device build particles.py:advance --signature "ArrayType(Particle, 1), float32" \\
        --target sm_90 --output kernels
    g++ -std=c++17 main.cpp -I$CUDA_HOME/include -I$CUDA_HOME/include/cccl \\
        -I$(python -c "import cuda_device; print(cuda_device.get_include())") -lcuda -o main
    ./main kernels/advance-*.sm_90.cubin
"""

from typing import Any

import cuda_device as device


@device.struct
class Particle:
    """Where something is, and how fast it moves."""

    position: device.float32x2
    velocity: device.float32x2


@device.kernel(interop=True)
def advance(particles: Any, seconds: Any) -> None:
    """Moves each particle."""
    i = device.tid(1)
    if i < len(particles):
        particles[i].position += particles[i].velocity * seconds
