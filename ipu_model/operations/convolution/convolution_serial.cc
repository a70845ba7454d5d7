#include "operations/convolution/convolution_serial.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/host/integer_division.h"
#include "operations/product/product_cost.h"

namespace ipu_model {
namespace {

// The most steps that are planned, for the time that planning takes; and the most where a program does not
// fit otherwise, for the cycles that steps take.
constexpr std::int64_t kMostPlannedSteps = 64, kMostSteps = 16;

// Returns of how many elements a step is a multiple, if the matrix unit is to have whole groups of channels.
std::int64_t GroupOf(const ConvolutionProblem& p, int dim) {
  constexpr std::int64_t kOutputGroup = 8, kInputGroupBytes = 32;
  if (dim == kFeatureDim) return p.groups() > 1 ? p.features_per_group() : kOutputGroup;
  if (dim == kChannelDim)
    return std::max<std::int64_t>(1, kInputGroupBytes / static_cast<std::int64_t>(SizeOf(p.in_type)));
  return 1;
}

SerialCut Steps(const std::int64_t* extents, int dim, std::int64_t unit, std::int64_t steps) {
  const std::int64_t extent = extents[dim];
  const std::int64_t size = CeilDivide(CeilDivide(extent, steps), unit) * unit;
  return {dim, CeilDivide(extent, size), size};
}

// Returns the cycles that the steps add, about: the input is exchanged again for every step of the outputs,
// and partial sums are loaded and stored for every step of what they add up.
double AddedCycles(const StepBytes& bytes, const SerialSplit& serial) {
  constexpr double kExchangeRate = 4, kAddRate = 8;  // bytes a cycle
  const auto outputs = static_cast<double>(serial.outputs.steps),
             sums = static_cast<double>(serial.sums.steps);
  return (outputs - 1) * sums * bytes.input / kExchangeRate +
         (sums - 1) * outputs * bytes.partials / kAddRate;
}

}  // namespace

std::pair<std::int64_t, std::int64_t> SerialCut::Range(std::int64_t begin, std::int64_t end,
                                                       std::int64_t step) const {
  if (!split()) return {begin, end};
  const std::int64_t first = std::min(end, begin + step * size);
  return {first, std::min(end, first + size)};
}

void ShareOfStep(const ConvolutionProblem& p, const SerialSplit& serial, ConvolutionWork* work) {
  const SerialCut& sums = serial.sums;
  if (!sums.split() || sums.dim == kChannelDim) return;
  const std::size_t d = static_cast<std::size_t>(sums.dim) - kPositionDims - p.spatial();
  std::int64_t& taps = work->all_kernel[d + 1 == p.spatial() ? 2 : std::min<std::size_t>(d, 1)];
  taps = CeilDivide(taps, sums.steps);
}

ConvolutionWork StepWork(const ConvolutionProblem& p, const ConvolutionPart& part,
                         const SerialSplit& serial) {
  const auto rank = static_cast<int>(kPositionDims + 2 * p.spatial());
  std::int64_t extents[kPositionDims + 2 * kMaxSpatial];
  std::copy(part.extents, part.extents + rank, extents);
  for (const SerialCut* cut : {&serial.outputs, &serial.sums})
    if (cut->split()) extents[cut->dim] = std::min(extents[cut->dim], cut->size);
  const std::int64_t features = extents[kFeatureDim], per_group = p.features_per_group();
  ConvolutionWork work = WorkOf(p, extents, std::min(CeilDivide(features, per_group), p.groups()),
                                std::min(features, per_group), part.tiles);
  ShareOfStep(p, serial, &work);
  return work;
}

StepBytes BytesOfStep(const ConvolutionProblem& p, const ConvolutionPart& part, const SerialSplit& serial) {
  const ConvolutionWork work = StepWork(p, part, serial);
  const std::int64_t features = serial.cuts_outputs()
                                    ? std::min(part.extents[kFeatureDim], serial.outputs.size)
                                    : part.extents[kFeatureDim];
  const DType sum = p.SumType();
  StepBytes bytes{};
  bytes.input = static_cast<double>(work.input_elements) * SizeOf(p.in_type);
  bytes.weights = static_cast<double>(features * work.channels * work.taps()) * SizeOf(p.rhs_type);
  if (part.contracted_parts > 1 || serial.adds())
    bytes.partials = static_cast<double>(features * work.positions()) * SizeOf(sum);
  if (part.contracted_parts > 1) {
    const std::int64_t all = CeilDivide(NumElements(p.out), serial.outputs.steps);
    bytes.received = static_cast<double>(part.contracted_parts * CeilDivide(all, part.tiles)) * SizeOf(sum);
  }
  return bytes;
}

namespace {

// Returns the steps over outputs and over a dimension of `summed` that need at most `limit` bytes, as
// `bytes_of` counts them, and move the least data; or those that need the least.
template <typename UnitOf, typename BytesOf>
SerialSplit LeastMoves(const ConvolutionProblem& p, const ConvolutionPart& part,
                       const std::vector<int>& summed, double limit, const UnitOf& unit_of,
                       const BytesOf& bytes_of) {
  const auto steps = [&](int dim, std::int64_t n) { return Steps(part.extents, dim, unit_of(dim), n); };
  SerialSplit best;
  double least_bytes = bytes_of(best);
  if (least_bytes <= limit) return best;
  double least_cycles = std::numeric_limits<double>::infinity();
  // Returns whether the steps fit.
  const auto consider = [&](const SerialSplit& serial) {
    const double cycles = AddedCycles(BytesOfStep(p, part, serial), serial);
    const double bytes = bytes_of(serial);
    const bool fits = bytes <= limit;
    if (fits ? cycles < least_cycles : least_bytes > limit && bytes < least_bytes) {
      best = serial;
      least_bytes = bytes;
      if (fits) least_cycles = cycles;
    }
    return fits;
  };
  const auto consider_cuts = [&](int dim) {
    SerialCut last;
    for (std::int64_t n = 2; n <= kMostSteps; n += std::max<std::int64_t>(1, n / 4)) {
      const SerialCut cut = steps(dim, n);
      if (cut.steps == last.steps) continue;
      last = cut;
      SerialSplit serial;
      (dim == kFeatureDim ? serial.outputs : serial.sums) = cut;
      if (consider(serial)) return;  // more steps only move more
    }
  };
  consider_cuts(kFeatureDim);
  for (int dim : summed) consider_cuts(dim);
  if (least_bytes <= limit) return best;
  for (std::int64_t n = 2; n <= kMostSteps / 2; n *= 2) {
    for (int dim : summed) {
      for (std::int64_t m = 2; n * m <= kMostSteps; m *= 2) {
        const SerialSplit serial{steps(kFeatureDim, n), steps(dim, m)};
        if (serial.outputs.split() && serial.sums.split() && consider(serial)) break;
      }
    }
  }
  return best;
}

// The largest part of a split.
struct LargestPart {
  std::vector<std::int64_t> extents;
  ConvolutionPart part;

