// The offsets of windows, compared with one loop over all batch positions, and how long segments of rows are.
#include "kernels/index/indexed_window.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "check.h"

namespace ipu_model {
namespace {

using Shape = std::vector<std::int64_t>;

// Single elements of an operand whose first dimensions are a batch of the indices and of the result.
struct Case {
  Shape batch;    // all batch dimensions
  int shared;     // how many of them are the operand's first dimensions
  Shape operand;  // its dimensions after these, each with an index
  Shape operand_strides, index_strides, result_strides;  // of all dimensions; those of `batch` for the others
  std::int64_t segment;                                  // rows that have the form of Elements from row 0 on
};

HostTensor Tensor(const Shape& shape, const Shape& strides, DType type, void* data) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = static_cast<int>(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    t.shape[d] = shape[d];
    t.strides[d] = strides[d];
  }
  return t;
}

void CheckCase(const Case& c, bool clamp) {
  const auto batches = static_cast<int>(c.batch.size()), components = static_cast<int>(c.operand.size());
  Shape operand_shape(c.batch.begin(), c.batch.begin() + c.shared), index_shape = c.batch,
                                                                    index_strides = c.index_strides;
  operand_shape.insert(operand_shape.end(), c.operand.begin(), c.operand.end());
  index_shape.push_back(components);
  index_strides.push_back(1);
  WindowDims dims;
  WindowPlacement placement;
  for (int d = 0; d < c.shared; ++d) {
    dims.operand_batching_dims.push_back(d);
    dims.indices_batching_dims.push_back(d);
  }
  for (int d = c.shared; d < c.shared + components; ++d) {
    dims.collapsed_dims.push_back(d);
    dims.start_index_map.push_back(d);
    dims.wraps.push_back(d % 2 == 0 ? 2 : 0);
  }
  dims.index_vector_dim = batches;
  std::int64_t rows = 1, indices = components;
  for (std::size_t b = 0; b < c.batch.size(); ++b) {
    rows *= c.batch[b];
    indices += (c.batch[b] - 1) * c.index_strides[b];
  }
  for (std::size_t d = 0; d < operand_shape.size(); ++d) {
    placement.operand_dims[d] = operand_shape[d];
    placement.slice_sizes[d] = 1;
  }
  std::mt19937 random(3);
  std::vector<std::int32_t> index(static_cast<std::size_t>(indices));
  for (std::int32_t& i : index) i = static_cast<std::int32_t>(random() % 9) - 3;
  const HostTensor operand = Tensor(operand_shape, c.operand_strides, DType::kF32, nullptr);
  const HostTensor at = Tensor(index_shape, index_strides, DType::kS32, index.data());
  const HostTensor result = Tensor(c.batch, c.result_strides, DType::kF32, nullptr);
  const IndexedWindow window = IndexedWindow::Resolve(dims, operand.rank, at.rank, result.rank);
  const WindowRows walk(window, placement, operand, at, result);
  CHECK_EQ(walk.num_rows(), rows);

  Shape from, to;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t place = 0, source = 0, target = 0, rest = row;
    for (int b = batches; b-- > 0;) {
      const auto d = static_cast<std::size_t>(b);
      const std::int64_t position = rest % c.batch[d];
      rest /= c.batch[d];
      place += position * c.index_strides[d];
      target += position * c.result_strides[d];
      if (b < c.shared) source += position * c.operand_strides[d];
    }
    for (int k = 0; k < components; ++k) {
      const int d = c.shared + k;
      std::int64_t v = index[static_cast<std::size_t>(place + k)];
      v += v < 0 && d % 2 == 0 ? 2 : 0;
      const std::int64_t limit = c.operand[static_cast<std::size_t>(k)] - 1;
      if (!clamp && (v < 0 || v > limit)) source = WindowRows::kSkip;
      if (source != WindowRows::kSkip) source += std::clamp<std::int64_t>(v, 0, limit) * operand.strides[d];
    }
    from.push_back(source);
    to.push_back(target);
  }
  for (const auto& [begin, end] :
       {std::pair<std::int64_t, std::int64_t>{0, rows}, {rows / 3, rows}, {1, 2}}) {
    const std::int64_t n = std::min(end, rows) - std::min(begin, rows);
    if (n == 0) continue;
    Shape got_from(static_cast<std::size_t>(n)), got_to(static_cast<std::size_t>(n));
    walk.Offsets(begin, n, clamp, got_from.data(), got_to.data());
    CHECK(std::equal(got_from.begin(), got_from.end(), from.begin() + begin));
    CHECK(std::equal(got_to.begin(), got_to.end(), to.begin() + begin));
  }
  WindowRows::Elements elements;
  std::int64_t offset = 0;
  CHECK_EQ(walk.ElementSegment(0, rows, &elements, &offset), c.segment);
  if (!clamp || c.segment == 0) return;
  for (std::int64_t begin = 0; begin < rows;) {
    const std::int64_t n = walk.ElementSegment(begin, rows, &elements, &offset);
    CHECK(n > 0);
    std::int64_t seen = 0;
    elements.ForEach<std::int32_t, true>(0, n, [&](std::int64_t row, std::int64_t source) {
      CHECK_EQ(source, from[static_cast<std::size_t>(begin + row)]);
      CHECK_EQ(offset + row * elements.windows_step, to[static_cast<std::size_t>(begin + row)]);
      ++seen;
    });
    CHECK_EQ(seen, n);
    begin += n;
  }
}

TEST(RowsOfBatches) {
  const std::vector<Case> cases = {
      {{6, 5, 4}, 1, {7}, {7, 1}, {20, 4, 1}, {20, 4, 1}, 20},     // indices of each row of the batch
      {{6, 5, 4}, 1, {7}, {7, 1}, {0, 4, 1}, {20, 4, 1}, 20},      // the same for all
      {{6, 5, 4}, 1, {7}, {1, 6}, {20, 4, 1}, {1, 24, 6}, 20},     // of a transpose
      {{6, 5, 4}, 1, {7}, {7, 1}, {20, 4, 1}, {20, 1, 5}, 4},      // a result of which only rows are segments
      {{2, 3, 5}, 2, {7}, {21, 7, 1}, {15, 5, 1}, {15, 5, 1}, 5},  // a batch of two dimensions
      {{2, 3, 5}, 2, {7}, {30, 7, 1}, {15, 5, 1}, {15, 5, 1}, 5},  // with a gap
      {{6, 1, 1}, 1, {7}, {7, 1}, {1, 1, 1}, {1, 1, 1}, 0},        // one index for each
      {{5, 4}, 0, {7}, {1}, {4, 1}, {4, 1}, 20},                   // no batch
      {{5, 4}, 0, {7, 3}, {3, 1}, {8, 2}, {4, 1}, 0},              // two indices for each
      {{4, 5}, 1, {7, 3}, {21, 3, 1}, {10, 2}, {5, 1}, 0},         //
      {{4, 5, 3}, 1, {3, 2}, {6, 2, 1}, {30, 6, 2}, {15, 3, 1}, 0},  // of merged dimensions
      {{1, 1}, 1, {3}, {3, 1}, {1, 1}, {1, 1}, 0},                   // one row
  };
  for (const Case& c : cases)
    for (const bool clamp : {false, true}) CheckCase(c, clamp);
}

}  // namespace
}  // namespace ipu_model
