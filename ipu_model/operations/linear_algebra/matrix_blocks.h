// The grid of square blocks for factorisations of large matrices: a working copy that is spread over tiles.
#ifndef IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_MATRIX_BLOCKS_H_
#define IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_MATRIX_BLOCKS_H_

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/mapping/strides.h"

namespace ipu_model {

// The box of the transposed matrices.
inline Box Mirrored(Box box) {
  const std::size_t last = box.begin.size() - 1;
  std::swap(box.begin[last - 1], box.begin[last]);
  std::swap(box.end[last - 1], box.end[last]);
  return box;
}

struct MatrixBlocks {
  static constexpr std::int64_t kSize = 64;
  Grid grid;  // of [batch..., rows, columns]; one matrix per part

  MatrixBlocks() = default;
  // Rows or columns that are not cut into blocks of kSize are cut into `free_parts` parts.
  MatrixBlocks(const Shape& shape, bool cut_rows, bool cut_columns, std::int64_t free_parts,
               unsigned num_tiles) {
    const std::size_t rank = shape.size();
    grid.shape = shape;
    for (const std::int64_t extent : shape) grid.parts.push_back(std::max<std::int64_t>(1, extent));
    grid.grain.assign(rank, 1);
    grid.num_tiles = num_tiles;
    for (const std::size_t d : {rank - 2, rank - 1}) {
      const bool cut = d == rank - 2 ? cut_rows : cut_columns;
      if (cut) grid.grain[d] = kSize;
      grid.parts[d] =
          std::max<std::int64_t>(1, cut ? (shape[d] + kSize - 1) / kSize : std::min(free_parts, shape[d]));
    }
    grid.tile_stride = RowMajorStrides(grid.parts);
  }

  std::size_t rows() const { return grid.shape.size() - 2; }
  std::size_t columns() const { return grid.shape.size() - 1; }
  std::int64_t Row(const Box& box) const { return grid.PartOf(static_cast<int>(rows()), box.begin[rows()]); }
  std::int64_t Column(const Box& box) const {
    return grid.PartOf(static_cast<int>(columns()), box.begin[columns()]);
  }
  // Returns `box` with its rows (columns) replaced by those of a block.
  Box WithRows(Box box, std::int64_t block) const { return With(std::move(box), rows(), block); }
  Box WithColumns(Box box, std::int64_t block) const { return With(std::move(box), columns(), block); }

  std::vector<Vertex> Where(const std::function<bool(std::int64_t, std::int64_t)>& chosen) const {
    std::vector<Vertex> vertices = grid.Vertices();
    vertices.erase(std::remove_if(vertices.begin(), vertices.end(),
                                  [&](const Vertex& v) { return !chosen(Row(v.box), Column(v.box)); }),
                   vertices.end());
    return vertices;
  }

 private:
  Box With(Box box, std::size_t dim, std::int64_t block) const {
    box.begin[dim] = grid.Begin(static_cast<int>(dim), block);
    box.end[dim] = grid.Begin(static_cast<int>(dim), block + 1);
    return box;
  }
};

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_MATRIX_BLOCKS_H_
