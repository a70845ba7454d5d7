// Chooses types, orientation and instruction set of a matrix product.
#include "kernels/product/gemm.h"

#include <algorithm>
#include <cassert>
#include <complex>
#include <utility>

#include "kernels/host/half_rounding.h"
#include "kernels/host/isa.h"
#include "kernels/product/gemm_convert.h"
#include "kernels/product/gemm_problem.h"
#include "kernels/product/small_tiles.h"
#include "kernels/product/thin.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

// Columns that fill a vector of any instruction set.
constexpr std::int64_t kShortComplexColumns = 16;

GemmMatrix MatrixOf(const HostTensor& tensor) {
  assert(tensor.rank == 3);
  return {tensor.data, tensor.type, tensor.strides[0], tensor.strides[1], tensor.strides[2]};
}

std::int64_t Dense(GemmMatrix& matrix, std::int64_t rows, std::int64_t columns) {
  matrix.column = 1;
  matrix.row = columns;
  matrix.group = rows * columns;
  return rows * columns;
}

// Returns a dense copy of a [groups, rows, columns] stack with elements of `type`.
GemmMatrix Converted(HostContext& context, const GemmMatrix& from, DType type, std::int64_t groups,
                     std::int64_t rows, std::int64_t columns) {
  GemmMatrix to;
  to.type = type;
  const std::int64_t size = Dense(to, rows, columns);
  void* data = context.scratch.Allocate(static_cast<std::size_t>(groups * size) * SizeOf(type));
  to.data = data;
  LoadMatrices(context, from, to, data, groups, rows, columns);
  return to;
}

// Transposes the problem: (A B)^T = B^T A^T.
void Swap(GemmProblem& p) {
  std::swap(p.a, p.b);
  std::swap(p.m, p.n);
  std::swap(p.a.row, p.a.column);
  std::swap(p.b.row, p.b.column);
  std::swap(p.c.row, p.c.column);
}

// Whether the transposed product needs less packing.
bool BetterSwapped(const GemmProblem& p) {
  if (p.m == 1) return false;
  if (p.n == 1) return true;
  if (p.c.column != 1) return p.c.row == 1;
  // Few rows, and B stored transposed: B's rows are read in place, A becomes one packed strip.
  constexpr std::int64_t kStrip = 32, kTile = 14;
  if (p.m <= kStrip && p.n > 2 * kStrip && p.b.row == 1 && p.b.column != 1) return true;
  // Few columns, and a large row-major A: A is read once, row by row.
  if (p.n <= kFewRows && p.m > p.n && p.a.column == 1 &&
      p.m * p.k * static_cast<std::int64_t>(SizeOf(p.a.type)) >= kStreamedBytes)
    return true;
  // Few columns, and A stored transposed: A is read in place.
  return p.n <= kTile && p.m > 2 * kStrip && p.a.row == 1 && p.a.column != 1;
}

// If all groups share B, computes one tall product instead of many.
void FoldGroups(GemmProblem& p) {
  if (p.groups > 1 && p.b.group == 0 && p.a.group == p.m * p.a.row && p.c.group == p.m * p.c.row) {
    p.m *= p.groups;
    p.groups = 1;
  }
}

// Converts operands whose type the packing does not support to the accumulator's type.
void ConvertOperands(HostContext& context, GemmProblem& p) {
  if (!PacksDirectly(p.a.type, p.accumulator))
    p.a = Converted(context, p.a, p.accumulator, p.groups, p.m, p.k);
  if (!PacksDirectly(p.b.type, p.accumulator))
    p.b = Converted(context, p.b, p.accumulator, p.groups, p.k, p.n);
}

// Up to this many elements of a matrix, tiles read it where it lies: it stays in the L1 cache.
constexpr std::int64_t kSmallMatrix = 64 * 64;
// Multiply-adds from which a second worker pays.
constexpr std::int64_t kWorkForThreads = 96 * 96 * 96;

