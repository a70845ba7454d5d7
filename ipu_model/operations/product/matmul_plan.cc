#include "operations/product/matmul_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "kernels/host/integer_division.h"
#include "kernels/product/gemm.h"
#include "operations/product/candidate_cost.h"
#include "operations/product/product_cost.h"

namespace ipu_model {
namespace {

// A plan that moves an operand with a given mapping must be this much faster than one that uses it in place,
// because the estimate leaves out the code and buffers of the move.
constexpr double kMovingPenalty = 1.25;
// In training, the estimate counts all data that moves. A received byte costs this much in addition to its
// cycles, in cycles of an exchange that is not shared.
constexpr double kTrainingByteCost = 0.25;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Estimate {
  double cycles = kInfinity;  // of all products planned together
  double forward_cycles = kInfinity;
  double bytes = kInfinity;
  bool rearrange_a = false, rearrange_b = false;
  double received_a = 0, received_b = 0;
  MatMulDim output_dim = kColumnDim;
  std::int64_t output_steps = 1, depth_steps = 1, stage_sums = 1;
  bool keeps_operand = false;
};

// Returns the part counts to try: a geometric series, each reduced to the fewest parts with the same block
// size.
std::vector<std::int64_t> PartCounts(std::int64_t extent, std::int64_t limit, double ratio) {
  std::vector<std::int64_t> counts;
  limit = std::min(limit, extent);
  for (double x = 1; static_cast<std::int64_t>(x) <= limit; x = std::max(x + 1, x * ratio)) {
    const std::int64_t count = CeilDivide(extent, CeilDivide(extent, static_cast<std::int64_t>(x)));
    if (counts.empty() || counts.back() != count) counts.push_back(count);
  }
  if (limit >= 1) {
    const std::int64_t most = CeilDivide(extent, CeilDivide(extent, limit));
    if (counts.back() != most) counts.push_back(most);
  }
  return counts;
}

class Planner {
 public:
  Planner(const TargetModel& target, unsigned num_tiles, const MatMulProblem& problem, DType partial_type)
      : target_(target),
        p_(problem),
        tiles_(num_tiles),
        extents_{problem.groups, problem.rows, problem.columns, problem.depth},
        partial_type_(partial_type),
        training_(problem.options.pass == MatMulOptions::Pass::kTrainingForward ||
                  problem.options.pass == MatMulOptions::Pass::kTrainingBackward ||
                  problem.options.pass == MatMulOptions::Pass::kTrainingWeightUpdate),
        cost_(target, num_tiles, problem, partial_type),
        limit_(cost_.limit()) {}

  MatMulPlan Best() {
    AdoptMapping(p_.b, kDepthDim, kColumnDim, kRowDim);
    AdoptMapping(p_.a, kRowDim, kDepthDim, kColumnDim);
    AdoptMapping(p_.out, kRowDim, kColumnDim, kDepthDim);
    // A given result mapping decides the plan, unless partial sums would pay.
    if (!p_.out.known || training_ || best_.cycles == kInfinity) Enumerate();
    return Result();
  }

 private:
  using Operand = CandidateCost::Operand;
  using Destination = CandidateCost::Destination;
  using Product = CandidateCost::Product;

  // Considers the grid that uses an operand in place.
  void AdoptMapping(const OperandMapping& mapping, MatMulDim row, MatMulDim column, MatMulDim other) {
    if (!mapping.known) return;
    ProductCandidate c;
    c.first_tile = mapping.first_tile;
    c.parts.fill(1);
    c.stride.fill(0);
    const MatMulDim dims[3] = {kGroupDim, row, column};
    std::int64_t used = 1;
    for (int i = 0; i < 3; ++i) {
      const DimSplit& split = mapping.dims[i];
      c.parts[dims[i]] = split.parts;
      c.stride[dims[i]] = split.stride;
      used *= split.parts;
      if (split.inner_parts > 1) {
        if (c.parts[other] > 1) return;
        c.parts[other] = split.inner_parts;
        c.stride[other] = split.inner_stride;
        used *= split.inner_parts;
      }
    }
    if (c.parts[other] > extents_[other] || used > tiles_) return;
    ConsiderBothWays(c);
    if (c.parts[other] > 1 || row == kRowDim) return;
    // Also consider whole copies of the blocks on further tiles, if there are any.
    for (const std::int64_t copies : PartCounts(extents_[other], tiles_ / used, 1.3)) {
      ProductCandidate more = c;
      more.parts[other] = copies;
      more.stride[other] = used;
      if (copies > 1) ConsiderBothWays(more);
    }
  }

