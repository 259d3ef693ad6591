// One round; see examples/programs/radix_sort.py.
constexpr int DIGITS = 16, BLOCK = 128, WARPS = BLOCK / 32;

extern "C" __global__ void count(const unsigned* keys, int* counts, int shift, int n) {
    __shared__ int local[DIGITS];
    int thread = threadIdx.x;
    if (thread < DIGITS) local[thread] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&local[(keys[i] >> shift) & (DIGITS - 1)], 1);
    __syncthreads();
    if (thread < DIGITS) counts[thread * gridDim.x + blockIdx.x] = local[thread];
}

extern "C" __global__ void move(const unsigned* keys, const int* values, const int* places, unsigned* new_keys, int* new_values,
                                int shift, int n) {
    __shared__ int before[WARPS][DIGITS];
    int thread = threadIdx.x, warp = thread / 32;
    for (int j = thread; j < WARPS * DIGITS; j += BLOCK) before[j / DIGITS][j % DIGITS] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool inside = i < n;
    unsigned key = inside ? keys[i] : 0;
    int digit = inside ? (int)((key >> shift) & (DIGITS - 1)) : DIGITS;
    unsigned equal = __match_any_sync(0xFFFFFFFF, digit), lower;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
    int rank = __popc(equal & lower);
    if (inside && rank == 0) before[warp][digit] = __popc(equal);
    __syncthreads();
    if (inside) {
        int row = digit * gridDim.x + blockIdx.x, place = rank + (row > 0 ? places[row - 1] : 0);
        for (int w = 0; w < warp; w++) place += before[w][digit];
        new_keys[place] = key;
        new_values[place] = values[i];
    }
}
