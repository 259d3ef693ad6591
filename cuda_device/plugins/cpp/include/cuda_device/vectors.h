// The vectors of small floats that Python has and CUDA C++ has not, in the pattern of those that it has.
#ifndef CUDA_DEVICE_VECTORS_H
#define CUDA_DEVICE_VECTORS_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace cuda_device {

struct float16x3 {
  __half x, y, z;
};
struct alignas(8) float16x4 {
  __half x, y, z, w;
};
struct bfloat16x3 {
  __nv_bfloat16 x, y, z;
};
struct alignas(8) bfloat16x4 {
  __nv_bfloat16 x, y, z, w;
};
struct float8e4m3x3 {
  __nv_fp8_e4m3 x, y, z;
};
struct float8e5m2x3 {
  __nv_fp8_e5m2 x, y, z;
};

}  // namespace cuda_device

#endif  // CUDA_DEVICE_VECTORS_H
