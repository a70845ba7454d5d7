// Elementary functions of f32 without branches, so that loops over them vectorise. The polynomials are
// least-maximum fits made for this file. The stated errors are the largest seen over sampled normal inputs,
// in units of the last place (ulp). Denormal inputs and results are zero, as in all kernels.
#ifndef IPU_MODEL_KERNELS_VECTOR_VECTOR_MATH_H_
#define IPU_MODEL_KERNELS_VECTOR_VECTOR_MATH_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/vector/convert.h"
#include "kernels/vector/float_vector.h"
#include "kernels/vector/sine_cosine_terms.h"

namespace ipu_model::ISA_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

static inline float AbsOf(float x) { return FloatOf(BitsOf(x) & 0x7fffffffu); }
static inline float WithSign(float magnitude, float sign) {
  return FloatOf((BitsOf(magnitude) & 0x7fffffffu) | (BitsOf(sign) & 0x80000000u));
}
static inline double AbsOf(double x) { return DoubleOf(BitsOf(x) & 0x7fffffffffffffffu); }

// x = n * ln 2 + r with |r| <= ln 2 / 2. ln 2 is split in two parts.
static inline FloatVector ReduceExp(FloatVector x, FloatVector* r) {
  const FloatVector n = Nearest(x * 1.44269504f);
  *r = Fma(n, -1.42860677e-6f, Fma(n, -0.693145752f, x));
  return n;
}
// e^r - 1 for |r| <= ln 2 / 2.
static inline FloatVector ExpOfReduced(FloatVector r) {
  FloatVector q = 0.00139506003f;
  q = Fma(q, r, 0.00836895371f);
  q = Fma(q, r, 0.0416662042f);
  q = Fma(q, r, 0.166665183f);
  q = Fma(q, r, 0.50000001f);
  return Fma(r * r, q, r);
}

// Error 1 ulp. NaN passes through every step.
static inline FloatVector Exp(FloatVector x) {
  FloatVector r = 0.0f;
  const FloatVector n = ReduceExp(Smaller(89.0f, Larger(-104.0f, x)), &r);
  return ScaleWide(ExpOfReduced(r) + 1.0f, n);
}

// Error 2 ulp, also near 0.
static inline FloatVector Expm1(FloatVector x) {
  FloatVector r = 0.0f;
  const FloatVector n = ReduceExp(Smaller(88.72284f, Larger(-30.0f, x)), &r);
  FloatVector q = 0.000199179725f;
  q = Fma(q, r, 0.00139461897f);
  q = Fma(q, r, 0.00833326516f);
  q = Fma(q, r, 0.0416662683f);
  q = Fma(q, r, 0.166666669f);
  q = Fma(q, r, 0.5f);
  const FloatVector p = Fma(r * r, q, r);  // e^r - 1
  // Uses half the scale and doubles the result, because 2^128 is not a float.
  const FloatVector half = Scale(0.5f, n);
  FloatVector y = 2.0f * Fma(half, p, half - 0.5f);
  y = Choose(FloatVector(88.72283f) < x, kInfinity, y);
  return Choose(Magnitude(x) < 1e-8f, x, y);  // keeps -0
}

// x = 2^e * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
static inline FloatVector ReduceLog(FloatVector x, FloatVector* f) {
  constexpr std::int32_t kRootOfHalf = 0x3f3504f3;
  const FloatVector bits = AddToBits(x, -kRootOfHalf);
  *f = AddToBits(AndBits(bits, 0x7fffff), kRootOfHalf) - 1.0f;
  return ShiftedBits(bits, 23);
}
static inline FloatVector LogOfNormal(FloatVector x, FloatVector correction) {
  FloatVector f = 0.0f;
  const FloatVector e = ReduceLog(x, &f);
  FloatVector p = 0.0674660131f;
  p = Fma(p, f, -0.116756413f);
  p = Fma(p, f, 0.118881746f);
  p = Fma(p, f, -0.124055914f);
  p = Fma(p, f, 0.142195509f);
  p = Fma(p, f, -0.166679957f);
  p = Fma(p, f, 0.200021187f);
  p = Fma(p, f, -0.250000096f);
  p = Fma(p, f, 0.333333126f);
  const FloatVector square = f * f;
  FloatVector y = Fma(square * f, p, Fma(e, -2.12194440e-4f, correction));
  y = Fma(square, -0.5f, y);
  return Fma(e, 0.693359375f, f + y);
}

// Error 1 ulp.
static inline FloatVector Log(FloatVector x) {
  FloatVector y = LogOfNormal(x, 0.0f);
  y = Choose(x == kInfinity, x, y);
  y = Choose(x < 1.17549435e-38f, -kInfinity, y);  // zero and denormals
  y = Choose(x < 0.0f, kNan, y);
  return Choose(IsNan(x), kNan, y);
}

