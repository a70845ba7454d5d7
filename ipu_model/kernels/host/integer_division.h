// Integer division that rounds down or up, for operands of either sign.
#ifndef IPU_MODEL_KERNELS_HOST_INTEGER_DIVISION_H_
#define IPU_MODEL_KERNELS_HOST_INTEGER_DIVISION_H_

#include <cstdint>

namespace ipu_model {

constexpr std::int64_t FloorDivide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
constexpr std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return -FloorDivide(-a, b); }

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_INTEGER_DIVISION_H_
