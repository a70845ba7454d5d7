#include "operations/fft/fft_cost.h"

namespace ipu_model {

std::uint64_t FftCycles(const TargetModel& target, DType real, std::int64_t lines, double operations) {
  const double instructions = 2 * operations * static_cast<double>(lines);
  return static_cast<std::uint64_t>(instructions / static_cast<double>(target.VectorWidth(real))) + 6 * 40 +
         target.supervisor_overhead;
}

}  // namespace ipu_model
