#include "whole_plan.h"

#include <algorithm>

namespace hlo {
namespace {

std::size_t elementsOf(const Region& region) {
  std::size_t n = 1;
  for (std::size_t d = 0; d < region.begin.size(); ++d) n *= region.extent(d);
  return n;
}

}  // namespace

Grid gridOver(const std::vector<std::size_t>& shape, const std::vector<bool>& free, unsigned tiles) {
  Grid grid{shape, std::vector<std::size_t>(shape.size(), 1), std::vector<std::size_t>(shape.size(), 1)};
  std::size_t rest = tiles;
  for (std::size_t d = 0; d < shape.size() && rest > 1; ++d) {
    if (!free[d] || shape[d] == 0) continue;
    grid.parts[d] = std::min(shape[d], rest);
    rest = rest / grid.parts[d];
  }
  // Words of 64 bits along the last dimension, of which a tile writes all.
  if (!shape.empty() && grid.parts.back() > 1) {
    grid.grain.back() = std::min<std::size_t>(8, shape.back());
    grid.parts.back() =
        std::min(grid.parts.back(), (shape.back() + grid.grain.back() - 1) / grid.grain.back());
  }
  return grid;
}

std::vector<Part> partsOf(const Grid& grid, unsigned tiles) {
  std::vector<Part> parts;
  for (const Block& block : blocksOf(grid, tiles)) parts.push_back(block.part);
  return parts;
}

WholeAccess all(PlannedTensor::Kind kind, unsigned index, const std::vector<std::size_t>& shape) {
  const Region whole{std::vector<std::size_t>(shape.size(), 0), shape};
  return {{kind, index}, [whole](const Part&) { return whole; }};
}
WholeAccess own(PlannedTensor::Kind kind, unsigned index) {
  return {{kind, index}, [](const Part& part) { return Region{part.begin, part.end}; }};
}

PlannedGroup groupOf(const std::vector<Part>& parts, const std::vector<WholeAccess>& reads,
                     const std::vector<WholeAccess>& writes,
                     const std::function<Region(const Part& part)>& box) {
  PlannedGroup group;
  for (const WholeAccess& read : reads) group.reads.push_back(read.tensor);
  for (const WholeAccess& write : writes) group.writes.push_back(write.tensor);
  for (const Part& part : parts) {
    PlannedVertex vertex{part.tile, 0, box ? box(part) : Region{part.begin, part.end}, {}, {}};
    for (const WholeAccess& read : reads) vertex.reads.push_back(read.region(part));
    for (const WholeAccess& write : writes) vertex.writes.push_back(write.region(part));
    // Nothing has planned it: a rough number, one cycle for each element that is read or written.
    for (const Region& region : vertex.reads) vertex.cycles += elementsOf(region);
    for (const Region& region : vertex.writes) vertex.cycles += elementsOf(region);
    group.vertices.push_back(std::move(vertex));
  }
  return group;
}

}  // namespace hlo
