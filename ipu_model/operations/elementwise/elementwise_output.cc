#include "operations/elementwise/elementwise_output.h"

#include <algorithm>
#include <tuple>

#include "core/graph_impl.h"
#include "core/strides.h"
#include "core/target_model.h"
#include "operations/data_views.h"

namespace ipu_model {
namespace {

// Elements on the fullest tile, minus the number of tiles, number of regions. Smaller is better.
using Spread = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Spread SpreadOf(const Mapping& mapping, const View& view, std::int64_t variable_elements,
                unsigned num_tiles) {
  if (const Partition* p = mapping.partition();
      p != nullptr && view.num_elements() == variable_elements && p->num_parts() <= num_tiles) {
    std::int64_t largest = 1;
    for (std::size_t d = 0; d < p->shape.size(); ++d) largest *= p->LargestPart(static_cast<int>(d));
    return {largest, -p->num_parts(), p->num_parts()};
  }
  const std::vector<Vertex> vertices = mapping.VerticesOver(view, num_tiles);
  std::vector<std::int64_t> held(num_tiles, 0);
  for (const Vertex& vertex : vertices) held[vertex.tile] += vertex.box.num_elements();
  const auto used = static_cast<std::int64_t>(
      std::count_if(held.begin(), held.end(), [](std::int64_t elements) { return elements > 0; }));
  return {*std::max_element(held.begin(), held.end()), -used, static_cast<std::int64_t>(vertices.size())};
}

}  // namespace

poplar::Tensor ElementwiseOutput(poplar::Graph& graph, DType type,
                                 const std::vector<poplar::Tensor>& operands,
                                 const poplar::DebugContext& debug_context) {
  const poplar::Target& target = graph.getTarget();
  const poplar::Tensor* best = nullptr;
  Spread best_spread;
  for (const poplar::Tensor& operand : operands) {
    View view;
    if (!operand.asView(&view) || !HasDistinctElements(view)) continue;
    const Variable& variable = graph.impl().variables[view.variable];
    if (variable.constant || !variable.mapping.Complete(variable.num_elements)) continue;
    const Spread spread = SpreadOf(variable.mapping, view, variable.num_elements, target.getNumTiles());
    if (best == nullptr || spread < best_spread) {
      best = &operand;
      best_spread = spread;
    }
  }
  if (best != nullptr) return CloneForOperation(graph, poplar::Type(type), *best, debug_context);
  const Shape shape = ShapeOf(operands.at(0));
  const std::int64_t elements = NumElements(shape);
  Mapping mapping;
  if (elements > 0)
    mapping = Mapping(Partition::Linear(elements, 1, target.model().VectorWidth(type), target.getNumTiles()));
  return NewTensor(graph, type, shape, std::move(mapping), debug_context.getPathName());
}

}  // namespace ipu_model
