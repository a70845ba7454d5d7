// The partitions that follow from a plan, and the recognition of an operand's mapping as such a partition.
#include <algorithm>
#include <vector>

#include "operations/product/matmul_plan.h"

namespace ipu_model {
namespace {

Partition Empty(const MatMulPlan& plan) {
  Partition partition;
  partition.first_tile = plan.grid.first_tile;
  partition.num_tiles = plan.grid.num_tiles;
  return partition;
}

void AddDim(Partition& partition, std::int64_t extent, std::int64_t parts, std::int64_t stride) {
  partition.shape.push_back(extent);
  partition.parts.push_back(parts);
  partition.grain.push_back(1);
  partition.tile_stride.push_back(stride);
}

// Cuts every part of dimension `dim` into x more parts, `stride` tiles apart. May split the dimension into
// two if `factorise` is set. Returns false if no partition can express the result.
bool Refine(Partition& p, std::size_t dim, std::int64_t x, std::int64_t stride, bool factorise) {
  if (p.parts[dim] == 1) {
    p.parts[dim] = x;
    p.tile_stride[dim] = stride;
    return true;
  }
  if (p.tile_stride[dim] == x * stride) {
    p.parts[dim] *= x;
    p.tile_stride[dim] = stride;
    return true;
  }
  if (!factorise || p.shape[dim] % p.parts[dim] != 0) return false;
  const std::int64_t inner = p.shape[dim] / p.parts[dim];
  const auto at = static_cast<std::ptrdiff_t>(dim) + 1;
  p.shape[dim] = p.parts[dim];
  p.shape.insert(p.shape.begin() + at, inner);
  p.parts.insert(p.parts.begin() + at, x);
  p.grain.insert(p.grain.begin() + at, 1);
  p.tile_stride.insert(p.tile_stride.begin() + at, stride);
  return true;
}

// Cuts the blocks [group, row, column] of a matrix, each of which is shared by the x parts of a third
// dimension, among those parts. Uses the dimension that gives data to more of them; rows if both do.
void ShareBlocks(Partition& p, std::size_t row, std::size_t column, std::int64_t x, std::int64_t stride,
                 bool factorise) {
  if (x == 1) return;
  const std::int64_t rows = p.shape[row] / p.parts[row], columns = p.shape[column] / p.parts[column];
  const bool by_rows = rows >= x || rows >= columns;
  if (!Refine(p, by_rows ? row : column, x, stride, factorise))
    Refine(p, by_rows ? column : row, x, stride, factorise);
}

Partition MatrixPartition(const MatMulPlan& plan, MatMulDim row, MatMulDim column, MatMulDim shared_by) {
  const Partition& grid = plan.grid;
  Partition p = Empty(plan);
  for (const int d : {static_cast<int>(kGroupDim), static_cast<int>(row), static_cast<int>(column)})
    AddDim(p, grid.shape[d], grid.parts[d], grid.tile_stride[d]);
  ShareBlocks(p, 1, 2, grid.parts[shared_by], grid.tile_stride[shared_by], true);
  return p;
}

}  // namespace

Partition LhsPartition(const MatMulPlan& plan) {
  return MatrixPartition(plan, kRowDim, kDepthDim, kColumnDim);
}
Partition RhsPartition(const MatMulPlan& plan) {
  return MatrixPartition(plan, kDepthDim, kColumnDim, kRowDim);
}
Partition OutputPartition(const MatMulPlan& plan) {
  return MatrixPartition(plan, kRowDim, kColumnDim, kDepthDim);
}

std::vector<Vertex> OutputVertices(const MatMulPlan& plan) {
  const Partition partition = OutputPartition(plan);
  std::vector<Vertex> vertices = partition.Vertices();
  if (partition.shape.size() == 3) return vertices;
  // One dimension is factorised; its outer part is cut into single elements.
  const std::size_t outer = partition.shape[1] == plan.grid.shape[kRowDim] ? 2 : 1;
  const std::int64_t inner = partition.shape[outer + 1];
  for (Vertex& v : vertices) {
    const std::int64_t base = v.box.begin[outer] * inner;
    for (Shape* edge : {&v.box.begin, &v.box.end}) {
      (*edge)[outer] = base + (*edge)[outer + 1];
      edge->erase(edge->begin() + static_cast<std::ptrdiff_t>(outer) + 1);
    }
  }
  return vertices;
}

Partition PartialsPartition(const MatMulPlan& plan) {
  const Partition& grid = plan.grid;
  Partition p = Empty(plan);
  AddDim(p, grid.parts[kDepthDim], grid.parts[kDepthDim], grid.tile_stride[kDepthDim]);
  for (const int d : {kGroupDim, kRowDim, kColumnDim})
    AddDim(p, grid.shape[d], grid.parts[d], grid.tile_stride[d]);
  return p;
}

Partition FirstStagePartition(const MatMulPlan& plan) {
  const Partition& grid = plan.grid;
  const std::int64_t sums = grid.parts[kDepthDim] / plan.first_stage, stride = grid.tile_stride[kDepthDim];
  Partition p = Empty(plan);
  AddDim(p, sums, sums, plan.first_stage * stride);
  for (const int d : {kGroupDim, kRowDim, kColumnDim})
    AddDim(p, grid.shape[d], grid.parts[d], grid.tile_stride[d]);
  ShareBlocks(p, 2, 3, plan.first_stage, stride, false);
  return p;
}

OperandMapping OperandMappingOf(const View& view, const Mapping& mapping, unsigned num_tiles) {
  OperandMapping found;
  const Partition* partition = mapping.partition();
  if (partition == nullptr || view.offset != 0 || view.shape.size() != 3 ||
      partition->num_tiles != num_tiles || NumElements(partition->shape) != view.num_elements())
    return found;
  found.first_tile = partition->first_tile;
  const std::size_t rank = partition->shape.size();
  std::vector<bool> used(rank, false);
  for (std::size_t d = 0; d < 3; ++d) {
    if (view.shape[d] == 1) continue;
    if (view.strides[d] <= 0) return found;
    // Find the partition's dimensions that make up this one, outermost first.
    std::int64_t stride = NumElements(partition->shape), extent = 1;
    int pieces = 0;
    bool whole_pieces = true;
    for (std::size_t p = 0; p < rank; ++p) {
      const std::int64_t outer = stride;
      stride /= partition->shape[p];
      if (partition->shape[p] == 1 || stride < view.strides[d] || outer > view.strides[d] * view.shape[d])
        continue;
      if (partition->grain[p] != 1 || pieces == 2) return found;
      used[p] = true;
      extent *= partition->shape[p];
      DimSplit& split = found.dims[d];
      if (pieces++ == 0) {
        split.parts = partition->parts[p];
        split.stride = partition->tile_stride[p];
        // A second piece can only cut the parts further if the first piece is cut into single elements.
        split.inner_parts = partition->parts[p] == partition->shape[p] ? 1 : 0;
        whole_pieces = partition->shape[p] % partition->parts[p] == 0;
      } else if (partition->parts[p] == 1) {
        // Balanced parts of the whole dimension would begin at other elements.
        if (!whole_pieces) return found;
      } else {
        if (split.inner_parts == 0) return found;
        split.inner_parts = partition->parts[p];
        split.inner_stride = partition->tile_stride[p];
      }
    }
    found.dims[d].inner_parts = std::max<std::int64_t>(1, found.dims[d].inner_parts);
    if (extent != view.shape[d]) return found;
  }
  for (std::size_t p = 0; p < rank; ++p) {
    if (!used[p] && partition->shape[p] > 1) return found;
  }
  found.known = true;
  return found;
}

}  // namespace ipu_model
