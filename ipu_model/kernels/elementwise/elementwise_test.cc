// Tests of the elementwise kernel: values and edge cases of the operations that are exact or round once.
#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "kernels/vector/convert.h"
#include "testing/elementwise_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

TEST(MaximumAndMinimumPropagateNanAndOrderZeros) {
  const std::vector<float> a = {0.0f, -0.0f, kNan, 1, -kInf}, b = {-0.0f, 0.0f, 1, kNan, 3};
  CheckSame(Apply<float>(ScalarOp::kMaximum, DType::kF32, a, b, DType::kF32), {0.0f, 0.0f, kNan, kNan, 3});
  CheckSame(Apply<float>(ScalarOp::kMinimum, DType::kF32, a, b, DType::kF32),
            {-0.0f, -0.0f, kNan, kNan, -kInf});
}

TEST(SignAndRoundingKeepNegativeZero) {
  const std::vector<float> x = {-0.0f, 0.49999997f, -0.5f, 2.5f, -2.5f, kNan, -kInf};
  CheckSame(Apply<float>(ScalarOp::kSign, DType::kF32, x, DType::kF32), {-0.0f, 1, -1, 1, -1, kNan, -1});
  CheckSame(Apply<float>(ScalarOp::kRoundNearestAfz, DType::kF32, x, DType::kF32),
            {-0.0f, 0, -1, 3, -3, kNan, -kInf});
  CheckSame(Apply<float>(ScalarOp::kRoundNearestEven, DType::kF32, x, DType::kF32),
            {-0.0f, 0, -0.0f, 2, -2, kNan, -kInf});
  CheckSame(Apply<float>(ScalarOp::kFloor, DType::kF32, x, DType::kF32), {-0.0f, 0, -1, 2, -3, kNan, -kInf});
  CheckSame(Apply<float>(ScalarOp::kCeil, DType::kF32, x, DType::kF32),
            {-0.0f, 1, -0.0f, 3, -2, kNan, -kInf});
}

TEST(DenormalsAreZero) {
  CheckSame(Apply<float>(ScalarOp::kMultiply, DType::kF32, std::vector<float>{1e-38f, 1e-20f}, {0.5f, 1e-20f},
                         DType::kF32),
            {0, 0});
}

TEST(IntegerDivisionHasNoUndefinedCases) {
  constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min();
  const std::vector<std::int32_t> a = {5, -5, 0, kMin, 7, -7, kMin, 2147483647},
                                  b = {0, 0, 0, -1, 2, 2, 3, -2};
  CHECK(Apply<std::int32_t>(ScalarOp::kDivide, DType::kS32, a, b, DType::kS32) ==
        (std::vector<std::int32_t>{-1, -1, -1, kMin, 3, -3, -715827882, -1073741823}));
  CHECK(Apply<std::int32_t>(ScalarOp::kRemainder, DType::kS32, a, b, DType::kS32) ==
        (std::vector<std::int32_t>{5, -5, 0, 0, 1, -1, -2, 1}));
  CHECK(Apply<std::uint8_t>(ScalarOp::kDivide, DType::kU8, std::vector<std::uint8_t>{9, 200}, {0, 7},
                            DType::kU8) == (std::vector<std::uint8_t>{255, 28}));
  const std::vector<std::int64_t> wide = {std::numeric_limits<std::int64_t>::min(), 10}, by = {-1, 0};
  CHECK(Apply<std::int64_t>(ScalarOp::kDivide, DType::kS64, wide, by, DType::kS64) ==
        (std::vector<std::int64_t>{wide[0], -1}));
}

TEST(IntegerDivisionIsExact) {
  std::mt19937 random(1);
  std::vector<std::int32_t> a(5000), b(5000);
  std::vector<std::uint32_t> ua(5000), ub(5000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ua[i] = random();
    ub[i] = std::max<std::uint32_t>(1, random() >> (random() % 32));
    a[i] = static_cast<std::int32_t>(ua[i]);
    b[i] = static_cast<std::int32_t>(ub[i] >> 1 | 1) * (i % 2 == 0 ? 1 : -1);
  }
  const auto q = Apply<std::int32_t>(ScalarOp::kDivide, DType::kS32, a, b, DType::kS32);
  const auto r = Apply<std::int32_t>(ScalarOp::kRemainder, DType::kS32, a, b, DType::kS32);
  const auto uq = Apply<std::uint32_t>(ScalarOp::kDivide, DType::kU32, ua, ub, DType::kU32);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t x = a[i], y = b[i];
    CHECK_EQ(q[i], static_cast<std::int32_t>(x / y));
    CHECK_EQ(r[i], static_cast<std::int32_t>(x % y));
    CHECK_EQ(uq[i], ua[i] / ub[i]);
  }
}

