// Vector times matrix. B with unit stride along n is read row by row into a y that stays in L1; B with unit
// stride along k by dot products. Compiled once per instruction set.
#include <algorithm>

#include "pjrt_plugin/ipu_model/kernels/gemm_pack.h"
#include "pjrt_plugin/ipu_model/kernels/gemv.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Bytes of B from which a second worker pays.
constexpr std::int64_t kParallelBytes = 64 << 10;
// y elements a worker keeps in L1.
constexpr std::int64_t kColumnBlock = 2048;
// Long dot products are summed in pieces of this many k, so that the result does not depend on the workers.
constexpr std::int64_t kPiece = 8192;
constexpr int kRowsAtOnce = 8;

template <typename T, typename Source>
struct Gemv {
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;

  // y[j] += sum over i < kRows of x[i] * b[i * row + j]
  template <int kRows>
  static void AddRows(const T* x, const Source* b, std::int64_t row, std::int64_t n, T* y) {
    Vector scalars[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) scalars[i] = Vector{} + x[i];
    std::int64_t j = 0;
    for (; j + kLanes<T> <= n; j += kLanes<T>) {
      Vector sum = *reinterpret_cast<const Memory*>(y + j);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sum += LoadConverted<T>(b + i * row + j) * scalars[i];
      *reinterpret_cast<Memory*>(y + j) = sum;
    }
    if (j < n) {
      const LaneMask<T> mask(static_cast<int>(n - j));
      Vector sum = mask.Load(y + j);
      for (int i = 0; i < kRows; ++i)
        sum += LoadPart<T>(b + i * row + j, static_cast<int>(n - j)) * scalars[i];
      mask.Store(y + j, sum);
    }
  }

  static void ByRows(const T* x, const Source* b, std::int64_t row, std::int64_t k, std::int64_t n, T* y) {
    for (std::int64_t c = 0; c < n; c += kColumnBlock) {
      const std::int64_t columns = std::min(kColumnBlock, n - c);
      std::fill(y + c, y + c + columns, T{});
      std::int64_t i = 0;
      for (; i + kRowsAtOnce <= k; i += kRowsAtOnce)
        AddRows<kRowsAtOnce>(x + i, b + i * row + c, row, columns, y + c);
      for (; i < k; ++i) AddRows<1>(x + i, b + i * row + c, row, columns, y + c);
    }
  }

  static T SumLanes(const Vector& v) {
    alignas(kVectorBytes) T lanes[kLanes<T>];
    *reinterpret_cast<Memory*>(lanes) = v;
    for (int width = kLanes<T> / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
    }
    return lanes[0];
  }

