// Tile cycles of decompositions and triangular systems: PopLibs' where it has the vertex, otherwise counted
// from the instructions.
#ifndef IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_COST_H_
#define IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_COST_H_

#include <cstdint>
#include <functional>

#include "core/mapping/box.h"
#include "core/target/target_model.h"

namespace ipu_model {

// Tile cycles of `products` multiply-adds for each element, in vectors, workers together: load, load,
// multiply-add.
std::function<std::uint64_t(const TargetModel&, const Box&)> MultiplyAddCycles(DType type, double products);

// Cycles of one worker in a loop over `elements` with contiguous operands, in vectors: the longer of `memory`
// loads and stores, and of the multiplications and additions of `products` products. The loads are issued
// beside the arithmetic.
double VectorLoopCycles(const TargetModel& target, DType type, std::int64_t elements, int memory,
                        int products);
// The same where operands are not contiguous.
double ElementLoopCycles(DType type, std::int64_t elements, int memory, int products);

// The first if `contiguous`, else the second.
double LoopCycles(const TargetModel& target, DType type, bool contiguous, std::int64_t elements, int memory,
                  int products);

// A Householder reflector of `rows` elements by one worker: the sum of the squares and a multiplication, a
// square root and divisions.
double FindCycles(const TargetModel& target, DType type, bool contiguous, std::int64_t rows);
// The product with a Householder reflector of `rows` elements by one worker, of one column.
double ReflectCycles(const TargetModel& target, DType type, bool contiguous, std::int64_t rows);

// One row of a sweep of the implicit QR algorithm by one worker, which turns the same `elements` of two rows
// of a matrix by a rotation; of the bidiagonal form there are two rotations.
double SweepCycles(const TargetModel& target, DType type, bool bidiagonal, std::int64_t elements);

// The Schur form of one matrix [n, n] by one worker.
double SchurCycles(DType type, std::int64_t n, bool vectors);

// What the busiest worker gets of `items` that workers share in whole multiples of `grain`.
std::int64_t WorkerShare(const TargetModel& target, std::int64_t items, std::int64_t grain);
// The grain with which no two workers write to the same 64-bit word: of elements, and of columns of `rows`
// contiguous elements.
std::int64_t ElementGrain(DType type);
std::int64_t ColumnGrain(DType type, std::int64_t rows);
// The same for the columns of a row-major block that has `columns` of them.
std::int64_t RowMajorGrain(DType type, std::int64_t columns);

// Tile cycles of a vertex whose busiest worker takes `cycles`.
std::uint64_t WorkerCycles(const TargetModel& target, double cycles);

// Vertices of triangular systems and Cholesky factors (hlo/codelets/linearAlgebra.cpp). Those that PopLibs
// has, the first and the last of these, take its cycles (lib/poplin/poplinCycleEstimators.cpp), and four
// times as many for complex numbers. Systems of `equations`, with `elements` unknowns in all. lower: they are
// solved from the first equation on. Workers share the right-hand sides of all matrices, which have
// `right_sides` each; left: these are columns.
std::uint64_t TriangularSolveCycles(const TargetModel& target, DType type, std::int64_t elements,
                                    std::int64_t equations, bool lower, std::int64_t right_sides,
                                    bool left = true);
std::uint64_t CopyMatrixCycles(const TargetModel& target, DType type, std::int64_t elements);
// `elements` sums, each of `inner` products.
std::uint64_t SubtractProductCycles(const TargetModel& target, DType type, std::int64_t elements,
                                    std::int64_t inner);
// A block of the result: of the triangle that is kept, or zeros.
std::uint64_t CholeskyStoreCycles(const TargetModel& target, DType type, std::int64_t elements, bool kept);
// A vertex with `rows` rows of one column of a Cholesky factor, which has `columns` columns up to this one.
std::uint64_t CholeskyColumnCycles(const TargetModel& target, DType type, std::int64_t rows,
                                   std::int64_t columns);
// Matrices [n, n] with `elements` in all, each by one worker.
std::uint64_t CholeskyCycles(const TargetModel& target, DType type, std::int64_t elements, std::int64_t n);

// The LU factorisation of a panel [m, n] by one worker.
double LuCycles(DType type, std::int64_t m, std::int64_t n);

// The choice of a pivot among the offers of `tiles` tiles.
std::uint64_t OfferCycles(std::int64_t tiles);

// The order of m rows after n swaps.
std::uint64_t RowOrderCycles(const TargetModel& target, std::int64_t m, std::int64_t n);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_COST_H_
