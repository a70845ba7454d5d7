// Copies between memory layouts and element types, for operands that a kernel cannot read in place.
#ifndef IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_LAYOUT_H_
#define IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_LAYOUT_H_

#include <cstdint>
#include <type_traits>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// The DType of sums of type T.
template <typename T>
constexpr DType StorageType() {
  if (std::is_same_v<T, float>) return DType::kF32;
  if (std::is_same_v<T, double>) return DType::kF64;
  return sizeof(T) == 4 ? DType::kS32 : DType::kS64;
}

// to[i...] = from[i...] for equal shapes and any strides. The types are equal, or one of them is f32, f64,
// s32 or s64 and the other converts to it (integers wrap, floats round to nearest even).
void CopyConvert(ThreadPool& pool, const HostTensor& from, const HostTensor& to);

// Returns a dense copy of `from` in scratch memory, of type `type`, with the dimensions `order` from major to
// minor.
HostTensor DenseCopy(HostContext& context, const HostTensor& from, DType type, const int* order);
// Returns uninitialised scratch memory of that layout, for a result.
HostTensor DenseTensor(HostContext& context, const HostTensor& like, DType type, const int* order);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_LAYOUT_H_
