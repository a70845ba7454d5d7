// Tile cycles of discrete Fourier transforms: a model estimate, as PopLibs has none.
#ifndef IPU_MODEL_OPERATIONS_FFT_FFT_COST_H_
#define IPU_MODEL_OPERATIONS_FFT_FFT_COST_H_

#include <cstdint>

#include "core/target/target_model.h"

namespace ipu_model {

// A vertex that transforms `lines` lines of complex numbers of `real` parts with `operations` additions and
// multiplications of real numbers each: these in vectors, with as many loads and stores.
std::uint64_t FftCycles(const TargetModel& target, DType real, std::int64_t lines, double operations);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_FFT_FFT_COST_H_