TEST(DivisionByOneNumberIsExact) {
  constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min(), kMax = 2147483647;
  std::mt19937 random(2);
  std::vector<std::int32_t> divisors = {0, 1, -1, 2, -2, 3, -3, 7, -7, 10, 1000, kMax, -kMax, kMin, 1 << 30};
  for (int i = 0; i < 40; ++i) divisors.push_back(static_cast<std::int32_t>(random() >> (random() % 31)) | 2);
  for (std::int32_t divisor : divisors) {
    std::vector<std::int32_t> a = {0, 1, -1, kMin, kMin + 1, kMax, divisor, divisor == kMin ? 0 : -divisor};
    while (a.size() < 600) {
      const auto multiple = static_cast<std::uint32_t>(divisor) * (random() >> (random() % 32));
      a.push_back(static_cast<std::int32_t>(multiple + random() % 3 - 1));
    }
    std::vector<std::int32_t> one = {divisor}, all(a.size(), divisor), got(a.size()), expected(a.size());
    HostTensor repeated = VectorOf(all, DType::kS32);
    repeated.data = one.data();
    repeated.strides[0] = 0;
    for (const ScalarOp op : {ScalarOp::kDivide, ScalarOp::kRemainder}) {
      Run(Single(op, DType::kS32, DType::kS32, 2), {VectorOf(a, DType::kS32), repeated},
          {VectorOf(got, DType::kS32)});
      Run(Single(op, DType::kS32, DType::kS32, 2), {VectorOf(a, DType::kS32), VectorOf(all, DType::kS32)},
          {VectorOf(expected, DType::kS32)});
      CHECK(got == expected);
    }
  }
}

TEST(DivisionByConstantPowersOfTwoIsExact) {
  constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min();
  std::vector<std::int32_t> x = {0,    1,     -1,   3,        -3,         4,          -4,
                                 1000, -1001, kMin, kMin + 1, 2147483647, -2147483647};
  std::vector<std::uint32_t> u(x.begin(), x.end());
  for (const std::int32_t divisor : {1, 2, 4, 1 << 30, -4, kMin}) {
    for (const ScalarOp op : {ScalarOp::kDivide, ScalarOp::kRemainder}) {
      const bool quotient = op == ScalarOp::kDivide;
      Expression e = Single(op, DType::kS32, DType::kS32, 1);
      e.constants = {Constant(DType::kS32, divisor)};
      e.code[0].operand[1] = 1;
      e.outputs = {2};
      std::vector<std::int32_t> got(x.size());
      Run(e, {VectorOf(x, DType::kS32)}, {VectorOf(got, DType::kS32)});
      for (std::size_t i = 0; i < x.size(); ++i) CHECK_EQ(got[i], quotient ? x[i] / divisor : x[i] % divisor);
      e.inputs = {DType::kU32};
      e.constants[0].type = e.code[0].operand_type = e.code[0].result_type = DType::kU32;
      std::vector<std::uint32_t> unsigned_got(x.size());
      Run(e, {VectorOf(u, DType::kU32)}, {VectorOf(unsigned_got, DType::kU32)});
      const auto by = static_cast<std::uint32_t>(divisor);
      for (std::size_t i = 0; i < x.size(); ++i) CHECK_EQ(unsigned_got[i], quotient ? u[i] / by : u[i] % by);
    }
  }
}

