// See examples/programs/compaction.py.
extern "C" __global__ void compact(const float* x, float threshold, float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    bool keep = i < n && x[i] > threshold;
    unsigned kept = __ballot_sync(0xFFFFFFFF, keep), lower;
    int start = 0;
    if (lane == 0) start = atomicAdd(count, __popc(kept));
    start = __shfl_sync(0xFFFFFFFF, start, 0);
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
    if (keep) out[start + __popc(kept & lower)] = x[i];
}
