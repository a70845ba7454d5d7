// Converts the few rows of a product and their results, from and to any strides and types. Only for *_isa.cc
// files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMV_OPERANDS_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMV_OPERANDS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/product/gemm_pack.h"
#include "kernels/product/gemm_problem.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

template <typename T>
void StoreSums(const GemmMatrix& c, const T* from, std::int64_t from_row, int m, int n, void* to) {
  if constexpr (std::is_same_v<T, float>) {
    if (c.type == DType::kF16) return StoreBlock<T, Half>(from, from_row, m, n, to, c.row, c.column);
    if (c.type == DType::kBF16) return StoreBlock<T, BrainFloat>(from, from_row, m, n, to, c.row, c.column);
  }
  StoreBlock<T, T>(from, from_row, m, n, to, c.row, c.column);
}

// x[r * x_row + i] = a[r, i].
template <typename T, typename From>
void CopyRows(const GemmMatrix& a, std::int64_t group, std::int64_t m, std::int64_t k, T* x,
              std::int64_t x_row) {
  const From* from = static_cast<const From*>(a.data) + group * a.group;
  for (std::int64_t r = 0; r < m; ++r)
    PackPanel<T, From>(from + r * a.row, a.column, 0, static_cast<int>(k), 1, static_cast<int>(k),
                       x + r * x_row);
}
template <typename T>
void CopyA(const GemmProblem& p, std::int64_t group, T* x, std::int64_t x_row) {
  if constexpr (std::is_same_v<T, float>) {
    if (p.a.type == DType::kF16) return CopyRows<T, Half>(p.a, group, p.m, p.k, x, x_row);
    if (p.a.type == DType::kBF16) return CopyRows<T, BrainFloat>(p.a, group, p.m, p.k, x, x_row);
  }
  CopyRows<T, T>(p.a, group, p.m, p.k, x, x_row);
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMV_OPERANDS_H_
