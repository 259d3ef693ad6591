// Launches a kernel that was written in Python: see particles.py, which says how to build it. It needs the driver, and no Python.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/kernels.h"

static void check(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(status, &text);
  std::fprintf(stderr, "%s: %s\n", what, text ? text : "an unknown error");
  std::exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s kernels/advance-….cubin\n", argv[0]), 2;
  CUdevice device;
  CUcontext context;
  check(cuInit(0), "starting the driver");
  check(cuDeviceGet(&device, 0), "looking for a GPU");
  check(cuDevicePrimaryCtxRetain(&context, device), "making a context");
  check(cuCtxSetCurrent(context), "using the context");

  CUlibrary library;
  CUkernel advance;
  check(cuLibraryLoadFromFile(&library, argv[1], nullptr, nullptr, 0, nullptr, nullptr, 0), argv[1]);
  check(cuLibraryGetKernel(&advance, library, "advance"), "looking for the kernel");

  std::vector<Particle> particles(1000);
  for (int i = 0; i < 1000; ++i) particles[i] = {{float(i), 0}, {1, float(i)}};
  const size_t bytes = particles.size() * sizeof(Particle);
  CUdeviceptr memory;
  check(cuMemAlloc(&memory, bytes), "asking for memory");
  check(cuMemcpyHtoD(memory, particles.data(), bytes), "copying to the GPU");

  // The launcher has the kernel's parameters; an array comes from an mdspan.
  cuda::std::mdspan<Particle, cuda::std::dextents<int, 1>> span(reinterpret_cast<Particle*>(memory), 1000);
  check(launch_advance(advance, dim3(4), dim3(256), 0, nullptr, span, 0.5f), "launching the kernel");

  check(cuMemcpyDtoH(particles.data(), memory, bytes), "copying back");
  check(cuMemFree(memory), "giving memory back");
  for (int i = 0; i < 1000; ++i) {
    const Particle& particle = particles[i];
    if (particle.position.x != i + 0.5f || particle.position.y != 0.5f * i) {
      std::fprintf(stderr, "particle %d is at (%g, %g)\n", i, particle.position.x, particle.position.y);
      return 1;
    }
  }
  std::printf("1000 particles moved; the last is at (%g, %g)\n", particles[999].position.x, particles[999].position.y);
  check(cuLibraryUnload(library), "unloading the kernel");
  check(cuDevicePrimaryCtxRelease(device), "leaving");
  return 0;
}
