// See examples/programs/histogram.py.
constexpr int BINS = 256, BLOCK = 256;

extern "C" __global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
    __shared__ unsigned local[BINS];
    for (int j = threadIdx.x; j < BINS; j += BLOCK) local[j] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[data[i]], 1);
    __syncthreads();
    for (int j = threadIdx.x; j < BINS; j += BLOCK)
        if (local[j] > 0) atomicAdd(&bins[j], local[j]);
}
