// Block functions on complex numbers that vectorise: arithmetic, magnitude, and the parts of a number.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/vector/rounded_product.h"
#include "kernels/vector/shuffle.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <typename To, typename From>
To Bits(From from) {
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// hypot of C99: no square overflows or underflows, because both parts are first divided by the power of two
// of the larger one; an infinite part gives infinity, whatever the other one is.
template <typename T>
T Magnitude(T re, T im) {
  using U = BitsOf<T>;
  constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  constexpr U kAll = static_cast<U>(-1), kOne = U{1} << kMantissa;
  constexpr U kInfinity = (kAll >> 1) & ~(kOne - 1), kLargest = kInfinity - 2 * kOne,
              kBias = kInfinity - kOne;
  const U a = Bits<U>(re) & (kAll >> 1), b = Bits<U>(im) & (kAll >> 1), larger = a > b ? a : b;
  U exponent = larger & kInfinity;
  exponent = exponent < kOne ? kOne : exponent;
  exponent = exponent > kLargest ? kLargest : exponent;
  const T down = Bits<T>(kBias - exponent), x = re * down, y = im * down;
  const T magnitude = std::sqrt(x * x + y * y) * Bits<T>(exponent);
  const T special = (a == kInfinity) | (b == kInfinity) ? std::numeric_limits<T>::infinity() : re + im;
  return larger >= kInfinity ? special : magnitude;
}

template <typename T>
void Abs(const MicroArguments& m) {
  const T* a = static_cast<const T*>(m.operand[0]);
  T* r = static_cast<T*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = Magnitude(a[2 * i], a[2 * i + 1]);
}

template <typename T, int kPart>
void Part(const MicroArguments& m) {
  const T* a = static_cast<const T*>(m.operand[0]);
  T* r = static_cast<T*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = a[2 * i + kPart];
}

template <typename T>
void MakeComplex(const MicroArguments& m) {
  const T* a = static_cast<const T*>(m.operand[0]);
  const T* b = static_cast<const T*>(m.operand[1]);
  T* r = static_cast<T*>(m.result);
  const std::int64_t a_step = (m.scalar & 1) == 0, b_step = (m.scalar & 2) == 0, n = m.n;
  if (a_step == 1 && b_step == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      r[2 * i] = a[i];
      r[2 * i + 1] = b[i];
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const T real = a[i * a_step], imag = b[i * b_step];
    r[2 * i] = real;
    r[2 * i + 1] = imag;
  }
}

template <typename T>
void Negate(const MicroArguments& m) {
  const T* a = static_cast<const T*>(m.operand[0]);
  T* r = static_cast<T*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = 2 * m.n; i < n; ++i) r[i] = -a[i];
}

// Real and imaginary parts alternate in vectors. F: static V Apply(V, V), on vectors and on one number.
template <typename T>
using Lanes = typename VectorTypes<T>::Register;

// The index of each lane after a change: `odd` for lanes of imaginary parts, relative to the pair.
template <typename T>
[[gnu::always_inline]] inline Lanes<T> Rearranged(Lanes<T> v, int even, int odd) {
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Index Order __attribute__((vector_size(kVectorBytes)));
  Order order{};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) order[i] = static_cast<Index>(i / 2 * 2 + (i % 2 == 0 ? even : odd));
  return Shuffle(v, v, order);
}

// Computed in the type's own precision with rounded products, as in XLA: products of c64 may overflow.
template <typename T>
struct Product {
  static Lanes<T> Apply(Lanes<T> a, Lanes<T> b) {
    const Lanes<T> p = RoundedProduct(Rearranged<T>(a, 0, 0), b),
                   q = RoundedProduct(Rearranged<T>(a, 1, 1), Rearranged<T>(b, 1, 0));
    Lanes<T> sign;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) sign[i] = i % 2 == 0 ? T{-1} : T{1};
    return p + q * sign;
  }
  static void Apply(const T* a, const T* b, T* r) {
    const T x = a[0], y = a[1], u = b[0], v = b[1];
    r[0] = RoundedProduct(x, u) - RoundedProduct(y, v);
    r[1] = RoundedProduct(x, v) + RoundedProduct(y, u);
  }
};
template <typename T>
struct Sum {
  static Lanes<T> Apply(Lanes<T> a, Lanes<T> b) { return a + b; }
  static void Apply(const T* a, const T* b, T* r) {
    const T re = a[0] + b[0], im = a[1] + b[1];
    r[0] = re;
    r[1] = im;
  }
};
template <typename T>
struct Difference {
  static Lanes<T> Apply(Lanes<T> a, Lanes<T> b) { return a - b; }
  static void Apply(const T* a, const T* b, T* r) {
    const T re = a[0] - b[0], im = a[1] - b[1];
    r[0] = re;
    r[1] = im;
  }
};

template <typename T>
[[gnu::always_inline]] inline Lanes<T> Repeated(const T* number) {
  Lanes<T> v{};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) v[i] = number[i % 2];
  return v;
}

template <template <typename> class F, typename T>
void Binary(const MicroArguments& m) {
  using Memory = typename VectorTypes<T>::Memory;
  constexpr std::int64_t kNumbers = kLanes<T> / 2;
  const T* a = static_cast<const T*>(m.operand[0]);
  const T* b = static_cast<const T*>(m.operand[1]);
  T* r = static_cast<T*>(m.result);
  const bool one_a = (m.scalar & 1) != 0, one_b = (m.scalar & 2) != 0;
  const Lanes<T> all_a = Repeated(a), all_b = Repeated(b);
  std::int64_t i = 0;
  for (; i + kNumbers <= m.n; i += kNumbers) {
    const Lanes<T> x = one_a ? all_a : *reinterpret_cast<const Memory*>(a + 2 * i);
    const Lanes<T> y = one_b ? all_b : *reinterpret_cast<const Memory*>(b + 2 * i);
    *reinterpret_cast<Memory*>(r + 2 * i) = F<T>::Apply(x, y);
  }
  const T first_a[2] = {a[0], a[1]}, first_b[2] = {b[0], b[1]};
  for (; i < m.n; ++i) F<T>::Apply(one_a ? first_a : a + 2 * i, one_b ? first_b : b + 2 * i, r + 2 * i);
}

template <typename T>
MicroFunction FindFor(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAbs:
      return Abs<T>;
    case ScalarOp::kReal:
      return Part<T, 0>;
    case ScalarOp::kImag:
      return Part<T, 1>;
    case ScalarOp::kNegate:
      return Negate<T>;
    case ScalarOp::kAdd:
      return Binary<Sum, T>;
    case ScalarOp::kSubtract:
      return Binary<Difference, T>;
    case ScalarOp::kMultiply:
      return Binary<Product, T>;
    default:
      return nullptr;
  }
}

}  // namespace

MicroFunction FindComplexArithmetic(ScalarOp op, RegisterType type) {
  switch (type) {
    case RegisterType::kC64:
      return FindFor<float>(op);
    case RegisterType::kC128:
      return FindFor<double>(op);
    case RegisterType::kF32:
      return op == ScalarOp::kComplex ? MakeComplex<float> : nullptr;
    case RegisterType::kF64:
      return op == ScalarOp::kComplex ? MakeComplex<double> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace ipu_model::ISA_NAMESPACE
