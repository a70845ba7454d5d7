// Tests f64 sums with a rounded product: every form, including lengths that are not a multiple of a vector.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/elementwise/program/micro_op.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

TEST(EachOperationIsRounded) {
  struct Row {
    FusedOp op;
    double (*expected)(double product, double c);
  };
  const Row rows[] = {{FusedOp::kProductPlus, [](double product, double c) { return product + c; }},
                      {FusedOp::kProductMinus, [](double product, double c) { return product - c; }},
                      {FusedOp::kMinusProduct, [](double product, double c) { return c - product; }}};
  std::mt19937 random(8);
  std::normal_distribution<double> normal;
  std::vector<double> in[3], out(100);
  for (auto& values : in)
    for (int i = 0; i < 100; ++i) values.push_back(normal(random));
  in[0][0] = 0.0, in[1][0] = -1.0, in[2][0] = -0.0;
  for (const bool wide : {false, true}) {
    if (wide && !HasAvx512()) continue;
    for (const Row& row : rows) {
      const MicroFunction function = (wide ? avx512::FindFused : avx2::FindFused)(row.op, RegisterType::kF64);
      for (unsigned scalar = 0; scalar < 8; ++scalar) {
        for (const std::int64_t n : {1, 7, 8, 37, 99}) {
          if (scalar == 7 && n > 1) continue;
          std::fill(out.begin(), out.end(), 0.0);
          function({out.data(), {in[0].data(), in[1].data(), in[2].data()}, n, 0, scalar});
          for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
            double x[3];
            for (unsigned k = 0; k < 3; ++k) x[k] = in[k][(scalar >> k & 1) != 0 ? 0 : i];
            volatile double product = x[0] * x[1];
            const double expected = row.expected(product, x[2]);
            CHECK_EQ(out[i], expected);
            CHECK_EQ(std::signbit(out[i]), std::signbit(expected));
          }
          CHECK_EQ(out[static_cast<std::size_t>(n)], 0.0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ipu_model
