#include "operations/linear_algebra/linear_algebra_cost.h"

#include "hlo/Cost.hpp"

namespace ipu_model {

std::function<std::uint64_t(const TargetModel&, const Box&)> MultiplyAddCycles(DType type, double products) {
  return [type, products](const TargetModel& target, const Box& box) {
    const double all = static_cast<double>(box.num_elements()) * products * (IsComplex(type) ? 4 : 1);
    return static_cast<std::uint64_t>(all * 3 / target.VectorWidth(type)) + 6 * 30 +
           target.supervisor_overhead;
  };
}

std::uint64_t RotationCycles(const TargetModel& target, DType type, double rotations, double batch,
                             double columns) {
  // Of one rotation, on one worker: two square roots, four divisions and about 30 others.
  constexpr double kRotationCycles = 180;
  const double turned = columns * 6 / target.VectorWidth(type);
  return static_cast<std::uint64_t>(rotations * (batch * kRotationCycles + turned)) +
         target.supervisor_overhead;
}

std::uint64_t ReflectorCycles(const TargetModel& target, DType type, double rows) {
  // Load, compute and combine for each of the first two passes; load, multiply and store for the last.
  constexpr double kPasses = 3, kInstructions = 3, kOnOneWorker = 30;
  const double vectors =
      rows * kPasses * kInstructions * (IsComplex(type) ? 4 : 1) / target.VectorWidth(type);
  return static_cast<std::uint64_t>(vectors + 6 * (30 + kOnOneWorker)) + target.supervisor_overhead;
}

std::uint64_t OfferCycles(std::int64_t tiles) { return static_cast<std::uint64_t>(4 * tiles); }

std::uint64_t RowOrderCycles(const TargetModel& target, std::int64_t m, std::int64_t n) {
  return static_cast<std::uint64_t>(2 * m + 10 * n) + target.supervisor_overhead;
}

}  // namespace ipu_model

namespace hlo {

std::uint64_t multiplyAddCycles(const poplar::Target& target, DType type, std::size_t elements,
                                double products) {
  return ipu_model::MultiplyAddCycles(type, products)(
      target.model(), ipu_model::Box::Whole({static_cast<std::int64_t>(elements)}));
}

}  // namespace hlo
