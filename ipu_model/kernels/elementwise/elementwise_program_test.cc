// Tests of expressions of several operations: what is refused, fused and contracted, views, aliasing and
// memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/program/micro_op.h"
#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"
#include "testing/bound_kernel_check.h"
#include "testing/elementwise_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

TEST(InstructionsOfOtherTypesAreRefused) {
  const auto refused = [](Expression e) { CHECK_THROWS(std::invalid_argument, ElementwiseKernel{e}); };
  const auto given = [](Expression e, DType type) {
    e.inputs[0] = type;
    return e;
  };
  const Expression add = Single(ScalarOp::kAdd, DType::kF64, DType::kF64, 2);
  refused(given(add, DType::kF32));
  refused(Single(ScalarOp::kAdd, DType::kF64, DType::kF32, 2));
  refused(Single(ScalarOp::kLt, DType::kF64, DType::kF64, 2));
  refused(Single(ScalarOp::kAbs, DType::kC128, DType::kC64, 1));
  refused(Single(ScalarOp::kComplex, DType::kF64, DType::kC64, 2));
  refused(Single(ScalarOp::kSelect, DType::kF32, DType::kF32, 3));
  refused(given(Single(ScalarOp::kConvert, DType::kF64, DType::kF32, 1), DType::kF32));
  refused(given(Single(ScalarOp::kBitcast, DType::kBF16, DType::kU16, 1), DType::kF8E8M0FNU));
  refused(given(Single(ScalarOp::kReal, DType::kF32, DType::kF32, 1), DType::kBF16));
  // Narrow floats are computed in f32.
  const ElementwiseKernel wide(given(Single(ScalarOp::kAdd, DType::kF32, DType::kF32, 2), DType::kF16));
  Expression long_one = Single(ScalarOp::kNot, DType::kU8, DType::kU8, 1);
  long_one.constants.assign(std::size_t{1} << 17, {});
  refused(long_one);
}

TEST(UndefinedCombinationsAreRefused) {
  CHECK_THROWS(std::invalid_argument,
               ElementwiseKernel(Single(ScalarOp::kShiftLeft, DType::kF32, DType::kF32, 2)));
  CHECK_THROWS(std::invalid_argument, ElementwiseKernel(Single(ScalarOp::kLt, DType::kC64, DType::kPred, 2)));
  CHECK_THROWS(std::invalid_argument, ElementwiseKernel(Single(ScalarOp::kExp, DType::kS32, DType::kS32, 1)));
}

TEST(MultiplyAddIsContracted) {
  Expression e;
  e.inputs.assign(3, DType::kF32);
  e.code = {Op(ScalarOp::kMultiply, DType::kF32, DType::kF32, 0, 1),
            Op(ScalarOp::kSubtract, DType::kF32, DType::kF32, 2, 3)};
  e.outputs = {4};
  std::vector<float> a = {1.0f + 0x1p-23f}, b = a, c = {1.0f}, out(1);
  Run(e, {VectorOf(a, DType::kF32), VectorOf(b, DType::kF32), VectorOf(c, DType::kF32)},
      {VectorOf(out, DType::kF32)});
  CHECK_EQ(out[0], std::fma(-a[0], b[0], c[0]));
  CHECK(out[0] != c[0] - a[0] * b[0] || std::fma(-a[0], b[0], c[0]) == c[0] - a[0] * b[0]);
}

// IPUs compute f64 in software, which has no multiply-add.
TEST(MultiplyAddOfF64IsNotContracted) {
  const DType f = DType::kF64;
  Expression e;  // a * b + c, c + a * b, a * b - c, c - a * b
  e.inputs.assign(3, f);
  const ScalarOp add = ScalarOp::kAdd, subtract = ScalarOp::kSubtract, multiply = ScalarOp::kMultiply;
  e.code = {Op(multiply, f, f, 0, 1), Op(add, f, f, 3, 2),      Op(multiply, f, f, 0, 1),
            Op(add, f, f, 2, 5),      Op(multiply, f, f, 0, 1), Op(subtract, f, f, 7, 2),
            Op(multiply, f, f, 0, 1), Op(subtract, f, f, 2, 9)};
  e.outputs = {4, 6, 8, 10};
  std::vector<double> a = {1.0 + 0x1p-30}, b = a, c = {1.0}, out[4];
  for (auto& values : out) values.resize(1);
  Run(e, {VectorOf(a, f), VectorOf(b, f), VectorOf(c, f)},
      {VectorOf(out[0], f), VectorOf(out[1], f), VectorOf(out[2], f), VectorOf(out[3], f)});
  volatile double product = a[0] * b[0];
  CHECK(product - c[0] != std::fma(a[0], b[0], -c[0]));
  CHECK_EQ(out[0][0], product + c[0]);
  CHECK_EQ(out[1][0], product + c[0]);
  CHECK_EQ(out[2][0], product - c[0]);
  CHECK_EQ(out[3][0], c[0] - product);
}