TEST(PowersOfNegativeNumbers) {
  const float kMost = std::numeric_limits<float>::max();
  std::vector<float> a, b, expected;
  for (const float x : {-1.0f, -2.0f, -0.5f, -1.5f, -kMost, -1.17549435e-38f, -3e-20f, -0.0f, -kInf}) {
    for (const float y : {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, -2.0f, 3.0f, 7.0f, 0.5f, -1.5f, 16777215.0f,
                          16777216.0f, 16777218.0f, -16777215.0f, 3e9f, kMost, kInf, -kInf, kNan}) {
      a.push_back(x);
      b.push_back(y);
      const float power = ::powf(x, y);
      expected.push_back(std::fpclassify(power) == FP_SUBNORMAL ? std::copysign(0.0f, power) : power);
    }
  }
  const auto got = Apply<float>(ScalarOp::kPower, DType::kF32, a, b, DType::kF32);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        SameBits(got[i], expected[i]) ||
        (std::isfinite(expected[i]) && std::abs(got[i] - expected[i]) <= 1e-6f * std::abs(expected[i]));
    if (!same) CHECK_EQ(got[i], expected[i]);
  }
}

TEST(CountsOfBits) {
  std::mt19937_64 random(6);
  std::vector<std::uint64_t> a(300);
  for (std::uint64_t& x : a) x = random() >> (random() % 64);
  a[0] = ~std::uint64_t{0};
  const auto check = [&a](auto zero, DType type) {
    using T = decltype(zero);
    std::vector<T> values, expected;
    for (const std::uint64_t x : a) {
      values.push_back(static_cast<T>(x));
      expected.push_back(
          static_cast<T>(__builtin_popcountll(static_cast<std::make_unsigned_t<T>>(values.back()))));
    }
    CHECK(Apply<T>(ScalarOp::kPopcnt, type, values, type) == expected);
  };
  check(std::uint8_t{}, DType::kU8);
  check(std::int16_t{}, DType::kS16);
  check(std::int32_t{}, DType::kS32);
  check(std::uint64_t{}, DType::kU64);
}

TEST(ShiftsByTheWidthOrMore) {
  const std::vector<std::int32_t> a = {5, -5, 7, -7, 9}, b = {31, 32, 40, -1, 1};
  CHECK(Apply<std::int32_t>(ScalarOp::kShiftLeft, DType::kS32, a, b, DType::kS32) ==
        (std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 0, 0, 0, 18}));
  CHECK(Apply<std::int32_t>(ScalarOp::kShiftRightLogical, DType::kS32, a, b, DType::kS32) ==
        (std::vector<std::int32_t>{0, 0, 0, 0, 4}));
  CHECK(Apply<std::int32_t>(ScalarOp::kShiftRightArithmetic, DType::kS32, a, b, DType::kS32) ==
        (std::vector<std::int32_t>{0, -1, 0, -1, 4}));
}

TEST(IntegerPowersAndBits) {
  const std::vector<std::int32_t> a = {2, -1, 1, 0, -1, 3, 0}, b = {-2, -3, -5, -1, -2, 3, 0};
  CHECK(Apply<std::int32_t>(ScalarOp::kPower, DType::kS32, a, b, DType::kS32) ==
        (std::vector<std::int32_t>{0, -1, 1, 0, 1, 27, 1}));
  CHECK(Apply<std::int8_t>(ScalarOp::kClz, DType::kS8, std::vector<std::int8_t>{0, 1, -1}, DType::kS8) ==
        (std::vector<std::int8_t>{8, 7, 0}));
  CHECK(Apply<std::int8_t>(ScalarOp::kPopcnt, DType::kS4, std::vector<std::int8_t>{-1, 5}, DType::kS4) ==
        (std::vector<std::int8_t>{4, 2}));
  CHECK(Apply<std::int8_t>(ScalarOp::kAbs, DType::kS8, std::vector<std::int8_t>{-128, 5}, DType::kS8) ==
        (std::vector<std::int8_t>{-128, 5}));
}

TEST(SubByteIntegersWrap) {
  CHECK(Apply<std::int8_t>(ScalarOp::kAdd, DType::kS4, std::vector<std::int8_t>{7, -8, 3}, {1, -1, 2},
                           DType::kS4) == (std::vector<std::int8_t>{-8, 7, 5}));
  CHECK(Apply<std::uint8_t>(ScalarOp::kSubtract, DType::kU2, std::vector<std::uint8_t>{0, 3}, {1, 1},
                            DType::kU2) == (std::vector<std::uint8_t>{3, 2}));
  // Only the low bits count; other programs may set the high bits.
  CHECK(Apply<std::int8_t>(ScalarOp::kNegate, DType::kS4, std::vector<std::int8_t>{0x71, 0x0f}, DType::kS4) ==
        (std::vector<std::int8_t>{-1, 1}));
}

