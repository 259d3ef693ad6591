// See examples/programs/fft.py.
constexpr int LARGEST = 1024;

extern "C" __global__ void transform(const float2* rows, float2* out, float sign, int length) {
    __shared__ float2 points[2][LARGEST];
    int half = length / 2, row = blockIdx.x, thread = threadIdx.x, threads = blockDim.x;
    for (int i = thread; i < length; i += threads) points[0][i] = rows[row * length + i];
    __syncthreads();
    int here = 0;
    for (int span = 1; span < length; span *= 2) {
        for (int i = thread; i < half; i += threads) {
            int k = i % span, j = 2 * i - k;
            float angle = sign * 3.14159265358979f * k / span;
            float2 a = points[here][i], p = points[here][i + half], w = make_float2(cosf(angle), sinf(angle));
            float2 b = make_float2(p.x * w.x - p.y * w.y, p.x * w.y + p.y * w.x);
            points[1 - here][j] = make_float2(a.x + b.x, a.y + b.y);
            points[1 - here][j + span] = make_float2(a.x - b.x, a.y - b.y);
        }
        __syncthreads();
        here = 1 - here;
    }
    for (int i = thread; i < length; i += threads) out[row * length + i] = points[here][i];
}
