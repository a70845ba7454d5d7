// The supersteps of a Plan as compute sets.
#ifndef HLO_PLANNED_H_
#define HLO_PLANNED_H_

#include <functional>
#include <string>
#include <vector>

#include "hlo/Expression.hpp"
#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// The codelet of a group. `reads` and `writes` name the field of each read and write; reads of one field are
// one edge, and a read without a name is none, because the vertex writes over those elements (InOut).
struct PlannedCodelet {
  std::string vertexClass, source;
  std::vector<std::string> reads, writes;
  // Sets the fields of a vertex that are no edges.
  std::function<void(poplar::Graph& graph, const poplar::VertexRef& ref, const PlannedVertex& vertex)> set;
};

// Adds a compute set for each superstep. `in` and `out` have the types of the fields, and so has what
// `stored` returns for the type of a temporary.
void expandPlan(poplar::Graph& graph, const Plan& plan, const std::vector<poplar::Tensor>& in,
                const std::vector<poplar::Tensor>& out, const std::function<poplar::Type(DType type)>& stored,
                const std::function<PlannedCodelet(const PlannedGroup& group)>& codeletOf,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

inline bool isTemporary(const PlannedTensor& tensor) {
  return tensor.kind == PlannedTensor::Kind::kTemporary;
}

}  // namespace hlo

#endif  // HLO_PLANNED_H_