// Small matrices: what the blocked product decides and packs for each of them would take as long as the
// product.
bool RunSmall(HostContext& context, const GemmProblem& p) {
  if (p.m == 1 || std::max({p.m * p.k, p.k * p.n, p.m * p.n}) > kSmallMatrix || p.k > kSmallMatrix / 8 ||
      p.c.column != 1)
    return false;
  const SmallTiles tiles = JAX_IPU_FOR_ISA(FindSmallTiles(p));
  if (tiles.run == nullptr) return false;
  const std::int64_t work = p.m * p.n * p.k;
  const int workers = work * p.groups < kWorkForThreads
                          ? 1
                          : static_cast<int>(std::min<std::int64_t>(p.groups, context.pool.size()));
  const std::size_t bytes = (tiles.scratch_bytes + 63) / 64 * 64;
  auto* scratch =
      static_cast<unsigned char*>(context.scratch.Allocate(bytes * static_cast<std::size_t>(workers)));
  if (workers == 1) {
    tiles.run(p, 0, p.groups, scratch);
    return true;
  }
  const std::int64_t pieces = std::min(p.groups, workers * kPiecesPerWorker);
  WorkShares shares(pieces, workers);
  auto task = [&](int w) {
    for (std::int64_t i = shares.Next(w); i != WorkShares::kNone; i = shares.Next(w))
      tiles.run(p, p.groups * i / pieces, p.groups * (i + 1) / pieces,
                scratch + static_cast<std::size_t>(w) * bytes);
  };
  context.pool.Run(workers, TaskRef(task));
  return true;
}

// Products that are thin along all but one dimension of the result, or tiny and many.
bool RunThin(HostContext& context, GemmProblem p) {
  if (JAX_IPU_FOR_ISA(RunTiny(context, p))) return true;
  if (p.n < p.m) Swap(p);
  // A dimension of extent 1 may have any stride.
  if (p.k == 1) p.b.row = p.b.column == 1 ? p.n : 1;
  if (p.m == 1) p.c.row = p.c.column == 1 ? p.n : 1;
  return JAX_IPU_FOR_ISA(RunThin(context, p));
}

void RunBlocked(HostContext& context, GemmProblem p) {
  // A dimension of extent 1 may have any stride, so set it to the stride that the kernel expects.
  if (p.k == 1) {
    if (p.a.row != 1) p.a.column = 1;
    if (p.b.column != 1) p.b.row = 1;
  }
  JAX_IPU_FOR_ISA(RunGemm(context, p));
}

GemmProblem ProblemOf(const HostTensor& a, const HostTensor& b, const HostTensor& out) {
  GemmProblem p;
  p.groups = out.shape[0];
  p.m = out.shape[1];
  p.n = out.shape[2];
  p.k = a.shape[2];
  assert(a.shape[0] == p.groups && a.shape[1] == p.m && b.shape[0] == p.groups && b.shape[1] == p.k &&
         b.shape[2] == p.n);
  p.a = MatrixOf(a);
  p.b = MatrixOf(b);
  p.c = MatrixOf(out);
  p.accumulator = GemmAccumulator(a.type, b.type, out.type);
  assert(p.accumulator != DType::kCount);
  return p;
}

void RunReal(HostContext& context, GemmProblem p) {
  ConvertOperands(context, p);
  const GemmMatrix result = p.c;
  void* sums = nullptr;
  const std::int64_t groups = p.groups, m = p.m, n = p.n;
  if (!StoresDirectly(result.type, p.accumulator)) {
    p.c.type = p.accumulator;
    const std::int64_t size = Dense(p.c, m, n);
    sums = context.scratch.Allocate(static_cast<std::size_t>(groups * size) * SizeOf(p.accumulator));
    p.c.data = sums;
  }
  const GemmMatrix written = p.c;
  FoldGroups(p);
  if (!RunThin(context, p)) {
    if (BetterSwapped(p)) Swap(p);
    if (!RunSmall(context, p)) RunBlocked(context, p);
  }
  if (sums != nullptr) StoreMatrices(context, written, result, const_cast<void*>(result.data), groups, m, n);
}

// Computes the real product of A's (re, im) columns and the rows [re im; -im re] of B: one FMA per product of
// parts.
template <typename Real>
void RunLongComplex(HostContext& context, const GemmProblem& p) {
  using Complex = std::complex<Real>;
  constexpr DType kReal = sizeof(Real) == 4 ? DType::kF32 : DType::kF64;
  const std::int64_t groups = p.groups, m = p.m, n = p.n, k = p.k;
  Real* const b = context.scratch.Allocate<Real>(static_cast<std::size_t>(4 * groups * k * n));
  ParallelFor(context.pool, groups * k, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Complex* from = static_cast<const Complex*>(p.b.data) + i / k * p.b.group + i % k * p.b.row;
      Real* const even = b + i * 4 * n;
      Real* const odd = even + 2 * n;
      for (std::int64_t j = 0; j < n; ++j) {
        const Complex value = from[j * p.b.column];
        even[2 * j] = odd[2 * j + 1] = value.real();
        even[2 * j + 1] = value.imag();
        odd[2 * j] = -value.imag();
      }
    }
  });
  const auto as_real = [](GemmMatrix matrix) {
    matrix.type = kReal;
    matrix.group *= 2;
    matrix.row *= 2;
    return matrix;
  };
  GemmProblem real;
  real.groups = groups;
  real.m = m;
  real.n = 2 * n;
  real.k = 2 * k;
  real.accumulator = kReal;
  real.a = as_real(p.a);
  real.b = {b, kReal, 4 * k * n, 2 * n, 1};
  real.c = as_real(p.c);
  RunReal(context, real);
}

