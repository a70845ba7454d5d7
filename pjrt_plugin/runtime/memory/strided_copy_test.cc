// Strided copies against element-by-element copies: random shapes, transposed, negative and zero strides.
#include "runtime/memory/strided_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"

namespace jax_ipu {
namespace {

using Shape = std::vector<std::int64_t>;

// Calls f(index) for every index of the shape.
template <typename F>
void ForEach(const Shape& shape, F&& f) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  Shape index(shape.size());
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t rest = k;
    for (std::size_t i = shape.size(); i-- > 0;) {
      index[i] = rest % shape[i];
      rest /= shape[i];
    }
    f(index);
  }
}
std::int64_t Offset(const Shape& index, const Strides& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
}

TEST(RandomViewsBecomeDense) {
  std::mt19937 random(1);
  const auto pick = [&random](int n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    const std::size_t element = std::size_t{1} << pick(5);
    const auto rank = static_cast<std::size_t>(pick(5));
    Shape shape(rank), order(rank);
    for (std::int64_t& d : shape) d = round % 50 == 0 ? 70 : 1 + pick(6);
    if (round % 50 == 0) shape.resize(std::min<std::size_t>(rank, 2)), order.resize(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    // A permuted array with gaps, some dimensions reversed, some repeated.
    Strides strides = LayoutStrides(shape, element, order.data());
    std::int64_t low = 0, high = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      strides[i] *= 2;
      if (pick(3) == 0) strides[i] = -strides[i];
      if (pick(6) == 0) strides[i] = 0;
      (strides[i] < 0 ? low : high) += strides[i] * (shape[i] - 1);
    }
    std::vector<unsigned char> source(static_cast<std::size_t>(high - low) + element);
    for (unsigned char& byte : source) byte = static_cast<unsigned char>(random());
    const unsigned char* from = source.data() - low;
    const Strides dense = DenseStrides(shape, element);
    std::size_t bytes = element;
    for (const std::int64_t d : shape) bytes *= static_cast<std::size_t>(d);
    std::vector<unsigned char> to(bytes);
    CopyStrided(to.data(), dense, from, strides, shape, element);
    bool same = true;
    ForEach(shape, [&](const Shape& index) {
      same =
          same && std::memcmp(to.data() + Offset(index, dense), from + Offset(index, strides), element) == 0;
    });
    CHECK(same);
    // And back, where the destination is strided.
    if (std::find(strides.begin(), strides.end(), 0) != strides.end()) continue;
    std::vector<unsigned char> back(source.size());
    CopyStrided(back.data() - low, strides, to.data(), dense, shape, element);
    ForEach(shape, [&](const Shape& index) {
      same = same && std::memcmp(back.data() - low + Offset(index, strides), to.data() + Offset(index, dense),
                                 element) == 0;
    });
    CHECK(same);
  }
}

TEST(DenseIsRecognised) {
  CHECK(IsDense({2, 3}, 4, {12, 4}));
  CHECK(!IsDense({2, 3}, 4, {4, 8}));
  CHECK(IsDense({1, 3}, 4, {-400, 4}));
  CHECK(IsDense({}, 4, {}));
  CHECK(IsDense({0, 3}, 4, {1, 1}));
  CHECK(!IsDense({3}, 4, {0}));
}

TEST(NothingIsCopiedOfAnEmptyArray) {
  CopyStrided(nullptr, {4, 4}, nullptr, {8, 8}, {0, 5}, 4);
  char to = 'a';
  const char from = 'b';
  CopyStrided(&to, {}, &from, {}, {}, 1);
  CHECK_EQ(to, 'b');
}

}  // namespace
}  // namespace jax_ipu
