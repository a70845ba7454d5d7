// For tests: random gather and scatter problems, and their elements by the definition of StableHLO.
#ifndef IPU_MODEL_TESTING_RANDOM_WINDOWS_H_
#define IPU_MODEL_TESTING_RANDOM_WINDOWS_H_

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/mapping/box.h"
#include "kernels/index/indexed_window.h"
#include "poplar/Graph.hpp"

namespace ipu_model {

struct RandomWindows {
  WindowDims dims;
  Shape operand, indices, windows, slice_sizes;

  explicit RandomWindows(std::mt19937& random) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int rank = below(5);
    std::vector<int> kind(static_cast<std::size_t>(rank));  // 0 window, 1 collapsed, 2 batching
    Shape batch;
    for (int d = 0; d < rank; ++d) {
      const std::size_t i = static_cast<std::size_t>(d);
      operand.push_back(1 + below(6));
      kind[i] = below(4) == 0 ? 2 : below(2);
      slice_sizes.push_back(kind[i] != 0 ? 1
                            : below(2)   ? operand[i]
                                         : 1 + below(static_cast<int>(operand[i])));
      if (kind[i] == 1) dims.collapsed_dims.push_back(d);
      if (kind[i] != 2 && below(4) != 0) dims.start_index_map.push_back(d);
    }
    std::shuffle(dims.start_index_map.begin(), dims.start_index_map.end(), random);
    for (int d = 0; d < rank; ++d) {
      if (kind[static_cast<std::size_t>(d)] != 2) continue;
      dims.operand_batching_dims.push_back(d);
      batch.push_back(operand[static_cast<std::size_t>(d)]);
    }
    const std::size_t batching = batch.size();
    for (int extra = below(3); extra > 0; --extra) batch.push_back(below(12) == 0 ? 0 : 1 + below(7));
    // The position of each batch dimension among the batch dimensions of the indices.
    std::vector<std::size_t> order(batch.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const int components = static_cast<int>(dims.start_index_map.size());
    if (below(2)) {
      for (int k = 0; k < components; ++k) dims.wraps.push_back(below(8));
    }
    const bool scalar = components == 1 && below(2);
    dims.index_vector_dim =
        scalar ? static_cast<int>(batch.size()) : below(static_cast<int>(batch.size()) + 1);
    Shape batch_in_order;
    dims.indices_batching_dims.resize(batching);
    for (std::size_t k : order) {
      if (!scalar && static_cast<std::int64_t>(indices.size()) == dims.index_vector_dim)
        indices.push_back(components);
      if (k < batching) dims.indices_batching_dims[k] = static_cast<std::int64_t>(indices.size());
      indices.push_back(batch[k]);
      batch_in_order.push_back(batch[k]);
    }
    if (!scalar && static_cast<std::int64_t>(indices.size()) == dims.index_vector_dim)
      indices.push_back(components);
    std::size_t window = 0, next_batch = 0, next_window = 0;
    for (int k : kind) window += k == 0 ? 1 : 0;
    std::vector<int> is_offset(batch.size() + window, 0);
    std::fill(is_offset.begin(), is_offset.begin() + static_cast<std::ptrdiff_t>(window), 1);
    std::shuffle(is_offset.begin(), is_offset.end(), random);
    Shape window_sizes;
    for (std::size_t d = 0; d < kind.size(); ++d) {
      if (kind[d] == 0) window_sizes.push_back(slice_sizes[d]);
    }
    for (std::size_t d = 0; d < is_offset.size(); ++d) {
      if (is_offset[d]) dims.offset_dims.push_back(static_cast<std::int64_t>(d));
      windows.push_back(is_offset[d] ? window_sizes[next_window++] : batch_in_order[next_batch++]);
    }
  }

