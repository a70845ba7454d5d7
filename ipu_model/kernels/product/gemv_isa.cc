// A few rows times a matrix. A B with unit stride along n is read row by row into sums that stay in L1; a B
// with unit stride along k is multiplied by dot products. Compiled per instruction set.
#include <algorithm>

#include "kernels/product/gemv.h"
#include "kernels/product/gemv_operands.h"
#include "kernels/vector/register_transpose.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Bytes of B from which a second worker pays.
constexpr std::int64_t kParallelBytes = 64 << 10;
// Bytes of the sums that a worker keeps in L1.
constexpr std::int64_t kSumBytes = 8 << 10;
// Long dot products are summed in pieces of this many k, so that the result does not depend on the number of
// workers.
constexpr std::int64_t kPiece = 8192;
// Rows of B that are read together: as many streams as the hardware prefetcher follows.
constexpr int kRowsAtOnce = 8;

template <typename T, typename Source, int kM>
struct FewRows {
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;
  // Dot products that are computed together, and partial sums of each: enough chains to hide the latency of
  // the FMAs.
  static constexpr int kColumns = 4;
  static constexpr int kChains = kM == 1 ? 2 : 1;

  // Operands: x [kM, k] with contiguous rows x_row apart; sums y [kM, n] with rows y_row apart.
  const T* x;
  std::int64_t x_row;
  const Source* b;
  std::int64_t b_row, b_column;
  T* y;
  std::int64_t y_row;

  // y[r, j] += sum over i < kRows of x[r, k + i] * b[k + i, j] for columns [begin, end).
  template <int kRows>
  void AddRows(std::int64_t k, std::int64_t begin, std::int64_t end) const {
    const Source* rows = b + k * b_row;
    const T* factors = x + k;
    std::int64_t j = begin;
    for (; j + kLanes<T> <= end; j += kLanes<T>) {
      Vector loaded[kRows];
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) loaded[i] = LoadConverted<T>(rows + i * b_row + j);
#pragma GCC unroll 8
      for (int r = 0; r < kM; ++r) {
        Vector sum = *reinterpret_cast<const Memory*>(y + r * y_row + j);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) sum += loaded[i] * factors[r * x_row + i];
        *reinterpret_cast<Memory*>(y + r * y_row + j) = sum;
      }
    }
    if (j == end) return;
    const int lanes = static_cast<int>(end - j);
    const LaneMask<T> mask(lanes);
    for (int r = 0; r < kM; ++r) {
      Vector sum = mask.Load(y + r * y_row + j);
      for (int i = 0; i < kRows; ++i)
        sum += LoadPart<T>(rows + i * b_row + j, lanes) * factors[r * x_row + i];
      mask.Store(y + r * y_row + j, sum);
    }
  }

  void ByRows(std::int64_t k, std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t kBlock = kSumBytes / static_cast<std::int64_t>(sizeof(T)) / kM;
    for (std::int64_t c = begin; c < end; c += kBlock) {
      const std::int64_t block_end = std::min(c + kBlock, end);
      for (int r = 0; r < kM; ++r) std::fill(y + r * y_row + c, y + r * y_row + block_end, T{});
      std::int64_t i = 0;
      for (; i + kRowsAtOnce <= k; i += kRowsAtOnce) AddRows<kRowsAtOnce>(i, c, block_end);
      for (; i < k; ++i) AddRows<1>(i, c, block_end);
    }
  }

  // The sums of the lanes of one or four vectors, in the first lanes.
  template <int kN>
  [[gnu::always_inline]] static Vector SumLanes(const Vector (&v)[kN]) {
    static_assert(kN == 1 || kN == 4, "vectors that are added in pairs");
    if constexpr (kN == 1) return AddLanes<kLanes<T>>(v[0]);
    if constexpr (kN == 4)
      return AddLanes<kLanes<T> / 4>(AddPairs(AddPairs(v[0], v[1]), AddPairs(v[2], v[3])));
  }
  // The sum of every kCount lanes, one after the other.
  template <int kCount>
  [[gnu::always_inline]] static Vector AddLanes(Vector v) {
    if constexpr (kCount == 1) {
      return v;
    } else {
      return AddLanes<kCount / 2>(AddPairs(v, v));
    }
  }
  // The sums of neighbours in a, then those in b.
  [[gnu::always_inline]] static Vector AddPairs(Vector a, Vector b) {
    return EverySecond<T>::Of(a, b, 0) + EverySecond<T>::Of(a, b, 1);
  }

  // to[r, j] = sum over [k_begin, k_end) of x[r, k] * b[k, column + j] for j < kN.
  template <int kN>
  void Dots(std::int64_t column, std::int64_t k_begin, std::int64_t k_end, T* to, std::int64_t to_row) const {
    Vector sums[kM][kN][kChains] = {};
    const Source* from = b + column * b_column;
    std::int64_t i = k_begin;
    constexpr int kStep = kChains * kLanes<T>;
    for (; i + kStep <= k_end; i += kStep) {
#pragma GCC unroll 2
      for (int u = 0; u < kChains; ++u) {
        Vector loaded[kN];
#pragma GCC unroll 4
        for (int j = 0; j < kN; ++j) loaded[j] = LoadConverted<T>(from + j * b_column + i + u * kLanes<T>);
#pragma GCC unroll 8
        for (int r = 0; r < kM; ++r) {
          const Vector factors = *reinterpret_cast<const Memory*>(x + r * x_row + i + u * kLanes<T>);
#pragma GCC unroll 4
          for (int j = 0; j < kN; ++j) sums[r][j][u] += loaded[j] * factors;
        }
      }
    }
    for (; i < k_end; i += kLanes<T>) {
      const int lanes = static_cast<int>(std::min<std::int64_t>(kLanes<T>, k_end - i));
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) {
        const Vector loaded = LoadPart<T>(from + j * b_column + i, lanes);
#pragma GCC unroll 8
        for (int r = 0; r < kM; ++r) sums[r][j][0] += loaded * LaneMask<T>(lanes).Load(x + r * x_row + i);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kM; ++r) {
      Vector lanes[kN];
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) {
        lanes[j] = sums[r][j][0];
        if constexpr (kChains == 2) lanes[j] += sums[r][j][1];
      }
      const Vector found = SumLanes(lanes);
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) to[r * to_row + j] = found[j];
    }
  }

  void ByDots(std::int64_t k_begin, std::int64_t k_end, std::int64_t begin, std::int64_t end, T* to,
              std::int64_t to_row) const {
    std::int64_t j = begin;
    for (; j + kColumns <= end; j += kColumns) Dots<kColumns>(j, k_begin, k_end, to + j, to_row);
    for (; j < end; ++j) Dots<1>(j, k_begin, k_end, to + j, to_row);
  }
};

