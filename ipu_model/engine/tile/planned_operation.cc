#include "engine/tile/planned_operation.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::size_t kAlignment = 64;

std::string BoxString(const Box& box) {
  std::string s = "[";
  for (std::size_t d = 0; d < box.begin.size(); ++d) {
    s += (d ? ", " : "") + std::to_string(box.begin[d]) + ":" + std::to_string(box.end[d]);
  }
  return s + "]";
}

std::string Describe(const Operation& operation) {
  return "operation '" + operation.name + "' (" + std::string(operation.kind()) + ")";
}

}  // namespace

std::string OperationPlanner::DescribeOperand(const Operation& operation, OperandRef ref) const {
  if (ref.kind == OperandRef::Kind::kTemporary) return "temporary " + std::to_string(ref.index);
  const View& view = (ref.kind == OperandRef::Kind::kInput ? operation.inputs : operation.outputs)[ref.index];
  return "variable '" + context_.variables()[view.variable].name + "'";
}

const Placement& OperationPlanner::PlacementOf(const Operation& operation, const PlannedOperation& planned,
                                               OperandRef ref) const {
  switch (ref.kind) {
    case OperandRef::Kind::kInput:
      return placements_.at(operation.inputs.at(ref.index).variable);
    case OperandRef::Kind::kOutput:
      return placements_.at(operation.outputs.at(ref.index).variable);
    default:
      return planned.temporaries.at(ref.index);
  }
}

LocalOperand OperationPlanner::PlanOperand(const Operation& operation, const PlannedOperation& planned,
                                           const VertexGroup::Access& access, const Vertex& vertex,
                                           std::size_t* local_bytes) const {
  const View view = ViewOf(operation, planned.plan, access.tensor);
  const Box region = access.region(vertex.box);
  bool inside = region.begin.size() == view.shape.size() && region.end.size() == view.shape.size();
  for (std::size_t d = 0; inside && d < view.shape.size(); ++d) {
    inside = region.begin[d] >= 0 && region.begin[d] <= region.end[d] && region.end[d] <= view.shape[d];
  }
  if (!inside) {
    throw poplar::poplar_error(Describe(operation) + ": the vertex on tile " + std::to_string(vertex.tile) +
                               " for " + BoxString(vertex.box) + " reaches " + BoxString(region) + " of " +
                               DescribeOperand(operation, access.tensor) + ", outside its view " +
                               BoxString(Box::Whole(view.shape)));
  }
  LocalOperand operand;
  operand.shape = region.extents();
  operand.offset = *local_bytes;
  const std::size_t bytes = static_cast<std::size_t>(region.num_elements()) * SizeOf(view.type);
  *local_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  try {
    operand.moves = TileMovesOf(view, region, PlacementOf(operation, planned, access.tensor));
  } catch (const UnplacedElement& e) {
    throw poplar::invalid_tile_mapping(Describe(operation) + ": element " + std::to_string(e.element) +
                                       " of " + DescribeOperand(operation, access.tensor) +
                                       ", which the vertex on tile " + std::to_string(vertex.tile) +
                                       " needs, is on no tile");
  }
  return operand;
}

void OperationPlanner::CheckWrites(const Operation& operation, const PlannedOperation& planned,
                                   const PlannedStep& step) const {
  struct Written {
    std::uint32_t tile, begin, end;
    const PlannedVertex* vertex;
    std::size_t write;
  };
  std::vector<Written> written;
  for (const PlannedVertex& v : step.vertices) {
    for (std::size_t w = 0; w < v.writes.size(); ++w) {
      const std::size_t size = PlacementOf(operation, planned, v.group->writes[w].tensor).element_bytes;
      for (const TileMove& t : v.writes[w].moves) {
        if (t.stride == 1) {
          const auto bytes = static_cast<std::uint32_t>(t.count * size);
          written.push_back({t.tile, t.address, t.address + bytes, &v, w});
          continue;
        }
        for (std::uint32_t i = 0; i < t.count; ++i) {
          const auto at = static_cast<std::uint32_t>(t.address + static_cast<std::int64_t>(i) * t.stride *
                                                                     static_cast<std::int64_t>(size));
          written.push_back({t.tile, at, at + static_cast<std::uint32_t>(size), &v, w});
        }
      }
    }
  }
  std::sort(written.begin(), written.end(), [](const Written& a, const Written& b) {
    return a.tile != b.tile ? a.tile < b.tile : a.begin < b.begin;
  });
  for (std::size_t i = 1; i < written.size(); ++i) {
    const Written &a = written[i - 1], &b = written[i];
    if (a.tile != b.tile || b.begin >= a.end) continue;
    const OperandRef ref = b.vertex->group->writes[b.write].tensor;
    std::int64_t element = -1;
    for (const Placement::PlacedInterval& interval : PlacementOf(operation, planned, ref).intervals) {
      const std::size_t size = PlacementOf(operation, planned, ref).element_bytes;
      if (interval.tile == b.tile && interval.address <= b.begin &&
          b.begin < interval.address + static_cast<std::size_t>(interval.end - interval.begin) * size) {
        element = interval.begin + static_cast<std::int64_t>((b.begin - interval.address) / size);
      }
    }
    throw poplar::poplar_error(
        Describe(operation) + ": the vertices on tile " + std::to_string(a.vertex->vertex->tile) + " for " +
        BoxString(a.vertex->vertex->box) + " and on tile " + std::to_string(b.vertex->vertex->tile) +
        " for " + BoxString(b.vertex->vertex->box) + " both write element " + std::to_string(element) +
        " of " + DescribeOperand(operation, ref) + " on tile " + std::to_string(b.tile));
  }
}

std::unique_ptr<PlannedOperation> OperationPlanner::Plan(const Operation& operation) {
  auto planned = std::make_unique<PlannedOperation>();
  planned->plan = operation.Plan(context_);
  for (const Temporary& temporary : planned->plan.temporaries) {
    planned->temporaries.push_back(storage_.Allocate(
        Mapping(temporary.placement), NumElements(temporary.placement.shape), SizeOf(temporary.type)));
  }
  for (const Superstep& superstep : planned->plan.supersteps) {
    PlannedStep step;
    for (const VertexGroup& group : superstep.groups) {
      for (const Vertex& vertex : group.vertices) {
        if (vertex.tile >= context_.all_tiles()) {
          throw poplar::poplar_error(Describe(operation) + ": a vertex is on tile " +
                                     std::to_string(vertex.tile) + " of a target with " +
                                     std::to_string(context_.all_tiles()) + " tiles");
        }
        PlannedVertex v{&group, &vertex, {}, {}};
        for (const auto& access : group.reads) {
          v.reads.push_back(PlanOperand(operation, *planned, access, vertex, &step.local_bytes));
        }
        for (const auto& access : group.writes) {
          v.writes.push_back(PlanOperand(operation, *planned, access, vertex, &step.local_bytes));
        }
        step.vertices.push_back(std::move(v));
      }
    }
    CheckWrites(operation, *planned, step);
    planned->steps.push_back(std::move(step));
  }
  return planned;
}

}  // namespace ipu_model
