// Tests the reduction kernel: compares all paths with plain loops; partials, NaN and ties of argmax, any
// body.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "kernels/vector/convert.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

HostTensor Tensor(void* data, DType type, const std::vector<std::int64_t>& shape,
                  std::vector<int> order = {}) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = static_cast<int>(shape.size());
  if (order.empty())
    for (int d = 0; d < t.rank; ++d) order.push_back(d);
  std::int64_t stride = 1;
  for (int k = t.rank - 1; k >= 0; --k) {
    const int d = order[static_cast<std::size_t>(k)];
    t.shape[d] = shape[static_cast<std::size_t>(d)];
    t.strides[d] = stride;
    stride *= t.shape[d];
  }
  return t;
}
std::vector<std::int64_t> Kept(const std::vector<std::int64_t>& shape, std::uint32_t mask) {
  std::vector<std::int64_t> kept;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if ((mask >> d & 1) == 0) kept.push_back(shape[d]);
  return kept;
}
std::int64_t Count(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}
// Calls f(offset in the tensor, index of the result) for every element in row-major order.
template <typename F>
void ForEach(const HostTensor& t, std::uint32_t mask, F&& f) {
  for (std::int64_t i = 0; i < t.num_elements(); ++i) {
    std::int64_t rest = i, offset = 0, result = 0, scale = 1;
    for (int d = t.rank - 1; d >= 0; --d) {
      const std::int64_t index = rest % t.shape[d];
      rest /= t.shape[d];
      offset += index * t.strides[d];
      if ((mask >> d & 1) != 0) continue;
      result += index * scale;
      scale *= t.shape[d];
    }
    f(offset, result);
  }
}

struct Context {
  Scratch scratch;
  HostContext host{ThreadPool::Global(), scratch};
};

TEST(SumsAndExtremesOfAnyShape) {
  std::mt19937 random(4);
  const std::vector<std::vector<std::int64_t>> shapes = {
      {1},      {7},          {300000},        {40, 1000},  {1000, 40},  {5000, 3},    {3, 5000},
      {100, 7}, {13, 17, 19}, {2, 3, 4, 5, 6}, {70, 1, 90}, {30, 5, 70}, {6, 50, 4, 9}};
  const std::vector<std::int64_t>* previous = nullptr;
  for (const auto& shape : shapes) {
    for (int round = 0; round < 6; ++round) {
      std::vector<int> order;
      for (std::size_t d = 0; d < shape.size(); ++d) order.push_back(static_cast<int>(d));
      if (previous == &shape) std::shuffle(order.begin(), order.end(), random);
      previous = &shape;
      const std::uint32_t mask = random() % (1u << shape.size());
      // Integers, so that every order of additions gives the same sum in f32.
      std::vector<float> values(static_cast<std::size_t>(Count(shape)));
      for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 15) - 7);
      const HostTensor in = Tensor(values.data(), DType::kF32, shape, order);
      const auto kept = Kept(shape, mask);
      std::vector<float> sum(static_cast<std::size_t>(Count(kept)), 5), largest(sum.size(), -3),
          got(sum.size());
      ForEach(in, mask, [&](std::int64_t offset, std::int64_t result) {
        const float v = values[static_cast<std::size_t>(offset)];
        sum[static_cast<std::size_t>(result)] += v;
        largest[static_cast<std::size_t>(result)] = std::max(largest[static_cast<std::size_t>(result)], v);
      });
      const HostTensor out = Tensor(got.data(), DType::kF32, kept);
      Context context;
      float start = 5;
      HostTensor init = Tensor(&start, DType::kF32, {});
      ReduceKernel(BinaryBody(ScalarOp::kAdd, DType::kF32)).Run(context.host, &in, &init, mask, &out);
      CHECK(got == sum);
      start = -3;
      ReduceKernel(BinaryBody(ScalarOp::kMaximum, DType::kF32)).Run(context.host, &in, &init, mask, &out);
      CHECK(got == largest);
    }
  }
}

