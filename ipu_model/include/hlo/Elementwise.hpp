// Scalar programs over whole tensors, with several results, and tensors with values that the device makes
// itself. What PopLibs expresses is in popops/ElementWise.hpp and popops/Fill.hpp.
#ifndef HLO_ELEMENTWISE_HPP
#define HLO_ELEMENTWISE_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "hlo/Expression.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// All tensors have one shape; broadcasts are views. `outputs` has one entry for each output of the
// expression: the tensor to write, which may be exactly one of the inputs, or an invalid tensor for a new
// one. New tensors are laid out like the best-spread input (PopLibs' ElementWiseUtil). Returns all outputs.
// Throws poplar_error when shapes or types do not match, or when the expression has an operation that its
// types do not have.
std::vector<poplar::Tensor> map(poplar::Graph& graph, const Expression& expression,
                                const std::vector<poplar::Tensor>& tensors,
                                const std::vector<poplar::Tensor>& outputs, poplar::program::Sequence& prog,
                                const poplar::DebugContext& debugContext = {});

// Every element of `tensor`, of any type and shape, becomes the one whose host representation is `bytes`,
// which has ipu_model::SizeOf(type) bytes.
void fill(poplar::Graph& graph, const poplar::Tensor& tensor, const std::string& bytes,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Every element becomes its index along `dimension`, in the tensor's type (integers wrap, complex: real
// part).
void iota(poplar::Graph& graph, const poplar::Tensor& tensor, std::size_t dimension,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_ELEMENTWISE_HPP
