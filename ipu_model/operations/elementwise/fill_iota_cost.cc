#include "operations/elementwise/fill_iota_cost.h"

#include <algorithm>

#include "hlo/Cost.hpp"
#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

std::int64_t FillWorker(const TargetModel& target, DType type, std::int64_t elements) {
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  if (size >= 8) return 5 + elements * (size / 8);
  // Bytes are stored by words or, if there are many, by double words.
  if (size == 1) return elements < 64 ? 28 + elements / 4 : 39 + elements / 8;
  const std::int64_t width = target.VectorWidth(type);
  if (size == 2) return elements == 1 ? 15 : elements == 2 ? 21 : 26 + elements / width;
  return 16 + elements / width + 6 + (elements % width == 1 ? 1 : 0) + 1;
}

}  // namespace

std::int64_t RegionShare(const TargetModel& target, std::int64_t elements, std::int64_t grain) {
  const std::int64_t grains = CeilDivide(elements, grain), workers = target.worker_contexts;
  const std::int64_t most = std::max<std::int64_t>(1, grains / 2);
  const std::int64_t share = std::max(CeilDivide(grains, workers), CeilDivide(grains, most));
  // As many workers as that takes have equal shares.
  return std::min(elements, CeilDivide(grains, CeilDivide(grains, share)) * grain);
}

std::uint64_t FillCycles(const TargetModel& target, DType type, std::int64_t elements) {
  if (elements == 0) return 0;
  const std::int64_t width = target.VectorWidth(type), workers = target.worker_contexts;
  const std::int64_t grains = std::max<std::int64_t>(CeilDivide(CeilDivide(elements, width), workers), 2);
  return static_cast<std::uint64_t>(workers * FillWorker(target, type, std::min(elements, grains * width)));
}

std::uint64_t IotaCycles(const TargetModel& target, DType type, std::int64_t elements) {
  if (elements == 0) return 0;
  // PopLibs counts in words; other types are taken to count as many at a time.
  const std::int64_t width = std::min(2u, target.VectorWidth(type));
  return static_cast<std::uint64_t>(target.worker_contexts *
                                    (10 + 4 + 3 * CeilDivide(RegionShare(target, elements, width), width)));
}

}  // namespace ipu_model

namespace hlo {

std::uint64_t fillCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return ipu_model::FillCycles(ipu_model::ModelOf(target), type, static_cast<std::int64_t>(elements));
}
std::uint64_t iotaCycles(const poplar::Target& target, DType type, std::size_t elements) {
  return ipu_model::IotaCycles(ipu_model::ModelOf(target), type, static_cast<std::int64_t>(elements));
}

}  // namespace hlo
