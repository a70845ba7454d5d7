#include "operations/product/vertex_cost.h"

#include <algorithm>
#include <numeric>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

using Int = std::int64_t;

// A counted supervisor loop: its branch stalls for 6 cycles except the last time.
Int BranchCycles(Int times) { return 6 * (times - 1) + 1; }

// PopLibs: getConvPartialSlicSupervisorInnerLoopCycleEstimateHalfFloat with two chains of convolution units,
// one row. Both passes over the input; `first`: the pass that starts the sums.
Int SlicRow(Int positions, Int stride, bool first) {
  Int row = 0;
  if (stride == 1 && positions >= 5) {
    row = 15 + positions - 5;
  } else if (stride == 1 && first) {
    row = 10 + (positions > 1 ? positions : 0) + 3;
  } else if (stride == 1) {
    row =
        7 + (positions == 1 ? 6 : 1 + (positions - 1) + 2 + (4 - positions) + 2 + (3 - (4 - positions)) + 3);
  } else {
    row = positions < 3 ? 10 + (positions == 1 ? 3 : 5) : 15 + 2 * (positions - 3);
  }
  constexpr Int kPasses = 2;
  return 10 + (first ? 1 : 0) + 3 + (row - 1) * kPasses;
}

// PopLibs: getConvPartialSlicSupervisorInnerLoopCycleEstimateQuarter, one row, both passes.
Int SlicRowQuarter(Int positions, Int stride, bool first) {
  constexpr Int kPasses = 2, kRow = 24;
  Int row = 0;
  if (stride == 2) {
    row = positions < 3 ? 6 + (positions == 1 ? 3 : 6) : 13 + 2 * (positions - 3);
  } else if (positions >= 5) {
    row = (first ? 14 : 18 + 12) + positions - 5;
  } else {
    constexpr Int kFirst[] = {0, 3, 5, 9, 10}, kLater[] = {0, 8, 10, 13, 13};
    row = first ? 8 + kFirst[positions] : 18 + 2 + kLater[positions];
  }
  return kRow + kPasses * row;
}

// All workers, for one block of weights.
Int SlicPass(const TargetModel& target, const SlicVertex& v, const AmpField& field, bool first) {
  const Int workers = target.worker_contexts, width = field.row_positions, all = field.rows * width;
  const Int start = v.quarter ? 20 : 17;
  const auto row = [&](Int positions) {
    return v.quarter ? SlicRowQuarter(positions, v.stride, first) : SlicRow(positions, v.stride, first);
  };
  const Int whole = row(width);
  Int most = start;
  for (Int i = 0; i < workers; ++i) {
    const Int begin = i * all / workers, end = (i + 1) * all / workers;
    if (begin == end) continue;
    const Int head = std::min((width - begin % width) % width, end - begin), rest = end - begin - head;
    Int cycles = start + rest / width * whole;
    if (head > 0) cycles += row(head);
    if (rest % width > 0) cycles += row(rest % width);
    most = std::max(most, cycles);
  }
  return most * workers;
}

// PopLibs: getDenseDotProductCycles with float partial sums, for one output.
Int DotProductCycles(bool half, Int size) {
  const Int in_word = half ? 4 : 2;
  Int width = in_word;
  while (size % width != 0) width /= 2;
  const bool whole = width == in_word;
  return 7 + (whole ? 0 : 1) + size / width * (whole ? 1 : 2) - (half ? 1 : 0);
}

// PopLibs: estimateZeroSupervisorCycles.
Int ZeroCycles(const TargetModel& target, Int elements, Int groups) {
  const Int workers = target.worker_contexts;
  return (CeilDivide(CeilDivide(elements, workers), 2) + 5) * workers * groups;
}

// How PopLibs' planner divides rows among workers, for the busiest one: whole rows and a part of one.
struct RowShare {
  Int whole, part, split;
};
RowShare ShareRows(Int rows, Int workers) {
  const Int split = workers / std::gcd(workers, rows), most = CeilDivide(rows * split, workers);
  return {most / split, most % split, split};
}

}  // namespace

