// Applies scalar programs with several results to whole tensors, and fills tensors with values made on the
// device. PopLibs' forms are in popops/ElementWise.hpp and popops/Fill.hpp.
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
// one. New tensors are clones of the input that is spread best (PopLibs' ElementWiseUtil). Returns
// all outputs. Throws poplar_error when shapes or types do not match, or when an operation of the expression
// is not defined for its types.
std::vector<poplar::Tensor> map(poplar::Graph& graph, const Expression& expression,
                                const std::vector<poplar::Tensor>& tensors,
                                const std::vector<poplar::Tensor>& outputs, poplar::program::Sequence& prog,
                                const poplar::DebugContext& debugContext = {});

// Sets every element of `tensor`, of any type and shape, to the value whose host representation is `bytes`
// (ipu_model::SizeOf(type) bytes).
void fill(poplar::Graph& graph, const poplar::Tensor& tensor, const std::string& bytes,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Sets every element to its index along `dimension`, in the tensor's type (integers wrap; complex: the real
// part).
void iota(poplar::Graph& graph, const poplar::Tensor& tensor, std::size_t dimension,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_ELEMENTWISE_HPP