TEST(FloatToIntegerSaturates) {
  const std::vector<float> x = {kNan, kInf, -kInf, 3e9f, -3e9f, -1.5f, 300.7f};
  CHECK(Apply<std::int32_t>(ScalarOp::kConvert, DType::kF32, x, DType::kS32) ==
        (std::vector<std::int32_t>{0, 2147483647, std::numeric_limits<std::int32_t>::min(), 2147483647,
                                   std::numeric_limits<std::int32_t>::min(), -1, 300}));
  CHECK(Apply<std::uint32_t>(ScalarOp::kConvert, DType::kF32, x, DType::kU32) ==
        (std::vector<std::uint32_t>{0, 4294967295u, 0, 3000000000u, 0, 0, 300}));
  CHECK(Apply<std::uint8_t>(ScalarOp::kConvert, DType::kF32, x, DType::kU8) ==
        (std::vector<std::uint8_t>{0, 255, 0, 255, 0, 0, 255}));
  CHECK(Apply<std::int8_t>(ScalarOp::kConvert, DType::kF32, x, DType::kS4) ==
        (std::vector<std::int8_t>{0, 7, -8, 7, -8, -1, 7}));
  CHECK(Apply<std::uint8_t>(ScalarOp::kConvert, DType::kF32, x, DType::kPred) ==
        (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1, 1}));
}

// The bit patterns of 1e9, 0, -0, 3.3, -5.7, 500, 0.3 and NaN in each narrow format.
TEST(NarrowFloatsRoundToNearestEven) {
  const std::vector<float> x = {1e9f, 0, -0.0f, 3.3f, -5.7f, 500, 0.3f, kNan};
  struct Case {
    DType type;
    std::vector<std::uint8_t> codes;
  };
  for (const Case& c : {Case{DType::kF8E4M3FN, {127, 0, 128, 69, 203, 127, 42, 127}},
                        Case{DType::kF8E5M2, {124, 0, 128, 67, 198, 96, 53, 126}},
                        Case{DType::kF8E4M3FNUZ, {128, 0, 0, 77, 211, 128, 50, 128}},
                        Case{DType::kF8E5M2FNUZ, {128, 0, 0, 71, 202, 100, 57, 128}},
                        Case{DType::kF8E4M3B11FNUZ, {128, 0, 0, 101, 235, 128, 74, 128}},
                        Case{DType::kF8E3M4, {112, 0, 128, 74, 215, 112, 19, 120}},
                        Case{DType::kF8E4M3, {120, 0, 128, 69, 203, 120, 42, 124}},
                        Case{DType::kF8E8M0FNU, {157, 255, 255, 129, 255, 136, 125, 255}},
                        Case{DType::kF4E2M1FN, {7, 0, 8, 5, 15, 7, 1, 8}}}) {
    CHECK(Apply<std::uint8_t>(ScalarOp::kConvert, DType::kF32, x, c.type) == c.codes);
  }
  // f64 is rounded once, without an intermediate f32.
  CHECK_EQ(Apply<std::uint16_t>(ScalarOp::kConvert, DType::kF64, std::vector<double>{1.00048828125000001},
                                DType::kF16)
                   .front() +
               0,
           0x3c00);
  CHECK_EQ(Apply<std::uint16_t>(ScalarOp::kConvert, DType::kF64, std::vector<double>{1.0004882812500002},
                                DType::kF16)
                   .front() +
               0,
           0x3c01);
}

TEST(EveryNarrowCodeSurvivesARoundTrip) {
  for (int t = static_cast<int>(DType::kF4E2M1FN); t <= static_cast<int>(DType::kF8E8M0FNU); ++t) {
    const auto type = static_cast<DType>(t);
    std::vector<std::uint8_t> codes(type == DType::kF4E2M1FN ? 16 : 256);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
    const auto floats = Apply<float>(ScalarOp::kConvert, type, codes, DType::kF32);
    const auto back = Apply<std::uint8_t>(ScalarOp::kConvert, DType::kF32, floats, type);
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (!std::isnan(floats[i])) CHECK_EQ(static_cast<int>(back[i]), static_cast<int>(codes[i]));
  }
}

