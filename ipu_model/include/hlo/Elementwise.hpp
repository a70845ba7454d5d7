// Scalar programs over whole tensors, with several results: what popops::map becomes.
#ifndef HLO_ELEMENTWISE_HPP
#define HLO_ELEMENTWISE_HPP

#include <vector>

#include "kernels/elementwise/expression.h"
#include "poplar/Graph.hpp"

namespace hlo {

// All tensors have one shape; broadcasts are views. `outputs` has one entry for each output of the
// expression: the tensor to write, which may be exactly one of the inputs, or an invalid tensor for a new
// one. New tensors are laid out like the best-spread input (PopLibs' ElementWiseUtil). Returns all outputs.
// Throws poplar_error when shapes or types do not match, or when the expression has an operation that its
// types do not have.
std::vector<poplar::Tensor> map(poplar::Graph& graph, const ipu_model::Expression& expression,
                                const std::vector<poplar::Tensor>& tensors,
                                const std::vector<poplar::Tensor>& outputs, poplar::program::Sequence& prog,
                                const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_ELEMENTWISE_HPP
