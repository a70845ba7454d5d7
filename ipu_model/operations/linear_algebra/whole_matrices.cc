#include "operations/linear_algebra/whole_matrices.h"

#include <map>

namespace ipu_model {

std::uint64_t BusiestTile(const Superstep& step, const TargetModel& target) {
  std::map<unsigned, std::uint64_t> cycles;
  std::uint64_t most = 0;
  for (const VertexGroup& group : step.groups)
    for (const Vertex& vertex : group.vertices)
      most = std::max(most, cycles[vertex.tile] += group.cycles(target, vertex.box));
  return most;
}

std::vector<Vertex> OneMatrixEach(const Grid& grid, std::size_t batch) {
  std::vector<Vertex> vertices;
  for (const Vertex& vertex : grid.Vertices()) {
    Vertex one = vertex;
    for (std::size_t d = 0; d < batch; ++d) one.box.end[d] = one.box.begin[d] + 1;
    for (bool more = true; more;) {
      vertices.push_back(one);
      more = false;
      for (std::size_t d = batch; d-- > 0 && !more;) {
        more = ++one.box.begin[d] < vertex.box.end[d];
        if (!more) one.box.begin[d] = vertex.box.begin[d];
        one.box.end[d] = one.box.begin[d] + 1;
      }
    }
  }
  return vertices;
}

std::int64_t MostOnTile(const Grid& whole, std::size_t batch) {
  std::int64_t most = 1;
  for (std::size_t d = 0; d < batch; ++d) most *= whole.LargestPart(static_cast<int>(d));
  return most;
}

bool WholePays(const Grid& whole, std::size_t batch, const WholeMatrices& matrices,
               const std::function<TilePlan(unsigned tiles)>& shared, const TargetModel& target) {
  // Larger matrices gain from each tile and worker that they have to themselves.
  constexpr std::int64_t kSmall = 256;
  const std::int64_t all = NumElements(whole.shape);
  if (all == 0) return false;
  const std::int64_t count =
      NumElements(Shape(whole.shape.begin(), whole.shape.begin() + static_cast<std::ptrdiff_t>(batch)));
  const std::int64_t each = MostOnTile(whole, batch);
  if (each == 1 && all / count > kSmall) return false;
  const TilePlan plan = shared(
      std::max(1u, whole.num_tiles / static_cast<unsigned>(std::min<std::int64_t>(count, whole.num_tiles))));
  std::uint64_t cycles = 0;
  std::int64_t vertices = 0;
  for (const Superstep& step : plan.supersteps) {
    cycles += static_cast<std::uint64_t>(each) * BusiestTile(step, target) + target.sync_cycles;
    for (const VertexGroup& group : step.groups)
      vertices += count * static_cast<std::int64_t>(group.vertices.size());
  }
  if (each >= static_cast<std::int64_t>(target.worker_contexts) && vertices > kMostShared) return true;
  return matrices.TileCycles(target, each) + target.sync_cycles < cycles;
}

}  // namespace ipu_model
