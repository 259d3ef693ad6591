// See examples/programs/copies.py.
extern "C" __global__ void copy_strided(const float* x, float* out, int step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i * step];
}

extern "C" __global__ void gather(const float* x, const int* places, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[places[i]];
}
