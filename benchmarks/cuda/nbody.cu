// See examples/programs/nbody.py.
constexpr int BLOCK = 128;

__device__ float3 attract(float3 acceleration, float4 here, float4 other) {
    float dx = other.x - here.x, dy = other.y - here.y, dz = other.z - here.z;
    float square = dx * dx + dy * dy + dz * dz + 1e-3f;
    float inverse = 1 / sqrtf(square);
    float scale = other.w * inverse * inverse * inverse;
    return make_float3(acceleration.x + dx * scale, acceleration.y + dy * scale, acceleration.z + dz * scale);
}

extern "C" __global__ void accelerate(const float4* bodies, float4* accelerations, int n) {
    __shared__ float4 tile[BLOCK];
    int i = blockIdx.x * blockDim.x + threadIdx.x, thread = threadIdx.x;
    float4 nothing = make_float4(0, 0, 0, 0), here = i < n ? bodies[i] : nothing;
    float3 acceleration = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += BLOCK) {
        int j = start + thread;
        tile[thread] = j < n ? bodies[j] : nothing;
        __syncthreads();
        for (int k = 0; k < BLOCK; k++) acceleration = attract(acceleration, here, tile[k]);
        __syncthreads();
    }
    if (i < n) accelerations[i] = make_float4(acceleration.x, acceleration.y, acceleration.z, 0);
}
