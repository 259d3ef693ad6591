// See examples/programs/mandelbrot.py.
extern "C" __global__ void mandelbrot(int* steps, int height, int width, T left, T top, T pitch, int most) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        T real = left + x * pitch, imaginary = top + y * pitch, a = 0, b = 0;
        int count = 0;
        while (count < most && a * a + b * b <= 4) {
            T next = a * a - b * b + real;
            b = 2 * a * b + imaginary;
            a = next;
            count++;
        }
        steps[y * width + x] = count;
    }
}