TEST(RowsInSeveralDimensions) {
  std::mt19937 random(7);
  for (const std::int64_t length : {1, 3, 40, 63, 64, 65, 130, 900}) {
    const std::vector<std::int64_t> shape = {7, 3, 5, length};
    std::vector<float> values(static_cast<std::size_t>(Count(shape)));
    for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 15) - 7);
    const HostTensor in = Tensor(values.data(), DType::kF32, shape);
    for (const std::uint32_t mask : {0b1101u, 0b1100u, 0b1001u, 0b1011u}) {
      const auto kept = Kept(shape, mask);
      std::vector<float> sum(static_cast<std::size_t>(Count(kept))), least(sum.size(), 9), got(sum.size());
      ForEach(in, mask, [&](std::int64_t offset, std::int64_t result) {
        const float v = values[static_cast<std::size_t>(offset)];
        sum[static_cast<std::size_t>(result)] += v;
        least[static_cast<std::size_t>(result)] = std::min(least[static_cast<std::size_t>(result)], v);
      });
      const HostTensor out = Tensor(got.data(), DType::kF32, kept);
      Context context;
      float start = 0;
      const HostTensor init = Tensor(&start, DType::kF32, {});
      ReduceKernel(BinaryBody(ScalarOp::kAdd, DType::kF32)).Run(context.host, &in, &init, mask, &out);
      CHECK(got == sum);
      start = 9;
      ReduceKernel(BinaryBody(ScalarOp::kMinimum, DType::kF32)).Run(context.host, &in, &init, mask, &out);
      CHECK(got == least);
    }
  }
}

// Rows are combined several at a time, for all widths around those of vectors and of the buffers.
TEST(ColumnsOfAnyWidthKeepTheOrderOfRows) {
  std::mt19937 random(21);
  for (const DType type : {DType::kF32, DType::kF16, DType::kF64, DType::kS32, DType::kS8}) {
    for (const std::int64_t columns :
         {1, 3, 16, 31, 63, 64, 65, 100, 127, 128, 257, 1023, 1024, 1025, 2500}) {
      for (const std::int64_t rows : {1, 2, 7, 8, 9, 33, 511, 513, 1100}) {
        if (rows * columns > 600000) continue;
        // Columns with a gap after each row, and every second column.
        const std::int64_t step = random() % 3 == 0 ? 2 : 1, row_stride = columns * step + (random() % 2) * 5;
        const std::size_t size = SizeOf(type);
        std::vector<unsigned char> memory(static_cast<std::size_t>(rows * row_stride) * size);
        std::vector<double> sum(static_cast<std::size_t>(columns), 0);
        HostTensor in = Tensor(memory.data(), type, {rows, columns});
        in.strides[0] = row_stride;
        in.strides[1] = step;
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < columns; ++c) {
            // Small enough that no sum wraps or rounds.
            const int value =
                type == DType::kS8 ? (random() % 64 == 0 ? 1 : 0) : static_cast<int>(random() % 3) - 1;
            unsigned char* at = memory.data() + static_cast<std::size_t>(r * row_stride + c * step) * size;
            const float f = static_cast<float>(value);
            const double d = value;
            const std::uint16_t h = F32ToF16(f);
            const auto s = static_cast<std::int8_t>(value);
            const void* from = &value;
            if (type == DType::kF32) from = &f;
            if (type == DType::kF64) from = &d;
            if (type == DType::kF16) from = &h;
            if (type == DType::kS8) from = &s;
            std::memcpy(at, from, size);
            sum[static_cast<std::size_t>(c)] += value;
          }
        }
        std::vector<unsigned char> got(static_cast<std::size_t>(columns) * size), zero(size);
        const HostTensor out = Tensor(got.data(), type, {columns}), init = Tensor(zero.data(), type, {});
        Context context;
        ReduceKernel(BinaryBody(ScalarOp::kAdd, type)).Run(context.host, &in, &init, 1, &out);
        std::size_t wrong = 0;
        for (std::size_t c = 0; c < sum.size(); ++c) {
          const unsigned char* at = got.data() + c * size;
          double value = 0;
          if (type == DType::kF32) value = *reinterpret_cast<const float*>(at);
          if (type == DType::kF64) value = *reinterpret_cast<const double*>(at);
          if (type == DType::kF16) value = F16ToF32(*reinterpret_cast<const std::uint16_t*>(at));
          if (type == DType::kS32) value = *reinterpret_cast<const std::int32_t*>(at);
          if (type == DType::kS8) value = *reinterpret_cast<const std::int8_t*>(at);
          wrong += value != sum[c] ? 1 : 0;
        }
        CHECK_EQ(wrong, std::size_t{0});
      }
    }
  }
}

