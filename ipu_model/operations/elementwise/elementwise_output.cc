#include "operations/elementwise/elementwise_output.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "operations/data_views.h"
#include "operations/elementwise/elementwise_cost.h"

namespace ipu_model {
namespace {

// Elements on the fullest tile, minus the number of tiles, number of regions. Smaller is better.
using Spread = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Spread SpreadOf(const Mapping& mapping, const View& view, std::int64_t variable_elements,
                unsigned num_tiles) {
  if (const Grid* p = mapping.grid();
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

// An operand whose mapping the result can have.
struct Candidate {
  const poplar::Tensor* tensor;
  View view;
  const Variable* variable;

  std::int64_t element_bytes() const { return static_cast<std::int64_t>(SizeOf(view.type)); }
};

// Whether equal elements are on equal tiles by the descriptions alone.
bool SamePlacement(const Candidate& a, const Candidate& b) {
  if (a.view.offset != b.view.offset || a.view.strides != b.view.strides) return false;
  if (a.variable == b.variable) return true;
  const Grid *p = a.variable->mapping.grid(), *q = b.variable->mapping.grid();
  return p != nullptr && q != nullptr && *p == *q;
}

// Returns how many bytes per element of the other operands vertices lack that lie like `candidate`, on
// average. A sample of the vertices is enough to compare candidates.
double LackingBytes(const Candidate& candidate, const std::vector<Candidate>& all, unsigned num_tiles) {
  constexpr std::size_t kSample = 64;
  double lacking = 0;
  std::vector<Vertex> vertices;
  for (const Candidate& other : all) {
    if (&other == &candidate || SamePlacement(other, candidate)) continue;
    if (vertices.empty()) vertices = candidate.variable->mapping.VerticesOver(candidate.view, num_tiles);
    std::int64_t elements = 0, held = 0;
    for (std::size_t i = 0; i < vertices.size(); i += std::max<std::size_t>(1, vertices.size() / kSample)) {
      elements += vertices[i].box.num_elements();
      held += other.variable->mapping.Held(vertices[i].tile, other.view, vertices[i].box);
    }
    if (elements > 0)
      lacking +=
          static_cast<double>(other.element_bytes() * (elements - held)) / static_cast<double>(elements);
  }
  return lacking;
}

// Whether all elements lie alike.
bool IsOneElement(const poplar::Tensor& tensor) {
  View view;
  if (!tensor.asView(&view)) return false;
  for (std::size_t d = 0; d < view.shape.size(); ++d)
    if (view.shape[d] > 1 && view.strides[d] != 0) return false;
  return true;
}

// What PopLibs' linear mapping has on a tile at least (lib/poputil/TileMapping.cpp), and of few elements less
// than twice of it.
constexpr std::int64_t kLinearBytes = 128;

// Whether `even`, to which all operands are sent, saves a quarter of the cycles of the best mapping of an
// operand, and what the way back takes: ops that follow may want the elements there. A linear mapping has at
// least 32 floats on a tile, which takes long where an element does. More than such a mapping has lie where
// other ops want them.
bool SpreadingPays(const Grid& even, DType type, const ElementwiseCost& cost,
                   const std::pair<double, Spread>& best, const std::vector<poplar::Tensor>& operands,
                   const TargetModel& target) {
  const std::int64_t fullest = even.LargestPart(0), sent = std::get<0>(best.second);
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  if (fullest >= sent || sent * size >= 2 * kLinearBytes) return false;
  std::int64_t bytes = 0;  // of an element of all operands
  for (const poplar::Tensor& operand : operands)
    if (!IsOneElement(operand)) bytes += static_cast<std::int64_t>(SizeOf(operand.elementType().id()));
  const auto exchange = [&](std::int64_t of_element) {
    return static_cast<double>((fullest + sent) * of_element) / target.exchange_bytes_per_cycle +
           target.sync_cycles;
  };
  const double saved = best.first - static_cast<double>(cost.Cycles(target, fullest)) - exchange(bytes);
  return saved >= exchange(size) && 4 * saved >= best.first;
}

}  // namespace

poplar::Tensor ElementwiseOutput(poplar::Graph& graph, const Expression& expression, DType type,
                                 const std::vector<poplar::Tensor>& operands,
                                 const poplar::DebugContext& debug_context) {
  const poplar::Target& target = graph.getTarget();
  const unsigned num_tiles = target.getNumTiles();
  std::vector<Candidate> candidates;
  for (const poplar::Tensor& operand : operands) {
    View view;
    if (!operand.asView(&view) || !HasDistinctElements(view)) continue;
    const Variable& variable = graph.impl().variables[view.variable];
    if (variable.constant || !variable.mapping.Complete(variable.num_elements)) continue;
    candidates.push_back({&operand, std::move(view), &variable});
  }
  const Candidate* best = nullptr;
  std::pair<double, Spread> least;
  const ElementwiseCost cost(expression);
  for (const Candidate& candidate : candidates) {
    if (std::any_of(std::as_const(candidates).data(), &candidate,
                    [&](const Candidate& before) { return SamePlacement(before, candidate); }))
      continue;
    const Spread spread =
        SpreadOf(candidate.variable->mapping, candidate.view, candidate.variable->num_elements, num_tiles);
    const auto fullest = std::get<0>(spread);
    const double received = static_cast<double>(fullest) * LackingBytes(candidate, candidates, num_tiles);
    const double cycles = static_cast<double>(cost.Cycles(target.model(), fullest)) +
                          received / target.model().exchange_bytes_per_cycle;
    if (const std::pair score(cycles, spread); best == nullptr || score < least) {
      best = &candidate;
      least = score;
    }
  }
  const Shape shape = ShapeOf(operands.at(0));
  const std::int64_t elements = NumElements(shape);
  std::optional<Grid> even;
  if (elements > 0)
    even = Grid::Linear(elements, 1, target.model().VectorWidth(type), num_tiles, FirstTile(graph));
  if (best != nullptr && !(even && SpreadingPays(*even, type, cost, least, operands, target.model())))
    return CloneForOperation(graph, poplar::Type(type), *best->tensor, debug_context);
  return NewTensor(graph, type, shape, even ? Mapping(*even) : Mapping(), debug_context.getPathName());
}

}  // namespace ipu_model
