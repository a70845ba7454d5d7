// How a convolution is divided among tiles: the split of its iteration space, fitting tile mappings, and its
// vertices.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_PLAN_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_PLAN_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "core/mapping/mapping.h"
#include "core/operation/operation.h"
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
  // The temporary memory of a tile that the plan should do with, in bytes.
  double most_temporary_bytes = std::numeric_limits<double>::infinity();
  // Whether it computes the gradient of weights (PopLibs: Pass::TRAINING_WU).
  bool weight_update = false;

  std::size_t spatial() const { return static_cast<std::size_t>(geometry.spatial); }
  std::int64_t groups() const { return geometry.feature_groups * geometry.batch_groups; }
  std::int64_t features_per_group() const { return out[1] / groups(); }
  double multiply_adds() const;  // on elements of the input, without padding
  // Whether sums of one part are cast in a superstep of their own, as the vertex has wider ones than the
  // result.
  bool casts(ConvolutionCodelet codelet) const {
    return codelet != ConvolutionCodelet::kScalar && codelet != ConvolutionCodelet::kOuterProduct &&
           SumType() != out_type;
  }
  DType SumType() const {
    return half_step > 0 ? DType::kF16 : ConvolutionSumType(in_type, rhs_type, out_type);
  }
};

// Dimensions of the iteration space
// [batch, feature, input channel, output positions..., kernel positions...].
enum ConvolutionDim : int { kBatchDim = 0, kFeatureDim, kChannelDim, kPositionDims };

// The parts of one dimension of every tile's part of the iteration space, one for each step.
struct SerialCut {
  int dim = kFeatureDim;
  std::int64_t steps = 1;
  std::int64_t size = 0;  // the most elements of `dim` in a step

  bool split() const { return steps > 1; }
  // Returns the part of [begin, end) that step `step` processes; it may be empty.
  std::pair<std::int64_t, std::int64_t> Range(std::int64_t begin, std::int64_t end, std::int64_t step) const;
};

// Steps over the output channels, of which a step computes some, and in each of them over a dimension that is
// summed over, of which a step adds its products to the tile's partial sums. A plan has steps of one kind, as
// PopLibs'; a program that does not fit may need both.
struct SerialSplit {
  SerialCut outputs, sums;
  // With steps over the outputs alone: whether every tile receives its input once, before them (PopLibs:
  // broadcastInputBeforeLoop).
  bool keeps_input = false;

  std::int64_t steps() const { return outputs.steps * sums.steps; }
  bool split() const { return steps() > 1; }
  bool adds() const { return sums.split(); }
  bool cuts_outputs() const { return outputs.split(); }
  std::int64_t OutputStep(std::int64_t step) const { return step / sums.steps; }
  std::int64_t SumStep(std::int64_t step) const { return step % sums.steps; }
  bool IsLastSum(std::int64_t step) const { return SumStep(step) + 1 == sums.steps; }
};

// The grid of the iteration space, and the steps in which every tile processes its part.
struct ConvolutionSplit {
  Grid grid;
  SerialSplit serial;
};

// Returns the work of a vertex on `extents` of the iteration space, which has `features` outputs of each of
// `groups` groups, if `tiles` tiles share the convolution.
ConvolutionWork WorkOf(const ConvolutionProblem& problem, const std::int64_t* extents, std::int64_t groups,
                       std::int64_t features, std::int64_t tiles);

// Parts that share outputs (input channels, kernel positions) produce partial sums, which a second superstep
// adds. Minimises estimated cycles among the splits that do with the problem's temporary memory; if none
// does, with twice the memory, and so on, like PopLibs' planner.
ConvolutionSplit ChooseConvolutionSplit(const ConvolutionProblem& problem, const TargetModel& target,
                                        unsigned num_tiles);
// For a program that does not fit: the cheapest split whose steps need at most `bytes` on a tile for partial
// sums and what is exchanged, if there is one.
std::optional<ConvolutionSplit> ConvolutionSplitWithin(const ConvolutionProblem& problem,
                                                       const TargetModel& target, unsigned num_tiles,
                                                       double bytes);
// Whether the vertices of a split use the AMP and can therefore have half partials.
bool UsesMatrixUnit(const ConvolutionProblem& problem, const ConvolutionSplit& split,
                    const TargetModel& target);

// Return mappings of variables whose dimensions are the tensor's in the order `layout` (major to minor).
// Every element is on a tile that uses it. If that would put a tensor on few tiles, it is spread evenly
// instead.
Mapping ConvolutionInputMapping(const ConvolutionProblem& problem, const Grid& split, const Shape& layout,
                                const TargetModel& target);
Mapping ConvolutionWeightsMapping(const ConvolutionProblem& problem, const Grid& split, const Shape& layout,
                                  const TargetModel& target);
Mapping ConvolutionOutputMapping(const ConvolutionProblem& problem, const Grid& split, const Shape& layout,
                                 const TargetModel& target, unsigned num_tiles);

// inputs: lhs, rhs; output 0: out.
TilePlan PlanConvolution(const ConvolutionProblem& problem, const ConvolutionSplit& split, const View& out,
                         const DeviceContext& context);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_PLAN_H_