// A float sum of columns of random values has the bits of the plain loop: 512 rows at a time.
TEST(ColumnSumsAddRowsInOrder) {
  std::mt19937 random(22);
  std::normal_distribution<float> normal;
  const std::int64_t rows = 500, columns = 96;
  std::vector<float> values(static_cast<std::size_t>(rows * columns)), got(static_cast<std::size_t>(columns));
  for (float& v : values) v = normal(random);
  std::vector<float> expected(values.begin(), values.begin() + columns);
  for (std::int64_t i = columns; i < rows * columns; ++i)
    expected[static_cast<std::size_t>(i % columns)] += values[static_cast<std::size_t>(i)];
  const HostTensor in = Tensor(values.data(), DType::kF32, {rows, columns});
  const HostTensor out = Tensor(got.data(), DType::kF32, {columns});
  Context context;
  ReduceKernel(BinaryBody(ScalarOp::kAdd, DType::kF32)).Run(context.host, &in, nullptr, 1, &out);
  CHECK(got == expected);
}

// NaN wins; +0 is larger than -0.
float BetterOf(bool largest, float a, float b) {
  if (a != a || b != b) return kNan;
  if (a == b) return std::signbit(a) == largest ? b : a;
  return (largest ? a > b : a < b) ? a : b;
}
TEST(ExtremesOfRowsKnowNanZerosAndInfinities) {
  std::mt19937 random(12);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t length : {33, 63, 64, 65, 127, 128, 200, 1000, 4095, 9000}) {
    for (const int kinds : {1, 2, 3, 4, 6}) {  // kinds of values: rows of only zeros up to all kinds
      const std::int64_t rows = 20;
      std::vector<float> values(static_cast<std::size_t>(rows * length));
      for (float& v : values) {
        const float number = std::ldexp(static_cast<float>(random() % 1000 + 1), -3);
        const float choices[] = {-0.0f, number * (kinds > 3 ? 1.0f : -1.0f), -kInfinity, -number, kInfinity,
                                 kNan};
        const bool rare = random() % 300 == 0;
        v = rare && random() % 2 == 0 ? 0.0f
                                      : choices[rare        ? random() % static_cast<unsigned>(kinds)
                                                : kinds > 1 ? 1
                                                            : 0];
      }
      const HostTensor in = Tensor(values.data(), DType::kF32, {rows, length});
      for (const bool largest : {true, false}) {
        std::vector<float> expected(static_cast<std::size_t>(rows)), got(expected.size());
        for (std::size_t r = 0; r < expected.size(); ++r) {
          const float* row = values.data() + r * static_cast<std::size_t>(length);
          expected[r] = *row;
          for (std::int64_t i = 1; i < length; ++i) expected[r] = BetterOf(largest, expected[r], row[i]);
        }
        const HostTensor out = Tensor(got.data(), DType::kF32, {rows});
        Context context;
        const ScalarOp op = largest ? ScalarOp::kMaximum : ScalarOp::kMinimum;
        ReduceKernel(BinaryBody(op, DType::kF32)).Run(context.host, &in, nullptr, 2, &out);
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < expected.size(); ++r) {
          const bool both_nan = std::isnan(got[r]) && std::isnan(expected[r]);
          wrong += !both_nan && BitsOf(got[r]) != BitsOf(expected[r]) ? 1 : 0;
        }
        CHECK_EQ(wrong, std::size_t{0});
      }
    }
  }
}

