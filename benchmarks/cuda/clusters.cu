// See examples/programs/cluster_histogram.py and conjugate_gradient.py.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

constexpr int BLOCK = 64, CLUSTER = 4, BINS = 100;

extern "C" __global__ void __cluster_dims__(CLUSTER) count(const int* values, int* bins, long long n) {
    __shared__ int part[BINS];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < BINS; i += BLOCK) part[i] = 0;
    cluster.sync();
    for (long long i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) {
        int value = values[i];
        atomicAdd(cluster.map_shared_rank(part, value / BINS) + value % BINS, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < BINS; i += BLOCK) atomicAdd(&bins[cluster.block_rank() * BINS + i], part[i]);
}

__device__ double second_difference(const double* x, long long i, long long n) {
    double left = i > 0 ? x[i - 1] : 0.0, right = i + 1 < n ? x[i + 1] : 0.0;
    return 2 * x[i] - left - right;
}

__device__ double total(double* sum, double term) {
    atomicAdd(sum, term);
    cg::this_grid().sync();
    return *sum;
}

extern "C" __global__ void solve(const double* b, double* x, double* direction, double* sums, long long n) {
    long long i = blockIdx.x * BLOCK + threadIdx.x;
    bool inside = i < n;
    double residual = inside ? b[i] : 0.0, mine = residual, solution = 0.0;
    if (inside) direction[i] = mine;
    double squares = total(sums, residual * residual);
    for (long long step = 0; step < n; ++step) {
        if (squares < 1e-28) break;
        double product = inside ? second_difference(direction, i, n) : 0.0;
        double length = squares / total(sums + 2 * step + 1, mine * product);
        solution += length * mine;
        residual -= length * product;
        double now = total(sums + 2 * step + 2, residual * residual);
        mine = residual + now / squares * mine;
        squares = now;
        if (inside) direction[i] = mine;
        cg::this_grid().sync();
    }
    if (inside) x[i] = solution;
}
