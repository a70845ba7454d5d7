// Cycles of the matrix product's vertices, and of the exchange between them, in closed form.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_PRODUCT_COST_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_PRODUCT_COST_H_

#include <cstdint>

#include "core/target_model.h"
#include "ipu_model/Types.hpp"

namespace ipu_model {

// One tile's part of a product: `groups` times [rows, depth] . [depth, columns].
struct ProductBlock {
  std::int64_t groups, rows, columns, depth;
};

// Cycles of one vertex (six workers together). `operand` is the wider of the operand types. Types that the
// AMP takes: the 1x1 convolution loop of PopLibs (poplin PerformanceEstimation: per worker 31, 40, then 37 +
// 4 (8 for f32) cycles a position) for every 16 columns x one input group, the weight load, and the fixed
// cost measured in tessellate-ipu's "IPU Peak Flops" notebook. Other types: scalar multiply-adds.
// wide_weight_loads: 128-bit weight loads (option use128BitConvUnitLoad).
std::uint64_t ProductCycles(const TargetModel& target, DType operand, const ProductBlock& block,
                            bool wide_weight_loads);

// Cycles of a vertex that adds `partials` vectors of `elements` (popops reduction: one vector of every
// partial per cycle).
std::uint64_t PartialSumCycles(const TargetModel& target, DType partial, std::int64_t partials,
                               std::int64_t elements);

// Fixed cost of bringing received operands into the order of the AMP, or sums into that of the result: one
// local copy call (ipu-stack, measured on C600). The data itself moves with the exchange.
std::uint64_t ArrangeCycles(const TargetModel& target);

// Cycles to receive `bytes` on one tile. `shared`: the neighbour on the bus receives the same.
double ReceiveCycles(const TargetModel& target, double bytes, bool shared);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_PRODUCT_COST_H_
