// Diffusion; see examples/programs/stencil.py.
extern "C" __global__ void five_points(const float* old, float* fresh, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float here = old[y * width + x];
        if (0 < x && x < width - 1 && 0 < y && y < height - 1) {
            float around = old[(y - 1) * width + x] + old[(y + 1) * width + x] + old[y * width + x - 1] + old[y * width + x + 1];
            here += 0.1f * (around - 4 * here);
        }
        fresh[y * width + x] = here;
    }
}

extern "C" __global__ void seven_points(const float* old, float* fresh, int depth, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < width && y < height && z < depth) {
        int i = (z * height + y) * width + x, plane = height * width;
        float here = old[i];
        if (0 < x && x < width - 1 && 0 < y && y < height - 1 && 0 < z && z < depth - 1) {
            float around = old[i - 1] + old[i + 1] + old[i - width];
            around += old[i + width] + old[i - plane] + old[i + plane];
            here += 0.1f * (around - 6 * here);
        }
        fresh[i] = here;
    }
}