// Every operation rounds, whichever of the operands are scalars.
TEST(ThreeOperationsInOnePass) {
  struct Row {
    FusedOp op;
    float (*expected)(float, float, float, float);
  };
  const Row rows[] = {
      {FusedOp::kAddMultiplyMultiply,
       [](float a, float b, float c, float d) {
         volatile float sum = a + b, product = sum * c;
         return product * d;
       }},
      {FusedOp::kFmaMultiply, [](float a, float b, float c, float d) { return std::fma(a, b, c) * d; }},
      {FusedOp::kMultiplyFma, [](float a, float b, float c, float d) {
         volatile float product = a * b;
         return std::fma(product, c, d);
       }}};
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> in[4], out(100);
  for (auto& values : in)
    for (int i = 0; i < 100; ++i) values.push_back(normal(random));
  for (const bool wide : {false, true}) {
    if (wide && !HasAvx512()) continue;
    for (const Row& row : rows) {
      const MicroFunction function = (wide ? avx512::FindFused : avx2::FindFused)(row.op, RegisterType::kF32);
      for (unsigned scalar = 0; scalar < 16; ++scalar) {
        for (const std::int64_t n : {1, 15, 16, 37, 99}) {
          if (scalar == 15 && n > 1) continue;
          std::fill(out.begin(), out.end(), 0.0f);
          function({out.data(), {in[0].data(), in[1].data(), in[2].data(), in[3].data()}, n, 0, scalar});
          for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
            float x[4];
            for (unsigned k = 0; k < 4; ++k) x[k] = in[k][(scalar >> k & 1) != 0 ? 0 : i];
            CHECK_EQ(out[i], row.expected(x[0], x[1], x[2], x[3]));
          }
          CHECK_EQ(out[static_cast<std::size_t>(n)], 0.0f);
        }
      }
    }
  }
}

TEST(ChainsOfThreeOperations) {
  const DType f = DType::kF32;
  Expression e;  // (a + b) * c * a; d * (a * b + c); a * c * b + d
  e.inputs.assign(4, f);
  e.code = {Op(ScalarOp::kAdd, f, f, 0, 1),      Op(ScalarOp::kMultiply, f, f, 4, 2),
            Op(ScalarOp::kMultiply, f, f, 5, 0), Op(ScalarOp::kMultiply, f, f, 0, 1),
            Op(ScalarOp::kAdd, f, f, 7, 2),      Op(ScalarOp::kMultiply, f, f, 3, 8),
            Op(ScalarOp::kMultiply, f, f, 0, 2), Op(ScalarOp::kMultiply, f, f, 10, 1),
            Op(ScalarOp::kAdd, f, f, 11, 3)};
  e.outputs = {6, 9, 12};
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> a(3001), b(3001), c(3001), d(3001), x(3001), y(3001), z(3001);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = normal(random), b[i] = normal(random), c[i] = normal(random), d[i] = normal(random);
  }
  Run(e, {VectorOf(a, f), VectorOf(b, f), VectorOf(c, f), VectorOf(d, f)},
      {VectorOf(x, f), VectorOf(y, f), VectorOf(z, f)});
  for (std::size_t i = 0; i < a.size(); ++i) {
    volatile float sum = a[i] + b[i], product = sum * c[i], other = a[i] * c[i];
    CHECK_EQ(x[i], product * a[i]);
    CHECK_EQ(y[i], d[i] * std::fma(a[i], b[i], c[i]));
    CHECK_EQ(z[i], std::fma(other, b[i], d[i]));
  }
}

