// CUDA 13's names of the vectors of 32 bytes that are aligned to 16, for CUDA 12, whose vectors are all aligned so.
#ifndef CUDA_DEVICE_VECTORS_OF_32_BYTES_H
#define CUDA_DEVICE_VECTORS_OF_32_BYTES_H

#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ < 13
typedef longlong4 longlong4_16a;
typedef ulonglong4 ulonglong4_16a;
typedef double4 double4_16a;
#endif

#endif