  // Calls f(element of windows, element of operand or -1) in row-major order of the batch positions, then of
  // the window. `index` holds the values of the indices. With `clamp`, starts are clamped; without it, the
  // operand element is -1 if the window is not inside.
  void ForEach(const std::vector<std::int64_t>& index, bool clamp,
               const std::function<void(std::int64_t, std::int64_t)>& f) const {
    std::vector<std::size_t> batch_dims, window_dims;
    for (std::size_t d = 0; d < windows.size(); ++d) {
      const bool offset =
          std::count(dims.offset_dims.begin(), dims.offset_dims.end(), static_cast<std::int64_t>(d)) > 0;
      (offset ? window_dims : batch_dims).push_back(d);
    }
    std::vector<std::size_t> order = batch_dims;
    order.insert(order.end(), window_dims.begin(), window_dims.end());
    const std::int64_t n = NumElements(windows);
    for (std::int64_t i = 0; i < n; ++i) {
      Shape at(windows.size());
      for (std::size_t k = order.size(), rest = static_cast<std::size_t>(i); k-- > 0;) {
        const std::size_t extent = static_cast<std::size_t>(windows[order[k]]);
        at[order[k]] = static_cast<std::int64_t>(rest % extent);
        rest /= extent;
      }
      Shape start_index;
      for (std::size_t b = 0; b < batch_dims.size(); ++b) start_index.push_back(at[batch_dims[b]]);
      const bool has_vector = dims.index_vector_dim < static_cast<std::int64_t>(indices.size());
      Shape in_indices = start_index;
      if (has_vector) in_indices.insert(in_indices.begin() + dims.index_vector_dim, 0);
      Shape place(operand.size(), 0);
      bool inside = true;
      std::size_t window = 0;
      for (std::size_t d = 0; d < operand.size(); ++d) {
        const std::int64_t signed_d = static_cast<std::int64_t>(d);
        for (std::size_t k = 0; k < dims.start_index_map.size(); ++k) {
          if (dims.start_index_map[k] != signed_d) continue;
          if (has_vector)
            in_indices[static_cast<std::size_t>(dims.index_vector_dim)] = static_cast<std::int64_t>(k);
          std::int64_t flat = 0;
          for (std::size_t e = 0; e < indices.size(); ++e) flat = flat * indices[e] + in_indices[e];
          place[d] = index[static_cast<std::size_t>(flat)];
          if (!dims.wraps.empty() && place[d] < 0) place[d] += dims.wraps[k];
        }
        const std::int64_t limit = operand[d] - slice_sizes[d];
        if (clamp) place[d] = std::min(std::max<std::int64_t>(place[d], 0), limit);
        inside = inside && place[d] >= 0 && place[d] <= limit;
        bool batching = false;
        for (std::size_t k = 0; k < dims.operand_batching_dims.size(); ++k) {
          if (dims.operand_batching_dims[k] != signed_d) continue;
          place[d] = in_indices[static_cast<std::size_t>(dims.indices_batching_dims[k])];
          batching = true;
        }
        const bool collapsed =
            std::count(dims.collapsed_dims.begin(), dims.collapsed_dims.end(), signed_d) > 0;
        if (!batching && !collapsed) place[d] += at[window_dims[window++]];
      }
      std::int64_t element = 0, result = 0;
      for (std::size_t d = 0; d < operand.size(); ++d) element = element * operand[d] + place[d];
      for (std::size_t d = 0; d < windows.size(); ++d) result = result * windows[d] + at[d];
      f(result, inside ? element : -1);
    }
  }
};

// Returns a tensor of `shape` whose dimensions have any order in memory and are cut at random, some of them
// in two levels like those of a matrix product's operands.
inline poplar::Tensor RandomlyCut(poplar::Graph& graph, DType type, const Shape& shape,
                                  std::mt19937& random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  const auto tiles = static_cast<std::int64_t>(graph.getTarget().getNumTiles());
  std::vector<unsigned> order(shape.size());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  Grid grid;
  const auto add = [&](std::int64_t extent, std::int64_t parts, std::int64_t grain) {
    grid.shape.push_back(extent);
    grid.parts.push_back(parts);
    grid.grain.push_back(grain);
  };
  std::vector<std::size_t> stored;
  for (const unsigned d : order) {
    const std::int64_t extent = shape[d];
    stored.push_back(static_cast<std::size_t>(extent));
    const std::int64_t blocks = 1 + below(3);
    if (blocks > 1 && extent > 0 && extent % blocks == 0) {
      add(blocks, blocks, 1);
      add(extent / blocks, 1 + below(std::max<std::int64_t>(1, extent / blocks)), 1);
    } else {
      add(extent, 1 + below(std::max<std::int64_t>(1, extent)), 1 + below(2));
    }
  }
  std::vector<std::size_t> by_stride(grid.parts.size());
  std::iota(by_stride.begin(), by_stride.end(), std::size_t{0});
  std::shuffle(by_stride.begin(), by_stride.end(), random);
  grid.tile_stride.assign(grid.parts.size(), 1);
  std::int64_t stride = 1;
  for (const std::size_t d : by_stride) {
    grid.tile_stride[d] = stride;
    stride *= grid.parts[d];
  }
  grid.first_tile = static_cast<unsigned>(below(tiles));
  grid.num_tiles = static_cast<unsigned>(tiles);
  const Shape memory(stored.begin(), stored.end());
  const poplar::Tensor t = NewTensor(graph, type, memory, Mapping(grid), "cut");
  std::vector<unsigned> back(shape.size());
  for (unsigned d = 0; d < order.size(); ++d) back[order[d]] = d;
  return shape.empty() ? t : t.dimShuffle(back);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_RANDOM_WINDOWS_H_