TEST(RotatesAndComparisonsAreFusedRightly) {
  Expression e;  // rotate_left(a, 13) ^ b, and a < b ? a : 7
  e.inputs = {DType::kU32, DType::kU32};
  e.constants = {Constant(DType::kU32, 13u), Constant(DType::kU32, 19u), Constant(DType::kU32, 7u)};
  const DType u = DType::kU32;
  e.code = {Op(ScalarOp::kShiftLeft, u, u, 0, 2),
            Op(ScalarOp::kShiftRightLogical, u, u, 0, 3),
            Op(ScalarOp::kOr, u, u, 6, 5),
            Op(ScalarOp::kXor, u, u, 7, 1),
            Op(ScalarOp::kLt, u, DType::kPred, 0, 1),
            Op(ScalarOp::kSelect, u, u, 9, 0, 4)};
  e.outputs = {8, 10};
  std::mt19937 random(2);
  std::vector<std::uint32_t> a(3000), b(3000), x(3000), y(3000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = random();
    b[i] = random();
  }
  Run(e, {VectorOf(a, u), VectorOf(b, u)}, {VectorOf(x, u), VectorOf(y, u)});
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK_EQ(x[i], (a[i] << 13 | a[i] >> 19) ^ b[i]);
    CHECK_EQ(y[i], a[i] < b[i] ? a[i] : 7u);
  }
}

// Random views of small integers, which are exact in f32. The outputs are (a - b) + c and (a - b) + c + 3 a.
HostTensor RandomView(std::mt19937& random, const std::vector<std::int64_t>& shape,
                      std::vector<float>* memory, bool may_broadcast) {
  HostTensor t;
  t.rank = static_cast<int>(shape.size());
  std::vector<int> order;
  for (int d = 0; d < t.rank; ++d) order.push_back(d);
  std::shuffle(order.begin(), order.end(), random);
  std::int64_t size = 1, offset = 0;
  for (const int d : order) {
    t.shape[d] = shape[static_cast<std::size_t>(d)];
    const std::int64_t gap = random() % 4 == 0 ? 2 : 1;
    t.strides[d] = size * gap;
    if (may_broadcast && random() % 4 == 0) {
      t.strides[d] = 0;
      continue;
    }
    size *= t.shape[d] * gap;
    if (random() % 6 == 0) {
      offset += (t.shape[d] - 1) * t.strides[d];
      t.strides[d] = -t.strides[d];
    }
  }
  memory->assign(static_cast<std::size_t>(size) + 1, 0);
  for (float& v : *memory) v = static_cast<float>(static_cast<int>(random() % 200) - 100);
  t.data = memory->data() + offset;
  return t;
}
float At(const HostTensor& t, std::int64_t index) {
  const float* p = t.as<float>();
  for (int d = t.rank - 1; d >= 0; --d) {
    p += index % t.shape[d] * t.strides[d];
    index /= t.shape[d];
  }
  return *p;
}

TEST(AnyViewsAndAliasing) {
  const DType f = DType::kF32;
  Expression e;
  e.inputs.assign(3, f);
  e.constants = {Constant(f, 3.0f)};
  e.code = {Op(ScalarOp::kSubtract, f, f, 0, 1), Op(ScalarOp::kAdd, f, f, 4, 2),
            Op(ScalarOp::kMultiply, f, f, 0, 3), Op(ScalarOp::kAdd, f, f, 5, 6)};
  e.outputs = {5, 7};
  std::mt19937 random(5);
  const std::int64_t extents[] = {1, 2, 3, 7, 10, 33, 70, 300, 1100};
  for (int round = 0; round < 600; ++round) {
    std::vector<std::int64_t> shape(random() % 5);
    for (auto& d : shape) d = extents[random() % (shape.size() < 3 ? 9 : 5)];
    std::vector<float> memory[5];
    HostTensor a = RandomView(random, shape, &memory[0], true);
    const HostTensor b = RandomView(random, shape, &memory[1], true),
                     c = RandomView(random, shape, &memory[2], true);
    const HostTensor x = RandomView(random, shape, &memory[3], false),
                     y = RandomView(random, shape, &memory[4], false);
    if (random() % 3 == 0) a = x;  // in place
    std::vector<float> expected_x, expected_y;
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      expected_x.push_back(At(a, i) - At(b, i) + At(c, i));
      expected_y.push_back(expected_x.back() + 3 * At(a, i));
    }
    Run(e, {a, b, c}, {x, y});
    bool same = true;
    for (std::int64_t i = 0; i < x.num_elements(); ++i)
      same = same && At(x, i) == expected_x[static_cast<std::size_t>(i)] &&
             At(y, i) == expected_y[static_cast<std::size_t>(i)];
    CHECK(same);
  }
}

