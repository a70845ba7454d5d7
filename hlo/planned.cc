#include "planned.h"

#include <map>

#include "parts.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;

bool operator==(const PlannedTensor& a, const PlannedTensor& b) {
  return a.kind == b.kind && a.index == b.index;
}
bool overlap(const Region& a, const Region& b) {
  for (std::size_t d = 0; d < a.begin.size(); ++d)
    if (a.begin[d] >= b.end[d] || b.begin[d] >= a.end[d]) return false;
  return true;
}

// Whether read `i` of the group is of elements that are written over in the same superstep, which a compute
// set must not do. The plan means the elements from before.
bool readsFromBefore(const std::vector<PlannedGroup>& superstep, const PlannedGroup& group, std::size_t i) {
  for (const PlannedGroup& other : superstep) {
    for (std::size_t w = 0; w < other.writes.size(); ++w) {
      if (!(other.writes[w] == group.reads[i])) continue;
      for (const PlannedVertex& reader : group.vertices)
        for (const PlannedVertex& writer : other.vertices)
          if (overlap(reader.reads[i], writer.writes[w])) return true;
    }
  }
  return false;
}

// Copies what each vertex reads to its tile. Returns one tensor for each vertex.
std::vector<Tensor> received(Graph& graph, const PlannedGroup& group, std::size_t i, const Tensor& tensor,
                             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  std::vector<Tensor> parts, copies;
  std::size_t elements = 0;
  for (const PlannedVertex& v : group.vertices) {
    parts.push_back(Part{v.tile, v.reads[i].begin, v.reads[i].end}.of(tensor));
    elements += parts.back().numElements();
  }
  const Tensor copy = graph.addVariable(tensor.elementType(), {elements}, {debugContext, "received"});
  std::size_t begin = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::size_t end = begin + parts[k].numElements();
    copies.push_back(copy.slice(begin, end));
    graph.setTileMapping(copies.back(), group.vertices[k].tile);
    begin = end;
  }
  prog.add(poplar::program::Copy(concat(parts), copy, false, debugContext));
  return copies;
}

}  // namespace

void expandPlan(Graph& graph, const Plan& plan, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                const std::function<poplar::Type(DType type)>& stored,
                const std::function<PlannedCodelet(const PlannedGroup& group)>& codeletOf,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  std::vector<Tensor> temporaries;
  for (const PlannedTemporary& t : plan.temporaries) {
    temporaries.push_back(graph.addVariable(stored(DTypeOf(t.type)), t.shape, {debugContext, "temporary"}));
    graph.setTileMapping(temporaries.back(), t.mapping);
  }
  const auto tensorOf = [&](const PlannedTensor& t) {
    return (isTemporary(t) ? temporaries : t.kind == PlannedTensor::Kind::kInput ? in : out).at(t.index);
  };
  auto loop = plan.loops.begin();
  poplar::program::Sequence body;  // of that loop
  for (std::size_t s = 0; s < plan.supersteps.size(); ++s) {
    const std::vector<PlannedGroup>& superstep = plan.supersteps[s];
    const bool inLoop = loop != plan.loops.end() && s >= loop->begin;
    poplar::program::Sequence& program = inLoop ? body : prog;
    const poplar::ComputeSet computeSet = graph.addComputeSet(debugContext);
    for (const PlannedGroup& group : superstep) {
      const PlannedCodelet codelet = codeletOf(group);
      addCodelets(graph, codelet.vertexClass, codelet.source);
      std::map<std::size_t, std::vector<Tensor>> copies;  // by position in group.reads
      for (std::size_t i = 0; i < group.reads.size(); ++i) {
        if (!codelet.reads.at(i).empty() && readsFromBefore(superstep, group, i))
          copies[i] = received(graph, group, i, tensorOf(group.reads[i]), program, debugContext);
      }
      for (std::size_t n = 0; n < group.vertices.size(); ++n) {
        const PlannedVertex& v = group.vertices[n];
        const poplar::VertexRef vertex =
            addVertex(graph, computeSet, codelet.vertexClass, {v.tile, v.box.begin, v.box.end}, v.cycles);
        std::map<std::string, std::vector<Tensor>> edges;
        const auto add = [&](const std::string& field, const PlannedTensor& tensor, const Region& region) {
          if (field.empty()) return;
          edges[field].push_back(Part{v.tile, region.begin, region.end}.of(tensorOf(tensor)));
        };
        for (std::size_t i = 0; i < v.reads.size(); ++i) {
          if (copies.count(i) > 0)
            edges[codelet.reads[i]].push_back(copies[i][n]);
          else
            add(codelet.reads.at(i), group.reads[i], v.reads[i]);
        }
        for (std::size_t i = 0; i < v.writes.size(); ++i)
          add(codelet.writes.at(i), group.writes[i], v.writes[i]);
        for (const auto& [field, tensors] : edges)
          graph.connect(vertex[field], tensors.size() == 1 ? tensors[0] : concat(tensors));
        codelet.set(graph, vertex, v);
      }
    }
    program.add(poplar::program::Execute(computeSet, debugContext));
    if (!inLoop || s + 1 < loop->end) continue;
    prog.add(poplar::program::Repeat(static_cast<unsigned>(loop->trips), body, debugContext));
    body = poplar::program::Sequence();
    ++loop;
  }
}

}  // namespace hlo