std::uint64_t SlicCycles(const TargetModel& target, const SlicVertex& v, const KernelShape& kernel,
                         const AmpField& field) {
  const Int workers = target.worker_contexts, blocks = CeilDivide(kernel.width, 4) * kernel.others;
  const Int first = SlicPass(target, v, field, true), later = SlicPass(target, v, field, false);
  if (v.quarter) {
    // PopLibs: getConvPartialSlicSupervisorOuterLoopCycleEstimateQuarter.
    constexpr Int kLoad = 32 + 6;
    const Int call = workers * 6 + kLoad;
    return static_cast<std::uint64_t>(43 +
                                      v.conv_groups * (workers * 13 + 15 + call + workers * 6 + 12 + first +
                                                       (blocks - 1) * (call + workers * 5 + 8 + later)));
  }
  // PopLibs: getConvPartialSlicSupervisorWeightLoadCycleEstimate. With several groups, the workers rearrange
  // the weights.
  const Int load = 16 + (v.groups_per_group == 1 ? 18 : 21 + (v.groups_per_group == 2 ? 12 : 10) * workers);
  // PopLibs: getConvPartialSlicSupervisorOuterLoopCycleEstimateHalfFloat.
  const Int block = load + 3 + 2 + 1 + 6 + 1 + 6 + 1;
  return static_cast<std::uint64_t>(28 + 15 * v.conv_groups + BranchCycles(v.conv_groups) + block * blocks +
                                    BranchCycles(blocks) + v.conv_groups * (first + (blocks - 1) * later));
}

std::uint64_t HmacCycles(const TargetModel& target, const HmacVertex& v, const KernelShape& kernel,
                         const AmpField& field) {
  const Int workers = target.worker_contexts;
  const Int inputs = v.half ? CeilDivide(v.channels, 2) * 2 : v.channels;
  const bool one_tap = v.one_tap && v.half;
  const Int dot = DotProductCycles(v.half, inputs);
  // PopLibs: getConvPartialHorizontalMacCycleEstimate, for one output in a group.
  const auto row = [&](Int positions) {
    if (positions == 0) return Int{7};
    return one_tap ? 14 + positions * (2 + dot) : 19 + positions * (7 + dot);
  };
  // PopLibs: estimateConvPartialHorizontalMacInnerLoopCycles.
  const RowShare share = ShareRows(field.rows, workers);
  Int tap = 16 - (one_tap ? 15 : v.half ? 6 : 0) + share.whole * row(field.row_positions);
  if (share.part > 0) tap += row(share.part * (field.row_positions + share.split - 1) / share.split);
  const Int inner = workers * (kernel.others * kernel.width * tap + 16);
  const Int zeroing =
      one_tap ? 0 : ZeroCycles(target, field.rows * field.row_positions, v.features * v.groups);
  // PopLibs: getConvPartialHorizontalMacSupervisorOuterLoopCycleEstimate.
  const Int overhead = (v.half ? 65 : 58) - (one_tap ? 10 : 0) + workers * 9 + workers * (one_tap ? 15 : 0);
  return static_cast<std::uint64_t>(zeroing + overhead + v.groups * (23 + 15 + v.features * (10 + inner)));
}

std::uint64_t VmacCycles(const TargetModel& target, const VmacVertex& v, const KernelShape& kernel,
                         const AmpField& field) {
  const Int workers = target.worker_contexts;
  // PopLibs: estimateConvPartialVerticalMacInnerLoopCycles divides the outputs as if each were a row, of the
  // kernel's width; getConvPartialVerticalMacCycleEstimate for 4 groups.
  const auto row = [](Int size) { return 7 + 5 + 3 + 2 * (size - 1); };
  const Int outputs = field.rows * field.row_positions;
  const RowShare share = ShareRows(outputs, workers);
  const Int rows =
      share.whole * row(kernel.width) + share.part * row((kernel.width + share.split - 1) / share.split);
  const Int inner = workers * (19 + kernel.others * rows);
  // The workers' partial sums are set to zero, and added at the end: ...SupervisorZeroInnerLoop... and
  // getConvPartialVerticalReductionCycleEstimate.
  const Int zeroing = 4 + CeilDivide(outputs, 2);
  const Int sums = 9 + (9 + 2 * (workers - 1)) * CeilDivide(outputs, workers) / 4;
  return static_cast<std::uint64_t>(61 + 14 + 26 +
                                    (zeroing + 32 + v.channels * (24 + inner) + sums) * v.conv_groups);
}

}  // namespace ipu_model
