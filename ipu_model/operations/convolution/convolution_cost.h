// Cycles and memory of one tile's part of a convolution.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_COST_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_COST_H_

#include <cstdint>

#include "core/target_model.h"

namespace ipu_model {

// The products of one vertex: `groups` convolution groups with `features` outputs and `channels` inputs each.
struct ConvolutionWork {
  std::int64_t groups, features, channels;
  std::int64_t positions;  // batch x output positions
  std::int64_t taps;       // kernel positions
};

enum class ConvolutionCodelet { kMatrixUnit, kVector };

// Returns the cheaper codelet: the AMP (one pass per kernel position and group of channels), or vector
// multiply-adds.
ConvolutionCodelet ChooseCodelet(const TargetModel& target, DType type, const ConvolutionWork& work);
// Tile cycles for all six workers together.
std::uint64_t ConvolutionCycles(const TargetModel& target, DType type, const ConvolutionWork& work);
// Tile cycles of a vertex that adds `parts` partial sums of `elements` values each.
std::uint64_t ReducePartialsCycles(const TargetModel& target, DType type, std::int64_t parts,
                                   std::int64_t elements);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_COST_H_
