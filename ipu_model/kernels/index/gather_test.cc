// Compares gathers along each dimension of an operand with one loop over the result's elements, for all
// layouts of both.
#include "kernels/index/gather.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"
#include "testing/backward_pool.h"

namespace ipu_model {
namespace {

struct Bytes16 {
  std::uint64_t low, high;
  bool operator==(const Bytes16& other) const { return low == other.low && high == other.high; }
};

using Shape = std::vector<std::int64_t>;

// `order`: the dimensions from the outermost in memory.
HostTensor Tensor(DType type, const Shape& shape, const std::vector<int>& order, void* data) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = order.size(); d-- > 0;) {
    const int dim = order[d];
    t.shape[dim] = shape[static_cast<std::size_t>(dim)];
    t.strides[dim] = stride;
    stride *= t.shape[dim];
  }
  return t;
}

std::int64_t Product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// result[.., r, ..] = operand[.., clamp(index[r]), ..] along dimension `dim`.
template <typename T, typename I>
void CheckTake(DType type, DType index_type, const Shape& shape, int dim, std::int64_t n,
               const std::vector<int>& order, const std::vector<int>& result_order) {
  std::mt19937_64 random(7);
  const auto axis = static_cast<std::size_t>(dim);
  Shape result_shape = shape;
  result_shape[axis] = n;
  std::vector<T> operand(static_cast<std::size_t>(Product(shape))),
      result(static_cast<std::size_t>(Product(result_shape)));
  for (T& value : operand) {
    const std::uint64_t bits[2] = {random(), random()};
    std::memcpy(&value, bits, sizeof(T));
  }
  std::vector<I> index;
  for (std::int64_t i = 0; i < n; ++i) {
    index.push_back(static_cast<I>(random() % static_cast<std::uint64_t>(shape[axis] + 2)) - 1);
  }
  const HostTensor from = Tensor(type, shape, order, operand.data());
  const HostTensor to = Tensor(type, result_shape, result_order, result.data());
  const HostTensor indices = Tensor(index_type, {n, 1}, {0, 1}, index.data());
  WindowDims dims;
  WindowPlacement placement;
  for (int d = 0; d < from.rank; ++d) {
    if (d != dim) dims.offset_dims.push_back(d);
    placement.operand_dims[d] = shape[static_cast<std::size_t>(d)];
    placement.slice_sizes[d] = d == dim ? 1 : placement.operand_dims[d];
  }
  dims.collapsed_dims = {dim};
  dims.start_index_map = {dim};
  dims.index_vector_dim = 1;
  const IndexedWindow window = IndexedWindow::Resolve(dims, from.rank, 2, from.rank);
  BackwardPool pool(3);
  Scratch scratch;
  HostContext context{pool, scratch};
  Gather(context, window, placement, from, indices, to);
  std::int64_t position[kMaxRank] = {};
  for (std::size_t count = 0; count < result.size(); ++count) {
    std::int64_t source = 0, target = 0;
    for (int d = 0; d < from.rank; ++d) {
      std::int64_t at = position[d];
      target += at * to.strides[d];
      if (d == dim) at = std::clamp<std::int64_t>(index[static_cast<std::size_t>(at)], 0, shape[axis] - 1);
      source += at * from.strides[d];
    }
    CHECK(result[static_cast<std::size_t>(target)] == operand[static_cast<std::size_t>(source)]);
    for (int d = from.rank - 1; d >= 0 && ++position[d] == to.shape[d]; --d) position[d] = 0;
  }
}

// result[b, j] = operand[b, clamp(index[b, j])] for a [rows, columns] operand: the rows are a batch.
template <typename T>
void CheckTakeAlong(DType type, std::int64_t rows, std::int64_t columns, std::int64_t n,
                    const std::vector<int>& order) {
  std::mt19937_64 random(7);
  std::vector<T> operand(static_cast<std::size_t>(rows * columns)),
      result(static_cast<std::size_t>(rows * n));
  for (T& value : operand) {
    const std::uint64_t bits[2] = {random(), random()};
    std::memcpy(&value, bits, sizeof(T));
  }
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < rows * n; ++i) {
    index.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(columns + 2)) - 1);
  }
  const HostTensor from = Tensor(type, {rows, columns}, order, operand.data());
  const HostTensor to = Tensor(type, {rows, n}, order, result.data());
  const HostTensor indices = Tensor(DType::kS32, {rows, n, 1}, {0, 1, 2}, index.data());
  WindowDims dims;
  dims.collapsed_dims = {1};
  dims.operand_batching_dims = {0};
  dims.indices_batching_dims = {0};
  dims.start_index_map = {1};
  dims.index_vector_dim = 2;
  const IndexedWindow window = IndexedWindow::Resolve(dims, 2, 3, 2);
  WindowPlacement placement;
  placement.operand_dims[0] = rows;
  placement.operand_dims[1] = columns;
  placement.slice_sizes[0] = placement.slice_sizes[1] = 1;
  BackwardPool pool(3);
  Scratch scratch;
  HostContext context{pool, scratch};
  Gather(context, window, placement, from, indices, to);
  for (std::int64_t b = 0; b < rows; ++b) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at =
          std::clamp<std::int64_t>(index[static_cast<std::size_t>(b * n + j)], 0, columns - 1);
      CHECK(result[static_cast<std::size_t>(b * to.strides[0] + j * to.strides[1])] ==
            operand[static_cast<std::size_t>(b * from.strides[0] + at * from.strides[1])]);
    }
  }
}

