// Tensors with values that the device makes itself.
#ifndef HLO_FILL_HPP
#define HLO_FILL_HPP

#include <cstddef>
#include <string>

#include "poplar/Graph.hpp"

namespace hlo {

// Every element of `tensor` becomes the one whose host representation is `bytes`.
void fill(poplar::Graph& graph, const poplar::Tensor& tensor, const std::string& bytes,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Every element becomes its index along `dimension`, in the tensor's type (integers wrap, complex: real
// part).
void iota(poplar::Graph& graph, const poplar::Tensor& tensor, std::size_t dimension,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_FILL_HPP
