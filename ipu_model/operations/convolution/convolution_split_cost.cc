#include "operations/convolution/convolution_split_cost.h"

#include "core/deadline.h"
#include "operations/product/product_cost.h"

namespace ipu_model {

SplitSpace::SplitSpace(const ConvolutionProblem& p, const TargetModel& target) {
  const int spatial = p.geometry.spatial;
  rank = 3 + 2 * spatial;
  const auto add = [this](int d, std::int64_t elements, std::int64_t elements_of_grain, bool is_divisible) {
    size[d] = std::max<std::int64_t>(1, elements);
    grain[d] = elements_of_grain;
    grains[d] = CeilDivide(size[d], elements_of_grain);
    divisible[d] = is_divisible;
  };
  add(0, p.out[0], 1, p.geometry.batch_groups == 1);
  add(1, p.out[1], p.groups() > 1 ? 1 : target.VectorWidth(p.out_type), true);
  add(2, p.rhs[1], target.VectorWidth(p.in_type), p.geometry.feature_groups == 1);
  for (int d = 0; d < spatial; ++d) {
    add(3 + d, p.out[static_cast<std::size_t>(d) + 2], 1, true);
    add(3 + spatial + d, p.rhs[static_cast<std::size_t>(d) + 2], 1, true);
  }
}

SplitCosts::SplitCosts(const ConvolutionProblem& problem, const TargetModel& target, std::int64_t num_tiles,
                       double buffer_bytes)
    : p_(problem),
      target_(target),
      tiles_(num_tiles),
      buffer_bytes_(buffer_bytes),
      space_(problem, target),
      setting_{problem.most_temporary_bytes, problem.SumType(), false} {
  Use(setting_);
}

void SplitCosts::Use(const Setting& setting) {
  setting_ = setting;
  for (auto& [known, costs] : costs_) {
    if (!(known == setting)) continue;
    current_ = costs.get();
    return;
  }
  costs_.emplace_back(setting, std::make_unique<Costs>());
  current_ = costs_.back().second.get();
}

double SplitCosts::Cost(const SplitParts& parts) const {
  const auto [entry, is_new] = current_->try_emplace(parts, 0.0);
  if (is_new) entry->second = CostOf(parts);
  return entry->second;
}

double SplitCosts::BytesOf(const SplitParts& parts) const {
  std::int64_t extents[kMaxSpaceDims];
  const ConvolutionPart part = PartOf(parts, extents);
  ConvolutionWork work = StepWork(p_, part, {});
  work.most_temporary_bytes = std::numeric_limits<double>::infinity();
  return TemporaryBytesOf(p_, part, {}, Choice(work));
}

double SplitCosts::LeastCycles(const SplitParts& parts) const {
  const int spatial = p_.geometry.spatial;
  const auto part = [&](int d) { return static_cast<double>(space_.Largest(parts, d)); };
  double input = part(kBatchDim) * part(kChannelDim), outputs = part(kBatchDim) * part(kFeatureDim);
  double taps = 1, weight_users = static_cast<double>(parts.n[kBatchDim]);
  for (int d = 0; d < spatial; ++d) {
    const std::int64_t positions = space_.Largest(parts, kPositionDims + d),
                       kernel = space_.Largest(parts, kPositionDims + spatial + d);
    const ConvolutionWindow& w = p_.geometry.window[d];
    const std::int64_t reach =
        ((positions - 1) * w.stride + (kernel - 1) * w.rhs_dilation) / w.lhs_dilation + 1;
    input *= static_cast<double>(std::min(reach, p_.lhs[static_cast<std::size_t>(d) + 2]));
    outputs *= static_cast<double>(positions);
    taps *= static_cast<double>(kernel);
    weight_users *= static_cast<double>(parts.n[kPositionDims + d]);
  }
  const double weights = part(kFeatureDim) * part(kChannelDim) * taps;
  const bool half_rate = SizeOf(p_.in_type) == 2 && setting_.sum_type != DType::kF16;
  const double products = outputs * part(kChannelDim) * taps * (half_rate ? 2 : 1);
  const double shared = parts.n[kFeatureDim] % 2 == 0 ? target_.tiles_per_shared_bus : 1;
  const double received =
      input * SizeOf(p_.in_type) * (1 - 1.0 / static_cast<double>(parts.n[kFeatureDim])) / shared +
      weights * SizeOf(p_.rhs_type) * (1 - 1.0 / weight_users) + outputs * SizeOf(setting_.sum_type);
  return products / std::max(1u, target_.AmpMacsPerCycle(p_.in_type)) +
         received / target_.exchange_bytes_per_cycle;
}

ConvolutionChoice SplitCosts::Choice(const ConvolutionWork& work) const {
  return ChooseCodelet(target_, p_.in_type, setting_.sum_type == DType::kF16, work);
}

ConvolutionPart SplitCosts::PartOf(const SplitParts& parts, std::int64_t* extents) const {
  const int spatial = p_.geometry.spatial;
  std::int64_t tiles = 1, contracted = parts.n[2];
  for (int d = 0; d < space_.rank; ++d) {
    extents[d] = space_.Largest(parts, d);
    tiles *= parts.n[d];
  }
  for (int d = 0; d < spatial; ++d) contracted *= parts.n[3 + spatial + d];
  return {extents, contracted, tiles, parts.n[kFeatureDim], parts.n[kChannelDim]};
}

double SplitCosts::CostOf(const SplitParts& parts) const {
  CheckDeadline();
  return CostAndSteps(parts).cycles;
}

SplitCosts::Costed SplitCosts::CostAndSteps(const SplitParts& parts) const {
  std::int64_t extents[kMaxSpaceDims];
  const ConvolutionPart part = PartOf(parts, extents);
  if (buffer_bytes_ < std::numeric_limits<double>::infinity()) {
    const SerialSplit serial = LimitSerialSplit(p_, part, buffer_bytes_);
    const double bytes = BytesOfStep(p_, part, serial).total();
    return {bytes > buffer_bytes_ ? kTooLarge * bytes : CostOf(parts, part, serial), serial};
  }
  Costed best{CostOf(parts, part, {}), {}};
  if (!setting_.serial) return best;
  for (const bool matrix_unit : {true, false}) {
    if (!matrix_unit && best.cycles < kTooLarge) break;
    for (const SerialSplit& serial : PlannedSerialSplits(target_, p_, part, setting_.budget, matrix_unit)) {
      const Costed steps{CostOf(parts, part, serial), serial};
      if (steps.cycles < best.cycles) best = steps;
    }
  }
  return best;
}

double SplitCosts::CostOf(const SplitParts& parts, const ConvolutionPart& part,
                          const SerialSplit& serial) const {
  const int spatial = p_.geometry.spatial;
  const std::int64_t *extents = part.extents, tiles = part.tiles, contracted = part.contracted_parts;
  ConvolutionWork work = StepWork(p_, part, serial);
  work.most_temporary_bytes = setting_.budget;
  const std::int64_t features =
      serial.cuts_outputs() ? std::min(extents[1], serial.outputs.size) : extents[1];
  const double input_bytes = static_cast<double>(work.input_elements) * SizeOf(p_.in_type);
  const double weight_bytes =
      static_cast<double>(features * work.channels * work.taps()) * SizeOf(p_.rhs_type);
  const double outputs = static_cast<double>(features * work.positions());
  const ConvolutionChoice choice = Choice(work);
  const double bytes = TemporaryBytesOf(p_, part, serial, choice);
  if (bytes > setting_.budget || OddPositions(parts, choice.codelet)) return kTooLarge * bytes;
  // PopLibs: addExchangeCycleEstimates. The tiles that use the same weights or input each hold a share of
  // them, and partial sums move even if nothing is added. Features are innermost in tile order, so
  // neighbours receive the same input, at twice the rate.
  std::int64_t weight_users = parts.n[0];
  for (int d = 0; d < spatial; ++d) weight_users *= parts.n[3 + d];
  const unsigned rate = target_.exchange_bytes_per_cycle;
  const unsigned shared = parts.n[1] % 2 == 0 ? target_.tiles_per_shared_bus : 1;
  const std::uint64_t moves =
      choice.copy_cycles > 0 ? choice.copy_cycles - target_.local_copy_call_cycles : 0;
  const double input_cycles = input_bytes * (1 - 1.0 / static_cast<double>(parts.n[1])) / (rate * shared);
  double cycles = static_cast<double>(choice.cycles + moves) + (serial.keeps_input ? 0 : input_cycles) +
                  weight_bytes * (1 - 1.0 / static_cast<double>(weight_users)) / rate + target_.sync_cycles;
  double sums = outputs * SizeOf(setting_.sum_type) / rate;
  if (contracted > 1) {
    const double total = static_cast<double>(NumElements(p_.out)) / static_cast<double>(serial.outputs.steps);
    const auto each = static_cast<std::int64_t>(
        std::max(1.0 * target_.VectorWidth(p_.out_type), total / static_cast<double>(tiles_) + 1));
    sums += SumCycles(contracted, each);
  } else if (p_.casts(choice.codelet)) {
    sums += SumCycles(1, static_cast<std::int64_t>(outputs));
  }
  if (!serial.split()) return cycles + sums;
  // PopLibs: totalCycles of addEstimates, which reduces in every step.
  const auto slices = static_cast<double>(StepSliceCycles(target_, p_, tiles, serial, true));
  const std::int64_t held = CeilDivide(static_cast<std::int64_t>(outputs), contracted);
  const double added =
      serial.adds() ? static_cast<double>(StepAddCycles(target_, setting_.sum_type, held)) : 0;
  return static_cast<double>(serial.steps()) * (cycles + slices + sums + added) +
         (serial.keeps_input ? input_cycles + target_.sync_cycles : 0);
}

bool SplitCosts::OddPositions(const SplitParts& parts, ConvolutionCodelet codelet) const {
  const int spatial = p_.geometry.spatial, d = kPositionDims + spatial - 1;
  const bool one_channel =
      codelet == ConvolutionCodelet::kHorizontalMac || codelet == ConvolutionCodelet::kVerticalMac;
  return one_channel && spatial > 0 && SizeOf(p_.out_type) == 2 && space_.size[d] % 2 == 0 &&
         space_.Largest(parts, d) % 2 != 0;
}

double SplitCosts::SumCycles(std::int64_t parts, std::int64_t elements) const {
  return static_cast<double>(ReducePartialsCycles(target_, setting_.sum_type, p_.out_type, parts, elements)) +
         target_.sync_cycles;
}

}  // namespace ipu_model
