// Compares scatters of many windows, which threads share, with one loop over the rows: results are equal bit
// by bit, whatever the number of threads.
#include "kernels/index/scatter.h"

#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "testing/backward_pool.h"

namespace ipu_model {
namespace {

Expression Update(DType type, bool adds) {
  Expression e;
  e.inputs = {type, type};
  e.outputs = {1};
  if (adds) {
    Instruction code;
    code.op = ScalarOp::kAdd;
    code.operand_type = code.result_type = type;
    code.operand[0] = 0;
    code.operand[1] = 1;
    e.code.push_back(code);
    e.outputs = {2};
  }
  return e;
}

template <typename T>
HostTensor Tensor(DType type, const std::vector<std::int64_t>& shape, std::vector<T>* data) {
  HostTensor t;
  t.data = data->data();
  t.type = type;
  t.rank = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    t.shape[d] = shape[d];
    t.strides[d] = stride;
  }
  return t;
}

enum class Order { kRandom, kSorted, kOnePlace, kOutside };

// Scatters `rows` rows of `width` elements into `places` rows. `transposed`: updates and operand have their
// columns outermost.
void CheckRows(int threads, std::int64_t rows, std::int64_t places, std::int64_t width, Order order,
               bool adds, bool transposed) {
  std::mt19937 random(static_cast<unsigned>(rows + width));
  std::vector<float> operand(static_cast<std::size_t>(places * width)),
      updates(static_cast<std::size_t>(rows * width));
  for (float& v : operand) v = static_cast<float>(random()) / 1e9f;
  for (float& v : updates) v = static_cast<float>(random()) / 1e9f;
  std::vector<std::int32_t> index;
  for (std::int64_t r = 0; r < rows; ++r) {
    switch (order) {
      case Order::kRandom:
        index.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(places + 4)) - 2);
        break;
      case Order::kSorted:
        index.push_back(static_cast<std::int32_t>(r * places / rows));
        break;
      case Order::kOnePlace:
        index.push_back(static_cast<std::int32_t>(places - 1));
        break;
      case Order::kOutside:
        index.push_back(static_cast<std::int32_t>(places));
        break;
    }
  }
  HostTensor to = Tensor(DType::kF32, {places, width}, &operand);
  HostTensor from = Tensor(DType::kF32, {rows, width}, &updates);
  if (transposed) {
    to.strides[0] = from.strides[0] = 1;
    to.strides[1] = places;
    from.strides[1] = rows;
  }
  std::vector<float> expected = operand;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t place = index[static_cast<std::size_t>(r)];
    if (place < 0 || place >= places) continue;
    for (std::int64_t i = 0; i < width; ++i) {
      float& e = expected[static_cast<std::size_t>(place * to.strides[0] + i * to.strides[1])];
      const float u = updates[static_cast<std::size_t>(r * from.strides[0] + i * from.strides[1])];
      e = adds ? e + u : u;
    }
  }
  const HostTensor indices = Tensor(DType::kS32, {rows, 1}, &index);
  WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  const IndexedWindow window = IndexedWindow::Resolve(dims, 2, 2, 2);
  WindowPlacement placement;
  placement.operand_dims[0] = places;
  placement.operand_dims[1] = width;
  placement.slice_sizes[0] = 1;
  placement.slice_sizes[1] = width;
  BackwardPool pool(threads);
  Scratch scratch;
  HostContext context{pool, scratch};
  const ScatterKernel kernel(Update(DType::kF32, adds));
  kernel.Run(context, window, placement, false, &to, indices, &from, &to);
  CHECK(std::memcmp(operand.data(), expected.data(), operand.size() * sizeof(float)) == 0);
}

TEST(ThreadsShareRowsInOrder) {
  for (const int threads : {1, 2, 5}) {
    for (const Order order : {Order::kRandom, Order::kSorted, Order::kOnePlace, Order::kOutside}) {
      for (const bool adds : {false, true}) {
        CheckRows(threads, 9000, 301, 3, order, adds, false);
        CheckRows(threads, 9000, 301, 3, order, adds, true);
        CheckRows(threads, 700, 50, 40, order, adds, false);
        CheckRows(threads, 50, 7, 3000, order, adds, false);  // threads share every row
        CheckRows(threads, 50, 7, 3000, order, adds, true);
        CheckRows(threads, 70000, 1000, 1, order, adds, false);
      }
    }
    CheckRows(threads, 140000, 1000, 2, Order::kRandom, true, false);  // several lists one after the other
  }
}

}  // namespace
}  // namespace ipu_model
