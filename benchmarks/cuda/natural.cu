// See NATURAL in suite.py. The natural histogram is that of histogram.cu.
extern "C" __global__ void counter(unsigned* count) { atomicAdd(count, 1); }
