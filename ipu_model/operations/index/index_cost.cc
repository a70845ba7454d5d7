#include "operations/index/index_cost.h"

#include <algorithm>
#include <cmath>

#include "hlo/Cost.hpp"
#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

// Cycles of copying one vector, and its elements, in the codelets of multiSlice.
struct CopyRate {
  std::int64_t cycles, elements;
};
CopyRate RateOf(DType type) {
  switch (SizeOf(type)) {
    case 1:
      return {3, 4};
    case 2:
    case 4:
      return {2, 2};
    default:
      return {2, 1};
  }
}

// The most of `all`, which fall evenly on so many blocks, that one of them has: four standard deviations and
// one above the mean.
std::int64_t MostInBlock(std::int64_t all, std::int64_t blocks) {
  const double mean = static_cast<double>(all) / static_cast<double>(blocks);
  return std::min(all, static_cast<std::int64_t>(std::ceil(mean + 4 * std::sqrt(mean) + 1)));
}

}  // namespace

std::uint64_t SliceCycles(const TargetModel& target, DType type, std::int64_t rows, std::int64_t elements,
                          int wraps) {
  const CopyRate rate = RateOf(type);
  const std::int64_t workers = target.worker_contexts;
  std::int64_t vectors = CeilDivide(elements, rate.elements);
  if (rows == 1) vectors = CeilDivide(vectors, workers);  // all workers share the window
  const std::int64_t worker = 30 + CeilDivide(rows, workers) * (19 + 3 * wraps + rate.cycles * vectors);
  return static_cast<std::uint64_t>(worker * workers);
}

std::uint64_t DynamicSliceCycles(const TargetModel& target, DType type, std::int64_t elements) {
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  const std::int64_t workers = target.worker_contexts;
  const std::int64_t share = CeilDivide(size > 4 ? elements * size / 4 : elements, workers);
  const std::int64_t width = size == 1 ? 4 : size == 2 ? 4 : 2;
  const std::int64_t worker = (size == 1 ? 76 + 72 : 39 + 24) + 2 * (share / width);
  return static_cast<std::uint64_t>(workers * worker + 14) + target.supervisor_overhead;
}

std::uint64_t ScatterCycles(const TargetModel& target, UpdateKind kind, DType type, double rows,
                            double inside, double window, int wraps) {
  const auto size = static_cast<double>(SizeOf(type));
  const double workers = target.worker_contexts, in_range = rows * inside / workers;
  const double wrapping = 3 * wraps * rows;
  if (kind == UpdateKind::kReplace) {
    const CopyRate rate = RateOf(type);
    const double copy =
        static_cast<double>(rate.cycles) * std::ceil(window / static_cast<double>(rate.elements));
    return static_cast<std::uint64_t>(workers *
                                      (29 + wrapping + (19 + copy) * in_range + 8 * (rows - in_range)));
  }
  const bool words = size >= 4, scaled = kind == UpdateKind::kAdd;
  // The first atom of a window, which is a word, is in the cycles of its set-up.
  const double atoms = std::max(1.0, std::ceil(window * size / target.atomic_store_bytes));
  double per_window = (words ? 11 : scaled ? 13 : 12) + 3 * (atoms - 1);
  // Windows of one or two double words have a loop of their own.
  const bool special = scaled && ((size == 4 && (window == 2 || window == 4)) || (size == 2 && window == 4));
  if (special) per_window = size == 2 ? 9 : window == 2 ? 8 : 16;
  // Parts of a word are written by C++ code, one element at a time.
  if (size < 4 && std::fmod(window * size, target.atomic_store_bytes) != 0)
    per_window = (scaled ? 13 : 12) + 20 * window;
  const double entry = 3 + (words ? 29 : 30) + (scaled ? words ? 6 : 4 : 0) - (special ? 1 : 0);
  return static_cast<std::uint64_t>(workers *
                                    (entry + wrapping + per_window * in_range + 5 * (rows - in_range)));
}

std::uint64_t MarkCycles(const TargetModel& target, double rows, double inside, double window) {
  const CopyRate rate = RateOf(DType::kPred);
  const double each =
      4 + static_cast<double>(rate.cycles) * std::ceil(window / static_cast<double>(rate.elements));
  return static_cast<std::uint64_t>(each * rows * inside) + target.supervisor_overhead;
}

std::uint64_t LastOfScatterCycles(const TargetModel& target, DType type, std::int64_t shares,
                                  std::int64_t results) {
  const auto words = static_cast<std::int64_t>((SizeOf(type) + 3) / 4);
  return static_cast<std::uint64_t>(results * (4 * shares + 4 + 2 * words)) + target.supervisor_overhead;
}

std::uint64_t OrderLookupsCycles(const TargetModel& target, std::int64_t indices, std::int64_t buckets,
                                 int wraps) {
  const std::int64_t workers = target.worker_contexts;
  const std::int64_t each = 2 * (24 + 3 * wraps) + 3 + 6;
  return static_cast<std::uint64_t>(workers * (40 + CeilDivide(indices, workers) * each + 6 * buckets)) +
         target.supervisor_overhead;
}

std::uint64_t TakeBlockCycles(const TargetModel& target, DType type, std::int64_t elements) {
  const CopyRate rate = RateOf(type);
  return static_cast<std::uint64_t>(target.worker_contexts *
                                    (24 + rate.cycles * CeilDivide(elements, rate.elements)));
}

std::uint64_t LookUpBlockCycles(const TargetModel& target, DType type, std::int64_t indices,
                                std::int64_t blocks, std::int64_t elements) {
  const CopyRate rate = RateOf(type);
  const std::int64_t workers = target.worker_contexts;
  const std::int64_t most = MostInBlock(CeilDivide(indices, workers), blocks);
  const std::int64_t worker = 42 + most * (22 + rate.cycles * CeilDivide(elements, rate.elements));
  return static_cast<std::uint64_t>(worker * workers);
}

std::uint64_t AddToBlockCycles(const TargetModel& target, UpdateKind kind, DType type, std::int64_t updates,
                               std::int64_t blocks, std::int64_t elements) {
  const std::int64_t workers = target.worker_contexts, most = MostInBlock(updates, blocks);
  return ScatterCycles(target, kind, type, static_cast<double>(most), 1.0, static_cast<double>(elements), 0) +
         static_cast<std::uint64_t>(workers * (10 * workers + 3 * most));
}

std::uint64_t PickShareCycles(const TargetModel& target, DType type, std::int64_t rows, std::int64_t elements,
                              int wraps) {
  const std::int64_t workers = target.worker_contexts;
  return SliceCycles(target, type, rows, elements, wraps) +
         static_cast<std::uint64_t>(workers * CeilDivide(rows, workers) * 20);
}

}  // namespace ipu_model

namespace hlo {

std::uint64_t dynamicUpdateCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return ipu_model::DynamicSliceCycles(ipu_model::ModelOf(target), type, static_cast<std::int64_t>(elements));
}

}  // namespace hlo
