// What a part of a convolution's iteration space reads and writes.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_REGIONS_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_REGIONS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/mapping/box.h"
#include "core/mapping/mapping.h"
#include "operations/convolution/convolution_plan.h"
#include "operations/convolution/convolution_serial.h"

namespace ipu_model {

// Returns the dimension of the iteration space that counts the positions of the kernel along `d`.
std::size_t KernelDim(const ConvolutionProblem& problem, std::size_t d);
// Returns the contracted dimensions of the iteration space.
std::vector<std::size_t> ContractedDims(const ConvolutionProblem& problem);

// Return the convolution groups of the features of a box: [first, end).
std::int64_t FirstGroup(const ConvolutionProblem& problem, const Box& box);
std::int64_t EndGroup(const ConvolutionProblem& problem, const Box& box);

// Returns the input positions along spatial dimension d that the box reads: its outputs plus a halo.
std::pair<std::int64_t, std::int64_t> InputRange(const ConvolutionProblem& problem, const Box& box,
                                                 std::size_t d);
// Return the regions of the operands and of the result.
Box LhsRegion(const ConvolutionProblem& problem, const Box& box);
Box RhsRegion(const ConvolutionProblem& problem, const Box& box);
Box OutRegion(const ConvolutionProblem& problem, const Box& box);

// Returns the placement of partial sums [parts of the contracted dimensions..., output dimensions...], each
// on the tile that computes it.
Grid PartialsPlacement(const ConvolutionProblem& problem, const Grid& split);
Box PartialsRegion(const ConvolutionProblem& problem, const Grid& split, const Box& box);

// Returns the part of a box that step `step` processes.
Box BoxOfStep(Box box, const SerialSplit& serial, std::int64_t step);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_REGIONS_H_
