// The mapping of the results of elementwise operations, and the extraction of parts of their expressions.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_OUTPUT_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_OUTPUT_H_

#include <vector>

#include "kernels/elementwise/program/expression.h"
#include "poplar/Graph.hpp"

namespace ipu_model {

// Returns a new tensor of the operands' shape. It is a clone of the operand without aliases for whose mapping
// the fullest tile needs the fewest cycles to receive the other operands and to compute. Of equal ones it is
// that with the fewest elements on its fullest tile, then the most tiles, then the fewest regions (PopLibs
// lib/popops/ElementWiseUtil.cpp, which does not look at the exchange). If there is none, or spreading saves
// a quarter of the cycles, it is spread over all tiles.
poplar::Tensor ElementwiseOutput(poplar::Graph& graph, const Expression& expression, DType type,
                                 const std::vector<poplar::Tensor>& operands,
                                 const poplar::DebugContext& debug_context);

// Returns the part of an expression that computes `outputs`, with only the inputs that it needs.
Expression SelectOutputs(const Expression& expression, const std::vector<unsigned>& outputs,
                         std::vector<unsigned>* used_inputs);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_OUTPUT_H_
