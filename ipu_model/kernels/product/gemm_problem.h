// The problem that gemm.cc passes to the kernel of the chosen instruction set. Private to the GEMM files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_PROBLEM_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_PROBLEM_H_

#include <cstdint>

#include "ipu_model/Types.hpp"
#include "kernels/host/context.h"

namespace ipu_model {

// A stack of matrices. Strides are in elements.
struct GemmMatrix {
  const void* data = nullptr;
  DType type = DType::kF32;
  std::int64_t group = 0, row = 0, column = 0;
};

// Products with at most this many rows and a B of at least kStreamedBytes are bound by reading B, which
// register tiles would read in segments that are too short.
constexpr int kFewRows = 4;
constexpr std::int64_t kStreamedBytes = 512 << 10;
// Complex sums of at most this many terms are bound by memory traffic, not by FMAs.
constexpr std::int64_t kShortComplexSum = 8;

struct GemmProblem {
  std::int64_t groups = 1, m = 0, n = 0, k = 0;
  GemmMatrix a, b;                  // [m, k], [k, n]
  GemmMatrix c;                     // [m, n], the result
  DType accumulator = DType::kF32;  // kF32, kF64, kU32 or kU64
  // If above 0: c is dense f32 and holds f16 values; after every half_step k, their products are added to c,
  // which is then rounded to f16.
  std::int64_t half_step = 0;
};

// Operand types that packing converts on the fly to `accumulator`; others are converted before.
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
// Result types in which tiles are written; other results are written in the accumulator's type and converted
// afterwards.
constexpr bool StoresDirectly(DType type, DType accumulator) {
  if (accumulator == DType::kU32)
    return PacksDirectly(type, accumulator) || type == DType::kS16 || type == DType::kU16;
  return PacksDirectly(type, accumulator);
}

// RunShortComplex: all matrices have the accumulator's type, kC64 or kC128, with any strides; k is at most
// kShortComplexSum. Each real product is rounded, and the four kinds of products are summed separately in the
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
