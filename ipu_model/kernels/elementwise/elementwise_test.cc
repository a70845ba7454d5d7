// Tests of the elementwise kernel: values and edge cases of every class of operation and type, views,
// aliasing and threads.
#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/elementwise/micro_op.h"
#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"
#include "testing/bound_kernel_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
ScalarConstant Constant(DType type, T value) {
  ScalarConstant c;
  c.type = type;
  std::memcpy(c.bytes, &value, sizeof(value));
  return c;
}
// An expression of one operation on `operands` inputs of one type.
Expression Single(ScalarOp op, DType type, DType result, int operands, std::uint32_t immediate = 0) {
  Expression e;
  e.inputs.assign(static_cast<std::size_t>(operands), type);
  e.code = {Op(op, type, result, 0, 1, 2, immediate)};
  for (int k = operands; k < 3; ++k) e.code[0].operand[k] = 0;
  e.outputs = {static_cast<std::uint16_t>(operands)};
  return e;
}

template <typename T>
HostTensor Vector(std::vector<T>& values, DType type) {
  HostTensor t;
  t.data = values.data();
  t.type = type;
  t.rank = 1;
  t.shape[0] = static_cast<std::int64_t>(values.size());
  t.strides[0] = 1;
  return t;
}
void Run(const Expression& e, const std::vector<HostTensor>& in, const std::vector<HostTensor>& out) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  const FlushDenormals flush;
  const ElementwiseKernel kernel(e);
  CheckBound(
      in, out, [&] { kernel.Run(context, in, out); },
      [&](const auto& bound_in, const auto& bound_out) {
        return kernel.Bind(bound_in.data(), bound_out.data());
      });
}
template <typename R, typename T>
std::vector<R> Apply(ScalarOp op, DType type, std::vector<T> a, DType result, std::uint32_t immediate = 0) {
  std::vector<R> out(a.size());
  Run(Single(op, type, result, 1, immediate), {Vector(a, type)}, {Vector(out, result)});
  return out;
}
template <typename R, typename T>
std::vector<R> Apply(ScalarOp op, DType type, std::vector<T> a, std::vector<T> b, DType result) {
  std::vector<R> out(a.size());
  Run(Single(op, type, result, 2), {Vector(a, type), Vector(b, type)}, {Vector(out, result)});
  return out;
}
bool SameBits(float a, float b) { return (std::isnan(a) && std::isnan(b)) || BitsOf(a) == BitsOf(b); }
void CheckSame(const std::vector<float>& got, const std::vector<float>& expected) {
  CHECK_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!SameBits(got[i], expected[i])) CHECK_EQ(got[i], expected[i]);
  }
}

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
    HostTensor repeated = Vector(all, DType::kS32);
    repeated.data = one.data();
    repeated.strides[0] = 0;
    for (const ScalarOp op : {ScalarOp::kDivide, ScalarOp::kRemainder}) {
      Run(Single(op, DType::kS32, DType::kS32, 2), {Vector(a, DType::kS32), repeated},
          {Vector(got, DType::kS32)});
      Run(Single(op, DType::kS32, DType::kS32, 2), {Vector(a, DType::kS32), Vector(all, DType::kS32)},
          {Vector(expected, DType::kS32)});
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
      Run(e, {Vector(x, DType::kS32)}, {Vector(got, DType::kS32)});
      for (std::size_t i = 0; i < x.size(); ++i) CHECK_EQ(got[i], quotient ? x[i] / divisor : x[i] % divisor);
      e.inputs = {DType::kU32};
      e.constants[0].type = e.code[0].operand_type = e.code[0].result_type = DType::kU32;
      std::vector<std::uint32_t> unsigned_got(x.size());
      Run(e, {Vector(u, DType::kU32)}, {Vector(unsigned_got, DType::kU32)});
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
  Run(e, {Vector(a, DType::kF16), Vector(b, DType::kF16)}, {Vector(out, DType::kF16)});
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

struct Reference {
  ScalarOp op;
  double (*exact)(double);
  float low, high;
  double ulp;
};
TEST(ElementaryFunctionsAreAccurate) {
  const Reference references[] = {
      {ScalarOp::kExp, std::exp, -87, 88, 2},           {ScalarOp::kExpm1, std::expm1, -20, 80, 3},
      {ScalarOp::kExpm1, std::expm1, -1e-3f, 1e-3f, 3}, {ScalarOp::kLog, std::log, 1e-30f, 1e30f, 2},
      {ScalarOp::kLog, std::log, 0.5f, 2, 2},           {ScalarOp::kLog1p, std::log1p, -0.99f, 100, 3},
      {ScalarOp::kLog1p, std::log1p, -1e-3f, 1e-3f, 3}, {ScalarOp::kTanh, std::tanh, -10, 10, 2},
      {ScalarOp::kTanh, std::tanh, -1, 1, 2},           {ScalarOp::kTanh, std::tanh, 0.6f, 0.8f, 2},
      {ScalarOp::kCbrt, std::cbrt, -1e30f, 1e30f, 1.5}, {ScalarOp::kErf, std::erf, -5, 5, 3},
      {ScalarOp::kSin, std::sin, -100, 100, 0.51},      {ScalarOp::kCos, std::cos, -1e5f, 1e5f, 0.51},
      {ScalarOp::kSin, std::sin, -1e6f, 1e6f, 0.51},    {ScalarOp::kTan, std::tan, -1e5f, 1e5f, 1.5}};
  std::mt19937 random(3);
  for (const Reference& reference : references) {
    std::uniform_real_distribution<float> uniform(reference.low, reference.high);
    std::vector<float> x(20000);
    for (float& v : x) v = uniform(random);
    // Half of the values spread over magnitudes, where the range allows it.
    for (std::size_t i = 0; i < x.size(); i += 2) {
      const float scaled = x[i] * std::exp2(-static_cast<float>(random() % 20));
      if (scaled >= reference.low) x[i] = scaled;
    }
    const auto got = Apply<float>(reference.op, DType::kF32, x, DType::kF32);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = reference.exact(static_cast<double>(x[i]));
      const auto nearest = static_cast<float>(exact);
      if (std::abs(nearest) < 1.2e-38f) continue;
      const double unit = static_cast<double>(std::nextafter(std::abs(nearest), kInf) - std::abs(nearest));
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - exact) / unit);
    }
    if (worst > reference.ulp)
      CHECK_EQ(std::to_string(static_cast<int>(reference.op)) + " off by " + std::to_string(worst), "");
  }
}

