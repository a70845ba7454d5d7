#include "engine/cost/edge_copies.h"

#include <set>
#include <utility>

#include "core/deadline.h"

namespace ipu_model {

void LocalCopies::Reset(unsigned num_tiles) {
  if (!any_ && cycles.size() == num_tiles) return;
  cycles.assign(num_tiles, 0);
  rows.assign(num_tiles, 0);
  bytes.assign(num_tiles, 0);
  any_ = false;
}

void LocalCopies::Add(const TargetModel& target, unsigned tile, std::int64_t size, const LocalCopy& copy,
                      bool buffered) {
  if (copy.elements == 0) return;
  any_ = true;
  cycles[tile] += LocalCopyCycles(target, size, copy);
  rows[tile] += copy.rows;
  if (buffered) bytes[tile] += (copy.elements * size + 7) / 8 * 8;
}

const TileOrder& EdgeCopies::OrderOf(VariableId variable) {
  const auto known = orders_.find(variable);
  if (known != orders_.end()) return known->second;
  const Variable& v = variables_.at(variable);
  return orders_.try_emplace(variable, v.mapping, v.num_elements).first->second;
}

LocalCopy EdgeCopies::Of(unsigned tile, const std::vector<VertexInterval>& edge,
                         const std::vector<View>& operands) {
  if (edge.size() == 1) {
    // Mostly one row of one tile.
    const View& view = operands[edge[0].operand];
    const std::int64_t begin = view.offset + edge[0].begin;
    const MappedInterval first = variables_.at(view.variable).mapping.IntervalAt(begin);
    if (first.end >= begin + edge[0].count) return {};
  }
  LocalCopy copy;
  const View* last = nullptr;
  // Where the last row ends: on the tile, and in the edge.
  std::int64_t end_place = 0, end_at = 0, at = 0;
  for (const VertexInterval& interval : edge) {
    const View& view = operands[interval.operand];
    const std::int64_t begin = view.offset + interval.begin;
    OrderOf(view.variable)
        .ForEach(tile, begin, begin + interval.count,
                 [&](std::int64_t from, std::int64_t to, std::int64_t place) {
                   const bool joins = last != nullptr && last->variable == view.variable &&
                                      place == end_place && at + from - begin == end_at;
                   if (!joins) ++copy.rows;
                   copy.elements += to - from;
                   last = &view;
                   end_place = place + to - from;
                   end_at = at + to - begin;
                 });
    at += interval.count;
  }
  // An edge that is one row of the tile lies there, and one of which it has nothing arrives as a whole.
  if (copy.rows == 1 && copy.elements == at) return {};
  return copy;
}

void EdgeCopies::Count(const VertexProgram& program, const std::vector<View>& inputs,
                       const std::vector<View>& outputs, const TargetModel& target, LocalCopies* before,
                       LocalCopies* after) {
  std::set<std::vector<std::int64_t>> known;  // edges of several intervals that were copied
  for (std::size_t i = 0; i < program.vertices.size(); ++i) {
    CheckDeadlineAt(i);
    const ProgramVertex& v = program.vertices[i];
    for (const VertexEdge& edge : v.edges) {
      if (edge.elements() == 0) continue;
      const auto size = static_cast<std::int64_t>(program.FieldOf(v, edge).element_bytes);
      if (!edge.reads.empty()) {
        const LocalCopy copy = Of(v.tile, edge.reads, inputs);
        std::vector<std::int64_t> key = {static_cast<std::int64_t>(v.tile)};
        for (const VertexInterval& interval : edge.reads)
          if (copy.elements > 0) key.insert(key.end(), {interval.operand, interval.begin, interval.count});
        if (copy.elements > 0 && known.insert(std::move(key)).second) before->Add(target, v.tile, size, copy);
      }
      if (!edge.writes.empty()) after->Add(target, v.tile, size, Of(v.tile, edge.writes, outputs));
    }
  }
}

}  // namespace ipu_model
