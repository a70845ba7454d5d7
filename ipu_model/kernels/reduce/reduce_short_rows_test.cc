// Many short rows: each row in order, for every instruction set, as the kernel and as a bound kernel.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"
#include "kernels/host/isa.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/reduce_functions.h"
#include "testing/bound_kernel_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

template <typename T>
T Combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    const U x = static_cast<U>(a), y = static_cast<U>(b);
    if (op == ReduceOp::kAdd) return static_cast<T>(static_cast<U>(x + y));
    if (op == ReduceOp::kMultiply) return static_cast<T>(static_cast<U>(1u * x * y));
    if (op == ReduceOp::kAnd) return static_cast<T>(x & y);
    if (op == ReduceOp::kOr) return static_cast<T>(x | y);
    if (op == ReduceOp::kXor) return static_cast<T>(x ^ y);
  } else {
    if (op == ReduceOp::kAdd) return a + b;
    if (op == ReduceOp::kMultiply) return a * b;
  }
  return (op == ReduceOp::kMaximum) == (a > b) ? a : b;
}

template <typename T>
void CheckRows(RegisterType type) {
  std::mt19937 random(7);
  for (int o = 0; o < 7; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    const ReduceFunctions all[] = {avx2::FindReduce(op, type), avx512::FindReduce(op, type)};
    for (const bool wide : {false, true}) {
      if (wide && !HasAvx512()) continue;
      const ReduceFunctions& functions = all[wide ? 1 : 0];
      CHECK_EQ(functions.short_rows != nullptr, functions.row != nullptr);
      if (functions.short_rows == nullptr) continue;
      std::vector<std::int64_t> lengths = {ShortRowElements(sizeof(T)) - 1};
      for (std::int64_t n = 1; n <= 35 && n < lengths[0]; ++n) lengths.push_back(n);
      for (const std::int64_t n : lengths) {
        for (const std::int64_t stride : {n, n + 3}) {
          const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 40);
          std::vector<T> values(static_cast<std::size_t>((rows - 1) * stride + n)),
              got(static_cast<std::size_t>(rows)), expected;
          // Products of floats stay finite.
          for (T& v : values)
            v = static_cast<T>(static_cast<int>(random() % 511) - 255) / T{std::is_integral_v<T> ? 3 : 128};
          for (std::int64_t r = 0; r < rows; ++r) {
            T total = values[static_cast<std::size_t>(r * stride)];
            for (std::int64_t i = 1; i < n; ++i)
              total = Combine(op, total, values[static_cast<std::size_t>(r * stride + i)]);
            expected.push_back(total);
          }
          functions.short_rows(got.data(), values.data(), stride, rows, n);
          CHECK(got == expected);
        }
      }
    }
  }
}

TEST(RowsInOrder) {
  CheckRows<std::int8_t>(RegisterType::kS8);
  CheckRows<std::uint8_t>(RegisterType::kU8);
  CheckRows<std::int16_t>(RegisterType::kS16);
  CheckRows<std::uint16_t>(RegisterType::kU16);
  CheckRows<std::int32_t>(RegisterType::kS32);
  CheckRows<std::uint32_t>(RegisterType::kU32);
  CheckRows<std::int64_t>(RegisterType::kS64);
  CheckRows<float>(RegisterType::kF32);
  CheckRows<double>(RegisterType::kF64);
}

// NaN wins in extremes and spreads in sums; +0 is larger than -0. Every row has its value at another place.
template <typename T>
void CheckSpecialValues(RegisterType type) {
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  struct {
    ReduceOp op;
    T others, value, expected;
  } const cases[] = {
      {ReduceOp::kAdd, T{1}, nan, nan},
      {ReduceOp::kAdd, T{1}, -infinity, -infinity},
      {ReduceOp::kAdd, infinity, -infinity, nan},
      {ReduceOp::kAdd, -T{0}, -T{0}, -T{0}},
      {ReduceOp::kAdd, -T{0}, T{0}, T{0}},
      {ReduceOp::kMultiply, T{1}, -T{0}, -T{0}},
      {ReduceOp::kMultiply, infinity, T{0}, nan},
      {ReduceOp::kMaximum, infinity, nan, nan},
      {ReduceOp::kMaximum, -infinity, T{-3}, T{-3}},
      {ReduceOp::kMaximum, -T{0}, T{0}, T{0}},
      {ReduceOp::kMaximum, -T{0}, -T{0}, -T{0}},
      {ReduceOp::kMinimum, -infinity, nan, nan},
      {ReduceOp::kMinimum, infinity, T{3}, T{3}},
      {ReduceOp::kMinimum, T{0}, -T{0}, -T{0}},
      {ReduceOp::kMinimum, T{0}, T{0}, T{0}},
  };
  for (const auto& c : cases) {
    for (const bool wide : {false, true}) {
      if (wide && !HasAvx512()) continue;
      const ReduceFunctions functions = wide ? avx512::FindReduce(c.op, type) : avx2::FindReduce(c.op, type);
      for (std::int64_t n = 2; n < ShortRowElements(sizeof(T)); ++n) {
        for (const std::int64_t stride : {n, n + 1}) {
          std::vector<T> values(static_cast<std::size_t>(n * stride), c.others),
              got(static_cast<std::size_t>(n));
          for (std::int64_t r = 0; r < n; ++r) values[static_cast<std::size_t>(r * stride + r)] = c.value;
          functions.short_rows(got.data(), values.data(), stride, n, n);
          for (const T x : got) {
            CHECK_EQ(std::isnan(x), std::isnan(c.expected));
            CHECK(std::isnan(x) || (x == c.expected && std::signbit(x) == std::signbit(c.expected)));
          }
        }
      }
    }
  }
}

