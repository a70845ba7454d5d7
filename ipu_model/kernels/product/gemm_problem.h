// What gemm.cc hands to the kernel of the chosen instruction set. Private to the GEMM files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_PROBLEM_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_PROBLEM_H_

#include <cstdint>

#include "ipu_model/Types.hpp"
#include "kernels/host/context.h"

namespace ipu_model {

// A stack of matrices; strides in elements.
struct GemmMatrix {
  const void* data = nullptr;
  DType type = DType::kF32;
  std::int64_t group = 0, row = 0, column = 0;
};

// Products with so few rows and so large a B are bound by reading B, which register tiles do in too short
// runs.
constexpr int kFewRows = 4;
constexpr std::int64_t kStreamedBytes = 512 << 10;
// Complex sums of so few terms are bound by reading and writing matrices, not by FMAs.
constexpr std::int64_t kShortComplexSum = 8;

struct GemmProblem {
  std::int64_t groups = 1, m = 0, n = 0, k = 0;
  GemmMatrix a, b;                  // [m, k], [k, n]
  GemmMatrix c;                     // [m, n], written
  DType accumulator = DType::kF32;  // kF32, kF64, kU32, kU64
  // Above 0: c is dense f32 with f16 values; every half_step k their products are added to it, and it is
  // rounded to f16 again.
  std::int64_t half_step = 0;
};

// Operand types the packing converts on the fly to `accumulator`; others are converted beforehand.
constexpr bool PacksDirectly(DType type, DType accumulator) {
  switch (accumulator) {
    case DType::kF32:
      return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
    case DType::kF64:
      return type == DType::kF64;
    case DType::kU32:
      return type == DType::kS32 || type == DType::kU32 || type == DType::kS8 || type == DType::kU8 ||
             type == DType::kPred;
    case DType::kU64:
      return type == DType::kS64 || type == DType::kU64;
    default:
      return false;
  }
}
// Result types that tiles are written as; others are written as the accumulator and converted afterwards.
constexpr bool StoresDirectly(DType type, DType accumulator) {
  if (accumulator == DType::kU32)
    return PacksDirectly(type, accumulator) || type == DType::kS16 || type == DType::kU16;
  return PacksDirectly(type, accumulator);
}

// RunShortComplex: all matrices are of the accumulator's type, kC64 or kC128, with any strides, and k is at
// most kShortComplexSum. Each product of real numbers is rounded, the four kinds are summed apart in the
// order of k.
namespace avx2 {
void RunGemm(HostContext& context, const GemmProblem& problem);
void RunShortComplex(HostContext& context, const GemmProblem& problem);
}  // namespace avx2
namespace avx512 {
void RunGemm(HostContext& context, const GemmProblem& problem);
void RunShortComplex(HostContext& context, const GemmProblem& problem);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMM_PROBLEM_H_
