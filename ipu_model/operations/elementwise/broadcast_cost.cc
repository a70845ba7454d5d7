#include "operations/elementwise/broadcast_cost.h"

#include <algorithm>
#include <cstddef>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

using Int = std::int64_t;

// The loops of one worker: each element, or vector, of the repeated vector stays in a register, while
// `blocks` of its repetitions are loaded and stored. From lib/popops/popopsCycleEstimators.cpp.

// vectorInnerAddCoreCycles_half
Int AddWorker(Int width, Int length, Int blocks) {
  constexpr Int kReturn = 1;
  Int before = 1 + 2;  // no blocks, a long vector
  const auto by_element = [&] { return before + 5 + length * (2 + 9 * blocks + 3) + kReturn; };
  if (length > 2048) return by_element();
  before += 2;
  if (length % 8 == 0) {
    // Two vectors are in the accumulators at a time.
    const Int loops = CeilDivide(length, 2 * width);
    if (blocks == 1) return before + 2 + 3 + 7 * loops + kReturn;
    return before + 2 + 4 + loops * (8 + 2 * (blocks - 1) + 7) + kReturn;
  }
  before += 2;
  if (blocks < 2) return by_element();
  before += 2;
  if (length % 4 != 0) return by_element();
  const Int after = 1 + blocks % 2 + 5;
  return before + 5 + length / width * (7 + 2 * (blocks / 2 - 1) + after) + kReturn;
}

// vectorInnerMulCoreCycles_half
Int MultiplyWorker(Int width, Int length, Int blocks, bool in_place) {
  constexpr Int kReturn = 1;
  Int before = 1 + 2;
  if (length % 4 != 0) return before + 4 + length * (5 + 9 * blocks) + kReturn;
  const Int loops = CeilDivide(length, width);
  before += 2;  // in place, a long vector, few blocks: each is a comparison with a branch
  if (!in_place) before += length > 2044 ? 2 : 4;
  const bool pipelined = !in_place && length <= 2044 && blocks >= 2;
  if (pipelined) return before + 3 + loops * (6 + blocks + 3) + kReturn;
  return before + 3 + loops * (4 + 2 * blocks + 3) + kReturn;
}

constexpr Int kDivision = 3;

// vectorInnerDivCoreCycles_float
Int DivideWorkerFloat(Int length, Int blocks) {
  if (length % 2 != 0) return 1 + 5 + 2 + length * (3 + (blocks - 1) * (kDivision + 1) + kDivision + 3) + 1;
  return 1 + 5 + 3 + length / 2 * (2 + kDivision + (blocks - 1) * 2 * kDivision + kDivision + 3) + 1;
}

// vectorInnerDivCoreCycles_half: pairs are divided as floats.
Int DivideWorkerHalf(Int length, Int blocks) {
  constexpr Int kPair = 2 * kDivision, kLast = 2 + kDivision + 3;
  if (length == 1) {
    if (blocks == 1) return 1 + 7 + 7 + kLast + 1;
    return 1 + 7 + 10 + kPair + (blocks / 2 - 1) * (2 + kPair) + 3 + (blocks % 2 != 0 ? kLast : 0) + 1;
  }
  if (length % 2 != 0) {
    const Int rest = length / 2 - 1;
    const Int aligned = 3 + kPair + rest * (3 + kPair) + 3;
    const Int shifted = 5 + kPair + 1 + rest * (4 + kPair) + 3 + kPair + 3;
    return 1 + 8 + blocks / 2 * (aligned + shifted) + (blocks % 2 != 0 ? aligned + kLast : 0) + 1;
  }
  return 1 + 8 + length / 2 * (3 + kPair + (blocks - 1) * (2 + kPair) + 4) + 4 + 1;
}

std::optional<std::uint64_t> InnerCycles(const TargetModel& target, ScalarOp op, DType type, bool in_place,
                                         const Repetition& r) {
  const bool half = type == DType::kF16, divide = op == ScalarOp::kDivide;
  const Int width = target.VectorWidth(type), workers = target.worker_contexts;
  // Sums and products of floats, and of halves in no whole vectors, are faster with a copy of the operand.
  if (!divide && (!half || r.length % width != 0)) return std::nullopt;
  // What the vertex counts in 16 bits, or in the count of a hardware loop.
  const Int most = ((Int{1} << target.repeat_count_bits) - 1) / 2 * 2 * workers;
  if (r.length > 0xffff || r.times > std::min<Int>(0xffff, most)) return std::nullopt;
  const Int blocks = CeilDivide(r.times, workers), again = r.slices > 1 ? 17 : 0;
  constexpr Int kSupervisor = 1 + 6 + 6;
  if (divide) {
    const Int core = half ? DivideWorkerHalf(r.length, blocks) : DivideWorkerFloat(r.length, blocks);
    return kSupervisor + workers * ((half ? 24 : 19) + r.slices * (again + core)) + 1 + (in_place ? 2 : 4);
  }
  if (op == ScalarOp::kMultiply) {
    const Int core = MultiplyWorker(width, r.length, blocks, in_place);
    return kSupervisor + workers * (24 + 19 + r.slices * (again + core) + (in_place ? 3 : 2)) +
           (in_place ? 6 : 0);
  }
  const Int core = AddWorker(width, r.length, blocks);
  // Sums in place are the first entry; the others branch to it.
  const bool first = in_place && op == ScalarOp::kAdd;
  return kSupervisor + workers * (19 + r.slices * (again + core) + (first ? 2 : 3)) + (first ? 0 : 6);
}