TEST(SpecialValues) {
  CheckSpecialValues<float>(RegisterType::kF32);
  CheckSpecialValues<double>(RegisterType::kF64);
}

struct Case {
  std::vector<std::int64_t> shape, strides;
  std::uint32_t dimensions;
  bool bound;  // float sums, too
};

// Bound kernels combine in the order in which Run does.
TEST(BoundReductions) {
  const std::vector<Case> cases = {
      {{50, 3}, {3, 1}, 2, true},          // short rows
      {{8, 9, 4}, {36, 4, 1}, 4, true},    // of several dimensions
      {{70, 5}, {8, 1}, 2, true},          // with a stride
      {{64, 6, 7}, {42, 7, 1}, 2, true},   // columns of many small matrices
      {{40, 6, 3}, {31, 5, 1}, 2, true},   // with strides
      {{70, 3, 5}, {21, 7, 1}, 6, false},  // rows of pieces, which float sums combine in double
      {{6, 70, 3}, {3, 20, 1}, 5, false},  //
      {{66, 5, 3}, {20, 4, 1}, 4, true},   // short rows at two strides
      {{3, 33}, {1, 3}, 1, true},          // short rows of a transpose
      {{16, 16}, {16, 1}, 1, false},       // columns, which float sums fold
      {{3, 100}, {128, 1}, 1, true},       // long columns
      {{0, 3}, {3, 1}, 2, false},          // nothing
  };
  std::mt19937 random(5);
  for (const Case& c : cases) {
    for (const DType type : {DType::kPred, DType::kS8, DType::kS32, DType::kF32, DType::kF64}) {
      for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMaximum}) {
        HostTensor in, out, init;
        in.type = out.type = init.type = type;
        in.rank = static_cast<int>(c.shape.size());
        std::int64_t size = 1, results = 1;
        for (int d = in.rank; d-- > 0;) {
          in.shape[d] = c.shape[static_cast<std::size_t>(d)];
          in.strides[d] = c.strides[static_cast<std::size_t>(d)];
          size += std::max<std::int64_t>(in.shape[d] - 1, 0) * in.strides[d];
        }
        for (int d = 0; d < in.rank; ++d)
          if ((c.dimensions >> d & 1) == 0) out.shape[out.rank++] = in.shape[d];
        for (int d = out.rank; d-- > 0; results *= out.shape[d]) out.strides[d] = results;
        std::vector<unsigned char> from(static_cast<std::size_t>(size) * SizeOf(type)),
            to(static_cast<std::size_t>(results) * SizeOf(type)), start(SizeOf(type), 1);
        for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
          const int v = static_cast<int>(random() % 200);
          if (type == DType::kPred) from[i] = static_cast<unsigned char>(v % 2);
          if (type == DType::kS8) from[i] = static_cast<unsigned char>(v);
          if (type == DType::kS32) std::memcpy(from.data() + 4 * i, &v, 4);
          const float f = static_cast<float>(v) / 7;
          const double g = static_cast<double>(v) / 7;
          if (type == DType::kF32) std::memcpy(from.data() + 4 * i, &f, 4);
          if (type == DType::kF64) std::memcpy(from.data() + 8 * i, &g, 8);
        }
        if (type == DType::kF32 || type == DType::kF64) std::memset(start.data(), 0, start.size());
        in.data = from.data();
        out.data = to.data();
        init.data = start.data();
        const ReduceKernel kernel(BinaryBody(op, type));
        Scratch scratch;
        HostContext context{ThreadPool::Global(), scratch};
        const int bound = CheckBound(
            {in, init}, {out}, [&] { kernel.Run(context, &in, &init, c.dimensions, &out); },
            [&](const auto& bound_in, const auto& bound_out) {
              return kernel.Bind(bound_in.data(), c.dimensions, bound_out.data());
            });
        if (c.bound) CHECK_EQ(bound, 2);
      }
    }
  }
}

}  // namespace
}  // namespace ipu_model
