// The grids that follow from a plan, and the recognition of an operand's mapping as such a grid.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/host/integer_division.h"
#include "operations/product/matmul_plan.h"

namespace ipu_model {
namespace {

Grid Empty(const MatMulPlan& plan) {
  Grid grid;
  grid.first_tile = plan.grid.first_tile;
  grid.num_tiles = plan.grid.num_tiles;
  return grid;
}

// Cuts every part of dimension `dim` into x more parts, `stride` tiles apart. May split the dimension into
// two if `factorise` is set. Returns false if no grid can express the result.
bool Refine(Grid& p, std::size_t dim, std::int64_t x, std::int64_t stride, bool factorise) {
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
void ShareBlocks(Grid& p, std::size_t row, std::size_t column, std::int64_t x, std::int64_t stride,
                 bool factorise) {
  if (x == 1) return;
  const std::int64_t rows = p.shape[row] / p.parts[row], columns = p.shape[column] / p.parts[column];
  const bool by_rows = rows >= x || rows >= columns;
  if (!Refine(p, by_rows ? row : column, x, stride, factorise))
    Refine(p, by_rows ? column : row, x, stride, factorise);
}

Grid MatrixGrid(const MatMulPlan& plan, MatMulDim row, MatMulDim column, MatMulDim shared_by) {
  const Grid& grid = plan.grid;
  Grid p = Empty(plan);
  for (const int d : {static_cast<int>(kGroupDim), static_cast<int>(row), static_cast<int>(column)})
    p.Append(grid.shape[d], grid.parts[d], grid.tile_stride[d]);
  ShareBlocks(p, 1, 2, grid.parts[shared_by], grid.tile_stride[shared_by], true);
  return p;
}

// Finds the grid of a view that is one item of a variable, taken along leading dimensions of its grid.
// Returns false if it is none.
bool GridOfItem(const View& view, const Grid& whole, Grid* item) {
  *item = whole;
  const std::int64_t elements = view.num_elements();
  std::int64_t of_item = NumElements(whole.shape), offset = view.offset;
  std::ptrdiff_t taken = 0;
  for (; of_item > elements; ++taken) {
    of_item /= whole.shape[static_cast<std::size_t>(taken)];
    const std::int64_t part = whole.PartOf(static_cast<int>(taken), offset / of_item);
    item->first_tile += static_cast<unsigned>(part * whole.tile_stride[static_cast<std::size_t>(taken)]);
    offset %= of_item;
  }
  if (of_item != elements || offset != 0) return false;
  item->first_tile %= item->num_tiles;
  for (Shape* of_dims : {&item->shape, &item->parts, &item->grain, &item->tile_stride})
    of_dims->erase(of_dims->begin(), of_dims->begin() + taken);
  return true;
}

}  // namespace

Grid LhsGrid(const MatMulPlan& plan) { return MatrixGrid(plan, kRowDim, kDepthDim, kColumnDim); }
Grid RhsGrid(const MatMulPlan& plan) { return MatrixGrid(plan, kDepthDim, kColumnDim, kRowDim); }
Grid OutputGrid(const MatMulPlan& plan) {
  if (plan.output_steps > 1 && plan.grid.parts[kDepthDim] > 1) {
    Grid p = Empty(plan);
    for (const int d : {kGroupDim, kRowDim, kColumnDim})
      p.Append(plan.grid.shape[d], plan.grid.parts[d], plan.grid.tile_stride[d]);
    // Each tile then holds what it adds in every step.
    if (SharedOutputDim(plan) != plan.output_dim &&
        Refine(p, static_cast<std::size_t>(SharedOutputDim(plan)), plan.grid.parts[kDepthDim],
               plan.grid.tile_stride[kDepthDim], true))
      return p;
  }
  return MatrixGrid(plan, kRowDim, kColumnDim, kDepthDim);
}

MatMulDim SharedOutputDim(const MatMulPlan& plan) {
  const MatMulDim other = plan.output_dim == kRowDim ? kColumnDim : kRowDim;
  const std::int64_t across = plan.grid.LargestPart(other);
  const std::int64_t step = CeilDivide(plan.grid.LargestPart(plan.output_dim), plan.output_steps);
  return across >= plan.grid.parts[kDepthDim] || across >= step ? other : plan.output_dim;
}

std::vector<Vertex> OutputVertices(const MatMulPlan& plan) {
  const Grid grid = OutputGrid(plan);
  std::vector<Vertex> vertices = grid.Vertices();
  if (grid.shape.size() == 3) return vertices;
  // One dimension is factorised; its outer part is cut into single elements.
  const std::size_t outer = grid.shape[1] == plan.grid.shape[kRowDim] ? 2 : 1;
  const std::int64_t inner = grid.shape[outer + 1];
  for (Vertex& v : vertices) {
    const std::int64_t base = v.box.begin[outer] * inner;
    for (Shape* edge : {&v.box.begin, &v.box.end}) {
      (*edge)[outer] = base + (*edge)[outer + 1];
      edge->erase(edge->begin() + static_cast<std::ptrdiff_t>(outer) + 1);
    }
  }
  return vertices;
}

Grid PartialsGrid(const MatMulPlan& plan) {
  const Grid& grid = plan.grid;
  Grid p = Empty(plan);
  p.Append(grid.parts[kDepthDim], grid.parts[kDepthDim], grid.tile_stride[kDepthDim]);
  for (const int d : {kGroupDim, kRowDim, kColumnDim})
    p.Append(grid.shape[d], grid.parts[d], grid.tile_stride[d]);
  return p;
}

std::int64_t StageSums(std::int64_t partials) {
  // PopLibs adds sums in stages from 16 on, to limit the number of messages, and divides them so that a tile
  // receives the fewest (lib/poplin/ConvReducePlan.cpp, getMultiStageReducePlan). It has a third stage from
  // 125 on, the model has two.
  constexpr std::int64_t kLeastForStages = 16;
  if (partials < kLeastForStages) return 1;
  const auto messages = [partials](std::int64_t sums) {
    return static_cast<double>(sums) + static_cast<double>(partials) / static_cast<double>(sums);
  };
  const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(partials)));
  return messages(root) < messages(root + 1) ? root : root + 1;
}

