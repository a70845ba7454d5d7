// Serial splits: every tile processes its part of a convolution in steps, each with smaller buffers. Source:
// PopLibs' planner, inChanSplit.serial and outChanSplit.serial (lib/poplin/ConvModel.cpp).
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SERIAL_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SERIAL_H_

#include <cstdint>
#include <utility>

#include "core/target_model.h"
#include "operations/convolution/convolution_plan.h"

namespace ipu_model {

// Dimensions of the iteration space; the kernel's follow those of the positions.
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
// summed over, of which a step adds its products to the tile's partial sums.
struct SerialSplit {
  SerialCut outputs, sums;

  std::int64_t steps() const { return outputs.steps * sums.steps; }
  bool split() const { return steps() > 1; }
  bool adds() const { return sums.split(); }
  bool cuts_outputs() const { return outputs.split(); }
  std::int64_t OutputStep(std::int64_t step) const { return step / sums.steps; }
  std::int64_t SumStep(std::int64_t step) const { return step % sums.steps; }
  bool IsLastSum(std::int64_t step) const { return SumStep(step) + 1 == sums.steps; }
};

// The largest part of a split: its extents, how many parts share an output, and how many tiles have a part.
struct ConvolutionPart {
  const std::int64_t* extents;
  std::int64_t contracted_parts, tiles;
};

// Makes what a vertex knows of the whole convolution that of one step: operands and result are rearranged a
// step at a time.
void ShareOfStep(const ConvolutionProblem& problem, const SerialSplit& serial, ConvolutionWork* work);
// The products of one step of a part.
ConvolutionWork StepWork(const ConvolutionProblem& problem, const ConvolutionPart& part,
                         const SerialSplit& serial);

// The memory that a tile needs for one step, in bytes.
struct StepBytes {
  double input, weights;
  double partials;  // of the step if it sums them up, otherwise of all steps; 0 if there are none
  double received;  // partial sums of other tiles
  double total() const { return partials + (input + weights > received ? input + weights : received); }
};
StepBytes BytesOfStep(const ConvolutionProblem& problem, const ConvolutionPart& part,
                      const SerialSplit& serial);

// Returns the steps that need at most `bytes` on a tile and move the least data; one step if that suffices,
// or the steps that need the least if none does.
SerialSplit ChooseSerialSplit(const ConvolutionProblem& problem, const ConvolutionPart& part, double bytes);
SerialSplit ChooseSerialSplit(const ConvolutionProblem& problem, const Grid& split, double bytes);
// Whether these steps need no more than `bytes`.
bool HasSerialSplit(const ConvolutionProblem& problem, const Grid& split, double bytes);

// Returns the cycles of a step beside its products, sums and exchange: slices of the operands, and of the
// result after the last sum.
std::uint64_t StepSliceCycles(const TargetModel& target, const ConvolutionProblem& problem,
                              std::int64_t tiles, const SerialSplit& serial, bool last_sum);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SERIAL_H_
