// See examples/programs/life.py. (Indices that leave the field at one side come back at the other, as Python's % has it.)
__device__ int wrap(int i, int n) { return (i % n + n) % n; }

extern "C" __global__ void step(const bool* old, bool* fresh, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        int neighbours = 0;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                if (dx != 0 || dy != 0) neighbours += old[wrap(y + dy, height) * width + wrap(x + dx, width)];
        fresh[y * width + x] = neighbours == 3 || (neighbours == 2 && old[y * width + x]);
    }
}