TEST(LongSumsStayAccurate) {
  // A single chain of f32 additions would stop growing near 2^24.
  const std::int64_t n = 40000000;
  float one = 1, zero = 0, total = 0;
  HostTensor in = Tensor(&one, DType::kF32, {n});
  in.strides[0] = 0;
  const HostTensor init = Tensor(&zero, DType::kF32, {}), out = Tensor(&total, DType::kF32, {});
  Context context;
  ReduceKernel(BinaryBody(ScalarOp::kAdd, DType::kF32)).Run(context.host, &in, &init, 1, &out);
  CHECK_EQ(total, 4e7f);
}

TEST(NarrowTypes) {
  Context context;
  std::vector<std::uint16_t> halves(5000, F32ToF16(1.0f));
  std::uint16_t half_init = F32ToF16(0.0f), half_total = 0;
  const HostTensor h = Tensor(halves.data(), DType::kF16, {5000}), hi = Tensor(&half_init, DType::kF16, {});
  const HostTensor ho = Tensor(&half_total, DType::kF16, {});
  const ReduceKernel sum(BinaryBody(ScalarOp::kAdd, DType::kF16));
  CHECK(sum.PartialType(0) == DType::kF32);
  sum.Run(context.host, &h, &hi, 1, &ho);
  CHECK_EQ(F16ToF32(half_total), 5000.0f);

  std::vector<std::int8_t> nibbles = {7, 7, 7, -8};  // 13 is -3 modulo 16
  std::int8_t nibble_init = 0, nibble_total = 0;
  const HostTensor b = Tensor(nibbles.data(), DType::kS4, {4}), bi = Tensor(&nibble_init, DType::kS4, {});
  const HostTensor bo = Tensor(&nibble_total, DType::kS4, {});
  ReduceKernel(BinaryBody(ScalarOp::kAdd, DType::kS4)).Run(context.host, &b, &bi, 1, &bo);
  CHECK_EQ(static_cast<int>(nibble_total), -3);

  std::vector<std::uint8_t> bits = {1, 1, 0, 1, 1, 1};
  std::uint8_t yes = 1, result[2];
  const HostTensor p = Tensor(bits.data(), DType::kPred, {2, 3}), pi = Tensor(&yes, DType::kPred, {});
  const HostTensor po = Tensor(result, DType::kPred, {2});
  ReduceKernel(BinaryBody(ScalarOp::kAnd, DType::kPred)).Run(context.host, &p, &pi, 2, &po);
  CHECK(result[0] == 0 && result[1] == 1);
}

TEST(PartialsCombineToTheSame) {
  Context context;
  std::vector<std::uint16_t> values(64 * 30);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = F32ToF16(static_cast<float>(i % 13));
  const ReduceKernel sum(BinaryBody(ScalarOp::kAdd, DType::kF16));
  std::uint16_t start = F32ToF16(2.0f);
  const HostTensor init = Tensor(&start, DType::kF16, {});
  std::vector<std::uint16_t> whole(30), combined(30);
  HostTensor in = Tensor(values.data(), DType::kF16, {64, 30}), out = Tensor(whole.data(), DType::kF16, {30});
  sum.Run(context.host, &in, &init, 1, &out);
  std::vector<float> partials(4 * 30);
  for (int part = 0; part < 4; ++part) {
    const HostTensor piece = Tensor(values.data() + part * 16 * 30, DType::kF16, {16, 30});
    const HostTensor place = Tensor(partials.data() + part * 30, DType::kF32, {30});
    sum.Run(context.host, &piece, nullptr, 1, &place);
  }
  in = Tensor(partials.data(), DType::kF32, {4, 30});
  out = Tensor(combined.data(), DType::kF16, {30});
  sum.RunOnPartials(context.host, &in, &init, 1, &out);
  CHECK(whole == combined);
}

