// Many products of tiny matrices of any strides: all of a product is in registers, and its sums are unrolled.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/product/thin.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Below so many products others are as fast; from so many on a second worker pays.
constexpr std::int64_t kFewestGroups = 16, kParallelGroups = 4 << 10;

template <typename T, int kM, int kK, int kN>
void RunGroups(const GemmProblem& p, std::int64_t begin, std::int64_t end) {
  const auto* a = static_cast<const T*>(p.a.data) + begin * p.a.group;
  const auto* b = static_cast<const T*>(p.b.data) + begin * p.b.group;
  T* c = static_cast<T*>(const_cast<void*>(p.c.data)) + begin * p.c.group;
  const std::int64_t a_row = p.a.row, a_column = p.a.column, b_row = p.b.row, b_column = p.b.column,
                     c_row = p.c.row, c_column = p.c.column;
  for (std::int64_t g = begin; g < end; ++g) {
    T sums[kM][kN] = {};
#pragma GCC unroll 4
    for (int i = 0; i < kK; ++i) {
      T row[kN];
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) row[j] = b[i * b_row + j * b_column];
#pragma GCC unroll 4
      for (int r = 0; r < kM; ++r) {
        const T factor = a[r * a_row + i * a_column];
#pragma GCC unroll 4
        for (int j = 0; j < kN; ++j) sums[r][j] += factor * row[j];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) c[r * c_row + j * c_column] = sums[r][j];
    }
    a += p.a.group;
    b += p.b.group;
    c += p.c.group;
  }
}

using Function = void (*)(const GemmProblem& p, std::int64_t begin, std::int64_t end);
constexpr int kSize = static_cast<int>(kMostThin);
// Indexed by ((m - 1) * kSize + k - 1) * kSize + n - 1.
template <typename T, int... kIndices>
constexpr std::array<Function, sizeof...(kIndices)> MakeFunctions(std::integer_sequence<int, kIndices...>) {
  return {
      RunGroups<T, kIndices / (kSize * kSize) + 1, kIndices / kSize % kSize + 1, kIndices % kSize + 1>...};
}
template <typename T>
constexpr auto kFunctions = MakeFunctions<T>(std::make_integer_sequence<int, kSize * kSize * kSize>());

}  // namespace

bool RunTiny(HostContext& context, const GemmProblem& p) {
  if (std::max({p.m, p.k, p.n}) > kMostThin || p.groups < kFewestGroups || p.half_step > 0) return false;
  const DType type = p.accumulator;
  if (p.a.type != type || p.b.type != type || p.c.type != type) return false;
  if (type != DType::kF32 && type != DType::kF64) return false;
  const auto index = static_cast<std::size_t>(((p.m - 1) * kSize + p.k - 1) * kSize + p.n - 1);
  const Function run = type == DType::kF32 ? kFunctions<float>[index] : kFunctions<double>[index];
  if (p.groups < kParallelGroups) {
    run(p, 0, p.groups);
  } else {
    ParallelFor(context.pool, p.groups, kFewestGroups,
                [&](std::int64_t begin, std::int64_t end) { run(p, begin, end); });
  }
  return true;
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