  // Coarse part counts find a good plan, with which most of the fine ones are ruled out by their products
  // alone.
  void Enumerate() {
    EnumerateParts(p_.groups > 1 ? 1.42 : 1.2, 3);
    if (best_bytes_ <= limit_ && p_.groups == 1) EnumerateParts(1.05, 8);
  }

  // Considers part counts that grow by `ratio`. The columns get all tiles that are left, or fewer, in
  // `shares` steps down to half of them, or one.
  void EnumerateParts(double ratio, int shares) {
    for (const std::int64_t g : PartCounts(extents_[kGroupDim], tiles_, 2)) {
      for (const std::int64_t k : PartCounts(extents_[kDepthDim], tiles_ / g, ratio)) {
        for (const std::int64_t m : PartCounts(extents_[kRowDim], tiles_ / g / k, ratio)) {
          const std::int64_t most = std::min(extents_[kColumnDim], tiles_ / g / k / m);
          std::int64_t last = 0;
          for (int i = 0; i <= shares; ++i) {
            const double share = i == shares ? 0.0 : 1.0 - 0.5 * i / (shares - 1);
            const auto wanted =
                std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(most)));
            const std::int64_t n = CeilDivide(extents_[kColumnDim], CeilDivide(extents_[kColumnDim], wanted));
            if (n == last) continue;
            last = n;
            CheckDeadline();
            // Fewer columns of parts only make the blocks larger.
            if (LeastCycles({g, m, n, k}) >= best_.cycles && best_bytes_ <= limit_) break;
            ConsiderOrders({g, m, n, k});
          }
        }
      }
    }
  }

  // Returns a lower bound of an estimate's cycles: the products, and the parts of blocks that other tiles
  // hold.
  double LeastCycles(const std::array<std::int64_t, 4>& parts) const {
    const DType operand = SizeOf(p_.a_type) > SizeOf(p_.b_type) ? p_.a_type : p_.b_type;
    const auto block = [&](MatMulDim d) { return CeilDivide(extents_[d], parts[d]); };
    const std::int64_t g = block(kGroupDim), m = block(kRowDim), n = block(kColumnDim), k = block(kDepthDim);
    const auto receive = [&](std::int64_t elements, DType type, std::int64_t users) {
      const double bytes = static_cast<double>(g * elements) * static_cast<double>(SizeOf(type));
      return ReceiveCycles(target_, bytes * (1 - 1.0 / static_cast<double>(users)), true);
    };
    const double a = receive(m * k, p_.a_type, parts[kColumnDim]);
    const double b = receive(k * n, p_.b_type, parts[kRowDim]);
    const auto step = [&](const ProductBlock& block) {
      const double swapped = cost_.StepCycles(operand, block, true);
      return training_ ? swapped : std::min(swapped, cost_.StepCycles(operand, block, false));
    };
    double cycles = step({g, m, n, k}) + a + b;
    if (parts[kDepthDim] > 1)
      cycles += cost_.SumStageCycles(1, 1) + receive(m * n, partial_type_, parts[kDepthDim]);
    if (free_of_a_ == kInfinity) return cycles;
    return cycles + std::min(free_of_a_, step({g, m, k, n}) + b) +
           std::min(free_of_b_, step({g, k, n, m}) + a);
  }

  void ConsiderOrders(const std::array<std::int64_t, 4>& parts) {
    const auto ordered = [&](std::array<MatMulDim, 3> inner_to_outer, bool rows_in_units = true) {
      ProductCandidate c;
      c.parts = parts;
      c.first_tile = p_.first_tile;
      c.rows_in_units = rows_in_units;
      std::int64_t stride = 1;
      for (const MatMulDim d : inner_to_outer) {
        c.stride[d] = stride;
        stride *= parts[d];
      }
      c.stride[kGroupDim] = stride;
      Consider(c);
    };
    // The channels in the AMP are innermost, so that neighbours receive the same streamed operand.
    ordered({kRowDim, kDepthDim, kColumnDim});
    // PopLibs' joint plans keep A's rows in the AMP.
    ordered({kColumnDim, kDepthDim, kRowDim}, training_);
    if (!training_ || parts[kRowDim] == 1 || !(p_.b.known || p_.b_follows_plan)) return;
    // Put the parts of the rows next to those of a dimension of B, which they can then share whatever its
    // extent. In the second order, B is the transpose of the first order's B.
    ordered({kColumnDim, kRowDim, kDepthDim});
    if (p_.b.known) ordered({kDepthDim, kRowDim, kColumnDim});
  }