std::int64_t FirstTerm(std::int64_t partials, std::int64_t sums, std::int64_t sum) {
  return sum * partials / sums;
}

Grid FirstStageGrid(const MatMulPlan& plan) {
  const Grid& grid = plan.grid;
  const std::int64_t sums = plan.stage_sums, cuts = grid.parts[kDepthDim] / sums,
                     stride = grid.tile_stride[kDepthDim];
  Grid p = Empty(plan);
  p.Append(sums, sums, cuts * stride);
  for (const int d : {kGroupDim, kRowDim, kColumnDim})
    p.Append(grid.shape[d], grid.parts[d], grid.tile_stride[d]);
  ShareBlocks(p, 2, 3, cuts, stride, false);
  return p;
}

OperandMapping OperandMappingOf(const View& view, const Mapping& mapping, unsigned num_tiles) {
  OperandMapping found;
  Grid item;
  if (mapping.grid() == nullptr || view.shape.size() != 3 || mapping.grid()->num_tiles != num_tiles ||
      view.num_elements() == 0 || view.offset < 0 || !GridOfItem(view, *mapping.grid(), &item))
    return found;
  const Grid* grid = &item;
  found.first_tile = grid->first_tile;
  const std::size_t rank = grid->shape.size();
  std::vector<bool> used(rank, false);
  for (std::size_t d = 0; d < 3; ++d) {
    if (view.shape[d] == 1) continue;
    if (view.strides[d] <= 0) return found;
    // Find the grid's dimensions that make up this one, outermost first.
    std::int64_t stride = NumElements(grid->shape), extent = 1;
    int pieces = 0;
    bool whole_pieces = true;
    for (std::size_t p = 0; p < rank; ++p) {
      const std::int64_t outer = stride;
      stride /= grid->shape[p];
      if (grid->shape[p] == 1 || stride < view.strides[d] || outer > view.strides[d] * view.shape[d])
        continue;
      if (grid->grain[p] != 1 || pieces == 2) return found;
      used[p] = true;
      extent *= grid->shape[p];
      DimSplit& split = found.dims[d];
      if (pieces++ == 0) {
        split.parts = grid->parts[p];
        split.stride = grid->tile_stride[p];
        // A second piece can only cut the parts further if the first piece is cut into single elements.
        split.inner_parts = grid->parts[p] == grid->shape[p] ? 1 : 0;
        whole_pieces = grid->shape[p] % grid->parts[p] == 0;
      } else if (grid->parts[p] == 1) {
        // Balanced parts of the whole dimension would begin at other elements.
        if (!whole_pieces) return found;
      } else {
        if (split.inner_parts == 0) return found;
        split.inner_parts = grid->parts[p];
        split.inner_stride = grid->tile_stride[p];
      }
    }
    found.dims[d].inner_parts = std::max<std::int64_t>(1, found.dims[d].inner_parts);
    if (extent != view.shape[d]) return found;
  }
  for (std::size_t p = 0; p < rank; ++p) {
    if (!used[p] && grid->shape[p] > 1) return found;
  }
  found.known = true;
  return found;
}

}  // namespace ipu_model