struct WideReference {
  ScalarOp op;
  long double (*exact)(long double);
  double low, high, ulp;
};
TEST(ElementaryFunctionsOfDoublesAreAccurate) {
  const auto logistic = [](long double x) { return 1 / (1 + std::exp(-x)); };
  const WideReference references[] = {
      {ScalarOp::kExp, std::exp, -700, 700, 1},        {ScalarOp::kExpm1, std::expm1, -40, 700, 1},
      {ScalarOp::kLog, std::log, 1e-300, 1e300, 1},    {ScalarOp::kLog, std::log, 0.5, 2, 1},
      {ScalarOp::kLog1p, std::log1p, -0.999, 1e6, 1},  {ScalarOp::kLog1p, std::log1p, -0.5, 0.5, 1},
      {ScalarOp::kTanh, std::tanh, -20, 20, 2.5},      {ScalarOp::kErf, std::erf, -6, 6, 1},
      {ScalarOp::kLogistic, logistic, -700, 700, 2.5}, {ScalarOp::kCbrt, std::cbrt, -1e30, 1e30, 3},
      {ScalarOp::kSin, std::sin, -1e4, 1e4, 1},        {ScalarOp::kCos, std::cos, -1e4, 1e4, 1},
      {ScalarOp::kTan, std::tan, -1e4, 1e4, 1}};
  std::mt19937_64 random(4);
  for (const WideReference& reference : references) {
    std::uniform_real_distribution<double> uniform(reference.low, reference.high);
    std::vector<double> x(20000);
    for (double& v : x) v = uniform(random);
    for (std::size_t i = 0; i < x.size(); i += 2) {
      const double scaled = std::ldexp(x[i], -static_cast<int>(random() % 40));
      if (scaled >= reference.low) x[i] = scaled;
    }
    const auto got = Apply<double>(reference.op, DType::kF64, x, DType::kF64);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double exact = reference.exact(static_cast<long double>(x[i]));
      const double nearest = std::abs(static_cast<double>(exact));
      if (nearest < 1e-300) continue;
      const long double error = std::abs(static_cast<long double>(got[i]) - exact);
      const double unit = std::nextafter(nearest, static_cast<double>(kInf)) - nearest;
      worst = std::max(worst, static_cast<double>(error) / unit);
    }
    if (worst > reference.ulp)
      CHECK_EQ(std::to_string(static_cast<int>(reference.op)) + " off by " + std::to_string(worst), "");
  }
}

