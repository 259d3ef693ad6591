// See examples/programs/reduction.py.
constexpr int BLOCK = 256;

__device__ float sum_of_warp(float value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xFFFFFFFF, value, distance);
    return value;
}

extern "C" __global__ void add_up(const float* x, float* total, int n) {
    __shared__ float partial[BLOCK / 32];
    int thread = threadIdx.x;
    float value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) value += x[i];
    value = sum_of_warp(value);
    if (thread % 32 == 0) partial[thread / 32] = value;
    __syncthreads();
    if (thread < 32) {
        value = sum_of_warp(thread < BLOCK / 32 ? partial[thread] : 0.0f);
        if (thread == 0) atomicAdd(total, value);
    }
}

extern "C" __global__ void sums_of_blocks(const float* x, float* sums, int n) {
    __shared__ float tree[BLOCK];
    int thread = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    tree[thread] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (thread < half) tree[thread] += tree[thread + half];
        __syncthreads();
    }
    if (thread == 0) sums[blockIdx.x] = tree[0];
}