// BroadcastVectorOuterCycleEstimate: short rows have a worker each, the workers share a long one.
std::uint64_t OuterCycles(const TargetModel& target, DType type, const Repetition& r) {
  const Int width = target.VectorWidth(type), workers = target.worker_contexts;
  const bool by_row = r.times < workers * width;
  const Int columns = by_row ? r.times : CeilDivide(r.times, workers),
            rows = by_row ? CeilDivide(r.length, workers) : r.length;
  const Int row = (r.times % width == 0 ? 7 : 25) + 2 * (columns + width - 1) / width;
  return static_cast<std::uint64_t>((15 + rows * row) * workers) + target.supervisor_overhead;
}

}  // namespace

Repetition RepetitionOf(const std::vector<std::int64_t>& extents, const std::vector<bool>& repeats) {
  // Neighbours that both repeat, or both do not, are one dimension.
  std::vector<std::pair<bool, Int>> groups;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    const bool repeated = d < repeats.size() && repeats[d];
    if (groups.empty() || groups.back().first != repeated) groups.emplace_back(repeated, 1);
    groups.back().second *= extents[d];
  }
  using Kind = Repetition::Kind;
  const auto first = !groups.empty() && groups[0].first;
  if (groups.size() == 1 && first) return {Kind::kOne, 1, 1, groups[0].second};
  if (groups.size() == 2 && first) return {Kind::kVector, 1, groups[1].second, groups[0].second};
  if (groups.size() == 2) return {Kind::kRows, 1, groups[0].second, groups[1].second};
  // Rows whose elements are used again and again.
  if (groups.size() == 3 && first)
    return {Kind::kRows, 1, groups[0].second * groups[1].second, groups[2].second};
  if (groups.size() == 3) return {Kind::kVector, groups[0].second, groups[2].second, groups[1].second};
  return {};
}

std::optional<std::uint64_t> VectorBroadcastCycles(const TargetModel& target, ScalarOp op, DType type,
                                                   bool in_place, const Repetition& repetition) {
  if (type != DType::kF32 && type != DType::kF16) return std::nullopt;
  const bool sum = op == ScalarOp::kAdd || op == ScalarOp::kSubtract || op == ScalarOp::kMultiply;
  if (repetition.kind == Repetition::Kind::kVector && (sum || op == ScalarOp::kDivide))
    return InnerCycles(target, op, type, in_place, repetition);
  constexpr Int kMost = 0xffff;  // rows and columns are 16 bits
  if (repetition.kind == Repetition::Kind::kRows && sum && repetition.length <= kMost &&
      repetition.times <= kMost)
    return OuterCycles(target, type, repetition);
  return std::nullopt;
}

std::vector<std::int64_t> ScalarRegions(const std::vector<std::vector<std::int64_t>>& extents,
                                        const std::vector<bool>& repeats) {
  constexpr std::size_t kMost = 256;
  std::vector<Int> regions;
  for (const std::vector<std::int64_t>& part : extents) {
    Int elements = 1;
    for (const Int extent : part) elements *= extent;
    const Repetition r =
        elements == 1 ? Repetition{Repetition::Kind::kOne, 1, 1, 1} : RepetitionOf(part, repeats);
    const bool rows = r.kind == Repetition::Kind::kRows;
    if ((!rows && r.kind != Repetition::Kind::kOne) || r.slices != 1) return {};
    const auto count = static_cast<std::size_t>(rows ? r.length : 1);
    if (regions.size() + count > kMost) return {};
    regions.insert(regions.end(), count, r.times);
  }
  return regions;
}

std::pair<std::uint64_t, bool> ScalarBroadcastCycles(const TargetModel& target, ScalarOp op, DType type,
                                                     LoopCost loop, std::vector<std::int64_t> regions) {
  // The order of the regions hardly matters, and is not that of the caller's.
  std::sort(regions.begin(), regions.end());
  Int elements = 0;
  for (const Int region : regions) elements += region;
  // PopLibs: splitRegionsBetweenWorkers.
  const Int grain = std::max<Int>(target.VectorWidth(type), target.atomic_store_bytes);
  const Int grains = CeilDivide(elements, grain), workers = target.worker_contexts;
  const Int most = std::max(CeilDivide(grains, workers), CeilDivide(grains, std::max<Int>(1, grains / 2)));
  const Int vertices = CeilDivide(grains, most);
  // A scalar of its own for each region: these loops are in C++.
  const bool natural =
      InFloatUnit(type) && (op == ScalarOp::kAdd || op == ScalarOp::kSubtract || op == ScalarOp::kMultiply);
  if (natural) loop.cycles += 3;
  Int longest = 0, cycles = 0, pieces = 0, used = 0;
  std::size_t at = 0;
  for (Int v = 0; v < vertices; ++v) {
    Int left = std::min(elements, (v + 1) * grains / vertices * grain) - v * grains / vertices * grain;
    Int own = 0, worker = 20;
    while (left > 0) {
      const Int piece = std::min(left, regions[at] - used);
      worker += loop.Of(piece) + 28;
      ++own;
      left -= piece;
      used += piece;
      if (used == regions[at]) {
        used = 0;
        ++at;
      }
    }
    pieces += own;
    if (own > longest) {
      longest = own;
      cycles = worker;
    }
  }
  const bool efficient = pieces <= workers || elements / pieces >= 2 * grain;
  return {static_cast<std::uint64_t>(cycles * workers), efficient};
}

}  // namespace ipu_model
