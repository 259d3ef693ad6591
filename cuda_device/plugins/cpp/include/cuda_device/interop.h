// What CUDA C++ needs to exchange arrays with Python: an interoperable function takes and returns each array as a
// cuda::interoperable_array_descriptor, by value. Compiles with nvcc, NVRTC and host compilers; needs CCCL and C++17.
//
//     extern "C" __device__ float total(cuda::interoperable_array_descriptor<float, 2> x) {
//       auto view = x.to_mdspan();
//       ...
//     }
#ifndef CUDA_DEVICE_INTEROP_H
#define CUDA_DEVICE_INTEROP_H

#include <cuda/std/array>
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/mdspan>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#  define CUDA_DEVICE_BOTH __host__ __device__
#else
#  define CUDA_DEVICE_BOTH
#endif

namespace cuda {

namespace interoperable_array_detail {

template <class T>
struct is_mdspan : cuda::std::false_type {};

template <class T, class Extents, class Layout, class Accessor>
struct is_mdspan<cuda::std::mdspan<T, Extents, Layout, Accessor>> : cuda::std::true_type {};

template <class Mdspan, class T, cuda::std::uint64_t ndim>
using enable_for = cuda::std::enable_if_t<
    is_mdspan<Mdspan>::value && Mdspan::rank() == ndim &&
        cuda::std::is_convertible_v<typename Mdspan::data_handle_type, T*>,
    int>;

}  // namespace interoperable_array_detail

// An array of `ndim` axes: the address of the first element, the length of each axis, and how many elements lie between
// neighbours along it (an axis that runs backwards has the two's complement of its step).
template <class T, cuda::std::uint64_t ndim>
struct interoperable_array_descriptor {
  T* data;
  cuda::std::uint64_t shape[ndim];
  cuda::std::uint64_t strides[ndim];

  interoperable_array_descriptor() = default;

  // From any mdspan of the same rank whose elements lie in plain memory.
  template <class Mdspan, interoperable_array_detail::enable_for<cuda::std::remove_cvref_t<Mdspan>, T, ndim> = 0>
  CUDA_DEVICE_BOTH interoperable_array_descriptor(Mdspan&& ms) : data(ms.data_handle()) {
    for (cuda::std::uint64_t axis = 0; axis < ndim; ++axis) {
      shape[axis] = static_cast<cuda::std::uint64_t>(ms.extent(axis));
      strides[axis] = static_cast<cuda::std::uint64_t>(ms.stride(axis));
    }
  }

  // The same array as a strided mdspan with dynamic extents.
  CUDA_DEVICE_BOTH auto to_mdspan() const {
    using extents = cuda::std::dextents<cuda::std::size_t, ndim>;
    cuda::std::array<cuda::std::size_t, ndim> lengths{}, steps{};
    for (cuda::std::size_t axis = 0; axis < ndim; ++axis) {
      lengths[axis] = shape[axis];
      steps[axis] = strides[axis];
    }
    return cuda::std::mdspan<T, extents, cuda::std::layout_stride>{
        data, cuda::std::layout_stride::mapping<extents>{extents{lengths}, steps}};
  }

  CUDA_DEVICE_BOTH operator auto() const { return to_mdspan(); }
};

// An array without axes has one element, and no shape.
template <class T>
struct interoperable_array_descriptor<T, 0> {
  T* data;

  interoperable_array_descriptor() = default;

  template <class Mdspan, interoperable_array_detail::enable_for<cuda::std::remove_cvref_t<Mdspan>, T, 0> = 0>
  CUDA_DEVICE_BOTH interoperable_array_descriptor(Mdspan&& ms) : data(ms.data_handle()) {}

  CUDA_DEVICE_BOTH auto to_mdspan() const {
    using extents = cuda::std::extents<cuda::std::size_t>;
    return cuda::std::mdspan<T, extents, cuda::std::layout_stride>{
        data, cuda::std::layout_stride::mapping<extents>{extents{}, cuda::std::array<cuda::std::size_t, 0>{}}};
  }

  CUDA_DEVICE_BOTH operator auto() const { return to_mdspan(); }
};

}  // namespace cuda

#endif  // CUDA_DEVICE_INTEROP_H