template <typename Real>
void RunComplex(HostContext& context, GemmProblem p) {
  constexpr DType kComplex = sizeof(Real) == 4 ? DType::kC64 : DType::kC128;
  const bool short_sums = p.k <= kShortComplexSum;
  if (p.a.type != kComplex || (p.a.column != 1 && !short_sums))
    p.a = Converted(context, p.a, kComplex, p.groups, p.m, p.k);
  if (p.b.type != kComplex) p.b = Converted(context, p.b, kComplex, p.groups, p.k, p.n);
  const GemmMatrix result = p.c;
  const bool direct = result.type == kComplex && (result.column == 1 || short_sums);
  if (!direct) {
    p.c.type = kComplex;
    const std::int64_t size = Dense(p.c, p.m, p.n);
    p.c.data =
        context.scratch.Allocate(static_cast<std::size_t>(p.groups * size) * sizeof(std::complex<Real>));
  }
  const GemmMatrix written = p.c;
  const std::int64_t groups = p.groups, m = p.m, n = p.n;
  if (short_sums) {
    FoldGroups(p);
    if (p.n < p.m && p.n < kShortComplexColumns) Swap(p);  // vectors run over the columns
    JAX_IPU_FOR_ISA(RunShortComplex(context, p));
  } else {
    RunLongComplex<Real>(context, p);
  }
  if (!direct) StoreMatrices(context, written, result, const_cast<void*>(result.data), groups, m, n);
}

}  // namespace

DType GemmAccumulator(DType a, DType b, DType out) {
  const auto any = [&](DType type) { return a == type || b == type || out == type; };
  if (IsComplex(a) || IsComplex(b) || IsComplex(out)) {
    if (!IsComplex(out)) return DType::kCount;
    return any(DType::kC128) || any(DType::kF64) ? DType::kC128 : DType::kC64;
  }
  if (IsFloat(a) || IsFloat(b) || IsFloat(out)) {
    if (!IsFloat(out)) return DType::kCount;
    return any(DType::kF64) ? DType::kF64 : DType::kF32;
  }
  // Sums wrap, so their low bits do not depend on the high bits of the operands.
  return SizeOf(out) == 8 ? DType::kU64 : DType::kU32;
}

void Gemm(HostContext& context, const HostTensor& a, const HostTensor& b, const HostTensor& out) {
  const GemmProblem p = ProblemOf(a, b, out);
  if (p.groups == 0 || p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    // Zero has all bytes zero in every type except kF8E8M0FNU, which has no zero.
    ZeroMatrices(p.c, const_cast<void*>(p.c.data), p.groups, p.m, p.n);
    return;
  }
  switch (p.accumulator) {
    case DType::kC64:
      return RunComplex<float>(context, p);
    case DType::kC128:
      return RunComplex<double>(context, p);
    default:
      return RunReal(context, p);
  }
}

void GemmHalfPartials(HostContext& context, const HostTensor& a, const HostTensor& b, std::int64_t step,
                      const HostTensor& sums) {
  GemmProblem p = ProblemOf(a, b, sums);
  assert(p.accumulator == DType::kF32 && sums.type == DType::kF32 && sums.strides[2] == 1);
  if (p.groups == 0 || p.m == 0 || p.n == 0 || p.k == 0) return;
  p.half_step = step;
  ConvertOperands(context, p);
  RunBlocked(context, p);
}

void RoundToHalf(ThreadPool& pool, float* values, std::int64_t count) {
  ParallelFor(pool, count, 4096, [&](std::int64_t begin, std::int64_t end) {
    if (RoundsStochastically()) return RoundStochastically(values + begin, values + begin, end - begin);
    for (std::int64_t i = begin; i < end; ++i) values[i] = F16ToF32(F32ToF16(values[i]));
  });
}

}  // namespace ipu_model
