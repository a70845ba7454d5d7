#include "core/graph/expandable.h"

#include <algorithm>

#include "core/graph/graph_impl.h"

namespace ipu_model {
namespace {

class GraphContext : public DeviceContext {
 public:
  explicit GraphContext(const GraphImpl& graph) : graph_(graph) {}
  const TargetModel& target() const override { return graph_.target.model(); }
  unsigned num_tiles() const override { return graph_.target.getNumTiles(); }
  unsigned all_tiles() const override { return graph_.device.getNumTiles(); }
  const Mapping& mapping(VariableId variable) const override { return graph_.variables.at(variable).mapping; }

 private:
  const GraphImpl& graph_;
};

hlo::Region RegionOf(const Box& box) {
  hlo::Region region{{box.begin.begin(), box.begin.end()}, {}};
  for (std::size_t d = 0; d < box.end.size(); ++d)
    region.end.push_back(static_cast<std::size_t>(std::max(box.begin[d], box.end[d])));
  return region;
}

hlo::PlannedTensor TensorOf(const OperandRef& ref) {
  using Kind = hlo::PlannedTensor::Kind;
  const Kind kind = ref.kind == OperandRef::Kind::kInput    ? Kind::kInput
                    : ref.kind == OperandRef::Kind::kOutput ? Kind::kOutput
                                                            : Kind::kTemporary;
  return {kind, ref.index};
}

hlo::PlannedGroup GroupOf(const VertexGroup& group, const TargetModel& target) {
  hlo::PlannedGroup planned;
  planned.codelet = group.codelet;
  for (const VertexGroup::Access& access : group.reads) planned.reads.push_back(TensorOf(access.tensor));
  for (const VertexGroup::Access& access : group.writes) planned.writes.push_back(TensorOf(access.tensor));
  for (const Vertex& vertex : group.vertices) {
    hlo::PlannedVertex& v = planned.vertices.emplace_back();
    v.tile = vertex.tile;
    v.cycles = group.cycles(target, vertex.box);
    v.box = RegionOf(vertex.box);
    for (const VertexGroup::Access& access : group.reads)
      v.reads.push_back(RegionOf(access.region(vertex.box)));
    for (const VertexGroup::Access& access : group.writes)
      v.writes.push_back(RegionOf(access.region(vertex.box)));
  }
  return planned;
}

}  // namespace

hlo::Plan PlanOf(const Operation& operation, poplar::Graph& graph) {
  const GraphContext context(graph.impl());
  const TilePlan plan = operation.Plan(context);
  hlo::Plan result;
  for (const Temporary& temporary : plan.temporaries) {
    const Shape& shape = temporary.placement.shape;
    hlo::PlannedTemporary& planned = result.temporaries.emplace_back(
        hlo::PlannedTemporary{poplar::Type(temporary.type), {shape.begin(), shape.end()}, {}});
    planned.mapping.resize(context.num_tiles());
    Mapping(temporary.placement)
        .ForEachInterval(0, NumElements(shape), [&](std::int64_t begin, std::int64_t end, unsigned tile) {
          planned.mapping[tile].emplace_back(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
        });
  }
  for (const Superstep& superstep : plan.supersteps) {
    auto& groups = result.supersteps.emplace_back();
    for (const VertexGroup& group : superstep.groups) groups.push_back(GroupOf(group, context.target()));
  }
  for (const StepLoop& loop : plan.loops) result.loops.push_back({loop.begin, loop.end, loop.trips});
  return result;
}

bool IsInPlace(const Operation& operation, unsigned output) {
  if (output >= operation.inputs.size()) return false;
  const View &in = operation.inputs[output], &out = operation.outputs[output];
  return in.variable == out.variable && in.offset == out.offset && in.strides == out.strides &&
         in.shape == out.shape;
}

std::vector<poplar::Tensor> InputsBesideOutputs(const Operation& operation, poplar::Graph& graph,
                                                const std::vector<poplar::Tensor>& in,
                                                poplar::program::Sequence& prog) {
  std::vector<poplar::Tensor> result = in;
  for (unsigned i = 0; i < in.size(); ++i) {
    if (i < operation.outputs.size() && IsInPlace(operation, i)) continue;
    if (std::none_of(operation.outputs.begin(), operation.outputs.end(),
                     [&](const View& out) { return out.variable == operation.inputs[i].variable; }))
      continue;
    result[i] = graph.clone(in[i], operation.name);
    prog.add(poplar::program::Copy(in[i], result[i], false, operation.name));
  }
  return result;
}

}  // namespace ipu_model