  // Returns the bytes of a new operand on a tile beyond an even share.
  double Crowding(bool follows_plan, const Operand& operand, std::int64_t elements, DType type) const {
    if (!follows_plan) return 0;
    const double even = static_cast<double>(extents_[kGroupDim] * elements) *
                        static_cast<double>(SizeOf(type)) / static_cast<double>(tiles_);
    return std::max(0.0, operand.bytes * (operand.held > 0 ? operand.held : 1) - even);
  }

  // The cost that the planner minimises in training.
  double WithByteCost(const Product& product) const {
    return product.cycles + kTrainingByteCost * ReceiveCycles(target_, product.received, false);
  }

  // Returns the cost of the best plan of a product on its own, when no operand has a given mapping.
  double FreeCost(std::int64_t rows, std::int64_t columns, std::int64_t depth) const {
    MatMulProblem problem = p_;
    problem.rows = rows;
    problem.columns = columns;
    problem.depth = depth;
    problem.a = problem.b = problem.out = {};
    problem.a_follows_plan = problem.b_follows_plan = false;
    problem.options.pass = MatMulOptions::Pass::kTrainingBackward;
    Planner planner(target_, static_cast<unsigned>(tiles_), problem, partial_type_);
    planner.Enumerate();
    return planner.best_.cycles;
  }

  // Adds the cost of the two other products of a training step, on the grid of the forward product or by
  // plans of their own: dA = dC . B^T and dB = A^T . dC. One of them reads the weights, the other computes
  // their gradient.
  void AddGradients(const ProductCandidate& c, Operand a, Operand b, double out_bytes, Estimate* e) {
    const unsigned bus = target_.tiles_per_shared_bus;
    const bool weights_are_b = p_.b_follows_plan;
    (weights_are_b ? a : b).held = 0;
    const Operand out{out_bytes, 0, CandidateCost::Shares(c, kDepthDim, bus)};
    const Product of_a = cost_.Cost(c, kRowDim, kDepthDim, kColumnDim, out, b, {}, give_up());
    const Product of_b = cost_.Cost(c, kDepthDim, kColumnDim, kRowDim, a, out, {}, give_up());
    if (free_of_a_ == kInfinity) {
      const std::int64_t m = extents_[kRowDim], n = extents_[kColumnDim], k = extents_[kDepthDim];
      free_of_a_ = FreeCost(m, k, n);
      free_of_b_ = FreeCost(k, n, m);
      // The gradient moves to the tiles of the weights.
      const std::int64_t share = CeilDivide(extents_[kGroupDim] * k * (weights_are_b ? n : m), tiles_);
      (weights_are_b ? free_of_b_ : free_of_a_) +=
          cost_.SumStageCycles(1, share) +
          (1 + kTrainingByteCost) *
              ReceiveCycles(target_, static_cast<double>(share * SizeOf(partial_type_)), false);
    }
    e->cycles += std::min(WithByteCost(of_a), free_of_a_) + std::min(WithByteCost(of_b), free_of_b_);
    e->bytes = std::max({e->bytes, of_a.temporary_bytes, of_b.temporary_bytes});
  }

  // Returns what PopLibs' planner charges for rearranging both operands and the result, spread over all tiles
  // in use, if B's columns stay in the AMP.
  double TurnCycles(const ProductCandidate& c) const {
    std::int64_t used = 1;
    for (const std::int64_t parts : c.parts) used *= parts;
    const std::int64_t g = extents_[kGroupDim], m = extents_[kRowDim], n = extents_[kColumnDim],
                       k = extents_[kDepthDim];
    return RearrangeCycles(target_, p_.a_type, CeilDivide(g * m * k, used), k * n) +
           RearrangeCycles(target_, p_.b_type, CeilDivide(g * k * n, used), k * n) +
           RearrangeCycles(target_, p_.out_type, CeilDivide(g * m * n, used), n);
  }

  // The cycles from which a product cannot be part of the best plan.
  double give_up() const { return best_bytes_ <= limit_ ? best_.cycles : kInfinity; }

  void ConsiderBothWays(ProductCandidate c) {
    Consider(c);
    if (training_) return;
    c.rows_in_units = false;
    Consider(c);
  }