// Sine and cosine of single elements have code of their own; other values are in registers around it.
TEST(SineAndCosineOfOneElementEqualThoseOfMany) {
  Expression e;
  e.inputs = {DType::kF32, DType::kF32};
  e.code = {Op(ScalarOp::kSquare, DType::kF32, DType::kF32, 1),
            Op(ScalarOp::kSin, DType::kF32, DType::kF32, 0), Op(ScalarOp::kCos, DType::kF32, DType::kF32, 0),
            Op(ScalarOp::kFma, DType::kF32, DType::kF32, 2, 3, 4)};
  e.outputs = {3, 4, 5};
  std::vector<float> x = {0.0f,   -0.0f,   1e-40f,     -1e-40f,    2e-38f,      0.7849999f,
                          0.785f, -0.785f, 0.7853982f, 1.5707964f, -3.1415927f, 999999.9f,
                          1e6f,   -3e7f,   1e30f,      kInf,       kNan};
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i)
    x.push_back(std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), i % 21));
  std::vector<float> y(x.size(), 3), out[3], one(1), one_y(1), one_out[3];
  for (int k = 0; k < 3; ++k) {
    out[k].resize(x.size());
    one_out[k].resize(1);
  }
  const auto run = [&](std::vector<float>& a, std::vector<float>& b, std::vector<float>(&to)[3]) {
    Run(e, {Vector(a, DType::kF32), Vector(b, DType::kF32)},
        {Vector(to[0], DType::kF32), Vector(to[1], DType::kF32), Vector(to[2], DType::kF32)});
  };
  run(x, y, out);
  for (std::size_t i = 0; i < x.size(); ++i) {
    one[0] = x[i];
    one_y[0] = y[i];
    run(one, one_y, one_out);
    for (int k = 0; k < 3; ++k) CheckSame(one_out[k], {out[k][i]});
  }
}

TEST(ElementaryFunctionsAtTheEdges) {
  const std::vector<float> x = {-0.0f, kInf, -kInf, kNan, 89, -104, -1};
  CheckSame(Apply<float>(ScalarOp::kExp, DType::kF32, x, DType::kF32),
            {1, kInf, 0, kNan, kInf, 0, std::exp(-1.0f)});
  CheckSame(Apply<float>(ScalarOp::kTanh, DType::kF32, std::vector<float>{-0.0f, kInf, -kInf, kNan, 89},
                         DType::kF32),
            {-0.0f, 1, -1, kNan, 1});
  CheckSame(Apply<float>(ScalarOp::kLog, DType::kF32, std::vector<float>{-0.0f, kInf, -kInf, kNan, 1, -1},
                         DType::kF32),
            {-kInf, kInf, kNan, kNan, 0, kNan});
  CheckSame(
      Apply<float>(ScalarOp::kLog1p, DType::kF32, std::vector<float>{-0.0f, kInf, -1, -2, 0}, DType::kF32),
      {-0.0f, kInf, -kInf, kNan, 0});
  CheckSame(
      Apply<float>(ScalarOp::kExpm1, DType::kF32, std::vector<float>{-0.0f, kInf, -kInf, kNan}, DType::kF32),
      {-0.0f, kInf, -1, kNan});
  CheckSame(Apply<float>(ScalarOp::kSqrt, DType::kF32, std::vector<float>{-0.0f, kInf, -1, 4}, DType::kF32),
            {-0.0f, kInf, kNan, 2});
  CheckSame(
      Apply<float>(ScalarOp::kSin, DType::kF32, std::vector<float>{-0.0f, kInf, kNan, 3e7f}, DType::kF32),
      {-0.0f, kNan, kNan, std::sin(3e7f)});
  CheckSame(Apply<float>(ScalarOp::kPower, DType::kF32, std::vector<float>{0, -2, -2, 1, 4, kInf},
                         {0, 3, 0.5f, kNan, 0.5f, -1}, DType::kF32),
            {1, -8, kNan, 1, 2, 0});
  const float pi = static_cast<float>(M_PI);
  CheckSame(Apply<float>(ScalarOp::kAtan2, DType::kF32, std::vector<float>{0, -0.0f, 1, kInf, 0},
                         {-1, -1, 0, kInf, 0}, DType::kF32),
            {pi, -pi, pi / 2, pi / 4, 0});
  CheckSame(
      Apply<float>(ScalarOp::kRemainder, DType::kF32, std::vector<float>{5.5f, -5.5f, 1e30f, 1, kInf, -4},
                   {2, 2, 3, 0, 1, 2}, DType::kF32),
      {1.5f, -1.5f, std::fmod(1e30f, 3.0f), kNan, kNan, -0.0f});
}