TEST(HalfArithmeticRoundsAfterEveryOperation) {
  // 2048 + 1 rounds to 2048 in f16, so adding 1 twice changes nothing.
  Expression e;
  e.inputs = {DType::kF16, DType::kF16};
  e.code = {Op(ScalarOp::kAdd, DType::kF16, DType::kF16, 0, 1),
            Op(ScalarOp::kAdd, DType::kF16, DType::kF16, 2, 1)};
  e.outputs = {3};
  std::vector<std::uint16_t> a = {F32ToF16(2048)}, b = {F32ToF16(1)}, out(1);
  Run(e, {VectorOf(a, DType::kF16), VectorOf(b, DType::kF16)}, {VectorOf(out, DType::kF16)});
  CHECK_EQ(F16ToF32(out[0]), 2048.0f);
}

TEST(TotalOrder) {
  const std::vector<float> ordered = {-kNan, -kInf, -1, -0.0f, 0.0f, 1, kInf, kNan};
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    std::vector<float> x(ordered.size(), ordered[i]);
    const auto less = Apply<std::uint8_t>(ScalarOp::kTotalLt, DType::kF32, x, ordered, DType::kPred);
    for (std::size_t j = 0; j < ordered.size(); ++j) CHECK_EQ(static_cast<int>(less[j]), i < j ? 1 : 0);
  }
}

TEST(NextAfterStepsOneCode) {
  CheckSame(Apply<float>(ScalarOp::kNextAfter, DType::kF32, std::vector<float>{1, 1, 0, 2, kNan},
                         {2, 0, -1, 2, 1}, DType::kF32),
            {FloatOf(0x3f800001u), FloatOf(0x3f7fffffu), FloatOf(0x80000001u), 2, kNan});
  const auto half =
      Apply<std::uint16_t>(ScalarOp::kNextAfter, DType::kF16, std::vector<std::uint16_t>{0x3c00, 0x0000},
                           {0x4000, 0xbc00}, DType::kF16);
  CHECK(half == (std::vector<std::uint16_t>{0x3c01, 0x8001}));
}

TEST(ReducePrecision) {
  const std::vector<float> x = {1.0009765625f, 65519.0f, 65520.0f, 1e-8f, -kInf, kNan, 1.00048828125f};
  CheckSame(Apply<float>(ScalarOp::kReducePrecision, DType::kF32, x, DType::kF32, 5 << 8 | 10),
            {1.0009765625f, 65504.0f, kInf, 0, -kInf, kNan, 1});
  // With the format's own exponent and mantissa widths, f16 keeps every value, including denormals.
  const std::vector<std::uint16_t> codes = {0x0001, 0x8203, 0x3c01, 0x7bff, 0x7c00};
  CHECK(Apply<std::uint16_t>(ScalarOp::kReducePrecision, DType::kF16, codes, DType::kF16, 5 << 8 | 10) ==
        codes);
}

TEST(BitcastsKeepBits) {
  const std::vector<float> x = {1.0f, -0.0f, kInf};
  CHECK(Apply<std::uint32_t>(ScalarOp::kBitcast, DType::kF32, x, DType::kU32) ==
        (std::vector<std::uint32_t>{0x3f800000u, 0x80000000u, 0x7f800000u}));
  CHECK(Apply<std::uint16_t>(ScalarOp::kBitcast, DType::kU16, std::vector<std::uint16_t>{0x3c01},
                             DType::kBF16) == (std::vector<std::uint16_t>{0x3c01}));
  CHECK(Apply<std::uint8_t>(ScalarOp::kBitcast, DType::kF8E5M2, std::vector<std::uint8_t>{0x3c},
                            DType::kU8) == (std::vector<std::uint8_t>{0x3c}));
  // Every bit of a NaN survives the bitcast to an integer and back.
  const std::vector<std::uint16_t> codes = {0x7c01, 0x7e02, 0xfffc, 0x7f81, 0xffff};
  for (const DType narrow : {DType::kF16, DType::kBF16}) {
    CHECK(Apply<std::uint16_t>(ScalarOp::kBitcast, DType::kU16, codes, narrow) == codes);
    CHECK(Apply<std::uint16_t>(ScalarOp::kBitcast, narrow, codes, DType::kU16) == codes);
  }
  CHECK_THROWS(std::invalid_argument,
               ElementwiseKernel(Single(ScalarOp::kBitcast, DType::kF32, DType::kU16, 1)));
}

}  // namespace
}  // namespace ipu_model
