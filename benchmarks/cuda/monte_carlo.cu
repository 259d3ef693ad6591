// See examples/programs/monte_carlo.py.
typedef unsigned long long wide;

__device__ uint4 philox(unsigned place, unsigned stream, unsigned seed) {
    unsigned a = place, b = 0, c = stream, d = 0, first = seed, second = 0;
    for (int round = 0; round < 10; round++) {
        wide pa = (wide)0xD2511F53u * a, pc = (wide)0xCD9E8D57u * c;
        a = (unsigned)(pc >> 32) ^ b ^ first;
        b = (unsigned)pc;
        c = (unsigned)(pa >> 32) ^ d ^ second;
        d = (unsigned)pa;
        first += 0x9E3779B9u;
        second += 0xBB67AE85u;
    }
    return make_uint4(a, b, c, d);
}

__device__ bool inside(unsigned x, unsigned y) {
    wide a = x >> 16, b = y >> 16;
    return a * a + b * b < (wide)1 << 32;
}

extern "C" __global__ void count_philox(int* hits, int n, int points, int seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int count = 0;
        for (int place = 0; place < points / 2; place++) {
            uint4 r = philox(place, i, seed);
            count += inside(r.x, r.y) + inside(r.z, r.w);
        }
        hits[i] = count;
    }
}

__device__ unsigned xorshift(unsigned state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ (state << 5);
}

extern "C" __global__ void count_xorshift(int* hits, int n, int points, int seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned state = (unsigned)seed + (unsigned)i * 2654435761u;
        int count = 0;
        for (int k = 0; k < points; k++) {
            unsigned x = xorshift(state);
            state = xorshift(x);
            if (inside(x, state)) count++;
        }
        hits[i] = count;
    }
}
