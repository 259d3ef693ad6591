// The Fock matrix; see examples/programs/hartree_fock.py.
constexpr double PI = 3.141592653589793, SCREEN = 1e-9, SMALLEST = 1e-12, LIMIT = 1e-12, FACTOR = 34.986836655249725;

__device__ void pair(int number, int& row, int& column) {
    row = int((sqrt(8.0 * number + 1) - 1) / 2);
    if (row * (row + 1) / 2 > number) row--;
    if ((row + 1) * (row + 2) / 2 <= number) row++;
    column = number - row * (row + 1) / 2;
}

__device__ double between(const double* places, int i, int j) {
    double x = places[3 * i] - places[3 * j], y = places[3 * i + 1] - places[3 * j + 1], z = places[3 * i + 2] - places[3 * j + 2];
    return x * x + y * y + z * z;
}

__device__ double repulsion(const double* exponents, const double* coefficients, const double* places, int gaussians, int i, int j,
                            int k, int l) {
    double apart_ij = between(places, i, j), apart_kl = between(places, k, l), total = 0;
    for (int a = 0; a < gaussians; a++)
        for (int b = 0; b < gaussians; b++) {
            double p = exponents[a] + exponents[b];
            double bra = coefficients[a] * coefficients[b] * exp(-exponents[a] * exponents[b] / p * apart_ij) / p;
            if (fabs(bra) > SMALLEST) {
                double x = (exponents[a] * places[3 * i] + exponents[b] * places[3 * j]) / p;
                double y = (exponents[a] * places[3 * i + 1] + exponents[b] * places[3 * j + 1]) / p;
                double z = (exponents[a] * places[3 * i + 2] + exponents[b] * places[3 * j + 2]) / p;
                for (int c = 0; c < gaussians; c++)
                    for (int d = 0; d < gaussians; d++) {
                        double q = exponents[c] + exponents[d];
                        double ket = exp(-exponents[c] * exponents[d] / q * apart_kl) / q;
                        ket *= coefficients[c] * coefficients[d];
                        if (fabs(ket) > SMALLEST) {
                            double u = x - (exponents[c] * places[3 * k] + exponents[d] * places[3 * l]) / q;
                            double v = y - (exponents[c] * places[3 * k + 1] + exponents[d] * places[3 * l + 1]) / q;
                            double w = z - (exponents[c] * places[3 * k + 2] + exponents[d] * places[3 * l + 2]) / q;
                            double t = p * q / (p + q) * (u * u + v * v + w * w), root = sqrt(t);
                            double f = t > LIMIT ? 0.5 * sqrt(PI) * erf(root) / root : 1;
                            total += bra * ket * f / sqrt(p + q);
                        }
                    }
            }
        }
    return total * FACTOR;
}

extern "C" __global__ void build(const double* exponents, const double* coefficients, const double* places, const double* bounds,
                                 const double* density, double* fock, int gaussians, int pairs, int n) {
    int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number < pairs * (pairs + 1) / 2) {
        int ij, kl, i, j, k, l;
        pair(number, ij, kl);
        if (bounds[ij] * bounds[kl] > SCREEN) {
            pair(ij, i, j);
            pair(kl, k, l);
            double value = repulsion(exponents, coefficients, places, gaussians, i, j, k, l);
            if (i == j) value *= 0.5;
            if (k == l) value *= 0.5;
            if (ij == kl) value *= 0.5;
            atomicAdd(&fock[i * n + j], 4 * value * density[k * n + l]);
            atomicAdd(&fock[k * n + l], 4 * value * density[i * n + j]);
            atomicAdd(&fock[i * n + k], -value * density[j * n + l]);
            atomicAdd(&fock[i * n + l], -value * density[j * n + k]);
            atomicAdd(&fock[j * n + k], -value * density[i * n + l]);
            atomicAdd(&fock[j * n + l], -value * density[i * n + k]);
        }
    }
}
