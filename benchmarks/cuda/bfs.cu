// One level; see examples/programs/bfs.py.
extern "C" __global__ void visit(const int* starts, const int* targets, int* distances, const int* frontier, int* following,
                                 int* sizes, int level) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < sizes[level]) {
        int node = frontier[k];
        for (int edge = starts[node]; edge < starts[node + 1]; edge++) {
            int neighbour = targets[edge];
            if (atomicCAS(&distances[neighbour], -1, level + 1) == -1) following[atomicAdd(&sizes[level + 1], 1)] = neighbour;
        }
    }
}