// Error 2 ulp, also near 0.
static inline FloatVector Log1p(FloatVector x) {
  const FloatVector u = 1.0f + x;
  // The part of 1 + x lost to rounding. The larger term comes first, so that the difference is exact.
  const FloatVector lost = Choose(Magnitude(x) < 1.0f, x - (u - 1.0f), 1.0f - (u - x));
  FloatVector y = LogOfNormal(u, lost / u);
  y = Choose(x == kInfinity, x, y);
  y = Choose(Magnitude(x) < 1e-8f, x, y);
  y = Choose(x == -1.0f, -kInfinity, y);
  y = Choose(x < -1.0f, kNan, y);
  return Choose(IsNan(x), kNan, y);
}

// Error 2 ulp, also near 0. With e = e^(-2 |x|), tanh |x| = ((1 - e) / 2) / ((1 + e) / 2), where each factor
// is rounded once; -|x| = r + n ln 2 / 2. NaN passes through every step.
static inline FloatVector Tanh(FloatVector x) {
  const FloatVector limited = Larger(-9.1f, NegativeMagnitude(x)), n = Nearest(limited * 2.88539008f);
  const FloatVector r = Fma(n, -0.34657359f, limited);
  FloatVector q = 0.0444240309f;
  q = Fma(q, r, 0.133865282f);
  q = Fma(q, r, 0.333337605f);
  q = Fma(q, r, 0.666661739f);
  q = Fma(q, r, 1.0f);
  q = Fma(r * r, q, r);  // (e^(2 r) - 1) / 2
  const FloatVector scale = Scale(1.0f, n);
  return WithSign(Fma(scale, q, Fma(scale, 0.5f, -0.5f)) / Fma(scale, q, Fma(scale, 0.5f, 0.5f)), x);
}

// 1 / (1 + e^-x).
static inline FloatVector Logistic(FloatVector x) { return 1.0f / (1.0f + Exp(0.0f - x)); }

// Error 1 ulp.
static inline float Cbrt(float x) {
  const float a = AbsOf(x);
  // In f64, where the cube of a small root is not a denormal.
  const double target = static_cast<double>(a);
  double y = static_cast<double>(FloatOf(BitsOf(a) / 3 + 0x2a51067fu));
  for (int i = 0; i < 2; ++i) {  // Halley's iteration, cubic: 5 -> 15 -> 45 bits
    const double cube = y * y * y;
    y -= y * (cube - target) / (2 * cube + target);
  }
  const float signed_root = WithSign(static_cast<float>(y), x);
  return a < 1.17549435e-38f || !(a < kInfinity) ? x : signed_root;
}

// Error 2 ulp.
static inline FloatVector Erf(FloatVector x) {
  const FloatVector a = Magnitude(x), limited = Smaller(4.0f, a), u = x * x;
  FloatVector p = 7.85385764e-05f;
  p = Fma(p, u, -0.00080101925f);
  p = Fma(p, u, 0.00518832756f);
  p = Fma(p, u, -0.0268538119f);
  p = Fma(p, u, 0.112835851f);
  p = Fma(p, u, -0.376126258f);
  p = Fma(p, u, 1.12837917f);
  FloatVector q = -3.12875127e-05f;  // log2(1 - erf a)
  q = Fma(q, limited, 0.000636713812f);
  q = Fma(q, limited, -0.00606590044f);
  q = Fma(q, limited, 0.0363678262f);
  q = Fma(q, limited, -0.156414941f);
  q = Fma(q, limited, -0.913543224f);
  q = Fma(q, limited, -1.62963724f);
  q = Fma(q, limited, 0.00027128472f);
  const FloatVector n = Nearest(q), r = q - n;
  FloatVector e = 0.00133908633f;  // 2^r
  e = Fma(e, r, 0.00967603177f);
  e = Fma(e, r, 0.0555035695f);
  e = Fma(e, r, 0.240221068f);
  e = Fma(e, r, 0.693147182f);
  e = Fma(e, r, 1.00000012f);
  return Choose(a < 1.0f, x * p, WithSign(1.0f - Scale(e, n), x));  // NaN passes through both
}

