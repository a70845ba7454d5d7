// Convolutions whose kernel is one position, on unpadded input: batch and field are one dimension, which is
// divided among tiles as a whole. Source: PopLibs, calculateFlattenedParams (lib/poplin/ConvModel.cpp).
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_POINTWISE_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_POINTWISE_H_

#include "core/mapping/box.h"
#include "operations/convolution/convolution_plan.h"

namespace ipu_model {

// Whether batch and field of a convolution can be one dimension, and are not already.
bool IsPointwise(const ConvolutionProblem& problem);
// Returns the same convolution of [1, C, positions] with a kernel [O, C, 1].
ConvolutionProblem Flattened(const ConvolutionProblem& problem);

// Returns the memory order of the flattened input or result, given that of its dimensions; empty if batch and
// field do not lie in one piece.
Shape FlattenedLayout(const Shape& layout);
// The same for the kernel.
Shape FlattenedWeightsLayout(const Shape& layout);

// Make a view of an input or result [N, C, *spatial] one of [1, C, positions], where its elements lie so, and
// return whether they do.
bool FlattenPositions(View* view);
// Makes a view of a kernel [O, C, 1...] one of [O, C, 1].
void FlattenWeights(View* view);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_POINTWISE_H_
