#include "operations/sort/row_parts.h"

#include <algorithm>
#include <cmath>

#include "kernels/host/integer_division.h"
#include "operations/index/slice_grid.h"
#include "operations/sort/sort_cost.h"

namespace ipu_model {
namespace {

// A superstep more must save this part of the cycles: it takes code, and time to compile.
constexpr double kLeastGain = 0.05;

std::int64_t NumStages(std::int64_t chunks) {
  std::int64_t levels = 0;
  while ((std::int64_t{1} << levels) < chunks) ++levels;
  return levels * (levels + 1) / 2;
}

// Cycles of `rows` rows of n elements on each tile, in `chunks` chunks.
double CyclesInChunks(const TargetModel& target, std::int64_t n, std::int64_t rows, std::int64_t chunks,
                      const SortedElement& element) {
  if (chunks == 1)
    return static_cast<double>(rows) * static_cast<double>(SortCycles(target, n, element.operands));
  const std::size_t operands = element.OperandsInChunks();
  const std::int64_t length = CeilDivide(n, chunks);
  const double exchanged =
      static_cast<double>(rows * length * element.BytesInChunks()) / target.exchange_bytes_per_cycle;
  return static_cast<double>(rows) * static_cast<double>(SortCycles(target, length, operands)) +
         static_cast<double>(NumStages(chunks)) *
             (static_cast<double>(MergeCycles(target, rows * length, operands)) + exchanged +
              target.sync_cycles);
}

std::int64_t CandidateBytes(std::int64_t k, DType type) {
  return std::max<std::int64_t>(1, k) * static_cast<std::int64_t>(SizeOf(type) + SizeOf(DType::kS32));
}

// Cycles of top-k of a row of n elements in `parts` parts.
double CyclesInParts(const TargetModel& target, std::int64_t n, std::int64_t k, std::int64_t parts,
                     DType type) {
  auto cycles = static_cast<double>(TopKCycles(target, 1, CeilDivide(n, parts), k));
  const auto bytes = static_cast<double>(CandidateBytes(k, type));
  for (const std::int64_t terms : MergeStages(parts, k, type, target.bytes_per_tile)) {
    cycles += static_cast<double>(TopKCycles(target, 1, terms * k, k)) + target.sync_cycles +
              static_cast<double>(terms) * bytes / target.exchange_bytes_per_cycle;
  }
  return cycles;
}

}  // namespace

std::int64_t LongestChunk(const SortedElement& element, std::int64_t bytes_per_tile) {
  return std::max<std::int64_t>(1, SliceBudget(bytes_per_tile) / (2 * element.BytesInChunks()));
}

RowParts ChooseSortChunks(const TargetModel& target, std::int64_t n, std::int64_t rows,
                          const SortedElement& element, unsigned num_tiles) {
  const std::int64_t least =
      std::max<std::int64_t>(1, CeilDivide(n, LongestChunk(element, target.bytes_per_tile)));
  const std::int64_t most = std::max<std::int64_t>(least, std::min<std::int64_t>(num_tiles / rows, n / 2));
  const auto cycles_of = [&](std::int64_t chunks) {
    const std::int64_t rows_of_tile = CeilDivide(rows * chunks, static_cast<std::int64_t>(num_tiles));
    return CyclesInChunks(target, n, rows_of_tile, chunks, element);
  };
  RowParts best = {least, cycles_of(least)};
  const auto consider = [&](std::int64_t chunks) {
    const double cycles = cycles_of(chunks);
    if (cycles < (1 - kLeastGain) * best.cycles) best = {chunks, cycles};
  };
  constexpr std::int64_t kMany = 4;
  for (std::int64_t chunks = std::max(kMany, 2 * least); least > 1 || most >= kMany; chunks *= 2) {
    chunks = std::min(chunks, most);
    consider(chunks);
    if (chunks >= most) break;
  }
  // After more of them: two take one stage, but three take as many stages as four.
  for (std::int64_t chunks = std::max<std::int64_t>(2, least + 1); chunks < kMany && chunks <= most; ++chunks)
    consider(chunks);
  return best;
}

std::vector<std::int64_t> MergeStages(std::int64_t parts, std::int64_t k, DType type,
                                      std::int64_t bytes_per_tile) {
  const std::int64_t most = std::max<std::int64_t>(2, SliceBudget(bytes_per_tile) / CandidateBytes(k, type));
  // Fewer do not pay for a superstep.
  constexpr std::int64_t kLeastForStages = 16;
  std::vector<std::int64_t> stages;
  while (parts > 1) {
    std::int64_t terms = parts;
    if (parts > kLeastForStages) terms = static_cast<std::int64_t>(std::ceil(std::sqrt(parts)));
    stages.push_back(std::min(terms, most));
    parts = CeilDivide(parts, stages.back());
  }
  return stages;
}

RowParts ChooseTopKParts(const TargetModel& target, std::int64_t n, std::int64_t k, std::int64_t rows,
                         DType type, unsigned num_tiles) {
  const std::int64_t longest =
      std::max<std::int64_t>(1, SliceBudget(target.bytes_per_tile) / static_cast<std::int64_t>(SizeOf(type)));
  const std::int64_t possible = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, k));
  const std::int64_t least = std::clamp<std::int64_t>(CeilDivide(n, longest), 1, possible);
  const std::int64_t most = std::clamp<std::int64_t>(num_tiles / rows, least, possible);
  const auto tiles = static_cast<std::int64_t>(num_tiles);
  const auto cycles_of = [&](std::int64_t parts) {
    return static_cast<double>(CeilDivide(rows * parts, tiles)) * CyclesInParts(target, n, k, parts, type);
  };
  RowParts best = {least, cycles_of(least)};
  for (std::int64_t parts = least; parts < most;) {
    parts = std::min(2 * parts, most);
    const double cycles = cycles_of(parts);
    if (cycles < (1 - kLeastGain) * best.cycles) best = {parts, cycles};
  }
  return best;
}

