#include "planned.h"

#include <map>

#include "parts.h"

namespace hlo {

using poplar::Graph;
using poplar::Tensor;

void expandPlan(Graph& graph, const Plan& plan, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                const std::function<poplar::Type(DType type)>& stored,
                const std::function<PlannedCodelet(const PlannedGroup& group)>& codeletOf,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  std::vector<Tensor> temporaries;
  for (const PlannedTemporary& t : plan.temporaries) {
    temporaries.push_back(graph.addVariable(stored(t.type.id()), t.shape, {debugContext, "temporary"}));
    graph.setTileMapping(temporaries.back(), t.mapping);
  }
  const auto tensorOf = [&](const PlannedTensor& t) {
    return (isTemporary(t) ? temporaries : t.kind == PlannedTensor::Kind::kInput ? in : out).at(t.index);
  };
  for (const std::vector<PlannedGroup>& superstep : plan.supersteps) {
    const poplar::ComputeSet computeSet = graph.addComputeSet(debugContext);
    for (const PlannedGroup& group : superstep) {
      const PlannedCodelet codelet = codeletOf(group);
      addCodelets(graph, codelet.vertexClass, codelet.source);
      for (const PlannedVertex& v : group.vertices) {
        const poplar::VertexRef vertex =
            addVertex(graph, computeSet, codelet.vertexClass, {v.tile, v.box.begin, v.box.end}, v.cycles);
        std::map<std::string, std::vector<Tensor>> edges;
        const auto add = [&](const std::string& field, const PlannedTensor& tensor, const Region& region) {
          if (field.empty()) return;
          edges[field].push_back(Part{v.tile, region.begin, region.end}.of(tensorOf(tensor)));
        };
        for (std::size_t i = 0; i < v.reads.size(); ++i) add(codelet.reads.at(i), group.reads[i], v.reads[i]);
        for (std::size_t i = 0; i < v.writes.size(); ++i)
          add(codelet.writes.at(i), group.writes[i], v.writes[i]);
        for (const auto& [field, tensors] : edges)
          graph.connect(vertex[field], tensors.size() == 1 ? tensors[0] : concat(tensors));
        codelet.set(graph, vertex, v);
      }
    }
    prog.add(poplar::program::Execute(computeSet, debugContext));
  }
}

}  // namespace hlo
