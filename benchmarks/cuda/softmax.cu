// See examples/programs/softmax.py.
constexpr int BLOCK = 128;

template <class Combine>
__device__ float over_block(float value, Combine combine, float nothing) {
    __shared__ float shared[32];
    int thread = threadIdx.x;
    for (int distance = 16; distance > 0; distance /= 2) value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
    if (thread % 32 == 0) shared[thread / 32] = value;
    __syncthreads();
    value = thread % 32 < BLOCK / 32 ? shared[thread % 32] : nothing;
    for (int distance = 16; distance > 0; distance /= 2) value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
    __syncthreads();
    return value;
}

extern "C" __global__ void softmax(const float* x, float* y, int width) {
    int row = blockIdx.x, thread = threadIdx.x;
    float greatest = -__int_as_float(0x7f800000);
    for (int j = thread; j < width; j += BLOCK) greatest = fmaxf(greatest, x[row * width + j]);
    greatest = over_block(greatest, [](float a, float b) { return fmaxf(a, b); }, -__int_as_float(0x7f800000));
    float total = 0;
    for (int j = thread; j < width; j += BLOCK) total += expf(x[row * width + j] - greatest);
    total = over_block(total, [](float a, float b) { return a + b; }, 0.0f);
    for (int j = thread; j < width; j += BLOCK) y[row * width + j] = expf(x[row * width + j] - greatest) / total;
}
