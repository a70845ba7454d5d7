// Serial splits: every tile processes its part of a convolution in steps, each with smaller buffers. Source:
// PopLibs' planner, inChanSplit.serial and outChanSplit.serial (lib/poplin/ConvModel.cpp).
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SERIAL_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SERIAL_H_

#include <cstdint>
#include <vector>

#include "core/target/target_model.h"
#include "operations/convolution/convolution_plan.h"

namespace ipu_model {

// The largest part of a split: its extents, how many parts share an output, how many tiles have a part, and
// how many parts output and input channels have.
struct ConvolutionPart {
  const std::int64_t* extents;
  std::int64_t contracted_parts, tiles, feature_parts = 1, channel_parts = 1;
};

// Makes what a vertex knows of the whole convolution's kernel that of one step over kernel positions, which
// PopLibs does not have. Its planner charges every other step for rearranging all operands and results.
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

// Returns the temporary memory of one step as PopLibs' planner counts it, in bytes, if its vertex is the one
// that `choice` says.
double TemporaryBytesOf(const ConvolutionProblem& problem, const ConvolutionPart& part,
                        const SerialSplit& serial, const ConvolutionChoice& choice);
// Returns, for each kind of steps, the fewest that do with the temporary memory `bytes`: over output
// channels, the same with the input kept, and over input channels. matrix_unit: with whole groups of its
// channels and the cheapest codelet, otherwise with any codelet.
std::vector<SerialSplit> PlannedSerialSplits(const TargetModel& target, const ConvolutionProblem& problem,
                                             const ConvolutionPart& part, double bytes, bool matrix_unit);

// For a program that does not fit: returns the steps that need at most `bytes` on a tile and move the least
// data; the planned ones if they suffice, or the steps that need the least if none does.
SerialSplit LimitSerialSplit(const ConvolutionProblem& problem, const ConvolutionSplit& split, double bytes);
// The same for a part by itself, of which no steps are planned.
SerialSplit LimitSerialSplit(const ConvolutionProblem& problem, const ConvolutionPart& part, double bytes);
// Whether these steps need no more than `bytes`.
bool HasSerialSplit(const ConvolutionProblem& problem, const ConvolutionSplit& split, double bytes);
// Whether every part of a split is processed, whatever file the steps are from.
bool CoversParts(const ConvolutionProblem& problem, const ConvolutionSplit& split);

// Returns the cycles of a step beside its products, sums and exchange: slices of the operands, and of the
// result after the last sum.
std::uint64_t StepSliceCycles(const TargetModel& target, const ConvolutionProblem& problem,
                              std::int64_t tiles, const SerialSplit& serial, bool last_sum);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_SERIAL_H_
