// See examples/programs/black_scholes.py.
__device__ float normal(float x) { return 0.5f * erfcf(-x * sqrtf(0.5f)); }

extern "C" __global__ void black_scholes(const float* price, const float* strike, const float* years, float* call, float* put,
                                         int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = price[i], x = strike[i], t = years[i], root = sqrtf(t);
        float d1 = (logf(s / x) + (0.02f + 0.5f * 0.30f * 0.30f) * t) / (0.30f * root), d2 = d1 - 0.30f * root;
        float discounted = x * expf(-0.02f * t);
        call[i] = s * normal(d1) - discounted * normal(d2);
        put[i] = discounted * normal(-d2) - s * normal(-d1);
    }
}