TEST(ComplexArithmetic) {
  const std::vector<float> a = {1, 2, 3, -4}, b = {0, 1, 2, 2};  // 1+2i, 3-4i; i, 2+2i
  const auto apply = [&](ScalarOp op) {
    std::vector<float> x = a, y = b, out(4);
    HostTensor tx = Vector(x, DType::kC64), ty = Vector(y, DType::kC64), to = Vector(out, DType::kC64);
    tx.shape[0] = ty.shape[0] = to.shape[0] = 2;
    Run(Single(op, DType::kC64, DType::kC64, 2), {tx, ty}, {to});
    return out;
  };
  CHECK(apply(ScalarOp::kMultiply) == (std::vector<float>{-2, 1, 14, -2}));
  CHECK(apply(ScalarOp::kDivide) == (std::vector<float>{2, -1, -0.25f, -1.75f}));
  std::vector<float> x = a, out(2);
  HostTensor tx = Vector(x, DType::kC64);
  tx.shape[0] = 2;
  Run(Single(ScalarOp::kAbs, DType::kC64, DType::kF32, 1), {tx}, {Vector(out, DType::kF32)});
  CHECK_NEAR(static_cast<double>(out[0]), std::sqrt(5.0), 1e-6);
  CHECK_EQ(out[1], 5.0f);
}

// As hypot of C99, of numbers of any size, on whole vectors and what is left of them.
template <typename T>
void CheckMagnitudes(DType complex, DType real) {
  constexpr T kMax = std::numeric_limits<T>::max(), kTiny = std::numeric_limits<T>::min();
  constexpr T kInfinite = std::numeric_limits<T>::infinity(), kNot = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> numbers = {3,         -4,   0,         0,          -0.0f, 1,        kMax,  1,
                            kMax,      kMax, kTiny,     2 * kTiny,  0,     kTiny,    -kMax, kMax / 2,
                            kInfinite, kNot, kNot,      -kInfinite, kNot,  1,        1,     kNot,
                            kNot,      kNot, kInfinite, -kInfinite, 0,     kInfinite};
  std::mt19937 random(5);
  while (numbers.size() < 2 * 77) {
    const int exponent = static_cast<int>(random() % 200) - 100;
    numbers.push_back(std::ldexp(static_cast<T>(random() % 1000) - 500, exponent));
    numbers.push_back(
        std::ldexp(static_cast<T>(random() % 1000) - 500, exponent + static_cast<int>(random() % 9) - 4));
  }
  std::vector<T> out(numbers.size() / 2);
  HostTensor in = Vector(numbers, complex);
  in.shape[0] = static_cast<std::int64_t>(out.size());
  Run(Single(ScalarOp::kAbs, complex, real, 1), {in}, {Vector(out, real)});
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto expected = static_cast<T>(
        std::hypot(static_cast<long double>(numbers[2 * i]), static_cast<long double>(numbers[2 * i + 1])));
    if (std::isfinite(expected)) {
      CHECK(std::abs(out[i] - expected) <= 2 * std::numeric_limits<T>::epsilon() * expected);
    } else {
      CHECK(std::isnan(expected) ? std::isnan(out[i]) : out[i] == expected);
    }
  }
}
TEST(ComplexMagnitude) {
  CheckMagnitudes<float>(DType::kC64, DType::kF32);
  CheckMagnitudes<double>(DType::kC128, DType::kF64);
}

