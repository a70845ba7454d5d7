#include "operations/linear_algebra/linear_algebra_cost.h"

#include <algorithm>

#include "hlo/Cost.hpp"

namespace ipu_model {
namespace {

// Of one element: PopLibs' popopsCycleEstimators.cpp has 10 and 6 cycles for the two of a vector.
constexpr double kSquareRoot = 5, kDivision = 3;

// `loops` loops over operands that are not contiguous, with `elements` in all.
double LoopsCycles(DType type, std::int64_t loops, std::int64_t elements, int memory, int products) {
  const double none = ElementLoopCycles(type, 0, memory, products);
  return static_cast<double>(loops - 1) * none + ElementLoopCycles(type, elements, memory, products);
}

// A vertex of PopLibs whose busiest worker takes `cycles` for real numbers; entry and exit are contained.
std::uint64_t VertexCycles(const TargetModel& target, DType type, double cycles) {
  const double all = cycles * target.worker_contexts * (IsComplex(type) ? 4 : 1);
  return static_cast<std::uint64_t>(all) + target.supervisor_overhead;
}

// The grain of linearAlgebra.cpp, in elements.
constexpr std::int64_t kGrain = 2;

}  // namespace

std::function<std::uint64_t(const TargetModel&, const Box&)> MultiplyAddCycles(DType type, double products) {
  return [type, products](const TargetModel& target, const Box& box) {
    const double all = static_cast<double>(box.num_elements()) * products * (IsComplex(type) ? 4 : 1);
    return static_cast<std::uint64_t>(all * 3 / target.VectorWidth(type)) + 6 * 30 +
           target.supervisor_overhead;
  };
}

double VectorLoopCycles(const TargetModel& target, DType type, std::int64_t elements, int memory,
                        int products) {
  return ElementLoopCycles(type, (elements + target.VectorWidth(type) - 1) / target.VectorWidth(type), memory,
                           products);
}

double ElementLoopCycles(DType type, std::int64_t elements, int memory, int products) {
  constexpr double kLoop = 8;  // pointers, the count, and the sum or the factor
  const int arithmetic = products * (IsComplex(type) ? 8 / 2 : 2);
  return kLoop + static_cast<double>(elements) * std::max(memory, arithmetic);
}

double LoopCycles(const TargetModel& target, DType type, bool contiguous, std::int64_t elements, int memory,
                  int products) {
  return contiguous ? VectorLoopCycles(target, type, elements, memory, products)
                    : ElementLoopCycles(type, elements, memory, products);
}

double FindCycles(const TargetModel& target, DType type, bool contiguous, std::int64_t rows) {
  // A square root, two divisions, and comparisons, signs and stores.
  constexpr double kOnce = 23 + kSquareRoot + 2 * kDivision;
  return kOnce + LoopCycles(target, type, contiguous, rows, 1, 1) +
         LoopCycles(target, type, contiguous, rows, 2, 1);
}

double ReflectCycles(const TargetModel& target, DType type, bool contiguous, std::int64_t rows) {
  return LoopCycles(target, type, contiguous, rows, 2, 1) + LoopCycles(target, type, contiguous, rows, 3, 1);
}

double SweepCycles(const TargetModel& target, DType type, bool bidiagonal, std::int64_t elements) {
  // rotationOf: the sum of two squares, two comparisons with branches, a square root with a sign, two
  // divisions.
  constexpr double kRotation = 9 + kSquareRoot + 2 * kDivision;
  // The entries of the matrix: two loads, two stores and their pointers, 12 (16 with two rotations)
  // multiplications and additions; the count and its branch.
  const double update = 6 + (bidiagonal ? 16 : 12) + 2;
  // What Turned::turn (codelets/implicitQr.cpp) does before its first element: comparisons with branches, two
  // addresses, the start of a loop.
  constexpr double kTurn = 8;
  const std::int64_t vectors = (elements + target.VectorWidth(type) - 1) / target.VectorWidth(type);
  // Four products of two rows: two loads and two stores beside six instructions.
  const double turned = 6 * static_cast<double>(vectors);
  return update + (bidiagonal ? 2 : 1) * (kRotation + kTurn) + turned;
}

std::int64_t ElementGrain(DType type) {
  return std::max<std::int64_t>(1, 8 / static_cast<std::int64_t>(SizeOf(type)));
}
std::int64_t ColumnGrain(DType type, std::int64_t rows) {
  return rows * static_cast<std::int64_t>(SizeOf(type)) % 8 == 0 ? 1 : 2;
}

std::int64_t RowMajorGrain(DType type, std::int64_t columns) {
  return ElementGrain(type) * (columns % ElementGrain(type) == 0 ? 1 : columns);
}

double SchurCycles(DType type, std::int64_t n, bool vectors) {
  // LAPACK's usual count of products in all steps, each with two loads and a store beside it.
  const double rows = static_cast<double>(n), products = (vectors ? 12.5 : 5) * rows * rows * rows;
  // 0.6 n^2 steps, each with a reflection to find and the search for negligible entries, and 1.2 n shifts.
  const double steps = 100 * rows * rows + 150 * rows;
  return products * (IsComplex(type) ? 8 : 3) + steps * (IsComplex(type) ? 2 : 1);
}

std::int64_t WorkerShare(const TargetModel& target, std::int64_t items, std::int64_t grain) {
  const std::int64_t shared = grain * static_cast<std::int64_t>(target.worker_contexts);
  return std::min(items, (items + shared - 1) / shared * grain);
}

std::uint64_t WorkerCycles(const TargetModel& target, double cycles) {
  constexpr double kCall = 30;  // entry, fields of the vertex, the worker's share, exit
  return static_cast<std::uint64_t>((kCall + cycles) * target.worker_contexts) + target.supervisor_overhead;
}

std::uint64_t CopyMatrixCycles(const TargetModel& target, DType type, std::int64_t elements) {
  return WorkerCycles(target, ElementLoopCycles(type, WorkerShare(target, elements, kGrain), 2, 0));
}

std::uint64_t SubtractProductCycles(const TargetModel& target, DType type, std::int64_t elements,
                                    std::int64_t inner) {
  constexpr double kElement = 6;  // a load and a store of the sum; the next row and column
  const std::int64_t share = WorkerShare(target, elements, kGrain);
  return WorkerCycles(target,
                      static_cast<double>(share) * kElement + LoopsCycles(type, share, share * inner, 2, 1));
}

std::uint64_t TriangularSolveCycles(const TargetModel& target, DType type, std::int64_t elements,
                                    std::int64_t equations, bool lower, std::int64_t right_sides, bool left) {
  if (elements == 0) return WorkerCycles(target, 0);
  const bool beside = left && right_sides > 1;  // unknowns of two right-hand sides
  const std::int64_t share =
      WorkerShare(target, elements / equations, beside ? kGrain : ColumnGrain(type, equations));
  // TriangularSolve: one right-hand side by one worker.
  const auto n = static_cast<double>(equations);
  const double one = lower ? 1.5 * n * n + 180 * n - 126 : 6.75 * n * n + 163.5 * n + 54;
  return VertexCycles(target, type, one * static_cast<double>(share));
}

std::uint64_t CholeskyStoreCycles(const TargetModel& target, DType type, std::int64_t elements, bool kept) {
  // A load, a store, three comparisons, the next row and column; or a store.
  const int each = kept ? 7 : 1;
  return WorkerCycles(target, ElementLoopCycles(type, WorkerShare(target, elements, kGrain), each, 0));
}

std::uint64_t CholeskyCycles(const TargetModel& target, DType type, std::int64_t elements, std::int64_t n) {
  if (elements == 0) return WorkerCycles(target, 0);
  const auto size = static_cast<double>(n);
  const double one = size * size * size + 102 * size * size + 101 * size + 102;
  return VertexCycles(target, type, one * static_cast<double>(WorkerShare(target, elements / (n * n), 1)));
}

std::uint64_t CholeskyColumnCycles(const TargetModel& target, DType type, std::int64_t rows,
                                   std::int64_t columns) {
  // Every worker finds the root of the pivot, and the entries of its rows: products of two rows, a division,
  // a store.
  const double pivot = ElementLoopCycles(type, columns, 1, 1) + kSquareRoot + 4;
  const double row = ElementLoopCycles(type, columns, 2, 1) + kDivision + 4;
  return WorkerCycles(target, pivot + static_cast<double>(WorkerShare(target, rows, 1)) * row);
}

double LuCycles(DType type, std::int64_t m, std::int64_t n) {
  double cycles = ElementLoopCycles(type, m * n, 2, 0) + ElementLoopCycles(type, m, 1, 0);
  for (std::int64_t j = 0; j < n; ++j) {
    // The search: a load, the size, a comparison and its branch. A swap of two rows: two loads, two stores.
    cycles += ElementLoopCycles(type, m - j, 4, 0) + ElementLoopCycles(type, n, 4, 0);
    // A row: a division, a store, the next row; then two loads and a store beside each product.
    cycles += static_cast<double>(m - j - 1) * (kDivision + 4 + ElementLoopCycles(type, n - j - 1, 3, 1));
  }
  return cycles;
}

std::uint64_t OfferCycles(std::int64_t tiles) { return static_cast<std::uint64_t>(4 * tiles); }

std::uint64_t RowOrderCycles(const TargetModel& target, std::int64_t m, std::int64_t n) {
  return static_cast<std::uint64_t>(2 * m + 10 * n) + target.supervisor_overhead;
}

}  // namespace ipu_model

