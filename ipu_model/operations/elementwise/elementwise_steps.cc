#include "operations/elementwise/elementwise_steps.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ipu_model {
namespace {

// The outermost dimension that has an index for every step, or the largest one: rows stay whole if possible.
std::size_t DimensionToCut(const Box& box, std::int64_t steps) {
  std::size_t largest = 0;
  for (std::size_t d = 0; d < box.begin.size(); ++d) {
    const std::int64_t extent = box.end[d] - box.begin[d];
    if (extent >= steps) return d;
    if (extent > box.end[largest] - box.begin[largest]) largest = d;
  }
  return largest;
}

}  // namespace

void AddReceivedBytes(const DeviceContext& context, const View& operand, const std::vector<Vertex>& vertices,
                      std::vector<std::int64_t>* bytes) {
  const Mapping& mapping = context.mapping(operand.variable);
  const auto size = static_cast<std::int64_t>(SizeOf(operand.type));
  for (const Vertex& vertex : vertices) {
    // An element that is read for a whole dimension arrives once.
    Box distinct = vertex.box;
    for (std::size_t d = 0; d < operand.strides.size(); ++d)
      if (operand.strides[d] == 0) distinct.end[d] = distinct.begin[d] + 1;
    (*bytes)[vertex.tile] += size * (distinct.num_elements() - mapping.Held(vertex.tile, operand, distinct));
  }
}

std::vector<std::vector<Vertex>> CutIntoSteps(const std::vector<Vertex>& vertices, std::int64_t steps,
                                              unsigned num_tiles) {
  std::vector<std::int64_t> elements(num_tiles, 0), before(num_tiles, 0);
  for (const Vertex& vertex : vertices) elements[vertex.tile] += vertex.box.num_elements();
  std::vector<std::vector<Vertex>> result(static_cast<std::size_t>(steps));
  for (const Vertex& vertex : vertices) {
    if (vertex.box.begin.empty()) {
      result[0].push_back(vertex);
      continue;
    }
    const std::int64_t own = vertex.box.num_elements(), all = elements[vertex.tile];
    const std::int64_t first = before[vertex.tile];
    before[vertex.tile] += own;
    const std::size_t d = DimensionToCut(vertex.box, steps);
    const std::int64_t begin = vertex.box.begin[d], extent = vertex.box.end[d] - begin;
    const std::int64_t row = own / extent;  // elements of one index along `d`
    std::int64_t at = 0;
    for (std::int64_t s = 0; s < steps && at < extent; ++s) {
      // The step ends where the tile has done this part of all its elements.
      const std::int64_t end = s + 1 == steps ? extent : (all * (s + 1) / steps - first) / row;
      if (end <= at) continue;
      Vertex part = vertex;
      part.box.begin[d] = begin + at;
      at = std::min(end, extent);
      part.box.end[d] = begin + at;
      result[static_cast<std::size_t>(s)].push_back(std::move(part));
    }
  }
  return result;
}

}  // namespace ipu_model
