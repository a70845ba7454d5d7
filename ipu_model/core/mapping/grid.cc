#include "core/mapping/grid.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/deadline.h"
#include "core/mapping/strided_set.h"
#include "core/mapping/strides.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {

using namespace internal;

std::int64_t Grid::Begin(int dim, std::int64_t part) const {
  const std::int64_t grains = CeilDivide(shape[dim], grain[dim]);
  return std::min(shape[dim], part * grains / parts[dim] * grain[dim]);
}

std::int64_t Grid::PartOf(int dim, std::int64_t index) const {
  const std::int64_t grains = CeilDivide(shape[dim], grain[dim]);
  return ((index / grain[dim] + 1) * parts[dim] - 1) / grains;
}

std::int64_t Grid::LargestPart(int dim) const {
  const std::int64_t grains = CeilDivide(shape[dim], grain[dim]), rest = grains % parts[dim];
  const std::int64_t last = shape[dim] - Begin(dim, parts[dim] - 1);
  if (parts[dim] == 1) return last;
  // The last part always has the larger number of grains, but its last grain may be short.
  const std::int64_t others = rest == 1 ? grains / parts[dim] : CeilDivide(grains, parts[dim]);
  return std::max(last, others * grain[dim]);
}

std::vector<Vertex> Grid::Vertices() const {
  CheckDeadline();
  std::vector<Vertex> vertices;
  vertices.reserve(static_cast<std::size_t>(num_parts()));
  const int rank = static_cast<int>(shape.size());
  std::vector<std::int64_t> begins;
  std::size_t first[kMaxRank];
  for (int d = 0; d < rank; ++d) {
    first[d] = begins.size();
    AppendBegins(*this, static_cast<std::size_t>(d), &begins);
  }
  ForEachPart(*this, 0, rank, [&](const std::int64_t* part) {
    Vertex vertex{TileOf(part), {Shape(shape.size()), Shape(shape.size())}};
    for (int d = 0; d < rank; ++d) {
      const std::size_t p = first[d] + static_cast<std::size_t>(part[d]);
      vertex.box.begin[d] = begins[p];
      vertex.box.end[d] = begins[p + 1];
      if (vertex.box.begin[d] >= vertex.box.end[d]) return;
    }
    vertices.push_back(std::move(vertex));
  });
  return vertices;
}

Grid Grid::Linear(std::int64_t elements, std::int64_t min_per_tile, std::int64_t grain, unsigned num_tiles,
                  unsigned first_tile) {
  grain = std::max<std::int64_t>(1, grain);
  const std::int64_t tiles = std::max(1u, num_tiles), grains = CeilDivide(elements, grain);
  const std::int64_t min_grains = std::max<std::int64_t>(1, CeilDivide(min_per_tile, grain));
  const std::int64_t per_tile =
      std::max({std::int64_t{1}, CeilDivide(grains, tiles),
                CeilDivide(grains, std::max<std::int64_t>(1, grains / min_grains))});
  const std::int64_t used = std::max<std::int64_t>(1, CeilDivide(grains, per_tile));
  return {{elements}, {used}, {grain}, {1}, first_tile, static_cast<unsigned>(tiles)};
}

void Grid::Append(std::int64_t extent, std::int64_t parts_of_it, std::int64_t stride,
                  std::int64_t grain_of_it) {
  shape.push_back(extent);
  parts.push_back(parts_of_it);
  grain.push_back(grain_of_it);
  tile_stride.push_back(stride);
}

Grid Grid::Of(Shape shape, Shape parts, unsigned num_tiles, unsigned first_tile) {
  const std::size_t rank = shape.size();
  if (parts.size() != rank) throw std::invalid_argument("a grid needs as many part counts as dimensions");
  Shape tile_stride = RowMajorStrides(parts);
  return {std::move(shape),       std::move(parts), Shape(rank, 1),
          std::move(tile_stride), first_tile,       std::max(1u, num_tiles)};
}

}  // namespace ipu_model
