// Collectives as copies between replicas and vertices.
#ifndef HLO_COLLECTIVES_COLLECTIVES_H_
#define HLO_COLLECTIVES_COLLECTIVES_H_

#include "hlo/Expansion.hpp"

namespace hlo {

void expandCollective(poplar::Graph& graph, const Collective& collective, const poplar::Tensor& pieces,
                      const poplar::Tensor& out, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_COLLECTIVES_COLLECTIVES_H_
