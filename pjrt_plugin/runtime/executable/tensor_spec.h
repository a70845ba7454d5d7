// Element type and shape of one array.
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_TENSOR_SPEC_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_TENSOR_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ipu_model/Types.hpp"

namespace jax_ipu {

using ipu_model::DType;

struct TensorSpec {
  DType type = DType::kF32;
  std::vector<std::int64_t> shape;
  // Does not overflow: a TensorSpec from foreign data is checked with SizeProblem when it is made.
  std::size_t bytes() const {
    std::size_t n = ipu_model::SizeOf(type);
    for (std::int64_t d : shape) n *= static_cast<std::size_t>(d);
    return n;
  }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("dtype", self.type);
    visit("shape", self.shape);
  }
};

// Why no array can have this shape, or an empty string: a negative dimension, or more than 2^63 - 1 bytes.
// Dimensions of size 0 count as 1, as in NumPy, so that strides do not overflow either.
std::string SizeProblem(const TensorSpec& spec);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_TENSOR_SPEC_H_
