// See NATURAL in suite.py: the counter with the order and scope that `cuda::atomic_ref` has by default, as `device.atomic_ref` has them.
#include <cuda/atomic>
extern "C" __global__ void counter(unsigned* count) { cuda::atomic_ref<unsigned>(*count).fetch_add(1); }
