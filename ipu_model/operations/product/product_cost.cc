#include "operations/product/product_cost.h"

#include <algorithm>
#include <limits>

#include "kernels/elementwise/program/expression.h"
#include "kernels/host/integer_division.h"
#include "operations/elementwise/elementwise_cost.h"
#include "operations/index/index_cost.h"
#include "operations/product/amp_cost.h"
#include "operations/product/vertex_cost.h"

namespace ipu_model {
namespace {

// Returns the instructions of one scalar multiply-add with its loads, for types that neither the AMP nor the
// vector unit supports. f64 is emulated in software. These are estimates; no measurement is known.
std::int64_t ScalarCyclesPerProduct(DType type) {
  switch (type) {
    case DType::kF64:
      return 90;
    case DType::kC64:
      return 6;
    case DType::kC128:
      return 4 * 90;
    case DType::kS64:
    case DType::kU64:
      return 10;
    default:
      return 3;
  }
}

// Returns the cycles of the 1x1 convolution.
std::uint64_t AmpCycles(const TargetModel& target, DType operand, DType partial, const ProductBlock& block,
                        bool wide_weight_loads) {
  // The columns are the output channels, which stay in the convolution units.
  AmpMethod method;
  method.operand = operand;
  method.float_partials = SizeOf(partial) > 2;
  method.wide_weight_loads = wide_weight_loads;
  const auto with = [&](std::int64_t units) {
    method.units = units;
    const AmpGroups groups{block.groups, CeilDivide(block.depth, method.InputGroup(target)),
                           CeilDivide(block.columns, units)};
    return Amp1x1Cycles(target, method, groups, block.rows);
  };
  const std::int64_t units = target.AmpUnits(operand, method.float_partials);
  // PopLibs' planner also has vertices that use half of the units, for few channels.
  constexpr std::int64_t kFewUnits = 8;
  const bool few = block.columns <= kFewUnits && units > kFewUnits && SizeOf(operand) > 1;
  return few ? std::min(with(units), with(kFewUnits)) : with(units);
}

// Returns the cycles of the outer product, or the most there are if it cannot compute the block.
std::uint64_t OuterCycles(const TargetModel& target, DType operand, DType partial,
                          const ProductBlock& block) {
  // Results have the operands' type, so a narrower type than that of the sums must have nothing to add up
  // (PopLibs: getConvVertexOuterProductCandidates).
  const bool adds = block.partial && SizeOf(operand) < SizeOf(partial);
  if (block.depth != 1 || adds || SizeOf(operand) == 1) return std::numeric_limits<std::uint64_t>::max();
  return OuterProductCycles(target, SizeOf(operand) > 2, block.rows, block.columns * block.groups);
}

// Returns the cycles of dot products over the depth, or the most there are if they cannot compute the block.
std::uint64_t HorizontalMacCycles(const TargetModel& target, DType operand, DType partial,
                                  const ProductBlock& block) {
  // Sums are floats: half results need another superstep, the one that adds the parts of the depth.
  const bool half = SizeOf(operand) == 2;
  if (SizeOf(operand) == 1 || SizeOf(partial) < 4 || (half && !block.partial))
    return std::numeric_limits<std::uint64_t>::max();
  // PopLibs gives all tiles groups of as many channels, of which its planner chooses whole words.
  const std::int64_t word = half ? 4 : 2;
  return HmacCycles(target, {half, block.groups, CeilDivide(block.depth, word) * word, block.columns, true},
                    {}, {1, block.rows});
}

}  // namespace

ProductVertex ProductVertexOf(const TargetModel& target, DType operand, DType partial,
                              const ProductBlock& block, bool wide_weight_loads) {
  if (target.AmpMacsPerCycle(operand) == 0) return ProductVertex::kAmp;
  const std::uint64_t amp = AmpCycles(target, operand, partial, block, wide_weight_loads);
  const std::uint64_t dots = HorizontalMacCycles(target, operand, partial, block);
  if (OuterCycles(target, operand, partial, block) < std::min(amp, dots)) return ProductVertex::kOuter;
  return dots < amp ? ProductVertex::kHorizontalMac : ProductVertex::kAmp;
}

std::uint64_t ProductCycles(const TargetModel& target, DType operand, DType partial,
                            const ProductBlock& block, bool wide_weight_loads) {
  if (block.groups * block.rows * block.columns * block.depth == 0) return 0;
  if (target.AmpMacsPerCycle(operand) == 0) {
    const std::int64_t products = block.groups * block.rows * block.columns * block.depth;
    return static_cast<std::uint64_t>(products * ScalarCyclesPerProduct(operand) +
                                      target.supervisor_overhead);
  }
  return std::min({AmpCycles(target, operand, partial, block, wide_weight_loads),
                   HorizontalMacCycles(target, operand, partial, block),
                   OuterCycles(target, operand, partial, block)});
}

std::uint64_t PartialSumCycles(const TargetModel& target, DType partial, DType out, std::int64_t partials,
                               std::int64_t elements) {
  if (elements == 0) return 0;
  if (IsFloat(partial) && SizeOf(partial) <= 4)
    return AmpReduceCycles(target, SizeOf(partial) > 2, SizeOf(out) > 2, partials, elements);
  const std::int64_t vectors = CeilDivide(elements, target.VectorWidth(partial));
  return static_cast<std::uint64_t>(target.supervisor_overhead + target.worker_contexts * 20 +
                                    partials * vectors);
}

std::int64_t RegroupCycles(const TargetModel& target, DType type, std::int64_t elements,
                           std::int64_t dim_size, std::int64_t group) {
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  const std::int64_t granularity = size > 2 ? 2 : 4;
  const std::int64_t bytes_per_cycle = std::min<std::int64_t>(target.memcpy_bytes_per_cycle, size * group);
  return CeilDivide(elements * size * 5, bytes_per_cycle * (dim_size % granularity == 0 ? 4 : 3));
}

double RearrangeCycles(const TargetModel& target, DType type, std::int64_t elements, std::int64_t dim_size) {
  const std::int64_t copy = RegroupCycles(target, type, elements, dim_size, /*group=*/1);
  return static_cast<double>(
      copy + CeilDivide(elements * static_cast<std::int64_t>(SizeOf(type)), target.exchange_bytes_per_cycle));
}

std::uint64_t OperandSliceCycles(const TargetModel& target, DType type, std::int64_t elements,
                                 std::int64_t slices) {
  return slices == 1 ? 0 : DynamicSliceCycles(target, type, CeilDivide(elements, slices));
}

std::uint64_t StepAddCycles(const TargetModel& target, DType sum, std::int64_t elements) {
  Expression add;
  add.inputs = {sum, sum};
  add.code = {{ScalarOp::kAdd, sum, sum, {0, 1, 0}, 0}};
  add.outputs = {2};
  return ElementwiseCost(add, {}, /*in_place=*/true).Cycles(target, elements);
}

double ReceiveCycles(const TargetModel& target, double bytes, bool shared) {
  return bytes / (target.exchange_bytes_per_cycle * (shared ? target.tiles_per_shared_bus : 1));
}

}  // namespace ipu_model