  void Consider(const ProductCandidate& c) {
    const auto bytes = [&](MatMulDim row, MatMulDim column, DType type) {
      return static_cast<double>(cost_.Block(c, kGroupDim) * cost_.Block(c, row) * cost_.Block(c, column)) *
             static_cast<double>(SizeOf(type));
    };
    const unsigned bus = target_.tiles_per_shared_bus;
    const Operand a{bytes(kRowDim, kDepthDim, p_.a_type),
                    cost_.Held(c, p_.a, p_.a_follows_plan, kRowDim, kDepthDim, kColumnDim),
                    CandidateCost::Shares(c, kColumnDim, bus)};
    const Operand b{bytes(kDepthDim, kColumnDim, p_.b_type),
                    cost_.Held(c, p_.b, p_.b_follows_plan, kDepthDim, kColumnDim, kRowDim),
                    CandidateCost::Shares(c, kRowDim, bus)};
    Destination destination;
    if (p_.out.known && cost_.Held(c, p_.out, false, kRowDim, kColumnDim, kDepthDim) <= 0) {
      std::int64_t parts = 1;
      for (const DimSplit& split : p_.out.dims) parts *= split.parts * split.inner_parts;
      destination.elements =
          CeilDivide(extents_[kGroupDim] * extents_[kRowDim] * extents_[kColumnDim], parts);
    }
    const Product forward = cost_.Cost(c, kRowDim, kColumnDim, kDepthDim, a, b, destination, give_up());
    Estimate e;
    e.forward_cycles = forward.cycles;
    std::int64_t used = 1;
    for (const std::int64_t parts : c.parts) used *= parts;
    const std::int64_t g = extents_[kGroupDim], m = extents_[kRowDim], n = extents_[kColumnDim],
                       k = extents_[kDepthDim];
    e.rearrange_a = !a.InOrder();
    e.rearrange_b = !b.InOrder();
    e.received_a = a.Received();
    e.received_b = b.Received();
    if (e.rearrange_a)
      e.forward_cycles += RearrangeCycles(target_, p_.a_type, CeilDivide(g * m * k, used), m * k);
    if (e.rearrange_b)
      e.forward_cycles += RearrangeCycles(target_, p_.b_type, CeilDivide(g * k * n, used), k * n);
    e.cycles = e.forward_cycles + (training_ ? WithByteCost(forward) - forward.cycles : 0);
    // For a batch of products both ways cost the same: operands are made row by row, which is the order that
    // either way reads (measured: tessellate-ipu's [N, 16] x [16, 16] on every tile).
    if (!c.rows_in_units && p_.groups == 1) e.cycles += TurnCycles(c);
    e.bytes = forward.temporary_bytes;
    e.output_dim = forward.output_dim;
    e.output_steps = forward.output_steps;
    e.keeps_operand = forward.keeps_operand;
    e.depth_steps = forward.depth_steps;
    e.stage_sums = forward.stage_sums;
    if (p_.options.pass == MatMulOptions::Pass::kTrainingForward && (p_.a_follows_plan || p_.b_follows_plan))
      AddGradients(c, a, b, bytes(kRowDim, kColumnDim, p_.out_type), &e);
    // An operand on few tiles takes too much of their memory.
    e.bytes += Crowding(p_.a_follows_plan, a, extents_[kRowDim] * extents_[kDepthDim], p_.a_type) +
               Crowding(p_.b_follows_plan, b, extents_[kDepthDim] * extents_[kColumnDim], p_.b_type);
    const bool moves = p_.b.known ? b.held <= 0 : p_.a.known && a.held <= 0 && !p_.b_follows_plan;
    if (moves && !training_) e.cycles *= kMovingPenalty;
    const bool fits = e.bytes <= limit_, best_fits = best_bytes_ <= limit_;
    // If nothing fits, choose the smallest plan; compilation then reports what does not fit.
    const bool better = fits != best_fits ? fits : fits ? e.cycles < best_.cycles : e.bytes < best_bytes_;
    if (!better) return;
    best_ = e;
    best_bytes_ = e.bytes;
    best_candidate_ = c;
  }