// Sine, cosine and tangent reduce and evaluate in f64; kernels/elementwise/vector_code/trigonometric_code.cc
// does the same.
struct SineCosine {
  double sine, cosine;
  std::uint64_t quarter;  // the low two bits
};
static inline SineCosine ReducedSineCosine(float x) {
  const double shifted = std::fma(static_cast<double>(x), kTwoOverPi, kShift), n = shifted - kShift;
  const double r = std::fma(n, kMinusHalfPi[1], std::fma(n, kMinusHalfPi[0], static_cast<double>(x)));
  const double u = r * r, u2 = u * u;
  const auto polynomial = [u, u2](const double* terms) {
    return std::fma(std::fma(terms[3], u, terms[2]), u2, std::fma(terms[1], u, terms[0]));
  };
  return {std::fma(polynomial(kSineTerms), r * u, r), std::fma(polynomial(kCosineTerms), u, 1.0),
          BitsOf(shifted)};
}
// The sine of the angle that is `quarters` quarter turns ahead.
static inline float SineAhead(const SineCosine& v, std::uint64_t quarters) {
  const std::uint64_t quarter = v.quarter + quarters;
  const double y = (quarter & 1) != 0 ? v.cosine : v.sine;
  return static_cast<float>((quarter & 2) != 0 ? -y : y);
}
static inline float Sin(float x) {
  const float result = SineAhead(ReducedSineCosine(x), 0);
  return x == 0.0f ? x : result;
}
static inline float Cos(float x) { return SineAhead(ReducedSineCosine(x), 1); }
static inline float Tan(float x) {
  const SineCosine v = ReducedSineCosine(x);
  const bool odd = (v.quarter & 1) != 0;
  const float result = static_cast<float>((odd ? -v.cosine : v.sine) / (odd ? v.sine : v.cosine));
  return x == 0.0f ? x : result;
}

// For finite arguments that are not both zero; evaluated in f64.
static inline float Atan2OfFinite(float y, float x) {
  const double a = static_cast<double>(AbsOf(y)), b = static_cast<double>(AbsOf(x));
  const double t = (a < b ? a : b) / (a < b ? b : a), u = t * t;
  double p = 0.00044138566678772061;
  p = std::fma(p, u, -0.0033288135479115073);
  p = std::fma(p, u, 0.011779064651501215);
  p = std::fma(p, u, -0.026538100510419542);
  p = std::fma(p, u, 0.044157746360235041);
  p = std::fma(p, u, -0.060546468723342031);
  p = std::fma(p, u, 0.075090140020640406);
  p = std::fma(p, u, -0.090530182884488483);
  p = std::fma(p, u, 0.11105986869205642);
  p = std::fma(p, u, -0.14285296788690655);
  p = std::fma(p, u, 0.19999982191209537);
  p = std::fma(p, u, -0.33333333033606188);
  p = std::fma(p, u, 0.99999999999163025);
  double angle = p * t;
  angle = a > b ? 1.5707963267948966 - angle : angle;
  angle = BitsOf(x) >> 31 != 0 ? 3.1415926535897931 - angle : angle;
  return WithSign(static_cast<float>(angle), y);
}

// For a normal positive finite base and a finite exponent; evaluated in f64.
static inline float PowerOfPositive(float base, float exponent) {
  const double x = static_cast<double>(base);
  const std::uint64_t bits = BitsOf(x) - 0x3fe6a09e667f3bcdu;
  const double m = DoubleOf((bits & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
  const double e = static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(bits) >> 52));
  const double s = (m - 1.0) / (m + 1.0), u = s * s;
  // Polynomials in pairs of terms: processors overlap them. atanh(s) / s to 3e-14, and exp(r) to 6e-11.
  const double p01 = std::fma(0.33333333339821447, u, 0.9999999999999732),
               p23 = std::fma(0.14286083911798347, u, 0.19999997437191958),
               p45 = std::fma(0.09804500654815723, u, 0.11087092012680627), u2 = u * u;
  const double p = std::fma(std::fma(p45, u2, p23), u2, p01);
  const double log2_base = std::fma(2.8853900817779268 * s, p, e);
  double t = log2_base * static_cast<double>(exponent);
  t = t > 200.0 ? 200.0 : t < -200.0 ? -200.0 : t;
  const double n = std::rint(t), r = (t - n) * 0.69314718055994531;
  const double q01 = std::fma(0.9999999999797652, r, 0.9999999999595154),
               q23 = std::fma(0.1666666689120815, r, 0.5000000107814069),
               q45 = std::fma(0.008333266066443473, r, 0.0416662180949276),
               q67 = std::fma(0.00019915884057136697, r, 0.0013948592770783449), r2 = r * r, r4 = r2 * r2;
  const double q = std::fma(std::fma(q67, r2, q45), r4, std::fma(q23, r2, q01));
  const auto scale = static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(n)))
                     << 52;
  return static_cast<float>(DoubleOf(BitsOf(q) + scale));
}

// The exact remainder, with the sign of the dividend, for quotients below 2^28.
constexpr double kLargestQuotient = 268435456.0;
static inline float RemainderOfNear(float a, float b) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  return WithSign(static_cast<float>(std::fma(-std::trunc(x / y), y, x)), a);
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_VECTOR_VECTOR_MATH_H_
