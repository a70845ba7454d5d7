#include "runtime/executable/tensor_spec.h"

namespace jax_ipu {

std::string SizeProblem(const TensorSpec& spec) {
  auto bytes = static_cast<std::int64_t>(ipu_model::SizeOf(spec.type));
  std::string shape;
  bool fits = true;
  for (const std::int64_t d : spec.shape) {
    if (d < 0) return "An array has the negative dimension " + std::to_string(d);
    shape += (shape.empty() ? "" : ",") + std::to_string(d);
    fits = fits && (d == 0 || !__builtin_mul_overflow(bytes, d, &bytes));
  }
  if (fits) return "";
  return "An array of type " + std::string(ipu_model::NameOf(spec.type)) + " and shape [" + shape +
         "] has more bytes than memory can be addressed (2^63 - 1)";
}

}  // namespace jax_ipu
