// Through shared memory; see examples/programs/transpose.py.
constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose(const float* x, float* y, int height, int width) {
    __shared__ float tile[TILE][TILE + 1];
    int column = threadIdx.x, row = threadIdx.y;
    int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    for (int k = row; k < TILE; k += ROWS)
        if (top + k < height && left + column < width) tile[k][column] = x[(top + k) * width + left + column];
    __syncthreads();
    for (int k = row; k < TILE; k += ROWS)
        if (left + k < width && top + column < height) y[(left + k) * height + top + column] = tile[column][k];
}