// Operands that are the same along a row, a column or everywhere give the bits of operands with all elements.
TEST(OneValuePerRow) {
  std::mt19937 random(31);
  std::normal_distribution<float> normal;
  for (const DType type : {DType::kF32, DType::kF16, DType::kF64}) {
    const DType p = DType::kPred;
    Expression e;
    e.inputs.assign(5, type);  // all elements; two with a value for each row; one for each column; one value
    e.code = {Op(ScalarOp::kMultiply, type, type, 1, 2),   Op(ScalarOp::kTanh, type, type, 5),
              Op(ScalarOp::kSubtract, type, type, 0, 1),   Op(ScalarOp::kMultiply, type, type, 7, 6),
              Op(ScalarOp::kAdd, type, type, 8, 3),        Op(ScalarOp::kGt, type, p, 1, 2),
              Op(ScalarOp::kSelect, type, type, 10, 9, 0), Op(ScalarOp::kMaximum, type, type, 6, 4),
              Op(ScalarOp::kDivide, type, type, 11, 12)};
    for (const bool rows_are_written : {false, true}) {
      e.outputs = {13, 7};
      if (rows_are_written) e.outputs.push_back(12);
      for (const std::int64_t length : {1, 20, 63, 64, 65, 127, 200, 255, 256, 300}) {
        const std::int64_t shape[3] = {5, 13, length};
        const auto n = static_cast<std::size_t>(5 * 13 * length), size = SizeOf(type);
        const auto tensor = [&](std::vector<unsigned char>& memory,
                                const std::array<std::int64_t, 3>& strides) {
          HostTensor t;
          t.data = memory.data();
          t.type = type;
          t.rank = 3;
          std::copy_n(shape, 3, t.shape);
          std::copy_n(strides.begin(), 3, t.strides);
          return t;
        };
        const std::array<std::int64_t, 3> dense = {13 * length, length, 1};
        // The second one has its rows in another order, with gaps.
        const std::array<std::int64_t, 3> strides[5] = {dense, {13, 1, 0}, {1, 7, 0}, {0, 0, 1}, {0, 0, 0}};
        std::vector<std::vector<unsigned char>> memory(5), whole(5), got(3), expected(3);
        std::vector<HostTensor> in, all, out, out_of_all;
        for (std::size_t i = 0; i < 5; ++i) {
          // Rows of one element with gaps reach beyond as many elements as there are.
          memory[i].resize((n + 4 + 12 * 7) * size);
          whole[i].resize(n * size);
          for (std::size_t k = 0; k < n; ++k) {
            const float f = normal(random);
            const double d = static_cast<double>(f);
            const std::uint16_t h = F32ToF16(f);
            const void* value = &f;
            if (type == DType::kF64) value = &d;
            if (type == DType::kF16) value = &h;
            std::memcpy(memory[i].data() + k * size, value, size);
          }
          for (std::int64_t k = 0; k < static_cast<std::int64_t>(n); ++k) {
            const std::int64_t from = k / (13 * length) * strides[i][0] + k / length % 13 * strides[i][1] +
                                      k % length * strides[i][2];
            std::memcpy(whole[i].data() + static_cast<std::size_t>(k) * size,
                        memory[i].data() + static_cast<std::size_t>(from) * size, size);
          }
          in.push_back(tensor(memory[i], strides[i]));
          all.push_back(tensor(whole[i], dense));
        }
        for (std::size_t o = 0; o < e.outputs.size(); ++o) {
          got[o].resize(n * size);
          expected[o].resize(n * size);
          out.push_back(tensor(got[o], dense));
          out_of_all.push_back(tensor(expected[o], dense));
        }
        Run(e, in, out);
        Run(e, all, out_of_all);
        CHECK(got == expected);
      }
    }
  }
}