// A product with one number for all, sums, negation and parts, on vectors and what is left of them.
TEST(ComplexVectors) {
  constexpr std::size_t kCount = 39;
  std::vector<float> a(2 * kCount), b(2 * kCount);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i) - 30;
    b[i] = 7 - static_cast<float>(i % 11);
  }
  for (const bool one : {false, true}) {
    HostTensor ta = Vector(a, DType::kC64), tb = Vector(b, DType::kC64);
    ta.shape[0] = tb.shape[0] = kCount;
    if (one) tb.strides[0] = 0;
    for (const ScalarOp op : {ScalarOp::kMultiply, ScalarOp::kAdd, ScalarOp::kSubtract}) {
      std::vector<float> out(2 * kCount);
      HostTensor to = Vector(out, DType::kC64);
      to.shape[0] = kCount;
      Run(Single(op, DType::kC64, DType::kC64, 2), {ta, tb}, {to});
      for (std::size_t i = 0; i < kCount; ++i) {
        const std::size_t j = one ? 0 : i;
        const std::complex<float> x(a[2 * i], a[2 * i + 1]), y(b[2 * j], b[2 * j + 1]);
        const std::complex<float> expected = op == ScalarOp::kMultiply ? x * y
                                             : op == ScalarOp::kAdd    ? x + y
                                                                       : x - y;
        CHECK_EQ(out[2 * i], expected.real());
        CHECK_EQ(out[2 * i + 1], expected.imag());
      }
    }
  }
  HostTensor ta = Vector(a, DType::kC64);
  ta.shape[0] = kCount;
  std::vector<float> re(kCount), im(kCount), back(2 * kCount);
  Run(Single(ScalarOp::kReal, DType::kC64, DType::kF32, 1), {ta}, {Vector(re, DType::kF32)});
  Run(Single(ScalarOp::kImag, DType::kC64, DType::kF32, 1), {ta}, {Vector(im, DType::kF32)});
  HostTensor tb = Vector(back, DType::kC64);
  tb.shape[0] = kCount;
  Run(Single(ScalarOp::kComplex, DType::kF32, DType::kC64, 2),
      {Vector(re, DType::kF32), Vector(im, DType::kF32)}, {tb});
  CHECK(back == a);
}

// What is read from a file may name any type: a block function would reach beyond its registers.
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
  Run(e, {Vector(a, DType::kF32), Vector(b, DType::kF32), Vector(c, DType::kF32)},
      {Vector(out, DType::kF32)});
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
  Run(e, {Vector(a, f), Vector(b, f), Vector(c, f)},
      {Vector(out[0], f), Vector(out[1], f), Vector(out[2], f), Vector(out[3], f)});
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
  Run(e, {Vector(a, f), Vector(b, f), Vector(c, f), Vector(d, f)},
      {Vector(x, f), Vector(y, f), Vector(z, f)});
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
  Run(e, {Vector(a, u), Vector(b, u)}, {Vector(x, u), Vector(y, u)});
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
          in.push_back(Vector(values[k], DType::kF32));
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
        Run(e, in, {Vector(got, DType::kF32)});
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
      HostTensor in = Vector(got, DType::kF32);
      in.data = values.data() + stride - 1;
      in.strides[0] = stride;
      Run(Single(ScalarOp::kNegate, DType::kF32, DType::kF32, 1), {in}, {Vector(got, DType::kF32)});
      CHECK(got == expected);
    }
  }
}

TEST(OutputsMaySwapInputs) {
  Expression e;
  e.inputs = {DType::kF32, DType::kF32};
  e.outputs = {1, 0};
  std::vector<float> a(5000, 1), b(5000, 2);
  const HostTensor ta = Vector(a, DType::kF32), tb = Vector(b, DType::kF32);
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
  Run(e, {Vector(a, DType::kF32)}, {Vector(x, DType::kF32), Vector(y, DType::kF32)});
  CHECK(x == std::vector<float>(3000, 4) && y == std::vector<float>(3000, 2));
  Run(e, {Vector(none, DType::kF32)}, {Vector(none, DType::kF32), Vector(none, DType::kF32)});
}

TEST(RunningAgainAllocatesNothing) {
  const ElementwiseKernel kernel(Single(ScalarOp::kExp, DType::kF32, DType::kF32, 1));
  std::vector<float> a(100000, 1), out(100000);
  const HostTensor in = Vector(a, DType::kF32), to = Vector(out, DType::kF32);
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

int main() { return jax_ipu::testing::RunTests(); }
