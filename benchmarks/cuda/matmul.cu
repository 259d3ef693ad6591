// Naive and tiled; see examples/programs/matmul.py.
constexpr int TILE = 16;

extern "C" __global__ void multiply(const T* a, const T* b, T* c, int rows, int inner, int columns) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < rows && j < columns) {
        T total = 0;
        for (int k = 0; k < inner; k++) total += a[i * inner + k] * b[k * columns + j];
        c[i * columns + j] = total;
    }
}

extern "C" __global__ void multiply_tiled(const T* a, const T* b, T* c, int rows, int inner, int columns) {
    __shared__ T a_tile[TILE][TILE], b_tile[TILE][TILE];
    int column = threadIdx.x, row = threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    T total = 0;
    for (int start = 0; start < inner; start += TILE) {
        bool in_a = i < rows && start + column < inner, in_b = start + row < inner && j < columns;
        a_tile[row][column] = in_a ? a[i * inner + start + column] : T(0);
        b_tile[row][column] = in_b ? b[(start + row) * columns + j] : T(0);
        __syncthreads();
        for (int k = 0; k < TILE; k++) total += a_tile[row][k] * b_tile[k][column];
        __syncthreads();
    }
    if (i < rows && j < columns) c[i * columns + j] = total;
}
