// Batches of many matrices: tiles have whole ones, of which each worker computes some, or all workers share
// one after the other, whichever takes fewer cycles.
#ifndef IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_WHOLE_MATRICES_H_
#define IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_WHOLE_MATRICES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/operation/operation.h"
#include "kernels/host/integer_division.h"
#include "operations/index/slice_grid.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/vertex_groups.h"

namespace ipu_model {

// The number of matrices of `shape`, [..., m, n].
inline std::int64_t NumMatrices(const Shape& shape) {
  return NumElements(Shape(shape.begin(), shape.end() - 2));
}

// Grid of `shape` with the last `kept` dimensions, those of a vector or matrix, whole.
inline Grid WholeGrid(const Shape& shape, DType type, unsigned num_tiles, std::size_t kept = 2) {
  std::vector<bool> whole(shape.size(), false);
  std::fill(whole.end() - static_cast<std::ptrdiff_t>(kept), whole.end(), true);
  return SliceGrid(shape, whole, type, num_tiles, INT64_MAX);
}

// How whole matrices are computed.
struct WholeMatrices {
  std::string codelet;
  std::uint64_t code_bytes = 0, vertex_bytes = 0;
  // Of all matrices of a vertex.
  std::function<void(HostContext&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes)>
      compute;
  std::function<double(const TargetModel&)> cycles;  // of one matrix by one worker
  std::int64_t pieces = 1;                           // in which workers may take a matrix
  std::int64_t grain = 1;                            // pieces of which the results end with 64-bit words
  // The tile cycles of `count` matrices.
  std::uint64_t TileCycles(const TargetModel& target, std::int64_t count) const {
    const auto share = static_cast<double>(WorkerShare(target, count * pieces, grain));
    return WorkerCycles(target, share * cycles(target) / static_cast<double>(pieces));
  }
};

// The vertices of a grid, cut so that each has one matrix. The first `batch` dimensions number the matrices.
std::vector<Vertex> OneMatrixEach(const Grid& grid, std::size_t batch);

// Whether it takes fewer cycles if workers compute whole matrices than if they share each. whole: the grid of
// whole matrices, whose first `batch` dimensions number them. shared: the plan of one matrix on so many
// tiles.
bool WholePays(const Grid& whole, std::size_t batch, const WholeMatrices& matrices,
               const std::function<TilePlan(unsigned tiles)>& shared, const TargetModel& target);

// The cycles of the busiest tile in a superstep.
std::uint64_t BusiestTile(const Superstep& step, const TargetModel& target);
// The most matrices of a tile, of whole ones.
std::int64_t MostOnTile(const Grid& whole, std::size_t batch);
// The most vertices of a plan for batches where a tile has as many matrices as workers: whole ones then take
// few more cycles.
inline constexpr std::int64_t kMostShared = 1 << 16;

// One superstep: a vertex for each part of the grid, of an operand of which the first `batch` dimensions
// number the matrices. It reads and writes what all operands have for these.
inline TilePlan PlanWholeMatrices(const Operation& operation, const Grid& grid, std::size_t batch,
                                  WholeMatrices matrices) {
  VertexGroup group = MakeVertexGroup(std::move(matrices.codelet), grid.Vertices(), matrices.code_bytes,
                                      matrices.vertex_bytes);
  const auto of = [batch](const Shape& shape) {
    return [batch,
            rest = Shape(shape.begin() + static_cast<std::ptrdiff_t>(batch), shape.end())](const Box& box) {
      Box region = box;
      region.begin.resize(batch);
      region.end.resize(batch);
      region.begin.resize(batch + rest.size(), 0);
      region.end.insert(region.end.end(), rest.begin(), rest.end());
      return region;
    };
  };
  for (unsigned i = 0; i < operation.inputs.size(); ++i)
    group.reads.push_back({{OperandRef::Kind::kInput, i}, of(operation.inputs[i].shape)});
  for (unsigned i = 0; i < operation.outputs.size(); ++i)
    group.writes.push_back({{OperandRef::Kind::kOutput, i}, of(operation.outputs[i].shape)});
  group.compute = [compute = std::move(matrices.compute)](
                      HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) { compute(host, reads, writes); };
  matrices.compute = nullptr;
  group.cycles = [batch, matrices = std::move(matrices)](const TargetModel& target, const Box& box) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < batch; ++d) count *= box.end[d] - box.begin[d];
    return matrices.TileCycles(target, count);
  };
  TilePlan plan;
  plan.supersteps.push_back({{std::move(group)}});
  return plan;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_WHOLE_MATRICES_H_
