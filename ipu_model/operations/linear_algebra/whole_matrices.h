// Batches of more matrices than tiles: each tile has whole ones, and its workers share them.
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

// Whether a worker computes whole matrices: if a tile has at least as many of the `count` matrices as
// workers, or several small ones (`elements` each), where sharing one saves less than the vertices for it
// cost.
inline bool AreMany(std::int64_t count, std::int64_t elements, unsigned num_tiles, unsigned workers) {
  constexpr std::int64_t kSmall = 256;
  const std::int64_t each = CeilDivide(count, num_tiles);
  return each >= static_cast<std::int64_t>(workers) || (each > 1 && elements <= kSmall);
}
// The same for the matrices of `shape`, [..., m, n].
inline bool AreMany(const Shape& shape, unsigned num_tiles, unsigned workers) {
  return AreMany(NumMatrices(shape), shape.back() * shape[shape.size() - 2], num_tiles, workers);
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
  std::int64_t grain = 1;                            // matrices of which the results end with 64-bit words
};

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
  group.cycles = [batch, cycles = std::move(matrices.cycles), grain = matrices.grain](
                     const TargetModel& target, const Box& box) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < batch; ++d) count *= box.end[d] - box.begin[d];
    return WorkerCycles(target, static_cast<double>(WorkerShare(target, count, grain)) * cycles(target));
  };
  TilePlan plan;
  plan.supersteps.push_back({{std::move(group)}});
  return plan;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_WHOLE_MATRICES_H_
