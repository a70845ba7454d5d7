// How a convolution is divided among tiles: the split of its iteration space, fitting tile mappings, and its
// vertices.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_PLAN_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_PLAN_H_

#include <cstdint>

#include "core/mapping.h"
#include "core/operation.h"
#include "kernels/convolution/convolution.h"
#include "operations/convolution/convolution_cost.h"

namespace ipu_model {

// lhs [N, C, *spatial], rhs [O, C / feature_groups, *spatial], out [N / batch_groups, O, *spatial].
struct ConvolutionProblem {
  ConvolutionGeometry geometry;
  Shape lhs, rhs, out;
  DType in_type = DType::kF32, rhs_type = DType::kF32, out_type = DType::kF32;
  // With half partials: the number of channels whose products the AMP adds before it rounds; otherwise 0.
  std::int64_t half_step = 0;

  std::size_t spatial() const { return static_cast<std::size_t>(geometry.spatial); }
  std::int64_t groups() const { return geometry.feature_groups * geometry.batch_groups; }
  std::int64_t features_per_group() const { return out[1] / groups(); }
  double multiply_adds() const;  // on elements of the input, without padding
  DType SumType() const {
    return half_step > 0 ? DType::kF16 : ConvolutionSumType(in_type, rhs_type, out_type);
  }
};

// Returns the work of a vertex on `extents` of the iteration space, which has `features` outputs of each of
// `groups` groups, if `tiles` tiles share the convolution.
ConvolutionWork WorkOf(const ConvolutionProblem& problem, const std::int64_t* extents, std::int64_t groups,
                       std::int64_t features, std::int64_t tiles);

// Returns the grid of the iteration space
// [batch, feature, input channel, output positions..., kernel positions...]. Parts that share outputs (input
// channels, kernel positions) produce partial sums, which a second superstep adds. Minimises estimated cycles
// among the splits whose operands fit into `memory_proportion` of a tile's memory; if none fits, minimises
// memory.
Grid ChooseConvolutionSplit(const ConvolutionProblem& problem, const TargetModel& target, unsigned num_tiles,
                            double memory_proportion);
// Whether the vertices of a split use the AMP and can therefore have half partials.
bool UsesMatrixUnit(const ConvolutionProblem& problem, const Grid& split, const TargetModel& target);

// Computes a convolution with half partials on whole tensors, with the same bits as PlanConvolution's
// vertices.
void ConvolveWhole(const ConvolutionProblem& problem, const Grid& split, double step_bytes,
                   HostContext& context, const HostTensor& lhs, const HostTensor& rhs, const HostTensor& out);

// Return mappings of variables whose dimensions are the tensor's in the order `layout` (major to minor).
// Every element is on a tile that uses it. If that would put a tensor on few tiles, it is spread evenly
// instead.
Mapping ConvolutionInputMapping(const ConvolutionProblem& problem, const Grid& split, const Shape& layout,
                                const TargetModel& target);
Mapping ConvolutionWeightsMapping(const ConvolutionProblem& problem, const Grid& split, const Shape& layout,
                                  const TargetModel& target);
Mapping ConvolutionOutputMapping(const ConvolutionProblem& problem, const Grid& split, const Shape& layout,
                                 const TargetModel& target, unsigned num_tiles);

// inputs: lhs, rhs; output 0: out. A part that needs more than `step_bytes` on its tile, beside operands and
// result, is processed in steps (convolution_serial.h).
TilePlan PlanConvolution(const ConvolutionProblem& problem, const Grid& split, double step_bytes,
                         const View& out, const DeviceContext& context);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_PLAN_H_