void CheckArgument(bool largest, const std::vector<std::int64_t>& shape, const std::vector<int>& order,
                   std::uint32_t mask, std::mt19937& random) {
  const auto n = static_cast<std::size_t>(Count(shape));
  std::vector<float> values(n);
  std::vector<std::int32_t> indices(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(random() % 9);
    indices[i] = static_cast<std::int32_t>(random() % 1000);
    if (random() % 1000 == 0) values[i] = kNan;
  }
  const HostTensor in[2] = {Tensor(values.data(), DType::kF32, shape, order),
                            Tensor(indices.data(), DType::kS32, shape, order)};
  float worst = largest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  std::int32_t zero = 0;
  const HostTensor inits[2] = {Tensor(&worst, DType::kF32, {}), Tensor(&zero, DType::kS32, {})};
  const auto kept = Kept(shape, mask);
  const auto results = static_cast<std::size_t>(Count(kept));
  std::vector<float> best(results, worst), got_value(results);
  std::vector<std::int32_t> best_index(results, 0), got_index(results);
  ForEach(in[0], mask, [&](std::int64_t offset, std::int64_t result) {
    float& x = best[static_cast<std::size_t>(result)];
    std::int32_t& xi = best_index[static_cast<std::size_t>(result)];
    const float y = values[static_cast<std::size_t>(offset)];
    const std::int32_t yi = indices[static_cast<std::size_t>(offset)];
    const bool keep = (largest ? x > y : x < y) || x != x;
    if (!keep && !(x == y && xi < yi)) xi = yi;
    if (!keep) x = y;
  });
  const HostTensor out[2] = {Tensor(got_value.data(), DType::kF32, kept),
                             Tensor(got_index.data(), DType::kS32, kept)};
  Context context;
  ReduceKernel(BestAndPlace(largest, DType::kF32)).Run(context.host, in, inits, mask, out);
  CHECK(got_index == best_index);
  bool same = true;
  for (std::size_t i = 0; i < results; ++i)
    same = same && (got_value[i] == best[i] || (std::isnan(got_value[i]) && std::isnan(best[i])));
  CHECK(same);
}
TEST(ArgMaxAndArgMinFollowJax) {
  std::mt19937 random(8);
  for (const bool largest : {true, false}) {
    CheckArgument(largest, {200000}, {}, 1, random);
    CheckArgument(largest, {50, 700}, {}, 2, random);
    CheckArgument(largest, {50, 700}, {}, 1, random);
    CheckArgument(largest, {50, 700}, {1, 0}, 1, random);
    CheckArgument(largest, {3000, 10}, {}, 2, random);
    for (const std::int64_t length : {8, 13, 16, 31, 33, 64, 72})
      CheckArgument(largest, {400, length}, {}, 2, random);
    CheckArgument(largest, {7, 8, 9}, {2, 0, 1}, 5, random);
    CheckArgument(largest, {7, 8, 9}, {}, 0, random);
  }
}

TEST(AnyBodyKeepsTheOrder) {
  // (a, b) . (c, d) = (a c, b c + d), the composition of affine maps: associative but not commutative.
  const DType s = DType::kS32;
  Expression e;
  e.inputs.assign(4, s);
  e.code = {Op(ScalarOp::kMultiply, s, s, 0, 2), Op(ScalarOp::kMultiply, s, s, 1, 2),
            Op(ScalarOp::kAdd, s, s, 5, 3)};
  e.outputs = {4, 6};
  std::mt19937 random(6);
  for (const auto& shape :
       std::vector<std::vector<std::int64_t>>{{1000}, {37, 5}, {5, 37}, {3, 400}, {400, 301}}) {
    for (std::uint32_t mask = 0; mask < (1u << shape.size()); ++mask) {
      const auto n = static_cast<std::size_t>(Count(shape));
      std::vector<std::int32_t> a(n), b(n);
      for (std::size_t i = 0; i < n; ++i) {
        a[i] = static_cast<std::int32_t>(random());
        b[i] = static_cast<std::int32_t>(random());
      }
      const HostTensor in[2] = {Tensor(a.data(), s, shape), Tensor(b.data(), s, shape)};
      std::int32_t one = 1, seven = 7;
      const HostTensor inits[2] = {Tensor(&one, s, {}), Tensor(&seven, s, {})};
      const auto kept = Kept(shape, mask);
      const auto results = static_cast<std::size_t>(Count(kept));
      std::vector<std::uint32_t> x(results, 1), y(results, 7), got_x(results), got_y(results);
      ForEach(in[0], mask, [&](std::int64_t offset, std::int64_t result) {
        const auto i = static_cast<std::size_t>(offset), r = static_cast<std::size_t>(result);
        const auto c = static_cast<std::uint32_t>(a[i]), d = static_cast<std::uint32_t>(b[i]);
        y[r] = y[r] * c + d;
        x[r] *= c;
      });
      const HostTensor out[2] = {Tensor(got_x.data(), s, kept), Tensor(got_y.data(), s, kept)};
      Context context;
      ReduceKernel(e).Run(context.host, in, inits, mask, out);
      CHECK(got_x == x);
      CHECK(got_y == y);
    }
  }
}

