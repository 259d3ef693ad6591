// See examples/programs/scan.py.
constexpr int BLOCK = 256, WARPS = BLOCK / 32;

__device__ int scan_warp(int value) {
    int lane = threadIdx.x % 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        int before = __shfl_up_sync(0xFFFFFFFF, value, distance);
        if (lane >= distance) value += before;
    }
    return value;
}

__device__ int scan_block(int value) {
    __shared__ int totals[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    value = scan_warp(value);
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    if (warp == 0) totals[lane] = scan_warp(lane < WARPS ? totals[lane] : 0);
    __syncthreads();
    if (warp > 0) value += totals[warp - 1];
    return value;
}

extern "C" __global__ void scan_shares(const int* x, int* sums, int* totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = scan_block(i < n ? x[i] : 0);
    if (i < n) sums[i] = value;
    if (threadIdx.x == BLOCK - 1) totals[blockIdx.x] = value;
}

extern "C" __global__ void add_totals(int* sums, const int* scanned, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && i < n) sums[i] += scanned[blockIdx.x - 1];
}