template <typename F>
void Split(ThreadPool& pool, bool parallel, std::int64_t n, std::int64_t grain, F&& f) {
  if (parallel) {
    ParallelFor(pool, n, grain, f, /*pieces_per_worker=*/1);  // one piece reads long rows of B
  } else {
    f(std::int64_t{0}, n);
  }
}

template <typename T, typename Source, int kM>
void Run(HostContext& context, const GemmProblem& p) {
  // One column is contiguous along k, whatever the stride of its columns.
  const bool by_rows = p.b.column == 1 && (p.n > 1 || p.b.row != 1);
  const bool direct_x = SizeOf(p.a.type) == sizeof(T) && p.a.column == 1;
  const bool direct_y = SizeOf(p.c.type) == sizeof(T) && (p.c.column == 1 || p.n == 1);
  const std::int64_t pieces = by_rows ? 1 : (p.k + kPiece - 1) / kPiece;
  const bool parallel = p.k * p.n * static_cast<std::int64_t>(sizeof(Source)) >= kParallelBytes;
  FewRows<T, Source, kM> product;
  product.x_row = direct_x ? p.a.row : p.k + kLanes<T>;
  product.y_row = direct_y ? p.c.row : p.n;
  product.b_row = p.b.row;
  product.b_column = p.b.column;
  T* const x = direct_x ? nullptr : context.scratch.Allocate<T>(static_cast<std::size_t>(kM * product.x_row));
  T* const sums = direct_y ? nullptr : context.scratch.Allocate<T>(static_cast<std::size_t>(kM * p.n));
  T* const partials =
      pieces > 1 ? context.scratch.Allocate<T>(static_cast<std::size_t>(pieces * kM * p.n)) : nullptr;
  product.x = x;
  for (std::int64_t g = 0; g < p.groups; ++g) {
    if (direct_x) {
      product.x = static_cast<const T*>(p.a.data) + g * p.a.group;
    } else {
      CopyA(p, g, x, product.x_row);
    }
    product.b = static_cast<const Source*>(p.b.data) + g * p.b.group;
    unsigned char* const c = static_cast<unsigned char*>(const_cast<void*>(p.c.data)) +
                             g * p.c.group * static_cast<std::int64_t>(SizeOf(p.c.type));
    product.y = direct_y ? reinterpret_cast<T*>(c) : sums;
    if (by_rows) {
      Split(context.pool, parallel, p.n, 64,
            [&](std::int64_t begin, std::int64_t end) { product.ByRows(p.k, begin, end); });
    } else if (pieces == 1) {
      Split(context.pool, parallel, p.n, 4, [&](std::int64_t begin, std::int64_t end) {
        product.ByDots(0, p.k, begin, end, product.y, product.y_row);
      });
    } else {
      Split(context.pool, parallel, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          product.ByDots(i * kPiece, std::min(p.k, (i + 1) * kPiece), 0, p.n, partials + i * kM * p.n, p.n);
      });
      for (std::int64_t j = 0; j < kM * p.n; ++j) {
        T sum{};
        for (std::int64_t i = 0; i < pieces; ++i) sum += partials[i * kM * p.n + j];
        product.y[j / p.n * product.y_row + j % p.n] = sum;
      }
    }
    if (!direct_y) StoreSums(p.c, sums, p.n, kM, static_cast<int>(p.n), c);
  }
}

template <typename T, typename Source>
void RunRows(HostContext& context, const GemmProblem& p) {
  WithRows<kFewRows>(static_cast<int>(p.m), [&](auto m) { Run<T, Source, m.value>(context, p); });
}

}  // namespace

bool RunFewRows(HostContext& context, const GemmProblem& p) {
  const std::int64_t b_bytes = p.k * p.n * static_cast<std::int64_t>(SizeOf(p.b.type));
  if (p.m > kFewRows || (p.m > 1 && b_bytes < kStreamedBytes) || (p.b.column != 1 && p.b.row != 1))
    return false;
  if (p.accumulator == DType::kF32) {
    if (p.b.type == DType::kF16) {
      RunRows<float, Half>(context, p);
    } else if (p.b.type == DType::kBF16) {
      RunRows<float, BrainFloat>(context, p);
    } else {
      RunRows<float, float>(context, p);
    }
    return true;
  }
  if (p.accumulator == DType::kF64) {
    RunRows<double, double>(context, p);
    return true;
  }
  return false;
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
