// See examples/programs/convolution.py.
extern "C" __global__ void convolve(const float* image, const float* weights, float* out, int height, int width, int size) {
    extern __shared__ float tile[];
    int radius = size / 2, rows = blockDim.y + 2 * radius, columns = blockDim.x + 2 * radius;
    int column = threadIdx.x, row = threadIdx.y;
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    for (int i = row; i < rows; i += blockDim.y)
        for (int j = column; j < columns; j += blockDim.x) {
            int v = y - row + i - radius, u = x - column + j - radius;
            tile[i * columns + j] = 0 <= v && v < height && 0 <= u && u < width ? image[v * width + u] : 0;
        }
    __syncthreads();
    if (x < width && y < height) {
        float total = 0;
        for (int i = 0; i < 2 * radius + 1; i++)
            for (int j = 0; j < 2 * radius + 1; j++)
                total += weights[(2 * radius - i) * size + 2 * radius - j] * tile[(row + i) * columns + column + j];
        out[y * width + x] = total;
    }
}