  LargestPart(const ConvolutionProblem& p, const Grid& split) {
    const auto spatial = static_cast<int>(p.spatial());
    for (int d = 0; d < kPositionDims + 2 * spatial; ++d) extents.push_back(split.LargestPart(d));
    part = {extents.data(), split.parts[kChannelDim], split.num_parts()};
    for (std::size_t d = 0; d < p.spatial(); ++d)
      part.contracted_parts *= split.parts[kPositionDims + p.spatial() + d];
  }
};

}  // namespace

double TemporaryBytesOf(const ConvolutionProblem& p, const ConvolutionPart& part, const SerialSplit& serial,
                        const ConvolutionChoice& choice) {
  const StepBytes bytes = BytesOfStep(p, part, serial);
  const double reduced = part.contracted_parts > 1 ? bytes.partials : 0;
  // Sums of steps over input channels are added to what the steps before left.
  const double added = serial.adds() ? bytes.partials / static_cast<double>(part.contracted_parts) : 0;
  if (serial.keeps_input)
    return choice.input_bytes +
           std::max({choice.transform_bytes, choice.convolution_bytes - choice.input_bytes, reduced});
  return std::max(choice.temporary_bytes, reduced) + added;
}

namespace {

// Returns no more than the temporary bytes of a step with any codelet: without padding of channels.
double LeastBytes(const ConvolutionProblem& p, const ConvolutionPart& part, const SerialSplit& serial) {
  const StepBytes bytes = BytesOfStep(p, part, serial);
  return bytes.input + bytes.weights;
}

}  // namespace

std::vector<SerialSplit> PlannedSerialSplits(const TargetModel& target, const ConvolutionProblem& p,
                                             const ConvolutionPart& part, double limit, bool matrix_unit) {
  ConvolutionProblem bounded = p;
  bounded.most_temporary_bytes = matrix_unit ? std::numeric_limits<double>::infinity() : limit;
  const bool grouped = p.groups() > 1;
  const auto bytes_of = [&](const SerialSplit& serial) {
    const ConvolutionWork work = StepWork(bounded, part, serial);
    return TemporaryBytesOf(p, part, serial, ChooseCodelet(target, p.in_type, p.half_step > 0, work));
  };
  std::vector<SerialSplit> found;
  // The fewest steps that fit: more only move more.
  const auto consider = [&](int dim, bool keeps_input) {
    const std::int64_t unit = matrix_unit || (grouped && dim == kFeatureDim) ? GroupOf(p, dim) : 1;
    const std::int64_t all = dim == kFeatureDim ? p.out[1] : p.rhs[1];
    const std::int64_t parts = dim == kFeatureDim ? part.feature_parts : part.channel_parts;
    SerialSplit most;
    (dim == kFeatureDim ? most.outputs : most.sums) = Steps(part.extents, dim, unit, kMostPlannedSteps);
    if (LeastBytes(p, part, most) > limit) return;
    std::int64_t last = 1;
    for (std::int64_t n = 2; n <= kMostPlannedSteps; n += std::max<std::int64_t>(1, n / 4)) {
      const SerialCut cut = Steps(part.extents, dim, unit, n);
      if (cut.steps == last) continue;
      last = cut.steps;
      // PopLibs has no more parts and steps together than give each the same whole groups.
      const std::int64_t groups = CeilDivide(all, unit), total = parts * cut.steps;
      if (!grouped && (total > groups || CeilDivide(groups, CeilDivide(groups, total)) != total)) continue;
      SerialSplit serial;
      (dim == kFeatureDim ? serial.outputs : serial.sums) = cut;
      serial.keeps_input = keeps_input;
      if (LeastBytes(p, part, serial) > limit || bytes_of(serial) > limit) continue;
      found.push_back(serial);
      return;
    }
  };
  consider(kFeatureDim, false);
  if (!grouped) consider(kFeatureDim, true);
  // With groups a part has all of a group's inputs.
  if (p.geometry.feature_groups == 1) consider(kChannelDim, false);
  return found;
}

SerialSplit LimitSerialSplit(const ConvolutionProblem& p, const ConvolutionPart& part, double limit) {
  std::vector<int> summed;
  if (p.geometry.feature_groups == 1) summed.push_back(kChannelDim);
  const auto spatial = static_cast<int>(p.spatial());
  for (int d = 0; d < spatial; ++d) summed.push_back(kPositionDims + spatial + d);
  return LeastMoves(
      p, part, summed, limit, [&](int dim) { return GroupOf(p, dim); },
      [&](const SerialSplit& serial) { return BytesOfStep(p, part, serial).total(); });
}

SerialSplit LimitSerialSplit(const ConvolutionProblem& p, const ConvolutionSplit& split, double limit) {
  const LargestPart largest(p, split.grid);
  if (BytesOfStep(p, largest.part, split.serial).total() <= limit) return split.serial;
  return LimitSerialSplit(p, largest.part, limit);
}

bool HasSerialSplit(const ConvolutionProblem& p, const ConvolutionSplit& split, double bytes) {
  const LargestPart largest(p, split.grid);
  return BytesOfStep(p, largest.part, LimitSerialSplit(p, split, bytes)).total() <= bytes;
}

namespace {

// Whether the parts of a grid are on as many tiles, one after the other.
bool NumbersTiles(const Grid& grid) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (std::size_t d = 0; d < grid.parts.size(); ++d) {
    if (grid.parts[d] > 1) dims.emplace_back(grid.tile_stride[d], grid.parts[d]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t next = 1;
  for (const auto& [stride, parts] : dims) {
    if (stride != next) return false;
    next *= parts;
  }
  return next <= grid.num_tiles;
}

}  // namespace

bool CoversParts(const ConvolutionProblem& p, const ConvolutionSplit& split) {
  const LargestPart largest(p, split.grid);
  const auto covers = [&](const SerialCut& cut, int first, int last) {
    return cut.steps == 1 ||
           (cut.steps > 1 && cut.steps <= kMostSteps && cut.dim >= first && cut.dim <= last && cut.size > 0 &&
            cut.size >= CeilDivide(largest.extents[static_cast<std::size_t>(cut.dim)], cut.steps));
  };
  const auto rank = static_cast<int>(largest.extents.size());
  const SerialCut& sums = split.serial.sums;
  // With groups a part has all of a group's inputs.
  const bool summed = sums.dim == kChannelDim ? p.geometry.feature_groups == 1
                                              : sums.dim >= kPositionDims + static_cast<int>(p.spatial());
  const bool keeps = split.serial.keeps_input;
  if (keeps && (!split.serial.outputs.split() || sums.split() || p.groups() > 1 || !NumbersTiles(split.grid)))
    return false;
  return covers(split.serial.outputs, kFeatureDim, kFeatureDim) &&
         (!sums.split() || (summed && covers(sums, kChannelDim, rank - 1)));
}

std::uint64_t StepSliceCycles(const TargetModel& target, const ConvolutionProblem& p, std::int64_t tiles,
                              const SerialSplit& serial, bool last_sum) {
  // PopLibs: addDynamicSliceEstimate, for operands and results that are spread over the tiles evenly.
  const auto slice = [&](const Shape& shape, DType type, std::int64_t steps) {
    return OperandSliceCycles(target, type, CeilDivide(NumElements(shape), tiles), steps);
  };
  return slice(p.lhs, p.in_type, serial.sums.steps) + slice(p.rhs, p.rhs_type, serial.steps()) +
         (last_sum ? slice(p.out, p.out_type, serial.outputs.steps) : 0);
}

}  // namespace ipu_model