TEST(ChoicesByComparisonsWithSingleElements) {
  const std::size_t n = 2500;
  std::mt19937 random(3);
  for (const ScalarOp op :
       {ScalarOp::kEq, ScalarOp::kNe, ScalarOp::kLt, ScalarOp::kLe, ScalarOp::kGt, ScalarOp::kGe}) {
    Expression e;
    e.inputs.assign(4, DType::kF32);
    e.code = {Op(op, DType::kF32, DType::kPred, 0, 1),
              Op(ScalarOp::kSelect, DType::kF32, DType::kF32, 4, 2, 3)};
    e.outputs = {5};
    for (unsigned single = 0; single < 16; ++single) {
      for (const float start : {1.0f, 2.0f, kNan}) {
        std::vector<std::vector<float>> values(4, std::vector<float>(n));
        std::vector<HostTensor> in;
        for (std::size_t k = 0; k < 4; ++k) {
          for (float& v : values[k]) v = random() % 8 == 0 ? kNan : static_cast<float>(random() % 4);
          values[k][0] = start;
          in.push_back(VectorOf(values[k], DType::kF32));
          if ((single >> k & 1) == 0) continue;
          std::fill(values[k].begin(), values[k].end(), values[k][0]);
          in.back().strides[0] = 0;
        }
        std::vector<float> got(n), expected(n);
        for (std::size_t i = 0; i < n; ++i) {
          const float a = values[0][i], b = values[1][i];
          const bool chosen = op == ScalarOp::kEq   ? a == b
                              : op == ScalarOp::kNe ? a != b
                              : op == ScalarOp::kLt ? a < b
                              : op == ScalarOp::kLe ? a <= b
                              : op == ScalarOp::kGt ? a > b
                                                    : a >= b;
          expected[i] = values[chosen ? 2 : 3][i];
        }
        Run(e, in, {VectorOf(got, DType::kF32)});
        CheckSame(got, expected);
      }
    }
  }
}

TEST(RowsOfDistantElements) {
  for (const std::int64_t stride : {2, 3, 4, 5, 17}) {
    for (const std::int64_t n : {63, 64, 65, 1000}) {
      std::vector<float> values(static_cast<std::size_t>(n * stride)), got(static_cast<std::size_t>(n)),
          expected;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
      for (std::int64_t i = 0; i < n; ++i) expected.push_back(-static_cast<float>(i * stride + stride - 1));
      HostTensor in = VectorOf(got, DType::kF32);
      in.data = values.data() + stride - 1;
      in.strides[0] = stride;
      Run(Single(ScalarOp::kNegate, DType::kF32, DType::kF32, 1), {in}, {VectorOf(got, DType::kF32)});
      CHECK(got == expected);
    }
  }
}

