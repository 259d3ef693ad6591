// One layer; see examples/programs/bitonic_sort.py.
extern "C" __global__ void compare_and_swap(float* x, int size, int distance, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, partner = i ^ distance;
    if (i < partner && partner < n) {
        bool upwards = (i & size) == 0;
        float a = x[i], b = x[partner];
        if ((a > b) == upwards) {
            x[i] = b;
            x[partner] = a;
        }
    }
}
