// See examples/programs/kmeans.py.
extern "C" __global__ void assign(const float* points, const float* centres, int* labels, float* sums, int* counts, int n,
                                  int clusters, int dimensions) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int nearest = 0;
        float least = __int_as_float(0x7f800000);
        for (int k = 0; k < clusters; k++) {
            float distance = 0;
            for (int axis = 0; axis < dimensions; axis++) {
                float difference = points[i * dimensions + axis] - centres[k * dimensions + axis];
                distance += difference * difference;
            }
            if (distance < least) {
                least = distance;
                nearest = k;
            }
        }
        labels[i] = nearest;
        atomicAdd(&counts[nearest], 1);
        for (int axis = 0; axis < dimensions; axis++)
            atomicAdd(&sums[nearest * dimensions + axis], points[i * dimensions + axis]);
    }
}