// Outputs that alternate in memory, in some order, with elements of others behind them or none; in one row,
// or in rows that an operand with one value for each keeps apart.
template <typename T>
void CheckAlternating(DType type) {
  for (std::int64_t lines = 2; lines <= 5; ++lines) {
    for (const std::int64_t step : {lines, lines + 1}) {
      for (const auto& [rows, columns] : {std::pair{1, 5}, {1, 9000}, {40, 70}, {700, 3}, {3, 3001}}) {
        for (const bool by_row : {false, true}) {
          Expression e;
          e.inputs = {type, type};
          std::vector<std::int64_t> place;
          for (std::int64_t l = 0; l < lines; ++l) {
            e.constants.push_back(Constant(type, static_cast<T>(3 * l + 1)));
            place.push_back((l * 3 + 1) % lines);
          }
          const auto first = static_cast<std::uint16_t>(2 + lines);
          e.code = {Op(ScalarOp::kAdd, type, type, 0, 1)};
          for (std::int64_t l = 0; l < lines; ++l) {
            e.code.push_back(Op(ScalarOp::kAdd, type, type, first, static_cast<std::uint16_t>(2 + l)));
            e.outputs.push_back(static_cast<std::uint16_t>(first + 1 + l));
          }
          if (lines == 3) place = {0, 1, 2};
          const std::int64_t n = std::int64_t{rows} * columns;
          std::vector<T> x, y(static_cast<std::size_t>(by_row ? rows : 1), T{1});
          std::vector<T> out(static_cast<std::size_t>(n * step), T{7}), expected = out;
          for (std::int64_t i = 0; i < n; ++i) x.push_back(static_cast<T>(i % 50));
          for (std::size_t r = 0; r < y.size(); ++r) y[r] = static_cast<T>(r % 40);
          HostTensor whole;
          whole.type = type;
          whole.rank = 2;
          whole.shape[0] = rows;
          whole.shape[1] = columns;
          HostTensor a = whole, b = whole;
          a.data = x.data();
          a.strides[0] = columns;
          a.strides[1] = 1;
          b.data = y.data();
          b.strides[0] = by_row ? 1 : 0;
          b.strides[1] = 0;
          std::vector<HostTensor> outs;
          for (std::int64_t l = 0; l < lines; ++l) {
            HostTensor& t = outs.emplace_back(whole);
            t.data = out.data() + place[static_cast<std::size_t>(l)];
            t.strides[0] = columns * step;
            t.strides[1] = step;
            for (std::int64_t i = 0; i < n; ++i) {
              const T row = y[static_cast<std::size_t>(by_row ? i / columns : 0)];
              expected[static_cast<std::size_t>(i * step + place[static_cast<std::size_t>(l)])] =
                  static_cast<T>(x[static_cast<std::size_t>(i)] + row + static_cast<T>(3 * l + 1));
            }
          }
          Run(e, {a, b}, outs);
          CHECK(out == expected);
        }
      }
    }
  }
}

TEST(OutputsMayAlternate) {
  CheckAlternating<float>(DType::kF32);
  CheckAlternating<double>(DType::kF64);
  CheckAlternating<std::uint8_t>(DType::kU8);
  CheckAlternating<std::int16_t>(DType::kS16);
}

TEST(OutputsMaySwapInputs) {
  Expression e;
  e.inputs = {DType::kF32, DType::kF32};
  e.outputs = {1, 0};
  std::vector<float> a(5000, 1), b(5000, 2);
  const HostTensor ta = VectorOf(a, DType::kF32), tb = VectorOf(b, DType::kF32);
  Run(e, {ta, tb}, {ta, tb});
  CHECK(a == std::vector<float>(5000, 2) && b == std::vector<float>(5000, 1));
}

TEST(ConstantsAndEmptyTensors) {
  Expression e;
  e.inputs = {DType::kF32};
  e.constants = {Constant(DType::kF32, 2.0f)};
  e.code = {Op(ScalarOp::kSquare, DType::kF32, DType::kF32, 1)};
  e.outputs = {2, 1};
  std::vector<float> a(3000, 1), x(3000), y(3000), none;
  Run(e, {VectorOf(a, DType::kF32)}, {VectorOf(x, DType::kF32), VectorOf(y, DType::kF32)});
  CHECK(x == std::vector<float>(3000, 4) && y == std::vector<float>(3000, 2));
  Run(e, {VectorOf(none, DType::kF32)}, {VectorOf(none, DType::kF32), VectorOf(none, DType::kF32)});
}

TEST(RunningAgainAllocatesNothing) {
  const ElementwiseKernel kernel(Single(ScalarOp::kExp, DType::kF32, DType::kF32, 1));
  std::vector<float> a(100000, 1), out(100000);
  const HostTensor in = VectorOf(a, DType::kF32), to = VectorOf(out, DType::kF32);
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  for (int warm_up = 0; warm_up < 5; ++warm_up) kernel.Run(context, &in, &to);
  const Scratch::Mark before = scratch.Save();
  for (int again = 0; again < 100; ++again) kernel.Run(context, &in, &to);
  CHECK_EQ(scratch.Save().blocks, before.blocks);
  CHECK_EQ(scratch.Save().used, before.used);
}

}  // namespace
}  // namespace ipu_model