  // y[j] = dot(x, b[j * column ...]) for kColumns j; kChains partial sums each hide the latency of the FMAs.
  template <int kColumns, int kChains>
  static void Dots(const T* x, const Source* b, std::int64_t column, std::int64_t k, T* y) {
    Vector sums[kColumns][kChains] = {};
    std::int64_t i = 0;
    constexpr int kStep = kChains * kLanes<T>;
    for (; i + kStep <= k; i += kStep) {
#pragma GCC unroll 8
      for (int u = 0; u < kChains; ++u) {
        const Vector factors = *reinterpret_cast<const Memory*>(x + i + u * kLanes<T>);
#pragma GCC unroll 8
        for (int j = 0; j < kColumns; ++j)
          sums[j][u] += LoadConverted<T>(b + j * column + i + u * kLanes<T>) * factors;
      }
    }
    for (; i < k; i += kLanes<T>) {
      const int lanes = static_cast<int>(std::min<std::int64_t>(kLanes<T>, k - i));
      const Vector factors = LaneMask<T>(lanes).Load(x + i);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) sums[j][0] += LoadPart<T>(b + j * column + i, lanes) * factors;
    }
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      Vector sum = sums[j][0];
#pragma GCC unroll 8
      for (int u = 1; u < kChains; ++u) sum += sums[j][u];
      y[j] = SumLanes(sum);
    }
  }

  static void ByDots(const T* x, const Source* b, std::int64_t column, std::int64_t k, std::int64_t n, T* y) {
    std::int64_t j = 0;
    for (; j + 4 <= n; j += 4) Dots<4, 2>(x, b + j * column, column, k, y + j);
    for (; j < n; ++j) Dots<1, 8>(x, b + j * column, column, k, y + j);
  }

  static void Run(HostContext& context, const GemmProblem& p) {
    const bool rows = p.b.column == 1;
    const bool direct_y = SizeOf(p.c.type) == sizeof(T) && (p.c.column == 1 || p.n == 1);
    const std::int64_t bytes = p.k * p.n * static_cast<std::int64_t>(sizeof(Source));
    const std::int64_t pieces = rows ? 1 : (p.k + kPiece - 1) / kPiece;
    // x dense, y dense, and one partial y for each piece.
    T* const x = context.scratch.Allocate<T>(static_cast<std::size_t>(p.k + kLanes<T>));
    T* const dense_y =
        direct_y ? nullptr : context.scratch.Allocate<T>(static_cast<std::size_t>(p.n + kLanes<T>));
    T* const partials =
        pieces > 1 ? context.scratch.Allocate<T>(static_cast<std::size_t>(pieces * p.n)) : nullptr;
    const bool parallel = bytes >= kParallelBytes;
    for (std::int64_t g = 0; g < p.groups; ++g) {
      PackX(p, g, x);
      const Source* b = static_cast<const Source*>(p.b.data) + g * p.b.group;
      T* const y = direct_y ? const_cast<T*>(static_cast<const T*>(p.c.data)) + g * p.c.group : dense_y;
      if (rows) {
        auto columns = [&](std::int64_t begin, std::int64_t end) {
          ByRows(x, b + begin, p.b.row, p.k, end - begin, y + begin);
        };
        Split(context.pool, parallel, p.n, 64, columns);
      } else if (pieces == 1) {
        auto columns = [&](std::int64_t begin, std::int64_t end) {
          ByDots(x, b + begin * p.b.column, p.b.column, p.k, end - begin, y + begin);
        };
        Split(context.pool, parallel, p.n, 4, columns);
      } else {
        auto part = [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            ByDots(x + i * kPiece, b + i * kPiece, p.b.column, std::min(kPiece, p.k - i * kPiece), p.n,
                   partials + i * p.n);
        };
        Split(context.pool, parallel, pieces, 1, part);
        for (std::int64_t j = 0; j < p.n; ++j) {
          T sum{};
          for (std::int64_t i = 0; i < pieces; ++i) sum += partials[i * p.n + j];
          y[j] = sum;
        }
      }
      if (!direct_y) StoreY(p, g, y);
    }
  }

 private:
  template <typename F>
  static void Split(ThreadPool& pool, bool parallel, std::int64_t n, std::int64_t grain, F& f) {
    if (parallel) {
      ParallelFor(pool, n, grain, f);
    } else {
      f(0, n);
    }
  }

  template <typename From>
  static void CopyX(const GemmMatrix& a, std::int64_t group, std::int64_t k, T* x) {
    PackPanel<T, From>(static_cast<const From*>(a.data) + group * a.group, a.column, 0, static_cast<int>(k),
                       1, static_cast<int>(k), x);
  }
  static void PackX(const GemmProblem& p, std::int64_t group, T* x) {
    if constexpr (std::is_same_v<T, float>) {
      if (p.a.type == DType::kF16) return CopyX<Half>(p.a, group, p.k, x);
      if (p.a.type == DType::kBF16) return CopyX<BrainFloat>(p.a, group, p.k, x);
    }
    CopyX<T>(p.a, group, p.k, x);
  }
  static void StoreY(const GemmProblem& p, std::int64_t group, const T* y) {
    unsigned char* to = static_cast<unsigned char*>(const_cast<void*>(p.c.data)) +
                        group * p.c.group * static_cast<std::int64_t>(SizeOf(p.c.type));
    const int n = static_cast<int>(p.n);
    if constexpr (std::is_same_v<T, float>) {
      if (p.c.type == DType::kF16) return StoreBlock<T, Half>(y, 0, 1, n, to, 0, p.c.column);
      if (p.c.type == DType::kBF16) return StoreBlock<T, BrainFloat>(y, 0, 1, n, to, 0, p.c.column);
    }
    StoreBlock<T, T>(y, 0, 1, n, to, 0, p.c.column);
  }
};

}  // namespace

bool RunGemv(HostContext& context, const GemmProblem& p) {
  if (p.b.column != 1 && p.b.row != 1) return false;
  if (p.accumulator == DType::kF32) {
    if (p.b.type == DType::kF16) {
      Gemv<float, Half>::Run(context, p);
    } else if (p.b.type == DType::kBF16) {
      Gemv<float, BrainFloat>::Run(context, p);
    } else {
      Gemv<float, float>::Run(context, p);
    }
    return true;
  }
  if (p.accumulator == DType::kF64) {
    Gemv<double, double>::Run(context, p);
    return true;
  }
  return false;
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
