// Blocks of views of every element size, copied to dense memory and back, against copies element by element.
#include "kernels/elementwise/block_order.h"

#include <cstring>
#include <random>
#include <vector>

#include "check.h"

namespace ipu_model {
namespace {

std::mt19937& Random() {
  static std::mt19937 random(7);
  return random;
}
std::int64_t From(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(Random());
}

// A tensor whose elements are the numbers of their bytes, and one of the same shape with dense rows.
struct Tensors {
  std::vector<unsigned char> memory, dense;
  HostTensor view, leader;
};

DType OfSize(std::int64_t size) {
  return size == 1   ? DType::kU8
         : size == 2 ? DType::kU16
         : size == 4 ? DType::kU32
         : size == 8 ? DType::kU64
                     : DType::kC128;
}

// Strides of 0 repeat elements.
Tensors MakeTensors(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                    std::int64_t size) {
  Tensors t;
  t.view.type = t.leader.type = OfSize(size);
  t.view.rank = t.leader.rank = static_cast<int>(shape.size());
  std::int64_t elements = 1, low = 0, high = 0;
  for (int d = t.view.rank - 1; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d);
    t.view.shape[d] = t.leader.shape[d] = shape[at];
    t.view.strides[d] = strides[at];
    t.leader.strides[d] = elements;
    elements *= shape[at];
    (strides[at] < 0 ? low : high) += (shape[at] - 1) * strides[at];
  }
  t.memory.resize(static_cast<std::size_t>((high - low + 1) * size));
  for (std::size_t i = 0; i < t.memory.size(); ++i)
    t.memory[i] = static_cast<unsigned char>(i * 167 + i / 251);
  t.dense.resize(static_cast<std::size_t>(elements * size));
  t.view.data = t.memory.data() - low * size;
  t.leader.data = t.dense.data();
  return t;
}

std::vector<unsigned char> Expected(const Tensors& t, std::int64_t size) {
  std::vector<unsigned char> result;
  const std::int64_t elements = t.leader.num_elements();
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = t.view.rank - 1; d >= 0; --d) {
      at += rest % t.view.shape[d] * t.view.strides[d];
      rest /= t.view.shape[d];
    }
    const auto* element = static_cast<const unsigned char*>(t.view.data) + at * size;
    result.insert(result.end(), element, element + size);
  }
  return result;
}

// The whole view, block by block. Rows and short rows are consecutive in dense memory.
void CheckGather(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                 std::int64_t size, std::int64_t block_elements) {
  const Tensors t = MakeTensors(shape, strides, size);
  Walk walks[2];
  const HostTensor* tensors[] = {&t.view, &t.leader};
  const BlockOrder order = MakeBlockOrder(tensors, 2, 1, block_elements, 256, walks);
  std::vector<unsigned char> got(t.dense.size());
  for (std::int64_t b = 0; b < order.num_blocks(); ++b) {
    const Block block = order.At(b);
    std::vector<unsigned char> copied(static_cast<std::size_t>(block.count() * size));
    GatherBlock(order, walks[0], block, copied.data());
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const auto bytes = static_cast<std::size_t>(block.length * size);
      const std::int64_t at = (block.row + r) * order.row_length + block.begin;
      std::memcpy(got.data() + at * size, copied.data() + static_cast<std::size_t>(r) * bytes, bytes);
    }
  }
  if (order.kind != BlockOrder::Kind::kTiles) CHECK(got == Expected(t, size));
}

TEST(SmallTilesOfNearElements) {
  for (const std::int64_t size : {1, 2, 4, 8, 16}) {
    for (const std::int64_t block : {256, 300, 2048}) {
      CheckGather({1000, 3, 3}, {3, 1, 0}, size, block);
      CheckGather({1000, 3, 3}, {3, 0, 1}, size, block);
      CheckGather({1001, 4, 4}, {-4, 0, 1}, size, block);
      CheckGather({500, 5, 3}, {3, 0, 1}, size, block);
      CheckGather({20, 30, 2, 2, 2}, {60, 2, 1, 0, 1}, size, block);
      CheckGather({7, 9, 8, 8}, {0, 8, 1, 0}, size, block);
      CheckGather({300, 3, 3}, {0, 3, 1}, size, block);
      CheckGather({2, 3, 3}, {3, 1, 0}, size, block);
    }
  }
}

TEST(AnyStrides) {
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t rank = From(1, 4);
    std::vector<std::int64_t> shape, strides;
    for (std::int64_t d = 0; d < rank; ++d) {
      shape.push_back(From(1, From(0, 3) == 0 ? 40 : 5));
      strides.push_back(From(0, 2) == 0 ? 0 : From(-9, 20));
    }
    CheckGather(shape, strides, std::int64_t{1} << From(0, 4), From(256, 600));
  }
}

}  // namespace
}  // namespace ipu_model
