// A warp a row; see examples/programs/spmv.py.
extern "C" __global__ void multiply(const int* starts, const int* columns, const float* values, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / 32, lane = i % 32;
    if (row < n) {
        float total = 0;
        for (int k = starts[row] + lane; k < starts[row + 1]; k += 32) total += values[k] * x[columns[k]];
        for (int distance = 16; distance > 0; distance /= 2) total += __shfl_down_sync(0xFFFFFFFF, total, distance);
        if (lane == 0) y[row] = total;
    }
}