  MatMulPlan Result() const {
    MatMulPlan plan;
    plan.grid.shape.assign(extents_.begin(), extents_.end());
    plan.grid.parts.assign(best_candidate_.parts.begin(), best_candidate_.parts.end());
    plan.grid.grain.assign(4, 1);
    plan.grid.tile_stride.assign(best_candidate_.stride.begin(), best_candidate_.stride.end());
    plan.grid.first_tile = static_cast<unsigned>(best_candidate_.first_tile);
    plan.grid.num_tiles = static_cast<unsigned>(tiles_);
    plan.stage_sums = best_.stage_sums;
    plan.output_dim = best_.output_dim;
    plan.output_steps = best_.output_steps;
    plan.keeps_operand = best_.keeps_operand;
    plan.depth_steps = best_.depth_steps;
    plan.rows_in_units = best_candidate_.rows_in_units;
    plan.rearrange_a = best_.rearrange_a;
    plan.rearrange_b = best_.rearrange_b;
    plan.received_a = static_cast<std::int64_t>(std::ceil(best_.received_a));
    plan.received_b = static_cast<std::int64_t>(std::ceil(best_.received_b));
    plan.wide_weight_loads = p_.options.wide_weight_loads;
    plan.partial_type = partial_type_;
    plan.cycles = best_.forward_cycles;
    plan.temporary_bytes = best_.bytes;
    return plan;
  }

  const TargetModel& target_;
  const MatMulProblem& p_;
  std::int64_t tiles_;
  std::array<std::int64_t, 4> extents_;
  DType partial_type_;
  bool training_;
  CandidateCost cost_;
  double limit_;
  Estimate best_;
  double best_bytes_ = kInfinity;
  // Costs of the gradients' own plans, once they are known.
  double free_of_a_ = kInfinity, free_of_b_ = kInfinity;
  ProductCandidate best_candidate_;
};

// Whether the matrix unit's vertex may write half results with float partial sums: one group of channels
// needs no sums after it (PopLibs: getConvVertexAMPCandidates in lib/poplin/ConvVertexType.cpp).
bool HasHalfOutputs(const TargetModel& target, const MatMulProblem& p) {
  const bool alone = p.options.pass == MatMulOptions::Pass::kNone ||
                     p.options.pass == MatMulOptions::Pass::kInferenceForward;
  return alone && p.a_type == DType::kF16 && p.b_type == DType::kF16 && p.out_type == DType::kF16 &&
         target.AmpMacsPerCycle(DType::kF16) > 0 &&
         p.depth <= static_cast<std::int64_t>(target.AmpInputGroup(DType::kF16));
}

}  // namespace

MatMulPlan PlanMatMul(const TargetModel& target, unsigned num_tiles, const MatMulProblem& problem) {
  const DType accumulator = GemmAccumulator(problem.a_type, problem.b_type, problem.out_type);
  const DType operand = SizeOf(problem.a_type) > SizeOf(problem.b_type) ? problem.a_type : problem.b_type;
  // Half partials need operands that the AMP takes in half or quarter precision.
  const auto narrow = [](DType type) { return type == DType::kF16 || (IsFloat(type) && SizeOf(type) == 1); };
  const bool half = problem.options.half_partials && accumulator == DType::kF32 && narrow(problem.a_type) &&
                    narrow(problem.b_type) && narrow(problem.out_type) && target.AmpMacsPerCycle(operand) > 0;
  MatMulProblem clamped = problem;
  // Empty dimensions are planned as one element; the plan then has no vertices to run.
  for (std::int64_t* extent : {&clamped.groups, &clamped.rows, &clamped.columns, &clamped.depth})
    *extent = std::max<std::int64_t>(1, *extent);
  const DType partial_type = half ? DType::kF16 : accumulator;
  MatMulPlan plan = Planner(target, num_tiles, clamped, partial_type).Best();
  if (clamped.options.pass == MatMulOptions::Pass::kTrainingForward &&
      plan.temporary_bytes > problem.options.available_memory_proportion * target.bytes_per_tile) {
    // No tile mapping suits all three products, so plan each product on its own.
    clamped.options.pass = MatMulOptions::Pass::kNone;
    plan = Planner(target, num_tiles, clamped, partial_type).Best();
  }
  if (!half && HasHalfOutputs(target, clamped)) {
    const MatMulPlan narrower = Planner(target, num_tiles, clamped, DType::kF16).Best();
    const bool whole = narrower.grid.parts[kDepthDim] == 1 && narrower.depth_steps == 1;
    if (whole && narrower.cycles < plan.cycles && narrower.temporary_bytes <= plan.temporary_bytes)
      plan = narrower;
  }
  plan.grid.shape = {problem.groups, problem.rows, problem.columns, problem.depth};
  plan.half_step = half ? static_cast<std::int64_t>(target.AmpInputGroup(operand)) : 0;
  return plan;
}

}  // namespace ipu_model
