#include "operations/index/index_cost.h"

#include "kernels/host/integer_division.h"

namespace ipu_model {

std::uint64_t SliceCycles(const TargetModel& target, DType type, std::int64_t rows, std::int64_t elements,
                          int wraps) {
  const std::int64_t vectors = CeilDivide(elements, target.VectorWidth(type));
  const std::int64_t per_worker = CeilDivide(rows, target.worker_contexts);
  const std::int64_t worker = 30 + per_worker * (19 + 3 * wraps + 2 * vectors);
  return static_cast<std::uint64_t>(worker) * target.worker_contexts + target.supervisor_overhead;
}

std::uint64_t SliceCopyCycles(const TargetModel& target, DType type, std::int64_t elements) {
  const std::int64_t vectors = elements / (target.VectorWidth(type) * target.worker_contexts) + 1;
  return static_cast<std::uint64_t>(target.worker_contexts * (30 + 2 * vectors)) + target.supervisor_overhead;
}

std::uint64_t UpdateCycles(const TargetModel& target, DType type, std::int64_t elements) {
  const std::int64_t vectors = elements / (target.VectorWidth(type) * target.worker_contexts) + 1;
  return static_cast<std::uint64_t>(target.worker_contexts * (30 + 19 + 2 * vectors)) +
         target.supervisor_overhead;
}

std::uint64_t ScatterCycles(const TargetModel& target, DType type, double rows, double inside, double window,
                            int wraps) {
  const double vectors = window / target.VectorWidth(type) + 1;
  const double workers = target.worker_contexts;
  const double worker = 30 + (8 + 3 * wraps) * rows + rows * inside / workers * (19 + 3 * vectors);
  return static_cast<std::uint64_t>(workers * worker) + target.supervisor_overhead;
}

}  // namespace ipu_model