namespace hlo {
namespace {

std::int64_t Signed(std::size_t n) { return static_cast<std::int64_t>(n); }

}  // namespace

std::uint64_t copyMatrixCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return ipu_model::CopyMatrixCycles(ipu_model::ModelOf(target), type, Signed(elements));
}
std::uint64_t subtractProductCycles(const poplar::Target& target, DType type, std::size_t elements,
                                    std::size_t inner) {
  return ipu_model::SubtractProductCycles(ipu_model::ModelOf(target), type, Signed(elements), Signed(inner));
}
std::uint64_t triangularSolveCycles(const poplar::Target& target, DType type, std::size_t elements,
                                    std::size_t equations, bool lower, std::size_t rightSides, bool left) {
  return ipu_model::TriangularSolveCycles(ipu_model::ModelOf(target), type, Signed(elements),
                                          Signed(equations), lower, Signed(rightSides), left);
}
std::uint64_t choleskyCycles(const poplar::Target& target, DType type, std::size_t elements, std::size_t n) {
  return ipu_model::CholeskyCycles(ipu_model::ModelOf(target), type, Signed(elements), Signed(n));
}
std::uint64_t choleskyStoreCycles(const poplar::Target& target, DType type, std::size_t elements, bool kept) {
  return ipu_model::CholeskyStoreCycles(ipu_model::ModelOf(target), type, Signed(elements), kept);
}

}  // namespace hlo
