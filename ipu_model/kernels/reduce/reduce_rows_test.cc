// Many rows at a time give the bits of each row by itself, for every instruction set.
#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"
#include "kernels/host/isa.h"
#include "kernels/reduce/reduce_functions.h"

namespace ipu_model {
namespace {

template <typename T>
void CheckRows(RegisterType type) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, std::is_integral_v<T> ? 1e6 : 1);
  for (int o = 0; o < 7; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    const ReduceFunctions all[] = {avx2::FindReduce(op, type), avx512::FindReduce(op, type)};
    for (const bool wide : {false, true}) {
      if (wide && !HasAvx512()) continue;
      const ReduceFunctions& functions = all[wide ? 1 : 0];
      const bool extreme = op == ReduceOp::kMaximum || op == ReduceOp::kMinimum;
      CHECK_EQ(functions.rows != nullptr,
               functions.row != nullptr && !(extreme && std::is_floating_point_v<T>));
      if (functions.rows == nullptr) continue;
      const std::int64_t least = ShortRowElements(sizeof(T));
      for (const std::int64_t n : {least, least + 1, least + 7, 2 * least - 1, 2 * least, 5 * least + 17}) {
        const std::int64_t stride = n + static_cast<std::int64_t>(random() % 2) * 3, rows = 37;
        std::vector<T> values(static_cast<std::size_t>((rows - 1) * stride + n)),
            got(static_cast<std::size_t>(rows)), expected(got.size());
        for (T& v : values)
          v = static_cast<T>(
              static_cast<std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>(normal(random)));
        const std::int64_t done = functions.rows(got.data(), values.data(), stride, rows, n);
        CHECK(done > rows - 64 / static_cast<std::int64_t>(sizeof(T)) && done <= rows);
        for (std::int64_t r = 0; r < done; ++r)
          functions.row(values.data() + r * stride, n, &expected[static_cast<std::size_t>(r)]);
        CHECK(got == expected);
      }
    }
  }
}

TEST(ManyRows) {
  CheckRows<std::int32_t>(RegisterType::kS32);
  CheckRows<std::uint64_t>(RegisterType::kU64);
  CheckRows<float>(RegisterType::kF32);
  CheckRows<double>(RegisterType::kF64);
}

}  // namespace
}  // namespace ipu_model
