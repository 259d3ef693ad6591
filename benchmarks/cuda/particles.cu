// See examples/programs/particles.py.
struct alignas(4) Particle {
    float x, y, vx, vy;
};

__device__ void reflect(float& place, float& speed) {
    if (place < 0) {
        place = -place;
        speed = -speed;
    } else if (place > 1) {
        place = 2 - place;
        speed = -speed;
    }
}

extern "C" __global__ void move_structs(Particle* particles, float time, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Particle p = particles[i];
        p.x += p.vx * time;
        p.y += p.vy * time;
        reflect(p.x, p.vx);
        reflect(p.y, p.vy);
        particles[i] = p;
    }
}

extern "C" __global__ void move_arrays(float* x, float* y, float* vx, float* vy, float time, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float place = x[i] + vx[i] * time, speed = vx[i];
        reflect(place, speed);
        x[i] = place;
        vx[i] = speed;
        place = y[i] + vy[i] * time, speed = vy[i];
        reflect(place, speed);
        y[i] = place;
        vy[i] = speed;
    }
}