// result[i] = operand[clamp(index[i, 0]), clamp(index[i, 1])], with a wrap for negative indices if they have
// signs.
template <typename T, typename I>
void CheckPairs(DType type, DType index_type, std::int64_t n, const std::vector<int>& order,
                const std::vector<int>& index_order) {
  constexpr std::int64_t kShape[] = {30, 41};
  std::mt19937_64 random(7);
  std::vector<T> operand(static_cast<std::size_t>(kShape[0] * kShape[1])),
      result(static_cast<std::size_t>(n));
  for (T& value : operand) {
    const std::uint64_t bits[2] = {random(), random()};
    std::memcpy(&value, bits, sizeof(T));
  }
  std::vector<I> index;
  for (std::int64_t i = 0; i < 2 * n; ++i)
    index.push_back(random() % 9 == 0 ? static_cast<I>(random()) : static_cast<I>(random() % 60) - 15);
  const HostTensor from = Tensor(type, {kShape[0], kShape[1]}, order, operand.data());
  const HostTensor indices = Tensor(index_type, {n, 2}, index_order, index.data());
  WindowDims dims;
  WindowPlacement placement;
  dims.collapsed_dims = dims.start_index_map = {0, 1};
  dims.index_vector_dim = 1;
  if (std::is_signed_v<I>) dims.wraps = {kShape[0], kShape[1]};
  for (int d = 0; d < 2; ++d) {
    placement.operand_dims[d] = kShape[d];
    placement.slice_sizes[d] = 1;
  }
  BackwardPool pool(3);
  Scratch scratch;
  HostContext context{pool, scratch};
  Gather(context, IndexedWindow::Resolve(dims, 2, 2, 1), placement, from, indices,
         Tensor(type, {n}, {0}, result.data()));
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t source = 0;
    for (int d = 0; d < 2; ++d) {
      auto at = static_cast<std::int64_t>(
          index[static_cast<std::size_t>(i * indices.strides[0] + d * indices.strides[1])]);
      if (at < 0) at += kShape[d];
      source += std::clamp<std::int64_t>(at, 0, kShape[d] - 1) * from.strides[d];
    }
    CHECK(result[static_cast<std::size_t>(i)] == operand[static_cast<std::size_t>(source)]);
  }
}

template <typename T>
void CheckType(DType type) {
  struct Case {
    Shape shape;
    std::int64_t n;
  };
  for (const auto& [shape, n] : {Case{{5, 7, 6}, 9}, Case{{60, 4, 11}, 3}, Case{{90, 20, 16}, 16},
                                 Case{{2, 3, 40}, 5000}, Case{{3, 70, 2}, 0}, Case{{4, 1, 5}, 1}}) {
    for (int dim = 0; dim < 3; ++dim) {
      CheckTake<T, std::int32_t>(type, DType::kS32, shape, dim, n, {0, 1, 2}, {0, 1, 2});
      CheckTake<T, std::int64_t>(type, DType::kS64, shape, dim, n, {0, 1, 2}, {0, 1, 2});
      CheckTake<T, std::uint32_t>(type, DType::kU32, shape, dim, n, {0, 1, 2}, {0, 1, 2});
      CheckTake<T, std::uint8_t>(type, DType::kU8, shape, dim, n, {0, 1, 2}, {0, 1, 2});
      CheckTake<T, std::int16_t>(type, DType::kS16, shape, dim, n, {0, 1, 2}, {0, 1, 2});
      CheckTake<T, std::int32_t>(type, DType::kS32, shape, dim, n, {2, 0, 1}, {0, 1, 2});
      CheckTake<T, std::int32_t>(type, DType::kS32, shape, dim, n, {0, 1, 2}, {2, 1, 0});
      CheckTake<T, std::int32_t>(type, DType::kS32, shape, dim, n, {1, 2, 0}, {1, 2, 0});
    }
  }
  for (const std::vector<int>& order : {std::vector{0, 1}, std::vector{1, 0}}) {
    for (const std::int64_t n : {0, 1, 5, 40}) {
      CheckTakeAlong<T>(type, 3, 50, n, order);
      CheckTakeAlong<T>(type, 5000, 7, n, order);
    }
    CheckTakeAlong<T>(type, 1, 50, 1000, order);
    CheckTakeAlong<T>(type, 2000, 1, 3, order);
    for (const std::vector<int>& index_order : {std::vector{0, 1}, std::vector{1, 0}}) {
      for (const std::int64_t n : {31, 32, 45, 3000}) {
        CheckPairs<T, std::int32_t>(type, DType::kS32, n, order, index_order);
        CheckPairs<T, std::uint32_t>(type, DType::kU32, n, order, index_order);
        CheckPairs<T, std::int64_t>(type, DType::kS64, n, order, index_order);
      }
    }
  }
}

TEST(Bytes) { CheckType<std::uint8_t>(DType::kPred); }
TEST(HalfWords) { CheckType<std::uint16_t>(DType::kF16); }
TEST(Words) { CheckType<std::uint32_t>(DType::kF32); }
TEST(DoubleWords) { CheckType<std::uint64_t>(DType::kC64); }
TEST(PairsOfDoubleWords) { CheckType<Bytes16>(DType::kC128); }

}  // namespace
}  // namespace ipu_model
