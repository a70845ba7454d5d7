// Where the results of elementwise operations live, and how their expressions are cut.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_OUTPUT_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_OUTPUT_H_

#include <vector>

#include "kernels/elementwise/expression.h"
#include "poplar/Graph.hpp"

namespace ipu_model {

// A new tensor of the operands' shape: a clone of the operand without aliases that has the fewest elements on
// its fullest tile, then the most tiles, then the fewest regions (PopLibs ElementWiseUtil.cpp); spread
// linearly when there is none.
poplar::Tensor ElementwiseOutput(poplar::Graph& graph, DType type,
                                 const std::vector<poplar::Tensor>& operands,
                                 const poplar::DebugContext& debug_context);

// The part of an expression that computes `outputs`, on the inputs that it needs.
Expression SelectOutputs(const Expression& expression, const std::vector<unsigned>& outputs,
                         std::vector<unsigned>* used_inputs);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_OUTPUT_H_
