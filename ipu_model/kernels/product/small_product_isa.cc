// A few rows times a matrix in the cache: all sums stay in registers. Compiled per instruction set.
#include <algorithm>
#include <type_traits>

#include "kernels/product/gemv_operands.h"
#include "kernels/product/small_product.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// The number of multiply-add chains that hides the latency of one, and the registers that hold sums.
constexpr int kChainsWanted = 8;
constexpr int kSums = kVectorBytes == 64 ? 16 : 8;
// Sums of fewer terms use one chain, in the order of k as in larger products: several chains would have only
// a term or two each.
constexpr std::int64_t kChainedTerms = 16;

// Lane i of the result is the sum of the lanes of v[i].
template <typename T>
[[gnu::always_inline]] inline typename VectorTypes<T>::Register SumsOfLanes(
    typename VectorTypes<T>::Register (&v)[kLanes<T>]) {
#pragma GCC unroll 4
  for (int half = kLanes<T> / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i)
      v[i] = Interleave<T>::Low(v[i], v[i + half]) + Interleave<T>::High(v[i], v[i + half]);
  }
  return v[0];
}

template <typename T, typename Source, int kM>
struct Kernel {
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;

  // x [kM, k] with rows x_row apart; sums y [kM, n] with rows y_row apart.
  std::int64_t k, n;
  const T* x;
  std::int64_t x_row;
  const Source* b;
  std::int64_t b_row, b_column;
  T* y;
  std::int64_t y_row;

  // For B with unit stride along n: computes kVectors vectors of columns from j on, and only `lanes` lanes of
  // the last vector.
  template <int kVectors, bool kPart>
  void Columns(std::int64_t j, int lanes) const {
    constexpr int kChains = std::max(1, std::min(4, kChainsWanted / (kM * kVectors)));
    Vector sums[kChains][kM][kVectors] = {};
    const Source* row = b + j;
    const auto add = [&](std::int64_t i, int chain) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const Source* from = row + v * kLanes<T>;
        const Vector loaded = kPart && v + 1 == kVectors ? LoadPart<T>(from, lanes) : LoadConverted<T>(from);
#pragma GCC unroll 4
        for (int r = 0; r < kM; ++r) sums[chain][r][v] += loaded * x[r * x_row + i];
      }
      row += b_row;
    };
    std::int64_t i = 0;
    for (; k >= kChainedTerms && i + kChains <= k; i += kChains) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) add(i + chain, chain);
    }
    for (; i < k; ++i) add(i, 0);
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        Vector sum = sums[0][r][v];
#pragma GCC unroll 4
        for (int chain = 1; chain < kChains; ++chain) sum += sums[chain][r][v];
        T* to = y + r * y_row + j + v * kLanes<T>;
        if (kPart && v + 1 == kVectors) {
          LaneMask<T>(lanes).Store(to, sum);
        } else {
          *reinterpret_cast<Memory*>(to) = sum;
        }
      }
    }
  }

  void ByRows() const {
    constexpr int kMost = kSums / (kM == 3 ? 4 : kM);
    std::int64_t j = 0;
    for (; j + kMost * kLanes<T> <= n; j += kMost * kLanes<T>) Columns<kMost, false>(j, 0);
    if constexpr (kMost > 8) {
      for (; j + 8 * kLanes<T> <= n; j += 8 * kLanes<T>) Columns<8, false>(j, 0);
    }
    if constexpr (kMost > 4) {
      for (; j + 4 * kLanes<T> <= n; j += 4 * kLanes<T>) Columns<4, false>(j, 0);
    }
    if constexpr (kMost > 2) {
      for (; j + 2 * kLanes<T> <= n; j += 2 * kLanes<T>) Columns<2, false>(j, 0);
    }
    for (; j + kLanes<T> <= n; j += kLanes<T>) Columns<1, false>(j, 0);
    if (j < n) Columns<1, true>(j, static_cast<int>(n - j));
  }

  // For B with unit stride along k: adds the vectors of the dot product of row r and column j + c to
  // totals[r * kRow + c].
  template <int kN, int kRow>
  [[gnu::always_inline]] void AddDots(std::int64_t j, Vector* totals) const {
    constexpr int kChains = std::max(1, std::min(4, kChainsWanted / (kM * kN)));
    Vector sums[kChains][kM][kN] = {};
    const Source* from = b + j * b_column;
    constexpr int kStep = kChains * kLanes<T>;
    std::int64_t i = 0;
    for (; i + kStep <= k; i += kStep) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) {
        const std::int64_t at = i + chain * kLanes<T>;
        Vector factors[kM];
#pragma GCC unroll 4
        for (int r = 0; r < kM; ++r) factors[r] = *reinterpret_cast<const Memory*>(x + r * x_row + at);
#pragma GCC unroll 16
        for (int c = 0; c < kN; ++c) {
          const Vector loaded = LoadConverted<T>(from + c * b_column + at);
#pragma GCC unroll 4
          for (int r = 0; r < kM; ++r) sums[chain][r][c] += loaded * factors[r];
        }
      }
    }
    for (; i < k; i += kLanes<T>) {
      const int lanes = static_cast<int>(std::min<std::int64_t>(kLanes<T>, k - i));
      const LaneMask<T> mask(lanes);
#pragma GCC unroll 16
      for (int c = 0; c < kN; ++c) {
        const Vector loaded = LoadPart<T>(from + c * b_column + i, lanes);
#pragma GCC unroll 4
        for (int r = 0; r < kM; ++r) sums[0][r][c] += loaded * mask.Load(x + r * x_row + i);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kN; ++c) {
        totals[r * kRow + c] = sums[0][r][c];
#pragma GCC unroll 4
        for (int chain = 1; chain < kChains; ++chain) totals[r * kRow + c] += sums[chain][r][c];
      }
    }
  }

  // Computes kN columns from j on, a few at a time, because each column is a stream from memory.
  template <int kN>
  void Dots(std::int64_t j) const {
    constexpr int kStreams = std::min(kN, 4);
    Vector all[kLanes<T>] = {};
#pragma GCC unroll 4
    for (int c = 0; c < kN; c += kStreams) AddDots<kStreams, kN>(j + c, all + c);
    const Vector totals = SumsOfLanes<T>(all);
    if constexpr (kM == 1 && kN == kLanes<T>) {
      *reinterpret_cast<Memory*>(y + j) = totals;
    } else {
      alignas(kVectorBytes) T values[kLanes<T>];
      *reinterpret_cast<Memory*>(values) = totals;
      for (int r = 0; r < kM; ++r) std::copy_n(values + r * kN, kN, y + r * y_row + j);
    }
  }

  void ByDots() const {
    constexpr int kN = std::max(1, std::min(kLanes<T>, kSums) / (kM == 3 ? 4 : kM));
    if (n < kN) {
      for (std::int64_t j = 0; j < n; ++j) Dots<1>(j);
      return;
    }
    std::int64_t j = 0;
    for (; j + kN <= n; j += kN) Dots<kN>(j);
    if (j < n) Dots<kN>(n - kN);  // overlaps columns that are already computed
  }
};

