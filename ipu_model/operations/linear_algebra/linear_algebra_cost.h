// Tile cycles of decompositions and triangular systems: model estimates, counted from the instructions, as
// PopLibs publishes none.
#ifndef IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_COST_H_
#define IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_COST_H_

#include <cstdint>
#include <functional>

#include "core/box.h"
#include "core/target_model.h"

namespace ipu_model {

// Tile cycles of `products` multiply-adds for each element, in vectors, workers together: load, load,
// multiply-add.
std::function<std::uint64_t(const TargetModel&, const Box&)> MultiplyAddCycles(DType type, double products);

// `rotations` rotations of each matrix of a batch, on one worker, and of `columns` columns in vectors: a load
// and a store of two entries and four products are six instructions for a column.
std::uint64_t RotationCycles(const TargetModel& target, DType type, double rotations, double batch,
                             double columns);

// A Householder reflector of `rows` elements by all workers: the largest one, the sum of the scaled squares
// and a division, each in vectors, then a square root and divisions on one worker.
std::uint64_t ReflectorCycles(const TargetModel& target, DType type, double rows);

// The choice of a pivot among the offers of `tiles` tiles.
std::uint64_t OfferCycles(std::int64_t tiles);

// The order of m rows after n swaps.
std::uint64_t RowOrderCycles(const TargetModel& target, std::int64_t m, std::int64_t n);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_COST_H_
