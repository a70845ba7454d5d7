#include "operations/product/amp_cost.h"

#include <algorithm>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

using Int = std::int64_t;

bool IsQuarter(DType type) { return SizeOf(type) == 1; }
bool IsFloatOperand(DType type) { return SizeOf(type) > 2; }

// Half operands with the partial sums that the AMP adds at full rate take one path, others another one.
bool CommonPath(const AmpMethod& m) {
  return m.float_partials || (!IsFloatOperand(m.operand) && m.units == 16);
}

// What later passes of a worker save because it keeps its state: in all, and per group of inputs.
// PopLibs: conv1x1WorkerRetentionSavings.
struct Retention {
  Int all, per_input_group;
};
Retention RetentionOf1x1(const AmpMethod& m) {
  const bool retains = !IsFloatOperand(m.operand) && (m.float_partials || m.units == 16);
  return retains ? Retention{7, 3} : Retention{0, 0};
}

// PopLibs: getConvPartial1x1SupervisorInnerLoopCycleEstimateHalfFloat, one worker. `zeroes`: the first pass,
// which starts the sums.
Int Worker1x1(const AmpMethod& m, Int positions, bool zeroes) {
  if (positions == 0) return 0;
  const bool floats = IsFloatOperand(m.operand);
  const Int retained = RetentionOf1x1(m).all;
  if (!floats && CommonPath(m)) {
    const Int again = zeroes ? 0 : 1;
    if (positions == 1) return 32 + again - retained;
    if (positions == 2) return 41 + again - retained;
    return 37 + again + 4 * (positions - 3) - retained;
  }
  const Int zero_cycles = floats && m.units == 16 ? 8 : m.float_partials ? 4 : 2;
  const Int zeroing = zeroes ? 2 + zero_cycles * positions : 0;
  if (floats) {
    return zeroing + (positions == 1 ? 47 : positions == 2 ? 46 : 46 + 8 * (positions - 3)) - retained;
  }
  return zeroing + (positions == 1 ? 39 : positions == 2 ? 40 : 41 + 4 * (positions - 3)) - retained;
}

// PopLibs: getConvPartial1x1SupervisorInnerLoopCycleEstimateQuarter, one worker.
Int Worker1x1Quarter(Int positions, bool zeroes) {
  const Int saved = zeroes ? 5 : 0;
  if (positions == 0) return 17;
  return 17 + (positions == 1 ? 18 : positions == 2 ? 23 : 27 + 4 * (positions - 3)) - saved;
}

// The workers share the positions evenly, so there are at most two loads. A worker with fewer positions may
// take longer. The least loaded worker ends 14 cycles late, as it also ends the pass.
Int Pass1x1(const TargetModel& target, const AmpMethod& m, Int positions, bool zeroes) {
  const Int workers = target.worker_contexts;
  const auto worker = [&](Int n) {
    return IsQuarter(m.operand) ? Worker1x1Quarter(n, zeroes) : Worker1x1(m, n, zeroes);
  };
  const Int many = worker(CeilDivide(positions, workers)), few = worker(positions / workers);
  return std::max({workers * many, workers * few, workers * std::min(many, few) + 14});
}

// PopLibs: getConvPartialAmpSupervisorWeightLoadCycleEstimate. Four kernel rows are shuffled while they are
// loaded, which takes 64-bit loads.
Int WeightLoadCycles(const TargetModel& target, const AmpMethod& m) {
  const Int bytes = m.units * target.AmpInputGroup(m.operand) * static_cast<Int>(SizeOf(m.operand));
  const bool wide = m.wide_weight_loads && m.filter_height != 4;
  return bytes / (target.amp_coefficient_bytes * (wide ? 2 : 1));
}

// PopLibs: getConvPartialnx1WorkerCycles and its overload for quarter operands, for one row.
Int RowNx1(const AmpMethod& m, Int positions) {
  if (IsQuarter(m.operand))
    return 16 + (positions == 1 ? 18 : positions == 2 ? 23 : 27 + 4 * (positions - 3));
  const bool floats = IsFloatOperand(m.operand);
  const bool one_more_stride = !floats && m.units == (m.float_partials ? 8 : 16);
  constexpr Int kStart = 3, kRetained = 9;
  const Int row = kStart - kRetained;
  if (positions == 1) return row + (floats ? 33 : 29);
  if (positions == 2) return row + (floats ? 44 : 33 + (one_more_stride ? 1 : 0));
  return row + (floats ? 45 + 8 * (positions - 3) : 34 + 4 * (positions - 3));
}

