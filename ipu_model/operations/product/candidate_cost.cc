#include "operations/product/candidate_cost.h"

#include <cmath>
#include <limits>
#include <utility>

namespace ipu_model {
namespace {

// Steps of a part: more are not worth the time of planning them.
constexpr std::int64_t kMostSteps = 256;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

CandidateCost::CandidateCost(const TargetModel& target, unsigned num_tiles, const MatMulProblem& problem,
                             DType partial_type)
    : target_(target),
      p_(problem),
      extents_{problem.groups, problem.rows, problem.columns, problem.depth},
      partial_type_(partial_type),
      limit_(problem.options.available_memory_proportion * target.bytes_per_tile),
      operands_fit_(OperandBytes() <= static_cast<double>(num_tiles) * target.bytes_per_tile) {}

double CandidateCost::OperandBytes() const {
  const auto bytes = [&](std::int64_t elements, DType type) {
    return static_cast<double>(p_.groups * elements) * static_cast<double>(SizeOf(type));
  };
  return bytes(p_.rows * p_.depth, p_.a_type) + bytes(p_.depth * p_.columns, p_.b_type) +
         bytes(p_.rows * p_.columns, p_.out_type);
}

bool CandidateCost::CanShare(const ProductCandidate& c, MatMulDim row, MatMulDim column,
                             MatMulDim other) const {
  const auto divides = [&](MatMulDim d) {
    return c.parts[d] == 1 || c.stride[d] == c.parts[other] * c.stride[other] ||
           extents_[d] % c.parts[d] == 0;
  };
  return c.parts[other] == 1 || divides(row) || divides(column);
}

double CandidateCost::Held(const ProductCandidate& c, const OperandMapping& mapping, bool follows_plan,
                           MatMulDim row, MatMulDim column, MatMulDim other) const {
  const double share = 1.0 / static_cast<double>(c.parts[other]);
  if (follows_plan) return CanShare(c, row, column, other) ? share : 0;
  if (!mapping.known || mapping.first_tile != c.first_tile) return kNotInOrder;
  const MatMulDim dims[3] = {kGroupDim, row, column};
  std::int64_t inner = 1;
  for (int i = 0; i < 3; ++i) {
    const DimSplit& split = mapping.dims[i];
    std::int64_t parts = split.parts, stride = split.stride;
    if (split.inner_parts > 1) {
      inner *= split.inner_parts;
      if (split.inner_stride != c.stride[other]) return kNotInOrder;
    }
    if (parts != c.parts[dims[i]]) {
      // Both cuts may be in one dimension of the mapping.
      if (parts != c.parts[dims[i]] * c.parts[other] || stride != c.stride[other]) return kNotInOrder;
      inner *= c.parts[other];
      stride *= c.parts[other];
      parts = c.parts[dims[i]];
    }
    if (parts > 1 && stride != c.stride[dims[i]]) return kNotInOrder;
  }
  if (inner == c.parts[other]) return share;
  // The tiles that use a block do not share it: the first of them holds all of it, the others nothing.
  return 0;
}

CandidateCost::Product CandidateCost::Cost(const ProductCandidate& c, MatMulDim row, MatMulDim column,
                                           MatMulDim depth, const Operand& a, const Operand& b,
                                           const Destination& destination, double give_up) const {
  const ProductBlock block{Block(c, kGroupDim), Block(c, row), Block(c, column), Block(c, depth),
                           c.parts[depth] > 1};
  const DType operand = SizeOf(p_.a_type) > SizeOf(p_.b_type) ? p_.a_type : p_.b_type;
  const std::int64_t partials = c.parts[depth];
  const double partial_bytes = partials > 1 ? PartialBytes(block) : 0;
  // The operands' copies are no longer live when the partial sums arrive.
  Product product{0, partial_bytes + std::max(partial_bytes, a.Received() + b.Received()),
                  a.Received() + b.Received()};
  double exchange =
      ReceiveCycles(target_, a.Received(), a.shared) + ReceiveCycles(target_, b.Received(), b.shared);
  const bool two_stages = p_.options.multi_stage_reduce && (c.parts[row] == 1 || c.parts[column] == 1);
  double sums = 0;
  if (partials > 1) {
    sums = SumCost(c, row, column, block, partials, two_stages, &product.stage_sums);
    product.received += partial_bytes * static_cast<double>(partials - 1) / static_cast<double>(partials);
  } else if (destination.elements > 0) {
    sums = SumStageCycles(1, destination.elements);
  }
  const double moved = static_cast<double>(destination.elements) * static_cast<double>(SizeOf(partial_type_));
  exchange += ReceiveCycles(target_, moved, false);
  product.received += moved;
  product.cycles = StepCycles(operand, block, c.rows_in_units) + exchange + sums;
  if (product.temporary_bytes <= limit_ || product.cycles >= give_up || !operands_fit_) return product;
  // Sums of steps over the outputs have one stage, of which the tiles have equal shares.
  const std::int64_t share = CeilDivide(block.groups * block.rows * block.columns, partials);
  const double step_sums =
      ReceiveCycles(target_, static_cast<double>((partials - 1) * share * SizeOf(partial_type_)), false) +
      SumStageCycles(partials, share);
  CutIntoSteps(c, block, partials, {a, b, ReceiveCycles(target_, moved, false), sums, step_sums}, &product);
  return product;
}

double CandidateCost::PartialBytes(const ProductBlock& block) const {
  return static_cast<double>(block.groups * block.rows * block.columns) *
         static_cast<double>(SizeOf(partial_type_));
}

double CandidateCost::StepCycles(DType operand, ProductBlock block, bool rows_in_units) const {
  if (rows_in_units) std::swap(block.rows, block.columns);
  return static_cast<double>(
      ProductCycles(target_, operand, partial_type_, block, p_.options.wide_weight_loads) +
      target_.sync_cycles);
}

void CandidateCost::CutIntoSteps(const ProductCandidate& c, const ProductBlock& block, std::int64_t parts,
                                 const Uncut& uncut, Product* product) const {
  const Operand &cut = c.rows_in_units ? uncut.a : uncut.b, &whole = c.rows_in_units ? uncut.b : uncut.a;
  const std::int64_t extent = c.rows_in_units ? block.rows : block.columns;
  const std::int64_t outputs = std::min(extent, kMostSteps);
  const Product one = *product;
  const auto consider = [&](std::int64_t steps, std::int64_t depth, bool keeps) {
    const Product other = InSteps(c, block, parts, uncut, one, {steps, depth, keeps});
    const bool fits = other.temporary_bytes <= limit_, best_fits = product->temporary_bytes <= limit_;
    if (fits != best_fits ? fits
        : fits            ? other.cycles < product->cycles
                          : other.temporary_bytes < product->temporary_bytes)
      *product = other;
  };
  // A step has whole groups of the matrix unit's channels, as PopLibs' grains of output channels.
  constexpr std::int64_t kGroup = 8;
  const auto most_outputs = static_cast<double>(outputs);
  std::int64_t last = 0;
  for (double x = 1; x <= most_outputs;
       x = x < most_outputs ? std::min(most_outputs, std::max(x + 1, x * 1.1)) : x + 1) {
    const std::int64_t size = CeilDivide(CeilDivide(extent, kGroup), static_cast<std::int64_t>(x)) * kGroup;
    const std::int64_t steps = CeilDivide(extent, size);
    if (steps == last) continue;
    last = steps;
    const double sums = PartialBytes(block) / static_cast<double>(steps);
    const double operands = whole.InStep() + cut.InStep() / static_cast<double>(steps);
    const std::int64_t most = std::min(block.depth, kMostSteps / steps);
    std::int64_t depth = 1;
    if (parts > 1 || operands > limit_) {
      const double needed = limit_ > sums ? operands / (limit_ - sums) : kInfinity;
      depth = needed < static_cast<double>(most) ? static_cast<std::int64_t>(std::ceil(needed)) : most;
    }
    consider(steps, std::max<std::int64_t>(1, depth), false);
    if (steps > 1 && depth <= 1 && whole.Received() > 0) consider(steps, 1, true);
  }
}

CandidateCost::Product CandidateCost::InSteps(const ProductCandidate& c, const ProductBlock& block,
                                              std::int64_t parts, const Uncut& uncut, const Product& one,
                                              const Steps& steps) const {
  const DType operand = SizeOf(p_.a_type) > SizeOf(p_.b_type) ? p_.a_type : p_.b_type;
  const bool cuts_a = c.rows_in_units, adds = steps.depth > 1, partial = adds || parts > 1;
  const Operand &cut = cuts_a ? uncut.a : uncut.b, &whole = cuts_a ? uncut.b : uncut.a;
  const std::int64_t elements = block.groups * block.rows * block.columns;
  const auto n = static_cast<double>(steps.outputs), depth = static_cast<double>(steps.depth);
  ProductBlock step = block;
  (cuts_a ? step.rows : step.columns) = CeilDivide(cuts_a ? block.rows : block.columns, steps.outputs);
  step.depth = CeilDivide(block.depth, steps.depth);
  step.partial = partial;
  const auto slice = [&](const Operand& o, DType type, std::int64_t slices) {
    const double held = o.bytes * std::max(0.0, o.held) / static_cast<double>(SizeOf(type));
    return static_cast<double>(OperandSliceCycles(
        target_, type, std::max<std::int64_t>(1, static_cast<std::int64_t>(held)), slices));
  };
  const double arrivals = steps.keeps_operand ? 1 : n;
  const double slices = slice(uncut.a, p_.a_type, steps.depth * (cuts_a ? steps.outputs : 1)) +
                        slice(uncut.b, p_.b_type, steps.depth * (cuts_a ? 1 : steps.outputs));
  Product product = one;
  product.cycles = n * depth * (StepCycles(operand, step, c.rows_in_units) + slices) +
                   arrivals * ReceiveCycles(target_, whole.Received(), whole.shared) +
                   ReceiveCycles(target_, cut.Received(), cut.shared) + uncut.moved;
  if (steps.keeps_operand) product.cycles += target_.sync_cycles;
  if (adds)
    product.cycles +=
        n * (depth - 1) *
        static_cast<double>(StepAddCycles(target_, partial_type_, CeilDivide(elements, steps.outputs)));
  product.cycles += n * static_cast<double>(OperandSliceCycles(target_, p_.out_type,
                                                               CeilDivide(elements, parts), steps.outputs));
  // With one part of the depth, the result is written from the finished sums.
  if (partial) {
    product.cycles += parts == 1          ? SumStageCycles(1, elements)
                      : steps.outputs > 1 ? uncut.one_stage
                                          : uncut.sums;
    product.cycles += (n - 1) * SumStageCycles(parts, 1);
  }
  const double sums = PartialBytes(block) / n, received = cut.InStep() / n, arriving = parts > 1 ? sums : 0;
  product.temporary_bytes =
      (partial ? sums : 0) + (steps.keeps_operand ? whole.bytes + std::max(arriving, received)
                                                  : std::max(arriving, (whole.InStep() + received) / depth));
  product.received += (arrivals - 1) * whole.Received();
  product.output_dim = cuts_a ? kRowDim : kColumnDim;
  product.output_steps = steps.outputs;
  product.depth_steps = steps.depth;
  product.keeps_operand = steps.keeps_operand;
  if (steps.outputs > 1) product.stage_sums = 1;
  return product;
}

double CandidateCost::SumStageCycles(std::int64_t terms, std::int64_t elements) const {
  return static_cast<double>(PartialSumCycles(target_, partial_type_, p_.out_type, terms, elements) +
                             target_.sync_cycles);
}

std::int64_t CandidateCost::LargestShare(const ProductCandidate& c, MatMulDim row, MatMulDim column,
                                         bool factorise, std::int64_t elements, std::int64_t cuts) const {
  std::int64_t share = elements;
  for (const MatMulDim d : {row, column}) {
    const std::int64_t extent = Block(c, d);
    if (c.parts[d] == 1 || (factorise && extents_[d] % c.parts[d] == 0))
      share = std::min(share, CeilDivide(extent, cuts) * (elements / extent));
  }
  return share;
}

double CandidateCost::SumCost(const ProductCandidate& c, MatMulDim row, MatMulDim column,
                              const ProductBlock& block, std::int64_t partials, bool two_stages,
                              std::int64_t* stage_sums) const {
  const std::int64_t elements = block.groups * block.rows * block.columns;
  const auto stage = [&](std::int64_t received, std::int64_t terms, std::int64_t cuts, bool factorise) {
    const std::int64_t share = LargestShare(c, row, column, factorise, elements, cuts);
    const double bytes = static_cast<double>(received * share) * static_cast<double>(SizeOf(partial_type_));
    // Parts differ by one element, and fewer elements take longer if they are not whole vectors.
    return ReceiveCycles(target_, bytes, false) +
           std::max(SumStageCycles(terms, share),
                    SumStageCycles(terms, std::max<std::int64_t>(1, share - 1)));
  };
  *stage_sums = two_stages ? StageSums(partials) : 1;
  if (*stage_sums == 1) return stage(partials - 1, partials, partials, true);
  const std::int64_t most = CeilDivide(partials, *stage_sums), cuts = partials / *stage_sums;
  // Where sums have unequal numbers of terms, few of their tiles hold one of them.
  const std::int64_t received = partials % *stage_sums == 0 ? most - 1 : most;
  return stage(received, most, cuts, false) + stage(*stage_sums - 1, *stage_sums, partials, true);
}

}  // namespace ipu_model
