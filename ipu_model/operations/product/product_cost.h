// Cycles of the matrix product's vertices, and of the exchange between them, in closed form.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_PRODUCT_COST_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_PRODUCT_COST_H_

#include <cstdint>

#include "core/target/target_model.h"
#include "ipu_model/Types.hpp"

namespace ipu_model {

// The part of a product on one tile: `groups` times [rows, depth] . [depth, columns].
struct ProductBlock {
  std::int64_t groups, rows, columns, depth;
  bool partial = false;  // whether the depth has several parts
};

// The block's columns stay in the AMP, its rows are streamed past them.
//
// Returns the cycles of one vertex (six workers together). `operand` is the wider of the operand types. Types
// of the AMP: the fastest of PopLibs' vertices. Other types: scalar multiply-adds. wide_weight_loads: uses
// 128-bit weight loads (option use128BitConvUnitLoad).
std::uint64_t ProductCycles(const TargetModel& target, DType operand, DType partial,
                            const ProductBlock& block, bool wide_weight_loads);

// The vertices of a product: 1x1 convolutions in the AMP and by dot products, and that of a depth of one.
enum class ProductVertex { kAmp, kHorizontalMac, kOuter };
ProductVertex ProductVertexOf(const TargetModel& target, DType operand, DType partial,
                              const ProductBlock& block, bool wide_weight_loads);

// Returns the cycles of a vertex that adds `partials` vectors of `elements` elements: poplin's ReduceAdd, or
// one vector of every partial per cycle for types that it does not have.
std::uint64_t PartialSumCycles(const TargetModel& target, DType partial, DType out, std::int64_t partials,
                               std::int64_t elements);

// Returns the cycles of rearranging an operand or result whose tile mapping or order is not the plan's, when
// every tile holds `elements` of it: an exchange and a local copy of single elements, as in PopLibs' planner
// (lib/poplin/ConvModel.cpp, addTransformCycleEstimate). dim_size: the product of the channels involved.
double RearrangeCycles(const TargetModel& target, DType type, std::int64_t elements, std::int64_t dim_size);
// The same for a result that a tile reorders into other groups of channels, from groups of `group` (in that
// function: regroupOutput).
std::int64_t RegroupCycles(const TargetModel& target, DType type, std::int64_t elements,
                           std::int64_t dim_size, std::int64_t group);

// Returns the cycles of taking one of `slices` slices from the `elements` elements of an operand that a tile
// holds, or of putting it there, for a step of a product or convolution; 0 for one slice (PopLibs:
// addDynamicSliceEstimate).
std::uint64_t OperandSliceCycles(const TargetModel& target, DType type, std::int64_t elements,
                                 std::int64_t slices);

// Returns the cycles of adding a step's products to the partial sums of the steps before (PopLibs:
// addInPlaceEstimate).
std::uint64_t StepAddCycles(const TargetModel& target, DType sum, std::int64_t elements);

// Returns the cycles to receive `bytes` on one tile. `shared`: the neighbour on the bus receives the same
// data.
double ReceiveCycles(const TargetModel& target, double bytes, bool shared);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_PRODUCT_COST_H_