bool TopKStays(const TargetModel& target, const Grid& held, std::int64_t k, DType type,
               const RowParts& chosen) {
  const std::int64_t n = held.shape[0], parts = held.parts[0], grains = CeilDivide(n, held.grain[0]);
  const std::int64_t shortest = grains / parts * held.grain[0] - (grains * held.grain[0] - n);
  if (parts < 2 || shortest < std::max<std::int64_t>(1, k)) return false;
  // The chosen parts are exchanged before the scan, in a superstep that those in place do not need.
  const double sent = static_cast<double>(CeilDivide(n, chosen.parts)) * static_cast<double>(SizeOf(type));
  const double exchange = target.sync_cycles + sent / target.exchange_bytes_per_cycle;
  return CyclesInParts(target, n, k, parts, type) <= chosen.cycles + exchange;
}

bool TopKSorts(const TargetModel& target, std::int64_t n, std::int64_t k, std::int64_t rows, DType type,
               unsigned num_tiles) {
  if (n <= 1 || k < 1) return false;
  const RowParts parts = ChooseTopKParts(target, n, k, rows, type, num_tiles);
  const std::int64_t size = static_cast<std::int64_t>(SizeOf(type)),
                     position = static_cast<std::int64_t>(SizeOf(DType::kS32));
  // The operands and the result of the vertex that needs most; results of all rows of a tile.
  const std::int64_t held = CeilDivide(rows, static_cast<std::int64_t>(num_tiles)) * CandidateBytes(k, type);
  const std::int64_t bytes =
      held + std::max(parts.parts > 1 ? 2 * CandidateBytes(k, type) : 0, CeilDivide(n, parts.parts) * size);
  const RowParts chunks = ChooseSortChunks(target, n, rows, {2, size + position}, num_tiles);
  // The stages of a sort take code, and time to compile.
  constexpr double kLeastSaved = 2000;
  return chunks.parts > 1 &&
         (bytes > target.bytes_per_tile / 2 || chunks.cycles + kLeastSaved < parts.cycles);
}

}  // namespace ipu_model
