// The grid of a view that reorders the dimensions of a variable on a grid.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/mapping/strides.h"

namespace ipu_model {
namespace {

// Splits a dimension of the grid into two, so that `stride` elements of the variable are one step along the
// outer of them. Does nothing if no dimension has such a place, or if the parts of the grid would no longer
// be blocks of the two.
void SplitAt(std::int64_t stride, Grid* p) {
  std::int64_t inner_elements = 1;
  for (std::size_t d = p->shape.size(); d-- > 0; inner_elements *= p->shape[d]) {
    if (stride >= inner_elements * p->shape[d]) continue;
    const std::int64_t inner = stride / inner_elements, parts = p->parts[d];
    if (inner < 2 || stride % inner_elements != 0 || p->shape[d] % inner != 0) return;
    if (p->shape.size() == kMaxRank || (p->grain[d] != 1 && parts > 1)) return;
    const std::int64_t outer = p->shape[d] / inner;
    std::int64_t outer_parts = parts, inner_parts = 1;
    if (outer % parts != 0) {
      if (parts % outer != 0 || inner % (parts / outer) != 0) return;
      outer_parts = outer;
      inner_parts = parts / outer;
    }
    const auto at = static_cast<std::ptrdiff_t>(d);
    p->shape[d] = inner;
    p->shape.insert(p->shape.begin() + at, outer);
    p->parts[d] = inner_parts;
    p->parts.insert(p->parts.begin() + at, outer_parts);
    p->grain[d] = 1;
    p->grain.insert(p->grain.begin() + at, 1);
    p->tile_stride.insert(p->tile_stride.begin() + at, p->tile_stride[d] * inner_parts);
    return;
  }
}

}  // namespace

bool ReorderedGrid(const Mapping& mapping, const View& view, Grid* out) {
  if (mapping.grid() == nullptr || view.offset != 0 ||
      NumElements(mapping.grid()->shape) != view.num_elements()) {
    return false;
  }
  Grid split = *mapping.grid();
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 1) continue;
    SplitAt(view.strides[d], &split);
    SplitAt(view.strides[d] * view.shape[d], &split);
  }
  const Grid* const from = &split;
  const std::size_t rank = from->shape.size();
  const Shape strides = RowMajorStrides(from->shape);
  *out = {{}, {}, {}, {}, from->first_tile, from->num_tiles};
  std::vector<bool> used(rank, false);
  for (std::size_t p = 0; p < rank; ++p) {
    // The only element of a dimension is in its last part.
    if (from->shape[p] == 1)
      out->first_tile += static_cast<unsigned>((from->parts[p] - 1) * from->tile_stride[p]);
  }
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    std::int64_t stride = view.strides[d] * view.shape[d];  // stride of the next outer element
    for (std::size_t p = 0; p < rank && stride > view.strides[d]; ++p) {
      if (used[p] || from->shape[p] == 1 || strides[p] * from->shape[p] != stride) continue;
      used[p] = true;
      stride = strides[p];
      out->shape.push_back(from->shape[p]);
      out->parts.push_back(from->parts[p]);
      out->grain.push_back(from->grain[p]);
      out->tile_stride.push_back(from->tile_stride[p]);
    }
    if (view.shape[d] > 1 && stride != view.strides[d]) return false;
  }
  return NumElements(out->shape) == view.num_elements();
}

}  // namespace ipu_model
