// Tests of elementary functions and of complex numbers: accuracy, and values at the edges.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/elementwise/elementwise.h"
#include "testing/elementwise_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

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
    Run(e, {VectorOf(a, DType::kF32), VectorOf(b, DType::kF32)},
        {VectorOf(to[0], DType::kF32), VectorOf(to[1], DType::kF32), VectorOf(to[2], DType::kF32)});
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
    HostTensor tx = VectorOf(x, DType::kC64), ty = VectorOf(y, DType::kC64), to = VectorOf(out, DType::kC64);
    tx.shape[0] = ty.shape[0] = to.shape[0] = 2;
    Run(Single(op, DType::kC64, DType::kC64, 2), {tx, ty}, {to});
    return out;
  };
  CHECK(apply(ScalarOp::kMultiply) == (std::vector<float>{-2, 1, 14, -2}));
  CHECK(apply(ScalarOp::kDivide) == (std::vector<float>{2, -1, -0.25f, -1.75f}));
  std::vector<float> x = a, out(2);
  HostTensor tx = VectorOf(x, DType::kC64);
  tx.shape[0] = 2;
  Run(Single(ScalarOp::kAbs, DType::kC64, DType::kF32, 1), {tx}, {VectorOf(out, DType::kF32)});
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
  HostTensor in = VectorOf(numbers, complex);
  in.shape[0] = static_cast<std::int64_t>(out.size());
  Run(Single(ScalarOp::kAbs, complex, real, 1), {in}, {VectorOf(out, real)});
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
    HostTensor ta = VectorOf(a, DType::kC64), tb = VectorOf(b, DType::kC64);
    ta.shape[0] = tb.shape[0] = kCount;
    if (one) tb.strides[0] = 0;
    for (const ScalarOp op : {ScalarOp::kMultiply, ScalarOp::kAdd, ScalarOp::kSubtract}) {
      std::vector<float> out(2 * kCount);
      HostTensor to = VectorOf(out, DType::kC64);
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
  HostTensor ta = VectorOf(a, DType::kC64);
  ta.shape[0] = kCount;
  std::vector<float> re(kCount), im(kCount), back(2 * kCount);
  Run(Single(ScalarOp::kReal, DType::kC64, DType::kF32, 1), {ta}, {VectorOf(re, DType::kF32)});
  Run(Single(ScalarOp::kImag, DType::kC64, DType::kF32, 1), {ta}, {VectorOf(im, DType::kF32)});
  HostTensor tb = VectorOf(back, DType::kC64);
  tb.shape[0] = kCount;
  Run(Single(ScalarOp::kComplex, DType::kF32, DType::kC64, 2),
      {VectorOf(re, DType::kF32), VectorOf(im, DType::kF32)}, {tb});
  CHECK(back == a);
}

}  // namespace
}  // namespace ipu_model