template <typename T, typename Source, int kM>
void Run(const MicroArguments& m) {
  const auto& product = *static_cast<const SmallProduct*>(m.operand[2]);
  const GemmProblem& p = product.problem;
  auto* const scratch = static_cast<T*>(const_cast<void*>(m.operand[3]));
  const bool direct_x =
      std::is_same_v<T, float> ? p.a.type == DType::kF32 && p.a.column == 1 : p.a.column == 1;
  const bool direct_y = SizeOf(p.c.type) == sizeof(T) && (p.c.column == 1 || p.n == 1);
  Kernel<T, Source, kM> kernel;
  kernel.k = p.k;
  kernel.n = p.n;
  kernel.x_row = direct_x ? p.a.row : product.row;
  kernel.b_row = p.b.row;
  kernel.b_column = p.b.column;
  kernel.y_row = direct_y ? p.c.row : product.row;
  GemmMatrix a = p.a;
  a.data = m.operand[0];
  for (std::int64_t g = 0; g < p.groups; ++g) {
    if (direct_x) {
      kernel.x = static_cast<const T*>(a.data) + g * a.group;
    } else {
      GemmProblem left = p;
      left.a = a;
      CopyA(left, g, scratch, product.row);
      kernel.x = scratch;
    }
    auto* const c =
        static_cast<unsigned char*>(m.result) + g * p.c.group * static_cast<std::int64_t>(SizeOf(p.c.type));
    T* const sums = scratch + kM * product.row;
    kernel.y = direct_y ? reinterpret_cast<T*>(c) : sums;
    kernel.b = static_cast<const Source*>(m.operand[1]) + g * p.b.group;
    // Dot products add up many columns together; a single column is one dot product per row.
    if (p.b.row == 1 && (p.b.column != 1 || p.n == 1)) {
      kernel.ByDots();
    } else {
      kernel.ByRows();
    }
    if (!direct_y) StoreSums(p.c, sums, product.row, kM, static_cast<int>(p.n), c);
  }
}

template <typename T, typename Source>
MicroFunction OfRows(std::int64_t m) {
  static constexpr MicroFunction kFunctions[kFewRows] = {Run<T, Source, 1>, Run<T, Source, 2>,
                                                         Run<T, Source, 3>, Run<T, Source, 4>};
  return kFunctions[m - 1];
}

}  // namespace

MicroFunction FindSmallProduct(const GemmProblem& p) {
  if (!PacksDirectly(p.a.type, p.accumulator) || !PacksDirectly(p.b.type, p.accumulator) ||
      !StoresDirectly(p.c.type, p.accumulator))
    return nullptr;
  if (p.accumulator == DType::kF64) return OfRows<double, double>(p.m);
  if (p.accumulator != DType::kF32) return nullptr;
  if (p.b.type == DType::kF16) return OfRows<float, Half>(p.m);
  if (p.b.type == DType::kBF16) return OfRows<float, BrainFloat>(p.m);
  return OfRows<float, float>(p.m);
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