// All workers, for one kernel position. PopLibs (partitionConvPartialByWorker) gives each worker an equal
// share of all positions, which may begin and end within a row.
Int PositionNx1(const TargetModel& target, const AmpMethod& m, const AmpField& field) {
  const Int workers = target.worker_contexts, width = field.row_positions, all = field.rows * width;
  const Int start = IsQuarter(m.operand) ? 18 : m.float_partials ? 17 : 18;
  const Int whole_row = RowNx1(m, width);
  Int most = 0, least = 0;
  for (Int i = 0; i < workers; ++i) {
    const Int begin = i * all / workers, end = (i + 1) * all / workers;
    Int cycles = start;
    if (end > begin) {
      const Int first = std::min((width - begin % width) % width, end - begin);
      const Int rest = end - begin - first;
      if (first > 0) cycles += RowNx1(m, first);
      cycles += rest / width * whole_row;
      if (rest % width > 0) cycles += RowNx1(m, rest % width);
    }
    most = std::max(most, cycles);
    least = i == 0 ? cycles : std::min(least, cycles);
  }
  return std::max(workers * most, workers * least + 9);
}

// PopLibs: getZeroSupervisorVertexCycleEstimate.
Int ZeroCycles(const TargetModel& target, bool float_partials, Int elements, Int groups) {
  const Int workers = target.worker_contexts, width = target.data_path_bytes / (float_partials ? 4 : 2);
  const Int vectors = CeilDivide(CeilDivide(elements, workers), width);
  constexpr Int kStart = 5;  // 14 or 15, less 9 or 10 for the state that a worker keeps
  return (vectors + kStart) * workers * groups;
}

}  // namespace

std::uint64_t Amp1x1Cycles(const TargetModel& target, const AmpMethod& m, const AmpGroups& g,
                           std::int64_t positions) {
  const Int workers = target.worker_contexts, load = WeightLoadCycles(target, m);
  const Int first = load + Pass1x1(target, m, positions, true);
  const Int later = load + Pass1x1(target, m, positions, false);
  if (IsQuarter(m.operand)) {
    // PopLibs: getConvPartial1x1SupervisorOuterLoopCycleEstimateQuarter.
    const Int first_pass = workers * 20 + 11 + first, later_pass = workers * 17 + 6 + later;
    return static_cast<std::uint64_t>(
        46 +
        g.groups * (workers * 2 + 9 +
                    g.output_groups * (workers * 6 + 10 + first_pass + (g.input_groups - 1) * later_pass)));
  }
  // PopLibs: getConvPartial1x1SupervisorOuterLoopCycleEstimateHalfFloat.
  const Int common = CommonPath(m) ? 1 : 0;
  const Retention retention = RetentionOf1x1(m);
  const Int starts = workers * (retention.all + retention.per_input_group * (g.input_groups * g.groups - 1));
  const Int first_group = 11 + g.output_groups * (19 - common + m.passes * (7 + first));
  const Int later_group = 16 - common + g.output_groups * (19 + m.passes * (6 + later));
  return static_cast<std::uint64_t>(
      50 + starts + g.groups * (12 + common + first_group + (g.input_groups - 1) * later_group));
}

std::uint64_t AmpNx1Cycles(const TargetModel& target, const AmpMethod& m, const AmpGroups& g,
                           std::int64_t kernel_outer, std::int64_t kernel_inner, const AmpField& field) {
  const Int workers = target.worker_contexts, load = WeightLoadCycles(target, m);
  const Int loops = kernel_outer * kernel_inner * m.passes * PositionNx1(target, m, field);
  const Int zeroing = ZeroCycles(target, m.float_partials, field.rows * field.row_positions * m.OutputGroup(),
                                 g.output_groups * g.groups);
  if (IsQuarter(m.operand)) {
    // PopLibs: getConvPartialnx1Supervisor{Inner,Outer}LoopCycleEstimateQuarter.
    const Int passes = kernel_outer * (workers * 5 + 3 + workers * 15 + 13 + load +
                                       (kernel_inner - 1) * (workers * 13 + 8) + load) +
                       loops;
    return static_cast<std::uint64_t>(
        83 + zeroing +
        g.groups * (workers * 5 + 7 +
                    g.output_groups * (workers * 8 + 10 + g.input_groups * (workers * 8 + 13 + passes))));
  }
  // PopLibs: getConvPartialnx1Supervisor{Inner,Outer}LoopCycleEstimateHalfFloat.
  const Int height = m.filter_height;
  const Int weights = load + (height == 4 ? 60 : height == 2 ? 46 : height == 1 ? 15 : 20 * height) + 3;
  const Int passes = kernel_outer * (14 + kernel_inner * (12 + m.passes * weights)) + loops;
  const Int zero_loops =
      g.groups * (g.output_groups * 17 + (g.output_groups - 1) * 6 + 1) + (g.groups - 1) * 6 + 1;
  constexpr Int kOverhead = 109, kRetained = 9;
  return static_cast<std::uint64_t>(
      kOverhead + zeroing + workers * (kRetained + (m.float_partials ? 9 : 10)) + zero_loops +
      g.groups * (16 + g.input_groups * (14 + g.output_groups * (14 + passes))));
}

