// BabelStream's five loops; see examples/programs/stream.py.
constexpr int BLOCK = 256;

extern "C" __global__ void copy(const T* a, T* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i];
}

extern "C" __global__ void scale(T* b, const T* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = T(0.4) * c[i];
}

extern "C" __global__ void add(const T* a, const T* b, T* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void triad(T* a, const T* b, const T* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = b[i] + T(0.4) * c[i];
}

extern "C" __global__ void dot(const T* a, const T* b, T* sums, int n) {
    __shared__ T tree[BLOCK];
    int thread = threadIdx.x;
    T total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) total += a[i] * b[i];
    tree[thread] = total;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) tree[thread] += tree[thread + half];
    }
    if (thread == 0) sums[blockIdx.x] = tree[0];
}
