// Fill and iota: results without inputs.
#ifndef HLO_ELEMENTWISE_FILL_IOTA_H_
#define HLO_ELEMENTWISE_FILL_IOTA_H_

#include <cstddef>
#include <string>

#include "poplar/Graph.hpp"

namespace hlo {

// As in Expansions.
void expandFill(poplar::Graph& graph, const poplar::Tensor& tensor, const std::string& bytes,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);
void expandIota(poplar::Graph& graph, const poplar::Tensor& tensor, std::size_t dimension,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_ELEMENTWISE_FILL_IOTA_H_
