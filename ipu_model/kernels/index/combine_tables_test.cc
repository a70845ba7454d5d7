// Compares combinations in tables with one loop over the rows, for every operation and type of integers.
#include "kernels/index/combine_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "testing/backward_pool.h"

namespace ipu_model {
namespace {

template <typename T>
T Combined(Combine combine, T a, T b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (combine) {
    case Combine::kAdd:
      return static_cast<T>(x + y);
    case Combine::kMultiply:
      return static_cast<T>(x * y);
    case Combine::kMinimum:
      return std::min(a, b);
    case Combine::kMaximum:
      return std::max(a, b);
    case Combine::kAnd:
      return static_cast<T>(x & y);
    default:
      return static_cast<T>(x | y);
  }
}

template <typename T>
void Check(DType type) {
  std::mt19937_64 random(7);
  for (const Combine combine : {Combine::kAdd, Combine::kMultiply, Combine::kMinimum, Combine::kMaximum,
                                Combine::kAnd, Combine::kOr}) {
    for (const int threads : {1, 3}) {
      for (const std::int64_t places : {1, 10}) {
        for (const std::int64_t step : {0, 1}) {
          const std::int64_t rows = 397, stride = 2, base = 1;
          std::vector<T> out(static_cast<std::size_t>(base + places * stride)),
              updates(static_cast<std::size_t>(rows));
          std::vector<std::int32_t> index(static_cast<std::size_t>(rows));
          // Odd numbers: a product with an even one would soon be zero.
          for (T& v : out) v = static_cast<T>(random() | 1);
          for (T& v : updates) v = static_cast<T>(random() | 1);
          for (std::int32_t& i : index)
            i = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(3 * places)) -
                static_cast<std::int32_t>(places) - 1;
          const WindowRows::Elements elements{DType::kS32, index.data(), 1,      places,
                                              places - 1,  base,         stride, step};
          CHECK(CombinesInTables(combine, type, elements, rows));
          std::vector<T> expected = out;
          for (std::int64_t r = 0; r < rows; ++r) {
            std::int64_t place = index[static_cast<std::size_t>(r)];
            place += place < 0 ? places : 0;
            if (place < 0 || place >= places) continue;
            T& to = expected[static_cast<std::size_t>(base + place * stride)];
            to = Combined(combine, to, updates[static_cast<std::size_t>(r * step)]);
          }
          BackwardPool pool(threads);
          Scratch scratch;
          HostContext context{pool, scratch};
          CombineInTables(context, combine, type, elements, rows, updates.data(), out.data());
          CHECK(out == expected);
        }
      }
    }
  }
}

TEST(EveryTypeAndOperation) {
  Check<std::uint8_t>(DType::kU8);
  Check<std::uint16_t>(DType::kU16);
  Check<std::uint32_t>(DType::kU32);
  Check<std::uint64_t>(DType::kU64);
  Check<std::int8_t>(DType::kS8);
  Check<std::int16_t>(DType::kS16);
  Check<std::int32_t>(DType::kS32);
  Check<std::int64_t>(DType::kS64);
}

TEST(ExtremaOfFloats) {
  const float infinity = INFINITY;
  for (const bool largest : {true, false}) {
    const std::vector<float> updates = {1, -2, 0.0f, -0.0f, infinity, -infinity, NAN, 3};
    const std::vector<std::int32_t> of = {0, 0, 1, 1, 2, 3, 4, 5};
    std::vector<float> values;
    std::vector<std::int32_t> index;
    for (int k = 0; k < 400; ++k) {
      values.push_back(updates[static_cast<std::size_t>(k % 8)]);
      index.push_back(of[static_cast<std::size_t>(k % 8)]);
    }
    const WindowRows::Elements elements{DType::kS32, index.data(), 1, 0, 6, 0, 1, 1};
    const Combine combine = largest ? Combine::kMaximum : Combine::kMinimum;
    CHECK(CombinesInTables(combine, DType::kF32, elements, 400));
    std::vector<float> out(7, 0.5f);
    out[1] = largest ? -1.0f : 1.0f;
    BackwardPool pool(2);
    Scratch scratch;
    HostContext context{pool, scratch};
    CombineInTables(context, combine, DType::kF32, elements, 400, values.data(), out.data());
    CHECK_EQ(out[0], largest ? 1.0f : -2.0f);
    CHECK(out[1] == 0 && std::signbit(out[1]) != largest);
    CHECK_EQ(out[2], largest ? infinity : 0.5f);
    CHECK_EQ(out[3], largest ? 0.5f : -infinity);
    CHECK(std::isnan(out[4]));
    CHECK_EQ(out[5], largest ? 3.0f : 0.5f);
    CHECK_EQ(out[6], 0.5f);  // nothing
  }
}

TEST(OnlyWhereTheOrderDoesNotMatterAndRowsAreMany) {
  const auto in_tables = [](Combine combine, DType type, std::int64_t places, std::int64_t rows) {
    return CombinesInTables(combine, type, {DType::kS32, nullptr, 1, 0, places - 1, 0, 1, 1}, rows);
  };
  CHECK(in_tables(Combine::kAdd, DType::kS32, 256, 1 << 20));
  CHECK(!in_tables(Combine::kSet, DType::kS32, 256, 1 << 20));
  CHECK(!in_tables(Combine::kAdd, DType::kF32, 256, 1 << 20));
  CHECK(!in_tables(Combine::kAdd, DType::kS32, 256, 1000));
  CHECK(!in_tables(Combine::kAdd, DType::kS32, 1 << 20, 1 << 26));
}

}  // namespace
}  // namespace ipu_model