std::uint64_t OuterProductCycles(const TargetModel& target, bool floats, std::int64_t positions,
                                 std::int64_t channels, std::int64_t group) {
  // PopLibs: getOuterProductCycleEstimate, and the share of a worker in addPartialCalcCycleEstimate.
  const Int workers = target.worker_contexts, share = CeilDivide(positions, workers);
  const Int vector = floats ? 2 : 4, groups = CeilDivide(channels, group);
  const Int least = 3 * vector, vectors = group / vector;  // of the unrolled loop
  const bool unrolled = group >= least && group % vector == 0 &&
                        vectors - 3 < (Int{1} << target.repeat_count_bits) && vectors + 1 < 512;
  const Int position = unrolled ? 6 + (group - least) / vector : 10 + (floats ? group * 2 : group * 5 / 2);
  return static_cast<std::uint64_t>(workers * (25 + groups * ((floats ? 11 : 10) + share * position)));
}

std::uint64_t OuterProductCycles(const TargetModel& target, bool floats, std::int64_t positions,
                                 std::int64_t channels) {
  return OuterProductCycles(target, floats, positions, channels, floats ? 2 : 4);
}

std::uint64_t AmpReduceCycles(const TargetModel& target, bool float_partials, bool float_output,
                              std::int64_t terms, std::int64_t elements) {
  if (elements == 0) return 0;
  if (terms <= 1) return float_partials == float_output ? 0 : AmpCastCycles(target, elements);
  // PopLibs: getReduceCycleEstimate. Vectors of 128 bits, each in two loads.
  const Int workers = target.worker_contexts, width = float_partials ? 4 : 8;
  const Int loads = Int{16} / target.data_path_bytes;
  // PopLibs: checkPartialsSizeForSingleInputReduce. Partial sums of other tiles are one region if that takes
  // less than a sixteenth of the memory; the first is on the tile already.
  const Int exchanged = (terms - 1) * elements * (float_partials ? 4 : 2);
  const Int element_bytes = target.memory_element_bytes;
  const bool one_region = elements % width == 0 && CeilDivide(exchanged, element_bytes) * element_bytes <
                                                       Int{target.bytes_per_tile} / 16;
  if (one_region) {
    const Int per_vector = loads * (terms - 1) + (float_partials ? 7 : 9) + (float_output ? 1 : 0);
    return static_cast<std::uint64_t>((20 + per_vector * CeilDivide(elements / width, workers)) * workers +
                                      33);
  }
  // One region for each partial sum: a vector also loads the pointer to the next one, and what is left takes
  // a vector for each power of two.
  const Int rest = elements % width;
  Int vectors = elements / width;
  for (Int power = 1; power < width; power *= 2) vectors += (rest & power) != 0 ? 1 : 0;
  Int cycles = 32, share = vectors / workers;
  if (vectors % workers != 0) {
    if (rest != 0) {
      cycles += 2 * terms + (float_partials ? 13 : 11);
    } else {
      ++share;
    }
  }
  cycles += ((loads + 1) * terms + (float_partials ? 6 : 8) + (float_output ? 1 : 0)) * share;
  return static_cast<std::uint64_t>(cycles * workers);
}

std::uint64_t AmpCastCycles(const TargetModel& target, std::int64_t elements) {
  if (elements == 0) return 0;
  // PopLibs: estimateCastCycles. The float side has two elements in a word, half four.
  const Int workers = target.worker_contexts;
  const Int share = CeilDivide(elements, workers);
  return static_cast<std::uint64_t>((CeilDivide(share, Int{target.data_path_bytes} / 4) + 26) * workers);
}

}  // namespace ipu_model