// Results of values that are broadcast along some dimensions are those of a dense copy.
TEST(BroadcastValues) {
  const std::vector<std::int64_t> shape = {3, 5, 4, 6};
  const auto count = static_cast<std::size_t>(Count(shape));
  std::mt19937 random(3);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random() % 40);
  std::vector<std::int32_t> places(count);
  for (std::size_t i = 0; i < count; ++i) places[i] = static_cast<std::int32_t>(i % 6);
  // A sum, an argmax, and a body that is neither.
  const ReduceKernel kernels[] = {ReduceKernel(BinaryBody(ScalarOp::kAdd, DType::kF32)),
                                  ReduceKernel(BestAndPlace(true, DType::kF32)),
                                  ReduceKernel(BinaryBody(ScalarOp::kSubtract, DType::kF32))};
  for (std::uint32_t broadcast = 1; broadcast < 16; ++broadcast) {
    HostTensor in[] = {Tensor(values.data(), DType::kF32, shape), Tensor(places.data(), DType::kS32, shape)};
    std::vector<float> copy;
    std::vector<std::int32_t> places_copy;
    for (int d = 0; d < 4; ++d) {
      for (HostTensor& t : in) t.strides[d] = (broadcast >> d & 1) != 0 ? 0 : t.strides[d];
    }
    ForEach(in[0], 0, [&](std::int64_t offset, std::int64_t) {
      copy.push_back(values[static_cast<std::size_t>(offset)]);
      places_copy.push_back(places[static_cast<std::size_t>(offset)]);
    });
    const HostTensor dense[] = {Tensor(copy.data(), DType::kF32, shape),
                                Tensor(places_copy.data(), DType::kS32, shape)};
    for (std::uint32_t mask = 0; mask < 16; ++mask) {
      const auto kept = Kept(shape, mask);
      float start = 1;
      std::int32_t start_place = 0;
      const HostTensor init[] = {Tensor(&start, DType::kF32, {}), Tensor(&start_place, DType::kS32, {})};
      for (const ReduceKernel& kernel : kernels) {
        std::vector<float> got(static_cast<std::size_t>(Count(kept)), -1), expected = got;
        std::vector<std::int32_t> got_places(got.size(), -1), expected_places = got_places;
        Context context;
        const HostTensor out[] = {Tensor(got.data(), DType::kF32, kept),
                                  Tensor(got_places.data(), DType::kS32, kept)};
        const HostTensor expected_out[] = {Tensor(expected.data(), DType::kF32, kept),
                                           Tensor(expected_places.data(), DType::kS32, kept)};
        kernel.Run(context.host, in, init, mask, out);
        kernel.Run(context.host, dense, init, mask, expected_out);
        CHECK(got == expected && got_places == expected_places);
      }
    }
  }
}

TEST(NoElementsGiveTheInit) {
  float init_value = 3, got[2] = {};
  const HostTensor in = Tensor(nullptr, DType::kF32, {2, 0}), init = Tensor(&init_value, DType::kF32, {});
  const HostTensor out = Tensor(got, DType::kF32, {2});
  Context context;
  ReduceKernel(BinaryBody(ScalarOp::kAdd, DType::kF32)).Run(context.host, &in, &init, 2, &out);
  CHECK(got[0] == 3 && got[1] == 3);
}

TEST(BodiesOfOtherTypesAreRefused) {
  Expression e = BinaryBody(ScalarOp::kLt, DType::kF32);
  e.code[0].result_type = DType::kPred;
  CHECK_THROWS(std::invalid_argument, ReduceKernel{e});
}

}  // namespace
}  // namespace ipu_model
